//! One flow over a path on virtual time: `flow SCENARIO.toml BYTES [PROTOCOL] [SEED] [reno] [trace]` or
//! `flow RATE_MBIT RTT_MS LOSS BYTES [PROTOCOL] [QUEUE_BDP] [SEED] [reno] [trace]`, where a protocol is a controller's
//! name for an object transfer, `tcp:` and a controller's name for a TCP, whose selective acknowledgements `reno` turns
//! off.

use longhaul_proto::control::Snapshot;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSim, FlowSpec, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowEvent, Limits, Options, Placement};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: f64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let file = args.first().filter(|arg| arg.ends_with(".toml"));
    let (bytes_at, seed_at) = if file.is_some() { (1, 3) } else { (3, 6) };
    let bytes = number(bytes_at, 40e6) as u64;
    let mut protocol: Protocol =
        args.get(bytes_at + 1).map_or("adaptive", String::as_str).parse().expect("a protocol");
    let seed = number(seed_at, 1.0) as u64;
    let scenario = match file {
        Some(file) => Scenario { seed, ..Scenario::load(file.as_ref()).expect("a scenario") },
        None => {
            let queue_bdp = Some(number(5, 1.0));
            Scenario {
                loss: number(2, 0.0),
                queue_bdp,
                seed,
                ..Scenario::new(number(0, 100.0), number(1, 65.0))
            }
        }
    };
    let (rate_mbit, rtt_ms) = (scenario.bottleneck_mbit, scenario.rtt_ms);
    let is_asked = |word: &str| args.iter().any(|arg| arg == word);
    match &mut protocol {
        Protocol::Object(flow) => flow.rate = Some(Rate::from_mbps(rate_mbit * 0.98)),
        Protocol::Tcp(flow) => flow.config.sack = !is_asked("reno"),
    }
    let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
    let options = Options { measure_from: Time::ZERO + rtt * 4, ..Options::default() };
    let mut sim = FlowSim::with_path(PathConfig::new(&scenario), options);
    let spec = FlowSpec { seed, ..FlowSpec::new(protocol, bytes) };
    let id = sim.add(&spec, &Placement::at(Time::ZERO));
    let (mut told, mut delivered) = (Time::ZERO, 0);
    let limits = Limits { time: Time::from_millis(600_000), ..Limits::default() };
    let end = sim.run(limits, |sim| {
        let now = sim.now();
        if is_asked("trace") && now.since(told) > rtt / 2 {
            let so_far = sim.stats(id).bytes_delivered;
            let mbps = (so_far - delivered) as f64 * 8e-6 / now.since(told).as_secs_f64();
            println!("{:8.3} goodput {mbps:7.1} {}", now.as_secs_f64(), state(sim.left(id)));
            (told, delivered) = (now, so_far);
        }
        sim.events().contains(&FlowEvent::Left(id, FlowNews::Acknowledged))
    });
    let (outcome, stats) = (sim.outcome(end), sim.stats(id));
    let seconds = outcome.time.as_secs_f64();
    let mbps = bytes as f64 * 8e-6 / seconds;
    println!(
        "{seconds:.3} s  {mbps:.1} Mb/s = {:.1} % of payload limit  waste {:.2} %  queue mean {:.1} % BDP  {:?}\n{stats:?}",
        100.0 * mbps / (rate_mbit * 1448.0 / 1500.0),
        100.0 * (stats.packets_sent as f64 / stats.packets_required as f64 - 1.0),
        100.0 * outcome.forward.queue.mean_bytes / scenario.bdp_bytes() as f64,
        outcome.end,
    );
    match sim.left(id) {
        FlowEnd::ObjectSender(sender) => println!("{:?}", sender.stats()),
        FlowEnd::TcpSender(sender, _) => println!("{:?}", sender.stats()),
        FlowEnd::ObjectReceiver(_) | FlowEnd::TcpReceiver(_) => {}
    }
}

/// What the sender is at, in a line.
fn state(sender: &FlowEnd) -> String {
    let Some(Snapshot { pacing_rate, bandwidth, queue_delay, random_loss, window, phase, .. }) =
        sender.snapshot()
    else {
        return String::new();
    };
    let waits = match sender {
        FlowEnd::ObjectSender(sender) => format!("{:?}", sender.blocked()),
        FlowEnd::TcpSender(sender, _) => format!("in flight {:8}", sender.in_flight()),
        FlowEnd::ObjectReceiver(_) | FlowEnd::TcpReceiver(_) => String::new(),
    };
    format!(
        "pace {:8.1} bw {:8.1} queue {:6.2} ms loss {random_loss:.3} window {:8} {waits} {phase}",
        pacing_rate.unwrap_or_default().as_mbps(),
        bandwidth.unwrap_or_default().as_mbps(),
        queue_delay.as_secs_f64() * 1e3,
        window.unwrap_or(0),
    )
}
