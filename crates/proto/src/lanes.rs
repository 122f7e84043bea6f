//! What TCP connections that carry an object's datagrams, *lanes*, say: how one joins a transfer, and how datagrams
//! follow each other as records. Which bodies they carry and how those are sealed is as over UDP.
//!
//! ```text
//! join     client  "LHL" version u8 · connection id u64 · client nonce (32)
//!          server  0 u8 · server nonce (32) · proof (32)              or  reason u8
//!          client  proof (32)
//! record   length u16 · sealed datagram of that length                integers are big-endian
//! ```
//! Whoever wants in must prove that it knows the transfer's secret, over nonces of both sides: nothing can be replayed.

use crate::wire::SEAL_OVERHEAD;
use std::ops::Range;

/// The first bytes of a lane; the last is the version.
pub const MAGIC: [u8; 4] = *b"LHL\x01";
/// Bytes of it.
pub const MAGIC_LEN: usize = MAGIC.len();
/// Bytes of a nonce.
pub const NONCE_LEN: usize = 32;
/// Bytes of a proof.
pub const PROOF_LEN: usize = 32;
/// Bytes of a client's first words after the magic.
pub const HELLO_LEN: usize = 8 + NONCE_LEN;
/// Bytes of the server's after the status.
pub const WELCOME_LEN: usize = NONCE_LEN + PROOF_LEN;
/// Lanes that one transfer may have.
pub const LANES_MAX: usize = 64;

/// Status: go on.
pub const WELCOME: u8 = 0;
/// Status: there is no such transfer, or it has lanes enough.
pub const UNKNOWN: u8 = 1;

/// What a client says first, after the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which transfer.
    pub connection_id: u64,
    /// The client's random bytes.
    pub nonce: [u8; NONCE_LEN],
}

impl Hello {
    /// Write magic and all.
    pub fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &self.connection_id.to_be_bytes(), &self.nonce].concat()
    }

    /// Read what follows the magic.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Hello {
        let (id, nonce) = bytes.split_at(8);
        Hello {
            connection_id: id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte)),
            nonce: std::array::from_fn(|i| nonce[i]),
        }
    }
}

/// Bytes before each record.
pub const LENGTH_LEN: usize = 2;
/// The longest sealed datagram that a record's length can tell.
pub const RECORD_MAX: usize = u16::MAX as usize;

/// Write a record's length into its first bytes.
pub fn encode_length(buf: &mut [u8], datagram_len: usize) {
    debug_assert!(datagram_len <= RECORD_MAX);
    buf[..LENGTH_LEN].copy_from_slice(&(datagram_len as u16).to_be_bytes());
}

/// The other side sends what is no record: the lane is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record that is too short for a datagram")]
pub struct Malformed;

/// Takes a lane's bytes apart into sealed datagrams. Holds at most one buffer, whatever comes.
#[derive(Debug)]
pub struct Records {
    buf: Vec<u8>,
    filled: Range<usize>,
}

impl Records {
    /// With `capacity` bytes for what is read at a time, at least what the longest record needs.
    pub fn new(capacity: usize) -> Records {
        Records { buf: vec![0; capacity.max(LENGTH_LEN + RECORD_MAX)], filled: 0..0 }
    }

    /// Where the next bytes are to be read to. Never empty once [`Records::next_record`] has said that there is no whole
    /// record.
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.buf.len() - self.filled.start < LENGTH_LEN + RECORD_MAX {
            self.buf.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        &mut self.buf[self.filled.end..]
    }

    /// So many bytes were read there.
    pub fn filled(&mut self, bytes: usize) {
        self.filled.end = (self.filled.end + bytes).min(self.buf.len());
    }

    /// The next whole record's datagram, to be opened in place.
    pub fn next_record(&mut self) -> Result<Option<&mut [u8]>, Malformed> {
        let Some((len, rest)) = self.buf[self.filled.clone()].split_first_chunk::<LENGTH_LEN>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes(*len));
        if len < SEAL_OVERHEAD {
            return Err(Malformed);
        }
        if rest.len() < len {
            return Ok(None);
        }
        let start = self.filled.start + LENGTH_LEN;
        self.filled.start = start + len;
        Ok(Some(&mut self.buf[start..start + len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hello_is_read_as_written() {
        let hello = Hello { connection_id: 0x0102_0304_0506_0708, nonce: [7; NONCE_LEN] };
        let bytes = hello.encode();
        assert_eq!(bytes[..4], MAGIC);
        assert_eq!(Hello::decode(bytes[4..].try_into().unwrap()), hello);
    }

    #[test]
    fn a_record_without_room_for_a_seal_is_none() {
        for len in 0..SEAL_OVERHEAD as u8 {
            let mut records = Records::new(0);
            records.room()[..2].copy_from_slice(&[0, len]);
            records.filled(2);
            assert_eq!(records.next_record(), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn records_come_out_however_the_bytes_come_in(
            lens in prop::collection::vec(SEAL_OVERHEAD..3000usize, 1..80),
            long in SEAL_OVERHEAD..=RECORD_MAX,
            pieces in prop::collection::vec(1..9000usize, 1..50),
        ) {
            let lens: Vec<usize> = lens.into_iter().chain([long]).collect();
            let mut bytes = vec![];
            for (i, len) in lens.iter().enumerate() {
                let mut length = [0; LENGTH_LEN];
                encode_length(&mut length, *len);
                bytes.extend(length);
                bytes.extend(std::iter::repeat_n(i as u8, *len));
            }
            let (mut records, mut found, mut rest) = (Records::new(0), vec![], &bytes[..]);
            for piece in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let room = records.room();
                prop_assert!(!room.is_empty());
                let taken = room.len().min(*piece).min(rest.len());
                room[..taken].copy_from_slice(&rest[..taken]);
                records.filled(taken);
                rest = &rest[taken..];
                while let Some(record) = records.next_record().unwrap() {
                    prop_assert!(record.iter().all(|byte| *byte == found.len() as u8));
                    found.push(record.len());
                }
            }
            prop_assert_eq!(found, lens);
        }
    }
}
