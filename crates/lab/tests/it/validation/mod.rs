//! User-level TCP over real UDP against the kernel's TCP on the same emulated paths, and the simulator against
//! both.
//!
//! The claim: what the papers' programs did in user space, ours does as the kernel would, and what the simulator
//! says of a protocol is what happens. Loss falls on the same numbered packets in all three. The long run is over
//! enough seeds for the bounds that are claimed; the short one, where chance has a say, is held to looser ones.

mod runs;

use longhaul_lab::Scenario;
use longhaul_proto::control::ControllerKind;
use longhaul_testing::{machine, skip};
use runs::{Comparison, Means};

/// Scenarios, and how many bytes are sent over them: at least 15 s for either rule. The short run sends half as much.
const PATHS: [(&str, u64); 3] =
    [("clean-20m", 40_000_000), ("lossy-50m", 30_000_000), ("shallow-20m", 35_000_000)];

/// Our rules and the kernel's names for them.
const RULES: [(ControllerKind, &str); 2] =
    [(ControllerKind::Cubic, "cubic"), (ControllerKind::NewReno, "reno")];

#[test]
fn our_tcp_is_like_the_kernels_and_like_the_simulators() {
    validate(4, 2, SHORT_BOUNDS);
}

#[test]
#[ignore = "takes minutes"]
fn our_tcp_is_like_the_kernels_and_like_the_simulators_over_many_seeds() {
    validate(10, 1, Bounds { kernel: KERNEL_SHARE, sim: SIM_SHARE });
}

fn validate(seeds: u64, divisor: u64, bounds: Bounds) {
    let Some(_alone) = machine::measure() else { return };
    println!("{:<30} {:>8} {:>8} {:>8}  Mb/s", "", "kernel", "user", "sim");
    let mut pending: Vec<(Comparison, Vec<Means>)> =
        jobs(seeds, divisor).into_iter().map(|job| (job, vec![])).collect();
    // A busy machine disturbs both kinds of TCP, each in its own way; and the more seeds, the less is chance.
    let mut always_taken = true;
    for attempt in 1..=ATTEMPTS {
        let Err((missed, is_taken)) = machine::beside_others(|| measure(&mut pending, bounds)) else {
            return;
        };
        always_taken &= is_taken;
        println!("{missed} missed at attempt {attempt} of {ATTEMPTS}");
        machine::await_calm();
    }
    if always_taken {
        return skip("others had the machine all the time");
    }
    panic!("{:?}", pending.iter().map(|(job, _)| &job.name).collect::<Vec<_>>());
}

/// Measure what has not come out right so far; how many have still not if any.
fn measure(pending: &mut Vec<(Comparison, Vec<Means>)>, bounds: Bounds) -> Result<(), usize> {
    let results = runs::measure(pending.iter().map(|(job, _)| job));
    for ((job, found), result) in pending.iter_mut().zip(results) {
        job.first_seed += job.seeds;
        match result {
            Ok(means) => found.push(means),
            Err(why) => println!("{:<30} {why}", job.name),
        }
    }
    pending.retain(|(job, found)| found.is_empty() || !judge(job, found, bounds));
    if pending.is_empty() { Ok(()) } else { Err(pending.len()) }
}

/// Every rule on every path.
fn jobs(seeds: u64, divisor: u64) -> Vec<Comparison> {
    let mut jobs = Vec::new();
    for (path, bytes) in PATHS {
        let scenario = Scenario::named(path).expect("it is among the scenarios");
        // By chance, losses differ from seed to seed.
        let seeds = if scenario.loss > 0.0 { seeds } else { 1 };
        for (kind, kernel) in RULES {
            let name = format!("{kernel}, {path}");
            jobs.push(Comparison {
                name,
                scenario: scenario.clone(),
                bytes: bytes / divisor,
                kind,
                kernel,
                seeds,
                first_seed: 0,
            });
        }
    }
    jobs
}

/// How far apart they may be, as shares.
#[derive(Clone, Copy)]
struct Bounds {
    kernel: f64,
    sim: f64,
}

/// Judge the mean of what was found so far.
fn judge(job: &Comparison, found: &[Means], bounds: Bounds) -> bool {
    let mean = |of: fn(&Means) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
    let (kernel, user, sim) = (mean(|m| m.kernel), mean(|m| m.user), mean(|m| m.sim));
    let is_like_kernel = (user / kernel - 1.0).abs() <= bounds.kernel;
    let is_like_sim = (sim / user - 1.0).abs() <= bounds.sim;
    println!(
        "{:<30} {kernel:8.2} {user:8.2} {sim:8.2}  user {:+.1} % of kernel, sim {:+.1} % of user: {}",
        job.name,
        (user / kernel - 1.0) * 100.0,
        (sim / user - 1.0) * 100.0,
        if is_like_kernel && is_like_sim { "ok" } else { "FAILED" }
    );
    is_like_kernel && is_like_sim
}

const ATTEMPTS: u32 = 5;
/// How far user-level TCP may be from the kernel's. The kernel finds losses by time (RFC 8985), probes for the loss of
/// the last segments and takes back reductions; the paper's user-level TCP and ours do not.
const KERNEL_SHARE: f64 = 0.20;
/// How far the simulator may be from the same code over real sockets.
const SIM_SHARE: f64 = 0.10;
/// With four seeds at a time chance alone makes means differ by more than that.
const SHORT_BOUNDS: Bounds = Bounds { kernel: 0.35, sim: 0.25 };
