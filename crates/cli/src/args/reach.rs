//! Flags that say how the other host is reached.

use super::{REACH, non_blank, one_of};
use crate::values::parse_ports;
use clap::Args;
use clap::builder::TypedValueParser;
use longhaul::{LocalEnd, Paths};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// How to reach the other host.
#[derive(Args, Debug)]
pub struct ReachArgs {
    /// File with the server's token; LONGHAUL_TOKEN in the environment does the same
    #[arg(long, value_name = "FILE", help_heading = REACH)]
    pub token_file: Option<PathBuf>,
    /// Ports, UDP and TCP, that the far side may use over ssh, such as 7700-7799
    #[arg(long, value_name = "A-B", value_parser = parse_ports, help_heading = REACH)]
    pub ports: Option<RangeInclusive<u16>>,
    /// Command to reach hosts with, in place of ssh; split at spaces
    #[arg(long, value_name = "CMD", value_parser = non_blank, help_heading = REACH)]
    pub ssh: Option<String>,
    /// Never put this program into the far side's cache; it must be installed there
    #[arg(long, help_heading = REACH)]
    pub no_deploy: bool,
    /// Send from this address or network interface; from several, over a path each
    #[arg(long, value_name = "ADDR|IFACE,...", value_delimiter = ',', value_parser = parse_local_end,
          help_heading = REACH)]
    pub bind: Vec<LocalEnd>,
    /// auto: use every path at once that is found between this host and the other
    #[arg(long = "paths", value_name = "auto|one", value_parser = paths(), default_value = "one", hide_possible_values = true,
          hide_default_value = true, help_heading = REACH)]
    pub over_paths: Paths,
}

fn paths() -> impl TypedValueParser<Value = Paths> {
    one_of([("one", Paths::One, "One"), ("auto", Paths::Auto, "All that are found")])
}

fn parse_local_end(text: &str) -> Result<LocalEnd, String> {
    if text.trim().is_empty() {
        return Err("an address or the name of a network interface is wanted".into());
    }
    text.parse().map_err(|never| match never {})
}
