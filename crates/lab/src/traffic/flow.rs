//! One flow of the traffic: sends what it has, without ever waiting.

use crate::error::LabError;
use crate::socket::sender_socket;
use longhaul_net::option;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A flow that has begun.
pub(super) struct Flow {
    pub(super) socket: Socket,
    /// When it is cut off.
    pub(super) stop: u64,
    /// Bytes that it has yet to hand to the kernel.
    left: u64,
    pacing: Option<Pacing>,
}

/// When UDP packets are due.
struct Pacing {
    packet_bytes: u64,
    ns_per_byte: f64,
    next: u64,
}

/// What a flow has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to send.
    Goes,
    /// All is with the kernel.
    Done,
    /// The kernel gave it up.
    Broken(Errno),
}

impl Flow {
    /// A TCP connection, made in the namespace of the thread.
    pub(super) fn tcp(
        congestion_control: &str,
        to: SocketAddr,
        bytes: u64,
        stop: u64,
    ) -> Result<Flow, LabError> {
        let socket = sender_socket(congestion_control)?;
        socket.set_nonblocking(true).map_err(LabError::at("setting up a socket"))?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                Err(LabError::at("connecting")(error))
            }
            _ => Ok(Flow { socket, stop, left: bytes, pacing: None }),
        }
    }

    /// UDP packets of `packet_bytes` (as whole IP packets) at a rate, made in the namespace of the thread.
    pub(super) fn udp(
        mbit: f64,
        packet_bytes: u32,
        to: SocketAddr,
        bytes: u64,
        stop: u64,
        now: u64,
    ) -> Result<Flow, LabError> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
            .map_err(LabError::at("making a socket"))?;
        socket.set_nonblocking(true).map_err(LabError::at("setting up a socket"))?;
        socket.connect(&to.into()).map_err(LabError::at("connecting"))?;
        let pacing = Pacing { packet_bytes: u64::from(packet_bytes), ns_per_byte: 8e3 / mbit, next: now };
        Ok(Flow { socket, stop, left: bytes, pacing: Some(pacing) })
    }

    /// Whether it is to be [driven](Self::drive) when its socket has room, rather than by the clock.
    pub(super) fn waits_for_room(&self) -> bool {
        self.pacing.is_none()
    }

    /// When it wants to be driven by the clock.
    pub(super) fn next(&self) -> u64 {
        self.pacing.as_ref().map_or(u64::MAX, |pacing| pacing.next).min(self.stop)
    }

    /// Send what can be sent now. `block` is what the data is.
    pub(super) fn drive(&mut self, now: u64, block: &[u8]) -> Progress {
        match &mut self.pacing {
            None => {
                let most = block.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                match send(&self.socket, &block[..most], SendFlags::NOSIGNAL) {
                    Ok(sent) => self.left -= sent as u64,
                    Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => {}
                    Err(error) => return Progress::Broken(error),
                }
            }
            Some(pacing) => {
                pacing.next = pacing.next.max(now.saturating_sub(CATCH_UP_NS));
                while pacing.next <= now && self.left > 0 {
                    let payload = (pacing.packet_bytes - HEADER_BYTES).min(self.left);
                    pacing.next += ((payload + HEADER_BYTES) as f64 * pacing.ns_per_byte).round() as u64;
                    // What the host has no room for is lost, as is what the path has no room for.
                    let _ = send(&self.socket, &block[..payload as usize], SendFlags::NOSIGNAL);
                    self.left -= payload;
                }
            }
        }
        if self.left == 0 { Progress::Done } else { Progress::Goes }
    }

    /// Throw away what the kernel has not sent yet.
    pub(super) fn cut_off(self) {
        // Refused only by sockets that have nothing left to throw away.
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }
}

/// A socket that takes connections of the traffic on this thread's host and lets them advertise so much, and one that takes
/// its UDP packets.
pub(super) fn open_receivers(
    address: Ipv4Addr,
    window_bytes_max: Option<u32>,
) -> Result<(Socket, Socket), LabError> {
    let open = |kind: Type| {
        let socket = Socket::new(Domain::IPV4, kind, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::from((address, 0)).into())?;
        Ok::<_, io::Error>(socket)
    };
    let made = open(Type::STREAM).and_then(|listener| {
        if let Some(bytes) = window_bytes_max {
            // With a size of its own a buffer does not grow.
            listener.set_recv_buffer_size(ROOM * bytes as usize)?;
            clamp_window(&listener, bytes)?;
        }
        listener.listen(BACKLOG)?;
        Ok((listener, open(Type::DGRAM)?))
    });
    made.map_err(LabError::at("opening the sockets of a scenario's traffic"))
}

/// Let a socket, or the connections that it accepts, advertise no more than that. A small buffer does not do it: what share of
/// one becomes window the kernel learns from the packets that come, and forgets the clamp each time that it learns.
pub(super) fn clamp_window(socket: &Socket, bytes: u32) -> io::Result<()> {
    option::set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes as i32)
}

/// So many times a window its packets fill at most of a buffer, with all that the kernel keeps beside them.
const ROOM: usize = 4;
/// IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// What the clock says that should have been sent longer ago than this is not made up for: a real sender's would have
/// been sent then.
const CATCH_UP_NS: u64 = 10_000_000;
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(bytes: u64) -> (Flow, std::net::UdpSocket) {
        let sink = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let flow = Flow::udp(12.0, 1500, sink.local_addr().unwrap(), bytes, u64::MAX, 0).unwrap();
        (flow, sink)
    }

    #[test]
    fn packets_come_by_the_clock() {
        let (mut flow, sink) = paced(u64::MAX);
        let block = [0; 1500];
        // 1500 bytes at 12 Mb/s are a millisecond.
        for now in (0..10_000_000).step_by(250_000) {
            assert_eq!(flow.drive(now, &block), Progress::Goes);
        }
        assert_eq!(flow.next(), 10_000_000);
        sink.set_nonblocking(true).unwrap();
        let mut sizes = vec![];
        while let Ok(len) = sink.recv(&mut [0; 2000]) {
            sizes.push(len);
        }
        assert_eq!(sizes, [1472; 10]);
        flow.drive(1_000_000_000, &block);
        assert_eq!(flow.next(), 1_001_000_000, "a long sleep is not made up for");
    }

    #[test]
    fn the_last_packet_is_what_is_left() {
        let (mut flow, _sink) = paced(2000);
        assert_eq!(flow.drive(0, &[0; 1500]), Progress::Goes);
        assert_eq!(flow.drive(1_000_000, &[0; 1500]), Progress::Done);
        assert_eq!(flow.next(), 1_370_667, "556 bytes as an IP packet");
    }
}
