//! Fair queueing: deficit round robin.

use super::{DropReason, Dropped, Keep, Waiting};
use longhaul_proto::units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A queue for each flow, served in turn so that each gets an equal share of bytes (Shreedhar and Varghese 1995). What
/// does not fit is taken from the end of the longest.
#[derive(Debug)]
pub struct FairQueue {
    limit_bytes: u64,
    quantum: u32,
    waiting_bytes: u64,
    packets: usize,
    /// Flows whose turn is to come.
    flows: BTreeMap<u32, FlowQueue>,
    /// In the order of service.
    turns: VecDeque<u32>,
    /// The turn of the first has begun: it has got its quantum.
    has_begun: bool,
    by_length: BTreeSet<(u64, u32)>,
}

#[derive(Debug, Default)]
struct FlowQueue {
    packets: VecDeque<Waiting>,
    bytes: u64,
    /// Bytes that the flow may send before its turn is over.
    deficit: u64,
}

impl FairQueue {
    /// Empty queues for `limit_bytes` together; `quantum` bytes a turn, at least the largest packet's.
    pub fn new(limit_bytes: u64, quantum: u32) -> FairQueue {
        FairQueue {
            limit_bytes,
            quantum: quantum.max(1),
            waiting_bytes: 0,
            packets: 0,
            flows: BTreeMap::new(),
            turns: VecDeque::new(),
            has_begun: false,
            by_length: BTreeSet::new(),
        }
    }

    fn drop_from_longest(&mut self) -> Option<Waiting> {
        let (_, flow) = *self.by_length.last()?;
        let queue = self.flows.get_mut(&flow)?;
        let packet = queue.packets.pop_back()?;
        if queue.packets.is_empty() {
            queue.deficit = 0;
        }
        self.set_bytes(flow, |bytes| bytes - u64::from(packet.bytes));
        self.packets -= 1;
        Some(packet)
    }

    /// The bytes that wait of a flow have changed.
    fn set_bytes(&mut self, flow: u32, change: impl Fn(u64) -> u64) {
        let Some(queue) = self.flows.get_mut(&flow) else { return };
        self.by_length.remove(&(queue.bytes, flow));
        queue.bytes = change(queue.bytes);
        if queue.bytes > 0 {
            self.by_length.insert((queue.bytes, flow));
        }
        self.waiting_bytes = change(self.waiting_bytes);
    }

    /// The first flow in the order of service has had its turn, or nothing of it waits any more.
    fn end_turn(&mut self) {
        self.has_begun = false;
        let Some(flow) = self.turns.pop_front() else { return };
        if self.flows.get(&flow).is_some_and(|queue| queue.packets.is_empty()) {
            self.flows.remove(&flow);
        } else {
            self.turns.push_back(flow);
        }
    }
}

impl Keep for FairQueue {
    fn push(&mut self, packet: Waiting, dropped: &mut Vec<Dropped>) {
        let turns = &mut self.turns;
        let queue = self.flows.entry(packet.flow).or_insert_with(|| {
            turns.push_back(packet.flow);
            FlowQueue::default()
        });
        queue.packets.push_back(packet);
        self.packets += 1;
        self.set_bytes(packet.flow, |bytes| bytes + u64::from(packet.bytes));
        while self.waiting_bytes > self.limit_bytes {
            let Some(waiting) = self.drop_from_longest() else { return };
            dropped.push(Dropped { waiting, reason: DropReason::Full });
        }
    }

    fn pop(&mut self, _: Time, _: &mut Vec<Dropped>) -> Option<Waiting> {
        loop {
            let flow = *self.turns.front()?;
            let has_begun = std::mem::replace(&mut self.has_begun, true);
            let queue = self.flows.get_mut(&flow)?;
            let Some(first) = queue.packets.front().copied() else {
                self.end_turn();
                continue;
            };
            if !has_begun {
                queue.deficit += u64::from(self.quantum);
            }
            if queue.deficit < u64::from(first.bytes) {
                self.end_turn();
                continue;
            }
            queue.deficit -= u64::from(first.bytes);
            queue.packets.pop_front();
            let is_empty = queue.packets.is_empty();
            self.set_bytes(flow, |bytes| bytes - u64::from(first.bytes));
            self.packets -= 1;
            if is_empty {
                self.end_turn();
            }
            return Some(first);
        }
    }

    fn len(&self) -> usize {
        self.packets
    }

    fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::ecn::Ecn;
    use proptest::prelude::*;

    fn packet(packet: u32, flow: u32, bytes: u32) -> Waiting {
        Waiting { packet, flow, bytes, ecn: Ecn::NotEct, is_marked: false, since: Time::ZERO }
    }

    fn pop(queue: &mut FairQueue) -> Option<(u32, u32)> {
        queue.pop(Time::ZERO, &mut Vec::new()).map(|packet| (packet.flow, packet.packet))
    }

    #[test]
    fn flows_take_turns() {
        let mut queue = FairQueue::new(100_000, 1500);
        let mut dropped = Vec::new();
        for n in 0..4 {
            queue.push(packet(n, 7, 1500), &mut dropped);
        }
        queue.push(packet(10, 3, 1500), &mut dropped);
        queue.push(packet(20, 5, 500), &mut dropped);
        queue.push(packet(21, 5, 500), &mut dropped);
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).collect();
        // 1500 bytes of each in turn
        assert_eq!(order, [(7, 0), (3, 10), (5, 20), (5, 21), (7, 1), (7, 2), (7, 3)]);
        assert!(dropped.is_empty() && queue.is_empty() && queue.waiting_bytes() == 0);
    }

    #[test]
    fn the_longest_flow_makes_room() {
        let mut queue = FairQueue::new(6000, 1500);
        let mut dropped = Vec::new();
        for n in 0..4 {
            queue.push(packet(n, 1, 1500), &mut dropped);
        }
        assert!(dropped.is_empty());
        queue.push(packet(9, 2, 1500), &mut dropped);
        assert_eq!(dropped, [Dropped { waiting: packet(3, 1, 1500), reason: DropReason::Full }]);
        // the longest itself is refused
        queue.push(packet(4, 1, 1500), &mut dropped);
        assert_eq!(dropped[1].waiting.packet, 4);
        assert_eq!(queue.len(), 4);
    }

    proptest! {
        /// Nothing is lost, each flow stays in order, and flows that have something waiting all the time never differ
        /// by more than a quantum and a packet.
        #[test]
        fn shares_are_equal_whatever_the_sizes(sizes in proptest::collection::vec(1..1500u32, 300..400)) {
            let mut queue = FairQueue::new(1 << 40, 1500);
            let mut dropped = Vec::new();
            for (n, bytes) in sizes.iter().enumerate() {
                queue.push(packet(n as u32, n as u32 % 3, *bytes), &mut dropped);
            }
            let (mut served, mut left, mut last) = ([0u64; 3], [0usize; 3], [None; 3]);
            (0..sizes.len()).for_each(|n| left[n % 3] += 1);
            while let Some(taken) = queue.pop(Time::ZERO, &mut dropped) {
                let flow = taken.flow as usize;
                prop_assert!(last[flow] < Some(taken.packet));
                (last[flow], left[flow]) = (Some(taken.packet), left[flow] - 1);
                served[flow] += u64::from(taken.bytes);
                if left.iter().all(|left| *left > 0) {
                    let spread = served.iter().max().unwrap() - served.iter().min().unwrap();
                    prop_assert!(spread <= 3000, "{served:?}");
                }
            }
            prop_assert_eq!(left, [0; 3]);
            prop_assert!(dropped.is_empty());
        }
    }
}
