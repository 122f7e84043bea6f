//! The house: who depends on whom, and what the documents say of it.

use longhaul_evidence::all;
use longhaul_testing::documents;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Which crates of the workspace each may use; the arrows of ARCHITECTURE.md, turned round.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/proto", &[]),
    ("crates/sim", &["longhaul-proto"]),
    ("crates/lab", &["longhaul-net", "longhaul-proto", "longhaul-sim"]),
    ("crates/net", &["longhaul-proto"]),
    ("crates/stripe", &["longhaul-net", "longhaul-proto"]),
    ("crates/longhaul", &["longhaul-net", "longhaul-proto", "longhaul-stripe"]),
    ("crates/cli", &["longhaul", "longhaul-proto"]),
    (
        "crates/evidence",
        &["longhaul-cli", "longhaul-lab", "longhaul-proto", "longhaul-sim", "longhaul-stripe"],
    ),
    ("crates/store", &["longhaul", "longhaul-cli"]),
    ("crates/testing", &["longhaul-lab"]),
    ("bindings/c", &["longhaul-stripe"]),
    ("bindings/python", &["longhaul", "longhaul-stripe"]),
    ("fuzz", &["longhaul", "longhaul-cli", "longhaul-net", "longhaul-proto", "longhaul-sim"]),
];

/// Longer files are taken apart. Comments and empty lines do not count.
const LINES_MAX: usize = 500;

/// What does not fit is a detail: it belongs to the comment of a module.
const ARCHITECTURE_LINES_MAX: usize = 300;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a dependency is a crate of this workspace.
fn is_ours(name: &str) -> bool {
    name == "longhaul" || name.starts_with("longhaul-")
}

#[test]
fn crates_use_only_what_their_arrows_allow() {
    let members: toml::Table = read("Cargo.toml").parse().unwrap();
    let members = members["workspace"]["members"].as_array().unwrap().iter().map(|m| m.as_str().unwrap());
    let known: BTreeSet<&str> = ARROWS.iter().map(|(folder, _)| *folder).collect();
    assert_eq!(members.collect::<BTreeSet<_>>(), known);
    for (folder, allowed) in ARROWS {
        let manifest: toml::Table = read(format!("{folder}/Cargo.toml")).parse().unwrap();
        let used = manifest["dependencies"].as_table().unwrap().keys();
        let ours: BTreeSet<&str> = used.filter(|name| is_ours(name)).map(String::as_str).collect();
        assert_eq!(ours, allowed.iter().copied().collect(), "{folder}");
    }
}

/// What the table of ARCHITECTURE.md says, against the manifests: every direct dependency with the crates that use it, or
/// `tests` where no more than those do.
#[test]
fn the_table_of_dependencies_tells_who_uses_them() {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (folder, _) in ARROWS {
        let manifest: toml::Table = read(format!("{folder}/Cargo.toml")).parse().unwrap();
        let user = folder.rsplit('/').next().unwrap();
        for (section, user) in [("dependencies", user), ("dev-dependencies", "tests")] {
            let names =
                manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(|t| t.keys());
            for name in names.filter(|name| !is_ours(name)) {
                used.entry(name.clone()).or_default().insert(user.into());
            }
        }
    }
    for users in used.values_mut().filter(|users| users.len() > 1) {
        users.remove("tests");
    }
    let text = read("ARCHITECTURE.md");
    let rows = text.lines().skip_while(|line| *line != "| crate | used by | why |").skip(2);
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for name in cells[1].split(", ") {
            told.insert(name.into(), cells[2].split(", ").map(String::from).collect());
        }
    }
    assert_eq!(told, used);
}

#[test]
fn every_experiment_has_its_line_in_the_documents() {
    let documents = [read("docs/lab.md"), read("docs/simulator.md")].concat();
    let missing: Vec<_> =
        all().map(|(_, one)| one.id).filter(|id| !documents.contains(&format!("`{id}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_id_is_given_to_two_experiments_that_one_backend_runs() {
    let mut seen = BTreeSet::new();
    for (_, one) in all() {
        assert!(seen.insert(one.id), "{}", one.id);
    }
}

#[test]
fn documents_and_comments_name_files_that_are_there() {
    let here = files_below("").into_iter().map(|path| format!("/{path}")).collect::<Vec<_>>();
    let is_there = |name: &str| {
        let name = format!("/{}", name.trim_start_matches("./").trim_end_matches('/'));
        here.iter().any(|path| path.ends_with(&name) || path.contains(&format!("{name}/")))
    };
    let sources = rust_files().into_iter().map(|path| (path.clone(), comments(&read(path))));
    let documents = documents::all().into_iter().map(|(path, text)| (path.display().to_string(), text));
    let mut count = 0;
    for (from, text) in documents.chain(sources) {
        let code = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for name in code.filter(|code| is_file_name(code)) {
            assert!(is_there(name), "{from} names {name}");
            count += 1;
        }
    }
    assert!(count > 150, "{count} names were found");
}

/// Whether some code is the name of a file of ours, and not a pattern, a placeholder, one of another program's or where
/// something is installed.
fn is_file_name(code: &str) -> bool {
    const FOREIGN: &[&str] =
        &[".cargo/config.toml", "version-N.txt", "vmlinux.h", "tcp_bbr.c", "tcp_bic.c", "ccc.cpp"];
    let ending = Path::new(code).extension().and_then(|ending| ending.to_str());
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let is_ours = code.starts_with("crates/")
        || matches!(ending, Some("rs" | "md" | "toml" | "service" | "txt" | "h" | "c" | "cpp" | "py"));
    let is_elsewhere = code.starts_with('/') || code.contains("NAME") || FOREIGN.contains(&code);
    is_ours && code.chars().all(is_name) && !is_elsewhere
}

/// The lines of a source that are comments.
fn comments(source: &str) -> String {
    source.lines().filter(|line| line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_the_documents_have_make_and_cargo_do_can_be_done() {
    let makefile = read("Makefile");
    let mut count = 0;
    for words in documents::code() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["make", ref rest @ ..] => {
                for target in rest.iter().filter(|word| !word.contains('=')) {
                    assert!(makefile.contains(&format!("\n{target}:")), "{words:?}");
                    count += 1;
                }
            }
            ["cargo", ..] => {
                let behind = |flag: &str| words.iter().skip_while(|word| **word != flag).nth(1);
                let Some(package) = behind("-p") else { continue };
                let folder = ARROWS.iter().map(|(folder, _)| *folder).find(|folder| {
                    let manifest: toml::Table = read(format!("{folder}/Cargo.toml")).parse().unwrap();
                    manifest["package"]["name"].as_str() == Some(package)
                });
                let folder = folder.unwrap_or_else(|| panic!("{words:?}"));
                for (flag, place) in [("--example", "examples"), ("--bench", "benches")] {
                    let name = behind(flag).map(|name| format!("{folder}/{place}/{name}.rs"));
                    assert!(name.is_none_or(|name| workspace().join(name).exists()), "{words:?}");
                }
                count += 1;
            }
            _ => {}
        }
    }
    assert!(count > 20, "{count} commands were found");
}

#[test]
fn the_changelog_and_the_documents_name_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("CHANGELOG.md").contains(&format!("\n## [{version}] - ")));
    let documents = [read("docs/guide.md"), read("docs/tasks/site.md")].concat();
    for name in ["longhaul_", "longhaul-", "liblonghaul_"] {
        let mut named =
            documents.split(name).skip(1).filter(|rest| rest.starts_with(char::is_numeric)).peekable();
        assert!(named.peek().is_some(), "no package {name}…");
        assert!(named.all(|rest| rest.starts_with(version)), "a package {name}… of another version");
    }
}

#[test]
fn architecture_stays_short() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= ARCHITECTURE_LINES_MAX, "{lines} lines; details belong to the modules");
}

#[test]
fn files_stay_short() {
    for path in rust_files() {
        let text = read(&path);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        let lines = lines.count();
        assert!(lines <= LINES_MAX, "{path}: {lines} lines");
    }
}

#[test]
fn every_source_file_is_used() {
    let sources: BTreeSet<String> = rust_files().into_iter().collect();
    let mut used: BTreeSet<String> = sources.iter().filter(|path| is_target(path)).cloned().collect();
    let mut next: Vec<String> = used.iter().cloned().collect();
    while let Some(path) = next.pop() {
        let mut modules = Modules { within: children_of(&path), path: &path, found: vec![] };
        modules.visit_file(&syn::parse_file(&read(&path)).unwrap());
        next.extend(
            modules.found.into_iter().filter(|one| sources.contains(one) && used.insert(one.clone())),
        );
    }
    let unused: Vec<_> = sources.difference(&used).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn every_scenario_is_used() {
    let sources: Vec<String> = rust_files().into_iter().map(read).collect();
    for path in files_below("scenarios").into_iter().filter(|path| path.ends_with(".toml")) {
        let name = Path::new(&path).file_stem().unwrap().to_str().unwrap().to_owned();
        let is_named = |source: &String| source.contains(&format!("\"{name}\"")) || source.contains(&path);
        assert!(sources.iter().any(is_named), "{path}");
    }
}

/// Whether cargo begins to compile something here.
fn is_target(path: &str) -> bool {
    let inside = ARROWS.iter().find_map(|(folder, _)| path.strip_prefix(folder)?.strip_prefix('/'));
    matches!(
        inside.unwrap_or_default().split('/').collect::<Vec<_>>()[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "examples" | "benches" | "fuzz_targets", _]
            | ["tests", _, "main.rs"]
    )
}

/// The folder of the modules that a file declares.
fn children_of(path: &str) -> PathBuf {
    let own = Path::new(path).with_extension("");
    let is_folder = is_target(path) || path.ends_with("/mod.rs");
    if is_folder { own.parent().unwrap().into() } else { own }
}

/// Collects the files of the modules that a file declares.
struct Modules<'a> {
    within: PathBuf,
    path: &'a str,
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Modules<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let own = self.within.join(item.ident.to_string());
        if item.content.is_some() {
            let outer = std::mem::replace(&mut self.within, own);
            visit::visit_item_mod(self, item);
            self.within = outer;
            return;
        }
        let elsewhere = item.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(file), .. }) => Some(file.value()),
                _ => None,
            },
            _ => None,
        });
        let files = match elsewhere {
            Some(file) => vec![Path::new(self.path).parent().unwrap().join(file)],
            None => vec![own.with_extension("rs"), own.join("mod.rs")],
        };
        let there = files.iter().filter_map(|file| workspace().join(file).canonicalize().ok());
        let top = workspace().canonicalize().unwrap();
        self.found.extend(there.map(|file| file.strip_prefix(&top).unwrap().to_str().unwrap().to_owned()));
    }
}

/// Files below a folder of the workspace, from its top, without what is built and what fuzzing has learnt.
fn files_below(folder: &str) -> Vec<String> {
    let (mut folders, mut files) = (vec![workspace().join(folder)], vec![]);
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_file() {
                files.push(path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned());
            } else if !["target", ".git", "corpus"].iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            }
        }
    }
    files
}

fn rust_files() -> Vec<String> {
    let files = ["crates", "bindings", "fuzz"].into_iter().flat_map(files_below);
    files.filter(|path| path.ends_with(".rs")).collect()
}
