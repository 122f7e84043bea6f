//! What did not reach the disk is told once. Whoever is told sees to it that nobody believes it later.

use super::disk::{Call, Disk, Installed, Weather};
use super::harness::*;
use crate::files::journal::Record;
use crate::files::log::Logs;
use crate::files::part::Part;
use crate::files::target::{Place, Target};
use longhaul_proto::session::manifest::{Entry, Kind, Layout, Manifest};
use longhaul_proto::session::message::{FileOptions, Fsync};
use longhaul_proto::session::reason::{Cause, Reason};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// A copy of a file of five groups, of which much has come.
struct Interrupted {
    source: tempfile::TempDir,
    dest: tempfile::TempDir,
    disk: Installed,
    trip: Option<Trip>,
}

impl Interrupted {
    fn new() -> Interrupted {
        let (source, dest) = (folder(), folder());
        write(source.path().join("f"), random_bytes(5 * MIB, 1));
        let disk = Disk::install(dest.path(), 1);
        let scan = scan_of(&inside(source.path()));
        let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
        let mut trip = Trip::begin(scan, plan, Road { until: 0.7, ..Road::default() });
        trip.run();
        trip.sink.object_complete();
        longhaul_testing::wait_until("it is stored", || {
            trip.pass_on_news();
            trip.sink.backlog().queued_bytes == 0
        });
        Interrupted { source, dest, disk, trip: Some(trip) }
    }

    /// Memory forgets what the disk lacks, and that it does. Then the same copy again.
    fn assert_ends_right(mut self) {
        self.trip = None;
        self.disk.set_weather(Weather::CALM);
        self.disk.forget_lost(true);
        let report = copy(&inside(self.source.path()), self.dest.path(), Road::default());
        assert_eq!((report.failed.first.len(), report.resumed_bytes), (0, 0), "nothing is left of it");
        let [from, to] = [&self.source, &self.dest].map(|top| fs::read(top.path().join("f")).unwrap());
        assert!(from == to, "it is what the source has");
    }
}

#[test]
fn what_one_look_was_told_is_lost_the_next_does_not_believe() {
    let mut interrupted = Interrupted::new();
    interrupted.trip = None;
    interrupted.disk.lose(MIB);
    let scan = scan_of(&inside(interrupted.source.path()));
    let told = plan_of(&scan.manifest, interrupted.dest.path(), &options()).unwrap();
    assert!(told.have.is_empty() && told.claimed.is_empty(), "{told:?}");
    drop(told);
    interrupted.assert_ends_right();
}

#[test]
fn a_file_that_fails_for_another_reason_is_asked_what_became_of_its_data() {
    let mut interrupted = Interrupted::new();
    interrupted.disk.lose(MIB);
    let gone = Reason::new(Cause::NotFound, "it is gone");
    let trip = interrupted.trip.as_mut().unwrap();
    let file = trip.layout.group_at(0).entry;
    trip.sink.source_failed(file, &gone);
    interrupted.assert_ends_right();
}

#[test]
fn a_journal_that_cannot_be_removed_is_not_believed_either() {
    for call in [Call::Name, Call::Change] {
        let interrupted = Interrupted::new();
        interrupted.disk.lose(MIB);
        interrupted.disk.set_weather(Weather { refuses: Some(call), ..Weather::CALM });
        interrupted.assert_ends_right();
    }
}

/// What is in place already is brought to the disk too, and it may turn out that it cannot be. The next run is not to take it for
/// the source's.
#[test]
fn what_is_in_place_and_did_not_reach_the_disk_is_copied_again() {
    let (source, dest) = (folder(), folder());
    write(source.path().join("f"), random_bytes(300_000, 1));
    set_mtime(source.path().join("f"), 1_000_000_000, 5);
    let disk = Disk::install(dest.path(), 1);
    let copy_with_fsync = |fsync| {
        copy_with(&inside(source.path()), dest.path(), Road::default(), &FileOptions { fsync, ..options() })
    };
    assert_eq!(copy_with_fsync(Fsync::Never).files_done, 1);
    disk.lose(MIB / 8);
    let report = copy_with_fsync(Fsync::Always);
    assert!(report.failed.first[0].reason.line.contains("cannot be brought to the disk") && !report.durable);
    let told = fs::metadata(dest.path().join("f")).unwrap().modified().unwrap();
    disk.forget_lost(true);
    fs::File::open(dest.path().join("f")).unwrap().set_modified(told).unwrap();
    let report = copy_with_fsync(Fsync::Always);
    assert!(report.durable && report.files_done == 1, "{report:?}");
    let [from, to] = [&source, &dest].map(|top| fs::read(top.path().join("f")).unwrap());
    assert!(from == to);
}

#[test]
fn a_long_file_of_little_data_reaches_the_disk_before_it_has_its_name() {
    let (source, dest) = (folder(), folder());
    let file = fs::File::create(source.path().join("f")).unwrap();
    file.set_len(9 * MIB).unwrap();
    file.write_all_at(&random_bytes(300_000, 1), 5 * MIB).unwrap();
    let disk = Disk::install(dest.path(), 1);
    let report = copy(&inside(source.path()), dest.path(), Road::default());
    assert!(report.files_done == 1 && disk.is_clean(MIB), "{report:?}");
}

/// Small files wait for their hashes in a file without a name, and are read back from it.
#[test]
fn what_a_small_file_is_read_back_as_is_what_was_verified() {
    let (source, dest) = (folder(), folder());
    let bytes = random_bytes(100_000, 1);
    write(source.path().join("f"), &bytes);
    let scan = scan_of(&source.path().join("f"));
    let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    while !trip.to_send.is_empty() {
        trip.carry();
    }
    let waiting = loop {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|open| open.path());
        let mut unnamed = open.filter(|open| fs::read_link(open).is_ok_and(|to| to.starts_with(dest.path())));
        let written = unnamed.find(|open| fs::metadata(open).is_ok_and(|file| file.len() == 100_000));
        if let Some(written) = written {
            break fs::File::options().write(true).open(written).unwrap();
        }
        thread::yield_now();
    };
    waiting.write_all_at(&[bytes[5] ^ 1], 5).unwrap();
    trip.finish();
    assert_eq!((trip.bad, trip.sink.suspend().files_done), (1, 1));
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
}

/// A large file may be brought to the disk for long before it gets its name. It is lost in one moment only: when all of it is on
/// the disk, and it has its permissions and not yet its name.
#[test]
fn a_kill_at_any_call_of_the_end_of_a_copy_leaves_its_file_or_all_that_came() {
    let source = folder();
    let file = source.path().join("f");
    write(&file, random_bytes(3 * MIB, 1));
    for last in 1.. {
        let dest = folder();
        let disk = Disk::install(dest.path(), last);
        let part_of_it = scan_of(&file);
        let plan = plan_of(&part_of_it.manifest, dest.path(), &options()).unwrap();
        let mut trip = Trip::begin(part_of_it, plan, Road { until: 0.9, ..Road::default() });
        trip.run();
        trip.sink.suspend();
        disk.set_weather(Weather { last, ..Weather::CALM });
        copy(&file, dest.path(), Road::default());
        let (is_over, is_clean) = (!disk.is_down(), disk.is_clean(MIB));
        disk.set_weather(Weather::CALM);
        let again = copy(&file, dest.path(), Road::default());
        let kept = again.resumed_bytes + again.skipped_bytes;
        assert!(kept >= 5 * MIB / 2 || is_clean, "killed at call {last}: {kept} bytes kept");
        assert!(fs::read(dest.path().join("f")).unwrap() == fs::read(&file).unwrap());
        if is_over {
            return;
        }
    }
}

/// Files of three groups that go to a folder.
fn target_of(files: u32, dest: &Path) -> Target {
    let kind = Kind::File { size: 3 * MIB, extents: None, version: None };
    let entry =
        |n: u32| Entry { path: format!("{n:02}").into(), kind: kind.clone(), mode: 0o644, mtime: (1, 0) };
    let manifest = Manifest::of((0..files).map(entry).collect());
    let layout = Arc::new(Layout::new(&manifest));
    let place = Place { top: Some(Arc::new(fs::File::open(dest).unwrap().into())), ..Place::default() };
    Target::new(Arc::new(manifest), layout, place, HashMap::new())
}

/// A part file that is closed for want of descriptors tells of its data then, and nobody else is told.
#[test]
fn who_notes_what_is_on_the_disk_hears_what_was_told_when_a_file_was_closed() {
    let dest = folder();
    let disk = Disk::install(dest.path(), 1);
    let (target, logs) = (target_of(70, dest.path()), Logs::default());
    let open = |entry| target.part(entry, || target.create_part(entry)).unwrap();
    logs.begin(&target, 0, target.token(0)).unwrap();
    open(0).write(0, &random_bytes(2 * MIB, 1)).unwrap();
    logs.note(0, Record::Range(0..2 * MIB));
    disk.lose(MIB);
    (1..70).for_each(|entry| drop(open(entry)));
    let failed = RefCell::new(vec![]);
    logs.sync(&target, |entry, _| failed.borrow_mut().push(entry));
    assert_eq!(failed.into_inner(), [0]);
    assert!(target.create_journal(0).is_ok(), "nothing is left of what it said");
}

/// The thread that was told fails the file and closes it, while another one, for which all of it had come, is about to put it in
/// place. That one opens it again where the disk would not remove it, and the system tells nobody a second time.
#[test]
fn a_file_of_which_some_got_lost_is_not_opened_again_and_put_in_place() {
    let dest = folder();
    let disk = Disk::install(dest.path(), 1);
    let target = target_of(1, dest.path());
    let part = target.part(0, || target.create_part(0)).unwrap();
    part.write(0, &random_bytes(3 * MIB, 1)).unwrap();
    disk.lose(MIB);
    assert!(part.sync_data().is_err(), "the system says it once");
    assert!(target.parts.close(0).is_err(), "nor is it all on its way to the disk");
    assert!(target.parts.close(0).is_err(), "whoever fails it next keeps nothing of it either");
    assert!(target.part(0, || target.reopen_part(0)).is_err());
    assert!(
        target.parts.ask_closed(0).is_err() && target.parts.ask_closed(0).is_err(),
        "however often it is asked for"
    );
}

/// As some network file systems have it, where no file is its maker's.
#[test]
fn a_part_file_that_seems_to_be_anothers_is_opened_again_by_who_made_it() {
    let dest = folder();
    let target = target_of(1, dest.path());
    let part = target.part(0, || target.create_part(0)).unwrap();
    part.file.set_permissions(Permissions::from_mode(0o644)).unwrap();
    assert!(target.reopen_part(0).is_err(), "it was not closed");
    target.parts.close(0).unwrap();
    assert!(target.reopen_part(0).is_ok());
    let path = fs::read_dir(dest.path()).unwrap().next().unwrap().unwrap().path();
    fs::rename(&path, dest.path().join("moved")).unwrap();
    fs::write(&path, b"another").unwrap();
    assert!(target.reopen_part(0).is_err(), "it is another one");
}

/// A marker in the journal must not speak of what one thread knows to be lost while another only asks for its own part.
#[test]
fn what_one_thread_was_told_is_told_to_the_one_who_notes_what_is_on_the_disk() {
    let dest = folder();
    write(dest.path().join("f"), b"");
    let disk = Disk::install(dest.path(), 1);
    let file = fs::File::options().read(true).write(true).open(dest.path().join("f")).unwrap();
    let part = Part::new(file, &Kind::File { size: 2 * MIB, extents: None, version: None });
    part.write(0, &random_bytes(2 * MIB, 1)).unwrap();
    assert!(part.sync_data().is_ok());
    part.write(0, &random_bytes(2 * MIB, 2)).unwrap();
    disk.lose(MIB);
    assert!(part.ask().is_err(), "the system says it once");
    assert!(part.sync_data().is_err());
}
