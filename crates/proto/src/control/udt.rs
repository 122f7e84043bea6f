//! UDT, version 4 (Gu & Grossman): rate control by the clock. Constants and formulas are those of its published
//! code (`ccc.cpp`, `CUDTCC`).
//!
//! Every SYN of 10 ms without loss, the sender adds to what it sends per SYN an amount that follows from the
//! capacity left: the link's, estimated from packet pairs, less its own rate. The first loss of an epoch makes the
//! gap between packets an eighth longer; of later ones in the same epoch a random few do. A window of what the
//! receiver takes in a round trip and a SYN bounds what is on its way.
//!
//! Differences: a loss is what the object sender found lost with one acknowledgement, not a NAK; the epoch is its
//! congestion episode; gaps are not rounded up to whole microseconds; pairs are a millisecond apart at least, since
//! each calls for an acknowledgement.

use super::pair_spans::PairSpans;
use super::{
    AckSample, ControlConfig, Controller, DECREASE, GAP_S, LossSample, ProbeTrain, SYN, Sent, Snapshot,
    TimedArrival,
};
use crate::units::{Rate, Time};
use core::time::Duration;
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Debug)]
pub struct Udt {
    datagram_len: f64,
    /// Seconds between two packets.
    gap_s: f64,
    /// The gap before the last decrease.
    gap_before_s: f64,
    /// Packets on their way at most.
    window: f64,
    in_slow_start: bool,
    /// Something was lost since the last SYN.
    lost: bool,
    epoch: Epoch,
    arrivals: ArrivalRate,
    pairs: Pairs,
    rtt: Duration,
    next_syn: Option<Time>,
    received_bytes: u64,
    rng: fastrand::Rng,
}

/// Losses since the last decrease that opened an epoch.
#[derive(Debug)]
struct Epoch {
    /// Mean number of losses in an epoch.
    losses_mean: f64,
    losses: u32,
    /// Every so many of them decrease the rate …
    every: u32,
    /// … but so many at most.
    decreases: u32,
}

impl Udt {
    /// Begin with sixteen packets.
    pub fn new(config: ControlConfig) -> Udt {
        Udt {
            datagram_len: config.datagram_len.max(1) as f64,
            gap_s: *GAP_S.start(),
            gap_before_s: *GAP_S.start(),
            window: WINDOW_FIRST,
            in_slow_start: true,
            lost: false,
            epoch: Epoch { losses_mean: 1.0, losses: 0, every: 1, decreases: 0 },
            arrivals: ArrivalRate::default(),
            pairs: Pairs::new(config.path_rate.map(|path| path.rate)),
            rtt: config.rtt,
            next_syn: None,
            received_bytes: 0,
            rng: fastrand::Rng::with_seed(config.seed),
        }
    }

    /// End of slow start: from now on at the rate at which packets came in lately.
    fn leave_slow_start(&mut self) {
        self.in_slow_start = false;
        let per_window = (self.rtt + SYN).as_secs_f64() / self.window;
        self.set_gap(self.arrivals.packets_per_s(self.datagram_len).map_or(per_window, f64::recip));
        self.gap_before_s = self.gap_s;
    }

    fn set_gap(&mut self, gap_s: f64) {
        self.gap_s = gap_s.clamp(*GAP_S.start(), *GAP_S.end());
    }

    /// Once a SYN, with an acknowledgement.
    fn on_syn(&mut self) {
        let rate = self.arrivals.packets_per_s(self.datagram_len);
        if self.in_slow_start {
            if self.window > SLOW_START_MAX {
                self.leave_slow_start();
            }
            return;
        }
        if let Some(rate) = rate {
            self.window = rate * (self.rtt + SYN).as_secs_f64() + WINDOW_FIRST;
        }
        if std::mem::take(&mut self.lost) {
            return;
        }
        let link = self.pairs.link().map_or(0.0, |link| link.0 as f64 / (8.0 * self.datagram_len));
        let increase = increase_packets(link, self.gap_s, self.gap_before_s, self.datagram_len);
        self.set_gap(shorter_gap_s(self.gap_s, increase));
    }

    fn decrease(&mut self) {
        self.set_gap(self.gap_s * DECREASE);
    }
}

/// Packets more per SYN: `link` packets/s are there, one is sent every `gap_s`, and one every `gap_before_s` was sent
/// when the rate last had to fall. Some power of ten of the bits per second that are left.
fn increase_packets(link: f64, gap_s: f64, gap_before_s: f64, datagram_len: f64) -> f64 {
    let mut left = link - 1.0 / gap_s;
    if gap_s > gap_before_s {
        // On the way back to where there was loss, not by more than a ninth of the link.
        left = left.min(link / 9.0);
    }
    let least = 1.0 / datagram_len;
    if left <= 0.0 {
        return least;
    }
    let magnitude = (left * datagram_len * 8.0).log10().ceil();
    (10f64.powf(magnitude) * INCREASE / datagram_len).max(least)
}

/// The gap that sends `increase` packets more per SYN.
fn shorter_gap_s(gap_s: f64, increase: f64) -> f64 {
    let syn_s = SYN.as_secs_f64();
    gap_s * syn_s / (gap_s * increase + syn_s)
}

impl Controller for Udt {
    fn on_sent(&mut self, sent: &Sent) {
        self.pairs.on_sent(sent);
    }

    fn on_timed(&mut self, _now: Time, arrivals: &[TimedArrival]) {
        self.pairs.on_timed(arrivals, self.datagram_len as u64);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.rtt = self.rtt * 7 / 8 + rtt / 8;
        }
        let acked = ack.received_bytes.saturating_sub(self.received_bytes) as f64 / self.datagram_len;
        self.received_bytes = ack.received_bytes;
        if self.in_slow_start {
            self.window += acked;
        }
        self.arrivals.on_ack(ack, self.in_slow_start);
        let due = *self.next_syn.get_or_insert(ack.now + SYN);
        if ack.now >= due {
            // Late acknowledgements are no reason for fewer steps in the long run, nor for several at once.
            self.next_syn = Some((due + SYN).max(ack.now - SYN));
            self.on_syn();
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if self.in_slow_start {
            self.leave_slow_start();
            return;
        }
        self.lost = true;
        let epoch = &mut self.epoch;
        if loss.new_episode {
            epoch.losses_mean += (f64::from(epoch.losses) - epoch.losses_mean) / 8.0;
            epoch.every = ((epoch.losses_mean * self.rng.f64()).ceil() as u32).max(1);
            (epoch.losses, epoch.decreases) = (1, 1);
            self.gap_before_s = self.gap_s;
            self.decrease();
        } else if epoch.decreases <= EPOCH_DECREASES {
            epoch.losses += 1;
            if epoch.losses.is_multiple_of(epoch.every) {
                epoch.decreases += 1;
                self.decrease();
            }
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        if self.in_slow_start {
            self.leave_slow_start();
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = Rate((self.datagram_len * 8.0 / self.gap_s) as u64);
        (!self.in_slow_start).then_some(rate)
    }

    fn window(&self) -> Option<u64> {
        Some((self.window * self.datagram_len) as u64)
    }

    fn poll_probe(&mut self, now: Time) -> Option<ProbeTrain> {
        self.pairs.is_due(now, Duration::from_secs_f64(self.gap_s)).then_some(PAIR)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            bandwidth: self.pairs.link(),
            phase: if self.in_slow_start { "slow-start" } else { "by-clock" },
            ..Snapshot::default()
        }
    }
}

/// At which rate packets come in at the receiver, by its clock.
#[derive(Debug, Default)]
struct ArrivalRate {
    rate: Option<Rate>,
    arrival: Option<Time>,
    received_bytes: u64,
    app_limited: bool,
}

impl ArrivalRate {
    /// Over a SYN at least. `is_new`: what was before does not count, since the rate doubles every round trip.
    fn on_ack(&mut self, ack: &AckSample, is_new: bool) {
        self.app_limited |= ack.app_limited;
        let Some(began) = self.arrival else {
            (self.arrival, self.received_bytes) = (Some(ack.arrival), ack.received_bytes);
            return;
        };
        let span = ack.arrival.since(began);
        if span < SYN {
            return;
        }
        let bytes = ack.received_bytes.saturating_sub(self.received_bytes);
        let sample = Rate::measured(bytes, span);
        if !self.app_limited && bytes > 0 {
            self.rate = Some(match self.rate {
                Some(rate) if !is_new => Rate(rate.0 / 8 * 7 + sample.0 / 8),
                _ => sample,
            });
        }
        (self.arrival, self.received_bytes) = (Some(ack.arrival), ack.received_bytes);
        self.app_limited = false;
    }

    fn packets_per_s(&self, datagram_len: f64) -> Option<f64> {
        self.rate.map(|rate| rate.0 as f64 / (8.0 * datagram_len))
    }
}

/// Packet pairs: two datagrams that leave together come in as far apart as the narrowest link takes for one.
#[derive(Debug)]
struct Pairs {
    /// What the path check said, until a pair has come in.
    first_guess: Option<Rate>,
    /// The last estimates, oldest first.
    links: VecDeque<Rate>,
    since_pair: u32,
    pair_at: Time,
    /// When the newest datagram left.
    sent_at: Time,
    spans: PairSpans,
}

impl Pairs {
    fn new(first_guess: Option<Rate>) -> Pairs {
        Pairs {
            first_guess,
            links: VecDeque::new(),
            since_pair: 0,
            pair_at: Time::ZERO,
            sent_at: Time::ZERO,
            spans: PairSpans::default(),
        }
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.since_pair += 1;
        self.sent_at = sent.now;
        if sent.in_train {
            (self.since_pair, self.pair_at) = (0, sent.now);
        }
    }

    /// After sixteen packets, and when the pair's first packet would go anyway.
    fn is_due(&self, now: Time, gap: Duration) -> bool {
        self.since_pair + 2 >= PAIR_EVERY && now >= self.sent_at + gap && now >= self.pair_at + PAIR_GAP
    }

    fn on_timed(&mut self, arrivals: &[TimedArrival], datagram_len: u64) {
        for span in arrivals.iter().filter_map(|one| self.spans.next(one, PAIR_SPREAD)) {
            // Without a span the host took both at once: it tells nothing of the path.
            if !span.is_zero() {
                self.links.push_back(Rate::measured(datagram_len, span));
                if self.links.len() > PAIRS_KEPT {
                    self.links.pop_front();
                }
            }
        }
    }

    /// The median: pairs with another's packet between them tell too little, compressed ones too much.
    fn link(&self) -> Option<Rate> {
        let mut sorted: Vec<Rate> = self.links.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().or(self.first_guess)
    }
}

/// Two datagrams at once.
const PAIR: ProbeTrain = ProbeTrain { datagrams: 2, rate: Rate(u64::MAX) };
/// Of so many packets, two are a pair.
const PAIR_EVERY: u32 = 16;
/// Pairs are this far apart at least.
const PAIR_GAP: Duration = Duration::from_millis(1);
/// Datagrams that left further apart are no pair.
const PAIR_SPREAD: Duration = Duration::from_micros(10);
/// The median of so many counts.
const PAIRS_KEPT: usize = 16;

/// Packets on their way at first, and beyond what the receiver takes in a round trip and a SYN.
const WINDOW_FIRST: f64 = 16.0;
/// Slow start ends here at the latest: UDT's own bound of packets on their way.
const SLOW_START_MAX: f64 = 25_600.0;
/// Further losses of an epoch that may decrease the rate.
const EPOCH_DECREASES: u32 = 5;
/// Packets more per SYN for each bit/s that is left, times the packet's length.
const INCREASE: f64 = 1.5e-6;

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, loss};
    use super::*;
    use crate::control::pair_spans::is_pair;

    /// Datagrams of 1000 bytes over 20 ms.
    fn udt() -> Udt {
        Udt::new(ControlConfig::new(1000, Duration::from_millis(20)))
    }

    /// Out of slow start with a gap of 100 µs: 80 Mb/s.
    fn by_clock() -> Udt {
        let mut udt = udt();
        udt.on_ack(&ack(100, 0));
        udt.on_ack(&ack(110, 100));
        udt.on_loss(&loss(110, 1, true));
        assert!((udt.gap_s - 100e-6).abs() < 1e-12, "at the rate of arrival: {}", udt.gap_s);
        udt
    }

    #[test]
    fn the_increase_is_that_of_the_table() {
        // UDT's table for packets of 1500 bytes: bandwidth left, packets more per SYN.
        let table = [
            (5e9, 10.0),
            (1e9, 1.0),
            (500e6, 1.0),
            (50e6, 0.1),
            (5e6, 0.01),
            (0.5e6, 0.001),
            (50e3, 1.0 / 1500.0),
        ];
        for (left_bps, packets) in table {
            let (gap_s, per_packet) = (1e-3, 1500.0 * 8.0);
            let link = left_bps / per_packet + 1.0 / gap_s;
            let found = increase_packets(link * (1.0 - 1e-9), gap_s, gap_s, 1500.0);
            assert!((found / packets - 1.0).abs() < 1e-9, "{left_bps}: {found} instead of {packets}");
        }
        assert_eq!(increase_packets(10.0, 1e-3, 1e-3, 1500.0), 1.0 / 1500.0, "faster than the link");
        // Below the rate at which there was loss, a ninth of the link counts as left at most: 111 of 1000 Mb/s.
        let link = 1e9 / 8.0 / 1500.0;
        assert_eq!(increase_packets(link, 1.0, 1.0, 1500.0), 1.0);
        assert_eq!(increase_packets(link / 2.0, 1.0, 0.5, 1500.0), 0.1);
    }

    #[test]
    fn a_shorter_gap_sends_so_many_packets_more_in_a_syn() {
        for (gap_s, packets) in [(100e-6, 1.0), (100e-6, 0.1), (1e-6, 10.0), (0.5, 0.01)] {
            let more = 0.01 / shorter_gap_s(gap_s, packets) - 0.01 / gap_s;
            assert!((more - packets).abs() < 1e-6, "{more} instead of {packets}");
        }
    }

    #[test]
    fn slow_start_adds_what_was_acknowledged_and_ends_with_the_first_loss() {
        let mut udt = udt();
        assert_eq!((udt.window(), udt.pacing_rate()), (Some(16_000), None));
        udt.on_ack(&ack(20, 15));
        assert_eq!(udt.window(), Some(32_000));
        udt.on_ack(&ack(40, 47));
        assert_eq!(udt.window(), Some(64_000));
        udt.on_loss(&loss(40, 1, true));
        // 32 datagrams came in within 20 ms.
        assert_eq!(udt.pacing_rate(), Some(Rate(12_800_000)));
        assert_eq!(udt.snapshot().phase, "by-clock");
    }

    #[test]
    fn the_window_is_what_comes_in_within_a_round_trip_and_a_syn() {
        let mut udt = by_clock();
        for step in 2..100 {
            udt.on_ack(&ack(100 + step * 10, step * 100));
        }
        // 10 000 datagrams a second for 30 ms, and 16.
        assert_eq!(udt.window(), Some(316_000));
    }

    #[test]
    fn a_syn_with_loss_does_not_shorten_the_gap_and_one_without_does() {
        let mut udt = by_clock();
        udt.on_ack(&ack(120, 200));
        let gap_s = udt.gap_s;
        assert!(
            (gap_s - shorter_gap_s(100e-6, 1.0 / 1000.0)).abs() < 1e-12,
            "no pair has told of the link yet"
        );
        udt.on_loss(&loss(125, 1, true));
        assert!((udt.gap_s - gap_s * 1.125).abs() < 1e-12);
        udt.on_ack(&ack(130, 300));
        assert!((udt.gap_s - gap_s * 1.125).abs() < 1e-12);
        udt.on_ack(&ack(140, 400));
        assert!(udt.gap_s < gap_s * 1.125);
    }

    #[test]
    fn one_epoch_makes_the_gap_six_eighths_longer_at_most() {
        for seed in 0..50 {
            let config = ControlConfig { seed, ..ControlConfig::new(1000, Duration::from_millis(20)) };
            let mut udt = Udt { in_slow_start: false, gap_s: 100e-6, ..Udt::new(config) };
            for _ in 0..20 {
                let before = udt.gap_s;
                udt.on_loss(&loss(50, 1, true));
                assert!((udt.gap_s / before - 1.125).abs() < 1e-9, "the first of an epoch");
                (0..200).for_each(|_| udt.on_loss(&loss(50, 1, false)));
                let times = (udt.gap_s / before).ln() / 1.125f64.ln();
                assert!(times < 6.001, "{times} times");
                udt.gap_s = 100e-6;
            }
            assert!(udt.epoch.every >= 1);
        }
    }

    #[test]
    fn pairs_tell_the_link_by_their_spacing_and_the_median_counts() {
        let mut udt = udt();
        let arrival = |number: u64, us: u64| TimedArrival {
            number,
            sent: Time::from_millis(number),
            arrival: Time(us * 1000),
        };
        let pair = |number: u64, gap_us: u64| {
            let first = arrival(number, number * 1000);
            let at = first.arrival + Duration::from_micros(gap_us);
            [first, TimedArrival { number: number + 1, arrival: at, ..first }]
        };
        // 80 µs for 1000 bytes: 100 Mb/s. Twice another's packet came between, once the host took both at once.
        for (n, gap_us) in [80, 80, 500, 80, 0, 160, 80].into_iter().enumerate() {
            let [first, second] = pair(16 * (n as u64 + 1), gap_us);
            udt.on_timed(Time::ZERO, &[first]);
            udt.on_timed(Time::ZERO, &[first, second]);
            udt.on_timed(Time::ZERO, &[first, second]);
        }
        assert_eq!(udt.pairs.links.len(), 6, "each is counted once");
        assert_eq!(udt.pairs.link(), Some(Rate::from_mbps(100.0)));
        let apart = [arrival(500, 1), arrival(501, 2)];
        udt.on_timed(Time::ZERO, &apart);
        assert_eq!(udt.pairs.links.len(), 6, "two that left a millisecond apart are no pair");
    }

    #[test]
    fn two_of_sixteen_packets_are_a_pair_but_not_more_than_one_in_a_millisecond() {
        for (gap_us, sent_between) in [(100, 14), (10, 99)] {
            let mut udt = Udt { in_slow_start: false, gap_s: gap_us as f64 * 1e-6, ..udt() };
            let mut between = vec![];
            let (mut now, mut since, mut in_pair) = (Time::from_millis(1), 0, 0);
            for number in 0..2000 {
                now = if in_pair == 1 { now } else { now + Duration::from_micros(gap_us) };
                if in_pair == 0 && udt.poll_probe(now).is_some() {
                    in_pair = 2;
                    between.push(since);
                    since = 0;
                }
                let in_train = in_pair > 0;
                udt.on_sent(&Sent { now, number, bytes: 1000, in_train, in_flight: 0 });
                since += u32::from(!in_train);
                in_pair = if in_train { in_pair - 1 } else { 0 };
            }
            assert!(between[1..].iter().all(|n| *n == sent_between), "{between:?}");
        }
    }

    #[test]
    fn the_last_number_of_all_has_none_behind_it() {
        let last = TimedArrival { number: u64::MAX, sent: Time::ZERO, arrival: Time::ZERO };
        let arrivals = [last, TimedArrival { number: 0, ..last }];
        udt().on_timed(Time::ZERO, &arrivals);
        assert!(!is_pair(&arrivals[0], &arrivals[1], PAIR_SPREAD));
    }
}
