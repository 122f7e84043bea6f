//! One direction of the path: the simulator's [`Link`] carries what real hosts send, by the real clock. Knows the
//! time only from its caller and touches no device; every packet stays in one slot of memory from arrival to
//! delivery, and so does a super-packet of which nothing is lost.
//!
//! The link says when a packet leaves it or that it is dropped: with a drop-tail queue as soon as the packet comes,
//! with one that chooses when its turn has come. All times are those of the model, not those at which the emulator
//! gets the processor: who looks later sees the same.

mod passage;

use crate::Side;
use crate::counters::{DirectionCounters, LatenessCount, Passed};
use crate::gso::{NOTE_LEN, SUPER_LEN_MAX, Shape};
use crate::headers::{Headers, ecn};
use crate::ports::Ports;
use crate::slots::{SLOTS_PER_CHUNK, Slots};
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::link::{Link, LinkConfig};
use longhaul_sim::path::PathConfig;
use longhaul_sim::policer::{Policer, PolicerConfig};
use longhaul_sim::queue::Dropped;
use longhaul_sim::scenario::Scenario;
use passage::{Arrived, PacketRun, WaitingPackets};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// What closes the path to packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closed {
    pub(crate) all: bool,
    pub(crate) udp: bool,
}

/// Packets of one direction, from the devices of the hosts on one side to those of their partners.
pub(crate) struct Direction {
    /// The link as the scenario has it.
    config: LinkConfig,
    link: Link,
    /// What waits in a queue that chooses.
    waiting: WaitingPackets,
    /// When the link takes the next of that.
    serve_at: Option<Time>,
    /// What such a queue has dropped, while it is looked at.
    dropped: Vec<Dropped>,
    run: Option<PacketRun>,
    policer: Option<Policer>,
    /// Bytes of the longest packet that passes.
    longest: u64,
    /// One for each pair of hosts.
    ways: Vec<Way>,
    slots: Slots,
    /// Packets come many at a time, with a note before them of that length; otherwise zero.
    note_len: usize,
    counted: DirectionCounters,
    /// Packets that the queue had marked when counting began.
    marked_before: u64,
    ports: Ports,
    lateness: LatenessCount,
}

/// What the packets of one pair of hosts have for themselves.
struct Way {
    /// How much longer they propagate than those of the scenario.
    extra: Duration,
    flying: VecDeque<Flying>,
    passed: Passed,
}

/// What is between the link and delivery.
#[derive(Clone, Copy)]
struct Flying {
    due: Time,
    held: Held,
}

/// What is in a slot: one packet, or some that go on together.
#[derive(Clone, Copy)]
struct Held {
    slot: u32,
    /// Bytes of the slot.
    len: u32,
    load: Load,
}

/// What something in a slot counts as.
#[derive(Clone, Copy)]
struct Load {
    packets: u32,
    /// Bytes of whole IP packets.
    bytes: u64,
}

impl Direction {
    /// The way of the packets that `from` sends. There are as many pairs of hosts as `extra` has values, each with so much
    /// more delay.
    pub(crate) fn new(scenario: &Scenario, from: Side, extra: &[Duration], now: Time) -> Direction {
        let path = PathConfig::new(scenario);
        let config = match from {
            Side::Left => path.forward,
            Side::Right => path.reverse,
        };
        let way = |extra: &Duration| Way {
            extra: *extra,
            flying: VecDeque::with_capacity(SLOTS_PER_CHUNK),
            passed: Passed::default(),
        };
        let mut direction = Direction {
            link: Link::new(&config, now),
            config,
            waiting: WaitingPackets::default(),
            serve_at: None,
            dropped: Vec::new(),
            run: None,
            policer: None,
            longest: u64::MAX,
            ways: extra.iter().map(way).collect(),
            // A byte more than passes: what is longer shows.
            slots: Slots::new(if scenario.super_packets { SUPER_LEN_MAX } else { scenario.mtu as usize + 1 }),
            note_len: if scenario.super_packets { NOTE_LEN } else { 0 },
            counted: DirectionCounters::default(),
            marked_before: 0,
            ports: Ports::default(),
            lateness: LatenessCount::new(scenario.rtt_ms),
        };
        direction.restart_clock(now);
        direction
    }

    /// The scenario's time begins `now`: the path is as it is at first, and its steps are all to come. Packets on their
    /// way stay there.
    pub(crate) fn restart_clock(&mut self, now: Time) {
        self.serve_until(now);
        self.link.restart(&self.config, now);
    }

    /// Room for what arrives next: a packet, or a super-packet.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let slot = self.slots.next_free();
        self.slots.bytes_mut(slot)
    }

    /// So many bytes from that pair's host arrived in [`room`](Self::room).
    pub(crate) fn arrive(&mut self, now: Time, pair: usize, len: usize, closed: Closed) {
        if len <= self.note_len {
            return;
        }
        let slot = self.slots.next_free();
        let bytes = self.slots.bytes(slot, len);
        let shape = if self.note_len > 0 { Shape::of(bytes) } else { None };
        let ecn = ecn(&bytes[self.note_len..]);
        let single = Load { packets: 1, bytes: (len - self.note_len) as u64 };
        let load = shape.map_or(single, |shape| Load::of(&shape, &(0..shape.packets())));
        let held = Held { slot, len: len as u32, load };
        let packets = u64::from(load.packets);
        self.counted.packets_in += packets;
        self.counted.bytes_in += load.bytes;
        self.ways[pair].passed.packets_in += packets;
        if closed.all {
            self.counted.dropped_cut += packets;
        } else if load.bytes / packets > self.longest {
            self.counted.dropped_long += packets;
        } else if self.refuses_udp(now, held, closed) {
            self.counted.dropped_udp += packets;
        } else {
            self.slots.take();
            self.enter_link(now, Arrived { pair, held, shape, ecn, unsettled: load.packets });
        }
    }

    /// From now on packets longer than that vanish.
    pub(crate) fn limit_length(&mut self, longest: Option<u32>) {
        self.longest = longest.map_or(u64::MAX, u64::from);
    }

    /// From now on UDP above this rate is dropped; `None` lifts that.
    pub(crate) fn police_udp(&mut self, now: Time, rate: Option<Rate>, burst_bytes: u64) {
        self.policer = rate.map(|rate| Policer::new(PolicerConfig { rate, burst_bytes }, now));
    }

    fn refuses_udp(&mut self, now: Time, held: Held, closed: Closed) -> bool {
        if !(closed.udp || self.policer.is_some()) {
            return false;
        }
        let bytes = self.slots.bytes(held.slot, held.len as usize);
        let is_udp = Headers::read(&bytes[self.note_len..]).is_some_and(|headers| headers.is_udp());
        let mut is_above =
            || self.policer.as_mut().is_some_and(|policer| !policer.lets_pass(now, held.load.bytes));
        is_udp && (closed.udp || is_above())
    }

    /// When there is something to do next: a packet to deliver, or one that the queue is to choose.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.ways.iter().filter_map(Way::next_due).chain(self.serve_at).min()
    }

    /// Hand what is next to `deliver` if its time has come, with the pair of hosts that it belongs to; says whether there was
    /// anything. `deliver` returns whether the receiving host took it.
    pub(crate) fn deliver_next(
        &mut self,
        now: Time,
        cut: bool,
        deliver: impl FnOnce(usize, &[u8]) -> bool,
    ) -> bool {
        self.serve_until(now);
        let first = (0..self.ways.len()).min_by_key(|pair| self.ways[*pair].next_due().unwrap_or(Time::MAX));
        let next =
            first.and_then(|pair| Some((pair, self.ways[pair].flying.pop_front_if(|one| one.due <= now)?)));
        let Some((pair, Flying { due, held: Held { slot, len, load } })) = next else {
            return false;
        };
        let bytes = self.slots.bytes(slot, len as usize);
        let packets = u64::from(load.packets);
        if cut {
            self.counted.dropped_cut += packets;
        } else if deliver(pair, bytes) {
            self.counted.packets_delivered += packets;
            self.counted.bytes_delivered += load.bytes;
            self.ports.add(&bytes[self.note_len..], load.bytes);
            self.ways[pair].passed.packets_delivered += packets;
            self.ways[pair].passed.bytes_delivered += load.bytes;
            self.lateness.add(now.since(due));
        } else {
            self.counted.refused_by_host += packets;
        }
        self.slots.release(slot);
        true
    }

    /// What one pair's packets came to since the last reset.
    pub(crate) fn passed(&self, pair: usize) -> Passed {
        self.ways[pair].passed
    }

    /// What happened since the last reset.
    pub(crate) fn counters(&mut self, now: Time) -> DirectionCounters {
        self.serve_until(now);
        let flying: u64 = self.ways.iter().map(Way::packets).sum();
        let in_run = self.run.as_ref().map_or(0, PacketRun::packets);
        DirectionCounters {
            in_flight: flying + u64::from(in_run) + self.link.kept_packets() as u64,
            marked: self.link.totals().marked - self.marked_before,
            waiting_bytes: self.link.occupancy(now),
            lateness: self.lateness.summary(),
            ..self.counted
        }
    }

    /// From now on count what is handed to these ports of the receiving host.
    pub(crate) fn watch_ports(&mut self, ports: &[u16]) {
        self.ports.watch(ports);
    }

    /// Bytes handed to that port since then or the last reset.
    pub(crate) fn bytes_to(&self, port: u16) -> u64 {
        self.ports.bytes(port)
    }

    /// Count from zero. Packets on their way stay there and are counted when delivered.
    pub(crate) fn reset_counters(&mut self, now: Time) {
        self.serve_until(now);
        self.counted = DirectionCounters::default();
        self.marked_before = self.link.totals().marked;
        self.ports.reset();
        self.ways.iter_mut().for_each(|way| way.passed = Passed::default());
        self.lateness.reset();
        self.link.restart_occupancy(now);
    }
}

impl Load {
    /// Of these packets of a super-packet.
    fn of(shape: &Shape, which: &Range<u32>) -> Load {
        Load { packets: which.len() as u32, bytes: shape.packets_len(which) as u64 }
    }
}

impl Way {
    /// Packets on their way.
    fn packets(&self) -> u64 {
        self.flying.iter().map(|flying| u64::from(flying.held.load.packets)).sum()
    }

    fn next_due(&self) -> Option<Time> {
        self.flying.front().map(|packet| packet.due)
    }

    /// Something comes out of the link at that time. Keep the order of delivery: almost always at the end, rarely a few
    /// places before it.
    fn schedule(&mut self, time: Time, held: Held) {
        let packet = Flying { due: time + self.extra, held };
        if self.flying.back().is_none_or(|last| last.due <= packet.due) {
            self.flying.push_back(packet);
        } else {
            let place = self.flying.partition_point(|other| other.due <= packet.due);
            self.flying.insert(place, packet);
        }
    }
}

#[cfg(test)]
mod tests;
