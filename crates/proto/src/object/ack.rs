//! When the receiver acknowledges.

use crate::units::Time;
use core::time::Duration;

/// Acknowledge after every F new packets (FOBS's acknowledgement frequency), or when the oldest packet not yet spoken
/// of has waited long enough: without the second, the tail of an object would never be acknowledged.
///
/// Whatever the policy, the receiver answers a sender that asks for its map, and says at once that all is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// FOBS's F; [`NEVER`]: their number does not matter.
    pub every: u32,
    /// The longest wait.
    pub delay: Duration,
}

impl AckPolicy {
    /// `every` packets, or a quarter of the round trip within bounds that suit a user-space timer.
    pub fn new(every: u32, rtt: Duration) -> AckPolicy {
        AckPolicy { every: every.max(1), delay: (rtt / 4).clamp(MIN_DELAY, MAX_DELAY) }
    }

    /// The same where the round trip has turned out to be this one.
    pub fn on_rtt(self, rtt: Duration) -> AckPolicy {
        if self.every == NEVER { self } else { AckPolicy::new(self.every, rtt) }
    }

    /// By the clock alone, while anything comes in (SABUL, UDT).
    pub fn timed(interval: Duration) -> AckPolicy {
        AckPolicy { every: NEVER, delay: interval }
    }

    /// When asked (RBUDP), and now and then as a sign of life: see [`STATUS_EVERY`].
    pub fn on_request() -> AckPolicy {
        AckPolicy::timed(STATUS_EVERY)
    }

    /// The policy while only `received` datagrams have come in: a policy that counts acknowledges at once in the
    /// beginning, when the sender knows nothing of the path, then ever less often up to F.
    pub fn early(self, received: u64) -> AckPolicy {
        if self.every == NEVER {
            return self;
        }
        let ramp = (received / 4).clamp(1, u64::from(self.every));
        AckPolicy { every: ramp as u32, ..self }
    }

    /// Whether `new` packets, the first of which came at `since`, call for an acknowledgement now.
    pub fn is_due(&self, now: Time, new: u64, since: Option<Time>) -> bool {
        (self.every != NEVER && new >= u64::from(self.every))
            || self.deadline(since).is_some_and(|at| now >= at)
    }

    /// When the timer calls for one.
    pub fn deadline(&self, since: Option<Time>) -> Option<Time> {
        since.map(|at| at + self.delay)
    }
}

/// The policies there are, before the round trip is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// After so many new packets, or a part of the round trip.
    Every(u32),
    /// At this interval.
    Timed(Duration),
    /// When the sender asks.
    OnRequest,
}

impl AckKind {
    /// The policy on a path with this round trip.
    pub fn policy(self, rtt: Duration) -> AckPolicy {
        match self {
            AckKind::Every(packets) => AckPolicy::new(packets, rtt),
            AckKind::Timed(interval) => AckPolicy::timed(interval),
            AckKind::OnRequest => AckPolicy::on_request(),
        }
    }
}

/// [`AckPolicy::every`] where packets are not counted.
pub const NEVER: u32 = u32::MAX;

/// F where the user names none: at 100 Mb/s an acknowledgement every 4 ms, at 10 Gb/s 26 000 a second.
pub const DEFAULT_EVERY: u32 = 32;

const MIN_DELAY: Duration = Duration::from_millis(1);
/// No receiver holds an acknowledgement back for longer.
pub const MAX_DELAY: Duration = Duration::from_millis(25);

/// A receiver that is to speak only when asked says this often what has come in. RBUDP's does not; but then silence
/// and a dead path look alike for as long as a round lasts, which may be hours.
pub const STATUS_EVERY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn packets_or_time_call_for_an_acknowledgement() {
        let (since, soon, late) = (Time::from_millis(10), Time::from_millis(11), Time::from_millis(15));
        let policy = AckKind::Every(32).policy(RTT);
        assert!(!policy.is_due(soon, 31, Some(since)) && policy.is_due(soon, 32, Some(since)));
        assert!(policy.is_due(late, 1, Some(since)) && !policy.is_due(late, 0, None));
    }

    #[test]
    fn a_round_trip_that_is_shorter_than_it_seemed_is_answered_sooner() {
        let policy = AckKind::Every(32).policy(RTT * 10).on_rtt(RTT);
        assert_eq!(policy, AckKind::Every(32).policy(RTT));
        assert_eq!(AckPolicy::on_request().on_rtt(RTT), AckPolicy::on_request());
    }

    #[test]
    fn the_clock_alone_counts_no_packets() {
        let since = Some(Time::ZERO);
        for (kind, ms) in [(AckKind::Timed(Duration::from_millis(10)), 10), (AckKind::OnRequest, 200)] {
            let policy = kind.policy(RTT).early(3);
            assert!(!policy.is_due(Time::from_millis(ms - 1), u64::MAX, since));
            assert!(policy.is_due(Time::from_millis(ms), 1, since));
        }
    }

    #[test]
    fn the_first_packets_are_acknowledged_one_by_one() {
        let every = |received| AckPolicy::new(32, RTT).early(received).every;
        assert_eq!([0, 4, 8, 100, 1000].map(every), [1, 1, 2, 25, 32]);
    }
}
