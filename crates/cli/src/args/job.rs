//! The flags of `longhaul job`.

use super::planned::PlanArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

/// Let a scheduler move a copy in parts with many hosts
///
/// Plans the copy, and gives its parts to the engine that the site runs, with a last step that
/// depends on them. The engine starts, places, counts and restarts them; what is asked of it
/// stands in short scripts in RUN, which can be submitted by hand too.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = JOB_EXAMPLES)]
pub struct JobArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: JobCommand,
}

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Plan a copy, submit its parts and its last step, and print the numbers of the jobs
    Submit(Box<SubmitArgs>),
    /// What the engine says of the jobs, and how far the copy is
    Status(JobStatusArgs),
    /// Take the jobs from the engine; what has arrived is kept
    Cancel(RunArgs),
    /// Submit again what is not done
    Resume(RunArgs),
}

/// A plan that was submitted.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The folder of the plan
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
}

/// What is asked of jobs.
#[derive(Args, Debug)]
pub struct JobStatusArgs {
    /// Whose.
    #[command(flatten)]
    pub of: RunArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What is submitted, and how.
#[derive(Args, Debug)]
pub struct SubmitArgs {
    /// What is copied, where to and how.
    #[command(flatten)]
    pub plan: PlanArgs,

    /// What runs the parts
    #[arg(long, value_enum, default_value_t, help_heading = ENGINE)]
    pub engine: Engine,
    /// One allocation of so many movers, all parts at a time; four each unless --parts is given
    #[arg(long, short = 'N', value_name = "N", conflicts_with = "array", help_heading = ENGINE)]
    pub nodes: Option<NonZeroU32>,
    /// An array of so many parts, such as 512, or 512%96 with 96 at a time
    #[arg(long, value_name = "PARTS[%N]", conflicts_with_all = ["parts", "part_size"], help_heading = ENGINE)]
    pub array: Option<Array>,
    /// The partition to run in
    #[arg(long, value_name = "NAME", help_heading = ENGINE)]
    pub partition: Option<String>,
    /// Time limit of a turn, as Slurm writes it; a part that is not done goes on in another
    #[arg(long, value_name = "TIME", help_heading = ENGINE)]
    pub time: Option<String>,
    /// A part that failed is tried again until its job was restarted so many times
    #[arg(long, value_name = "N", default_value = "5", help_heading = ENGINE)]
    pub requeues: u32,
    /// A further option of sbatch, such as --account=physics; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = ENGINE)]
    pub sbatch: Vec<String>,
}

impl SubmitArgs {
    /// How many parts there are to be, if the flags tell.
    pub fn parts(&self) -> Option<u32> {
        let of_array = self.array.map(|array| array.parts.get());
        let of_nodes = self.nodes.filter(|_| self.plan.part_size.is_none());
        let of_nodes = of_nodes.map(|nodes| nodes.get().saturating_mul(PARTS_A_MOVER));
        self.plan.parts.or(of_array).or(of_nodes)
    }
}

/// What can run the parts of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Slurm
    #[default]
    Slurm,
}

/// How many parts there are to be, and how many of them are to run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// So many.
    pub parts: NonZeroU32,
    /// No more than these; all if nothing is said.
    pub at_a_time: Option<NonZeroU32>,
}

/// Not a number of parts.
#[derive(Debug, thiserror::Error)]
#[error("a number of parts, or one and how many of them run at a time, such as 512%96")]
pub struct NoArray;

impl FromStr for Array {
    type Err = NoArray;

    fn from_str(text: &str) -> Result<Array, NoArray> {
        let (parts, at_a_time) = match text.split_once('%') {
            Some((parts, number)) => (parts, Some(number)),
            None => (text, None),
        };
        let number = |text: &str| text.parse().map_err(|_| NoArray);
        Ok(Array { parts: number(parts)?, at_a_time: at_a_time.map(number).transpose()? })
    }
}

/// A mover that has done its own early leaves the path to the others; with several small parts that is late.
const PARTS_A_MOVER: u32 = 4;

const ENGINE: &str = "Engine";

const JOB_EXAMPLES: &str = "\
Examples:
  longhaul job submit --array 512%96 --partition dtn -o run7.plan /data/run7 longhaul://dtn[1-4].far/in
  longhaul job submit -N 4 --time 12:00:00 -o run7.plan /data/run7 longhaul://dtn[1-4].far/in
  longhaul job submit --array 64 --sbatch=--account=physics -o run7.plan /data/run7 longhaul://dtn1.far/in
  longhaul job status run7.plan
  longhaul job status --json run7.plan | jq '.parts.tasks[] | select(.restarts > 0)'
  longhaul job resume run7.plan";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_a_number_of_parts_and_how_many_at_a_time() {
        let array =
            |text: &str| text.parse().map(|a: Array| (a.parts.get(), a.at_a_time.map(NonZeroU32::get)));
        assert_eq!(array("512").unwrap(), (512, None));
        assert_eq!(array("512%96").unwrap(), (512, Some(96)));
        for wrong in ["", "%", "0", "5%", "5%0", "1-5", "-1", "5%-1"] {
            array(wrong).unwrap_err();
        }
    }
}
