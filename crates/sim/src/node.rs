//! A simulated host: drives one endpoint by its call-order contract.

use crate::engine::{EventQueue, TrackId};
use crate::fabric::Fabric;
use crate::link::Serializer;
use crate::packet::{Owner, ReplayWindow};
use crate::trace::TraceKind;
use longhaul_proto::endpoint::{Arrival, Endpoint};
use longhaul_proto::units::{DatagramNumber, Rate};
use std::time::Duration;

/// One end of a flow.
#[derive(Debug)]
pub(crate) struct Node<E> {
    pub endpoint: E,
    pub tracks: Tracks,
    /// Of the packets that it sends.
    owner: Owner,
    device: Serializer,
    started: bool,
    /// The device had no room when the endpoint was last asked to transmit.
    blocked: bool,
    last_number: Option<DatagramNumber>,
    replay: ReplayWindow,
    /// How far this host's clock is ahead of simulated time.
    clock_ahead: Duration,
}

/// Where a host's events wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracks {
    /// Datagrams in the device, not yet transmitted.
    pub device: TrackId,
    /// Datagrams on their way to this host.
    pub arrivals: TrackId,
    /// The endpoint's deadline.
    pub timer: TrackId,
}

impl Tracks {
    pub(crate) fn open(queue: &mut EventQueue) -> Tracks {
        Tracks { device: queue.open_track(), arrivals: queue.open_track(), timer: queue.open_track() }
    }
}

impl<E: Endpoint> Node<E> {
    pub(crate) fn new(endpoint: E, tracks: Tracks, owner: Owner, device: Rate, ahead: Duration) -> Node<E> {
        Node {
            endpoint,
            tracks,
            owner,
            device: Serializer::new(device),
            started: false,
            blocked: false,
            last_number: None,
            replay: ReplayWindow::new(),
            clock_ahead: ahead,
        }
    }

    /// The time that the endpoint's deadline named has come, or the flow begins.
    pub(crate) fn on_timer(&mut self, fabric: &mut Fabric) {
        fabric.trace_host(TraceKind::Timer, self.owner.serial, self.owner.from);
        if self.started {
            self.endpoint.handle_timeout(fabric.now() + self.clock_ahead);
        }
        self.started = true;
        self.drain(fabric, true);
    }

    /// Something outside (a disk) may have made the endpoint ready.
    pub(crate) fn on_wake(&mut self, fabric: &mut Fabric) {
        if self.started {
            fabric.trace_host(TraceKind::Wake, self.owner.serial, self.owner.from);
            self.drain(fabric, false);
        }
    }

    /// The device has room again.
    pub(crate) fn on_device_free(&mut self, fabric: &mut Fabric) {
        if !self.blocked {
            return;
        }
        let now = fabric.now() + self.clock_ahead;
        let is_due = self.endpoint.poll_timeout().is_some_and(|deadline| deadline <= now);
        if is_due {
            self.endpoint.handle_timeout(now);
        }
        self.drain(fabric, is_due);
    }

    /// A datagram has come through the path.
    pub(crate) fn on_arrival(&mut self, fabric: &mut Fabric, slot: u32) {
        let packet = fabric.packets.get(slot);
        let (number, size, ecn, corrupt) = (packet.number, packet.size, packet.ecn, packet.corrupt);
        let is_overtaken = self.replay.is_overtaken(number);
        if corrupt.is_some() && !fabric.options.deliver_corrupt {
            fabric.drop_packet(slot, TraceKind::Corrupt);
            return;
        }
        if !self.replay.admit(number) && !fabric.options.deliver_replays {
            fabric.drop_packet(slot, TraceKind::Replay);
            return;
        }
        let counters = fabric.counters(self.owner.slot, self.owner.from.other());
        counters.mutated += u64::from(corrupt.is_some());
        counters.delivered += 1;
        counters.delivered_bytes += u64::from(size);
        counters.reordered += u64::from(is_overtaken);
        fabric.trace_packet(TraceKind::Delivered, slot);
        let now = fabric.now() + self.clock_ahead;
        let arrival = Arrival { time: now, number, ecn: Some(ecn) };
        fabric.unpack(slot, |body| self.endpoint.handle_datagram(now, arrival, body));
        self.drain(fabric, false);
    }

    /// Take out all that may be sent and the next deadline. `timer_handled`: the endpoint has just been told the time.
    fn drain(&mut self, fabric: &mut Fabric, timer_handled: bool) {
        self.transmit(fabric);
        self.arm(fabric, timer_handled);
    }

    /// Take out events; to be called after everything else.
    pub(crate) fn take_events(&mut self, mut each: impl FnMut(E::Event)) {
        while let Some(event) = self.endpoint.poll_event() {
            each(event);
        }
    }

    fn transmit(&mut self, fabric: &mut Fabric) {
        let now = fabric.now();
        loop {
            self.blocked = fabric.queue.len(self.tracks.device) >= fabric.options.device_slots;
            if self.blocked {
                return;
            }
            let Some(sent) = self.endpoint.poll_transmit(now + self.clock_ahead, &mut fabric.scratch) else {
                return;
            };
            assert!(
                self.last_number.is_none_or(|last| sent.number > last),
                "the endpoint gave out datagram number {} after {:?}: numbers must rise",
                sent.number,
                self.last_number
            );
            self.last_number = Some(sent.number);
            let (framing, ecn) = (self.endpoint.framing(), self.endpoint.ecn());
            let (slot, size) = fabric.pack(self.owner, sent.number, (sent.len, framing), ecn);
            let counters = fabric.counters(self.owner.slot, self.owner.from);
            counters.sent += 1;
            counters.sent_bytes += u64::from(size);
            fabric.trace_packet(TraceKind::Sent, slot);
            if size > fabric.flow(self.owner.slot).mtu {
                fabric.drop_packet(slot, TraceKind::Oversize);
            } else {
                let leaves = self.device.transmit(now, size);
                fabric.queue.schedule(self.tracks.device, leaves, slot);
            }
        }
    }

    fn arm(&mut self, fabric: &mut Fabric, timer_handled: bool) {
        let now = fabric.now();
        let deadline = self.endpoint.poll_timeout().map(|at| at - self.clock_ahead);
        let at = match deadline {
            // It has just been told and asks again: the device will tell it, or a real timer would take a moment.
            Some(at) if at <= now && timer_handled && self.blocked => None,
            Some(at) if at <= now && timer_handled => Some(now + TIMER_GRANULARITY),
            other => other,
        };
        fabric.queue.set_timer(self.tracks.timer, at);
    }

    /// Close the tracks; whatever was in the device or on its way to this host is gone.
    pub(crate) fn close(self, fabric: &mut Fabric) -> E {
        for track in [self.tracks.device, self.tracks.arrivals] {
            for slot in fabric.queue.close_track(track) {
                fabric.drop_packet(slot, TraceKind::Gone);
            }
        }
        fabric.queue.close_track(self.tracks.timer).for_each(drop);
        self.endpoint
    }
}

/// What an endpoint waits that asks again and again to be called at once.
const TIMER_GRANULARITY: Duration = Duration::from_micros(1);
