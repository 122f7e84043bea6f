//! Group hashes: subtrees of a file's own BLAKE3 tree, from which its root follows.

use super::extents::DataMap;
use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use longhaul_proto::session::manifest::{GROUP_LEN, Kind};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The hash of group `index` of a file of `count` groups: its chaining value, or the ordinary BLAKE3 hash where it is
/// the only one.
pub(super) fn group_hash(index: u32, count: u32, data: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new();
    if count <= 1 {
        return *hasher.update(data).finalize().as_bytes();
    }
    hasher.set_input_offset(u64::from(index) * GROUP_LEN);
    hasher.update(data).finalize_non_root()
}

/// The BLAKE3 hash of a file whose groups hash to these.
pub(super) fn file_hash(groups: &[[u8; 32]]) -> [u8; 32] {
    match groups {
        [] => *blake3::hash(b"").as_bytes(),
        [only] => *only,
        _ => {
            let (left, right) = groups.split_at(left_len(groups.len()));
            *merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).as_bytes()
        }
    }
}

fn subtree(groups: &[[u8; 32]]) -> ChainingValue {
    match groups {
        [only] => *only,
        _ => {
            let (left, right) = groups.split_at(left_len(groups.len()));
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// The left subtree takes the largest power of two that leaves something for the right one (BLAKE3 §2.1).
fn left_len(count: usize) -> usize {
    1 << (count - 1).ilog2()
}

/// The BLAKE3 hash of a file's data as it is on disk. Ends early when `stop` is set: large files take minutes.
pub(super) fn hash_of_file(file: &File, kind: &Kind, stop: &AtomicBool) -> io::Result<[u8; 32]> {
    let map = DataMap::new(kind);
    let len = kind.data_len();
    let mut buf = vec![0; GROUP_LEN.min(len) as usize];
    let mut hasher = Hasher::new();
    let mut at = 0;
    while at < len {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let piece = &mut buf[..GROUP_LEN.min(len - at) as usize];
        map.read(file, at, piece)?;
        hasher.update(piece);
        at += piece.len() as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through_groups(data: &[u8]) -> [u8; 32] {
        let pieces: Vec<&[u8]> = data.chunks(GROUP_LEN as usize).collect();
        let hashes: Vec<_> =
            pieces.iter().enumerate().map(|(i, p)| group_hash(i as u32, pieces.len() as u32, p)).collect();
        file_hash(&hashes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn group_hashes_merge_to_the_hash_of_the_file(groups in 0u64..12, off in -2i64..1100, seed: u64) {
            let len = (groups * GROUP_LEN).saturating_add_signed(off) as usize;
            let mut data = vec![0; len];
            fastrand::Rng::with_seed(seed).fill(&mut data);
            prop_assert_eq!(through_groups(&data), *blake3::hash(&data).as_bytes());
        }
    }

    #[test]
    fn hashing_a_file_ends_when_it_is_told_to() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"abc").unwrap();
        let kind = Kind::File { size: 3, extents: None, hash: None };
        let hash = |stop| hash_of_file(&file, &kind, &AtomicBool::new(stop));
        assert_eq!(hash(false).unwrap(), *blake3::hash(b"abc").as_bytes());
        assert_eq!(hash(true).unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn every_small_number_of_groups_merges() {
        let data = vec![7; 17 * GROUP_LEN as usize + 1];
        for groups in 0..=17 {
            for len in [groups * GROUP_LEN as usize, groups * GROUP_LEN as usize + 1] {
                assert_eq!(through_groups(&data[..len]), *blake3::hash(&data[..len]).as_bytes(), "{len}");
            }
        }
    }
}
