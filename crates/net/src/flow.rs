//! A flow as networks see it: what one socket sends to one other and receives from it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A TCP connection.
    Tcp,
    /// Datagrams between two ports.
    Udp,
}

/// See the [module](self). Whoever sends by it holds it until it ends.
#[derive(Debug)]
pub struct Flow {
    /// What it goes by.
    pub protocol: Protocol,
    /// This host's end.
    pub local: SocketAddr,
    /// The other one's.
    pub peer: SocketAddr,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Flow {
    /// One that has carried nothing yet.
    pub fn new(protocol: Protocol, local: SocketAddr, peer: SocketAddr) -> Arc<Flow> {
        let [local, peer] = [local, peer].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
        Arc::new(Flow { protocol, local, peer, sent: AtomicU64::new(0), received: AtomicU64::new(0) })
    }

    /// So many bytes were sent by it.
    pub fn note_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many bytes came by it.
    pub fn note_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes sent, without the headers of IP, UDP and TCP.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes received, likewise.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}
