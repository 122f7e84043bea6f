//! How much to slow down because a queue builds (PCP §3.2).

use super::line::Line;
use super::tit_for_tat::{QueuedRound, TitForTat};
use crate::control::AckSample;
use crate::control::pcp_part::{PcpPart, Without};
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
    /// The last queueing delay, ns, and the longest.
    queue_ns: f64,
    longest_ns: f64,
    /// Datagrams were lost while the queue was about as long as it gets.
    overflowed: bool,
    tit_for_tat: TitForTat,
    without: Without,
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

/// Base traffic sent within about a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// What left earlier does not count.
    begins: DatagramNumber,
    ends: Option<DatagramNumber>,
    first_sent: i64,
    /// How long before the last of it the first left.
    span_ns: f64,
    /// Delay over the least known, against send time.
    line: Line,
    least_ns: f64,
    most_ns: f64,
}

impl Compensation {
    pub fn new(without: Without) -> Compensation {
        Compensation {
            least: LeastDelay::default(),
            jitter_ns: 0.0,
            last_delay: None,
            round: Round::default(),
            queue_ns: 0.0,
            longest_ns: 0.0,
            overflowed: false,
            tit_for_tat: TitForTat::new(without.has(PcpPart::TitForTat)),
            without,
        }
    }

    /// The queueing delay last seen.
    pub fn queue(&self) -> Duration {
        Duration::from_nanos(self.queue_ns as u64)
    }

    /// Datagrams were lost.
    pub fn on_loss(&mut self) {
        self.overflowed |= self.queue_ns > self.longest_ns * OVERFLOW;
    }

    /// A delay of any datagram, for the least one.
    pub fn note(&mut self, now: Time, delay_ns: i64) {
        if self.without.has(PcpPart::Ageing) {
            self.least.age(now);
        }
        self.least.note(delay_ns);
    }

    /// The delay of a datagram of base traffic. Says by how much to lower the base rate, once a round trip's worth
    /// calls for it.
    pub fn on_base(&mut self, ack: &AckSample, pace: Pace) -> Option<Cut> {
        let delay = ack.one_way_ns?;
        if let Some(last) = self.last_delay.replace(delay) {
            self.jitter_ns += (delay.abs_diff(last) as f64 - self.jitter_ns) * JITTER_GAIN;
        }
        self.queue_ns = self.least.excess(delay);
        self.longest_ns = self.longest_ns.max(self.queue_ns);
        let (noise, rtt_ns) = (self.noise_ns(pace), nanos(pace.rtt) as f64);
        let round = &mut self.round;
        if ack.latest < round.begins {
            return None;
        }
        let sent = (ack.arrival.0 as i64).wrapping_sub(delay);
        let ends = *round.ends.get_or_insert(ack.next_number);
        if round.line.count() == 0.0 {
            (round.first_sent, round.least_ns) = (sent, f64::INFINITY);
        }
        round.span_ns = sent.wrapping_sub(round.first_sent) as f64;
        round.line.add(round.span_ns, self.queue_ns);
        round.least_ns = round.least_ns.min(self.queue_ns);
        round.most_ns = round.most_ns.max(self.queue_ns);
        let is_plain = self.without.has(PcpPart::EarlyCut)
            && self.queue_ns > PLAIN * noise
            && round.span_ns > PLAIN_SPAN * rtt_ns
            && round.line.count() >= PLAIN_SAMPLES;
        if (ack.latest < ends && !is_plain) || round.line.count() < SAMPLES_MIN {
            return None;
        }
        let round = *round;
        let cut = self.review(&round, pace).filter(|_| self.without.has(PcpPart::Compensation));
        // What is on its way left at the old rate: it says nothing of the new.
        let begins = if cut.is_some() { ack.next_number } else { ends };
        self.round = Round { begins, ..Round::default() };
        cut
    }

    /// The end of a round.
    fn review(&mut self, round: &Round, pace: Pace) -> Option<Cut> {
        let overflowed = std::mem::take(&mut self.overflowed);
        let noise = self.noise_ns(pace);
        if round.most_ns <= noise {
            self.tit_for_tat.on_empty();
            return None;
        }
        // (Δout − Δin)/Δout: what we send beyond what passes; and what stands in the queue, to be gone in a round trip.
        let slope = round.line.slope().max(0.0);
        let growing = slope / (1.0 + slope);
        let rtt_ns = nanos(pace.rtt) as f64;
        let standing = (round.least_ns - noise / 2.0).max(0.0) / rtt_ns;
        let share = self.tit_for_tat.on_round(&QueuedRound {
            mean_ns: round.line.mean_y(),
            rate: pace.rate,
            rtt_ns,
            overflowed,
            full: growing + standing,
        });
        (share >= CUT_MIN).then_some(Cut { share, is_full: !self.tit_for_tat.is_weak() })
    }

    /// A delay that exceeds the least by less is no sign of a queue: a stranger's packet ahead of ours is none yet,
    /// nor is what the host sends in one go, nor jitter.
    fn noise_ns(&self, pace: Pace) -> f64 {
        let crossing = (nanos(pace.gap) as f64).min(nanos(pace.rtt) as f64 / 10.0);
        let jitter_ns = if self.without.has(PcpPart::JitterMargin) { self.jitter_ns } else { 0.0 };
        NOISE_MIN_NS.max(crossing) + NOISE_JITTER * jitter_ns
    }

    /// What a probe whose first datagram had this delay is to make up for. Flat delays say that the path carries the
    /// test if its queue is empty; if it holds something, that the path is full. So much of what is sent keeps the
    /// queue from draining within two round trips.
    pub fn burden(&self, delay_ns: i64, pace: Pace) -> f64 {
        if self.tit_for_tat.is_weak() || !self.without.has(PcpPart::Burden) {
            return 0.0;
        }
        let queue_ns = self.least.excess(delay_ns) - self.noise_ns(pace) / 2.0;
        queue_ns.max(0.0) / (2.0 * nanos(pace.rtt) as f64)
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
    fn age(&mut self, now: Time) {
        if now.since(self.began) > LEAST_AGE {
            self.previous = self.current.take();
            self.began = now;
        }
    }

    fn note(&mut self, delay_ns: i64) {
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
/// Nobody needs to wait for the end of the round trip where the queue exceeds the noise by this factor, by so many
/// samples that left over this part of a round trip.
const PLAIN: f64 = 4.0;
const PLAIN_SAMPLES: f64 = 6.0;
const PLAIN_SPAN: f64 = 0.25;
/// Less is not worth a change.
const CUT_MIN: f64 = 0.001;
/// Losses at this part of the longest queueing delay are the queue's.
const OVERFLOW: f64 = 0.75;
/// The least delay is that of one to two such spans: 50 ppm between two clocks make 0.6 ms in one.
const LEAST_AGE: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const GAP: Duration = Duration::from_millis(1);
    const RATE: f64 = 10e6;

    fn pace() -> Pace {
        Pace { rate: RATE, gap: GAP, rtt: RTT }
    }

    /// Feeds base traffic, one acknowledgement per datagram, 50 of them on their way; only the rate that is told follows
    /// the cuts.
    struct Feed {
        watched: Compensation,
        number: DatagramNumber,
        rate: f64,
    }

    impl Feed {
        fn new() -> Feed {
            Feed { watched: Compensation::new(Without::default()), number: 0, rate: RATE }
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
                    ce_bytes: 0,
                    pressure: 0.0,
                    latest: self.number,
                    largest: self.number,
                    next_number: self.number + 50,
                    in_flight: 0,
                    app_limited: false,
                    time_lost: Duration::ZERO,
                };
                self.watched.note(ack.now, delay as i64);
                if let Some(cut) = self.watched.on_base(&ack, Pace { rate: self.rate, ..pace() }) {
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
    fn without_compensation_a_queue_is_left_alone() {
        let watched = Compensation::new(Without(Some(PcpPart::Compensation)));
        assert!(Feed { watched, ..Feed::new() }.send(500, |i| 100 * i).is_empty());
    }

    #[test]
    fn without_tit_for_tat_cuts_stay_full() {
        let mut feed = Feed { watched: Compensation::new(Without(Some(PcpPart::TitForTat))), ..Feed::new() };
        feed.send(100, |_| 0);
        let cuts = feed.send(1000, |_| 10_000);
        assert!(*cuts.last().unwrap() > 0.15, "{cuts:?}");
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

    /// Cuts used to come two round trips after a queue began to build: a buffer of one overflowed meanwhile.
    #[test]
    fn a_plain_queue_is_met_before_the_round_trip_is_over() {
        let mut feed = Feed::new();
        assert!(feed.send(60, |_| 0).is_empty());
        let cuts = feed.send(20, |i| 700 * i);
        assert_eq!(cuts.len(), 1);
        assert!(cuts[0] > 0.3, "{cuts:?}");
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
        // A cut, then the 50 on their way, then a part of a round: no more than one cut in a round trip.
        assert!(feed.send(200, |_| 10_000).len() <= 4);
    }

    #[test]
    fn a_queue_that_others_fill_is_left_to_them() {
        let mut feed = Feed::new();
        feed.send(100, |_| 0);
        let cuts = feed.send(1000, |_| 10_000);
        assert!(cuts[1] > 0.15 && *cuts.last().unwrap() < 0.02, "{cuts:?}");
        assert_eq!(feed.watched.burden(35_000_000, pace()), 0.0);
        feed.send(200, |_| 0);
        let again = feed.send(200, |_| 10_000);
        assert!(again.iter().any(|cut| *cut > 0.15), "{again:?}");
    }

    #[test]
    fn a_probe_has_to_make_up_for_the_queue_it_meets() {
        let mut feed = Feed::new();
        feed.send(200, |_| 0);
        // 10 ms less half the noise (a gap of 1 ms), to be gone in 100 ms.
        assert!((feed.watched.burden(35_000_000, pace()) - 0.095).abs() < 1e-9);
        assert_eq!(feed.watched.burden(25_400_000, pace()), 0.0);
    }

    #[test]
    fn the_least_delay_is_aged() {
        let mut least = LeastDelay::default();
        least.age(Time::ZERO);
        least.note(-1_000_000);
        assert_eq!(least.excess(4_000_000), 5e6);
        for second in 1..30 {
            least.age(Time::from_millis(1000 * second));
            least.note(4_000_000);
        }
        assert_eq!(least.excess(4_000_000), 0.0);
    }
}
