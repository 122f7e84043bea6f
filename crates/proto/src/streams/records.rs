//! How a copy's datagrams follow each other as records on a TCP connection. Which bodies they carry and how those
//! are sealed is as over UDP.
//!
//! ```text
//! record   length u16 · header (15) · sealed bundle · tag (16)       integers are big-endian
//! bundle   (length u16 · body) once or more
//! ```
//! Header and tag are those of a datagram, and the bodies too. The header's number is the first body's; those of
//! the others count on from it. One seal for many bodies, as they travel together: with one each, packets that are
//! short enough for UDP would take 2 % more of the path.

use crate::endpoint::Transmit;
use crate::units::DatagramNumber;
use crate::wire::{HEADER_LEN, SEAL_OVERHEAD, TAG_LEN};
use std::ops::Range;

/// Bytes before each record.
pub const LENGTH_LEN: usize = 2;
/// The longest sealed datagram that a record's length can tell.
pub const RECORD_MAX: usize = u16::MAX as usize;

/// Write a record's length into its first bytes.
pub fn encode_length(buf: &mut [u8], datagram_len: usize) {
    debug_assert!(datagram_len <= RECORD_MAX);
    buf[..LENGTH_LEN].copy_from_slice(&(datagram_len as u16).to_be_bytes());
}

/// A bundle takes no further body once it holds so many bytes: long enough that the seal costs next to nothing, short
/// enough that nothing in it waits long for the rest.
pub const BUNDLE_LEN: usize = 16 << 10;

/// Fill `room` with bodies while `write` has any, each of up to `body_max` bytes, behind the place for a record's length and
/// header. Returns the first one's number, how many there are, and the length of the record that they make once sealed;
/// `None` if there are none, also for want of room.
pub fn write_bundle(
    room: &mut [u8],
    body_max: usize,
    mut write: impl FnMut(&mut [u8]) -> Option<Transmit>,
) -> Option<(DatagramNumber, u64, usize)> {
    let end = room.len().min(LENGTH_LEN + RECORD_MAX).checked_sub(TAG_LEN)?;
    let (mut at, mut first, mut count) = (LENGTH_LEN + HEADER_LEN, None, 0);
    while at < LENGTH_LEN + HEADER_LEN + BUNDLE_LEN && at + LENGTH_LEN + body_max <= end {
        let Some(transmit) = write(&mut room[at + LENGTH_LEN..][..body_max]) else { break };
        debug_assert_eq!(transmit.number, first.unwrap_or(transmit.number) + count, "numbers count on");
        encode_length(&mut room[at..], transmit.len);
        first = first.or(Some(transmit.number));
        (at, count) = (at + LENGTH_LEN + transmit.len, count + 1);
    }
    first.map(|first| (first, count, at + TAG_LEN))
}

/// Take the next body off a bundle, once that is opened.
pub fn next_body<'a>(bundle: &mut &'a mut [u8]) -> Result<Option<&'a mut [u8]>, Malformed> {
    if bundle.is_empty() {
        return Ok(None);
    }
    let (len, rest) = std::mem::take(bundle).split_first_chunk_mut::<LENGTH_LEN>().ok_or(Malformed)?;
    let (body, rest) = rest.split_at_mut_checked(usize::from(u16::from_be_bytes(*len))).ok_or(Malformed)?;
    *bundle = rest;
    Ok(Some(body))
}

/// The other side sends what is no record: the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record that is cut short")]
pub struct Malformed;

/// Takes a connection's bytes apart into sealed datagrams. Holds at most one buffer, whatever comes.
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
    fn a_record_without_room_for_a_seal_is_none() {
        for len in 0..SEAL_OVERHEAD as u8 {
            let mut records = Records::new(0);
            records.room()[..2].copy_from_slice(&[0, len]);
            records.filled(2);
            assert_eq!(records.next_record(), Err(Malformed));
        }
    }

    /// Write a bundle of bodies of these lengths, numbered from 7 and each full of its number, into so much room.
    fn bundle(room: &mut [u8], body_max: usize, lens: &[usize]) -> Option<(DatagramNumber, u64, usize)> {
        let (mut lens, mut number) = (lens.iter(), 7);
        write_bundle(room, body_max, |buf| {
            let len = *lens.next()?;
            buf[..len].fill(number as u8);
            number += 1;
            Some(Transmit { number: number - 1, len })
        })
    }

    #[test]
    fn short_packets_share_a_seal_and_long_ones_have_their_own() {
        let mut room = vec![0; 64 << 10];
        let (_, count, len) = bundle(&mut room, 1441, &[1441; 100]).unwrap();
        let carried = count as usize * 1441;
        assert!(carried >= BUNDLE_LEN && len - carried < carried / 250, "{count} in {len} bytes");
        assert_eq!(
            bundle(&mut room, 17_000, &[17_000; 3]),
            Some((7, 1, 17_000 + 2 * LENGTH_LEN + SEAL_OVERHEAD))
        );
        assert_eq!(bundle(&mut room, 1441, &[]), None);
        assert_eq!(bundle(&mut room[..1000], 1441, &[1000]), None, "no room for what may come");
    }

    #[test]
    fn a_bundle_that_is_cut_short_is_none() {
        for mut bytes in [vec![0], vec![0, 1], vec![0, 1, 9, 0], vec![255, 255, 1]] {
            let mut rest = &mut bytes[..];
            let end = loop {
                match next_body(&mut rest) {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert_eq!(end, Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn bodies_come_out_as_they_went_in(
            lens in prop::collection::vec(0..=1500usize, 1..40),
            room in 0..70_000usize,
        ) {
            let mut room = vec![0; room];
            let Some((first, count, len)) = bundle(&mut room, 1500, &lens) else {
                prop_assert!(room.len() < 2 * LENGTH_LEN + SEAL_OVERHEAD + 1500);
                return Ok(());
            };
            prop_assert!(first == 7 && len <= room.len());
            let mut rest = &mut room[LENGTH_LEN + HEADER_LEN..len - TAG_LEN];
            for (i, len) in lens[..count as usize].iter().enumerate() {
                let body = next_body(&mut rest).unwrap().unwrap();
                prop_assert_eq!(body, &mut vec![7 + i as u8; *len][..]);
            }
            prop_assert_eq!(next_body(&mut rest), Ok(None));
        }

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
