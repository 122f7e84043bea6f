//! CUBIC (RFC 9438): a cubic function of the time since the last loss, flat around the window at which it happened.

use super::slow_start::HyStart;
use super::{Acked, Lost, Rule, SlowStart};
use crate::units::Time;

/// State of CUBIC; windows in segments, names as in RFC 9438 §4.1.2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// The window just before the last reduction, or less where fast convergence makes room.
    w_max: f64,
    /// The window just before the last reduction.
    cwnd_prior: f64,
    /// That left more of it than CUBIC's does.
    was_gentle: bool,
    /// None until congestion avoidance begins after a reduction.
    epoch: Option<Epoch>,
    /// Its datagrams leave by a pacer's clock.
    is_paced: bool,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began; later by the time during which the window did not count.
    start: Time,
    /// The last acknowledgement.
    last: Time,
    /// Seconds from its beginning to `w_max`.
    k: f64,
    /// The window that Reno would have.
    w_est: f64,
}

impl Cubic {
    /// For a flow that is paced beside others that are clocked by their acknowledgements: theirs come just when the
    /// full queue has a place again, its datagrams at any time, so that it loses more of them (with all of CUBIC's
    /// answer it got 1.8 % beside 16 CUBICs, where 5.9 % were fair). It gives up half as much each time, but where
    /// windows are so small that losses are many.
    pub(crate) fn paced() -> Cubic {
        Cubic { is_paced: true, ..Cubic::default() }
    }

    /// Its beginning. RFC 9438 §4.2; §4.8 where no loss told `w_max`.
    fn begin(&mut self, now: Time, window: f64) -> Epoch {
        let k = if window < self.w_max {
            ((self.w_max - window) / C).cbrt()
        } else {
            self.w_max = window;
            0.0
        };
        Epoch { start: now, last: now, k, w_est: window }
    }

    /// What the last reduction left of the window.
    fn beta(&self) -> f64 {
        if self.was_gentle { BETA_GENTLE } else { BETA }
    }

    /// W_cubic(t), RFC 9438 (1).
    fn w_cubic(&self, k: f64, t: f64) -> f64 {
        C * (t - k).powi(3) + self.w_max
    }
}

impl Rule for Cubic {
    fn slow_start(&self) -> SlowStart {
        SlowStart::HyStart(HyStart::default())
    }

    fn grow(&mut self, acked: &Acked) -> f64 {
        let window = acked.window;
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(acked.now, window));
        epoch.last = acked.now;
        // RFC 9438 §4.3: as Reno with this decrease factor until the window of the last loss, then as Reno itself.
        let alpha = if epoch.w_est >= self.cwnd_prior { 1.0 } else { alpha(self.beta()) };
        epoch.w_est += alpha * acked.segments / window;
        self.epoch = Some(epoch);
        let t = acked.now.since(epoch.start).as_secs_f64();
        if self.w_cubic(epoch.k, t) < epoch.w_est {
            return window.max(epoch.w_est);
        }
        // RFC 9438 §4.4, §4.5.
        let target = self.w_cubic(epoch.k, t + acked.rtt_smoothed.as_secs_f64());
        let target = target.clamp(window, TARGET_MAX * window);
        window + (target - window) * (acked.segments / window).min(1.0)
    }

    fn hold(&mut self, acked: &Acked) -> f64 {
        // RFC 9438 §5.8: time during which the window was not used does not count.
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start + acked.now.since(epoch.last);
            epoch.last = acked.now;
        }
        acked.window
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        self.epoch = None;
        self.cwnd_prior = lost.window;
        self.w_max = if lost.by_timeout {
            // RFC 9438 §4.8: the next stage starts anew from where slow start leaves it.
            0.0
        } else if lost.window < self.w_max {
            // RFC 9438 §4.7: fast convergence, for others that are on their way up.
            lost.window * (1.0 + BETA) / 2.0
        } else {
            lost.window
        };
        self.was_gentle = lost.by_mark || self.is_paced && lost.window >= GENTLE_FROM;
        lost.window * self.beta()
    }
}

/// RFC 9438 §5.
const C: f64 = 0.4;
/// RFC 9438 §4.6.
pub const BETA: f64 = 0.7;
/// What is left after a mark (RFC 8511 §3.1), and of a paced flow's window of so many segments after a loss.
pub const BETA_GENTLE: f64 = 0.85;
const GENTLE_FROM: f64 = 16.0;
/// RFC 9438 §4.3: by so much a round trip Reno would grow to have the same mean window, if a loss left so much of that.
fn alpha(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}
/// RFC 9438 §4.2: per round trip.
const TARGET_MAX: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use core::time::Duration;

    fn lost(window: f64) -> Lost {
        Lost { now: Time::ZERO, window, by_timeout: false, by_mark: false }
    }

    #[test]
    fn follows_the_cubic_function() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Cubic::default(), 1000.0);
        let (before, after) = flow.lose_one();
        assert!((after / before - 0.7).abs() < 0.001, "{before} {after}");
        flow.rounds_until(|flow| flow.control.rule.epoch.is_some());
        let start = flow.now;
        let k = (before * 0.3 / 0.4).cbrt();
        assert!((k - 9.1).abs() < 0.1, "{k}");
        for seconds in [1.0, 2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0] {
            flow.run_for((start + Duration::from_secs_f64(seconds)).since(flow.now));
            let t = flow.now.since(start).as_secs_f64();
            let expected = 0.4 * (t - k).powi(3) + before;
            assert!((flow.window() - expected).abs() < 6.0, "{t}: {} {expected}", flow.window());
        }
    }

    #[test]
    fn on_short_paths_it_is_as_fast_as_reno() {
        // The cubic function would take 6 s = 600 round trips to come back, Reno's 170.
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(10)), Cubic::default(), 300.0);
        let (before, after) = flow.lose_one();
        flow.rounds_until(|flow| flow.window() > after);
        let rounds = flow.rounds_until(|flow| flow.window() >= before);
        assert!((rounds - (before - after) / alpha(BETA)).abs() < 10.0, "{rounds}");
        // From there on one segment a round trip.
        let rounds = flow.rounds_until(|flow| flow.window() >= before + 20.0);
        assert!((19.0..22.0).contains(&rounds), "{rounds}");
    }

    /// Who gives up less of its window after a loss grows by less, or it would have more than Reno on a short path.
    #[test]
    fn on_short_paths_a_paced_one_is_no_faster_either() {
        let path = Path::delay(Duration::from_millis(10));
        let [kept, paced] = [Cubic::default(), Cubic::paced()].map(|rule| {
            let mut flow = Flow::in_avoidance(path, rule, 300.0);
            let (before, after) = flow.lose_one();
            flow.rounds_until(|flow| flow.window() > after);
            let rounds = flow.rounds_until(|flow| flow.window() >= before);
            ((before - after) / rounds, after / before)
        });
        assert!((kept.1 - BETA).abs() < 0.01 && (paced.1 - BETA_GENTLE).abs() < 0.01, "{kept:?} {paced:?}");
        // RFC 9438 §4.3.
        for (grew, beta) in [kept, paced] {
            assert!((grew / alpha(beta) - 1.0).abs() < 0.1, "{grew} where {beta} was kept");
        }
    }

    #[test]
    fn makes_room_after_losses_on_the_way_up() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.reduce(&lost(1000.0)), 700.0);
        assert_eq!(cubic.w_max, 1000.0);
        cubic.reduce(&lost(800.0));
        assert_eq!(cubic.w_max, 680.0);
    }

    #[test]
    fn a_mark_takes_less_than_a_loss() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Cubic::default(), 100.0);
        let (before, after) = flow.mark_all();
        assert!((after / before - 0.85).abs() < 0.01, "{before} {after}");
    }

    #[test]
    fn time_without_use_of_the_window_does_not_count() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Cubic::default(), 1000.0);
        let (_, after) = flow.lose_one();
        flow.rounds_until(|flow| flow.window() > after);
        flow.in_flight_max = 100;
        flow.run_for(Duration::from_secs(30));
        let idle = flow.window();
        assert!(idle < after + 40.0, "{idle}");
        flow.in_flight_max = u64::MAX;
        flow.run_for(Duration::from_secs(1));
        // W(t) rises by 73 segments in its second second.
        assert!((30.0..110.0).contains(&(flow.window() - idle)), "{} {idle}", flow.window());
    }

    #[test]
    fn after_a_timeout_the_function_starts_where_slow_start_ends() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Cubic::default(), 1000.0);
        flow.run_for(Duration::from_millis(250));
        flow.drop_next = 5000;
        flow.rounds_until(|flow| flow.window() == 1.0);
        flow.drop_next = 0;
        flow.rounds_until(|flow| flow.control.rule.epoch.is_some());
        let epoch = flow.control.rule.epoch.unwrap();
        assert!(epoch.k == 0.0 && (500.0..760.0).contains(&epoch.w_est), "{epoch:?}");
    }
}
