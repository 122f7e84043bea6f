//! HighSpeed TCP (RFC 3649): both factors of AIMD depend on the window, such that a rate of loss of 10⁻⁷ suffices
//! for 83 000 segments.

use super::{Acked, Lost, Rule, SlowStart};

/// Reno up to 38 segments, bolder above.
#[derive(Clone, Copy, Debug)]
pub struct HighSpeed;

impl Rule for HighSpeed {
    fn slow_start(&self) -> SlowStart {
        SlowStart::Limited(MAX_SSTHRESH)
    }

    fn grow(&mut self, acked: &Acked) -> f64 {
        acked.window + increase(acked.window) * acked.segments / acked.window
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        lost.window * (1.0 - decrease(lost.window))
    }
}

/// b(w), RFC 3649 §5.
fn decrease(window: f64) -> f64 {
    let way = (window / LOW_WINDOW).ln() / (HIGH_WINDOW / LOW_WINDOW).ln();
    0.5 + (HIGH_DECREASE - 0.5) * way.clamp(0.0, 1.0)
}

/// a(w), RFC 3649 §5: with p(w) = 0.078 / w^1.2, the rate of loss that goes with the window.
fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let (b, loss) = (decrease(window), 0.078 / window.powf(1.2));
    (2.0 * window * window * b * loss / (2.0 - b)).max(1.0)
}

// RFC 3649 §5.
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// RFC 3742 §2 recommends it for HighSpeed TCP.
const MAX_SSTHRESH: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use core::time::Duration;

    /// RFC 3649, Appendix B: window, a(w), b(w) to two places.
    const APPENDIX_B: [(f64, f64, f64); 32] = [
        (38.0, 1.0, 0.50),
        (118.0, 2.0, 0.44),
        (221.0, 3.0, 0.41),
        (347.0, 4.0, 0.38),
        (495.0, 5.0, 0.37),
        (663.0, 6.0, 0.35),
        (851.0, 7.0, 0.34),
        (1058.0, 8.0, 0.33),
        (1284.0, 9.0, 0.32),
        (1529.0, 10.0, 0.31),
        (1793.0, 11.0, 0.30),
        (2076.0, 12.0, 0.29),
        (2378.0, 13.0, 0.28),
        (2699.0, 14.0, 0.28),
        (3039.0, 15.0, 0.27),
        (3399.0, 16.0, 0.27),
        (3778.0, 17.0, 0.26),
        (4177.0, 18.0, 0.26),
        (4596.0, 19.0, 0.25),
        (5036.0, 20.0, 0.25),
        (6483.0, 23.0, 0.23),
        (8130.0, 26.0, 0.22),
        (10_661.0, 30.0, 0.21),
        (14_424.0, 35.0, 0.19),
        (18_955.0, 40.0, 0.18),
        (24_402.0, 45.0, 0.16),
        (30_975.0, 50.0, 0.15),
        (38_992.0, 55.0, 0.14),
        (48_961.0, 60.0, 0.13),
        (61_799.0, 65.0, 0.12),
        (71_617.0, 68.0, 0.11),
        (79_517.0, 70.0, 0.10),
    ];

    #[test]
    fn factors_agree_with_the_rfcs_table() {
        for (window, a, b) in APPENDIX_B {
            assert!((increase(window) - a).abs() < 0.05, "a({window}) = {}", increase(window));
            assert!((decrease(window) - b).abs() < 0.0051, "b({window}) = {}", decrease(window));
        }
        assert!((increase(83_000.0) - 70.7).abs() < 0.05, "{}", increase(83_000.0));
        assert!((decrease(83_000.0) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn beyond_the_table_something_is_still_given_back() {
        for window in [1.0, 2.0, 37.0, 83_001.0, 1e6] {
            assert!((0.0999..=0.5).contains(&decrease(window)) && increase(window) >= 1.0, "{window}");
        }
    }

    #[test]
    fn grows_and_shrinks_by_the_table() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), HighSpeed, 1058.0);
        flow.rounds_until(|flow| flow.window() > 1058.0);
        let rounds = flow.rounds_until(|flow| flow.window() >= 1058.0 + 16.0);
        assert!((1.8..2.2).contains(&rounds), "{rounds}");
        let (before, after) = flow.lose_one();
        assert!((after / before - 0.673).abs() < 0.003, "{before} {after}");
    }

    #[test]
    fn slow_start_is_limited_to_fifty_segments_a_round_trip() {
        let mut flow = Flow::new(Path::delay(Duration::from_millis(100)), HighSpeed);
        flow.rounds_until(|flow| flow.window() >= 400.0);
        let rounds = flow.rounds_until(|flow| flow.window() >= 800.0);
        assert!(flow.is_slow_starting() && (7.5..9.5).contains(&rounds), "{rounds}");
    }
}
