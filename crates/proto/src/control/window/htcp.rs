//! H-TCP (Shorten and Leith 2004): the longer ago the last loss, the faster the window grows; what is given up at a
//! loss follows from how much of the round trip is queue.

use super::{Acked, Lost, Rule};
use crate::units::Time;
use core::time::Duration;

/// State of H-TCP.
#[derive(Clone, Copy, Debug)]
pub struct HTcp {
    /// None before the first acknowledgement.
    last_loss: Option<Time>,
    /// What was left of the window at the last loss.
    beta: f64,
    rtt_min: Duration,
    rtt_max: Duration,
    /// Segments per second, a mean over a few round trips.
    throughput: f64,
    throughput_at_loss: f64,
    round_began: Time,
    round_segments: f64,
}

impl HTcp {
    /// Before the first segment.
    pub fn new() -> HTcp {
        HTcp {
            last_loss: None,
            beta: BETA_MIN,
            rtt_min: Duration::ZERO,
            rtt_max: Duration::ZERO,
            throughput: 0.0,
            throughput_at_loss: 0.0,
            round_began: Time::ZERO,
            round_segments: 0.0,
        }
    }

    fn measure(&mut self, acked: &Acked) {
        self.round_segments += acked.segments;
        let span = acked.now.since(self.round_began).as_secs_f64();
        if acked.new_round && span > 0.0 {
            let rate = self.round_segments / span;
            self.throughput += (rate - self.throughput) / if self.throughput > 0.0 { 4.0 } else { 1.0 };
            (self.round_began, self.round_segments) = (acked.now, 0.0);
        }
    }

    /// The share to keep: as much as empties the queue and no more, unless the path's capacity seems to have changed.
    fn beta(&self) -> f64 {
        let change = (self.throughput - self.throughput_at_loss).abs();
        let is_unknown = self.throughput_at_loss == 0.0 || self.rtt_max.is_zero();
        if is_unknown || change > CHANGE_MAX * self.throughput_at_loss {
            return BETA_MIN;
        }
        (self.rtt_min.as_secs_f64() / self.rtt_max.as_secs_f64()).clamp(BETA_MIN, BETA_MAX)
    }
}

impl Default for HTcp {
    fn default() -> HTcp {
        HTcp::new()
    }
}

/// Segments a round trip, `since_loss` after a loss at which the share `beta` was kept.
fn alpha(since_loss: Duration, rtt_min: Duration, beta: f64) -> f64 {
    let late = since_loss.saturating_sub(DELTA_LOW).as_secs_f64();
    let factor = 1.0 + 10.0 * late + 0.25 * late * late;
    // Growth per second, not per round trip: flows with different round trips get equal shares.
    let scale = (RTT_REFERENCE.as_secs_f64() / rtt_min.as_secs_f64().max(1e-6)).clamp(0.5, 10.0);
    2.0 * (1.0 - beta) * (factor / scale).max(1.0)
}

impl Rule for HTcp {
    fn observe(&mut self, acked: &Acked) {
        if self.last_loss.is_none() {
            (self.last_loss, self.round_began) = (Some(acked.now), acked.now);
        }
        self.measure(acked);
        self.rtt_max = self.rtt_max.max(acked.rtt.unwrap_or_default());
        self.rtt_min = acked.rtt_min;
    }

    fn grow(&mut self, acked: &Acked) -> f64 {
        let since_loss = self.last_loss.map_or(Duration::ZERO, |at| acked.now.since(at));
        acked.window + alpha(since_loss, acked.rtt_min, self.beta) * acked.segments / acked.window
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        self.beta = self.beta();
        self.last_loss = Some(lost.now);
        self.throughput_at_loss = self.throughput;
        // Linux's way to forget: routes change.
        let queue = self.rtt_max.saturating_sub(self.rtt_min);
        self.rtt_max = self.rtt_min.saturating_add(queue * 19 / 20);
        lost.window * self.beta
    }
}

/// Δ_L: for so long after a loss H-TCP is as Reno.
const DELTA_LOW: Duration = Duration::from_secs(1);
/// The round trip that needs no scaling.
const RTT_REFERENCE: Duration = Duration::from_millis(100);
/// More than half is never given up; a fifth always is.
const BETA_MIN: f64 = 0.5;
const BETA_MAX: f64 = 0.8;
/// Throughput that changed by a larger share tells of capacity gained or lost to others.
const CHANGE_MAX: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;

    #[test]
    fn growth_follows_the_time_since_the_loss() {
        // 1 + 10 (Δ−1) + ((Δ−1)/2)², at β = ½.
        let table =
            [(0.0, 1.0), (1.0, 1.0), (2.0, 11.25), (3.0, 22.0), (5.0, 45.0), (10.0, 111.25), (21.0, 301.0)];
        for (seconds, expected) in table {
            let alpha = alpha(Duration::from_secs_f64(seconds), RTT_REFERENCE, 0.5);
            assert!((alpha - expected).abs() < 1e-9, "{seconds}: {alpha}");
        }
        let kept_more = alpha(Duration::from_secs(5), RTT_REFERENCE, 0.8);
        assert!((kept_more - 0.4 * 45.0).abs() < 1e-9, "{kept_more}");
    }

    #[test]
    fn growth_is_scaled_to_the_round_trip() {
        let after_five = |ms| alpha(Duration::from_secs(5), Duration::from_millis(ms), 0.5);
        assert_eq!([10, 50, 100, 200, 800].map(after_five), [4.5, 22.5, 45.0, 90.0, 90.0]);
        assert_eq!(alpha(Duration::ZERO, Duration::ZERO, 0.5), 1.0, "never below Reno");
    }

    #[test]
    fn a_long_time_without_loss_is_made_use_of() {
        let mut flow = Flow::in_avoidance(Path::delay(RTT_REFERENCE), HTcp::new(), 1000.0);
        let (_, after) = flow.lose_one();
        assert!((499.0..502.0).contains(&after), "{after}");
        // 9 round trips of one segment, then the integral of α over 4 s at ten round trips a second:
        // 10 × (4 + 10 × 4²/2 + 0.25 × 4³/3) = 893.
        flow.run_for(Duration::from_secs(5));
        assert!((flow.window() - after - 902.0).abs() < 50.0, "{}", flow.window() - after);
    }

    #[test]
    fn gives_up_what_empties_the_queue() {
        // The queue holds half a round trip: RTTmin / RTTmax = 2/3.
        let path = Path { rtt: RTT_REFERENCE, service: Duration::from_millis(1), buffer: 50 };
        let mut flow = Flow::new(path, HTcp::new());
        flow.run_for(Duration::from_secs(60));
        let beta = flow.control.rule.beta;
        assert!((0.65..0.70).contains(&beta), "{beta}");
        let delivered = flow.delivered;
        flow.run_for(Duration::from_secs(60));
        assert!(flow.delivered - delivered > 59_000, "{}", flow.delivered - delivered);
    }

    #[test]
    fn half_is_given_up_when_capacity_went() {
        let path = Path { rtt: RTT_REFERENCE, service: Duration::from_millis(1), buffer: 50 };
        let mut flow = Flow::new(path, HTcp::new());
        flow.run_for(Duration::from_secs(60));
        flow.path.service = Duration::from_millis(2);
        let lost = flow.lost;
        flow.rounds_until(|flow| flow.lost > lost);
        flow.rounds_until(|flow| flow.control.repair.is_some());
        assert_eq!(flow.control.rule.beta, BETA_MIN);
    }
}
