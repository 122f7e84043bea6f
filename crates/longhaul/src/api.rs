//! What a program that embeds longhaul deals with: where things are, how to copy them, what came of it.

use crate::authority::host_and_port;
use crate::error::LocationError;
use crate::live::LiveControl;
use crate::trace;
use longhaul_proto::session::message::several::PathStatus;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Port of `longhaul serve`, TCP and UDP.
pub const DEFAULT_PORT: u16 = 7700;

/// Where a file or folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this host.
    Local(PathBuf),
    /// What is read from this process's standard input, or written to its standard output. Never what a text is read as.
    Pipe,
    /// On a host reached by the user's own `ssh`: `[user@]host:path`.
    Ssh {
        /// `host` or `user@host`, handed to ssh as it is.
        host: String,
        /// Path there; relative to the home folder, for which `~/` stands too, unless it begins with `/`.
        path: Vec<u8>,
    },
    /// Behind a `longhaul serve`: `longhaul://host[:port]/path`.
    Daemon {
        /// Name or address (IPv6 without brackets).
        host: String,
        /// TCP and UDP port.
        port: u16,
        /// Path below the served root, without a leading slash.
        path: Vec<u8>,
    },
}

impl fmt::Display for Location {
    /// As it is read, but for bytes that are no text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host_text = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.into() };
        match self {
            Location::Local(path) => write!(f, "{}", path.display()),
            Location::Pipe => write!(f, "-"),
            Location::Ssh { host, path } => write!(f, "{host}:{}", String::from_utf8_lossy(path)),
            Location::Daemon { host, port, path } => {
                write!(f, "longhaul://{}:{port}/{}", host_text(host), String::from_utf8_lossy(path))
            }
        }
    }
}

impl Location {
    /// Read an argument the way scp and rsync do: `longhaul://…` is a daemon, `host:path` with a colon before any
    /// slash is ssh, everything else is local.
    pub fn parse(arg: &OsString) -> Result<Location, LocationError> {
        let bytes = arg.as_bytes();
        if let Some(rest) = bytes.strip_prefix(b"longhaul://") {
            return parse_daemon(rest);
        }
        let slash = bytes.iter().position(|b| *b == b'/').unwrap_or(bytes.len());
        match end_of_host(&bytes[..slash]) {
            Some(at) if is_scheme(&bytes[..at]) && bytes[at..].starts_with(b"://") => {
                Err(LocationError::Scheme(arg.clone()))
            }
            Some(at) if at > 0 => Ok(Location::Ssh {
                host: ssh_host(&bytes[..at], arg)?,
                path: far_path(&bytes[at + 1..], arg)?,
            }),
            _ if bytes.is_empty() => Err(LocationError::Empty),
            _ => Ok(Location::Local(PathBuf::from(OsString::from_vec(bytes.into())))),
        }
    }
}

/// Whether it can be what a URL begins with, and no host that is named in full.
fn is_scheme(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric)
}

/// Where the colon is that ends the host in `[user@]host:path`. A bracketed IPv6 address holds colons of its own:
/// `[user@][2001:db8::1]:path`.
fn end_of_host(bytes: &[u8]) -> Option<usize> {
    let colon = bytes.iter().position(|b| *b == b':')?;
    let host = bytes[..colon].iter().rposition(|b| *b == b'@').map_or(0, |at| at + 1);
    let bracket = bytes[host..].starts_with(b"[").then(|| bytes[host..].windows(2).position(|w| w == b"]:"));
    Some(bracket.flatten().map_or(colon, |bracket| host + bracket + 1))
}

/// The host as ssh takes it, which knows no brackets.
fn ssh_host(written: &[u8], arg: &OsString) -> Result<String, LocationError> {
    let written = std::str::from_utf8(written).map_err(|_| LocationError::HostNotText)?;
    let (user, host) = match written.rsplit_once('@') {
        Some((user, host)) => (format!("{user}@"), host),
        None => (String::new(), written),
    };
    let bare = host.strip_prefix('[').map(|rest| rest.strip_suffix(']'));
    let host = bare.unwrap_or(Some(host)).ok_or_else(|| LocationError::OpenBracket(arg.clone()))?;
    if host.is_empty() {
        return Err(LocationError::NoHostBeforeColon(arg.clone()));
    }
    if user.starts_with('-') || host.starts_with('-') {
        return Err(LocationError::BeginsWithDash(arg.clone()));
    }
    Ok(user + host)
}

/// A path on a host reached by ssh, where no shell looks at it: the agent begins in the home folder, which is all that
/// `~` can mean.
fn far_path(written: &[u8], arg: &OsString) -> Result<Vec<u8>, LocationError> {
    let path = match written.strip_prefix(b"~") {
        None => written,
        Some(b"") => b"",
        Some(below @ [b'/', ..]) => {
            let name = below.iter().position(|b| *b != b'/').unwrap_or(below.len());
            &below[name..]
        }
        Some(_) => return Err(LocationError::OthersHome(arg.clone())),
    };
    Ok(if path.is_empty() { b"." } else { path }.into())
}

fn parse_daemon(rest: &[u8]) -> Result<Location, LocationError> {
    let (authority, path) = match rest.iter().position(|b| *b == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    let authority = std::str::from_utf8(authority).map_err(|_| LocationError::HostNotText)?;
    let (host, port) = host_and_port(authority, DEFAULT_PORT)?;
    if host.is_empty() {
        return Err(LocationError::NoHost);
    }
    Ok(Location::Daemon { host: host.into(), port, path: path.into() })
}

/// A shared secret. It shows itself to nobody who prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl From<&str> for Token {
    fn from(secret: &str) -> Token {
        Token(secret.into())
    }
}

impl From<String> for Token {
    fn from(secret: String) -> Token {
        Token(secret)
    }
}

impl Token {
    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How to copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// What may carry the data.
    pub transport: Transport,
    /// TCP connections to carry it with where UDP does not; `None`: as many as turn out to be best.
    pub streams: Option<u16>,
    /// Name of the kernel's congestion control for them at the host that sends; `None`: CUBIC, or its usual one
    /// where it does not give that.
    pub congestion: Option<String>,
    /// What controls the rate.
    pub control: ControllerKind,
    /// Which packet goes next; `None`: the controller's own.
    pub select: Option<SelectorKind>,
    /// Never faster than this.
    pub rate: Option<Rate>,
    /// What `rate` says and a pause, to be changed while it copies. Where it is given it counts in place of `rate`.
    pub live: Option<Arc<LiveControl>>,
    /// Nor faster than this share of a rate that several copies have in common, in bit/s. Only where this side sends.
    pub shared_rate: Option<Arc<AtomicU64>>,
    /// Yield to all other traffic. Over TCP, which cannot, a single connection is used unless `streams` names more.
    pub background: bool,
    /// What the packets of both sides ask of routers; `None`: nothing, in the background to be last.
    pub dscp: Option<Dscp>,
    /// Whose traffic this is and what for, which the flow labels of IPv6 tell, and fireflies; `None`: what the server says of
    /// its user.
    pub scitag: Option<SciTag>,
    /// Is told of the flows that carry the data, if they have a tag.
    pub fireflies: Option<Collector>,
    /// New packets per acknowledgement (F in the FOBS paper); `None`: the controller's own.
    pub ack_every: Option<u32>,
    /// Packets sent between two looks for an acknowledgement (B in the FOBS paper).
    pub batch: Option<u32>,
    /// UDP payload bytes per datagram; `None` probes the path.
    pub packet_size: Option<u16>,
    /// How long peer or path may be silent.
    pub stall_timeout: Duration,
    /// About the files.
    pub files: FileOptions,
    /// Shared secret of the daemon.
    pub token: Option<Token>,
    /// That of the daemon which receives, in a copy between two other hosts, if it is another one.
    pub dest_token: Option<Token>,
    /// In a copy between two other hosts the data, too, goes by way of this one.
    pub via_here: bool,
    /// UDP ports that the program started over ssh may use.
    pub ports: Option<RangeInclusive<u16>>,
    /// What reaches a host: a command and its arguments before the host's name.
    pub ssh_command: Vec<OsString>,
    /// Put this program into the far side's cache where it has none.
    pub deploy: bool,
    /// Copy only these of each source, one path a line, relative to it.
    pub files_from: Option<Vec<PathBuf>>,
    /// Where what is learnt of paths is kept for later copies to the same hosts; `None` keeps nothing. Used by
    /// `pcp` when it sends.
    pub history: Option<PathBuf>,
    /// From when the seconds of remarks and of the summary count; `None`: from the call.
    pub began: Option<Instant>,
    /// Where on this host it sends from; nothing: wherever the way to the other host begins. Each further one is for a path
    /// of its own beside the first.
    pub bind: Vec<LocalEnd>,
    /// Over how many paths it goes.
    pub paths: Paths,
}

/// Over how many paths at a time a copy goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// One for each place that [`CopyOptions::bind`] names.
    #[default]
    One,
    /// All that are found between the addresses of this host, or those that `bind` names, and those of the other.
    Auto,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            transport: Transport::Auto,
            streams: None,
            congestion: None,
            control: ControllerKind::Adaptive,
            select: None,
            rate: None,
            live: None,
            shared_rate: None,
            background: false,
            dscp: None,
            scitag: None,
            fireflies: None,
            ack_every: None,
            batch: None,
            packet_size: None,
            stall_timeout: Duration::from_secs(60),
            files: FileOptions { resume: true, ..FileOptions::default() },
            token: None,
            dest_token: None,
            via_here: false,
            ports: None,
            ssh_command: vec!["ssh".into()],
            deploy: true,
            files_from: None,
            history: crate::history::default_file(),
            began: None,
            bind: vec![],
            paths: Paths::One,
        }
    }
}

impl CopyOptions {
    /// How fast it may go at this moment.
    pub fn rate_now(&self) -> Option<Rate> {
        self.live.as_ref().map_or(self.rate, |live| live.pace().rate)
    }

    /// Whether it is to send nothing now.
    pub(crate) fn is_paused(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.pace().paused)
    }
}

pub use crate::fireflies::{Collector, CollectorName};
pub use crate::net::local::LocalEnd;
pub use longhaul_proto::control::ControllerKind;
pub use longhaul_proto::dscp::Dscp;
pub use longhaul_proto::object::SelectorKind;
pub use longhaul_proto::scitag::{NoSciTag, SciTag};
pub use longhaul_proto::session::attributes::Preserve;
pub use longhaul_proto::session::limit::{Limit, LimitSpans};
pub use longhaul_proto::session::message::{Delta, FileFailure, FileOptions, Fsync, Pace};
pub use longhaul_proto::session::progress::{Phase, Progress};
pub use longhaul_proto::session::reason::{Cause, Reason};
pub use longhaul_proto::session::transport::{Carrier, Switch, Transport};
pub use longhaul_proto::session::truncated::Truncated;
pub use longhaul_proto::units::Rate;

/// One line of a copy's story: what was chosen, or what holds it back, and why.
#[derive(Clone, Debug)]
pub struct Remark {
    /// Seconds since [`CopyOptions::began`].
    pub at_seconds: f64,
    /// One line.
    pub text: String,
}

/// Where a copy tells what happens. All methods have an empty default.
pub trait Observer: Send {
    /// Ten times a second.
    fn progress(&mut self, _progress: &Progress) {}
    /// Why something was chosen, or what limits the transfer from now on.
    fn remark(&mut self, _remark: Remark) {}
    /// Something the user should know in any case.
    fn warning(&mut self, _line: &str) {}
    /// Twice a second while data moves: how it divides over paths and TCP streams.
    fn breakdown(&mut self, _breakdown: &Breakdown) {}
    /// Whether it makes anything of [`Observer::breakdown`]: else the system is not asked how each TCP stream does.
    fn wants_breakdown(&self) -> bool {
        true
    }
    /// A line of a trace.
    fn trace(&mut self, _record: trace::Record) {}
    /// Whether it makes anything of [`Observer::trace`]: else nothing is gathered for it.
    fn wants_trace(&self) -> bool {
        false
    }
}

/// An observer that ignores everything.
impl Observer for () {
    fn wants_breakdown(&self) -> bool {
        false
    }
}

/// What a path of a copy carried, as its sender saw it.
#[derive(Clone, Debug, Serialize)]
pub struct PathSummary {
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's.
    pub to: IpAddr,
    /// Data datagrams sent over it.
    pub packets_sent: u64,
    /// Share of them that it lost.
    pub loss: f64,
    /// Shortest round trip, milliseconds.
    pub rtt_ms_min: f64,
    /// Nothing came back over it at the end.
    pub is_silent: bool,
}

impl From<&PathStatus> for PathSummary {
    fn from(path: &PathStatus) -> PathSummary {
        PathSummary {
            from: path.from,
            to: path.to,
            packets_sent: path.packets_sent,
            loss: path.loss,
            rtt_ms_min: path.rtt_ns[0] as f64 / 1e6,
            is_silent: path.is_silent,
        }
    }
}

/// How a TCP stream of a copy does, as its host's kernel sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamSummary {
    /// This host's end.
    pub from: SocketAddr,
    /// The other one's.
    pub to: SocketAddr,
    /// Bytes sent and received over it.
    pub bytes: u64,
    /// Smoothed round trip, milliseconds.
    pub rtt_ms: f64,
}

/// How the data of a copy divides over paths and TCP streams.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Breakdown {
    /// Each path, where there are several, as the sender sees it.
    pub paths: Vec<PathSummary>,
    /// Each TCP stream that there is.
    pub streams: Vec<StreamSummary>,
}

/// What came of a copy. Serialised it is the JSON that the program prints.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Everything asked for is in place: what was copied is verified, what was skipped was there.
    pub ok: bool,
    /// What held it back for most of the time.
    pub limited_by: Limit,
    /// For how long each limit held; serialised in milliseconds.
    #[serde(rename = "limits_ms")]
    pub limits: LimitSpans,
    /// Files in the copy, with those skipped.
    pub files: u64,
    /// Of them, those that are in place: copied, or there before.
    pub files_in_place: u64,
    /// Entries that failed, of any kind; also sources that are not there.
    pub files_failed: u64,
    /// Data bytes of all files that are in place (with those skipped).
    pub bytes: u64,
    /// From [`CopyOptions::began`] to verified completion.
    pub seconds: f64,
    /// Data bytes moved by this run × 8 / seconds / 10⁶.
    pub goodput_mbps: f64,
    /// What carried most of the data.
    pub transport: Carrier,
    /// How each path did, where there were several.
    pub paths: Vec<PathSummary>,
    /// A copy between two other hosts whose data went by way of this one.
    pub relayed: bool,
    /// Name of the controller.
    pub control: String,
    /// Whether the data travelled sealed.
    pub encrypted: bool,
    /// Packets that this run had to deliver.
    pub packets_required: u64,
    /// Data datagrams sent.
    pub packets_sent: u64,
    /// (sent − required) / required, as in FOBS §5.
    pub waste: f64,
    /// Share of the sent datagrams that carried a packet sent before.
    pub retransmit_share: f64,
    /// Shortest round trip, milliseconds.
    pub rtt_ms_min: f64,
    /// Mean round trip, milliseconds.
    pub rtt_ms_mean: f64,
    /// Share of data datagrams lost on the path (receiver's own drops not counted).
    pub loss: f64,
    /// Datagrams dropped by the receiving host for want of buffer.
    pub receiver_drops: u64,
    /// UDP payload plus headers of the largest datagram that passed, bytes.
    pub path_mtu: u32,
    /// Bytes taken over from an interrupted run.
    pub resumed_bytes: u64,
    /// Bytes taken over from files that were replaced.
    pub delta_bytes: u64,
    /// Bytes of files that were already there.
    pub skipped_bytes: u64,
    /// Of `skipped_bytes`, those whose hashes were compared; the others were skipped by size and time.
    pub compared_bytes: u64,
    /// What `delete` removed, a folder with all in it as one; in a dry run what it would.
    pub removed: u64,
    /// TCP connections that carried data: how many in the end, 0 for none.
    pub streams: u32,
    /// Changes of what carries the data, in the order in which they came.
    pub switches: Vec<Switch>,
    /// The BLAKE3 hashes of all files compared equal: none was skipped by size and time alone.
    pub hash_verified: bool,
    /// All that is in place is on the receiving host's disk: it outlasts a power cut. Only where that was asked for.
    pub durable: bool,
    /// The first thing that went wrong.
    pub error: Option<String>,
    /// The first thousand files that failed, with the reason; `files_failed` counts all.
    #[serde(skip)]
    pub failures: Vec<FileFailure>,
    /// Paths of what `removed` counts.
    #[serde(skip)]
    pub removed_paths: Truncated<Vec<u8>>,
    /// In a dry run: files and links that would be copied.
    #[serde(skip)]
    pub to_copy: Truncated<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arg: &str) -> Location {
        Location::parse(&arg.into()).unwrap()
    }

    #[test]
    fn locations_read_like_scp_and_rsync() {
        assert_eq!(parse("a/b:c"), Location::Local("a/b:c".into()));
        assert_eq!(parse("./x:y"), Location::Local("./x:y".into()));
        assert_eq!(parse("me@far:d"), Location::Ssh { host: "me@far".into(), path: b"d".into() });
        assert_eq!(parse("me@far://d"), Location::Ssh { host: "me@far".into(), path: b"//d".into() });
        assert_eq!(parse("far:"), Location::Ssh { host: "far".into(), path: b".".into() });
        let ssh = |host: &str, path: &str| Location::Ssh { host: host.into(), path: path.into() };
        assert_eq!(parse("[::1]:d"), ssh("::1", "d"));
        assert_eq!(parse("me@[2001:db8::1]:a:b"), ssh("me@2001:db8::1", "a:b"));
        assert_eq!(parse("me@work@far:[x]:y@z"), ssh("me@work@far", "[x]:y@z"));
        let daemon =
            |host: &str, port, path: &str| Location::Daemon { host: host.into(), port, path: path.into() };
        assert_eq!(parse("longhaul://h/a/b"), daemon("h", 7700, "a/b"));
        assert_eq!(parse("longhaul://h:99"), daemon("h", 99, ""));
        assert_eq!(parse("longhaul://[::1]:99/"), daemon("::1", 99, ""));
        assert_eq!(parse("longhaul://[::1]/x"), daemon("::1", 7700, "x"));
    }

    #[test]
    fn a_tilde_is_the_home_folder_over_there() {
        let path = |arg: &str| match parse(arg) {
            Location::Ssh { path, .. } => String::from_utf8(path).unwrap(),
            other => panic!("{other:?}"),
        };
        for (arg, means) in [
            ("far:~", "."),
            ("far:~/", "."),
            ("far:~/data/", "data/"),
            ("far:~//etc", "etc"),
            ("far:./~/data", "./~/data"),
            ("far:data/~", "data/~"),
        ] {
            assert_eq!(path(arg), means, "{arg}");
        }
        assert!(Location::parse(&"far:~joe/data".into()).unwrap_err().to_string().contains("./~name"));
        assert_eq!(parse("~/data"), Location::Local("~/data".into()), "here the shell has the say");
    }

    #[test]
    fn bad_locations_say_why() {
        for arg in [
            "longhaul:///x",
            "longhaul://h:0x/",
            "longhaul://h:0/",
            "[]:x",
            "me@:x",
            "me@[::1",
            "-oProxyCommand=x:y",
            "me@-oProxyCommand=x:y",
            "longhual://h/x",
            "s3://bucket/x",
            "",
        ] {
            assert!(Location::parse(&arg.into()).is_err(), "{arg}");
        }
    }
}
