//! The reader gives the object's bytes, in any order and with little memory.

use super::harness::*;
use crate::files::Reader;
use crate::net::budget::Allowance;
use fastrand::Rng;
use longhaul_proto::endpoint::Source;
use longhaul_proto::session::manifest::{Layout, Ranges};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Files of these lengths, and the object they make.
fn object(top: &Path, lens: &[u64]) -> Vec<u8> {
    let mut object = Vec::new();
    for (n, len) in lens.iter().enumerate() {
        let bytes = random_bytes(*len, n as u64);
        write(top.join(format!("{n:04}")), &bytes);
        object.extend(bytes);
    }
    object
}

fn start(top: &Path, have: &Ranges, cache_len: usize) -> (Reader, Arc<Bell>, Arc<Layout>) {
    let scan = Arc::new(scan_of(&inside(top)));
    let layout = Arc::new(Layout::new(&scan.manifest));
    let bell = Arc::new(Bell::default());
    (
        Reader::with_cache(
            scan,
            layout.clone(),
            (have, &Ranges::new()),
            bell.wake(),
            (cache_len, Allowance::default()),
        )
        .unwrap(),
        bell,
        layout,
    )
}

fn read(reader: &mut Reader, bell: &Bell, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    let mut rings = 0;
    while reader.read_at(offset, &mut buf).is_err() {
        bell.wait();
        rings += 1;
        assert!(rings < 100, "nothing comes at {offset}");
    }
    buf
}

fn lens() -> impl Strategy<Value = Vec<u64>> {
    let len = prop_oneof![4 => 0u64..20_000, 1 => 0u64..3 * MIB, 1 => Just(MIB), 1 => Just(2 * MIB + 1)];
    prop::collection::vec(len, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn reads_anywhere_give_the_objects_bytes(lens in lens(), blocks in 1usize..50, seed: u64) {
        let top = folder();
        let object = object(top.path(), &lens);
        prop_assume!(!object.is_empty());
        let (mut reader, bell, layout) = start(top.path(), &Ranges::new(), blocks << 20);
        prop_assert_eq!(layout.object_len(), object.len() as u64);
        let mut rng = Rng::with_seed(seed);
        for _ in 0..300 {
            let at = rng.usize(..object.len());
            let len = rng.usize(1..9000).min(object.len() - at);
            prop_assert!(read(&mut reader, &bell, at as u64, len) == object[at..at + len]);
        }
    }

    #[test]
    fn what_the_receiver_has_is_neither_read_nor_hashed(lens in lens(), seed: u64) {
        let top = folder();
        let object = object(top.path(), &lens);
        prop_assume!(!object.is_empty());
        let mut rng = Rng::with_seed(seed);
        let mut have = Ranges::new();
        for _ in 0..rng.usize(0..6) {
            let at = rng.u64(..object.len() as u64);
            have.insert(at..(at + rng.u64(1..3 * MIB)).min(object.len() as u64));
        }
        let (mut reader, bell, layout) = start(top.path(), &have, 6 << 20);
        for gap in have.gaps(&(0..object.len() as u64)) {
            let piece = &object[gap.start as usize..gap.end as usize];
            prop_assert!(read(&mut reader, &bell, gap.start, piece.len().min(9000)) == piece[..piece.len().min(9000)]);
        }
        let needed = |range: &std::ops::Range<u64>| have.gaps(range).next().is_some();
        let groups: Vec<_> = layout.groups_in(0..layout.object_len()).map(|g| layout.group_range(g)).collect();
        let expected = groups.iter().filter(|range| needed(range)).count();
        // A transfer asks for something of every group that is needed.
        let mut hashes = Vec::new();
        for group in groups {
            read(&mut reader, &bell, group.start, 1);
            reader.poll_hashes(&mut hashes);
        }
        prop_assert!(hashes.iter().all(|hash| needed(&layout.group_range(hash.group))));
        prop_assert_eq!(hashes.len(), expected);
    }
}

#[test]
fn sweeps_over_what_left_the_cache_find_all() {
    let top = folder();
    let object = object(top.path(), &[20 * MIB + 17, 300_000, 5000, 9 * MIB]);
    for blocks in [4, 8, 24] {
        let (mut reader, bell, _) = start(top.path(), &Ranges::new(), blocks << 20);
        for stride in [1400, 700_000, 3_000_000] {
            for at in (0..object.len()).step_by(stride) {
                let len = 1400.min(object.len() - at);
                assert!(read(&mut reader, &bell, at as u64, len) == object[at..at + len], "{blocks} {at}");
            }
        }
        let mut hashes = Vec::new();
        reader.poll_hashes(&mut hashes);
        assert_eq!(hashes.len(), 21 + 1 + 1 + 9);
    }
}
