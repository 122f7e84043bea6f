//! Group hashes: subtrees of a file's own BLAKE3 tree, from which its root follows.

use blake3::Hasher;
use blake3::hazmat::HasherExt;
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

#[cfg(test)]
mod tests {
    use super::*;
    use blake3::hazmat::{Mode, merge_subtrees_root};

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
