//! NewReno: one segment a round trip, half after a loss (RFC 5681 §3.1, RFC 6582).

use super::{Acked, Lost, Rule};

/// Additive increase 1, multiplicative decrease ½.
#[derive(Clone, Copy, Debug)]
pub struct NewReno;

impl Rule for NewReno {
    fn grow(&mut self, acked: &Acked) -> f64 {
        acked.window + acked.segments / acked.window
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        lost.window * if lost.by_mark { BETA_ECN } else { 0.5 }
    }
}

/// RFC 8511 §3.1: queues that mark are short, and half of the window would leave the link idle.
const BETA_ECN: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use core::time::Duration;

    const PATH: Path =
        Path { rtt: Duration::from_millis(100), service: Duration::from_millis(1), buffer: 100 };

    #[test]
    fn one_segment_a_round_trip() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), NewReno, 50.0);
        flow.run_for(Duration::from_secs(2));
        // A little less than one: a fraction of a segment in the window sends nothing and brings no acknowledgement.
        assert!((68.5..70.5).contains(&flow.window()), "{}", flow.window());
    }

    #[test]
    fn half_after_a_loss_once_an_episode() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), NewReno, 64.0);
        flow.run_for(Duration::from_millis(250));
        flow.drop_next = 5;
        flow.rounds_until(|flow| flow.lost == 5);
        let left = flow.window();
        assert!((32.0..35.0).contains(&left), "{left}");
        // Nothing grows while it is repaired: half a round trip until as much came in as the window was lowered by,
        // and a whole one until the first datagram sent thereafter came in.
        let rounds = flow.rounds_until(|flow| flow.window() > left);
        assert!((1.3..1.6).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_fifth_less_after_a_mark_once_a_round_trip() {
        let mut flow = Flow::in_avoidance(Path::delay(Duration::from_millis(100)), NewReno, 64.0);
        let (before, after) = flow.mark_all();
        assert!((after / before - 0.8).abs() < 0.02, "{before} {after}");
        assert_eq!(flow.lost, 0);
        let rounds = flow.rounds_until(|flow| flow.window() < after);
        assert!((0.9..2.1).contains(&rounds), "all are marked: {rounds}");
    }

    #[test]
    fn sawtooth_fills_a_queue_of_one_product() {
        let mut flow = Flow::new(PATH, NewReno);
        flow.run_for(Duration::from_secs(20));
        let (delivered, lost) = (flow.delivered, flow.lost);
        flow.run_for(Duration::from_secs(100));
        let share = (flow.delivered - delivered) as f64 / 100_000.0;
        assert!(share > 0.99, "{share}");
        // From 200 down to 100, up again in 100 round trips of 100 to 200 ms: about one loss every 15 s.
        assert!((5..=8).contains(&(flow.lost - lost)), "{}", flow.lost - lost);
    }
}
