//! Scalable TCP (Kelly 2003): grows by a share of the window, so that recovery takes equally long at any rate.

use super::{Acked, Lost, Rule};

/// A hundredth of a segment for each one acknowledged, seven eighths after a loss.
#[derive(Clone, Copy, Debug)]
pub struct Scalable;

impl Rule for Scalable {
    fn grow(&mut self, acked: &Acked) -> f64 {
        acked.window + acked.segments / acked.window.min(LEGACY_WINDOW)
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        lost.window * (1.0 - DECREASE)
    }
}

/// Kelly's a = 0.01 per acknowledgement above it; below, as Reno (Linux's `TCP_SCALABLE_AI_CNT`, which counts segments
/// as we do).
const LEGACY_WINDOW: f64 = 100.0;
/// Kelly's b.
const DECREASE: f64 = 0.125;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use core::time::Duration;

    #[test]
    fn recovers_in_13_4_round_trips_at_any_window() {
        // ln(8/7) / ln(1.01) = 13.42.
        for window in [150.0, 1000.0, 5000.0, 20_000.0] {
            let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Scalable, window);
            let (before, after) = flow.lose_one();
            assert!((after / before - 0.875).abs() < 0.001, "{before} {after}");
            flow.rounds_until(|flow| flow.window() > after);
            let rounds = flow.rounds_until(|flow| flow.window() >= before);
            assert!((13.3..13.9).contains(&rounds), "{window}: {rounds}");
        }
    }

    #[test]
    fn small_windows_grow_as_renos() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Scalable, 20.0);
        flow.run_for(Duration::from_secs(2));
        assert!((38.0..40.5).contains(&flow.window()), "{}", flow.window());
    }
}
