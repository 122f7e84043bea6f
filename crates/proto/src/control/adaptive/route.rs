//! A longer route: the delay grows, and does not fall when less is sent.

use super::delay::{ROUTE_MIN, ROUTE_PART};
use super::known::Known;
use super::refresh::{DEPTH_MAX, Refresh};
use super::{ALIKE, Adaptive, State, TICK_MAX};
use crate::control::AckSample;
use crate::units::{Time, nanos};
use core::time::Duration;

/// The delay grew: while much less is sent for a while, does it fall?
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    judge_at: Time,
    /// By how much it grew.
    grown_ns: f64,
    before: Known,
}

impl Adaptive {
    /// End of a tick: did the delay jump, or was it the route?
    pub(super) fn watch_route(&mut self, ack: &AckSample) {
        match self.jump {
            Some(jump) if ack.now >= jump.judge_at => self.judge_jump(ack, jump),
            Some(_) => {}
            None => self.look_for_jump(ack),
        }
    }

    fn look_for_jump(&mut self, ack: &AckSample) {
        let queue_ns = self.delay.queue_ns;
        if queue_ns <= self.own_queue_ns() {
            self.calm = self.known(ack);
            return;
        }
        let round = self.round_now();
        let grown_ns = queue_ns - self.calm.queue_ns;
        // The growth of the rate has doubled each round.
        let made_ns = (2.0 * self.round.growth_most * nanos(self.rtt) as f64).max(nanos(ROUTE_MIN) as f64);
        let is_sudden = ack.now.since(self.calm.at) < round * 2 + TICK_MAX && grown_ns > made_ns;
        // A lost one may be a full queue's. The next refresh looks again, and allows for chance.
        let is_loss = self.calm.counted.until(ack, self.datagram_len).1 > self.calm.random;
        if is_sudden && !is_loss {
            self.try_route(ack, grown_ns, self.calm);
        }
    }

    /// A round trip with what waits.
    fn round_now(&self) -> Duration {
        self.rtt + Duration::from_nanos(self.delay.queue_ns as u64)
    }

    /// The delay grew by `grown_ns` since `before`: send much less for a while. Only who had most of the link then can tell:
    /// what others do meanwhile would hide what comes of it. What was learnt since says nothing, for a longer way looks like
    /// silence first, and what is on it like a loss. A host that was busy meanwhile met its own delay.
    pub(super) fn try_route(&mut self, ack: &AckSample, grown_ns: f64, before: Known) {
        let is_steady = !matches!(self.state, State::Train | State::Compete(_));
        let is_late =
            ack.time_lost.saturating_sub(before.time_lost) > ack.now.since(before.at).mul_f64(ALIKE);
        if !is_steady || is_late || before.has_company || self.has_lost(ack, &before) {
            return;
        }
        let round = self.round_now();
        let span = round + round / 2;
        self.state = State::Refresh { until: ack.now + span, depth: DEPTH_MAX };
        self.refresh.forget_least();
        self.growth = 0.0;
        self.jump = Some(Jump { judge_at: ack.now + span + round, grown_ns, before });
    }

    fn judge_jump(&mut self, ack: &AckSample, jump: Jump) {
        self.jump = None;
        self.state = State::Cruise;
        // What had waited before is ours and has drained. Others fill the queue further, or have left it by now.
        let least_ns = self.refresh.least_ns;
        let is_left = (least_ns - jump.grown_ns).abs() < ROUTE_PART * jump.grown_ns;
        let is_route = is_left && self.delay.queue_ns - least_ns <= self.same_ns();
        if is_route && !self.has_lost(ack, &jump.before) {
            let round = self.round_now();
            (self.bandwidth, self.loss.random) = (jump.before.bandwidth, jump.before.random);
            self.take_for_route(ack.now);
            self.refresh.settles = ack.now + round;
        }
    }

    /// What is left of the delay is the route's.
    pub(super) fn take_for_route(&mut self, now: Time) {
        self.delay.rebase(now);
        self.ceiling.room_ns = f64::INFINITY;
        self.refresh = Refresh::new(self.rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;
    use crate::control::{ControlConfig, Controller};
    use crate::path::PathRate;
    use crate::units::Rate;

    /// Whether a delay that grows from 20 to 100 ms at once is looked into, while the host lost `time_lost`.
    fn is_looked_into(time_lost: Duration) -> bool {
        let rate = Rate::from_mbps(8.0);
        let path_rate = Some(PathRate { rate, passed: rate, is_bottleneck: true });
        let config = ControlConfig { path_rate, ..ControlConfig::new(1000, Duration::from_millis(20)) };
        let mut control = Adaptive::new(config);
        (0..500).for_each(|ms| control.on_ack(&ack(ms, ms)));
        assert!(control.jump.is_none());
        let late = |ms| AckSample {
            one_way_ns: Some(90_000_000),
            rtt: Some(Duration::from_millis(100)),
            arrival: Time::from_millis(ms - 10),
            time_lost,
            ..ack(ms, ms - 80)
        };
        (580..640).for_each(|ms| control.on_ack(&late(ms)));
        control.jump.is_some()
    }

    #[test]
    fn what_a_busy_host_sent_late_is_no_longer_route() {
        assert!(is_looked_into(Duration::ZERO));
        assert!(!is_looked_into(Duration::from_millis(80)));
    }
}
