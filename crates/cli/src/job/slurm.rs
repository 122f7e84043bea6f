//! Slurm's own programs, which do the work.

use crate::failure::Failure;
use crate::values::describe;
use serde::Serialize;
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

/// A job, or a task of an array, as Slurm knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Of the whole array.
    #[serde(skip)]
    pub job: JobId,
    /// Its number in the array, which is that of its part.
    pub task: Option<u32>,
    /// As Slurm calls it, in lower case: `pending`, `running`, …
    pub state: String,
    /// How often it was given back and began again.
    pub restarts: Option<u32>,
    /// Where it runs, or ran, as Slurm writes it: `mover[1-2]`.
    pub nodes: Option<String>,
    /// Why it does not run, in Slurm's words.
    pub reason: Option<String>,
}

/// What is still in the queue of these jobs.
pub fn queue(jobs: &[JobId]) -> Result<Vec<Task>, Failure> {
    squeue(jobs, &[])
}

/// The same, and what has ended, as long as Slurm remembers it.
pub fn tasks(jobs: &[JobId]) -> Result<Vec<Task>, Failure> {
    let mut tasks = squeue(jobs, &["--states=all"])?;
    tasks.sort_by_key(|task| task.task);
    Ok(tasks)
}

fn squeue(jobs: &[JobId], more: &[&str]) -> Result<Vec<Task>, Failure> {
    let mut squeue = Command::new("squeue");
    // By name rather than by number: a number that Slurm has forgotten is an error.
    squeue.args(["--noheader", "--array", "--me", FIELDS]).args(more);
    let said = run(&mut squeue)?;
    Ok(said.lines().filter_map(parse).filter(|task| jobs.contains(&task.job)).collect())
}

fn parse(line: &str) -> Option<Task> {
    let mut fields = line.split('|').map(str::trim);
    let mut field = || fields.next().map(String::from);
    let (job, number, state, restarts) = (field()?, field()?, field()?, field()?);
    // What follows is whatever else the line has: a reason may be a sentence.
    let said = |text: String| Some(text).filter(|text| !NOTHING.contains(&text.as_str()));
    Some(Task {
        job,
        task: number.parse().ok(),
        state: state.to_lowercase(),
        restarts: restarts.parse().ok(),
        nodes: said(field()?),
        reason: said(field()?),
    })
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
/// With widths, since what is longer than 20 characters would be cut off.
const FIELDS: &str =
    "--Format=ArrayJobID:20|,ArrayTaskID:20|,State:30|,RestartCnt:12|,NodeList:1000|,Reason:200|";
/// As Slurm writes that there is none.
const NOTHING: [&str; 4] = ["", "(null)", "n/a", "None"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_queue_is_a_task_its_state_and_where_it_is() {
        let task = |number, state: &str, restarts, nodes: Option<&str>, reason: Option<&str>| Task {
            job: "12".into(),
            task: number,
            state: state.into(),
            restarts: Some(restarts),
            nodes: nodes.map(Into::into),
            reason: reason.map(Into::into),
        };
        // As squeue 22.05 prints them, but for the width.
        for (line, expected) in [
            (
                "12      |N/A     |PENDING   |0    |        |Dependency |",
                task(None, "pending", 0, None, Some("Dependency")),
            ),
            (
                "12      |3       |RUNNING   |2    |mover2  |None       |",
                task(Some(3), "running", 2, Some("mover2"), None),
            ),
            (
                "12      |N/A     |COMPLETED |0    |mover[1-2,5]|None   |",
                task(None, "completed", 0, Some("mover[1-2,5]"), None),
            ),
        ] {
            assert_eq!(parse(line), Some(expected), "{line}");
        }
        for wrong in ["", "12", "12|3|RUNNING|0|mover1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
