//! Where a copy is cut into parts.

use crate::files::PIECE_GROUPS_MIN;
use longhaul_proto::session::manifest::{GROUP_LEN, Manifest};
use serde::{Deserialize, Serialize};

/// Where a part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cut {
    /// In which stretch of the list.
    pub chunk: u32,
    /// With which of its entries.
    pub entry: u32,
    /// With which byte of that file's data: a multiple of a group.
    pub from_byte: u64,
}

/// Cuts what is listed into parts of about the same weight: each file goes to the part in which its middle lies, and one that is
/// larger than a part is cut where the parts are.
pub struct Cutter {
    /// Of a part.
    weight: u64,
    align: u64,
    /// Of all entries so far.
    at: u64,
    /// The part that the last entry is in, as far as weight goes.
    part: Option<u64>,
    cuts: Vec<Cut>,
}

/// What a manifest weighs.
pub fn weight_of(manifest: &Manifest) -> u64 {
    let fresh = manifest.entries.iter().skip(manifest.seams.continued as usize);
    fresh.map(|entry| entry.kind.data_len().saturating_add(ENTRY_WEIGHT)).fold(0, u64::saturating_add)
}

impl Cutter {
    /// For parts of about this weight, which cut files at multiples of `align` only.
    pub fn new(weight: u64, align: u64) -> Cutter {
        Cutter { weight: weight.max(1), align, at: 0, part: None, cuts: Vec::new() }
    }

    /// Where the parts begin, of what was added.
    pub fn finish(self) -> Vec<Cut> {
        self.cuts
    }

    /// The next stretch of the list.
    pub fn add(&mut self, chunk: u32, manifest: &Manifest) {
        for (index, entry) in manifest.entries.iter().enumerate().skip(manifest.seams.continued as usize) {
            let data_len = entry.kind.data_len();
            let begin = Cut { chunk, entry: index as u32, from_byte: 0 };
            let pieces = self.pieces(data_len);
            // One that is not cut is where its middle is.
            let whole = (data_len + ENTRY_WEIGHT) / 2;
            self.begin((self.at + if pieces.is_empty() { whole } else { 0 }) / self.weight, begin);
            for (part, from_byte) in pieces {
                self.begin(part, Cut { from_byte, ..begin });
            }
            self.at = self.at.saturating_add(data_len + ENTRY_WEIGHT);
        }
    }

    /// What begins here is in that part, if not in an earlier one.
    fn begin(&mut self, part: u64, cut: Cut) {
        if self.part.is_none_or(|before| part > before) {
            self.part = Some(part);
            self.cuts.push(cut);
        }
    }

    /// Where a file that is larger than a part is cut, and which part begins there.
    fn pieces(&self, data_len: u64) -> Vec<(u64, u64)> {
        let shortest = u64::from(PIECE_GROUPS_MIN) * GROUP_LEN;
        let (mut from, mut pieces) = (0, Vec::new());
        if data_len <= self.weight {
            return pieces;
        }
        for part in self.at / self.weight + 1.. {
            let wanted = part.saturating_mul(self.weight) - self.at;
            if wanted >= data_len {
                break;
            }
            let at = (wanted + self.align / 2) / self.align * self.align;
            if at >= from + shortest && at + shortest <= data_len {
                pieces.push((part, at));
                from = at;
            }
        }
        pieces
    }
}

/// What a file costs beside its data, in bytes: a million files of 1 kB take about as long as 16 GB.
const ENTRY_WEIGHT: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::session::manifest::{Entry, Kind};
    use proptest::prelude::*;

    fn files(sizes: &[u64]) -> Manifest {
        let file = |(index, size): (usize, &u64)| Entry {
            path: format!("{index}").into(),
            kind: Kind::File { size: *size, extents: None, version: None },
            mode: 0o644,
            mtime: (0, 0),
        };
        Manifest::of(sizes.iter().enumerate().map(file).collect())
    }

    fn cuts(sizes: &[u64], parts: u64, align: u64) -> Vec<(u32, u64)> {
        let manifest = files(sizes);
        let mut cutter = Cutter::new(weight_of(&manifest).div_ceil(parts), align);
        cutter.add(0, &manifest);
        cutter.finish().iter().map(|cut| (cut.entry, cut.from_byte)).collect()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn equal_files_are_shared_out_and_a_large_one_is_cut() {
        assert_eq!(cuts(&[MIB; 8], 4, MIB), [(0, 0), (2, 0), (4, 0), (6, 0)]);
        let large = cuts(&[1000 * MIB], 4, 16 * MIB);
        assert_eq!(large, [(0, 0), (0, 256 * MIB), (0, 496 * MIB), (0, 752 * MIB)]);
        // What is not much larger than a part stays whole.
        assert_eq!(cuts(&[MIB, 3 * MIB], 2, 16 * MIB), [(0, 0), (1, 0)]);
    }

    proptest! {
        #[test]
        fn cuts_ascend_are_no_more_than_asked_for_and_leave_no_short_piece(
            sizes in prop::collection::vec(prop_oneof![0..MIB, 0..300 * MIB], 1..60),
            parts in 1u64..40,
            align in prop::sample::select(vec![MIB, 4 * MIB, 16 * MIB]),
        ) {
            let cuts = cuts(&sizes, parts, align);
            prop_assert!(cuts.len() as u64 <= parts && cuts[0] == (0, 0));
            prop_assert!(cuts.is_sorted() && cuts.windows(2).all(|pair| pair[0] != pair[1]));
            for (index, (entry, from)) in cuts.iter().enumerate() {
                let end = match cuts.get(index + 1) {
                    Some((next, end)) if next == entry => *end,
                    _ => sizes[*entry as usize],
                };
                let is_piece = *from > 0 || end < sizes[*entry as usize];
                prop_assert!(from % align == 0);
                prop_assert!(!is_piece || end - from >= 2 * MIB, "{cuts:?}");
            }
        }
    }
}
