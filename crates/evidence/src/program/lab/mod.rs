//! `longhaul lab`: the experiments of the papers, and our own, over emulated paths; and anybody's programs over
//! them.

mod all;
pub mod at;
mod page;
mod path;
mod session;
mod shell;
mod with;

use crate::Experiment;
use crate::lab::{plain, temporary};
use crate::program::args::{LabArgs, LabCommand, LabPlainArgs, LabPlainEnd, LabRunArgs};
use crate::program::listing;
use crate::program::output::{self, Exit};
use crate::program::progress::Progress;
use crate::program::values::describe;
use crate::report::{Origin, text};
use longhaul_cli::failure::Failure;
use longhaul_lab::variants;
use longhaul_proto::suggest::unknown;
use session::Session;

/// List, measure and print, or show what was measured.
pub fn run(args: &LabArgs) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::List { json } => {
            listing::list(crate::all(), |one| one.origins()[0], *json);
            Ok(Exit::Done)
        }
        LabCommand::Run(args) => match (&args.with, &args.scenario) {
            (Some(command), Some(scenario)) => with::run(args, command, scenario),
            _ if args.pcap.pcap.is_some() || args.pcap.pcap_right.is_some() => {
                Err(Failure::Usage("--pcap records the packets of a command; give it with --with".into()))
            }
            _ if args.ids.iter().any(|id| id == ALL) => all::run(args),
            _ => measure(args),
        },
        LabCommand::Shell(args) => shell::run(args),
        LabCommand::Report(args) => page::run(args),
        LabCommand::Clean => clean(),
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
    if args.again {
        return Err(Failure::Usage(
            "--again goes with all; what is named is measured anew in any case".into(),
        ));
    }
    if let Some(whole) = chosen.iter().find(|one| args.only.is_some() && !one.has_parts) {
        return Err(Failure::Usage(format!(
            "{} has no parts to choose from with --only; leave it out",
            whole.id
        )));
    }
    if let Some(real) =
        chosen.iter().find(|one| args.simulated && !one.origins().contains(&Origin::Simulator))
    {
        return Err(Failure::Usage(format!("{} is measured alone; leave --simulated out", real.id)));
    }
    let session = Session::start(args)?;
    let (is_one, mut exit) = (chosen.len() == 1, Exit::Done);
    for (number, experiment) in chosen.into_iter().enumerate() {
        if number > 0 && !args.json {
            output::result("");
        }
        match present(&session, experiment) {
            Err(Failure::Interrupted) => {
                output::error("interrupted");
                return Ok(Exit::Interrupted);
            }
            // As with all of them, those behind it are measured nevertheless.
            Err(error) if !is_one => {
                output::error(&format!("{} failed: {error}", experiment.id));
                exit = Exit::Failed;
            }
            done => done?,
        }
    }
    Ok(exit)
}

fn find(id: &str) -> Result<&'static Experiment, Failure> {
    let experiments = || crate::all().map(|(_, one)| one);
    let ids = experiments().map(|one| one.id).chain([ALL]);
    experiments().find(|one| one.id == id).ok_or_else(|| Failure::Usage(unknown("experiment", id, ids)))
}

/// Measure, store and print what comes of it: that also where it cannot be stored.
fn present(session: &Session<'_>, experiment: &'static Experiment) -> Result<(), Failure> {
    let origin = if session.args.simulated { Origin::Simulator } else { experiment.origins()[0] };
    let progress = Progress::new(experiment.id, "runs");
    let show = |done, total| progress.show(done, total);
    let result = session.perform(experiment, origin, &show);
    progress.clear();
    let stored = result?;
    let kept = session.store(experiment, &stored);
    if session.args.json {
        stored.lines().iter().for_each(|line| output::result(&line.to_string()));
    } else {
        output::result(&text::report(&stored.report));
        let (seed, scale, took) =
            (stored.head.seed, &stored.head.scale, output::seconds_text(stored.seconds));
        let place = kept.as_ref().map(|path| format!("; stored in {}", path.display()));
        output::result(&format!("\nseed {seed}, {scale}, {took}{}", place.unwrap_or_default()));
    }
    kept.map(drop)
}

fn clean() -> Result<Exit, Failure> {
    let folders = temporary::remove_abandoned().map_err(|error| {
        Failure::Failed(format!("cannot remove what is left of temporary files: {}", describe(&error)))
    })?;
    folders.iter().for_each(|folder| output::result(&format!("removed the folder {}", folder.display())));
    let removed = variants::remove_all().map_err(|error| Failure::Failed(error.to_string()))?;
    removed.iter().for_each(|name| output::result(&format!("removed the congestion control {name}")));
    if folders.is_empty() && removed.is_empty() {
        output::result("nothing was left");
    }
    Ok(Exit::Done)
}

/// What stands for every experiment.
const ALL: &str = "all";
