//! Which sizes of datagrams a client has tried.

use crate::api::CopyOptions;
use longhaul_proto::wire;

/// UDP payload lengths that are tried.
pub fn classes(options: &CopyOptions) -> Vec<u16> {
    let udp = options.transport.allows_udp();
    let usual = || if udp { CLASSES.to_vec() } else { vec![STREAMS_CLASS] };
    options.packet_size.map_or_else(usual, |size| vec![size])
}

/// UDP payload lengths tried when none was named: what passes everywhere; Ethernet under IPv6 and IPv4; jumbo frames.
const CLASSES: [u16; 5] = [wire::BASE_DATAGRAM_LEN, 1452, 1472, 8952, 8972];
/// Where no datagram has to pass: 16 KiB of data, so that many fill a block to its end and sealing costs least.
const STREAMS_CLASS: u16 = (16 << 10) + wire::DATA_OVERHEAD as u16;
