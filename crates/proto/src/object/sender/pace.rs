//! How fast datagrams leave: as the controller says, and no faster than the user allows.

use super::super::sending::{Blocked, Channel};
use super::Sender;
use crate::control::BURST;
use crate::endpoint::Source;
use crate::units::{Rate, Time};

impl<S: Source> Sender<S> {
    pub(super) fn effective_rate(&self) -> (Option<Rate>, Blocked) {
        match (self.path.controller.pacing_rate(), self.rate_cap()) {
            (Some(rate), Some(cap)) if cap < rate => (Some(cap), Blocked::RateCap),
            (None, Some(cap)) => (Some(cap), Blocked::RateCap),
            (rate, _) => (rate, Blocked::Pacing),
        }
    }

    /// Set the pacer for what goes next: the controller's train, or the flow as a whole.
    pub(super) fn set_pace(&mut self, now: Time) -> Blocked {
        if self.path.channel == Channel::Streams {
            self.path.pacer.set_rate(self.rate_cap());
            self.path.pacer.set_burst(BURST);
            return Blocked::RateCap;
        }
        if self.path.train_left == 0
            && now >= self.capped_until()
            && self.may_probe()
            && let Some(train) = self.path.controller.poll_probe(now)
        {
            self.path.train_left = train.datagrams;
            self.path.pacer.begin_train(now, train.rate.min(self.rate_cap().unwrap_or(train.rate)));
        }
        if self.path.train_left > 0 {
            return Blocked::Pacing;
        }
        let (rate, reason) = self.effective_rate();
        self.path.pacer.set_rate(rate);
        self.path.pacer.set_burst(self.path.controller.burst());
        reason
    }

    /// Trains keep their own time, but under the user's cap no datagram comes sooner after another than it allows, lest
    /// trains one right after another exceed it.
    pub(super) fn capped_until(&self) -> Time {
        let gap = self.rate_cap().map(|cap| cap.time_for(self.datagram_len()));
        gap.map_or(Time::ZERO, |gap| self.path.last_sent + gap)
    }

    /// A rate that the user does not allow need not be looked for.
    pub(super) fn may_probe(&self) -> bool {
        self.rate_cap().is_none_or(|cap| self.path.controller.pacing_rate().is_some_and(|rate| rate < cap))
    }
}
