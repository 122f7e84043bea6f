//! Runs a protocol that goes in clear over a UDP socket: the user-level TCP of experiments, whose framing is
//! nothing.

use super::udp::{GSO_BYTES_MAX, GSO_SEGMENTS_MAX, ReceiveBuffers, UdpSocket, is_on_the_way};
pub use super::wake::Waker;
use super::wake::{Interest, precise_timers, wait};
use crate::clock;
use longhaul_proto::endpoint::{Arrival, Endpoint};
use longhaul_proto::units::Time;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// An endpoint and its socket.
pub struct Driver<E> {
    endpoint: E,
    socket: UdpSocket,
    is_connected: bool,
    waker: Waker,
    buffers: ReceiveBuffers,
    out: Run,
    /// Datagrams that came in.
    received: u64,
}

/// Why [`Driver::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The caller said so.
    Stopped,
    /// The time was over.
    TimedOut,
}

impl<E: Endpoint> Driver<E> {
    /// Talk to `peer`. Whether anybody is there shows later.
    pub fn connect(endpoint: E, peer: SocketAddr) -> io::Result<Driver<E>> {
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any.parse().map_err(io::Error::other)?, false)?;
        socket.connect(peer)?;
        Driver::new(endpoint, socket, true)
    }

    /// Talk to whoever first sends something to `local`.
    pub fn listen(endpoint: E, local: SocketAddr) -> io::Result<Driver<E>> {
        Driver::new(endpoint, UdpSocket::bind(local, false)?, false)
    }

    fn new(endpoint: E, socket: UdpSocket, is_connected: bool) -> io::Result<Driver<E>> {
        Ok(Driver {
            endpoint,
            socket,
            is_connected,
            waker: Waker::new()?,
            buffers: ReceiveBuffers::default(),
            out: Run::default(),
            received: 0,
        })
    }

    /// The address that it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// The endpoint, and no socket any more.
    pub fn into_endpoint(self) -> E {
        self.endpoint
    }

    /// Lets another thread make [`Driver::run`] ask the endpoint again what it has to send.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Datagrams that the host dropped for want of buffer.
    pub fn drops(&self) -> u64 {
        self.socket.drops()
    }

    /// Run until `stop` says so of an event, at most for `span`.
    pub fn run(&mut self, span: Duration, mut stop: impl FnMut(E::Event) -> bool) -> io::Result<Ran> {
        precise_timers();
        let end = clock::now() + span;
        loop {
            self.take_in()?;
            let now = clock::now();
            if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                self.endpoint.handle_timeout(now);
            }
            self.transmit()?;
            self.out.flush(&mut self.socket)?;
            while let Some(event) = self.endpoint.poll_event() {
                if stop(event) {
                    return Ok(Ran::Stopped);
                }
            }
            let now = clock::now();
            if now >= end {
                return Ok(Ran::TimedOut);
            }
            let deadline = self.endpoint.poll_timeout().unwrap_or(Time::MAX).min(end);
            let interest = Interest { socket: Some(self.socket.as_fd()), writable: self.out.is_stuck() };
            wait(interest, &self.waker, now, deadline)?;
        }
    }

    /// Hand in what has come, and after each datagram take out what there is to send: acknowledgements are answered,
    /// and data acknowledged, one by one. Bounded, so that a flood does not keep timers from their turn.
    fn take_in(&mut self) -> io::Result<()> {
        for _ in 0..RECEIVES {
            if !self.socket.receive(&mut self.buffers)? {
                return Ok(());
            }
            let mut buffers = std::mem::take(&mut self.buffers);
            for datagram in buffers.datagrams() {
                if let (Some(peer), false) = (datagram.from, self.is_connected) {
                    self.socket.connect(peer)?;
                    self.is_connected = true;
                }
                let arrival = Arrival { time: datagram.time, number: self.received, ecn: datagram.ecn };
                self.received += 1;
                self.endpoint.handle_datagram(clock::now(), arrival, datagram.bytes);
                self.transmit()?;
            }
            self.buffers = buffers;
            self.out.flush(&mut self.socket)?;
        }
        Ok(())
    }

    /// Take out all there is to send, unless the socket has not taken what there was before.
    fn transmit(&mut self) -> io::Result<()> {
        let ecn = self.endpoint.ecn();
        // What is left of a run goes as it was meant to.
        if ecn != self.socket.ecn() && self.out.flush(&mut self.socket)? {
            self.socket.set_ecn(ecn);
        }
        while self.is_connected && (!self.out.is_stuck() || self.out.flush(&mut self.socket)?) {
            let endpoint = &mut self.endpoint;
            let now = clock::now();
            if !self.out.fill(&mut self.socket, |buf| Some(endpoint.poll_transmit(now, buf)?.len))? {
                break;
            }
        }
        Ok(())
    }
}

/// Datagrams of one length, the last perhaps shorter, to go out in one system call; and one more that begins the next
/// such run.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    /// Bytes of the run.
    len: usize,
    /// Length of its datagrams.
    segment: usize,
    /// Bytes of it that are gone.
    sent: usize,
    /// Length of the datagram behind it; zero if there is none.
    next: usize,
    is_stuck: bool,
}

impl Run {
    /// The socket had no room for all of it.
    fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Add the datagram that `write` gives, and send what it does not go together with. False if there was none.
    fn fill(
        &mut self,
        socket: &mut UdpSocket,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> io::Result<bool> {
        self.bytes.resize(2 * GSO_BYTES_MAX, 0);
        let Some(len) = write(&mut self.bytes[self.len..]) else { return Ok(false) };
        let is_full = self.len + len > GSO_BYTES_MAX || self.len >= GSO_SEGMENTS_MAX * self.segment;
        if self.len == 0 {
            (self.len, self.segment) = (len, len);
        } else if len > self.segment || is_full {
            self.next = len;
            self.send(socket)?;
        } else {
            self.len += len;
            if len < self.segment {
                self.send(socket)?;
            }
        }
        Ok(true)
    }

    /// Send all there is. True if all is gone.
    fn flush(&mut self, socket: &mut UdpSocket) -> io::Result<bool> {
        while self.len > 0 {
            if !self.send(socket)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Send the run; what is behind it becomes the next one. True if it is gone.
    fn send(&mut self, socket: &mut UdpSocket) -> io::Result<bool> {
        self.is_stuck = false;
        while self.sent < self.len {
            match socket.send_run(&self.bytes[self.sent..self.len], self.segment, None) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_stuck = true;
                    return Ok(false);
                }
                // The network is away for the moment, or the peer's port is: the protocol copes.
                Err(error) if is_on_the_way(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.bytes.copy_within(self.len..self.len + self.next, 0);
        (self.sent, self.len, self.segment, self.next) = (0, self.next, self.next, 0);
        Ok(true)
    }
}

/// Receive calls before timers have their turn.
const RECEIVES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::control::{ControlConfig, ControllerKind};
    use longhaul_proto::tcp::{Config, Receiver, ReceiverEvent, Sender, SenderEvent};
    use std::thread;

    #[test]
    fn a_stream_arrives_over_loopback() {
        let stream: Vec<u8> = (0..3_000_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
        let config = Config::default();
        let receiver = Receiver::new(config, vec![0; stream.len()]);
        let mut right = Driver::listen(receiver, "127.0.0.1:0".parse().unwrap()).unwrap();
        let control = ControlConfig::new(config.datagram_len(), Duration::from_millis(1));
        let controller = ControllerKind::Cubic.build(ControlConfig { paced: false, ..control });
        let sender = Sender::new(config, stream.len() as u64, stream.clone(), controller);
        let mut left = Driver::connect(sender, right.local_addr().unwrap()).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let ran = right.run(LIMIT, |event| event == ReceiverEvent::Complete).unwrap();
                assert_eq!(ran, Ran::Stopped);
                // The last acknowledgement may have been lost.
                right.run(Duration::from_millis(500), |_| false).unwrap();
            });
            let ran = left.run(LIMIT, |event| event == SenderEvent::Complete).unwrap();
            assert_eq!(ran, Ran::Stopped);
        });
        assert!(*right.into_endpoint().sink_mut() == stream);
        assert_eq!(left.endpoint().stats().bytes_acked, stream.len() as u64);
    }

    #[test]
    fn datagrams_of_all_lengths_keep_their_borders() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (mut from, mut to) = (UdpSocket::bind(any, false).unwrap(), UdpSocket::bind(any, false).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        let lengths = [10, 10, 10, 4, 10, 30, 30, 5, 5, 700, 20_000, 20_000, 20_000, 20_000, 1];
        let mut run = Run::default();
        for (mark, len) in lengths.into_iter().enumerate() {
            let write = |buf: &mut [u8]| {
                buf[..len].fill(mark as u8);
                Some(len)
            };
            assert!(run.fill(&mut from, write).unwrap());
        }
        assert!(!run.fill(&mut from, |_| None).unwrap() && run.flush(&mut from).unwrap());
        let (mut buffers, mut got) = (ReceiveBuffers::default(), vec![]);
        while got.len() < lengths.len() {
            assert!(to.receive(&mut buffers).unwrap(), "{got:?}");
            got.extend(buffers.datagrams().map(|datagram| (datagram.bytes.len(), datagram.bytes[0])));
        }
        assert!(got.into_iter().eq(lengths.into_iter().zip(0u8..)));
    }

    /// Far more than it takes on the slowest of machines.
    const LIMIT: Duration = Duration::from_secs(60);
}
