//! The default: paces at what the path delivers, keeps a short queue at the bottleneck, tolerates random loss.
//!
//! Three measurements, all from cumulative counters and the receiver's arrival times, steer it:
//! - the **delivery rate** over a *tick* (a fraction of a round trip). While the bottleneck's queue holds something,
//!   that is the path's rate; otherwise a lower bound of it;
//! - the **queueing delay**: the least one-way delay within the tick over the least seen (PCP's and LEDBAT's signal);
//! - the **loss share** of a few hundred datagrams, without what the receiving host itself dropped.
//!
//! ```text
//! Train ──first dispersion──▶ Cruise ◀──────────▶ Test       loss rose: is it ours?
//!                               ▲ ▼
//!                              Refresh                        every few seconds: empty the queue, see the true delay
//! ```
//!
//! In `Cruise` the pacing rate is `bandwidth × (1 + growth + GAIN × (target − queue) / rtt)`: a proportional regulator
//! on the queue. With the queue empty the rate grows, a little at first, twice as fast each further round (as PCP's
//! search), so that capacity set free is found in O(log n) round trips.

use super::{AckSample, ControlConfig, Controller, Snapshot};
use crate::units::{DatagramNumber, Rate, Time, nanos};
use core::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub struct Adaptive {
    datagram_len: f64,
    /// What the path carries, bit/s, in terms of what is sent (random loss included).
    bandwidth: f64,
    /// Extra rate share while the queue stays empty.
    growth: f64,
    state: State,
    rtt: Duration,
    delay: DelayBase,
    /// Queueing delay of the last tick, ns.
    queue_ns: f64,
    /// Share of datagrams that are lost whatever the rate.
    random_loss: f64,
    /// Half of the queue that was there when the path last dropped for want of room: the target stays below.
    room_ns: f64,
    tick: Tick,
    round: Round,
    counted: Counted,
    /// Until then the rate does not grow: congestion loss or a full receiver was just met.
    hold_until: Time,
    next_refresh: Time,
    receiver: ReceiverBound,
    /// What the path carried before timeouts in a row.
    before_outage: Option<f64>,
    started: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The first datagrams leave as a train; its dispersion tells the path's rate.
    Train,
    Cruise,
    /// Sending below the delivered rate since datagram `from`, to see whether loss goes away.
    Test {
        from: DatagramNumber,
        measuring: bool,
        loss: f64,
        delivered: f64,
        queue_ns: f64,
    },
    /// Sending slower until `until`, to see the delay of an empty queue.
    Refresh {
        until: Time,
    },
}

/// A stretch of acknowledgements over which rate and delay are measured.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    began: Time,
    arrival: Time,
    received: u64,
    owd_min: Option<i64>,
    app_limited: bool,
    samples: u32,
}

/// What the receiving host takes.
#[derive(Clone, Copy, Debug, Default)]
struct ReceiverBound {
    /// bit/s; infinite while it keeps up.
    limit: f64,
    /// Counters at its last review.
    at: Time,
    accepted: u64,
    overrun: u64,
}

/// Counters where the current stretch of loss measurement began: long enough to tell chance from a trend.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    covered: u64,
    received: u64,
    overrun: u64,
}

impl Counted {
    fn at(ack: &AckSample) -> Counted {
        Counted { covered: ack.covered_bytes, received: ack.received_bytes, overrun: ack.overrun_bytes }
    }

    /// Bytes that must have come by since, and the share of them that the path lost.
    fn loss_until(&self, ack: &AckSample) -> (f64, f64) {
        let covered = ack.covered_bytes.saturating_sub(self.covered) as f64;
        let received = ack.received_bytes.saturating_sub(self.received) as f64;
        let overrun = ack.overrun_bytes.saturating_sub(self.overrun) as f64;
        (covered, ((covered - received - overrun) / covered.max(1.0)).clamp(0.0, 1.0))
    }
}

/// About a round trip, after which the rate may grow.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ends: DatagramNumber,
    began: Time,
    ticks: u32,
    /// Largest delivery rate of its ticks.
    delivered: f64,
    /// Whether any of its ticks saw a queue.
    queued: bool,
    app_limited: bool,
}

impl Adaptive {
    /// Begin at the rate that the path check told, or with a train.
    pub fn new(config: ControlConfig) -> Adaptive {
        let known = config.path_rate.map(|path| path.rate.0 as f64);
        // A train that the path did not stretch tells only that there is at least so much: go on doubling.
        let unbounded = config.path_rate.is_some_and(|path| !path.is_bottleneck);
        let rtt = config.rtt.max(RTT_MIN);
        Adaptive {
            datagram_len: config.datagram_len as f64,
            bandwidth: known.unwrap_or(TRAIN_RATE).max(RATE_MIN),
            growth: if unbounded { GROWTH_MAX } else { 0.0 },
            state: if known.is_some() { State::Cruise } else { State::Train },
            rtt,
            delay: DelayBase::default(),
            queue_ns: 0.0,
            random_loss: 0.0,
            room_ns: f64::INFINITY,
            counted: Counted::default(),
            tick: Tick::default(),
            round: Round::default(),
            hold_until: Time::ZERO,
            next_refresh: Time::ZERO,
            receiver: ReceiverBound { limit: f64::INFINITY, ..ReceiverBound::default() },
            before_outage: None,
            started: false,
        }
    }

    /// The queue aimed at: long enough that the bottleneck never idles, short against a round trip.
    fn target_ns(&self) -> f64 {
        (TARGET_SHARE * nanos(self.rtt) as f64 + TARGET_MIN_NS).min(self.room_ns)
    }

    fn rate(&self) -> f64 {
        let rtt_ns = nanos(self.rtt) as f64;
        let factor = match self.state {
            State::Train => 1.0,
            State::Test { .. } => 1.0,
            State::Refresh { .. } => REFRESH_FACTOR,
            State::Cruise => {
                let error = (self.target_ns() - self.queue_ns) / (rtt_ns + 10.0 * TARGET_MIN_NS);
                (1.0 + self.growth + GAIN * error).clamp(FACTOR_MIN, FACTOR_MAX)
            }
        };
        let base = match self.state {
            State::Test { delivered, .. } => delivered * TEST_FACTOR,
            _ => self.bandwidth,
        };
        (base * factor).min(self.receiver.limit).max(RATE_MIN)
    }

    fn end_tick(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.tick.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.tick.received);
        let delivered = Rate::from_bytes_over(bytes, span).0 as f64;
        let share_kept = (1.0 - self.random_loss).max(0.1);
        if let Some(owd) = self.tick.owd_min {
            self.queue_ns = self.delay.queue_ns(owd);
        }
        let queued = self.queue_ns > (self.target_ns() / 2.0).max(QUEUE_NOISE_NS.min(self.room_ns));
        if span > Duration::ZERO && delivered.is_finite() {
            let carried = delivered / share_kept;
            if queued && !self.tick.app_limited {
                self.bandwidth += (carried - self.bandwidth) * BANDWIDTH_GAIN;
            } else if carried > self.bandwidth {
                // Without a queue the delivered rate follows the sent rate: a lower bound of the path's.
                let bound = if self.tick.app_limited { self.bandwidth * 1.1 } else { f64::INFINITY };
                self.bandwidth = carried.min(bound);
            }
            self.round.delivered = self.round.delivered.max(delivered);
            self.round.ticks += 1;
        }
        if queued {
            self.growth = 0.0;
        }
        self.round.queued |= queued;
        self.round.app_limited |= self.tick.app_limited;
        self.begin_tick(ack);
    }

    /// A receiver that drops, refuses or runs full bounds the rate: by what it took lately, a little more while its
    /// sink is less than half full, a little less while it is fuller.
    fn heed_receiver(&mut self, ack: &AckSample) {
        let span = ack.now.since(self.receiver.at);
        if span < RECEIVER_SPAN.max(self.rtt) {
            return;
        }
        let overrun = ack.overrun_bytes > self.receiver.overrun;
        let taken_bytes = ack.accepted_bytes.saturating_sub(self.receiver.accepted);
        let taken = Rate::from_bytes_over(taken_bytes, span).0 as f64;
        self.receiver.at = ack.now;
        self.receiver.accepted = ack.accepted_bytes;
        self.receiver.overrun = ack.overrun_bytes;
        let bound = self.receiver.limit.is_finite();
        if !(bound || overrun || ack.pressure > PRESSURE_HALF) {
            return;
        }
        let factor = if overrun { OVERRUN_FACTOR } else { 1.0 + PRESSURE_HALF - ack.pressure };
        // One span in which the host was elsewhere must not bring the rate down to nothing.
        let limit = (taken * factor).max(self.rate() / 2.0);
        let free = !overrun && ack.pressure < PRESSURE_HALF / 4.0 && limit > self.bandwidth;
        self.receiver.limit = if free { f64::INFINITY } else { limit };
    }

    fn begin_tick(&mut self, ack: &AckSample) {
        self.tick = Tick {
            began: ack.now,
            arrival: ack.arrival,
            received: ack.received_bytes,
            owd_min: None,
            app_limited: false,
            samples: 0,
        };
    }

    fn end_round(&mut self, ack: &AckSample) {
        match self.state {
            State::Test { .. } => self.judge(ack),
            _ => self.watch_loss(ack),
        }
        let grows = self.state == State::Cruise
            && !self.round.queued
            && !self.round.app_limited
            && ack.now >= self.hold_until
            && self.round.delivered >= DELIVERED_ENOUGH * self.bandwidth * (1.0 - self.random_loss);
        self.growth = if grows { (self.growth * 2.0).clamp(GROWTH_FIRST, GROWTH_MAX) } else { 0.0 };
        self.round = Round { ends: ack.next_number, began: ack.now, ..Round::default() };
    }

    /// How far a loss share measured over `datagrams` may stray by chance: three standard deviations.
    fn chance(&self, datagrams: f64) -> f64 {
        let share = self.random_loss.max(0.005);
        3.0 * (share * (1.0 - share) / datagrams.max(1.0)).sqrt()
    }

    /// More loss than is known to be random calls for a test. The random share itself only falls here: if it followed
    /// what is measured while the bottleneck is full, it would take our own congestion for the path's nature, send
    /// more to make up for it, and so lose ever more.
    fn watch_loss(&mut self, ack: &AckSample) {
        let (covered, loss) = self.counted.loss_until(ack);
        let datagrams = covered / self.datagram_len;
        if datagrams < LOSS_DATAGRAMS {
            return;
        }
        self.counted = Counted::at(ack);
        if loss - self.random_loss > LOSS_EXCESS + self.chance(datagrams) {
            self.growth = 0.0;
            self.state = State::Test {
                from: ack.next_number,
                measuring: false,
                loss,
                delivered: self.round.delivered,
                queue_ns: self.queue_ns,
            };
        } else if loss < self.random_loss {
            self.random_loss += (loss - self.random_loss) * LOSS_GAIN;
        }
    }

    /// End of a round in `Test`: once what was sent at the old rate is through, count; when enough is counted, judge.
    fn judge(&mut self, ack: &AckSample) {
        let State::Test { from, measuring, loss: before, delivered, queue_ns } = self.state else { return };
        if !measuring {
            if ack.largest >= from {
                self.counted = Counted::at(ack);
                self.state = State::Test { from, measuring: true, loss: before, delivered, queue_ns };
            }
            return;
        }
        let (covered, loss) = self.counted.loss_until(ack);
        let datagrams = covered / self.datagram_len;
        if datagrams < LOSS_DATAGRAMS / 2.0 {
            return;
        }
        self.counted = Counted::at(ack);
        let still = loss > before / 2.0 || (before - loss) < self.chance(datagrams);
        self.random_loss = loss;
        if !still {
            // It was ours: what was delivered while it lasted is what the path carries.
            self.bandwidth = delivered / (1.0 - loss).max(0.1);
            self.room_ns = (queue_ns / 2.0).max(ROOM_MIN_NS);
            self.hold_until = ack.now + self.rtt * HOLD_ROUNDS;
        }
        self.state = State::Cruise;
    }

    fn refresh(&mut self, now: Time) {
        match self.state {
            State::Refresh { until } if now >= until => {
                self.state = State::Cruise;
                self.room_ns *= ROOM_RECOVERY;
                self.next_refresh = now + REFRESH_EVERY;
            }
            State::Cruise if now >= self.next_refresh => {
                self.state = State::Refresh { until: now + self.rtt + self.rtt / 4 };
                self.growth = 0.0;
            }
            _ => {}
        }
    }

    /// The train's first acknowledgements: from the second on, their spacing is the path's.
    fn read_train(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.tick.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.tick.received);
        if bytes as f64 >= TRAIN_READ * self.datagram_len && span > Duration::ZERO {
            let rate = Rate::from_bytes_over(bytes, span).0 as f64;
            self.bandwidth = rate.clamp(RATE_MIN, TRAIN_RATE);
            self.state = State::Cruise;
            self.round.ends = ack.next_number;
            self.begin_tick(ack);
        }
    }
}

impl Controller for Adaptive {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(before) = self.before_outage.take() {
            // The path is back, most likely as it was; half of it is safe to begin with.
            self.bandwidth = self.bandwidth.max(before / 2.0);
        }
        self.rtt = ack.rtt_min.max(RTT_MIN);
        if let Some(owd) = ack.one_way_ns {
            self.delay.sample(ack.now, owd);
            self.tick.owd_min = Some(self.tick.owd_min.map_or(owd, |least| least.min(owd)));
        }
        self.tick.app_limited |= ack.app_limited;
        self.tick.samples += 1;
        if !self.started {
            self.started = true;
            self.next_refresh = ack.now + REFRESH_EVERY;
            self.round.ends = ack.next_number;
            let owd_min = self.tick.owd_min;
            self.begin_tick(ack);
            self.tick.owd_min = owd_min;
            return;
        }
        if self.state == State::Train {
            self.read_train(ack);
            return;
        }
        self.refresh(ack.now);
        self.heed_receiver(ack);
        let tick_len = (self.rtt / TICKS_PER_RTT).clamp(TICK_MIN, TICK_MAX);
        if ack.now >= self.tick.began + tick_len && self.tick.samples >= 2 {
            self.end_tick(ack);
        }
        // A round on a short path lasts several ticks: what it says of loss must come with a rate that was measured.
        let enough = self.round.ticks >= TICKS_PER_RTT && ack.now >= self.round.began + self.rtt;
        if ack.largest >= self.round.ends && enough {
            self.end_round(ack);
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        // Circuit breaker: nothing comes back at all.
        self.before_outage.get_or_insert(self.bandwidth);
        self.bandwidth = (self.bandwidth / 2.0).max(RATE_MIN);
        self.growth = 0.0;
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate(self.rate() as u64))
    }

    fn window(&self) -> Option<u64> {
        if self.state == State::Train {
            return Some((TRAIN_LEN * self.datagram_len) as u64);
        }
        // What the path and the target queue hold, and what the receiver may not have acknowledged yet.
        let span_ns = nanos(self.rtt) as f64 * 1.25 + 2.0 * self.target_ns() + WINDOW_SLACK_NS;
        let bytes = self.bandwidth * (1.0 + self.growth) * span_ns / 8e9 / (1.0 - self.random_loss).max(0.5);
        Some(bytes.max(TRAIN_LEN * self.datagram_len) as u64)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            bandwidth: Some(Rate(self.bandwidth as u64)),
            queue_delay: Duration::from_nanos(self.queue_ns.max(0.0) as u64),
            random_loss: self.random_loss,
            receiver_bound: self.receiver.limit < self.bandwidth,
            phase: "",
        }
    }
}

/// The least one-way delay of the last while, aged so that clock drift and a changed route are followed.
#[derive(Clone, Copy, Debug, Default)]
struct DelayBase {
    current: Option<i64>,
    previous: Option<i64>,
    began: Time,
}

impl DelayBase {
    fn sample(&mut self, now: Time, owd: i64) {
        if now.since(self.began) > BASE_AGE {
            self.previous = self.current.take();
            self.began = now;
        }
        self.current = Some(self.current.map_or(owd, |least| least.min(owd)));
    }

    /// How much longer than the least `owd` is, ns.
    fn queue_ns(&self, owd: i64) -> f64 {
        let least = self.current.into_iter().chain(self.previous).min();
        least.map_or(0.0, |least| owd.saturating_sub(least).max(0) as f64)
    }
}

/// The queue aimed at, as a share of the round trip …
const TARGET_SHARE: f64 = 0.06;
/// … and at least this: below it, the batching of hosts hides a queue.
const TARGET_MIN_NS: f64 = 500_000.0;
/// A queue shorter than this is noise.
const QUEUE_NOISE_NS: f64 = 300_000.0;
/// Rate change for a queue that is off by one round trip. With a feedback delay of about 1.3 round trips the loop gain
/// is 0.8, well below the π/2 at which a proportional loop begins to swing.
const GAIN: f64 = 0.65;
const FACTOR_MIN: f64 = 0.35;
const FACTOR_MAX: f64 = 2.5;
/// Weight of a new delivery rate while there is a queue.
const BANDWIDTH_GAIN: f64 = 0.4;
/// Share of the bandwidth that must have been delivered in a round before the rate grows.
const DELIVERED_ENOUGH: f64 = 0.85;
/// Extra rate after the first and after many rounds without a queue.
const GROWTH_FIRST: f64 = 0.05;
const GROWTH_MAX: f64 = 1.0;
/// Rounds without growth after congestion loss or a full receiver.
const HOLD_ROUNDS: u32 = 6;
/// Loss above the random share that calls for a test, beside what chance explains.
const LOSS_EXCESS: f64 = 0.02;
/// Weight of a new round's loss share.
const LOSS_GAIN: f64 = 0.2;
/// Datagrams over which loss is measured.
const LOSS_DATAGRAMS: f64 = 200.0;
/// However little room the path's queue has, this much is aimed at …
const ROOM_MIN_NS: f64 = 100_000.0;
/// … and more again after each refresh.
const ROOM_RECOVERY: f64 = 1.2;
/// In a test, the share of the delivered rate that is sent.
const TEST_FACTOR: f64 = 0.9;
/// How full the receiver's sink is meant to be when it is what bounds the rate: it never runs dry then.
const PRESSURE_HALF: f64 = 0.5;
/// Share of what was taken that is sent after the receiving host dropped some.
const OVERRUN_FACTOR: f64 = 0.9;
/// The receiver's bound is reviewed this often (or once a round trip): its sink holds several times as much.
const RECEIVER_SPAN: Duration = Duration::from_millis(50);
/// Empty the queue this often, for about a round trip.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
const REFRESH_FACTOR: f64 = 0.88;
/// The base delay is the least of one to two such spans.
const BASE_AGE: Duration = Duration::from_secs(12);
/// Ticks in a round trip, and their length's bounds.
const TICKS_PER_RTT: u32 = 3;
const TICK_MIN: Duration = Duration::from_millis(4);
const TICK_MAX: Duration = Duration::from_millis(50);
/// The first train: so many datagrams at this rate (bit/s); read when so many have come in after its first.
const TRAIN_LEN: f64 = 32.0;
const TRAIN_RATE: f64 = 1e9;
const TRAIN_READ: f64 = 12.0;
/// Never slower: a datagram every 120 ms.
const RATE_MIN: f64 = 100_000.0;
const RTT_MIN: Duration = Duration::from_micros(50);
/// Acknowledgements are held back and bundled by about this much.
const WINDOW_SLACK_NS: f64 = 2_000_000.0;
