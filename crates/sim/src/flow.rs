//! Flows of every protocol in one simulation: what to send and how, the endpoints for it, and what came of it.

use crate::ids::{FlowId, Side};
use crate::route::Placement;
use crate::scenario::Scenario;
use crate::sim::Sim;
use longhaul_proto::control::{ControlConfig, Remembered, Snapshot};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Endpoint, Full, NotReady, Sink, Source, Transmit};
use longhaul_proto::object::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent, Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::tcp;
use longhaul_proto::units::Time;
use longhaul_proto::wire::{DATA_OVERHEAD, DATA_PREFIX, IPV4_UDP_LEN};
use std::time::Duration;

pub use crate::protocol::{ENDLESS, FlowSpec, ObjectFlow, Protocol, TcpFlow, UnknownProtocol};

impl FlowSpec {
    /// Both ends, the sender first, for a path that the set-up has shown to be like this.
    pub fn build(&self, path: KnownPath) -> (FlowEnd, FlowEnd) {
        match &self.protocol {
            Protocol::Object(flow) => build_object(self, flow, path),
            Protocol::Tcp(flow) => build_tcp(self, flow, path),
        }
    }

    /// How long after its beginning the flow's endpoints begin, over a path with this round trip.
    fn setup_time(&self, rtt: Duration) -> Duration {
        match &self.protocol {
            Protocol::Object(flow) => rtt * flow.setup_round_trips,
            // its own set-up is part of what it sends
            Protocol::Tcp(_) => Duration::ZERO,
        }
    }
}

/// What is known of a path before the first data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// Round trip of the empty path.
    pub rtt: Duration,
    /// Largest IP packet that passes, in bytes.
    pub mtu: u32,
}

impl KnownPath {
    /// What the set-up shows of a scenario's path.
    pub fn of(scenario: &Scenario) -> KnownPath {
        KnownPath { rtt: Duration::from_secs_f64(scenario.rtt_ms / 1e3), mtu: scenario.mtu }
    }
}

fn build_object(spec: &FlowSpec, flow: &ObjectFlow, path: KnownPath) -> (FlowEnd, FlowEnd) {
    let rtt = path.rtt;
    let room = (path.mtu.saturating_sub((IPV4_UDP_LEN + DATA_OVERHEAD) as u32)).max(1);
    let packet_len = flow.packet_len.unwrap_or(room);
    let shape = Shape { object_len: spec.bytes, packet_len };
    let sender = SenderConfig {
        shape,
        class: 0,
        selector: flow.selector,
        rate_cap: flow.rate_cap,
        rtt,
        have: Ranges::new(),
        ecn: flow.ecn,
        seed: spec.seed,
    };
    let plain = ControlConfig::new(u64::from(packet_len) + DATA_OVERHEAD as u64, rtt);
    let control = ControlConfig {
        rate: flow.rate,
        remembered: flow.remembered,
        pcp_without: flow.pcp_without,
        background: flow.background,
        paced: flow.paced,
        streams: flow.streams.unwrap_or(plain.streams),
        seed: spec.seed,
        ..plain
    };
    let receiver = ReceiverConfig {
        shape,
        class: 0,
        ack: flow.ack.policy(rtt),
        have: Ranges::new(),
        max_body: packet_len as usize + DATA_PREFIX,
    };
    (
        FlowEnd::ObjectSender(Box::new(Sender::new(sender, Blank, flow.control.build(control)))),
        FlowEnd::ObjectReceiver(Box::new(Receiver::new(receiver, Blank))),
    )
}

fn build_tcp(spec: &FlowSpec, flow: &TcpFlow, path: KnownPath) -> (FlowEnd, FlowEnd) {
    let room = path.mtu.saturating_sub(TCP_OVERHEAD).clamp(1, u16::MAX.into()) as u16;
    let mss = flow.mss.unwrap_or(room);
    let config = tcp::Config { mss, connection: spec.seed as u32, ..flow.config };
    let plain = ControlConfig::new(config.datagram_len(), path.rtt);
    let control = ControlConfig {
        rate: flow.rate,
        paced: flow.paced,
        classic: flow.classic,
        streams: flow.streams.unwrap_or(plain.streams),
        seed: spec.seed,
        ..plain
    };
    let sender = tcp::Sender::new(config, spec.bytes, Blank, flow.control.build(control));
    (
        FlowEnd::TcpSender(Box::new(sender), TcpCut { bytes: spec.bytes, mss: config.mss }),
        FlowEnd::TcpReceiver(Box::new(tcp::Receiver::new(config, Blank))),
    )
}

/// How a stream is cut into segments.
#[derive(Clone, Copy, Debug)]
pub struct TcpCut {
    bytes: u64,
    mss: u16,
}

/// One end of a flow of any protocol.
#[derive(Debug)]
pub enum FlowEnd {
    /// Of an object transfer.
    ObjectSender(Box<Sender<Blank>>),
    /// Of an object transfer.
    ObjectReceiver(Box<Receiver<Blank>>),
    /// Of a TCP.
    TcpSender(Box<tcp::Sender<Blank>>, TcpCut),
    /// Of a TCP.
    TcpReceiver(Box<tcp::Receiver<Blank>>),
}

/// What the ends of a flow tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowNews {
    /// This end of a TCP has heard from the other.
    Connected,
    /// The receiver has everything.
    Delivered,
    /// The sender knows that the receiver has everything; after this the flow does nothing more.
    Acknowledged,
}

/// What came of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Different bytes that the receiver has taken.
    pub bytes_delivered: u64,
    /// The same with those that a TCP's program cannot read yet, because others before them are missing.
    pub bytes_arrived: u64,
    /// Packets that the flow's bytes fill.
    pub packets_required: u64,
    /// Packets of data sent.
    pub packets_sent: u64,
    /// Of those, sent before.
    pub packets_resent: u64,
    /// Times that a TCP's sender heard nothing for too long.
    pub timeouts: u64,
    /// Shortest round trip seen.
    pub rtt_min: Duration,
    /// Round trip as the sender smoothes it.
    pub rtt: Duration,
}

impl FlowStats {
    /// Packets sent in excess of those required, as a share of them: FOBS's waste. Of a flow that has not ended it
    /// means nothing.
    pub fn waste(&self) -> f64 {
        if self.packets_required == 0 {
            return 0.0;
        }
        (self.packets_sent as f64 - self.packets_required as f64) / self.packets_required as f64
    }
}

impl FlowEnd {
    /// Add what this end knows.
    fn add_to(&self, stats: &mut FlowStats) {
        match self {
            FlowEnd::ObjectSender(sender) => {
                let told = sender.stats();
                stats.packets_required = told.packets_required;
                stats.packets_sent = told.packets_sent;
                stats.packets_resent = told.packets_resent;
                stats.rtt_min = sender.rtt().min();
                stats.rtt = sender.rtt().smoothed();
            }
            FlowEnd::ObjectReceiver(receiver) => {
                let shape = receiver.shape();
                let bytes = receiver.received() * u64::from(shape.packet_len);
                stats.bytes_delivered = bytes.min(shape.object_len);
                stats.bytes_arrived = stats.bytes_delivered;
            }
            FlowEnd::TcpSender(sender, cut) => {
                let told = sender.stats();
                stats.packets_required = cut.bytes.div_ceil(u64::from(cut.mss.max(1)));
                stats.packets_sent = told.segments_sent;
                stats.packets_resent = told.retransmitted;
                stats.timeouts = told.timeouts;
                stats.rtt_min = sender.rtt().min();
                stats.rtt = sender.rtt().smoothed();
            }
            FlowEnd::TcpReceiver(receiver) => {
                stats.bytes_delivered = receiver.delivered_bytes();
                stats.bytes_arrived = receiver.arrived_bytes();
            }
        }
    }

    /// What the controller has learnt of the path, for a later flow.
    pub fn learnt(&self) -> Option<Remembered> {
        match self {
            FlowEnd::ObjectSender(sender) => sender.remember(),
            _ => None,
        }
    }

    /// The controller's view; `None` for a receiver.
    pub fn snapshot(&self) -> Option<Snapshot> {
        match self {
            FlowEnd::ObjectSender(sender) => Some(sender.snapshot()),
            FlowEnd::TcpSender(sender, _) => Some(sender.snapshot()),
            FlowEnd::ObjectReceiver(_) | FlowEnd::TcpReceiver(_) => None,
        }
    }
}

impl Endpoint for FlowEnd {
    type Event = FlowNews;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        match self {
            FlowEnd::ObjectSender(end) => end.handle_datagram(now, arrival, body),
            FlowEnd::ObjectReceiver(end) => end.handle_datagram(now, arrival, body),
            FlowEnd::TcpSender(end, _) => end.handle_datagram(now, arrival, body),
            FlowEnd::TcpReceiver(end) => end.handle_datagram(now, arrival, body),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            FlowEnd::ObjectSender(end) => end.handle_timeout(now),
            FlowEnd::ObjectReceiver(end) => end.handle_timeout(now),
            FlowEnd::TcpSender(end, _) => end.handle_timeout(now),
            FlowEnd::TcpReceiver(end) => end.handle_timeout(now),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        match self {
            FlowEnd::ObjectSender(end) => end.poll_transmit(now, buf),
            FlowEnd::ObjectReceiver(end) => end.poll_transmit(now, buf),
            FlowEnd::TcpSender(end, _) => end.poll_transmit(now, buf),
            FlowEnd::TcpReceiver(end) => end.poll_transmit(now, buf),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            FlowEnd::ObjectSender(end) => end.poll_timeout(),
            FlowEnd::ObjectReceiver(end) => end.poll_timeout(),
            FlowEnd::TcpSender(end, _) => end.poll_timeout(),
            FlowEnd::TcpReceiver(end) => end.poll_timeout(),
        }
    }

    fn poll_event(&mut self) -> Option<FlowNews> {
        Some(match self {
            FlowEnd::ObjectSender(end) => match end.poll_event()? {
                SenderEvent::Complete => FlowNews::Acknowledged,
            },
            FlowEnd::ObjectReceiver(end) => match end.poll_event()? {
                ReceiverEvent::Complete => FlowNews::Delivered,
            },
            FlowEnd::TcpSender(end, _) => match end.poll_event()? {
                tcp::SenderEvent::Connected => FlowNews::Connected,
                tcp::SenderEvent::Complete => FlowNews::Acknowledged,
            },
            FlowEnd::TcpReceiver(end) => match end.poll_event()? {
                tcp::ReceiverEvent::Connected => FlowNews::Connected,
                tcp::ReceiverEvent::Complete => FlowNews::Delivered,
            },
        })
    }

    fn framing(&self) -> usize {
        match self {
            FlowEnd::ObjectSender(end) => end.framing(),
            FlowEnd::ObjectReceiver(end) => end.framing(),
            FlowEnd::TcpSender(end, _) => end.framing(),
            FlowEnd::TcpReceiver(end) => end.framing(),
        }
    }

    fn ecn(&self) -> Ecn {
        match self {
            FlowEnd::ObjectSender(end) => end.ecn(),
            FlowEnd::ObjectReceiver(end) => end.ecn(),
            FlowEnd::TcpSender(end, _) => end.ecn(),
            FlowEnd::TcpReceiver(end) => end.ecn(),
        }
    }
}

/// A simulation of flows of any protocol.
pub type FlowSim = Sim<FlowEnd, FlowEnd>;

impl FlowSim {
    /// Add a flow; it sends its first data as soon as its set-up, which begins at the placement's start, is over.
    pub fn add(&mut self, spec: &FlowSpec, placement: &Placement) -> FlowId {
        let path = KnownPath { rtt: self.base_rtt(placement), mtu: self.mtu(placement) };
        let (sender, receiver) = spec.build(path);
        let (left, right) = match spec.from {
            Side::Left => (sender, receiver),
            Side::Right => (receiver, sender),
        };
        let start = placement.start + spec.setup_time(path.rtt);
        self.place_flow(left, right, &Placement { start, ..placement.clone() })
    }

    /// What came of a flow so far.
    ///
    /// # Panics
    /// If the flow has been removed.
    pub fn stats(&self, id: FlowId) -> FlowStats {
        let mut stats = FlowStats::default();
        self.left(id).add_to(&mut stats);
        self.right(id).add_to(&mut stats);
        stats
    }
}

/// Bytes that nobody looks at: as a source it leaves the buffer as it is, as a sink it forgets.
#[derive(Clone, Copy, Debug)]
pub struct Blank;

impl Source for Blank {
    fn read_at(&mut self, _: u64, _: &mut [u8]) -> Result<(), NotReady> {
        Ok(())
    }
}

impl Sink for Blank {
    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), Full> {
        Ok(())
    }
}

/// Headers of IPv4 and TCP with timestamps, which the user-level TCP matches.
const TCP_OVERHEAD: u32 = 52;
