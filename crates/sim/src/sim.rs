//! The simulation: flows over one path, event after event.

use crate::counters::Counters;
use crate::engine::TrackId;
use crate::fabric::{Fabric, FlowState, HopTrack};
use crate::ids::{FlowEvent, FlowId, Side};
use crate::link::{LinkChange, LinkStep, LinkTotals};
use crate::node::{Node, Tracks};
use crate::options::Options;
use crate::outcome::{Direction, End, Limits, Outcome, Run};
use crate::packet::Owner;
use crate::path::PathConfig;
use crate::queue::Occupancy;
use crate::route::{HopId, Placement};
use crate::scenario::Scenario;
use crate::trace::Trace;

use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::units::Time;
use std::time::Duration;

/// Flows over shared hops on virtual time. The first hop is the scenario's: flows that all run over it make a dumbbell.
/// [`Sim::add_hop`] adds others, and a [`Route`](crate::Route) says which of them a flow passes.
///
/// Equal seeds, flows and calls give equal runs, byte for byte. Memory grows with the number of flows and with what is
/// in flight, not with the length of the run.
#[derive(Debug)]
pub struct Sim<L: Endpoint, R: Endpoint> {
    fabric: Fabric,
    flows: Vec<Option<Flow<L, R>>>,
    free_slots: Vec<u32>,
    serials: u32,
    owners: Vec<TrackOwner>,
    wakes: TrackId,
    happened: Vec<FlowEvent<L::Event, R::Event>>,
    handled: u64,
}

#[derive(Debug)]
struct Flow<L, R> {
    left: Node<L>,
    right: Node<R>,
    serial: u32,
}

/// What the events of a track are.
#[derive(Clone, Copy, Debug)]
enum TrackOwner {
    Device(u32, Side),
    Arrivals(u32, Side),
    Timer(u32, Side),
    Transit,
    Service(HopId, Side),
    Wakes,
}

/// Remember what the events of a track are.
fn own(owners: &mut Vec<TrackOwner>, track: TrackId, owner: TrackOwner) {
    let needed = owners.len().max(track.index() + 1);
    owners.resize(needed, owner);
    owners[track.index()] = owner;
}

/// Remember what the events of a hop's track are.
fn own_hop(owners: &mut Vec<TrackOwner>) -> impl FnMut(TrackId, HopTrack, HopId, Side) {
    |track, kind, hop, side| {
        let owner = match kind {
            HopTrack::Transit => TrackOwner::Transit,
            HopTrack::Service => TrackOwner::Service(hop, side),
        };
        own(owners, track, owner);
    }
}

impl<L: Endpoint, R: Endpoint> Sim<L, R> {
    /// A path without flows.
    pub fn new(scenario: &Scenario) -> Sim<L, R> {
        Sim::with_path(PathConfig::new(scenario), Options::default())
    }

    /// A path without flows, built by hand.
    pub fn with_path(path: PathConfig, options: Options) -> Sim<L, R> {
        let mut fabric = Fabric::new(options);
        let wakes = fabric.queue.open_track();
        let mut sim = Sim {
            fabric,
            flows: Vec::new(),
            free_slots: Vec::new(),
            serials: 0,
            owners: vec![TrackOwner::Wakes],
            wakes,
            happened: Vec::new(),
            handled: 0,
        };
        sim.add_hop(&path);
        sim
    }

    /// Add a hop: the bottleneck of another path, to be named in routes.
    pub fn add_hop(&mut self, path: &PathConfig) -> HopId {
        self.fabric.add_hop(path, own_hop(&mut self.owners))
    }

    /// Add a flow between two hosts of its own that begins at `start` and runs over the first hop.
    pub fn add_flow(&mut self, left: L, right: R, start: Time) -> FlowId {
        self.place_flow(left, right, &Placement::at(start))
    }

    /// Add a flow whose way to and from the bottleneck is longer than that of others by `extra` in each direction.
    pub fn add_flow_with_delay(&mut self, left: L, right: R, start: Time, extra: Duration) -> FlowId {
        self.place_flow(left, right, &Placement { access_delay: extra, ..Placement::at(start) })
    }

    /// Add a flow between two hosts of its own, wherever it runs.
    ///
    /// # Panics
    /// If the route names a hop that has not been added.
    pub fn place_flow(&mut self, left: L, right: R, placement: &Placement) -> FlowId {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.flows.push(None);
            u32::try_from(self.flows.len() - 1).expect("fewer than 2³² flows")
        });
        let id = FlowId { slot, serial: self.serials };
        self.serials += 1;
        let route = &placement.route;
        self.fabric.join(route, own_hop(&mut self.owners));
        let tracks = Side::BOTH.map(|side| self.open_tracks(slot, side));
        self.fabric.set_flow(
            slot,
            FlowState {
                serial: id.serial,
                route: route.clone(),
                arrivals: [tracks[0].arrivals, tracks[1].arrivals],
                access_delay: placement.access_delay,
                mtu: self.fabric.mtu(route),
                counters: [Counters::default(); 2],
                is_gone: false,
            },
        );
        let device = placement.access_rate.unwrap_or_else(|| self.fabric.device_rate(route.hops()[0]));
        let ahead = self.fabric.options.right_clock_ahead;
        let owner = |from| Owner { slot, serial: id.serial, from };
        tracks.iter().for_each(|tracks| self.fabric.queue.set_timer(tracks.timer, Some(placement.start)));
        self.flows[slot as usize] = Some(Flow {
            left: Node::new(left, tracks[0], owner(Side::Left), device, Duration::ZERO),
            right: Node::new(right, tracks[1], owner(Side::Right), device, ahead),
            serial: id.serial,
        });
        id
    }

    /// Remove a flow with all that it has in flight, and hand back its endpoints. Its counters stay in the totals.
    ///
    /// # Panics
    /// If the flow has been removed before.
    pub fn remove_flow(&mut self, id: FlowId) -> (L, R) {
        self.flow(id);
        let Flow { left, right, .. } = self.flows[id.slot as usize].take().expect("looked up above");
        let left = left.close(&mut self.fabric);
        let right = right.close(&mut self.fabric);
        self.fabric.end_flow(id.slot);
        self.free_slots.push(id.slot);
        (left, right)
    }

    /// There and back over the empty path of a flow so placed, without serialisation.
    pub fn base_rtt(&self, placement: &Placement) -> Duration {
        self.fabric.round_trip(&placement.route) + placement.access_delay * 2
    }

    /// A router lets what a flow sends from now on, either way, take another hop in place of its only one; what has passed
    /// the old one still arrives.
    ///
    /// # Panics
    /// If the flow has been removed, or passes several hops.
    pub fn reroute(&mut self, id: FlowId, hop: HopId) {
        self.flow(id);
        self.fabric.reroute(id.slot, hop);
    }

    /// Largest IP packet that passes all the way of a flow so placed.
    pub fn mtu(&self, placement: &Placement) -> u32 {
        self.fabric.mtu(&placement.route)
    }

    /// Let one direction of a hop change. To be called before that moment.
    pub fn schedule(&mut self, hop: HopId, from: Side, step: LinkStep) {
        self.fabric.link(hop, from).schedule(step);
    }

    /// What leaves the first hop, either way, from `from` until before `to` is lost. To be called before `from`.
    pub fn schedule_outage(&mut self, from: Time, to: Time) {
        let step = LinkStep { at: from, change: LinkChange::Outage(to.since(from)) };
        Side::BOTH.into_iter().for_each(|side| self.schedule(HopId::FIRST, side, step));
    }

    /// At `time`, ask an endpoint again what it has to send, as the driver does when a disk has become ready.
    pub fn wake_at(&mut self, id: FlowId, side: Side, time: Time) {
        self.fabric.queue.schedule(self.wakes, time, id.slot * 2 + side.index() as u32);
    }

    /// Handle the next event; false if nothing is left to happen. What the endpoints told before is forgotten.
    pub fn step(&mut self) -> bool {
        self.happened.clear();
        let Some(event) = self.fabric.queue.pop() else { return false };
        self.handled += 1;
        match self.owners[event.track.index()] {
            TrackOwner::Device(slot, side) => self.on_device(slot, side, event.item),
            TrackOwner::Arrivals(slot, side) => self.on_arrival(slot, side, event.item),
            TrackOwner::Timer(slot, side) => self.on_timer(slot, side),
            TrackOwner::Transit => self.fabric.enter_hop(event.item),
            TrackOwner::Service(hop, from) => self.fabric.serve(hop, from),
            TrackOwner::Wakes => {
                let side = if event.item % 2 == 0 { Side::Left } else { Side::Right };
                self.on_wake(event.item / 2, side);
            }
        }
        true
    }

    /// Handle events until `stop` says so (it is asked after each), a limit is met or nothing is left to happen.
    pub fn run(&mut self, limits: Limits, mut stop: impl FnMut(&mut Sim<L, R>) -> bool) -> End {
        let last = self.handled.saturating_add(limits.events);
        loop {
            match self.fabric.queue.next_time() {
                None => return End::Idle,
                Some(time) if time > limits.time => return End::TimeLimit,
                Some(_) if self.handled >= last => return End::EventLimit,
                Some(_) => {}
            }
            self.step();
            if stop(self) {
                return End::Stopped;
            }
        }
    }

    /// What endpoints told during the last step, in order.
    pub fn events(&self) -> &[FlowEvent<L::Event, R::Event>] {
        &self.happened
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.fabric.now()
    }

    /// The left endpoint of a flow.
    ///
    /// # Panics
    /// If the flow has been removed.
    pub fn left(&self, id: FlowId) -> &L {
        &self.flow(id).left.endpoint
    }

    /// The right endpoint of a flow.
    ///
    /// # Panics
    /// If the flow has been removed.
    pub fn right(&self, id: FlowId) -> &R {
        &self.flow(id).right.endpoint
    }

    /// Both endpoints of a flow, to be changed from outside; [`Sim::wake_at`] lets them act on it.
    ///
    /// # Panics
    /// If the flow has been removed.
    pub fn endpoints_mut(&mut self, id: FlowId) -> (&mut L, &mut R) {
        self.flow(id);
        let flow = self.flows[id.slot as usize].as_mut().expect("looked up above");
        (&mut flow.left.endpoint, &mut flow.right.endpoint)
    }

    /// What became of a flow's datagrams that `from` sent.
    ///
    /// # Panics
    /// If the flow has been removed.
    pub fn flow_counters(&self, id: FlowId, from: Side) -> Counters {
        self.flow(id);
        self.fabric.flow(id.slot).counters[from.index()]
    }

    /// What became of all datagrams that the hosts on one side sent, those of removed flows too.
    pub fn counters(&self, from: Side) -> Counters {
        self.fabric.total(from)
    }

    /// How many datagrams are on their way from one side to the other: in a device, in a queue or propagating.
    pub fn in_flight(&self, from: Side) -> u64 {
        let tracks = |flow: &Flow<L, R>| match from {
            Side::Left => [flow.left.tracks.device, flow.right.tracks.arrivals],
            Side::Right => [flow.right.tracks.device, flow.left.tracks.arrivals],
        };
        let at_hosts = self.flows.iter().flatten().flat_map(tracks);
        at_hosts.map(|track| self.fabric.queue.len(track) as u64).sum::<u64>() + self.fabric.within(from)
    }

    /// What one direction of a hop has done.
    pub fn link_totals(&mut self, hop: HopId, from: Side) -> LinkTotals {
        self.fabric.link(hop, from).totals()
    }

    /// How full the queue of one direction of a hop was, since [`Options::measure_from`].
    pub fn occupancy(&mut self, hop: HopId, from: Side) -> Occupancy {
        let now = self.now();
        self.fabric.link(hop, from).occupancy(now)
    }

    /// All hops.
    pub fn hops(&self) -> impl Iterator<Item = HopId> + use<L, R> {
        self.fabric.hops()
    }

    /// How many flows there are now.
    pub fn flow_count(&self) -> usize {
        self.flows.len() - self.free_slots.len()
    }

    /// What was recorded.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.fabric.trace
    }

    /// Where things stand, `end` being the reason to ask.
    pub fn outcome(&mut self, end: End) -> Outcome {
        Outcome {
            end,
            time: self.now(),
            events: self.handled,
            forward: self.direction(Side::Left),
            reverse: self.direction(Side::Right),
            trace_hash: self.fabric.trace.hash(),
        }
    }

    fn direction(&mut self, from: Side) -> Direction {
        Direction {
            counters: self.counters(from),
            in_flight: self.in_flight(from),
            queue: self.occupancy(HopId::FIRST, from),
        }
    }

    fn flow(&self, id: FlowId) -> &Flow<L, R> {
        let flow = self.flows.get(id.slot as usize).and_then(Option::as_ref);
        flow.filter(|flow| flow.serial == id.serial).expect("the flow has not been removed")
    }

    fn open_tracks(&mut self, slot: u32, side: Side) -> Tracks {
        let tracks = Tracks::open(&mut self.fabric.queue);
        own(&mut self.owners, tracks.device, TrackOwner::Device(slot, side));
        own(&mut self.owners, tracks.arrivals, TrackOwner::Arrivals(slot, side));
        own(&mut self.owners, tracks.timer, TrackOwner::Timer(slot, side));
        tracks
    }

    fn on_device(&mut self, slot: u32, side: Side, packet: u32) {
        self.fabric.enter_hop(packet);
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        match side {
            Side::Left => flow.left.on_device_free(&mut self.fabric),
            Side::Right => flow.right.on_device_free(&mut self.fabric),
        }
        self.take_events(slot, side);
    }

    fn on_arrival(&mut self, slot: u32, side: Side, packet: u32) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        match side {
            Side::Left => flow.left.on_arrival(&mut self.fabric, packet),
            Side::Right => flow.right.on_arrival(&mut self.fabric, packet),
        }
        self.take_events(slot, side);
    }

    fn on_timer(&mut self, slot: u32, side: Side) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        match side {
            Side::Left => flow.left.on_timer(&mut self.fabric),
            Side::Right => flow.right.on_timer(&mut self.fabric),
        }
        self.take_events(slot, side);
    }

    fn on_wake(&mut self, slot: u32, side: Side) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        match side {
            Side::Left => flow.left.on_wake(&mut self.fabric),
            Side::Right => flow.right.on_wake(&mut self.fabric),
        }
        self.take_events(slot, side);
    }

    fn take_events(&mut self, slot: u32, side: Side) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        let id = FlowId { slot, serial: flow.serial };
        let happened = &mut self.happened;
        match side {
            Side::Left => flow.left.take_events(|event| happened.push(FlowEvent::Left(id, event))),
            Side::Right => flow.right.take_events(|event| happened.push(FlowEvent::Right(id, event))),
        }
    }
}

/// Run one flow over a scenario until `stop` says so (it is asked after each event), a limit is met or nothing is left
/// to happen.
pub fn run_pair<L: Endpoint, R: Endpoint>(
    scenario: &Scenario,
    left: L,
    right: R,
    limits: Limits,
    mut stop: impl FnMut(&mut Sim<L, R>, FlowId) -> bool,
) -> Run<L, R> {
    let mut sim = Sim::new(scenario);
    let id = sim.add_flow(left, right, Time::ZERO);
    let end = sim.run(limits, |sim| stop(sim, id));
    let outcome = sim.outcome(end);
    let (left, right) = sim.remove_flow(id);
    Run { outcome, left, right }
}
