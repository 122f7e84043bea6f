//! What the emulator reads of a packet's headers.

use longhaul_proto::ecn::Ecn;
use longhaul_sim::impair::mix;

/// What tells packets apart.
pub(crate) struct Headers<'a> {
    protocol: u8,
    addresses: &'a [u8],
    is_fragment: bool,
    /// Source and destination; neither in fragments but the first, nor where the protocol has none.
    ports: Option<&'a [u8; 4]>,
}

impl<'a> Headers<'a> {
    /// Of an IP packet, or of some packets of one flow that begin like this.
    pub(crate) fn read(packet: &'a [u8]) -> Option<Headers<'a>> {
        let first = *packet.first()?;
        let (protocol, addresses, fragment, header_len) = match first >> 4 {
            4 => {
                let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
                (*packet.get(9)?, packet.get(12..20)?, fragment, usize::from(first & 0xf) * 4)
            }
            6 => (*packet.get(6)?, packet.get(8..V6_HEADER_LEN)?, 0, V6_HEADER_LEN),
            _ => return None,
        };
        let has_ports = fragment & FRAGMENT_OFFSET == 0 && [TCP, UDP].contains(&protocol);
        let ports = packet.get(header_len..).and_then(|transport| transport.first_chunk());
        Some(Headers {
            protocol,
            addresses,
            is_fragment: fragment & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0,
            ports: ports.filter(|_| has_ports),
        })
    }

    pub(crate) fn is_udp(&self) -> bool {
        self.protocol == UDP
    }

    /// The port that a TCP segment or a UDP datagram goes to.
    pub(crate) fn destination_port(&self) -> Option<u16> {
        self.ports.map(|ports| u16::from_be_bytes([ports[2], ports[3]]))
    }

    /// The same number for all packets of a flow. All fragments between two hosts are one.
    pub(crate) fn flow(&self) -> u32 {
        let ports = self.ports.filter(|_| !self.is_fragment).map_or(0, |ports| u32::from_ne_bytes(*ports));
        let begin = mix(u64::from(ports) << 8 | u64::from(self.protocol));
        self.addresses.as_chunks().0.iter().fold(begin, |sum, word| mix(sum ^ u64::from_ne_bytes(*word)))
            as u32
    }
}

/// Change a byte behind the IP header, so that the packet still arrives and its transport checksum is wrong. The number
/// says which byte, and how.
pub(crate) fn corrupt(packet: &mut [u8], number: u64) {
    let header =
        if packet.first().is_some_and(|byte| byte >> 4 == 6) { V6_HEADER_LEN } else { V4_HEADER_LEN_MIN };
    let payload = packet.len().saturating_sub(header);
    if payload > 0 {
        packet[header + (number as u32 as usize) % payload] ^= ((number >> 32) % 255) as u8 + 1;
    }
}

/// What an IP packet says of queues that mark (RFC 3168 §5).
pub(crate) fn ecn(packet: &[u8]) -> Ecn {
    match packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(*second),
        // The traffic class lies across two bytes (RFC 8200 §3).
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Have it say that, its checksum with it.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    if self::ecn(packet) == ecn {
        return;
    }
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & !(ECN_BITS << 4) | ecn.bits() << 4;
        return;
    }
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] = packet[1] & !ECN_BITS | ecn.bits();
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    if let Some(check) = packet.get_mut(10..12) {
        // RFC 1624, equation 3.
        let sum = [!before, after].into_iter().fold(!u16::from_be_bytes([check[0], check[1]]), add);
        check.copy_from_slice(&(!sum).to_be_bytes());
    }
}

/// In one's complement, as the Internet checksum (RFC 1071) has it.
pub(crate) fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

const ECN_BITS: u8 = 3;
const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// RFC 791 §3.1.
pub(crate) const V4_HEADER_LEN_MIN: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// RFC 8200 §3.
pub(crate) const V6_HEADER_LEN: usize = 40;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A packet with so many bytes of header, to that port.
    pub(crate) fn v4(protocol: u8, port: u16, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[22..24].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn port_of(packet: &[u8]) -> Option<u16> {
        Headers::read(packet).and_then(|headers| headers.destination_port())
    }

    #[test]
    fn ports_are_found_where_there_are_some() {
        let mut later_fragment = v4(UDP, 7700, 100);
        later_fragment[7] = 1;
        for packet in [v4(1, 7700, 100), later_fragment, v4(TCP, 7700, 24)[..22].to_vec(), vec![]] {
            assert_eq!(port_of(&packet), None, "{packet:?}");
        }
        let mut with_options = v4(TCP, 0, 100);
        with_options[0] = 0x46;
        with_options[26..28].copy_from_slice(&80u16.to_be_bytes());
        assert_eq!(port_of(&with_options), Some(80));
    }

    #[test]
    fn flows_differ_in_protocol_addresses_and_ports() {
        let flow = |change: &[(usize, u8)]| {
            let mut packet = v4(UDP, 7700, 100);
            change.iter().for_each(|(at, byte)| packet[*at] = *byte);
            Headers::read(&packet).map(|headers| headers.flow())
        };
        let first = flow(&[]);
        assert_eq!(first, flow(&[(8, 1), (50, 1)]), "time to live and payload do not count");
        for change in [(9, TCP), (13, 1), (19, 1), (21, 1), (23, 1)] {
            assert_ne!(first, flow(&[change]), "{change:?}");
        }
        // The first fragment has ports, a later one none.
        assert_eq!(flow(&[(6, 0x20)]), flow(&[(7, 9), (21, 5)]));
        let v6 = |at: usize| {
            let mut packet = [0; 60];
            (packet[0], packet[6], packet[at]) = (0x60, UDP, 1);
            Headers::read(&packet).map(|headers| headers.flow())
        };
        assert!(v6(50) != v6(39) && v6(39) != v6(8) && v6(40) != v6(42));
    }

    #[test]
    fn marks_are_set_and_the_checksum_follows() {
        let sum = |packet: &[u8]| {
            packet[..20].chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).fold(0, add)
        };
        let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (from, to) in all.into_iter().flat_map(|from| all.map(|to| (from, to))) {
            let mut packet = v4(UDP, 7700, 100);
            packet[1] = 0x20 | from.bits();
            let check = !sum(&packet);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
            set_ecn(&mut packet, to);
            assert_eq!((ecn(&packet), packet[1] >> 2, sum(&packet)), (to, 8, 0xffff));
            let mut v6 = vec![0x6f, 0x0f | from.bits() << 4, 1, 2];
            set_ecn(&mut v6, to);
            assert_eq!((ecn(&v6), v6[0], v6[1] & 0xcf), (to, 0x6f, 0x0f));
        }
    }

    #[test]
    fn one_byte_behind_the_header_changes() {
        for number in (0..1000).map(mix) {
            let mut packet = v4(TCP, 80, 60);
            let before = packet.clone();
            corrupt(&mut packet, number);
            let changed: Vec<usize> = (0..60).filter(|at| packet[*at] != before[*at]).collect();
            assert!(matches!(changed[..], [20..60]), "{changed:?}");
        }
    }
}
