//! The plain queue of a router: first in, first out, and what does not fit is dropped.

use super::gauge::{Gauge, Occupancy};
use longhaul_proto::units::Time;
use std::collections::VecDeque;

/// A first-in first-out queue that refuses what does not fit.
///
/// It counts the bytes that *wait*: a packet whose transmission has begun has left, and what propagates was never in
/// it.
#[derive(Debug)]
pub struct DropTail {
    limit_bytes: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    gauge: Gauge,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    leaves: Time,
    bytes: u32,
}

impl DropTail {
    /// An empty queue for `limit_bytes`, measured from `measure_from` on.
    pub fn new(limit_bytes: u64, measure_from: Time) -> DropTail {
        DropTail {
            limit_bytes,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            gauge: Gauge::new(limit_bytes, measure_from),
        }
    }

    /// Let go what has begun to be transmitted by `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some(first) = self.waiting.front().copied().filter(|first| first.leaves <= now) {
            self.waiting.pop_front();
            self.set_level(first.leaves, self.waiting_bytes - u64::from(first.bytes));
        }
    }

    /// Whether a packet of `bytes` fits.
    pub fn has_room(&self, bytes: u32) -> bool {
        self.waiting_bytes + u64::from(bytes) <= self.limit_bytes
    }

    /// Take a packet in `now` that leaves at `leaves`, not earlier than those before it.
    pub fn push(&mut self, now: Time, bytes: u32, leaves: Time) {
        self.set_level(now, self.waiting_bytes + u64::from(bytes));
        self.waiting.push_back(Waiting { leaves, bytes });
    }

    /// Bytes waiting, as of the last call of [`DropTail::advance`].
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// How full it was until `now`.
    pub fn occupancy(&mut self, now: Time) -> Occupancy {
        self.advance(now);
        self.gauge.occupancy(now)
    }

    /// From now on it is measured anew.
    pub fn restart_occupancy(&mut self, now: Time) {
        self.advance(now);
        self.gauge.restart(now);
    }

    fn set_level(&mut self, at: Time, bytes: u64) {
        self.waiting_bytes = bytes;
        self.gauge.set(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_waits() {
        let mut queue = DropTail::new(3000, Time::ZERO);
        queue.push(Time(0), 1500, Time(10));
        assert!(queue.has_room(1500));
        queue.push(Time(0), 1500, Time(20));
        assert!(!queue.has_room(1));
        queue.advance(Time(9));
        assert_eq!(queue.waiting_bytes(), 3000);
        queue.advance(Time(10));
        assert_eq!(queue.waiting_bytes(), 1500);
        queue.advance(Time(20));
        assert_eq!(queue.waiting_bytes(), 0);
    }

    #[test]
    fn occupancy_is_weighted_by_time() {
        let mut queue = DropTail::new(10_000, Time::ZERO);
        queue.push(Time(0), 1000, Time(96));
        queue.push(Time(50), 3000, Time(100));
        // 1000 for 50 ns, 4000 for 46 ns, 3000 for 4 ns, nothing for 100 ns
        let found = queue.occupancy(Time(200));
        assert_eq!(found.mean_bytes, (50_000.0 + 184_000.0 + 12_000.0) / 200.0);
        assert_eq!(found.max_bytes, 4000);
        assert_eq!(found.p95_bytes, 4000);
        // 4000 only for 46 of 1000 ns: not within the 95 %
        assert_eq!(queue.occupancy(Time(1000)).p95_bytes, 1000);
    }

    #[test]
    fn what_was_before_the_moment_does_not_count() {
        let mut queue = DropTail::new(10_000, Time(100));
        queue.push(Time(0), 9000, Time(50));
        queue.push(Time(60), 2000, Time(150));
        let found = queue.occupancy(Time(200));
        assert_eq!(found, Occupancy { mean_bytes: 1000.0, p95_bytes: 2000, max_bytes: 2000 });
        assert_eq!(DropTail::new(1, Time(9)).occupancy(Time(5)), Occupancy::default());
        queue.push(Time(200), 500, Time(260));
        queue.restart_occupancy(Time(220));
        let found = queue.occupancy(Time(300));
        assert_eq!(found, Occupancy { mean_bytes: 250.0, p95_bytes: 500, max_bytes: 500 });
    }
}
