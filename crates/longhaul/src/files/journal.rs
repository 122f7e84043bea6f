//! What has been received of a large file, noted beside its part file so that an interrupted copy can go on.
//!
//! ```text
//! header   magic 8 · size 8 · mtime seconds 8 · mtime nanoseconds 4 · group length 4 · hash of the extents 32 · check 8
//! record   tag 1 · payload · check 8
//!   RANGE  1 · start 8 · end 8       these data bytes are in the part file
//!   GROUP  2 · index 4 · hash 32     this group is in the part file and verified
//!   LOST   3 · index 4               this group failed verification and begins anew
//!   SYNCED 4 · length 8              all that the journal's first `length` bytes speak of is on the disk itself
//! ```
//!
//! Numbers are little-endian. A check is the start of a BLAKE3 hash over the header's, the record's position and the
//! record, so that a journal ends for its reader where it was torn, changed, or belongs to something else.

use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Kind, Ranges};
use std::collections::BTreeMap;
use std::ops::Range;

/// Identifies the journal of one version of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    bytes: [u8; HEADER_LEN],
    id: [u8; 32],
}

impl Header {
    /// The header that a journal for `entry` begins with.
    pub(super) fn new(entry: &Entry) -> Header {
        let mut fields = Vec::with_capacity(HEADER_LEN);
        fields.extend(MAGIC);
        let (size, extents) = match &entry.kind {
            Kind::File { size, extents, .. } => (*size, extents.as_deref()),
            Kind::Dir | Kind::Symlink { .. } => (0, None),
        };
        fields.extend(size.to_le_bytes());
        fields.extend(entry.mtime.0.to_le_bytes());
        fields.extend(entry.mtime.1.to_le_bytes());
        fields.extend((GROUP_LEN as u32).to_le_bytes());
        fields.extend(extents_hash(extents));
        let id = *blake3::hash(&fields).as_bytes();
        fields.extend(&id[..CHECK_LEN]);
        let mut bytes = [0; HEADER_LEN];
        bytes.copy_from_slice(&fields);
        Header { bytes, id }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn extents_hash(extents: Option<&[Range<u64>]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[u8::from(extents.is_some())]);
    for extent in extents.unwrap_or_default() {
        hasher.update(&extent.start.to_le_bytes()).update(&extent.end.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// These data bytes are in the part file.
    Range(Range<u64>),
    /// This group is complete and verified.
    Group { index: u32, hash: [u8; 32] },
    /// Nothing of this group is there after all.
    Lost { index: u32 },
    /// What the journal's first bytes speak of has reached the disk.
    Synced { journal_len: u64 },
}

impl Record {
    /// Append this record, which will stand at `position` of the journal.
    pub(super) fn write(&self, header: &Header, position: u64, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Record::Range(range) => {
                out.push(TAG_RANGE);
                out.extend(range.start.to_le_bytes());
                out.extend(range.end.to_le_bytes());
            }
            Record::Group { index, hash } => {
                out.push(TAG_GROUP);
                out.extend(index.to_le_bytes());
                out.extend(hash);
            }
            Record::Lost { index } => {
                out.push(TAG_LOST);
                out.extend(index.to_le_bytes());
            }
            Record::Synced { journal_len } => {
                out.push(TAG_SYNCED);
                out.extend(journal_len.to_le_bytes());
            }
        }
        let check = check(header, position, &out[start..]);
        out.extend(check);
    }

    /// The record at the start of `bytes` and its length; `None` at the journal's end, torn or not.
    fn read(header: &Header, position: u64, bytes: &[u8]) -> Option<(Record, usize)> {
        let payload_len = match *bytes.first()? {
            TAG_RANGE => 16,
            TAG_GROUP => 36,
            TAG_LOST => 4,
            TAG_SYNCED => 8,
            _ => return None,
        };
        let (body, rest) = bytes.split_at_checked(1 + payload_len)?;
        if rest.get(..CHECK_LEN)? != check(header, position, body) {
            return None;
        }
        let payload = &body[1..];
        let record = match body[0] {
            TAG_RANGE => Record::Range(u64_at(payload, 0)?..u64_at(payload, 8)?),
            TAG_GROUP => Record::Group { index: u32_at(payload, 0)?, hash: payload[4..36].try_into().ok()? },
            TAG_LOST => Record::Lost { index: u32_at(payload, 0)? },
            _ => Record::Synced { journal_len: u64_at(payload, 0)? },
        };
        Some((record, body.len() + CHECK_LEN))
    }
}

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovered {
    /// Length of the part of the journal that is sound.
    pub journal_len: u64,
    /// Data bytes of groups that are not verified.
    pub ranges: Ranges,
    /// Verified groups.
    pub groups: BTreeMap<u32, VerifiedGroup>,
}

/// A group that was verified before the interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerifiedGroup {
    /// Its hash.
    pub hash: [u8; 32],
    /// It had reached the disk itself: no need to read it again.
    pub synced: bool,
}

/// Read a journal; `None` if it is not one of this version of this file.
pub(super) fn recover(header: &Header, data_len: u64, bytes: &[u8]) -> Option<Recovered> {
    let mut rest = bytes.strip_prefix(header.bytes())?;
    let mut found = Recovered { journal_len: HEADER_LEN as u64, ..Recovered::default() };
    let mut noted_at: BTreeMap<u32, u64> = BTreeMap::new();
    let mut synced_len = 0;
    while let Some((record, len)) = Record::read(header, found.journal_len, rest) {
        match record {
            Record::Range(range) if range.start < range.end && range.end <= data_len => {
                found.ranges.insert(range)
            }
            Record::Group { index, hash } if group_range(index, data_len).is_some() => {
                found.groups.insert(index, VerifiedGroup { hash, synced: false });
                noted_at.insert(index, found.journal_len);
            }
            Record::Lost { index } => {
                found.groups.remove(&index);
                if let Some(range) = group_range(index, data_len) {
                    found.ranges.remove(range);
                }
            }
            Record::Synced { journal_len } => synced_len = journal_len.min(found.journal_len),
            // A sound record that makes no sense: not ours to judge, but nothing to build on.
            Record::Range(_) | Record::Group { .. } => break,
        }
        found.journal_len += len as u64;
        rest = &rest[len..];
    }
    for (index, group) in &mut found.groups {
        group.synced = noted_at.get(index).is_some_and(|at| *at < synced_len);
        if let Some(range) = group_range(*index, data_len) {
            found.ranges.remove(range);
        }
    }
    Some(found)
}

/// The data range of a group of a file; `None` if the file has no such group.
pub(super) fn group_range(index: u32, data_len: u64) -> Option<Range<u64>> {
    let start = u64::from(index) * GROUP_LEN;
    (start < data_len).then(|| start..(start + GROUP_LEN).min(data_len))
}

fn check(header: &Header, position: u64, record: &[u8]) -> [u8; CHECK_LEN] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header.id).update(&position.to_le_bytes()).update(record);
    let mut check = [0; CHECK_LEN];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_LEN]);
    check
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

const MAGIC: &[u8; 8] = b"lhjourn1";
const CHECK_LEN: usize = 8;
const HEADER_LEN: usize = 8 + 8 + 8 + 4 + 4 + 32 + CHECK_LEN;

const TAG_RANGE: u8 = 1;
const TAG_GROUP: u8 = 2;
const TAG_LOST: u8 = 3;
const TAG_SYNCED: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUPS: u32 = 5;
    const DATA_LEN: u64 = 4 * GROUP_LEN + 77;

    fn entry(size: u64, nanoseconds: u32) -> Entry {
        Entry {
            path: b"f".to_vec(),
            kind: Kind::File { size, extents: None, hash: None },
            mode: 0o644,
            mtime: (1, nanoseconds),
        }
    }

    fn record() -> impl Strategy<Value = Record> {
        let range = (0..DATA_LEN, 1u64..2 * GROUP_LEN).prop_map(|(a, len)| a..(a + len).min(DATA_LEN));
        prop_oneof![
            4 => range.prop_map(Record::Range),
            2 => (0..GROUPS, any::<[u8; 32]>()).prop_map(|(index, hash)| Record::Group { index, hash }),
            1 => (0..GROUPS).prop_map(|index| Record::Lost { index }),
            1 => Just(Record::Synced { journal_len: 0 }),
        ]
    }

    /// The journal's bytes, and where each record ends.
    fn write(header: &Header, records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = header.bytes().to_vec();
        let mut ends = vec![];
        for record in records {
            let position = bytes.len() as u64;
            let record = match record {
                Record::Synced { .. } => Record::Synced { journal_len: position },
                other => other.clone(),
            };
            record.write(header, position, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    /// What the records say, worked out group by group.
    fn model(records: &[Record]) -> (Ranges, BTreeMap<u32, VerifiedGroup>) {
        let (mut ranges, mut groups) = (Ranges::new(), BTreeMap::new());
        for record in records {
            match record {
                Record::Range(range) => ranges.insert(range.clone()),
                Record::Group { index, hash } => {
                    groups.insert(*index, VerifiedGroup { hash: *hash, synced: false });
                }
                Record::Lost { index } => {
                    groups.remove(index);
                    ranges.remove(group_range(*index, DATA_LEN).unwrap());
                }
                Record::Synced { .. } => groups.values_mut().for_each(|group| group.synced = true),
            }
        }
        for index in groups.keys() {
            ranges.remove(group_range(*index, DATA_LEN).unwrap());
        }
        (ranges, groups)
    }

    proptest! {
        #[test]
        fn a_torn_journal_says_what_its_whole_records_say(records in prop::collection::vec(record(), 0..30), cut: prop::sample::Index) {
            let header = Header::new(&entry(DATA_LEN, 5));
            let (bytes, ends) = write(&header, &records);
            let cut = cut.index(bytes.len() + 1);
            let found = recover(&header, DATA_LEN, &bytes[..cut]);
            if cut < HEADER_LEN {
                prop_assert_eq!(found, None);
            } else {
                let whole = ends.iter().filter(|end| **end <= cut).count();
                let (ranges, groups) = model(&records[..whole]);
                let journal_len = if whole == 0 { HEADER_LEN } else { ends[whole - 1] } as u64;
                prop_assert_eq!(found, Some(Recovered { journal_len, ranges, groups }));
            }
        }

        #[test]
        fn a_flipped_bit_ends_the_journal_there(records in prop::collection::vec(record(), 1..20), at: prop::sample::Index, bit in 0u8..8) {
            let header = Header::new(&entry(DATA_LEN, 5));
            let (mut bytes, ends) = write(&header, &records);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            let found = recover(&header, DATA_LEN, &bytes);
            if at < HEADER_LEN {
                prop_assert_eq!(found, None);
            } else {
                let whole = ends.iter().filter(|end| **end <= at).count();
                prop_assert_eq!(found.map(|f| (f.ranges, f.groups)), Some(model(&records[..whole])));
            }
        }
    }

    #[test]
    fn a_journal_of_another_version_is_foreign() {
        let header = Header::new(&entry(DATA_LEN, 5));
        let (bytes, _) = write(&header, &[Record::Range(0..9)]);
        for other in [entry(DATA_LEN + 1, 5), entry(DATA_LEN, 6)] {
            assert_eq!(recover(&Header::new(&other), DATA_LEN, &bytes), None);
        }
    }
}
