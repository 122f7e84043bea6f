//! One TCP stream: a connection, what waits to be written to it, and what it carried.

use crate::dscp;
use crate::flow::{Flow, Protocol};
use crate::tcp::TcpInfo;
use longhaul_proto::dscp::Dscp;
use longhaul_proto::streams::records::Records;
use longhaul_proto::streams::watch::{StreamSample, StreamWatch};
use longhaul_proto::units::{DatagramNumber, Time};
use rustix::net::sockopt::set_socket_linger;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// A TCP stream's connection, which never blocks.
#[derive(Debug)]
pub enum StreamSocket {
    /// Of its own.
    Tcp(TcpStream),
    /// Towards the threads that put its bytes on the control stream.
    Pipe(UnixStream),
}

impl StreamSocket {
    /// Its descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            StreamSocket::Tcp(socket) => socket.as_fd(),
            StreamSocket::Pipe(socket) => socket.as_fd(),
        }
    }

    /// What waits in it is not to be sent any more, and the other side is to hear at once that it is closed, not behind that.
    pub fn reset_when_closed(&self) {
        if let StreamSocket::Tcp(socket) = self {
            // One that is dead already takes no options.
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
        }
    }

    /// Have its packets ask routers for this.
    pub fn mark(&self, dscp: Dscp) {
        if let StreamSocket::Tcp(socket) = self {
            dscp::mark(socket, dscp);
        }
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            StreamSocket::Tcp(socket) => (&*socket).read(buf),
            StreamSocket::Pipe(socket) => (&*socket).read(buf),
        }
    }

    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            StreamSocket::Tcp(socket) => (&*socket).write(buf),
            StreamSocket::Pipe(socket) => (&*socket).write(buf),
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct DataStream {
    pub(super) socket: StreamSocket,
    pub(super) records: Records,
    /// Bodies that nobody could take yet, and their numbers: until then nothing more is read.
    pub(super) held: VecDeque<(DatagramNumber, Vec<u8>)>,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Sealed records, and how much of them is gone.
    out: Vec<u8>,
    out_sent: usize,
    /// Numbers that it carried and that may not have come in, oldest first.
    carried: VecDeque<Range<DatagramNumber>>,
    /// When some of those were last found to have come in, or when it began to carry something.
    progress: Time,
    watch: StreamWatch,
    /// What its connection is to networks, and what was written and read; `None` for the control stream.
    pub(super) flow: Option<Arc<Flow>>,
}

/// What is known of a TCP stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamFigures {
    /// This host's end of its connection, and the other one's.
    pub ends: [SocketAddr; 2],
    /// Written to it and read from it.
    pub bytes: u64,
    /// Smoothed round trip.
    pub rtt: Duration,
}

impl DataStream {
    /// Over a connection that both sides trust, of which so many bytes are read in one call, and a record in any case.
    pub fn new(socket: StreamSocket, read_len: usize) -> io::Result<DataStream> {
        let flow = match &socket {
            StreamSocket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Some(Flow::new(Protocol::Tcp, socket.local_addr()?, socket.peer_addr()?))
            }
            StreamSocket::Pipe(socket) => {
                socket.set_nonblocking(true)?;
                None
            }
        };
        Ok(DataStream {
            socket,
            records: Records::new(read_len),
            held: VecDeque::new(),
            readable: true,
            writable: true,
            out: vec![],
            out_sent: 0,
            carried: VecDeque::new(),
            progress: Time::ZERO,
            watch: StreamWatch::default(),
            flow,
        })
    }

    /// Whether records wait for the socket.
    pub fn is_stuck(&self) -> bool {
        self.out_sent < self.out.len()
    }

    /// Whether a run of records may be given to it.
    pub fn has_room(&self) -> bool {
        self.writable && !self.is_stuck()
    }

    /// An empty buffer for the next run, while [`DataStream::has_room`].
    pub fn run_mut(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        self.out_sent = 0;
        &mut self.out
    }

    /// Write what the socket takes. An error is the TCP stream's end.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.is_stuck() {
            match self.socket.write(&self.out[self.out_sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.out_sent += sent;
                    self.flow.iter().for_each(|flow| flow.note_sent(sent));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Read once. `false` if there was nothing; an error is the TCP stream's end.
    pub fn fill(&mut self) -> io::Result<bool> {
        match self.socket.read(self.records.room()) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.records.filled(read);
                self.flow.iter().for_each(|flow| flow.note_received(read));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.readable = false;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// It carries datagrams of these numbers.
    pub fn note_carried(&mut self, numbers: Range<DatagramNumber>, now: Time) {
        if self.carried.is_empty() {
            self.progress = now;
        }
        match self.carried.back_mut() {
            Some(last) if last.end == numbers.start => last.end = numbers.end,
            _ => self.carried.push_back(numbers),
        }
    }

    /// Forget numbers that are settled.
    pub fn settle(&mut self, now: Time, is_on_way: &impl Fn(DatagramNumber) -> bool) {
        while let Some(first) = self.carried.front_mut() {
            let start = first.start;
            first.start = first.clone().find(|number| is_on_way(*number)).unwrap_or(first.end);
            if first.start > start {
                self.progress = now;
            }
            if !first.is_empty() {
                break;
            }
            self.carried.pop_front();
        }
    }

    /// What it carried and what is not settled.
    pub fn into_carried(self) -> VecDeque<Range<DatagramNumber>> {
        self.carried
    }

    /// This host's end of its TCP connection.
    pub fn local_address(&self) -> Option<IpAddr> {
        match &self.socket {
            StreamSocket::Tcp(socket) => socket.local_addr().ok().map(|own| own.ip().to_canonical()),
            StreamSocket::Pipe(_) => None,
        }
    }

    /// What the kernel knows of its connection; `None` for the control stream, which has its own watch.
    pub fn tcp_info(&self) -> Option<io::Result<TcpInfo>> {
        match &self.socket {
            StreamSocket::Tcp(socket) => Some(TcpInfo::of(socket)),
            StreamSocket::Pipe(_) => None,
        }
    }

    /// For who looks at it; `None` for the control stream, and one that is dead.
    pub fn figures(&self) -> Option<StreamFigures> {
        let StreamSocket::Tcp(socket) = &self.socket else { return None };
        let flow = self.flow.as_ref()?;
        let (ends, bytes) = ([flow.local, flow.peer], flow.sent() + flow.received());
        Some(StreamFigures { ends, bytes, rtt: TcpInfo::of(socket).ok()?.rtt })
    }

    /// For the watch over all TCP streams.
    pub fn watched(&mut self, info: &TcpInfo) -> (&mut StreamWatch, StreamSample) {
        let in_flight = self.carried.iter().map(|range| range.end - range.start).sum();
        let sample = StreamSample {
            in_flight,
            progress: self.progress,
            kernel_acked: info.acked_bytes,
            queued: info.queued_bytes,
            rtt: info.rtt,
        };
        (&mut self.watch, sample)
    }
}
