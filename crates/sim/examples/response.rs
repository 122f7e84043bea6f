//! Mean response time of short transfers over a path on virtual time, by controller:
//! `response [BYTES] [RUNS] [CONTROLLER …]`; `+CONTROLLER` begins with what its transfer before remembered of the path.
//!
//! The connection's round trip is not counted. Runs differ in their seed, which decides what is lost.

use longhaul_proto::control::{ControlConfig, ControllerKind, Remembered};
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::object::{
    AckPolicy, DEFAULT_EVERY, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, SenderEvent,
    Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::Time;
use longhaul_proto::wire;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowEvent, Limits, Sim};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (bytes, runs) = (number(0, 250_000), number(1, 20));
    let named: Vec<&str> = args.iter().skip(2).map(String::as_str).collect();
    let named = if named.is_empty() { vec!["pcp", "+pcp", "adaptive"] } else { named };
    print!("{:>8} {:>7} {:>7} {:>7}", "Mb/s", "RTT ms", "loss %", "RTTs");
    named.iter().for_each(|name| print!(" {name:>12}"));
    println!("   (seconds; RTTs: transmission and one round trip)");
    for rate_mbit in [1.5, 10.0, 40.0, 100.0, 1000.0] {
        for rtt_ms in [10.0, 30.0, 80.0, 200.0] {
            for loss in [0.0, 0.01] {
                let ideal = bytes as f64 * 8e-3 / rate_mbit / rtt_ms + 1.0;
                print!("{rate_mbit:8} {rtt_ms:7} {:7} {ideal:7.1}", loss * 100.0);
                for name in &named {
                    let scenario = Scenario { loss, ..Scenario::new(rate_mbit, rtt_ms) };
                    print!(" {:12.3}", mean_response(&scenario, name, bytes, runs));
                }
                println!();
            }
        }
    }
}

/// Mean of `runs` transfers one after another.
fn mean_response(scenario: &Scenario, name: &str, bytes: u64, runs: u64) -> f64 {
    let kind: ControllerKind = name.trim_start_matches('+').parse().expect("a controller");
    let mut remembered = None;
    let total: f64 = (1..=runs)
        .map(|seed| {
            let scenario = Scenario { seed, ..scenario.clone() };
            let (seconds, learnt) = transfer(&scenario, kind, remembered, bytes);
            if name.starts_with('+') {
                remembered = learnt.or(remembered);
            }
            seconds
        })
        .sum();
    total / runs as f64
}

fn transfer(
    scenario: &Scenario,
    kind: ControllerKind,
    remembered: Option<Remembered>,
    bytes: u64,
) -> (f64, Option<Remembered>) {
    let rtt = Duration::from_secs_f64(scenario.rtt_ms / 1e3);
    let shape = Shape { object_len: bytes, packet_len: 1472 - wire::DATA_OVERHEAD as u32 };
    let config = SenderConfig {
        shape,
        class: 0,
        selector: SelectorKind::Circular,
        rate_cap: None,
        rtt,
        have: Ranges::new(),
        seed: scenario.seed,
    };
    let control = ControlConfig { remembered, seed: scenario.seed, ..ControlConfig::new(1472, rtt) };
    let sender = Sender::new(config, Zeros, kind.build(control));
    let ack = AckPolicy::new(DEFAULT_EVERY, rtt);
    let receiver =
        Receiver::new(ReceiverConfig { shape, class: 0, ack, have: Ranges::new(), max_body: 1400 }, Zeros);
    let mut sim = Sim::new(scenario);
    let id = sim.add_flow(sender, receiver, Time::ZERO);
    sim.run(Limits { time: Time::from_millis(600_000), ..Limits::default() }, |sim| {
        sim.events().iter().any(|event| matches!(event, FlowEvent::Left(_, SenderEvent::Complete)))
    });
    (sim.now().as_secs_f64(), sim.left(id).remember())
}

/// An object of zeros that nobody keeps.
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
