//! Controlled delay (RFC 8289).

use super::{DropReason, Dropped, Keep, Waiting};
use longhaul_proto::units::{Time, nanos};
use std::collections::VecDeque;
use std::time::Duration;

/// First in, first out; once packets have waited longer than 5 ms for 100 ms on end, one is dropped, and then ever
/// more, until they wait less. With [`marking`](CoDel::marking) it marks those that can be marked instead.
#[derive(Debug)]
pub struct CoDel {
    limit_bytes: u64,
    marks: bool,
    /// With one packet left there is nothing to gain from dropping.
    packet_bytes_max: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// When packets will have waited too long for an interval; `None` while they do not.
    first_above: Option<Time>,
    /// Whether it drops at the moment.
    is_dropping: bool,
    next_drop: Time,
    /// Drops since it began to drop, and at the time it began before.
    count: u32,
    last_count: u32,
}

impl CoDel {
    /// An empty queue for `limit_bytes`.
    pub fn new(limit_bytes: u64, mtu: u32) -> CoDel {
        CoDel {
            limit_bytes,
            marks: false,
            packet_bytes_max: u64::from(mtu),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            first_above: None,
            is_dropping: false,
            next_drop: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// Mark what can be marked instead of dropping it (RFC 8289 §4.2).
    pub fn marking(self) -> CoDel {
        CoDel { marks: true, ..self }
    }

    /// Drop the packet, or mark it: then it is to go on.
    fn punish(&self, packet: Option<Waiting>, dropped: &mut Vec<Dropped>) -> Option<Waiting> {
        if self.marks && packet.is_some_and(|packet| packet.ecn.is_capable()) {
            return packet.map(|packet| Waiting { is_marked: true, ..packet });
        }
        dropped.extend(packet.map(managed));
        None
    }

    /// Take the first packet out, and tell whether it may be dropped: packets have waited too long for an interval.
    fn take(&mut self, now: Time) -> (Option<Waiting>, bool) {
        let Some(packet) = self.waiting.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        self.waiting_bytes -= u64::from(packet.bytes);
        if now.since(packet.since) < TARGET || self.waiting_bytes <= self.packet_bytes_max {
            self.first_above = None;
            return (Some(packet), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + INTERVAL);
                (Some(packet), false)
            }
            Some(at) => (Some(packet), now >= at),
        }
    }

    /// Drops come closer with the root of their number, which is what lowers a TCP's rate linearly.
    fn next_after(&self, time: Time) -> Time {
        time + Duration::from_nanos((nanos(INTERVAL) as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

impl Keep for CoDel {
    fn push(&mut self, packet: Waiting, dropped: &mut Vec<Dropped>) {
        if self.waiting_bytes + u64::from(packet.bytes) > self.limit_bytes {
            dropped.push(Dropped { waiting: packet, reason: DropReason::Full });
            return;
        }
        self.waiting_bytes += u64::from(packet.bytes);
        self.waiting.push_back(packet);
    }

    // The pseudocode of RFC 8289, section 5.
    fn pop(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Option<Waiting> {
        let (mut packet, mut may_drop) = self.take(now);
        if self.is_dropping {
            self.is_dropping = may_drop;
            while self.is_dropping && now >= self.next_drop {
                self.count += 1;
                packet = self.punish(packet, dropped);
                if packet.is_some() {
                    self.next_drop = self.next_after(self.next_drop);
                    break;
                }
                (packet, may_drop) = self.take(now);
                self.is_dropping = may_drop;
                if may_drop {
                    self.next_drop = self.next_after(self.next_drop);
                }
            }
        } else if may_drop {
            packet = self.punish(packet, dropped);
            if packet.is_none() {
                (packet, _) = self.take(now);
            }
            self.is_dropping = true;
            let since_last = self.count - self.last_count;
            let was_lately = now.since(self.next_drop) < REMEMBERED;
            self.count = if since_last > 1 && was_lately { since_last } else { 1 };
            self.next_drop = self.next_after(now);
            self.last_count = self.count;
        }
        packet
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

fn managed(waiting: Waiting) -> Dropped {
    Dropped { waiting, reason: DropReason::Managed }
}

/// A packet may wait so long (RFC 8289, section 4.4).
const TARGET: Duration = Duration::from_millis(5);
/// So long may packets wait longer: about a round trip (RFC 8289, section 4.3).
const INTERVAL: Duration = Duration::from_millis(100);
/// A queue that has begun to drop again within this takes up at the frequency at which it stopped (RFC 8289, section
/// 5.5).
const REMEMBERED: Duration = Duration::from_millis(1600);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::ecn::Ecn;

    fn packet(n: u32, since: Time) -> Waiting {
        Waiting { packet: n, flow: 0, bytes: 1500, ecn: Ecn::Ect0, is_marked: false, since }
    }

    /// Serve one packet a millisecond from a queue in which `backlog` of them wait at all times.
    fn serve(backlog: u64, for_ms: u64) -> Vec<u64> {
        serve_from(CoDel::new(1 << 30, 1500), backlog, for_ms).0
    }

    /// The same, from that queue: when packets were dropped, and when marked.
    fn serve_from(mut queue: CoDel, backlog: u64, for_ms: u64) -> (Vec<u64>, Vec<u64>) {
        let mut mark_times = Vec::new();
        let mut dropped = Vec::new();
        let mut drop_times = Vec::new();
        for n in 0..for_ms {
            let now = Time::from_millis(n);
            while (queue.len() as u64) < backlog {
                queue.push(packet(0, now), &mut dropped);
            }
            let packet = queue.pop(now, &mut dropped).unwrap();
            mark_times.extend(packet.is_marked.then_some(n));
            drop_times.extend(dropped.drain(..).map(|_| n));
        }
        (drop_times, mark_times)
    }

    #[test]
    fn what_can_be_marked_is_marked_when_it_would_be_dropped() {
        let (dropped, marked) = serve_from(CoDel::new(1 << 30, 1500).marking(), 50, 1000);
        assert!(dropped.is_empty());
        // As the drops of the queue that drops: 105, 205, 205 + 100 / √2, …
        assert_eq!(marked[..3], serve(50, 1000)[..3]);
        assert!(marked.len() > 20);
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        assert!(serve(5, 5000).is_empty());
    }

    #[test]
    fn a_standing_queue_is_dropped_from_ever_more_often() {
        let times = serve(50, 1000);
        // waited 5 ms for the first time at 5 ms, so the first drop is at 105 ms; each gap is 100 ms / √n
        assert_eq!(times[0], 105);
        let mut at = 105.0;
        for (n, time) in times.iter().enumerate().take(20) {
            assert!((*time as f64 - at).abs() <= 1.0, "drop {n} at {time} ms instead of {at}");
            at += 100.0 / f64::from(n as u32 + 1).sqrt();
        }
        assert!(times.len() > 20);
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let mut queue = CoDel::new(3000, 1500);
        let mut dropped = Vec::new();
        (0..3).for_each(|n| queue.push(packet(n, Time::ZERO), &mut dropped));
        assert_eq!(dropped.len(), 1);
        assert_eq!((dropped[0].waiting.packet, dropped[0].reason), (2, DropReason::Full));
        assert_eq!((queue.len(), queue.waiting_bytes()), (2, 3000));
    }
}
