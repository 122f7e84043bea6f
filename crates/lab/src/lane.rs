//! One direction of the path: queue, impairments, propagation. Knows the time only from its caller and touches no
//! device; every packet stays in one slot of memory from arrival to delivery.

use crate::End;
use crate::counters::{DirectionCounters, LatenessCount, Passed};
use crate::impair::{Fate, Flip, Impairments};
use crate::ports::Ports;
use crate::queue::Bottleneck;
use crate::slots::{SLOTS_PER_CHUNK, Slots};
use crate::steps::Steps;
use longhaul_sim::scenario::Scenario;
use std::collections::VecDeque;

/// What closes the path to packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closed {
    pub(crate) all: bool,
    pub(crate) udp: bool,
}

/// Packets of one direction, from the devices of the hosts on one side to those of their partners.
pub(crate) struct Lane {
    bottleneck: Bottleneck,
    steps: Steps,
    policer: Option<Policer>,
    impairments: Impairments,
    delay_ns: u64,
    jitter_ns: f64,
    /// What a held packet is held by, times 2 to 8: the time a packet of the MTU takes.
    packet_time_ns: u64,
    /// When the last packet that keeps its place is due.
    ordered_until: u64,
    /// One for each pair of hosts.
    ways: Vec<Way>,
    slots: Slots,
    counted: DirectionCounters,
    ports: Ports,
    lateness: LatenessCount,
}

/// What the packets of one pair of hosts have for themselves.
struct Way {
    /// How much longer they propagate than those of the scenario.
    extra_ns: u64,
    flying: VecDeque<Flying>,
    passed: Passed,
}

/// A packet between arrival and delivery.
#[derive(Clone, Copy)]
struct Flying {
    due: u64,
    slot: u32,
    len: u32,
}

impl Lane {
    /// The way of the packets that `from` sends. There are as many pairs of hosts as `extra_ns` has values, each with so
    /// much more delay.
    pub(crate) fn new(scenario: &Scenario, from: End, extra_ns: &[u64], now: u64) -> Lane {
        let bottleneck = Bottleneck::new(scenario.bottleneck_mbit, scenario.queue_bytes(), now);
        let way = |extra_ns: &u64| Way {
            extra_ns: *extra_ns,
            flying: VecDeque::with_capacity(SLOTS_PER_CHUNK),
            passed: Passed::default(),
        };
        let mut lane = Lane {
            packet_time_ns: bottleneck.time_for(u64::from(scenario.mtu)),
            bottleneck,
            steps: Steps::new(scenario, from),
            policer: None,
            impairments: Impairments::new(scenario, from),
            delay_ns: (scenario.rtt_ms * 1e6 / 2.0).round() as u64,
            jitter_ns: scenario.jitter_ms * 1e6,
            ordered_until: 0,
            ways: extra_ns.iter().map(way).collect(),
            slots: Slots::new(scenario.mtu as usize),
            counted: DirectionCounters::default(),
            ports: Ports::default(),
            lateness: LatenessCount::new(scenario.rtt_ms),
        };
        lane.restart_clock(now);
        lane
    }

    /// The scenario's time begins `now`: the path is as it is at first, and its steps are all to come. Packets on their
    /// way stay there.
    pub(crate) fn restart_clock(&mut self, now: u64) {
        let first = self.steps.restart(now);
        self.bottleneck.set_rate(first.mbit, self.steps.take_rates());
        self.impairments.set_loss(first.loss);
    }

    /// Room for the packet that arrives next.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let slot = self.slots.next_free();
        self.slots.bytes_mut(slot)
    }

    /// A packet of `len` bytes from that pair's host arrived in [`room`](Self::room).
    pub(crate) fn arrive(&mut self, now: u64, pair: usize, len: usize, closed: Closed) {
        self.counted.packets_in += 1;
        self.counted.bytes_in += len as u64;
        self.ways[pair].passed.packets_in += 1;
        let slot = self.slots.next_free();
        if closed.all {
            self.counted.dropped_cut += 1;
        } else if self.refuses_udp(now, slot, len, closed) {
            self.counted.dropped_udp += 1;
        } else if let Some(sent) = self.bottleneck.offer(now, len as u64) {
            if let Some(share) = self.steps.new_loss(sent) {
                self.impairments.set_loss(share);
            }
            let fate = self.impairments.next_fate();
            if self.steps.is_out(sent) {
                self.counted.dropped_cut += 1;
            } else if fate.lost {
                self.counted.dropped_loss += 1;
            } else {
                self.take_off(sent, pair, len, fate);
            }
        } else {
            self.counted.dropped_queue += 1;
        }
    }

    /// From now on UDP above this rate is dropped; `None` lifts that.
    pub(crate) fn police_udp(&mut self, now: u64, mbit: Option<f64>, burst_bytes: u64) {
        self.policer = mbit.map(|mbit| Policer {
            bytes_per_ns: mbit / 8e3,
            burst: burst_bytes as f64,
            tokens: burst_bytes as f64,
            at: now,
        });
    }

    fn refuses_udp(&mut self, now: u64, slot: u32, len: usize, closed: Closed) -> bool {
        if !(closed.udp || self.policer.is_some()) || !is_udp(self.slots.bytes(slot, len)) {
            return false;
        }
        closed.udp || self.policer.as_mut().is_some_and(|policer| !policer.lets_pass(now, len))
    }

    /// When the next packet is to be delivered.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.ways.iter().filter_map(Way::next_due).min()
    }

    /// Hand the next packet to `deliver` if its time has come, with the pair of hosts that it belongs to; says whether
    /// there was one. `deliver` returns whether the receiving host took it.
    pub(crate) fn deliver_next(
        &mut self,
        now: u64,
        cut: bool,
        deliver: impl FnOnce(usize, &[u8]) -> bool,
    ) -> bool {
        let first = (0..self.ways.len()).min_by_key(|pair| self.ways[*pair].next_due().unwrap_or(u64::MAX));
        let next =
            first.and_then(|pair| Some((pair, self.ways[pair].flying.pop_front_if(|one| one.due <= now)?)));
        let Some((pair, packet)) = next else {
            return false;
        };
        let bytes = self.slots.bytes(packet.slot, packet.len as usize);
        if cut {
            self.counted.dropped_cut += 1;
        } else if deliver(pair, bytes) {
            self.counted.packets_delivered += 1;
            self.counted.bytes_delivered += u64::from(packet.len);
            self.ports.add(bytes);
            self.ways[pair].passed.packets_delivered += 1;
            self.ways[pair].passed.bytes_delivered += u64::from(packet.len);
            self.lateness.add(now - packet.due);
        } else {
            self.counted.refused_by_host += 1;
        }
        self.slots.release(packet.slot);
        true
    }

    /// What one pair's packets came to since the last reset.
    pub(crate) fn passed(&self, pair: usize) -> Passed {
        self.ways[pair].passed
    }

    /// What happened since the last reset.
    pub(crate) fn counters(&mut self, now: u64) -> DirectionCounters {
        DirectionCounters {
            in_flight: self.ways.iter().map(|way| way.flying.len() as u64).sum(),
            waiting_bytes: self.bottleneck.waiting(now),
            lateness: self.lateness.summary(),
            ..self.counted
        }
    }

    /// Bytes handed to that port of the receiving host since the last reset.
    pub(crate) fn bytes_to(&self, port: u16) -> u64 {
        self.ports.bytes(port)
    }

    /// Count from zero. Packets on their way stay there and are counted when delivered.
    pub(crate) fn reset_counters(&mut self, now: u64) {
        self.counted = DirectionCounters::default();
        self.ports = Ports::default();
        self.ways.iter_mut().for_each(|way| way.passed = Passed::default());
        self.lateness.reset();
        self.bottleneck.restart_window(now);
    }

    fn take_off(&mut self, sent: u64, pair: usize, len: usize, fate: Fate) {
        let slot = self.slots.take();
        let mut due = sent + self.delay_ns + (self.jitter_ns * fate.jitter) as u64;
        if let Some(packets) = fate.held_packets {
            self.counted.reordered += 1;
            due = due.max(self.ordered_until) + u64::from(packets) * self.packet_time_ns;
        } else {
            due = due.max(self.ordered_until);
            self.ordered_until = due;
        }
        if let Some(flip) = fate.corrupt {
            self.counted.corrupted += 1;
            change_byte(&mut self.slots.bytes_mut(slot)[..len], flip);
        }
        let due = due + self.ways[pair].extra_ns;
        self.ways[pair].schedule(Flying { due, slot, len: len as u32 });
        if fate.duplicated {
            self.counted.duplicated += 1;
            let copy = self.slots.take();
            self.slots.copy(slot, copy, len);
            self.ways[pair].schedule(Flying { due, slot: copy, len: len as u32 });
        }
    }
}

impl Way {
    fn next_due(&self) -> Option<u64> {
        self.flying.front().map(|packet| packet.due)
    }

    /// Keep the order of delivery: almost always at the end, rarely a few places before it.
    fn schedule(&mut self, packet: Flying) {
        if self.flying.back().is_none_or(|last| last.due <= packet.due) {
            self.flying.push_back(packet);
        } else {
            let place = self.flying.partition_point(|other| other.due <= packet.due);
            self.flying.insert(place, packet);
        }
    }
}

/// A token bucket: what finds it empty is dropped.
struct Policer {
    bytes_per_ns: f64,
    burst: f64,
    tokens: f64,
    at: u64,
}

impl Policer {
    fn lets_pass(&mut self, now: u64, len: usize) -> bool {
        let earned = now.saturating_sub(self.at) as f64 * self.bytes_per_ns;
        (self.tokens, self.at) = ((self.tokens + earned).min(self.burst), now);
        let passes = self.tokens >= len as f64;
        if passes {
            self.tokens -= len as f64;
        }
        passes
    }
}

fn is_udp(packet: &[u8]) -> bool {
    let protocol = match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.get(9),
        Some(6) => packet.get(6),
        _ => None,
    };
    protocol == Some(&UDP)
}

/// Change a byte behind the IP header, so that the packet still arrives and its transport checksum is wrong.
fn change_byte(packet: &mut [u8], flip: Flip) {
    let header = if packet.first().is_some_and(|byte| byte >> 4 == 6) { 40 } else { 20 };
    let payload = packet.len().saturating_sub(header);
    if payload > 0 {
        packet[header + ((payload as f64 * flip.place) as usize).min(payload - 1)] ^= flip.bits;
    }
}

const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPEN: Closed = Closed { all: false, udp: false };

    /// An IPv4 packet that carries its number and is of no known protocol.
    fn packet(number: u32, len: usize) -> Vec<u8> {
        let mut packet = vec![number as u8; len];
        packet[0] = 0x45;
        packet[9] = 0;
        packet[16..20].copy_from_slice(&number.to_ne_bytes());
        packet
    }

    fn send(lane: &mut Lane, now: u64, packet: &[u8]) {
        lane.room()[..packet.len()].copy_from_slice(packet);
        lane.arrive(now, 0, packet.len(), OPEN);
    }

    /// Deliver everything that is due by `now`, each at its own time.
    fn collect(lane: &mut Lane, now: u64, into: &mut Vec<(u64, Vec<u8>)>) {
        while let Some(due) = lane.next_due().filter(|due| *due <= now) {
            lane.deliver_next(due, false, |_, bytes| {
                into.push((due, bytes.to_vec()));
                true
            });
        }
    }

    /// Send packets (gap before each in µs, size) and return when what came out, and the lane.
    fn drive(scenario: &Scenario, packets: &[(u64, usize)]) -> (Vec<(u64, Vec<u8>)>, Lane) {
        let mut lane = Lane::new(scenario, End::Left, &[0], 0);
        let (mut now, mut out) = (0, Vec::new());
        for (number, (gap_us, len)) in packets.iter().enumerate() {
            now += gap_us * 1000;
            collect(&mut lane, now, &mut out);
            send(&mut lane, now, &packet(number as u32, *len));
        }
        let before = lane.counters(now);
        assert_eq!(
            before.packets_in + before.duplicated,
            before.packets_delivered + before.dropped_queue + before.dropped_loss + before.in_flight
        );
        collect(&mut lane, u64::MAX, &mut out);
        (out, lane)
    }

    /// When each packet comes out, told the slow way: by looking back at all that were accepted before.
    fn expected_times(scenario: &Scenario, packets: &[(u64, usize)]) -> Vec<(u64, u32)> {
        let (mut now, mut accepted) = (0, Vec::<(u64, u64, u64, u32)>::new()); // start, end, bytes, number
        for (number, (gap_us, len)) in packets.iter().enumerate() {
            now += gap_us * 1000;
            let waiting: u64 =
                accepted.iter().filter(|(start, ..)| *start > now).map(|(_, _, bytes, _)| bytes).sum();
            let start = accepted.last().map_or(now, |(_, end, ..)| now.max(*end));
            if start == now || waiting + *len as u64 <= scenario.queue_bytes() {
                let end = start + (*len as f64 * 8e3 / scenario.bottleneck_mbit).round() as u64;
                accepted.push((start, end, *len as u64, number as u32));
            }
        }
        let delay = (scenario.rtt_ms * 5e5) as u64;
        accepted.into_iter().map(|(_, end, _, number)| (end + delay, number)).collect()
    }

    fn number_of(packet: &[u8]) -> u32 {
        u32::from_ne_bytes(*packet[16..].first_chunk().unwrap())
    }

    fn traffic() -> impl Strategy<Value = Vec<(u64, usize)>> {
        let gap_us = prop_oneof![Just(0), 1..300u64, 1..5000u64];
        prop::collection::vec((gap_us, 40..=1500usize), 1..400)
    }

    #[test]
    fn a_policer_drops_udp_above_its_rate_and_nothing_else() {
        let mut lane = Lane::new(&Scenario::new(1000.0, 2.0), End::Left, &[0], 0);
        lane.police_udp(0, Some(8.0), 10_000);
        let mut udp = packet(1, 1000);
        udp[9] = UDP;
        // 80 Mb/s of each for 100 ms: of UDP 100 kB at 8 Mb/s and a burst of 10 kB get through.
        for tick in 0..1000 {
            send(&mut lane, tick * 100_000, &udp);
            send(&mut lane, tick * 100_000, &packet(2, 1000));
        }
        let passed = 1000 - lane.counters(0).dropped_udp;
        assert!((109..=110).contains(&passed), "{passed}");
        lane.police_udp(0, None, 0);
        send(&mut lane, 100_000_000, &udp);
        assert_eq!(1000 - lane.counters(0).dropped_udp, passed);
    }

    proptest! {
        #[test]
        fn clean_paths_follow_the_model(
            packets in traffic(), mbit in 1.0..500.0f64, rtt_ms in 0.0..50.0f64, queue_kb in 0.0..60.0f64,
        ) {
            let scenario = Scenario { queue_kb: Some(queue_kb), ..Scenario::new(mbit, rtt_ms) };
            let (out, mut lane) = drive(&scenario, &packets);
            let expected = expected_times(&scenario, &packets);
            let found: Vec<(u64, u32)> = out.iter().map(|(due, bytes)| (*due, number_of(bytes))).collect();
            prop_assert_eq!(found.len(), expected.len());
            for ((due, number), (expected_due, expected_number)) in found.iter().zip(&expected) {
                prop_assert_eq!(number, expected_number);
                prop_assert!(due.abs_diff(*expected_due) <= 1, "{} instead of {}", due, expected_due);
            }
            prop_assert!(lane.counters(u64::MAX).waiting_bytes.max <= scenario.queue_bytes());
            for (_, bytes) in &out {
                prop_assert_eq!(bytes, &packet(number_of(bytes), bytes.len()));
            }
        }

        #[test]
        fn rough_paths_lose_nothing_unaccounted(packets in traffic(), share in 0.0..0.5f64, seed: u64) {
            let scenario = Scenario {
                loss: share, corrupt: share, duplicate: share, reorder: share, jitter_ms: 2.0, seed,
                ..Scenario::new(50.0, 5.0)
            };
            let (out, mut lane) = drive(&scenario, &packets);
            let counted = lane.counters(u64::MAX);
            prop_assert_eq!(counted.in_flight, 0);
            prop_assert_eq!(counted.packets_delivered, out.len() as u64);
            prop_assert!(out.is_sorted_by_key(|(due, _)| *due));
            // A duplicate and its original are changed alike, if at all.
            let changed = out.iter().filter(|(_, bytes)| *bytes != packet(number_of(bytes), bytes.len())).count();
            prop_assert!(changed as u64 <= counted.corrupted + counted.duplicated);
        }

        #[test]
        fn jitter_alone_keeps_order(packets in traffic(), jitter_ms in 0.0..20.0f64) {
            let scenario = Scenario { jitter_ms, ..Scenario::new(50.0, 5.0) };
            let (out, _) = drive(&scenario, &packets);
            prop_assert!(out.is_sorted_by_key(|(_, bytes)| number_of(bytes)));
        }
    }

    proptest! {
        /// Steps mean what they mean in the simulator, packet by packet.
        #[test]
        fn steps_are_the_simulators(
            packets in traffic(), seed: u64, slow_at in 0.0..0.3f64, slow_mbit in 1.0..20.0f64,
            loss_at in 0.0..0.3f64, loss in 0.0..1.0f64, out_at in 0.0..0.3f64, outage_s in 0.01..0.1f64,
        ) {
            use longhaul_proto::units::Time;
            use longhaul_sim::{link::{Link, Passage}, path::PathConfig, scenario::Step};
            let step = |at_s| Step { at_s, ..Step::default() };
            let steps = vec![
                Step { bottleneck_mbit: Some(slow_mbit), ..step(slow_at) },
                Step { loss: Some(loss), ..step(loss_at) },
                Step { outage_s: Some(outage_s), ..step(out_at) },
            ];
            let scenario = Scenario { steps, seed, queue_kb: Some(20.0), ..Scenario::new(16.0, 10.0) };
            let mut lane = Lane::new(&scenario, End::Left, &[0], 0);
            let mut link = Link::new(&PathConfig::new(&scenario).forward, Time::ZERO);
            let (mut now, mut expected, mut found) = (0, vec![], vec![]);
            for (number, (gap_us, len)) in packets.iter().enumerate() {
                now += gap_us * 1000;
                send(&mut lane, now, &packet(number as u32, *len));
                expected.push(match link.offer(Time(now), *len as u32) {
                    Passage::QueueFull => (1, 0, 0, 0),
                    Passage::Outage => (0, 1, 0, 0),
                    Passage::Lost => (0, 0, 1, 0),
                    Passage::Arrives { time, .. } => (0, 0, 0, time.0),
                });
                let before = lane.counters(now);
                lane.reset_counters(now);
                let newest = lane.ways[0].flying.back().map_or(0, |packet| packet.due);
                let arrives = before.dropped_queue + before.dropped_cut + before.dropped_loss == 0;
                found.push((
                    before.dropped_queue, before.dropped_cut, before.dropped_loss, newest * u64::from(arrives),
                ));
            }
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let same = (found.0, found.1, found.2) == (expected.0, expected.1, expected.2);
                // The lane rounds the time of each packet to a nanosecond, the link carries the rest over.
                let close = found.3.abs_diff(expected.3) <= number as u64;
                prop_assert!(same && close, "packet {}: {:?} instead of {:?}", number, found, expected);
            }
        }
    }

    #[test]
    fn time_can_begin_anew() {
        let text = "bottleneck_mbit = 100\nrtt_ms = 0\n[[steps]]\nat_s = 1\nbottleneck_mbit = 10\n";
        let mut lane = Lane::new(&Scenario::parse(text).unwrap(), End::Left, &[0], 0);
        let time_taken = |lane: &mut Lane, now: u64| {
            send(lane, now, &packet(0, 1500));
            let due = lane.next_due().unwrap();
            lane.deliver_next(due, false, |_, _| true);
            due - now
        };
        assert_eq!(time_taken(&mut lane, 0), 120_000);
        assert_eq!(time_taken(&mut lane, 1_000_000_000), 1_200_000);
        lane.restart_clock(2_000_000_000);
        assert_eq!(time_taken(&mut lane, 2_500_000_000), 120_000);
        assert_eq!(time_taken(&mut lane, 3_000_000_000), 1_200_000);
    }

    #[test]
    fn pairs_share_the_queue_and_differ_in_delay() {
        // 1500 bytes take 120 µs; the second pair's packets take 3 ms more.
        let scenario = Scenario { queue_kb: Some(6.0), ..Scenario::new(100.0, 2.0) };
        let mut lane = Lane::new(&scenario, End::Left, &[0, 3_000_000], 0);
        for number in 0..8 {
            lane.room()[..1500].copy_from_slice(&packet(number, 1500));
            lane.arrive(0, number as usize % 2, 1500, OPEN);
        }
        let mut out = vec![];
        while let Some(due) = lane.next_due() {
            lane.deliver_next(due, false, |pair, bytes| {
                out.push((due, pair, number_of(bytes)));
                true
            });
        }
        // One is being sent and four wait; three find no room, whoever sent them.
        let expected =
            [(1_120_000, 0, 0), (1_360_000, 0, 2), (1_600_000, 0, 4), (4_240_000, 1, 1), (4_480_000, 1, 3)];
        assert_eq!(out, expected);
        assert_eq!(lane.counters(0).dropped_queue, 3);
        let passed = [lane.passed(0), lane.passed(1)]
            .map(|one| (one.packets_in, one.packets_delivered, one.bytes_delivered));
        assert_eq!(passed, [(4, 3, 4500), (4, 2, 3000)]);
    }

    #[test]
    fn held_packets_are_overtaken() {
        let scenario = Scenario { reorder: 0.1, seed: 3, ..Scenario::new(100.0, 10.0) };
        let (out, mut lane) = drive(&scenario, &[(120, 1500); 1000]);
        let mut newest = 0;
        let overtaken = out
            .iter()
            .filter(|(_, bytes)| {
                let late = number_of(bytes) < newest;
                newest = newest.max(number_of(bytes));
                late
            })
            .count();
        let held = lane.counters(u64::MAX).reordered;
        assert!(held > 50 && overtaken as u64 >= held - 8, "{overtaken} of {held} overtaken");
    }

    #[test]
    fn closed_paths_drop_and_say_so() {
        let mut lane = Lane::new(&Scenario::new(100.0, 10.0), End::Left, &[0], 0);
        let mut udp = packet(0, 100);
        udp[9] = UDP;
        let mut udp_v6 = vec![0x60; 100];
        udp_v6[6] = UDP;
        for bytes in [&packet(1, 100), &udp, &udp_v6] {
            lane.room()[..100].copy_from_slice(bytes);
            lane.arrive(0, 0, 100, Closed { all: false, udp: true });
        }
        lane.room()[..100].copy_from_slice(&udp);
        lane.arrive(0, 0, 100, Closed { all: true, udp: true });
        assert!(lane.deliver_next(u64::MAX, true, |_, _| unreachable!("the path is cut")));
        let counted = lane.counters(0);
        assert_eq!((counted.dropped_udp, counted.dropped_cut, counted.packets_delivered), (2, 2, 0));
    }

    #[test]
    fn memory_is_used_again() {
        let mut lane = Lane::new(&Scenario::new(1000.0, 1.0), End::Left, &[0], 0);
        let mut out = Vec::new();
        for number in 0..50_000 {
            let now = u64::from(number) * 20_000;
            collect(&mut lane, now, &mut out);
            send(&mut lane, now, &packet(number, 1500));
        }
        assert_eq!(lane.slots.chunks(), 1, "26 packets are on their way at any time");
    }
}
