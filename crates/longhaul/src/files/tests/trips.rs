//! Everything arrives as it was, whatever the road is like.

use super::harness::*;
use crate::files::{Base, FileSink, Root, plan};
use fastrand::Rng;
use longhaul_proto::session::manifest::Layout;
use longhaul_proto::session::message::FileOptions;
use longhaul_proto::session::reason::Reason;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn road() -> impl Strategy<Value = Road> {
    let small = prop_oneof![Just(1usize << 20), Just(6 << 20), Just(64 << 20)];
    (prop_oneof![Just(1400u64), 900u64..9000], any::<u64>(), any::<bool>(), small.clone(), small).prop_map(
        |(packet_len, seed, shuffled, reader_cache, sink_memory)| {
            // Through a small cache a block is read anew for each packet that is out of order: fewer of them.
            let is_slow = shuffled && reader_cache < 64 << 20;
            let packet_len = if is_slow { packet_len * 7 } else { packet_len };
            Road { packet_len, seed, shuffled, reader_cache, sink_memory, ..Road::default() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn random_trees_arrive_as_they_were(seed: u64, large_files in 0usize..4, road in road()) {
        let (source, dest) = (folder(), folder());
        grow(source.path(), &mut Rng::with_seed(seed), large_files);
        let report = copy(&inside(source.path()), dest.path(), road.clone());
        prop_assert_eq!(&report.failed.first, &vec![]);
        prop_assert_eq!(contents(source.path()), contents(dest.path()));
        // Again: nothing is left to do.
        let again = copy(&inside(source.path()), dest.path(), road);
        prop_assert_eq!(again.files_done, 0);
        prop_assert_eq!(again.files_skipped, report.files_done);
        prop_assert_eq!(contents(source.path()), contents(dest.path()));
    }

    #[test]
    fn damaged_packets_are_found_and_sent_again(seed: u64, corrupt_every in 50u64..400, road in road()) {
        let (source, dest) = (folder(), folder());
        grow(source.path(), &mut Rng::with_seed(seed), 2);
        let scan = scan_of(&inside(source.path()));
        let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
        // Duplicates of a packet could arrive damaged and whole; that is no fault of the sink's.
        let mut trip = Trip::begin(scan, plan, Road { corrupt_every: Some(corrupt_every), shuffled: false, ..road });
        trip.run();
        prop_assert_eq!(trip.sink.report().failed.first, vec![]);
        prop_assert!(trip.bad > 0 || trip.damaged == 0, "{} {}", trip.bad, trip.damaged);
        prop_assert_eq!(contents(source.path()), contents(dest.path()));
        assert_tidy(dest.path());
    }
}

#[test]
fn holes_stay_holes() {
    let (source, dest) = (folder(), folder());
    let file = fs::File::create(source.path().join("f")).unwrap();
    file.set_len(100 * MIB).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &random_bytes(3 * MIB, 1), 50 * MIB + 5).unwrap();
    let scan = scan_of(&source.path().join("f"));
    let object_len = Layout::new(&scan.manifest).object_len();
    assert!((3 * MIB..5 * MIB).contains(&object_len), "{object_len}");
    copy(&source.path().join("f"), &dest.path().join("g"), Road::default());
    let there = fs::metadata(dest.path().join("g")).unwrap();
    assert_eq!(there.len(), 100 * MIB);
    assert!(there.blocks() * 512 < 6 * MIB);
    assert_eq!(fs::read(source.path().join("f")).unwrap(), fs::read(dest.path().join("g")).unwrap());
}

#[test]
fn many_small_files_land() {
    let (source, dest) = (folder(), folder());
    for n in 0..3000 {
        write(source.path().join(format!("d{}/f{n}", n % 7)), random_bytes(n % 40 * 211, n));
    }
    let report = copy(&inside(source.path()), dest.path(), Road { sink_memory: 4 << 20, ..Road::default() });
    assert_eq!((report.files_done, report.failed.count()), (3000, 0));
    assert_eq!(contents(source.path()), contents(dest.path()));
}

#[test]
fn a_file_that_changes_meanwhile_fails_alone() {
    let (source, dest) = (folder(), folder());
    for name in ["a", "b", "c"] {
        write(source.path().join(name), random_bytes(3 * MIB + 7, 5));
    }
    write(source.path().join("gone"), b"gone");
    write(source.path().join("shorter"), b"shorter");
    let scan = scan_of(&inside(source.path()));
    write(source.path().join("b"), random_bytes(3 * MIB + 7, 6));
    write(source.path().join("shorter"), b"short");
    fs::remove_file(source.path().join("gone")).unwrap();
    let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.run();
    let report = trip.sink.suspend();
    assert_eq!(report.files_done, 2);
    let mut failed: Vec<_> =
        report.failed.first.iter().map(|f| (f.path.as_slice(), f.reason.line.as_str())).collect();
    failed.sort();
    let changed = "at the source: changed while it was being copied; copy it again";
    let gone = "at the source: cannot be opened: no such file or folder";
    assert_eq!(failed, [(&b"b"[..], changed), (b"gone", gone), (b"shorter", changed)]);
    assert!(!dest.path().join("b").exists() && dest.path().join("c").exists());
}

#[test]
fn unwanted_hashes_and_packets_do_no_harm() {
    use longhaul_proto::endpoint::Sink;
    use longhaul_proto::session::{manifest::Group, message::GroupHash};
    let (source, dest) = (folder(), folder());
    write(source.path().join("f"), b"hello");
    let scan = scan_of(&inside(source.path()));
    let plan =
        plan(&Base::new(Root::ambient(), dest.path()), &scan.manifest, &options(), &AtomicBool::default())
            .unwrap();
    let layout = Arc::new(Layout::new(&scan.manifest));
    let bell = Arc::new(Bell::default());
    let mut sink = FileSink::start(plan, Arc::new(scan.manifest), layout, bell.wake()).unwrap();
    for group in [Group { entry: 9, index: 0 }, Group { entry: 1, index: 1 }, Group { entry: 0, index: 0 }] {
        sink.expect(GroupHash { group, hash: [1; 32] });
    }
    assert_eq!(sink.write_at(5, b"beyond"), Ok(()));
    assert_eq!(sink.write_at(u64::MAX - 3, b"far beyond"), Ok(()));
    assert_eq!(sink.write_at(3, b"lo and more"), Ok(()));
    sink.source_failed(77, &Reason::default());
    assert_eq!(sink.write_at(0, b"hel"), Ok(()));
    sink.expect(GroupHash { group: Group { entry: 1, index: 0 }, hash: *blake3::hash(b"hello").as_bytes() });
    while !sink.finished() {
        bell.wait();
        while sink.poll_event().is_some() {}
    }
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), b"hello");
}

#[test]
fn what_never_verifies_fails_in_the_end() {
    let (source, dest) = (folder(), folder());
    write(source.path().join("a"), random_bytes(2 * MIB, 1));
    write(source.path().join("b"), b"good");
    let scan = scan_of(&inside(source.path()));
    let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
    let mut trip = Trip::begin(scan, plan, Road { spoiled: Some(MIB + 7), ..Road::default() });
    trip.run();
    let report = trip.sink.suspend();
    assert_eq!((report.files_done, report.failed.count(), report.failed_bytes), (1, 1, 2 * MIB));
    assert!(report.failed.first[0].reason.line.starts_with("cannot be verified"), "{:?}", report.failed);
    assert!(!dest.path().join("a").exists());
}

#[test]
fn two_copies_of_one_file_do_not_mix() {
    let (source, dest) = (folder(), folder());
    let bytes = random_bytes(3 * MIB + 9, 1);
    write(source.path().join("f"), &bytes);
    let begin = |until| {
        let scan = scan_of(&source.path().join("f"));
        let plan = plan_of(&scan.manifest, dest.path(), &FileOptions { resume: false, ..options() }).unwrap();
        Trip::begin(scan, plan, Road { until, ..Road::default() })
    };
    let mut first = begin(0.9);
    first.run();
    let mut second = begin(0.8);
    second.run();
    // Whoever lost its part file says so; whatever lands is right.
    for trip in [&mut first, &mut second] {
        trip.finish();
        let report = trip.sink.report();
        for failure in &report.failed.first {
            let reason = &failure.reason.line;
            assert!(reason.contains("another copy") || reason.contains("no such file"), "{reason}");
        }
    }
    assert!(first.sink.report().files_done + second.sink.report().files_done >= 1);
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), bytes);
}
