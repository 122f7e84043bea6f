//! What the documents tell people to type, and which files they name.

use std::fs;
use std::path::{Path, PathBuf};

/// The documents, but for the changelog, which speaks of what was: each with its text.
pub fn all() -> Vec<(PathBuf, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["", "docs", "docs/tasks", "scenarios", "bindings/c", "bindings/python", "crates/lab/bpf"];
    let files = folders.map(|folder| fs::read_dir(top.join(folder)).unwrap());
    let files = files.into_iter().flatten().map(|item| item.unwrap().path());
    let documents =
        files.filter(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("CHANGELOG.md"));
    documents.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Commands of `longhaul` in blocks of code, as a shell would split them.
pub fn commands() -> Vec<Vec<String>> {
    let lines = all().into_iter().flat_map(|(_, text)| lines_of_blocks(&text));
    lines.filter_map(|line| command(&line)).filter(|words| words.len() > 1).collect()
}

/// Commands of `longhaul` inside sentences: mostly a part of one.
pub fn mentioned_commands() -> Vec<Vec<String>> {
    let code = all().into_iter().flat_map(|(_, text)| code_in_sentences(&text));
    let ours = code.filter(|code| code.starts_with("longhaul "));
    // What follows is the shell's.
    let own = |words: Vec<String>| {
        words.into_iter().take_while(|word| !word.starts_with(['>', '|', '&'])).collect()
    };
    ours.filter_map(|code| shlex::split(&code).map(own)).filter(|words: &Vec<_>| words.len() > 1).collect()
}

/// Each line of a block of code and each piece of code in a sentence, without prompt and remark, split as a shell does.
pub fn code() -> Vec<Vec<String>> {
    let code =
        all().into_iter().flat_map(|(_, text)| [lines_of_blocks(&text), code_in_sentences(&text)].concat());
    let bare =
        code.map(|line| line.trim_start_matches("$ ").split(" #").next().unwrap_or_default().to_owned());
    bare.filter_map(|line| shlex::split(&line)).collect()
}

fn lines_of_blocks(text: &str) -> Vec<String> {
    text.split("\n```").skip(1).step_by(2).flat_map(str::lines).map(String::from).collect()
}

/// What stands between two backquotes outside of blocks.
fn code_in_sentences(text: &str) -> Vec<String> {
    let sentences = text.split("\n```").step_by(2);
    sentences
        .flat_map(|text| text.split('`').skip(1).step_by(2))
        .map(|code| code.replace('\n', " "))
        .collect()
}

/// The words of a line that is a command: behind a prompt, settings of the environment or a folder. A remark follows
/// after two spaces.
fn command(line: &str) -> Option<Vec<String>> {
    let (before, rest) = line.split_at(line.find("longhaul ")?);
    let is_command =
        before.is_empty() || before.ends_with(['$', '/']) || before.ends_with("$ ") || before.ends_with("… ");
    let line = rest.split("  ").next()?;
    if is_command { shlex::split(line) } else { None }
}
