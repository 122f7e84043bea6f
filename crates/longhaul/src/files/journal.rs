//! What has been received of a large file, noted beside its part file so that an interrupted copy can go on.
//!
//! ```text
//! header   magic 8 · part file's token 8 · group length 4 · check 8
//! record   tag 1 · payload · check 8
//!   SOURCE 5 · size 8 · data length 8 · mtime seconds 8 · nanoseconds 4 · hash of the extents 32 · version 16
//!                                    what follows is of this file; what came before is kept where it may be of use
//!   RANGE  1 · start 8 · end 8       these data bytes are in the part file
//!   GROUP  2 · index 4 · hash 32     this group is in the part file and verified
//!   LOST   3 · index 4               this group failed verification and begins anew
//!   SYNCED 4 · length 8 · seal 16    all that the journal's first `length` bytes speak of is on the disk itself
//!   KEPT   6 · boot 16 · seal 16     all that stands before this is in the hands of the kernel that was booted then
//! ```
//!
//! Numbers are little-endian; a version of zeros is none. A check is the start of a BLAKE3 hash over the header,
//! the record's position and the record, so that a journal ends for its reader where it was torn or changed, or
//! belongs to another part file. A seal is a keyed hash over the journal up to there: who has not our key cannot
//! make us believe that a part file holds what it does not.

use longhaul_proto::session::manifest::{Entry, FileVersion, GROUP_LEN, Kind, Ranges};
use std::collections::BTreeMap;
use std::ops::Range;

/// What tells a part file's name from those of others.
pub(super) type PartToken = [u8; 8];

/// With what a receiver seals its journals.
pub(super) type SealKey = [u8; 32];

/// What tells one run of a host's kernel from the next.
pub(super) type BootId = [u8; 16];

/// Whose word is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ours {
    pub key: SealKey,
    pub boot: BootId,
}

/// The first bytes of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    bytes: [u8; HEADER_LEN],
    id: [u8; 32],
}

impl Header {
    /// Of the journal that speaks of this part file.
    pub(super) fn new(part: PartToken) -> Header {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&part);
        bytes[16..20].copy_from_slice(&(GROUP_LEN as u32).to_le_bytes());
        let id = *blake3::hash(&bytes[..20]).as_bytes();
        bytes[20..].copy_from_slice(&id[..CHECK_LEN]);
        Header { bytes, id }
    }

    /// Of a journal's bytes; `None` if they are none.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let header = Header::new(bytes.get(8..16)?.try_into().ok()?);
        bytes.starts_with(&header.bytes).then_some(header)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part file that it speaks of.
    pub(super) fn part(&self) -> PartToken {
        let mut part = [0; 8];
        part.copy_from_slice(&self.bytes[8..16]);
        part
    }
}

/// The file that records speak of, as its sender described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    size: u64,
    data_len: u64,
    mtime: (i64, u32),
    extents_hash: [u8; 32],
    version: Option<FileVersion>,
}

impl Source {
    pub(super) fn new(entry: &Entry) -> Source {
        let (size, extents, version) = match &entry.kind {
            Kind::File { size, extents, version } => (*size, extents.as_deref(), *version),
            Kind::Dir | Kind::Symlink { .. } => (0, None, None),
        };
        let (data_len, extents_hash) = (entry.kind.data_len(), extents_hash(extents));
        Source { size, data_len, mtime: entry.mtime, extents_hash, version }
    }

    /// Whether both are one version of one file.
    fn is(&self, other: &Source) -> bool {
        self.version.is_some() && self == other
    }

    /// Up to where a group of one, by its number, is at the same place in the other.
    fn common_len(&self, other: &Source) -> u64 {
        let shorter = self.data_len.min(other.data_len);
        if self.extents_hash == other.extents_hash && self.data_len == other.data_len {
            shorter
        } else if [self, other].iter().all(|source| source.extents_hash == extents_hash(None)) {
            shorter / GROUP_LEN * GROUP_LEN
        } else {
            0
        }
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
    /// What follows is of this file.
    Source(Source),
    /// These data bytes are in the part file.
    Range(Range<u64>),
    /// This group is complete and verified.
    Group { index: u32, hash: [u8; 32] },
    /// Nothing of this group is there after all.
    Lost { index: u32 },
    /// What the journal's first bytes speak of has reached the disk.
    Synced { journal_len: u64, seal: Seal },
    /// The kernel has what the journal speaks of up to here.
    Kept { boot: BootId, seal: Seal },
}

impl Record {
    /// Append this record, which will stand at `position` of the journal.
    pub(super) fn write(&self, header: &Header, position: u64, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Record::Source(source) => {
                out.push(TAG_SOURCE);
                out.extend(source.size.to_le_bytes());
                out.extend(source.data_len.to_le_bytes());
                out.extend(source.mtime.0.to_le_bytes());
                out.extend(source.mtime.1.to_le_bytes());
                out.extend(source.extents_hash);
                out.extend(source.version.unwrap_or_default());
            }
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
            Record::Synced { journal_len, seal } => {
                out.push(TAG_SYNCED);
                out.extend(journal_len.to_le_bytes());
                out.extend(seal);
            }
            Record::Kept { boot, seal } => {
                out.push(TAG_KEPT);
                out.extend(boot);
                out.extend(seal);
            }
        }
        let check = check(header, position, &out[start..]);
        out.extend(check);
    }

    /// The record at the start of `bytes` and its length; `None` at the journal's end, torn or not.
    pub(super) fn read(header: &Header, position: u64, bytes: &[u8]) -> Option<(Record, usize)> {
        let payload_len = match *bytes.first()? {
            TAG_SOURCE => 8 + 8 + 12 + 32 + 16,
            TAG_RANGE => 16,
            TAG_GROUP => 36,
            TAG_LOST => 4,
            TAG_SYNCED => 8 + SEAL_LEN,
            TAG_KEPT => 16 + SEAL_LEN,
            _ => return None,
        };
        let (body, rest) = bytes.split_at_checked(1 + payload_len)?;
        if rest.get(..CHECK_LEN)? != check(header, position, body) {
            return None;
        }
        let payload = &body[1..];
        let record = match body[0] {
            TAG_SOURCE => Record::Source(Source {
                size: u64_at(payload, 0)?,
                data_len: u64_at(payload, 8)?,
                mtime: (u64_at(payload, 16)? as i64, u32_at(payload, 24)?),
                extents_hash: payload[28..60].try_into().ok()?,
                version: Some(payload[60..].try_into().ok()?).filter(|version| *version != [0; 16]),
            }),
            TAG_RANGE => Record::Range(u64_at(payload, 0)?..u64_at(payload, 8)?),
            TAG_GROUP => Record::Group { index: u32_at(payload, 0)?, hash: payload[4..36].try_into().ok()? },
            TAG_LOST => Record::Lost { index: u32_at(payload, 0)? },
            TAG_SYNCED => {
                Record::Synced { journal_len: u64_at(payload, 0)?, seal: payload[8..].try_into().ok()? }
            }
            _ => Record::Kept { boot: payload[..16].try_into().ok()?, seal: payload[16..].try_into().ok()? },
        };
        Some((record, body.len() + CHECK_LEN))
    }
}

/// What a journal says of the file that is to be received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recovered {
    pub header: Header,
    /// Length of the part of the journal that is sound.
    pub journal_len: u64,
    /// The journal speaks of the very version that is to be received.
    pub is_same_version: bool,
    /// It speaks of a file that looks the same, be there versions or not.
    pub is_alike: bool,
    /// Data bytes of groups that were never verified.
    pub ranges: Ranges,
    /// Groups that were verified for this version or for another.
    pub groups: BTreeMap<u32, VerifiedGroup>,
}

/// A group that was verified before the interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerifiedGroup {
    /// Its hash.
    pub hash: [u8; 32],
    /// It had reached the disk itself: no need to read it again.
    pub is_synced: bool,
    /// The kernel has had it ever since: no need either, once it is brought to the disk.
    pub is_kept: bool,
    /// It is of the version that is to be received.
    pub is_current: bool,
}

/// Read a journal, to go on with `wanted`; `None` if it is no journal.
pub(super) fn recover(wanted: &Source, ours: &Ours, bytes: &[u8]) -> Option<Recovered> {
    let header = Header::read(bytes)?;
    let mut reading = Reading { source: None, ranges: Ranges::new(), groups: BTreeMap::new() };
    let mut journal_len = HEADER_LEN as u64;
    let (mut synced, mut kept) = (None, None);
    while let Some((record, len)) = Record::read(&header, journal_len, &bytes[journal_len as usize..]) {
        if let Record::Synced { journal_len, seal } = record {
            synced = Some((journal_len, seal));
        } else if let Record::Kept { boot, seal } = record {
            kept = (boot == ours.boot).then_some((journal_len, seal));
        } else if !reading.take(record, journal_len) {
            // A sound record that makes no sense: not ours to judge, but nothing to build on.
            break;
        }
        journal_len += len as u64;
    }
    let is_same_version = reading.source.is_some_and(|source| source.is(wanted));
    let is_alike = reading.source == Some(*wanted);
    reading.go_over(wanted);
    let prefix = |len: u64| usize::try_from(len).ok().and_then(|len| bytes.get(..len));
    let is_sealed =
        |(len, seal): &(u64, Seal)| prefix(*len).is_some_and(|journal| seal_of(&ours.key, journal) == *seal);
    let synced_len = synced.filter(is_sealed).map_or(0, |(len, _)| len);
    let kept_len = kept.filter(is_sealed).map_or(0, |(len, _)| len);
    let verified = |noted: Noted| VerifiedGroup {
        hash: noted.hash,
        is_synced: noted.at < synced_len,
        is_kept: noted.at < kept_len,
        is_current: noted.is_current,
    };
    let groups: BTreeMap<_, _> =
        reading.groups.into_iter().map(|(index, noted)| (index, verified(noted))).collect();
    for index in groups.keys() {
        if let Some(range) = group_range(*index, wanted.data_len) {
            reading.ranges.remove(range);
        }
    }
    Some(Recovered { header, journal_len, is_same_version, is_alike, ranges: reading.ranges, groups })
}

/// What has been read of a journal.
struct Reading {
    source: Option<Source>,
    ranges: Ranges,
    groups: BTreeMap<u32, Noted>,
}

/// A group that a journal calls verified.
struct Noted {
    hash: [u8; 32],
    /// Where it says so.
    at: u64,
    is_current: bool,
}

impl Reading {
    /// Take in the record at `position`; `false` if it makes no sense.
    fn take(&mut self, record: Record, position: u64) -> bool {
        let data_len = self.source.map_or(0, |source| source.data_len);
        match record {
            Record::Source(source) => self.go_over(&source),
            Record::Range(range) if range.start < range.end && range.end <= data_len => {
                self.ranges.insert(range)
            }
            Record::Group { index, hash } if group_range(index, data_len).is_some() => {
                self.groups.insert(index, Noted { hash, at: position, is_current: true });
            }
            Record::Lost { index } => {
                self.groups.remove(&index);
                if let Some(range) = group_range(index, data_len) {
                    self.ranges.remove(range);
                }
            }
            Record::Range(_) | Record::Group { .. } | Record::Synced { .. } | Record::Kept { .. } => {
                return false;
            }
        }
        true
    }

    /// From now on it is about `next`. What was there stays as far as it is at the same place, but it is another's.
    fn go_over(&mut self, next: &Source) {
        if let Some(before) = self.source.replace(*next)
            && !before.is(next)
        {
            let common_len = before.common_len(next);
            self.groups.retain(|index, _| u64::from(*index) * GROUP_LEN < common_len);
            self.groups.values_mut().for_each(|noted| noted.is_current = false);
            // Where a range of verified groups is not noted, the groups speak for it.
            self.ranges.remove(common_len..u64::MAX);
        }
    }
}

/// The data range of a group of a file; `None` if the file has no such group.
pub(super) fn group_range(index: u32, data_len: u64) -> Option<Range<u64>> {
    let start = u64::from(index) * GROUP_LEN;
    (start < data_len).then(|| start..(start + GROUP_LEN).min(data_len))
}

/// The seal of a journal's first bytes.
fn seal_of(key: &SealKey, journal: &[u8]) -> Seal {
    seal(&blake3::Hasher::new_keyed(key).update(journal).clone())
}

/// The seal of all that a hasher under the key has seen.
pub(super) fn seal(journal: &blake3::Hasher) -> Seal {
    let mut seal = [0; SEAL_LEN];
    seal.copy_from_slice(&journal.finalize().as_bytes()[..SEAL_LEN]);
    seal
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

/// Keyed hash over a journal's beginning.
pub(super) type Seal = [u8; SEAL_LEN];

const MAGIC: &[u8; 8] = b"lhjourn2";
const CHECK_LEN: usize = 8;
const SEAL_LEN: usize = 16;
const HEADER_LEN: usize = 8 + 8 + 4 + CHECK_LEN;

const TAG_RANGE: u8 = 1;
const TAG_GROUP: u8 = 2;
const TAG_LOST: u8 = 3;
const TAG_SYNCED: u8 = 4;
const TAG_SOURCE: u8 = 5;
const TAG_KEPT: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUPS: u32 = 5;
    const DATA_LEN: u64 = 4 * GROUP_LEN + 77;
    const KEY: SealKey = [7; 32];
    const OURS: Ours = Ours { key: KEY, boot: [4; 16] };

    fn source(size: u64, version: u8) -> Source {
        let kind = Kind::File { size, extents: None, version: Some([version; 16]).filter(|_| version > 0) };
        Source::new(&Entry { path: b"f".to_vec(), kind, mode: 0o644, mtime: (1, 5) })
    }

    fn header() -> Header {
        Header::new(*b"abcdefgh")
    }

    fn record() -> impl Strategy<Value = Record> {
        let range = (0..DATA_LEN, 1u64..2 * GROUP_LEN).prop_map(|(a, len)| a..(a + len).min(DATA_LEN));
        prop_oneof![
            4 => range.prop_map(Record::Range),
            2 => (0..GROUPS, any::<[u8; 32]>()).prop_map(|(index, hash)| Record::Group { index, hash }),
            1 => (0..GROUPS).prop_map(|index| Record::Lost { index }),
            1 => Just(Record::Synced { journal_len: 0, seal: [0; SEAL_LEN] }),
            1 => (4u8..6).prop_map(|boot| Record::Kept { boot: [boot; 16], seal: [0; SEAL_LEN] }),
            1 => (1u8..3).prop_map(|version| Record::Source(source(DATA_LEN, version))),
        ]
    }

    /// The journal's bytes, and where each record ends.
    fn write(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let header = header();
        let mut bytes = header.bytes().to_vec();
        let mut ends = vec![];
        Record::Source(source(DATA_LEN, 1)).write(&header, bytes.len() as u64, &mut bytes);
        for record in records {
            let position = bytes.len() as u64;
            let record = match record {
                Record::Synced { .. } => {
                    Record::Synced { journal_len: position, seal: seal_of(&KEY, &bytes) }
                }
                Record::Kept { boot, .. } => Record::Kept { boot: *boot, seal: seal_of(&KEY, &bytes) },
                other => other.clone(),
            };
            record.write(&header, position, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    /// What the records say, worked out group by group, to one who wants version 1.
    fn model(records: &[Record]) -> (Ranges, BTreeMap<u32, VerifiedGroup>) {
        let (mut ranges, mut groups, mut version) = (Ranges::new(), BTreeMap::new(), 1);
        let disown = |groups: &mut BTreeMap<u32, VerifiedGroup>| {
            groups.values_mut().for_each(|group| group.is_current = false);
        };
        for record in records {
            match record {
                Record::Source(next) => {
                    let next = next.version.unwrap()[0];
                    if next != version {
                        disown(&mut groups);
                    }
                    version = next;
                }
                Record::Range(range) => ranges.insert(range.clone()),
                Record::Group { index, hash } => {
                    groups.insert(
                        *index,
                        VerifiedGroup { hash: *hash, is_synced: false, is_kept: false, is_current: true },
                    );
                }
                Record::Lost { index } => {
                    groups.remove(index);
                    ranges.remove(group_range(*index, DATA_LEN).unwrap());
                }
                Record::Synced { .. } => groups.values_mut().for_each(|group| group.is_synced = true),
                Record::Kept { boot, .. } => {
                    groups.values_mut().for_each(|group| group.is_kept = *boot == OURS.boot);
                }
            }
        }
        if version != 1 {
            disown(&mut groups);
        }
        for index in groups.keys() {
            ranges.remove(group_range(*index, DATA_LEN).unwrap());
        }
        (ranges, groups)
    }

    fn found(bytes: &[u8]) -> Option<Recovered> {
        recover(&source(DATA_LEN, 1), &OURS, bytes)
    }

    proptest! {
        #[test]
        fn a_torn_journal_says_what_its_whole_records_say(records in prop::collection::vec(record(), 0..30), cut: prop::sample::Index) {
            let (bytes, ends) = write(&records);
            let cut = cut.index(bytes.len() + 1);
            let found = found(&bytes[..cut]);
            if cut < HEADER_LEN {
                prop_assert_eq!(found, None);
            } else {
                let whole = ends.iter().filter(|end| **end <= cut).count();
                let found = found.unwrap();
                prop_assert_eq!((found.ranges, found.groups), model(&records[..whole]));
                prop_assert!(found.journal_len as usize <= cut);
            }
        }

        #[test]
        fn a_flipped_bit_ends_the_journal_there(records in prop::collection::vec(record(), 1..20), at: prop::sample::Index, bit in 0u8..8) {
            let (mut bytes, ends) = write(&records);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            let found = found(&bytes);
            if at < HEADER_LEN {
                prop_assert_eq!(found, None);
            } else {
                let whole = ends.iter().filter(|end| **end <= at).count();
                prop_assert_eq!(found.map(|f| (f.ranges, f.groups)), Some(model(&records[..whole])));
            }
        }
    }

    fn group(index: u32) -> Record {
        Record::Group { index, hash: [index as u8; 32] }
    }

    #[test]
    fn only_what_we_sealed_counts_as_being_on_the_disk() {
        let (bytes, _) = write(&[group(0), Record::Synced { journal_len: 0, seal: [0; SEAL_LEN] }]);
        let synced =
            |key| recover(&source(DATA_LEN, 1), &Ours { key, ..OURS }, &bytes).unwrap().groups[&0].is_synced;
        assert!(synced(KEY));
        assert!(!synced([8; 32]), "made by somebody else");
    }

    #[test]
    fn groups_of_another_version_are_not_current_and_those_of_another_place_are_gone() {
        let (bytes, _) = write(&[group(0), group(3), group(4), Record::Range(0..DATA_LEN)]);
        let seen = |wanted: Source| {
            let found = recover(&wanted, &OURS, &bytes).unwrap();
            (found.is_same_version, found.groups.iter().map(|(i, g)| (*i, g.is_current)).collect::<Vec<_>>())
        };
        assert_eq!(seen(source(DATA_LEN, 1)), (true, vec![(0, true), (3, true), (4, true)]));
        assert_eq!(seen(source(DATA_LEN, 2)), (false, vec![(0, false), (3, false), (4, false)]));
        assert!(!seen(source(DATA_LEN, 0)).0, "none is not equal to anything");
        // The last group is cut short at another place: not the same group.
        assert_eq!(seen(source(DATA_LEN + 1, 2)), (false, vec![(0, false), (3, false)]));
        assert_eq!(seen(source(2 * GROUP_LEN, 2)), (false, vec![(0, false)]));
        let sparse =
            Kind::File { size: DATA_LEN, extents: Some(vec![0..5, 9..DATA_LEN]), version: Some([1; 16]) };
        let sparse = Source::new(&Entry { path: b"f".to_vec(), kind: sparse, mode: 0, mtime: (1, 5) });
        assert_eq!(seen(sparse), (false, vec![]));
    }
}
