//! Reaching the other host.

use super::ssh;
use crate::api::{CopyOptions, Token};
use crate::daemon::token::client_key;
use crate::error::{Error, RequestError, SshError};
use crate::net::control::{ClientKey, Stream, tcp_stream};
use crate::net::link::PeerLink;
use crate::net::local::LocalEnd;
use crate::net::patient::Watch;
use crate::net::seal::Keys;
use crate::net::tcp::{CONTROL_MSS, new_socket};
use crate::net::udp::UdpSocket;
use socket2::Socket;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The other host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// A daemon.
    Daemon { host: String, port: u16 },
    /// Reached by ssh.
    Ssh { host: String },
}

impl Remote {
    /// A daemon is not reached without its token.
    pub fn check_token(&self, options: &CopyOptions) -> Result<(), RequestError> {
        if matches!(self, Remote::Daemon { .. }) {
            key_of(options)?;
        }
        Ok(())
    }

    /// Under which name a daemon is known.
    pub fn daemon_name(&self) -> Option<String> {
        match self {
            Remote::Daemon { host, port } => Some(format!("{host}:{port}")),
            Remote::Ssh { .. } => None,
        }
    }

    /// Under which name what is learnt of the path is kept.
    pub fn name(&self) -> &str {
        match self {
            Remote::Daemon { host, .. } => host,
            Remote::Ssh { host } => bare_host(host),
        }
    }
}

/// What a daemon is reached with.
pub fn key_of(options: &CopyOptions) -> Result<ClientKey, RequestError> {
    let token = options.token.as_ref().ok_or(RequestError::NoToken)?;
    Ok(client_key(Token::secret(token))?)
}

/// The host of `user@host`.
fn bare_host(host: &str) -> &str {
    host.rsplit('@').next().unwrap_or(host)
}

/// Random bytes that nobody can guess.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    crate::net::random::random().map_err(Error::Random)
}

/// What carries the handshake.
pub enum Channel {
    /// A TCP connection to a daemon.
    Tcp(TcpStream),
    /// The pipes of an ssh.
    Pipes(Stream),
}

/// A connection to the other host, before the handshake.
pub struct Connection {
    /// Both directions of it.
    pub channel: Channel,
    /// What it is opened with.
    pub key: Box<ClientKey>,
    /// Daemon: where its UDP port is.
    pub udp: Option<SocketAddr>,
    /// Others: where it may be besides the addresses that the other side tells.
    pub at: At,
    /// Ssh: the process.
    pub far: Option<ssh::FarSide>,
    /// Whether the control stream may carry the data.
    pub inside: Inside,
}

/// What a control stream may carry besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Nothing.
    Nothing,
    /// The data, where nothing else does.
    Data,
    /// The data, and nothing else may: wherever the other side says that it is, nobody is looked for there.
    DataAlone,
}

/// Where a host may be.
#[derive(Clone, Debug, Default)]
pub struct At {
    /// Known addresses.
    pub hosts: Vec<IpAddr>,
    /// A name to resolve.
    pub name: Option<String>,
    /// The UDP port, where that is known before the other side tells it.
    pub port: Option<u16>,
    /// Somebody else says so, who may be that host.
    pub is_hearsay: bool,
}

impl Connection {
    /// Both directions, ready for the handshake.
    pub fn into_stream(self, options: &CopyOptions) -> io::Result<Stream> {
        match self.channel {
            Channel::Tcp(socket) => tcp_stream(socket, connect_patience(options)),
            Channel::Pipes(stream) => Ok(stream),
        }
    }

    /// The TCP connection, if it is one.
    pub fn into_socket(self) -> Option<TcpStream> {
        match self.channel {
            Channel::Tcp(socket) => Some(socket),
            Channel::Pipes(_) => None,
        }
    }
}

fn connect_patience(options: &CopyOptions) -> Duration {
    options.stall_timeout.min(CONNECT_PATIENCE)
}

/// Reach the other host. Any of the flags `stops` ends what takes its time. `trying` is told where a daemon is tried.
pub fn connect(
    remote: &Remote,
    options: &CopyOptions,
    stops: &[Arc<AtomicBool>],
    trying: impl FnMut(SocketAddr),
) -> Result<Connection, Error> {
    match remote {
        Remote::Daemon { host, port } => {
            let socket = connect_tcp((host, *port), options, trying)?;
            let udp = socket.peer_addr()?;
            let key = Box::new(key_of(options)?);
            Ok(Connection {
                channel: Channel::Tcp(socket),
                key,
                udp: Some(udp),
                at: At::default(),
                far: None,
                inside: Inside::Nothing,
            })
        }
        Remote::Ssh { host } => {
            let watch = Watch::new(stops);
            let args = ports_argument(options);
            let mut far = ssh::start(&options.ssh_command, host, options.deploy, &args, watch)?;
            let mut stream = far.stream.take().ok_or(SshError::NoPipes)?;
            // The key travels inside ssh; the agent reads it before anything else.
            let psk: [u8; 32] = random()?;
            let broke = |source| SshError::Broke { host: host.clone(), during: "", source };
            stream.writer.write_all(&psk).map_err(broke)?;
            let name = bare_host(host).to_string();
            Ok(Connection {
                channel: Channel::Pipes(stream),
                key: Box::new(psk.into()),
                udp: None,
                at: At { name: Some(name), ..At::default() },
                far: Some(far),
                inside: Inside::Data,
            })
        }
    }
}

/// What an agent is told of the ports that it may use.
pub fn ports_argument(options: &CopyOptions) -> String {
    options.ports.as_ref().map(|p| format!("--ports {}-{}", p.start(), p.end())).unwrap_or_default()
}

fn connect_tcp(
    (host, port): (&str, u16),
    options: &CopyOptions,
    mut trying: impl FnMut(SocketAddr),
) -> Result<TcpStream, Error> {
    let (patience, local) = (connect_patience(options), options.bind.first());
    let addresses =
        (host, port).to_socket_addrs().map_err(|source| Error::UnknownHost { host: host.into(), source })?;
    let mut last = Error::NoAddress { host: host.into() };
    for address in addresses.filter(|to| local.is_none_or(|local| local.fits(to.ip()))) {
        trying(address);
        let socket = new_socket(address)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_mss(CONTROL_MSS)?;
        begin_at(local, &socket)?;
        match socket.connect_timeout(&address.into(), patience) {
            Ok(()) => return Ok(socket.into()),
            Err(source) => last = Error::Unreachable { host: host.into(), port, source },
        }
    }
    Err(last)
}

/// Have a socket begin where the user says.
fn begin_at(local: Option<&LocalEnd>, socket: &Socket) -> Result<(), Error> {
    let Some(local) = local else { return Ok(()) };
    local.bind(socket).map_err(|source| Error::Begin { local: local.to_string(), source })
}

/// "Any address" of the peer's family.
pub fn unspecified(peer: SocketAddr) -> SocketAddr {
    let ip =
        if peer.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    SocketAddr::new(ip, 0)
}

/// Where a host may be reached: the addresses that it told, and others where it may be.
pub fn candidates(mut hosts: Vec<IpAddr>, port: u16, at: &At) -> Vec<SocketAddr> {
    hosts.extend(&at.hosts);
    let named = at.name.as_deref().and_then(|name| (name, port).to_socket_addrs().ok()).into_iter().flatten();
    hosts.extend(named.map(|address| address.ip()));
    let mut peers: Vec<SocketAddr> = vec![];
    for host in hosts {
        let peer = SocketAddr::new(host, port);
        if peers.len() < CANDIDATES_MAX && !peers.contains(&peer) {
            peers.push(peer);
        }
    }
    peers
}

/// Over UDP to whichever of these answers, from where the user says. Without any it stays silent.
pub fn open_link(
    mut peers: Vec<SocketAddr>,
    local: Option<&LocalEnd>,
    early: Keys,
) -> Result<PeerLink, Error> {
    peers.retain(|peer| local.is_none_or(|local| local.fits(peer.ip())));
    let any = match peers.first() {
        Some(first) if peers.iter().all(SocketAddr::is_ipv4) => unspecified(*first),
        Some(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        None => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
    };
    let socket = socket_at(local, any)?;
    Ok(PeerLink::open(socket, peers, early)?)
}

/// A socket for datagrams from where the user says, or else from `any` address.
pub fn socket_at(local: Option<&LocalEnd>, any: SocketAddr) -> Result<UdpSocket, Error> {
    let Some(local) = local else { return Ok(UdpSocket::bind(any, false)?) };
    UdpSocket::bind_at(local, any).map_err(|source| Error::Begin { local: local.to_string(), source })
}

/// Each gets what the path is looked at with. A host has a few addresses; more are no host's.
const CANDIDATES_MAX: usize = 8;
/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);
