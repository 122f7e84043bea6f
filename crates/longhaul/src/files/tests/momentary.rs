//! What lies at a destination for a moment: small files before they have their names, the journal of another copy.

use super::harness::*;
use crate::files::blocks::Blocks;
use crate::files::complete::Complete;
use crate::files::shared::Shared;
use crate::files::target::{Place, Target};
use crate::files::writer::Writer;
use crossbeam_channel::unbounded;
use longhaul_proto::session::manifest::{Entry, Kind, Layout, Manifest};
use longhaul_proto::session::message::{Fsync, Report};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A destination for a copy of files of these sizes, where a file without a name can be made or not.
fn target(top: &Path, files: &[(&str, u64)], names_needed: bool) -> Target {
    let entry = |(path, size): &(&str, u64)| {
        let kind = Kind::File { size: *size, extents: None, version: None };
        Entry { path: path.as_bytes().to_vec(), kind, mode: 0o600, mtime: (1, 0) }
    };
    let manifest = Manifest::of(files.iter().map(entry).collect());
    let layout = Layout::new(&manifest);
    let folder = Arc::new(fs::File::open(top).unwrap().into());
    let place = Place { top: Some(folder), ..Place::default() };
    let target = Target::new(Arc::new(manifest), Arc::new(layout), place, HashMap::new());
    target.names_needed.store(names_needed, Ordering::Relaxed);
    target
}

/// A small file of which all is there but its name.
fn waiting(target: &Target) -> Complete {
    target.complete_small(0, b"small").unwrap()
}

#[test]
fn a_small_file_that_waits_for_its_name_is_no_orphan() {
    let dest = folder();
    let target = target(dest.path(), &[("small", 5), ("large", 5 * MIB)], true);
    let complete = waiting(&target);
    // Looks for part files of killed copies in the folder.
    let _journal = target.create_journal(1).unwrap();
    target.put_in_place(&complete).unwrap();
    assert_eq!(fs::read(dest.path().join("small")).unwrap(), b"small");
}

#[test]
fn a_small_file_that_waits_for_its_name_is_no_part_file_of_another_copy() {
    let dest = folder();
    let complete_at = target(dest.path(), &[("f", 5)], true);
    let complete = waiting(&complete_at);
    let other = target(dest.path(), &[("f", 5 * MIB)], true);
    drop(other.create_journal(0).unwrap());
    // In place of the first journal, with all that went with it.
    let _journal = other.create_journal(0).unwrap();
    complete_at.put_in_place(&complete).unwrap();
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), b"small");
}

/// It would take the journal away that the other copy is about to lock, and both would fail.
#[test]
fn a_file_that_another_copy_writes_is_not_begun_again_by_the_second_writer() {
    let dest = folder();
    let [ours, other] = [(); 2].map(|()| target(dest.path(), &[("f", 3 * MIB)], false));
    let held = other.create_journal(0).unwrap();
    let (finisher, jobs) = unbounded();
    let blocks = Blocks::new(&ours.layout, 1);
    let talk = (unbounded().0, Arc::new(|| {}) as _, finisher);
    let aim = (0, false, Fsync::Auto);
    let shared = Arc::new(Shared::new(ours, blocks, Report::default(), aim, Default::default(), talk));
    let [first, second] = [(); 2].map(|()| Writer::new(shared.clone(), jobs.clone(), unbounded().0));
    assert!(first.part(0).is_err());
    drop(held);
    other.remove_journal(0).unwrap();
    assert!(second.part(0).is_err());
    assert_eq!(fs::read_dir(dest.path()).unwrap().count(), 0, "a journal");
    let failed = &shared.report().failed.first[0];
    assert!(failed.reason.line.contains("another copy writes this file"), "{}", failed.reason.line);
}
