//! Which of UDP and TCP streams is to carry a transfer, decided anew while it runs.
//!
//! ```text
//! Datagrams ──▶ TCP streams                  UDP fell silent, and probes say that it alone does
//!     └──▶ Opening ──▶ Trial           UDP works, but without a queue it loses much or is far slower than at first
//!     ◀──────────────────┘             the better of the two stays, by a margin
//! TCP streams ──▶ Trial of UDP               it passes again, or it is long ago that it was tried
//! ```
//! A trial moves real data: it costs nothing but the difference between the two for a few seconds.
//!
//! **UDP is silent.** Silence alone says little: the whole path may be cut, or the other side busy. So when an
//! acknowledgement is overdue, questions go out over UDP and over the control stream at once, and TCP streams are
//! opened meanwhile. They take over if UDP answers nothing while the other side's loop answers over the control
//! stream. Keep-alives do not count: a thread of their own sends them, even where the loop is stuck. After an outage
//! of everything TCP recovers at its own time, so only UDP questions count that left after the first answer came.
//!
//! **UDP is slow.** Where it loses much, or delivers far less than the path check's train, a trial decides. There is
//! none while a queue stands: a full link is full for TCP too, and what several connections gain there they take from
//! others. Trials become rarer, since on a path that is simply slow each costs a little. Before UDP is tried after a
//! silence, it has to answer eight of ten questions.
//!
//! **TCP while others are there.** Where the user wishes so ([`ControllerKind::Switch`](crate::control::ControllerKind)), neither
//! is tried because it may be faster: TCP streams have the data while others' traffic lasts, UDP without it
//! ([`handover`](crate::control::handover)).

mod asking;
mod handing;

use super::transport::{Carrier, Transport};
use crate::units::{Rate, Time};
use asking::{Doubt, PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, ProbeRound};
use core::time::Duration;
use handing::Handing;
use std::collections::VecDeque;

/// What is fixed for a transfer.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceConfig {
    /// What the user allows.
    pub transport: Transport,
    /// What carries the data to begin with.
    pub carrier: Carrier,
    /// What the path check's train told of the path's rate.
    pub train_rate: Option<Rate>,
    /// For how long the path check's probes went unanswered at first.
    pub mute: Duration,
    /// The control stream can carry the data.
    pub has_pipe: bool,
    /// UDP is to be as fast as can be, so that being slow is no choice of the user's.
    pub is_hasty: bool,
    /// TCP is to have the data while others' traffic lasts.
    pub hands_over: bool,
}

/// How it goes. Times are of the owner's clock.
#[derive(Clone, Debug)]
pub struct Look {
    /// Now.
    pub now: Time,
    /// Bytes of the object that the receiver has.
    pub delivered: u64,
    /// Bytes of it that it has not.
    pub left: u64,
    /// Datagrams whose fate is known, and how many of them the path lost.
    pub settled: u64,
    /// See `settled`.
    pub lost: u64,
    /// The path is what holds the transfer up at this moment.
    pub path_bound: bool,
    /// Something is on its way, so that news could be expected.
    pub waiting: bool,
    /// The sender has given up waiting for an acknowledgement, and none has come since.
    pub overdue: bool,
    /// When the last news of what was sent came in.
    pub news: Time,
    /// Since when the control stream has said something again and again.
    pub talks_since: Time,
    /// When it last did.
    pub last_word: Time,
    /// When the latest question was asked that it has answered.
    pub answered: Time,
    /// When the last authentic answer to a probe of the path came in over UDP.
    pub udp_heard: Option<Time>,
    /// How many have.
    pub udp_answers: u64,
    /// The round trip.
    pub rtt: Duration,
    /// By how much it is longer than the shortest: what waits in the path's queue.
    pub queue: Duration,
    /// Paths that datagrams take.
    pub paths: usize,
    /// TCP streams that are there.
    pub streams: usize,
    /// Why there are none, if none can be had.
    pub no_streams: Option<String>,
}

/// What the owner is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// See that there are TCP streams.
    OpenStreams,
    /// Ask over UDP and over the control stream alike: does it pass, is anybody there?
    Probe,
    /// From now on this carries the data.
    Go {
        /// What.
        to: Carrier,
        /// The reason, in a line.
        why: String,
        /// A trial begins, or ends without having brought anything.
        trial: bool,
    },
}

/// See the [module](self).
#[derive(Debug)]
pub struct Choice {
    config: ChoiceConfig,
    state: State,
    /// How it went lately.
    recent: VecDeque<Sample>,
    began: Time,
    looked_at: Time,
    /// For how long UDP has looked slower than it should be, less for how long it has not.
    odd_for: Duration,
    /// No trial before.
    trial_at: Time,
    /// The pause after the next trial that brings nothing.
    trial_pause: Duration,
    /// UDP carries the data and is suspected to be blocked.
    doubt: Option<Doubt>,
    /// TCP streams carry it, and UDP is being asked whether it passes again.
    round: Option<ProbeRound>,
    probe_at: Time,
    probe_pause: Duration,
    handing: Option<Handing>,
}

/// What is remembered of a look.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    delivered: u64,
    settled: u64,
    lost: u64,
    path_bound: bool,
    queue: Duration,
}

#[derive(Clone, Debug)]
enum State {
    Datagrams {
        since: Time,
    },
    /// UDP carries the data until there are TCP streams, to be tried or for as long as others are there.
    Opening {
        since: Time,
        reason: String,
        is_trial: bool,
    },
    Streams {
        /// UDP was silent, not slow.
        blocked: bool,
    },
    Trial {
        of: Carrier,
        /// What carried the data before.
        back: Carrier,
        since: Time,
        /// What the other one carried, bytes per second.
        other: f64,
        /// When measuring began, and what had been delivered by then.
        measured: Option<(Time, u64)>,
        blocked: bool,
    },
}

impl Choice {
    /// Begin at `now`.
    pub fn new(config: ChoiceConfig, now: Time) -> Choice {
        let state = match config.carrier {
            Carrier::Object => State::Datagrams { since: now },
            Carrier::Stripe | Carrier::Ssh => State::Streams { blocked: true },
        };
        Choice {
            config,
            state,
            recent: VecDeque::new(),
            began: now,
            looked_at: now,
            odd_for: Duration::ZERO,
            trial_at: now,
            trial_pause: TRIAL_PAUSE_MIN,
            doubt: None,
            round: None,
            probe_at: now + PROBE_PAUSE_MIN,
            probe_pause: PROBE_PAUSE_MIN,
            handing: config.hands_over.then(|| Handing::new(now)),
        }
    }

    /// Look at how it goes, some times a second.
    pub fn look(&mut self, look: &Look) -> Option<Order> {
        if self.config.transport != Transport::Auto {
            return None;
        }
        let Look { now: at, delivered, settled, lost, path_bound, queue, .. } = *look;
        if look.talks_since >= at {
            // Nothing passes: that says nothing of UDP.
            self.recent.clear();
        }
        self.recent.push_back(Sample { at, delivered, settled, lost, path_bound, queue });
        while self.recent.len() > 2 && at.since(self.recent[1].at) >= RECENT {
            self.recent.pop_front();
        }
        let span = at.since(core::mem::replace(&mut self.looked_at, at));
        if let Some(order) = self.hand_over(look) {
            return Some(order);
        }
        match self.state.clone() {
            State::Datagrams { since } => self.on_datagrams(look, since, span),
            State::Opening { since, reason, is_trial } => self.on_opening(look, since, reason, is_trial),
            State::Streams { blocked } => self.on_streams(look, blocked),
            State::Trial { .. } => self.on_trial(look),
        }
    }

    /// The datagrams are of another size from now on: how it went before says nothing of how it goes.
    pub fn restart(&mut self, now: Time) {
        self.recent.clear();
        (self.odd_for, self.began) = (Duration::ZERO, now);
    }

    /// Nothing is sent at the moment because the user wishes so: that decides nothing, and counts as no time.
    pub fn rest(&mut self, now: Time) {
        self.restart(now);
        (self.doubt, self.round, self.looked_at) = (None, None, now);
        self.rest_handing(now);
        match &mut self.state {
            State::Datagrams { since } | State::Opening { since, .. } => *since = now,
            State::Trial { since, measured, .. } => (*since, *measured) = (now, None),
            State::Streams { .. } => {}
        }
    }

    /// Bytes per second lately; `None` if it is too early to say.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let span = last.at.since(first.at);
        (span >= RECENT / 4)
            .then(|| last.delivered.saturating_sub(first.delivered) as f64 / span.as_secs_f64())
    }

    /// Share of datagrams lost lately.
    fn loss(&self) -> f64 {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else { return 0.0 };
        last.lost.saturating_sub(first.lost) as f64 / last.settled.saturating_sub(first.settled).max(1) as f64
    }

    /// Whether a queue stood in the path lately. Then it is full, of others or of us, and what is lost there TCP would lose too.
    fn is_queued(&self) -> bool {
        let sum: Duration = self.recent.iter().map(|sample| sample.queue).sum();
        sum >= QUEUE * self.recent.len() as u32
    }

    fn go(&mut self, now: Time, to: Carrier, why: String, trial: bool) -> Option<Order> {
        self.recent.clear();
        (self.doubt, self.round) = (None, None);
        self.config.carrier = to;
        self.probe_at = now + self.probe_pause;
        Some(Order::Go { to, why, trial })
    }

    fn on_datagrams(&mut self, look: &Look, since: Time, span: Duration) -> Option<Order> {
        let has_other = look.streams > 0 || self.config.has_pipe;
        if look.now < self.trial_at && look.no_streams.is_some() && !has_other {
            // TCP streams could not be had a moment ago.
            return None;
        }
        let mute = core::mem::take(&mut self.config.mute);
        if mute >= MUTE && look.streams > 0 && self.config.is_hasty {
            // What was so at first is likely to come again.
            let line = format!("UDP passed nothing for the first {:.1} s", mute.as_secs_f64());
            self.state = State::Streams { blocked: true };
            return self.go(look.now, Carrier::Stripe, line, false);
        }
        self.on_silence(look, since).or_else(|| self.on_oddity(look, since, span))
    }

    /// UDP passes, but not as well as it should.
    fn on_oddity(&mut self, look: &Look, since: Time, span: Duration) -> Option<Order> {
        // A pause in the news is another matter.
        if look.now.since(look.news) > PAUSE.max(look.rtt * PAUSE_RTTS) {
            return None;
        }
        let oddity = self.oddity(look, since);
        // Networks that drop UDP now and then make it look well now and then.
        self.odd_for =
            if oddity.is_some() { self.odd_for + span } else { self.odd_for.saturating_sub(span / 2) };
        let reason = oddity?;
        let needed = odd_span(look.rtt);
        if self.odd_for < needed {
            // They take some round trips to come about.
            return (look.streams == 0 && self.odd_for >= needed / 2).then_some(Order::OpenStreams);
        }
        self.odd_for = Duration::ZERO;
        self.state = State::Opening { since: look.now, reason, is_trial: true };
        Some(Order::OpenStreams)
    }

    /// What about UDP looks slower than it should be, if a trial is worth it.
    fn oddity(&self, look: &Look, since: Time) -> Option<String> {
        // After an outage of everything too.
        let steady_since = self.began.max(since).max(look.talks_since);
        let early = look.now.since(steady_since) < odd_span(look.rtt);
        let bound = self.recent.iter().filter(|sample| sample.path_bound).count();
        if !self.config.is_hasty || early || look.now < self.trial_at || bound * 4 < self.recent.len() * 3 {
            return None;
        }
        let rate = self.rate()?;
        if look.left as f64 <= rate * LEFT_MIN.as_secs_f64() || self.is_queued() {
            return None;
        }
        let mbps = rate * 8e-6;
        let train = self.config.train_rate.map(Rate::as_mbps);
        // A controller that copes with loss leaves nothing to be gained.
        let is_fast = train.is_some_and(|train| mbps >= train * FAST_SHARE);
        let loss = self.loss();
        if loss >= ODD_LOSS && !is_fast {
            return Some(format!(
                "UDP loses {:.1} % of its datagrams and delivers {mbps:.1} Mb/s",
                loss * 100.0
            ));
        }
        let train = train?;
        (mbps < train * ODD_SHARE)
            .then(|| format!("UDP delivers {mbps:.1} Mb/s where the path check saw {train:.1} Mb/s pass"))
    }

    fn on_opening(&mut self, look: &Look, since: Time, reason: String, is_trial: bool) -> Option<Order> {
        if look.streams > 0 && !is_trial {
            self.state = State::Streams { blocked: false };
            return self.go(look.now, Carrier::Stripe, reason, true);
        }
        if look.streams > 0 {
            let other = self.rate().unwrap_or(0.0);
            return self.begin_trial(look, Carrier::Stripe, other, false, reason);
        }
        if look.no_streams.is_some() || look.now.since(since) >= STREAMS_PATIENCE {
            self.state = State::Datagrams { since: look.now };
            if is_trial {
                self.trial_at = look.now + self.pause();
            } else {
                self.keep_object(look.now);
            }
        }
        None
    }

    fn begin_trial(
        &mut self,
        look: &Look,
        of: Carrier,
        other: f64,
        blocked: bool,
        line: String,
    ) -> Option<Order> {
        let back = self.config.carrier;
        self.state = State::Trial { of, back, since: look.now, other, measured: None, blocked };
        self.go(look.now, of, format!("{line}: trying {}", by(of)), true)
    }

    fn on_trial(&mut self, look: &Look) -> Option<Order> {
        let State::Trial { of, back, since, other, measured, blocked } = &mut self.state else { return None };
        let (of, back, since, other, blocked) = (*of, *back, *since, *other, *blocked);
        if of == Carrier::Stripe && look.streams == 0 {
            return self.end_trial(look, back, "the TCP connections broke".into(), blocked);
        }
        let patience = TRIAL_SILENCE.max(look.rtt * TRIAL_SILENCE_RTTS);
        if of == Carrier::Object && look.waiting && look.now.since(look.news.max(since)) > patience {
            return self.end_trial(look, back, "UDP brings no news".into(), true);
        }
        let span = TRIAL_PART.max(look.rtt * TRIAL_PART_RTTS);
        let Some((from, delivered)) = *measured else {
            if look.now.since(since) >= span {
                *measured = Some((look.now, look.delivered));
            }
            return None;
        };
        let seconds = look.now.since(from);
        if seconds < span {
            return None;
        }
        let rate = look.delivered.saturating_sub(delivered) as f64 / seconds.as_secs_f64();
        let margin = if of == Carrier::Object { MARGIN_BACK } else { MARGIN };
        let told = format!(
            "{} delivers {:.1} Mb/s, {} delivered {:.1} Mb/s",
            by(of),
            rate * 8e-6,
            by(back),
            other * 8e-6
        );
        if rate < other * margin {
            return self.end_trial(look, back, told, blocked && of == Carrier::Object);
        }
        // What was found holds for some time.
        self.trial_at = look.now + self.pause();
        self.state = match of {
            Carrier::Object => State::Datagrams { since: look.now },
            Carrier::Stripe | Carrier::Ssh => State::Streams { blocked: false },
        };
        self.go(look.now, of, format!("{told}: staying with that"), false)
    }

    fn end_trial(&mut self, look: &Look, back: Carrier, told: String, blocked: bool) -> Option<Order> {
        self.trial_at = look.now + self.pause();
        self.probe_pause = (self.probe_pause * 2).min(PROBE_PAUSE_MAX);
        self.state = match back {
            Carrier::Object => State::Datagrams { since: look.now },
            Carrier::Stripe | Carrier::Ssh => State::Streams { blocked },
        };
        self.go(look.now, back, told, true)
    }

    /// Until the next trial; each time longer.
    fn pause(&mut self) -> Duration {
        let pause = self.trial_pause;
        self.trial_pause = (pause * 2).min(TRIAL_PAUSE_MAX);
        pause
    }

    fn on_streams(&mut self, look: &Look, blocked: bool) -> Option<Order> {
        // The end of others' traffic decides, not a trial.
        let is_handed_over = !blocked && self.handing.is_some();
        if is_handed_over {
            return self.take_back(look);
        }
        if look.streams == 0
            && self.config.carrier == Carrier::Stripe
            && let Some(why) = &look.no_streams
        {
            let line = format!("the TCP connections broke and no new one comes about ({why})");
            if self.config.has_pipe {
                return self.go(look.now, Carrier::Ssh, line, false);
            }
            if look.udp_heard.is_some() {
                self.state = State::Datagrams { since: look.now };
                self.trial_at = look.now + self.pause();
                return self.go(look.now, Carrier::Object, line, false);
            }
            return None;
        }
        if look.now < self.trial_at {
            return None;
        }
        let rate = self.rate()?;
        if look.left as f64 <= rate * LEFT_MIN.as_secs_f64() {
            return None;
        }
        if !blocked {
            // Only slow when it was last tried.
            let line = "UDP was last tried long ago".into();
            return self.begin_trial(look, Carrier::Object, rate, false, line);
        }
        self.ask_udp(look, rate)
    }
}

fn by(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Object => "UDP",
        Carrier::Stripe => "TCP",
        Carrier::Ssh => "ssh",
    }
}

/// UDP must look odd for so long, once a controller has had as long to find its rate.
fn odd_span(rtt: Duration) -> Duration {
    ODD_FOR.max(rtt * ODD_RTTS)
}

/// A path check that got no answer for so long, as to two volleys of probes, met a network that drops UDP now and then.
const MUTE: Duration = Duration::from_millis(350);
/// Rates are over so long a time.
const RECENT: Duration = Duration::from_secs(2);
/// See [`odd_span`].
const ODD_FOR: Duration = Duration::from_millis(500);
const ODD_RTTS: u32 = 6;
/// Acknowledgements never pause for so long on a path that works.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_RTTS: u32 = 3;
/// A mean queue of so much stands: it is more than what timers and hosts make of an empty one. What drops UDP alone, a policer or a
/// box, has none.
pub const QUEUE: Duration = Duration::from_millis(2);
/// A share of loss at which TCP may yet be faster: it is of a policer, or of a box that drops UDP. Long links lose less
/// at random.
pub const ODD_LOSS: f64 = 0.03;
/// Without loss, delivering less than this share of what the path check's train saw pass is odd. More is a share that
/// others leave: TCP would take it from them.
const ODD_SHARE: f64 = 0.15;
/// With this share of it no loss is odd.
const FAST_SHARE: f64 = 0.75;
/// A transfer that is over sooner is left alone: a trial takes some seconds.
const LEFT_MIN: Duration = Duration::from_secs(6);
/// For TCP streams to come about.
const STREAMS_PATIENCE: Duration = Duration::from_secs(6);
/// A trial settles for so long, and measures for as long again.
const TRIAL_PART: Duration = Duration::from_millis(1200);
const TRIAL_PART_RTTS: u32 = 12;
/// In a trial UDP may be silent for less long: there is something to go back to.
const TRIAL_SILENCE: Duration = Duration::from_millis(1000);
const TRIAL_SILENCE_RTTS: u32 = 5;
/// TCP streams must be better than UDP by so much: they cannot tell what limits them, and share less well.
pub const MARGIN: f64 = 1.25;
/// UDP that passes again need hardly be better.
const MARGIN_BACK: f64 = 1.05;
const TRIAL_PAUSE_MIN: Duration = Duration::from_secs(30);
const TRIAL_PAUSE_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
