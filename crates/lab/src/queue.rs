//! The bottleneck: a link that sends one packet after the other, and the drop-tail queue in front of it. In virtual
//! time: when a packet leaves follows from when it came, not from when the emulator gets the processor.

use std::collections::VecDeque;

/// A link with its queue. The queue's limit counts bytes that wait; the packet being sent and those on their way do not.
pub(crate) struct Bottleneck {
    ns_per_byte: f64,
    /// Rates to come: from when, and in ns per byte.
    rates: VecDeque<(u64, f64)>,
    limit_bytes: u64,
    /// When the last packet accepted will have been sent.
    free_at: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    occupancy: Occupancy,
}

struct Waiting {
    /// When its sending begins.
    start: u64,
    bytes: u64,
}

impl Bottleneck {
    pub(crate) fn new(mbit: f64, limit_bytes: u64, now: u64) -> Bottleneck {
        Bottleneck {
            ns_per_byte: ns_per_byte(mbit),
            rates: VecDeque::new(),
            limit_bytes,
            free_at: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            occupancy: Occupancy::new(limit_bytes, now),
        }
    }

    /// Packets whose sending begins from now on take this rate, later ones those of `rates` (from when, Mb/s), which are
    /// in the order of time. What has been accepted keeps its time.
    pub(crate) fn set_rate(&mut self, mbit: f64, rates: VecDeque<(u64, f64)>) {
        self.ns_per_byte = ns_per_byte(mbit);
        self.rates = rates.into_iter().map(|(at, mbit)| (at, ns_per_byte(mbit))).collect();
    }

    /// A packet arrives: when its last byte will have been sent, or `None` if there is no room for it to wait.
    pub(crate) fn offer(&mut self, now: u64, bytes: u64) -> Option<u64> {
        self.advance(now);
        let mut start = now;
        if self.free_at > now {
            if self.waiting_bytes + bytes > self.limit_bytes {
                return None;
            }
            start = self.free_at;
            self.waiting.push_back(Waiting { start, bytes });
            self.waiting_bytes += bytes;
            self.occupancy.note_peak(self.waiting_bytes);
        }
        while let Some((_, ns_per_byte)) = self.rates.pop_front_if(|step| step.0 <= start) {
            self.ns_per_byte = ns_per_byte;
        }
        self.free_at = start + self.time_for(bytes);
        Some(self.free_at)
    }

    /// How long a packet of this size takes to send, ns.
    pub(crate) fn time_for(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.ns_per_byte).round() as u64
    }

    /// How full the queue was from the last [`restart_window`](Self::restart_window) until `now`.
    pub(crate) fn waiting(&mut self, now: u64) -> WaitingBytes {
        self.advance(now);
        self.occupancy.summary()
    }

    pub(crate) fn restart_window(&mut self, now: u64) {
        self.advance(now);
        self.occupancy = Occupancy::new(self.limit_bytes, now);
        self.occupancy.note_peak(self.waiting_bytes);
    }

    fn advance(&mut self, now: u64) {
        while let Some(front) = self.waiting.front()
            && front.start <= now
        {
            self.occupancy.spend(front.start, self.waiting_bytes);
            self.waiting_bytes -= front.bytes;
            self.waiting.pop_front();
        }
        self.occupancy.spend(now, self.waiting_bytes);
    }
}

fn ns_per_byte(mbit: f64) -> f64 {
    8e3 / mbit
}

/// How many bytes waited in a queue, over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaitingBytes {
    /// Mean over time.
    pub mean: f64,
    /// For 95 % of the time no more than this (to 1/512 of the queue's room).
    pub p95: u64,
    /// At the worst moment.
    pub max: u64,
}

/// For how long the queue was how full.
struct Occupancy {
    step_bytes: f64,
    /// Time spent with at most `index × step_bytes` waiting (and more than the step before), ns.
    spent: Vec<u64>,
    byte_ns: f64,
    until: u64,
    max: u64,
}

impl Occupancy {
    fn new(limit_bytes: u64, now: u64) -> Occupancy {
        let step_bytes = limit_bytes.max(1) as f64 / STEPS as f64;
        Occupancy { step_bytes, spent: vec![0; STEPS + 1], byte_ns: 0.0, until: now, max: 0 }
    }

    /// Until `now`, `bytes` were waiting. Time never runs backwards.
    fn spend(&mut self, now: u64, bytes: u64) {
        let ns = now.saturating_sub(self.until);
        if ns > 0 {
            self.until = now;
            self.byte_ns += bytes as f64 * ns as f64;
            self.spent[((bytes as f64 / self.step_bytes).ceil() as usize).min(STEPS)] += ns;
        }
    }

    fn note_peak(&mut self, bytes: u64) {
        self.max = self.max.max(bytes);
    }

    fn summary(&self) -> WaitingBytes {
        let total: u64 = self.spent.iter().sum();
        if total == 0 {
            return WaitingBytes { max: self.max, ..WaitingBytes::default() };
        }
        let mut left = (total as f64 * 0.95).ceil() as u64;
        let step = self.spent.iter().position(|&ns| {
            left = left.saturating_sub(ns);
            left == 0
        });
        let p95 = (step.unwrap_or(STEPS) as f64 * self.step_bytes).round() as u64;
        WaitingBytes { mean: self.byte_ns / total as f64, p95: p95.min(self.max), max: self.max }
    }
}

const STEPS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Mb/s: 1500 bytes take 120 µs.
    fn link(limit_bytes: u64) -> Bottleneck {
        Bottleneck::new(100.0, limit_bytes, 0)
    }

    #[test]
    fn packets_leave_one_after_the_other() {
        let mut link = link(100_000);
        assert_eq!(link.offer(0, 1500), Some(120_000));
        assert_eq!(link.offer(0, 1500), Some(240_000));
        assert_eq!(link.offer(200_000, 750), Some(300_000));
        assert_eq!(link.offer(1_000_000, 1500), Some(1_120_000), "an idle link starts at once");
    }

    #[test]
    fn the_limit_counts_what_waits_and_nothing_else() {
        let mut link = link(3000);
        assert!(link.offer(0, 1500).is_some(), "being sent");
        assert!(link.offer(0, 1500).is_some() && link.offer(0, 1500).is_some(), "waiting");
        assert!(link.offer(0, 40).is_none(), "no room");
        assert!(link.offer(120_000, 1500).is_some(), "the first is out, the second being sent");
        assert!(link.offer(120_000, 1).is_none());
        assert_eq!(link.waiting(120_000).max, 3000);
    }

    #[test]
    fn occupancy_is_weighted_by_time() {
        let mut link = link(15_000);
        link.offer(0, 1500);
        link.offer(0, 1500); // waits 120 µs
        link.offer(0, 1500); // waits 240 µs
        let seen = link.waiting(2_400_000);
        // 3000 bytes for 120 µs, 1500 for 120 µs, nothing for 2160 µs
        assert!((seen.mean - 225.0).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.max, 3000);
        assert!((1500..1530).contains(&seen.p95), "{seen:?}");
        link.restart_window(2_400_000);
        assert_eq!(link.waiting(3_000_000), WaitingBytes::default());
    }

    #[test]
    fn a_new_rate_is_that_of_packets_whose_sending_begins_then() {
        let mut link = link(100_000);
        link.set_rate(100.0, [(120_000, 10.0), (1_400_000, 100.0)].into());
        assert_eq!(link.offer(0, 1500), Some(120_000));
        assert_eq!(link.offer(0, 1500), Some(1_320_000), "begins when the rate falls");
        assert_eq!(link.offer(0, 1500), Some(2_520_000), "begins before it rises again");
        assert_eq!(link.offer(0, 1500), Some(2_640_000));
        link.set_rate(10.0, VecDeque::new());
        assert_eq!(link.offer(10_000_000, 1500), Some(11_200_000));
    }

    #[test]
    fn rate_holds_over_many_packets_of_an_odd_size() {
        let mut link = Bottleneck::new(622.08, u64::MAX, 0);
        let last = (0..100_000).map(|_| link.offer(0, 1017)).last().flatten().unwrap();
        let expected = 100_000.0 * 1017.0 * 8e3 / 622.08;
        assert!((last as f64 / expected - 1.0).abs() < 1e-4, "{last} against {expected}");
    }
}
