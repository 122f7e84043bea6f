//! What is listed before anything of it is copied, as bytes: serialised, then compressed, since names repeat. The
//! sender's listing of a part is the part's manifest with what could not be listed, so that the receiver knows both
//! before it does anything about that part. In a pull the client may have named the files first.
//!
//! A few bytes can stand for very many when they are expanded, so that is done item by item, and what the items take in
//! memory is bounded by how long the list was that came.

use longhaul_proto::session::manifest::{BadManifest, Entry, Manifest};
use longhaul_proto::session::message::FileFailure;
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
    /// Other copies take the memory that it needs.
    #[error(
        "the copies under way take all the memory that the server gives them; try again later, or copy fewer files at once"
    )]
    Crowded,
}

/// Compress the listing of a part.
pub fn encode(manifest: &Manifest, errors: &[FileFailure]) -> Result<Vec<u8>, ListingError> {
    pack(&(manifest, errors))
}

/// Asked before so many bytes of memory are taken for good.
pub type Ask<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Expand the listing of a copy, or of its first part, and check it.
pub fn decode(bytes: &[u8], ask: Ask<'_>) -> Result<(Manifest, Vec<FileFailure>), ListingError> {
    read(Items::of(bytes, ask)?)
}

/// The same for a further part: where there are several, none is long.
pub fn decode_next(bytes: &[u8], ask: Ask<'_>) -> Result<(Manifest, Vec<FileFailure>), ListingError> {
    let mut items = Items::of(bytes, ask)?;
    items.room = items.room.min(PART_ROOM);
    read(items)
}

fn read(mut items: Items<'_>) -> Result<(Manifest, Vec<FileFailure>), ListingError> {
    let manifest = Manifest { entries: items.list(Entry::memory_len)?, seams: items.item()? };
    let errors = items.list(|failure: &FileFailure| {
        size_of::<FileFailure>() + failure.path.len() + failure.reason.line.len()
    })?;
    manifest.validate()?;
    Ok((manifest, errors))
}

/// Compress names of files.
pub fn encode_names(names: &[Vec<u8>]) -> Result<Vec<u8>, ListingError> {
    pack(&names)
}

/// Expand names of files. Whoever uses them checks where they lead.
pub fn decode_names(bytes: &[u8], ask: Ask<'_>) -> Result<Vec<Vec<u8>>, ListingError> {
    Items::of(bytes, ask)?.list(|name: &Vec<u8>| size_of::<Vec<u8>>() + name.len())
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
    /// Bytes that further items may take in memory.
    room: usize,
    /// Beside other lists.
    ask: Ask<'a>,
}

impl<'a> Items<'a> {
    fn of(packed: &'a [u8], ask: Ask<'a>) -> Result<Items<'a>, ListingError> {
        let mut expander = Decoder::with_buffer(packed).map_err(|_| ListingError::Garbled)?;
        expander.window_log_max(WINDOW_LOG_MAX).map_err(|_| ListingError::Garbled)?;
        let room = packed.len().saturating_mul(ROOM_PER_BYTE).saturating_add(ROOM_LEAST).min(ROOM_MOST);
        Ok(Items { expander, plain: vec![], at: 0, room, ask })
    }

    /// A list, whose items take as much memory as `len` says.
    fn list<T: DeserializeOwned>(&mut self, len: impl Fn(&T) -> usize) -> Result<Vec<T>, ListingError> {
        let count: u64 = self.item()?;
        let mut items = vec![];
        for _ in 0..count {
            let item = self.item()?;
            let len = len(&item);
            self.room = self.room.checked_sub(len).ok_or(ListingError::TooLong)?;
            if !(self.ask)(len as u64) {
                return Err(ListingError::Crowded);
            }
            items.push(item);
        }
        Ok(items)
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
/// What a list may take in memory in any case: 16 000 of the longest paths.
const ROOM_LEAST: usize = 64 << 20;
/// And for each byte that came: entries of 400 bytes in memory differ in some six bytes at least.
const ROOM_PER_BYTE: usize = 256;
/// But no more than this: some 50 million files.
const ROOM_MOST: usize = 12 << 30;
/// What a part of several may take in memory: four times what an honest one does, of which an entry may be very long.
const PART_ROOM: usize = 128 << 20;
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
    use longhaul_proto::session::manifest::{Entry, Kind};
    use longhaul_proto::session::reason::{Cause, Reason};

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
        assert_eq!(decode(&bytes, &mut |_| true).unwrap(), (manifest, errors));
        // Ten segments of a fresh TCP connection (RFC 6928) are 14 600 bytes.
        assert!(bytes.len() < 14_000, "{}", bytes.len());
    }

    #[test]
    fn a_list_is_refused_once_it_takes_more_than_others_leave() {
        let bytes = encode(&Manifest::of((0..100).map(|i| entry(&format!("{i}"))).collect()), &[]).unwrap();
        let mut left = 5000;
        let mut ask = |bytes: u64| {
            left -= bytes as i64;
            left >= 0
        };
        assert!(matches!(decode(&bytes, &mut ask), Err(ListingError::Crowded)));
    }

    #[test]
    fn garbage_and_unsafe_names_are_refused() {
        assert!(decode(b"not zstd", &mut |_| true).is_err());
        assert!(decode_names(b"not zstd", &mut |_| true).is_err());
        let bytes = encode(&Manifest::of(vec![entry("../x")]), &[]).unwrap();
        assert!(decode(&bytes, &mut |_| true).unwrap_err().to_string().contains("unsafe path"));
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
        // Entries of zeros are whole, if of no use; so is a failure, and a name.
        let count = postcard::to_allocvec(&10_000_000u64).unwrap();
        let bomb_of_entries = bomb(&count, 80_000_000);
        assert!(bomb_of_entries.len() < 20_000, "{}", bomb_of_entries.len());
        assert!(matches!(decode(&bomb_of_entries, &mut |_| true), Err(ListingError::TooLong)));
        let failures = bomb(&[&[0, 0, 0, 0][..], &count].concat(), 80_000_000);
        assert!(matches!(decode(&failures, &mut |_| true), Err(ListingError::TooLong)));
        assert!(matches!(decode_names(&bomb(&count, 80_000_000), &mut |_| true), Err(ListingError::TooLong)));
        // One name that is longer than a list, and one that only says so.
        let endless = postcard::to_allocvec(&(1u64, u64::MAX)).unwrap();
        assert!(matches!(
            decode_names(&bomb(&endless, 80_000_000), &mut |_| true),
            Err(ListingError::TooLong)
        ));
        assert!(matches!(decode_names(&bomb(&endless, 10), &mut |_| true), Err(ListingError::Senseless)));
    }

    #[test]
    fn a_window_larger_than_ours_is_refused() {
        let mut packer = zstd::stream::write::Encoder::new(vec![], LEVEL).unwrap();
        packer.window_log(27).unwrap();
        io::copy(&mut io::repeat(0).take(1 << 20), &mut packer).unwrap();
        assert!(matches!(decode(&packer.finish().unwrap(), &mut |_| true), Err(ListingError::Garbled)));
    }

    #[test]
    fn names_are_read_back() {
        let names: Vec<Vec<u8>> = (0..50_000).map(|i| format!("runs/{i}").into_bytes()).collect();
        assert_eq!(decode_names(&encode_names(&names).unwrap(), &mut |_| true).unwrap(), names);
    }
}
