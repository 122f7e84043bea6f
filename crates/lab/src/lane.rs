//! One direction of the path: queue, impairments, propagation. Knows the time only from its caller and touches no
//! device; every packet stays in one slot of memory from arrival to delivery, and so does a super-packet of which nothing
//! is lost.

use crate::End;
use crate::counters::{DirectionCounters, LatenessCount, Passed};
use crate::impair::{Fate, Flip, Impairments};
use crate::ports::Ports;
use crate::queue::Bottleneck;
use crate::slots::{SLOTS_PER_CHUNK, Slots};
use crate::steps::Steps;
use crate::supers::{NOTE_LEN, SUPER_LEN_MAX, Shape};
use longhaul_sim::scenario::Scenario;
use std::collections::VecDeque;
use std::ops::Range;

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
    /// Packets come many at a time, with a note before them of that length; otherwise zero.
    note_len: usize,
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

/// What is between arrival and delivery.
#[derive(Clone, Copy)]
struct Flying {
    due: u64,
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
            delay_ns: 0,
            jitter_ns: scenario.jitter_ms * 1e6,
            ordered_until: 0,
            ways: extra_ns.iter().map(way).collect(),
            slots: Slots::new(if scenario.super_packets { SUPER_LEN_MAX } else { scenario.mtu as usize }),
            note_len: if scenario.super_packets { NOTE_LEN } else { 0 },
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
        self.delay_ns = first.delay_ns;
    }

    /// Room for what arrives next: a packet, or a super-packet.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let slot = self.slots.next_free();
        self.slots.bytes_mut(slot)
    }

    /// So many bytes from that pair's host arrived in [`room`](Self::room).
    pub(crate) fn arrive(&mut self, now: u64, pair: usize, len: usize, closed: Closed) {
        if len <= self.note_len {
            return;
        }
        let slot = self.slots.next_free();
        let bytes = self.slots.bytes(slot, len);
        let shape = if self.note_len > 0 { Shape::of(bytes) } else { None };
        let single = Load { packets: 1, bytes: (len - self.note_len) as u64 };
        let load = shape.map_or(single, |shape| Load::of(&shape, &(0..shape.packets())));
        let held = Held { slot, len: len as u32, load };
        let packets = u64::from(load.packets);
        self.counted.packets_in += packets;
        self.counted.bytes_in += load.bytes;
        self.ways[pair].passed.packets_in += packets;
        if closed.all {
            self.counted.dropped_cut += packets;
        } else if self.refuses_udp(now, held, closed) {
            self.counted.dropped_udp += packets;
        } else if let Some(shape) = shape {
            self.slots.take();
            self.pass_together(now, pair, held, &shape);
        } else if let Some((sent, fate)) = self.pass(now, load.bytes) {
            self.slots.take();
            self.take_off(sent, pair, held, fate);
        }
    }

    /// A packet of `bytes` comes to the bottleneck: when it has been sent, and what becomes of it beyond, unless it is
    /// dropped.
    fn pass(&mut self, now: u64, bytes: u64) -> Option<(u64, Fate)> {
        let Some(sent) = self.bottleneck.offer(now, bytes) else {
            self.counted.dropped_queue += 1;
            return None;
        };
        if let Some(share) = self.steps.new_loss(sent) {
            self.impairments.set_loss(share);
        }
        let fate = self.impairments.next_fate();
        if self.steps.is_out(sent) {
            self.counted.dropped_cut += 1;
        } else if fate.lost {
            self.counted.dropped_loss += 1;
        } else {
            return Some((sent, fate));
        }
        None
    }

    /// A super-packet comes to the bottleneck: each of its packets has its own fate. Those that pass in a row go on
    /// together, when the last of them has been sent.
    fn pass_together(&mut self, now: u64, pair: usize, whole: Held, shape: &Shape) {
        let mut row: Option<(Range<u32>, u64)> = None;
        for n in 0..shape.packets() {
            if let Some((sent, _)) = self.pass(now, shape.packet_len(n) as u64) {
                let first = row.map_or(n, |(row, _)| row.start);
                row = Some((first..n + 1, sent));
            } else if let Some((row, sent)) = row.take() {
                self.take_off_some(sent, pair, whole, shape, &row);
            }
        }
        match row {
            Some((row, sent)) if row == (0..shape.packets()) => {
                return self.take_off(sent, pair, whole, Fate::default());
            }
            Some((row, sent)) => self.take_off_some(sent, pair, whole, shape, &row),
            None => {}
        }
        self.slots.release(whole.slot);
    }

    /// Some packets of a super-packet go on.
    fn take_off_some(&mut self, sent: u64, pair: usize, whole: Held, shape: &Shape, row: &Range<u32>) {
        let slot = self.slots.take();
        let (from, into) = self.slots.pair_mut(whole.slot, slot);
        let len = shape.cut(&from[..whole.len as usize], row, into) as u32;
        self.take_off(sent, pair, Held { slot, len, load: Load::of(shape, row) }, Fate::default());
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

    fn refuses_udp(&mut self, now: u64, held: Held, closed: Closed) -> bool {
        let bytes = self.slots.bytes(held.slot, held.len as usize);
        if !(closed.udp || self.policer.is_some()) || !is_udp(&bytes[self.note_len..]) {
            return false;
        }
        closed.udp || self.policer.as_mut().is_some_and(|policer| !policer.lets_pass(now, held.load.bytes))
    }

    /// When the next packet is to be delivered.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.ways.iter().filter_map(Way::next_due).min()
    }

    /// Hand what is next to `deliver` if its time has come, with the pair of hosts that it belongs to; says whether there was
    /// anything. `deliver` returns whether the receiving host took it.
    pub(crate) fn deliver_next(
        &mut self,
        now: u64,
        cut: bool,
        deliver: impl FnOnce(usize, &[u8]) -> bool,
    ) -> bool {
        let first = (0..self.ways.len()).min_by_key(|pair| self.ways[*pair].next_due().unwrap_or(u64::MAX));
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
            self.lateness.add(now - due);
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
    pub(crate) fn counters(&mut self, now: u64) -> DirectionCounters {
        DirectionCounters {
            in_flight: self.ways.iter().map(Way::packets).sum(),
            waiting_bytes: self.bottleneck.waiting(now),
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
    pub(crate) fn reset_counters(&mut self, now: u64) {
        self.counted = DirectionCounters::default();
        self.ports.reset();
        self.ways.iter_mut().for_each(|way| way.passed = Passed::default());
        self.lateness.reset();
        self.bottleneck.restart_window(now);
    }

    /// What has been sent goes on its way.
    fn take_off(&mut self, sent: u64, pair: usize, held: Held, fate: Fate) {
        let (slot, len) = (held.slot, held.len as usize);
        self.delay_ns = self.steps.new_delay_ns(sent).unwrap_or(self.delay_ns);
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
            change_byte(&mut self.slots.bytes_mut(slot)[self.note_len..len], flip);
        }
        let due = due + self.ways[pair].extra_ns;
        self.ways[pair].schedule(Flying { due, held });
        if fate.duplicated {
            self.counted.duplicated += 1;
            let copy = self.slots.take();
            let (from, into) = self.slots.pair_mut(slot, copy);
            into[..len].copy_from_slice(&from[..len]);
            self.ways[pair].schedule(Flying { due, held: Held { slot: copy, ..held } });
        }
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
    fn lets_pass(&mut self, now: u64, bytes: u64) -> bool {
        let earned = now.saturating_sub(self.at) as f64 * self.bytes_per_ns;
        (self.tokens, self.at) = ((self.tokens + earned).min(self.burst), now);
        let passes = self.tokens >= bytes as f64;
        if passes {
            self.tokens -= bytes as f64;
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
mod tests;
