//! Emptying the queue now and then, to see the true delay; and what it means if it cannot be emptied.

use super::ceiling::ROOM_RECOVERY;
use super::rivals::{Compete, RELAPSE, Vigil};
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
    /// The shortest queue since the last refresh began, and when it was seen: all who share the bottleneck see it at the
    /// same moment, whatever they take for the delay of the empty path.
    pub low_ns: f64,
    pub low_at: Time,
    /// The shortest at all since then.
    pub least_ns: f64,
    /// What was taken for the delay of the empty path when it began.
    pub base_ns: i64,
    /// When what came of the last refresh will have been seen.
    pub judge_at: Option<Time>,
}

impl Refresh {
    /// The first comes soon: what is known of the delay then is what the first datagrams met.
    pub fn new(rtt: Duration) -> Refresh {
        Refresh { every: first(rtt), low_ns: f64::INFINITY, least_ns: f64::INFINITY, ..Refresh::default() }
    }

    /// A tick saw a queue of `queue_ns`; those that differ by `slack_ns` are alike.
    pub fn see(&mut self, now: Time, queue_ns: f64, slack_ns: f64) {
        if queue_ns < self.low_ns - slack_ns {
            self.low_at = now;
            self.low_ns = queue_ns;
        }
        self.least_ns = self.least_ns.min(queue_ns);
    }

    /// What is sent from now on reaches the bottleneck with what others of our like send then.
    fn is_due(&self, now: Time, rtt: Duration) -> bool {
        now >= self.next && now + rtt >= self.low_at + self.every
    }
}

impl Adaptive {
    /// Begin, end or judge a refresh. Its clock starts when the queue was last seen shortest: flows that share a
    /// bottleneck see that at the same moment, so that they refresh together from then on (as BBR's do).
    pub(super) fn refresh(&mut self, now: Time) {
        if self.jump.is_some() {
            if let State::Refresh { until, .. } = self.state
                && now >= until
            {
                self.state = State::Refresh { until: now + self.rtt, depth: 0.05 };
            }
            return;
        }
        if let State::Refresh { until, .. } = self.state
            && now >= until
        {
            self.state = State::Cruise;
            self.ceiling.room_ns *= ROOM_RECOVERY;
            self.refresh.settles = now + self.rtt + self.rtt / 4;
            self.refresh.next = self.refresh.settles;
            self.refresh.judge_at = Some(self.refresh.settles);
        }
        if self.refresh.judge_at.is_some_and(|at| now >= at) {
            self.refresh.judge_at = None;
            self.judge_refresh(now);
        }
        if !self.refresh.is_due(now, self.rtt) {
            return;
        }
        match &mut self.state {
            State::Cruise => {
                self.refresh.bandwidth = self.refresh.bandwidth.max(self.bandwidth);
                let queue_ns = self.delay.queue_ns;
                self.begin_refresh(now, queue_ns);
            }
            State::Compete(compete) => {
                self.refresh.base_ns = self.delay.base_ns();
                let judged_at = compete.begin_low(now, self.rtt, self.delay.queue_ns);
                (self.refresh.low_ns, self.refresh.least_ns) = (f64::INFINITY, f64::INFINITY);
                self.refresh.next = judged_at;
            }
            _ => {}
        }
    }

    /// Whether the queue was empty for a moment.
    fn judge_refresh(&mut self, now: Time) {
        let slack_ns = self.delay.slack_ns(self.target_ns());
        let fell_ns = (self.refresh.base_ns - self.delay.base_ns()) as f64;
        let is_lower = fell_ns > slack_ns.max(BASE_FELL_NS);
        if is_lower {
            self.is_trusted = false;
        }
        if self.refresh.least_ns <= slack_ns.max(self.target_ns() / 2.0) {
            (self.refresh.failures, self.refresh.bandwidth) = (0, 0.0);
            self.is_trusted |= !is_lower;
            self.refresh.every = (self.refresh.every * 2).min(REFRESH_EVERY);
        } else {
            self.refresh.failures += 1;
            self.refresh.every = REFRESH_AGAIN.max(self.rtt * REFRESH_FIRST_ROUNDS);
            let left = self.vigil.left.filter(|left| now.since(left.at) < RELAPSE && !self.is_background);
            if let Some(left) = left {
                self.compete(now, left.window, left.relapses + 1);
            } else if self.refresh.failures >= FAILURES_MAX {
                self.fail_refresh(now);
            }
        }
    }

    /// However little we sent, the queue was not empty. If packets were dropped as well, somebody fills it to the brim.
    pub(super) fn fail_refresh(&mut self, now: Time) {
        self.refresh.failures = 0;
        let (queue_ns, bandwidth) = (self.refresh.least_ns, self.refresh.bandwidth);
        if queue_ns < RIVAL_QUEUE_NS {
            self.give_in(now, queue_ns, self.bandwidth);
        } else if !self.is_background {
            self.compete_at(now, bandwidth);
        }
    }

    /// Send less for as long as it takes to empty a queue of `queue_ns`, if all who fill it do the same.
    pub(super) fn begin_refresh(&mut self, now: Time, queue_ns: f64) {
        let rtt_ns = nanos(self.rtt) as f64;
        let round_ns = rtt_ns + queue_ns;
        let drain_ns = queue_ns + self.target_ns() / 2.0 + REFRESH_MARGIN * rtt_ns;
        let is_shared = self.bandwidth < SHARED * self.link_rate();
        let least = if is_shared { DEPTH_SHARED } else { DEPTH_MIN };
        let wanted = drain_ns / round_ns * f64::from(1 << self.refresh.failures);
        let depth = wanted.clamp(least, DEPTH_MAX);
        let span_ns = round_ns * (wanted / depth).clamp(1.0, 2.0) + nanos(TICK_MIN) as f64;
        self.refresh.base_ns = self.delay.base_ns();
        self.state = State::Refresh { until: now + Duration::from_nanos(span_ns as u64), depth };
        (self.refresh.low_ns, self.refresh.least_ns) = (f64::INFINITY, f64::INFINITY);
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
        let packets = floor * nanos(self.rtt) as f64 / 8e9 / self.datagram_len;
        let floor = if packets < FLOOR_PACKETS { 0.0 } else { floor };
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
/// While the queue does not run empty.
const BASE_FELL_NS: f64 = 1e6;
const REFRESH_AGAIN: Duration = Duration::from_secs(2);
const REFRESH_FIRST: Duration = Duration::from_millis(500);
const REFRESH_FIRST_ROUNDS: u32 = 10;
/// Beside rivals never less than this share of the link: a seventh flow like them would earn more.
const FLOOR_PACKETS: f64 = 16.0;
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
/// … at least, where others of our like may take what is still queued for the path's delay.
const DEPTH_SHARED: f64 = 0.3;
/// Who carries less than this share of the path shares it.
const SHARED: f64 = 0.7;
/// After so many in vain, each twice as deep, it is left for a while.
const FAILURES_MAX: u32 = 3;
/// On a path that loses less than this share by chance, a loss is a full queue.
pub(super) const RANDOM_NONE: f64 = 0.001;
