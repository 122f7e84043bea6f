//! How many events a second the simulator handles: `cargo run --release -p longhaul-sim --example speed`.
//!
//! A raw flow of full packets with an answer to every second one, and object transfers, over long fat paths.

use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::endpoint::{Arrival, Endpoint, Sink, Source, Transmit};
use longhaul_proto::endpoint::{Full, NotReady};
use longhaul_proto::object::{
    AckPolicy, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::{Limits, Options, Outcome, Sim};
use std::time::{Duration, Instant};

fn main() {
    println!("{:<34} {:>11} {:>9} {:>11} {:>9}", "what", "packets", "seconds", "events/s", "simulated");
    for trace in [TraceMode::Off, TraceMode::Hash] {
        for flows in [1, 100] {
            raw(flows, trace);
        }
    }
    for (mbit, rtt_ms, loss) in [(100.0, 65.0, 0.0), (1000.0, 65.0, 0.01), (10_000.0, 100.0, 0.0)] {
        object(ControllerKind::Fixed, &Scenario { loss, ..Scenario::new(mbit, rtt_ms) });
    }
    object(ControllerKind::Adaptive, &Scenario::new(1000.0, 65.0));
}

fn raw(flows: u64, trace: TraceMode) {
    let scenario = Scenario { nic_mbit: Some(10_000.0), ..Scenario::new(10_000.0, 100.0) };
    let options = Options { trace, ..Options::default() };
    let mut sim = Sim::with_path(PathConfig::new(&scenario), options);
    for n in 0..flows {
        let gap = Duration::from_nanos(1250 * flows);
        sim.add_flow(
            Stream { gap, count: 2_000_000 / flows, ..Stream::default() },
            Stream::default(),
            Time(n * 1250),
        );
    }
    measure(&format!("{flows} raw flow(s), trace {trace:?}"), sim);
}

fn object(kind: ControllerKind, scenario: &Scenario) {
    let rtt = Duration::from_secs_f64(scenario.rtt_ms / 1e3);
    let shape = Shape { object_len: 1 << 30, packet_len: 1434 };
    let ack = AckPolicy::new(32, rtt);
    let rate = Rate::from_mbps(scenario.bottleneck_mbit * 0.97);
    let control = ControlConfig { rate: Some(rate), ..ControlConfig::new(1472, rtt) };
    let sender = SenderConfig {
        shape,
        class: 0,
        selector: SelectorKind::Circular,
        rate_cap: None,
        rtt,
        have: Ranges::new(),
        seed: 1,
    };
    let receiver = ReceiverConfig { shape, class: 0, ack, have: Ranges::new(), max_body: 1441 };
    let mut sim = Sim::new(scenario);
    sim.add_flow(Sender::new(sender, Zeros, kind.build(control)), Receiver::new(receiver, Zeros), Time::ZERO);
    let name = format!("1 GiB, {}, {} Mb/s, loss {}", kind.name(), scenario.bottleneck_mbit, scenario.loss);
    measure(&name, sim);
}

fn measure<L: Endpoint, R: Endpoint>(name: &str, mut sim: Sim<L, R>) {
    let start = Instant::now();
    let end = sim.run(Limits::default(), |_| false);
    let seconds = start.elapsed().as_secs_f64();
    let Outcome { events, forward, reverse, time, .. } = sim.outcome(end);
    let packets = forward.counters.sent + reverse.counters.sent;
    println!(
        "{name:<34} {packets:>11} {seconds:>9.3} {:>9.2} M {:>7.1} s",
        events as f64 / seconds / 1e6,
        time.as_secs_f64()
    );
}

/// Sends full packets evenly, and answers every second that comes in.
#[derive(Debug, Default)]
struct Stream {
    gap: Duration,
    count: u64,
    sent: u64,
    due: Time,
    received: u64,
    owed: u64,
}

impl Endpoint for Stream {
    type Event = ();

    fn handle_datagram(&mut self, _: Time, _: Arrival, _: &[u8]) {
        self.received += 1;
        self.owed += u64::from(self.count == 0 && self.received.is_multiple_of(2));
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time, _: &mut [u8]) -> Option<Transmit> {
        let len = if self.owed > 0 {
            self.owed -= 1;
            60
        } else if self.sent < self.count && now >= self.due {
            self.due = now + self.gap;
            1441
        } else {
            return None;
        };
        self.sent += 1;
        Some(Transmit { number: self.sent, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.sent < self.count).then_some(self.due)
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }
}

/// An object of zeros, and a sink that forgets.
#[derive(Debug)]
struct Zeros;

impl Source for Zeros {
    fn read_at(&mut self, _: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        buf.fill(0);
        Ok(())
    }
}

impl Sink for Zeros {
    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), Full> {
        Ok(())
    }
}
