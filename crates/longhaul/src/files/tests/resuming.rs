//! What an interruption leaves is taken over, and never makes a wrong file.

use super::disk::{Disk, Weather};
use super::harness::*;
use super::recorder::alone;
use crate::files::Scan;
use crate::files::hash::group_hash;
use crate::files::journal::{Header, PartToken, Record, SealKey, Source, seal};
use crate::files::keeper::Pace;
use crate::files::names::{journal_name, part_name};
use crate::files::sealing::ours;
use fastrand::Rng;
use longhaul_proto::session::manifest::{FileVersion, Kind};
use longhaul_proto::session::message::FileOptions;
use proptest::prelude::*;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What tells the part files of these tests.
const TOKEN: PartToken = *b"a token!";

/// The version of the sources of these tests, which lie where none can be had.
const VERSION: FileVersion = [9; 16];

/// Where the journal of `name` is, and the part file that tests make.
fn leftovers(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let beside = |name: Vec<u8>| folder.join(std::ffi::OsStr::from_bytes(&name));
    (beside(journal_name(name.as_bytes())), beside(part_name(name.as_bytes(), TOKEN)))
}

/// The part file that a copy left.
fn part_in(folder: &Path) -> PathBuf {
    let names = fs::read_dir(folder).unwrap().map(|item| item.unwrap().path());
    names.into_iter().find(|path| path.to_string_lossy().ends_with("-part")).unwrap()
}

/// List a file that has a version.
fn versioned(source: &Path, version: FileVersion) -> Scan {
    let mut scan = scan_of(source);
    for entry in &mut scan.manifest.entries {
        if let Kind::File { version: listed, .. } = &mut entry.kind {
            *listed = Some(version);
        }
    }
    scan
}

/// Lay a file down as a copy does.
fn lay(path: &Path, bytes: &[u8]) {
    write(path, bytes);
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A journal that says that these groups of `bytes` were verified and are on the disk.
fn journal_of(source: &Source, bytes: &[u8], groups: &[u32], key: &SealKey) -> Vec<u8> {
    let header = Header::new(TOKEN, ours().owner);
    let mut journal = header.bytes().to_vec();
    let note = |record: Record, journal: &mut Vec<u8>| record.write(&header, journal.len() as u64, journal);
    note(Record::Source(*source), &mut journal);
    let count = bytes.len().div_ceil(MIB as usize) as u32;
    for &index in groups {
        let start = (u64::from(index) * MIB) as usize;
        let hash = group_hash(index, count, &bytes[start..bytes.len().min(start + MIB as usize)]);
        note(Record::Group { index, hash }, &mut journal);
    }
    let seal = seal(blake3::Hasher::new_keyed(key).update(&journal));
    note(Record::Synced { journal_len: journal.len() as u64, seal }, &mut journal);
    journal
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

#[test]
fn a_file_that_lands_small_leaves_nothing_of_its_larger_self() {
    let (source, dest) = (folder(), folder());
    let file = source.path().join("f");
    write(&file, random_bytes(5 * MIB, 1));
    interrupt(&file, dest.path(), Road { until: 0.6, ..Road::default() });
    assert!(leftovers(dest.path(), "f").0.exists());
    write(&file, b"small");
    copy(&file, dest.path(), Road::default());
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), b"small");
    assert_tidy(dest.path());
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
    let (journal, _) = leftovers(dest.path(), "f");
    let mut journal = fs::read(journal).unwrap();
    let part = fs::read(part_in(dest.path())).unwrap();
    // The same journal as of a part file whose name is known.
    journal = renamed(&journal);
    (source, bytes, journal, part)
}

/// A journal's records in one that names the tests' part file.
fn renamed(journal: &[u8]) -> Vec<u8> {
    let (from, to) = (Header::read(journal).unwrap(), Header::new(TOKEN, ours().owner));
    let mut renamed = to.bytes().to_vec();
    while let Some((record, _)) = Record::read(&from, renamed.len() as u64, &journal[renamed.len()..]) {
        record.write(&to, renamed.len() as u64, &mut renamed);
    }
    renamed
}

fn resume_with(source: &Path, journal: &[u8], part: &[u8]) -> (u64, Vec<u8>) {
    let dest = folder();
    let (journal_path, part_path) = leftovers(dest.path(), "f");
    lay(&journal_path, journal);
    lay(&part_path, part);
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

/// The journal calls groups verified that the part file has lost its end with. A disk that is full then takes a later group, which
/// makes the part file long again, and not the note of the loss.
#[test]
fn what_a_part_file_has_lost_is_not_believed_when_it_is_long_again_and_the_disk_was_full() {
    let bytes = random_bytes(3 * MIB + 4321, 9);
    for room in [0, 100, 4330, 4400, 5000, MIB] {
        let (source, dest, _) = left_behind(&bytes, VERSION, &ours().key);
        let scan = || versioned(&source.path().join("f"), VERSION);
        fs::File::options().write(true).open(leftovers(dest.path(), "f").1).unwrap().set_len(100).unwrap();
        let disk = Disk::install(dest.path(), 1);
        disk.set_weather(Weather { room, ..Weather::CALM });
        let full = copy_scan(scan(), dest.path(), Road { shuffled: true, ..Road::default() }, &options());
        assert_eq!(full.failed.count(), 1, "{room}");
        disk.set_weather(Weather::CALM);
        let report = copy_scan(scan(), dest.path(), Road::default(), &options());
        assert_eq!(report.failed.first, []);
        assert!(fs::read(dest.path().join("f")).unwrap() == bytes, "{room}");
    }
}

/// A part file and its journal, of which groups 0 to 2 were verified for this version and are on the disk; and a source.
fn left_behind(
    part: &[u8],
    version: FileVersion,
    key: &SealKey,
) -> (tempfile::TempDir, tempfile::TempDir, Vec<u8>) {
    let (source, dest) = (folder(), folder());
    let bytes = random_bytes(3 * MIB + 4321, 9);
    write(source.path().join("f"), &bytes);
    set_mtime(source.path().join("f"), 1000, 5);
    let scan = versioned(&source.path().join("f"), version);
    let (journal_path, part_path) = leftovers(dest.path(), "f");
    lay(&journal_path, &journal_of(&Source::new(&scan.manifest.entries[0]), part, &[0, 1, 2], key));
    lay(&part_path, part);
    (source, dest, bytes)
}

#[test]
fn groups_of_the_same_version_are_taken_as_they_are_unless_contents_are_to_be_compared() {
    let bytes = random_bytes(3 * MIB + 4321, 9);
    let (source, dest, _) = left_behind(&bytes, VERSION, &ours().key);
    let scan = versioned(&source.path().join("f"), VERSION);
    // Damage that only reading shows.
    let part = fs::File::options().write(true).open(leftovers(dest.path(), "f").1).unwrap();
    part.write_all_at(&[!bytes[100]], 100).unwrap();
    let plan = |options: &FileOptions| plan_of(&scan.manifest, dest.path(), options).unwrap();
    let believed = plan(&options());
    assert_eq!((believed.resumed_bytes, believed.claimed.iter().count()), (3 * MIB, 0));
    drop(believed);
    assert_eq!(plan(&FileOptions { checksum: true, ..options() }).resumed_bytes, 2 * MIB);
}

#[test]
fn what_another_version_left_is_sent_where_it_differs() {
    let mut old = random_bytes(3 * MIB + 4321, 9);
    old[MIB as usize + 7] ^= 1;
    let (source, dest, bytes) = left_behind(&old, [1; 16], &ours().key);
    let scan = versioned(&source.path().join("f"), VERSION);
    let report = copy_scan(scan, dest.path(), Road::default(), &options());
    assert_eq!((report.files_done, report.resumed_bytes), (1, 2 * MIB));
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    assert_tidy(dest.path());
}

#[test]
fn a_planted_journal_is_not_believed() {
    // Its groups hash to what the journal says, and to what the source has; the part file holds something else.
    let bytes = random_bytes(3 * MIB + 4321, 9);
    for version in [VERSION, [1; 16]] {
        let (source, dest, _) = left_behind(&bytes, version, &[5; 32]);
        lay(&leftovers(dest.path(), "f").1, &vec![0xbd; bytes.len()]);
        let scan = versioned(&source.path().join("f"), VERSION);
        let report = copy_scan(scan, dest.path(), Road::default(), &options());
        assert_eq!((report.files_done, report.resumed_bytes), (1, 0));
        assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    }
}

#[test]
fn another_file_of_the_same_size_and_time_is_no_mixture() {
    let (first, second, dest) = (folder(), folder(), folder());
    let bytes = random_bytes(5 * MIB, 2);
    write(first.path().join("f"), random_bytes(5 * MIB, 1));
    write(second.path().join("f"), &bytes);
    for source in [&first, &second] {
        set_mtime(source.path().join("f"), 1000, 0);
    }
    // Without versions all is claimed, and refused; a piece of a group is found out with the rest of it, and
    // nothing that is told of at the end.
    interrupt(&first.path().join("f"), dest.path(), Road { until: 0.6, ..Road::default() });
    let report = copy(&second.path().join("f"), dest.path(), Road::default());
    assert_eq!((report.files_done, report.resumed_bytes), (1, 0), "{report:?}");
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    fs::remove_file(dest.path().join("f")).unwrap();
    let [one, other] =
        [(&first, [1; 16]), (&second, [2; 16])].map(|(s, v)| versioned(&s.path().join("f"), v));
    let plan = plan_of(&one.manifest, dest.path(), &options()).unwrap();
    let mut trip = Trip::begin(one, plan, Road { until: 0.6, ..Road::default() });
    trip.run();
    drop(trip);
    let report = copy_scan(other, dest.path(), Road::default(), &options());
    assert_eq!((report.files_done, report.resumed_bytes), (1, 0));
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    assert_tidy(dest.path());
}

/// Of two files that go to one name in turn, the second is killed before it has noted anything.
#[test]
fn the_first_of_two_files_does_not_take_the_second_ones_data_for_its_own() {
    let (first, second, dest) = (folder(), folder(), folder());
    for (source, seed) in [(&first, 1), (&second, 2)] {
        write(source.path().join("f"), random_bytes(5 * MIB, seed));
    }
    let begin = |source: &Path, version, until, pace| {
        let scan = versioned(&source.join("f"), [version; 16]);
        let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
        Trip::begin(scan, plan, Road { until, pace, ..Road::default() })
    };
    let mut trip = begin(first.path(), 1, 0.9, Pace::default());
    trip.run();
    trip.sink.suspend();
    let mut trip =
        begin(second.path(), 2, 1.0, Pace { flush_every: Duration::from_secs(60), ..Pace::default() });
    let before = fs::read(part_in(dest.path())).unwrap();
    trip.run_until(|| fs::read(part_in(dest.path())).unwrap() != before);
    let killed = folder();
    snapshot(dest.path(), killed.path());
    drop(trip);
    copy_scan(versioned(&first.path().join("f"), [1; 16]), killed.path(), Road::default(), &options());
    assert!(fs::read(killed.path().join("f")).unwrap() == fs::read(first.path().join("f")).unwrap());
}

#[test]
fn a_file_that_grew_goes_on_with_what_it_had() {
    let (source, dest) = (folder(), folder());
    let bytes = random_bytes(8 * MIB + 5, 1);
    write(source.path().join("f"), &bytes[..5 * MIB as usize]);
    interrupt(&source.path().join("f"), dest.path(), Road { until: 0.7, ..Road::default() });
    write(source.path().join("f"), &bytes);
    let report = copy(&source.path().join("f"), dest.path(), Road::default());
    assert!(report.resumed_bytes >= 3 * MIB, "{report:?}");
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    assert_tidy(dest.path());
}

/// What came of it before would stay where the holes are now, and nothing is sent or hashed of holes.
#[test]
fn a_file_that_got_holes_has_nothing_of_its_former_self_in_them() {
    let (source, dest) = (folder(), folder());
    let (file, bytes) = (source.path().join("f"), random_bytes(8 * MIB, 1));
    let holes_from = |start: u64, before: Option<u64>| {
        let made = fs::File::create(&file).unwrap();
        made.set_len(8 * MIB).unwrap();
        made.write_all_at(&bytes[..start as usize], 0).unwrap();
        made.write_all_at(&bytes[7 * MIB as usize..], 7 * MIB).unwrap();
        before.into_iter().for_each(|at| made.write_all_at(&bytes[..MIB as usize], at).unwrap());
    };
    // Without holes, with a few, with those that it had before, with more.
    write(&file, &bytes);
    for (start, before) in [(4, None), (2, Some(5)), (4, None), (2, None)] {
        interrupt(&file, dest.path(), Road { until: 0.9, ..Road::default() });
        holes_from(start * MIB, before.map(|at| at * MIB));
    }
    let report = copy(&file, dest.path(), Road::default());
    assert_eq!(report.files_done, 1);
    assert!(fs::read(dest.path().join("f")).unwrap() == fs::read(&file).unwrap());
    assert_tidy(dest.path());
}

#[test]
fn two_copies_to_one_name_do_not_meet() {
    let (first, second, dest) = (folder(), folder(), folder());
    for (source, seed) in [(&first, 1), (&second, 2)] {
        write(source.path().join("f"), random_bytes(3 * MIB, seed));
    }
    let begin = |source: &Path| {
        let scan = scan_of(&source.join("f"));
        let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
        Trip::begin(scan, plan, Road { until: 0.7, ..Road::default() })
    };
    // The second one planned before there was anything to see, and another after.
    let (mut early, mut late) = (begin(first.path()), begin(second.path()));
    early.run();
    // What has come in is stored, and the journal begun.
    early.sink.object_complete();
    while !fs::read_dir(dest.path())
        .unwrap()
        .any(|item| item.unwrap().path().to_string_lossy().ends_with("-part"))
    {
        early.bell.wait();
    }
    late.finish();
    assert!(late.failures[0].contains("another copy writes this file"), "{:?}", late.failures);
    let scan = scan_of(&second.path().join("f"));
    let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
    assert!(plan.failures[0].reason.line.contains("another copy writes this file"), "{:?}", plan.failures);
    early.finish();
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), random_bytes(3 * MIB, 1));
    drop((early, late));
    assert_tidy(dest.path());
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
fn a_journal_without_its_part_file_starts_over() {
    let (source, bytes, journal, _) = stopped();
    let dest = folder();
    lay(&leftovers(dest.path(), "f").0, &journal);
    let report = copy(&source.path().join("f"), dest.path(), Road::default());
    assert_eq!((report.resumed_bytes, report.files_done), (0, 1));
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), bytes);
    assert_tidy(dest.path());
}

#[test]
fn without_resume_leftovers_are_not_looked_at() {
    let (source, bytes, journal, part) = stopped();
    let dest = folder();
    let (journal_path, part_path) = leftovers(dest.path(), "f");
    lay(&journal_path, &journal);
    lay(&part_path, &part);
    let afresh = FileOptions { resume: false, ..options() };
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &afresh);
    assert_eq!((report.resumed_bytes, report.files_done), (0, 1));
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), bytes);
    assert_tidy(dest.path());
}

/// A disk that was pulled out and put in again while the host ran on lacks what memory had of it.
#[test]
fn what_another_mount_had_in_memory_is_not_believed_to_be_there() {
    alone(|| {
        let (source, disk, dest) = (folder(), folder(), folder());
        let (file, bytes) = (source.path().join("f"), random_bytes(5 * MIB, 1));
        write(&file, &bytes);
        mount_bind(disk.path(), dest.path()).unwrap();
        interrupt(&file, dest.path(), Road { until: 0.9, ..Road::default() });
        unmount(dest.path(), UnmountFlags::DETACH).unwrap();
        let part = fs::File::options().write(true).open(part_in(disk.path())).unwrap();
        part.write_all_at(&vec![0; MIB as usize], 2 * MIB).unwrap();
        mount_bind(disk.path(), dest.path()).unwrap();
        let report = copy(&file, dest.path(), Road::default());
        let found = fs::read(dest.path().join("f")).unwrap();
        unmount(dest.path(), UnmountFlags::DETACH).unwrap();
        assert!(found == bytes);
        assert!((2 * MIB..4 * MIB).contains(&report.resumed_bytes), "{report:?}");
    });
}

#[test]
fn many_stopped_files_go_on() {
    let (source, dest) = (folder(), folder());
    // More than the sink keeps open at a time.
    for n in 0..100 {
        write(source.path().join(format!("d/f{n}")), random_bytes(MIB + 1 + n * 7, n));
    }
    let road = Road {
        packet_len: 8900,
        until: 0.7,
        shuffled: true,
        sink_memory: 4 << 20,
        // Room for all of them: in this order each block would be read a hundred times.
        reader_cache: 256 << 20,
        ..Road::default()
    };
    let first = interrupt(&inside(source.path()), dest.path(), road);
    let report = copy(&inside(source.path()), dest.path(), Road::default());
    assert!(report.resumed_bytes * 10 > first * 7, "{} of {first}", report.resumed_bytes);
    assert_eq!(contents(source.path()), contents(dest.path()));
}
