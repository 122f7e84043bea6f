//! One lane: a connection, what waits to be written to it, and what it carried.

use crate::stripe::TcpInfo;
use longhaul_proto::lanes::Records;
use longhaul_proto::stripe::watch::{LaneSample, LaneWatch};
use longhaul_proto::units::{DatagramNumber, Time};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A lane's connection, which never blocks.
#[derive(Debug)]
pub enum LaneSocket {
    /// Of its own.
    Tcp(TcpStream),
    /// Towards the threads that put its bytes on the control stream.
    Pipe(UnixStream),
}

impl LaneSocket {
    /// Its descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            LaneSocket::Tcp(socket) => socket.as_fd(),
            LaneSocket::Pipe(socket) => socket.as_fd(),
        }
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            LaneSocket::Tcp(socket) => (&*socket).read(buf),
            LaneSocket::Pipe(socket) => (&*socket).read(buf),
        }
    }

    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            LaneSocket::Tcp(socket) => (&*socket).write(buf),
            LaneSocket::Pipe(socket) => (&*socket).write(buf),
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Lane {
    pub(super) socket: LaneSocket,
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
    watch: LaneWatch,
}

impl Lane {
    /// Over a connection that both sides trust.
    pub fn new(socket: LaneSocket) -> io::Result<Lane> {
        match &socket {
            LaneSocket::Tcp(socket) => socket.set_nonblocking(true)?,
            LaneSocket::Pipe(socket) => socket.set_nonblocking(true)?,
        }
        Ok(Lane {
            socket,
            records: Records::new(READ_LEN),
            held: VecDeque::new(),
            readable: true,
            writable: true,
            out: vec![],
            out_sent: 0,
            carried: VecDeque::new(),
            progress: Time::ZERO,
            watch: LaneWatch::default(),
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

    /// An empty buffer for the next run, while [`Lane::has_room`].
    pub fn run_mut(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        self.out_sent = 0;
        &mut self.out
    }

    /// Write what the socket takes. An error is the lane's end.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.is_stuck() {
            match self.socket.write(&self.out[self.out_sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.out_sent += sent,
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

    /// Read once. `false` if there was nothing; an error is the lane's end.
    pub fn fill(&mut self) -> io::Result<bool> {
        match self.socket.read(self.records.room()) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.records.filled(read);
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

    /// When it last got something through.
    pub fn progress(&self) -> Time {
        self.watch.progress()
    }

    /// Whether it gets nothing through while others, at `others`, did. Also returns what the kernel knows of it.
    pub fn look(&mut self, others: Time, patience: Duration, now: Time) -> (bool, Option<TcpInfo>) {
        // The control stream has its own watch.
        let LaneSocket::Tcp(socket) = &self.socket else { return (false, None) };
        let Ok(info) = TcpInfo::of(socket) else { return (true, None) };
        let in_flight = self.carried.iter().map(|range| range.end - range.start).sum();
        let sample = LaneSample {
            in_flight,
            stream_progress: self.progress,
            kernel_acked: info.acked_bytes,
            queued: info.queued_bytes,
            rtt: info.rtt,
        };
        (self.watch.look(&sample, others, patience, now), Some(info))
    }
}

/// Bytes read from a lane in one call.
const READ_LEN: usize = 256 << 10;
