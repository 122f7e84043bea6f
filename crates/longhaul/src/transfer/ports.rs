//! The ports that a server listens at.

use crate::error::Error;
use crate::net::udp::UdpSocket;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;

/// The same port for TCP and UDP.
pub fn bind_both(listen: SocketAddr) -> io::Result<(TcpListener, UdpSocket, SocketAddr)> {
    let mut attempts = if listen.port() == 0 { ANY_PORT_ATTEMPTS } else { 1 };
    loop {
        let listener = listen_at(listen)?;
        let local = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        attempts -= 1;
        match UdpSocket::bind(local, true) {
            // The port that TCP was given is somebody's for UDP.
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts > 0 => {}
            socket => return Ok((listener, socket?, local)),
        }
    }
}

/// As [`TcpListener::bind`], with room for more that wait to be accepted: a burst of strangers must not cost a client the
/// second after which TCP tries again.
fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What an agent listens at.
pub struct Bound {
    /// For datagrams.
    pub socket: UdpSocket,
    /// At the same port, for TCP streams.
    pub listener: Option<TcpListener>,
    /// The port.
    pub port: u16,
}

/// One out of `ports`, or any.
pub fn bind_in(ports: Option<RangeInclusive<u16>>) -> Result<Bound, Error> {
    let any = |port| [SocketAddr::from(([0u16; 8], port)), SocketAddr::from(([0u8; 4], port))];
    let attempts = if ports.is_none() { ANY_PORT_ATTEMPTS } else { 1 };
    let addresses = ports.clone().unwrap_or(0..=0).flat_map(any);
    // UDP is what matters: where TCP is free at none of them, the first does.
    let mut without_tcp = None;
    for address in std::iter::repeat_n(addresses, attempts as usize).flatten() {
        if let Ok(socket) = UdpSocket::bind(address, false)
            && let Ok(local) = socket.local_addr()
        {
            let listener = TcpListener::bind(local).ok();
            let bound = Bound { socket, listener, port: local.port() };
            if bound.listener.is_some() {
                return Ok(bound);
            }
            without_tcp.get_or_insert(bound);
        }
    }
    without_tcp.ok_or(Error::NoPort { ports })
}

/// Random ports that are tried before none is called free.
const ANY_PORT_ATTEMPTS: u32 = 16;
/// The most that Linux gives (net.core.somaxconn) unless told otherwise.
const BACKLOG: i32 = 4096;
