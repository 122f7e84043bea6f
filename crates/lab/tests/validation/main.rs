//! User-level TCP over real UDP against the kernel's TCP on the same emulated paths, and the simulator against both.
//!
//! The claim: what the papers' programs did in user space, ours does as the kernel would, and what the simulator says
//! of a protocol is what happens. Loss falls on the same numbered packets in all three. Not run by the usual harness,
//! for the reasons that calibration is not. Arguments select paths and rules whose name contains one of them;
//! `LONGHAUL_VALIDATION=long` runs for minutes, over enough seeds for the bounds that are claimed; the short run, where
//! chance has a say, is held to looser ones.

mod runs;

use longhaul_lab::Scenario;
use longhaul_proto::control::ControllerKind;
use runs::{Job, Means};
use std::process::ExitCode;

/// A path, and how much is sent over it.
struct Path {
    name: &'static str,
    scenario: Scenario,
    /// At least 15 s for either rule.
    bytes: u64,
    /// By chance, losses differ from seed to seed.
    is_random: bool,
}

fn paths() -> Vec<Path> {
    let clean = Scenario::new(20.0, 40.0);
    let lossy = Scenario { loss: 0.0005, ..Scenario::new(50.0, 60.0) };
    let shallow = Scenario { loss: 0.0001, queue_bdp: Some(0.5), ..Scenario::new(20.0, 100.0) };
    vec![
        Path { name: "20 Mb/s, 40 ms, clean", scenario: clean, bytes: 40_000_000, is_random: false },
        Path { name: "50 Mb/s, 60 ms, 0.05 % loss", scenario: lossy, bytes: 30_000_000, is_random: true },
        Path {
            name: "20 Mb/s, 100 ms, 0.01 % loss, half a queue",
            scenario: shallow,
            bytes: 35_000_000,
            is_random: true,
        },
    ]
}

/// Our rules and the kernel's names for them.
const RULES: [(ControllerKind, &str); 2] =
    [(ControllerKind::Cubic, "cubic"), (ControllerKind::NewReno, "reno")];

fn main() -> ExitCode {
    if let Err(error) = longhaul_lab::ensure_privileges() {
        println!("validation skipped: {error}");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_long = std::env::var("LONGHAUL_VALIDATION").is_ok_and(|value| value == "long");
    let mut jobs = jobs(if is_long { 10 } else { 2 });
    jobs.retain(|job| wanted.is_empty() || wanted.iter().any(|part| job.name.contains(part.as_str())));
    println!("{:<50} {:>8} {:>8} {:>8}  Mb/s", "", "kernel", "user", "sim");
    let bounds = if is_long { Bounds { kernel: KERNEL_SHARE, sim: SIM_SHARE } } else { SHORT_BOUNDS };
    let mut pending: Vec<(Job, Vec<Means>)> = jobs.into_iter().map(|job| (job, vec![])).collect();
    // A busy machine disturbs both kinds of TCP, each in its own way; and the more seeds, the less is chance.
    for attempt in 1..=ATTEMPTS {
        let results = runs::measure(pending.iter().map(|(job, _)| job));
        for ((job, found), result) in pending.iter_mut().zip(results) {
            job.first_seed += job.seeds;
            match result {
                Ok(means) => found.push(means),
                Err(why) => println!("{:<50} {why}", job.name),
            }
        }
        pending.retain(|(job, found)| found.is_empty() || !judge(job, found, bounds));
        if pending.is_empty() {
            return ExitCode::SUCCESS;
        }
        println!("{} missed at attempt {attempt} of {ATTEMPTS}", pending.len());
    }
    ExitCode::FAILURE
}

/// Every rule on every path.
fn jobs(seeds: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for Path { name, scenario, bytes, is_random } in paths() {
        for (kind, kernel) in RULES {
            let name = format!("{kernel}, {name}");
            let seeds = if is_random { seeds } else { 1 };
            jobs.push(Job { name, scenario: scenario.clone(), bytes, kind, kernel, seeds, first_seed: 0 });
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
fn judge(job: &Job, found: &[Means], bounds: Bounds) -> bool {
    let mean = |of: fn(&Means) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
    let (kernel, user, sim) = (mean(|m| m.kernel), mean(|m| m.user), mean(|m| m.sim));
    let is_like_kernel = (user / kernel - 1.0).abs() <= bounds.kernel;
    let is_like_sim = (sim / user - 1.0).abs() <= bounds.sim;
    println!(
        "{:<50} {kernel:8.2} {user:8.2} {sim:8.2}  user {:+.1} % of kernel, sim {:+.1} % of user: {}",
        job.name,
        (user / kernel - 1.0) * 100.0,
        (sim / user - 1.0) * 100.0,
        if is_like_kernel && is_like_sim { "ok" } else { "FAILED" }
    );
    is_like_kernel && is_like_sim
}

const ATTEMPTS: u32 = 3;
/// How far user-level TCP may be from the kernel's. The kernel finds losses by time (RFC 8985), probes for the loss of
/// the last segments and takes back reductions; the paper's user-level TCP and ours do not.
const KERNEL_SHARE: f64 = 0.20;
/// How far the simulator may be from the same code over real sockets.
const SIM_SHARE: f64 = 0.10;
/// With two seeds at a time chance alone makes means differ by more than that.
const SHORT_BOUNDS: Bounds = Bounds { kernel: 0.35, sim: 0.25 };
