//! PCP: the rate rises only after a probe has shown that the path carries more (Anderson, Collins, Krishnamurthy
//! and Zahorjan, NSDI 2006; section numbers here are that paper's).
//!
//! A probe is a short train of data at the rate to be tested. If its delays do not grow, the rate jumps there at
//! once; otherwise it stays, whatever was lost on the way. Between probes, data is paced evenly at the *base rate*,
//! and below it to make up for what a train sent beyond it.
//!
//! ```text
//! probe ─────┬─ carried: base := tested, step × 2, next probe at once
//!            └─ queued or lost: step / 2, next probe after 1, 2, … 32 round trips
//! base traffic ── a queue builds: base × (1 − what exceeds the path − what drains the queue in a round trip)
//! ```
//!
//! What the first round trips of a transfer go into, where nothing is remembered of the path: a train of 2
//! datagrams half a round trip apart, then of 3, 4, 5, 9, 17 … at 3, 7, 15, 31, 63 times that rate. Each takes a
//! half, a third, a quarter, … of a round trip to leave and one more until it is heard of; meanwhile base traffic
//! flows at the rate of the one before. With a remembered rate the first train tests a third of it and the second
//! all of it (§3.4).
//!
//! The object sender sends nothing else while a train is on its way out, so a train is all of this sender's traffic
//! for its span, and a rate that it proves includes base traffic.
//!
//! `control/pcp/` raises the rate only after a probe: a train of data at the rate to be tested, each datagram alone
//! at its time (`Controller::poll_probe`), whose arrivals the receiver tells one by one (`on_timed`). Delays that
//! do not grow along the train let the rate jump there. `search.rs` says what to test next and when, `train.rs`
//! judges, `compensation.rs` slows down when a queue builds all the same, `tit_for_tat.rs` stops doing so beside
//! flows that fill any queue. What a push learns of a path is kept for the next (`net/src/history.rs`).

mod compensation;
mod line;
mod search;
mod tit_for_tat;
mod train;

use super::{
    AckSample, ControlConfig, Controller, LossSample, ProbeTrain, Remembered, Sent, Snapshot, TimedArrival,
};
use crate::control::pcp_part::{PcpPart, Without};
use crate::rtt::Rtt;
use crate::units::{Rate, Time};
use compensation::{Compensation, Pace};
use core::time::Duration;
use fastrand::Rng;
use search::Search;
use train::{Train, TrainLen, Verdict};

/// See the [module](self).
#[derive(Debug)]
pub struct Pcp {
    datagram_len: u64,
    rtt: Rtt,
    search: Search,
    /// The probe on its way.
    train: Option<Train>,
    train_len: TrainLen,
    compensation: Compensation,
    /// The queue that a probe may build, as a share of the time that goes by.
    tolerance: f64,
    /// Held back while a train's result is out, bit/s.
    repay: f64,
    /// Send times of the last two trains and of what they may still delay: no base traffic.
    disturbed: [(Time, Time); 2],
    /// No probe before: the base rate is not made use of, so nothing would come of a higher one.
    idle_until: Time,
    receiver: Receiver,
    without: Without,
    rng: Rng,
}

/// Counters when what the receiving host takes was last reviewed.
#[derive(Clone, Copy, Debug, Default)]
struct Receiver {
    at: Time,
    accepted: u64,
    overrun: u64,
    covered: u64,
    received: u64,
    is_bound: bool,
}

impl Pcp {
    /// Begin at a third of what is remembered of the path; where nothing is, of what the path check told of it.
    pub fn new(config: ControlConfig) -> Pcp {
        let rtt = config.rtt.clamp(RTT_MIN, RTT_MAX);
        let without = Without(config.pcp_without);
        let remembered = config.remembered.filter(|_| without.has(PcpPart::History));
        let known = remembered.or(config.path_rate.map(|path| Remembered::new(path.rate)));
        Pcp {
            datagram_len: config.datagram_len.max(1),
            rtt: Rtt::new(rtt),
            search: Search::new(config.datagram_len.max(1), rtt, known, without),
            train: None,
            train_len: TrainLen::new(without),
            compensation: Compensation::new(without),
            tolerance: if without.has(PcpPart::Tolerance) { TOLERANCE } else { 0.0 },
            repay: 0.0,
            disturbed: [(Time::ZERO, Time::ZERO); 2],
            idle_until: Time::ZERO,
            receiver: Receiver::default(),
            without,
            rng: Rng::with_seed(config.seed),
        }
    }

    fn rtt(&self) -> Duration {
        self.rtt.smoothed().clamp(RTT_MIN, RTT_MAX)
    }

    fn base(&self) -> Rate {
        Rate(self.search.base() as u64)
    }

    fn pace(&self) -> Pace {
        let gap = self.base().time_for(self.datagram_len);
        Pace { rate: self.search.base(), gap, rtt: self.rtt() }
    }

    /// A datagram lost beyond doubt: nothing was heard of it for as long as RFC 6298 waits.
    fn train_deadline(&self, train: &Train) -> Time {
        train.last_sent() + self.rtt.timeout(Duration::ZERO)
    }

    /// The probe on its way is over.
    fn conclude(&mut self, now: Time) {
        let Some(train) = self.train.take() else { return };
        self.repay = 0.0;
        let burden = self.compensation.burden(train.first_delay(), self.pace());
        let verdict = train.judge(burden - self.tolerance, self.without, &mut self.rng);
        self.train_len.on_verdict(verdict);
        match verdict {
            Verdict::Carried(rate) => self.search.on_carried(now, rate),
            Verdict::Queued | Verdict::Lost => self.search.on_failed(train.asked_at()),
        }
    }

    /// A train that was asked for and did not get all of its datagrams. True if none of it has left: it may still.
    fn is_waiting_for_data(&mut self, now: Time) -> bool {
        match &self.train {
            Some(train) if !train.has_begun() => true,
            Some(train) if !train.is_out() => {
                self.train = None;
                self.repay = 0.0;
                self.search.on_cut_short(now);
                false
            }
            _ => false,
        }
    }

    fn begin_train(&mut self, now: Time) -> ProbeTrain {
        let rate = self.search.test_rate();
        let datagrams = self.train_len.of(rate, self.datagram_len, self.rtt());
        let ask = ProbeTrain { datagrams, rate: Rate(rate as u64) };
        self.train = Some(Train::new(ask, self.datagram_len, now));
        ask
    }

    /// A train is out. What it heaps up if it exceeds the path is no queue that stays: what leaves meanwhile tells
    /// nothing. A train that hardly exceeds the base rate is as good as base traffic.
    fn note_disturbance(&mut self, train: ProbeTrain, train_began: Time, train_ended: Time) {
        let excess = 1.0 - self.search.base() / self.search.test_rate();
        let excess_bits = excess * 8.0 * (u64::from(train.datagrams) * self.datagram_len) as f64;
        // A probe tests a rate, it does not take it: not even where it fails again and again.
        if self.without.has(PcpPart::Repay) {
            self.repay = excess_bits.max(0.0) / self.rtt().as_secs_f64();
        }
        if excess > DISTURBING && self.without.has(PcpPart::TrainShadow) {
            let span = train_ended.since(train_began);
            self.disturbed = [self.disturbed[1], (train_began, train_ended + span.mul_f64(2.0 * excess))];
        }
    }

    fn is_base(&self, sent: Time) -> bool {
        self.disturbed.iter().all(|(from, to)| sent < *from || sent > *to)
    }

    fn compensate(&mut self, ack: &AckSample) {
        let Some(delay) = ack.one_way_ns else { return };
        self.compensation.note(ack.now, delay);
        let sent = Time(ack.arrival.0.wrapping_sub(delay as u64));
        if !self.is_base(sent) {
            return;
        }
        if let Some(cut) = self.compensation.on_base(ack, self.pace()) {
            self.search.lower(ack.now, cut.share, cut.is_full);
            self.tolerance /= 2.0;
        }
    }

    /// A receiver that drops, refuses or runs full takes what it took lately and no more. And where most of what was
    /// sent did not even get there, without delays to show for it, the path has no queue to speak of.
    fn heed_counters(&mut self, ack: &AckSample) {
        let last = self.receiver;
        let span = ack.now.since(last.at);
        if span < self.rtt().max(RECEIVER_SPAN) {
            return;
        }
        let covered = ack.covered_bytes.saturating_sub(last.covered);
        let received = ack.received_bytes.saturating_sub(last.received);
        let accepted = ack.accepted_bytes.saturating_sub(last.accepted);
        let overrun = ack.overrun_bytes.saturating_sub(last.overrun);
        let is_bound = overrun > 0 || ack.pressure > PRESSURE_MAX;
        self.receiver = Receiver {
            at: ack.now,
            accepted: ack.accepted_bytes,
            overrun: ack.overrun_bytes,
            covered: ack.covered_bytes,
            received: ack.received_bytes,
            is_bound,
        };
        if is_bound {
            let taken = Rate::measured(accepted, span).0 as f64;
            self.search.bound(ack.now, (taken * OVERRUN_FACTOR).max(self.search.base() / 2.0));
        }
        let lost = covered.saturating_sub(received.saturating_add(overrun)) as f64 / covered.max(1) as f64;
        if covered >= LOSS_DATAGRAMS * self.datagram_len && lost > LOSS_MAX {
            self.search.lower(ack.now, lost / 2.0, true);
        }
    }
}

impl Controller for Pcp {
    fn on_sent(&mut self, sent: &Sent) {
        let Some(train) = self.train.as_mut().filter(|train| sent.in_train && !train.is_out()) else {
            return;
        };
        train.on_sent(sent.number, sent.now);
        if train.is_out() {
            let (ask, began) = (train.ask(), train.asked_at());
            self.note_disturbance(ask, began, sent.now);
        }
    }

    fn on_timed(&mut self, now: Time, arrivals: &[TimedArrival]) {
        for arrival in arrivals {
            self.compensation.note(now, arrival.arrival.0.wrapping_sub(arrival.sent.0) as i64);
        }
        let Some(train) = &mut self.train else { return };
        train.on_timed(arrivals);
        if train.is_heard() {
            self.conclude(now);
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.rtt.sample(rtt);
            self.search.set_rtt(ack.now, self.rtt());
        }
        if self.train.as_ref().is_some_and(|train| train.is_overtaken(ack.largest)) {
            self.conclude(ack.now);
        }
        let wanted = self.base().bytes_in(self.rtt());
        if ack.app_limited && ack.in_flight < wanted / IDLE_SHARE {
            self.idle_until = ack.now + self.rtt();
        }
        self.compensate(ack);
        self.heed_counters(ack);
    }

    /// No loss by itself lowers the rate (§3.1): delays do.
    fn on_loss(&mut self, loss: &LossSample) {
        if loss.new_episode {
            self.compensation.on_loss();
        }
    }

    fn on_timeout(&mut self, now: Time) {
        // Circuit breaker: nothing comes back at all.
        self.train = None;
        self.repay = 0.0;
        self.search.lower(now, 0.5, true);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let base = self.search.base();
        Some(Rate((base - self.repay).max(base * PACE_LEAST) as u64))
    }

    fn window(&self) -> Option<u64> {
        // A bound on what piles up if acknowledgements stop, nothing that holds back a flow while they come.
        let span = self.rtt.timeout(ACK_DELAY) * 2;
        Some(self.base().bytes_in(span) + WINDOW_MIN * self.datagram_len)
    }

    fn poll_probe(&mut self, now: Time) -> Option<ProbeTrain> {
        if self.is_waiting_for_data(now) {
            return self.train.as_ref().map(Train::ask);
        }
        if self.train.as_ref().is_some_and(|train| now >= self.train_deadline(train)) {
            self.conclude(now);
        }
        let due = self.train.is_none() && now >= self.search.next() && now >= self.idle_until;
        due.then(|| self.begin_train(now))
    }

    fn probe_at(&self) -> Option<Time> {
        Some(match &self.train {
            Some(train) if train.is_out() => self.train_deadline(train),
            Some(_) => return None,
            None => self.search.next().max(self.idle_until),
        })
    }

    /// A driver cannot wake up for every datagram at Gb/s. Below 47 Mb/s of full datagrams each leaves by itself; above,
    /// what falls due in this span leaves together: shorter than any queue worth compensating, and with a dozen
    /// datagrams at most at 500 Mb/s within what a bottleneck's smallest buffers hold.
    fn burst(&self) -> Duration {
        if self.without.has(PcpPart::Burst) { BURST } else { Duration::ZERO }
    }

    fn remember(&self) -> Option<Remembered> {
        self.search.remember()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            bandwidth: Some(self.base()),
            queue_delay: self.compensation.queue(),
            random_loss: 0.0,
            receiver_bound: self.receiver.is_bound,
            policer: None,
            phase: if self.train.is_some() { "probe" } else { "base" },
        }
    }
}

/// Round trips are taken to be at least this long, and at most this: a host that slept for hours measures hours.
const RTT_MIN: Duration = Duration::from_micros(50);
const RTT_MAX: Duration = Duration::from_secs(3);
/// What falls due within this leaves together.
const BURST: Duration = Duration::from_micros(250);
/// A queue that grows by this part of the time that goes by is what a rate of 3 % too much builds: compensation takes it
/// back within a round trip or two, whereas to be sure of less would take long trains and many failures. Short flows
/// gain by it. A flow whose rate had to be lowered was too eager, and tolerates half as much from then on, so that
/// flows that last end up without a queue.
const TOLERANCE: f64 = 0.03;
/// Share of the base rate that is never held back.
const PACE_LEAST: f64 = 0.1;
/// Share of a train's rate beyond the base rate that makes it more than base traffic.
const DISTURBING: f64 = 0.15;
/// The base rate is idle with less than this part of what a round trip holds on its way.
const IDLE_SHARE: u64 = 4;
/// Acknowledgements are held back by no more ([`AckPolicy`](crate::object::AckPolicy)).
const ACK_DELAY: Duration = Duration::from_millis(25);
/// Datagrams that may be on their way at any rate.
const WINDOW_MIN: u64 = 32;
/// The receiver is reviewed this often, or once a round trip: its sink holds several times as much.
const RECEIVER_SPAN: Duration = Duration::from_millis(50);
/// How full its sink may be before it bounds the rate …
const PRESSURE_MAX: f64 = 0.5;
/// … to this share of what it took.
const OVERRUN_FACTOR: f64 = 0.95;
/// Losing more than this share of so many datagrams is nobody's random loss.
const LOSS_MAX: f64 = 0.4;
const LOSS_DATAGRAMS: u64 = 32;
