//! How a file is cut into the parts of a multipart upload. The cut must be known before the file's length is, and a store takes at
//! most 10 000 parts, each of 5 MiB or more: so the first are small, which leave early, and later ones large.

use std::ops::Range;

/// A part's number, from 1 on.
pub type PartNumber = u16;

/// Where a part lies in its file.
pub fn range(part: PartNumber) -> Range<u64> {
    let mut start = 0;
    let mut before = 0;
    for (count, len) in STEPS {
        let here = part - before;
        if here <= count {
            let start = start + u64::from(here - 1) * len;
            return start..start + len;
        }
        start += u64::from(count) * len;
        before += count;
    }
    unreachable!("part {part}: there are {PARTS_MAX}")
}

/// Which part an offset lies in; `None` beyond the last one.
pub fn part_at(offset: u64) -> Option<PartNumber> {
    let mut start = 0;
    let mut before = 0;
    for (count, len) in STEPS {
        let end = start + u64::from(count) * len;
        if offset < end {
            return Some(before + ((offset - start) / len) as PartNumber + 1);
        }
        start = end;
        before += count;
    }
    None
}

/// The parts that a stretch touches; `None` if it goes beyond the last one.
pub fn parts(stretch: &Range<u64>) -> Option<std::ops::RangeInclusive<PartNumber>> {
    Some(part_at(stretch.start)?..=part_at(stretch.end.max(stretch.start + 1) - 1)?)
}

const MIB: u64 = 1 << 20;
/// How many of which length: 8 GiB, then 128 GiB, then what no store takes as one object: 5 TiB and more.
const STEPS: [(PartNumber, u64); 3] = [(1000, 8 * MIB), (2000, 64 * MIB), (7000, 768 * MIB)];
/// What stores take.
pub const PARTS_MAX: PartNumber = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_after_the_other_and_hold_what_a_store_takes() {
        let mut end = 0;
        for part in 1..=PARTS_MAX {
            let here = range(part);
            assert_eq!(here.start, end, "part {part}");
            assert!(here.end - here.start >= 5 * MIB);
            assert_eq!((part_at(here.start), part_at(here.end - 1)), (Some(part), Some(part)));
            end = here.end;
        }
        assert!(end >= 5 << 40 && part_at(end).is_none());
        assert_eq!(parts(&(0..8 * MIB)), Some(1..=1));
        assert_eq!(parts(&(8 * MIB - 1..8 * MIB + 1)), Some(1..=2));
        assert_eq!(parts(&(0..0)), Some(1..=1), "a file without data is one part without data");
    }
}
