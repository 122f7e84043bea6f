//! Ways through slow start.

use super::Acked;
use core::time::Duration;

/// How a window grows from its beginning up to ssthresh.
#[derive(Clone, Copy, Debug)]
pub enum SlowStart {
    /// Doubles each round trip (RFC 5681 §3.1).
    Standard,
    /// The same up to this many segments, then half as many a round trip at most (RFC 3742).
    Limited(f64),
    /// Doubles until the round trip grows, then goes on slowly for a while to see whether that was a queue (HyStart++,
    /// RFC 9406).
    HyStart(HyStart),
}

impl SlowStart {
    /// The window after an acknowledgement, and whether slow start ends with it.
    pub(super) fn grow(&mut self, acked: &Acked, is_first: bool) -> (f64, bool) {
        match self {
            SlowStart::Limited(full) if acked.window > *full => {
                // RFC 3742 §2: cwnd += MSS / K per segment, K = cwnd / (max_ssthresh / 2).
                let k = (acked.window / (0.5 * *full)).floor();
                (acked.window + acked.segments / k, false)
            }
            SlowStart::HyStart(state) if is_first => state.grow(acked),
            _ => (acked.window + acked.segments, false),
        }
    }
}

/// State of HyStart++; names as in RFC 9406 §4.2.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    /// Least round trip of the round before.
    last_round_min_rtt: Option<Duration>,
    current_round_min_rtt: Option<Duration>,
    rtt_sample_count: u32,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline_min_rtt: Duration,
    rounds: u32,
}

impl HyStart {
    fn grow(&mut self, acked: &Acked) -> (f64, bool) {
        let mut is_over = false;
        if acked.new_round {
            is_over = self.end_round();
        }
        if let Some(rtt) = acked.rtt {
            self.current_round_min_rtt = Some(self.current_round_min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.rtt_sample_count += 1;
        }
        if self.rtt_sample_count >= N_RTT_SAMPLE {
            self.judge();
        }
        let divisor = if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1.0 };
        (acked.window + acked.segments / divisor, is_over)
    }

    /// Whether slow start ends.
    fn end_round(&mut self) -> bool {
        // Where acknowledgements stand for many datagrams, a round may not see as many as the RFC asks for.
        if (N_RTT_SAMPLE_SPARSE..N_RTT_SAMPLE).contains(&self.rtt_sample_count) {
            self.judge();
        }
        self.last_round_min_rtt = self.current_round_min_rtt.take();
        self.rtt_sample_count = 0;
        let Some(css) = &mut self.css else { return false };
        // RFC 9406 §4.2: the round in which it began counts.
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }

    /// Compare this round's delay with the last one's, or with that at which growth was slowed down.
    fn judge(&mut self) {
        let Some(current) = self.current_round_min_rtt else { return };
        match (self.css, self.last_round_min_rtt) {
            (Some(css), _) if current < css.baseline_min_rtt => self.css = None,
            (None, Some(last)) => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last.saturating_add(threshold) {
                    self.css = Some(Css { baseline_min_rtt: current, rounds: 0 });
                }
            }
            _ => {}
        }
    }
}

// RFC 9406 §4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// Ours: so many samples will do for a round that is over. A receiver of objects acknowledges four times a round trip
/// at the least.
const N_RTT_SAMPLE_SPARSE: u32 = 3;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::super::{Cubic, NewReno};
    use super::*;

    /// 100 segments fill it, a thousand more its queue.
    const LONG_QUEUE: Path =
        Path { rtt: Duration::from_millis(100), service: Duration::from_millis(1), buffer: 1000 };

    #[test]
    fn standard_doubles_until_something_is_lost() {
        let mut flow = Flow::new(LONG_QUEUE, NewReno);
        let rounds = flow.rounds_until(|flow| flow.window() >= 80.0);
        assert!((2.9..3.6).contains(&rounds), "from 10 segments to 80 in three: {rounds}");
        flow.rounds_until(|flow| !flow.is_slow_starting());
        let left = flow.window();
        flow.run_for(Duration::from_secs(2));
        assert!(flow.lost > 100 && (500.0..1200.0).contains(&left), "{} {left}", flow.lost);
    }

    #[test]
    fn hystart_leaves_when_the_delay_grows() {
        let mut flow = Flow::new(LONG_QUEUE, Cubic::default());
        let has_slowed_down = |flow: &Flow<Cubic>| match flow.control.slow_start {
            SlowStart::HyStart(state) => state.css.is_some(),
            _ => unreachable!("CUBIC's slow start is HyStart++"),
        };
        flow.rounds_until(has_slowed_down);
        assert!((120.0..350.0).contains(&flow.window()), "{}", flow.window());
        let window = flow.window();
        flow.rounds_until(|flow| !flow.is_slow_starting());
        // Five rounds, a quarter more in each.
        let grown = flow.window() / window;
        assert!(flow.lost == 0 && (2.4..3.2).contains(&grown), "{} {grown}", flow.lost);
    }

    #[test]
    fn hystart_stays_while_the_delay_does() {
        let mut flow = Flow::new(Path::delay(Duration::from_millis(100)), Cubic::default());
        let rounds = flow.rounds_until(|flow| flow.window() >= 10_000.0);
        assert!(flow.is_slow_starting() && rounds < 11.0, "{rounds}");
    }

    #[test]
    fn hystart_forgives_a_spike_of_delay() {
        let mut flow = Flow::new(Path::delay(Duration::from_millis(100)), Cubic::default());
        flow.rounds_until(|flow| flow.window() >= 100.0);
        flow.path.rtt = Duration::from_millis(130);
        flow.run_for(Duration::from_millis(260));
        let SlowStart::HyStart(state) = flow.control.slow_start else { panic!("{flow:?}") };
        assert!(state.css.is_some(), "{state:?}");
        flow.path.rtt = Duration::from_millis(100);
        let window = flow.window();
        let rounds = flow.rounds_until(|flow| flow.window() >= window * 16.0);
        assert!(flow.is_slow_starting() && rounds < 7.0, "{rounds}");
    }
}
