//! What the packets of a copy ask of routers, as they are seen on the way.

use crate::common::lab::Over;
use longhaul_lab::{Scenario, Side};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Of the packets of each host, how many carry each code point, in a file of raw IPv4 packets.
fn marks(file: &Path) -> BTreeMap<IpAddr, BTreeMap<u8, u64>> {
    let bytes = fs::read(file).unwrap();
    let mut marks: BTreeMap<IpAddr, BTreeMap<u8, u64>> = BTreeMap::new();
    let mut rest = &bytes[24..];
    while let Some((header, more)) = rest.split_first_chunk::<16>() {
        let kept = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let (packet, next) = more.split_at(kept);
        rest = next;
        if packet[0] >> 4 == 4 {
            let from: [u8; 4] = packet[12..16].try_into().unwrap();
            *marks.entry(IpAddr::from(from)).or_default().entry(packet[1] >> 2).or_default() += 1;
        }
    }
    marks
}

#[test]
fn both_sides_mark_what_they_send_over_udp_and_over_tcp() {
    let scenario = Scenario::new(100.0, 10.0);
    for (flags, expected) in [
        (&["--dscp=af21"][..], 18),
        (&["--dscp=af41", "--transport=stripe"][..], 34),
        (&["--background"][..], 1),
        (&["--background", "--transport=stripe"][..], 1),
        (&["--background", "--dscp=cs1"][..], 8),
        (&[][..], 0),
    ] {
        for pull in [false, true] {
            let over = Over::path(&scenario, 2_000_000, pull);
            let record = over.sides.here.path().with_extension("pcap");
            let capture = over.haul.lab.capture(Side::Left, &record).unwrap();
            over.copy(flags, |_| {});
            capture.finish().unwrap();
            let marks = marks(&record);
            fs::remove_file(&record).unwrap();
            for side in [Side::Left, Side::Right] {
                let of_side = &marks[&IpAddr::from(over.haul.lab.address(side))];
                let (marked, all) =
                    (of_side.get(&expected).copied().unwrap_or(0), of_side.values().sum::<u64>());
                // Before the two have met nobody has been asked.
                assert!(all > 20 && marked * 10 > all * 7, "{flags:?}, pull {pull}, {side:?}: {of_side:?}");
            }
        }
    }
}
