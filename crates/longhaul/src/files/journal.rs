//! What has been received of a large file, noted beside its part file so that an interrupted copy can go on.
//!
//! ```text
//! header   magic 8 · part file's token, or birth, 8 · group length 4 · user 16 · check 8
//! record   tag 1 · payload · check 8
//!   SOURCE 5 · size 8 · data length 8 · mtime seconds 8 · nanoseconds 4 · hash of the extents 32 · version 16
//!                                    what follows is of this file; what came before is kept where it may be of use
//!   RANGE  1 · start 8 · end 8       these data bytes are in the part file
//!   GROUP  2 · index 4 · hash 32     this group is in the part file and verified
//!   LOST   3 · index 4               this group failed verification and begins anew
//!   SYNCED 4 · length 8 · seal 16    all that the journal's first `length` bytes speak of is on the disk itself
//!   KEPT   6 · boot 16 · seal 16     all that stands before this is in the hands of the kernel that was booted then, and of the
//!                                    mount that was there
//! ```
//!
//! The user is the one of a daemon who sends the file; of other users' journals nothing is taken up, or one would
//! learn of another's file what it has in common with a guess. Numbers are little-endian; a version of zeros is none.
//! A check is the start of a BLAKE3 hash over the header, the record's position and the record, so that a journal
//! ends for its reader where it was torn or changed, or belongs to another part file. A seal is a keyed hash over the
//! journal up to there: who has not our key cannot make us believe that a part file holds what it does not.

use longhaul_proto::session::manifest::{Entry, FileVersion, GROUP_LEN, Kind};
use std::ops::Range;

/// What tells a part file's name from those of others.
pub(super) type PartToken = [u8; 8];

/// With what a receiver seals its journals.
pub(super) type SealKey = [u8; 32];

/// What tells one run of a host's kernel, and one mount of a file system, from the next.
pub(super) type BootId = [u8; 16];

/// Which user of a daemon a journal is of; zeros where there is no daemon.
pub(super) type Owner = [u8; 16];

/// Of the user of that name.
pub(super) fn owner(name: &str) -> Owner {
    let mut owner = [0; 16];
    let hash = blake3::Hasher::new_derive_key("longhaul 2026-11 user of a journal")
        .update(name.as_bytes())
        .finalize();
    owner.copy_from_slice(&hash.as_bytes()[..16]);
    owner
}

/// Whose word is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ours {
    pub key: SealKey,
    pub boot: BootId,
    pub owner: Owner,
}

/// The first bytes of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    bytes: [u8; HEADER_LEN],
    id: [u8; 32],
}

impl Header {
    /// Of the journal that speaks of this part file of this user's.
    pub(super) fn new(part: PartToken, owner: Owner) -> Header {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&part);
        bytes[16..20].copy_from_slice(&(GROUP_LEN as u32).to_le_bytes());
        bytes[20..36].copy_from_slice(&owner);
        let id = *blake3::hash(&bytes[..36]).as_bytes();
        bytes[36..].copy_from_slice(&id[..CHECK_LEN]);
        Header { bytes, id }
    }

    /// Of a journal's bytes; `None` if they are none.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let header = Header::new(bytes.get(8..16)?.try_into().ok()?, bytes.get(20..36)?.try_into().ok()?);
        bytes.starts_with(&header.bytes).then_some(header)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What tells the part file that it speaks of: a token in its name, and of a file of pieces the time at which it was made.
    pub(super) fn part(&self) -> PartToken {
        let mut part = [0; 8];
        part.copy_from_slice(&self.bytes[8..16]);
        part
    }

    /// Whose it is.
    pub(super) fn owner(&self) -> Owner {
        let mut owner = [0; 16];
        owner.copy_from_slice(&self.bytes[20..36]);
        owner
    }
}

/// The file that records speak of, as its sender described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    size: u64,
    pub data_len: u64,
    mtime: (i64, u32),
    extents_hash: [u8; 32],
    pub version: Option<FileVersion>,
}

impl Source {
    pub(super) fn new(entry: &Entry) -> Source {
        let (size, extents, version) = match &entry.kind {
            Kind::File { size, extents, version } => (*size, extents.as_deref(), *version),
            _ => (0, None, None),
        };
        let (data_len, extents_hash) = (entry.kind.data_len(), extents_hash(extents));
        Source { size, data_len, mtime: entry.mtime, extents_hash, version }
    }

    /// Whether both are one version of one file.
    pub(super) fn is(&self, other: &Source) -> bool {
        self.version.is_some() && self == other
    }

    /// Whether both have their holes at the same places, or none.
    pub(super) fn has_same_holes(&self, other: &Source) -> bool {
        self.extents_hash == other.extents_hash
    }

    /// Up to where a group of one, by its number, is at the same place in the other.
    pub(super) fn common_len(&self, other: &Source) -> u64 {
        let shorter = self.data_len.min(other.data_len);
        if !self.has_same_holes(other) {
            0
        } else if self.data_len == other.data_len {
            shorter
        } else {
            shorter / GROUP_LEN * GROUP_LEN
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

const MAGIC: &[u8; 8] = b"lhjourn3";
pub(super) const CHECK_LEN: usize = 8;
pub(super) const SEAL_LEN: usize = 16;
pub(super) const HEADER_LEN: usize = 8 + 8 + 4 + 16 + CHECK_LEN;

/// No record is longer.
pub(super) const RECORD_MAX: usize = 1 + 76 + CHECK_LEN;

const TAG_RANGE: u8 = 1;
const TAG_GROUP: u8 = 2;
const TAG_LOST: u8 = 3;
const TAG_SYNCED: u8 = 4;
const TAG_SOURCE: u8 = 5;
const TAG_KEPT: u8 = 6;
