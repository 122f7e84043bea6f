//! Reads a journal. That of a file of 50 TB has 2 GB: it is read piece by piece, and little is kept of each group.

use super::journal::{HEADER_LEN, Header, Ours, RECORD_MAX, Record, Seal, Source, group_range, seal};
use longhaul_proto::session::manifest::{GROUP_LEN, Ranges};
use std::collections::HashMap;
use std::io;
use std::ops::Range;

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
    /// It is about a file of the same size and time, whether it has a version or not.
    pub is_alike: bool,
    /// It is about a file that had its holes where this one has. If not, the part file may have data in them.
    pub has_same_holes: bool,
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
    /// It was noted since the journal last said which file it is about.
    pub is_latest: bool,
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
                is_latest: state & IS_LATEST != 0,
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

    /// Where these are of another version than what came since, that may stand in their place, whether it is noted or not.
    fn distrust(&mut self) {
        for state in &mut self.states {
            *state &= if *state & IS_CURRENT == 0 { IS_THERE } else { !IS_LATEST };
        }
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

/// A journal, wherever it is.
pub(super) trait Stored {
    /// Bytes from a position on, as many as there are and fit; 0 at the end.
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize>;
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

/// Read a journal, to go on with `wanted`; `None` if it is no journal, or another user's. It is gone through three
/// times: for where its sound part ends, for its seals, and for what it says of each group.
pub(super) fn recover(wanted: &Source, ours: &Ours, journal: &(impl Stored + ?Sized)) -> Option<Recovered> {
    let mut start = Window::new(journal, 0);
    let header = Header::read(start.next(HEADER_LEN)).filter(|header| header.owner() == ours.owner)?;
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
    let has_same_holes = reading.source.is_some_and(|source| source.has_same_holes(wanted));
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
        has_same_holes,
        ranges,
        groups,
    })
}

/// The file, or the piece of one, that a journal speaks of last.
pub(super) fn last_source(journal: &(impl Stored + ?Sized)) -> Option<Source> {
    let header = Header::read(Window::new(journal, 0).next(HEADER_LEN))?;
    let mut records = Window::new(journal, HEADER_LEN as u64);
    let sources = std::iter::from_fn(|| records.record(&header)).filter_map(|(_, record)| match record {
        Record::Source(source) => Some(source),
        _ => None,
    });
    sources.last()
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
            Record::Source(source) => {
                self.go_over(&source);
                self.groups.distrust();
            }
            Record::Range(range) => self.ranges.insert(range),
            Record::Group { index, hash } if u64::from(index) < self.count => {
                self.groups.insert(index, hash, state | IS_CURRENT | IS_LATEST);
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

const IS_THERE: u8 = 1;
const IS_SYNCED: u8 = 2;
const IS_KEPT: u8 = 4;
const IS_CURRENT: u8 = 8;
const IS_LATEST: u8 = 16;

/// Bytes of a journal in memory at a time.
const WINDOW_LEN: usize = 256 << 10;
/// Hashes of groups in memory: those of 1 TiB, some 60 MB.
const HASHES_MAX: usize = if cfg!(test) { 1 << 16 } else { 1 << 20 };

#[cfg(test)]
mod tests {
    use super::super::journal::{CHECK_LEN, SEAL_LEN, SealKey};
    use super::*;
    use longhaul_proto::session::manifest::{Entry, Kind};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const GROUPS: u32 = 5;
    const DATA_LEN: u64 = 4 * GROUP_LEN + 77;
    const KEY: SealKey = [7; 32];
    const OURS: Ours = Ours { key: KEY, boot: [4; 16], owner: [6; 16] };

    fn source(size: u64, version: u8) -> Source {
        let kind = Kind::File { size, extents: None, version: Some([version; 16]).filter(|_| version > 0) };
        Source::new(&Entry { path: b"f".to_vec(), kind, mode: 0o644, mtime: (1, 5) })
    }

    fn header() -> Header {
        Header::new(*b"abcdefgh", OURS.owner)
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
                        for group in groups.values_mut() {
                            (group.is_synced, group.is_kept) = (false, false);
                        }
                    }
                    groups.values_mut().for_each(|group| group.is_latest = false);
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
                            is_latest: true,
                        },
                    );
                }
                Record::Lost { index } => {
                    groups.remove(index);
                    ranges.remove(group_range(*index, DATA_LEN).unwrap());
                }
                Record::Synced { .. } => {
                    groups
                        .values_mut()
                        .filter(|group| group.is_current)
                        .for_each(|group| group.is_synced = true);
                }
                Record::Kept { boot, .. } => {
                    let is_kept = *boot == OURS.boot;
                    let current = groups.values_mut().filter(|group| group.is_current);
                    current.for_each(|group| group.is_kept = is_kept);
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
    fn another_users_journal_is_none() {
        let (bytes, _) = write(&[group(0), Record::Range(0..DATA_LEN)]);
        assert!(recover(&source(DATA_LEN, 1), &Ours { owner: [7; 16], ..OURS }, &bytes[..]).is_none());
        assert!(recover(&source(DATA_LEN, 2), &Ours { owner: [0; 16], ..OURS }, &bytes[..]).is_none());
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
        let holes = |wanted: Source| recover(&wanted, &OURS, &bytes[..]).unwrap().has_same_holes;
        assert!(holes(source(2 * GROUP_LEN, 2)) && !holes(sparse));
    }

    #[test]
    fn without_a_version_groups_count_that_were_noted_since_the_journal_said_of_what() {
        let unversioned = source(DATA_LEN, 0);
        let (bytes, _) =
            write(&[group(0), Record::Source(unversioned), group(1), group(2), Record::Lost { index: 2 }]);
        let found = recover(&unversioned, &OURS, &bytes[..]).unwrap();
        let latest: Vec<_> =
            found.groups.iter().map(|(index, group)| (index, group.is_latest, group.is_current)).collect();
        assert!(found.is_alike && !found.is_same_version);
        assert_eq!(latest, [(0, false, false), (1, true, false)]);
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
        let groups = HASHES_MAX as u64 + 100_000;
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
