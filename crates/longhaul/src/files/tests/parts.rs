//! Copies that are listed, compared and stored in parts.

use super::calls::fold;
use super::harness::*;
use crate::files::scan::scan_in_parts;
use crate::files::{Base, PartLimits, Planner, Root, Scan, ScanOptions, SourceSpec};
use fastrand::Rng;
use longhaul_proto::session::manifest::{Entry, EntryIndex, Kind};
use longhaul_proto::session::message::{FileOptions, Report};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn parts_of(given: &[SourceSpec], entries: usize) -> Vec<Scan> {
    let (mut parts, limits) = (vec![], PartLimits { entries, ..PartLimits::default() });
    scan_in_parts(&Root::ambient(), given, &ScanOptions::default(), limits, &mut |part| {
        parts.push(part);
        true
    });
    parts
}

/// Copy what is in `source`, part by part.
fn copy_parts(source: &Path, dest: &Path, entries: usize, options: &FileOptions) -> Report {
    let mut planner = Planner::new(Base::new(Root::ambient(), dest), options.clone()).unwrap();
    let mut whole: Option<Report> = None;
    for part in parts_of(&sources(&[&inside(source)]), entries) {
        part.manifest.validate().unwrap();
        let plan = planner.plan(&part.manifest, &AtomicBool::default()).unwrap();
        let mut trip = Trip::begin(part, plan, Road::default());
        if let Some(before) = &whole {
            trip.sink.go_ahead(before.failed.is_empty());
        }
        trip.run();
        let report = trip.sink.suspend();
        match &mut whole {
            Some(whole) => whole.add(report),
            none => *none = Some(report),
        }
    }
    whole.unwrap()
}

#[test]
fn parts_together_are_the_whole_and_each_begins_with_the_folders_that_go_on() {
    for seed in 0..20 {
        let (top, mut rng) = (folder(), Rng::with_seed(seed));
        grow(top.path(), &mut rng, 0);
        let given = sources(&[&inside(top.path())]);
        let whole = parts_of(&given, usize::MAX).remove(0).manifest.entries;
        let parts = parts_of(&given, rng.usize(1..6));
        let (mut together, mut open) = (vec![], vec![]);
        for (at, part) in parts.iter().enumerate() {
            let (entries, seams) = (&part.manifest.entries, &part.manifest.seams);
            part.manifest.validate().unwrap();
            let (again, fresh) = entries.split_at(seams.continued as usize);
            assert_eq!(again, open, "seed {seed}");
            assert!(!fresh.is_empty() && seams.has_more == (at + 1 < parts.len()));
            together.extend_from_slice(fresh);
            open = seams.goes_on.iter().map(|index| entries[*index as usize].clone()).collect::<Vec<Entry>>();
        }
        assert_eq!(together, whole, "seed {seed}");
        assert!(parts.len() > 1 || whole.len() < 6);
    }
}

#[test]
fn sources_that_may_have_paths_in_common_are_one_part() {
    let top = folder();
    for path in ["a/x/1", "a/x/2", "b/x/3", "b/y"] {
        write(top.path().join(path), b"");
    }
    let count = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|path| top.path().join(path)).collect();
        parts_of(&sources(&paths.iter().map(|path| path.as_path()).collect::<Vec<_>>()), 1).len()
    };
    assert_eq!([count(&["a/x", "b/x"]), count(&["a/", "b/"])], [1, 1]);
    assert_eq!([count(&["a"]), count(&["a/x", "b/y"])], [4, 4]);
}

#[test]
fn what_is_copied_in_parts_is_what_is_copied_as_a_whole() {
    for seed in 0..12 {
        let (source, dest, mut rng) = (folder(), folder(), Rng::with_seed(seed));
        grow(source.path(), &mut rng, 1);
        let (dest, entries) = (dest.path().join("d"), rng.usize(1..20));
        let report = copy_parts(source.path(), &dest, entries, &options());
        assert_eq!(report.failed.first, [], "seed {seed}");
        assert_eq!(contents(&dest), contents(source.path()), "seed {seed}");
        assert_tidy(&dest);
        let again = copy_parts(source.path(), &dest, entries, &options());
        assert_eq!((again.files_done, again.files_skipped), (0, report.files_done), "seed {seed}");
    }
}

/// The part that comes second found the folder there, and took it for somebody else's.
#[test]
fn a_folder_in_several_parts_gets_its_permissions_where_nothing_is_replaced_too() {
    let (source, dest) = (folder(), folder());
    (0..7).for_each(|n| write(source.path().join(format!("a/b/{n}")), b""));
    for path in ["a", "a/b"] {
        fs::set_permissions(source.path().join(path), fs::Permissions::from_mode(0o750)).unwrap();
        set_mtime(source.path().join(path), 5, 0);
    }
    let drop_box = FileOptions { new_only: true, ..options() };
    let report = copy_parts(source.path(), dest.path(), 2, &drop_box);
    assert_eq!(report.failed.first, []);
    // The folder that was there keeps its own.
    let below = |top: &Path| contents(&top.join("a"));
    assert_eq!(below(dest.path()), below(source.path()));
}

/// Two paths that differ in case only may be in different parts.
#[test]
fn of_paths_in_different_parts_that_are_one_here_the_second_is_told_of() {
    let source = folder();
    for path in ["Dir/x", "F", "G", "b", "c", "d", "dir/x", "dir/y", "f"] {
        write(source.path().join(path), path.as_bytes());
    }
    write(source.path().join("g"), random_bytes(2 * MIB, 1));
    for there in ["", "f"] {
        let dest = folder();
        let _folding = fold(dest.path());
        if !there.is_empty() {
            write(dest.path().join(there), b"older");
        }
        for _ in 0..2 {
            let report = copy_parts(source.path(), dest.path(), 2, &options());
            assert_eq!(failed(&report), ["dir", "dir/x", "dir/y", "f", "g"]);
            for path in ["Dir/x", "F", "G", "b", "c", "d"] {
                let there = if path == "F" && !there.is_empty() { "f" } else { path };
                assert_eq!(fs::read(dest.path().join(there)).unwrap(), path.as_bytes());
            }
        }
    }
}

/// Parts are compared ahead of time, when nothing of those before may be there yet.
#[test]
fn of_paths_in_different_parts_that_are_one_here_the_second_is_told_of_when_it_lands() {
    let (source, dest) = (folder(), folder());
    let _folding = fold(dest.path());
    for path in ["Dir/x", "F", "b", "c", "d", "dir/x", "dir/y", "f"] {
        write(source.path().join(path), path.as_bytes());
    }
    let mut planner = Planner::new(Base::new(Root::ambient(), dest.path()), options()).unwrap();
    let parts = parts_of(&sources(&[&inside(source.path())]), 3);
    let compared: Vec<_> = parts
        .into_iter()
        .map(|part| (planner.plan(&part.manifest, &AtomicBool::default()).unwrap(), part))
        .collect();
    let mut all = Report::default();
    for (at, (plan, part)) in compared.into_iter().enumerate() {
        let mut trip = Trip::begin(part, plan, Road::default());
        if at > 0 {
            trip.sink.go_ahead(true);
        }
        trip.run();
        all.add(trip.sink.suspend());
    }
    // What else is in a folder that has no place goes into the one that has it.
    assert_eq!(failed(&all), ["dir", "dir/x", "f"]);
    for path in ["Dir/x", "F", "b", "c", "d"] {
        assert_eq!(fs::read(dest.path().join(path)).unwrap(), path.as_bytes());
    }
}

/// The paths of what failed.
fn failed(report: &Report) -> Vec<String> {
    let failed = report.failed.first.iter();
    let mut failed: Vec<_> =
        failed.map(|failure| String::from_utf8_lossy(&failure.path).into_owned()).collect();
    failed.sort();
    failed
}

/// A tree of several parts of four entries, some of them inside a folder that nobody may write to.
fn tree(top: &Path) {
    for path in ["a/1", "a/2", "a/in/3", "a/in/4", "a/in/5", "b/6", "b/7", "c/8"] {
        write(top.join(path), path.as_bytes());
    }
    for path in ["a/in", "a", "b", "c"] {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o555)).unwrap();
        set_mtime(top.join(path), 1_000_000_000, 5);
    }
}

fn deleting() -> FileOptions {
    FileOptions { delete: true, ..options() }
}

#[test]
fn what_the_source_has_not_is_removed_from_folders_of_all_parts() {
    let (source, dest) = (folder(), folder());
    tree(source.path());
    let dest = dest.path().join("d");
    for path in ["a/x", "a/in/y", "b/6", "c/z/deep/er", "old/1", "top"] {
        write(dest.join(path), b"other");
    }
    let dry = copy_parts(source.path(), &dest, 4, &FileOptions { dry_run: true, ..deleting() });
    let report = copy_parts(source.path(), &dest, 4, &deleting());
    let mut removed: Vec<_> =
        report.removed.first.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    removed.sort();
    assert_eq!(removed, ["a/in/y", "a/x", "c/z", "old", "top"]);
    assert_eq!(dry.removed.count(), 5);
    // Folders of parts that were done with before have their permissions and times all the same.
    assert_eq!(contents(&dest), contents(source.path()));
}

#[test]
fn nothing_is_removed_if_anything_of_an_earlier_part_failed() {
    let (source, dest) = (folder(), folder());
    tree(source.path());
    let dest = dest.path().join("d");
    write(dest.join("a/1/in the way"), b"");
    write(dest.join("c/extra"), b"");
    let report = copy_parts(source.path(), &dest, 4, &deleting());
    assert_eq!((report.failed.count(), report.removed.count(), report.removal_put_off), (1, 0, true));
    assert!(dest.join("c/extra").exists() && dest.join("c/8").exists());
}

#[test]
fn a_folder_that_cannot_be_made_fails_once_however_many_parts_it_is_in() {
    let (source, dest) = (folder(), folder());
    tree(source.path());
    let dest = dest.path().join("d");
    write(dest.join("a"), b"a file in the way");
    let report = copy_parts(source.path(), &dest, 2, &options());
    let mut failed: Vec<_> = report
        .failed
        .first
        .iter()
        .map(|failure| String::from_utf8_lossy(&failure.path).into_owned())
        .collect();
    failed.sort();
    assert_eq!(failed, ["a", "a/1", "a/2", "a/in", "a/in/3", "a/in/4", "a/in/5"]);
    assert!(dest.join("c/8").exists());
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let entry = |path: &str, kind| Entry { path: path.into(), kind, mode: 0o755, mtime: (0, 0) };
    let file = Kind::File { size: 0, extents: None, version: None };
    let seams = |continued: u32, goes_on: &[EntryIndex], has_more: bool| {
        let mut manifest = longhaul_proto::session::manifest::Manifest::of(vec![
            entry("d", Kind::Dir),
            entry("d/f", file.clone()),
        ]);
        (manifest.seams.continued, manifest.seams.has_more) = (continued, has_more);
        manifest.seams.goes_on = goes_on.to_vec();
        manifest.validate().is_ok()
    };
    assert!(seams(0, &[], false) && seams(1, &[0], true) && seams(0, &[], true));
    assert!(!seams(2, &[], false), "a file is in one part only");
    assert!(!seams(u32::MAX, &[], false) && !seams(0, &[7], true) && !seams(0, &[1], true));
    assert!(!seams(0, &[0], false), "nothing goes on after the last part");
}
