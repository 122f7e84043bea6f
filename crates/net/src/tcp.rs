//! TCP connections that carry bulk data: how their sockets are set up and opened, what the kernel tells
//! of them, and how many of them are best.

mod info;
mod opener;
mod tuner;

pub use info::TcpInfo;
pub use opener::Opener;
pub use tuner::{Progress, Survey, Tuner};

use crate::flow_label::labelled;
use crate::local::LocalEnd;
use longhaul_proto::scitag::SciTag;
use longhaul_proto::suggest;
use longhaul_proto::wire::BASE_DATAGRAM_LEN;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Once;
use std::time::{Duration, Instant};

/// How the sockets of connections that carry data are set up.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// Size of each socket's buffers in bytes, which bounds the TCP window; `None`: the kernel sizes them itself.
    pub window: Option<usize>,
    /// Name of the TCP congestion control; `None`: the host's usual one.
    pub congestion: Option<String>,
    /// Send small writes at once rather than wait for more.
    pub nodelay: bool,
    /// Bytes of a segment at most, both ways; `None`: what the path takes when the connection begins.
    pub mss: Option<u32>,
    /// What the flow label of its packets says, where it begins here and goes by IPv6.
    pub label: Option<SciTag>,
    /// A connection that gets nothing through for so long, while others do, is given up by whoever watches it.
    pub stall: Duration,
    /// A socket takes no more while so many bytes wait in it unsent: what waits there cannot go over another connection. On
    /// loopback less than 512 KiB costs speed.
    pub unsent_bytes: u32,
}

impl Default for TcpOptions {
    fn default() -> TcpOptions {
        TcpOptions {
            window: None,
            congestion: None,
            nodelay: true,
            mss: None,
            label: None,
            stall: Duration::from_secs(5),
            unsent_bytes: 512 << 10,
        }
    }
}

impl TcpOptions {
    /// A connected socket that begins at `local`, or else wherever the way to the other host does.
    pub fn dial(
        &self,
        local: Option<&LocalEnd>,
        address: SocketAddr,
        deadline: Instant,
    ) -> io::Result<TcpStream> {
        let socket = new_socket(address)?;
        self.set_up(&SockRef::from(&socket))?;
        local.map_or(Ok(()), |local| local.bind(&socket))?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let to = self.label.map_or(address, |tag| labelled(&socket, address, tag));
        socket.connect_timeout(&to.into(), left)?;
        Ok(socket.into())
    }

    /// Set up a socket; what must be known when a connection begins is inherited from a listener's.
    pub fn set_up(&self, socket: &SockRef<'_>) -> io::Result<()> {
        if let Some(bytes) = self.window {
            socket.set_send_buffer_size(bytes)?;
            socket.set_recv_buffer_size(bytes)?;
            let got = socket.send_buffer_size()?.min(socket.recv_buffer_size()?);
            if got < bytes {
                SMALL_BUFFERS.call_once(|| warn_of_small_buffers(bytes, got));
            }
        }
        if let Some(name) = &self.congestion {
            socket.set_tcp_congestion(name.as_bytes()).map_err(|error| no_such_congestion(name, error))?;
        }
        socket.set_tcp_nodelay(self.nodelay)?;
        if let Some(mss) = self.mss {
            socket.set_tcp_mss(mss)?;
        }
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
        // Whoever watches looks at connections that carry data; this ends the others.
        let user_timeout = self.stall.saturating_mul(USER_TIMEOUT_STALLS).min(USER_TIMEOUT_MAX);
        socket.set_tcp_user_timeout(Some(user_timeout))?;
        socket.set_tcp_notsent_lowat(self.unsent_bytes)
    }
}

/// A TCP socket of the address's family, neither bound nor connected.
pub fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
}

/// Bytes of a segment of a control stream, which carries little: its packets are no longer than those of the smallest
/// datagrams that the path check tries, so that it goes on where longer ones begin to vanish.
pub const CONTROL_MSS: u32 = (BASE_DATAGRAM_LEN as u32) - TCP_OVER_UDP;

/// Said once: it will be the same for every socket.
static SMALL_BUFFERS: Once = Once::new();

fn warn_of_small_buffers(asked: usize, got: usize) {
    tracing::warn!(
        "asked for socket buffers of {asked} bytes, got {got}; raise net.core.wmem_max and net.core.rmem_max"
    );
}

fn no_such_congestion(name: &str, error: io::Error) -> io::Error {
    let available = std::fs::read_to_string(AVAILABLE_CONGESTION).unwrap_or_default();
    let line = match error.raw_os_error() {
        Some(libc::ENOENT) => suggest::unknown("congestion control", name, available.split_whitespace()),
        _ => format!("cannot use the congestion control {name:?}: {error}"),
    };
    io::Error::new(io::ErrorKind::InvalidInput, line)
}

/// By so much TCP's header is longer than UDP's. Options count as part of a segment.
const TCP_OVER_UDP: u32 = 12;
const AVAILABLE_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// An idle connection is asked for after so long, so that what stands between the hosts does not forget it.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The kernel gives a connection up after so many stall timeouts: later than whoever watches it would.
const USER_TIMEOUT_STALLS: u32 = 6;
/// As much as the kernel takes, which counts milliseconds in 31 bits.
const USER_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);
