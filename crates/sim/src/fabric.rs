//! What all flows of a simulation share: events, links, packets, trace.

use crate::counters::Counters;
use crate::engine::{EventQueue, LaneId};
use crate::link::{Link, Passage};
use crate::packet::Packets;
use crate::path::PathConfig;
use crate::sim::{Options, Side};
use crate::trace::{Record, Trace, TraceKind};
use longhaul_proto::units::{DatagramNumber, Time};
use longhaul_proto::wire::{IPV4_UDP_LEN, MAX_DATAGRAM_LEN};
use std::time::Duration;

/// The shared part of a simulation.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub queue: EventQueue,
    pub packets: Packets,
    pub options: Options,
    pub mtu: u32,
    /// Where endpoints write bodies: the largest that IP can carry.
    pub scratch: Vec<u8>,
    pub trace: Trace,
    links: [Link; 2],
}

/// The way of a flow's datagrams behind a host's device.
pub(crate) struct Route {
    /// The host that sent them.
    pub from: Side,
    /// Where they arrive.
    pub arrivals: LaneId,
    /// What the flow's own path adds to that of all.
    pub extra_delay: Duration,
    /// Serial number of the flow, for the trace.
    pub flow: u32,
}

impl Fabric {
    pub(crate) fn new(path: &PathConfig, options: Options) -> Fabric {
        Fabric {
            queue: EventQueue::new(),
            packets: Packets::default(),
            options,
            mtu: path.mtu,
            scratch: vec![0; usize::from(MAX_DATAGRAM_LEN)],
            trace: Trace::new(options.trace),
            links: [&path.forward, &path.reverse].map(|config| Link::new(config, options.measure_from)),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    pub(crate) fn link(&mut self, from: Side) -> &mut Link {
        &mut self.links[from.index()]
    }

    /// Make a packet of the body in `scratch`, with `framing` bytes around it.
    pub(crate) fn pack(&mut self, number: DatagramNumber, len: usize, framing: usize) -> (u32, u32) {
        let size = (len + framing + IPV4_UDP_LEN) as u32;
        (self.packets.insert(number, size, &self.scratch[..len]), size)
    }

    /// A packet has left its host's device and meets the bottleneck.
    pub(crate) fn pass(&mut self, slot: u32, route: &Route, counters: &mut Counters) {
        let now = self.now();
        let size = self.packets.get(slot).size;
        match self.links[route.from.index()].offer(now, size) {
            Passage::QueueFull => {
                counters.dropped.queue += 1;
                self.drop_packet(slot, TraceKind::QueueFull, route.flow, route.from);
            }
            Passage::Outage => {
                counters.dropped.outage += 1;
                self.drop_packet(slot, TraceKind::Outage, route.flow, route.from);
            }
            Passage::Lost => {
                counters.dropped.loss += 1;
                self.drop_packet(slot, TraceKind::Lost, route.flow, route.from);
            }
            Passage::Arrives { time, copy, corrupt, held_back } => {
                counters.held_back += u64::from(held_back);
                self.packets.get_mut(slot).corrupt = corrupt;
                self.queue.schedule(route.arrivals, time + route.extra_delay, slot);
                if let Some(copy_time) = copy {
                    counters.copied += 1;
                    let number = self.packets.get(slot).number;
                    self.trace(TraceKind::Copied, route.flow, route.from, number, size);
                    let copy = self.packets.duplicate(slot);
                    self.queue.schedule(route.arrivals, copy_time + route.extra_delay, copy);
                }
            }
        }
    }

    /// A packet goes no further.
    pub(crate) fn drop_packet(&mut self, slot: u32, kind: TraceKind, flow: u32, from: Side) {
        let (number, size) = (self.packets.get(slot).number, self.packets.get(slot).size);
        self.trace(kind, flow, from, number, size);
        self.packets.release(slot);
    }

    pub(crate) fn trace(
        &mut self,
        kind: TraceKind,
        flow: u32,
        from: Side,
        number: DatagramNumber,
        size: u32,
    ) {
        let from_right = from == Side::Right;
        self.trace.push(&Record { time: self.queue.now(), kind, flow, from_right, number, size });
    }
}
