//! Sets of byte ranges of an object.

use rangemap::RangeSet;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::ops::Range;

/// Ranges of object bytes.
pub type Ranges = RangeSet<u64>;

/// Bytes in ranges.
pub fn bytes_in(ranges: &Ranges) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The same ranges so many bytes further on.
pub fn shifted(ranges: &Ranges, by: u64) -> Ranges {
    ranges.iter().map(|range| range.start.saturating_add(by)..range.end.saturating_add(by)).collect()
}

/// Ranges from the other side: one that is empty or runs backwards makes the whole message senseless. Taken one at a time: the
/// same again and again costs no memory.
pub(crate) fn read_ranges<'de, D: Deserializer<'de>>(from: D) -> Result<Ranges, D::Error> {
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = Ranges;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("ranges of bytes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ranges, A::Error> {
            let mut ranges = Ranges::new();
            while let Some(range) = seq.next_element::<Range<u64>>()? {
                if range.start >= range.end {
                    return Err(A::Error::custom("an empty range"));
                }
                ranges.insert(range);
            }
            Ok(ranges)
        }
    }
    from.deserialize_seq(Each)
}
