//! What an interruption leaves is taken over, and never makes a wrong file.

use super::harness::*;
use crate::files::journal::{Header, Record};
use crate::files::names::{journal_name, part_name};
use fastrand::Rng;
use longhaul_proto::session::message::FileOptions;
use proptest::prelude::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the journal and the part file of `name` are.
fn leftovers(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let beside = |name: Vec<u8>| folder.join(std::ffi::OsStr::from_bytes(&name));
    (beside(journal_name(name.as_bytes())), beside(part_name(name.as_bytes())))
}

/// Begin a copy of one file and stop it properly after a share of its packets.
fn interrupt(source: &Path, dest: &Path, road: Road) -> u64 {
    let scan = scan_of(source);
    let plan = plan_of(&scan.manifest, dest, &options()).unwrap();
    let all = plan.bytes_to_come;
    let until = road.until;
    let mut trip = Trip::begin(scan, plan, road);
    trip.run();
    trip.sink.suspend();
    (all as f64 * until) as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn a_copy_stopped_anywhere_goes_on_from_there(
        len in 1u64..9,
        off in -3i64..2000,
        until in 0.0f64..1.0,
        shuffled: bool,
        seed: u64,
    ) {
        let (source, dest) = (folder(), folder());
        let bytes = random_bytes((len * MIB).saturating_add_signed(off), seed);
        write(source.path().join("f"), &bytes);
        let road = Road { until, shuffled, seed, ..Road::default() };
        let arrived = interrupt(&source.path().join("f"), dest.path(), road);
        prop_assert!(!dest.path().join("f").exists());
        let report = copy(&source.path().join("f"), dest.path(), Road { shuffled, ..Road::default() });
        if bytes.len() as u64 > MIB && !shuffled {
            // All but the proof of groups that were not verified yet, and a packet.
            let lost = arrived.saturating_sub(report.resumed_bytes);
            prop_assert!(lost <= 1024 * (len + 1) + 1400, "{} of {} bytes lost", lost, arrived);
        }
        prop_assert_eq!(report.files_done, 1);
        prop_assert_eq!(fs::read(dest.path().join("f")).unwrap(), bytes);
        assert_tidy(dest.path());
    }
}

/// What a receiver that is killed leaves: a copy of a folder as it is at a moment, journals before part files.
fn snapshot(from: &Path, to: &Path) {
    for journals in [true, false] {
        for item in fs::read_dir(from).unwrap() {
            let name = item.unwrap().file_name();
            let (from, to) = (from.join(&name), to.join(&name));
            if name.as_bytes().ends_with(b"-journal") != journals || from.is_symlink() {
                continue;
            }
            if from.is_dir() {
                fs::create_dir(&to).unwrap();
                snapshot(&from, &to);
            } else {
                // It may have landed meanwhile.
                let _ = fs::copy(from, to);
            }
        }
    }
}

#[test]
fn nine_tenths_survive_a_kill() {
    for (seed, shuffled) in [(1, false), (2, true), (3, false), (4, true)] {
        let (source, dest) = (folder(), folder());
        let bytes = random_bytes(24 * MIB + 5, seed);
        write(source.path().join("f"), &bytes);
        let scan = scan_of(&source.path().join("f"));
        let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
        let until = 0.3 + 0.1 * seed as f64;
        let road = Road { seed, shuffled, until, ..Road::default() };
        let mut trip = Trip::begin(scan_of(&source.path().join("f")), plan, road);
        trip.run();
        let arrived = (bytes.len() as f64 * until * if shuffled { 0.85 } else { 1.0 }) as u64;
        // The keeper's clock goes on while the network is silent. A busy host may hold the writers and the keeper up.
        let mut looks = 0;
        let killed = loop {
            std::thread::sleep(Duration::from_millis(50));
            trip.pass_on_news();
            let killed = folder();
            snapshot(dest.path(), killed.path());
            looks += 1;
            let left = plan_of(&scan.manifest, killed.path(), &options()).unwrap();
            if looks == 40 || left.resumed_bytes * 10 >= arrived * 9 {
                break killed;
            }
        };
        drop(trip);
        let report = copy(&source.path().join("f"), killed.path(), Road::default());
        assert!(report.resumed_bytes * 10 >= arrived * 9, "{} of {arrived}", report.resumed_bytes);
        assert_eq!(fs::read(killed.path().join("f")).unwrap(), bytes);
        assert_tidy(killed.path());
    }
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_wrong() {
    let source = folder();
    grow(source.path(), &mut Rng::with_seed(5), 3);
    let dest = folder();
    let scan = scan_of(&inside(source.path()));
    let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
    let mut trip =
        Trip::begin(scan, plan, Road { shuffled: true, sink_memory: 4 << 20, until: 0.0, ..Road::default() });
    let step = trip.to_send.len() / 12 + 1;
    for _ in 0..12 {
        trip.carry_some(step);
        let killed = folder();
        snapshot(dest.path(), killed.path());
        let report = copy(&inside(source.path()), killed.path(), Road::default());
        assert_eq!(report.failed.first, []);
        assert_eq!(contents(source.path()), contents(killed.path()));
    }
}

/// A stopped copy of a file of three groups and a bit: its journal's bytes and its part file's.
fn stopped() -> (tempfile::TempDir, Vec<u8>, Vec<u8>, Vec<u8>) {
    let (source, dest) = (folder(), folder());
    let bytes = random_bytes(3 * MIB + 4321, 9);
    write(source.path().join("f"), &bytes);
    set_mtime(source.path().join("f"), 1000, 5);
    interrupt(
        &source.path().join("f"),
        dest.path(),
        Road { until: 0.8, packet_len: 8000, ..Road::default() },
    );
    let (journal, part) = leftovers(dest.path(), "f");
    (source, bytes, fs::read(journal).unwrap(), fs::read(part).unwrap())
}

fn resume_with(source: &Path, journal: &[u8], part: &[u8]) -> (u64, Vec<u8>) {
    let dest = folder();
    let (journal_path, part_path) = leftovers(dest.path(), "f");
    write(journal_path, journal);
    write(part_path, part);
    let report = copy(&source.join("f"), dest.path(), Road { packet_len: 64_000, ..Road::default() });
    assert_eq!(report.failed.first, []);
    assert_tidy(dest.path());
    (report.resumed_bytes, fs::read(dest.path().join("f")).unwrap())
}

#[test]
fn a_torn_journal_never_makes_a_wrong_file() {
    let (source, bytes, journal, part) = stopped();
    let mut kept = 0;
    for len in 0..=journal.len() {
        let (resumed, there) = resume_with(source.path(), &journal[..len], &part);
        assert!(there == bytes, "torn at {len}");
        assert!(resumed >= kept || resumed + 2048 >= kept, "torn at {len}: {resumed} after {kept}");
        kept = resumed;
    }
    assert!(kept > 2 * MIB);
}

#[test]
fn damage_to_journal_or_part_never_makes_a_wrong_file() {
    let (source, bytes, journal, part) = stopped();
    let mut rng = Rng::with_seed(3);
    for _ in 0..60 {
        let mut damaged = journal.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..damaged.len());
            damaged[at] ^= 1 << rng.u8(..8);
        }
        assert!(resume_with(source.path(), &damaged, &part).1 == bytes);
        // Nothing here was brought to the disk itself, so nothing is believed unseen.
        let mut damaged = part.clone();
        let at = rng.usize(..damaged.len());
        damaged[at] ^= 1 << rng.u8(..8);
        assert!(resume_with(source.path(), &journal, &damaged).1 == bytes);
        damaged.truncate(at);
        assert!(resume_with(source.path(), &journal, &damaged).1 == bytes);
    }
}

#[test]
fn what_reached_the_disk_is_believed_unless_contents_are_to_be_compared() {
    let (source, _, mut journal, mut part) = stopped();
    let scan = scan_of(&source.path().join("f"));
    let header = Header::new(&scan.manifest.entries[0]);
    let len = journal.len() as u64;
    Record::Synced { journal_len: len }.write(&header, len, &mut journal);
    part[100] ^= 1;
    let dest = folder();
    let (journal_path, part_path) = leftovers(dest.path(), "f");
    write(journal_path, &journal);
    write(part_path, &part);
    let believed = plan_of(&scan.manifest, dest.path(), &options()).unwrap().resumed_bytes;
    let read_again = FileOptions { checksum: true, ..options() };
    let checked = plan_of(&scan.manifest, dest.path(), &read_again).unwrap().resumed_bytes;
    assert_eq!(believed - checked, MIB);
}

#[test]
fn a_source_that_changed_starts_over() {
    let (source, _, journal, part) = stopped();
    let newer = random_bytes(3 * MIB + 4321, 10);
    write(source.path().join("f"), &newer);
    set_mtime(source.path().join("f"), 1000, 6);
    assert_eq!(resume_with(source.path(), &journal, &part), (0, newer));
}

#[test]
fn without_resume_leftovers_are_not_looked_at() {
    let (source, bytes, journal, part) = stopped();
    let dest = folder();
    let (journal_path, part_path) = leftovers(dest.path(), "f");
    write(&journal_path, &journal);
    write(&part_path, &part);
    let afresh = FileOptions { resume: false, ..options() };
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &afresh);
    assert_eq!((report.resumed_bytes, report.files_done), (0, 1));
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), bytes);
    assert_tidy(dest.path());
}

#[test]
fn many_stopped_files_go_on() {
    let (source, dest) = (folder(), folder());
    for n in 0..150 {
        write(source.path().join(format!("d/f{n}")), &random_bytes(MIB + 1 + n * 7, n));
    }
    let first = interrupt(
        &inside(source.path()),
        dest.path(),
        Road { until: 0.7, shuffled: true, sink_memory: 4 << 20, ..Road::default() },
    );
    let report = copy(&inside(source.path()), dest.path(), Road::default());
    assert!(report.resumed_bytes * 10 > first * 7, "{} of {first}", report.resumed_bytes);
    assert_eq!(contents(source.path()), contents(dest.path()));
}
