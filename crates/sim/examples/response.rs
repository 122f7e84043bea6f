//! Mean response times of short transfers over paths on virtual time, by protocol: `response [BYTES] [RUNS]
//! [PROTOCOL …]`, where a protocol is a controller's name for the object transfer, `tcp:` and a controller's name
//! for a TCP, and a `+` before it lets each transfer begin with what the one before remembered.
//!
//! Counted is from the first datagram of the set-up (one round trip in either case) until the receiver has
//! everything. Runs differ in their seed, which decides what is lost.

use longhaul_proto::control::Remembered;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSim, FlowSpec, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowEvent, Limits, Options, Placement, Sim};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (bytes, runs) = (number(0, 250_000), number(1, 20));
    let named: Vec<&str> = args.iter().skip(2).map(String::as_str).collect();
    let named = if named.is_empty() { vec!["pcp", "+pcp", "adaptive", "tcp:newreno"] } else { named };
    print!("{:>8} {:>7} {:>7} {:>7}", "Mb/s", "RTT ms", "loss %", "least");
    named.iter().for_each(|name| print!(" {name:>12}"));
    println!("   (seconds; least: set-up, transmission, half a round trip)");
    for rate_mbit in [1.5, 10.0, 40.0, 100.0, 1000.0] {
        for rtt_ms in [10.0, 30.0, 80.0, 200.0] {
            for loss in [0.0, 0.01] {
                let least = bytes as f64 * 8e-6 / rate_mbit + rtt_ms * 1.5e-3;
                print!("{rate_mbit:8} {rtt_ms:7} {:7} {least:7.3}", loss * 100.0);
                for name in &named {
                    let scenario = Scenario { loss, ..Scenario::new(rate_mbit, rtt_ms) };
                    print!(" {:12.3}", mean_response_s(&scenario, name, bytes, runs));
                }
                println!();
            }
        }
    }
}

/// Mean of `runs` transfers one after another.
fn mean_response_s(scenario: &Scenario, name: &str, bytes: u64, runs: u64) -> f64 {
    let mut protocol: Protocol = name.trim_start_matches('+').parse().expect("a protocol");
    let mut total_s = 0.0;
    for seed in 1..=runs {
        let spec = FlowSpec { seed, ..FlowSpec::new(protocol.clone(), bytes) };
        let (seconds, learnt) = transfer(&Scenario { seed, ..scenario.clone() }, &spec);
        total_s += seconds;
        if let (true, Protocol::Object(flow)) = (name.starts_with('+'), &mut protocol) {
            flow.remembered = learnt.or(flow.remembered);
        }
    }
    total_s / runs as f64
}

fn transfer(scenario: &Scenario, spec: &FlowSpec) -> (f64, Option<Remembered>) {
    let mut sim: FlowSim = Sim::with_path(PathConfig::new(scenario), Options::default());
    let id = sim.add(spec, &Placement::at(Time::ZERO));
    let limits = Limits { time: Time::from_millis(600_000), ..Limits::default() };
    sim.run(limits, |sim| sim.events().contains(&FlowEvent::Right(id, FlowNews::Delivered)));
    let learnt = match sim.left(id) {
        FlowEnd::ObjectSender(sender) => sender.remember(),
        _ => None,
    };
    (sim.now().as_secs_f64(), learnt)
}
