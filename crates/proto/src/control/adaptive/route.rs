//! A longer route: the delay grows at once by more than a queue does.

use super::delay::ROUTE_MIN;
use super::refresh::{DEPTH_MAX, Refresh};
use super::{Adaptive, State, TICK_MAX};
use crate::units::{Time, nanos};
use core::time::Duration;

/// The delay grew at once: while much less is sent for a while, does it fall?
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    judge_at: Time,
    /// What was above the least delay, and what was carried before.
    pub queue_ns: f64,
    bandwidth: f64,
    /// By how much a queue would have fallen.
    expected_ns: f64,
}

impl Adaptive {
    /// End of a tick: did the delay jump, or was it the route?
    pub(super) fn watch_route(&mut self, now: Time) {
        match self.jump {
            Some(jump) if now >= jump.judge_at => self.judge_jump(now, jump),
            Some(_) => {}
            None => self.look_for_jump(now),
        }
    }

    /// Only who has most of the link can tell: what others do meanwhile would hide what comes of it.
    fn look_for_jump(&mut self, now: Time) {
        let queue_ns = self.delay.queue_ns;
        if queue_ns <= self.own_queue_ns() {
            self.calm = (now, queue_ns);
            return;
        }
        let round = self.rtt + Duration::from_nanos(queue_ns as u64);
        let is_sudden =
            now.since(self.calm.0) < round * 2 + TICK_MAX && queue_ns - self.calm.1 > nanos(ROUTE_MIN) as f64;
        let is_loss = now.since(self.lost_at) < round * 2;
        let is_steady = matches!(self.state, State::Cruise | State::Refresh { .. });
        if !is_sudden || is_loss || !is_steady || self.has_company() {
            return;
        }
        let span = round + round / 2;
        let expected_ns = (DEPTH_MAX * nanos(span) as f64).min(queue_ns);
        self.state = State::Refresh { until: now + span, depth: DEPTH_MAX };
        self.refresh.forget_least();
        self.growth = 0.0;
        let judge_at = now + span + round;
        self.jump = Some(Jump { judge_at, queue_ns, bandwidth: self.bandwidth, expected_ns });
    }

    fn judge_jump(&mut self, now: Time, jump: Jump) {
        self.jump = None;
        self.state = State::Cruise;
        let fell_ns = jump.queue_ns - self.refresh.least_ns;
        if fell_ns < JUMP_FELL * jump.expected_ns && self.lost_at + self.rtt * 4 < now {
            self.bandwidth = jump.bandwidth;
            self.take_for_route(now);
            self.refresh.settles = now + self.rtt + Duration::from_nanos(jump.queue_ns as u64);
        }
    }

    /// What is left of the delay is the route's.
    pub(super) fn take_for_route(&mut self, now: Time) {
        self.delay.rebase(now);
        self.ceiling.room_ns = f64::INFINITY;
        self.refresh = Refresh::new(self.rtt);
    }
}

/// A delay that grew at once is the route's if it falls by less than this share of what a queue would.
const JUMP_FELL: f64 = 0.25;
