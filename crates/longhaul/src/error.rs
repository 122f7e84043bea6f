//! Why a copy, a probe or a server ended before its time. None of these speaks of flags: a program that has them
//! adds which one helps.

mod plan;

pub use plan::PlanError;

use crate::files::{FileError, PatternError};
use crate::listing::ListingError;
use crate::net::control::HandshakeError;
use crate::net::tcp_set::StreamError;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::forward::Target;
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::transport::Transport;
use longhaul_proto::wire::{MAX_DATAGRAM_LEN, MIN_DATAGRAM_LEN};
use longhaul_stripe::pump::PumpError;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why a copy could not be done (a copy in which single files failed is a [`Summary`](crate::Summary) with `ok` false).
/// What has arrived is kept, and the same request made again goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The plan of a copy is of no use, or there is nothing in it to do.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The user stopped it.
    #[error("interrupted; run the same command again to continue")]
    Interrupted,
    /// The host's name means nothing.
    #[error("cannot find the host {host:?}: {source}; check its name")]
    UnknownHost {
        /// As it was given.
        host: String,
        /// The resolver's answer.
        source: io::Error,
    },
    /// The host's name has no address.
    #[error("the host {host:?} has no address")]
    NoAddress {
        /// As it was given.
        host: String,
    },
    /// No connection can begin where it is to.
    #[error(
        "no connection can begin at {local}: {source}; name an address or a network interface of this host"
    )]
    Begin {
        /// As it was named.
        local: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// No connection to a daemon comes about.
    #[error(
        "cannot reach {host} port {port}: {source}; is `longhaul serve` running there, and the port open?"
    )]
    Unreachable {
        /// As it was given.
        host: String,
        /// Its TCP port.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// The other side did not accept.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The program at the far end of an ssh says nothing.
    #[error(
        "longhaul began on {host} and did not answer ({what}); the reason should stand above; where none does, install \
         longhaul {} there",
        env!("CARGO_PKG_VERSION")
    )]
    AgentSilent {
        /// The host.
        host: String,
        /// What happened instead.
        what: &'static str,
    },
    /// The far end of an ssh did not come about.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// UDP does not pass.
    #[error(
        "UDP does not pass between the two hosts (no answer in {} s; local port {local_port}); open the server's UDP port \
         in the firewalls between them, or let TCP carry the data",
        waited.as_secs()
    )]
    UdpBlocked {
        /// How long nothing came.
        waited: Duration,
        /// The UDP port here.
        local_port: u16,
    },
    /// No datagram of the size that was asked for passes.
    #[error(
        "no UDP datagrams of {size} bytes pass between the two hosts (no answer in {} s): leave the size open, and the \
         largest that pass are found, unless UDP does not pass at all",
        waited.as_secs()
    )]
    SizeBlocked {
        /// UDP payload, bytes.
        size: u16,
        /// How long nothing came.
        waited: Duration,
    },
    /// No TCP connection for data comes about.
    #[error("no further TCP connection comes about between the two hosts: {reason}")]
    TcpBlocked {
        /// Why, in a line.
        reason: String,
    },
    /// No data got through, although the other side is there.
    #[error("no data got through for {} s; what arrived is kept, run the same command again to continue", after.as_secs())]
    Stalled {
        /// For so long.
        after: Duration,
    },
    /// The other side said nothing.
    #[error(
        "the other side has been silent for {} s; what arrived is kept, run the same command again to continue",
        after.as_secs()
    )]
    Silent {
        /// For so long.
        after: Duration,
    },
    /// The control stream ended.
    #[error("the other side went away; what arrived is kept, run the same command again to continue")]
    PeerLeft,
    /// The other side gave up.
    #[error("{0}")]
    Peer(Reason),
    /// The other side takes no connections of other programs.
    #[error(
        "{host} forwards no connections ({what}); is it `longhaul serve` of this release, and the right port?"
    )]
    NoForward {
        /// The host.
        host: String,
        /// What happened instead.
        what: String,
    },
    /// The port of an agent cannot be reached.
    #[error(
        "port {port} of {host} cannot be reached: {source}; open a port there, or let ssh itself forward (ssh -L)"
    )]
    PortClosed {
        /// The host.
        host: String,
        /// Its TCP port.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// A forwarded connection was cut.
    #[error("{target}: a connection broke off after {out} bytes there and {back} back: {why}")]
    BrokenForward {
        /// Where it led.
        target: Target,
        /// Bytes that were passed on to there.
        out: u64,
        /// Bytes that came from there.
        back: u64,
        /// Why.
        why: PumpError,
    },
    /// Something went wrong with one of two other hosts.
    #[error("{host}: {source}")]
    At {
        /// As it was given.
        host: String,
        /// What.
        source: Box<Error>,
    },
    /// Of two other hosts neither reaches the other.
    #[error(
        "neither of the two hosts reaches the other ({there}; {back}); open a port between them, or have the data go by way of \
         this host"
    )]
    NoWay {
        /// Why not from the source's host to the destination's.
        there: String,
        /// Why not the other way.
        back: String,
    },
    /// Of two daemons neither connects to hosts that its users name.
    #[error(
        "neither of the two daemons connects to hosts that its users name; have one of them allow it, or have the data go by way \
         of this host"
    )]
    NobodyConnects,
    /// A host has a longhaul that knows nothing of copies between two other hosts.
    #[error("the longhaul there is too old for a copy between two other hosts; install this release there")]
    TooOld,
    /// The server has no place for another copy.
    #[error("{0}")]
    Busy(Reason),
    /// Files cannot be listed, read or stored.
    #[error(transparent)]
    Files(#[from] FileError),
    /// There is nothing to copy.
    #[error("{0}")]
    Empty(Reason),
    /// What goes through a pipe cannot be passed on or stored.
    #[error("{0}")]
    Pipe(Reason),
    /// A list of files is of no use.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// More sources or patterns than fit a request.
    #[error("too many sources or patterns for one request; copy them in several")]
    OfferTooLong,
    /// The other side does not keep to the protocol.
    #[error("the other side {0}")]
    Protocol(&'static str),
    /// Neither transport works: why.
    #[error("{}", each(.0))]
    NoTransport(Vec<Error>),
    /// What a server is to go by makes no sense.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// An address cannot be listened at.
    #[error("cannot listen at {listen}; is the port taken, or below 1024?: {source}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// No UDP port can be had.
    #[error("{}", no_port(ports))]
    NoPort {
        /// Those that were allowed, if not all were.
        ports: Option<RangeInclusive<u16>>,
    },
    /// Whoever connected does not speak as longhaul does.
    #[error("not a longhaul client ({0})")]
    Stranger(io::Error),
    /// Ssh brought no key.
    #[error("no key came over stdin: {0}")]
    NoKey(io::Error),
    /// Whoever connected is no TCP stream of a copy under way.
    #[error(transparent)]
    Join(#[from] StreamError),
    /// A socket of ours failed.
    #[error("the network socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The system has no threads to give.
    #[error("no thread can be started: {0}; try again later")]
    Threads(io::Error),
    /// The system gives no random bytes.
    #[error(transparent)]
    Random(io::Error),
    /// A thread ended without a word.
    #[error("longhaul panicked: please report this bug")]
    Panicked,
}

impl Error {
    /// What kind of failure it is: the same whichever side it happened on.
    pub fn cause(&self) -> Cause {
        match self {
            Error::Request(_) | Error::OfferTooLong | Error::Policy(_) => Cause::Request,
            Error::Interrupted | Error::Plan(PlanError::Interrupted) => Cause::Interrupted,
            Error::Plan(PlanError::InUse { .. }) => Cause::InUse,
            Error::UnknownHost { .. } | Error::NoAddress { .. } | Error::Unreachable { .. } => {
                Cause::Unreachable
            }
            Error::Handshake(error) => match error {
                HandshakeError::WrongKey => Cause::WrongToken,
                HandshakeError::WrongVersion { .. } => Cause::WrongVersion,
                HandshakeError::Refused(reason) => reason.cause,
                _ => Cause::Unreachable,
            },
            Error::AgentSilent { .. } | Error::NoForward { .. } => Cause::Unreachable,
            // What else is wrong with ssh, or over there, does not pass.
            Error::Ssh(SshError::Login { .. } | SshError::NoShell { .. } | SshError::Broke { .. }) => {
                Cause::Unreachable
            }
            Error::NoPort { .. } => Cause::NoPort,
            Error::UdpBlocked { .. } => Cause::UdpBlocked,
            Error::SizeBlocked { .. } => Cause::SizeBlocked,
            Error::TcpBlocked { .. } | Error::PortClosed { .. } => Cause::TcpBlocked,
            Error::Stalled { .. } | Error::Silent { .. } => Cause::Silent,
            Error::PeerLeft | Error::BrokenForward { .. } => Cause::PeerLeft,
            Error::Peer(reason) | Error::Empty(reason) | Error::Busy(reason) | Error::Pipe(reason) => {
                reason.cause
            }
            Error::Listing(ListingError::Unreadable(reason)) => reason.cause,
            Error::Files(error) => error.cause(),
            Error::At { source, .. } => source.cause(),
            Error::NoWay { .. } => Cause::Unreachable,
            Error::NobodyConnects => Cause::Refused,
            Error::TooOld => Cause::WrongVersion,
            Error::NoTransport(errors) => errors.first().map_or(Cause::Other, Error::cause),
            _ => Cause::Other,
        }
    }

    /// As it is told to the other side.
    pub(crate) fn reason(&self) -> Reason {
        Reason::new(self.cause(), self)
    }

    /// What breaks once a stop was asked for, such as an ssh that took the same Ctrl-C, broke by that.
    pub(crate) fn unless_stopped(self, stop: &AtomicBool) -> Error {
        if stop.load(Ordering::Relaxed) { Error::Interrupted } else { self }
    }
}

fn each(errors: &[Error]) -> String {
    let mut lines: Vec<String> = errors.iter().map(Error::to_string).collect();
    lines.dedup();
    lines.join("; ")
}

fn no_port(ports: &Option<RangeInclusive<u16>>) -> String {
    match ports {
        Some(ports) => format!("no UDP port from {} to {} is free", ports.start(), ports.end()),
        None => "the far side has no UDP".into(),
    }
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A place cannot be read.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Of several sources some are on this host, and the destination is on another.
    #[error("all sources must be on the same host: here, or all on one other")]
    SourcesHereAndThere,
    /// Data is to go inside ssh from one other host to another.
    #[error("between two other hosts no ssh carries the data; have it go by way of this one")]
    NoSshBetween,
    /// What carries the data by way of this host is settled.
    #[error("what goes by way of this host goes inside the connections to the two hosts: name no transport")]
    TransportOfRelay,
    /// What goes over this host's addresses is named, and nothing of the data does.
    #[error("where this host sends from has no say in a copy between two other hosts")]
    EndsOfBetween,
    /// The flows of a copy are to be told from here, and none of them is this host's.
    #[error(
        "a copy between two other hosts has no flow here to tell a collector of: their daemons can be told of one"
    )]
    FlowsOfBetween,
    /// Data is to go by way of this host, and one side is this host.
    #[error("data goes by way of this host only where both sides are other hosts")]
    NothingToRelay,
    /// A second token is given, and there are no two daemons.
    #[error("the token of a destination is for a copy from one other host to a daemon")]
    NoOtherDaemon,
    /// A pipe is one of several sources.
    #[error("a pipe is copied by itself: name no other source")]
    PipeAndFiles,
    /// An option about files, with a pipe, which is a stream of bytes.
    #[error("a pipe is a stream of bytes: the option {0} goes with files only")]
    NotWithPipe(&'static str),
    /// Connections are to go to this host.
    #[error("connections go to another host: [user@]host or longhaul://host[:port]")]
    NoHost,
    /// Both sides are this host.
    #[error("one side must be another host: host:path or longhaul://host/path")]
    BothLocal,
    /// No source is named.
    #[error("nothing to copy: name at least one source")]
    NoSource,
    /// The sources are on several hosts.
    #[error("all sources must be on the same host")]
    SeveralHosts,
    /// Data is to go inside ssh to a host that is not reached by it.
    #[error("ssh carries data only to a host reached by ssh, as in host:path")]
    NoSsh,
    /// The kernel has no such congestion control, or does not give it.
    #[error("{0}")]
    Congestion(io::Error),
    /// The controller keeps a rate, and none is named.
    #[error("the controller {} needs the rate to keep", .0.name())]
    NeedsRate(ControllerKind),
    /// The controller yields to nobody, and the copy is to run in the background.
    #[error("the controller {} yields to nobody; in the background use {}", .0.name(), ControllerKind::yielding())]
    NeverYields(ControllerKind),
    /// What the source has not is to be removed, and only a part of the source is named.
    #[error(
        "what a whole tree has not can be removed, and the list of files names a part of one; leave one of the two out"
    )]
    DeleteWithList,
    /// No datagram has this size.
    #[error("datagrams have {MIN_DATAGRAM_LEN} to {MAX_DATAGRAM_LEN} bytes")]
    PacketSize,
    /// Something is said of TCP connections that are not opened.
    #[error("the number and the congestion control of TCP connections say nothing where none is opened")]
    NoTcp {
        /// What opens none.
        transport: Transport,
        /// It is their number that is named (else their congestion control).
        is_number: bool,
    },
    /// A daemon is not reached without its token.
    #[error("longhaul:// needs the daemon's token")]
    NoToken,
    /// The daemon's token was not copied whole.
    #[error(transparent)]
    DamagedToken(#[from] DamagedToken),
    /// The command that stands in for ssh is empty.
    #[error("the command that reaches a host is empty")]
    NoSshCommand,
    /// A pattern of files to leave out makes no sense.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// A path to this host cannot be probed.
    #[error("{} is on this host; name another: HOST or longhaul://HOST", .0.display())]
    ProbeOfThisHost(PathBuf),
}

/// A line that begins as a user's token does and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is damaged: copy all {len} characters of it")]
pub struct DamagedToken {
    /// Characters that a token has.
    pub len: usize,
}

/// Why a server cannot go by a [`Policy`](crate::daemon::policy::Policy).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A folder cannot be served.
    #[error("cannot serve {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A secret of one's own can be guessed.
    #[error("a token of fewer than {min} characters can be guessed; use a long random one")]
    WeakToken {
        /// Characters that it must have.
        min: usize,
    },
    /// Two users have one name.
    #[error("there are two users of the name {name}")]
    TwoUsers {
        /// The name.
        name: String,
    },
    /// Two users have one token.
    #[error("{name} has the same token as another user")]
    TwoTokens {
        /// The second.
        name: String,
    },
    /// Users have tokens of their own, and the server has nothing to prove to be itself with.
    #[error("tokens of users need a server with an identity")]
    NoIdentity,
    /// The system gives no random bytes.
    #[error(transparent)]
    Random(io::Error),
}

/// Why something is no [`Location`](crate::Location).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// It is empty.
    #[error("an empty path names nothing; use . for this folder")]
    Empty,
    /// An address in brackets has no end.
    #[error("{0:?}: an address in brackets ends with ]:, as in [2001:db8::1]:path")]
    OpenBracket(OsString),
    /// Nothing stands before the colon.
    #[error("{0:?}: there is no host name before the colon")]
    NoHostBeforeColon(OsString),
    /// Ssh would take the host or the user for an option.
    #[error("{0:?}: a host name cannot begin with '-'")]
    BeginsWithDash(OsString),
    /// The home folder of somebody else is named.
    #[error(
        "{0:?}: of home folders only one's own is known, as ~/; write another's whole path, and ./~name for a name that \
         begins with ~"
    )]
    OthersHome(OsString),
    /// The host name is not UTF-8.
    #[error("the host name is not UTF-8")]
    HostNotText,
    /// It looks like a URL of another kind.
    #[error("{0:?}: a daemon is longhaul://host/path, a host reached by ssh host:path or host:/path")]
    Scheme(OsString),
    /// No host follows the scheme.
    #[error("longhaul:// needs a host, as in longhaul://host/path")]
    NoHost,
    /// No host stands before the port of a collector.
    #[error("{0:?}: write HOST or HOST:PORT")]
    NoCollector(String),
    /// What stands behind the host's colon is no port.
    #[error("{0:?} is not a port (1 to 65535)")]
    Port(String),
}

impl From<LocationError> for Error {
    fn from(error: LocationError) -> Error {
        Error::Request(error.into())
    }
}

impl From<PatternError> for Error {
    fn from(error: PatternError) -> Error {
        Error::Request(error.into())
    }
}

/// Why the far end of an ssh did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshError {
    /// This program cannot be read.
    #[error("cannot read this program's own file: {0}")]
    OwnFile(io::Error),
    /// The ssh client cannot be started.
    #[error("cannot start {program:?}: {source}; install an ssh client or name another")]
    Start {
        /// Its name.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It has no stdin or stdout.
    #[error("the ssh process has no stdin or stdout")]
    NoPipes,
    /// Ssh itself failed.
    #[error("ssh could not reach {host} or log in there; try `ssh {host} true`")]
    Login {
        /// The host.
        host: String,
    },
    /// The shell over there does not run the command.
    #[error("the far side on {host} ended before it began; does `ssh {host} sh` work there?")]
    NoShell {
        /// The host.
        host: String,
    },
    /// The cache over there cannot be written.
    #[error("cannot put longhaul into {place} on {host}; install it there, or make room")]
    NoPlace {
        /// The host.
        host: String,
        /// The folder there.
        place: String,
    },
    /// What arrived over there is not the program that was sent.
    #[error(
        "longhaul did not arrive on {host} as it was sent (checked there by {check}); run the same command again, and if \
         that does not help, install longhaul there"
    )]
    Damaged {
        /// The host.
        host: String,
        /// The command that found out.
        check: String,
    },
    /// There is no longhaul, and it may not be put there.
    #[error("{host} has no longhaul {}, and none is to be put there; install it there", env!("CARGO_PKG_VERSION"))]
    NotThere {
        /// The host.
        host: String,
    },
    /// This program does not run there.
    #[error("{host} is {theirs}, this program is for {ours}; install longhaul there")]
    OtherSystem {
        /// The host.
        host: String,
        /// System and machine there.
        theirs: String,
        /// System and machine here.
        ours: String,
    },
    /// The connection broke.
    #[error("the connection to {host} broke{during}: {source}")]
    Broke {
        /// The host.
        host: String,
        /// Meanwhile.
        during: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}
