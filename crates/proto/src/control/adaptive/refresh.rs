//! Emptying the queue now and then, to see the true delay; and what it means if it cannot be emptied.

use super::ceiling::ROOM_RECOVERY;
use super::rivals::{Compete, Vigil};
use super::{Adaptive, ControlConfig, State, TICK_MIN};
use crate::units::{Time, nanos};
use core::time::Duration;

/// When the queue is next emptied on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refresh {
    /// Not before.
    pub next: Time,
    /// What was sent until now, in a refresh, is still on its way.
    pub settles: Time,
    /// Refreshes in a row after which the queue was not empty.
    pub failures: u32,
    /// Series of failures in a row.
    pub series: u32,
    /// Largest bandwidth before the failures.
    pub bandwidth: f64,
    /// How long the queue may stay without being empty: short while little is known, longer with every success.
    pub every: Duration,
}

impl Refresh {
    /// The first comes soon: what is known of the delay then is what the first datagrams met.
    pub fn new(rtt: Duration) -> Refresh {
        Refresh { every: first(rtt), ..Refresh::default() }
    }

    fn is_failing(&self) -> bool {
        self.failures > 0 || self.series > 0
    }
}

impl Adaptive {
    /// Begin or end a refresh. Its clock starts when the queue was last seen empty: flows that share a bottleneck see
    /// that at the same moment, so that they refresh together from then on (as BBR's do).
    pub(super) fn refresh(&mut self, now: Time) {
        match self.state {
            State::Refresh { until, .. } if now >= until => {
                self.state = State::Cruise;
                self.ceiling.room_ns *= ROOM_RECOVERY;
                self.refresh.settles = now + self.rtt + self.rtt / 4;
                self.refresh.next = self.refresh.settles;
            }
            State::Cruise if now >= self.refresh.next && now >= self.delay.empty_at + self.refresh.every => {
                if self.refresh.failures == 0 {
                    self.refresh.bandwidth = self.refresh.bandwidth.max(self.bandwidth);
                }
                if self.refresh.failures < FAILURES_MAX {
                    let queue_ns = self.delay.queue_ns.min(2.0 * self.target_ns());
                    self.begin_refresh(now, queue_ns);
                } else {
                    self.fail_refresh(now);
                }
            }
            State::Cruise if self.refresh.is_failing() && now < self.delay.empty_at + self.refresh.every => {
                (self.refresh.failures, self.refresh.series, self.refresh.bandwidth) = (0, 0, 0.0);
                self.refresh.every = (self.refresh.every * 2).min(REFRESH_EVERY);
            }
            _ => {}
        }
    }

    /// However little we sent, the queue was not empty. If packets were dropped as well, somebody fills it to the brim.
    pub(super) fn fail_refresh(&mut self, now: Time) {
        self.refresh.failures = 0;
        self.refresh.series += 1;
        self.refresh.next = now + self.refresh.every;
        let queue_ns = self.delay.queue_ns;
        let is_rivals = self.dropped_at > self.delay.empty_at && self.refresh.series >= SERIES_MAX;
        if is_rivals && !self.is_background {
            self.compete_at(now, self.refresh.bandwidth);
        } else if queue_ns < RIVAL_QUEUE_NS || queue_ns > self.own_queue_ns() {
            self.give_in(now, queue_ns, self.bandwidth);
        }
    }

    /// Send less for as long as it takes to empty a queue of `queue_ns`, if all who fill it do the same.
    pub(super) fn begin_refresh(&mut self, now: Time, queue_ns: f64) {
        let rtt_ns = nanos(self.rtt) as f64;
        let target_ns = self.target_ns();
        let drain_ns = queue_ns + target_ns / 2.0 + REFRESH_MARGIN * rtt_ns;
        let wanted = drain_ns / rtt_ns * f64::from(1 << self.refresh.failures);
        let depth = wanted.clamp(DEPTH_MIN, DEPTH_MAX);
        let span_ns = rtt_ns * (wanted / depth).clamp(1.0, 2.0) + nanos(TICK_MIN) as f64;
        self.state = State::Refresh { until: now + Duration::from_nanos(span_ns as u64), depth };
        self.refresh.failures += 1;
        self.growth = 0.0;
    }

    /// The queue stays although we sent less. One that is long, that drops, or that came back after we thought it was
    /// none, is a rival's; a short one was none: the way is longer now, or its least delay was luck.
    pub(super) fn give_in(&mut self, now: Time, queue_ns: f64, bandwidth_before: f64) {
        let again = now.since(self.rebased_at) < REBASED_LATELY.max(first(self.rtt));
        let dropped = self.dropped_at > Time::ZERO && now.since(self.dropped_at) < REBASED_LATELY;
        let is_own = queue_ns < self.own_queue_ns();
        if is_own && !((again || dropped) && queue_ns > RIVAL_QUEUE_NS) {
            self.delay.rebase(now);
            self.ceiling.room_ns = f64::INFINITY;
            self.rebased_at = now;
            self.refresh.every = first(self.rtt);
            self.bandwidth = bandwidth_before;
        } else if !is_own && !self.is_background {
            self.compete_at(now, bandwidth_before);
        }
    }

    /// Hold our own, beginning at `bandwidth`.
    fn compete_at(&mut self, now: Time, bandwidth: f64) {
        let round_s = (nanos(self.rtt) as f64 + self.delay.queue_ns) / 1e9;
        let bandwidth = bandwidth.max(self.link.unwrap_or(0.0) * FIRST_SHARE);
        self.compete(now, bandwidth * round_s / 8.0 / self.datagram_len, 0);
    }

    /// Hold our own, beginning with `window` datagrams on their way.
    pub(super) fn compete(&mut self, now: Time, window: f64, relapses: u32) {
        let config = ControlConfig { rtt: self.rtt, ..self.config };
        let floor = (self.link.unwrap_or(self.peak) * FLOOR_SHARE).min(self.peak / 2.0);
        self.state = State::Compete(Box::new(Compete::new(now, config, window, floor, relapses)));
        self.vigil = Vigil::default();
        (self.growth, self.startup) = (0.0, None);
        (self.refresh.failures, self.refresh.series, self.refresh.bandwidth) = (0, 0, 0.0);
    }
}

fn first(rtt: Duration) -> Duration {
    REFRESH_FIRST.max(rtt * REFRESH_FIRST_ROUNDS)
}

/// Empty the queue if it has not been for so long; at first, and when the base delay was wrong, sooner.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
const REFRESH_FIRST: Duration = Duration::from_millis(500);
const REFRESH_FIRST_ROUNDS: u32 = 10;
/// Beside rivals never less than this share of the link: a seventh flow like them would earn more.
const FLOOR_SHARE: f64 = 0.125;
/// Beside rivals we begin with at least this share of it: who came late has yielded all along.
const FIRST_SHARE: f64 = 0.3;
/// A queue that is back after so short a time was not none …
const REBASED_LATELY: Duration = Duration::from_secs(5);
/// … unless jitter explains it.
const RIVAL_QUEUE_NS: f64 = 3e6;
/// How far below an empty queue that goes, in round trips.
const REFRESH_MARGIN: f64 = 0.01;
/// By which share less is sent meanwhile.
const DEPTH_MIN: f64 = 0.03;
const DEPTH_MAX: f64 = 0.5;
/// After so many in vain, each twice as deep, it is left for a while.
const FAILURES_MAX: u32 = 4;
/// So many such series, and a loss meanwhile, are the work of rivals.
const SERIES_MAX: u32 = 2;
/// On a path that loses less than this share by chance, a loss is a full queue.
pub(super) const RANDOM_NONE: f64 = 0.001;
