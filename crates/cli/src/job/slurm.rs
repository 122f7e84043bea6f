//! Slurm's own programs, which do the work.

use crate::failure::Failure;
use crate::values::describe;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A job's number as Slurm prints it.
pub type JobId = String;

/// Have Slurm look at a script without submitting it.
pub fn check(script: &str) -> Result<(), Failure> {
    let mut sbatch = Command::new(SBATCH);
    sbatch.arg("--test-only").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = sbatch.spawn().map_err(|error| absent(SBATCH, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Where it does not read all, it says why.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| absent(SBATCH, &error))?;
    said(SBATCH, output).map(drop)
}

/// Submit a script, to start once no task of another job is left.
pub fn submit(script: &Path, after: Option<&JobId>) -> Result<JobId, Failure> {
    let mut sbatch = Command::new(SBATCH);
    sbatch.arg("--parsable");
    if let Some(job) = after {
        sbatch.arg(format!("--dependency=afterany:{job}"));
    }
    let said = run(sbatch.arg(script))?;
    // The name of a cluster may follow.
    let id = said.trim().split(';').next().unwrap_or_default();
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Failed(format!("{SBATCH} named no job, but: {}", said.trim())));
    }
    Ok(id.into())
}

/// Take jobs from the queue; those that have ended already are none.
pub fn cancel(jobs: &[JobId]) -> Result<(), Failure> {
    run(Command::new("scancel").arg("--quiet").args(jobs)).map(drop)
}

/// A job, or a task of an array, that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Of the whole array.
    pub job: JobId,
    /// As Slurm calls it, in lower case: `pending`, `running`, …
    pub state: String,
    /// Where it runs, or why it does not.
    pub place: String,
}

/// What is still in the queue of these jobs.
pub fn queue(jobs: &[JobId]) -> Result<Vec<Queued>, Failure> {
    let mut squeue = Command::new("squeue");
    // By name rather than by number: a number that Slurm has forgotten is an error.
    squeue.args(["--noheader", "--array", "--me", "--format=%F|%T|%R"]);
    let said = run(&mut squeue)?;
    Ok(said.lines().filter_map(parse).filter(|queued| jobs.contains(&queued.job)).collect())
}

fn parse(line: &str) -> Option<Queued> {
    let mut fields = line.trim().splitn(3, '|');
    let mut field = || fields.next().map(String::from);
    Some(Queued { job: field()?, state: field()?.to_lowercase(), place: field()? })
}

fn run(command: &mut Command) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| absent(&program, &error))?;
    said(&program, output)
}

/// What a program printed, or what it says of its failure, on one line.
fn said(program: &str, Output { status, stdout, stderr }: Output) -> Result<String, Failure> {
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    let lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(Failure::Failed(if lines.is_empty() {
        format!("{program} failed: {status}")
    } else {
        lines.join("; ")
    }))
}

fn absent(program: &str, error: &io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        ErrorKind::NotFound => format!(
            "{program} is not on the PATH: jobs need Slurm's programs; without it run longhaul plan, cp --plan and finish"
        ),
        _ => format!("{program}: cannot be started: {}", describe(error)),
    })
}

const SBATCH: &str = "sbatch";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_queue_is_a_job_its_state_and_where_it_is() {
        let queued = parse("12|PENDING|(Dependency)").unwrap();
        assert_eq!(
            (queued.job.as_str(), queued.state.as_str(), queued.place.as_str()),
            ("12", "pending", "(Dependency)")
        );
        assert_eq!(parse(""), None);
    }
}
