//! One transfer's datagrams: sealed and opened, over a socket of its own once the peer's address is known, or over
//! TCP streams.

use super::address::Address;
use super::seal::{KeyPhase, Keys, Spent};
use super::strays::{Stray, Strays};
use super::tcp_set::StreamSet;
use super::udp::{Datagram, ReceiveBuffers, UdpSocket, is_on_the_way};
use super::wake::{Interest, Waker, wait};
use crate::clock;
use crate::flow::Flow;
use crate::marks::Marks;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Transmit};
use longhaul_proto::session::opening::{Assembly, Piece, cut};
use longhaul_proto::units::Time;
use longhaul_proto::wire::{HEADER_LEN, Header, IPV4_UDP_LEN, SEAL_OVERHEAD};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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
pub struct PeerLink {
    socket: Socket,
    strays: Option<Arc<Strays>>,
    keys: LinkKeys,
    buffers: ReceiveBuffers,
    /// A run of sealed datagrams, and how much of it is gone.
    run: Vec<u8>,
    run_segment: usize,
    run_sent: usize,
    /// The host has refused a run as too long.
    was_too_long: bool,
    refused: u64,
    drops_before: u64,
    streams: StreamSet,
    /// The transfer's last datagram came over a TCP stream, so that answers go that way too.
    by_streams: bool,
    /// What is known of where the peer is.
    address: Address,
    /// The answer to an opening is waited for.
    awaited: Option<Awaited>,
    /// What came before it could be opened.
    held: Strays,
    /// How what is sent is marked, and who hears of the flow.
    marks: Marks,
    /// The flow over UDP, once it carries data.
    flow: Option<Arc<Flow>>,
}

/// What seals and opens a link's datagrams.
struct LinkKeys {
    early: Keys,
    /// Of the client's first data, while it may come or go.
    ticket: Option<Keys>,
    main: Option<Keys>,
}

/// An answer that is to come over UDP.
struct Awaited {
    connection_id: u64,
    pieces: Assembly,
    answer: Option<Vec<u8>>,
}

impl PeerLink {
    /// A client's, over a socket of its own: it has chosen whom it talks to.
    pub fn open(socket: UdpSocket, peers: Vec<SocketAddr>, early: Keys) -> io::Result<PeerLink> {
        if let [peer] = peers[..] {
            match socket.connect(peer) {
                Ok(()) => {
                    return Ok(PeerLink::new(Socket::Connected(socket), None, early, Address::chosen()));
                }
                // There may be a way later; else TCP carries the data.
                Err(error) if is_on_the_way(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(PeerLink::new(Socket::Open(socket, peers), None, early, Address::chosen()))
    }

    /// An agent's, over a socket of its own: the peer, which may be at `host`, speaks first.
    pub fn waiting(socket: UdpSocket, host: Option<IpAddr>, early: Keys) -> PeerLink {
        PeerLink::new(Socket::Open(socket, vec![]), None, early, Address::of_client(host))
    }

    /// Behind a daemon's common socket, which hands over what is ours. `local` is the address that the peer speaks to, `host`
    /// the one that its control stream comes from, where that is known.
    pub fn shared(local: SocketAddr, host: Option<IpAddr>, strays: Arc<Strays>, early: Keys) -> PeerLink {
        PeerLink::new(Socket::Shared(local), Some(strays), early, Address::of_client(host))
    }

    /// The same for a session that was opened over UDP, with `len` bytes from `peer`: nobody knows whether that is really there.
    pub fn opened(
        local: SocketAddr,
        (peer, len): (SocketAddr, usize),
        strays: Arc<Strays>,
        early: Keys,
    ) -> PeerLink {
        let mut link = PeerLink::new(Socket::Shared(local), Some(strays), early, Address::of_client(None));
        link.follow(peer, len);
        link
    }

    /// Open a session over UDP as the client: `opening` goes out, and the answer is waited for. What comes before it is kept.
    pub fn send_opening(&mut self, connection_id: u64, opening: &[u8]) {
        self.awaited = Some(Awaited { connection_id, pieces: Assembly::default(), answer: None });
        self.send_pieces(connection_id, opening);
    }

    /// The answer, once it is there.
    pub fn take_answer(&mut self) -> Option<Vec<u8>> {
        self.awaited.as_mut()?.answer.take()
    }

    /// Send the opening of a session, or as the server the answer to one. What the peer's address may not get yet is left out.
    pub fn send_pieces(&mut self, connection_id: u64, message: &[u8]) {
        for piece in cut(connection_id, message) {
            if let Socket::Connected(socket) = &mut self.socket
                && self.address.take(piece.len())
            {
                // What is lost goes over TCP.
                let _ = socket.send_run(&piece, piece.len(), None);
            }
        }
    }

    /// With TCP streams whose acceptor others know already.
    pub fn with_streams(mut self, streams: StreamSet) -> PeerLink {
        self.streams = streams;
        self
    }

    fn new(socket: Socket, strays: Option<Arc<Strays>>, early: Keys, address: Address) -> PeerLink {
        PeerLink {
            socket,
            strays,
            keys: LinkKeys { early, ticket: None, main: None },
            buffers: ReceiveBuffers::default(),
            run: vec![],
            run_segment: 1,
            run_sent: 0,
            was_too_long: false,
            refused: 0,
            drops_before: 0,
            streams: StreamSet::default(),
            by_streams: false,
            address,
            awaited: None,
            held: Strays::default(),
            marks: Marks::default(),
            flow: None,
        }
    }

    /// From now on the transfer's own keys count too.
    pub fn set_main_keys(&mut self, keys: Keys) {
        self.keys.main = Some(keys);
    }

    /// It takes the place of another link: what that has opened is not opened a second time, and its keys are as old as they are.
    pub fn take_keys_of(&mut self, before: &mut PeerLink) {
        std::mem::swap(&mut self.keys, &mut before.keys);
    }

    /// The client's first data is under these keys. `None`: no more is sent, and what still comes is not opened.
    pub fn set_ticket_keys(&mut self, keys: Option<Keys>) {
        self.keys.ticket = keys;
    }

    /// The client has its answer; `secret` is the server's.
    pub fn answered(&mut self, secret: &[u8; 32]) {
        (self.awaited, self.keys.ticket) = (None, None);
        self.keys.early.answered(secret);
    }

    /// This host has this address now, and may have had another before. For a client: a server's address stays.
    pub fn note_own_address(&mut self, address: IpAddr) {
        self.streams.leave_all_but(address);
        self.flow.take_if(|flow| flow.local.ip() != address.to_canonical());
        if let Socket::Connected(socket) = &self.socket
            && let Err(error) = socket.send_from(address)
        {
            tracing::debug!("no UDP from the address that this host has now: {error}");
        }
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
    pub fn receive(
        &mut self,
        mut handle: impl FnMut(KeyPhase, Arrival, &mut [u8]) -> bool,
    ) -> io::Result<bool> {
        self.streams.take_newcomers();
        let any = match &mut self.keys.main {
            Some(keys) => self.streams.receive(keys, clock::now, &mut handle),
            None => false,
        };
        self.by_streams |= any;
        let (mut by_udp, mut came) = (false, 0);
        let outcome = self.receive_datagrams(|phase, arrival, body| {
            by_udp |= phase == KeyPhase::Main;
            came += if phase == KeyPhase::Early { 0 } else { body.len() + SEAL_OVERHEAD };
            handle(phase, arrival, body);
        });
        self.by_streams &= !by_udp;
        self.note_data(0, came);
        if self.keys.are_spent() {
            return Err(io::Error::other(Spent));
        }
        Ok(outcome? || any)
    }

    /// Take what has come in over UDP.
    fn receive_datagrams(
        &mut self,
        mut handle: impl FnMut(KeyPhase, Arrival, &mut [u8]),
    ) -> io::Result<bool> {
        let mut any = false;
        while let Some(mut stray) = self.next_stray() {
            any = true;
            let Stray { bytes, time, ecn, from, to } = &mut stray;
            let datagram = Datagram { bytes, time: *time, ecn: *ecn, from: Some(*from), to: *to };
            let len = datagram.bytes.len();
            if decrypt(&mut self.keys, datagram, &mut handle) {
                self.note_own_end(stray.to);
                self.follow(stray.from, len);
            } else {
                self.refused += 1;
            }
        }
        let socket = match &mut self.socket {
            Socket::Connected(socket) | Socket::Open(socket, _) => socket,
            Socket::Shared(_) => return Ok(any),
        };
        if !socket.receive(&mut self.buffers)? {
            return Ok(any);
        }
        let mut found = vec![];
        for datagram in self.buffers.datagrams() {
            let (from, to, len) = (datagram.from, datagram.to, datagram.bytes.len());
            if let (Some(awaited), Some(from)) = (&mut self.awaited, from) {
                awaited.take(datagram, from, &self.held);
                continue;
            }
            if !decrypt(&mut self.keys, datagram, &mut handle) {
                self.refused += 1;
            } else if let (Some(from), false) = (from, self.address.is_settled()) {
                found.push((from, len, to));
            }
        }
        for (from, len, to) in found {
            self.note_own_end(to);
            self.follow(from, len);
        }
        Ok(true)
    }

    /// What was kept until it can be opened, and what others hand over.
    fn next_stray(&mut self) -> Option<Stray> {
        let held = if self.awaited.is_none() { self.held.pop() } else { None };
        held.or_else(|| self.strays.as_ref()?.pop())
    }

    /// An authentic datagram came to this one of the host's addresses: what goes to the peer is to leave from there. A socket of
    /// our own that is open to all gives way to one that is bound to it.
    fn note_own_end(&mut self, to: Option<IpAddr>) {
        match (&mut self.socket, to) {
            (Socket::Shared(local), Some(to)) => local.set_ip(to),
            (Socket::Open(socket, _), Some(to)) => {
                if let Ok(local) = socket.local_addr() {
                    self.socket = Socket::Shared(SocketAddr::new(to, local.port()));
                }
            }
            _ => {}
        }
    }

    /// An authentic datagram of `len` bytes came from `peer`. The first one tells where the peer is; from another address it
    /// may have been sent by somebody who recorded it, or in the name of somebody who is to be flooded (RFC 9000 §9.3).
    fn follow(&mut self, peer: SocketAddr, len: usize) {
        if !self.address.came_from(peer, len) {
            return;
        }
        // Where no socket can be had, or there is no way back, TCP carries the data.
        let outcome = match &self.socket {
            Socket::Connected(socket) | Socket::Open(socket, _) => socket.connect(peer),
            Socket::Shared(local) => UdpSocket::bind(*local, true).and_then(|mut socket| {
                mark(&mut socket, &self.marks);
                socket.connect(peer)?;
                self.socket = Socket::Connected(socket);
                Ok(())
            }),
        };
        if let Err(error) = outcome {
            tracing::debug!("cannot answer {peer}: {error}");
            return;
        }
        self.flow = None;
        self.address.moved(peer);
        if let Socket::Open(..) = self.socket
            && let Socket::Open(socket, _) = std::mem::replace(&mut self.socket, Socket::Shared(peer))
        {
            self.socket = Socket::Connected(socket);
        }
    }

    /// Send one datagram. `write` fills a body; `false` if it had none. Back-pressure and unreachable peers count as
    /// loss: what this sends is small and repeated.
    pub fn send_one(
        &mut self,
        phase: KeyPhase,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> bool {
        scratch.resize(SCRATCH, 0);
        let Some(transmit) = write(&mut scratch[HEADER_LEN..]) else { return false };
        let len = transmit.len + SEAL_OVERHEAD;
        let Some(keys) = self.keys.of(phase) else { return true };
        keys.seal(&mut scratch[..len], transmit.number);
        match &mut self.socket {
            Socket::Connected(_) if !self.address.take(len) => {}
            Socket::Connected(socket) => {
                drop(socket.send_run(&scratch[..len], len, None));
                self.note_data(if phase == KeyPhase::Early { 0 } else { len }, 0);
            }
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
            return self.send_one(KeyPhase::Main, scratch, write);
        }
        scratch.resize(SCRATCH, 0);
        let Some(transmit) = write(scratch) else { return false };
        if let Some(keys) = &mut self.keys.main {
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
        self.streams.send_run(self.keys.main.as_mut()?, datagram_len, now, write)
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
                Err(error) if is_on_the_way(&error) => {
                    self.was_too_long |= error.raw_os_error() == Some(libc::EMSGSIZE);
                    self.run_sent = self.run.len();
                }
                Err(error) => {
                    self.run_sent = self.run.len();
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// What the IP headers of all that goes over UDP from now on say of queues on the way.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        if let Socket::Connected(socket) | Socket::Open(socket, _) = &mut self.socket {
            socket.set_ecn(ecn);
        }
    }

    /// What is sent from now on is marked so, over UDP and over TCP streams.
    pub fn set_marks(&mut self, marks: Marks) {
        if let Socket::Connected(socket) | Socket::Open(socket, _) = &mut self.socket {
            mark(socket, &marks);
        }
        self.streams.set_marks(marks.clone());
        self.marks = marks;
    }

    /// How what is sent is marked.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// So many bytes that are no mere probes have gone over UDP, and come. The first of them begin its flow.
    fn note_data(&mut self, sent: usize, received: usize) {
        let mut flow = self.flow.take();
        self.marks.note_datagrams(&mut flow, || self.ends(), [sent, received]);
        self.flow = flow;
    }

    /// Whether, since this was last asked, the host has refused datagrams of a run as too long for the path, of which it may have
    /// been told by a router.
    pub fn take_too_long(&mut self) -> bool {
        std::mem::take(&mut self.was_too_long)
    }

    /// Send a run of up to `count` datagrams of at most `datagram_len` bytes under the main keys in one system call.
    /// `write` fills bodies until it has none. Returns how many there were.
    pub fn send_run(
        &mut self,
        count: usize,
        datagram_len: usize,
        mut write: impl FnMut(&mut [u8]) -> Option<Transmit>,
    ) -> io::Result<usize> {
        let Some(keys) = &mut self.keys.main else { return Ok(0) };
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
        if !self.address.take(filled) {
            self.run.clear();
        }
        (self.run_sent, self.run_segment) = (0, datagram_len);
        self.note_data(self.run.len(), 0);
        self.flush()?;
        Ok(datagrams)
    }

    /// Wait for a datagram, for room to send if a run is stuck, for `waker` or for `deadline`.
    pub fn wait(&self, waker: &Waker, now: Time, deadline: Time) -> io::Result<()> {
        if !self.streams.is_empty() {
            return waker.wait_many(self.poll_fds().collect(), deadline.since(now)).map(drop);
        }
        let socket = self.socket().map(UdpSocket::as_fd);
        wait(Interest { socket, writable: self.is_congested() }, waker, now, deadline)
    }

    /// What [`wait`](PeerLink::wait) waits for, to wait for it together with other things.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let flags = if self.is_congested() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let udp = self.socket().map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), flags));
        udp.into_iter().chain(self.streams.poll_fds())
    }

    /// The addresses of both ends, once the peer's is known.
    pub fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &self.socket {
            Socket::Connected(socket) => Some((socket.local_addr().ok()?, socket.peer_addr()?)),
            Socket::Open(..) | Socket::Shared(_) => None,
        }
    }
}

impl Awaited {
    /// A piece of the answer, or something that can only be opened with it.
    fn take(&mut self, datagram: Datagram<'_>, from: SocketAddr, held: &Strays) {
        match Piece::decode(datagram.bytes) {
            Some(piece) if piece.connection_id == self.connection_id => {
                self.answer = self.pieces.take(&piece).or(self.answer.take());
            }
            _ => {
                let Datagram { bytes, time, ecn, to, .. } = datagram;
                held.push(Stray { bytes: bytes.to_vec(), time, ecn, from, to });
            }
        }
    }
}

fn mark(socket: &mut UdpSocket, marks: &Marks) {
    socket.set_dscp(marks.dscp);
    socket.set_label(marks.scitag);
}

/// Room for any one datagram.
const SCRATCH: usize = 1 << 16;

impl LinkKeys {
    /// Those of a phase, if there are any.
    fn of(&mut self, phase: KeyPhase) -> Option<&mut Keys> {
        match phase {
            KeyPhase::Early => Some(&mut self.early),
            KeyPhase::Ticket => self.ticket.as_mut(),
            KeyPhase::Main => self.main.as_mut(),
        }
    }

    fn are_spent(&self) -> bool {
        let others = [&self.ticket, &self.main];
        self.early.is_spent() || others.into_iter().flatten().any(Keys::is_spent)
    }
}

/// Give what is authentic to `handle`; `false` for what is not.
fn decrypt(
    keys: &mut LinkKeys,
    datagram: Datagram<'_>,
    handle: &mut impl FnMut(KeyPhase, Arrival, &mut [u8]),
) -> bool {
    let Datagram { bytes, time, ecn, .. } = datagram;
    let Some(header) = Header::decode(bytes) else { return false };
    let Some(keys) = keys.of(header.phase) else { return false };
    let Ok(body) = keys.open(&header, bytes) else { return false };
    handle(header.phase, Arrival { time, number: header.number, ecn }, body);
    true
}

mod place;
#[cfg(test)]
mod tests;
