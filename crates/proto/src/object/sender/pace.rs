//! How fast datagrams leave: as the controller says, and no faster than the user allows.

use super::super::sending::{Blocked, Channel};
use super::Sender;
use crate::control::{BURST, Controller};
use crate::endpoint::Source;
use crate::units::{Rate, Time};

impl<S: Source> Sender<S> {
    /// Never faster than this from now on. Who sends at the rate that the user names sends at this one.
    pub fn set_rate_cap(&mut self, rate: Option<Rate>) {
        if self.config.rate_cap == rate {
            return;
        }
        self.config.rate_cap = rate;
        if let Some(rate) = rate {
            self.all_paths().for_each(|path| path.controller.on_named_rate(rate));
        }
    }

    /// A controller that begins now knows the rate that it was built with, which may have changed since.
    pub(super) fn brief(&self, mut controller: Box<dyn Controller>) -> Box<dyn Controller> {
        self.config.rate_cap.into_iter().for_each(|rate| controller.on_named_rate(rate));
        controller
    }

    /// Send nothing from now on, or go on. What is on its way is heard of as ever.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether nothing is sent because the user wishes so.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The user has it pause: nothing of the time gone by is made up for, and what comes in less says nothing of the path.
    pub(super) fn rest(&mut self, now: Time) {
        (self.path.blocked, self.path.app_limited, self.path.train_left) = (Blocked::Paused, true, 0);
        self.path.pacer.skip_idle(now);
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Fixed, Greedy};
    use crate::endpoint::Endpoint;
    use crate::object::sender::testing::{acknowledge, drain, receiver, sender, take};
    use crate::ranges::Ranges;
    use core::time::Duration;
    use proptest::prelude::*;

    const LEN: usize = 400_000;
    const DATAGRAM_BITS: u64 = (1000 + crate::wire::DATA_OVERHEAD as u64) * 8;
    const STEP: Duration = Duration::from_millis(1);

    /// What the user does, and how many milliseconds pass before the next thing.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Cap(Option<u64>),
        Pause(bool),
    }

    fn acts() -> impl Strategy<Value = Vec<(Act, u64)>> {
        let cap = prop_oneof![Just(None), (100_000u64..200_000_000).prop_map(Some)];
        let act = prop_oneof![cap.prop_map(Act::Cap), any::<bool>().prop_map(Act::Pause)];
        proptest::collection::vec((act, 1u64..120), 1..20)
    }

    /// Under a controller that would send all at once.
    fn obeys(controller: Box<dyn Controller>, acts: &[(Act, u64)]) -> Result<(), TestCaseError> {
        let mut sender = sender(vec![7; LEN], controller);
        let mut receiver = receiver(LEN);
        let (mut now, mut cap, mut paused) = (Time::from_millis(10), None, false);
        for (act, span_ms) in acts {
            match act {
                Act::Cap(rate) => cap = *rate,
                Act::Pause(pause) => paused = *pause,
            }
            sender.set_rate_cap(cap.map(Rate));
            sender.set_paused(paused);
            let (mut sent, from) = (0, now);
            for _ in 0..*span_ms {
                let datagrams = drain(&mut sender, now);
                sent += datagrams.len() as u64;
                datagrams.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
                acknowledge(&mut receiver, &mut sender, now);
                sender.handle_timeout(now);
                now = now + STEP;
            }
            if paused {
                prop_assert_eq!(sent, 0, "while it pauses");
                let waits = sender.poll_timeout().is_none_or(|at| at > now - STEP);
                prop_assert!(waits || sender.acked() == 400, "nobody is woken in vain");
            } else if let Some(cap) = cap {
                // What falls due within four bursts may leave at once, and the first one is due in any case.
                let span = now.since(from) + BURST * 5;
                let most = (u128::from(cap) * span.as_nanos() / 1_000_000_000) as u64 / DATAGRAM_BITS + 2;
                prop_assert!(sent <= most, "{} at {} bit/s in {:?}", sent, cap, span);
            }
        }
        sender.set_paused(false);
        sender.set_rate_cap(None);
        sender.path.controller.on_named_rate(Rate(1_000_000_000));
        for _ in 0..100 {
            drain(&mut sender, now).iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
            acknowledge(&mut receiver, &mut sender, now);
            now = now + STEP * 10;
            sender.handle_timeout(now);
        }
        prop_assert_eq!(sender.acked(), 400, "it goes on and ends");
        Ok(())
    }

    proptest! {
        #[test]
        fn no_more_is_sent_than_the_user_allows_at_each_moment(acts in acts()) {
            obeys(Box::new(Greedy), &acts)?;
            obeys(Box::new(Fixed::new(Rate(1_000_000_000))), &acts)?;
        }
    }

    #[test]
    fn who_sends_at_the_named_rate_sends_at_the_new_one() {
        let mut sender = sender(vec![7; LEN], Box::new(Fixed::new(Rate(1_000_000))));
        sender.set_rate_cap(Some(Rate(50_000_000)));
        assert_eq!(sender.effective_rate().0, Some(Rate(50_000_000)));
        sender.set_rate_cap(Some(Rate(2_000_000)));
        assert_eq!(sender.effective_rate().0, Some(Rate(2_000_000)));
    }

    #[test]
    fn who_begins_later_sends_at_the_named_rate_too() {
        let before = || Box::new(Fixed::new(Rate(1_000_000)));
        let mut sender = sender(vec![7; LEN], before());
        sender.set_rate_cap(Some(Rate(50_000_000)));
        let rates = |sender: &mut Sender<Vec<u8>>| -> Vec<_> {
            sender.all_paths().map(|path| path.controller.pacing_rate().unwrap().0).collect()
        };
        sender.go_by_streams();
        sender.go_by_datagrams(before());
        assert_eq!(rates(&mut sender), [50_000_000], "after TCP");
        let shape = sender.shape();
        sender.cut(0, shape, &Ranges::new(), before());
        assert_eq!(rates(&mut sender), [50_000_000], "in another size");
        sender.add_path(Duration::from_millis(10), before());
        assert_eq!(rates(&mut sender), [50_000_000; 2], "over another path");
    }

    #[test]
    fn a_pause_that_begins_in_a_train_ends_it() {
        let mut sender = sender(vec![7; LEN], Box::new(Greedy));
        sender.path.train_left = 5;
        sender.set_paused(true);
        assert_eq!(drain(&mut sender, Time::from_millis(1)), []);
        assert_eq!((sender.path.train_left, sender.blocked()), (0, Blocked::Paused));
    }
}
