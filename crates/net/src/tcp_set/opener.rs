//! Opens a copy's TCP streams from the client's side.

use super::join::{PATIENCE, join_copy, stream_options};
use super::stream::StreamSocket;
use crate::join::JoinKey;
use crate::local::LocalEnd;
use crate::tcp::{CONTROL_MSS, Opener, TcpOptions};
use crate::wake::Waker;
use crossbeam_channel::Sender;
use longhaul_proto::scitag::SciTag;
use longhaul_proto::units::Time;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What a client needs to know to open TCP streams.
#[derive(Clone)]
pub struct StreamOpenerConfig {
    /// Where the other side listens; tried in order until one answers.
    pub addresses: Vec<SocketAddr>,
    /// Names the copy.
    pub connection_id: u64,
    /// What TCP streams prove to know.
    pub key: JoinKey,
    /// Name of the kernel's congestion control, if not CUBIC.
    pub congestion: Option<String>,
    /// Where on this host they begin.
    pub local: Option<LocalEnd>,
    /// What their flow labels say.
    pub label: Option<SciTag>,
}

/// See the [module](self).
pub struct StreamOpener {
    config: Arc<StreamOpenerConfig>,
    opener: Opener,
    acceptor: Sender<StreamSocket>,
    waker: Waker,
    /// How many there were when last told.
    had: usize,
    /// Some have ended, perhaps because the path's MTU is smaller than their segments.
    is_narrow: bool,
}

impl StreamOpener {
    /// Leaves what it opens at `acceptor`, and wakes the session's thread.
    pub fn new(config: StreamOpenerConfig, acceptor: Sender<StreamSocket>, waker: Waker) -> StreamOpener {
        let (config, opener) = (Arc::new(config), Opener::new("stream-join"));
        StreamOpener { config, opener, acceptor, waker, had: 0, is_narrow: false }
    }

    /// There are `have` TCP streams and there should be `wanted`. Opens what is missing; after failures not at once. What takes
    /// the place of others has segments that pass wherever the smallest datagrams do: of a path that lets longer ones vanish
    /// many a kernel hears nothing.
    pub fn ensure(&mut self, have: usize, wanted: usize, now: Time) {
        self.is_narrow |= have < std::mem::replace(&mut self.had, have);
        let mss = self.is_narrow.then_some(CONTROL_MSS);
        let missing = wanted.saturating_sub(have + self.opener.opening());
        let (config, acceptor, waker) = (self.config.clone(), self.acceptor.clone(), self.waker.clone());
        let open = move || {
            let socket = connect(&config, mss)?;
            // A session that is over, or has TCP streams enough, closes it.
            let _ = acceptor.try_send(socket);
            Ok(())
        };
        self.opener.open(missing, now, open, move || waker.wake());
    }

    /// Why there are none, once some attempts have failed.
    pub fn failure(&self) -> Option<String> {
        self.opener.failure()
    }
}

fn connect(config: &StreamOpenerConfig, mss: Option<u32>) -> io::Result<StreamSocket> {
    let options = TcpOptions { mss, label: config.label, ..stream_options(config.congestion.as_deref()) };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the other side has no address");
    for address in &config.addresses {
        let deadline = Instant::now() + PATIENCE;
        let joined = options.dial(config.local.as_ref(), *address, deadline).and_then(|socket| {
            join_copy(&socket, &config.key, config.connection_id, deadline).map_err(io::Error::other)?;
            Ok(socket)
        });
        match joined {
            Ok(socket) => return Ok(StreamSocket::Tcp(socket)),
            Err(error) => last = error,
        }
    }
    Err(last)
}
