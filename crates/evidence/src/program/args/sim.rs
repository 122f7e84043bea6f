//! Arguments of the simulator.

use clap::Args;
use longhaul_cli::rate::parse_bytes;

/// Rerun the papers' experiments, or a transfer over a path of your own, on virtual time
///
/// Everything runs in a deterministic simulator, with the very protocol code that copies files:
/// equal seeds give equal figures. An experiment prints its figures, what the paper says of them
/// and whether that holds here. A scenario file describes a path; one transfer runs over it for
/// each --control.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = SIM_EXAMPLES)]
pub struct SimArgs {
    /// An experiment, a scenario file, or list
    #[arg(value_name = "EXPERIMENT|SCENARIO.toml")]
    pub what: String,
    /// Fewer repetitions and points of an experiment: within a minute on two cores
    #[arg(long)]
    pub quick: bool,
    /// Print JSON lines in place of text; the first has command, version and seed
    #[arg(long)]
    pub json: bool,
    /// Everything random follows from it [default: 1, or the scenario's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Simulations that run side by side [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Over a scenario: what decides how fast to send; tcp:NAME runs it under TCP; may be given
    /// several times [default: adaptive]
    #[arg(long, value_name = "NAME", help_heading = SCENARIO, verbatim_doc_comment)]
    pub control: Vec<String>,
    /// Over a scenario: how much to send [default: 40MB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = SCENARIO)]
    pub bytes: Option<u64>,
}

const SCENARIO: &str = "Transfers over a scenario";

const SIM_EXAMPLES: &str = "\
Examples:
  longhaul sim list                               what there is
  longhaul sim fobs-fig1                          the FOBS paper's Figure 1, judged
  longhaul sim grid --quick --json > grid.jsonl   every controller on every path
  longhaul sim scenarios/gigabit.toml --control adaptive --control tcp:cubic --bytes 1GB";
