//! What all flows of a simulation share: events, hops, packets, counters, trace.

use crate::counters::Counters;
use crate::engine::{EventQueue, TrackId};
use crate::ids::Side;
use crate::link::{Link, Passage};
use crate::options::Options;
use crate::packet::{Owner, Packets, mutate};
use crate::path::PathConfig;
use crate::queue::{DropReason, Dropped, Waiting};
use crate::route::{HopId, Route};
use crate::trace::{Record, Trace, TraceKind};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::{DatagramNumber, Rate};
use longhaul_proto::units::{Time, nanos};
use longhaul_proto::wire::{IPV4_UDP_LEN, MAX_DATAGRAM_LEN};
use std::time::Duration;

/// The shared part of a simulation.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub queue: EventQueue,
    pub packets: Packets,
    pub options: Options,
    /// Where endpoints write bodies, as long as the largest that IP can carry: zeros, so that an endpoint whose data
    /// nobody looks at need not write them.
    pub scratch: Vec<u8>,
    /// Where endpoints read them.
    inbox: Vec<u8>,
    pub trace: Trace,
    hops: Vec<Hop>,
    /// By the slot of the flow.
    flows: Vec<FlowState>,
    /// Counts of flows that were removed, by direction.
    removed: [Counters; 2],
    dropped: Vec<Dropped>,
}

/// A bottleneck: both directions.
#[derive(Debug)]
struct Hop {
    /// By the side where the packets come from.
    links: [Link; 2],
    /// Where packets wait that have left the link for another hop; opened when there is one to go to.
    transit: [Option<TrackId>; 2],
    /// When the link is free for the next packet of a queue that chooses.
    service: [Option<TrackId>; 2],
    device_rate: Rate,
    mtu: u32,
}

/// What the network knows of a flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    /// Its number; a packet of an earlier flow in the same slot has another.
    pub serial: u32,
    pub route: Route,
    /// Where packets arrive, by the side that they arrive at.
    pub arrivals: [TrackId; 2],
    pub access_delay: Duration,
    pub mtu: u32,
    /// By direction.
    pub counters: [Counters; 2],
    pub is_gone: bool,
}

/// What a track of a hop holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HopTrack {
    /// Packets on their way to the next hop.
    Transit,
    /// The moment at which the link is free.
    Service,
}

impl Fabric {
    pub(crate) fn new(options: Options) -> Fabric {
        Fabric {
            queue: EventQueue::new(),
            packets: Packets::default(),
            options,
            scratch: vec![0; usize::from(MAX_DATAGRAM_LEN)],
            inbox: vec![0; usize::from(MAX_DATAGRAM_LEN)],
            trace: Trace::new(options.trace),
            hops: Vec::new(),
            flows: Vec::new(),
            removed: [Counters::default(); 2],
            dropped: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    /// Add a hop; `own` is told the tracks that are opened for it.
    pub(crate) fn add_hop(
        &mut self,
        path: &PathConfig,
        mut own: impl FnMut(TrackId, HopTrack, HopId, Side),
    ) -> HopId {
        let id = HopId(u32::try_from(self.hops.len()).expect("fewer than 2³² hops"));
        let links = [&path.forward, &path.reverse].map(|config| Link::new(config, self.options.measure_from));
        let mut service = [None; 2];
        for side in Side::BOTH.into_iter().filter(|side| links[side.index()].keeps()) {
            let track = self.queue.open_track();
            own(track, HopTrack::Service, id, side);
            service[side.index()] = Some(track);
        }
        let (device_rate, mtu) = (path.device_rate, path.mtu);
        self.hops.push(Hop { links, transit: [None; 2], service, device_rate, mtu });
        id
    }

    /// Make a route usable: packets can pass from each of its hops to the next.
    pub(crate) fn join(&mut self, route: &Route, mut own: impl FnMut(TrackId, HopTrack, HopId, Side)) {
        let hops = route.hops();
        for side in Side::BOTH {
            let leaving = match side {
                Side::Left => &hops[..hops.len() - 1],
                Side::Right => &hops[1..],
            };
            for id in leaving {
                let queue = &mut self.queue;
                self.hops[id.index()].transit[side.index()].get_or_insert_with(|| {
                    let track = queue.open_track();
                    own(track, HopTrack::Transit, *id, side);
                    track
                });
            }
        }
    }

    pub(crate) fn link(&mut self, hop: HopId, from: Side) -> &mut Link {
        &mut self.hops[hop.index()].links[from.index()]
    }

    pub(crate) fn hops(&self) -> impl Iterator<Item = HopId> + use<> {
        (0..self.hops.len() as u32).map(HopId)
    }

    /// Rate of the devices of hosts whose path begins here.
    pub(crate) fn device_rate(&self, hop: HopId) -> Rate {
        self.hops[hop.index()].device_rate
    }

    /// Largest packet that passes all hops of a route.
    pub(crate) fn mtu(&self, route: &Route) -> u32 {
        route.hops().iter().map(|id| self.hops[id.index()].mtu).min().unwrap_or_default()
    }

    /// There and back over the empty hops.
    pub(crate) fn round_trip(&self, route: &Route) -> Duration {
        let hop =
            |id: &HopId| self.hops[id.index()].links.iter().map(|link| nanos(link.delay())).sum::<u64>();
        Duration::from_nanos(route.hops().iter().map(hop).sum())
    }

    pub(crate) fn set_flow(&mut self, slot: u32, state: FlowState) {
        let slot = slot as usize;
        if slot == self.flows.len() {
            self.flows.push(state);
        } else {
            self.flows[slot] = state;
        }
    }

    pub(crate) fn flow(&self, slot: u32) -> &FlowState {
        &self.flows[slot as usize]
    }

    /// What enters from now on takes this hop in place of the only one so far.
    pub(crate) fn reroute(&mut self, slot: u32, hop: HopId) {
        let flow = &mut self.flows[slot as usize];
        assert_eq!(flow.route.hops().len(), 1, "a flow over one hop");
        flow.route = Route::over(hop);
    }

    /// The counts of a flow's packets that `from` sends.
    pub(crate) fn counters(&mut self, slot: u32, from: Side) -> &mut Counters {
        &mut self.flows[slot as usize].counters[from.index()]
    }

    /// A flow ends; its counts join the totals.
    pub(crate) fn end_flow(&mut self, slot: u32) {
        let flow = &mut self.flows[slot as usize];
        flow.is_gone = true;
        for (sum, own) in self.removed.iter_mut().zip(&mut flow.counters) {
            *sum += std::mem::take(own);
        }
    }

    /// All that the hosts on one side sent.
    pub(crate) fn total(&self, from: Side) -> Counters {
        let mut total = self.removed[from.index()];
        self.flows.iter().for_each(|flow| total += flow.counters[from.index()]);
        total
    }

    /// Packets in queues that choose, and between hops.
    pub(crate) fn within(&self, from: Side) -> u64 {
        let hop = |hop: &Hop| {
            let transit = hop.transit[from.index()].map_or(0, |track| self.queue.len(track));
            (hop.links[from.index()].kept_packets() + transit) as u64
        };
        self.hops.iter().map(hop).sum()
    }

    /// Make a packet of the body in `scratch`, of `len` bytes and with `framing` around it.
    pub(crate) fn pack(
        &mut self,
        owner: Owner,
        number: DatagramNumber,
        (len, framing): (usize, usize),
        ecn: Ecn,
    ) -> (u32, u32) {
        let size = (len + framing + IPV4_UDP_LEN) as u32;
        (self.packets.insert(owner, number, (size, ecn), &mut self.scratch[..len]), size)
    }

    /// A packet has arrived: hand its body, spoilt or not, to `take`, and forget it.
    pub(crate) fn unpack(&mut self, slot: u32, take: impl FnOnce(&[u8])) {
        let packet = self.packets.get(slot);
        let len = packet.unpack(&mut self.inbox);
        match packet.corrupt {
            None => take(&self.inbox[..len]),
            Some(seed) => {
                let mut body = self.inbox[..len].to_vec();
                mutate(&mut body, seed);
                take(&body);
            }
        }
        packet.clear(&mut self.inbox);
        self.packets.release(slot);
    }

    /// A packet has left its host's device, or the hop before, and meets the next.
    pub(crate) fn enter_hop(&mut self, slot: u32) {
        let packet = self.packets.get(slot);
        let (owner, size, ecn, at) = (packet.owner, packet.size, packet.ecn, packet.hops_passed);
        let flow = &self.flows[owner.slot as usize];
        if flow.serial != owner.serial || flow.is_gone {
            self.drop_packet(slot, TraceKind::Gone);
            return;
        }
        let hop = nth_hop(&flow.route, owner.from, at);
        let now = self.queue.now();
        let link = &mut self.hops[hop.index()].links[owner.from.index()];
        if link.keeps() {
            let packet =
                Waiting { packet: slot, flow: owner.serial, bytes: size, ecn, is_marked: false, since: now };
            let mut dropped = std::mem::take(&mut self.dropped);
            link.push(packet, &mut dropped);
            self.drop_all(&mut dropped);
            self.dropped = dropped;
            self.serve(hop, owner.from);
        } else {
            let passage = link.offer(now, size, ecn);
            self.pass(slot, hop, passage);
        }
    }

    /// The link may be free: transmit what its queue chooses.
    pub(crate) fn serve(&mut self, hop: HopId, from: Side) {
        let now = self.queue.now();
        let mut dropped = std::mem::take(&mut self.dropped);
        let served = self.link(hop, from).serve(now, &mut dropped);
        self.drop_all(&mut dropped);
        self.dropped = dropped;
        if let Some((waiting, passage)) = served {
            self.pass(waiting.packet, hop, passage);
        }
        let next = self.link(hop, from).serve_at(now);
        if let Some(track) = self.hops[hop.index()].service[from.index()] {
            self.queue.set_timer(track, next);
        }
    }

    fn drop_all(&mut self, dropped: &mut Vec<Dropped>) {
        for one in dropped.drain(..) {
            self.drop_packet(
                one.waiting.packet,
                match one.reason {
                    DropReason::Full => TraceKind::QueueFull,
                    DropReason::Managed => TraceKind::Managed,
                    DropReason::Policed => TraceKind::Policed,
                },
            );
        }
    }

    /// What the link does with a packet is settled.
    fn pass(&mut self, slot: u32, hop: HopId, passage: Passage) {
        match passage {
            Passage::QueueFull => self.drop_packet(slot, TraceKind::QueueFull),
            Passage::Policed => self.drop_packet(slot, TraceKind::Policed),
            Passage::Outage => self.drop_packet(slot, TraceKind::Outage),
            Passage::Lost => self.drop_packet(slot, TraceKind::Lost),
            Passage::Arrives { time, copy, corrupt, held_back, ecn } => {
                let packet = self.packets.get_mut(slot);
                packet.corrupt = packet.corrupt.or(corrupt);
                packet.ecn = ecn;
                packet.hops_passed += 1;
                let owner = packet.owner;
                if held_back {
                    self.counters_of(owner).held_back += 1;
                }
                self.send_on(slot, hop, owner, time);
                if let Some(copy_time) = copy {
                    self.counters_of(owner).copied += 1;
                    let copy = self.packets.duplicate(slot);
                    self.trace_packet(TraceKind::Copied, copy);
                    self.send_on(copy, hop, owner, copy_time);
                }
            }
        }
    }

    /// A packet comes out of a hop at `time`: to the next one, or to its host.
    fn send_on(&mut self, slot: u32, hop: HopId, owner: Owner, time: Time) {
        let flow = &self.flows[owner.slot as usize];
        let is_last = usize::from(self.packets.get(slot).hops_passed) >= flow.route.hops().len();
        if flow.serial != owner.serial || flow.is_gone {
            self.drop_packet(slot, TraceKind::Gone);
        } else if is_last {
            let track = flow.arrivals[owner.from.other().index()];
            self.queue.schedule(track, time + flow.access_delay, slot);
        } else if let Some(track) = self.hops[hop.index()].transit[owner.from.index()] {
            self.queue.schedule(track, time, slot);
        }
    }

    /// A packet goes no further.
    pub(crate) fn drop_packet(&mut self, slot: u32, kind: TraceKind) {
        let owner = self.packets.get(slot).owner;
        let drops = &mut self.counters_of(owner).dropped;
        match kind {
            TraceKind::QueueFull => drops.queue += 1,
            TraceKind::Managed => drops.managed += 1,
            TraceKind::Policed => drops.policed += 1,
            TraceKind::Lost => drops.loss += 1,
            TraceKind::Outage => drops.outage += 1,
            TraceKind::Oversize => drops.oversize += 1,
            TraceKind::Corrupt => drops.corrupt += 1,
            TraceKind::Replay => drops.replay += 1,
            _ => drops.gone += 1,
        }
        self.trace_packet(kind, slot);
        self.packets.release(slot);
    }

    /// Where a packet is counted: with its flow, or with those that were removed.
    fn counters_of(&mut self, owner: Owner) -> &mut Counters {
        let flow = &mut self.flows[owner.slot as usize];
        if flow.serial == owner.serial && !flow.is_gone {
            &mut flow.counters[owner.from.index()]
        } else {
            &mut self.removed[owner.from.index()]
        }
    }

    pub(crate) fn trace_packet(&mut self, kind: TraceKind, slot: u32) {
        let packet = self.packets.get(slot);
        self.trace.push(&Record {
            time: self.queue.now(),
            kind,
            flow: packet.owner.serial,
            from_right: packet.owner.from == Side::Right,
            number: packet.number,
            size: packet.size,
        });
    }

    /// Something about a host, not about a packet.
    pub(crate) fn trace_host(&mut self, kind: TraceKind, flow: u32, side: Side) {
        let from_right = side == Side::Right;
        self.trace.push(&Record { time: self.queue.now(), kind, flow, from_right, number: 0, size: 0 });
    }
}

/// The hop that comes after `passed` others on the way from that side.
fn nth_hop(route: &Route, from: Side, passed: u16) -> HopId {
    let (hops, passed) = (route.hops(), usize::from(passed));
    match from {
        Side::Left => hops[passed],
        Side::Right => hops[hops.len() - 1 - passed],
    }
}
