//! `longhaul plan`, `cp --plan`, `finish` and `status`: a copy that many hosts make together.

mod hosts;
mod status;

pub use status::run as status;

use crate::args::job::{JobArgs, JobCommand};
use crate::args::planned::{FinishArgs, PlanArgs};
use crate::args::{Cli, Command, CpArgs, JsonForm};
use crate::control::{self, ControlSocket};
use crate::cp::{self, Manner, attempt, location};
use crate::failure::Failure;
use crate::output::{self, Exit, bytes_text, files_text, say};
use crate::progress::Display;
use crate::retry::Retries;
use crate::signals;
use crate::watch::TraceFile;
use clap::Parser;
use longhaul::planned::{self, PlanOptions, Run};
use longhaul::trace::Role;
use longhaul::{Cause, CopyOptions, FileFailure, Location, Observer, Paths, PlanError, Reason};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

/// Plan a copy in so many parts, if their number is given, and say what came of it.
pub fn plan(args: &PlanArgs, parts: Option<u32>) -> Result<Exit, Failure> {
    let (exit, told) = make(args, parts)?;
    if args.flags.output.json.is_some() {
        output::json(&told, false);
    }
    Ok(exit)
}

/// The same, and what `--json` says of it.
pub fn make(args: &PlanArgs, parts: Option<u32>) -> Result<(Exit, Value), Failure> {
    let how = &args.flags.output;
    if how.json == Some(JsonForm::Lines) {
        return Err(Failure::Usage("a plan is told in one object: give --json without =lines".into()));
    }
    if args.flags.dry_run {
        return Err(Failure::Usage("a plan changes nothing at the destination: leave out --dry-run".into()));
    }
    let sources = args.sources.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    // What cannot be asked for is to be known before it is copied.
    let mut display = ();
    let options = cp::options(&args.flags, &mut display)?;
    planned::check(&destinations(args)?, &options)?;
    let command = std::env::args_os().skip(1).map(OsString::into_string).collect::<Result<Vec<_>, _>>();
    let command = command.map_err(|word| Failure::Usage(format!("{word:?}: a plan holds UTF-8 only")))?;
    let wanted = PlanOptions {
        parts,
        part_len: args.part_size,
        align: args.align,
        exclude: options.files.exclude,
        files_from: options.files_from,
        preserve: options.files.preserve,
        command,
    };
    let stop = signals::stop_flag()?;
    let (plan, left) = planned::plan(&sources, &args.run, &wanted, &stop).map_err(longhaul::Error::from)?;
    left.warnings.iter().for_each(|line| output::warn(line));
    left.failures.first.iter().take(FAILURES_TOLD).for_each(|failure| output::error(&failure.to_string()));
    let failed = left.failures.count();
    if failed > 0 {
        output::error(&format!("{failed} could not be listed; finish fails for want of them"));
    }
    let told = json!({
        "id": plan.id, "parts": plan.parts, "files": plan.files, "entries": plan.entries, "bytes": plan.bytes,
        "failed": failed,
    });
    if !how.quiet {
        let (files, bytes) = (files_text(plan.files), bytes_text(plan.bytes));
        say(&format!("{files}, {bytes} in {} parts: {}", plan.parts, args.run.display()));
    }
    Ok((if failed == 0 { Exit::Done } else { Exit::Failed }, told))
}

fn source(arg: &OsString) -> Result<PathBuf, Failure> {
    match location(arg)? {
        Location::Local(path) => Ok(path),
        other => Err(Failure::Usage(format!(
            "{other} is on another host: a plan is made where the sources are, and goes from there"
        ))),
    }
}

/// The ways to the destination of a plan.
fn destinations(args: &PlanArgs) -> Result<Vec<Location>, Failure> {
    let dest = args.dest.to_str().ok_or_else(|| Failure::Usage("a plan holds UTF-8 only".into()))?;
    let hosts = args.hosts.as_deref().map(hosts::read_hosts).transpose().map_err(Failure::Usage)?;
    let found = hosts::expand(dest, hosts.as_deref()).map_err(Failure::Usage)?;
    let found = found.iter().map(|one| location(&one.into())).collect::<Result<Vec<_>, _>>()?;
    match found.iter().find(|one| matches!(one, Location::Local(_))) {
        Some(here) => Err(Failure::Usage(format!("{here} is on this host: the destination is on another"))),
        None => Ok(found),
    }
}

/// What a plan says of how to copy.
struct Planned {
    run: Arc<Run>,
    dests: Vec<Location>,
    options: CopyOptions,
    retry: Retries,
}

impl Planned {
    fn open(folder: &Path, observer: &mut dyn Observer) -> Result<Planned, Failure> {
        let here = absolute(folder).map_err(|error| Failure::Failed(error.to_string()))?;
        let run = Run::open(&here).map_err(longhaul::Error::from)?;
        let line = ["longhaul".into()].into_iter().chain(run.plan.command.iter().cloned());
        let mut args = match Cli::try_parse_from(line).map(|cli| cli.command) {
            Ok(Command::Plan(args)) => *args,
            Ok(Command::Job(JobArgs { command: JobCommand::Submit(args) })) => args.plan,
            Ok(_) => {
                return Err(Failure::Failed(format!(
                    "{}: was not planned by longhaul plan",
                    folder.display()
                )));
            }
            Err(error) => return Err(Failure::Failed(format!("{}: {error}", folder.display()))),
        };
        // It has been listed.
        args.flags.files_from = None;
        // Files that it names are where it was planned; where that folder is not there, they are named in full or missing.
        let _ = std::env::set_current_dir(&run.plan.folder);
        let mut options = cp::options(&args.flags, observer)?;
        options.began = Some(output::program_start());
        Ok(Planned { run: Arc::new(run), dests: destinations(&args)?, options, retry: args.flags.retry })
    }
}

/// Copy the part of a plan that these flags name.
pub fn copy_part(folder: &Path, args: &CpArgs) -> Exit {
    // To read a plan is to go where it was made.
    let here = |path: &PathBuf| absolute(path).unwrap_or_else(|_| path.clone());
    let [metrics_file, trace] = [&args.metrics_file, &args.trace].map(|path| path.as_ref().map(here));
    let manner = Manner { metrics_file: metrics_file.as_deref(), ..Manner::plain(&args.flags.output) };
    attempt(&manner, |display| {
        let part = args.part.map_or_else(counted, Ok)?;
        let Planned { run, dests, mut options, retry } = Planned::open(folder, display)?;
        // Each mover has network cards of its own.
        let reach = &args.flags.reach;
        if !reach.bind.is_empty() {
            options.bind.clone_from(&reach.bind);
        }
        if reach.over_paths != Paths::One {
            options.paths = reach.over_paths;
        }
        if let Some(path) = &trace {
            display.set_trace(TraceFile::create(path, Role::Sender)?);
        }
        let _socket = ControlSocket::open(display.board(), &mut options);
        let _wishes = control::follow(&run, display.board(), options.control.needs_rate())?;
        let stop = signals::stop_flag()?;
        let copy = |display: &mut Display| run.copy_part(part, &dests, &options, display, stop.clone());
        let retry = if args.flags.retry == Retries::Never { retry } else { args.flags.retry };
        Ok(retry.run(&stop, display, copy)?)
    })
}

/// The number that whoever started this counts by.
fn counted() -> Result<u32, Failure> {
    let set = COUNTERS.iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let Some((name, text)) = set else {
        return Err(Failure::Usage(format!("which part? Give --part, or set {}", COUNTERS[0])));
    };
    text.trim().parse().map_err(|_| Failure::Usage(format!("{name}={text:?} is no number of a part")))
}

/// Put in place what the parts have brought.
pub fn finish(args: &FinishArgs) -> Exit {
    attempt(&Manner::plain(&args.output), |display| {
        let Planned { run, dests, options, .. } = Planned::open(&args.run, display)?;
        let stop = signals::stop_flag()?;
        let mut summary = run.finish(&dests, &options, display, stop)?;
        if !summary.ok {
            let failures = summary.failures.iter().filter(|failure| !failure.path.is_empty());
            let missing = run.missing_parts(&failures.map(|failure| &*failure.path).collect::<Vec<_>>())?;
            if !missing.is_empty() {
                let line =
                    format!("parts are missing: {}; copy them, then finish again", ranges_text(&missing));
                summary.failures.truncate(FAILURES_TOLD);
                summary.failures.insert(
                    0,
                    FileFailure {
                        path: run.folder.as_os_str().as_encoded_bytes().into(),
                        reason: Reason::new(Cause::Other, line),
                    },
                );
            }
        }
        Ok(summary)
    })
}

/// `3, 7-9`: ascending numbers without repetition.
fn ranges_text(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[u32]| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    let mut shown: Vec<_> = runs.map(text).collect();
    if shown.len() > RANGES_TOLD {
        let more = shown.split_off(RANGES_TOLD).len();
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        longhaul::Error::from(error).into()
    }
}

/// Who starts a part says so which it is: the user, Slurm's arrays, Slurm's steps, Kubernetes' indexed jobs.
const COUNTERS: [&str; 4] = ["LONGHAUL_PART", "SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "JOB_COMPLETION_INDEX"];
/// More would hide what else is told.
const FAILURES_TOLD: usize = 10;
const RANGES_TOLD: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_told_in_short() {
        assert_eq!(ranges_text(&[3]), "3");
        assert_eq!(ranges_text(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        let many: Vec<u32> = (0..50).map(|n| n * 2).collect();
        assert!(ranges_text(&many).ends_with("38, and 30 more"));
    }
}
