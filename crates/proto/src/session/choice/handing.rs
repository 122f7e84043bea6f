//! The data goes to TCP streams while others' traffic lasts, where the user wishes so.

use super::super::transport::Carrier;
use super::{Choice, Look, Order, PAUSE, PAUSE_RTTS, State, TRIAL_SILENCE, TRIAL_SILENCE_RTTS};
use crate::control::handover::{Handover, Round, Turn};
use crate::units::{Rate, Time};
use core::time::Duration;

/// The rounds that it is decided by, and who decides.
#[derive(Debug)]
pub(super) struct Handing {
    handover: Handover,
    began: Time,
    delivered: u64,
    rtt: Duration,
    /// Something else than the path held the transfer up.
    is_idle: bool,
    /// Nothing was heard of what was sent. What is heard next comes in a heap.
    was_silent: bool,
}

impl Handing {
    pub(super) fn new(now: Time) -> Handing {
        let handover = Handover::default();
        Handing { handover, began: now, delivered: 0, rtt: Duration::MAX, is_idle: true, was_silent: false }
    }

    /// Whether the data changes hands; `by_streams` has it now.
    fn look(&mut self, look: &Look, by_streams: bool) -> Option<Turn> {
        let (now, rtt_min) = (look.now, look.rtt.saturating_sub(look.queue));
        self.rtt = self.rtt.min(look.rtt);
        self.is_idle |= !by_streams && !look.path_bound;
        let patience = PAUSE.max(look.rtt * PAUSE_RTTS);
        self.was_silent |= look.overdue || look.talks_since >= now || now.since(look.news) > patience;
        let span = now.since(self.began);
        if span < ROUND.max(rtt_min * ROUND_RTTS) {
            return None;
        }
        // Several paths have several queues, and TCP connections take one of them.
        if !self.is_idle && !self.was_silent && look.paths == 1 {
            let bytes = look.delivered.saturating_sub(self.delivered);
            let delivered = Rate::measured(bytes, span).0 as f64;
            self.handover.judge(now, Round { span, delivered, rtt: Some(self.rtt), rtt_min });
        }
        self.is_idle = core::mem::take(&mut self.was_silent);
        self.begin(now, look.delivered);
        self.handover.review(now, rtt_min)
    }

    fn begin(&mut self, now: Time, delivered: u64) {
        (self.began, self.delivered, self.rtt) = (now, delivered, Duration::MAX);
    }
}

impl Choice {
    /// While UDP passes, whether it or TCP streams are to have the data.
    pub(super) fn hand_over(&mut self, look: &Look) -> Option<Order> {
        let by_streams = match &self.state {
            State::Datagrams { .. } => false,
            State::Streams { blocked: false } => true,
            _ => return None,
        };
        let handing = self.handing.as_mut()?;
        let turn = handing.look(look, by_streams)?;
        let [had, has] = [handing.handover.peak(), handing.handover.delivered()].map(|rate| rate * 1e-6);
        match turn {
            Turn::ToTcp => {
                let queue_ms = look.queue.as_secs_f64() * 1e3;
                let reason = format!(
                    "others share the path ({has:.1} of {had:.1} Mb/s, and {queue_ms:.0} ms in its queue)"
                );
                self.state = State::Opening { since: look.now, reason, is_trial: false };
                Some(Order::OpenStreams)
            }
            Turn::ToObject => {
                self.state = State::Datagrams { since: look.now };
                let line = format!("TCP delivers {has:.1} of {had:.1} Mb/s");
                self.go(look.now, Carrier::Object, line, true)
            }
        }
    }

    /// Streams that were handed the data broke, or bring nothing: UDP passed a moment ago.
    pub(super) fn take_back(&mut self, look: &Look) -> Option<Order> {
        let patience = TRIAL_SILENCE.max(look.rtt * TRIAL_SILENCE_RTTS);
        let since = look.news.max(self.handing.as_ref()?.handover.turned());
        let line = match look.streams {
            0 => "the TCP connections broke",
            _ if look.waiting && look.now.since(since) > patience => "TCP brings no news",
            _ => return None,
        };
        self.state = State::Datagrams { since: look.now };
        self.keep_object(look.now);
        self.go(look.now, Carrier::Object, line.into(), true)
    }

    /// Streams could not be had, or broke.
    pub(super) fn keep_object(&mut self, now: Time) {
        if let Some(handing) = &mut self.handing {
            handing.handover.keep_object(now);
        }
    }

    /// Nothing is sent at the moment because the user wishes so.
    pub(super) fn rest_handing(&mut self, now: Time) {
        if let Some(handing) = &mut self.handing {
            handing.handover.rest(now.since(handing.began));
            (handing.began, handing.is_idle) = (now, true);
        }
    }
}

/// Acknowledgements come some times in a round trip, and what they tell of at once is little beside what comes in so long.
const ROUND: Duration = Duration::from_millis(400);
const ROUND_RTTS: u32 = 4;
