//! The hashes of files, from those of their groups.

use blake3::Hasher;
use blake3::hazmat::{Mode, merge_subtrees_non_root, merge_subtrees_root};
use longhaul_proto::session::manifest::{EntryIndex, Layout, Manifest};
use longhaul_proto::session::message::GroupHash;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What is known of the files of one part of a copy.
pub(crate) struct Tally {
    manifest: Arc<Manifest>,
    layout: Arc<Layout>,
    /// Memory follows what was hashed, not how large files are said to be.
    files: HashMap<EntryIndex, Tree>,
    /// Files that failed: their hashes may still be coming.
    failed: HashSet<EntryIndex>,
    /// Entries by their paths, once one was looked for.
    by_path: OnceCell<Vec<EntryIndex>>,
}

impl Tally {
    pub fn new(manifest: Arc<Manifest>, layout: Arc<Layout>) -> Tally {
        Tally { manifest, layout, files: HashMap::new(), failed: HashSet::new(), by_path: OnceCell::new() }
    }

    /// What the session copies.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The entry of this path.
    pub fn find(&self, path: &[u8]) -> Option<EntryIndex> {
        let path_of = |entry: &EntryIndex| self.manifest.entries[*entry as usize].path.as_slice();
        let sorted = self.by_path.get_or_init(|| {
            let mut all: Vec<EntryIndex> = (0..self.manifest.entries.len() as EntryIndex).collect();
            all.sort_unstable_by(|a, b| path_of(a).cmp(path_of(b)));
            all
        });
        sorted.binary_search_by(|entry| path_of(entry).cmp(path)).ok().map(|at| sorted[at])
    }

    /// Groups were hashed.
    pub fn note(&mut self, hashes: &[GroupHash]) {
        for GroupHash { group, hash } in hashes {
            // The other side's word, so it may be nonsense.
            let is_there = (group.entry as usize) < self.manifest.entries.len()
                && !self.failed.contains(&group.entry)
                && group.index < self.layout.group_count(group.entry);
            if is_there {
                let count = self.layout.group_count(group.entry);
                self.files.entry(group.entry).or_default().grow(group.index, *hash, count);
            }
        }
    }

    /// A file has failed: nothing more is to be known of it.
    pub fn fail(&mut self, entry: EntryIndex) {
        self.files.remove(&entry);
        self.failed.insert(entry);
    }

    /// The hash of a file that has come to its end, if all of it was hashed.
    pub fn take(&mut self, entry: EntryIndex) -> Option<[u8; 32]> {
        let count = self.layout.group_count(entry);
        if count == 0 {
            return Some(*Hasher::new().finalize().as_bytes());
        }
        self.files.remove(&entry)?.root
    }

    /// Whether something of a file was hashed that has not been taken.
    pub fn has_begun(&self, entry: EntryIndex) -> bool {
        self.files.contains_key(&entry)
    }
}

/// What is known of BLAKE3's tree of a file: of what is known as a whole only the top. Its leaves are the file's groups, and each
/// node has two nodes of the level below, but for what is beyond the end: who has nothing on its right goes up as it is.
#[derive(Default)]
struct Tree {
    /// By level and number there.
    tops: HashMap<(u32, u32), [u8; 32]>,
    root: Option<[u8; 32]>,
}

impl Tree {
    /// One of `count` groups was hashed.
    fn grow(&mut self, group: u32, hash: [u8; 32], count: u32) {
        let (mut level, mut at, mut hash) = (0, group, hash);
        // What the level above has of the whole.
        while u64::from(count) > 1 << level {
            let beside = at ^ 1;
            if u64::from(beside) << level < u64::from(count) {
                let Some(other) = self.tops.remove(&(level, beside)) else {
                    self.tops.insert((level, at), hash);
                    return;
                };
                let (left, right) = if at < beside { (hash, other) } else { (other, hash) };
                let is_root = u64::from(count) <= 2 << level;
                let merge = if is_root { merge_root } else { merge_subtrees_non_root };
                hash = merge(&left, &right, Mode::Hash);
            }
            (level, at) = (level + 1, at / 2);
        }
        self.root = Some(hash);
    }
}

fn merge_root(left: &[u8; 32], right: &[u8; 32], mode: Mode<'_>) -> [u8; 32] {
    *merge_subtrees_root(left, right, mode).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blake3::hazmat::HasherExt;
    use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Group, Kind, Manifest};

    #[test]
    fn the_hash_of_a_file_follows_from_those_of_its_groups() {
        for groups in 1..=7u32 {
            let size = u64::from(groups) * GROUP_LEN - 1000;
            let data: Vec<u8> = (0..size).map(|n| (n / 997) as u8).collect();
            let kind = Kind::File { size, extents: None, version: None };
            let entry = Entry { path: b"f".to_vec(), mode: 0o644, mtime: (0, 0), kind };
            let manifest = Arc::new(Manifest::of(vec![entry]));
            let layout = Arc::new(Layout::new(&manifest));
            let hashes = (0..).zip(data.chunks(GROUP_LEN as usize)).map(|(index, part)| {
                let mut hasher = Hasher::new();
                let hash = if groups == 1 {
                    *hasher.update(part).finalize().as_bytes()
                } else {
                    hasher.set_input_offset(u64::from(index) * GROUP_LEN);
                    hasher.update(part).finalize_non_root()
                };
                GroupHash { group: Group { entry: 0, index }, hash }
            });
            let hashes: Vec<_> = hashes.collect();
            let mut tally = Tally::new(manifest.clone(), layout.clone());
            tally.note(&hashes[1..]);
            assert_eq!(tally.take(0), None, "not all is known");
            // In whatever order, and some of it twice.
            hashes.iter().rev().step_by(2).for_each(|hash| tally.note(&[*hash]));
            tally.note(&hashes);
            assert_eq!(tally.take(0), Some(*blake3::hash(&data).as_bytes()), "{groups} groups");
            assert!(!tally.has_begun(0));
        }
    }

    #[test]
    fn of_what_is_known_as_a_whole_one_hash_is_kept() {
        let mut tree = Tree::default();
        for group in 0..1 << 16 {
            tree.grow(group, [0; 32], (1 << 16) + 1);
            assert!(tree.tops.len() <= 16);
        }
        assert_eq!(tree.tops.len(), 1);
        tree.grow(1 << 16, [0; 32], (1 << 16) + 1);
        assert!(tree.tops.is_empty() && tree.root.is_some());
    }

    #[test]
    fn a_file_that_failed_is_not_under_way_again() {
        let kind = Kind::File { size: 2 * GROUP_LEN, extents: None, version: None };
        let manifest =
            Arc::new(Manifest::of(vec![Entry { path: b"f".to_vec(), mode: 0o644, mtime: (0, 0), kind }]));
        let mut tally = Tally::new(manifest.clone(), Arc::new(Layout::new(&manifest)));
        let hash = |index| [GroupHash { group: Group { entry: 0, index }, hash: [0; 32] }];
        tally.note(&hash(0));
        assert!(tally.has_begun(0));
        tally.fail(0);
        tally.note(&hash(1));
        assert!(!tally.has_begun(0));
    }

    #[test]
    fn hashes_of_what_is_not_there_are_not_kept() {
        let manifest = Arc::new(Manifest::default());
        let layout = Arc::new(Layout::new(&manifest));
        let mut tally = Tally::new(manifest, layout);
        tally.note(&[GroupHash { group: Group { entry: 3, index: 0 }, hash: [0; 32] }]);
        assert!(!tally.has_begun(3));
    }
}
