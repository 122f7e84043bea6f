//! `longhaul sim`: the experiments of the papers, and transfers over any path, on virtual time.

use crate::program::args::SimArgs;
use crate::program::listing;
use crate::program::output::{self, Exit};
use crate::program::progress::Progress;
use crate::report::{Head, Origin, Report, Stored, text};
use crate::sim::{self, Contestant, Options};
use crate::{Experiment, Scale};
use longhaul_cli::failure::Failure;
use longhaul_proto::suggest::unknown;
use longhaul_sim::flow::UnknownProtocol;
use longhaul_sim::scenario::Scenario;
use std::path::Path;
use std::time::Instant;

/// List, or simulate and print.
pub fn run(args: &SimArgs) -> Result<Exit, Failure> {
    if args.what == LIST {
        let given = [
            ("--seed", args.seed.is_some()),
            ("--quick", args.quick),
            ("--threads", args.threads.is_some()),
            ("--control", !args.control.is_empty()),
            ("--bytes", args.bytes.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::Usage(format!("{LIST} simulates nothing; leave {flag} out")));
        }
        listing::list(crate::simulated(), |_| Origin::Simulator, args.json);
        return Ok(Exit::Done);
    }
    let names = args.control.iter().map(|name| name.parse());
    let contestants: Vec<Contestant> =
        names.collect::<Result<_, UnknownProtocol>>().map_err(|bad| Failure::Usage(bad.to_string()))?;
    if is_file(&args.what) {
        transfers(args, contestants)?;
    } else {
        experiment(args, &contestants)?;
    }
    Ok(Exit::Done)
}

/// Names of experiments have neither dots nor slashes.
fn is_file(what: &str) -> bool {
    what.contains(['.', '/']) || Path::new(what).is_file()
}

fn transfers(args: &SimArgs, mut contestants: Vec<Contestant>) -> Result<(), Failure> {
    let path = Path::new(&args.what);
    if args.quick {
        let text = "--quick is for experiments; over a scenario --bytes says how much is simulated";
        return Err(Failure::Usage(text.into()));
    }
    let mut scenario = Scenario::load(path).map_err(|error| Failure::Usage(error.to_string()))?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    if scenario.name.is_empty() {
        scenario.name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    if contestants.is_empty() {
        contestants.push(Contestant::default());
    }
    let (name, seed) = (scenario.name.clone(), scenario.seed);
    present(args, &name, seed, |options| {
        let report = sim::over(&scenario, &contestants, args.bytes.unwrap_or(BYTES), options);
        report.map_err(|bad| Failure::Usage(format!("{}: {bad}", path.display())))
    })
}

fn experiment(args: &SimArgs, contestants: &[Contestant]) -> Result<(), Failure> {
    let experiment = find(&args.what)?;
    if !experiment.takes_contestants && !contestants.is_empty() {
        let text = format!("{} says by itself who takes part; leave --control out", experiment.id);
        return Err(Failure::Usage(text));
    }
    if args.bytes.is_some() {
        let text = format!("{} says by itself how much is sent; leave --bytes out", experiment.id);
        return Err(Failure::Usage(text));
    }
    present(args, experiment.id, args.seed.unwrap_or(SEED), |options| {
        Ok(experiment.simulate(&Options { contestants, ..*options }))
    })
}

fn find(name: &str) -> Result<&'static Experiment, Failure> {
    let experiments = || crate::simulated().map(|(_, one)| one);
    let names = experiments().map(|one| one.id).chain([LIST]);
    experiments().find(|one| one.id == name).ok_or_else(|| Failure::Usage(unknown("experiment", name, names)))
}

/// Simulate, and print what comes of it.
fn present(
    args: &SimArgs,
    what: &str,
    seed: u64,
    simulate: impl FnOnce(&Options<'_>) -> Result<Report, Failure>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let progress = Progress::new(what, "simulations");
    let show = |done, total| progress.show(done, total);
    let threads = args.threads.map_or_else(longhaul_sim::parallel::all_cores, usize::from);
    let report = simulate(&Options { scale, seed, threads, progress: &show, ..Options::default() });
    progress.clear();
    let report = report?;
    let stored = Stored { head: head(what, scale, seed), report, seconds: begun.elapsed().as_secs_f64() };
    if args.json {
        stored.lines().iter().for_each(|line| output::result(&line.to_string()));
    } else {
        output::result(&text::report(&stored.report));
        output::result(&format!("\nseed {seed}, {}, {}", scale.name(), output::seconds_text(stored.seconds)));
    }
    Ok(())
}

/// What a result opens with. It says nothing of the host: figures are the same on any.
fn head(what: &str, scale: Scale, seed: u64) -> Head {
    Head {
        command: listing::command_line(),
        version: env!("CARGO_PKG_VERSION").into(),
        what: what.into(),
        origin: Origin::Simulator,
        scale: scale.name().into(),
        seed,
        only: None,
        host: None,
    }
}

/// What lists the experiments in place of being one.
const LIST: &str = "list";
/// Where the user names none.
const SEED: u64 = 1;
/// What is sent over a scenario unless told otherwise.
const BYTES: u64 = 40_000_000;
