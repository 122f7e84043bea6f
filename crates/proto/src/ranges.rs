//! Sets of byte ranges of an object.

use rangemap::RangeSet;
use serde::Deserialize;
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

/// Ranges from the other side: one that is empty or runs backwards makes the whole message senseless.
pub(crate) fn read_ranges<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Ranges, D::Error> {
    let list = Vec::<Range<u64>>::deserialize(from)?;
    if list.iter().any(|range| range.start >= range.end) {
        return Err(serde::de::Error::custom("an empty range"));
    }
    Ok(list.into_iter().collect())
}
