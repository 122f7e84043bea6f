//! What a scenario's figures are in the simulator's units.

use longhaul_proto::units::{Rate, nanos};
use std::time::Duration;

pub(crate) fn rate(mbit: f64) -> Rate {
    Rate((mbit * 1e6).round() as u64)
}

/// How long a packet propagates there and back, over a path of this round trip.
pub(crate) fn both_ways(rtt_ms: f64) -> [Duration; 2] {
    let rtt = millis(rtt_ms);
    let there = Duration::from_nanos(nanos(rtt) / 2);
    [there, rtt - there]
}

pub(crate) fn millis(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6).round() as u64)
}
