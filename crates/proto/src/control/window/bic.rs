//! BIC (Xu, Harfoush and Rhee 2004): binary search for the window at which the last loss happened.

use super::{Acked, Lost, Rule};

/// State of BIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bic {
    /// The middle of the search: the window at the last loss, or less where fast convergence makes room; zero if none is
    /// known.
    window_max: f64,
}

impl Bic {
    /// Segments a round trip.
    fn increase(&self, window: f64) -> f64 {
        if window <= LOW_WINDOW {
            return 1.0;
        }
        let step = if window < self.window_max {
            // Towards the maximum: by a part of the way, but no more than at a stride.
            let way = (self.window_max - window) / B;
            if way <= 1.0 { SMOOTH } else { way.min(STRIDE_MAX) }
        } else {
            // Beyond it: slowly away, then faster.
            let beyond = window - self.window_max;
            if beyond < B { SMOOTH } else { (beyond / (B - 1.0)).min(STRIDE_MAX) }
        };
        if self.window_max == 0.0 { step.max(window * SHARE_UNKNOWN) } else { step }
    }
}

impl Rule for Bic {
    fn grow(&mut self, acked: &Acked) -> f64 {
        acked.window + self.increase(acked.window) * acked.segments / acked.window
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        self.window_max = if lost.by_timeout {
            0.0
        } else if lost.window < self.window_max {
            // Fast convergence: others are on their way up.
            lost.window * (1.0 + BETA) / 2.0
        } else {
            lost.window
        };
        lost.window * if lost.window <= LOW_WINDOW { 0.5 } else { BETA }
    }
}

// As in Linux's `tcp_bic.c`.

/// Up to here BIC is Reno.
const LOW_WINDOW: f64 = 14.0;
/// What is left after a loss.
const BETA: f64 = 819.0 / 1024.0;
/// S_max: segments a round trip at most.
const STRIDE_MAX: f64 = 16.0;
/// The search goes on by one in so many of the way left.
const B: f64 = 4.0;
/// S_min: next to the maximum, a segment in five round trips.
const SMOOTH: f64 = B / 20.0;
/// A round trip, while nothing is known of a maximum.
const SHARE_UNKNOWN: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use core::time::Duration;

    #[test]
    fn steps_of_the_search() {
        let bic = Bic { window_max: 1000.0 };
        let table = [
            (10.0, 1.0),
            (800.0, 16.0),
            (936.0, 16.0),
            (940.0, 15.0),
            (960.0, 10.0),
            (992.0, 2.0),
            (996.0, 0.2),
            (1000.0, 0.2),
            (1003.9, 0.2),
            (1006.0, 2.0),
            (1030.0, 10.0),
            (1048.0, 16.0),
            (2000.0, 16.0),
        ];
        for (window, expected) in table {
            assert!((bic.increase(window) - expected).abs() < 1e-9, "{window}: {}", bic.increase(window));
        }
        assert_eq!(Bic::default().increase(1000.0), 50.0, "nothing known of a maximum");
    }

    #[test]
    fn comes_back_in_strides_and_then_ever_more_slowly() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), Bic::default(), 1000.0);
        let (before, after) = flow.lose_one();
        assert!((after / before - BETA).abs() < 0.001, "{before} {after}");
        flow.rounds_until(|flow| flow.window() > after);
        let strides = flow.rounds_until(|flow| flow.window() > before - 64.0);
        assert!(((before - after - 64.0) / 16.0 - strides).abs() < 1.0, "{strides}");
        // From 64 below, a quarter of the way each: ln(64/4) / ln(4/3) = 9.6.
        let search = flow.rounds_until(|flow| flow.window() > before - 4.0);
        assert!((9.0..12.0).contains(&search), "{search}");
    }

    #[test]
    fn makes_room_after_losses_on_the_way_up() {
        let lost = |window| Lost { now: Default::default(), window, by_timeout: false, by_mark: false };
        let mut bic = Bic::default();
        bic.reduce(&lost(1000.0));
        assert_eq!(bic.window_max, 1000.0);
        let left = bic.reduce(&lost(800.0));
        assert!((bic.window_max - 720.0).abs() < 1.0 && (left - 639.8).abs() < 0.1, "{bic:?} {left}");
        assert_eq!(bic.reduce(&lost(14.0)), 7.0);
    }
}
