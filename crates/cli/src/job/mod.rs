//! `longhaul job`: hands the parts of a copy to the engine that a site runs. What starts, places, counts and restarts them
//! is the engine alone.

mod record;
mod script;
mod slurm;
mod status;

use crate::args::job::{JobArgs, JobCommand, SubmitArgs};
use crate::failure::Failure;
use crate::output::{self, Exit, say};
use crate::planned;
use crate::values::describe;
use longhaul::planned::Run;
use record::Record;
use script::{LOGS, Scripts};
use std::fs;
use std::path::{Path, PathBuf};

/// Submit, show, cancel or resume the jobs of a copy.
pub fn run(args: &JobArgs) -> Result<Exit, Failure> {
    match &args.command {
        JobCommand::Submit(args) => submit(args),
        JobCommand::Status(args) => status::run(&args.of.run, args.json),
        JobCommand::Cancel(args) => {
            let record = Record::load(&args.run)?;
            slurm::cancel(&record.jobs())?;
            say(&format!("cancelled; longhaul job resume {} goes on", args.run.display()));
            Ok(Exit::Done)
        }
        JobCommand::Resume(args) => resume(&args.run).map(|()| Exit::Done),
    }
}

fn submit(args: &SubmitArgs) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| cannot("find this program", &error))?;
    let run = std::path::absolute(&args.plan.run).map_err(|error| cannot("tell where RUN is", &error))?;
    let scripts = Scripts::new(args, &program, &run)?;
    // A plan may take long, and would be for nothing where Slurm is not or wants none of it.
    slurm::check(&scripts.parts(args.parts().unwrap_or(1)))?;
    // Where something could not be listed, the rest is copied, and the last step says so again.
    let (exit, mut told) = planned::make(&args.plan, args.parts())?;
    let parts = Run::open(&run)?.plan.parts;
    fs::create_dir_all(run.join(LOGS)).map_err(|error| cannot("make a folder in RUN", &error))?;
    for (name, text) in [(PARTS_SCRIPT, scripts.parts(parts)), (FINISH_SCRIPT, scripts.finish())] {
        fs::write(run.join(name), text).map_err(|error| cannot("write a script into RUN", &error))?;
    }
    let jobs = submit_scripts(&run).map_err(|failure| {
        Failure::Failed(format!(
            "{failure}; it is planned, and longhaul job resume {} submits it",
            run.display()
        ))
    })?;
    if args.plan.flags.output.json.is_some() {
        told["jobs"] = jobs.into();
        output::json(&told, false);
    } else {
        output::result(&jobs.join(" "));
    }
    Ok(exit)
}

fn resume(run: &Path) -> Result<(), Failure> {
    let run = absolute(run)?;
    // Without a record the scripts could not be submitted when they were made.
    let record =
        if run.join(FINISH_SCRIPT).exists() { Record::find(&run)? } else { Some(Record::load(&run)?) };
    let jobs = record.map(|record| record.jobs()).unwrap_or_default();
    if let Some(queued) = slurm::queue(&jobs)?.first() {
        return Err(Failure::Failed(format!(
            "job {} is still {}; wait for it, or longhaul job cancel {} first",
            queued.job,
            queued.state,
            run.display()
        )));
    }
    output::result(&submit_scripts(&run)?.join(" "));
    Ok(())
}

/// The jobs' numbers.
fn submit_scripts(run: &Path) -> Result<Vec<String>, Failure> {
    let parts = slurm::submit(&run.join(PARTS_SCRIPT), None)?;
    let mut record = Record { parts, finish: None };
    // Known before anything else can fail: it can be cancelled.
    record.save(run)?;
    record.finish = Some(slurm::submit(&run.join(FINISH_SCRIPT), Some(&record.parts))?);
    record.save(run)?;
    say(&format!("submitted; longhaul job status {} tells how far it is", run.display()));
    Ok(record.jobs())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(path)
        .map_err(|error| Failure::Failed(format!("{}: {}", path.display(), describe(&error))))
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot {what}: {}", describe(error)))
}

const PARTS_SCRIPT: &str = "parts.sbatch";
const FINISH_SCRIPT: &str = "finish.sbatch";
