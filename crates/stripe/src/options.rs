//! How a striped stream is set up.

use crate::history::{History, Remembered};
use longhaul_net::control::{ClientKey, TokenId};
use longhaul_net::local::LocalEnd;
use longhaul_net::noise::PublicKey;
use longhaul_net::tcp::TcpOptions;
use longhaul_proto::streams::STREAMS_MAX;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

pub use longhaul_proto::streams::Streams;
pub use longhaul_proto::stripe::outgoing::Partition;

/// How to open a [`StripedStream`](crate::StripedStream) or a [`StripedListener`](crate::StripedListener).
///
/// ```no_run
/// use longhaul_stripe::{StripeOptions, Streams};
/// let options = StripeOptions::new().streams(Streams::Fixed(8)).key(b"a secret that both sides know");
/// let stream = options.connect("far.example.org:7701")?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A listener that refuses a stream makes an error of the kind [`ConnectionRefused`](std::io::ErrorKind) that holds a
/// [`Refusal`](crate::Refusal):
///
/// ```no_run
/// use longhaul_stripe::{Refusal, StripedStream};
/// if let Err(error) = StripedStream::connect("far.example.org:7701") {
///     match error.get_ref().and_then(|why| why.downcast_ref()) {
///         Some(Refusal::Key) => println!("it has another key"),
///         _ => println!("{error}"),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StripeOptions {
    pub(super) streams: Streams,
    pub(super) partition: Partition,
    pub(super) tcp: TcpOptions,
    pub(super) local_ends: Vec<LocalEnd>,
    pub(super) key: Option<[u8; 32]>,
    /// Whose key that is, and the server that it is for.
    pub(super) pinned: Option<(TokenId, PublicKey)>,
    pub(super) plain: bool,
    pub(super) buffer: u64,
    pub(super) connect_timeout: Duration,
    pub(super) patience: Duration,
    pub(super) remember: bool,
    /// Where it is remembered, if not in the user's file.
    pub(super) remembered: Option<Remembered>,
    pub(super) lanes_after: u64,
}

impl Default for StripeOptions {
    fn default() -> StripeOptions {
        StripeOptions {
            streams: Streams::Auto,
            partition: Partition::Auto,
            tcp: TcpOptions::default(),
            local_ends: vec![],
            key: None,
            pinned: None,
            plain: false,
            buffer: BUFFER_DEFAULT,
            connect_timeout: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            remember: true,
            remembered: None,
            lanes_after: 0,
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
        self.tcp.window = Some(bytes);
        self
    }

    /// Name of the TCP congestion control to use, one of those that the kernel has.
    pub fn congestion(mut self, name: impl Into<String>) -> Self {
        self.tcp.congestion = Some(name.into());
        self
    }

    /// Send small writes at once rather than wait for more (the default).
    pub fn nodelay(mut self, on: bool) -> Self {
        self.tcp.nodelay = on;
        self
    }

    /// Where on this host lanes begin: addresses or network interfaces, which they take in turn. Empty, the default: wherever
    /// the way to the other host does. It counts for the side that connects. With [`Streams::Auto`] each of them has a lane.
    ///
    /// An address decides which interface is used only where this host's routes go by it; an interface always does.
    ///
    /// ```no_run
    /// use longhaul_stripe::StripeOptions;
    /// let both = ["eth0", "192.0.2.7"].map(|place| place.parse().unwrap());
    /// let stream = StripeOptions::new().local_ends(both).connect("far.example.org:7701")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local_ends(mut self, places: impl IntoIterator<Item = LocalEnd>) -> Self {
        self.local_ends = places.into_iter().collect();
        self
    }

    /// A secret that both sides know: only who knows it gets in or reads along. Without one, what travels is sealed, but
    /// nobody is told apart from somebody in the middle.
    pub fn key(mut self, secret: &[u8]) -> Self {
        self.key = Some(blake3::derive_key("longhaul stripe shared key v1", secret));
        self
    }

    /// As [`StripeOptions::key`], with a key that is one already, and maybe a token's. For a [`Door`](crate::Door)'s clients.
    #[doc(hidden)]
    pub fn client_key(mut self, key: ClientKey) -> Self {
        (self.key, self.pinned) = (Some(key.psk), key.pinned);
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
        self.tcp.stall = timeout.max(STALL_MIN);
        self
    }

    /// Whether [`Streams::Auto`] begins with the number that was best for the same destination last time, and keeps what
    /// it finds in the user's state folder (the default).
    pub fn remember(mut self, on: bool) -> Self {
        self.remember = on;
        self
    }

    /// With [`Streams::Auto`], ask for further lanes only once so many bytes were written: streams that carry little do with
    /// one. 0 by default.
    pub fn lanes_after(mut self, bytes: u64) -> Self {
        self.lanes_after = bytes;
        self
    }

    /// A lane's socket takes no more while so many bytes wait in it unsent (`TCP_NOTSENT_LOWAT`), 512 KiB by default: what waits
    /// there cannot go over another lane. Less is better for a program that waits for answers after every few MiB, and
    /// costs speed where nothing but processors is the limit.
    pub fn unsent(mut self, bytes: u32) -> Self {
        self.tcp.unsent_bytes = bytes;
        self
    }

    /// Keep what [`Streams::Auto`] finds in memory, for all streams with clones of these options.
    pub fn remember_in_memory(mut self) -> Self {
        self.remembered = Some(Remembered::default());
        self
    }

    /// Where it is looked up, and kept, which number of lanes was best.
    pub(super) fn history(&self) -> Option<History> {
        match &self.remembered {
            _ if !self.remember => None,
            Some(remembered) => Some(History::InMemory(remembered.clone())),
            None => History::of_user(),
        }
    }

    /// Where lanes to that host may begin, to be taken in turn.
    pub(super) fn ends_to(&self, peer: IpAddr) -> io::Result<Vec<Option<LocalEnd>>> {
        if self.local_ends.is_empty() {
            return Ok(vec![None]);
        }
        let fitting = self.local_ends.iter().filter(|place| place.fits(peer));
        let ends: Vec<_> = fitting.cloned().map(Some).collect();
        if ends.is_empty() {
            let line =
                format!("no lane to {peer} can begin at an address of the other family; name one of its own");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, line));
        }
        Ok(ends)
    }

    /// Lanes at most.
    pub(super) fn lanes_max(&self) -> u32 {
        match self.streams {
            Streams::Auto => AUTO_MAX,
            Streams::Fixed(lanes) => lanes.clamp(1, STREAMS_MAX),
        }
    }
}

const BUFFER_DEFAULT: u64 = 64 << 20;
/// Room for a few frames of the largest size.
pub(super) const BUFFER_MIN: u64 = 1 << 20;
const STALL_MIN: Duration = Duration::from_millis(200);
/// Lanes that [`Streams::Auto`] tries at most: in the FOBS paper (Table 2) the best number was 20, in the PSockets paper
/// 6 to 16.
const AUTO_MAX: u32 = 32;
