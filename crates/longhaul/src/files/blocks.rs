//! Blocks: what is read, received and written in one go.
//!
//! A block is a run of whole hash groups of at most [`GROUP_LEN`] bytes in all: one full group of a large file, or
//! the tail of one and the small files after it. Both sides cut the object the same way, but neither tells the
//! other.

use longhaul_proto::session::manifest::{GROUP_LEN, Layout};
use std::ops::Range;

/// Where each block of an object begins.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Object offset and number of the first block of each stretch, in which all blocks but the last are full; the
    /// last element is the object's end and the count of blocks.
    stretches: Vec<(u64, u64)>,
}

impl Blocks {
    pub(super) fn new(layout: &Layout, entries: usize) -> Blocks {
        let mut stretches = vec![(0, 0)];
        let mut block_start = 0;
        let mut close = |block_start: &mut u64, at: u64| {
            if at - *block_start < GROUP_LEN && at > *block_start {
                let (start, first) = stretches[stretches.len() - 1];
                stretches.push((at, first + (at - start).div_ceil(GROUP_LEN)));
            }
            *block_start = at;
        };
        let mut files = 0;
        for entry in 0..entries as u32 {
            let data = layout.entry_range(entry);
            let len = data.end - data.start;
            files += u32::from(len > 0);
            if data.start - block_start + len.min(GROUP_LEN) > GROUP_LEN || files > FILES_MAX {
                close(&mut block_start, data.start);
                files = 1;
            }
            if len > GROUP_LEN {
                block_start = data.start + (len - 1) / GROUP_LEN * GROUP_LEN;
            }
        }
        let (start, first) = stretches[stretches.len() - 1];
        let end = layout.object_len();
        stretches.push((end, first + (end - start).div_ceil(GROUP_LEN)));
        Blocks { stretches }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.stretches[self.stretches.len() - 1].1
    }

    /// The block that holds an object byte below the object's end.
    pub(super) fn at(&self, offset: u64) -> u64 {
        let stretch = self.stretches.partition_point(|(start, _)| *start <= offset) - 1;
        let (start, first) = self.stretches[stretch];
        first + (offset - start) / GROUP_LEN
    }

    /// The object range of a block that exists.
    pub(super) fn range(&self, block: u64) -> Range<u64> {
        let stretch = self.stretches.partition_point(|(_, first)| *first <= block) - 1;
        let (stretch_start, first) = self.stretches[stretch];
        let start = stretch_start + (block - first) * GROUP_LEN;
        start..(start + GROUP_LEN).min(self.stretches[stretch + 1].0)
    }

    /// The blocks that a range of object bytes touches.
    pub(super) fn touching(&self, range: &Range<u64>) -> Range<u64> {
        if range.is_empty() { 0..0 } else { self.at(range.start)..self.at(range.end - 1) + 1 }
    }
}

/// One bit for each block.
#[derive(Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(super) fn new(count: u64) -> Bits {
        Bits { words: vec![0; count.div_ceil(64) as usize] }
    }

    pub(super) fn get(&self, at: u64) -> bool {
        self.words[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, at: u64, on: bool) {
        let word = &mut self.words[(at / 64) as usize];
        *word = *word & !(1 << (at % 64)) | u64::from(on) << (at % 64);
    }
}

/// Files of a block: of tiny ones a block would hold very many, all of which are looked through again and again until the
/// last of them is in place.
const FILES_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::session::manifest::{Entry, Kind, Manifest};
    use proptest::prelude::*;

    fn layout(sizes: &[u64]) -> Layout {
        let file = |size: &u64| Entry {
            path: b"x".to_vec(),
            kind: Kind::File { size: *size, extents: None, version: None },
            mode: 0,
            mtime: (0, 0),
        };
        Layout::new(&Manifest::of(sizes.iter().map(file).collect()))
    }

    fn sizes() -> impl Strategy<Value = Vec<u64>> {
        let edge = (0u64..4, -2i64..3).prop_map(|(n, d)| (n * GROUP_LEN).saturating_add_signed(d));
        prop::collection::vec(prop_oneof![edge, 0u64..5000, 0u64..3 * GROUP_LEN], 0..40)
    }

    proptest! {
        #[test]
        fn blocks_tile_the_object_with_whole_groups(sizes in sizes()) {
            let layout = layout(&sizes);
            let blocks = Blocks::new(&layout, sizes.len());
            let mut at = 0;
            for block in 0..blocks.count() {
                let range = blocks.range(block);
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty() && range.end - range.start <= GROUP_LEN);
                prop_assert_eq!(blocks.at(range.start), block);
                prop_assert_eq!(blocks.at(range.end - 1), block);
                let groups: Vec<_> = layout.groups_in(range.clone()).map(|g| layout.group_range(g)).collect();
                prop_assert_eq!(groups[0].start, range.start);
                prop_assert_eq!(groups[groups.len() - 1].end, range.end);
                at = range.end;
            }
            prop_assert_eq!(at, layout.object_len());
            // Nothing is cut finer than it must be.
            for block in 1..blocks.count() {
                let (a, b) = (blocks.range(block - 1), blocks.range(block));
                let next = layout.group_range(layout.group_at(b.start));
                prop_assert!(a.end - a.start + next.end - next.start > GROUP_LEN);
            }
        }
    }

    #[test]
    fn small_files_share_a_block() {
        let large = layout(&vec![8192; 20_000]);
        assert_eq!(Blocks::new(&large, 20_000).count(), 157);
        let tiny = layout(&vec![7; 20_000]);
        assert_eq!(Blocks::new(&tiny, 20_000).count(), 20);
    }
}
