//! FOBS's first plan for congestion (Dickens & Gropp §7): hand the rest of the object to TCP while congestion
//! lasts, take it back when it has gone.
//!
//! The hand-over is free, because what is left to send is the bitmap: which packet goes next, what is acknowledged
//! and what is lost stay where they are. Only the rule changes by which the rate is found:
//!
//! ```text
//! object    adaptive: the path's rate, by delay and delivery
//!    │  ▲
//!    │  └── what is delivered is the path's rate again, or TCP's spell is over
//!    ▼
//! stripes   n TCP windows (CUBIC) on the object's packets, as many sockets would have
//! ```
//!
//! *Congestion* is the traffic of others: for a second the queue does not empty, but for moments, and less is
//! delivered than the path has shown it can carry. Our own queue empties when we send less, and random loss fills
//! none.
//!
//! The other plan of FOBS §7: TCP has the object while congestion lasts. Handing over is free because what is left
//! to send is the bitmap, so no second transport is opened for it: the packets are the same, and TCP is its rule, a
//! CUBIC window for each of four connections, losses dealt out among them by chance as sockets would meet them.
//! Congestion is others' traffic, told by a queue that does not empty for a second while less is delivered than the
//! path has shown it can carry; it is over when that much is delivered again.

use super::window::{Cubic, Windowed};
use super::{
    AckSample, Adaptive, ControlConfig, Controller, LossSample, ProbeTrain, Sent, Snapshot, TimedArrival,
};
use crate::units::{DatagramNumber, Rate, Time};
use core::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub struct Switch {
    config: ControlConfig,
    /// Hears of everything, so that it knows the path when its turn comes again.
    object: Adaptive,
    stripes: Option<Stripes>,
    watch: Watch,
    /// How long a spell of TCP lasts where nothing ends it.
    spell: Duration,
}

impl Switch {
    /// Begins in object mode.
    pub fn new(config: ControlConfig) -> Switch {
        Switch {
            config,
            object: Adaptive::new(config),
            stripes: None,
            watch: Watch::default(),
            spell: SPELL_MIN,
        }
    }

    fn review(&mut self, ack: &AckSample) {
        let sustained = SUSTAINED.max(ack.rtt_min * SUSTAINED_ROUNDS);
        if self.stripes.is_none() {
            if self.watch.contended_for(ack.now) >= sustained {
                self.stripes = Some(Stripes::new(self.config, self.watch.peak, ack));
                self.watch.turn(ack.now);
            }
            return;
        }
        let free = self.watch.alone_for(ack.now) >= sustained;
        if free || ack.now.since(self.watch.turned) >= self.spell {
            self.spell = if free { SPELL_MIN } else { (self.spell * 2).min(SPELL_MAX) };
            self.stripes = None;
            self.object.resume(Rate(self.watch.delivered as u64));
            self.watch.turn(ack.now);
        }
    }

    fn active(&self) -> &dyn Controller {
        match &self.stripes {
            Some(stripes) => stripes,
            None => &self.object,
        }
    }
}

impl Controller for Switch {
    fn on_sent(&mut self, sent: &Sent) {
        self.object.on_sent(sent);
        if let Some(stripes) = &mut self.stripes {
            stripes.on_sent(sent);
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.object.on_ack(ack);
        if let Some(stripes) = &mut self.stripes {
            stripes.on_ack(ack);
        }
        if self.watch.on_ack(ack) {
            self.review(ack);
        }
    }

    fn on_timed(&mut self, now: Time, arrivals: &[TimedArrival]) {
        self.object.on_timed(now, arrivals);
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.object.on_loss(loss);
        if let Some(stripes) = &mut self.stripes {
            stripes.on_loss(loss);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        self.object.on_timeout(now);
        if let Some(stripes) = &mut self.stripes {
            stripes.on_timeout(now);
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.active().pacing_rate()
    }

    fn window(&self) -> Option<u64> {
        self.active().window()
    }

    fn poll_probe(&mut self, now: Time) -> Option<ProbeTrain> {
        if self.stripes.is_none() { self.object.poll_probe(now) } else { None }
    }

    fn burst(&self) -> Duration {
        self.active().burst()
    }

    fn snapshot(&self) -> Snapshot {
        let object = self.object.snapshot();
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            phase: if self.stripes.is_some() { "stripes" } else { "object" },
            ..object
        }
    }
}

/// Judges, a round at a time, whether others share the bottleneck.
#[derive(Debug, Default)]
struct Watch {
    /// When the mode last changed.
    turned: Time,
    /// bit/s: most that was ever delivered over a round.
    peak: f64,
    /// The same of the last round.
    delivered: f64,
    round: Round,
    /// Since when rounds look contended, but for short gaps.
    contended_since: Option<Time>,
    /// The last that did.
    contended_last: Time,
    /// Since when every round delivered what the path carries.
    alone_since: Option<Time>,
}

#[derive(Debug, Default)]
struct Round {
    began: Time,
    arrival: Time,
    received: u64,
    end: DatagramNumber,
    /// Least round trip within it.
    rtt: Option<Duration>,
    app_limited: bool,
}

impl Watch {
    fn turn(&mut self, now: Time) {
        self.turned = now;
        self.contended_since = None;
        self.alone_since = None;
    }

    fn contended_for(&self, now: Time) -> Duration {
        self.contended_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    fn alone_for(&self, now: Time) -> Duration {
        self.alone_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// True at the end of a round.
    fn on_ack(&mut self, ack: &AckSample) -> bool {
        self.round.rtt = ack.rtt.into_iter().chain(self.round.rtt).min();
        self.round.app_limited |= ack.app_limited;
        if ack.largest < self.round.end || ack.now.since(self.round.began) < ROUND_MIN {
            return false;
        }
        let bytes = ack.received_bytes.saturating_sub(self.round.received);
        let span = ack.arrival.since(self.round.arrival);
        if !self.round.app_limited && span >= ROUND_MIN / 2 && self.round.began > Time::ZERO {
            self.judge(Rate::measured(bytes, span).0 as f64, ack);
        }
        self.round = Round {
            began: ack.now,
            arrival: ack.arrival,
            received: ack.received_bytes,
            end: ack.next_number,
            rtt: None,
            app_limited: false,
        };
        true
    }

    fn judge(&mut self, delivered: f64, ack: &AckSample) {
        self.delivered = delivered;
        self.peak = self.peak.max(delivered);
        // Against the shortest round trip of all: a shorter memory would take a queue that others keep up for the path.
        let empty = ack.rtt_min + ack.rtt_min / STANDING_SHARE + STANDING_MIN;
        let standing = self.round.rtt.is_some_and(|rtt| rtt > empty);
        let contended = standing && delivered < CONTENDED * self.peak;
        if contended {
            self.contended_last = ack.now;
        }
        // The object's controller empties the queue now and then, to see what fills it.
        let gap = ack.now.since(self.contended_last);
        let goes_on = self.contended_since.is_some() && gap <= GAP.max(ack.rtt_min * GAP_ROUNDS);
        keep(&mut self.contended_since, contended || goes_on, ack.now);
        keep(&mut self.alone_since, delivered >= ALONE * self.peak, ack.now);
    }
}

/// Since when something has held without a break.
fn keep(since: &mut Option<Time>, holds: bool, now: Time) {
    *since = if holds { since.or(Some(now)) } else { None };
}

/// The windows of several TCP connections, each with its share of what is on its way.
#[derive(Debug)]
struct Stripes {
    windows: Vec<Windowed<Cubic>>,
    datagram_len: u64,
    /// Bytes that had come in, and each stripe's part of what came in since.
    received: u64,
    credits: Vec<f64>,
    /// Which connection's packet is lost is a matter of chance.
    rng: fastrand::Rng,
}

impl Stripes {
    /// Begin, evenly split, with what fills path and queue, as connections would that had it until now: how much of that they
    /// keep, the losses tell. `peak` is in bit/s.
    fn new(config: ControlConfig, peak: f64, ack: &AckSample) -> Stripes {
        let count = config.streams.max(1);
        let rtt = ack.rtt.unwrap_or(ack.rtt_min);
        let filled = peak / 8.0 * rtt.as_secs_f64() / config.datagram_len.max(1) as f64;
        let window = filled / f64::from(count);
        Stripes {
            windows: (0..count).map(|_| Windowed::resumed(config, Cubic::default(), window)).collect(),
            datagram_len: config.datagram_len.max(1),
            received: ack.received_bytes,
            credits: vec![0.0; count as usize],
            rng: fastrand::Rng::with_seed(config.seed),
        }
    }

    fn total(&self) -> f64 {
        self.windows.iter().map(window_of).sum::<f64>().max(1.0)
    }
}

impl Controller for Stripes {
    fn on_sent(&mut self, sent: &Sent) {
        let each = sent.in_flight as f64 / self.total();
        for stripe in &mut self.windows {
            let in_flight = (each * window_of(stripe)) as u64;
            stripe.on_sent(&Sent { in_flight, ..*sent });
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let total = self.total();
        // No more than the windows can have come in, whatever a counter says.
        let news = (ack.received_bytes.saturating_sub(self.received) as f64).min(total);
        self.received = ack.received_bytes;
        for (stripe, credit) in self.windows.iter_mut().zip(&mut self.credits) {
            let share = window_of(stripe) / total;
            *credit += news * share;
            let in_flight = (ack.in_flight as f64 * share) as u64;
            stripe.on_ack(&AckSample { received_bytes: *credit as u64, in_flight, ..*ack });
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        let datagrams = (loss.lost_bytes / self.datagram_len).clamp(1, LOSSES_TOLD);
        for _ in 0..datagrams {
            let mut at = self.rng.f64() * self.total();
            let hit = self.windows.iter_mut().find(|stripe| {
                at -= window_of(stripe);
                at < 0.0
            });
            // Within one round trip a connection reduces its window once, however much it loses.
            if let Some(stripe) = hit {
                stripe.on_loss(&LossSample { new_episode: !stripe.is_repairing(), ..*loss });
            }
        }
    }

    fn on_timeout(&mut self, now: Time) {
        self.windows.iter_mut().for_each(|stripe| stripe.on_timeout(now));
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rates: Option<Vec<u64>> =
            self.windows.iter().map(|stripe| stripe.pacing_rate().map(|rate| rate.0)).collect();
        rates.map(|rates| Rate(rates.into_iter().fold(0, u64::saturating_add)))
    }

    fn window(&self) -> Option<u64> {
        Some(self.windows.iter().filter_map(Controller::window).fold(0, u64::saturating_add))
    }
}

fn window_of(stripe: &Windowed<Cubic>) -> f64 {
    stripe.window().unwrap_or(0) as f64
}

/// Losses of one acknowledgement that are dealt out to the connections: enough to hit all of many.
const LOSSES_TOLD: u64 = 64;
/// A mode changes when the signs for it have held for so long, and for so many round trips.
const SUSTAINED: Duration = Duration::from_secs(1);
const SUSTAINED_ROUNDS: u32 = 10;
/// So long, and so many round trips, without a sign of others' traffic do not end it.
const GAP: Duration = Duration::from_millis(300);
const GAP_ROUNDS: u32 = 6;
/// Rounds are a round trip, but long enough for a rate to mean something.
const ROUND_MIN: Duration = Duration::from_millis(100);
/// A queue of more than this part of a round trip, beside a little: more than our own control leaves standing.
const STANDING_SHARE: u32 = 5;
const STANDING_MIN: Duration = Duration::from_millis(1);
/// Delivering less than this part of the most ever is having to share, …
const CONTENDED: f64 = 0.8;
/// … and this much of it is having the path alone.
const ALONE: f64 = 0.92;
/// TCP's spell ends after so long in any case: on a path that loses at random, or has become slower for good, TCP
/// would never reach what the path once carried. Each spell that found no end is followed by one twice as long.
const SPELL_MIN: Duration = Duration::from_secs(20);
const SPELL_MAX: Duration = Duration::from_secs(80);
