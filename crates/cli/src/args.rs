//! Every flag, once: help, usage errors and completions come from here.

pub mod ctl;
pub mod forward;
pub mod job;
pub mod keep;
pub mod planned;
pub mod reach;
pub mod run;
pub mod tag;

use self::ctl::CtlArgs;
use self::forward::{ConnectArgs, ForwardArgs};
use self::job::JobArgs;
use self::keep::KeepArgs;
use self::planned::{FinishArgs, HOW, PlanArgs, StatusArgs};
use self::reach::ReachArgs;
use self::run::RunArgs;
use self::tag::TagArgs;
use crate::help::{CompletionsArgs, ManArgs};
use crate::hours::parse_rates;
use crate::rate::parse_rate;
use crate::retry::{Retries, parse_retries};
use crate::values::{parse_duration, parse_listen, parse_memory, parse_ports, parse_streams};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use longhaul::daemon::policy::Access;
use longhaul::schedule::Schedule;
use longhaul::{Delta, Dscp, Target, Transport};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::object::SelectorKind;
use longhaul_proto::streams::Streams;
use longhaul_proto::suggest::UnknownName;
use longhaul_proto::units::Rate;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Move big data over long fat networks as fast as the path allows.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, after_help = TOP_EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, each described at its arguments: a comment here would hide the long description there.
#[derive(Debug, Subcommand)]
pub enum Command {
    Cp(Box<CpArgs>),
    Plan(Box<PlanArgs>),
    Finish(FinishArgs),
    Status(StatusArgs),
    Ctl(CtlArgs),
    Job(JobArgs),
    Serve(ServeArgs),
    User(UserArgs),
    Probe(ProbeArgs),
    Forward(ForwardArgs),
    Connect(ConnectArgs),
    Run(RunArgs),
    /// Race a real copy against kernel TCP over an emulated long haul (longhaul-lab)
    #[command(disable_help_flag = true)]
    Demo(HandedOnArgs),
    /// Rerun the papers' experiments on virtual time (longhaul-lab)
    #[command(disable_help_flag = true)]
    Sim(HandedOnArgs),
    /// Rerun experiments over emulated paths, with real programs (longhaul-lab)
    #[command(disable_help_flag = true)]
    Lab(HandedOnArgs),
    /// Show on one page what a copy with --trace did (longhaul-lab)
    #[command(disable_help_flag = true)]
    Trace(HandedOnArgs),
    /// Lay such a copy beside one like it in the simulator (longhaul-lab)
    #[command(disable_help_flag = true)]
    Replay(HandedOnArgs),
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual's pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Be the far side of a copy over ssh
    #[command(hide = true)]
    Agent(AgentArgs),
}

/// What the program longhaul-lab does: it is handed the whole command line.
#[derive(Debug, Args)]
pub struct HandedOnArgs {
    /// As longhaul-lab takes them; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// Be the far side of a copy over ssh
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Ports to choose from, UDP and TCP
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    pub ports: Option<RangeInclusive<u16>>,
    /// Connect to hosts that the client names, for copies between the folder and those
    #[arg(long, requires = "root")]
    pub allow_third_party: bool,
    /// As root: keep owners, devices and set-user-ID bits if the client asks for it
    #[arg(long, requires = "root")]
    pub allow_super: bool,
    /// As the command that sshd forces on a key: do not leave this folder, whatever is asked for
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Forward connections to whatever this host reaches, in place of a copy
    #[arg(long, conflicts_with = "root")]
    pub forward: bool,
    /// Let nobody copy into the folder
    #[arg(long, requires = "root", conflicts_with = "write_only")]
    pub read_only: bool,
    /// Take new files only: what is there can neither be read nor listed nor replaced
    #[arg(long, requires = "root")]
    pub write_only: bool,
}

/// Who may use a longhaul serve, by its configuration
///
/// Adds users to the file, lists and removes them; the rest of the file, comments too, stays as it
/// is. A running server goes by the changed file after a SIGHUP.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = USER_EXAMPLES)]
pub struct UserArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: UserCommand,
}

/// What can be done with users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user and print the token, which is shown this once
    Add {
        /// Letters, digits, . - and _
        #[arg(value_name = "NAME")]
        name: String,
        /// The server's configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// A folder of the configuration, and read-only, write-only or read-write [default: all, read-only]
        #[arg(long, value_name = "NAME[=ACCESS]", value_parser = parse_grant)]
        folder: Vec<(String, Access)>,
    },
    /// List users, the public parts of their tokens, and their folders
    List {
        /// The server's configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Remove a user: the token opens nothing any more
    Revoke {
        /// As it was added
        #[arg(value_name = "NAME")]
        name: String,
        /// The server's configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// Copy files and folders between this host and another, or between two others
///
/// SRC and DST are each one of
///   path                          on this host
///   [user@]host:path              reached over your own ssh
///   longhaul://host[:port]/path   behind a longhaul serve
/// or - for standard input, as SRC, or standard output, as DST.
///
/// As with rsync, a folder with a trailing slash stands for what is in it. Files that are
/// already there are skipped, and an interrupted copy goes on where it stopped when the same
/// command is run again. Every file is verified before it takes its place.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, override_usage = CP_USAGE, after_help = CP_EXAMPLES)]
pub struct CpArgs {
    /// What to copy, and last where to
    #[arg(value_names = ["SRC", "DST"], required_unless_present = "plan", conflicts_with = "plan", num_args = 1..)]
    pub paths: Vec<OsString>,

    /// Copy a part of what longhaul plan has put into RUN; how, is what the plan says
    #[arg(long, value_name = "RUN", conflicts_with_all = HOW, help_heading = PLANNED)]
    pub plan: Option<PathBuf>,
    /// Which, from 0 [default: LONGHAUL_PART, or what Slurm or Kubernetes count]
    #[arg(long, value_name = "I", requires = "plan", help_heading = PLANNED)]
    pub part: Option<u32>,

    /// Between two other hosts: file with the token of DST's server, if it is another one
    #[arg(long, value_name = "FILE", help_heading = REACH)]
    pub dest_token_file: Option<PathBuf>,
    /// Between two other hosts: have the data go through this one, where no port is open
    #[arg(long, value_enum, value_name = "HOST", help_heading = REACH)]
    pub via: Option<Via>,

    /// Keep figures of the copy in this file, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub metrics_file: Option<PathBuf>,
    /// Write a qlog of what it does, moment by moment, for longhaul trace
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub trace: Option<PathBuf>,

    /// How to copy, and what to say of it.
    #[command(flatten)]
    pub flags: CopyFlags,
}

/// How to copy, and what to say of it.
#[derive(Args, Debug)]
pub struct CopyFlags {
    /// Leave out what matches, as in a .gitignore; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = FILES)]
    pub exclude: Vec<String>,
    /// Copy only what this file lists, one path a line, relative to each SRC (-: standard input)
    #[arg(long, value_name = "FILE", help_heading = FILES)]
    pub files_from: Option<PathBuf>,
    /// Compare contents, not only size and time, before a file counts as already there
    #[arg(long, help_heading = FILES)]
    pub checksum: bool,
    /// Take over what is equal in files that are replaced
    #[arg(
        long,
        value_parser = deltas(),
        value_name = "WHEN",
        default_value = "auto",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always",
        help_heading = FILES
    )]
    pub delta: Delta,
    /// What is kept of files beyond contents, permissions and times.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Remove from DST what the sources do not have
    #[arg(long, help_heading = FILES)]
    pub delete: bool,
    /// Name what would be copied and, with --delete, removed, and change nothing
    #[arg(long, help_heading = FILES)]
    pub dry_run: bool,
    /// Have the receiver bring all to its disk, names and folders too, before the copy ends
    #[arg(long, overrides_with = "no_fsync", help_heading = FILES)]
    pub fsync: bool,
    /// Leave that to the receiving system [default: for files of up to 1 MiB]
    #[arg(long, overrides_with = "fsync", help_heading = FILES)]
    pub no_fsync: bool,
    /// Continue what an interrupted run left [default]
    #[arg(long, overrides_with = "no_resume", help_heading = FILES)]
    pub resume: bool,
    /// Start every file over
    #[arg(long, overrides_with = "resume", help_heading = FILES)]
    pub no_resume: bool,

    /// Never send faster: 800mbit, 50MB/s (bytes), '08:00-18:00 200mbit, 2gbit'
    #[arg(long, value_parser = parse_rates, help_heading = SPEED)]
    pub rate: Option<Schedule>,
    /// What carries the data
    #[arg(long, value_parser = transports(), value_name = "NAME", default_value = "auto", help_heading = SPEED)]
    pub transport: Transport,
    /// TCP connections to carry it with where UDP does not: a number up to 64, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams, help_heading = SPEED)]
    pub streams: Streams,
    /// The sender's congestion control for them, such as reno [default: cubic]
    #[arg(long, value_name = "NAME", value_parser = non_blank, help_heading = SPEED)]
    pub congestion: Option<String>,
    /// What decides how fast to send over UDP
    ///
    /// The default suits every path; fixed and greedy are for one that is yours. The others are
    /// there to compare with: first those that set a rate, then those that keep a window as TCP.
    #[arg(
        long,
        value_parser = controllers(),
        value_name = "NAME",
        default_value = "adaptive",
        help_heading = SPEED,
        verbatim_doc_comment
    )]
    pub control: ControllerKind,
    /// Keep waits in routers with L4S to a millisecond; the same as --control prague
    #[arg(long, conflicts_with = "control", help_heading = SPEED)]
    pub l4s: bool,
    /// Yield to all other traffic on the path; over TCP, which cannot, use a single connection
    #[arg(long, help_heading = SPEED)]
    pub background: bool,
    /// Mark the packets of both sides: a number up to 63, or le, ef, cs0 to cs7, af11 to af43
    #[arg(long, value_name = "VALUE", help_heading = SPEED)]
    pub dscp: Option<Dscp>,
    /// Whose traffic it is.
    #[command(flatten)]
    pub tag: TagArgs,
    /// Give up when the other side or the path has been silent for so long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration, help_heading = SPEED)]
    pub stall_timeout: Duration,
    /// Try again so many times, or forever, when the far side is away or the path broke
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_retries, hide_default_value = true,
          help_heading = SPEED)]
    pub retry: Retries,

    /// New packets per acknowledgement (F) [default: as goes with --control]
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(1..), help_heading = FOBS)]
    pub ack_every: Option<u32>,
    /// Packets sent between two looks for an acknowledgement (B) [default: chosen by rate]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..), help_heading = FOBS)]
    pub batch: Option<u32>,
    /// UDP payload bytes per datagram [default: the largest that passes, probed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(256..=65507), help_heading = FOBS)]
    pub packet_size: Option<u16>,
    /// Which unacknowledged packet goes next [default: as goes with --control]
    #[arg(long, value_parser = selectors(), value_name = "NAME", help_heading = FOBS)]
    pub select: Option<SelectorKind>,

    /// How to reach the other host.
    #[command(flatten)]
    pub reach: ReachArgs,

    /// What to say of it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to say of a copy.
#[derive(Args, Debug)]
pub struct OutputArgs {
    /// Say why this transport and pace, and what limited the copy over time
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub why: bool,
    /// Print one JSON object on the last line of standard output, whatever happens
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "object",
        overrides_with = "json",
        help_heading = OUTPUT
    )]
    pub json: Option<JsonForm>,
    /// Print errors only
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
    /// When to show progress: a bar on a terminal, lines elsewhere
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = OUTPUT)]
    pub progress: When,
}

/// What is printed for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JsonForm {
    /// The outcome alone
    Object,
    /// A line each second as well, with how far it is
    Lines,
}

impl CopyFlags {
    /// What decides how fast to send over UDP.
    pub fn control(&self) -> ControllerKind {
        if self.l4s { ControllerKind::Prague } else { self.control }
    }
}

/// One of these values, each with its name and what it is for.
fn one_of<T>(
    values: impl IntoIterator<Item = (&'static str, T, &'static str)>,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values: Vec<_> = values.into_iter().collect();
    let names =
        PossibleValuesParser::new(values.iter().map(|(name, _, help)| PossibleValue::new(name).help(help)));
    names.map(move |given| values.iter().find(|(name, ..)| *name == given).expect("one of them").1)
}

fn controllers() -> impl TypedValueParser<Value = ControllerKind> {
    one_of(ControllerKind::ALL.iter().map(|kind| (kind.name(), *kind, kind.summary())))
}

fn selectors() -> impl TypedValueParser<Value = SelectorKind> {
    one_of(SelectorKind::ALL.map(|kind| (kind.name(), kind, kind.summary())))
}

fn transports() -> impl TypedValueParser<Value = Transport> {
    one_of([
        (
            "auto",
            Transport::Auto,
            "UDP unless it does not pass or TCP is much faster; changes midway where it must",
        ),
        ("object", Transport::Object, "Object packets over UDP"),
        ("stripe", Transport::Stripe, "Object packets over parallel TCP streams"),
        ("ssh", Transport::Ssh, "Object packets inside the ssh connection"),
    ])
}

fn deltas() -> impl TypedValueParser<Value = Delta> {
    one_of([
        ("auto", Delta::Auto, "Where the file is large and older"),
        ("always", Delta::Always, "Whenever there is a file"),
        ("never", Delta::Never, "Send every file that differs as a whole"),
    ])
}

/// Through which host data goes between two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// This one
    Here,
}

/// When to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// A bar, or a line every 5 s
    #[default]
    Auto,
    /// A bar, or a line every second
    Always,
    /// Not at all
    Never,
}

/// Serve folders to copy from and into
///
/// Listens on one port, TCP and UDP. With --root one folder: whoever has the token can read, and
/// unless --read-only write, below it and nowhere else; prints copy commands to paste on the other
/// host. With --config what the file says: users with tokens of their own, folders, rates, records.
/// Everything that travels is encrypted.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = SERVE_EXAMPLES)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["root", "config"])))]
pub struct ServeArgs {
    /// Folder to serve; s3://BUCKET/FOLDER for one of an object store (longhaul-store)
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Configuration to serve by; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to listen [default: port 7700 of every address]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub listen: Option<SocketAddr>,
    /// File with the token, as LONGHAUL_TOKEN in the environment [default: a fresh one, printed]
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub token_file: Option<PathBuf>,
    /// Let nobody copy into the folder
    #[arg(long, conflicts_with = "config")]
    pub read_only: bool,
    /// All copies together never faster than this, each way: 800mbit, 1.5gbit, 50MB/s
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "config")]
    pub max_rate: Option<Rate>,
    /// Memory for all copies together, beyond some 5 MiB that each takes [default: 128]
    #[arg(long, value_name = "MIB", value_parser = parse_memory)]
    pub memory_mib: Option<u64>,
    /// Tell metrics to Prometheus there, over HTTP
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub metrics: Option<SocketAddr>,
    /// Connect to hosts that clients name, for copies between the folder and those
    #[arg(long, conflicts_with = "config")]
    pub allow_third_party: bool,
    /// Connect there for clients that forward connections; may be given several times
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config")]
    pub allow_forward: Vec<Target>,
    /// As root: keep owners, devices and set-user-ID bits for clients that ask for it
    #[arg(long, conflicts_with = "config")]
    pub allow_super: bool,
    /// Addresses for clients that look for further paths [default: all of this host]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', conflicts_with = "config")]
    pub announce: Vec<IpAddr>,
    /// Do not give up what the server does not need
    #[arg(long)]
    pub no_sandbox: bool,
}

/// Find out what the path to a host can do
///
/// HOST is [user@]host, reached over your own ssh, or longhaul://host[:port] behind a longhaul
/// serve. Sends data that nobody keeps, by packets over UDP and by parallel TCP streams in turn,
/// and says what the path carried, what it lost, and what cp would take.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_help = PROBE_EXAMPLES)]
pub struct ProbeArgs {
    /// Where to
    #[arg(value_name = "HOST")]
    pub host: String,
    /// How long to send by each transport
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = parse_duration)]
    pub seconds: Duration,
    /// Probe this transport alone: object or stripe
    #[arg(long, value_parser = transports(), value_name = "NAME", default_value = "auto")]
    pub transport: Transport,
    /// Never send faster than this: 800mbit, 1.5gbit, 50MB/s
    #[arg(long, value_parser = parse_rate)]
    pub rate: Option<Rate>,

    /// How to reach the other host.
    #[command(flatten)]
    pub reach: ReachArgs,

    /// Say what happens as it happens
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub why: bool,
    /// Print one JSON object in place of the table, whatever happens
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Print the result and errors only
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
    /// When to show progress: a bar on a terminal, lines elsewhere
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = OUTPUT)]
    pub progress: When,
}

/// Read `data`, which is read-only, or `data=read-write`.
fn parse_grant(text: &str) -> Result<(String, Access), UnknownName> {
    let (name, access) = text.rsplit_once('=').unwrap_or((text, Access::ReadOnly.name()));
    Ok((name.into(), access.parse()?))
}

fn non_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("empty".into()) } else { Ok(text.into()) }
}

pub const PLANNED: &str = "Copies in parts";
const FILES: &str = "Files";
const SPEED: &str = "Speed";
const FOBS: &str = "Packets (for experiments; the defaults tune themselves)";
const REACH: &str = "Reaching the other host";
const OUTPUT: &str = "Output";

const TOP_EXAMPLES: &str = "\
Examples:
  longhaul cp big.tar far.example.org:data/     over ssh, nothing to install there
  longhaul serve --root /data                   prints the cp line for the other host
  longhaul demo                                 see it beside kernel TCP, in a minute
  longhaul sim list                             the papers' experiments, to be rerun

Exit status: 0 done and verified, 1 failed, 2 wrong usage, 130 interrupted.";

const CP_USAGE: &str = "\
longhaul cp [OPTIONS] <SRC>... <DST>
       longhaul cp [OPTIONS] --plan <RUN> [--part <I>]";

const CP_EXAMPLES: &str = "\
Examples:
  longhaul cp run7/ far.example.org:archive/run7       what is in run7, into archive/run7 there
  longhaul cp me@far.example.org:'results' .           the folder results, to here
  longhaul cp --rate 800mbit a.h5 b.h5 far:in/         leave room for others
  longhaul cp longhaul://far.example.org/set.tar .     from a longhaul serve (LONGHAUL_TOKEN=...)
  longhaul cp -a rootfs/ root@far:rootfs               owners, ACLs, hard links and devices too
  longhaul cp one.example.org:set.tar two.example.org:in/     from one to the other, directly
  longhaul cp --why --json big.tar far: | tail -1      the story on stderr, the figures as JSON
  tar c run7 | longhaul cp - far:run7.tar              a pipe; far:run7.tar - brings it back

Exit status: 0 done and verified, 1 failed, 2 wrong usage, 130 interrupted. After 1 and 130 what
has arrived is kept: run the same command again to go on.";

const SERVE_EXAMPLES: &str = "\
Examples:
  longhaul serve --root /data                                  fresh token, both ways
  longhaul serve --root /data --read-only --max-rate 2gbit     a mirror to fetch from
  longhaul serve --root /in --token-file ~/.longhaul-token     the same token every time
  longhaul serve --config /etc/longhaul/serve.toml             users, folders, limits

LONGHAUL_LOG sets what is logged to standard error (error, warn, info, debug, trace).";

const USER_EXAMPLES: &str = "\
Examples:
  longhaul user add alice --config serve.toml                        all folders, read-only
  longhaul user add bob --config serve.toml --folder in=write-only   a drop box
  longhaul user revoke alice --config serve.toml && systemctl reload longhaul";

const PROBE_EXAMPLES: &str = "\
Examples:
  longhaul probe far.example.org                     over ssh, nothing to install there
  longhaul probe longhaul://far.example.org          behind a longhaul serve (LONGHAUL_TOKEN=...)
  longhaul probe --json far | jq .available_mbps     for programs

Sends up to what the path carries for twice the time of --seconds; --rate bounds it.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul
  longhaul completions zsh > ~/.zfunc/_longhaul
  longhaul completions fish > ~/.config/fish/completions/longhaul.fish";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    #[test]
    fn every_command_in_the_documents_parses() {
        let commands = longhaul_testing::documents::commands();
        let ours = commands.iter().filter(|words| !crate::lab_program::COMMANDS.contains(&words[1].as_str()));
        let parsed =
            ours.map(|words| Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{words:?}: {error}")));
        assert!(parsed.count() > 15, "fewer than there are");
    }

    #[test]
    fn every_flag_that_a_sentence_of_the_documents_gives_to_a_command_is_there() {
        let commands = longhaul_testing::documents::mentioned_commands();
        let ours = commands.iter().filter(|words| !crate::lab_program::COMMANDS.contains(&words[1].as_str()));
        let known = ours.map(|words| match Cli::try_parse_from(words) {
            Err(error) if error.kind() == ErrorKind::UnknownArgument => panic!("{words:?}: {error}"),
            _ => {}
        });
        assert!(known.count() > 15, "fewer than there are");
    }

    fn cp(args: &[&str]) -> CpArgs {
        let line = ["longhaul", "cp"].iter().chain(args);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Cp(cp) => *cp,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_last_path_is_the_destination() {
        let args = cp(&["a", "b", "--json", "far:c"]);
        assert_eq!(
            (args.paths, args.flags.output.json),
            (vec!["a".into(), "b".into(), "far:c".into()], Some(JsonForm::Object))
        );
        assert_eq!(cp(&["--json", "--json=lines", "a", "b"]).flags.output.json, Some(JsonForm::Lines));
        assert!(Cli::try_parse_from(["longhaul", "cp"]).is_err());
    }

    #[test]
    fn a_part_of_a_plan_is_copied_as_the_plan_says() {
        let args = cp(&["--plan", "run", "--part", "3", "--json"]);
        assert_eq!((args.plan, args.part), (Some("run".into()), Some(3)));
        for more in
            ["--rate=1g", "-a", "--acls", "--numeric-ids", "--delete", "--token-file=t", "--no-resume", "a"]
        {
            assert!(Cli::try_parse_from(["longhaul", "cp", "--plan", "run", more]).is_err(), "{more}");
        }
    }

    #[test]
    fn of_resume_and_no_resume_the_last_counts() {
        assert!(!cp(&["a", "b"]).flags.no_resume);
        assert!(cp(&["--resume", "--no-resume", "a", "b"]).flags.no_resume);
        assert!(!cp(&["--no-resume", "--resume", "a", "b"]).flags.no_resume);
    }

    #[test]
    fn archive_stands_for_all_that_can_be_kept() {
        let kept = |args: &[&str]| cp(&[args, &["a", "b"]].concat()).flags.keep.preserve();
        assert!(!kept(&[]).is_any());
        assert_eq!(kept(&["-a"]), longhaul::Preserve::ARCHIVE);
        let one_by_one = ["-HXA", "--owner", "--group", "--devices", "--specials"];
        assert_eq!(kept(&one_by_one), kept(&["--archive"]));
        assert!(kept(&["-a", "--numeric-ids"]).numeric_ids);
    }

    #[test]
    fn names_are_those_of_the_library() {
        let defaults = longhaul::CopyOptions::default();
        let args = cp(&["a", "b"]).flags;
        assert_eq!((args.control, args.select), (defaults.control, None));
        assert_eq!(args.stall_timeout, defaults.stall_timeout);
        for kind in ControllerKind::ALL.iter().copied() {
            assert_eq!(cp(&["--control", kind.name(), "a", "b"]).flags.control(), kind);
        }
        assert_eq!(cp(&["--l4s", "a", "b"]).flags.control(), ControllerKind::Prague);
        for kind in SelectorKind::ALL {
            assert_eq!(cp(&["--select", kind.name(), "a", "b"]).flags.select, Some(kind));
        }
    }
}
