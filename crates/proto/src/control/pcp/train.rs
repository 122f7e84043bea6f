//! A probe on its way, and what its arrivals say (PCP §3.1).

use super::line::{Line, normal_cdf};
use crate::control::pcp_part::{PcpPart, Without};
use crate::control::{ProbeTrain, TimedArrival};
use crate::units::{DatagramNumber, Rate, Time};
use core::time::Duration;
use fastrand::Rng;

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Delays did not grow: the path carries this, in bit/s.
    Carried(f64),
    /// Delays grew.
    Queued,
    /// Not all of it came in.
    Lost,
}

/// A train from the moment it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Train {
    ask: ProbeTrain,
    datagram_len: u64,
    asked_at: Time,
    /// Numbers of what has left, and when the last of it did.
    first: Option<DatagramNumber>,
    sent: u32,
    last_sent: Time,
    /// One entry each, in any order.
    heard: Vec<TimedArrival>,
}

impl Train {
    pub fn new(ask: ProbeTrain, datagram_len: u64, now: Time) -> Train {
        Train { ask, datagram_len, asked_at: now, first: None, sent: 0, last_sent: now, heard: vec![] }
    }

    /// What was asked for.
    pub fn ask(&self) -> ProbeTrain {
        self.ask
    }

    /// When it was asked for.
    pub fn asked_at(&self) -> Time {
        self.asked_at
    }

    pub fn on_sent(&mut self, number: DatagramNumber, now: Time) {
        self.first.get_or_insert(number);
        self.sent += 1;
        self.last_sent = now;
    }

    pub fn has_begun(&self) -> bool {
        self.sent > 0
    }

    /// All of it has left.
    pub fn is_out(&self) -> bool {
        self.sent == self.ask.datagrams
    }

    /// When its last datagram so far left.
    pub fn last_sent(&self) -> Time {
        self.last_sent
    }

    pub fn on_timed(&mut self, arrivals: &[TimedArrival]) {
        let Some(first) = self.first else { return };
        for arrival in arrivals {
            let is_ours = (first..first + u64::from(self.sent)).contains(&arrival.number);
            if is_ours && self.heard.iter().all(|other| other.number != arrival.number) {
                self.heard.push(*arrival);
            }
        }
    }

    /// All of it has come in.
    pub fn is_heard(&self) -> bool {
        self.is_out() && self.heard.len() == self.sent as usize
    }

    /// Whether so much that left later came in (up to `largest`) that what is missing is lost.
    pub fn is_overtaken(&self, largest: DatagramNumber) -> bool {
        let end = self.first.map_or(u64::MAX, |first| first + u64::from(self.sent));
        self.is_out() && !self.is_heard() && largest >= end + OVERTAKEN - 1
    }

    /// The delay of its first datagram, ns, less an unknown constant.
    pub fn first_delay(&self) -> i64 {
        delay_ns(&self.ends().0)
    }

    /// What it says, once all of it is heard. `burden`: how fast delays should fall because of a queue that was there
    /// before; below zero, how fast they may grow.
    pub fn judge(&self, burden: f64, without: Without, rng: &mut Rng) -> Verdict {
        if !self.is_heard() {
            return Verdict::Lost;
        }
        let (first, last) = self.ends();
        let gaps = self.heard.len() as u64 - 1;
        let sent_span = last.sent.since(first.sent);
        let mut line = Line::default();
        let all = without.has(PcpPart::Line);
        let ends = [first.number, last.number];
        for arrival in self.heard.iter().filter(|arrival| all || ends.contains(&arrival.number)) {
            let delay = delay_ns(arrival).wrapping_sub(delay_ns(&first));
            line.add(arrival.sent.since(first.sent).as_nanos() as f64, delay as f64);
        }
        let span_ns = sent_span.as_nanos() as f64;
        let acceptance = acceptance(&line, burden, span_ns, span_ns / gaps as f64);
        let needed = if without.has(PcpPart::Chance) { rng.f64() } else { CERTAIN };
        if needed < acceptance {
            // A host that is late may send it more slowly than it was asked to, and together what was to be apart.
            let realised = Rate::measured(gaps * self.datagram_len, sent_span);
            Verdict::Carried(realised.min(self.ask.rate).0 as f64)
        } else {
            Verdict::Queued
        }
    }

    /// The datagrams that left first and last.
    fn ends(&self) -> (TimedArrival, TimedArrival) {
        let key = |arrival: &&TimedArrival| arrival.number;
        let (first, last) = (self.heard.iter().min_by_key(key), self.heard.iter().max_by_key(key));
        let none = TimedArrival { number: 0, sent: Time::ZERO, arrival: Time::ZERO };
        (first.copied().unwrap_or(none), last.copied().unwrap_or(none))
    }
}

/// How long a datagram took, less an unknown constant, ns.
fn delay_ns(timed: &TimedArrival) -> i64 {
    timed.arrival.0.wrapping_sub(timed.sent.0) as i64
}

/// The probability with which delays that lie like this over `span_ns` are taken for not growing (with a `burden`:
/// for falling so fast; below zero: for growing so slowly). Flat or falling (PCP §3.1): surely; otherwise the
/// probability that a path whose delays do not grow shows such a slope.
fn acceptance(line: &Line, burden: f64, span_ns: f64, gap_ns: f64) -> f64 {
    let slope = line.slope() + burden;
    if slope * span_ns <= FLAT_NS {
        return 1.0;
    }
    normal_cdf(-slope / line.slope_error(gap_ns * SCATTER))
}

/// How long trains may be. Longer ones see through more noise, but where datagrams get lost few long ones come in
/// whole: the longest is halved after a loss, and comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrainLen {
    longest: f64,
    varies: bool,
}

impl TrainLen {
    /// Nothing is known of the path's losses.
    pub fn new(without: Without) -> TrainLen {
        let varies = without.has(PcpPart::TrainLength);
        TrainLen { longest: if varies { TRAIN_FIRST } else { TRAIN_FEW }, varies }
    }

    /// A probe is over.
    pub fn on_verdict(&mut self, verdict: Verdict) {
        if !self.varies {
            return;
        }
        self.longest = match verdict {
            Verdict::Carried(_) | Verdict::Queued => (self.longest * 2.0).min(TRAIN_MAX),
            Verdict::Lost => (self.longest / 2.0).max(TRAIN_FEW),
        };
    }

    /// How many datagrams a probe at `rate` (bit/s) has. PCP §3.1 varies the rate by how long a probe takes more than
    /// by how much it carries. A quarter of a round trip is spent on the first few, then an eighth, so that a search
    /// is not held up by slow trains.
    pub fn of(&self, rate: f64, datagram_len: u64, rtt: Duration) -> u32 {
        let per_rtt = rate * rtt.as_secs_f64() / (8.0 * datagram_len as f64);
        let few = (1.0 + (per_rtt / 4.0).ceil()).min(TRAIN_FEW);
        let many = (1.0 + (per_rtt / 8.0).ceil()).min(self.longest);
        few.max(many).max(TRAIN_MIN) as u32
    }
}

/// So many later arrivals make a missing one lost, as TCP's duplicate acknowledgements do (RFC 5681 §3.2).
const OVERTAKEN: u64 = 3;
/// Without chance only what is surely accepted is.
const CERTAIN: f64 = 1.0 - f64::EPSILON;
/// Growth over a whole train that timestamps do not resolve.
const FLAT_NS: f64 = 1_000.0;
/// How far delays stray before a train has shown it, as a share of the spacing: strangers' packets come in between.
const SCATTER: f64 = 0.1;
/// Two tell a slope, five how sure it is.
const TRAIN_MIN: f64 = 2.0;
const TRAIN_FEW: f64 = 5.0;
/// The longest at first, and ever: more would not make a probe surer but fill small queues.
const TRAIN_FIRST: f64 = 10.0;
const TRAIN_MAX: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1250;

    /// A train of `n` at 100 Mb/s (100 µs apart) sent from 1 s on; `delay_us(i)` is how long each takes.
    fn train(n: u32, gap_us: u64, delay_us: impl Fn(u64) -> u64) -> Train {
        let ask = ProbeTrain { datagrams: n, rate: Rate::from_mbps(100.0) };
        let start = Time::from_millis(1000);
        let mut train = Train::new(ask, LEN, start);
        let mut arrivals = vec![];
        for i in 0..u64::from(n) {
            let sent = start + Duration::from_micros(gap_us * i);
            train.on_sent(10 + i, sent);
            arrivals.push(TimedArrival {
                number: 10 + i,
                sent,
                arrival: sent + Duration::from_micros(delay_us(i)),
            });
        }
        train.on_timed(&arrivals);
        train.on_timed(&arrivals[..2]);
        train
    }

    fn accepted(train: &Train) -> f64 {
        let mut rng = Rng::with_seed(1);
        let count = (0..2000)
            .filter(|_| matches!(train.judge(0.0, Without::default(), &mut rng), Verdict::Carried(_)))
            .count();
        count as f64 / 2000.0
    }

    #[test]
    fn flat_and_falling_delays_are_accepted() {
        assert_eq!(
            train(5, 100, |_| 30_000).judge(0.0, Without::default(), &mut Rng::with_seed(1)),
            Verdict::Carried(1e8)
        );
        assert_eq!(accepted(&train(5, 100, |i| 31_000 - 200 * i)), 1.0);
        assert_eq!(accepted(&train(2, 100, |_| 30_000)), 1.0);
    }

    #[test]
    fn steadily_growing_delays_fail_it() {
        let verdict =
            train(10, 100, |i| 30_000 + 20 * i).judge(0.0, Without::default(), &mut Rng::with_seed(1));
        assert_eq!(verdict, Verdict::Queued);
    }

    /// A third of the probes of a path that had room failed by noise.
    #[test]
    fn growth_that_is_tolerated_fails_no_probe() {
        let verdict = |growth_us: u64| {
            train(10, 100, |i| 30_000 + growth_us * i).judge(
                -0.03,
                Without::default(),
                &mut Rng::with_seed(1),
            )
        };
        assert!(matches!(verdict(3), Verdict::Carried(_)));
        assert_eq!(verdict(9), Verdict::Queued);
    }

    #[test]
    fn a_slope_within_the_noise_is_accepted_as_often_as_chance_makes_one() {
        // Delays 0, 30, 0, 30, 0 µs at 0, 100 … 400 µs: no slope. Raised by 2 µs each: slope 0.02. Residual
        // 5 × 216 = 1080 µs², scatter 10² = 100 µs²: error √(1180/4/100 000) = 0.0543, Φ(−0.368) = 0.3563.
        let noisy = train(5, 100, |i| 30_000 + 30 * (i % 2) + 2 * i);
        let found = accepted(&noisy);
        assert!((found - 0.3563).abs() < 0.03, "{found}");
    }

    #[test]
    fn a_train_proves_what_it_left_at_and_no_more_than_was_asked() {
        let judge =
            |gap_us| train(5, gap_us, |_| 30_000).judge(0.0, Without::default(), &mut Rng::with_seed(1));
        assert_eq!(judge(112), Verdict::Carried(89_285_714.0));
        assert_eq!(judge(85), Verdict::Carried(1e8));
    }

    #[test]
    fn parts_of_the_judgement_can_be_switched_off() {
        let judge = |train: &Train, part| train.judge(0.0, Without(Some(part)), &mut Rng::with_seed(1));
        // Noise that would pass now and then.
        let noisy = train(5, 100, |i| 30_000 + 30 * (i % 2) + 2 * i);
        assert_eq!(judge(&noisy, PcpPart::Chance), Verdict::Queued);
        // Its ends alone show no growth.
        let arched = train(5, 100, |i| 30_000 + [0, 20, 60, 60, 0][i as usize]);
        assert_eq!(judge(&arched, PcpPart::Line), Verdict::Carried(1e8));
        let mut lengths = TrainLen::new(Without(Some(PcpPart::TrainLength)));
        lengths.on_verdict(Verdict::Carried(1.0));
        assert_eq!(lengths.of(1e9, LEN, Duration::from_millis(100)), 5);
    }

    #[test]
    fn a_lost_datagram_fails_it_once_overtaken() {
        let mut train = train(5, 100, |_| 30_000);
        train.heard.remove(2);
        // Its numbers are 10 to 14.
        assert!(!train.is_heard() && !train.is_overtaken(16) && train.is_overtaken(17));
        assert_eq!(train.judge(0.0, Without::default(), &mut Rng::with_seed(1)), Verdict::Lost);
    }

    #[test]
    fn arrivals_of_others_do_not_count() {
        let mut train = train(3, 100, |_| 30_000);
        let heard = train.heard.clone();
        train.heard.clear();
        let shifted: Vec<TimedArrival> =
            heard.iter().map(|a| TimedArrival { number: a.number + 3, ..*a }).collect();
        train.on_timed(&shifted);
        assert!(train.heard.is_empty());
    }

    #[test]
    fn clocks_may_differ_by_anything() {
        let mut train = train(5, 100, |_| 0);
        for arrival in &mut train.heard {
            arrival.arrival = Time(arrival.arrival.0.wrapping_sub(1_500_000_000));
        }
        assert_eq!(train.judge(0.0, Without::default(), &mut Rng::with_seed(1)), Verdict::Carried(1e8));
    }

    #[test]
    fn lengths_follow_the_rate() {
        let rtt = Duration::from_millis(100);
        let mut lengths = TrainLen::new(Without::default());
        let of = |lengths: TrainLen, per_rtt: f64| lengths.of(per_rtt * 8.0 * LEN as f64 / 0.1, LEN, rtt);
        let first = [1.0, 2.0, 6.0, 14.0, 30.0, 62.0, 126.0].map(|rate| of(lengths, rate));
        assert_eq!(first, [2, 2, 3, 5, 5, 9, 10]);
        lengths.on_verdict(Verdict::Carried(1.0));
        assert_eq!([126.0, 1000.0].map(|rate| of(lengths, rate)), [17, 20]);
    }

    #[test]
    fn losses_make_trains_shorter_for_a_while() {
        let rtt = Duration::from_millis(100);
        let mut lengths = TrainLen::new(Without::default());
        let mut of_fast = |verdict| {
            lengths.on_verdict(verdict);
            lengths.of(1e9, LEN, rtt)
        };
        let verdicts = [Verdict::Lost, Verdict::Lost, Verdict::Queued, Verdict::Carried(1.0)];
        assert_eq!(verdicts.map(&mut of_fast), [5, 5, 10, 20]);
    }
}
