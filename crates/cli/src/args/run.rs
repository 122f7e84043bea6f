//! `longhaul run`.

use super::reach::ReachArgs;
use clap::Args;

/// Run a program whose TCP connections go to another host
///
/// What COMMAND and all that it starts connect to, other than by loopback, goes there as longhaul
/// forward has it go: sealed, over as many TCP connections as the path needs. The programs need not
/// know. With --via HOST all of it goes to HOST, which connects to where they wanted; HOST is
/// [user@]host, reached over your own ssh, or longhaul://host[:port] behind a longhaul serve
/// --allow-forward. Without, each connection goes to such a server on the host that it is for, and
/// where there is none its usual way.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Have this host connect, and nothing go any other way
    #[arg(long, value_name = "HOST")]
    pub via: Option<String>,

    /// How to reach the other host.
    #[command(flatten)]
    pub reach: ReachArgs,

    /// What to run, and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  longhaul run --via longhaul://far.example.org iperf3 -c far.example.org
  longhaul run --via me@far.example.org git clone git://db.example.org/data
  longhaul run curl -O http://far.example.org/big.tar

Exit status: COMMAND's; 128 and the signal's number if one ended it.";
