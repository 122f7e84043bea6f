//! Super-packets: many packets of one flow that a host hands over as one, as it does to a network card that cuts
//! them up (segmentation offload). One read and one write move up to 64 KiB then. The path treats each of the
//! packets by itself; those that it passes in a row go on together.
//!
//! Each begins with what the kernel says of it, `struct virtio_net_hdr` (VIRTIO 1.2 §5.1.6), in the host's byte
//! order:
//!
//! ```text
//! flags 1 · kind 1 · length of the headers 2 · payload of a packet 2 · where a checksum begins 2 · its field from there 2
//! ```

use crate::headers::{V4_HEADER_LEN_MIN, V6_HEADER_LEN, add as sum};
use std::ops::Range;

/// Length of what precedes each packet.
pub(crate) const NOTE_LEN: usize = 10;
/// The most that a host hands over at once: the note and the longest IP packet.
pub(crate) const SUPER_LEN_MAX: usize = NOTE_LEN + 65_536;

/// How a super-packet is cut into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Where the transport header begins; the IP header follows the note.
    transport_at: usize,
    /// Where the payload begins. The headers before it are repeated in each packet.
    payload_at: usize,
    /// Payload of each packet but the last.
    piece_len: usize,
    payload_len: usize,
    /// Where the transport checksum is.
    check_at: usize,
    is_tcp: bool,
}

impl Shape {
    /// Of a super-packet; `None` for a single packet.
    pub(crate) fn of(bytes: &[u8]) -> Option<Shape> {
        let kind = *bytes.get(1)? & !KIND_ECN;
        let is_tcp = matches!(kind, KIND_TCP_V4 | KIND_TCP_V6);
        if !is_tcp && kind != KIND_UDP {
            return None;
        }
        let piece_len = usize::from(number_at(bytes, 4)?);
        let transport_at = NOTE_LEN + usize::from(number_at(bytes, 6)?);
        let check_at = transport_at + usize::from(number_at(bytes, 8)?);
        let ip_len_min = if *bytes.get(NOTE_LEN)? >> 4 == 6 { V6_HEADER_LEN } else { V4_HEADER_LEN_MIN };
        let (header_len, header_len_min) = match is_tcp {
            true => (usize::from(*bytes.get(transport_at + 12)? >> 4) * 4, TCP_HEADER_LEN_MIN),
            false => (UDP_HEADER_LEN, UDP_HEADER_LEN),
        };
        let payload_at = transport_at + header_len;
        let payload_len = bytes.len().checked_sub(payload_at)?;
        let has_headers = transport_at >= NOTE_LEN + ip_len_min && header_len >= header_len_min;
        let is_sound = has_headers && check_at + 2 <= payload_at && piece_len > 0 && payload_len > piece_len;
        let shape = Shape { transport_at, payload_at, piece_len, payload_len, check_at, is_tcp };
        is_sound.then_some(shape)
    }

    /// How many packets it is.
    pub(crate) fn packets(&self) -> u32 {
        self.payload_len.div_ceil(self.piece_len) as u32
    }

    /// Length of the n-th of them, as a whole IP packet.
    pub(crate) fn packet_len(&self, n: u32) -> usize {
        self.packets_len(&(n..n + 1))
    }

    /// Length of all of these together, as whole IP packets.
    pub(crate) fn packets_len(&self, which: &Range<u32>) -> usize {
        which.len() * (self.payload_at - NOTE_LEN) + self.payload(which).len()
    }

    /// Make one of a few of the packets, as the host would have handed them over. Returns its length.
    pub(crate) fn cut(&self, from: &[u8], which: &Range<u32>, into: &mut [u8]) -> usize {
        let payload = self.payload(which);
        let len = self.payload_at + payload.len();
        into[..self.payload_at].copy_from_slice(&from[..self.payload_at]);
        into[self.payload_at..len]
            .copy_from_slice(&from[self.payload_at + payload.start..self.payload_at + payload.end]);
        let into = &mut into[..len];
        if which.len() == 1 {
            into[1] = 0;
            into[4..6].fill(0);
        }
        let removed = (from.len() - len) as u16;
        shorten_ip(&mut into[NOTE_LEN..], removed, which.start as u16);
        // The host leaves the checksum to the card, with the sum of addresses and length for a start.
        let check = u16_at(into, self.check_at);
        put_u16(into, self.check_at, sum(check, !removed));
        let transport = &mut into[self.transport_at..];
        if !self.is_tcp {
            let udp_len = u16_at(transport, 4).wrapping_sub(removed);
            put_u16(transport, 4, udp_len);
            return len;
        }
        let number = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        transport[4..8].copy_from_slice(&number.wrapping_add(payload.start as u32).to_be_bytes());
        if which.start > 0 {
            transport[TCP_FLAGS_AT] &= !TCP_CWR;
        }
        if which.end < self.packets() {
            transport[TCP_FLAGS_AT] &= !(TCP_FIN | TCP_PSH);
        }
        len
    }

    /// Where these packets' payload is in that of all.
    fn payload(&self, which: &Range<u32>) -> Range<usize> {
        let end = |n: u32| (n as usize * self.piece_len).min(self.payload_len);
        end(which.start)..end(which.end)
    }
}

/// Take so many bytes off the length that an IP header says. Each packet has a number of its own.
fn shorten_ip(ip: &mut [u8], removed: u16, numbers: u16) {
    if ip[0] >> 4 == 6 {
        let len = u16_at(ip, 4).wrapping_sub(removed);
        return put_u16(ip, 4, len);
    }
    let (len, number) = (u16_at(ip, 2), u16_at(ip, 4));
    let new = (len.wrapping_sub(removed), number.wrapping_add(numbers));
    // RFC 1624, equation 3.
    let check = [!len, new.0, !number, new.1].into_iter().fold(!u16_at(ip, 10), sum);
    put_u16(ip, 2, new.0);
    put_u16(ip, 4, new.1);
    put_u16(ip, 10, !check);
}

fn number_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// VIRTIO 1.2 §5.1.6.
const KIND_TCP_V4: u8 = 1;
const KIND_TCP_V6: u8 = 4;
const KIND_UDP: u8 = 5;
const KIND_ECN: u8 = 0x80;
/// RFC 9293 §3.1, RFC 768.
const TCP_HEADER_LEN_MIN: usize = 20;
const UDP_HEADER_LEN: usize = 8;
/// RFC 9293 §3.1.
const TCP_FLAGS_AT: usize = 13;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

#[cfg(test)]
pub(crate) mod tests;
