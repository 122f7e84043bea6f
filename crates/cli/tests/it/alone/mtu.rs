//! The path's MTU changes while a copy is on its way.

use crate::common::lab::Haul;
use crate::common::sides::Sides;
use crate::common::tree::assert_same_bytes;
use longhaul_lab::{Scenario, Side};
use longhaul_testing::machine;
use std::thread;
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

/// Copy a file: the megabits a second of what came after the change, silence included. On a busy machine UDP may be so slow that
/// something else is tried, which is the error.
fn copy(pull: bool, transport: &str, change: Change) -> Result<f64, String> {
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
    assert_eq!(json["path_mtu"], PATH_MTU, "{json}");
    if (&json["transport"], json["switches"].as_array().map(Vec::len)) != (&"object".into(), Some(0)) {
        return Err(format!("pull {pull}, {transport}, {change:?}: not over UDP alone: {json}"));
    }
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
    Ok(FILE as f64 * share * 8e-6 / seconds)
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

/// Whatever may carry the data, whoever finds that the packets are too long: which were slow, or not over UDP.
fn slow_copies(pull: bool) -> Vec<String> {
    let from_start = match copy(pull, "object", Change::Before) {
        Ok(mbps) => mbps,
        Err(line) => return vec![line],
    };
    let changes = ["auto", "object"]
        .map(|transport| [Change::BlackHole, Change::Refused].map(|change| (transport, change)));
    let measure = |(transport, change)| {
        let mbps = match copy(pull, transport, change) {
            Ok(mbps) => mbps,
            Err(line) => return Some(line),
        };
        let line =
            format!("pull {pull}, {transport}, {change:?}: {mbps:.1} Mb/s, from the start {from_start:.1}");
        println!("{line}");
        (mbps < 0.75 * from_start).then_some(line)
    };
    changes.into_iter().flatten().filter_map(measure).collect()
}

/// A push and a pull at a time, which together leave much of the machine idle.
#[test]
fn copies_go_on_over_udp_when_the_mtu_shrinks() {
    let Some(held) = machine::measure_beside_others() else { return };
    machine::repeat(|| {
        let slow = thread::scope(|scope| {
            let held = &held;
            let both = [false, true].map(|pull| {
                scope.spawn(move || {
                    let _held = held.lend();
                    slow_copies(pull)
                })
            });
            both.map(|one| one.join().expect("no panic")).concat()
        });
        if slow.is_empty() { Ok(()) } else { Err(slow.join("\n")) }
    });
}
