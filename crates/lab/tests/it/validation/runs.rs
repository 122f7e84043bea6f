//! Transfers: the kernel's, ours over real UDP, ours in the simulator.

use longhaul_lab::{Lab, Scenario, tcp};
use longhaul_proto::control::ControllerKind;
use longhaul_sim::flow::{FlowNews, FlowSim, FlowSpec, KnownPath, Protocol, TcpFlow};
use longhaul_sim::{FlowEvent, Limits, Placement};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A stream over a path by one rule, in three ways.
pub struct Comparison {
    pub name: String,
    pub scenario: Scenario,
    pub bytes: u64,
    pub kind: ControllerKind,
    /// The kernel's name of the rule.
    pub kernel: &'static str,
    /// So many of the path's seeds, the first of them so much above the scenario's own.
    pub seeds: u64,
    pub first_seed: u64,
}

/// Payload per second, 10⁶ bit/s, each the mean over the seeds.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    pub kernel: f64,
    pub user: f64,
    pub sim: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Kernel,
    User,
    Simulator,
}

/// One transfer to be made.
#[derive(Clone, Copy)]
struct Task {
    job: usize,
    seed: u64,
    by: By,
}

/// Run all jobs; a few transfers at a time, which wait for their paths most of the time.
pub fn measure<'a>(jobs: impl Iterator<Item = &'a Comparison>) -> Vec<Result<Means, String>> {
    let jobs: Vec<&Comparison> = jobs.collect();
    let mut tasks = Vec::new();
    for (job, Comparison { seeds, first_seed, .. }) in jobs.iter().enumerate() {
        for seed in *first_seed..first_seed + seeds {
            tasks.extend([By::Kernel, By::User, By::Simulator].map(|by| Task { job, seed, by }));
        }
    }
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![]));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = persist(jobs[task.job], *task);
                    if let Ok(mut results) = results.lock() {
                        results.push((*task, result));
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    (0..jobs.len()).map(|job| means(&results, job)).collect()
}

fn means(results: &[(Task, Result<f64, String>)], job: usize) -> Result<Means, String> {
    let mean = |by: By| {
        let own = results.iter().filter(|(task, _)| task.job == job && task.by == by);
        let found: Vec<f64> = own.map(|(_, result)| result.clone()).collect::<Result<_, _>>()?;
        Ok::<f64, String>(found.iter().sum::<f64>() / found.len() as f64)
    };
    Ok(Means { kernel: mean(By::Kernel)?, user: mean(By::User)?, sim: mean(By::Simulator)? })
}

/// A transfer that the machine disturbed is made again.
fn persist(job: &Comparison, task: Task) -> Result<f64, String> {
    let scenario = Scenario { seed: job.scenario.seed + task.seed, ..job.scenario.clone() };
    let run = || match task.by {
        By::Kernel => over_lab(&scenario, |lab| {
            let run = tcp::transfer_within(lab, job.bytes, job.kernel, LIMIT).map_err(|e| e.to_string())?;
            Ok(run.seconds)
        }),
        By::User => over_lab(&scenario, |lab| user_level(lab, job)),
        By::Simulator => Ok(simulated(&scenario, job)),
    };
    let mut result = run();
    for _ in 1..ATTEMPTS {
        if result.is_err() {
            result = run();
        }
    }
    let seconds = result.map_err(|why| format!("{:?}, seed {}: {why}", task.by, scenario.seed))?;
    Ok(job.bytes as f64 * 8e-6 / seconds)
}

/// Seconds that a transfer took, if the emulator kept up.
fn over_lab(scenario: &Scenario, transfer: impl FnOnce(&Lab) -> Result<f64, String>) -> Result<f64, String> {
    let lab = Lab::start(scenario).map_err(|error| error.to_string())?;
    let seconds = transfer(&lab)?;
    if lab.cpu_limited() { Err("the emulator was too slow".into()) } else { Ok(seconds) }
}

fn flow(job: &Comparison) -> FlowSpec {
    FlowSpec::new(Protocol::Tcp(TcpFlow::new(job.kind)), job.bytes)
}

fn user_level(lab: &Lab, job: &Comparison) -> Result<f64, String> {
    let ends = lab.ends(&flow(job), KnownPath::of(&job.scenario)).map_err(|error| error.to_string())?;
    let moved = ends.transfer(LIMIT, || true).map_err(|error| error.to_string())?;
    match (moved.acknowledged, moved.drops) {
        (Some(after), 0) => Ok(after.as_secs_f64()),
        (Some(_), drops) => Err(format!("the receiving host dropped {drops} datagrams")),
        (None, _) => Err(format!("not done after {} s", LIMIT.as_secs())),
    }
}

fn simulated(scenario: &Scenario, job: &Comparison) -> f64 {
    let mut sim = FlowSim::new(scenario);
    let id = sim.add(&flow(job), &Placement::default());
    sim.run(Limits::default(), |sim| sim.events().contains(&FlowEvent::Left(id, FlowNews::Acknowledged)));
    sim.now().as_secs_f64()
}

/// With 16 of them two processors are too few: user-level TCP then falls a tenth behind.
const AT_A_TIME: usize = 8;
const ATTEMPTS: u32 = 3;
/// Many times what a transfer should take.
const LIMIT: Duration = Duration::from_secs(300);
