//! LEDBAT (RFC 6817): keeps a fixed delay in the queue and yields to all that builds more.
//!
//! Against the RFC: slow start is taken, up to three quarters of the target delay (as in LEDBAT++), since one
//! segment a round trip would take minutes to fill a long path.

use super::{Acked, Lost, Rule, SSTHRESH_MIN};
use crate::units::Time;
use core::time::Duration;
use std::collections::VecDeque;

/// State of LEDBAT.
#[derive(Clone, Debug)]
pub struct Ledbat {
    target: Duration,
    /// Least delay of each of the last minutes, the present one last, ns.
    base: VecDeque<i64>,
    /// When the present one began.
    minute: Time,
    /// The last few delays, ns.
    current: VecDeque<i64>,
    /// Delays are of one way; otherwise of the whole round trip.
    is_one_way: bool,
}

impl Ledbat {
    /// Keep a queue of `target`.
    pub fn new(target: Duration) -> Ledbat {
        Ledbat {
            target,
            base: VecDeque::new(),
            minute: Time::ZERO,
            current: VecDeque::new(),
            is_one_way: false,
        }
    }

    /// RFC 6817 §2.4.2, `update_base_delay` and `update_current_delay`.
    fn measure(&mut self, now: Time, delay_ns: i64) {
        match self.base.back_mut() {
            Some(least) if now.since(self.minute) < BASE_SLOT => *least = (*least).min(delay_ns),
            _ => {
                self.base.push_back(delay_ns);
                self.minute = now;
            }
        }
        self.current.push_back(delay_ns);
        self.base.drain(..self.base.len().saturating_sub(BASE_HISTORY));
        self.current.drain(..self.current.len().saturating_sub(CURRENT_FILTER));
    }

    /// What waits in the queue.
    fn queue(&self) -> Duration {
        let least = |delays: &VecDeque<i64>| delays.iter().copied().min();
        let (Some(current), Some(base)) = (least(&self.current), least(&self.base)) else {
            return Duration::ZERO;
        };
        Duration::from_nanos(u64::try_from(i128::from(current) - i128::from(base)).unwrap_or(0))
    }
}

impl Rule for Ledbat {
    fn observe(&mut self, acked: &Acked) {
        if let Some(one_way) = acked.one_way_ns {
            if !self.is_one_way {
                // Delays of another kind cannot be compared.
                (self.is_one_way, self.base, self.current) = (true, VecDeque::new(), VecDeque::new());
            }
            self.measure(acked.now, one_way);
        } else if let Some(rtt) = acked.rtt.filter(|_| !self.is_one_way) {
            self.measure(acked.now, i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX));
        }
    }

    fn ends_slow_start(&self, acked: &Acked) -> Option<f64> {
        // The delay seen is that of a round trip ago, when the window was half of what it is.
        (self.queue() >= self.target * 3 / 4).then_some(acked.window / 2.0)
    }

    fn grow(&mut self, acked: &Acked) -> f64 {
        let off_target = 1.0 - self.queue().as_secs_f64() / self.target.as_secs_f64();
        let window = acked.window + GAIN * off_target * acked.segments / acked.window;
        window.max(SSTHRESH_MIN)
    }

    fn hold(&mut self, acked: &Acked) -> f64 {
        self.grow(acked).min(acked.window)
    }

    fn reduce(&mut self, lost: &Lost) -> f64 {
        lost.window / 2.0
    }
}

/// RFC 6817 §2.5: 100 ms is the most that it allows.
pub const TARGET: Duration = Duration::from_millis(100);
/// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), for those who are to be noticed even less.
pub const TARGET_BACKGROUND: Duration = Duration::from_millis(60);
/// RFC 6817 §2.5: 1 at most, so that it never grows faster than TCP.
const GAIN: f64 = 1.0;
/// RFC 6817 §2.5, BASE_HISTORY: so many minutes.
pub(crate) const BASE_HISTORY: usize = 10;
pub(crate) const BASE_SLOT: Duration = Duration::from_secs(60);
/// RFC 6817 §2.5, CURRENT_FILTER, in samples.
const CURRENT_FILTER: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;
    use crate::control::Controller;

    const PATH: Path =
        Path { rtt: Duration::from_millis(40), service: Duration::from_millis(1), buffer: 1000 };

    #[test]
    fn settles_at_its_target() {
        for target in [TARGET, TARGET_BACKGROUND] {
            let mut flow = Flow::new(PATH, Ledbat::new(target));
            flow.run_for(Duration::from_secs(30));
            for _ in 0..100 {
                flow.run_for(Duration::from_millis(130));
                let off = flow.control.rule.queue().abs_diff(target);
                assert!(off < target / 20, "{off:?} off {target:?}");
            }
            assert_eq!(flow.lost, 0);
        }
    }

    #[test]
    fn slow_start_ends_before_the_target() {
        let mut flow = Flow::new(PATH, Ledbat::new(TARGET));
        flow.rounds_until(|flow| !flow.is_slow_starting());
        flow.run_for(Duration::from_secs(1));
        let queue = flow.control.rule.queue();
        assert!((TARGET / 2..TARGET).contains(&queue), "{queue:?}");
    }

    /// It was left with one and a half, below what any rule leaves.
    #[test]
    fn slow_start_that_ends_at_once_leaves_two_segments() {
        let mut flow = Flow::new(PATH, Ledbat::new(TARGET));
        (0..3).for_each(|_| flow.step());
        flow.control.on_timeout(flow.now);
        flow.path.rtt += Duration::from_millis(600);
        flow.rounds_until(|flow| !flow.is_slow_starting());
        assert_eq!((flow.window(), flow.control.ssthresh), (2.0, 2.0));
    }

    #[test]
    fn yields_to_a_queue_that_others_build() {
        let mut flow = Flow::new(PATH, Ledbat::new(TARGET));
        flow.run_for(Duration::from_secs(30));
        // All of a sudden the path takes 300 ms longer: as if behind a queue.
        flow.path.rtt += Duration::from_millis(600);
        flow.run_for(Duration::from_secs(120));
        assert!(flow.window() < 3.0, "{}", flow.window());
    }

    #[test]
    fn a_longer_route_is_accepted_after_ten_minutes() {
        let mut flow = Flow::new(PATH, Ledbat::new(TARGET));
        flow.run_for(Duration::from_secs(30));
        flow.path.rtt += Duration::from_millis(600);
        flow.run_for(Duration::from_secs(11 * 60));
        assert!(flow.window() > 20.0, "{}", flow.window());
    }

    #[test]
    fn round_trips_do_where_there_are_no_one_way_delays() {
        let mut ledbat = Ledbat::new(TARGET);
        let acked = |ms: u64, one_way_ns| Acked {
            marked: 0.0,
            now: Time::from_millis(ms),
            segments: 1.0,
            window: 10.0,
            rtt_smoothed: PATH.rtt,
            rtt: Some(Duration::from_millis(ms)),
            rtt_min: PATH.rtt,
            one_way_ns,
            new_round: false,
        };
        (40..100).for_each(|ms| ledbat.observe(&acked(ms, None)));
        assert_eq!(ledbat.queue(), Duration::from_millis(56));
        ledbat.observe(&acked(100, Some(i64::MIN)));
        assert_eq!(ledbat.queue(), Duration::ZERO);
        (0..4).for_each(|_| ledbat.observe(&acked(100, Some(i64::MAX))));
        assert_eq!(ledbat.queue(), Duration::from_nanos(u64::MAX));
    }
}
