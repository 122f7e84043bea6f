//! Arguments of what the lab does with anybody's programs.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Open a shell at an end of a path that a scenario file describes
///
/// In it, left CMD and right CMD run something at either end, and $LEFT and $RIGHT are the
/// ends' addresses. When the shell ends, all that was started in it ends too, and what the path
/// did is told.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = SHELL_EXAMPLES)]
pub struct LabShellArgs {
    /// The path
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: PathBuf,
    /// Where the shell is
    #[arg(long, value_enum, value_name = "END", default_value_t)]
    pub end: SideArg,
    /// Which packets are recorded.
    #[command(flatten)]
    pub pcap: LabPcapArgs,
}

/// What is recorded of the packets at the ends of a path
#[derive(Args, Clone, Debug)]
pub struct LabPcapArgs {
    /// Record the left host's packets here: times, lengths, and the first 128 bytes of each
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Record the right host's packets here, in a file of their own
    #[arg(long, value_name = "FILE")]
    pub pcap_right: Option<PathBuf>,
}

/// An end of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    /// Where senders usually are
    #[default]
    Left,
    /// The far end
    Right,
}

/// Run a program at an end of a lab's path
#[derive(Args, Debug)]
pub struct LabAtArgs {
    /// Which end that is
    #[arg(value_enum)]
    pub end: SideArg,
    /// The file of its network namespace
    pub network: PathBuf,
    /// What to run; a shell where there is nothing
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

const SHELL_EXAMPLES: &str = "\
Examples:
  longhaul lab shell scenarios/satellite.toml
  (left) ping $RIGHT
  (left) right iperf3 -s >/dev/null &
  (left) iperf3 -c $RIGHT
  (left) right                                    a shell at the other end

Exit status: 0, or 1 where there is no path.";
