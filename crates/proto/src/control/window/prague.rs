//! For queues that keep the wait to a millisecond (L4S): marks come often, and each costs little (RFC 9331 §4.3).
//!
//! What is left after marks follows from the share of a round trip's datagrams that came in marked, as in DCTCP (RFC 8257);
//! all else is CUBIC, which it is where no queue marks or the path does not keep marks.

use super::{Acked, Cubic, Lost, Rule, SlowStart};
use core::time::Duration;

/// DCTCP's answer to marks, CUBIC's to losses.
#[derive(Clone, Copy, Debug)]
pub struct Prague {
    cubic: Cubic,
    /// The mean share that comes in marked: DCTCP.Alpha.
    share: f64,
    /// What came in of this round trip, and of that what was marked.
    segments: f64,
    marked: f64,
}

impl Default for Prague {
    fn default() -> Prague {
        // RFC 8257 §3.3 (4): the first mark halves what slow start has come to.
        Prague { cubic: Cubic::default(), share: 1.0, segments: 0.0, marked: 0.0 }
    }
}

impl Rule for Prague {
    fn slow_start(&self) -> SlowStart {
        self.cubic.slow_start()
    }

    fn observe(&mut self, acked: &Acked) {
        self.segments += acked.segments;
        self.marked += acked.marked;
        if acked.new_round && self.segments > 0.0 {
            self.share += (self.marked / self.segments - self.share) * GAIN;
            (self.segments, self.marked) = (0.0, 0.0);
        }
    }

    fn grow(&mut self, acked: &Acked) -> f64 {
        self.cubic.grow(&Acked { segments: (acked.segments - acked.marked).max(0.0), ..*acked })
    }

    fn hold(&mut self, acked: &Acked) -> f64 {
        self.cubic.hold(acked)
    }

    fn grows_beside_marks(&self) -> bool {
        true
    }

    fn burst(&self) -> Duration {
        // A burst is a queue, and marked as one.
        Duration::ZERO
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        let left = self.cubic.reduce(lost);
        if lost.by_mark { lost.window * (1.0 - self.share / 2.0) } else { left }
    }
}

/// RFC 8257 §4.2: weight of a round trip.
const GAIN: f64 = 1.0 / 16.0;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use crate::units::Time;

    fn acked(segments: f64, marked: f64) -> Acked {
        Acked {
            now: Time::ZERO,
            segments,
            marked,
            window: 100.0,
            rtt_smoothed: Duration::from_millis(10),
            rtt: None,
            rtt_min: Duration::from_millis(10),
            one_way_ns: None,
            new_round: true,
        }
    }

    fn lost(by_mark: bool) -> Lost {
        Lost { now: Time::ZERO, window: 100.0, by_timeout: false, by_mark }
    }

    #[test]
    fn the_fewer_are_marked_the_less_a_mark_costs_and_a_loss_costs_the_same() {
        for (marked, left) in [(100.0, 50.0), (10.0, 95.0), (1.0, 99.5)] {
            let mut rule = Prague::default();
            (0..200).for_each(|_| rule.observe(&acked(100.0, marked)));
            assert!((rule.reduce(&lost(true)) - left).abs() < 0.1, "{}", rule.reduce(&lost(true)));
            assert_eq!(rule.reduce(&lost(false)), Cubic::default().reduce(&lost(false)));
        }
        assert_eq!(Prague::default().reduce(&lost(true)), 50.0, "the first");
    }

    #[test]
    fn where_nothing_marks_it_is_cubic() {
        let path = Path { rtt: Duration::from_millis(50), service: Duration::from_millis(1), buffer: 50 };
        let mut prague = Flow::new(path, Prague::default());
        let mut cubic = Flow::new(path, Cubic::default());
        for _ in 0..100 {
            prague.run_for(Duration::from_millis(100));
            cubic.run_for(Duration::from_millis(100));
            assert_eq!(prague.window(), cubic.window());
        }
        assert!(cubic.lost > 0);
    }
}
