//! What is listed before anything of it is copied, as bytes: serialised, then compressed, since names repeat. The
//! sender's listing of a part is the part's manifest with what could not be listed, so that the receiver knows both
//! before it does anything about that part. In a pull the client may have named the files first.
//!
//! A few bytes can stand for very many when they are expanded, so that is done item by item, and what the items take in
//! memory is bounded by how long the list was that came, and by the memory that there is for it.

use longhaul_net::budget::Allowance;
use longhaul_proto::session::attributes::{Attributes, EntryAttributes};
use longhaul_proto::session::manifest::{BadManifest, Entry, Manifest};
use longhaul_proto::session::message::FileFailure;
use longhaul_proto::session::reason::Reason;
use longhaul_proto::session::truncated::MemoryLen;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::mem::size_of;
use zstd::stream::read::Decoder;

/// Why a list of files is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// It cannot be serialised.
    #[error("the list of files cannot be written: {0}")]
    Unwritable(#[from] postcard::Error),
    /// It cannot be compressed.
    #[error("the list of files cannot be compressed: {0}")]
    Incompressible(io::Error),
    /// What came is not compressed.
    #[error("the other side sent a list of files that cannot be read")]
    Garbled,
    /// What came is no list.
    #[error("the other side sent a list of files that makes no sense")]
    Senseless,
    /// What came must not be used.
    #[error(transparent)]
    Unsafe(#[from] BadManifest),
    /// Whoever listed the files has stopped without having come to an end.
    #[error("listing the files has broken off; run the same command again")]
    BrokenOff,
    /// What came is longer than a list may be.
    #[error("the list of files is too long; copy its folders one by one")]
    TooLong,
    /// What comes of a pipe cannot be read.
    #[error("{0}")]
    Unreadable(Reason),
    /// Other copies take the memory that is needed.
    #[error(
        "the copies under way take all the memory that there is for them (a setting of a server's); try again later, or copy \
         fewer files at once"
    )]
    Busy,
    /// There will never be the memory that it needs.
    #[error(
        "the list of files takes more memory than there is for one copy (a quarter of the host's; on a server half of what it is set to); \
         copy its folders one by one"
    )]
    NoRoom,
}

/// Compress the listing of a part.
pub fn encode(manifest: &Manifest, errors: &[FileFailure]) -> Result<Vec<u8>, ListingError> {
    let Attributes { told, users, groups, entries } = &manifest.attributes;
    match told.preserve.has_attributes() {
        true => pack(&(manifest, errors, told, users, groups, entries)),
        false => pack(&(manifest, errors)),
    }
}

/// The memory that the items of a list may take.
#[derive(Debug)]
pub struct Room {
    used: usize,
    /// Never more than this.
    most: usize,
    listed: Allowance,
}

impl Room {
    /// So many bytes, of nobody's budget.
    pub fn of(bytes: usize) -> Room {
        Room { used: 0, most: bytes, listed: Allowance::default() }
    }

    /// What a list of so many bytes takes beside other copies, more of it as it is needed. Nothing if there is not even room for
    /// a usual part.
    pub fn beside_others(mut listed: Allowance, packed_len: usize) -> Option<Room> {
        let most = packed_len.saturating_mul(ROOM_PER_BYTE).clamp(PART_ROOM, ROOM_MOST);
        listed.take(memory_of(PART_USUAL)).then_some(Room { used: 0, most, listed })
    }

    fn take(&mut self, len: usize) -> Result<(), ListingError> {
        self.used = self.used.saturating_add(len);
        if self.used > self.most {
            return Err(ListingError::TooLong);
        }
        if memory_of(self.used) > self.listed.most() {
            return Err(ListingError::NoRoom);
        }
        if self.listed.reach(memory_of(self.used)) { Ok(()) } else { Err(ListingError::Busy) }
    }

    /// What is taken for what is in it now.
    pub fn settle(self) -> Allowance {
        let Room { used, mut listed, .. } = self;
        listed.keep(memory_of(used));
        listed
    }
}

/// What is made of a list takes as much again.
fn memory_of(listed: usize) -> u64 {
    (listed as u64).saturating_mul(2)
}

/// Expand the listing of a part, and check it.
pub fn decode(bytes: &[u8], room: &mut Room) -> Result<(Manifest, Vec<FileFailure>), ListingError> {
    read(Items::of(bytes, room)?)
}

fn read(mut items: Items<'_>) -> Result<(Manifest, Vec<FileFailure>), ListingError> {
    let mut manifest =
        Manifest { entries: items.list(Entry::memory_len)?, seams: items.item()?, ..Manifest::default() };
    let errors = items.list(FileFailure::memory_len)?;
    if !items.is_over()? {
        let id = |(_, name): &(u32, Vec<u8>)| size_of::<(u32, Vec<u8>)>() + name.len();
        manifest.attributes = Attributes {
            told: items.item()?,
            users: items.list(id)?,
            groups: items.list(id)?,
            entries: items.list(EntryAttributes::memory_len)?,
        };
    }
    manifest.validate()?;
    Ok((manifest, errors))
}

/// Compress names of files.
pub fn encode_names(names: &[Vec<u8>]) -> Result<Vec<u8>, ListingError> {
    pack(&names)
}

/// Expand names of files. Whoever uses them checks where they lead.
pub fn decode_names(bytes: &[u8], room: &mut Room) -> Result<Vec<Vec<u8>>, ListingError> {
    Items::of(bytes, room)?.list(|name: &Vec<u8>| size_of::<Vec<u8>>() + name.len())
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>, ListingError> {
    zstd::bulk::compress(&postcard::to_allocvec(value)?, LEVEL).map_err(ListingError::Incompressible)
}

/// What a compressed listing holds, one item after the other.
struct Items<'a> {
    expander: Decoder<'a, &'a [u8]>,
    /// What has been expanded; the items before `at` have been read.
    plain: Vec<u8>,
    at: usize,
    room: &'a mut Room,
}

impl<'a> Items<'a> {
    fn of(packed: &'a [u8], room: &'a mut Room) -> Result<Items<'a>, ListingError> {
        let mut expander = Decoder::with_buffer(packed).map_err(|_| ListingError::Garbled)?;
        expander.window_log_max(WINDOW_LOG_MAX).map_err(|_| ListingError::Garbled)?;
        Ok(Items { expander, plain: vec![], at: 0, room })
    }

    /// A list, whose items take as much memory as `len` says.
    fn list<T: DeserializeOwned>(&mut self, len: impl Fn(&T) -> usize) -> Result<Vec<T>, ListingError> {
        let count: u64 = self.item()?;
        let mut items = vec![];
        for _ in 0..count {
            let item = self.item()?;
            self.room.take(len(&item))?;
            items.push(item);
        }
        Ok(items)
    }

    /// Whether there is nothing more.
    fn is_over(&mut self) -> Result<bool, ListingError> {
        if self.at == self.plain.len() {
            self.plain.clear();
            self.at = 0;
            let read = (&mut self.expander).take(PIECE as u64).read_to_end(&mut self.plain);
            read.map_err(|_| ListingError::Garbled)?;
        }
        Ok(self.plain.is_empty())
    }

    fn item<T: DeserializeOwned>(&mut self) -> Result<T, ListingError> {
        loop {
            match postcard::take_from_bytes(&self.plain[self.at..]) {
                Ok((item, rest)) => {
                    self.at = self.plain.len() - rest.len();
                    return Ok(item);
                }
                Err(postcard::Error::DeserializeUnexpectedEnd) => self.expand_more()?,
                Err(_) => return Err(ListingError::Senseless),
            }
        }
    }

    /// Twice as much of an item that is not there in full: so it is looked at a few times only, however long it is.
    fn expand_more(&mut self) -> Result<(), ListingError> {
        self.plain.drain(..self.at);
        self.at = 0;
        if self.plain.len() > ITEM_MAX {
            return Err(ListingError::TooLong);
        }
        let more = self.plain.len().max(PIECE) as u64;
        let read = (&mut self.expander).take(more).read_to_end(&mut self.plain);
        match read {
            Ok(0) => Err(ListingError::Senseless),
            Ok(_) => Ok(()),
            Err(_) => Err(ListingError::Garbled),
        }
    }
}

/// Fast and close to the best: lists of names gain little from more effort.
const LEVEL: i32 = 3;
/// What a part takes in memory as a rule (`files/scan.rs`).
const PART_USUAL: usize = 8 << 20;
/// And at most: an entry may be very long.
pub const PART_ROOM: usize = 64 << 20;
/// What must be known as a whole is one part, however long. Then it may take so much for each byte that came: entries of 400 bytes
/// in memory differ in some six bytes at least.
const ROOM_PER_BYTE: usize = 256;
/// But no more than this: some 50 million files.
const ROOM_MOST: usize = 12 << 30;
/// An item longer than this before it is complete is refused: a file of a million holes takes less.
const ITEM_MAX: usize = 16 << 20;
/// Bytes expanded at a time.
const PIECE: usize = 64 << 10;
/// What an expander remembers, as a power of two: twice what the compressor at our level looks back.
const WINDOW_LOG_MAX: u32 = 22;
/// One longer than this while compressed is refused before it comes: names alone shrink to a tenth.
pub const PACKED_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_net::budget::{Budget, Purpose};
    use longhaul_proto::session::attributes::{Preserve, Told, Xattr};
    use longhaul_proto::session::manifest::{Entry, Kind};
    use longhaul_proto::session::reason::{Cause, Reason};
    use std::sync::Arc;

    fn entry(path: &str) -> Entry {
        let kind = Kind::File { size: 4096, extents: None, version: None };
        Entry { path: path.into(), kind, mode: 0o644, mtime: (1_700_000_000, 123_456_789) }
    }

    #[test]
    fn a_thousand_names_fit_the_first_flight() {
        let entries = (0..1000).map(|i| entry(&format!("run-7/sample-{i:05}.dat"))).collect();
        let manifest = Manifest::of(entries);
        let errors = vec![FileFailure {
            path: b"locked".into(),
            reason: Reason::new(Cause::Denied, "permission denied"),
        }];
        let bytes = encode(&manifest, &errors).unwrap();
        assert_eq!(decode(&bytes, &mut Room::of(PART_ROOM)).unwrap(), (manifest, errors));
        // Ten segments of a fresh TCP connection (RFC 6928) are 14 600 bytes.
        assert!(bytes.len() < 14_000, "{}", bytes.len());
    }

    #[test]
    fn attributes_travel_behind_the_manifest_and_only_where_there_are_any() {
        let plain = Manifest::of(vec![entry("a"), entry("b")]);
        let xattr = Xattr { name: b"user.note".to_vec(), value: vec![7; 300] };
        let owned = EntryAttributes { uid: 1000, gid: 7, xattrs: vec![xattr] };
        let preserve = Preserve { owner: true, xattrs: true, ..Preserve::default() };
        let attributes = Attributes {
            told: Told { preserve, all_names: true },
            users: vec![(1000, b"alice".to_vec())],
            groups: vec![],
            entries: vec![owned, EntryAttributes::default()],
        };
        let kept = Manifest { attributes, ..plain.clone() };
        let bytes = encode(&kept, &[]).unwrap();
        assert_eq!(decode(&bytes, &mut Room::of(PART_ROOM)).unwrap().0, kept);
        let bytes = encode(&plain, &[]).unwrap();
        assert_eq!(bytes, pack(&(&plain, Vec::<FileFailure>::new())).unwrap());
        assert_eq!(decode(&bytes, &mut Room::of(PART_ROOM)).unwrap().0, plain);
        // Attributes of one entry too few.
        let mut short = kept;
        short.attributes.entries.pop();
        let refused = decode(&encode(&short, &[]).unwrap(), &mut Room::of(PART_ROOM));
        assert!(refused.unwrap_err().to_string().contains("attributes"));
    }

    #[test]
    fn very_many_attributes_are_refused_before_they_take_memory() {
        let preserve = Preserve { xattrs: true, ..Preserve::default() };
        let told = Told { preserve, all_names: true };
        let nobody: Vec<(u32, Vec<u8>)> = vec![];
        let before = (Manifest::of(vec![entry("a")]), Vec::<FileFailure>::new(), told, &nobody, &nobody);
        // One entry, of nobody, that says to have a million attributes without names.
        let claim = postcard::to_allocvec(&(before, 1u64, 0u32, 0u32, 1_000_000u64)).unwrap();
        let refused = decode(&bomb(&claim, 2_000_000), &mut Room::of(PART_ROOM));
        assert!(matches!(refused, Err(ListingError::Senseless)), "{refused:?}");
    }

    #[test]
    fn a_list_is_refused_once_it_takes_more_than_there_is_for_it() {
        let manifest = Manifest::of((0..100).map(|i| entry(&format!("{i}"))).collect());
        let bytes = encode(&manifest, &[]).unwrap();
        let all: usize = manifest.entries.iter().map(Entry::memory_len).sum();
        decode(&bytes, &mut Room::of(all)).unwrap();
        assert!(matches!(decode(&bytes, &mut Room::of(all - 1)), Err(ListingError::TooLong)));
    }

    #[test]
    fn a_long_list_takes_its_memory_beside_others_and_gives_back_what_it_does_not_need() {
        let long = "long-".repeat(40);
        let manifest = Manifest::of((0..60_000).map(|i| entry(&format!("{long}{i}"))).collect());
        let (bytes, all) = (
            encode(&manifest, &[]).unwrap(),
            memory_of(manifest.entries.iter().map(Entry::memory_len).sum()),
        );
        let decode_beside = |others: u64, budget: u64| {
            let budget = Arc::new(Budget::new(budget));
            let mut others_hold = Allowance::of(&budget, Purpose::Need);
            assert!(others_hold.take(others));
            let mut room = Room::beside_others(Allowance::of(&budget, Purpose::Need), bytes.len())?;
            let outcome = decode(&bytes, &mut room).map(|found| assert_eq!(found.0, manifest));
            let _held = room.settle();
            Some(
                outcome.map(|()| others_hold.take(budget.bytes_max() - others - all) && !others_hold.take(1)),
            )
        };
        assert!(matches!(decode_beside(0, 3 * all), Some(Ok(true))));
        assert!(matches!(decode_beside(2 * all + 1, 3 * all), Some(Err(ListingError::Busy))));
        assert!(decode_beside(3 * all, 3 * all).is_none());
        assert!(matches!(decode_beside(0, all), Some(Err(ListingError::NoRoom))));
    }

    #[test]
    fn garbage_and_unsafe_names_are_refused() {
        assert!(decode(b"not zstd", &mut Room::of(PART_ROOM)).is_err());
        assert!(decode_names(b"not zstd", &mut Room::of(PART_ROOM)).is_err());
        let bytes = encode(&Manifest::of(vec![entry("../x")]), &[]).unwrap();
        assert!(decode(&bytes, &mut Room::of(PART_ROOM)).unwrap_err().to_string().contains("unsafe path"));
    }

    /// Bytes that expand to `head` and then to so many zeros, thousands for each byte.
    fn bomb(head: &[u8], zeros: usize) -> Vec<u8> {
        let mut packer = zstd::stream::write::Encoder::new(vec![], LEVEL).unwrap();
        io::Write::write_all(&mut packer, head).unwrap();
        io::copy(&mut io::repeat(0).take(zeros as u64), &mut packer).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn a_few_bytes_that_expand_to_very_many_are_refused() {
        let room = |bytes: &[u8]| Room::beside_others(Allowance::default(), bytes.len()).unwrap();
        // Entries of zeros are whole, if of no use; so is a failure, and a name.
        let count = postcard::to_allocvec(&10_000_000u64).unwrap();
        let bomb_of_entries = bomb(&count, 80_000_000);
        assert!(bomb_of_entries.len() < 20_000, "{}", bomb_of_entries.len());
        assert!(matches!(decode(&bomb_of_entries, &mut room(&bomb_of_entries)), Err(ListingError::TooLong)));
        let failures = bomb(&[&[0, 0, 0, 0][..], &count].concat(), 80_000_000);
        assert!(matches!(decode(&failures, &mut room(&failures)), Err(ListingError::TooLong)));
        let names = bomb(&count, 80_000_000);
        assert!(matches!(decode_names(&names, &mut room(&names)), Err(ListingError::TooLong)));
        // One name that is longer than a list, and one that only says so.
        let endless = postcard::to_allocvec(&(1u64, u64::MAX)).unwrap();
        assert!(matches!(
            decode_names(&bomb(&endless, 80_000_000), &mut Room::of(PART_ROOM)),
            Err(ListingError::TooLong)
        ));
        assert!(matches!(
            decode_names(&bomb(&endless, 10), &mut Room::of(PART_ROOM)),
            Err(ListingError::Senseless)
        ));
    }

    #[test]
    fn a_window_larger_than_ours_is_refused() {
        let mut packer = zstd::stream::write::Encoder::new(vec![], LEVEL).unwrap();
        packer.window_log(27).unwrap();
        io::copy(&mut io::repeat(0).take(1 << 20), &mut packer).unwrap();
        assert!(matches!(
            decode(&packer.finish().unwrap(), &mut Room::of(PART_ROOM)),
            Err(ListingError::Garbled)
        ));
    }

    #[test]
    fn names_are_read_back() {
        let names: Vec<Vec<u8>> = (0..50_000).map(|i| format!("runs/{i}").into_bytes()).collect();
        assert_eq!(decode_names(&encode_names(&names).unwrap(), &mut Room::of(PART_ROOM)).unwrap(), names);
    }
}
