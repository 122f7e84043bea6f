//! Formats of segments. The sizes are those of TCP over IPv4: with the 28 bytes of IP and UDP around it, a segment
//! takes the 52 bytes that IP and TCP with timestamps (RFC 7323) take, and what TCP's options would add.
//!
//! ```text
//! 0  kind u8 · flags u8 · connection u32 · sequence u48     what a stream of one direction needs of both numbers
//! 12 stamp u32 · echo u32                                   clocks in µs (RFC 7323 §3)
//! 20 window u16 · mss u16                                   in an ACK the latter is the count of marked segments (as RFC 9768)
//! 24 SYN, SYN-ACK: window scale u8 · 7 zeros
//!    DATA: the stream's bytes
//!    ACK: nothing, or 4 zeros and up to 3 blocks of start u32 · end u32, the low bits of sequences (RFC 2018)
//! ```

use crate::wire::u48;

/// Bytes before the stream's own.
pub(super) const HEADER_LEN: usize = 24;
/// Bytes of a SYN and of a SYN-ACK.
pub(super) const SYN_LEN: usize = 32;
/// Blocks that TCP's options have room for beside a timestamp (RFC 2018 §3).
pub(super) const BLOCKS_MAX: usize = 3;
/// Bytes of the longest acknowledgement.
#[cfg(test)]
pub(super) const ACK_LEN_MAX: usize = BLOCKS_AT + BLOCK_LEN * BLOCKS_MAX;

const BLOCKS_AT: usize = HEADER_LEN + 4;
const BLOCK_LEN: usize = 8;

const KIND_SYN: u8 = 1;
const KIND_SYN_ACK: u8 = 2;
const KIND_DATA: u8 = 3;
const KIND_ACK: u8 = 4;

const FLAG_FIN: u8 = 1;
const FLAG_SACK: u8 = 2;
const FLAG_SCALE: u8 = 4;

/// A segment, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    /// Which connection; the opening side chooses.
    pub connection: u32,
    /// The sending side's clock, µs.
    pub stamp_us: u32,
    /// The other side's clock as last heard.
    pub echo_us: u32,
    /// What it says.
    pub body: Body<'a>,
}

/// What a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// Let us begin.
    Syn(Options),
    /// Agreed.
    SynAck(Options),
    /// Bytes of the stream; none at all asks for an acknowledgement.
    Data {
        /// Low 48 bits of the first byte's place.
        sequence: u64,
        /// The stream ends behind these bytes.
        fin: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// What has come in.
    Ack {
        /// Low 48 bits of the place of the first byte that has not.
        next: u64,
        /// How many more there is room for, not yet scaled.
        window: u16,
        /// How many segments of data came in marked by a queue, the low 16 bits.
        marked: u16,
        /// What came in beyond, the latest first.
        blocks: Blocks,
    },
}

/// What both sides tell of themselves when they open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Payload bytes in a segment at most.
    pub mss: u16,
    /// Blocks are understood (RFC 2018 §2).
    pub sack: bool,
    /// Windows are to be shifted by this (RFC 7323 §2); absent: as they stand.
    pub scale: Option<u8>,
    /// Room for the first bytes, never scaled.
    pub window: u16,
}

/// Up to [`BLOCKS_MAX`] stretches, as low 32 bits of their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    ends: [(u32, u32); BLOCKS_MAX],
    count: usize,
}

impl Blocks {
    /// One more; ignored if there is no room.
    pub fn push(&mut self, start: u64, end: u64) {
        if self.count < BLOCKS_MAX {
            self.ends[self.count] = (start as u32, end as u32);
            self.count += 1;
        }
    }

    /// In full length, given a sequence within 2³¹ of all. Those that run backwards or begin before zero are left out.
    pub fn unwrap(&self, near: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let far = move |low: u32| near.checked_add_signed(i64::from(low.wrapping_sub(near as u32) as i32));
        self.ends.into_iter().take(self.count).filter_map(move |(start, end)| {
            let (start, end) = (far(start)?, far(end)?);
            (start < end).then_some((start, end))
        })
    }
}

impl Segment<'_> {
    /// Read it; `None` for anything malformed.
    pub fn decode(body: &[u8]) -> Option<Segment<'_>> {
        let (header, rest) = body.split_first_chunk::<HEADER_LEN>()?;
        let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let u32_at =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (flags, sequence, window) = (header[1], u48(&header[6..])?, u16_at(20));
        let body = match header[0] {
            kind @ (KIND_SYN | KIND_SYN_ACK) => {
                let scale = *rest.first().filter(|_| body.len() == SYN_LEN)?;
                let options = Options {
                    mss: u16_at(22),
                    sack: flags & FLAG_SACK > 0,
                    scale: (flags & FLAG_SCALE > 0).then_some(scale.min(SCALE_MAX)),
                    window,
                };
                if kind == KIND_SYN { Body::Syn(options) } else { Body::SynAck(options) }
            }
            KIND_DATA => Body::Data { sequence, fin: flags & FLAG_FIN > 0, bytes: rest },
            KIND_ACK => {
                Body::Ack { next: sequence, window, marked: u16_at(22), blocks: decode_blocks(rest)? }
            }
            _ => return None,
        };
        Some(Segment { connection: u32_at(2), stamp_us: u32_at(12), echo_us: u32_at(16), body })
    }

    /// Write it and return its length. The bytes of data are not written: they are read from their source to where
    /// they belong, at [`HEADER_LEN`].
    pub fn encode(&self, buf: &mut [u8]) -> usize {
        let (kind, flags, sequence, window, mss, len) = match &self.body {
            Body::Syn(options) | Body::SynAck(options) => {
                let kind = if matches!(self.body, Body::Syn(_)) { KIND_SYN } else { KIND_SYN_ACK };
                let sack = if options.sack { FLAG_SACK } else { 0 };
                let scale = if options.scale.is_some() { FLAG_SCALE } else { 0 };
                buf[HEADER_LEN..SYN_LEN].fill(0);
                buf[HEADER_LEN] = options.scale.unwrap_or(0);
                (kind, sack | scale, 0, options.window, options.mss, SYN_LEN)
            }
            Body::Data { sequence, fin, bytes } => {
                (KIND_DATA, if *fin { FLAG_FIN } else { 0 }, *sequence, 0, 0, HEADER_LEN + bytes.len())
            }
            Body::Ack { next, window, marked, blocks } => {
                (KIND_ACK, 0, *next, *window, *marked, encode_blocks(buf, blocks))
            }
        };
        (buf[0], buf[1]) = (kind, flags);
        buf[2..6].copy_from_slice(&self.connection.to_be_bytes());
        buf[6..12].copy_from_slice(&sequence.to_be_bytes()[2..]);
        buf[12..16].copy_from_slice(&self.stamp_us.to_be_bytes());
        buf[16..20].copy_from_slice(&self.echo_us.to_be_bytes());
        buf[20..22].copy_from_slice(&window.to_be_bytes());
        buf[22..24].copy_from_slice(&mss.to_be_bytes());
        len
    }
}

fn decode_blocks(rest: &[u8]) -> Option<Blocks> {
    let mut blocks = Blocks::default();
    if rest.is_empty() {
        return Some(blocks);
    }
    let (pairs, left) = rest.get(BLOCKS_AT - HEADER_LEN..)?.as_chunks::<BLOCK_LEN>();
    if !left.is_empty() || pairs.len() > BLOCKS_MAX {
        return None;
    }
    for &[a, b, c, d, e, f, g, h] in pairs {
        let (start, end) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        blocks.push(start.into(), end.into());
    }
    Some(blocks)
}

fn encode_blocks(buf: &mut [u8], blocks: &Blocks) -> usize {
    if blocks.count == 0 {
        return HEADER_LEN;
    }
    buf[HEADER_LEN..BLOCKS_AT].fill(0);
    let len = BLOCKS_AT + BLOCK_LEN * blocks.count;
    for (place, (start, end)) in
        buf[BLOCKS_AT..len].as_chunks_mut::<BLOCK_LEN>().0.iter_mut().zip(blocks.ends)
    {
        place[..4].copy_from_slice(&start.to_be_bytes());
        place[4..].copy_from_slice(&end.to_be_bytes());
    }
    len
}

/// The number with these low 48 bits that is nearest to `near`.
pub(super) fn unwrap48(low: u64, near: u64) -> u64 {
    let ahead = low.wrapping_sub(near) << 16;
    // An arithmetic shift: distances beyond half the space are negative.
    near.checked_add_signed((ahead as i64) >> 16).unwrap_or(low)
}

/// RFC 7323 §2.3.
pub(super) const SCALE_MAX: u8 = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            connection: u32,
            stamp_us: u32,
            echo_us: u32,
            next in 0u64..1 << 48,
            window: u16,
            blocks in prop::collection::vec((0u64..1 << 48, 1u64..1000), 0..4),
            options in (any::<u16>(), any::<bool>(), prop::option::of(0u8..=SCALE_MAX)),
        ) {
            let mut told = Blocks::default();
            blocks.iter().for_each(|(start, len)| told.push(*start, start + len));
            let (mss, sack, scale) = options;
            for body in [
                Body::Ack { next, window, marked: mss, blocks: told },
                Body::Data { sequence: next, fin: sack, bytes: &[0; 10] },
                Body::Syn(Options { mss, sack, scale, window }),
                Body::SynAck(Options { mss, sack, scale, window }),
            ] {
                let segment = Segment { connection, stamp_us, echo_us, body };
                let mut buf = [0; ACK_LEN_MAX];
                let len = segment.encode(&mut buf);
                prop_assert_eq!(Segment::decode(&buf[..len]), Some(segment));
            }
        }

        #[test]
        fn low_bits_are_completed(near in 1u64 << 50..1 << 60, by in -(1i64 << 46)..1 << 46) {
            let number = near.checked_add_signed(by).unwrap();
            prop_assert_eq!(unwrap48(number & ((1 << 48) - 1), near), number);
            let (mut blocks, end) = (Blocks::default(), number + 5);
            blocks.push(number, end);
            let close = near.checked_add_signed(by.signum() * 1000).unwrap();
            let mut told = Blocks::default();
            told.push(close, close + 5);
            prop_assert_eq!(told.unwrap(near).collect::<Vec<_>>(), vec![(close, close + 5)]);
        }
    }

    #[test]
    fn sizes_are_those_of_tcp() {
        const IP_AND_UDP: usize = crate::wire::IPV4_UDP_LEN;
        let len = |body| Segment { connection: 1, stamp_us: 2, echo_us: 3, body }.encode(&mut [0; 100]);
        // TCP: 20 bytes of IP, 20 of TCP; SYN options 20; timestamps 12; n blocks 4 + 8 n.
        let options = Options { mss: 1448, sack: true, scale: Some(7), window: 1 };
        assert_eq!(IP_AND_UDP + len(Body::Syn(options)), 60);
        let mut blocks = Blocks::default();
        assert_eq!(IP_AND_UDP + len(Body::Ack { next: 0, window: 1, marked: 0, blocks }), 52);
        blocks.push(1, 2);
        assert_eq!(IP_AND_UDP + len(Body::Ack { next: 0, window: 1, marked: 0, blocks }), 64);
        (0..5).for_each(|n| blocks.push(n, n + 1));
        assert_eq!(IP_AND_UDP + len(Body::Ack { next: 0, window: 1, marked: 0, blocks }), 80);
    }
}
