//! What the link carries, whoever uses it: datagrams that left back to back come in as far apart as the bottleneck takes
//! to send them (packet pairs: Keshav, SIGCOMM 1991). Hosts bundle what comes in, so a train is as long as it takes to
//! tell.

use crate::control::{ProbeTrain, Sent, TimedArrival};
use crate::units::{Rate, Time};
use core::time::Duration;
use std::collections::VecDeque;

/// The latest trains.
#[derive(Debug)]
pub(super) struct Trains {
    datagram_len: f64,
    /// What each told, bit/s.
    rates: VecDeque<f64>,
    /// Datagrams sent since the last train, and when that left.
    sent: u32,
    at: Time,
    coming_in: Option<Run>,
}

/// Datagrams that left together and came in without a gap.
#[derive(Clone, Copy, Debug)]
struct Run {
    began: Time,
    last: TimedArrival,
    datagrams: u32,
}

impl Trains {
    pub fn new(datagram_len: f64) -> Trains {
        Trains { datagram_len, rates: VecDeque::new(), sent: 0, at: Time::ZERO, coming_in: None }
    }

    /// A datagram was sent.
    pub fn on_sent(&mut self, sent: &Sent) {
        self.sent += u32::from(!sent.in_train);
    }

    /// The next train, if one is due on a link that carries about `link` bit/s and `window` datagrams of ours in a round
    /// trip: soon while little is known.
    pub fn poll(&mut self, now: Time, link: Option<f64>, window: f64) -> Option<ProbeTrain> {
        let datagrams = self.length(link, window);
        let (every, gap) = if self.rates.len() < FEW { (EVERY_FIRST, GAP_FIRST) } else { (EVERY, GAP) };
        if self.sent < every * datagrams || now.since(self.at) < gap {
            return None;
        }
        (self.sent, self.at) = (0, now);
        Some(ProbeTrain { datagrams, rate: Rate(u64::MAX) })
    }

    /// So many take long enough to come in; where nothing is known, not most of what is on its way.
    fn length(&self, link: Option<f64>, window: f64) -> u32 {
        let wanted =
            link.map_or(window / 2.0, |link| 1.0 + SPAN.as_secs_f64() * link / 8.0 / self.datagram_len);
        (wanted.ceil() as u32).clamp(2, DATAGRAMS_MAX)
    }

    /// Datagrams of trains came in.
    pub fn on_timed(&mut self, arrivals: &[TimedArrival], link: Option<f64>, window: f64) {
        let length = self.length(link, window);
        for arrival in arrivals {
            let run = self.coming_in.filter(|run| run.goes_on_with(arrival));
            let run = Run {
                began: run.map_or(arrival.arrival, |run| run.began),
                last: *arrival,
                datagrams: run.map_or(1, |run| run.datagrams + 1),
            };
            self.coming_in = Some(run);
            if run.datagrams == length {
                self.read(run);
            }
        }
    }

    fn read(&mut self, run: Run) {
        let span = run.last.arrival.since(run.began);
        // A host that bundles all of them stamps them alike: that says nothing.
        if !span.is_zero() {
            self.rates.push_back(f64::from(run.datagrams - 1) * self.datagram_len * 8.0 / span.as_secs_f64());
            self.rates.drain(..self.rates.len().saturating_sub(KEPT));
        }
    }

    /// What the link carries, bit/s. Others' packets come between some of the trains, so the faster ones count.
    pub fn link(&self) -> Option<f64> {
        if self.rates.len() < LEAST {
            return None;
        }
        let mut sorted: Vec<f64> = self.rates.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        Some(sorted[sorted.len() * 3 / 4].min(RATE_MOST))
    }
}

impl Run {
    fn goes_on_with(&self, next: &TimedArrival) -> bool {
        self.last.number + 1 == next.number && next.sent.since(self.last.sent) < TOGETHER
    }
}

/// A train takes at least so long to come in, with not more than so many datagrams.
const SPAN: Duration = Duration::from_millis(1);
const DATAGRAMS_MAX: u32 = 16;
/// One comes after so many times its length and not sooner than this. Each is a small queue of its own: five a second of
/// all ten flows on a link disturb those whose round trips are long.
const EVERY: u32 = 15;
const GAP: Duration = Duration::from_secs(1);
/// While fewer than so many are known they come sooner.
const EVERY_FIRST: u32 = 4;
const GAP_FIRST: Duration = Duration::from_millis(200);
const FEW: usize = 4;
/// Two that left further apart did not leave together.
const TOGETHER: Duration = Duration::from_micros(50);
/// So many are remembered, and so many tell something.
const KEPT: usize = 16;
const LEAST: usize = 3;
/// bit/s: above it user-space stamps tell only that it is so much.
const RATE_MOST: f64 = 2e9;

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: f64 = 1e8;
    const WINDOW: f64 = 1000.0;

    fn trains() -> Trains {
        Trains::new(1250.0)
    }

    /// A train with its first datagram `number`, whose datagrams came in `gap_us` apart.
    fn train(number: u64, gap_us: u64) -> Vec<TimedArrival> {
        let at = |us| Time::ZERO + Duration::from_micros(us);
        let sent = at(1000 * number);
        let arrival =
            |n| TimedArrival { number: number + n, sent, arrival: at(1000 * number + 500 + n * gap_us) };
        (0..11).map(arrival).collect()
    }

    #[test]
    fn the_faster_trains_tell_the_link() {
        let mut trains = trains();
        // 1250 bytes in 100 µs: 100 Mb/s. In between two of the trains somebody else's packets came.
        for (n, gap_us) in [100, 300, 100, 200, 100, 100].into_iter().enumerate() {
            trains.on_timed(&train(20 * n as u64, gap_us), Some(LINK), WINDOW);
        }
        assert_eq!(trains.link(), Some(LINK));
    }

    #[test]
    fn a_train_with_a_gap_and_bundled_arrivals_tell_nothing() {
        let mut trains = trains();
        for n in 0..10 {
            let mut lossy = train(40 * n, 100);
            lossy.remove(5);
            trains.on_timed(&lossy, Some(LINK), WINDOW);
            trains.on_timed(&train(40 * n + 20, 0), Some(LINK), WINDOW);
        }
        assert_eq!(trains.link(), None);
    }

    #[test]
    fn a_train_is_as_long_as_it_takes_to_come_in_for_a_millisecond() {
        let lengths =
            [None, Some(1e9), Some(1e8), Some(1e7), Some(1e6)].map(|link| trains().length(link, WINDOW));
        assert_eq!(lengths, [16, 16, 11, 2, 2]);
        assert_eq!(trains().length(None, 10.0), 5, "half of what is on its way");
    }

    #[test]
    fn trains_come_soon_at_first_and_seldom_later() {
        let mut trains = trains();
        let sent = Sent { now: Time::ZERO, number: 0, bytes: 1250, in_train: false, in_flight: 0 };
        let due = |trains: &mut Trains, at_ms| {
            (1..1000).find(|_| {
                trains.on_sent(&sent);
                trains.poll(Time::from_millis(at_ms), Some(LINK), WINDOW).is_some()
            })
        };
        assert_eq!(due(&mut trains, 1000), Some(11 * EVERY_FIRST));
        assert_eq!(due(&mut trains, 1100), None, "not more often than five a second");
        (0..FEW as u64).for_each(|n| trains.on_timed(&train(20 * n, 100), Some(LINK), WINDOW));
        trains.sent = 0;
        assert_eq!(due(&mut trains, 1900), None, "not more often than once a second");
        trains.sent = 0;
        assert_eq!(due(&mut trains, 2000), Some(11 * EVERY));
    }
}
