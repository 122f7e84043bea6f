//! DualPI2 (RFC 9332, appendix A): two queues behind one link, coupled so that flows of both kinds get about the same.

use super::{DropReason, Dropped, Keep, Waiting};
use fastrand::Rng;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::{Rate, Time, nanos};
use std::collections::VecDeque;
use std::time::Duration;

/// A *classic* queue, kept to 15 ms by a PI² controller, and a *low-latency* one for [`Ecn::Ect1`], marked from 0.8 ms
/// on and so much that its flows make room for those of the other.
#[derive(Debug)]
pub struct DualPi2 {
    limit_bytes: u64,
    waiting_bytes: u64,
    classic: VecDeque<Waiting>,
    low: VecDeque<Waiting>,
    /// From here on packets of the low-latency queue are marked, ever more of them.
    ramp_from: Duration,
    pi: Pi,
    /// The low-latency queue goes first while it is not above zero, in tenths of a byte.
    credit: i64,
    rng: Rng,
    /// The share that is marked of the low-latency queue, and what of a mark has not been given.
    owed: f64,
}

/// The controller of the classic queue: p′ of the RFC.
#[derive(Clone, Copy, Debug, Default)]
struct Pi {
    share: f64,
    updated: Time,
    before_s: f64,
}

impl Pi {
    /// By now packets wait for `delay`. It thinks every 16 ms.
    fn update(&mut self, now: Time, delay: Duration) {
        if now.since(self.updated) < UPDATE {
            return;
        }
        // What is said often while packets come is not said while none does: the queue is empty then.
        let missed = nanos(now.since(self.updated)) / nanos(UPDATE) - 1;
        if missed > 0 {
            self.step(0.0);
            let lasting = missed.min(MISSED_MAX) as f64;
            self.share = (self.share - lasting * ALPHA * TARGET_S).max(0.0);
        }
        self.step(delay.as_secs_f64());
        self.updated = now;
    }

    fn step(&mut self, delay_s: f64) {
        let change = ALPHA * (delay_s - TARGET_S) + BETA * (delay_s - self.before_s);
        self.share = (self.share + change).clamp(0.0, 1.0);
        self.before_s = delay_s;
    }

    /// Of classic packets: flows that answer as Reno get the same as those that answer to the other share.
    fn classic(&self) -> f64 {
        self.share * self.share
    }

    /// Of low-latency packets.
    fn coupled(&self) -> f64 {
        (COUPLING * self.share).min(1.0)
    }
}

impl DualPi2 {
    /// Empty queues for `limit_bytes` together, before a link of `rate`.
    pub fn new(limit_bytes: u64, mtu: u32, rate: Rate, seed: u64) -> DualPi2 {
        DualPi2 {
            limit_bytes,
            waiting_bytes: 0,
            classic: VecDeque::new(),
            low: VecDeque::new(),
            ramp_from: RAMP_FROM.max(rate.time_for(2 * u64::from(mtu))),
            pi: Pi::default(),
            credit: 0,
            rng: Rng::with_seed(seed),
            owed: 0.0,
        }
    }

    fn update(&mut self, now: Time) {
        let first = [self.classic.front(), self.low.front()].into_iter().flatten();
        let delay = first.map(|packet| now.since(packet.since)).max().unwrap_or_default();
        self.pi.update(now, delay);
    }

    /// The next packet, and whether it is a classic one: where both wait these get a tenth of the link at least.
    fn take(&mut self) -> Option<(Waiting, bool)> {
        let both = !self.classic.is_empty() && !self.low.is_empty();
        let is_classic = if both { self.credit > 0 } else { self.low.is_empty() };
        let packet = if is_classic { self.classic.pop_front()? } else { self.low.pop_front()? };
        self.waiting_bytes -= u64::from(packet.bytes);
        let bytes = i64::from(packet.bytes);
        match (is_classic, both) {
            _ if !both => self.credit = 0,
            (true, _) => self.credit -= bytes * (10 - CLASSIC_TENTHS),
            (false, _) => self.credit += bytes * CLASSIC_TENTHS,
        }
        Some((packet, is_classic))
    }

    /// Whether one of so many is due (the RFC's `recur`).
    fn recur(&mut self, share: f64) -> bool {
        self.owed += share;
        let is_due = self.owed > 1.0;
        self.owed -= f64::from(u8::from(is_due));
        is_due
    }

    fn is_low_marked(&mut self, waited: Duration) -> bool {
        let beyond = waited.saturating_sub(self.ramp_from).as_secs_f64();
        let own = (beyond / RAMP.as_secs_f64()).min(1.0);
        let share = own.max(self.pi.coupled());
        self.recur(share)
    }
}

impl Keep for DualPi2 {
    fn push(&mut self, packet: Waiting, dropped: &mut Vec<Dropped>) {
        self.update(packet.since);
        if self.waiting_bytes + u64::from(packet.bytes) > self.limit_bytes {
            dropped.push(Dropped { waiting: packet, reason: DropReason::Full });
            return;
        }
        self.waiting_bytes += u64::from(packet.bytes);
        let is_low = matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        if is_low { self.low.push_back(packet) } else { self.classic.push_back(packet) }
    }

    fn pop(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Option<Waiting> {
        self.update(now);
        loop {
            let (packet, is_classic) = self.take()?;
            // So much is waiting that marks do not help: both kinds are dropped alike.
            let is_overload = self.pi.coupled() >= 1.0;
            let is_hit = (is_classic || is_overload) && self.rng.f64() < self.pi.classic();
            if is_hit && (is_overload || !packet.ecn.is_capable()) {
                dropped.push(Dropped { waiting: packet, reason: DropReason::Managed });
                continue;
            }
            let is_marked = if is_classic { is_hit } else { self.is_low_marked(now.since(packet.since)) };
            return Some(Waiting { is_marked, ..packet });
        }
    }

    fn len(&self) -> usize {
        self.classic.len() + self.low.len()
    }

    fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

/// RFC 9332 §A.1: what the classic queue is kept to, how often it is looked at, and by how much the share changes for a
/// second too long or longer than before.
const TARGET_S: f64 = 0.015;
const UPDATE: Duration = Duration::from_millis(16);
const ALPHA: f64 = 0.16;
const BETA: f64 = 3.2;
/// An idle queue is remembered no longer: by then nothing is left of any share.
const MISSED_MAX: u64 = 10_000;
/// RFC 9332 §A.1, k.
const COUPLING: f64 = 2.0;
/// RFC 9332 §A.1, minTh and range; the former is two packets at least.
const RAMP_FROM: Duration = Duration::from_micros(800);
const RAMP: Duration = Duration::from_micros(400);
/// RFC 9332 §4.2.2 leaves the weight open; Linux's is a tenth.
const CLASSIC_TENTHS: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ecn: Ecn, since: Time) -> Waiting {
        Waiting { packet: 0, flow: 0, bytes: 1500, ecn, is_marked: false, since }
    }

    fn queue() -> DualPi2 {
        DualPi2::new(1 << 30, 1500, Rate::from_mbps(100.0), 1)
    }

    /// What came out, what was marked and what was dropped of each kind when `kinds` always wait, so many of each, and
    /// one packet is served a tenth of a millisecond.
    fn serve(kinds: [(Ecn, usize); 2], for_ms: u64) -> [(u64, u64, u64); 2] {
        let (mut queue, mut dropped, mut seen) = (queue(), vec![], [(0, 0, 0); 2]);
        let mut inside = [0; 2];
        let place = |packet: &Waiting| usize::from(packet.ecn != kinds[0].0);
        for n in 0..for_ms * 10 {
            let now = Time(n * 100_000);
            for (kind, (ecn, backlog)) in kinds.into_iter().enumerate() {
                while inside[kind] < backlog {
                    queue.push(packet(ecn, now), &mut dropped);
                    inside[kind] += 1;
                }
            }
            let served = queue.pop(now, &mut dropped).unwrap();
            let (all, marked, _) = &mut seen[place(&served)];
            (*all, *marked) = (*all + 1, *marked + u64::from(served.is_marked));
            inside[place(&served)] -= 1;
            for one in dropped.drain(..) {
                seen[place(&one.waiting)].2 += 1;
                inside[place(&one.waiting)] -= 1;
            }
        }
        seen
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        assert_eq!(serve([(Ecn::Ect1, 5), (Ecn::Ect0, 0)], 500), [(5000, 0, 0), (0, 0, 0)]);
        // 10 ms are no 15; that they come at once makes it wary at first.
        let [(all, marked, dropped), _] = serve([(Ecn::NotEct, 100), (Ecn::Ect0, 0)], 5000);
        assert!(all == 50_000 && marked == 0 && dropped < 10, "{dropped} dropped");
    }

    #[test]
    fn the_low_latency_queue_is_marked_from_a_millisecond_on() {
        // 13 packets wait 1.2 ms.
        let [(all, marked, dropped), _] = serve([(Ecn::Ect1, 13), (Ecn::Ect0, 0)], 100);
        assert!(marked > all * 9 / 10 && dropped == 0, "{marked} of {all}");
    }

    #[test]
    fn who_fills_the_classic_queue_is_dropped_or_marked() {
        let [(_, marked, dropped), _] = serve([(Ecn::NotEct, 250), (Ecn::Ect0, 0)], 500);
        assert!(marked == 0 && dropped > 0, "{dropped}");
        let [(_, marked, dropped), _] = serve([(Ecn::Ect0, 250), (Ecn::Ect1, 0)], 500);
        assert!(marked > 0 && dropped == 0, "{marked} marked, {dropped} dropped");
    }

    #[test]
    fn nobody_starves_and_the_classic_queue_marks_the_other() {
        // The classic ones wait 17 ms, the others half a millisecond, for which none would be marked.
        let [(low, marked, _), (classic, ..)] = serve([(Ecn::Ect1, 5), (Ecn::Ect0, 15)], 1000);
        assert!((990..=1010).contains(&classic), "a tenth: {classic}, {low}");
        assert!(marked > low / 20, "{marked}");
    }
}
