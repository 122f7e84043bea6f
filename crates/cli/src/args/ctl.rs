//! The flags of `longhaul ctl`.

use crate::hours::parse_rates;
use clap::{Args, Subcommand};
use longhaul::schedule::Schedule;
use std::ffi::OsString;
use std::path::PathBuf;

/// Steer a copy that runs
///
/// COPY is the process of a longhaul cp of the same user on this host, or the folder that
/// longhaul plan made: then all parts obey, on whichever host, those that begin later too.
/// Whichever side sends obeys.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = CTL_EXAMPLES)]
pub struct CtlArgs {
    /// The copy's process, or the folder of its plan
    #[arg(value_name = "COPY")]
    pub copy: Steered,
    /// What to do.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// Whom it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// A copy on this host.
    Process(u32),
    /// All parts of a planned copy.
    Run(PathBuf),
}

impl From<OsString> for Steered {
    fn from(text: OsString) -> Steered {
        let process = text.to_str().and_then(|text| text.parse().ok());
        process.map_or_else(|| Steered::Run(text.into()), Steered::Process)
    }
}

/// What can be done with a copy that runs.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Never send faster than this from now on, as --rate; none: as fast as the path takes it
    Rate {
        /// 200mbit, or by the clock: '08:00-18:00 200mbit, 2gbit'
        #[arg(value_name = "RATE", value_parser = parse_rates)]
        rate: Schedule,
    },
    /// Send nothing; the connection is kept while both hosts are there
    Pause,
    /// Go on after a pause
    Resume,
    /// Print how far it is, as a JSON object
    Status,
}

const CTL_EXAMPLES: &str = "\
Examples:
  longhaul ctl 4711 rate 200mbit
  longhaul ctl 4711 rate '08:00-18:00 200mbit, 2gbit'
  longhaul ctl 4711 pause
  longhaul ctl 4711 status | jq .rate_mbps
  longhaul ctl $(pgrep -n -x longhaul) resume     the copy that began last
  longhaul ctl /shared/run7 rate 5gbit            all parts of a planned copy together";
