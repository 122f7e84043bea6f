//! Large objects over one path, to measure what a controller makes of it.
#![allow(dead_code, reason = "each user needs a part")]

use longhaul_proto::control::{ControlConfig, ControllerKind, Snapshot};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::object::{
    AckPolicy, DEFAULT_EVERY, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, SenderEvent,
    Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::Time;
use longhaul_proto::wire;
use longhaul_sim::flow::{Blank, FlowSim, FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::{FlowEvent, FlowId, Limits, Options, Placement, Sim};
use std::time::Duration;

/// What a full datagram is long, bytes of UDP payload.
pub const DATAGRAM_LEN: u64 = 1472;
/// What it carries of the object.
pub const PACKET_LEN: u32 = DATAGRAM_LEN as u32 - wire::DATA_OVERHEAD as u32;

pub type BulkSim = Sim<Sender<Blank>, Receiver<Blank>>;

/// Share of the bottleneck's bits that can be the object's.
pub fn payload_share(scenario: &Scenario) -> f64 {
    f64::from(PACKET_LEN) / f64::from(scenario.mtu) * (1.0 - scenario.loss)
}

/// A sender of `object_len` bytes and its receiver.
pub fn ends(scenario: &Scenario, object_len: u64, kind: ControllerKind) -> (Sender<Blank>, Receiver<Blank>) {
    let rtt = Duration::from_secs_f64((scenario.rtt_ms + scenario.jitter_ms) / 1e3);
    let shape = Shape { object_len, packet_len: PACKET_LEN };
    let config = SenderConfig {
        shape,
        class: 0,
        selector: SelectorKind::Circular,
        rate_cap: None,
        rtt,
        have: Ranges::new(),
        ecn: Ecn::NotEct,
        seed: scenario.seed,
    };
    let sender = Sender::new(config, Blank, kind.build(ControlConfig::new(DATAGRAM_LEN, rtt)));
    let ack = AckPolicy::new(DEFAULT_EVERY, rtt);
    let config = ReceiverConfig { shape, class: 0, ack, have: Ranges::new(), max_body: 1400 };
    (sender, Receiver::new(config, Blank))
}

/// One object over a path of its own.
#[derive(Clone, Debug)]
pub struct Bulk {
    pub scenario: Scenario,
    pub kind: ControllerKind,
    pub seconds: f64,
    /// How far the receiver's clock is ahead.
    pub clock_ahead: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Goodput against what the path's rate, framing and loss leave for the object, start and end included.
    pub share: f64,
    /// Datagrams sent beyond those required, against those required.
    pub waste: f64,
    /// The mean queue, as a share of the bandwidth-delay product …
    pub queue_bdp: f64,
    /// … and in milliseconds.
    pub queue_ms: f64,
    pub seconds: f64,
}

impl Bulk {
    pub fn new(scenario: Scenario, seconds: f64) -> Bulk {
        Bulk { scenario, kind: ControllerKind::Adaptive, seconds, clock_ahead: Duration::ZERO }
    }

    /// The object: what the path can carry in the time.
    fn object_len(&self) -> u64 {
        (self.scenario.passing_mbit() * 1e6 / 8.0 * self.seconds * payload_share(&self.scenario)) as u64
    }

    pub fn run(&self) -> Figures {
        self.run_with(|_, _| {})
    }

    /// The same; `each` may look or interfere after every event.
    pub fn run_with(&self, mut each: impl FnMut(&mut BulkSim, FlowId)) -> Figures {
        let trace = TraceMode::Off;
        let options = Options { right_clock_ahead: self.clock_ahead, trace, ..Options::default() };
        let mut sim = Sim::with_path(PathConfig::new(&self.scenario), options);
        let (sender, receiver) = ends(&self.scenario, self.object_len(), self.kind);
        let id = sim.add_flow(sender, receiver, Time::ZERO);
        let limits =
            Limits { time: Time::from_millis((self.seconds * 10_000.0) as u64), ..Limits::default() };
        let end = sim.run(limits, |sim| {
            each(sim, id);
            sim.events().iter().any(|event| matches!(event, FlowEvent::Left(_, SenderEvent::Complete)))
        });
        let outcome = sim.outcome(end);
        let stats = sim.left(id).stats();
        let seconds = outcome.time.as_secs_f64();
        let done = sim.left(id).acked() as f64 * f64::from(PACKET_LEN) * 8.0;
        let queue = outcome.forward.queue.mean_bytes;
        let required = (stats.packets_required as f64).min(sim.left(id).acked() as f64);
        Figures {
            share: done / seconds / (self.scenario.passing_mbit() * 1e6 * payload_share(&self.scenario)),
            waste: stats.packets_sent as f64 / required - 1.0,
            queue_bdp: queue / self.scenario.bdp_bytes().max(1) as f64,
            queue_ms: queue * 8e-3 / self.scenario.bottleneck_mbit,
            seconds,
        }
    }
}

/// One of several flows that share a path.
#[derive(Clone, Debug)]
pub struct Member {
    pub protocol: Protocol,
    /// When it begins.
    pub start: Duration,
    /// When its measurement ends and it leaves.
    pub stop: Duration,
    /// How much longer its way is than the scenario's, each way.
    pub extra: Duration,
}

impl Member {
    /// An object transfer, or with `tcp:` before the controller's name a TCP.
    pub fn new(name: &str, start_s: f64) -> Member {
        let protocol = name.parse().expect("the name of a protocol");
        let start = Duration::from_secs_f64(start_s);
        Member { protocol, start, stop: Duration::MAX, extra: Duration::ZERO }
    }

    /// The default controller, told to yield.
    pub fn background(start_s: f64) -> Member {
        let flow = ObjectFlow { background: true, ..ObjectFlow::new(ControllerKind::Adaptive) };
        Member { protocol: Protocol::Object(flow), ..Member::new("adaptive", start_s) }
    }
}

/// Flows that never run out of data, over one path.
#[derive(Clone, Debug)]
pub struct Shared {
    pub scenario: Scenario,
    pub members: Vec<Member>,
    /// What is measured.
    pub from: Duration,
    pub to: Duration,
    /// Print a line a flow this often.
    pub trace: Option<Duration>,
}

/// What the flows got, as shares of what the path's rate, framing and loss leave.
#[derive(Clone, Debug)]
pub struct Shares {
    pub each: Vec<f64>,
    /// The mean queue while measured, as a share of the bandwidth-delay product.
    pub queue_bdp: f64,
    /// Share of all datagrams that were dropped, from the beginning on.
    pub loss: f64,
}

impl Shares {
    /// Jain's index over flows `range`: (Σx)²/(n·Σx²).
    pub fn jain(&self, range: std::ops::Range<usize>) -> f64 {
        longhaul_sim::metrics::jain(&self.each[range])
    }

    pub fn sum(&self) -> f64 {
        self.each.iter().sum()
    }
}

impl Shared {
    /// Measured from `from_s` to `to_s`.
    pub fn new(scenario: Scenario, members: Vec<Member>, from_s: f64, to_s: f64) -> Shared {
        let (from, to) = (Duration::from_secs_f64(from_s), Duration::from_secs_f64(to_s));
        Shared { scenario, members, from, to, trace: None }
    }

    pub fn run(&self) -> Shares {
        let options =
            Options { trace: TraceMode::Off, measure_from: Time::ZERO + self.from, ..Options::default() };
        let mut sim: FlowSim = Sim::with_path(PathConfig::new(&self.scenario), options);
        let endless = (self.scenario.bottleneck_mbit * 1e6 / 8.0 * (self.to.as_secs_f64() + 1.0)) as u64;
        let mut flows: Vec<Option<FlowId>> = vec![];
        for (i, member) in self.members.iter().enumerate() {
            let spec = FlowSpec { seed: i as u64 + 1, ..FlowSpec::new(member.protocol.clone(), endless) };
            let placement =
                Placement { access_delay: member.extra, ..Placement::at(Time::ZERO + member.start) };
            flows.push(Some(sim.add(&spec, &placement)));
        }
        let (mut before, mut after) = (vec![0; flows.len()], vec![0; flows.len()]);
        let mut tracer = self.trace.map(|every| Tracer::new(every, flows.len()));
        let limits = |span: Duration| Limits { time: Time::ZERO + span, ..Limits::default() };
        let stops = self.members.iter().map(|member| member.stop);
        let mut stages: Vec<Duration> = stops.chain([self.from, self.to]).collect();
        stages.retain(|stage| *stage <= self.to);
        stages.sort();
        for stage in stages {
            sim.run(limits(stage), |sim| {
                if let Some(tracer) = &mut tracer {
                    tracer.look(sim, &flows);
                }
                false
            });
            for (i, flow) in flows.iter_mut().enumerate() {
                let Some(id) = *flow else { continue };
                after[i] = sim.stats(id).bytes_delivered;
                if stage == self.from {
                    before[i] = after[i];
                }
                if self.members[i].stop <= stage {
                    sim.remove_flow(id);
                    *flow = None;
                }
            }
        }
        let outcome = sim.outcome(longhaul_sim::End::TimeLimit);
        let span = (self.to - self.from).as_secs_f64();
        let full = self.scenario.bottleneck_mbit * 1e6 * payload_share(&self.scenario) * span;
        let share = |(from, to): (&u64, &u64)| if *from == 0 { 0.0 } else { (to - from) as f64 * 8.0 / full };
        let counters = outcome.forward.counters;
        Shares {
            loss: counters.dropped.total() as f64 / counters.sent.max(1) as f64,
            each: before.iter().zip(&after).map(share).collect(),
            queue_bdp: outcome.forward.queue.mean_bytes / self.scenario.bdp_bytes().max(1) as f64,
        }
    }
}

/// Prints a line a flow now and then.
struct Tracer {
    every: Duration,
    told: Time,
    delivered: Vec<u64>,
}

impl Tracer {
    fn new(every: Duration, flows: usize) -> Tracer {
        Tracer { every, told: Time::ZERO, delivered: vec![0; flows] }
    }

    fn look(&mut self, sim: &FlowSim, flows: &[Option<FlowId>]) {
        let span = sim.now().since(self.told);
        if span < self.every {
            return;
        }
        for (i, id) in flows.iter().enumerate().filter_map(|(i, id)| Some((i, (*id)?))) {
            let delivered = sim.stats(id).bytes_delivered;
            let mbps = (delivered - self.delivered[i]) as f64 * 8e-6 / span.as_secs_f64();
            self.delivered[i] = delivered;
            if let Some(snapshot) = sim.left(id).snapshot() {
                println!("{i} {}", line_of(sim.now(), &snapshot, mbps));
            }
        }
        self.told = sim.now();
    }
}

/// The state of a sender whose receiver gets so many Mb/s.
pub fn line_of(now: Time, snapshot: &Snapshot, mbps: f64) -> String {
    format!(
        "{:8.3} {:8} pace {:8.2} bw {:8.2} queue {:7.2} ms random {:.3} window {:8} goodput {mbps:8.2}",
        now.as_secs_f64(),
        snapshot.phase,
        snapshot.pacing_rate.unwrap_or_default().as_mbps(),
        snapshot.bandwidth.unwrap_or_default().as_mbps(),
        snapshot.queue_delay.as_secs_f64() * 1e3,
        snapshot.random_loss,
        snapshot.window.unwrap_or(0),
    )
}
