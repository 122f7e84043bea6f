//! Arguments of the lab: its experiments, their report, and the ends of what it measures.

use super::{LabPcapArgs, LabShellArgs};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Rerun experiments over emulated paths, with real programs and the kernel's TCP
///
/// Builds paths between network namespaces on this host and runs this very program at their
/// ends. An experiment prints its figures, what the paper says of them and whether that holds
/// here. Needs root, or user namespaces and access to /dev/net/tun, and a host with nothing
/// else to do.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = LAB_EXAMPLES)]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What the lab does.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the experiments
    List {
        /// Print JSON lines in place of text
        #[arg(long)]
        json: bool,
    },
    Run(LabRunArgs),
    Shell(LabShellArgs),
    Report(LabReportArgs),
    /// Remove what a killed run left: congestion controls in the kernel, folders among temporary files
    Clean,
}

/// Run experiments, or a command of yours over a path
#[derive(Args, Debug)]
#[command(after_help = LAB_RUN_EXAMPLES)]
pub struct LabRunArgs {
    /// Experiments, as longhaul lab list names them, or all: those that have no result yet
    #[arg(value_name = "ID", required_unless_present = "with", num_args = 1..)]
    pub ids: Vec<String>,
    /// In place of experiments: run this at the left end, by sh, with the ends' addresses in $LEFT and $RIGHT
    #[arg(long, value_name = "CMD", requires = "scenario",
        conflicts_with_all = ["ids", "quick", "smoke", "out", "seed", "only", "again", "simulated"])]
    pub with: Option<String>,
    /// With --with: the path, as a file
    #[arg(long, value_name = "FILE", requires = "with")]
    pub scenario: Option<PathBuf>,
    /// With --with: run this at the right end, by sh, from before it begins until it has ended
    #[arg(long, value_name = "CMD", requires = "with")]
    pub server: Option<String>,
    /// With --with: which packets are recorded.
    #[command(flatten)]
    pub pcap: LabPcapArgs,
    /// With all: measure anew what has a result of this very program, kernel, scale and seed
    #[arg(long)]
    pub again: bool,
    /// Fewer and shorter runs: about a minute an experiment
    #[arg(long)]
    pub quick: bool,
    /// Just enough to see that it works; the figures mean nothing
    #[arg(long, hide = true, conflicts_with = "quick")]
    pub smoke: bool,
    /// Print JSON lines in place of text; the first has command, versions, host and seed
    #[arg(long)]
    pub json: bool,
    /// Folder in which each result is stored as JSON lines, in a file of the experiment's name; a smaller one (--quick,
    /// --only) beside a larger one
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub out: PathBuf,
    /// What the emulated paths lose follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Of an experiment over several paths: only those whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// In the simulator, also what can be measured over emulated paths: a result is stored beside that one's
    #[arg(long, conflicts_with = "only")]
    pub simulated: bool,
}

/// Be an end of a plain TCP copy that others are compared with
#[derive(Args, Debug)]
pub struct LabPlainArgs {
    /// Which end.
    #[command(subcommand)]
    pub end: LabPlainEnd,
}

/// An end of a plain TCP copy.
#[derive(Debug, Subcommand)]
pub enum LabPlainEnd {
    /// Take what comes into a folder
    Receive {
        /// Where to listen
        listen: SocketAddr,
        /// The folder
        folder: PathBuf,
    },
    /// Send a file, or a folder through tar
    Send {
        /// What to send
        source: PathBuf,
        /// Where the other end listens
        address: SocketAddr,
        /// Connections for a file
        #[arg(long, value_name = "N", default_value_t = 1)]
        streams: u32,
        /// Their congestion control; the host's where absent
        #[arg(long, value_name = "NAME")]
        congestion: Option<String>,
    },
}

/// Show all results as one page in HTML, with plots
#[derive(Args, Debug)]
pub struct LabReportArgs {
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
    /// Where the page goes; it needs no other file and no network
    #[arg(long, value_name = "FILE", default_value = "lab-report.html")]
    pub out: PathBuf,
    /// Write a table of claims, figures and verdicts in Markdown too
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

const LAB_EXAMPLES: &str = "\
Examples:
  longhaul lab list                               what there is
  longhaul lab run psockets-a --quick             the PSockets paper's Figure 2, judged
  longhaul lab run streams-auto --only '65 ms'    on some of its paths
  longhaul lab run --scenario scenarios/satellite.toml --server 'iperf3 -s' --with 'iperf3 -c $RIGHT'
  longhaul lab shell scenarios/satellite.toml     a shell at one end of a path
  longhaul lab run all --quick                    everything; again: what an interrupt left out
  longhaul lab report                             all results as a page: lab-report.html

Exit status: 0 measured (whatever the verdicts), 1 failed, 2 wrong usage, 130 interrupted.";

const LAB_RUN_EXAMPLES: &str = "\
Examples:
  longhaul lab run psockets-a --quick
  longhaul lab run --scenario scenarios/satellite.toml --server 'iperf3 -s' --with 'iperf3 -c $RIGHT'
  longhaul lab run --scenario mine.toml --with 'ping -c 9 $RIGHT' --json --pcap left.pcap

With --with, what the path did follows on standard error; with --json it is the only line of standard
output, and what the command says goes to standard error. The exit status is then the command's, if it
failed (128 and the signal's number, if one ended it).";
