//! Where on this host the next lane begins.

use longhaul_net::local::LocalEnd;
use longhaul_net::tcp::TcpOptions;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Local ends that take turns. One at which no lane can begin only loses its own turns.
pub struct Turns {
    ends: Vec<Option<LocalEnd>>,
    next: AtomicUsize,
}

impl Turns {
    /// The end of this number begins.
    pub fn new(ends: Vec<Option<LocalEnd>>, first: usize) -> Turns {
        Turns { ends, next: AtomicUsize::new(first) }
    }

    /// How many there are.
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// A connected socket from the end whose turn it is.
    pub fn dial(&self, tcp: &TcpOptions, peer: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let end = self.ends.get(turn % self.ends.len().max(1)).and_then(Option::as_ref);
        tcp.dial(end, peer, deadline).map_err(|error| match end {
            Some(end) => io::Error::new(error.kind(), format!("from {end}: {error}")),
            None => error,
        })
    }
}
