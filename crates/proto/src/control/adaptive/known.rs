//! What is known of a path at a moment, to be compared with what comes after.

use super::Adaptive;
use super::loss::Counted;
use crate::control::AckSample;
use crate::units::Time;
use core::time::Duration;

/// What was known of the path at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub at: Time,
    pub queue_ns: f64,
    pub counted: Counted,
    pub bandwidth: f64,
    pub random: f64,
    pub has_company: bool,
    /// What the host had lost when its last tick began.
    pub time_lost: Duration,
}

impl Adaptive {
    /// What is known of the path now.
    pub(super) fn known(&self, ack: &AckSample) -> Known {
        Known {
            at: ack.now,
            queue_ns: self.delay.queue_ns,
            counted: Counted::at(ack),
            bandwidth: self.bandwidth,
            random: self.loss.random,
            has_company: self.has_company(),
            time_lost: self.tick.time_lost,
        }
    }

    /// More was lost since than chance explains.
    pub(super) fn has_lost(&self, ack: &AckSample, before: &Known) -> bool {
        let (datagrams, loss) = before.counted.until(ack, self.datagram_len);
        loss > before.random + self.loss.chance(before.random, datagrams)
    }
}
