//! What the documents tell people to type.

use std::fs;
use std::path::Path;

/// Commands of `longhaul` in the code blocks of the README and the documents, as a shell would split them.
pub fn commands() -> Vec<Vec<String>> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(top.join("docs")).unwrap().map(|item| item.unwrap().path());
    let documents =
        docs.chain([top.join("README.md")]).filter(|path| path.extension().is_some_and(|e| e == "md"));
    documents.flat_map(|path| commands_in(&fs::read_to_string(path).unwrap())).collect()
}

fn commands_in(text: &str) -> Vec<Vec<String>> {
    // Every other piece is a block of code.
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.flat_map(str::lines).filter_map(command).collect()
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
