//! One direction of the bottleneck: rate, queue, outages, impairments and propagation.

use crate::impair::{Dice, Fate, Impairments};
use crate::queue::{DropTail, Occupancy};
use longhaul_proto::units::{Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// What a link is.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// How fast packets are put on it, counting whole IP packets.
    pub rate: Rate,
    /// How long a packet propagates.
    pub delay: Duration,
    /// What may wait for it.
    pub queue_bytes: u64,
    /// What happens on it at random.
    pub impairments: Impairments,
    /// Where the randomness comes from.
    pub seed: u64,
}

/// What a link does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// There was no room in the queue.
    QueueFull,
    /// It left the bottleneck during an outage.
    Outage,
    /// Lost at random.
    Lost,
    /// It arrives.
    Arrives {
        /// When.
        time: Time,
        /// When its copy does, if it is duplicated.
        copy: Option<Time>,
        /// With wrong bytes; the number says which.
        corrupt: Option<u64>,
        /// It was held back.
        held_back: bool,
    },
}

/// A link in use. Everything about a packet is decided when it is offered, since a drop-tail queue knows then when
/// it will leave.
#[derive(Debug)]
pub struct Link {
    serializer: Serializer,
    queue: DropTail,
    delay: Duration,
    dice: Dice,
    outages: VecDeque<(Time, Time)>,
    last_arrival: Time,
}

impl Link {
    /// An idle link whose queue is measured from `measure_from` on.
    pub fn new(config: &LinkConfig, measure_from: Time) -> Link {
        Link {
            serializer: Serializer::new(config.rate),
            queue: DropTail::new(config.queue_bytes, measure_from),
            delay: config.delay,
            dice: Dice::new(config.impairments.clone(), config.seed),
            outages: VecDeque::new(),
            last_arrival: Time::ZERO,
        }
    }

    /// A packet of `bytes` reaches the queue `now`.
    pub fn offer(&mut self, now: Time, bytes: u32) -> Passage {
        self.queue.advance(now);
        let starts = self.serializer.free_at(now);
        if starts > now {
            if !self.queue.has_room(bytes) {
                return Passage::QueueFull;
            }
            self.queue.push(now, bytes, starts);
        }
        let departs = self.serializer.transmit(now, bytes);
        let fate = self.dice.roll();
        if self.is_out(departs) {
            return Passage::Outage;
        }
        if fate.lost {
            return Passage::Lost;
        }
        self.propagate(departs, &fate)
    }

    /// What leaves the bottleneck from `from` until before `to` is lost. Packets offered already are not concerned.
    pub fn schedule_outage(&mut self, from: Time, to: Time) {
        let place = self.outages.partition_point(|outage| outage.0 <= from);
        self.outages.insert(place, (from, to));
    }

    /// How full the queue was until `now`.
    pub fn occupancy(&mut self, now: Time) -> Occupancy {
        self.queue.occupancy(now)
    }

    fn is_out(&mut self, departs: Time) -> bool {
        // packets leave in order, so an outage that is over stays so
        while self.outages.front().is_some_and(|outage| outage.1 <= departs) {
            self.outages.pop_front();
        }
        self.outages.iter().take_while(|outage| outage.0 <= departs).any(|outage| departs < outage.1)
    }

    fn propagate(&mut self, departs: Time, fate: &Fate) -> Passage {
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
        }
    }
}

/// Puts packets on a wire one after another, at an exact rate: what a packet takes beyond whole nanoseconds is owed
/// to the next.
#[derive(Clone, Debug)]
pub(crate) struct Serializer {
    bits_per_second: u64,
    free: Time,
    /// Part of a nanosecond after `free`, in units of 1 / `bits_per_second` of it.
    remainder: u64,
}

impl Serializer {
    pub(crate) fn new(rate: Rate) -> Serializer {
        Serializer { bits_per_second: rate.0.max(1), free: Time::ZERO, remainder: 0 }
    }

    /// When a packet that comes `now` begins to be transmitted.
    pub(crate) fn free_at(&self, now: Time) -> Time {
        self.free.max(now)
    }

    /// Transmit a packet as soon as can be; returns when its last bit has left.
    pub(crate) fn transmit(&mut self, now: Time, bytes: u32) -> Time {
        if now > self.free {
            (self.free, self.remainder) = (now, 0);
        }
        let share = u64::from(bytes) * BIT_NS_PER_BYTE + self.remainder;
        self.free = Time(self.free.0.saturating_add(share / self.bits_per_second));
        self.remainder = share % self.bits_per_second;
        self.free
    }
}

/// 8 bits times 10⁹ ns/s.
const BIT_NS_PER_BYTE: u64 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LinkConfig {
        LinkConfig {
            rate: Rate::from_mbps(100.0),
            delay: Duration::from_millis(10),
            queue_bytes: 3000,
            impairments: Impairments::default(),
            seed: 1,
        }
    }

    fn arrival(passage: Passage) -> Time {
        match passage {
            Passage::Arrives { time, .. } => time,
            other => panic!("{other:?} instead of an arrival"),
        }
    }

    #[test]
    fn rate_delay_and_queue_are_exact() {
        // 1500 bytes at 100 Mb/s last 120 µs
        let mut link = Link::new(&config(), Time::ZERO);
        assert_eq!(arrival(link.offer(Time(0), 1500)), Time(10_120_000));
        assert_eq!(arrival(link.offer(Time(0), 1500)), Time(10_240_000));
        assert_eq!(arrival(link.offer(Time(1), 1500)), Time(10_360_000));
        // one is being transmitted and two wait: full
        assert_eq!(link.offer(Time(2), 1500), Passage::QueueFull);
        assert_eq!(link.offer(Time(119_999), 1), Passage::QueueFull);
        // the first of the two begins to be transmitted
        assert_eq!(arrival(link.offer(Time(120_000), 1500)), Time(10_480_000));
        // idle again
        assert_eq!(arrival(link.offer(Time(1_000_000), 750)), Time(11_060_000));
        let found = link.occupancy(Time(1_000_000));
        // two packets wait for 120 µs, then two for 120 µs, then one for 120 µs; less 1 ns of one
        assert_eq!(found.mean_bytes, (1500.0 * (5.0 * 120_000.0 - 1.0)) / 1_000_000.0);
        assert_eq!(found.max_bytes, 3000);
    }

    #[test]
    fn parts_of_nanoseconds_add_up() {
        // 1500 bytes at 7 Gb/s last 1714.2857… ns
        let mut serializer = Serializer::new(Rate::from_mbps(7000.0));
        let departures: Vec<u64> = (0..7).map(|_| serializer.transmit(Time(0), 1500).0).collect();
        assert_eq!(departures, [1714, 3428, 5142, 6857, 8571, 10_285, 12_000]);
    }

    #[test]
    fn jitter_keeps_order_and_reordering_does_not() {
        let mut jittery = config();
        jittery.impairments.jitter = Duration::from_millis(5);
        let mut link = Link::new(&jittery, Time::ZERO);
        let times: Vec<Time> = (0..1000).map(|n| arrival(link.offer(Time(n * 120_000), 1500))).collect();
        assert!(times.is_sorted());
        assert!(times.windows(2).any(|pair| pair[0] == pair[1]), "jitter must bunch packets");

        let mut shuffling = config();
        shuffling.impairments.reorder = 0.1;
        shuffling.impairments.hold = Duration::from_micros(240)..=Duration::from_micros(960);
        let mut link = Link::new(&shuffling, Time::ZERO);
        let mut held = 0;
        for n in 0..1000 {
            let straight = Time((n + 1) * 120_000 + 10_000_000);
            match link.offer(Time(n * 120_000), 1500) {
                Passage::Arrives { time, held_back: false, .. } => assert_eq!(time, straight),
                Passage::Arrives { time, held_back: true, .. } => {
                    held += 1;
                    assert!((240_000..=960_000).contains(&(time.0 - straight.0)));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!((50..150).contains(&held), "{held}");
    }

    #[test]
    fn outages_take_what_leaves_while_they_last() {
        let mut link = Link::new(&config(), Time::ZERO);
        link.schedule_outage(Time(500_000), Time(700_000));
        link.schedule_outage(Time(120_000), Time(300_000));
        link.schedule_outage(Time(130_000), Time(140_000));
        let mut out = Vec::new();
        for n in 0..8 {
            // leaves at (n + 1) × 120 µs
            if link.offer(Time(n * 120_000), 1500) == Passage::Outage {
                out.push(n);
            }
        }
        assert_eq!(out, [0, 1, 4]);
    }
}
