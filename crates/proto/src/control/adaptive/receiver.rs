//! What the receiving host takes, apart from what the path carries.

use super::{ALIKE, TICK_MAX};
use crate::control::AckSample;
use crate::units::{Rate, Time};
use core::time::Duration;

/// A receiver that drops, refuses or runs full bounds the rate: by what it took lately, a little more while its sink
/// is less than half full, a little less while it is fuller.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiverBound {
    /// bit/s; infinite while it keeps up.
    pub limit: f64,
    /// Counters at its last review.
    at: Time,
    accepted: u64,
    overrun: u64,
}

impl ReceiverBound {
    pub fn new() -> ReceiverBound {
        ReceiverBound { limit: f64::INFINITY, at: Time::ZERO, accepted: 0, overrun: 0 }
    }

    /// An acknowledgement came while `rate` was sent and the path was taken to carry `bandwidth`.
    pub fn heed(&mut self, ack: &AckSample, rtt: Duration, rate: f64, bandwidth: f64) {
        let span = ack.now.since(self.at);
        // The sink holds several times as much.
        if span < TICK_MAX.max(rtt) {
            return;
        }
        let overrun = ack.overrun_bytes > self.overrun;
        let taken_bytes = ack.accepted_bytes.saturating_sub(self.accepted);
        let taken = Rate::measured(taken_bytes, span).0 as f64;
        (self.at, self.accepted, self.overrun) = (ack.now, ack.accepted_bytes, ack.overrun_bytes);
        let bound = self.limit.is_finite();
        if !(bound || overrun || ack.pressure > PRESSURE_HALF) {
            return;
        }
        let factor = if overrun { 1.0 - ALIKE } else { 1.0 + PRESSURE_HALF - ack.pressure };
        // One span in which the host was elsewhere must not bring the rate down to nothing.
        let limit = (taken * factor).max(rate / 2.0);
        let free = !overrun && ack.pressure < PRESSURE_HALF / 4.0 && limit > bandwidth;
        self.limit = if free { f64::INFINITY } else { limit };
    }
}

/// How full the receiver's sink is meant to be when it is what bounds the rate: it never runs dry then.
const PRESSURE_HALF: f64 = 0.5;
