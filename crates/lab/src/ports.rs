//! How much came to ports of a host that are watched, which tells apart the programs that share a path.

use crate::headers::Headers;
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
        let port = Headers::read(packet).and_then(|headers| headers.destination_port());
        if let Some(sum) = port.and_then(|port| self.0.get_mut(&port)) {
            *sum += bytes;
        }
    }

    pub(crate) fn bytes(&self, port: u16) -> u64 {
        self.0.get(&port).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::tests::v4;

    #[test]
    fn segments_and_datagrams_count_for_their_port() {
        let mut ports = Ports::default();
        ports.watch(&[7700, 7701, 7702]);
        ports.add(&v4(6, 7700, 1500), 1500);
        ports.add(&v4(17, 7700, 100), 100);
        ports.add(&v4(17, 7701, 60), 60);
        let mut six = vec![0; 80];
        six[0] = 0x60;
        six[6] = 17;
        six[42..44].copy_from_slice(&7701u16.to_be_bytes());
        ports.add(&six, 80);
        assert_eq!([7700, 7701, 7702].map(|port| ports.bytes(port)), [1600, 140, 0]);
    }
}
