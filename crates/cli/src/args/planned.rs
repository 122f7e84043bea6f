//! The flags of `longhaul plan`, `finish` and `status`.

use super::{CopyFlags, OutputArgs};
use crate::values::parse_bytes;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Plan a copy that many hosts make together
///
/// Lists the sources once and cuts the copy into parts. RUN is a folder for the plan, on a file
/// system that all of these hosts have in common. Each part is then copied by
///   longhaul cp --plan RUN --part I
/// on any of them, in any order and as many at a time as you like, and
///   longhaul finish RUN
/// puts the files in place that were cut, and says what is missing. Slurm and others start the
/// parts; a part that was broken off goes on where it stopped.
///
/// DST is as for cp. A range stands for several hosts with the same files: longhaul://dtn[1-4]/in
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = PLAN_EXAMPLES)]
pub struct PlanArgs {
    /// What to copy, on this host
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    pub sources: Vec<OsString>,
    /// Where to, on another
    #[arg(value_name = "DST")]
    pub dest: OsString,

    /// Folder for the plan
    #[arg(short = 'o', long = "out", value_name = "RUN")]
    pub run: PathBuf,
    /// How many parts there are to be [default: 64]
    #[arg(long, value_name = "N", conflicts_with = "part_size", value_parser = clap::value_parser!(u32).range(1..))]
    pub parts: Option<u32>,
    /// How large a part is to be, such as 64GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub part_size: Option<u64>,
    /// Cut files at multiples of this only: what the file system stores in one piece
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_bytes)]
    pub align: u64,
    /// File with the hosts to copy to, host[:port] a line, in place of the one in DST
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,

    /// How the parts are to be copied, and what to say of planning.
    #[command(flatten)]
    pub flags: CopyFlags,
}

/// Put in place what the parts of a planned copy have brought
///
/// Files that were cut get their names once all of their pieces are there, folders get their
/// permissions and times, and with a plan made with --delete what the sources have not is removed.
/// Says which parts are missing. Can be run at any time, and again.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct FinishArgs {
    /// Folder of the plan
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// What to say of it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Say how far the parts of a planned copy are
///
/// Bytes, rate, share and expected end of all, and where each part is copied and what limits it.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct StatusArgs {
    /// Folder of the plan
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Say it again every few seconds, until all parts are done
    #[arg(long)]
    pub watch: bool,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  longhaul plan --parts 512 -o /shared/run7 /shared/data/ longhaul://dtn[1-4].far.example/in
  LONGHAUL_PART=0 longhaul cp --plan /shared/run7
  longhaul finish /shared/run7";

/// What a plan says, not who copies a part of it.
pub(super) const HOW: [&str; 40] = [
    "exclude",
    "files_from",
    "checksum",
    "delta",
    "delete",
    "dry_run",
    "fsync",
    "no_fsync",
    "resume",
    "no_resume",
    "rate",
    "transport",
    "streams",
    "congestion",
    "control",
    "l4s",
    "background",
    "dscp",
    "scitag",
    "firefly",
    "stall_timeout",
    "ack_every",
    "batch",
    "packet_size",
    "select",
    "token_file",
    "ports",
    "ssh",
    "no_deploy",
    "dest_token_file",
    "via",
    "archive",
    "hard_links",
    "xattrs",
    "acls",
    "owner",
    "group",
    "devices",
    "specials",
    "numeric_ids",
];
