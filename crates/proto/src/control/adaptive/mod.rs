//! The default: paces at what the path delivers, keeps a short queue at the bottleneck, tolerates random loss, shares
//! with its like, holds its own beside those who fill queues.
//!
//! Three measurements, all from cumulative counters and arrival times, steer it:
//! - the **delivery rate** over a *tick* (a fraction of a round trip). While the bottleneck's queue holds something,
//!   that is the path's rate, or our share of it; otherwise a lower bound of it;
//! - the **queueing delay** ([`delay`]): the least delay within the tick over the least seen (PCP's and LEDBAT's signal);
//! - the **loss share** ([`loss`]), without what the receiving host itself dropped.
//!
//! ```text
//! Train ──first dispersion──▶ Cruise ◀──────────▶ Test       loss rose: is it ours?
//!                             ▲ ▼  ▲ ▼
//!                          Refresh  Compete                  the queue stays although we yield: hold our own
//!                          every few seconds: empty the queue, see the true delay
//! ```
//!
//! In `Cruise` the pacing rate is `bandwidth × (1 + growth + GAIN × (target − queue) / rtt)`: a proportional regulator
//! on the queue. With the queue empty the rate grows, a little at first, twice as fast each further round (as PCP's
//! search), so that capacity set free is found in O(log n) round trips.
//!
//! The target is a span of time that is shorter the more a flow carries, and hardly depends on its round trip. Flows
//! that share a bottleneck see the same queue: only at equal rates are they all at their targets.

mod delay;
mod loss;
mod receiver;
mod rivals;

use super::{AckSample, BURST, ControlConfig, Controller, LossSample, Snapshot};
use crate::units::{DatagramNumber, Rate, Time, nanos};
use core::time::Duration;
use delay::QueueDelay;
use loss::{Counted, LossWatch, chance};
use receiver::ReceiverBound;
use rivals::{Compete, Vigil};

/// See the [module](self).
#[derive(Debug)]
pub struct Adaptive {
    datagram_len: f64,
    is_background: bool,
    /// What the path carries, bit/s, in terms of what is sent (random loss included).
    bandwidth: f64,
    /// Extra rate share while the queue stays empty.
    growth: f64,
    /// While the first rate is sought: what the train said there is at most.
    startup: Option<f64>,
    state: State,
    rtt: Duration,
    delay: QueueDelay,
    loss: LossWatch,
    ceiling: Ceiling,
    refresh: Refresh,
    vigil: Vigil,
    tick: Tick,
    round: Round,
    /// When something was last lost on a path that loses nothing by chance.
    dropped_at: Time,
    /// When a queue was last found to be none.
    rebased_at: Time,
    receiver: ReceiverBound,
    /// The first datagram sent after startup went to the train's rate at once.
    jumped: DatagramNumber,
    /// What the path carried before timeouts in a row.
    before_outage: Option<f64>,
    started: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The first datagrams leave as a train; its dispersion tells the path's rate.
    Train,
    Cruise,
    /// Sending below the delivered rate, to see whether loss goes away.
    Test(Test),
    /// Sending less by the share `depth` until `until`, to see the delay of an empty queue.
    Refresh {
        until: Time,
        depth: f64,
    },
    /// Others fill the queue.
    Compete(Compete),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Test {
    began: Time,
    /// The first datagram sent at the lower rate.
    from: DatagramNumber,
    /// Where counting began: once what was sent before is through.
    counted: Option<Counted>,
    /// What called for the test.
    loss: f64,
    delivered: f64,
    queue_ns: f64,
}

/// A stretch of acknowledgements over which rate and delay are measured.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    began: Time,
    arrival: Time,
    received: u64,
    app_limited: bool,
    samples: u32,
}

/// About a round trip, after which the rate may grow.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ends: DatagramNumber,
    began: Time,
    arrival: Time,
    received: u64,
    /// All that was delivered in it had left at the present rate.
    is_settled: bool,
    ticks: u32,
    /// Largest delivery rate of its ticks.
    delivered_max: f64,
    /// Whether any of its ticks saw a queue.
    queued: bool,
    /// Shortest queue of its ticks, ns.
    queue_least_ns: f64,
    /// The longest, of the round before, too.
    queue_most_ns: f64,
    app_limited: bool,
}

/// What is known of the bottleneck's limits from having met them.
#[derive(Clone, Copy, Debug)]
struct Ceiling {
    /// The target's base that makes half of the queue that was there when the path last dropped for want of room.
    room_ns: f64,
    /// Bursts that the queue takes, ns.
    burst_ns: f64,
    /// Until then the rate does not grow.
    hold_until: Time,
    /// How long it did not, the last time, and at which bandwidth.
    hold: Duration,
    bandwidth: f64,
}

/// When the queue is next emptied on purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Refresh {
    /// Not before.
    next: Time,
    /// What was sent until now, in a refresh, is still on its way.
    settles: Time,
    /// Refreshes in a row after which the queue was not empty.
    failures: u32,
    /// Series of failures in a row.
    series: u32,
    /// Largest bandwidth before the failures.
    bandwidth: f64,
    /// How long the queue may stay without being empty: short while little is known, longer with every success.
    every: Duration,
}

impl Refresh {
    fn is_failing(&self) -> bool {
        self.failures > 0 || self.series > 0
    }
}

impl Adaptive {
    /// Begin at the rate that the path check told, or with a train.
    pub fn new(config: ControlConfig) -> Adaptive {
        let rtt = config.rtt.max(RTT_MIN);
        let burst_ns = (nanos(rtt) as f64 * BURST_SHARE).clamp(BURST_FIRST_NS, nanos(BURST) as f64);
        let mut adaptive = Adaptive {
            datagram_len: config.datagram_len as f64,
            is_background: config.background,
            bandwidth: f64::INFINITY,
            growth: 0.0,
            startup: None,
            state: State::Train,
            rtt,
            delay: QueueDelay::default(),
            loss: LossWatch::default(),
            ceiling: Ceiling {
                room_ns: f64::INFINITY,
                burst_ns,
                hold_until: Time::ZERO,
                hold: Duration::ZERO,
                bandwidth: 0.0,
            },
            refresh: Refresh { every: REFRESH_FIRST.max(rtt * REFRESH_FIRST_ROUNDS), ..Refresh::default() },
            vigil: Vigil::default(),
            tick: Tick::default(),
            round: Round::default(),
            dropped_at: Time::ZERO,
            rebased_at: Time::ZERO,
            receiver: ReceiverBound::new(),
            jumped: 0,
            before_outage: None,
            started: false,
        };
        if let Some(path) = config.path_rate {
            adaptive.start_up(path.rate.0 as f64, path.is_bottleneck);
        }
        adaptive
    }

    /// Go on after another controller has driven the flow, at the rate that it left.
    pub(super) fn resume(&mut self, rate: Rate) {
        self.bandwidth = (rate.0 as f64).max(RATE_MIN);
        self.growth = 0.0;
        self.startup = None;
        self.state = State::Cruise;
    }

    /// A train came in at `rate`. The path may be in use by others, so half of it is sent first. A train that the path
    /// did not stretch tells only that there is at least so much: go on doubling then.
    fn start_up(&mut self, rate: f64, is_bottleneck: bool) {
        self.state = State::Cruise;
        self.growth = GROWTH_MAX;
        self.bandwidth = (rate * STARTUP_SHARE / (1.0 + GROWTH_MAX)).max(RATE_MIN);
        self.startup = Some(if is_bottleneck { rate } else { f64::INFINITY });
    }

    /// The queue aimed at: long enough that the bottleneck never idles, short against a round trip, and shorter the
    /// more we carry.
    fn target_ns(&self) -> f64 {
        let base = self.target_base_ns().min(self.ceiling.room_ns);
        base * self.target_share() + (NOISE_FACTOR * self.delay.noise_ns).min(NOISE_TARGETS * base)
    }

    fn target_base_ns(&self) -> f64 {
        (TARGET_SHARE * nanos(self.rtt) as f64 + TARGET_MIN_NS).min(TARGET_MAX_NS)
    }

    fn target_share(&self) -> f64 {
        if self.is_background {
            return BACKGROUND_TARGET;
        }
        (TARGET_RATE / self.bandwidth).cbrt().min(TARGET_FACTOR_MAX)
    }

    /// The queue that is ours or that of our like, at most.
    fn own_queue_ns(&self) -> f64 {
        let target = self.target_base_ns() * self.target_share();
        OWN_QUEUE_TARGETS * target + OWN_QUEUE_SHARE * nanos(self.rtt) as f64 + OWN_QUEUE_NS
    }

    fn rate(&self) -> f64 {
        let rate = match self.state {
            State::Train => self.bandwidth,
            State::Test(test) => test.delivered * TEST_FACTOR,
            State::Refresh { depth, .. } => self.bandwidth * (1.0 - depth),
            State::Compete(compete) => compete.rate(self.rtt, self.delay.queue_ns, self.datagram_len),
            State::Cruise => {
                let error = (self.target_ns() - self.delay.queue_ns) / (nanos(self.rtt) as f64 + LOOP_LAG_NS);
                let factor = (1.0 + self.growth + GAIN * error).clamp(FACTOR_MIN, FACTOR_MAX);
                self.bandwidth * factor
            }
        };
        rate.min(self.receiver.limit).max(RATE_MIN)
    }

    fn end_tick(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.tick.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.tick.received);
        let delivered = Rate::measured(bytes, span).0 as f64;
        let patience = if self.is_background { PATIENCE_BACKGROUND } else { PATIENCE };
        self.delay.end_tick(ack.now, self.target_ns(), patience);
        let noise_ns = QUEUE_NOISE_NS.min(self.ceiling.room_ns);
        let queued = self.delay.queue_ns > (self.target_ns() / 2.0).max(noise_ns);
        if span > Duration::ZERO {
            self.learn_bandwidth(ack.now, delivered / (1.0 - self.loss.random).max(0.1), queued);
            self.round.delivered_max = self.round.delivered_max.max(delivered);
            self.round.ticks += 1;
        }
        if queued {
            (self.growth, self.startup) = (0.0, None);
        } else if let Some(limit) = self.startup
            && delivered >= limit * STARTUP_SHARE * DELIVERED_ENOUGH
        {
            // Half of it passes and nothing waits: the rest is free as well.
            (self.growth, self.startup, self.bandwidth) = (0.0, None, limit);
            (self.jumped, self.round.is_settled) = (ack.next_number, false);
        }
        self.round.queued |= queued;
        self.round.queue_least_ns = self.round.queue_least_ns.min(self.delay.queue_ns);
        self.round.queue_most_ns = self.round.queue_most_ns.max(self.delay.queue_ns);
        self.round.app_limited |= self.tick.app_limited;
        if let State::Compete(mut compete) = self.state {
            let own_ns = self.target_ns();
            let gone = compete.end_tick(ack.now, self.rtt, self.delay.queue_ns, own_ns);
            self.state = if gone { State::Cruise } else { State::Compete(compete) };
        }
        self.begin_tick(ack);
    }

    /// The tick delivered `carried`, made up for random loss.
    fn learn_bandwidth(&mut self, now: Time, carried: f64, queued: bool) {
        let settled = now >= self.refresh.settles && !matches!(self.state, State::Refresh { .. });
        if queued && !self.tick.app_limited {
            if settled || carried > self.bandwidth {
                self.bandwidth += (carried - self.bandwidth) * BANDWIDTH_GAIN;
            }
        } else if carried > self.bandwidth && self.growth > 0.0 {
            // Without a queue the delivered rate follows the sent rate: a lower bound of the path's.
            let bound = if self.tick.app_limited { self.bandwidth * 1.1 } else { f64::INFINITY };
            self.bandwidth = carried.min(bound);
        }
        self.bandwidth = self.bandwidth.max(RATE_MIN);
    }

    fn begin_tick(&mut self, ack: &AckSample) {
        self.tick = Tick {
            began: ack.now,
            arrival: ack.arrival,
            received: ack.received_bytes,
            app_limited: false,
            samples: 0,
        };
    }

    fn end_round(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.round.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.round.received);
        let delivered = if span.is_zero() { 0.0 } else { Rate::measured(bytes, span).0 as f64 };
        match self.state {
            State::Test(test) => self.judge(ack, test),
            State::Compete(_) => {}
            _ => self.watch(ack, delivered),
        }
        let carried = delivered / (1.0 - self.loss.random).max(0.1);
        if !self.round.queued && !self.round.app_limited && self.state == State::Cruise {
            self.bandwidth = self.bandwidth.max(carried);
        }
        if self.bandwidth > self.ceiling.bandwidth * CEILING_GONE {
            self.ceiling.hold = Duration::ZERO;
        }
        let grows = self.state == State::Cruise
            && !self.round.queued
            && !self.round.app_limited
            && ack.now >= self.ceiling.hold_until
            && self.round.delivered_max >= DELIVERED_ENOUGH * self.bandwidth * (1.0 - self.loss.random);
        if !grows {
            self.startup = None;
        }
        self.growth = match (grows, self.startup) {
            (false, _) => 0.0,
            (true, Some(_)) => GROWTH_MAX,
            (true, None) => (self.growth * 2.0).clamp(GROWTH_FIRST, GROWTH_MAX),
        };
        self.begin_round(ack);
    }

    fn begin_round(&mut self, ack: &AckSample) {
        self.round = Round {
            ends: ack.next_number,
            began: ack.now,
            arrival: ack.arrival,
            received: ack.received_bytes,
            is_settled: ack.largest >= self.jumped,
            queue_least_ns: f64::INFINITY,
            queue_most_ns: self.delay.queue_ns,
            ..Round::default()
        };
    }

    /// End of a round that is no test: too much loss, or rivals?
    fn watch(&mut self, ack: &AckSample, delivered: f64) {
        // What was delivered before the rate jumped says nothing of the path: no test could be sized by it.
        if self.startup.is_none() && !self.round.is_settled {
            return;
        }
        // While the rate doubles, what a full bottleneck drops is soon half of it: anything less can wait.
        let tolerated = if self.startup.is_some() { STARTUP_LOSS } else { 0.0 };
        if let Some(loss) = self.loss.excess(ack, self.datagram_len).filter(|loss| *loss > tolerated) {
            let delivered = if self.growth > 0.0 { self.round.delivered_max } else { delivered };
            (self.growth, self.startup) = (0.0, None);
            self.state = State::Test(Test {
                began: ack.now,
                from: ack.next_number,
                counted: None,
                loss,
                delivered,
                queue_ns: self.round.queue_most_ns,
            });
            return;
        }
        if self.state != State::Cruise {
            return;
        }
        let least_ns = self.round.queue_least_ns;
        let Some(before) = self.vigil.end_round(
            ack.now,
            least_ns,
            STUCK * self.target_base_ns() * self.target_share(),
            self.bandwidth,
        ) else {
            return;
        };
        self.vigil = Vigil::default();
        self.give_in(ack.now, least_ns, before);
    }

    /// End of a round in a test: once what was sent at the old rate is through, count; when enough is counted, judge.
    fn judge(&mut self, ack: &AckSample, test: Test) {
        let Some(counted) = test.counted else {
            if ack.largest >= test.from {
                self.state = State::Test(Test { counted: Some(Counted::at(ack)), ..test });
            }
            return;
        };
        let (datagrams, loss) = counted.until(ack, self.datagram_len);
        let is_long = ack.now >= test.began + TEST_MAX.max(self.rtt * TEST_ROUNDS_MAX);
        if datagrams < self.loss.datagrams_to_judge(test.loss) && !is_long {
            return;
        }
        let (before, now) = (test.loss - self.loss.random, loss - self.loss.random);
        let still = now > before / 2.0 || before - now < chance(self.loss.random, datagrams);
        self.loss.random = loss;
        self.loss.restart(ack);
        self.state = State::Cruise;
        if !still {
            // It was ours: what was delivered while it lasted is what the path carries.
            self.bandwidth = (test.delivered / (1.0 - loss).max(0.1)).max(RATE_MIN);
            self.meet_ceiling(ack.now, test.queue_ns);
        }
    }

    /// The path dropped for want of room when its queue was `queue_ns` long by our measure.
    fn meet_ceiling(&mut self, now: Time, queue_ns: f64) {
        let share = self.target_share();
        let ceiling = &mut self.ceiling;
        if queue_ns < ROOM_MIN_NS.max(ceiling.burst_ns) {
            ceiling.burst_ns /= 2.0;
        }
        ceiling.room_ns = (queue_ns / 2.0 / share).max(ROOM_MIN_NS);
        ceiling.hold = (ceiling.hold * 2)
            .clamp((self.rtt * HOLD_ROUNDS).max(HOLD_MIN), HOLD_MAX.max(self.rtt * HOLD_ROUNDS));
        ceiling.hold_until = now + ceiling.hold;
        ceiling.bandwidth = self.bandwidth;
    }

    /// Begin or end a refresh. Its clock starts when the queue was last seen empty: flows that share a bottleneck see
    /// that at the same moment, so that they refresh together from then on (as BBR's do).
    fn refresh(&mut self, now: Time) {
        match self.state {
            State::Refresh { until, .. } if now >= until => {
                self.state = State::Cruise;
                self.ceiling.room_ns *= ROOM_RECOVERY;
                self.refresh.settles = now + self.rtt + self.rtt / 4;
                self.refresh.next = self.refresh.settles;
            }
            State::Cruise if now >= self.refresh.next && now >= self.delay.empty_at + self.refresh.every => {
                if self.refresh.failures == 0 {
                    self.refresh.bandwidth = self.refresh.bandwidth.max(self.bandwidth);
                }
                if self.refresh.failures < FAILURES_MAX {
                    self.begin_refresh(now);
                } else {
                    self.fail_refresh(now);
                }
            }
            State::Cruise if self.refresh.is_failing() && now < self.delay.empty_at + self.refresh.every => {
                (self.refresh.failures, self.refresh.series, self.refresh.bandwidth) = (0, 0, 0.0);
                self.refresh.every = (self.refresh.every * 2).min(REFRESH_EVERY);
            }
            _ => {}
        }
    }

    /// However little we sent, the queue was not empty. If packets were dropped as well, somebody fills it to the brim.
    fn fail_refresh(&mut self, now: Time) {
        self.refresh.failures = 0;
        self.refresh.series += 1;
        self.refresh.next = now + self.refresh.every;
        let queue_ns = self.delay.queue_ns;
        let is_rivals = self.dropped_at > self.delay.empty_at && self.refresh.series >= SERIES_MAX;
        if is_rivals && !self.is_background {
            self.compete(now, self.refresh.bandwidth);
        } else if queue_ns < RIVAL_QUEUE_NS || queue_ns > self.own_queue_ns() {
            self.give_in(now, queue_ns, self.bandwidth);
        }
    }

    /// Send less for as long as it takes to empty the queue, if all who fill it do the same.
    fn begin_refresh(&mut self, now: Time) {
        let rtt_ns = nanos(self.rtt) as f64;
        let target_ns = self.target_ns();
        let drain_ns = self.delay.queue_ns.min(2.0 * target_ns) + target_ns / 2.0 + REFRESH_MARGIN * rtt_ns;
        let wanted = drain_ns / rtt_ns * f64::from(1 << self.refresh.failures);
        let depth = wanted.clamp(DEPTH_MIN, DEPTH_MAX);
        let span_ns = rtt_ns * (wanted / depth).clamp(1.0, 2.0) + nanos(TICK_MIN) as f64;
        self.state = State::Refresh { until: now + Duration::from_nanos(span_ns as u64), depth };
        self.refresh.failures += 1;
        self.growth = 0.0;
    }

    /// The queue stays although we sent less. One that is long, that drops, or that came back after we thought it was
    /// none, is a rival's; a short one was none: the way is longer now, or its least delay was luck.
    fn give_in(&mut self, now: Time, queue_ns: f64, bandwidth_before: f64) {
        let again = now.since(self.rebased_at) < REBASED_LATELY.max(self.rtt * REFRESH_FIRST_ROUNDS);
        let dropped = self.dropped_at > Time::ZERO && now.since(self.dropped_at) < REBASED_LATELY;
        if queue_ns < self.own_queue_ns() && !((again || dropped) && queue_ns > RIVAL_QUEUE_NS) {
            self.delay.rebase(now);
            self.ceiling.room_ns = f64::INFINITY;
            self.rebased_at = now;
            self.refresh.every = REFRESH_FIRST.max(self.rtt * REFRESH_FIRST_ROUNDS);
            self.bandwidth = bandwidth_before;
        } else if !self.is_background {
            self.compete(now, bandwidth_before);
        }
    }

    /// Hold our own, beginning at `bandwidth`.
    fn compete(&mut self, now: Time, bandwidth: f64) {
        let round_s = (nanos(self.rtt) as f64 + self.delay.queue_ns) / 1e9;
        self.state = State::Compete(Compete::new(now, bandwidth * round_s / 8.0 / self.datagram_len));
        (self.refresh.failures, self.refresh.series, self.refresh.bandwidth) = (0, 0, 0.0);
    }

    /// The train's acknowledgements: from the second on, their spacing is the path's.
    fn read_train(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.tick.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.tick.received);
        if bytes > 0 && span > Duration::ZERO {
            self.bandwidth = Rate::measured(bytes, span).0 as f64;
        }
        if bytes as f64 >= TRAIN_READ * self.datagram_len {
            self.leave_train();
            self.begin_tick(ack);
            self.begin_round(ack);
        }
    }

    /// Begin with what the train said until now.
    fn leave_train(&mut self) {
        self.start_up(self.bandwidth.min(TRAIN_RATE), self.bandwidth < TRAIN_RATE * TRAIN_STRETCHED);
    }
}

impl Controller for Adaptive {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(before) = self.before_outage.take() {
            // The path is back, most likely as it was; half of it is safe to begin with.
            self.bandwidth = self.bandwidth.max(before / 2.0);
        }
        self.rtt = ack.rtt_min.max(RTT_MIN);
        self.delay.sample(ack.one_way_ns, ack.rtt);
        self.tick.app_limited |= ack.app_limited;
        self.tick.samples += 1;
        if !self.started {
            (self.started, self.delay.empty_at) = (true, ack.now);
            self.begin_tick(ack);
            self.begin_round(ack);
            return;
        }
        if self.state == State::Train {
            self.read_train(ack);
            return;
        }
        self.refresh(ack.now);
        self.receiver.heed(ack, self.rtt, self.rate(), self.bandwidth);
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

    fn on_loss(&mut self, loss: &LossSample) {
        if self.loss.random < RANDOM_NONE {
            self.dropped_at = loss.now;
        }
        match &mut self.state {
            State::Compete(compete) if loss.new_episode => compete.on_loss(loss.now),
            // So little of the train came through that its reading was waited for in vain.
            State::Train if self.started && self.bandwidth < f64::INFINITY => self.leave_train(),
            _ => {}
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        // Circuit breaker: nothing comes back at all.
        self.before_outage.get_or_insert(self.bandwidth);
        self.bandwidth = (self.bandwidth / 2.0).max(RATE_MIN);
        (self.growth, self.startup) = (0.0, None);
        if matches!(self.state, State::Compete(_)) {
            self.state = State::Cruise;
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.state == State::Train {
            return None;
        }
        Some(Rate(self.rate() as u64))
    }

    fn window(&self) -> Option<u64> {
        if self.state == State::Train {
            return Some((TRAIN_LEN * self.datagram_len) as u64);
        }
        // What the path and the target queue hold, and what the receiver may not have acknowledged yet.
        let span_ns = nanos(self.rtt) as f64 * 1.25 + 2.0 * self.target_ns() + WINDOW_SLACK_NS;
        let mut rate = self.bandwidth * (1.0 + self.growth);
        let mut bytes = rate * span_ns / 8e9 / (1.0 - self.loss.random).max(0.5);
        if let State::Compete(compete) = self.state {
            rate = self.rate();
            bytes = bytes.max(compete.window() * self.datagram_len + rate * span_ns / 4.0 / 8e9);
        }
        Some(bytes.max(TRAIN_LEN * self.datagram_len) as u64)
    }

    fn burst(&self) -> Duration {
        let is_test = matches!(self.state, State::Test(_));
        let burst_ns = self.ceiling.burst_ns * if is_test { BURST_TEST } else { 1.0 };
        Duration::from_nanos(burst_ns as u64)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            bandwidth: Some(Rate(self.bandwidth as u64)),
            queue_delay: Duration::from_nanos(self.delay.queue_ns.max(0.0) as u64),
            random_loss: self.loss.random,
            receiver_bound: self.receiver.limit < self.bandwidth,
            phase: match self.state {
                State::Train => "train",
                State::Cruise if self.startup.is_some() => "startup",
                State::Cruise => "cruise",
                State::Test(_) => "test",
                State::Refresh { .. } => "refresh",
                State::Compete(_) => "compete",
            },
        }
    }
}

/// The queue aimed at: this share of the round trip and this much …
const TARGET_SHARE: f64 = 0.09;
const TARGET_MIN_NS: f64 = 200_000.0;
/// … up to this, the same for all but the shortest paths, so that a longer round trip earns no larger share …
const TARGET_MAX_NS: f64 = 2_000_000.0;
/// … by a flow that carries so much (bit/s); by the cube root less by one that carries more: twice the rate at a target
/// a fifth lower. Steeper would share more firmly, and leave no target that can be measured at 10 Gb/s.
const TARGET_RATE: f64 = 1e8;
/// A slower flow's target grows no further than this.
const TARGET_FACTOR_MAX: f64 = 4.0;
/// What the measured delay strays by goes on top, so many times, up to so many bases.
const NOISE_FACTOR: f64 = 2.0;
const NOISE_TARGETS: f64 = 0.35;
/// In the background, the share of the target: far below that of any other flow.
const BACKGROUND_TARGET: f64 = 0.3;
/// A queue longer than so many targets by this share of the round trip and this much is not the work of our like.
const OWN_QUEUE_TARGETS: f64 = 1.5;
const OWN_QUEUE_SHARE: f64 = 0.05;
const OWN_QUEUE_NS: f64 = 2e6;
/// A queue that stays longer than this many targets while we yield is not ours.
const STUCK: f64 = 1.3;
/// A queue shorter than this is noise.
const QUEUE_NOISE_NS: f64 = 300_000.0;
/// Rate change for a queue that is off by one round trip. With a feedback delay of about 1.3 round trips the loop gain
/// is 0.8, well below the π/2 at which a proportional loop begins to swing.
const GAIN: f64 = 0.65;
/// What a tick and the host's timers add to the feedback delay.
const LOOP_LAG_NS: f64 = 15e6;
const FACTOR_MIN: f64 = 0.35;
const FACTOR_MAX: f64 = 2.5;
/// Weight of a new delivery rate while there is a queue.
const BANDWIDTH_GAIN: f64 = 0.4;
/// Share of the bandwidth that must have been delivered in a round before the rate grows.
const DELIVERED_ENOUGH: f64 = 0.85;
/// Extra rate after the first and after many rounds without a queue.
const GROWTH_FIRST: f64 = 0.05;
const GROWTH_MAX: f64 = 1.0;
/// Share of the train's rate that is sent first.
const STARTUP_SHARE: f64 = 0.5;
/// Loss that can wait until the first rate is found.
const STARTUP_LOSS: f64 = 0.15;
/// Rounds without growth after congestion loss, twice as many each time that it is met again, within bounds.
const HOLD_ROUNDS: u32 = 6;
const HOLD_MIN: Duration = Duration::from_millis(200);
const HOLD_MAX: Duration = Duration::from_secs(5);
/// So far above the ceiling last met, it is another.
const CEILING_GONE: f64 = 1.1;
/// However little room the path's queue has, this much is aimed at …
const ROOM_MIN_NS: f64 = 100_000.0;
/// … and more again after each refresh.
const ROOM_RECOVERY: f64 = 1.5;
/// The first bursts: this share of a round trip (queues are sized by it), and what a 10 Gb/s host needs for one system
/// call to carry 40 datagrams.
const BURST_SHARE: f64 = 1.0 / 16.0;
const BURST_FIRST_NS: f64 = 50_000.0;
/// In a test bursts are shorter by this, to see whether it was them.
const BURST_TEST: f64 = 0.25;
/// In a test, the share of the delivered rate that is sent.
const TEST_FACTOR: f64 = 0.9;
/// It takes no longer than this, or so many round trips.
const TEST_MAX: Duration = Duration::from_secs(1);
const TEST_ROUNDS_MAX: u32 = 4;
/// Empty the queue if it has not been for so long; at first, and when the base delay was wrong, sooner.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
const REFRESH_FIRST: Duration = Duration::from_millis(500);
const REFRESH_FIRST_ROUNDS: u32 = 10;
/// A queue that is back after so short a time was not none …
const REBASED_LATELY: Duration = Duration::from_secs(5);
/// … unless jitter explains it.
const RIVAL_QUEUE_NS: f64 = 3e6;
/// How far below an empty queue that goes, in round trips.
const REFRESH_MARGIN: f64 = 0.01;
/// By which share less is sent meanwhile.
const DEPTH_MIN: f64 = 0.03;
const DEPTH_MAX: f64 = 0.5;
/// After so many in vain, each twice as deep, it is left for a while.
const FAILURES_MAX: u32 = 4;
/// So many such series, and a loss meanwhile, are the work of rivals.
const SERIES_MAX: u32 = 2;
/// On a path that loses less than this share by chance, a loss is a full queue.
const RANDOM_NONE: f64 = 0.001;
/// How long an old base delay is believed while the queue never runs empty.
const PATIENCE: Duration = Duration::from_secs(40);
const PATIENCE_BACKGROUND: Duration = Duration::from_secs(600);
/// Ticks in a round trip, and their length's bounds.
const TICKS_PER_RTT: u32 = 3;
const TICK_MIN: Duration = Duration::from_millis(4);
const TICK_MAX: Duration = Duration::from_millis(50);
/// The first train: so many datagrams back to back; read when so many have come in after its first. Above this rate
/// (bit/s) hosts that bundle arrivals leave no spacing to be read; it was stretched if it came in below this share.
const TRAIN_LEN: f64 = 32.0;
const TRAIN_RATE: f64 = 2e9;
const TRAIN_READ: f64 = 12.0;
const TRAIN_STRETCHED: f64 = 0.9;
/// Never slower: a datagram every 120 ms.
const RATE_MIN: f64 = 100_000.0;
const RTT_MIN: Duration = Duration::from_micros(50);
/// Acknowledgements are held back and bundled by about this much.
const WINDOW_SLACK_NS: f64 = 2_000_000.0;
