//! How fast datagrams leave: as the controller says, and no faster than the user allows.

use super::super::sending::{Blocked, Channel};
use super::Sender;
use crate::control::BURST;
use crate::endpoint::Source;
use crate::units::{Rate, Time};

impl<S: Source> Sender<S> {
    pub(super) fn effective_rate(&self) -> (Option<Rate>, Blocked) {
        match (self.controller.pacing_rate(), self.config.rate_cap) {
            (Some(rate), Some(cap)) if cap < rate => (Some(cap), Blocked::RateCap),
            (None, Some(cap)) => (Some(cap), Blocked::RateCap),
            (rate, _) => (rate, Blocked::Pacing),
        }
    }

    /// Set the pacer for what goes next: the controller's train, or the flow as a whole.
    pub(super) fn set_pace(&mut self, now: Time) -> Blocked {
        if self.channel == Channel::Streams {
            self.pacer.set_rate(self.config.rate_cap);
            self.pacer.set_burst(BURST);
            return Blocked::RateCap;
        }
        if self.train_left == 0
            && now >= self.capped_until()
            && self.may_probe()
            && let Some(train) = self.controller.poll_probe(now)
        {
            self.train_left = train.datagrams;
            self.pacer.begin_train(now, train.rate.min(self.config.rate_cap.unwrap_or(train.rate)));
        }
        if self.train_left > 0 {
            return Blocked::Pacing;
        }
        let (rate, reason) = self.effective_rate();
        self.pacer.set_rate(rate);
        self.pacer.set_burst(self.controller.burst());
        reason
    }

    /// Trains keep their own time, but under the user's cap no datagram comes sooner after another than it allows, lest
    /// trains one right after another exceed it.
    pub(super) fn capped_until(&self) -> Time {
        let gap = self.config.rate_cap.map(|cap| cap.time_for(self.datagram_len()));
        gap.map_or(Time::ZERO, |gap| self.last_sent + gap)
    }

    /// A rate that the user does not allow need not be looked for.
    pub(super) fn may_probe(&self) -> bool {
        self.config.rate_cap.is_none_or(|cap| self.controller.pacing_rate().is_some_and(|rate| rate < cap))
    }
}
