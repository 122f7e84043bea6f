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
//! When, [`handover`](super::handover) says. Here TCP is its rule alone, and the packets go on as datagrams: a CUBIC window
//! for each of four connections, losses dealt out among them by chance as sockets would meet them. That is what the
//! simulator compares, and what a copy does that is to stay on UDP; where it may choose its transport, the connections are
//! real ([`choice`](crate::session::choice)).

use super::handover::{Handover, ROUND_MIN, Round, Turn};
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
    handover: Handover,
    rounds: Rounds,
}

impl Switch {
    /// Begins in object mode.
    pub fn new(config: ControlConfig) -> Switch {
        Switch {
            config,
            object: Adaptive::new(config),
            stripes: None,
            handover: Handover::default(),
            rounds: Rounds::default(),
        }
    }

    fn review(&mut self, ack: &AckSample, round: Option<Round>) {
        if let Some(round) = round {
            self.handover.judge(ack.now, round);
        }
        match self.handover.review(ack.now, ack.rtt_min) {
            None => {}
            Some(Turn::ToTcp) => {
                self.stripes = Some(Stripes::new(self.config, self.handover.peak(), ack));
            }
            Some(Turn::ToObject) => {
                self.stripes = None;
                self.object.resume(Rate(self.handover.delivered() as u64));
            }
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
        if let Some(round) = self.rounds.on_ack(ack) {
            self.review(ack, round);
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

/// The rounds that a handover is decided by: a round trip, but long enough for a rate to mean something.
#[derive(Debug, Default)]
struct Rounds {
    began: Time,
    arrival: Time,
    received: u64,
    end: DatagramNumber,
    /// Least round trip within it.
    rtt: Option<Duration>,
    app_limited: bool,
}

impl Rounds {
    /// At the end of a round what is known of it, if the path alone held it up.
    fn on_ack(&mut self, ack: &AckSample) -> Option<Option<Round>> {
        self.rtt = ack.rtt.into_iter().chain(self.rtt).min();
        self.app_limited |= ack.app_limited;
        if ack.largest < self.end || ack.now.since(self.began) < ROUND_MIN {
            return None;
        }
        let bytes = ack.received_bytes.saturating_sub(self.received);
        let span = ack.arrival.since(self.arrival);
        let is_sound = !self.app_limited && span >= ROUND_MIN / 2 && self.began > Time::ZERO;
        let delivered = Rate::measured(bytes, span).0 as f64;
        let round = is_sound.then_some(Round { span, delivered, rtt: self.rtt, rtt_min: ack.rtt_min });
        *self = Rounds {
            began: ack.now,
            arrival: ack.arrival,
            received: ack.received_bytes,
            end: ack.next_number,
            rtt: None,
            app_limited: false,
        };
        Some(round)
    }
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
