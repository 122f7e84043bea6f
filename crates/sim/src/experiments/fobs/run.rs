//! One greedy object transfer between hosts of the paper's time.

use crate::experiments::host::{Host, HostConfig, HostCosts};
use crate::flow::Blank;
use crate::path::PathConfig;
use crate::scenario::Scenario;
use crate::trace::TraceMode;
use crate::{FlowEvent, Limits, Options, Sim};
use longhaul_proto::control::Greedy;
use longhaul_proto::object::{
    AckPolicy, Receiver, ReceiverConfig, Selector, SelectorKind, Sender, SenderConfig, SenderEvent, Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::Time;
use std::time::Duration;

/// A transfer of the paper's 40 MB object.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The path.
    pub scenario: Scenario,
    /// Bytes of data in a packet.
    pub packet_len: u32,
    /// New packets per acknowledgement, the paper's F.
    pub ack_every: u32,
    /// Which packet next.
    pub order: Order,
    /// The sending host.
    pub sender: HostConfig,
    /// The receiving host.
    pub receiver: HostConfig,
    /// Size of the object.
    pub object_len: u64,
}

/// Which packet goes next.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// One that the program offers.
    Kind(SelectorKind),
    /// One made for an experiment.
    Own(fn() -> Box<dyn Selector>),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Until the sender knows that all is there.
    pub seconds: f64,
    /// Data over that time, 10⁶ bit/s.
    pub goodput_mbps: f64,
    /// (sent − required) / required.
    pub waste: f64,
    /// Share of what was sent that the receiving host's buffer had no room for.
    pub overrun: f64,
    /// Share of what was sent that the network lost.
    pub lost: f64,
}

impl Transfer {
    /// Between the paper's desktop computers, over `scenario`.
    pub fn new(scenario: Scenario) -> Transfer {
        Transfer {
            scenario,
            packet_len: PACKET_LEN,
            ack_every: 64,
            order: Order::Kind(SelectorKind::CircularStrict),
            sender: DESKTOP_SENDER,
            receiver: DESKTOP_RECEIVER,
            object_len: OBJECT_LEN,
        }
    }

    /// Simulate it.
    ///
    /// # Panics
    /// If it is not over within an hour of virtual time: our own bug.
    pub fn run(&self) -> Done {
        let rtt = Duration::from_secs_f64(self.scenario.rtt_ms / 1e3);
        let shape = Shape { object_len: self.object_len, packet_len: self.packet_len };
        // FOBS acknowledges by number only; what is left over at the end needs no acknowledgement, for the sender
        // repeats it until it hears that all is there.
        let ack = AckPolicy { every: self.ack_every, delay: Duration::from_secs(3600) };
        let sender = SenderConfig {
            shape,
            class: 0,
            selector: SelectorKind::CircularStrict,
            rate_cap: None,
            rtt,
            have: Ranges::new(),
            seed: self.scenario.seed,
        };
        let receiver = ReceiverConfig { shape, class: 0, ack, have: Ranges::new(), max_body: ACK_BODY_MAX };
        let sender = match self.order {
            Order::Kind(selector) => {
                Sender::new(SenderConfig { selector, ..sender }, Blank, Box::new(Greedy))
            }
            Order::Own(build) => Sender::new(sender, Blank, Box::new(Greedy)).with_selector(build()),
        };
        let sender = Host::new(sender, self.sender);
        let receiver = Host::new(Receiver::new(receiver, Blank), self.receiver);
        let options = Options { trace: TraceMode::Off, ..Options::default() };
        let mut sim = Sim::with_path(PathConfig::new(&self.scenario), options);
        let id = sim.add_flow(sender, receiver, Time::ZERO);
        let mut complete = false;
        let end = sim.run(Limits::default(), |sim| {
            complete =
                sim.events().iter().any(|event| matches!(event, FlowEvent::Left(_, SenderEvent::Complete)));
            complete
        });
        assert!(complete, "a greedy transfer over {} ended early: {end:?}", self.scenario);
        let outcome = sim.outcome(end);
        let (sender, receiver) = sim.remove_flow(id);
        let stats = sender.endpoint().stats();
        let seconds = outcome.time.as_secs_f64();
        let sent = stats.packets_sent as f64;
        let lost = outcome.forward.counters.dropped;
        Done {
            seconds,
            goodput_mbps: self.object_len as f64 * 8e-6 / seconds,
            waste: sent / stats.packets_required as f64 - 1.0,
            overrun: receiver.dropped() as f64 / sent,
            lost: (lost.queue + lost.loss) as f64 / sent,
        }
    }
}

/// The path from ANL's desktop computer: its 100 Mb/s card is the narrowest place (FOBS §4, §5), behind it an OC-3.
pub fn desktop_path(rtt_ms: f64, seed: u64) -> Scenario {
    Scenario { nic_mbit: Some(CARD_MBIT), seed, ..Scenario::new(155.52, rtt_ms) }
}

/// The card of the paper's sending host, 10⁶ bit/s.
pub const CARD_MBIT: f64 = 100.0;
/// ANL–LCSE and ANL–CACR (FOBS §4).
pub const HAULS: [(&str, f64); 2] = [("short", 26.0), ("long", 65.0)];
/// 40 MB in packets of 1024 bytes (FOBS §4).
pub const OBJECT_LEN: u64 = 40 << 20;
/// FOBS §4.
pub const PACKET_LEN: u32 = 1024;
/// Packets sent between two looks for an acknowledgement (FOBS §3.1.1).
pub const BATCH: u32 = 2;
/// What an acknowledgement may hold beside headers on Ethernet.
const ACK_BODY_MAX: usize = 1400;

/// A desktop computer of 2001 (Pentium III, Windows 2000). The paper gives no costs; these are ours: a system call with
/// interrupt and protocol processing takes some tens of µs on 500 MHz, copy and checksum 10 ns a byte.
const DESKTOP: HostCosts = HostCosts {
    send: Duration::from_micros(40),
    receive: Duration::from_micros(40),
    byte_ns: 10.0,
    look: Duration::from_micros(10),
};
/// The sending one.
pub const DESKTOP_SENDER: HostConfig =
    HostConfig { costs: DESKTOP, batch: BATCH, buffer_bytes: BUFFER_BYTES };
/// The receiving one; what it sends are acknowledgements, for each of which it walks the status of 40 960 packets: six
/// cycles each.
pub const DESKTOP_RECEIVER: HostConfig = HostConfig {
    costs: HostCosts { send: Duration::from_micros(500), ..DESKTOP },
    batch: u32::MAX,
    buffer_bytes: BUFFER_BYTES,
};
/// What Windows 2000 gives a UDP socket unless asked for more.
const BUFFER_BYTES: usize = 8192;
