//! `longhaul job status`: what Slurm says of the jobs, and how far the copy is.

use super::record::Record;
use super::slurm::{self, JobId, Task};
use crate::args::planned::StatusArgs;
use crate::failure::Failure;
use crate::output::{self, Exit};
use crate::planned;
use longhaul::planned::{Run, Status};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    parts: Job,
    finish: Option<Job>,
    copy: Status,
}

/// A job that was submitted, with what Slurm still knows of it.
#[derive(Debug, Serialize)]
struct Job {
    job: JobId,
    tasks: Vec<Task>,
}

/// Print both.
pub fn run(run: &Path, json: bool) -> Result<Exit, Failure> {
    let record = Record::load(run)?;
    if json {
        let tasks = slurm::tasks(&record.jobs())?;
        let of = |job: &JobId| Job {
            job: job.clone(),
            tasks: tasks.iter().filter(|task| task.job == *job).cloned().collect(),
        };
        let (parts, finish) = (of(&record.parts), record.finish.as_ref().map(of));
        output::json(&Report { engine: "slurm", parts, finish, copy: Run::open(run)?.status()? }, false);
        return Ok(Exit::Done);
    }
    let queue = slurm::queue(&record.jobs())?;
    for (what, job) in [("parts", Some(&record.parts)), ("finish", record.finish.as_ref())] {
        let Some(job) = job else { continue };
        output::result(&format!("{what}  job {job}  {}", states(&queue, job)));
    }
    planned::status(&StatusArgs { run: run.into(), json: false, watch: false })
}

/// How many tasks of a job are in which state.
fn states(queue: &[Task], job: &JobId) -> String {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for task in queue.iter().filter(|task| task.job == *job) {
        *states.entry(&task.state).or_default() += 1;
    }
    let states: Vec<_> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    if states.is_empty() { "not in the queue".into() } else { states.join(", ") }
}
