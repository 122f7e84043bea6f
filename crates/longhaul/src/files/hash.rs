//! Group hashes: subtrees of a file's own BLAKE3 tree, from which its root follows.

use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use longhaul_proto::session::manifest::GROUP_LEN;

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

/// The hash of a file of several groups, from theirs in order.
#[derive(Debug, Default)]
pub(super) struct FileHash {
    /// Of what has been put together: subtrees, the largest first, each of a power of two of groups.
    subtrees: Vec<[u8; 32]>,
    groups: u64,
}

impl FileHash {
    /// The next group's hash.
    pub(super) fn push(&mut self, hash: [u8; 32]) {
        // The last one may not be merged before it is known not to be the last of all (BLAKE3 paper, section 5.1.2).
        self.merge_full();
        self.groups += 1;
        self.subtrees.push(hash);
    }

    /// As many subtrees as there are ones in the count of groups are to be left.
    fn merge_full(&mut self) {
        while self.subtrees.len() > self.groups.count_ones() as usize {
            self.merge();
        }
    }

    fn merge(&mut self) {
        let right = self.subtrees.pop().expect("there are two");
        let left = self.subtrees.pop().expect("there are two");
        self.subtrees.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
    }

    /// The file's hash. It has two groups at the least.
    pub(super) fn finish(mut self) -> [u8; 32] {
        while self.subtrees.len() > 2 {
            self.merge();
        }
        match self.subtrees[..] {
            [left, right] => *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes(),
            _ => [0; 32],
        }
    }
}

/// The hash of a stream, from its groups in order: how many there are shows only at its end, and so each is hashed as one of many.
#[derive(Debug, Default)]
pub(super) struct StreamHash {
    groups: FileHash,
    /// Of the first group as if it were all.
    first: Option<[u8; 32]>,
}

impl StreamHash {
    /// The next group, and its hash.
    pub(super) fn push(&mut self, data: &[u8], hash: [u8; 32]) {
        self.first.get_or_insert_with(|| group_hash(0, 1, data));
        self.groups.push(hash);
    }

    /// The stream's hash.
    pub(super) fn finish(self) -> [u8; 32] {
        match self.groups.groups {
            0 | 1 => self.first.unwrap_or_else(|| group_hash(0, 1, b"")),
            _ => self.groups.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_file_follows_from_those_of_its_groups() {
        for (groups, more) in [(2, 0), (2, 5), (3, 0), (4, 0), (5, 0), (5, 1), (7, 99), (8, 0), (13, 7)] {
            let len = groups * GROUP_LEN as usize + more;
            let data: Vec<u8> = (0..len).map(|at| (at >> 9) as u8 ^ at as u8).collect();
            let mut file = FileHash::default();
            for (index, group) in data.chunks(GROUP_LEN as usize).enumerate() {
                file.push(group_hash(index as u32, u32::MAX, group));
            }
            assert_eq!(file.finish(), *blake3::hash(&data).as_bytes(), "{groups} groups and {more} bytes");
        }
    }

    #[test]
    fn the_hash_of_a_stream_is_that_of_all_its_bytes() {
        for len in [0, 1, GROUP_LEN as usize, GROUP_LEN as usize + 1, 3 * GROUP_LEN as usize + 5] {
            let data: Vec<u8> = (0..len).map(|at| (at >> 9) as u8 ^ at as u8).collect();
            let mut stream = StreamHash::default();
            for (index, group) in data.chunks(GROUP_LEN as usize).enumerate() {
                stream.push(group, group_hash(index as u32, u32::MAX, group));
            }
            assert_eq!(stream.finish(), *blake3::hash(&data).as_bytes(), "{len} bytes");
        }
    }

    #[test]
    fn group_hashes_are_subtrees_of_the_hash_of_the_file() {
        let data = vec![7; GROUP_LEN as usize + 77];
        let (left, right) = data.split_at(GROUP_LEN as usize);
        let root = merge_subtrees_root(&group_hash(0, 2, left), &group_hash(1, 2, right), Mode::Hash);
        assert_eq!(root, blake3::hash(&data));
        assert_eq!(group_hash(0, 1, right), *blake3::hash(right).as_bytes());
    }

    #[test]
    fn equal_data_at_another_place_is_another_group() {
        assert_ne!(group_hash(0, 3, b"abc"), group_hash(1, 3, b"abc"));
    }
}
