//! The path's MTU changes while a copy is on its way.

use crate::common::lab::Haul;
use crate::common::sides::Sides;
use crate::common::tree::assert_same_bytes;
use longhaul_lab::{Scenario, Side};
use longhaul_testing::machine;
use std::time::Instant;

/// What befalls the path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// From the start, so that a copy begins with it.
    Before,
    /// Longer packets vanish.
    BlackHole,
    /// The sending host knows.
    Refused,
}

const MBIT: f64 = 50.0;
const FILE: usize = 16_000_000;
/// Of the file, what has come when the MTU changes.
const SHARE: f64 = 0.3;
/// Of what passes then a copy can use datagrams of 1200 bytes.
const MTU: u32 = 1400;
const PATH_MTU: u32 = 1228;

/// Copy a file: the megabits a second of what came after the change, silence included.
fn copy(pull: bool, transport: &str, change: Change) -> f64 {
    let sides = Sides::with_file(pull, FILE);
    let haul = Haul::start(&Scenario::new(MBIT, 40.0), sides.there.path());
    if change == Change::Before {
        haul.lab.limit_length(Some(MTU));
    }
    let transport = format!("--transport={transport}");
    let began = Instant::now();
    let copy = haul.start_cp(sides.file_args(&haul.server.url(""), &[&transport, "--why"]));
    let since = if change == Change::Before { began } else { shrink(&haul, pull, change) };
    let ended = copy.finish().expect_code(0);
    let seconds = since.elapsed().as_secs_f64();
    assert_same_bytes(sides.source(), sides.target());
    let json = ended.json();
    assert_eq!((&json["transport"], &json["path_mtu"]), (&"object".into(), &PATH_MTU.into()), "{json}");
    assert_eq!(json["switches"].as_array().map(Vec::len), Some(0), "{json}");
    if change != Change::Before {
        assert!(ended.stderr.contains("datagrams of 1472 bytes no longer pass"), "{}", ended.stderr);
    }
    if change == Change::BlackHole {
        let counters = haul.lab.counters();
        assert!(
            counters.left_to_right.dropped_long + counters.right_to_left.dropped_long > 0,
            "{counters:?}"
        );
    }
    let share = if change == Change::Before { 1.0 } else { 1.0 - SHARE };
    FILE as f64 * share * 8e-6 / seconds
}

fn shrink(haul: &Haul, pull: bool, change: Change) -> Instant {
    haul.await_bytes(pull, (FILE as f64 * SHARE) as u64);
    if change == Change::Refused {
        let sender = if pull { Side::Right } else { Side::Left };
        haul.lab.set_mtu(sender, MTU).expect("the device can have another MTU");
    } else {
        haul.lab.limit_length(Some(MTU));
    }
    Instant::now()
}

/// Push or pull, whatever may carry the data, whoever finds that the packets are too long.
fn a_copy_goes_on_over_udp(pull: bool) {
    let Some(_alone) = machine::measure() else { return };
    machine::repeat(|| {
        let from_start = copy(pull, "object", Change::Before);
        let mut slow = vec![];
        for transport in ["auto", "object"] {
            for change in [Change::BlackHole, Change::Refused] {
                let mbps = copy(pull, transport, change);
                let line = format!(
                    "pull {pull}, {transport}, {change:?}: {mbps:.1} Mb/s, from the start {from_start:.1}"
                );
                println!("{line}");
                if mbps < 0.75 * from_start {
                    slow.push(line);
                }
            }
        }
        if slow.is_empty() { Ok(()) } else { Err(slow.join("\n")) }
    });
}

#[test]
fn a_push_goes_on_over_udp_when_the_mtu_shrinks() {
    a_copy_goes_on_over_udp(false);
}

#[test]
fn a_pull_goes_on_over_udp_when_the_mtu_shrinks() {
    a_copy_goes_on_over_udp(true);
}
