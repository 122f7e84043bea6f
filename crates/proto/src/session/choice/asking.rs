//! Whether UDP passes at all: asked when it falls silent, and again while TCP streams carry the data.

use super::super::transport::Carrier;
use super::{Choice, Look, Order, STREAMS_PATIENCE, State};
use crate::units::Time;
use core::time::Duration;

/// UDP is silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// Since when both ways are being asked.
    since: Time,
    /// When the control stream was first found to have answered.
    answered_at: Option<Time>,
}

/// Probes, some times a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRound {
    began: Time,
    sent: u64,
    sent_at: Time,
    /// Answers before the first of them.
    answers: u64,
}

impl Choice {
    /// UDP owes an acknowledgement. If the control stream answers questions meanwhile, and UDP none that was asked since,
    /// then it is blocked; in an outage of everything neither does.
    pub(super) fn on_silence(&mut self, look: &Look, since: Time) -> Option<Order> {
        let heard = look.news.max(since).max(look.udp_heard.unwrap_or(since));
        let silent = look.now.since(heard);
        if !look.overdue
            || silent <= SILENCE.max(look.rtt * SILENCE_RTTS)
            || look.now.since(look.last_word) > WORD_GAP.max(look.rtt * WORD_GAP_RTTS)
        {
            self.doubt = None;
            return None;
        }
        let new = Doubt { since: look.now, answered_at: None };
        let doubt = self.doubt.get_or_insert(new);
        let Some(answered_at) = doubt.answered_at else {
            if look.answered < doubt.since {
                return Some(Order::Probe);
            }
            doubt.answered_at = Some(look.now);
            // So that they are there when they are needed.
            return Some(Order::OpenStreams);
        };
        // Had an outage ended with that answer, UDP would have answered by now what was asked after it.
        let asked = look.now.since(answered_at);
        if look.answered < answered_at || asked < DOUBT.max(look.rtt * DOUBT_RTTS) {
            return Some(Order::Probe);
        }
        let line = format!("UDP brought no news for {:.1} s", silent.as_secs_f64());
        let (to, why) = if look.streams > 0 {
            (Carrier::Stripe, line)
        } else if look.no_streams.is_none() && asked < STREAMS_PATIENCE {
            return Some(Order::Probe);
        } else if self.config.has_pipe {
            (Carrier::Ssh, format!("{line}, and no TCP connection comes about"))
        } else {
            self.doubt = None;
            self.trial_at = look.now + self.pause();
            return None;
        };
        self.state = State::Streams { blocked: true };
        self.go(look.now, to, why, false)
    }

    /// UDP was silent when it was last tried: does it pass again? A network that drops it now and then lets a single probe
    /// pass, so there are some.
    pub(super) fn ask_udp(&mut self, look: &Look, rate: f64) -> Option<Order> {
        if self.round.is_none() && look.now < self.probe_at {
            return None;
        }
        let new = ProbeRound { began: look.now, sent: 0, sent_at: look.now, answers: look.udp_answers };
        let round = self.round.get_or_insert(new);
        let answers = look.udp_answers - round.answers;
        let patience = ROUND_PATIENCE.max(look.rtt * ROUND_PATIENCE_RTTS);
        let is_mute = answers == 0 && look.now.since(round.began) > patience;
        if round.sent < ROUND && !is_mute {
            (round.sent, round.sent_at) = (round.sent + 1, look.now);
            return Some(Order::Probe);
        }
        if answers >= ROUND_ENOUGH {
            return self.begin_trial(look, Carrier::Object, rate, true, "UDP passes again".into());
        }
        if is_mute || look.now.since(round.sent_at) > patience {
            self.round = None;
            self.probe_at = look.now + self.probe_pause;
            self.probe_pause = (self.probe_pause * 2).min(PROBE_PAUSE_MAX);
        }
        None
    }
}

/// Acknowledgements that are overdue may be late, but hardly by so much.
const SILENCE: Duration = Duration::from_millis(200);
const SILENCE_RTTS: u32 = 4;
/// A control stream that was silent for longer does not pass either. It speaks three times a second and may have to say one
/// thing twice.
const WORD_GAP: Duration = Duration::from_millis(600);
const WORD_GAP_RTTS: u32 = 6;
/// UDP that answers nothing of what was asked for so long, while the control stream does, is blocked: two or three probes
/// and what the sender repeats meanwhile.
const DOUBT: Duration = Duration::from_millis(250);
const DOUBT_RTTS: u32 = 4;
/// Probes of a round, and answers that make UDP worth a trial: fewer come where it is dropped for a third of the time.
const ROUND: u64 = 10;
const ROUND_ENOUGH: u64 = 8;
/// An answer may take so long.
const ROUND_PATIENCE: Duration = Duration::from_millis(300);
const ROUND_PATIENCE_RTTS: u32 = 3;
/// Between two rounds; each time longer.
pub(super) const PROBE_PAUSE_MIN: Duration = Duration::from_secs(3);
pub(super) const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);
