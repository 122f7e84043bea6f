//! What lies behind the queue: packets go on it one after another, and some things happen to them.

use super::{LinkChange, LinkConfig, LinkStep, Marks, Passage};
use crate::impair::{Dice, Fate};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::{Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// The wire itself, and what is to change about it.
#[derive(Debug)]
pub(super) struct Wire {
    serializer: Serializer,
    delay: Duration,
    dice: Dice,
    marks: Marks,
    outages: VecDeque<(Time, Time)>,
    losses: VecDeque<(Time, f64)>,
    delays: VecDeque<(Time, Duration)>,
    last_arrival: Time,
}

impl Wire {
    pub(super) fn new(config: &LinkConfig) -> Wire {
        let mut wire = Wire {
            serializer: Serializer::new(config.rate),
            delay: config.delay,
            dice: config.dice(),
            marks: config.marks,
            outages: VecDeque::new(),
            losses: VecDeque::new(),
            delays: VecDeque::new(),
            last_arrival: Time::ZERO,
        };
        wire.restart(config, Time::ZERO);
        wire
    }

    pub(super) fn restart(&mut self, config: &LinkConfig, now: Time) {
        self.serializer.restart(config.rate);
        self.delay = config.delay;
        self.dice.set_loss(config.impairments.loss);
        self.outages.clear();
        self.losses.clear();
        self.delays.clear();
        for step in &config.steps {
            self.schedule(LinkStep { at: now + step.at.since(Time::ZERO), ..*step });
        }
    }

    pub(super) fn schedule(&mut self, step: LinkStep) {
        match step.change {
            LinkChange::Rate(rate) => self.serializer.schedule_rate(step.at, rate),
            LinkChange::Loss(share) => insert(&mut self.losses, step.at, share),
            LinkChange::Outage(span) => insert(&mut self.outages, step.at, step.at + span),
            LinkChange::Delay(delay) => insert(&mut self.delays, step.at, delay),
        }
    }

    #[inline]
    pub(super) fn free_at(&self, now: Time) -> Time {
        self.serializer.free_at(now)
    }

    /// How long a packet propagates, as far as has come to pass.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Transmit a packet as soon as can be.
    #[inline]
    pub(super) fn carry(&mut self, now: Time, bytes: u32, ecn: Ecn) -> Passage {
        let departs = self.serializer.transmit(now, bytes);
        if let Some(share) = take_latest(&mut self.losses, departs) {
            self.dice.set_loss(share);
        }
        self.delay = take_latest(&mut self.delays, departs).unwrap_or(self.delay);
        let fate = self.dice.roll();
        if self.is_out(departs) {
            return Passage::Outage;
        }
        let ecn = match self.marks {
            Marks::Dropped if ecn.is_capable() => return Passage::Lost,
            Marks::Kept | Marks::Dropped => ecn,
            Marks::Cleared => Ecn::NotEct,
            Marks::Forged if ecn.is_capable() => Ecn::Ce,
            Marks::Forged => ecn,
        };
        if fate.lost {
            return Passage::Lost;
        }
        self.propagate(departs, &fate, ecn)
    }

    fn is_out(&mut self, departs: Time) -> bool {
        // packets leave in order, so an outage that is over stays so
        while self.outages.front().is_some_and(|outage| outage.1 <= departs) {
            self.outages.pop_front();
        }
        self.outages.iter().take_while(|outage| outage.0 <= departs).any(|outage| departs < outage.1)
    }

    fn propagate(&mut self, departs: Time, fate: &Fate, ecn: Ecn) -> Passage {
        let earliest = departs + self.delay + fate.jitter;
        let time = match fate.held_back {
            Some(hold) => earliest + hold,
            None => {
                self.last_arrival = self.last_arrival.max(earliest);
                self.last_arrival
            }
        };
        Passage::Arrives {
            time,
            copy: fate.copy_after.map(|after| time + after),
            corrupt: fate.corrupt,
            held_back: fate.held_back.is_some(),
            ecn,
        }
    }
}

/// Puts packets on a wire one after another, at an exact rate: what a packet takes beyond whole nanoseconds is owed
/// to the next.
#[derive(Clone, Debug)]
pub(crate) struct Serializer {
    bits_per_second: u64,
    /// Rates to come.
    rates: VecDeque<(Time, u64)>,
    free: Time,
    /// Part of a nanosecond after `free`, in units of 1 / `bits_per_second` of it.
    remainder: u64,
}

impl Serializer {
    pub(crate) fn new(rate: Rate) -> Serializer {
        Serializer { bits_per_second: rate.0.max(1), rates: VecDeque::new(), free: Time::ZERO, remainder: 0 }
    }

    /// What is transmitted next goes at this rate, and no other rate is to come.
    fn restart(&mut self, rate: Rate) {
        (self.bits_per_second, self.remainder) = (rate.0.max(1), 0);
        self.rates.clear();
    }

    /// What begins to be transmitted from `at` on goes at this rate.
    pub(crate) fn schedule_rate(&mut self, at: Time, rate: Rate) {
        insert(&mut self.rates, at, rate.0.max(1));
    }

    /// When a packet that comes `now` begins to be transmitted.
    #[inline]
    pub(crate) fn free_at(&self, now: Time) -> Time {
        self.free.max(now)
    }

    /// Transmit a packet as soon as can be; returns when its last bit has left.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, bytes: u32) -> Time {
        if now > self.free {
            (self.free, self.remainder) = (now, 0);
        }
        if !self.rates.is_empty() {
            self.take_steps();
        }
        let share = u64::from(bytes) * BIT_NS_PER_BYTE + self.remainder;
        self.free = Time(self.free.0.saturating_add(share / self.bits_per_second));
        self.remainder = share % self.bits_per_second;
        self.free
    }

    fn take_steps(&mut self) {
        if let Some(rate) = take_latest(&mut self.rates, self.free) {
            (self.bits_per_second, self.remainder) = (rate, 0);
        }
    }
}

/// Take out what has come to pass by then; the last of it holds.
fn take_latest<T>(steps: &mut VecDeque<(Time, T)>, now: Time) -> Option<T> {
    let mut latest = None;
    while let Some((_, what)) = steps.pop_front_if(|step| step.0 <= now) {
        latest = Some(what);
    }
    latest
}

/// Put something in after all that is not later.
fn insert<T>(steps: &mut VecDeque<(Time, T)>, at: Time, what: T) {
    let place = steps.partition_point(|step| step.0 <= at);
    steps.insert(place, (at, what));
}

/// 8 bits times 10⁹ ns/s.
const BIT_NS_PER_BYTE: u64 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_nanoseconds_add_up() {
        // 1500 bytes at 7 Gb/s last 1714.2857… ns
        let mut serializer = Serializer::new(Rate::from_mbps(7000.0));
        let departures: Vec<u64> = (0..7).map(|_| serializer.transmit(Time(0), 1500).0).collect();
        assert_eq!(departures, [1714, 3428, 5142, 6857, 8571, 10_285, 12_000]);
    }
}
