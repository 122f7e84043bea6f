//! Acknowledgements made by hand.

use super::{AckSample, LossSample};
use crate::units::Time;
use core::time::Duration;

/// At `ms`, over a path of 20 ms, everything below `largest` came in, in datagrams of a thousand bytes.
pub fn ack(ms: u64, largest: u64) -> AckSample {
    let now = Time::from_millis(ms);
    let rtt = Duration::from_millis(20);
    AckSample {
        now,
        arrival: now - rtt / 2,
        one_way_ns: Some(10_000_000),
        rtt: Some(rtt),
        rtt_min: rtt,
        received_bytes: 1000 * (largest + 1),
        accepted_bytes: 1000 * (largest + 1),
        covered_bytes: 1000 * (largest + 1),
        overrun_bytes: 0,
        ce_bytes: 0,
        pressure: 0.0,
        latest: largest,
        largest,
        next_number: largest + 1,
        in_flight: 0,
        app_limited: false,
        time_lost: Duration::ZERO,
    }
}

/// At `ms`, so many datagrams were found lost.
pub fn loss(ms: u64, datagrams: u64, new_episode: bool) -> LossSample {
    LossSample { now: Time::from_millis(ms), lost_bytes: 1000 * datagrams, new_episode, in_flight: 0 }
}
