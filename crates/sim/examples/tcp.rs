//! One stream by user-level TCP over a path on virtual time:
//! `tcp RATE_MBIT RTT_MS LOSS BYTES [CONTROLLER] [QUEUE_BDP] [SEED] [reno] [trace]`; `reno` turns SACK off.

use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::tcp::{Config, Receiver, Sender, SenderEvent};
use longhaul_proto::units::Time;
use longhaul_sim::flow::Blank;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowEvent, Limits, Options, Sim, path::PathConfig};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: f64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (rate_mbit, rtt_ms, loss, bytes) =
        (number(0, 100.0), number(1, 65.0), number(2, 0.0), number(3, 40e6) as u64);
    let kind: ControllerKind = args.get(4).map_or("cubic", String::as_str).parse().expect("a controller");
    let (queue_bdp, seed) = (number(5, 1.0), number(6, 1.0) as u64);
    let trace = args.iter().any(|a| a == "trace");
    let scenario = Scenario { loss, queue_bdp: Some(queue_bdp), seed, ..Scenario::new(rate_mbit, rtt_ms) };
    let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
    let config = Config { sack: !args.iter().any(|a| a == "reno"), ..Config::default() };
    let control = ControlConfig { paced: false, ..ControlConfig::new(config.datagram_len(), rtt) };
    let sender = Sender::new(config, bytes, Blank, kind.build(control));
    let receiver = Receiver::new(config, Blank);
    let mut sim = Sim::with_path(PathConfig::new(&scenario), Options::default());
    let id = sim.add_flow(sender, receiver, Time::ZERO);
    let (mut told, mut delivered) = (Time::ZERO, 0);
    let end = sim.run(Limits::default(), |sim| {
        let now = sim.now();
        if trace && now.since(told) > rtt / 2 {
            let (sender, receiver) = (sim.left(id), sim.right(id));
            let snapshot = sender.snapshot();
            let bytes = receiver.delivered_bytes() - delivered;
            println!(
                "{:8.3} window {:8} in flight {:8} goodput {:7.1} Mb/s  {}",
                now.as_secs_f64(),
                snapshot.window.unwrap_or(0),
                sender.in_flight(),
                bytes as f64 * 8e-6 / now.since(told).as_secs_f64(),
                snapshot.phase
            );
            (told, delivered) = (now, receiver.delivered_bytes());
        }
        sim.events().iter().any(|e| matches!(e, FlowEvent::Left(_, SenderEvent::Complete)))
    });
    let outcome = sim.outcome(end);
    let seconds = outcome.time.as_secs_f64();
    println!(
        "{seconds:.3} s  {:.2} Mb/s  {:?}\n{:?}\n{:?}\nrtt {:?}",
        bytes as f64 * 8e-6 / seconds,
        outcome.end,
        sim.left(id).stats(),
        sim.right(id).stats(),
        sim.left(id).rtt().mean(),
    );
}
