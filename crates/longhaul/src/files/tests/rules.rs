//! What is copied, where it goes, what counts as there already.

use super::harness::*;
use crate::files::{Base, Exclude, Root, Scan, ScanOptions, plan, scan};
use longhaul_proto::session::manifest::Kind;
use longhaul_proto::session::message::FileOptions;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn paths(scan: &Scan) -> Vec<String> {
    scan.manifest.entries.iter().map(|e| String::from_utf8_lossy(&e.path).into_owned()).collect()
}

fn errors(scan: &Scan) -> Vec<(String, String)> {
    scan.errors
        .iter()
        .map(|e| (String::from_utf8_lossy(&e.path).into_owned(), e.reason.line.clone()))
        .collect()
}

/// `a/x`, `a/b/y`, `a/b/z.o`, `f`, a link to a folder and one to a file.
fn sample() -> tempfile::TempDir {
    let top = folder();
    write(top.path().join("a/x"), b"x");
    write(top.path().join("a/b/y"), b"y");
    write(top.path().join("a/b/z.o"), b"z");
    write(top.path().join("f"), b"f");
    symlink("a", top.path().join("to-folder")).unwrap();
    symlink("f", top.path().join("to-file")).unwrap();
    top
}

fn scan_with(top: &Path, names: &[&str], options: &ScanOptions) -> Scan {
    let given: Vec<_> = names.iter().map(|name| top.join(name)).collect();
    let given: Vec<&Path> = given.iter().map(|path| path.as_path()).collect();
    let scan = scan(&Root::ambient(), &sources(&given), options);
    scan.manifest.validate().unwrap();
    scan
}

fn listed(names: &[&str]) -> Vec<String> {
    let top = sample();
    let scan = scan_with(top.path(), names, &ScanOptions::default());
    assert_eq!(errors(&scan), []);
    paths(&scan)
}

#[test]
fn a_trailing_slash_means_the_contents() {
    assert_eq!(listed(&["a"]), ["a", "a/x", "a/b", "a/b/y", "a/b/z.o"]);
    for contents in ["a/", "a/.", "a/b/..", "to-folder/"] {
        assert_eq!(listed(&[contents]), ["", "x", "b", "b/y", "b/z.o"], "{contents}");
    }
    assert_eq!(listed(&["f", "a/x"]), ["f", "x"]);
    assert_eq!(listed(&["to-folder", "to-file"]), ["to-folder", "to-file"]);
}

#[test]
fn sources_of_one_name_merge_or_conflict() {
    let top = sample();
    write(top.path().join("other/a/x"), b"another");
    write(top.path().join("other/a/new"), b"new");
    write(top.path().join("other/f/file"), b"file");
    let scan = scan_with(top.path(), &["a", "f", "other/a", "other/f", "f"], &ScanOptions::default());
    assert_eq!(paths(&scan), ["a", "a/x", "a/b", "a/b/y", "a/b/z.o", "f", "a/new"]);
    let failed: Vec<_> = errors(&scan).into_iter().map(|(path, _)| path).collect();
    assert_eq!(failed, ["a/x", "f"], "what is named twice comes once");
}

#[test]
fn listing_and_comparing_end_when_they_are_told_to() {
    let (top, dest) = (sample(), folder());
    let stop = Arc::new(AtomicBool::new(true));
    let stopped = ScanOptions { stop: stop.clone(), ..ScanOptions::default() };
    assert_eq!(paths(&scan_with(top.path(), &["a", "a/b"], &stopped)), Vec::<String>::new());
    let scan = scan_with(top.path(), &["a"], &ScanOptions::default());
    let base = Base::new(Root::ambient(), dest.path());
    assert!(plan(&base, &scan.manifest, &options(), &stop).unwrap_err().to_string().contains("interrupted"));
}

#[test]
fn what_cannot_be_copied_is_told_and_the_rest_goes_on() {
    let top = sample();
    let fifo = top.path().join("a/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    write(top.path().join("a/.x.longhaul-part"), b"left over");
    let scan = scan_with(top.path(), &["a", "missing", "f/"], &ScanOptions::default());
    assert_eq!(paths(&scan), ["a", "a/x", "a/b", "a/b/y", "a/b/z.o"]);
    let shown = |name: &str| top.path().join(name).display().to_string();
    let expected = [
        (shown("missing"), "no such file or folder".to_string()),
        (shown("f/"), "something on the way to it is not a folder".into()),
    ];
    assert_eq!(errors(&scan), expected);
    // What nobody could copy is no failure.
    assert_eq!(scan.left_out.first, [b"a/fifo"]);
    assert_eq!(scan.warnings(), ["a/fifo: not copied: neither a file nor a folder nor a link"]);
    let alone = scan_with(top.path(), &["a/fifo"], &ScanOptions::default());
    assert!(alone.emptiness().is_some_and(|reason| reason.line.starts_with("fifo: not copied")));
}

#[test]
fn a_file_whose_contents_are_made_when_it_is_read_is_no_empty_one() {
    let top = folder();
    write(top.path().join("empty"), b"");
    let made = format!("/proc/{}/status", std::process::id());
    let scan = scan(
        &Root::ambient(),
        &sources(&[made.as_ref(), &top.path().join("empty")]),
        &ScanOptions::default(),
    );
    assert_eq!(paths(&scan), ["empty"]);
    let errors = errors(&scan);
    assert!(errors.len() == 1 && errors[0].1.starts_with("is said to be empty, and is not"), "{errors:?}");
}

#[test]
fn who_comes_second_where_nothing_is_replaced_leaves_nothing_behind() {
    let (source, dest) = (folder(), folder());
    write(source.path().join("name"), random_bytes(3 * MIB, 1));
    let drop_box = FileOptions { new_only: true, ..options() };
    let scan = scan_of(&inside(source.path()));
    let plan = plan_of(&scan.manifest, dest.path(), &drop_box).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    write(dest.path().join("name"), b"of who came first");
    trip.run();
    assert_eq!(trip.sink.report().failed.count(), 1);
    drop(trip);
    assert_eq!(fs::read(dest.path().join("name")).unwrap(), b"of who came first");
    assert_tidy(dest.path());
}

#[test]
fn patterns_and_lists_choose_files() {
    let top = sample();
    let exclude = |patterns: &[&str]| ScanOptions {
        exclude: Exclude::new(patterns).unwrap(),
        ..ScanOptions::default()
    };
    assert_eq!(paths(&scan_with(top.path(), &["a"], &exclude(&["*.o"]))), ["a", "a/x", "a/b", "a/b/y"]);
    assert_eq!(paths(&scan_with(top.path(), &["a"], &exclude(&["/b"]))), ["a", "a/x"]);
    assert_eq!(paths(&scan_with(top.path(), &["a/"], &exclude(&["b/*.o"]))), ["", "x", "b", "b/y"]);
    assert_eq!(
        paths(&scan_with(top.path(), &["a", "f"], &exclude(&["f"]))),
        ["a", "a/x", "a/b", "a/b/y", "a/b/z.o"]
    );
    let only = |names: &[&str]| ScanOptions {
        files_from: Some(names.iter().map(|name| name.into()).collect()),
        ..ScanOptions::default()
    };
    assert_eq!(
        paths(&scan_with(top.path(), &[""], &only(&["a/b/y", "/a/x", "a/b/y"]))),
        ["", "a", "a/b", "a/b/y", "a/x"]
    );
    assert_eq!(
        paths(&scan_with(top.path(), &["a"], &only(&["b/y", "b", "."]))),
        ["", "b", "b/y", "b/z.o", "x"]
    );
    let chosen = ScanOptions { exclude: Exclude::new(&["b/"]).unwrap(), ..only(&["b/y", "x"]) };
    assert_eq!(paths(&scan_with(top.path(), &["a"], &chosen)), ["", "x"], "nothing below what is excluded");
    let bad = scan_with(top.path(), &["a"], &only(&["../f", "x", "none"]));
    assert_eq!((paths(&bad).len(), bad.errors.len()), (2, 2));
}

#[test]
fn scanning_a_confined_root_stays_inside() {
    let (top, outside) = (sample(), folder());
    write(outside.path().join("secret"), b"secret");
    symlink(outside.path(), top.path().join("a/out")).unwrap();
    let root = Root::confined(top.path()).unwrap();
    let list = |path: &str| scan(&root, &sources(&[Path::new(path)]), &ScanOptions::default());
    let inside = list("/a");
    assert_eq!(paths(&inside), ["a", "a/out", "a/x", "a/b", "a/b/y", "a/b/z.o"]);
    assert!(matches!(inside.manifest.entries[1].kind, Kind::Symlink { .. }));
    assert_eq!(paths(&list("to-folder/")), ["", "out", "x", "b", "b/y", "b/z.o"]);
    let escapes = ["../", "a/../..", "a/out/", "a/out/secret", "../secret"];
    for escape in escapes {
        let scan = list(escape);
        assert!(scan.manifest.entries.is_empty() && scan.errors.len() == 1, "{escape}: {scan:?}");
    }
}

#[test]
fn a_single_file_takes_the_name_given() {
    let top = sample();
    let dest = folder();
    copy(&top.path().join("f"), &dest.path().join("new"), Road::default());
    assert_eq!(fs::read(dest.path().join("new")).unwrap(), b"f");
    copy(&top.path().join("f"), &inside(&dest.path().join("folder/deep")), Road::default());
    assert_eq!(fs::read(dest.path().join("folder/deep/f")).unwrap(), b"f");
    copy(&top.path().join("a/x"), dest.path(), Road::default());
    assert_eq!(fs::read(dest.path().join("x")).unwrap(), b"x");
    copy(&top.path().join("to-file"), &dest.path().join("link"), Road::default());
    assert_eq!(fs::read_link(dest.path().join("link")).unwrap(), Path::new("f"));
    // The folder's own name stays.
    copy(&top.path().join("a"), &dest.path().join("made"), Road::default());
    assert_eq!(fs::read(dest.path().join("made/a/b/y")).unwrap(), b"y");
    let over_file = scan_of(&top.path().join("a"));
    let refused = plan_of(&over_file.manifest, &dest.path().join("new"), &options()).unwrap_err();
    assert!(refused.to_string().contains("not a folder"), "{refused}");
}

#[test]
fn what_is_there_is_skipped_and_its_permissions_follow() {
    let (top, dest) = (sample(), folder());
    copy(&inside(top.path()), dest.path(), Road::default());
    fs::set_permissions(dest.path().join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    write(top.path().join("a/x"), b"longer than before");
    let report = copy(&inside(top.path()), dest.path(), Road::default());
    assert_eq!((report.files_done, report.files_skipped, report.skipped_bytes), (1, 5, 3));
    assert_eq!(contents(top.path()), contents(dest.path()));
}

#[test]
fn contents_count_with_checksum() {
    let (top, dest) = (sample(), folder());
    copy(&inside(top.path()), dest.path(), Road::default());
    let checksum = FileOptions { checksum: true, ..options() };
    // Same size and time, other content: only its hash tells.
    let time = fs::metadata(dest.path().join("f")).unwrap().modified().unwrap();
    write(dest.path().join("f"), b"g");
    fs::File::open(dest.path().join("f")).unwrap().set_modified(time).unwrap();
    assert_eq!(copy(&inside(top.path()), dest.path(), Road::default()).files_done, 0);
    assert_eq!(copy_with(&inside(top.path()), dest.path(), Road::default(), &checksum).files_done, 1);
    // Same content, other time: nothing to send, but the time follows.
    set_mtime(dest.path().join("a/x"), 77, 0);
    let report = copy_with(&inside(top.path()), dest.path(), Road::default(), &checksum);
    assert_eq!((report.files_done, report.files_skipped), (0, 6));
    assert_eq!(contents(top.path()), contents(dest.path()));
}

/// They would give whoever receives what the source's owner has, or the group.
#[test]
fn bits_that_go_with_an_owner_are_not_taken_over() {
    let (top, dest) = (sample(), folder());
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&top.path().join("f"), 0o4755);
    set(&top.path().join("a"), 0o3775);
    let mode = |name| fs::metadata(dest.path().join(name)).unwrap().permissions().mode() & 0o7777;
    copy(&inside(top.path()), dest.path(), Road::default());
    assert_eq!((mode("f"), mode("a")), (0o755, 0o775));
    // Nor left on a file that stays.
    set(&dest.path().join("f"), 0o4755);
    assert_eq!(copy(&inside(top.path()), dest.path(), Road::default()).files_done, 0);
    assert_eq!(mode("f"), 0o755);
}

#[test]
fn delete_removes_what_the_source_has_not() {
    let (top, dest) = (sample(), folder());
    copy(&inside(top.path()), dest.path(), Road::default());
    write(dest.path().join("old/deep/file"), b"old");
    write(dest.path().join("a/b/old"), b"old");
    write(dest.path().join("a/kept.log"), b"kept");
    write(dest.path().join("mixed/in/kept.log"), b"kept");
    write(dest.path().join("mixed/in/gone"), b"old");
    write(dest.path().join("mixed/gone/too"), b"old");
    write(dest.path().join("f"), b"changed here");
    // Another copy is at work with such a file.
    let coming = [".next.log.00000000000001a0.longhaul-part", ".next.log.longhaul-journal"]
        .map(|name| dest.path().join("a").join(name));
    coming.iter().for_each(|ours| write(ours, b"coming"));
    write(dest.path().join("a/.next.txt.00000000000001a0.longhaul-part"), b"of nobody");
    let delete = FileOptions { delete: true, exclude: vec!["*.log".into()], ..options() };
    let scan = scan_of(&inside(top.path()));
    let dry = plan_of(&scan.manifest, dest.path(), &FileOptions { dry_run: true, ..delete.clone() }).unwrap();
    let topmost =
        ["a/b/old", "a/.next.txt.00000000000001a0.longhaul-part", "mixed/gone", "mixed/in/gone", "old"];
    assert_eq!(dry.extraneous.paths(), topmost.map(|path| path.as_bytes().to_vec()));
    let report = copy_with(&inside(top.path()), dest.path(), Road::default(), &delete);
    assert_eq!(report.failed.first, []);
    assert!(dest.path().join("a/kept.log").exists());
    assert!(dest.path().join("mixed/in/kept.log").exists());
    coming.iter().for_each(|ours| fs::remove_file(ours).expect("it is still there"));
    fs::remove_file(dest.path().join("a/kept.log")).unwrap();
    fs::remove_dir_all(dest.path().join("mixed")).unwrap();
    set_mtime(dest.path().join("a"), 5, 0);
    copy(&inside(top.path()), dest.path(), Road::default());
    assert_eq!(contents(top.path()), contents(dest.path()));
}

#[test]
fn what_a_pattern_protects_stays_also_if_it_came_during_the_copy() {
    let (top, dest) = (sample(), folder());
    write(dest.path().join("old/gone"), b"old");
    let delete = FileOptions { delete: true, exclude: vec!["*.log".into()], ..options() };
    let scan = scan_of(&inside(top.path()));
    let plan = plan_of(&scan.manifest, dest.path(), &delete).unwrap();
    write(dest.path().join("old/run.log"), b"of a service");
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.run();
    assert_eq!(trip.sink.report().removed.count(), 1);
    assert!(dest.path().join("old/run.log").exists() && !dest.path().join("old/gone").exists());
}

/// As root, or in one's own home, the source's permissions would lock others or oneself out.
#[test]
fn a_folder_with_other_things_in_it_keeps_its_permissions_and_time() {
    let (top, dest) = (sample(), folder());
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o750)).unwrap();
    let dress = || {
        fs::set_permissions(dest.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        set_mtime(dest.path(), 9, 0);
    };
    let mode = || fs::metadata(dest.path()).unwrap().permissions().mode() & 0o7777;
    write(dest.path().join("somebody's"), b"");
    dress();
    assert_eq!(copy(&inside(top.path()), dest.path(), Road::default()).failed.first, []);
    assert_eq!(mode(), 0o1777);
    // A copy that equals its source takes over all of it, again and again, and after an interruption.
    fs::remove_file(dest.path().join("somebody's")).unwrap();
    write(dest.path().join(".f.longhaul-part"), b"f");
    dress();
    copy(&inside(top.path()), dest.path(), Road::default());
    assert_eq!(mode(), 0o750);
    fs::remove_file(dest.path().join(".f.longhaul-part")).unwrap();
    write(dest.path().join("old"), b"");
    dress();
    copy_with(&inside(top.path()), dest.path(), Road::default(), &FileOptions { delete: true, ..options() });
    assert_eq!(contents(top.path()), contents(dest.path()));
}

#[test]
fn nothing_is_deleted_when_the_source_was_not_listed_in_full() {
    let (top, dest) = (sample(), folder());
    write(dest.path().join("old"), b"old");
    let scan = scan_of(&inside(top.path()));
    let mut plan = plan_of(&scan.manifest, dest.path(), &FileOptions { delete: true, ..options() }).unwrap();
    assert_eq!(plan.extraneous.paths().len(), 1);
    plan.source_incomplete = true;
    Trip::begin(scan, plan, Road::default()).run();
    assert!(dest.path().join("old").exists());
}

#[test]
fn a_dry_run_changes_nothing() {
    let (top, dest) = (sample(), folder());
    write(dest.path().join("old"), b"old");
    let before = contents(dest.path());
    let dry = FileOptions { dry_run: true, delete: true, ..options() };
    for to in [dest.path().to_path_buf(), dest.path().join("new/deep")] {
        let scan = scan_of(&inside(top.path()));
        let plan = plan_of(&scan.manifest, &to, &dry).unwrap();
        assert_eq!((plan.bytes_to_come, plan.skipped.len()), (4, 0));
        let mut trip = Trip::begin(scan, plan, Road::default());
        trip.run();
        assert_eq!(contents(dest.path()), before);
    }
}

#[test]
fn obstacles_fail_alone() {
    let (top, dest) = (sample(), folder());
    fs::create_dir_all(dest.path().join("f/full")).unwrap();
    write(dest.path().join("a/b"), b"a file where a folder goes");
    symlink("/etc/hostname", dest.path().join("to-folder")).unwrap();
    let report = copy(&inside(top.path()), dest.path(), Road::default());
    let mut failed: Vec<_> =
        report.failed.first.iter().map(|f| String::from_utf8_lossy(&f.path).into_owned()).collect();
    failed.sort();
    assert_eq!(failed, ["a/b", "a/b/y", "a/b/z.o", "f"]);
    assert_eq!(report.files_done, 3);
    assert_eq!(fs::read_link(dest.path().join("to-folder")).unwrap(), Path::new("a"));
    assert_eq!(fs::read(dest.path().join("a/x")).unwrap(), b"x");
    assert_eq!(fs::read(dest.path().join("a/b")).unwrap(), b"a file where a folder goes");
}

#[test]
fn a_file_replaces_a_link_and_not_what_it_points_to() {
    let (top, dest) = (sample(), folder());
    write(dest.path().join("pointed-to"), b"safe");
    symlink("pointed-to", dest.path().join("f")).unwrap();
    copy(&top.path().join("f"), dest.path(), Road::default());
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), b"f");
    assert_eq!(fs::read(dest.path().join("pointed-to")).unwrap(), b"safe");
}

/// A folder in a folder in a folder …, without handles of more than two at a time.
fn deep_tree(top: &Path, depth: usize) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_very_deep_tree_is_refused_in_one_line_and_removed_without_ado() {
    let (source, dest) = (folder(), folder());
    deep_tree(&source.path().join("."), DEEP);
    let scan = scan_with(source.path(), &["./"], &ScanOptions::default());
    let lines = errors(&scan);
    assert!(
        matches!(&lines[..], [(_, line)] if line.contains("path") && line.contains("4096")),
        "{}",
        lines.len()
    );
    // The same at the destination, in the way of a copy that removes what the source has not.
    let empty = folder();
    deep_tree(dest.path(), DEEP);
    for exclude in [vec![], vec!["*.keep".to_string()]] {
        let options = FileOptions { delete: true, exclude, ..Default::default() };
        let base = Base::new(Root::ambient(), dest.path());
        let scan = scan_with(empty.path(), &["./"], &ScanOptions::default());
        let plan = plan(&base, &scan.manifest, &options, &AtomicBool::new(false)).unwrap();
        assert_eq!(plan.extraneous.paths(), [b"d".to_vec()]);
    }
    for top in [source.path(), dest.path()] {
        crate::files::removal::remove_below(top, b"d").unwrap();
        assert_eq!(fs::read_dir(top).unwrap().count(), 0);
    }
}

/// Deeper than there are handles, and than a thread's stack has room for calls.
const DEEP: usize = 20_000;
