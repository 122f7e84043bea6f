//! The simulation: flows over one path, event after event.

use crate::counters::Counters;
use crate::engine::LaneId;
use crate::fabric::{Fabric, Route};
use crate::node::{Lanes, Node};
use crate::outcome::{Direction, End, Limits, Outcome, Run};
use crate::path::PathConfig;
use crate::scenario::Scenario;
use crate::trace::{Trace, TraceMode};
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::units::Time;
use std::time::Duration;

/// One of the two ends of every flow: the left ones share the bottleneck towards the right, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Where senders usually are.
    Left,
    /// The other end.
    Right,
}

impl Side {
    /// The opposite end.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    /// 0 for left, 1 for right: also the index of the direction that starts there.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What is not part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Occupancy of the queues is measured from here on.
    pub measure_from: Time,
    /// What is recorded.
    pub trace: TraceMode,
    /// Hand datagrams with wrong bytes to the endpoint instead of dropping them as unauthentic.
    pub deliver_corrupt: bool,
    /// Hand datagrams to the endpoint whose number it has seen, instead of dropping them.
    pub deliver_replays: bool,
    /// Datagrams that a host's device holds; while they fill it, the endpoint is not asked to transmit.
    pub device_slots: usize,
    /// How far the clocks of the right hosts are ahead of those of the left.
    pub right_clock_ahead: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            measure_from: Time::ZERO,
            trace: TraceMode::Hash,
            deliver_corrupt: false,
            deliver_replays: false,
            device_slots: DEVICE_SLOTS,
            right_clock_ahead: Duration::ZERO,
        }
    }
}

/// Names a flow of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId {
    slot: u32,
    serial: u32,
}

impl FlowId {
    /// 0 for the first flow added, and so on; also its number in the trace.
    pub fn serial(self) -> u32 {
        self.serial
    }
}

/// What an endpoint of a flow told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEvent<L, R> {
    /// The left one.
    Left(FlowId, L),
    /// The right one.
    Right(FlowId, R),
}

/// Flows over one shared path on virtual time: a dumbbell whose bottleneck and impairments are the scenario's.
///
/// Equal seeds, flows and calls give equal runs, byte for byte. Memory grows with the number of flows and with what is
/// in flight, not with the length of the run.
#[derive(Debug)]
pub struct Sim<L: Endpoint, R: Endpoint> {
    fabric: Fabric,
    path: PathConfig,
    flows: Vec<Option<Flow<L, R>>>,
    free_slots: Vec<u32>,
    serials: u32,
    owners: Vec<Owner>,
    wakes: LaneId,
    removed: [Counters; 2],
    happened: Vec<FlowEvent<L::Event, R::Event>>,
    handled: u64,
}

#[derive(Debug)]
struct Flow<L, R> {
    left: Node<L>,
    right: Node<R>,
    serial: u32,
    extra_delay: Duration,
    /// By direction.
    counters: [Counters; 2],
}

/// What the events of a lane are.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Device(u32, Side),
    Arrivals(u32, Side),
    Timer(u32, Side),
    Wakes,
}

impl<L: Endpoint, R: Endpoint> Sim<L, R> {
    /// A path without flows.
    pub fn new(scenario: &Scenario) -> Sim<L, R> {
        Sim::with_path(PathConfig::new(scenario), Options::default())
    }

    /// A path without flows, built by hand.
    pub fn with_path(path: PathConfig, options: Options) -> Sim<L, R> {
        let mut fabric = Fabric::new(&path, options);
        let wakes = fabric.queue.open_lane();
        Sim {
            fabric,
            path,
            flows: Vec::new(),
            free_slots: Vec::new(),
            serials: 0,
            owners: vec![Owner::Wakes],
            wakes,
            removed: [Counters::default(); 2],
            happened: Vec::new(),
            handled: 0,
        }
    }

    /// Add a flow between two hosts of its own that begins at `start`.
    pub fn add_flow(&mut self, left: L, right: R, start: Time) -> FlowId {
        self.add_flow_with_delay(left, right, start, Duration::ZERO)
    }

    /// Add a flow whose way to and from the bottleneck is longer than that of others by `extra` in each direction.
    pub fn add_flow_with_delay(&mut self, left: L, right: R, start: Time, extra: Duration) -> FlowId {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.flows.push(None);
            u32::try_from(self.flows.len() - 1).expect("fewer than 2³² flows")
        });
        let id = FlowId { slot, serial: self.serials };
        self.serials += 1;
        let (left_lanes, right_lanes) =
            (self.open_lanes(slot, Side::Left), self.open_lanes(slot, Side::Right));
        let (device, ahead) = (self.path.device_rate, self.fabric.options.right_clock_ahead);
        self.fabric.queue.set_timer(left_lanes.timer, Some(start));
        self.fabric.queue.set_timer(right_lanes.timer, Some(start));
        self.flows[slot as usize] = Some(Flow {
            left: Node::new(left, left_lanes, id.serial, Side::Left, device, Duration::ZERO),
            right: Node::new(right, right_lanes, id.serial, Side::Right, device, ahead),
            serial: id.serial,
            extra_delay: extra,
            counters: [Counters::default(); 2],
        });
        id
    }

    /// Remove a flow with all that it has in flight, and hand back its endpoints. Its counters stay in the totals.
    ///
    /// # Panics
    /// If the flow has been removed before.
    pub fn remove_flow(&mut self, id: FlowId) -> (L, R) {
        self.flow(id);
        let Flow { left, right, counters: [mut forward, mut reverse], .. } =
            self.flows[id.slot as usize].take().expect("looked up above");
        let left = left.close(&mut self.fabric, &mut forward, &mut reverse);
        let right = right.close(&mut self.fabric, &mut reverse, &mut forward);
        self.removed[0] += forward;
        self.removed[1] += reverse;
        self.free_slots.push(id.slot);
        (left, right)
    }

    /// What leaves the bottleneck, either way, from `from` until before `to` is lost. To be called before `from`.
    pub fn schedule_outage(&mut self, from: Time, to: Time) {
        self.fabric.link(Side::Left).schedule_outage(from, to);
        self.fabric.link(Side::Right).schedule_outage(from, to);
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
        match self.owners[event.lane.index()] {
            Owner::Device(slot, side) => self.on_device(slot, side, event.item),
            Owner::Arrivals(slot, side) => self.on_arrival(slot, side, event.item),
            Owner::Timer(slot, side) => self.on_timer(slot, side),
            Owner::Wakes => {
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
        self.flow(id).counters[from.index()]
    }

    /// What became of all datagrams that the hosts on one side sent, those of removed flows too.
    pub fn counters(&self, from: Side) -> Counters {
        let mut total = self.removed[from.index()];
        for flow in self.flows.iter().flatten() {
            total += flow.counters[from.index()];
        }
        total
    }

    /// How many datagrams are on their way from one side to the other: in a device, in the queue or propagating.
    pub fn in_flight(&self, from: Side) -> u64 {
        let lanes = |flow: &Flow<L, R>| match from {
            Side::Left => [flow.left.lanes.device, flow.right.lanes.arrivals],
            Side::Right => [flow.right.lanes.device, flow.left.lanes.arrivals],
        };
        self.flows.iter().flatten().flat_map(lanes).map(|lane| self.fabric.queue.len(lane) as u64).sum()
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
        let now = self.now();
        Direction {
            counters: self.counters(from),
            in_flight: self.in_flight(from),
            queue: self.fabric.link(from).occupancy(now),
        }
    }

    fn flow(&self, id: FlowId) -> &Flow<L, R> {
        let flow = self.flows.get(id.slot as usize).and_then(Option::as_ref);
        flow.filter(|flow| flow.serial == id.serial).expect("the flow has not been removed")
    }

    fn open_lanes(&mut self, slot: u32, side: Side) -> Lanes {
        let lanes = Lanes::open(&mut self.fabric.queue);
        for (lane, owner) in [
            (lanes.device, Owner::Device(slot, side)),
            (lanes.arrivals, Owner::Arrivals(slot, side)),
            (lanes.timer, Owner::Timer(slot, side)),
        ] {
            let needed = self.owners.len().max(lane.index() + 1);
            self.owners.resize(needed, owner);
            self.owners[lane.index()] = owner;
        }
        lanes
    }

    fn on_device(&mut self, slot: u32, side: Side, packet: u32) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        let arrivals = match side {
            Side::Left => flow.right.lanes.arrivals,
            Side::Right => flow.left.lanes.arrivals,
        };
        let route = Route { from: side, arrivals, extra_delay: flow.extra_delay, flow: flow.serial };
        let counters = &mut flow.counters[side.index()];
        self.fabric.pass(packet, &route, counters);
        match side {
            Side::Left => flow.left.on_device_free(&mut self.fabric, counters),
            Side::Right => flow.right.on_device_free(&mut self.fabric, counters),
        }
        self.take_events(slot, side);
    }

    fn on_arrival(&mut self, slot: u32, side: Side, packet: u32) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        let [forward, reverse] = &mut flow.counters;
        match side {
            Side::Left => flow.left.on_arrival(&mut self.fabric, packet, reverse, forward),
            Side::Right => flow.right.on_arrival(&mut self.fabric, packet, forward, reverse),
        }
        self.take_events(slot, side);
    }

    fn on_timer(&mut self, slot: u32, side: Side) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        let counters = &mut flow.counters[side.index()];
        match side {
            Side::Left => flow.left.on_timer(&mut self.fabric, counters),
            Side::Right => flow.right.on_timer(&mut self.fabric, counters),
        }
        self.take_events(slot, side);
    }

    fn on_wake(&mut self, slot: u32, side: Side) {
        let Some(flow) = &mut self.flows[slot as usize] else { return };
        let counters = &mut flow.counters[side.index()];
        match side {
            Side::Left => flow.left.on_wake(&mut self.fabric, counters),
            Side::Right => flow.right.on_wake(&mut self.fabric, counters),
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

/// Datagrams in a device's buffer: about what a socket's send buffer of 100 KB holds.
const DEVICE_SLOTS: usize = 64;
