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
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

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
#[derive(Clone, Debug)]
pub(super) struct Recovered {
    pub header: Header,
    /// Length of the part of the journal that is sound.
    pub journal_len: u64,
    /// All of that part, for the journal's next seal.
    pub digest: blake3::Hasher,
    /// The journal speaks of the very version that is to be received.
    pub is_same_version: bool,
    /// It speaks of a file that looks the same, be there versions or not.
    pub is_alike: bool,
    /// Data bytes of groups that were never verified.
    pub ranges: Ranges,
    /// Groups that were verified for this version or for another.
    pub groups: Groups,
}

/// A group that was verified before the interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VerifiedGroup {
    /// Its hash, but for those of a very large file's last groups.
    pub hash: Option<[u8; 32]>,
    /// It had reached the disk itself: no need to read it again.
    pub is_synced: bool,
    /// The kernel has had it ever since: no need either, once it is brought to the disk.
    pub is_kept: bool,
    /// It is of the version that is to be received.
    pub is_current: bool,
}

/// Groups of a file: a byte for each, and the hashes of so many that they do not take much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    states: Vec<u8>,
    hashes: HashMap<u32, [u8; 32]>,
}

impl Groups {
    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, VerifiedGroup)> + '_ {
        (0..).zip(&self.states).filter(|(_, state)| **state & IS_THERE != 0).map(|(index, state)| {
            let verified = VerifiedGroup {
                hash: self.hashes.get(&index).copied(),
                is_synced: state & IS_SYNCED != 0,
                is_kept: state & IS_KEPT != 0,
                is_current: state & IS_CURRENT != 0,
            };
            (index, verified)
        })
    }

    fn insert(&mut self, index: u32, hash: [u8; 32], state: u8) {
        let at = index as usize;
        if self.states.len() <= at {
            self.states.resize(at + 1, 0);
        }
        self.states[at] = state | IS_THERE;
        if self.hashes.len() < HASHES_MAX || self.hashes.contains_key(&index) {
            self.hashes.insert(index, hash);
        }
    }

    fn remove(&mut self, index: u32) {
        if let Some(state) = self.states.get_mut(index as usize) {
            *state = 0;
            self.hashes.remove(&index);
        }
    }

    /// Only the first `count` groups are the same in another version.
    fn disown(&mut self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count < self.states.len() {
            self.states.truncate(count);
            self.hashes.retain(|index, _| (*index as usize) < count);
        }
        self.states.iter_mut().for_each(|state| *state &= !IS_CURRENT);
    }

    /// Their bytes, of a file of so many.
    fn bytes(&self, data_len: u64) -> Ranges {
        let mut bytes = Ranges::new();
        let mut run: Option<Range<u64>> = None;
        for range in self.iter().filter_map(|(index, _)| group_range(index, data_len)) {
            match &mut run {
                Some(run) if run.end == range.start => run.end = range.end,
                run => bytes.extend(run.replace(range)),
            }
        }
        bytes.extend(run);
        bytes
    }
}

const IS_THERE: u8 = 1;
const IS_SYNCED: u8 = 2;
const IS_KEPT: u8 = 4;
const IS_CURRENT: u8 = 8;

/// A journal, wherever it is: that of a file of 50 TB has 2 GB, and is read piece by piece.
pub(super) trait Stored {
    /// Bytes from a position on, as many as there are and fit; 0 at the end.
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize>;
}

impl Stored for File {
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buf, at)
    }
}

impl Stored for [u8] {
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// A window on a journal that moves towards its end.
struct Window<'a, S: ?Sized> {
    stored: &'a S,
    bytes: Vec<u8>,
    /// The first of `bytes` that has not been taken, and where it stands in the journal.
    at: usize,
    position: u64,
}

impl<'a, S: Stored + ?Sized> Window<'a, S> {
    fn new(stored: &'a S, position: u64) -> Window<'a, S> {
        Window { stored, bytes: Vec::new(), at: 0, position }
    }

    /// What comes next: `least` bytes, unless the journal ends before, or more. What cannot be read is its end.
    fn next(&mut self, least: usize) -> &[u8] {
        if self.bytes.len() - self.at < least {
            self.bytes.drain(..self.at);
            self.at = 0;
            while self.bytes.len() < least {
                let known = self.bytes.len();
                self.bytes.resize(WINDOW_LEN, 0);
                let read = self.stored.read_at(self.position + known as u64, &mut self.bytes[known..]);
                self.bytes.truncate(known + read.as_ref().copied().unwrap_or(0));
                if !matches!(read, Ok(1..)) {
                    break;
                }
            }
        }
        &self.bytes[self.at..]
    }

    fn take(&mut self, len: usize) {
        self.at += len;
        self.position += len as u64;
    }

    /// The next record and where it stands; `None` at the journal's end, torn or not.
    fn record(&mut self, header: &Header) -> Option<(u64, Record)> {
        let position = self.position;
        let (record, len) = Record::read(header, position, self.next(RECORD_MAX))?;
        self.take(len);
        Some((position, record))
    }

    /// Give `hasher` all up to a position; `false` if the journal ends before.
    fn hash(&mut self, hasher: &mut blake3::Hasher, end: u64) -> bool {
        while self.position < end {
            let left = usize::try_from(end - self.position).unwrap_or(usize::MAX);
            let bytes = self.next(1);
            let len = bytes.len().min(left);
            hasher.update(&bytes[..len]);
            if len == 0 {
                return false;
            }
            self.take(len);
        }
        true
    }
}

/// Read a journal, to go on with `wanted`; `None` if it is no journal. It is gone through three times: for where its sound part
/// ends, for its seals, and for what it says of each group.
pub(super) fn recover(wanted: &Source, ours: &Ours, journal: &(impl Stored + ?Sized)) -> Option<Recovered> {
    let mut start = Window::new(journal, 0);
    let header = Header::read(start.next(HEADER_LEN))?;
    let records = || Window::new(journal, HEADER_LEN as u64);
    let sound = Sound::of(&header, records(), ours);
    let mut seals = Window::new(journal, 0);
    let mut digest = blake3::Hasher::new_keyed(&ours.key);
    let mut sealed = [sound.synced, sound.kept];
    let mut order = [0, 1];
    order.sort_unstable_by_key(|at| sealed[*at].map(|(len, _)| len));
    for at in order {
        let is_ours = |(len, expected): &(u64, Seal)| {
            *len <= sound.journal_len && seals.hash(&mut digest, *len) && seal(&digest) == *expected
        };
        sealed[at] = sealed[at].filter(is_ours);
    }
    seals.hash(&mut digest, sound.journal_len);
    let [synced_len, kept_len] = sealed.map(|marker| marker.map_or(0, |(len, _)| len));
    let count = wanted.data_len.div_ceil(GROUP_LEN);
    let mut reading = Reading { count, source: None, ranges: Ranges::new(), groups: Groups::default() };
    let mut records = records();
    while records.position < sound.journal_len
        && let Some((position, record)) = records.record(&header)
    {
        let synced = if position < synced_len { IS_SYNCED } else { 0 };
        let kept = if position < kept_len { IS_KEPT } else { 0 };
        reading.take(record, synced | kept);
    }
    let is_same_version = reading.source.is_some_and(|source| source.is(wanted));
    let is_alike = reading.source == Some(*wanted);
    reading.go_over(wanted);
    for range in reading.groups.bytes(wanted.data_len) {
        reading.ranges.remove(range);
    }
    let Reading { ranges, groups, .. } = reading;
    Some(Recovered {
        header,
        journal_len: sound.journal_len,
        digest,
        is_same_version,
        is_alike,
        ranges,
        groups,
    })
}

/// The sound part of a journal, and the last marker of each kind in it.
struct Sound {
    journal_len: u64,
    synced: Option<(u64, Seal)>,
    kept: Option<(u64, Seal)>,
}

impl Sound {
    fn of<S: Stored + ?Sized>(header: &Header, mut records: Window<'_, S>, ours: &Ours) -> Sound {
        let mut sound = Sound { journal_len: records.position, synced: None, kept: None };
        let mut data_len = 0;
        while let Some((position, record)) = records.record(header) {
            let makes_sense = match &record {
                Record::Range(range) => range.start < range.end && range.end <= data_len,
                Record::Group { index, .. } => group_range(*index, data_len).is_some(),
                Record::Source(_) | Record::Lost { .. } | Record::Synced { .. } | Record::Kept { .. } => true,
            };
            if !makes_sense {
                // Not ours to judge, but nothing to build on.
                break;
            }
            match record {
                Record::Source(source) => data_len = source.data_len,
                Record::Synced { journal_len, seal } => sound.synced = Some((journal_len, seal)),
                Record::Kept { boot, seal } => sound.kept = (boot == ours.boot).then_some((position, seal)),
                Record::Range(_) | Record::Group { .. } | Record::Lost { .. } => {}
            }
            sound.journal_len = records.position;
        }
        sound
    }
}

/// What has been read of a journal.
struct Reading {
    /// Groups of the file that is wanted: others are of no interest.
    count: u64,
    source: Option<Source>,
    ranges: Ranges,
    groups: Groups,
}

impl Reading {
    /// Take in a record that makes sense; `state`: which markers cover it.
    fn take(&mut self, record: Record, state: u8) {
        match record {
            Record::Source(source) => self.go_over(&source),
            Record::Range(range) => self.ranges.insert(range),
            Record::Group { index, hash } if u64::from(index) < self.count => {
                self.groups.insert(index, hash, state | IS_CURRENT);
            }
            Record::Lost { index } => {
                self.groups.remove(index);
                let data_len = self.source.map_or(0, |source| source.data_len);
                if let Some(range) = group_range(index, data_len) {
                    self.ranges.remove(range);
                }
            }
            Record::Group { .. } | Record::Synced { .. } | Record::Kept { .. } => {}
        }
    }

    /// From now on it is about `next`. What was there stays as far as it is at the same place, but it is another's.
    fn go_over(&mut self, next: &Source) {
        if let Some(before) = self.source.replace(*next)
            && !before.is(next)
        {
            let common_len = before.common_len(next);
            self.groups.disown(common_len.div_ceil(GROUP_LEN));
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

/// No record is longer.
const RECORD_MAX: usize = 1 + 76 + CHECK_LEN;
/// Bytes of a journal in memory at a time.
const WINDOW_LEN: usize = 256 << 10;
/// Hashes of groups in memory: those of 1 TiB, some 60 MB.
const HASHES_MAX: usize = 1 << 20;

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
    use std::collections::BTreeMap;

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

    fn seal_of(key: &SealKey, journal: &[u8]) -> Seal {
        seal(blake3::Hasher::new_keyed(key).update(journal))
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
                        VerifiedGroup {
                            hash: Some(*hash),
                            is_synced: false,
                            is_kept: false,
                            is_current: true,
                        },
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
                prop_assert!(found.is_none());
            } else {
                let whole = ends.iter().filter(|end| **end <= cut).count();
                let found = found.unwrap();
                prop_assert!(found.journal_len as usize <= cut);
                prop_assert_eq!(seal(&found.digest), seal_of(&KEY, &bytes[..found.journal_len as usize]));
                prop_assert_eq!((found.ranges, found.groups.iter().collect()), model(&records[..whole]));
            }
        }

        #[test]
        fn a_flipped_bit_ends_the_journal_there(records in prop::collection::vec(record(), 1..20), at: prop::sample::Index, bit in 0u8..8) {
            let (mut bytes, ends) = write(&records);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            let found = found(&bytes);
            if at < HEADER_LEN {
                prop_assert!(found.is_none());
            } else {
                let whole = ends.iter().filter(|end| **end <= at).count();
                prop_assert_eq!(found.map(|f| (f.ranges, f.groups.iter().collect())), Some(model(&records[..whole])));
            }
        }
    }

    fn group(index: u32) -> Record {
        Record::Group { index, hash: [index as u8; 32] }
    }

    #[test]
    fn only_what_we_sealed_counts_as_being_on_the_disk() {
        let (bytes, _) = write(&[group(0), Record::Synced { journal_len: 0, seal: [0; SEAL_LEN] }]);
        let synced = |key| {
            let found = recover(&source(DATA_LEN, 1), &Ours { key, ..OURS }, &bytes[..]).unwrap();
            found.groups.iter().all(|(_, group)| group.is_synced)
        };
        assert!(synced(KEY));
        assert!(!synced([8; 32]), "made by somebody else");
    }

    #[test]
    fn groups_of_another_version_are_not_current_and_those_of_another_place_are_gone() {
        let (bytes, _) = write(&[group(0), group(3), group(4), Record::Range(0..DATA_LEN)]);
        let seen = |wanted: Source| {
            let found = recover(&wanted, &OURS, &bytes[..]).unwrap();
            (found.is_same_version, found.groups.iter().map(|(i, g)| (i, g.is_current)).collect::<Vec<_>>())
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

    /// A journal that is made up while it is read: of a file of so many groups, all of which are verified, with a marker of ours
    /// every so often.
    struct MadeUp {
        header: Header,
        head: Vec<u8>,
        groups: u64,
    }

    impl Stored for MadeUp {
        fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
            let group_len = 1 + 36 + CHECK_LEN as u64;
            let head_len = self.head.len() as u64;
            let mut bytes = if at < head_len { self.head[at as usize..].to_vec() } else { vec![] };
            let mut index = at.saturating_sub(head_len) / group_len;
            let skipped = at.saturating_sub(head_len) % group_len;
            while index < self.groups && bytes.len() < buf.len() + group_len as usize {
                let record = Record::Group { index: index as u32, hash: [index as u8; 32] };
                record.write(&self.header, head_len + index * group_len, &mut bytes);
                index += 1;
            }
            let bytes = bytes.get(skipped as usize..).unwrap_or_default();
            let len = bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&bytes[..len]);
            Ok(len)
        }
    }

    #[test]
    fn the_journal_of_a_very_large_file_is_read_in_windows() {
        let groups = 3 * HASHES_MAX as u64;
        let wanted = source(groups * GROUP_LEN, 1);
        let mut head = header().bytes().to_vec();
        Record::Source(wanted).write(&header(), HEADER_LEN as u64, &mut head);
        let journal = MadeUp { header: header(), head, groups };
        let found = recover(&wanted, &OURS, &journal).unwrap();
        assert_eq!(found.groups.iter().count() as u64, groups);
        assert!(found.is_same_version && found.ranges.is_empty());
        // A byte for each group, and of the hashes no more than there is room for.
        assert_eq!((found.groups.states.len() as u64, found.groups.hashes.len()), (groups, HASHES_MAX));
    }
}
