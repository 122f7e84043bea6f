//! One object over a path on virtual time: `object RATE_MBIT RTT_MS LOSS BYTES [CONTROLLER] [trace]`.

use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::object::{Receiver, ReceiverConfig, Sender, SenderConfig, SenderEvent, Shape};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire;
use longhaul_sim::flow::Blank;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowEvent, Limits, Options, Sim, path::PathConfig};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: f64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (rate_mbit, rtt_ms, loss, bytes) =
        (number(0, 100.0), number(1, 65.0), number(2, 0.0), number(3, 40e6) as u64);
    let kind: ControllerKind = args.get(4).map_or("adaptive", String::as_str).parse().expect("a controller");
    let queue_bdp: f64 = args.get(5).map_or(1.0, |a| a.parse().expect("a number"));
    let trace = args.iter().any(|a| a == "trace");
    let scenario = Scenario { loss, queue_bdp: Some(queue_bdp), ..Scenario::new(rate_mbit, rtt_ms) };
    let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
    let shape = Shape { object_len: bytes, packet_len: 1472 - wire::DATA_OVERHEAD as u32 };
    let config = SenderConfig {
        shape,
        class: 0,
        selector: kind.companions().selector,
        rate_cap: None,
        rtt,
        have: Ranges::new(),
        seed: 1,
    };
    let rate = Some(Rate::from_mbps(rate_mbit * 0.98));
    let control = ControlConfig { rate, ..ControlConfig::new(1472, rtt) };
    let sender = Sender::new(config, Blank, kind.build(control));
    let ack = kind.companions().ack.policy(rtt);
    let config = ReceiverConfig { shape, class: 0, ack, have: Ranges::new(), max_body: 1400 };
    let receiver = Receiver::new(config, Blank);
    let options = Options { measure_from: Time::ZERO + rtt * 4, ..Options::default() };
    let mut sim = Sim::with_path(PathConfig::new(&scenario), options);
    let id = sim.add_flow(sender, receiver, Time::ZERO);
    let (mut told, mut acked) = (Time::ZERO, 0);
    let mut done = None;
    let end = sim.run(Limits { time: Time::from_millis(600_000), ..Limits::default() }, |sim| {
        let now = sim.now();
        if trace && now.since(told) > rtt / 2 {
            let s = sim.left(id);
            let snapshot = s.snapshot();
            let rate = (s.acked() - acked) as f64 * 1434.0 * 8.0 / now.since(told).as_secs_f64() / 1e6;
            println!(
                "{:7.3} pace {:8.1} bw {:8.1} queue {:6.2} ms loss {:.3} window {:7} goodput {rate:7.1} {:?} {}",
                now.as_secs_f64(),
                snapshot.pacing_rate.unwrap_or_default().as_mbps(),
                snapshot.bandwidth.unwrap_or_default().as_mbps(),
                snapshot.queue_delay.as_secs_f64() * 1e3,
                snapshot.random_loss,
                snapshot.window.unwrap_or(0),
                s.blocked(),
                snapshot.phase
            );
            (told, acked) = (now, s.acked());
        }
        if sim.events().iter().any(|e| matches!(e, FlowEvent::Left(_, SenderEvent::Complete))) {
            done = Some(now);
        }
        done.is_some()
    });
    let outcome = sim.outcome(end);
    let stats = sim.left(id).stats();
    let seconds = outcome.time.as_secs_f64();
    let limit_mbit = rate_mbit * 1448.0 / 1500.0;
    let queue = outcome.forward.queue;
    let bdp = rate_mbit * 1e6 / 8.0 * rtt_ms / 1e3;
    println!(
        "{seconds:.3} s  {:.1} Mb/s = {:.1} % of payload limit  waste {:.2} %  queue mean {:.1} % BDP  resent {} hedged {} spurious {} {:?}",
        bytes as f64 * 8e-6 / seconds,
        bytes as f64 * 8e-4 / seconds / limit_mbit,
        100.0 * (stats.packets_sent as f64 / stats.packets_required as f64 - 1.0),
        100.0 * queue.mean_bytes / bdp,
        stats.packets_resent,
        stats.packets_hedged,
        stats.spurious,
        outcome.end,
    );
}
