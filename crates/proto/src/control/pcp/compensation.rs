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
    tit_for_tat: TitForTat,
}

/// By how much to lower the base rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    /// Share of the base rate.
    pub share: f64,
    /// It is expected to drain the queue: let it, before the next probe.
    pub is_full: bool,
}

/// How base traffic leaves at the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// bit/s.
    pub rate: f64,
    /// Between two datagrams.
    pub gap: Duration,
    pub rtt: Duration,
}

/// Where lowering the rate round after round does not shorten the queue, others fill it, and yielding only makes room
/// for more of theirs (PCP §3.5).
#[derive(Clone, Copy, Debug)]
struct TitForTat {
    /// Share of the full compensation that is applied.
    strength: f64,
    /// Rounds at this strength with a queue; the mean queueing delay in the first, ns, and the rate then.
    rounds: u32,
    first_ns: f64,
    first_rate: f64,
    /// What sending slower since has taken off the queue if nobody filled it up, ns.
    drained_ns: f64,
    /// The full strength is tried again, by small cuts.
    is_retry: bool,
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
            tit_for_tat: TitForTat::IDLE,
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

    /// The delay of a datagram of base traffic. Says by how much to lower the base rate, once a round trip's worth
    /// calls for it.
    pub fn on_base(&mut self, ack: &AckSample, pace: Pace) -> Option<Cut> {
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
        let cut = self.review(&round, pace);
        // What is on its way left at the old rate: it says nothing of the new.
        let begins = if cut.is_some() { ack.next_number } else { ends };
        self.round = Round { begins, ..Round::default() };
        cut
    }

    /// The end of a round.
    fn review(&mut self, round: &Round, pace: Pace) -> Option<Cut> {
        let rtt_ns = nanos(pace.rtt) as f64;
        // A stranger's packet ahead of ours is no queue yet, nor is what the host sends in one go.
        let crossing = (nanos(pace.gap) as f64).min(rtt_ns / 10.0);
        let noise = NOISE_MIN_NS.max(crossing) + NOISE_JITTER * self.jitter_ns;
        if round.most_ns <= noise {
            self.tit_for_tat = TitForTat::IDLE;
            return None;
        }
        let most = self.tit_for_tat.on_round(round.line.mean_y(), pace.rate, rtt_ns);
        // (Δout − Δin)/Δout: what we send beyond what passes; and what stands in the queue, to be gone in a round trip.
        let slope = round.line.slope().max(0.0);
        let growing = slope / (1.0 + slope);
        let standing = (round.least_ns - noise / 2.0).max(0.0) / rtt_ns;
        let share = ((growing + standing) * self.tit_for_tat.strength).min(most);
        (share >= CUT_MIN).then_some(Cut { share, is_full: self.tit_for_tat.strength == 1.0 })
    }
}

impl TitForTat {
    /// Compensation works, or has not been needed.
    const IDLE: TitForTat = TitForTat {
        strength: 1.0,
        rounds: 0,
        first_ns: 0.0,
        first_rate: 0.0,
        drained_ns: 0.0,
        is_retry: false,
    };

    /// A round with a queue of `mean_ns` is over. Returns the largest cut allowed.
    fn on_round(&mut self, mean_ns: f64, rate: f64, rtt_ns: f64) -> f64 {
        if self.rounds == 0 {
            (self.first_ns, self.first_rate) = (mean_ns, rate);
        }
        self.rounds += 1;
        self.drained_ns += (1.0 - rate / self.first_rate) * rtt_ns;
        if self.strength == 1.0 {
            if mean_ns < self.first_ns * HELPED {
                *self = TitForTat::IDLE;
            } else if self.rounds > FUTILE_ROUNDS && self.drained_ns > self.first_ns * FUTILE_DRAIN {
                *self = TitForTat { strength: 1.0 / TIT_FOR_TAT, ..TitForTat::IDLE };
            }
        } else if self.rounds > RETRY_ROUNDS {
            *self = TitForTat { is_retry: true, ..TitForTat::IDLE };
        } else if self.rounds.is_multiple_of(FUTILE_ROUNDS) {
            self.strength = (self.strength / TIT_FOR_TAT).max(STRENGTH_MIN);
        }
        if self.is_retry { RETRY_CUT_MAX } else { CUT_MAX }
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
/// A full cut is meant to drain the queue in a round trip. If after so many rounds with one …
const FUTILE_ROUNDS: u32 = 4;
/// … enough has been held back to drain it so many times over …
const FUTILE_DRAIN: f64 = 2.0;
/// … but it is not shorter than this part of what it was, compensation does not work …
const HELPED: f64 = 0.7;
/// … and is divided by this (PCP §3.5), again and again down to a thousandth,
const TIT_FOR_TAT: f64 = 10.0;
const STRENGTH_MIN: f64 = 0.001;
/// until after so many rounds it is tried again, lest a flow that fills the queue alone goes on for ever,
const RETRY_ROUNDS: u32 = 16;
/// by cuts that cost little if others still fill it.
const RETRY_CUT_MAX: f64 = 1.0 / 16.0;
/// The least delay is that of one to two such spans: 50 ppm between two clocks make 0.6 ms in one.
const LEAST_AGE: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const GAP: Duration = Duration::from_millis(1);
    const RATE: f64 = 10e6;

    /// Feeds base traffic, one acknowledgement per datagram, 50 of them on their way; only the rate that is told follows
    /// the cuts.
    struct Feed {
        watched: Compensation,
        number: DatagramNumber,
        rate: f64,
    }

    impl Feed {
        fn new() -> Feed {
            Feed { watched: Compensation::new(), number: 0, rate: RATE }
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
                if let Some(cut) = self.watched.on_base(&ack, Pace { rate: self.rate, gap: GAP, rtt: RTT }) {
                    self.rate *= 1.0 - cut.share;
                    cuts.push(cut.share);
                }
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
        // Four full cuts, then weak ones for 16 rounds: about 25 rounds of 50, twice that while cuts are full.
        let cuts = feed.send(1000, |_| 10_000);
        assert!(cuts[1] > 0.15 && *cuts.last().unwrap() < 0.02, "{cuts:?}");
        // Then small ones again.
        let cuts = feed.send(1000, |_| 10_000);
        assert!(cuts.contains(&RETRY_CUT_MAX), "{cuts:?}");
        assert!(cuts.iter().all(|cut| *cut <= RETRY_CUT_MAX), "{cuts:?}");
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
