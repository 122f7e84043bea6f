//! The house: who depends on whom, and what the documents say of it.

use longhaul_evidence::all;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of the workspace each may use; the arrows of ARCHITECTURE.md, turned round.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/proto", &[]),
    ("crates/sim", &["longhaul-proto"]),
    ("crates/lab", &["longhaul-net", "longhaul-proto", "longhaul-sim"]),
    ("crates/net", &["longhaul-proto"]),
    ("crates/stripe", &["longhaul-net", "longhaul-proto"]),
    ("crates/longhaul", &["longhaul-net", "longhaul-proto"]),
    ("crates/cli", &["longhaul", "longhaul-proto"]),
    (
        "crates/evidence",
        &["longhaul-cli", "longhaul-lab", "longhaul-proto", "longhaul-sim", "longhaul-stripe"],
    ),
    ("crates/testing", &["longhaul-lab"]),
    ("bindings/c", &["longhaul-stripe"]),
    ("bindings/python", &["longhaul", "longhaul-proto", "longhaul-stripe"]),
    ("fuzz", &["longhaul", "longhaul-cli", "longhaul-net", "longhaul-proto", "longhaul-sim"]),
];

/// Longer files are taken apart. Comments and empty lines do not count.
const LINES_MAX: usize = 500;

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
fn documents_name_files_that_are_there() {
    for document in ["CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = read(document);
        let named = text.split('`').skip(1).step_by(2).filter(|name| name.starts_with("crates/"));
        for name in named.filter(|name| !name.contains(['*', '{', ' ']) && !name.contains("NAME")) {
            assert!(workspace().join(name).exists(), "{document} names {name}");
        }
    }
}

#[test]
fn files_stay_short() {
    let mut folders =
        vec![workspace().join("crates"), workspace().join("bindings"), workspace().join("fuzz")];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let lines = text
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty() && !line.starts_with("//"))
                    .count();
                assert!(lines <= LINES_MAX, "{}: {lines} lines", path.display());
            }
        }
    }
}
