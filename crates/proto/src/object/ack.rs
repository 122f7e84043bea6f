//! When the receiver acknowledges.

use crate::units::Time;
use core::time::Duration;

/// Acknowledge after every F new packets (FOBS's acknowledgement frequency), or when the oldest packet not yet spoken
/// of has waited long enough: without the second, the tail of an object would never be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// FOBS's F.
    pub every: u32,
    /// The longest wait.
    pub delay: Duration,
}

impl AckPolicy {
    /// `every` packets, or a quarter of the round trip within bounds that suit a user-space timer.
    pub fn new(every: u32, rtt: Duration) -> AckPolicy {
        AckPolicy { every: every.max(1), delay: (rtt / 4).clamp(MIN_DELAY, MAX_DELAY) }
    }

    /// Whether `new` packets, the first of which came at `since`, call for an acknowledgement now.
    pub fn is_due(&self, now: Time, new: u64, since: Option<Time>) -> bool {
        new >= u64::from(self.every) || self.deadline(since).is_some_and(|at| now >= at)
    }

    /// When the timer calls for one.
    pub fn deadline(&self, since: Option<Time>) -> Option<Time> {
        since.map(|at| at + self.delay)
    }
}

/// F where the user names none: at 100 Mb/s an acknowledgement every 4 ms, at 10 Gb/s 26 000 a second.
pub const DEFAULT_EVERY: u32 = 32;

const MIN_DELAY: Duration = Duration::from_millis(1);
/// No receiver holds an acknowledgement back for longer.
pub const MAX_DELAY: Duration = Duration::from_millis(25);
