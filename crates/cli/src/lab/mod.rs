//! `longhaul lab`: the experiments of the papers, and our own, over emulated paths; and anybody's programs over them.

pub mod at;
mod path;
mod shell;
pub mod stream;
mod with;

use crate::args::{LabArgs, LabCommand, LabPlainArgs, LabPlainEnd, LabRunArgs};
use crate::output::{self, Exit};
use crate::report::{self, Listed, json, text};
use crate::values::describe;
use crate::{log, signals};
use longhaul::Failure;
use longhaul_lab::experiments::{self, Experiment, ExperimentError, Options, Report, Scale};
use longhaul_lab::plain;
use longhaul_proto::suggest::unknown;
use serde_json::{Value as Json, json};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// List, or measure and print.
pub fn run(args: &LabArgs) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::List { json } => {
            list(*json);
            Ok(Exit::Done)
        }
        LabCommand::Run(args) => match (&args.with, &args.scenario) {
            (Some(command), Some(scenario)) => with::run(args, command, scenario),
            _ if args.pcap.pcap.is_some() || args.pcap.pcap_right.is_some() => {
                Err(Failure::Usage("--pcap records the packets of a command; give it with --with".into()))
            }
            _ => measure(args),
        },
        LabCommand::Shell(args) => shell::run(args),
    }
}

/// `longhaul lab-plain`: an end of a plain TCP copy.
pub fn plain(args: &LabPlainArgs) -> Result<Exit, Failure> {
    let done = match &args.end {
        LabPlainEnd::Receive { listen, folder } => plain::receive(*listen, folder),
        LabPlainEnd::Send { source, address, streams, congestion } => {
            plain::send(source, *address, *streams, congestion.as_deref())
        }
    };
    done.map(|()| Exit::Done).map_err(|error| Failure::Failed(describe(&error)))
}

fn measure(args: &LabRunArgs) -> Result<Exit, Failure> {
    let chosen: Vec<&Experiment> = args.ids.iter().map(|id| find(id)).collect::<Result<_, _>>()?;
    // Before any thread starts: an ordinary user changes into a user namespace here.
    longhaul_lab::ensure_privileges().map_err(|error| Failure::Failed(error.to_string()))?;
    log::start("error")?;
    let stop = signals::stop_flag()?;
    fs::create_dir_all(&args.out).map_err(|error| cannot_store(&args.out, &error))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this program's file: {}", describe(&error))))?;
    for (number, experiment) in chosen.into_iter().enumerate() {
        if number > 0 && !args.json {
            output::result("");
        }
        match present(args, experiment, &program, &stop) {
            Err(Failure::Interrupted) => {
                output::error("interrupted");
                return Ok(Exit::Interrupted);
            }
            done => done?,
        }
    }
    Ok(Exit::Done)
}

fn find(id: &str) -> Result<&'static Experiment, Failure> {
    let ids = experiments::all().map(|one| one.id);
    experiments::find(id).ok_or_else(|| Failure::Usage(unknown("experiment", id, ids)))
}

/// Measure, store and print what comes of it.
fn present(
    args: &LabRunArgs,
    experiment: &Experiment,
    program: &Path,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let (scale, scale_name) = scale(args);
    let head = head(experiment.id, args.seed, scale_name);
    if args.json {
        output::result(&head.to_string());
    }
    let bar = report::progress_bar(experiment.id, "runs");
    let show = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let (seed, only) = (args.seed, args.only.as_deref());
    let result = experiment.run(&Options { scale, seed, program, only, stop, progress: &show });
    bar.finish_and_clear();
    let report = result.map_err(|error| match error {
        ExperimentError::Interrupted => Failure::Interrupted,
        other => Failure::Failed(format!("{}: {other}", experiment.id)),
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let lines: Vec<Json> = json::lines(&report).into_iter().chain([json::end(seconds)]).collect();
    let stored = store(&args.out, &report, &head, &lines)?;
    if args.json {
        lines.iter().for_each(|line| output::result(&line.to_string()));
    } else {
        output::result(&text::report(&report));
        let took = output::seconds_text(seconds);
        output::result(&format!("\nseed {seed}, {scale_name}, {took}; stored in {}", stored.display()));
    }
    Ok(())
}

fn scale(args: &LabRunArgs) -> (Scale, &'static str) {
    match (args.quick, args.smoke) {
        (_, true) => (Scale::Smoke, "smoke"),
        (true, false) => (Scale::Quick, "quick"),
        (false, false) => (Scale::Full, "full"),
    }
}

/// What a result opens with: the simulator's head, and the host, which the simulator has no need of.
fn head(what: &str, seed: u64, scale: &str) -> Json {
    let mut head = json::head(what, seed, scale);
    let kernel = rustix::system::uname();
    head["kernel"] = json!(format!(
        "{} {} {}",
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy(),
        kernel.machine().to_string_lossy()
    ));
    head["cpus"] = json!(std::thread::available_parallelism().map_or(1, usize::from));
    head
}

/// Keep a result, in place of an earlier one.
fn store(folder: &Path, report: &Report, head: &Json, lines: &[Json]) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{}.jsonl", report.id));
    let written = File::create(&path).and_then(|file| {
        let mut file = io::BufWriter::new(file);
        [head].into_iter().chain(lines).try_for_each(|line| writeln!(file, "{line}"))?;
        file.flush()
    });
    written.map_err(|error| cannot_store(&path, &error))?;
    Ok(path)
}

fn cannot_store(path: &Path, error: &io::Error) -> Failure {
    let reason = describe(error);
    Failure::Failed(format!("cannot store results in {}: {reason}; choose another --out", path.display()))
}

fn list(as_json: bool) {
    for group in experiments::GROUPS {
        let listed =
            group.experiments.iter().map(|one| Listed { id: one.id, title: one.title, claims: one.claims });
        report::list(group.title, listed, as_json);
    }
}
