//! UDT, version 4 (Gu & Grossman): rate control by the clock. Constants and formulas are those of its published code
//! (`ccc.cpp`, `CUDTCC`).
//!
//! Every SYN of 10 ms without loss, the sender adds to what it sends per SYN an amount that follows from the capacity
//! left: the link's, estimated from packet pairs, less its own rate. The first loss of an epoch makes the gap between
//! packets an eighth longer; of later ones in the same epoch a random few do. A window of what the receiver takes in
//! a round trip and a SYN bounds what is on its way.
//!
//! Differences: a loss is what the object sender found lost with one acknowledgement, not a NAK; the epoch is its
//! congestion episode; gaps are not rounded up to whole microseconds; pairs are a millisecond apart at least, since each
//! calls for an acknowledgement.

use super::{
    AckSample, ControlConfig, Controller, LossSample, ProbeTrain, SYN, Sent, Snapshot, TimedArrival,
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
            gap_s: GAP_MIN_S,
            gap_before_s: GAP_MIN_S,
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
        self.gap_s = gap_s.clamp(GAP_MIN_S, GAP_MAX_S);
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
        let sample = Rate::from_bytes_over(bytes, span);
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
    last: Option<TimedArrival>,
}

impl Pairs {
    fn new(first_guess: Option<Rate>) -> Pairs {
        Pairs {
            first_guess,
            links: VecDeque::new(),
            since_pair: 0,
            pair_at: Time::ZERO,
            sent_at: Time::ZERO,
            last: None,
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
        for one in arrivals {
            if let Some(first) = self.last.filter(|last| is_pair(last, one)) {
                let span = one.arrival.since(first.arrival);
                // Without a span the host took both at once: it tells nothing of the path.
                if !span.is_zero() {
                    self.links.push_back(Rate::from_bytes_over(datagram_len, span));
                    if self.links.len() > PAIRS_KEPT {
                        self.links.pop_front();
                    }
                }
            }
            if self.last.is_none_or(|last| one.number > last.number) {
                self.last = Some(*one);
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

fn is_pair(first: &TimedArrival, second: &TimedArrival) -> bool {
    first.number + 1 == second.number && second.sent.since(first.sent) < PAIR_SPREAD
}

/// Two datagrams at once.
const PAIR: ProbeTrain = ProbeTrain { datagrams: 2, rate: Rate(u64::MAX) };
/// Of so many packets, two are a pair.
const PAIR_EVERY: u32 = 16;
/// Pairs are this far apart at least.
const PAIR_GAP: Duration = Duration::from_millis(1);
/// Datagrams that left further apart are no pair: the host was interrupted between them.
const PAIR_SPREAD: Duration = Duration::from_micros(10);
/// The median of so many counts.
const PAIRS_KEPT: usize = 16;

/// Packets on their way at first, and beyond what the receiver takes in a round trip and a SYN.
const WINDOW_FIRST: f64 = 16.0;
/// Slow start ends here at the latest: UDT's own bound of packets on their way.
const SLOW_START_MAX: f64 = 25_600.0;
/// After a loss the gap is so many times as long.
pub const DECREASE: f64 = 1.125;
/// Further losses of an epoch that may decrease the rate.
const EPOCH_DECREASES: u32 = 5;
/// Packets more per SYN for each bit/s that is left, times the packet's length.
const INCREASE: f64 = 1.5e-6;
/// Gaps that no path calls for: 12 Tb/s, and a packet a second.
const GAP_MIN_S: f64 = 1e-9;
const GAP_MAX_S: f64 = 1.0;
