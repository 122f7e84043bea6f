//! How much to slow down because a queue builds (PCP §3.2), and when not to because it does not help (§3.5).

use super::line::Line;
use crate::control::AckSample;
use crate::units::{DatagramNumber, Time, nanos};
use core::time::Duration;

/// Watches the delays of base traffic, a round trip's worth at a time.
#[derive(Clone, Debug)]
pub(super) struct Compensation {
    least: LeastDelay,
    /// Delays jump by about this much from one to the next, ns.
    jitter_ns: f64,
    last_delay: Option<i64>,
    round: Round,
    /// The last queueing delay, ns.
    queue_ns: f64,
    /// Share of the full compensation that is applied (tit for tat).
    strength: f64,
    /// Mean queueing delay when the rate was last lowered, ns, and how often that did not help in a row.
    before: Option<f64>,
    futile: u32,
}

/// Base traffic sent within about a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// What left earlier does not count.
    begins: DatagramNumber,
    ends: Option<DatagramNumber>,
    first_sent: i64,
    /// Delay over the least known, against send time.
    line: Line,
    least_ns: f64,
    most_ns: f64,
}

impl Compensation {
    pub fn new() -> Compensation {
        Compensation {
            least: LeastDelay::default(),
            jitter_ns: 0.0,
            last_delay: None,
            round: Round::default(),
            queue_ns: 0.0,
            strength: 1.0,
            before: None,
            futile: 0,
        }
    }

    /// The queueing delay last seen.
    pub fn queue(&self) -> Duration {
        Duration::from_nanos(self.queue_ns as u64)
    }

    /// A delay of any datagram, for the least one.
    pub fn note(&mut self, now: Time, delay_ns: i64) {
        self.least.note(now, delay_ns);
    }

    /// The delay of a datagram of base traffic, which leave `gap` apart. Returns the share by which to lower the base
    /// rate, once a round trip's worth says so.
    pub fn on_base(&mut self, ack: &AckSample, rtt: Duration, gap: Duration) -> Option<f64> {
        let delay = ack.one_way_ns?;
        if let Some(last) = self.last_delay.replace(delay) {
            self.jitter_ns += (delay.abs_diff(last) as f64 - self.jitter_ns) * JITTER_GAIN;
        }
        self.queue_ns = self.least.excess(delay);
        let round = &mut self.round;
        if ack.latest < round.begins {
            return None;
        }
        let sent = (ack.arrival.0 as i64).wrapping_sub(delay);
        let ends = *round.ends.get_or_insert(ack.next_number);
        if round.line.count() == 0.0 {
            (round.first_sent, round.least_ns) = (sent, f64::INFINITY);
        }
        round.line.add(sent.wrapping_sub(round.first_sent) as f64, self.queue_ns);
        round.least_ns = round.least_ns.min(self.queue_ns);
        round.most_ns = round.most_ns.max(self.queue_ns);
        if ack.latest < ends || round.line.count() < SAMPLES_MIN {
            return None;
        }
        let round = *round;
        let cut = self.review(&round, rtt, gap);
        // What is on its way left at the old rate: it says nothing of the new.
        let begins = if cut.is_some() { ack.next_number } else { ends };
        self.round = Round { begins, ..Round::default() };
        cut
    }

    /// The end of a round.
    fn review(&mut self, round: &Round, rtt: Duration, gap: Duration) -> Option<f64> {
        let rtt_ns = nanos(rtt) as f64;
        // A stranger's packet ahead of ours is no queue yet, nor is what the host sends in one go.
        let crossing = (nanos(gap) as f64).min(rtt_ns / 10.0);
        let noise = NOISE_MIN_NS.max(crossing) + NOISE_JITTER * self.jitter_ns;
        if round.most_ns <= noise {
            (self.strength, self.before, self.futile) = (1.0, None, 0);
            return None;
        }
        let mean = round.line.mean_y();
        self.judge_last_cut(mean);
        // (Δout − Δin)/Δout: what we send beyond what passes; and what stands in the queue, to be gone in a round trip.
        let slope = round.line.slope().max(0.0);
        let growing = slope / (1.0 + slope);
        let standing = (round.least_ns - noise / 2.0).max(0.0) / rtt_ns;
        let cut = (self.strength * (growing + standing)).min(CUT_MAX);
        self.before = Some(mean);
        (cut >= CUT_MIN).then_some(cut)
    }

    /// Tit for tat: where lowering the rate several times in a row did not shorten the queue, others fill it, and
    /// yielding to them only makes room for more.
    fn judge_last_cut(&mut self, mean: f64) {
        let Some(before) = self.before else { return };
        self.futile = if mean > before * HELPED { self.futile + 1 } else { 0 };
        if self.futile >= FUTILE_MAX {
            self.strength = (self.strength / TIT_FOR_TAT).max(STRENGTH_MIN);
            self.futile = 0;
        }
    }
}

/// The least one-way delay of the last while: it is aged, so that a clock that drifts and a changed route are followed.
#[derive(Clone, Copy, Debug, Default)]
struct LeastDelay {
    current: Option<i64>,
    previous: Option<i64>,
    began: Time,
}

impl LeastDelay {
    fn note(&mut self, now: Time, delay_ns: i64) {
        if now.since(self.began) > LEAST_AGE {
            self.previous = self.current.take();
            self.began = now;
        }
        self.current = Some(self.current.map_or(delay_ns, |least| least.min(delay_ns)));
    }

    /// How much longer than the least a delay is, ns.
    fn excess(&self, delay_ns: i64) -> f64 {
        let least = self.current.into_iter().chain(self.previous).min();
        least.map_or(0.0, |least| delay_ns.saturating_sub(least).max(0) as f64)
    }
}

/// Weight of a new jump of the delay.
const JITTER_GAIN: f64 = 1.0 / 16.0;
/// Delays that jump by a uniform random part lie within three mean jumps.
const NOISE_JITTER: f64 = 3.0;
/// Twice what the host sends in one go ([`super::BURST`]).
const NOISE_MIN_NS: f64 = 500_000.0;
/// Fewer make no line.
const SAMPLES_MIN: f64 = 4.0;
/// At most this much at once …
const CUT_MAX: f64 = 0.5;
/// … and less is not worth a change.
const CUT_MIN: f64 = 0.001;
/// The queue must be shorter than this part of what it was for a cut to have helped.
const HELPED: f64 = 0.95;
/// Rounds in a row without help until compensation is divided.
const FUTILE_MAX: u32 = 3;
/// PCP §3.5.
const TIT_FOR_TAT: f64 = 10.0;
const STRENGTH_MIN: f64 = 0.001;
/// The least delay is that of one to two such spans: 50 ppm between two clocks make 0.6 ms in one.
const LEAST_AGE: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const GAP: Duration = Duration::from_millis(1);

    /// Feeds base traffic, one acknowledgement per datagram, 50 of them on their way.
    struct Feed {
        watched: Compensation,
        number: DatagramNumber,
    }

    impl Feed {
        fn new() -> Feed {
            Feed { watched: Compensation::new(), number: 0 }
        }

        /// `count` datagrams with the delay (µs, beyond a constant) that `delay` gives; returns the cuts.
        fn send(&mut self, count: u64, delay_us: impl Fn(u64) -> u64) -> Vec<f64> {
            let mut cuts = vec![];
            for i in 0..count {
                let sent = Time::from_millis(100 + self.number);
                let delay = 25_000_000 + 1000 * delay_us(i);
                let arrival = sent + Duration::from_nanos(delay);
                let ack = AckSample {
                    now: sent + RTT,
                    arrival,
                    one_way_ns: Some(delay as i64),
                    rtt: Some(RTT),
                    rtt_min: RTT,
                    received_bytes: 0,
                    accepted_bytes: 0,
                    covered_bytes: 0,
                    overrun_bytes: 0,
                    pressure: 0.0,
                    latest: self.number,
                    largest: self.number,
                    next_number: self.number + 50,
                    in_flight: 0,
                    app_limited: false,
                };
                self.watched.note(ack.now, delay as i64);
                cuts.extend(self.watched.on_base(&ack, RTT, GAP));
                self.number += 1;
            }
            cuts
        }
    }

    #[test]
    fn an_empty_queue_is_left_alone() {
        assert!(Feed::new().send(500, |_| 0).is_empty());
    }

    #[test]
    fn jitter_is_no_queue() {
        assert!(Feed::new().send(2000, |i| 3000 * (i * 7919 % 100) / 100).is_empty());
    }

    #[test]
    fn a_growing_queue_is_met_by_what_exceeds_the_path() {
        // 100 µs more with each datagram: 1.1 ms apart on arrival for 1 ms on departure. The first round of 51 ends at
        // 5 ms, far above the noise: (Δout − Δin)/Δout = 0.1/1.1.
        let cuts = Feed::new().send(52, |i| 100 * i);
        assert_eq!(cuts.len(), 1);
        assert!((cuts[0] - 0.1 / 1.1).abs() < 1e-6, "{cuts:?}");
    }

    #[test]
    fn a_standing_queue_is_drained_in_a_round_trip() {
        let mut feed = Feed::new();
        assert!(feed.send(100, |_| 0).is_empty());
        let cuts = feed.send(120, |_| 10_000);
        // 10 ms less half the noise (1 ms gap, some of the jump's jitter) over 50 ms.
        let last = cuts.last().unwrap();
        assert!((0.15..0.2).contains(last), "{cuts:?}");
    }

    #[test]
    fn what_left_before_a_cut_is_not_held_against_it() {
        let mut feed = Feed::new();
        feed.send(100, |_| 0);
        // A cut, then the 50 on their way, then a round of 50.
        assert!(feed.send(200, |_| 10_000).len() <= 2);
    }

    #[test]
    fn compensation_that_does_not_help_is_divided_until_the_queue_is_gone() {
        let mut feed = Feed::new();
        feed.send(100, |_| 0);
        let cuts = feed.send(1500, |_| 10_000);
        assert!(cuts[1] > 0.15 && *cuts.last().unwrap() < 0.02, "{cuts:?}");
        feed.send(1000, |_| 0);
        let again = feed.send(200, |_| 10_000);
        assert!(again.iter().any(|cut| *cut > 0.15), "{again:?}");
    }

    #[test]
    fn the_least_delay_is_aged() {
        let mut least = LeastDelay::default();
        least.note(Time::ZERO, -1_000_000);
        assert_eq!(least.excess(4_000_000), 5e6);
        for second in 1..30 {
            least.note(Time::from_millis(1000 * second), 4_000_000);
        }
        assert_eq!(least.excess(4_000_000), 0.0);
    }
}
