//! Names that differ only in case, on a file system that does not tell them apart.

use super::calls::fold;
use super::harness::*;
use longhaul_proto::session::message::{FileOptions, Report};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What failed, and why.
fn failures(report: &Report) -> Vec<(String, &str)> {
    let told = report.failed.first.iter();
    told.map(|failure| (String::from_utf8_lossy(&failure.path).into_owned(), failure.reason.line.as_str()))
        .collect()
}

/// Names in a folder.
fn names(top: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(top).unwrap().map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Copy twice. Of the entries of each pair one arrives, is whole and stays, and the other is told of; both times.
fn one_of_each_arrives(source: &Path, dest: &Path) {
    let mut before = None;
    for _ in 0..2 {
        let report = copy(&inside(source), dest, Road::default());
        let there = names(dest);
        for (path, why) in failures(&report) {
            assert!(why.contains("differs only in case from"), "{path}: {why}");
            assert!(!there.contains(&path), "{path} is there: {there:?}");
        }
        assert_eq!(
            report.failed.count() as usize,
            names(source).len() - there.len(),
            "{there:?} {:?}",
            failures(&report)
        );
        assert_eq!(there.len() * 2, names(source).len(), "{there:?}");
        for name in &there {
            let (from, to) = (source.join(name), dest.join(name));
            assert_eq!(
                fs::symlink_metadata(&from).unwrap().file_type(),
                fs::symlink_metadata(&to).unwrap().file_type()
            );
            match fs::read_link(&from) {
                Ok(target) => assert_eq!(target, fs::read_link(&to).unwrap()),
                Err(_) => assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{name}"),
            }
        }
        assert_eq!(before.replace(there.clone()).unwrap_or(there.clone()), there);
    }
}

#[test]
fn of_small_files_one_is_stored_and_the_other_told_of() {
    let (source, dest) = (folder(), folder());
    let _folding = fold(dest.path());
    write(source.path().join("a"), b"one");
    write(source.path().join("A"), b"another");
    // Alike by size and time, and yet another file.
    for (name, bytes) in [("b", b"one"), ("B", b"two")] {
        write(source.path().join(name), bytes);
        set_mtime(source.path().join(name), 1000, 0);
    }
    one_of_each_arrives(source.path(), dest.path());
}

/// Two writers store them at the same time: several times over, since one may be done before the other begins.
#[test]
fn of_large_files_and_links_too() {
    (0..8).for_each(|_| large_files_and_links());
}

fn large_files_and_links() {
    let (source, dest) = (folder(), folder());
    let _folding = fold(dest.path());
    write(source.path().join("big"), random_bytes(3 * MIB, 1));
    write(source.path().join("BIG"), random_bytes(4 * MIB, 2));
    write(source.path().join("mixed"), b"small");
    write(source.path().join("Mixed"), random_bytes(2 * MIB, 3));
    symlink("here", source.path().join("link")).unwrap();
    symlink("there", source.path().join("LINK")).unwrap();
    one_of_each_arrives(source.path(), dest.path());
    assert_tidy(dest.path());
}

#[test]
fn a_folder_that_is_taken_for_another_is_told_of_with_what_would_be_replaced_in_it() {
    let (source, dest) = (folder(), folder());
    let _folding = fold(dest.path());
    write(source.path().join("Dir/x"), b"one");
    write(source.path().join("dir/x"), b"another");
    let report = copy(&inside(source.path()), dest.path(), Road::default());
    let failed: Vec<_> = failures(&report).into_iter().map(|(path, _)| path).collect();
    assert!(failed.len() == 2 && failed.contains(&format!("{}/x", failed[0])), "{failed:?}");
    let there = names(dest.path());
    assert_eq!(there.len(), 1);
    let bytes = |top: &Path| fs::read(top.join(&there[0]).join("x")).unwrap();
    assert_eq!(bytes(dest.path()), bytes(source.path()));
}

#[test]
fn a_name_that_changed_its_case_is_no_other_file() {
    let (source, dest) = (folder(), folder());
    let _folding = fold(dest.path());
    write(source.path().join("README"), b"new");
    write(dest.path().join("readme"), b"older");
    let report = copy(&inside(source.path()), dest.path(), Road::default());
    assert_eq!((failures(&report), names(dest.path())), (vec![], vec!["readme".to_string()]));
    assert_eq!(fs::read(dest.path().join("readme")).unwrap(), b"new");
}

#[test]
fn what_is_here_under_another_spelling_is_not_removed() {
    let (source, dest) = (folder(), folder());
    let _folding = fold(dest.path());
    write(source.path().join("README"), b"new");
    write(source.path().join("Dir/x"), b"new");
    for path in ["readme", "dir/x", "dir/y", "z"] {
        write(dest.path().join(path), b"older");
    }
    let delete = FileOptions { delete: true, ..options() };
    for removed in [2, 0] {
        let report = copy_with(&inside(source.path()), dest.path(), Road::default(), &delete);
        assert_eq!((failures(&report), report.removed.count()), (vec![], removed));
        assert_eq!(
            (names(dest.path()), names(&dest.path().join("dir"))),
            (vec!["dir".into(), "readme".into()], vec!["x".into()])
        );
        assert_eq!(fs::read(dest.path().join("readme")).unwrap(), b"new");
    }
}

#[test]
fn where_case_counts_twins_are_files_like_others_also_with_one_inode() {
    let (source, dest) = (folder(), folder());
    write(source.path().join("a"), b"one");
    write(source.path().join("A"), b"another");
    write(dest.path().join("a"), b"before");
    fs::hard_link(dest.path().join("a"), dest.path().join("A")).unwrap();
    let report = copy(&inside(source.path()), dest.path(), Road::default());
    assert_eq!(failures(&report), vec![]);
    assert_eq!(contents(source.path()), contents(dest.path()));
}
