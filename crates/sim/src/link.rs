//! One direction of a hop: rate, queue, outages, impairments and propagation.

mod wire;

pub(crate) use wire::Serializer;

use crate::impair::{Dice, Impairments};
use crate::policer::{Policer, PolicerConfig};
use crate::queue::{
    CoDel, DropReason, DropTail, Dropped, DualPi2, FairQueue, Gauge, Keep, Occupancy, QueueDiscipline,
    Waiting,
};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::{Rate, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use wire::Wire;

/// What a link is.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// How fast packets are put on it, counting whole IP packets.
    pub rate: Rate,
    /// How long a packet propagates.
    pub delay: Duration,
    /// What is dropped before the queue.
    pub policer: Option<PolicerConfig>,
    /// What may wait for it.
    pub queue_bytes: u64,
    /// Who is served next, and what is dropped.
    pub discipline: QueueDiscipline,
    /// What waits longer is marked by [`QueueDiscipline::Step`].
    pub mark_after: Duration,
    /// Largest packet, in bytes: what a flow may send in its turn.
    pub mtu: u32,
    /// What the way beyond the queue does to marks.
    pub marks: Marks,
    /// What happens on it at random.
    pub impairments: Impairments,
    /// How it changes, in the order of time.
    pub steps: Vec<LinkStep>,
    /// Where the randomness comes from.
    pub seed: u64,
}

impl LinkConfig {
    /// What befalls its packets, one after the other.
    pub fn dice(&self) -> Dice {
        Dice::new(self.impairments.clone(), self.seed)
    }
}

/// What becomes of marks, and of what could be marked, on a path that does not do as RFC 3168 says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marks {
    /// They stay.
    #[default]
    Kept,
    /// Nothing could be marked any more, and no mark is left.
    Cleared,
    /// All that could be marked is.
    Forged,
    /// What could be marked is dropped.
    Dropped,
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
    /// A policer dropped it before the queue.
    Policed,
    /// It left the queue during an outage.
    Outage,
    /// Lost at random, or because it could be marked.
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
        /// What its IP header says now.
        ecn: Ecn,
    },
}

/// What a link has done, in whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTotals {
    /// Packets that reached its queue.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that the queue dropped, for lack of room or to keep it short, or a policer before it.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets put on the wire (or certain to be: a drop-tail queue counts what it takes in).
    pub carried: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Of those, packets that the queue marked.
    pub marked: u64,
}

impl LinkTotals {
    /// Share of the bytes offered that were dropped.
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
            marked: self.marked - earlier.marked,
        }
    }
}

/// A link in use: told the time and what comes, it says what becomes of it and when. It touches no packet, and time may
/// be a simulation's or that of a real clock.
///
/// With a drop-tail queue everything about a packet is decided when it is [offered](Link::offer), since it is known
/// then when it will leave. Where the queue [chooses](Link::keeps), a packet is [put into](Link::push) it, and
/// [served](Link::serve) when its turn comes.
#[derive(Debug)]
pub struct Link {
    wire: Wire,
    policer: Option<Policer>,
    queue: DropTail,
    kept: Option<Kept>,
    /// In the queue that does not choose, what waits longer is marked.
    mark_after: Duration,
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
        let codel = || CoDel::new(config.queue_bytes, config.mtu);
        let kept = |queue| Kept { queue, gauge: Gauge::new(config.queue_bytes, measure_from) };
        Link {
            wire: Wire::new(config),
            policer: config.policer.map(|policer| Policer::new(policer, Time::ZERO)),
            queue: DropTail::new(config.queue_bytes, measure_from),
            kept: match config.discipline {
                QueueDiscipline::DropTail | QueueDiscipline::Step => None,
                QueueDiscipline::Fair => Some(kept(Box::new(FairQueue::new(config.queue_bytes, config.mtu)))),
                QueueDiscipline::CoDel => Some(kept(Box::new(codel()))),
                QueueDiscipline::CoDelEcn => Some(kept(Box::new(codel().marking()))),
                QueueDiscipline::DualPi2 => {
                    let dual = DualPi2::new(config.queue_bytes, config.mtu, config.rate, config.seed);
                    Some(kept(Box::new(dual)))
                }
            },
            mark_after: match config.discipline {
                QueueDiscipline::Step => config.mark_after,
                _ => Duration::MAX,
            },
            totals: LinkTotals::default(),
        }
    }

    /// The link is as it is at first, and its steps are all to come, counted from `now`. What has been offered stays.
    pub fn restart(&mut self, config: &LinkConfig, now: Time) {
        self.wire.restart(config, now);
        self.policer = config.policer.map(|policer| Policer::new(policer, now));
    }

    /// From now on the queue is measured anew. What waits stays.
    pub fn restart_occupancy(&mut self, now: Time) {
        match &mut self.kept {
            Some(kept) => kept.gauge.restart(now),
            None => self.queue.restart_occupancy(now),
        }
    }

    /// Whether its queue chooses, so that packets come by [`Link::push`].
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// A packet of `bytes`, with that in its IP header, reaches the queue that does not choose `now`.
    pub fn offer(&mut self, now: Time, bytes: u32, ecn: Ecn) -> Passage {
        self.count_offered(bytes);
        if !self.admits(now, bytes) {
            return Passage::Policed;
        }
        self.queue.advance(now);
        let starts = self.wire.free_at(now);
        let is_marked = ecn.is_capable() && starts.since(now) > self.mark_after;
        if starts > now {
            if !self.queue.has_room(bytes) {
                self.count_dropped(bytes);
                return Passage::QueueFull;
            }
            self.queue.push(now, bytes, starts);
        }
        self.carry(now, bytes, ecn, is_marked)
    }

    /// A packet reaches the queue that chooses; what that or a policer drops is added to `dropped`.
    pub fn push(&mut self, packet: Waiting, dropped: &mut Vec<Dropped>) {
        self.count_offered(packet.bytes);
        if !self.admits(packet.since, packet.bytes) {
            return dropped.push(Dropped { waiting: packet, reason: DropReason::Policed });
        }
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
        Some((packet, self.carry(now, packet.bytes, packet.ecn, packet.is_marked)))
    }

    /// When to serve next; `None` where nothing waits to be chosen.
    pub fn serve_at(&self, now: Time) -> Option<Time> {
        let kept = self.kept.as_ref()?;
        (!kept.queue.is_empty()).then(|| self.wire.free_at(now))
    }

    /// Let the link change; to be called before that moment. Packets whose departure is certain are not concerned.
    pub fn schedule(&mut self, step: LinkStep) {
        self.wire.schedule(step);
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
        self.wire.delay()
    }

    /// What it has done so far.
    pub fn totals(&self) -> LinkTotals {
        self.totals
    }

    /// Whether a policer lets it pass; counts what it does not.
    fn admits(&mut self, now: Time, bytes: u32) -> bool {
        let passes = self.policer.as_mut().is_none_or(|policer| policer.lets_pass(now, bytes.into()));
        if !passes {
            self.count_dropped(bytes);
        }
        passes
    }

    fn count_offered(&mut self, bytes: u32) {
        self.totals.offered += 1;
        self.totals.offered_bytes += u64::from(bytes);
    }

    fn count_dropped(&mut self, bytes: u32) {
        self.totals.dropped += 1;
        self.totals.dropped_bytes += u64::from(bytes);
    }

    /// The queue lets a packet go, marked or not.
    fn carry(&mut self, now: Time, bytes: u32, ecn: Ecn, is_marked: bool) -> Passage {
        self.totals.carried += 1;
        self.totals.carried_bytes += u64::from(bytes);
        self.totals.marked += u64::from(is_marked);
        self.wire.carry(now, bytes, if is_marked { Ecn::Ce } else { ecn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LinkConfig {
        LinkConfig {
            rate: Rate::from_mbps(100.0),
            delay: Duration::from_millis(10),
            policer: None,
            queue_bytes: 3000,
            discipline: QueueDiscipline::DropTail,
            mark_after: Duration::ZERO,
            mtu: 1500,
            marks: Marks::Kept,
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
        assert_eq!(arrival(link.offer(Time(0), 1500, Ecn::NotEct)), Time(10_120_000));
        assert_eq!(arrival(link.offer(Time(0), 1500, Ecn::NotEct)), Time(10_240_000));
        assert_eq!(arrival(link.offer(Time(1), 1500, Ecn::NotEct)), Time(10_360_000));
        // one is being transmitted and two wait: full
        assert_eq!(link.offer(Time(2), 1500, Ecn::NotEct), Passage::QueueFull);
        assert_eq!(link.offer(Time(119_999), 1, Ecn::NotEct), Passage::QueueFull);
        // the first of the two begins to be transmitted
        assert_eq!(arrival(link.offer(Time(120_000), 1500, Ecn::NotEct)), Time(10_480_000));
        // idle again
        assert_eq!(arrival(link.offer(Time(1_000_000), 750, Ecn::NotEct)), Time(11_060_000));
        let found = link.occupancy(Time(1_000_000));
        // two packets wait for 120 µs, then two for 120 µs, then one for 120 µs; less 1 ns of one
        assert_eq!(found.mean_bytes, (1500.0 * (5.0 * 120_000.0 - 1.0)) / 1_000_000.0);
        assert_eq!(found.max_bytes, 3000);
    }

    #[test]
    fn what_a_policer_drops_never_waits() {
        let rate = Rate::from_mbps(50.0);
        for discipline in QueueDiscipline::ALL {
            let policer = Some(PolicerConfig { rate, burst_bytes: 15_000 });
            let policed = LinkConfig { policer, discipline, queue_bytes: 1 << 20, ..config() };
            let mut link = Link::new(&policed, Time::ZERO);
            let mut dropped = Vec::new();
            // Twice its rate for 240 ms, as the link carries it.
            for n in 0..2000u32 {
                let now = Time(u64::from(n) * 120_000);
                if link.keeps() {
                    let (bytes, ecn) = (1500, Ecn::NotEct);
                    let packet = Waiting { packet: n, flow: 0, bytes, ecn, is_marked: false, since: now };
                    link.push(packet, &mut dropped);
                    link.serve(now, &mut dropped);
                } else {
                    link.offer(now, 1500, Ecn::NotEct);
                }
            }
            let totals = link.totals();
            assert_eq!((totals.offered, totals.dropped, totals.carried), (2000, 991, 1009), "{discipline}");
            assert!(dropped.iter().all(|one| one.reason == DropReason::Policed));
            assert_eq!(dropped.len(), if link.keeps() { 991 } else { 0 });
        }
    }

    #[test]
    fn a_step_marks_what_waits_too_long_and_can_be_marked() {
        let step = LinkConfig {
            discipline: QueueDiscipline::Step,
            mark_after: Duration::from_micros(200),
            queue_bytes: 1 << 20,
            ..config()
        };
        let mut link = Link::new(&step, Time::ZERO);
        let ecn = |passage| match passage {
            Passage::Arrives { ecn, .. } => ecn,
            other => panic!("{other:?} instead of an arrival"),
        };
        // They wait 0, 120, 240, 360 and 480 µs.
        let sent = [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::Ect1];
        let left = sent.map(|sent| ecn(link.offer(Time(0), 1500, sent)));
        assert_eq!(left, [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
        assert_eq!((link.totals().marked, link.totals().dropped), (2, 0));
    }

    #[test]
    fn paths_that_do_not_know_marks() {
        let sent = [Ecn::NotEct, Ecn::Ect0, Ecn::Ce];
        for (marks, left) in [
            (Marks::Kept, sent.map(Some)),
            (Marks::Cleared, [Some(Ecn::NotEct); 3]),
            (Marks::Forged, [Some(Ecn::NotEct), Some(Ecn::Ce), Some(Ecn::Ce)]),
            (Marks::Dropped, [Some(Ecn::NotEct), None, None]),
        ] {
            let mut link = Link::new(&LinkConfig { marks, queue_bytes: 1 << 20, ..config() }, Time::ZERO);
            let passed = sent.map(|sent| match link.offer(Time(0), 1500, sent) {
                Passage::Arrives { ecn, .. } => Some(ecn),
                _ => None,
            });
            assert_eq!(passed, left, "{marks:?}");
        }
    }

    #[test]
    fn jitter_keeps_order_and_reordering_does_not() {
        let mut jittery = config();
        jittery.impairments.jitter = Duration::from_millis(5);
        let mut link = Link::new(&jittery, Time::ZERO);
        let times: Vec<Time> =
            (0..1000).map(|n| arrival(link.offer(Time(n * 120_000), 1500, Ecn::NotEct))).collect();
        assert!(times.is_sorted());
        assert!(times.windows(2).any(|pair| pair[0] == pair[1]), "jitter must bunch packets");

        let mut shuffling = config();
        shuffling.impairments.reorder = 0.1;
        shuffling.impairments.hold = Duration::from_micros(240)..=Duration::from_micros(960);
        let mut link = Link::new(&shuffling, Time::ZERO);
        let mut held = 0;
        for n in 0..1000 {
            let straight = Time((n + 1) * 120_000 + 10_000_000);
            match link.offer(Time(n * 120_000), 1500, Ecn::NotEct) {
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
    fn time_can_begin_anew() {
        let step = |at_ms, change| LinkStep { at: Time::from_millis(at_ms), change };
        let steps = vec![
            step(10, LinkChange::Rate(Rate::from_mbps(10.0))),
            step(20, LinkChange::Delay(Duration::from_millis(3))),
            step(30, LinkChange::Loss(1.0)),
        ];
        let config = LinkConfig { steps, ..config() };
        let mut link = Link::new(&config, Time::ZERO);
        for zero_ms in [0u64, 100] {
            let ms = |ms| Time::from_millis(zero_ms + ms);
            link.restart(&config, ms(0));
            assert_eq!(arrival(link.offer(ms(0), 1500, Ecn::NotEct)), ms(10) + Duration::from_micros(120));
            assert_eq!(arrival(link.offer(ms(10), 1500, Ecn::NotEct)), ms(20) + Duration::from_micros(1200));
            assert_eq!(arrival(link.offer(ms(20), 1500, Ecn::NotEct)), ms(23) + Duration::from_micros(1200));
            assert_eq!(link.offer(ms(30), 1500, Ecn::NotEct), Passage::Lost);
        }
        link.restart_occupancy(Time::from_millis(131));
        assert_eq!(link.occupancy(Time::from_millis(140)), Occupancy::default());
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
            if link.offer(Time(n * 120_000), 1500, Ecn::NotEct) == Passage::Outage {
                out.push(n);
            }
        }
        assert_eq!(out, [0, 1, 4]);
    }
}
