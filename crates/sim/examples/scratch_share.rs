use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSpec};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::Workload;
use std::time::Duration;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let f = |i: usize| args[i].parse::<f64>().unwrap();
    let scenario = Scenario { queue_bdp: Some(f(2)), loss: f(3), ..Scenario::new(f(0), f(1)) };
    let secs = f(4);
    for seed in 1..=(f(5) as u64) {
        let traffic: Vec<Traffic> = args[6..]
            .iter()
            .map(|a| {
                let (name, start) = a.split_once('@').unwrap_or((a, "0"));
                let mut spec = FlowSpec::new(name.parse().unwrap(), ENDLESS);
                spec.seed = seed;
                let start: f64 = start.parse().unwrap();
                Traffic {
                    stop: Some(Time::from_millis((secs * 1e3) as u64)),
                    ..Traffic::new(
                        spec,
                        Arrivals::Together { at: Time::from_millis((start * 1e3) as u64), count: 1 },
                    )
                }
            })
            .collect();
        let every = Duration::from_secs_f64(secs / 12.0);
        let w = Workload {
            sample_every: Some(every),
            measure_from: Time::from_millis((secs * 500.0) as u64),
            seed,
            ..Workload::over(
                &Scenario { seed, ..scenario.clone() },
                traffic,
                Time::from_millis((secs * 1e3) as u64),
            )
        };
        let m = w.run();
        for flow in &m.flows {
            let s: Vec<String> = flow
                .samples
                .iter()
                .map(|b| format!("{:6.2}", *b as f64 * 8e-6 / every.as_secs_f64()))
                .collect();
            println!("{:12} {}", args[6 + flow.traffic], s.join(" "));
        }
        let q = m.hops[0].forward.queue;
        println!(
            "util {:.3} loss {:.5} queue mean {:.3} BDP max {:.3}",
            m.utilisation(),
            m.loss_ratio(),
            q.mean_bytes / (f(0) * f(1) * 125.0),
            q.max_bytes as f64 / (f(0) * f(1) * 125.0)
        );
    }
}
