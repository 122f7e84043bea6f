//! Every flag of longhaul-store, once.

use clap::{Parser, Subcommand};
use longhaul_cli::help::{CompletionsArgs, ManArgs};
use std::path::PathBuf;

/// A folder of an object store, mounted. `longhaul serve --root s3://BUCKET/FOLDER` starts it by itself.
#[derive(Debug, Parser)]
#[command(name = "longhaul-store", version, after_help = ENVIRONMENT)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// Its commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount a folder of a bucket until a signal comes
    Mount(MountArgs),
    /// Write shell completions to standard output
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder
    Man(ManArgs),
}

/// `longhaul-store mount`.
#[derive(Debug, clap::Args)]
pub struct MountArgs {
    /// s3://BUCKET or s3://BUCKET/FOLDER
    pub place: String,
    /// Where to mount it: an empty folder, or /dev/fd/N for a mount that the caller has made with the descriptor N of /dev/fuse
    pub folder: PathBuf,
    /// Where files lie while they are being written [default: below $XDG_STATE_HOME/longhaul/store]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// End when standard input does
    #[arg(long, hide = true)]
    pub with_parent: bool,
}

const ENVIRONMENT: &str = "\
Environment:
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   the key; without one requests are not signed
  AWS_REGION or AWS_DEFAULT_REGION                              us-east-1 if there is none
  AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL                       the store's URL, if it is not Amazon's
  LONGHAUL_S3_STYLE                                             path or virtual: where the bucket's name stands
  SSL_CERT_FILE                                                 certificates to trust in place of the system's";
