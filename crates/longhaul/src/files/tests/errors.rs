//! What did not reach the disk is told once. Whoever is told sees to it that nobody believes it later.

use super::disk::{Call, Disk, Installed, Weather};
use super::harness::*;
use crate::files::part::Part;
use longhaul_proto::session::manifest::Kind;
use longhaul_proto::session::reason::{Cause, Reason};
use std::fs;

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
        write(source.path().join("f"), &random_bytes(5 * MIB, 1));
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
