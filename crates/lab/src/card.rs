//! What is at an end of a direction: where packets come from, and where they go.

use rustix::io::{Errno, read, write};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// An end of a direction. Nothing here ever waits.
pub(crate) enum Card {
    /// A host's TUN device: whole IP packets.
    Tun(Arc<OwnedFd>),
    /// A relay's socket: datagrams, each of which counts as the IPv4 packet that would carry it.
    Socket(Arc<Port>),
}

/// A socket of a relay.
pub(crate) struct Port {
    socket: UdpSocket,
    /// Who is beyond it.
    peer: Mutex<Option<SocketAddr>>,
}

impl Port {
    /// With a peer it talks to that one alone, else to whoever spoke last.
    pub(crate) fn new(socket: UdpSocket, peer: Option<SocketAddr>) -> io::Result<Port> {
        socket.set_nonblocking(true)?;
        if let Some(peer) = peer {
            socket.connect(peer)?;
        }
        Ok(Port { socket, peer: Mutex::new(peer) })
    }

    fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        let (header, payload) = room.split_at_mut(HEADER.len());
        let (len, from) = self.socket.recv_from(payload)?;
        header.copy_from_slice(&HEADER);
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
        Ok(HEADER.len() + len)
    }

    /// That nobody listens there is the peer's affair.
    fn send(&self, packet: &[u8]) -> bool {
        let peer = *self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = peer.map(|peer| self.socket.send_to(&packet[HEADER.len()..], peer));
        !sent.is_some_and(|sent| sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
    }
}

impl Card {
    /// Take what comes next, as much as there is room for; its length.
    pub(crate) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Card::Tun(device) => read(device, room).map_err(Errno::into),
            Card::Socket(port) => port.receive(room),
        }
    }

    /// Hand over a packet; whether it was taken.
    pub(crate) fn write(&self, packet: &[u8]) -> bool {
        match self {
            Card::Tun(device) => write(device, packet).is_ok(),
            Card::Socket(port) => port.send(packet),
        }
    }
}

impl AsFd for Card {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Card::Tun(device) => device.as_fd(),
            Card::Socket(port) => port.socket.as_fd(),
        }
    }
}

/// IPv4 and UDP headers (RFC 791 §3.1, RFC 768) with nothing in them but what they are.
const HEADER: [u8; 28] = {
    let mut header = [0; 28];
    header[0] = 0x45;
    header[9] = crate::headers::UDP;
    header
};
