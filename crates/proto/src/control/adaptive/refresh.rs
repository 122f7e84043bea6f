//! Emptying the queue now and then, together with all of our like, to see the true delay; and what it means if it
//! cannot be emptied.

use super::ceiling::ROOM_RECOVERY;
use super::known::Known;
use super::{ALIKE, Adaptive, GROWTH_MAX, LITTLE, NOISE_NS, OFTEN, REFRESH_EVERY, State, TICK_MIN};
use crate::control::AckSample;
use crate::control::window::BETA;
use crate::units::{Time, nanos};
use core::time::Duration;

/// When the queue is next emptied on purpose, and what came of the last times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    /// Not before.
    pub next: Time,
    /// What was sent until now, in a refresh, is still on its way.
    pub settles: Time,
    /// When what came of the last one will have been seen.
    judge_at: Option<Time>,
    /// How often: soon while little is known.
    pub every: Duration,
    /// The shortest queue since the last refresh began, and when it was seen: all who share the bottleneck see it at
    /// the same moment, whatever they take for the delay of the empty path.
    pub least_ns: f64,
    low_ns: f64,
    low_at: Time,
    /// Ticks since the last one, and how many of them saw a queue.
    ticks: u32,
    queued: u32,
    /// What was taken for the delay of the empty path when the last one began.
    base_ns: i64,
    /// Refreshes in a row that did not empty the queue, and the largest bandwidth before them.
    failures: u32,
    bandwidth: f64,
    /// The shortest queue of the last one, and how many in a row left the same.
    floor_ns: f64,
    floors: u32,
    floor_at: Time,
    /// The last one did not meet the delay that was taken for the empty path's: that may be wrong.
    pub is_refuted: bool,
    /// Between the last two hardly anything ever waited.
    pub is_idle: bool,
    /// Between them something waited as a rule, though not all that the link carries was ours: without others it would have been.
    pub is_shared: bool,
    /// Until when rivals who left may be back, and how many datagrams were on their way beside them.
    pub rivals_left: Option<(Time, f64)>,
    /// What was known when one last emptied the queue, if that was the last one.
    met: Option<Known>,
}

impl Refresh {
    /// The first comes soon: what is known of the delay then is what the first datagrams met.
    pub fn new(rtt: Duration) -> Refresh {
        Refresh {
            next: Time::ZERO,
            settles: Time::ZERO,
            judge_at: None,
            every: (REFRESH_EVERY / 4).max(rtt * EVERY_FIRST_ROUNDS),
            least_ns: f64::INFINITY,
            low_ns: f64::INFINITY,
            low_at: Time::ZERO,
            ticks: 0,
            queued: 0,
            is_shared: false,
            base_ns: 0,
            failures: 0,
            bandwidth: 0.0,
            floor_ns: f64::INFINITY,
            floors: 0,
            floor_at: Time::ZERO,
            is_refuted: false,
            is_idle: false,
            rivals_left: None,
            met: None,
        }
    }

    /// A tick saw a queue of `queue_ns`.
    pub fn see(&mut self, now: Time, queue_ns: f64, target_ns: f64) {
        self.ticks += 1;
        self.queued += u32::from(queue_ns > target_ns / 2.0);
        if queue_ns < self.low_ns - NOISE_NS {
            (self.low_ns, self.low_at) = (queue_ns, now);
        }
        self.least_ns = self.least_ns.min(queue_ns);
    }

    /// What is seen from now on is what one does.
    pub fn forget_least(&mut self) {
        (self.low_ns, self.least_ns) = (f64::INFINITY, f64::INFINITY);
    }

    /// A new way to use the path begins.
    pub fn begin_anew(&mut self) {
        (self.failures, self.bandwidth, self.every) = (0, 0.0, REFRESH_EVERY);
    }

    /// What is sent from now on reaches the bottleneck with what others of our like send then.
    fn is_due(&self, now: Time, rtt: Duration) -> bool {
        now >= self.next && now + rtt >= self.low_at + self.every
    }
}

impl Adaptive {
    /// Begin, end or judge a refresh. Its clock starts when the queue was last seen shortest: flows that share a
    /// bottleneck see that at the same moment, so that they refresh together from then on (as BBR's do).
    pub(super) fn refresh(&mut self, ack: &AckSample) {
        let now = ack.now;
        if let State::Refresh { until, .. } = self.state
            && now >= until
        {
            self.end_refresh(now);
        }
        if self.jump.is_some() {
            return;
        }
        if self.refresh.judge_at.is_some_and(|at| now >= at) {
            self.refresh.judge_at = None;
            self.judge_refresh(ack);
        }
        if !self.refresh.is_due(now, self.rtt) {
            return;
        }
        let is_marked = self.is_marked(now);
        match &mut self.state {
            State::Cruise => self.begin_refresh(now),
            // Nothing would be learnt from the queue, and what is not sent meanwhile others take.
            State::Compete(_) if is_marked => {}
            State::Compete(compete) if !compete.is_bbr() => {
                let judged_at = compete.begin_low(now, self.rtt, self.delay.queue_ns);
                (self.refresh.next, self.refresh.judge_at) = (judged_at, Some(judged_at));
                self.refresh.base_ns = self.delay.base_ns();
                self.refresh.forget_least();
            }
            _ => {}
        }
    }

    fn end_refresh(&mut self, now: Time) {
        if self.jump.is_some() {
            // What comes of it is still on its way.
            self.state = State::Refresh { until: now + self.rtt, depth: 0.0 };
            return;
        }
        self.state = State::Cruise;
        self.ceiling.room_ns *= ROOM_RECOVERY;
        self.refresh.settles = now + self.rtt + self.rtt / 4;
        self.refresh.next = self.refresh.settles;
        self.refresh.judge_at = Some(self.refresh.settles + Duration::from_nanos(self.delay.queue_ns as u64));
    }

    /// Send less for as long as it takes to empty the queue, if all who fill it do the same.
    fn begin_refresh(&mut self, now: Time) {
        self.refresh.bandwidth = self.refresh.bandwidth.max(self.bandwidth);
        let queue_ns = self.delay.queue_ns;
        let rtt_ns = nanos(self.rtt) as f64;
        let round_ns = rtt_ns + queue_ns;
        let drain_ns = queue_ns + self.target_ns() / 2.0 + SAME_SHARE * rtt_ns;
        let least = if self.has_company() { 1.0 - BETA } else { 0.0 };
        let wanted = drain_ns / round_ns * f64::from(1 << self.refresh.failures);
        let depth = wanted.clamp(least, DEPTH_MAX);
        let span_ns = round_ns * (wanted / depth).clamp(1.0, 2.0) + nanos(TICK_MIN) as f64;
        self.state = State::Refresh { until: now + Duration::from_nanos(span_ns as u64), depth };
        self.refresh.base_ns = self.delay.base_ns();
        self.refresh.forget_least();
        self.growth = 0.0;
    }

    /// Least delays that differ by no more are the same.
    pub(super) fn same_ns(&self) -> f64 {
        NOISE_NS.max(self.noise_ns() / 3.0) + SAME_SHARE * nanos(self.rtt) as f64
    }

    /// Was the queue empty for a moment, and was that the delay that was taken for the empty path's?
    fn judge_refresh(&mut self, ack: &AckSample) {
        let (now, before) = (ack.now, self.refresh.met.take());
        let same_ns = self.same_ns();
        let least_ns = self.refresh.least_ns;
        let is_lower = self.refresh.base_ns.saturating_sub(self.delay.base_ns()) as f64 > same_ns;
        let is_met = least_ns <= same_ns && !is_lower;
        let is_same = (least_ns - self.refresh.floor_ns).abs() <= same_ns && !is_lower;
        if is_same {
            self.refresh.floors += 1;
        } else {
            (self.refresh.floors, self.refresh.floor_at) = (0, self.refresh.low_at);
        }
        self.refresh.floor_ns = least_ns;
        self.refresh.is_refuted = !is_met;
        self.refresh.is_idle = f64::from(self.refresh.queued) <= ALIKE * f64::from(self.refresh.ticks);
        // The first train does not tell the link so well: what jitter makes of that no two pairs confirm.
        let is_less = self.has_less_than(self.pairs.link());
        self.refresh.is_shared = is_less && 2 * self.refresh.queued > self.refresh.ticks;
        (self.refresh.ticks, self.refresh.queued) = (0, 0);
        if !is_met {
            // What was learnt of loss may have been a full queue's.
            self.loss.random = 0.0;
        }
        let is_steady = self.refresh.floors >= OFTEN && !is_met;
        if is_steady && self.lost_at < self.refresh.floor_at {
            self.state = State::Cruise;
            self.take_for_route(now);
        } else if matches!(self.state, State::Compete(_)) {
            if is_met && !self.is_few() && !self.dips.is_bbr(now) && !self.is_marked(now) {
                self.leave_rivals(now);
            }
        } else if least_ns <= self.delay.slack_ns(self.target_ns()).max(self.target_ns() / 2.0) {
            (self.refresh.failures, self.refresh.bandwidth) = (0, 0.0);
            self.refresh.every = (self.refresh.every * 2).min(REFRESH_EVERY);
            self.refresh.met = Some(self.known(ack));
        } else if is_steady && least_ns < self.own_queue_ns() {
            self.take_for_route(now);
        } else {
            self.fail_refresh(now);
            if let Some(before) = before {
                self.try_route(ack, least_ns, before);
            }
        }
    }

    /// However little we sent, the queue was not empty: others fill it, or it is none.
    fn fail_refresh(&mut self, now: Time) {
        self.refresh.failures += 1;
        self.refresh.every = REFRESH_EVERY;
        let back = self.refresh.rivals_left.filter(|(until, _)| now < *until);
        if self.is_background {
            self.refresh.failures = self.refresh.failures.min(OFTEN);
        } else if let Some((_, window)) = back {
            self.compete(window);
        } else if self.refresh.failures >= OFTEN {
            self.compete_at(self.refresh.bandwidth.max(self.link.unwrap_or(0.0) * LITTLE));
        }
    }
}

/// The first comes four times as soon, but not before so many round trips: with that `rough.toml` carries 75 instead of 71 %.
const EVERY_FIRST_ROUNDS: u32 = 10;
/// Least delays that differ by no more than this share of a round trip and [`NOISE_NS`] are the same; so far below an empty
/// queue a refresh goes.
const SAME_SHARE: f64 = 0.01;
/// By which share less is sent meanwhile, at most: as much as undoes the fastest growth. Where others of our like may take what is
/// still queued for the path's delay, as much less as after a loss at least.
pub(super) const DEPTH_MAX: f64 = 1.0 - 1.0 / (1.0 + GROWTH_MAX);
