//! A policer on the path: a token bucket that drops what exceeds its rate and burst, and lets nothing wait.
//!
//! It is told as by Flach et al. (SIGCOMM 2016, §3.1): a burst passes, then all beyond one rate is lost, and no delay grows
//! meanwhile. A test has shown besides that the loss goes away with less.

use super::loss::STRETCHES;
use super::{ALIKE, ALONE_SHARE, Adaptive, State};
use crate::control::{AckSample, Policed, RATE_MIN};
use crate::units::{Rate, Time};

/// What is known of it. Its bucket is reckoned with as it does itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policer {
    /// bit/s, in terms of what is sent.
    pub rate: f64,
    /// Bits that it lets pass beyond that.
    burst: f64,
    /// Bits that its bucket lacks: what has passed beyond its rate and was not made up for by sending less.
    beyond: f64,
}

impl Policer {
    /// `bits` passed within `seconds`. False: that is more than it could let pass, so it is gone.
    fn holds(&mut self, bits: f64, seconds: f64) -> bool {
        self.beyond = (self.beyond + bits - self.rate * seconds).max(0.0);
        self.beyond <= GONE * self.burst
    }

    /// For displays.
    pub fn policed(&self) -> Policed {
        Policed { rate: Rate(self.rate as u64), burst_bytes: (self.burst / 8.0) as u64 }
    }
}

/// What had come in, and when, tick by tick since the rate began to grow.
#[derive(Debug, Default)]
pub(super) struct Climb {
    ticks: Vec<(Time, u64)>,
}

impl Climb {
    /// The rate does not grow.
    pub fn restart(&mut self) {
        self.ticks.clear();
    }

    pub fn note(&mut self, ack: &AckSample) {
        self.ticks.push((ack.arrival, ack.received_bytes));
    }

    /// The most bits that came in beyond `rate` from any tick on, and what was not made up for since.
    fn beyond(&self, ack: &AckSample, rate: f64) -> (f64, f64) {
        let ends = self.ticks.iter().copied().chain([(ack.arrival, ack.received_bytes)]);
        let mut before = None;
        let (mut most, mut beyond) = (0.0f64, 0.0f64);
        for (at, received) in ends {
            if let Some((since, had)) = before.replace((at, received)) {
                let bits = received.saturating_sub(had) as f64 * 8.0;
                beyond = (beyond + bits - rate * at.since(since).as_secs_f64()).max(0.0);
                most = most.max(beyond);
            }
        }
        (most, beyond)
    }
}

impl Adaptive {
    /// A tick delivered `carried` bit/s for `seconds`, made up for random loss.
    pub(super) fn reckon_policer(&mut self, carried: f64, seconds: f64) {
        self.policer.take_if(|policer| !policer.holds(carried * seconds, seconds));
    }

    /// Loss without a queue went away with less, so that what is carried is `self.bandwidth`. If what had passed beyond that
    /// would have been a queue longer than any of ours, and the link itself is faster, it was a policer.
    pub(super) fn find_policer(&mut self, ack: &AckSample) -> bool {
        let rate = self.bandwidth;
        let known = self.policer.take();
        let (burst, beyond) =
            known.map_or_else(|| self.climb.beyond(ack, rate), |known| (known.burst, known.beyond));
        let is_slower = self.link_rate().is_none_or(|link| rate < ALONE_SHARE * link);
        let is_one = is_slower && burst / rate * 1e9 > self.own_queue_ns();
        self.policer = is_one.then_some(Policer { rate, burst, beyond });
        is_one
    }

    /// While more than its rate was tried, the policer dropped again and let pass `delivered` bit/s. False: there is none.
    pub(super) fn meet_policer(&mut self, now: Time, delivered: f64) -> bool {
        let Some(policer) = &mut self.policer else { return false };
        let rate = (delivered / (1.0 - self.loss.random).max(0.1)).max(RATE_MIN);
        *policer = Policer { rate, burst: (policer.burst + policer.beyond) / 2.0, ..*policer };
        self.bandwidth = rate;
        self.state = State::Cruise;
        self.hold_growth(now);
        true
    }

    /// What to send of `wanted`, bit/s.
    pub(super) fn within_policer(&self, wanted: f64) -> f64 {
        let share = if self.growth > 0.0 { 1.0 + ALIKE } else { PACE };
        self.policer.map_or(wanted, |policer| wanted.min(policer.rate * share))
    }
}

/// The share of its rate that is sent. A short stretch does not notice that the rest is lost, so a measured rate may be as much too
/// high.
const PACE: f64 = 1.0 - STRETCHES[0].1;
/// So many times its burst beyond its rate: it is gone.
const GONE: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;

    /// An acknowledgement at `ms` of all that had come in by then, in bytes.
    fn came_in(ms: u64, bytes: u64) -> AckSample {
        AckSample { received_bytes: bytes, arrival: Time::from_millis(ms), ..ack(ms, 1) }
    }

    #[test]
    fn what_passed_beyond_the_rate_is_the_burst_and_pauses_are_not_set_off_against_it() {
        let mut climb = Climb::default();
        // Nothing for 100 ms, 100 kB in 10 ms, 1 kB a millisecond since.
        for (ms, bytes) in [(0, 16_000), (100, 16_000), (110, 116_000), (150, 156_000)] {
            climb.note(&came_in(ms, bytes));
        }
        let rate = 8e6;
        assert_eq!(climb.beyond(&came_in(200, 206_000), rate), (720_000.0, 720_000.0));
        assert_eq!(
            climb.beyond(&came_in(200, 186_000), rate),
            (720_000.0, 560_000.0),
            "a part is made up for"
        );
        climb.restart();
        assert_eq!(climb.beyond(&came_in(200, 206_000), rate), (0.0, 0.0));
    }

    #[test]
    fn who_passes_twice_the_burst_beyond_the_rate_has_no_policer() {
        let policer = Policer { rate: 1e6, burst: 1e5, beyond: 1e5 };
        // A tenth more for so many seconds; with half of the rate for 100 ms before, that is made up for.
        let passes = |seconds: f64| { policer }.holds(1.1e6 * seconds, seconds);
        assert!(passes(0.9) && !passes(1.1));
        let mut rested = policer;
        assert!(
            rested.holds(0.5e5, 0.1) && rested.holds(1.1e6 * 1.4, 1.4) && !rested.holds(1.1e6 * 0.2, 0.2)
        );
    }
}
