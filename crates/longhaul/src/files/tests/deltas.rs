//! What the file in place has in common with the one that is to come is taken over.

use super::harness::*;
use super::recorder::{BTRFS, EXT4, Recorder, XFS, alone};
use longhaul_proto::session::manifest::Kind;
use longhaul_proto::session::message::{Delta, FileOptions, Fsync};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn always() -> FileOptions {
    FileOptions { delta: Delta::Always, ..options() }
}

fn checksum() -> FileOptions {
    FileOptions { checksum: true, ..options() }
}

/// A file that was copied, and was then changed at these places.
fn changed(len: u64, at: &[u64]) -> (tempfile::TempDir, tempfile::TempDir, Vec<u8>) {
    let dest = folder();
    let (source, bytes) = changed_since(dest.path(), len, at);
    (source, dest, bytes)
}

/// The same, copied to that folder.
fn changed_since(dest: &Path, len: u64, at: &[u64]) -> (tempfile::TempDir, Vec<u8>) {
    let source = folder();
    let mut bytes = random_bytes(len, 1);
    write(dest.join("f"), &bytes);
    set_mtime(dest.join("f"), 1000, 0);
    at.iter().for_each(|at| bytes[*at as usize] ^= 1);
    write(source.path().join("f"), &bytes);
    (source, bytes)
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
}

#[test]
fn only_groups_that_changed_are_sent() {
    let (source, dest, bytes) = changed(10 * MIB + 5, &[5, 4 * MIB + 9, 10 * MIB + 1]);
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &always());
    assert_eq!((report.files_done, report.delta_bytes, report.resumed_bytes), (1, 8 * MIB, 0));
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    assert_tidy(dest.path());
}

/// What is taken over is written again only where the file system cannot share blocks.
#[test]
fn what_is_taken_over_shares_the_blocks_of_the_file_in_place() {
    alone(|| {
        for (format, shares) in [(BTRFS, true), (XFS, true), (EXT4, false)] {
            let Some(disk) = Recorder::new(format) else { continue };
            let (source, bytes) = changed_since(&disk.top(), 20 * MIB, &[5, 9 * MIB]);
            disk.sync();
            let begun = disk.now();
            let options = FileOptions { fsync: Fsync::Always, ..always() };
            let report = copy_with(&source.path().join("f"), &disk.top(), Road::default(), &options);
            disk.sync();
            assert_eq!((report.files_done, report.delta_bytes), (1, 18 * MIB), "{}", format.name);
            assert!(fs::read(disk.top().join("f")).unwrap() == bytes);
            let written = disk.bytes_since(begun);
            println!("{}: {written} bytes written", format.name);
            // Two groups, and tables.
            assert_eq!(written < 5 * MIB, shares, "{}: {written}", format.name);
        }
    });
}

#[test]
fn a_longer_and_a_shorter_file_take_over_what_is_at_the_same_place() {
    for (there, here, equal) in [(3 * MIB + 5, 6 * MIB + 5, 3), (6 * MIB, 3 * MIB + 5, 4), (7, 2 * MIB, 0)] {
        let (source, dest) = (folder(), folder());
        let bytes = random_bytes(there.max(here), 3);
        write(dest.path().join("f"), &bytes[..there as usize]);
        write(source.path().join("f"), &bytes[..here as usize]);
        let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &always());
        let equal = (equal * MIB).min(here);
        assert_eq!((report.files_done, report.delta_bytes), (1, equal), "{there} {here}");
        assert!(fs::read(dest.path().join("f")).unwrap() == bytes[..here as usize]);
        assert_tidy(dest.path());
    }
}

#[test]
fn what_is_equal_as_a_whole_stays_and_is_touched_no_more_than_it_must() {
    for (len, options) in [(0, checksum()), (77, checksum()), (5 * MIB, checksum()), (5 * MIB, always())] {
        let (source, dest, bytes) = changed(len, &[]);
        let before = inode(&dest.path().join("f"));
        let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &options);
        assert_eq!((report.files_done, report.files_skipped), (0, 1), "{len}");
        assert_eq!((report.skipped_bytes, report.compared_bytes, report.delta_bytes), (len, len, 0));
        assert_eq!(inode(&dest.path().join("f")), before);
        assert_eq!(contents(source.path())[Path::new("f")], contents(dest.path())[Path::new("f")]);
        assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    }
}

#[test]
fn data_where_the_source_has_a_hole_is_a_difference() {
    let (source, dest) = (folder(), folder());
    let file = fs::File::create(source.path().join("f")).unwrap();
    file.set_len(8 * MIB).unwrap();
    let data = random_bytes(3 * MIB, 4);
    file.write_all_at(&data, 2 * MIB).unwrap();
    let mut there = vec![0; 8 * MIB as usize];
    there[2 * MIB as usize..5 * MIB as usize].copy_from_slice(&data);
    write(dest.path().join("f"), &there);
    assert_eq!(copy_with(&source.path().join("f"), dest.path(), Road::default(), &checksum()).files_done, 0);
    there[7 * MIB as usize] = 1;
    write(dest.path().join("f"), &there);
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &checksum());
    assert_eq!((report.files_done, report.delta_bytes), (1, 3 * MIB), "{report:?}");
    assert!(fs::read(dest.path().join("f")).unwrap() == fs::read(source.path().join("f")).unwrap());
}

/// It is long, and has one group, which is equal: there is no part file that would take it over.
#[test]
fn data_in_a_hole_of_a_file_of_one_group_is_a_difference() {
    let (source, dest) = (folder(), folder());
    let data = random_bytes(600_000, 4);
    for top in [&source, &dest] {
        let file = fs::File::create(top.path().join("f")).unwrap();
        file.set_len(20 * MIB).unwrap();
        file.write_all_at(&data, 2 * MIB).unwrap();
    }
    let there = fs::File::options().write(true).open(dest.path().join("f")).unwrap();
    there.write_all_at(b"left", 9 * MIB).unwrap();
    set_mtime(dest.path().join("f"), 1000, 0);
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &checksum());
    assert_eq!((report.files_done, report.failed.first.len()), (1, 0), "{report:?}");
    assert!(fs::read(dest.path().join("f")).unwrap() == fs::read(source.path().join("f")).unwrap());
    assert_tidy(dest.path());
}

/// Whoever may write here could otherwise have each group of a file of 2^50 bytes looked at, and kept in memory.
#[test]
fn of_a_file_that_is_one_hole_little_is_claimed() {
    let (source, dest) = (folder(), folder());
    write(source.path().join("f"), b"small");
    let hole = fs::File::create(dest.path().join("f")).unwrap();
    let mut scan = scan_of(&source.path().join("f"));
    for (size, claimed) in [(8 << 20, 8 << 20), (1 << 30, 8 << 20)] {
        hole.set_len(size).unwrap();
        set_mtime(dest.path().join("f"), 1000, 0);
        scan.manifest.entries[0].kind = Kind::File { size, extents: None, version: None };
        let plan = plan_of(&scan.manifest, dest.path(), &always()).unwrap();
        let bytes: u64 = plan.claimed.iter().map(|range| range.end - range.start).sum();
        assert_eq!((bytes, plan.claimed.iter().count()), (claimed, 1));
    }
}

#[test]
fn a_file_in_place_of_which_only_the_first_groups_were_looked_at_does_not_stay() {
    let (source, dest) = (folder(), folder());
    let mut bytes = vec![0; 12 << 20];
    bytes[10 << 20..].copy_from_slice(&random_bytes(2 << 20, 1));
    write(source.path().join("f"), &bytes);
    for options in [always(), checksum()] {
        let hole = fs::File::create(dest.path().join("f")).unwrap();
        hole.set_len(12 << 20).unwrap();
        set_mtime(dest.path().join("f"), 1000, 0);
        let report = copy_with(&inside(source.path()), dest.path(), Road::default(), &options);
        assert_eq!((report.files_done, report.files_skipped), (1, 0));
        assert_eq!(contents(source.path()), contents(dest.path()));
    }
}

#[test]
fn small_files_that_differ_are_sent_among_those_that_stay() {
    let (source, dest) = (folder(), folder());
    for n in 0..400 {
        let bytes = random_bytes(3000 + n, n);
        write(source.path().join(format!("f{n}")), &bytes);
        let mut there = bytes.clone();
        there[7] ^= u8::from(n % 3 == 0);
        write(dest.path().join(format!("f{n}")), &there);
    }
    let shuffled = Road { shuffled: true, sink_memory: 4 << 20, ..Road::default() };
    let report = copy_with(&inside(source.path()), dest.path(), shuffled, &checksum());
    assert_eq!((report.files_done, report.files_skipped), (134, 266));
    assert_eq!(contents(source.path()), contents(dest.path()));
}

#[test]
fn a_delta_that_was_stopped_goes_on_with_both() {
    let (source, dest, bytes) = changed(12 * MIB, &[3 * MIB + 1, 9 * MIB]);
    let scan = scan_of(&source.path().join("f"));
    let plan = plan_of(&scan.manifest, dest.path(), &always()).unwrap();
    let mut trip = Trip::begin(scan, plan, Road { until: 0.5, ..Road::default() });
    while trip.confirmed.iter().map(|range| range.end - range.start).sum::<u64>() < 10 * MIB {
        trip.pass_on_news();
        trip.bell.wait();
    }
    trip.sink.suspend();
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &always());
    assert_eq!(report.resumed_bytes + report.delta_bytes, 10 * MIB, "{report:?}");
    assert!(report.resumed_bytes > 0);
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    assert_tidy(dest.path());
}

/// As many groups in the part file as in the file in place, and none of them the same ones.
#[test]
fn a_short_file_in_place_helps_beside_a_part_file() {
    let (source, dest) = (folder(), folder());
    let bytes = random_bytes(6 * MIB, 5);
    write(source.path().join("f"), &bytes);
    let scan = scan_of(&source.path().join("f"));
    let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
    let mut trip = Trip::begin(scan, plan, Road { until: 0.0, ..Road::default() });
    // The end first.
    trip.to_send.reverse();
    let half = trip.to_send.len() / 2 + 2;
    trip.carry_some(half);
    trip.sink.suspend();
    write(dest.path().join("f"), &bytes[..3 * MIB as usize]);
    let report = copy_with(&source.path().join("f"), dest.path(), Road::default(), &always());
    assert_eq!((report.files_done, report.delta_bytes), (1, 3 * MIB), "{report:?}");
    assert!(report.resumed_bytes >= 3 * MIB, "{report:?}");
    assert!(fs::read(dest.path().join("f")).unwrap() == bytes);
    assert_tidy(dest.path());
}

#[test]
fn a_file_in_place_that_changes_while_it_is_compared_does_no_harm() {
    for seed in 0..8 {
        let (source, dest, bytes) = changed(9 * MIB, &[8 * MIB + 3]);
        let scan = scan_of(&source.path().join("f"));
        let plan = plan_of(&scan.manifest, dest.path(), &always()).unwrap();
        let mut trip = Trip::begin(scan, plan, Road { seed, ..Road::default() });
        let meddler = fs::File::options().write(true).open(dest.path().join("f")).unwrap();
        for n in 0..20 {
            trip.pass_on_news();
            meddler.write_all_at(&[n], (u64::from(n) * 397_003 + seed) % (8 * MIB)).unwrap();
        }
        trip.run();
        assert_eq!(trip.failures, Vec::<String>::new());
        assert!(fs::read(dest.path().join("f")).unwrap() == bytes, "{seed}");
    }
}
