//! How much came to ports of a host that are watched, which tells apart the programs that share a path.

use std::collections::BTreeMap;

/// Bytes of whole IP packets, by the port that they came to.
#[derive(Debug, Default)]
pub(crate) struct Ports(BTreeMap<u16, u64>);

impl Ports {
    /// Count what comes to these from now on, and nothing else: a packet of most labs is not to cost a look.
    pub(crate) fn watch(&mut self, ports: &[u16]) {
        self.0 = ports.iter().map(|port| (*port, 0)).collect();
    }

    /// Count from zero.
    pub(crate) fn reset(&mut self) {
        self.0.values_mut().for_each(|bytes| *bytes = 0);
    }

    /// A packet, or some of one flow that begin like this, was handed to the host, `bytes` in all. What has no ports is not
    /// counted, nor is a fragment that is not the first.
    pub(crate) fn add(&mut self, packet: &[u8], bytes: u64) {
        if self.0.is_empty() {
            return;
        }
        if let Some(sum) = destination(packet).and_then(|port| self.0.get_mut(&port)) {
            *sum += bytes;
        }
    }

    pub(crate) fn bytes(&self, port: u16) -> u64 {
        self.0.get(&port).copied().unwrap_or_default()
    }
}

/// The port that a TCP segment or a UDP datagram goes to.
fn destination(packet: &[u8]) -> Option<u16> {
    let first = *packet.first()?;
    let (protocol, header_len) = match first >> 4 {
        4 => {
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & FRAGMENT_OFFSET;
            let protocol = if fragment == 0 { *packet.get(9)? } else { return None };
            (protocol, usize::from(first & 0xf) * 4)
        }
        6 => (*packet.get(6)?, V6_HEADER_LEN),
        _ => return None,
    };
    let port = packet.get(header_len + 2..header_len + 4)?;
    [TCP, UDP].contains(&protocol).then(|| u16::from_be_bytes([port[0], port[1]]))
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// RFC 791 §3.1.
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// RFC 8200 §3.
pub(crate) const V6_HEADER_LEN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, port: u16, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[22..24].copy_from_slice(&port.to_be_bytes());
        packet
    }

    #[test]
    fn segments_and_datagrams_count_for_their_port() {
        let mut ports = Ports::default();
        ports.watch(&[7700, 7701, 7702]);
        ports.add(&v4(TCP, 7700, 1500), 1500);
        ports.add(&v4(UDP, 7700, 100), 100);
        ports.add(&v4(UDP, 7701, 60), 60);
        let mut six = vec![0; 80];
        six[0] = 0x60;
        six[6] = UDP;
        six[42..44].copy_from_slice(&7701u16.to_be_bytes());
        ports.add(&six, 80);
        assert_eq!([7700, 7701, 7702].map(|port| ports.bytes(port)), [1600, 140, 0]);
    }

    #[test]
    fn what_has_no_port_counts_for_none() {
        let mut later_fragment = v4(UDP, 7700, 100);
        later_fragment[7] = 1;
        for packet in [v4(1, 7700, 100), later_fragment, v4(TCP, 7700, 24)[..22].to_vec(), vec![]] {
            assert_eq!(destination(&packet), None, "{packet:?}");
        }
        let mut with_options = v4(TCP, 0, 100);
        with_options[0] = 0x46;
        with_options[26..28].copy_from_slice(&80u16.to_be_bytes());
        assert_eq!(destination(&with_options), Some(80));
    }
}
