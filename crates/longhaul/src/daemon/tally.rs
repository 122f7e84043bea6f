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
    files: HashMap<EntryIndex, HashMap<u32, [u8; 32]>>,
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
                self.files.entry(group.entry).or_default().insert(group.index, *hash);
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
        let known = self.files.remove(&entry)?;
        let groups = (0..count).map(|index| known.get(&index).copied()).collect::<Option<Vec<_>>>()?;
        match groups.as_slice() {
            [only] => Some(*only),
            groups => {
                let (left, right) = groups.split_at(left_len(groups.len()));
                Some(*merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).as_bytes())
            }
        }
    }

    /// Whether something of a file was hashed that has not been taken.
    pub fn has_begun(&self, entry: EntryIndex) -> bool {
        self.files.contains_key(&entry)
    }
}

/// The chaining value of groups that follow one another.
fn subtree(groups: &[[u8; 32]]) -> [u8; 32] {
    match groups {
        [only] => *only,
        groups => {
            let (left, right) = groups.split_at(left_len(groups.len()));
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// The left side of a node of BLAKE3's tree is as large a power of two as leaves something for the right.
fn left_len(count: usize) -> usize {
    count.next_power_of_two() / 2
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
            tally.note(&hashes);
            assert_eq!(tally.take(0), Some(*blake3::hash(&data).as_bytes()), "{groups} groups");
            assert!(!tally.has_begun(0));
        }
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
