//! One greedy object transfer between hosts of the paper's time.

use super::host::{BATCH, Batch, Host, HostConfig, HostCosts};
use super::run::{Done, Fobs};
use longhaul_proto::control::Greedy;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::object::{
    AckPolicy, Receiver, ReceiverConfig, Selector, SelectorKind, Sender, SenderConfig, SenderEvent, Shape,
    View,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{PacketNumber, Time};
use longhaul_sim::flow::Blank;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::{FlowEvent, Limits, Options, Sim};
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

/// What computers the object moves between.
#[derive(Clone, Copy, Debug)]
pub enum Hosts {
    /// With cards of 100 Mb/s.
    Desktop,
    /// With cards of 1 Gb/s.
    Gigabit,
}

/// Which packet goes next.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// One that the program offers.
    Kind(SelectorKind),
    /// One made for an experiment.
    Own(fn() -> Box<dyn Selector>),
}

impl Transfer {
    /// FOBS by these rules.
    pub fn of(fobs: &Fobs, scenario: Scenario, hosts: Hosts, object_len: u64) -> Transfer {
        let (mut sender, receiver) = match hosts {
            Hosts::Desktop => (DESKTOP_SENDER, DESKTOP_RECEIVER),
            Hosts::Gigabit => (GIGABIT_SENDER, GIGABIT_RECEIVER),
        };
        sender.batch = fobs.batch;
        let order = Order::named(fobs.select);
        let Fobs { packet_len, ack_every, .. } = *fobs;
        Transfer { scenario, packet_len, ack_every, order, sender, receiver, object_len }
    }

    /// Simulate it; `None`: it has no end, since the sender waits for an acknowledgement that never comes.
    ///
    /// # Panics
    /// If one that waits for none is not over within an hour of virtual time: our own bug.
    pub fn run(&self) -> Option<Done> {
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
            ecn: Ecn::NotEct,
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
        if !complete {
            assert!(
                self.sender.batch.blocks(),
                "a greedy transfer over {} ended early: {end:?}",
                self.scenario
            );
            return None;
        }
        let outcome = sim.outcome(end);
        let (sender, _) = sim.remove_flow(id);
        let stats = sender.endpoint().stats();
        let seconds = outcome.time.as_secs_f64();
        let sent = stats.packets_sent as f64;
        Some(Done {
            seconds,
            goodput_mbps: self.object_len as f64 * 8e-6 / seconds,
            waste: sent / stats.packets_required as f64 - 1.0,
        })
    }
}

impl Order {
    /// As `--select` has it, or one of [`BLIND`].
    fn named(name: &str) -> Order {
        match name {
            BACK_TO_LOWEST => Order::Own(|| Box::new(BackToLowest::default())),
            ANY => Order::Own(|| Box::new(Any(fastrand::Rng::with_seed(1)))),
            _ => Order::Kind(name.parse().expect("an order that the program has")),
        }
    }
}

/// Onwards, but back to the lowest unacknowledged packet whenever an acknowledgement has come.
#[derive(Debug, Default)]
struct BackToLowest {
    cursor: PacketNumber,
    acked: u64,
}

impl Selector for BackToLowest {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        if view.acked.count() != self.acked {
            (self.cursor, self.acked) = (0, view.acked.count());
        }
        let packet = view.acked.next_missing(self.cursor).or_else(|| view.acked.next_missing(0))?;
        self.cursor = packet + 1;
        Some(packet)
    }
}

/// Any unacknowledged packet.
#[derive(Debug)]
struct Any(fastrand::Rng);

impl Selector for Any {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        let from = self.0.u64(0..view.acked.len().max(1));
        view.acked.next_missing(from).or_else(|| view.acked.next_missing(0))
    }
}

/// Orders made for the simulator, which choose among all that is unacknowledged and do not know what is on its way, as the
/// paper's sender did not.
pub const BLIND: [&str; 2] = [BACK_TO_LOWEST, ANY];
const BACK_TO_LOWEST: &str = "back to the lowest";
const ANY: &str = "any";
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
const DESKTOP_SENDER: HostConfig =
    HostConfig { costs: DESKTOP, batch: Batch::Packets(BATCH), buffer_bytes: BUFFER_BYTES };
/// The receiving one; what it sends are acknowledgements, for each of which it walks the status of 40 960 packets: six
/// cycles each.
const DESKTOP_RECEIVER: HostConfig = HostConfig {
    costs: HostCosts { send: Duration::from_micros(500), ..DESKTOP },
    batch: Batch::Packets(u32::MAX),
    buffer_bytes: BUFFER_BYTES,
};
/// What Windows 2000 gives a UDP socket unless asked for more.
const BUFFER_BYTES: usize = 8192;
/// The gigabit hosts of Figure 3: both copy and checksum each byte at some 45 MB/s, as machines of 195 to 500 MHz did.
const GIGABIT: HostCosts = HostCosts {
    send: Duration::from_micros(60),
    receive: Duration::from_micros(50),
    byte_ns: 23.0,
    look: Duration::from_micros(10),
};
const GIGABIT_SENDER: HostConfig =
    HostConfig { costs: GIGABIT, batch: Batch::Packets(BATCH), buffer_bytes: 256 << 10 };
const GIGABIT_RECEIVER: HostConfig = HostConfig {
    costs: HostCosts { send: Duration::from_micros(500), look: Duration::ZERO, ..GIGABIT },
    batch: Batch::Packets(u32::MAX),
    buffer_bytes: 256 << 10,
};
