//! How a striped stream is set up.

use super::listener::StripedListener;
use super::stream::StripedStream;
use longhaul_proto::stripe::hello::LANES_MAX;
use longhaul_proto::suggest;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Once;
use std::time::{Duration, Instant};

pub use longhaul_proto::stripe::outgoing::Partition;

/// How many lanes a stream has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// As many as turn out to be best while data flows, remembered for each destination.
    #[default]
    Auto,
    /// So many.
    Fixed(u32),
}

/// How to open a [`StripedStream`] or a [`StripedListener`].
///
/// ```no_run
/// use longhaul::stripe::{StripeOptions, Streams};
/// let options = StripeOptions::new().streams(Streams::Fixed(8)).key(b"a secret that both sides know");
/// let stream = options.connect("far.example.org:7701")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StripeOptions {
    pub(super) streams: Streams,
    pub(super) partition: Partition,
    pub(super) window: Option<usize>,
    pub(super) congestion: Option<String>,
    pub(super) nodelay: bool,
    pub(super) key: Option<[u8; 32]>,
    pub(super) plain: bool,
    pub(super) buffer: u64,
    pub(super) connect_timeout: Duration,
    pub(super) patience: Duration,
    pub(super) stall: Duration,
    pub(super) remember: bool,
}

impl Default for StripeOptions {
    fn default() -> StripeOptions {
        StripeOptions {
            streams: Streams::Auto,
            partition: Partition::Auto,
            window: None,
            congestion: None,
            nodelay: true,
            key: None,
            plain: false,
            buffer: BUFFER_DEFAULT,
            connect_timeout: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            stall: Duration::from_secs(5),
            remember: true,
        }
    }
}

impl StripeOptions {
    /// Lanes as the path needs them, sealed, without a key.
    pub fn new() -> StripeOptions {
        StripeOptions::default()
    }

    /// How many lanes: [`Streams::Auto`] by default. A fixed number is at least 1 and at most 64. Each side counts for
    /// what it sends; there are never more lanes than both sides allow.
    pub fn streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// How what this side writes is spread over the lanes.
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partition = partition;
        self
    }

    /// Size of each socket's buffers in bytes, which bounds the TCP window. The kernel sizes them itself by default.
    pub fn window(mut self, bytes: usize) -> Self {
        self.window = Some(bytes);
        self
    }

    /// Name of the TCP congestion control to use, one of those that the kernel has.
    pub fn congestion(mut self, name: impl Into<String>) -> Self {
        self.congestion = Some(name.into());
        self
    }

    /// Send small writes at once rather than wait for more (the default).
    pub fn nodelay(mut self, on: bool) -> Self {
        self.nodelay = on;
        self
    }

    /// A secret that both sides know: only who knows it gets in or reads along. Without one, what travels is sealed, but
    /// nobody is told apart from somebody in the middle.
    pub fn key(mut self, secret: &[u8]) -> Self {
        self.key = Some(blake3::derive_key("longhaul stripe shared key v1", secret));
        self
    }

    /// Let data travel in clear. Both sides must say so. With a [`key`](Self::key) only who knows it gets in, but
    /// whoever is on the path can read and change what passes.
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Bytes held at most in each direction: written and not yet acknowledged, received and not yet read. 64 MiB by
    /// default, at least 1 MiB; on a long fat path no less than twice its bandwidth times its round trip.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.buffer = bytes.max(BUFFER_MIN);
        self
    }

    /// How long connecting may take, 10 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// For how long to try for a new lane when none is left, before the stream fails: 10 s by default. Also how long
    /// closing waits while nothing more of what was written gets through.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// A lane that gets nothing through for so long is given up and replaced: 5 s by default. On a path with
    /// round trips of seconds it is a few of those.
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall = timeout.max(STALL_MIN);
        self
    }

    /// Whether [`Streams::Auto`] begins with the number that was best for the same destination last time, and keeps what
    /// it finds in the user's state folder (the default).
    pub fn remember(mut self, on: bool) -> Self {
        self.remember = on;
        self
    }

    /// Open a stream to a [`StripedListener`].
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<StripedStream> {
        StripedStream::open(self, address)
    }

    /// Wait for streams at an address.
    pub fn bind(&self, address: impl ToSocketAddrs) -> io::Result<StripedListener> {
        StripedListener::open(self, address)
    }

    /// Lanes at most.
    pub(super) fn lanes_max(&self) -> u32 {
        match self.streams {
            Streams::Auto => AUTO_MAX,
            Streams::Fixed(lanes) => lanes.clamp(1, LANES_MAX),
        }
    }

    /// A connected socket for a lane.
    pub(crate) fn dial(&self, address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        self.set_up(&SockRef::from(&socket))?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.connect_timeout(&address.into(), left)?;
        Ok(socket.into())
    }

    /// What every lane's socket needs; what must be known when a connection begins is inherited from a listener's.
    pub(crate) fn set_up(&self, socket: &SockRef<'_>) -> io::Result<()> {
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
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
        // The watch over lanes looks at those that carry data; this ends the others.
        let user_timeout = self.stall.saturating_mul(USER_TIMEOUT_STALLS).min(USER_TIMEOUT_MAX);
        socket.set_tcp_user_timeout(Some(user_timeout))?;
        socket.set_tcp_notsent_lowat(NOT_SENT_BYTES)
    }
}

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

const AVAILABLE_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const BUFFER_DEFAULT: u64 = 64 << 20;
/// Room for a few frames of the largest size.
const BUFFER_MIN: u64 = 1 << 20;
const STALL_MIN: Duration = Duration::from_millis(200);
/// Lanes that [`Streams::Auto`] tries at most: in the FOBS paper (Table 2) the best number was 20, in the PSockets paper
/// 6 to 16.
const AUTO_MAX: u32 = 32;
/// An idle lane is asked for after so long, so that what stands between the hosts does not forget it.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The kernel gives a connection up after so many stall timeouts: later than the watch would.
const USER_TIMEOUT_STALLS: u32 = 6;
/// As much as the kernel takes, which counts milliseconds in 31 bits.
const USER_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);
/// A lane takes no more while so many bytes wait in its socket unsent: what waits there cannot go over another lane. On
/// loopback smaller values cost speed.
const NOT_SENT_BYTES: u32 = 512 << 10;
