//! Every flag of longhaul-lab, once: help, usage errors and completions come from here.

mod lab;
mod lab_path;
mod sim;

pub use lab::{LabArgs, LabCommand, LabPlainArgs, LabPlainEnd, LabReportArgs, LabRunArgs};
pub use lab_path::{LabAtArgs, LabPcapArgs, LabShellArgs, SideArg};
pub use sim::SimArgs;

use clap::{Args, Parser, Subcommand};
use longhaul_cli::help::{CompletionsArgs, ManArgs};
use std::path::PathBuf;

/// Show what longhaul does, on simulated and on emulated paths.
#[derive(Debug, Parser)]
#[command(name = "longhaul-lab", version, after_help = TOP_EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, each described at its arguments: a comment here would hide the long description there.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(DemoArgs),
    Sim(SimArgs),
    Lab(LabArgs),
    Trace(TraceArgs),
    Replay(ReplayArgs),
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual's pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Be an end of a plain TCP copy that others are compared with
    #[command(hide = true)]
    LabPlain(LabPlainArgs),
    /// Run a program at an end of a lab's path
    #[command(hide = true)]
    LabAt(LabAtArgs),
}

/// Race a real copy against kernel TCP over an emulated long haul
///
/// Builds a path of 100 Mb/s and 65 ms between two network namespaces, copies a real file over
/// it with this program and moves as much with the kernel's TCP, without loss and with 1 %.
/// Needs root, or user namespaces and access to /dev/net/tun; where these are refused, a relay on
/// loopback emulates the path, and a TCP in user space takes the place of the kernel's. Takes
/// about a minute.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct DemoArgs {
    /// Size of the file in megabytes
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=4000))]
    pub megabytes: u64,
}

/// Show on one page what a copy did, moment by moment
///
/// FILE is what longhaul cp --trace has written: rates, round trip, queue, losses, what is on its
/// way, what limited the copy when, what its controller did, and what happened, over one axis of
/// time. The page is one file that needs no network.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = TRACE_EXAMPLES)]
pub struct TraceArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where to write the page [default: FILE.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Lay a copy beside one like it in the simulator, on one page
///
/// FILE is what longhaul cp --trace has written, at either end, of a copy over UDP. The simulator
/// moves as much data (2 GB at most) by the same controller over a path of the rate, round trip,
/// loss and queue that the trace shows, at the rates and with the pauses that were asked for.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct ReplayArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where to write the page [default: FILE.replay.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Everything random in the simulator follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

const TRACE_EXAMPLES: &str = "\
Examples:
  longhaul cp --trace copy.sqlog big.tar far.example.org:data/
  longhaul trace copy.sqlog          writes copy.sqlog.html";

const TOP_EXAMPLES: &str = "\
Examples:
  longhaul demo                      a copy beside kernel TCP, in a minute
  longhaul sim list                  the papers' experiments, in the simulator
  longhaul lab list                  the same, and ours, over emulated paths
  longhaul trace copy.sqlog          what a copy with --trace did, as a page

The program longhaul hands these on to longhaul-lab, which runs the longhaul beside it.

Exit status: 0 done (whatever the verdicts), 1 failed, 2 wrong usage, 130 interrupted.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  longhaul-lab completions bash > ~/.local/share/bash-completion/completions/longhaul-lab
  longhaul-lab completions zsh > ~/.zfunc/_longhaul-lab
  longhaul-lab completions fish > ~/.config/fish/completions/longhaul-lab.fish";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use longhaul_cli::lab_program::COMMANDS;

    #[test]
    fn every_command_in_the_documents_parses() {
        let commands = longhaul_testing::documents::commands();
        let ours = commands.iter().filter(|words| COMMANDS.contains(&words[1].as_str()));
        let parsed =
            ours.map(|words| Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{words:?}: {error}")));
        assert!(parsed.count() > 10, "fewer than there are");
    }

    #[test]
    fn every_flag_that_a_sentence_of_the_documents_gives_to_a_command_is_there() {
        let commands = longhaul_testing::documents::mentioned_commands();
        let ours = commands.iter().filter(|words| COMMANDS.contains(&words[1].as_str()));
        let known = ours.map(|words| match Cli::try_parse_from(words) {
            Err(error) if error.kind() == ErrorKind::UnknownArgument => panic!("{words:?}: {error}"),
            _ => {}
        });
        assert!(known.count() > 10, "fewer than there are");
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
