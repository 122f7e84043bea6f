//! The default: paces at what the path delivers, keeps a short queue at the bottleneck, tolerates random loss,
//! shares with its like, holds its own beside those who fill queues.
//!
//! It paces; its window only bounds what could pile up if acknowledgements stopped. Every constant has its reason
//! beside it. Three measurements, all from cumulative counters and arrival times, steer it:
//!
//! * **delivery rate** over a third of a round trip: while the bottleneck's queue holds something, that *is* the
//!   path's rate, or our share of it; otherwise a lower bound of it.
//! * **queueing delay** (`delay.rs`): least delay of a tick over the least of the last while. The smaller of what
//!   one-way delays (they do not see the way back) and round trips (they do not drift) say. A stretch in which the
//!   queue never ran empty does not make a new base.
//! * **loss share** (`loss.rs`), over 200 datagrams and over 2000, without what the receiving host itself dropped, and
//!   by how much it strays by chance: what is lost in bursts strays more.
//!
//! A sending host that was late says nothing of the path: what was delivered meanwhile does not lower the rate.
//!
//! ```text
//! Train ──▶ Cruise ◀──▶ Test        loss rose: send less for a while. Does it go away? Then it was ours
//!           ▲ ▼  ▲ ▼
//!        Refresh  Compete           others fill the queue: hold our own
//!        every two seconds: send less for a round trip, to see the true delay
//! ```
//!
//! In *Cruise* the rate is the delivery rate times `1 + growth + GAIN × (target − queue) / (rtt + 15 ms)`, within
//! bounds: proportional control on the queue. With an empty queue the rate grows, each round twice
//! as fast as the last, so capacity set free is found in O(log n) round trips. The **target** (`target.rs`) is a
//! span of time that falls with the square root of what the flow carries and, above 20 ms, does not depend on the
//! round trip. Flows at one bottleneck see one queue, so only at equal rates are all at their targets: that is what
//! makes them share equally.
//!
//! *Refresh* (`refresh.rs`) is the one clock of all states. It empties the queue, and its time counts from when the
//! queue was last seen *shortest*: all flows of our kind at a bottleneck see that at the same moment, whatever each
//! takes for the delay of the empty path, so they send less together, those that compete as well. Then the queue runs
//! empty, everybody sees the true delay, and who was wrong about it is put right. If it does not run empty, others
//! fill it. If it always stops at the same delay and nothing is lost, that is the route's. `route.rs` finds a change for one who
//! had the link: a delay that grew at once, or that the first refresh in vain has met, does not fall while half is sent.
//!
//! *Company* (`company.rs`) is told by packet pairs (`pairs.rs`): what most of them agree on is the link, whoever uses
//! it. Who gets less than 70 % of it shares it (where hosts bundle arrivals and pairs do not agree, who meets a queue
//! longer than its own), and there a loss is everybody's: no trial of one flow could find its reason. If the
//! queue is longer than our like make it, if the delay that it is measured by was refuted, or if there are so few
//! datagrams a round trip that they tell too little, the flow competes at once. So it does where it had less than 90 % since the
//! last refresh and yet a queue stood for most of the time: alone it would have had the link; and where a first train
//! was lost in part, and then a tenth of less than the link carries while the first rate is sought.
//!
//! *Test* (`ceiling.rs`), for all other losses, tells random loss from congestion: the rate goes below what was
//! delivered. If loss stays, it is the path's way: its share is remembered and the rate comes back. If it goes, what
//! was delivered is taken as the path's rate, the queue aimed at is from then on shorter than the one that overflowed,
//! and if there was hardly a queue, bursts become shorter. Only a test raises the share that counts as random: if it
//! followed what is measured while the bottleneck is full, the sender would make up for its own congestion by sending
//! more. No test makes more than a fifth random. Where no queue was, only what comes in of what was on its way when the test
//! began tells what passes: a policer lets a burst go first.
//!
//! A *policer* (`policer.rs`) is what such a loss tells where a burst had passed, no queue grew and the link is faster: just less
//! than its rate is sent, and a little more tried now and then, as after every ceiling, until it drops again (then its rate is
//! measured anew) or more has passed than it could let pass.
//!
//! A *mark* (`marks.rs`) says what a loss says when a queue has no room, and nothing is missing: growth ends, the queue aimed
//! at is half of what it was, or of the one that marked, and beside others the flow competes, until it has all of the link or
//! no mark came for ten seconds.
//!
//! *Compete* (`rivals.rs`): the window is CUBIC's (`window/cubic.rs`), or, while a BBR is there, BBR's: loss does not
//! move that, and it betrays itself, for every ten seconds it drains the queue. While that is as deep as a BBR makes it, we
//! take half of the link at most. The flow cruises again when a refresh meets the delay of the empty path, or when all that
//! the link carries is delivered. In the background it does not compete but yields.
//!
//! The first estimate is the path check's train, or one of our own; seven tenths of it are sent first, and the rest
//! is taken once these have passed without a queue. A receiver that drops, refuses or fills up bounds the rate by
//! what it took lately (`receiver.rs`), and this is kept apart from the path. Each timeout halves the rate
//! (circuit breaker), and half of the old rate is taken up when the path is back.
//!
//! What it makes of a grid of paths: the experiment `grid`; how flows share one: `cargo run --release -p longhaul-sim
//! --example share adaptivex4/3` or `adaptive,tcp:cubic@5`; what it does to others, row by row: the experiment
//! `sharing` and `docs/sharing.md`.
//!
//! In the background (`ControlConfig::background`) datagrams are also marked lower effort (RFC 8622).

mod ceiling;
mod company;
mod delay;
mod known;
mod loss;
mod marks;
mod pairs;
mod policer;
mod receiver;
mod refresh;
mod rivals;
mod route;
mod startup;
mod target;

use super::window::ledbat::{BASE_HISTORY, BASE_SLOT};
use super::window::{BETA, SSTHRESH_MIN};
use super::{
    AckSample, BURST, ControlConfig, Controller, LossSample, ProbeTrain, RATE_MIN, Sent, Snapshot,
    TimedArrival,
};
use crate::pacer::CATCH_UP;
use crate::units::{DatagramNumber, Rate, Time, nanos};
use ceiling::{Ceiling, Test};
use core::time::Duration;
use delay::QueueDelay;
use known::Known;
use loss::{Counted, LossWatch, RANDOM_MAX};
use marks::Marks;
use pairs::Pairs;
use policer::{Climb, Policer};
use receiver::ReceiverBound;
use refresh::Refresh;
use rivals::{Compete, Dips, SEEN_LATELY};
use route::Jump;
use startup::TRAIN_LEN;
use target::TARGET_MAX_NS;

/// See the [module](self).
#[derive(Debug)]
pub struct Adaptive {
    config: ControlConfig,
    datagram_len: f64,
    is_background: bool,
    /// What the path carries, bit/s, in terms of what is sent (random loss included).
    bandwidth: f64,
    /// What the train said that the link carries.
    link: Option<f64>,
    /// Extra rate share while the queue stays empty.
    growth: f64,
    /// While the first rate is sought: what the train said there is at most.
    startup: Option<f64>,
    /// The first train met a full queue.
    met_full: bool,
    state: State,
    rtt: Duration,
    delay: QueueDelay,
    loss: LossWatch,
    marks: Marks,
    ceiling: Ceiling,
    policer: Option<Policer>,
    climb: Climb,
    refresh: Refresh,
    tick: Tick,
    round: Round,
    /// When something was last lost.
    lost_at: Time,
    receiver: ReceiverBound,
    /// The first datagram sent after startup went to the train's rate at once.
    jumped: DatagramNumber,
    /// What the path carried before timeouts in a row.
    before_outage: Option<f64>,
    started: bool,
    pairs: Pairs,
    dips: Dips,
    /// The share that was lost of the last few datagrams, and since when they are counted.
    loss_lately: f64,
    lately: Option<Counted>,
    /// When the queue was last as short as our like make it.
    calm: Known,
    jump: Option<Jump>,
}

#[derive(Debug)]
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
    Compete(Box<Compete>),
}

/// A stretch of acknowledgements over which rate and delay are measured.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    began: Time,
    arrival: Time,
    received: u64,
    app_limited: bool,
    samples: u32,
    time_lost: Duration,
}

/// About a round trip, after which the rate may grow.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ends: DatagramNumber,
    began: Time,
    arrival: Time,
    /// What had come in when it began.
    counted: Counted,
    /// Its extra rate, and the largest of it and the round before.
    growth: f64,
    growth_most: f64,
    /// All that was delivered in it had left at the present rate.
    is_settled: bool,
    ticks: u32,
    /// Largest delivery rate of its ticks.
    delivered_max: f64,
    /// The sending host was late in any of its ticks.
    is_late: bool,
    /// Whether any of its ticks saw a queue.
    queued: bool,
    /// Shortest queue of its ticks, ns.
    queue_least_ns: f64,
    /// The longest, of the round before, too.
    queue_most_ns: f64,
    app_limited: bool,
}

impl Adaptive {
    /// Begin at the rate that the path check told, or with a train.
    pub fn new(config: ControlConfig) -> Adaptive {
        let rtt = config.rtt.max(TIMER);
        let mut adaptive = Adaptive {
            config,
            datagram_len: config.datagram_len as f64,
            is_background: config.background,
            bandwidth: f64::INFINITY,
            link: None,
            growth: 0.0,
            startup: None,
            met_full: false,
            state: State::Train,
            rtt,
            delay: QueueDelay::default(),
            loss: LossWatch::default(),
            marks: Marks::default(),
            ceiling: Ceiling::new(rtt),
            policer: None,
            climb: Climb::default(),
            refresh: Refresh::new(rtt),
            tick: Tick::default(),
            round: Round::default(),
            lost_at: Time::ZERO,
            receiver: ReceiverBound::new(),
            jumped: 0,
            before_outage: None,
            started: false,
            pairs: Pairs::default(),
            dips: Dips::default(),
            loss_lately: 0.0,
            lately: None,
            calm: Known::default(),
            jump: None,
        };
        if let Some(path) = config.path_rate {
            adaptive.start_up(path.rate.0 as f64, path.passed.0 as f64, path.is_bottleneck);
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

    fn rate(&self) -> f64 {
        let rate = match &self.state {
            State::Train => self.bandwidth,
            State::Test(test) => test.rate(),
            State::Refresh { depth, .. } => self.bandwidth * (1.0 - depth),
            State::Compete(compete) => compete.rate(),
            State::Cruise => {
                let error = (self.target_ns() - self.delay.queue_ns) / (nanos(self.rtt) as f64 + LOOP_LAG_NS);
                let factor = (1.0 + self.growth + GAIN * error).max(LITTLE);
                self.within_policer(self.bandwidth * factor)
            }
        };
        rate.min(self.receiver.limit).max(RATE_MIN)
    }

    fn end_tick(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.tick.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.tick.received);
        let delivered = Rate::measured(bytes, span).0 as f64;
        let patience = if self.is_background { PATIENCE_BACKGROUND } else { SEEN_LATELY };
        self.delay.end_tick(ack.now, self.target_ns(), patience);
        self.refresh.see(ack.now, self.delay.queue_ns, self.target_ns());
        self.watch_route(ack);
        let sends_less = match &self.state {
            State::Refresh { .. } => true,
            State::Compete(compete) => compete.is_low(),
            _ => ack.now < self.refresh.settles,
        };
        if !sends_less {
            self.dips.end_tick(ack.now, self.delay.queue_ns, self.rtt);
        }
        let noise_ns = NOISE_NS.min(self.ceiling.room_ns);
        // What a host that was busy did not send says nothing of the path.
        let is_late = ack.time_lost.saturating_sub(self.tick.time_lost) > span.mul_f64(ALIKE);
        let queued = self.delay.queue_ns > (self.target_ns() / 2.0).max(noise_ns);
        let is_full = self.delay.queue_ns > (self.target_ns() / 2.0).min(NOISE_NS).max(noise_ns);
        if span > Duration::ZERO {
            let carried = delivered / (1.0 - self.loss.random).max(0.1);
            self.learn_bandwidth(ack.now, carried, is_full && !is_late);
            self.reckon_policer(carried, span.as_secs_f64());
            self.round.delivered_max = self.round.delivered_max.max(delivered);
            self.round.ticks += 1;
        }
        if queued {
            (self.growth, self.startup) = (0.0, None);
        } else if let Some(limit) = self.startup
            && delivered >= limit * ALONE_SHARE * DELIVERED_ENOUGH
        {
            // What is sent passes and nothing waits: the rest is free as well.
            (self.growth, self.startup, self.bandwidth) = (0.0, None, limit);
            (self.jumped, self.round.is_settled) = (ack.next_number, false);
        }
        self.round.is_late |= is_late;
        self.round.queued |= queued;
        self.round.queue_least_ns = self.round.queue_least_ns.min(self.delay.queue_ns);
        self.round.queue_most_ns = self.round.queue_most_ns.max(self.delay.queue_ns);
        self.round.app_limited |= self.tick.app_limited;
        self.begin_tick(ack);
    }

    /// The tick delivered `carried`, made up for random loss.
    fn learn_bandwidth(&mut self, now: Time, carried: f64, is_full: bool) {
        if self.jump.is_some() {
            return;
        }
        let settled = now >= self.refresh.settles && !matches!(self.state, State::Refresh { .. });
        if is_full && !self.tick.app_limited {
            if settled || carried > self.bandwidth {
                self.bandwidth += (carried - self.bandwidth) * BANDWIDTH_GAIN;
            }
        } else if carried > self.bandwidth {
            // Without a queue the delivered rate follows the sent rate: a lower bound of the path's.
            let bound = if self.tick.app_limited { self.bandwidth * (1.0 + ALIKE) } else { f64::INFINITY };
            let gain = if self.growth > 0.0 { 1.0 } else { BANDWIDTH_GAIN };
            self.bandwidth += (carried.min(bound) - self.bandwidth) * gain;
        }
        self.bandwidth = self.bandwidth.max(RATE_MIN);
    }

    fn begin_tick(&mut self, ack: &AckSample) {
        if self.policer.is_none() {
            self.climb.note(ack);
        }
        self.tick = Tick {
            began: ack.now,
            arrival: ack.arrival,
            received: ack.received_bytes,
            app_limited: false,
            samples: 0,
            time_lost: ack.time_lost,
        };
    }

    fn end_round(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.round.arrival);
        let bytes = self.round.counted.received_until(ack);
        let delivered = if span.is_zero() { 0.0 } else { Rate::measured(bytes, span).0 as f64 };
        match &self.state {
            State::Test(test) => {
                let test = *test;
                self.judge(ack, test, delivered);
            }
            State::Compete(_) => self.look_beside_rivals(ack.now, delivered),
            _ if self.meets_others(ack, delivered) => self.compete_at(delivered * BETA),
            _ => self.watch(ack, delivered),
        }
        let carried = delivered / (1.0 - self.loss.random).max(0.1);
        if !self.round.queued && !self.round.app_limited && matches!(self.state, State::Cruise) {
            self.bandwidth = self.bandwidth.max(carried);
        }
        if self.policer.is_none() && self.bandwidth > self.ceiling.bandwidth * (1.0 + ALIKE) {
            self.ceiling.hold = Duration::ZERO;
        }
        let grows = matches!(self.state, State::Cruise)
            && !self.round.queued
            && !self.round.app_limited
            && ack.now >= self.ceiling.hold_until
            && self.round.delivered_max >= DELIVERED_ENOUGH * self.bandwidth * (1.0 - self.loss.random);
        if !grows {
            self.startup = None;
        }
        if let Some(policer) = self.policer
            && self.growth == 0.0
        {
            self.bandwidth = self.bandwidth.min(policer.rate);
        }
        self.growth = match (grows, self.startup) {
            (false, _) => 0.0,
            (true, Some(_)) => GROWTH_MAX,
            (true, None) => (self.growth * 2.0).clamp(GROWTH_FIRST, GROWTH_MAX),
        };
        self.begin_round(ack);
    }

    fn begin_round(&mut self, ack: &AckSample) {
        if self.growth == 0.0 && self.round.is_settled && !matches!(self.state, State::Test(_)) {
            self.climb.restart();
        }
        self.round = Round {
            ends: ack.next_number,
            began: ack.now,
            arrival: ack.arrival,
            counted: Counted::at(ack),
            is_settled: ack.largest >= self.jumped || self.jumped > ack.next_number,
            queue_least_ns: f64::INFINITY,
            queue_most_ns: self.delay.queue_ns,
            growth: self.growth,
            growth_most: self.growth.max(self.round.growth),
            ..Round::default()
        };
    }

    /// End of a round that is no test: too much loss?
    fn watch(&mut self, ack: &AckSample, delivered: f64) {
        // What was delivered before the rate jumped says nothing of the path: no test could be sized by it.
        if self.startup.is_none() && !self.round.is_settled {
            return;
        }
        // While the rate doubles, what a full bottleneck drops is soon half of it: anything less can wait.
        let tolerated = if self.startup.is_some() { RANDOM_MAX } else { 0.0 };
        let excess = self.loss.excess(ack, self.datagram_len);
        if let Some(loss) = excess.filter(|loss| *loss > tolerated) {
            let delivered =
                if self.growth > 0.0 || self.round.is_late { self.round.delivered_max } else { delivered };
            let above = self.policer.filter(|_| self.growth > 0.0).map(|policer| policer.rate);
            let delivered = above.map_or(delivered, |rate| rate.min(delivered));
            (self.growth, self.startup) = (0.0, None);
            let queue_ns = self.round.queue_most_ns;
            let is_dry = queue_ns <= self.delay.slack_ns(self.target_ns());
            let (began, from, is_measured, tries_more) = (ack.now, ack.next_number, false, above.is_some());
            self.state = State::Test(Test {
                began,
                from,
                counted: None,
                loss,
                delivered,
                is_measured,
                queue_ns,
                is_dry,
                tries_more,
            });
        }
    }

    fn count_loss(&mut self, ack: &AckSample) {
        let (datagrams, loss) = self.lately.get_or_insert(Counted::at(ack)).until(ack, self.datagram_len);
        if datagrams >= LATELY {
            (self.loss_lately, self.lately) = (loss, Some(Counted::at(ack)));
            self.loss.learn_dispersion(datagrams, loss, self.is_crowded());
        }
    }
}

impl Controller for Adaptive {
    fn on_sent(&mut self, sent: &Sent) {
        self.pairs.on_sent(sent);
        if let State::Compete(compete) = &mut self.state {
            compete.on_sent(sent);
        }
    }

    fn on_timed(&mut self, _now: Time, arrivals: &[TimedArrival]) {
        self.pairs.on_timed(arrivals, self.datagram_len);
    }

    fn poll_probe(&mut self, now: Time) -> Option<ProbeTrain> {
        if matches!(self.state, State::Train) { None } else { self.pairs.poll(now) }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.count_loss(ack);
        if let Some(before) = self.before_outage.take() {
            // The path is back, most likely as it was; half of it is safe to begin with.
            self.bandwidth = self.bandwidth.max(before / 2.0);
        }
        self.rtt = self.delay.path_rtt(ack.rtt_min).max(TIMER);
        self.delay.sample(ack.one_way_ns, ack.rtt);
        self.tick.app_limited |= ack.app_limited;
        self.tick.samples += 1;
        if let State::Compete(compete) = &mut self.state {
            compete.on_ack(ack);
        }
        if !self.started {
            (self.started, self.delay.empty_at) = (true, ack.now);
            self.begin_tick(ack);
            self.begin_round(ack);
            return;
        }
        if matches!(self.state, State::Train) {
            self.read_train(ack);
            return;
        }
        self.refresh(ack);
        self.heed_marks(ack);
        self.receiver.heed(ack, self.rtt, self.rate(), self.bandwidth);
        let tick_len = (self.rtt / TICKS_PER_RTT).clamp(TICK_MIN, TICK_MAX);
        if ack.now >= self.tick.began + tick_len && self.tick.samples >= 2 {
            self.end_tick(ack);
        }
        // A round on a short path lasts several ticks: what it says of loss must come with a rate that was measured.
        let enough = self.round.ticks >= TICKS_PER_RTT && ack.now >= self.round.began + self.rtt;
        // Numbers that went back are a new count.
        let is_over = ack.largest >= self.round.ends || self.round.ends > ack.next_number;
        if is_over && enough {
            self.end_round(ack);
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.lost_at = loss.now;
        let is_congested = loss.new_episode && !self.is_background && self.is_congested();
        match &mut self.state {
            State::Compete(compete) => compete.on_loss(loss),
            // So little of the train came through that its reading was waited for in vain.
            State::Train if self.started && self.bandwidth < f64::INFINITY => self.lose_train(),
            State::Cruise | State::Refresh { .. } | State::Test(_) if is_congested => {
                // While the first rate is sought, only what came through is known.
                let carried = if self.startup.is_some() { self.round.delivered_max } else { self.bandwidth };
                self.compete_at(carried * BETA);
            }
            _ => {}
        }
    }

    fn on_timeout(&mut self, now: Time) {
        if let State::Compete(compete) = &mut self.state {
            compete.on_timeout(now);
            return;
        }
        // Circuit breaker: nothing comes back at all.
        self.before_outage.get_or_insert(self.bandwidth);
        self.bandwidth = (self.bandwidth / 2.0).max(RATE_MIN);
        (self.growth, self.startup) = (0.0, None);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if matches!(self.state, State::Train) {
            return None;
        }
        Some(Rate(self.rate() as u64))
    }

    fn window(&self) -> Option<u64> {
        match &self.state {
            State::Train => return Some((TRAIN_LEN * self.datagram_len) as u64),
            State::Compete(compete) => {
                return Some(compete.window_bytes().max(SSTHRESH_MIN * self.datagram_len) as u64);
            }
            _ => {}
        }
        // What the path and the target queue hold, and what the receiver may not have acknowledged yet: it holds back and bundles for
        // about as long as the longest base is.
        let extra_ns = if self.jump.is_some() { self.delay.queue_ns } else { 0.0 };
        let span_ns = (nanos(self.rtt) as f64 + extra_ns) * 1.25 + 2.0 * self.target_ns() + TARGET_MAX_NS;
        // In a test without a queue what was sent faster is still on its way, or lost.
        let is_dry = matches!(self.state, State::Test(test) if test.is_dry);
        let growth = if is_dry { GROWTH_MAX } else { self.growth };
        let rate = self.bandwidth * (1.0 + growth);
        let bytes = rate * span_ns / 8e9 / (1.0 - self.loss.random).max(0.5);
        Some(bytes.max(TRAIN_LEN * self.datagram_len) as u64)
    }

    fn burst(&self) -> Duration {
        // In a test bursts are shorter, to see whether it was them: what the pacer lets a late host make up for at once is then no
        // more than one burst else.
        let is_test = matches!(self.state, State::Test(_));
        let burst_ns = self.ceiling.burst_ns / if is_test { f64::from(CATCH_UP) } else { 1.0 };
        Duration::from_nanos(burst_ns as u64)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            bandwidth: (!matches!(self.state, State::Train)).then_some(Rate(self.bandwidth as u64)),
            queue_delay: Duration::from_nanos(self.delay.queue_ns.max(0.0) as u64),
            random_loss: self.loss.random,
            receiver_bound: self.receiver.limit < self.bandwidth,
            policer: self.policer.map(|policer| policer.policed()),
            phase: match &self.state {
                State::Train => "train",
                State::Cruise if self.startup.is_some() => "startup",
                State::Cruise => "cruise",
                State::Test(_) => "test",
                State::Refresh { .. } => "refresh",
                State::Compete(compete) => compete.phase(),
            },
        }
    }
}

/// Rates that differ by less are alike: packet pairs agree then, a test sends so much less, and so far above the ceiling
/// last met it is another. What is seen in no more than this part of the time is chance: a host that was late, a queue. So much of
/// its longest is left of a queue that dips, from twice as much.
const ALIKE: f64 = 0.1;
/// The queue is emptied so often: one interval for all, or they would not do it together.
const REFRESH_EVERY: Duration = Duration::from_secs(2);
/// What is seen so often is no chance. So many packet pairs that agree tell the link. After so many refreshes in vain, each twice
/// as deep, others fill the queue. So many more that left the same, and lost nothing, have seen the route's delay.
const OFTEN: u32 = 3;
/// Who gets less than this share of the link shares it: a CUBIC that is alone keeps so much after a loss. So much of the first
/// train is read, and sent first of what it told.
const ALONE_SHARE: f64 = BETA;
/// A queue no longer than what we send at once is our own: it is noise. Delays that differ by less are the same, and clocks drift
/// apart by so much in twelve seconds (some 40 ppm; uncorrected crystals do 50). A longer queue holds enough that what is
/// delivered is our share of the path.
const NOISE_NS: f64 = BURST.as_nanos() as f64;
/// Rate change for a queue that is off by one round trip. With a feedback delay of about 1.3 round trips the loop gain
/// is 0.5, a third of the π/2 at which a proportional loop begins to swing: flows with round trips that differ disturb
/// each other, and shares are as even as the queue is steady.
const GAIN: f64 = 0.4;
/// What is lost lately is counted over so many datagrams.
const LATELY: f64 = 40.0;
/// What a tick and the host's timers add to the feedback delay.
const LOOP_LAG_NS: f64 = 15e6;
/// Little: the least of our rate that is sent, in a low or however long the queue is; the share of the target in the background;
/// and the share of the link that we begin with beside others, for who came late has yielded all along.
const LITTLE: f64 = 0.3;
/// Weight of a tick's delivery rate: with all of it in a round trip, flows with round trips that differ would swing.
const BANDWIDTH_GAIN: f64 = 0.2;
/// Share of the bandwidth that must have been delivered in a round before the rate grows.
const DELIVERED_ENOUGH: f64 = 0.85;
/// Extra rate after the first and after many rounds without a queue. With twice the first one a route that becomes ten times
/// longer is not found.
const GROWTH_FIRST: f64 = 0.05;
const GROWTH_MAX: f64 = 1.0;
/// How long an old base delay is believed in the background while the queue never runs empty: as long as LEDBAT remembers one
/// (RFC 6817), for a flow that yields as LEDBAT does. Else as long as a BBR that was seen.
const PATIENCE_BACKGROUND: Duration = BASE_SLOT.saturating_mul(BASE_HISTORY as u32);
/// Ticks in a round trip, and their length's bounds.
const TICKS_PER_RTT: u32 = 3;
const TICK_MIN: Duration = Duration::from_millis(4);
const TICK_MAX: Duration = Duration::from_millis(50);
/// What no user-space timer tells from nothing: a shorter round trip, a shorter queue, a longer pair. A burst may be so long at
/// first: what a 10 Gb/s host needs for one system call to carry 40 datagrams.
const TIMER: Duration = Duration::from_micros(50);
