//! One direction of a hop: rate, queue, outages, impairments and propagation.

use crate::impair::{Dice, Fate, Impairments};
use crate::queue::{CoDel, DropTail, Dropped, FairQueue, Gauge, Keep, Occupancy, QueueDiscipline, Waiting};
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
    /// Who is served next, and what is dropped.
    pub discipline: QueueDiscipline,
    /// Largest packet, in bytes: what a flow may send in its turn.
    pub mtu: u32,
    /// What happens on it at random.
    pub impairments: Impairments,
    /// How it changes, in the order of time.
    pub steps: Vec<LinkStep>,
    /// Where the randomness comes from.
    pub seed: u64,
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkStep {
    /// When.
    pub at: Time,
    /// What.
    pub change: LinkChange,
}

/// What changes about a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange {
    /// Packets whose transmission begins from now on take this rate.
    Rate(Rate),
    /// Of packets that leave the queue from now on this share is lost.
    Loss(f64),
    /// What leaves the queue in the time to come is lost.
    Outage(Duration),
    /// Packets that leave the queue from now on propagate for so long. None overtakes another by that.
    Delay(Duration),
}

/// What a link does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// There was no room in the queue.
    QueueFull,
    /// It left the queue during an outage.
    Outage,
    /// Lost at random.
    Lost,
    /// It comes out at the other end.
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

/// What a link has done, in whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTotals {
    /// Packets that reached its queue.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that the queue dropped, for lack of room or to keep it short.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets put on the wire (or certain to be: a drop-tail queue counts what it takes in).
    pub carried: u64,
    /// Their bytes.
    pub carried_bytes: u64,
}

impl LinkTotals {
    /// Share of the bytes offered that the queue dropped.
    pub fn loss_ratio(&self) -> f64 {
        if self.offered_bytes == 0 { 0.0 } else { self.dropped_bytes as f64 / self.offered_bytes as f64 }
    }

    /// What was added since an earlier look.
    pub fn since(&self, earlier: &LinkTotals) -> LinkTotals {
        LinkTotals {
            offered: self.offered - earlier.offered,
            offered_bytes: self.offered_bytes - earlier.offered_bytes,
            dropped: self.dropped - earlier.dropped,
            dropped_bytes: self.dropped_bytes - earlier.dropped_bytes,
            carried: self.carried - earlier.carried,
            carried_bytes: self.carried_bytes - earlier.carried_bytes,
        }
    }
}

/// A link in use.
///
/// With a drop-tail queue everything about a packet is decided when it is [offered](Link::offer), since it is known
/// then when it will leave. Where the queue [chooses](Link::keeps), a packet is [put into](Link::push) it, and
/// [served](Link::serve) when its turn comes.
#[derive(Debug)]
pub struct Link {
    wire: Wire,
    queue: DropTail,
    kept: Option<Kept>,
    totals: LinkTotals,
}

/// A queue that chooses, and its level.
#[derive(Debug)]
struct Kept {
    queue: Box<dyn Keep>,
    gauge: Gauge,
}

impl Link {
    /// An idle link whose queue is measured from `measure_from` on.
    pub fn new(config: &LinkConfig, measure_from: Time) -> Link {
        let kept = |queue| Kept { queue, gauge: Gauge::new(config.queue_bytes, measure_from) };
        let mut link = Link {
            wire: Wire::new(config),
            queue: DropTail::new(config.queue_bytes, measure_from),
            kept: match config.discipline {
                QueueDiscipline::DropTail => None,
                QueueDiscipline::Fair => Some(kept(Box::new(FairQueue::new(config.queue_bytes, config.mtu)))),
                QueueDiscipline::CoDel => Some(kept(Box::new(CoDel::new(config.queue_bytes, config.mtu)))),
            },
            totals: LinkTotals::default(),
        };
        config.steps.iter().for_each(|step| link.schedule(*step));
        link
    }

    /// Whether its queue chooses, so that packets come by [`Link::push`].
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// A packet of `bytes` reaches the drop-tail queue `now`.
    pub fn offer(&mut self, now: Time, bytes: u32) -> Passage {
        self.count_offered(bytes);
        self.queue.advance(now);
        let starts = self.wire.free_at(now);
        if starts > now {
            if !self.queue.has_room(bytes) {
                self.count_dropped(bytes);
                return Passage::QueueFull;
            }
            self.queue.push(now, bytes, starts);
        }
        self.count_carried(bytes);
        self.wire.carry(now, bytes)
    }

    /// A packet reaches the queue that chooses; what it drops is added to `dropped`.
    pub fn push(&mut self, packet: Waiting, dropped: &mut Vec<Dropped>) {
        self.count_offered(packet.bytes);
        let Some(kept) = &mut self.kept else { return };
        let before = dropped.len();
        kept.queue.push(packet, dropped);
        kept.gauge.set(packet.since, kept.queue.waiting_bytes());
        dropped[before..].iter().for_each(|one| self.count_dropped(one.waiting.bytes));
    }

    /// Transmit the next packet of the queue that chooses, if the link is free and one waits.
    pub fn serve(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Option<(Waiting, Passage)> {
        let kept = self.kept.as_mut()?;
        if self.wire.free_at(now) > now {
            return None;
        }
        let before = dropped.len();
        let next = kept.queue.pop(now, dropped);
        kept.gauge.set(now, kept.queue.waiting_bytes());
        dropped[before..].iter().for_each(|one| self.count_dropped(one.waiting.bytes));
        let packet = next?;
        self.count_carried(packet.bytes);
        Some((packet, self.wire.carry(now, packet.bytes)))
    }

    /// When to serve next; `None` where nothing waits to be chosen.
    pub fn serve_at(&self, now: Time) -> Option<Time> {
        let kept = self.kept.as_ref()?;
        (!kept.queue.is_empty()).then(|| self.wire.free_at(now))
    }

    /// Let the link change; to be called before that moment. Packets whose departure is certain are not concerned.
    pub fn schedule(&mut self, step: LinkStep) {
        match step.change {
            LinkChange::Rate(rate) => self.wire.serializer.schedule_rate(step.at, rate),
            LinkChange::Loss(share) => insert(&mut self.wire.losses, step.at, share),
            LinkChange::Outage(span) => insert(&mut self.wire.outages, step.at, step.at + span),
            LinkChange::Delay(delay) => insert(&mut self.wire.delays, step.at, delay),
        }
    }

    /// What leaves the bottleneck from `from` until before `to` is lost. Packets offered already are not concerned.
    pub fn schedule_outage(&mut self, from: Time, to: Time) {
        self.schedule(LinkStep { at: from, change: LinkChange::Outage(to.since(from)) });
    }

    /// How full the queue was until `now`.
    pub fn occupancy(&mut self, now: Time) -> Occupancy {
        match &mut self.kept {
            Some(kept) => kept.gauge.occupancy(now),
            None => self.queue.occupancy(now),
        }
    }

    /// Packets in a queue that chooses.
    pub fn kept_packets(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.queue.len())
    }

    /// How long a packet propagates, as far as has come to pass.
    pub fn delay(&self) -> Duration {
        self.wire.delay
    }

    /// What it has done so far.
    pub fn totals(&self) -> LinkTotals {
        self.totals
    }

    fn count_offered(&mut self, bytes: u32) {
        self.totals.offered += 1;
        self.totals.offered_bytes += u64::from(bytes);
    }

    fn count_dropped(&mut self, bytes: u32) {
        self.totals.dropped += 1;
        self.totals.dropped_bytes += u64::from(bytes);
    }

    fn count_carried(&mut self, bytes: u32) {
        self.totals.carried += 1;
        self.totals.carried_bytes += u64::from(bytes);
    }
}

/// What lies behind the queue: packets go on it one after another, and some things happen to them.
#[derive(Debug)]
struct Wire {
    serializer: Serializer,
    delay: Duration,
    dice: Dice,
    outages: VecDeque<(Time, Time)>,
    losses: VecDeque<(Time, f64)>,
    delays: VecDeque<(Time, Duration)>,
    last_arrival: Time,
}

impl Wire {
    fn new(config: &LinkConfig) -> Wire {
        Wire {
            serializer: Serializer::new(config.rate),
            delay: config.delay,
            dice: Dice::new(config.impairments.clone(), config.seed),
            outages: VecDeque::new(),
            losses: VecDeque::new(),
            delays: VecDeque::new(),
            last_arrival: Time::ZERO,
        }
    }

    fn free_at(&self, now: Time) -> Time {
        self.serializer.free_at(now)
    }

    /// Transmit a packet as soon as can be.
    fn carry(&mut self, now: Time, bytes: u32) -> Passage {
        let departs = self.serializer.transmit(now, bytes);
        if let Some(share) = take_latest(&mut self.losses, departs) {
            self.dice.set_loss(share);
        }
        self.delay = take_latest(&mut self.delays, departs).unwrap_or(self.delay);
        let fate = self.dice.roll();
        if self.is_out(departs) {
            return Passage::Outage;
        }
        if fate.lost {
            return Passage::Lost;
        }
        self.propagate(departs, &fate)
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

    /// What begins to be transmitted from `at` on goes at this rate.
    pub(crate) fn schedule_rate(&mut self, at: Time, rate: Rate) {
        insert(&mut self.rates, at, rate.0.max(1));
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

    fn config() -> LinkConfig {
        LinkConfig {
            rate: Rate::from_mbps(100.0),
            delay: Duration::from_millis(10),
            queue_bytes: 3000,
            discipline: QueueDiscipline::DropTail,
            mtu: 1500,
            impairments: Impairments::default(),
            steps: Vec::new(),
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
