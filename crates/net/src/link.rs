//! One transfer's datagrams: sealed and opened, over a socket of its own once the peer's address is known, or over
//! TCP streams.

use super::seal::{Keys, Phase};
use super::tcp_set::StreamSet;
use super::udp::{Datagram, ReceiveBuffers, UdpSocket, is_on_the_way};
use super::wake::{Interest, Waker, wait};
use crate::clock;
use crossbeam_channel::Receiver;
use longhaul_proto::endpoint::{Arrival, Transmit};
use longhaul_proto::units::Time;
use longhaul_proto::wire::{HEADER_LEN, Header, IPV4_UDP_LEN, SEAL_OVERHEAD};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::SocketAddr;

/// A datagram that came in at a socket open to all and belongs to a transfer.
#[derive(Debug)]
pub struct Stray {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When it reached the host.
    pub time: Time,
    /// Who sent it.
    pub from: SocketAddr,
}

/// Where a link's peer is.
enum Socket {
    /// Connected to it.
    Connected(UdpSocket),
    /// Open to all; it will be connected to whoever first sends something authentic. Until then what we send goes to
    /// each of these.
    Open(UdpSocket, Vec<SocketAddr>),
    /// Served by a daemon's common socket at this address until then.
    Shared(SocketAddr),
}

/// See the [module](self).
pub struct Link {
    socket: Socket,
    strays: Option<Receiver<Stray>>,
    early: Keys,
    main: Option<Keys>,
    buffers: ReceiveBuffers,
    /// A run of sealed datagrams, and how much of it is gone.
    run: Vec<u8>,
    run_segment: usize,
    run_sent: usize,
    refused: u64,
    drops_before: u64,
    streams: StreamSet,
    /// The transfer's last datagram came over a TCP stream, so that answers go that way too.
    by_streams: bool,
}

impl Link {
    /// Over a socket of our own. With no `peers` it waits for the peer to speak first.
    pub fn open(socket: UdpSocket, peers: Vec<SocketAddr>, early: Keys) -> io::Result<Link> {
        let socket = if let [peer] = peers[..] {
            socket.connect(peer)?;
            Socket::Connected(socket)
        } else {
            Socket::Open(socket, peers)
        };
        Ok(Link::new(socket, None, early))
    }

    /// Behind a daemon's common socket, bound to `local`, which hands over what is ours.
    pub fn shared(local: SocketAddr, strays: Receiver<Stray>, early: Keys) -> Link {
        Link::new(Socket::Shared(local), Some(strays), early)
    }

    /// With TCP streams whose acceptor others know already.
    pub fn with_streams(mut self, streams: StreamSet) -> Link {
        self.streams = streams;
        self
    }

    fn new(socket: Socket, strays: Option<Receiver<Stray>>, early: Keys) -> Link {
        Link {
            socket,
            strays,
            early,
            main: None,
            buffers: ReceiveBuffers::default(),
            run: vec![],
            run_segment: 1,
            run_sent: 0,
            refused: 0,
            drops_before: 0,
            streams: StreamSet::default(),
            by_streams: false,
        }
    }

    /// From now on the transfer's own keys count too.
    pub fn set_main_keys(&mut self, keys: Keys) {
        self.main = Some(keys);
    }

    /// The TCP streams, for their owner's own business with them.
    pub fn streams(&mut self) -> &mut StreamSet {
        &mut self.streams
    }

    /// Whether the transfer's last datagram came over a TCP stream.
    pub fn is_by_streams(&self) -> bool {
        self.by_streams
    }

    /// Whether there is anybody to send to yet.
    pub fn has_peer(&self) -> bool {
        match &self.socket {
            Socket::Connected(_) => true,
            Socket::Open(_, peers) => !peers.is_empty(),
            Socket::Shared(_) => false,
        }
    }

    /// The socket, once there is one.
    pub fn socket(&self) -> Option<&UdpSocket> {
        match &self.socket {
            Socket::Connected(socket) | Socket::Open(socket, _) => Some(socket),
            Socket::Shared(_) => None,
        }
    }

    /// The size on the way of a datagram of `len` bytes: with IP and UDP headers. 0 stands for none.
    pub fn packet_len(&self, len: u16) -> u32 {
        let headers = self.socket().map_or(IPV4_UDP_LEN, UdpSocket::headers_len);
        if len == 0 { 0 } else { u32::from(len) + headers as u32 }
    }

    /// Datagrams that the host dropped for want of buffer.
    pub fn drops(&self) -> u64 {
        self.drops_before + self.socket().map_or(0, UdpSocket::drops)
    }

    /// Datagrams that were not authentic, or came twice.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Take what has come in and hand each authentic body to `handle`, which says whether it took it: what came over a
    /// TCP stream is then offered again, what came over UDP is gone. True if there was anything.
    pub fn receive(&mut self, mut handle: impl FnMut(Phase, Arrival, &mut [u8]) -> bool) -> io::Result<bool> {
        self.streams.take_newcomers();
        let any = match &mut self.main {
            Some(keys) => self.streams.receive(keys, clock::now, &mut handle),
            None => false,
        };
        self.by_streams |= any;
        let mut by_udp = false;
        let outcome = self.receive_datagrams(|phase, arrival, body| {
            by_udp |= phase == Phase::Main;
            handle(phase, arrival, body);
        });
        self.by_streams &= !by_udp;
        Ok(outcome? || any)
    }

    /// Take what has come in over UDP.
    fn receive_datagrams(&mut self, mut handle: impl FnMut(Phase, Arrival, &mut [u8])) -> io::Result<bool> {
        let mut any = false;
        while let Some(mut stray) = self.strays.as_ref().and_then(|strays| strays.try_recv().ok()) {
            any = true;
            let datagram = Datagram { bytes: &mut stray.bytes, time: stray.time, from: Some(stray.from) };
            let authentic = open(&mut self.early, self.main.as_mut(), datagram, &mut handle);
            self.refused += u64::from(!authentic);
            if authentic {
                self.follow(stray.from)?;
            }
        }
        let (socket, known) = match &mut self.socket {
            Socket::Connected(socket) => (socket, true),
            Socket::Open(socket, _) => (socket, false),
            Socket::Shared(_) => return Ok(any),
        };
        if !socket.receive(&mut self.buffers)? {
            return Ok(any);
        }
        let mut found = None;
        for datagram in self.buffers.datagrams() {
            let from = datagram.from;
            if open(&mut self.early, self.main.as_mut(), datagram, &mut handle) {
                found = from;
            } else {
                self.refused += 1;
            }
        }
        if let (Some(peer), false) = (found, known) {
            self.follow(peer)?;
        }
        Ok(true)
    }

    /// An authentic datagram came from `peer`: talk to that address from now on.
    fn follow(&mut self, peer: SocketAddr) -> io::Result<()> {
        match &self.socket {
            Socket::Connected(socket) | Socket::Open(socket, _) => socket.connect(peer)?,
            Socket::Shared(local) => {
                let socket = UdpSocket::bind(*local, true)?;
                socket.connect(peer)?;
                self.socket = Socket::Connected(socket);
                return Ok(());
            }
        }
        if let Socket::Open(..) = self.socket {
            let old = std::mem::replace(&mut self.socket, Socket::Shared(peer));
            if let Socket::Open(socket, _) = old {
                self.socket = Socket::Connected(socket);
            }
        }
        Ok(())
    }

    /// Send one datagram. `write` fills a body; `false` if it had none. Back-pressure and unreachable peers count as
    /// loss: what this sends is small and repeated.
    pub fn send_one(
        &mut self,
        phase: Phase,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> bool {
        scratch.resize(SCRATCH, 0);
        let Some(transmit) = write(&mut scratch[HEADER_LEN..]) else { return false };
        let len = transmit.len + SEAL_OVERHEAD;
        let keys = match (phase, &self.main) {
            (Phase::Early, _) => &self.early,
            (Phase::Main, Some(keys)) => keys,
            (Phase::Main, None) => return true,
        };
        keys.seal(&mut scratch[..len], transmit.number);
        match &mut self.socket {
            Socket::Connected(socket) => drop(socket.send_run(&scratch[..len], len, None)),
            Socket::Open(socket, peers) => {
                for peer in peers.iter() {
                    let _ = socket.send_run(&scratch[..len], len, Some(*peer));
                }
            }
            Socket::Shared(_) => {}
        }
        true
    }

    /// Send one datagram under the main keys the way that the other side's last one came. `write` fills a body; `false`
    /// if it had none.
    pub fn answer(
        &mut self,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> bool {
        if !self.by_streams {
            return self.send_one(Phase::Main, scratch, write);
        }
        scratch.resize(SCRATCH, 0);
        let Some(transmit) = write(scratch) else { return false };
        if let Some(keys) = &self.main {
            self.streams.send_one(keys, &scratch[..transmit.len], transmit.number);
        }
        true
    }

    /// Give a run of datagrams to a TCP stream, as [`StreamSet::send_run`] does.
    pub fn send_by_streams(
        &mut self,
        datagram_len: usize,
        now: Time,
        write: impl FnMut(&mut [u8]) -> Option<Transmit>,
    ) -> Option<usize> {
        self.streams.send_run(self.main.as_ref()?, datagram_len, now, write)
    }

    /// Whether part of a run still waits for the socket.
    pub fn is_congested(&self) -> bool {
        self.run_sent < self.run.len()
    }

    /// Send what is left of a run. True if all is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Socket::Connected(socket) = &mut self.socket else { return Ok(true) };
        while self.run_sent < self.run.len() {
            match socket.send_run(&self.run[self.run_sent..], self.run_segment, None) {
                Ok(sent) => self.run_sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // The network is away for the moment, or the peer's port is: the protocol copes.
                Err(error) if is_on_the_way(&error) => self.run_sent = self.run.len(),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Send a run of up to `count` datagrams of at most `datagram_len` bytes under the main keys in one system call.
    /// `write` fills bodies until it has none. Returns how many there were.
    pub fn send_run(
        &mut self,
        count: usize,
        datagram_len: usize,
        mut write: impl FnMut(&mut [u8]) -> Option<Transmit>,
    ) -> io::Result<usize> {
        let Some(keys) = &self.main else { return Ok(0) };
        let count =
            count.min(super::udp::GSO_SEGMENTS_MAX).min(super::udp::GSO_BYTES_MAX / datagram_len).max(1);
        self.run.resize(count * datagram_len, 0);
        let (mut filled, mut datagrams) = (0, 0);
        while datagrams < count {
            let slot = &mut self.run[filled..filled + datagram_len];
            let Some(transmit) = write(&mut slot[HEADER_LEN..]) else { break };
            let len = transmit.len + SEAL_OVERHEAD;
            keys.seal(&mut slot[..len], transmit.number);
            filled += len;
            datagrams += 1;
            if len < datagram_len {
                // GSO allows only the last to be short.
                break;
            }
        }
        self.run.truncate(filled);
        (self.run_sent, self.run_segment) = (0, datagram_len);
        self.flush()?;
        Ok(datagrams)
    }

    /// Wait for a datagram, for room to send if a run is stuck, for `waker` or for `deadline`.
    pub fn wait(&self, waker: &Waker, now: Time, deadline: Time) -> io::Result<()> {
        let socket = self.socket().map(UdpSocket::as_fd);
        if !self.streams.is_empty() {
            let flags = if self.is_congested() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let udp = socket.map(|socket| PollFd::from_borrowed_fd(socket, flags));
            let fds = udp.into_iter().chain(self.streams.poll_fds()).collect();
            return waker.wait_many(fds, deadline.since(now)).map(drop);
        }
        wait(Interest { socket, writable: self.is_congested() }, waker, now, deadline)
    }
}

/// Room for any one datagram.
const SCRATCH: usize = 1 << 16;

fn open(
    early: &mut Keys,
    main: Option<&mut Keys>,
    datagram: Datagram<'_>,
    handle: &mut impl FnMut(Phase, Arrival, &mut [u8]),
) -> bool {
    let Some(header) = Header::decode(datagram.bytes) else { return false };
    let (phase, keys) = match (header.early, main) {
        (true, _) => (Phase::Early, early),
        (false, Some(keys)) => (Phase::Main, keys),
        (false, None) => return false,
    };
    let Ok(body) = keys.open(&header, datagram.bytes) else { return false };
    handle(phase, Arrival { time: datagram.time, number: header.number }, body);
    true
}
