//! TCP streams: TCP connections that carry a transfer's datagrams where UDP does not get on. The bodies, numbers
//! and keys are those of the datagrams, so that a transfer can change between the two at any moment; only the pace
//! is TCP's.
//!
//! What differs is in `object/sender/loss.rs`. Over TCP streams (`Sender::go_by_streams`) there is no pacing but
//! the rate cap: a TCP stream takes what its socket takes, in runs of 64 KiB sealed in place and written in one
//! call, and at most 512 KiB wait unsent in it. Short packets share a seal there, 16 KiB of them. TCP streams
//! overtake each other, so being overtaken means nothing for a datagram that one of them has: it is lost only when its
//! stream is. The controller hears of nothing that goes by TCP streams; coming back to UDP begins with a new one. The
//! receiver acknowledges by the way that data came last. Where no datagram has to pass, packets are of 16 KiB.
//!
//! A new connection says in its first four bytes whether it is a control stream or a TCP stream; a TCP stream
//! proves by keyed hashes over fresh nonces that it belongs (`net/src/tcp_set/join.rs`), on a thread of its own
//! with a deadline, before the session hears of it. The client opens TCP streams; a sender at the server asks for
//! them. TCP streams that die are replaced, and one that gets nothing through while others do is given up
//! (`streams::watch`). How many are best `proto/src/streams/search.rs` finds.
//!
//! Over ssh the way of last resort is the control stream: `net/src/pipe.rs` puts a socket pair between the session
//! and the control stream's threads, so that the session sees one more TCP stream, with its back-pressure.

mod join;
mod opener;
mod stream;

pub use join::{
    StreamAcceptor, StreamError, admit, admit_control, admit_first, begin_control, check_congestion,
    control_key, rejoin_control, stream_key, stream_options, usual_congestion,
};
pub use longhaul_proto::streams::join::{CONTROL_MAGIC, FIRST_MAGIC, MAGIC, MAGIC_LEN};
pub use opener::{StreamOpener, StreamOpenerConfig};
pub use stream::{StreamFigures, StreamSocket};

use super::seal::KeyPhase;
use super::seal::{Keys, Refused};
use super::wake::Waker;
use crate::join::JoinKey;
use crate::marks::Marks;
use crate::tcp::Survey;
use crossbeam_channel::{Receiver, Sender, bounded};
use longhaul_proto::endpoint::{Arrival, Transmit};
use longhaul_proto::session::message::TransferOptions;
use longhaul_proto::streams::STREAMS_MAX;
use longhaul_proto::streams::records::{LENGTH_LEN, Malformed, encode_length, next_body, write_bundle};
use longhaul_proto::streams::watch;
use longhaul_proto::units::{DatagramNumber, Time};
use longhaul_proto::wire::{HEADER_LEN, Header, SEAL_OVERHEAD};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;
use stream::DataStream;

/// All TCP streams of a transfer.
pub struct StreamSet {
    streams: Vec<DataStream>,
    newcomers: Receiver<StreamSocket>,
    acceptor: Sender<StreamSocket>,
    /// What TCP streams carried that died since it was last asked for.
    lost: VecDeque<Range<DatagramNumber>>,
    /// Only so many of them are given anything.
    active: usize,
    /// The one that is given something next.
    next: usize,
    /// The one that last brought something, which is the best bet for an answer.
    latest: usize,
    /// What the kernels knew of them at the last look.
    survey: Survey,
    looked_at: Time,
    /// How their packets are marked, and who hears of them.
    marks: Marks,
}

impl Default for StreamSet {
    fn default() -> StreamSet {
        let (acceptor, newcomers) = bounded(STREAMS_MAX as usize);
        StreamSet {
            streams: vec![],
            newcomers,
            acceptor,
            lost: VecDeque::new(),
            active: STREAMS_MAX as usize,
            next: 0,
            latest: 0,
            survey: Survey::default(),
            looked_at: Time::ZERO,
            marks: Marks::default(),
        }
    }
}

impl StreamSet {
    /// Where other threads leave connections that have joined.
    pub fn acceptor(&self) -> Sender<StreamSocket> {
        self.acceptor.clone()
    }

    /// The same for a server's TCP streams, which must prove that they know `key`.
    pub fn acceptor_of(&self, key: JoinKey, options: &TransferOptions, waker: Waker) -> StreamAcceptor {
        self.acceptor_with(key, options.congestion.clone(), waker)
    }

    /// The same, with the name of the kernel's congestion control for them.
    pub fn acceptor_with(&self, key: JoinKey, congestion: Option<String>, waker: Waker) -> StreamAcceptor {
        StreamAcceptor { key, congestion, inside: self.acceptor(), waker }
    }

    /// Take in connections that have joined.
    pub fn take_newcomers(&mut self) {
        while let Ok(socket) = self.newcomers.try_recv() {
            self.add(socket);
        }
    }

    /// A connection that both sides trust is a TCP stream from now on. More than there may be are closed.
    pub fn add(&mut self, socket: StreamSocket) {
        let read_len = if self.streams.len() < WIDE_MAX { READ_LEN } else { 0 };
        if self.streams.len() < STREAMS_MAX as usize
            && let Ok(stream) = DataStream::new(socket, read_len)
        {
            self.mark(&stream);
            self.streams.push(stream);
        }
    }

    /// Mark their packets so from now on, and those of all that are added, and tell of each.
    pub fn set_marks(&mut self, marks: Marks) {
        self.marks = marks;
        self.streams.iter().for_each(|stream| self.mark(stream));
    }

    fn mark(&self, stream: &DataStream) {
        stream.socket.mark(self.marks.dscp);
        stream.flow.iter().for_each(|flow| self.marks.announce(flow));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Give something to so many of them only.
    pub fn set_active(&mut self, active: usize) {
        self.active = active.max(1);
    }

    /// What the kernels knew of them at the last look.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// What is known of each connection.
    pub fn figures(&self) -> impl Iterator<Item = StreamFigures> {
        self.streams.iter().filter_map(DataStream::figures)
    }

    /// Numbers that a TCP stream carried which died. Some of them may have come in.
    pub fn poll_lost(&mut self) -> Option<Range<DatagramNumber>> {
        self.lost.pop_front()
    }

    /// What to wait for: something to read, and room where something is stuck.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.streams.iter().filter_map(|stream| {
            let mut flags = if !stream.held.is_empty() { PollFlags::empty() } else { PollFlags::IN };
            if !stream.writable {
                flags |= PollFlags::OUT;
            }
            // That a connection is broken is told unasked, again and again.
            (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(stream.socket.as_fd(), flags))
        })
    }

    /// Whether a body waits for whoever is to take it, so that time alone gets it on.
    pub fn is_holding(&self) -> bool {
        self.streams.iter().any(|stream| !stream.held.is_empty())
    }

    /// Look which of them can be read and written.
    fn refresh(&mut self) {
        let mut ready: Vec<PollFlags> = vec![];
        {
            let flags = PollFlags::IN | PollFlags::OUT;
            let fds =
                self.streams.iter().map(|stream| PollFd::from_borrowed_fd(stream.socket.as_fd(), flags));
            let mut fds: Vec<PollFd<'_>> = fds.collect();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut fds, Some(&at_once)).is_ok() {
                ready.extend(fds.iter().map(PollFd::revents));
            }
        }
        for (stream, ready) in self.streams.iter_mut().zip(ready) {
            // An end or an error shows when it is read.
            stream.readable = ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
            stream.writable |= ready.contains(PollFlags::OUT);
        }
    }

    /// Take what has come in and hand each authentic body to `handle`, which says whether it took it: a body that it
    /// did not is offered again, and holds its TCP stream up until then. True if anything was taken.
    pub fn receive(
        &mut self,
        keys: &mut Keys,
        now: impl Fn() -> Time,
        handle: &mut impl FnMut(KeyPhase, Arrival, &mut [u8]) -> bool,
    ) -> bool {
        if self.streams.is_empty() {
            return false;
        }
        self.refresh();
        // Whatever carries the data by now: nobody else would write on what was written in part.
        self.flush();
        let (mut any, mut index) = (false, 0);
        while index < self.streams.len() {
            match read_stream(&mut self.streams[index], keys, &now, handle) {
                Ok(taken) => {
                    if taken {
                        (any, self.latest) = (true, index);
                    }
                    index += 1;
                }
                Err(why) => self.bury(index, why),
            }
        }
        any
    }

    /// This host has this address now: TCP streams from another one lead nowhere.
    pub fn leave_all_but(&mut self, address: IpAddr) {
        for index in (0..self.streams.len()).rev() {
            if self.streams[index].local_address().is_some_and(|own| own != address.to_canonical()) {
                self.bury(index, "it comes from an address that this host has no more");
            }
        }
    }

    /// A TCP stream is dead. What it carried goes another way.
    fn bury(&mut self, index: usize, why: impl Display) {
        tracing::debug!("a TCP stream is gone: {why}");
        let stream = self.streams.remove(index);
        stream.socket.reset_when_closed();
        self.lost.extend(stream.into_carried());
    }

    /// Give a run of datagrams to a TCP stream with room. `write` fills bodies until it has none. Returns how many
    /// there were, and `None` if no TCP stream has room.
    pub fn send_run(
        &mut self,
        keys: &mut Keys,
        datagram_len: usize,
        now: Time,
        mut write: impl FnMut(&mut [u8]) -> Option<Transmit>,
    ) -> Option<usize> {
        let index = self.next_with_room()?;
        let stream = &mut self.streams[index];
        let mut run = std::mem::take(stream.run_mut());
        run.resize(RUN_LEN.max(2 * LENGTH_LEN + datagram_len), 0);
        let (mut filled, mut datagrams) = (0, 0);
        let body_max = datagram_len - SEAL_OVERHEAD;
        while let Some((first, count, len)) = write_bundle(&mut run[filled..], body_max, &mut write) {
            seal_record(&mut run[filled..filled + len], keys, first);
            stream.note_carried(first..first + count, now);
            (filled, datagrams) = (filled + len, datagrams + count as usize);
        }
        run.truncate(filled);
        *stream.run_mut() = run;
        self.next = index + 1;
        if let Err(error) = self.streams[index].flush() {
            self.bury(index, error);
        }
        Some(datagrams)
    }

    /// A TCP stream that may be given something, by turns.
    fn next_with_room(&mut self) -> Option<usize> {
        loop {
            let count = self.streams.len().min(self.active);
            let found = (0..count).map(|i| (self.next + i) % count).find(|index| {
                let stream = &self.streams[*index];
                stream.writable
            })?;
            if let Err(error) = self.streams[found].flush() {
                self.bury(found, error);
            } else if self.streams[found].has_room() {
                return Some(found);
            }
        }
    }

    /// Send one small datagram over the TCP stream that last brought something, or else any that has room. It may be
    /// lost.
    pub fn send_one(&mut self, keys: &mut Keys, body: &[u8], number: DatagramNumber) {
        let count = self.streams.len();
        let latest = self.latest;
        let Some(index) =
            (0..count).map(|i| (latest + i) % count).find(|index| !self.streams[*index].is_stuck())
        else {
            return;
        };
        let mut record = vec![0; 2 * LENGTH_LEN + body.len() + SEAL_OVERHEAD];
        let (len, rest) = record[LENGTH_LEN + HEADER_LEN..].split_at_mut(LENGTH_LEN);
        encode_length(len, body.len());
        rest[..body.len()].copy_from_slice(body);
        seal_record(&mut record, keys, number);
        *self.streams[index].run_mut() = record;
        if let Err(error) = self.streams[index].flush() {
            self.bury(index, error);
        }
    }

    /// Write what is stuck where there is room again.
    pub fn flush(&mut self) {
        for index in (0..self.streams.len()).rev() {
            let stream = &mut self.streams[index];
            if stream.writable
                && stream.is_stuck()
                && let Err(error) = stream.flush()
            {
                self.bury(index, error);
            }
        }
    }

    /// Some times a second: forget what is settled, and give up TCP streams that get nothing through while others do.
    pub fn look_after(&mut self, now: Time, patience: Duration, is_on_way: impl Fn(DatagramNumber) -> bool) {
        if now.since(self.looked_at) < LOOK_EVERY || self.streams.is_empty() {
            return;
        }
        self.looked_at = now;
        let mut stalled = vec![];
        let mut infos = vec![];
        let mut watched = vec![];
        for (index, stream) in self.streams.iter_mut().enumerate() {
            stream.settle(now, &is_on_way);
            match stream.tcp_info() {
                Some(Ok(info)) => {
                    infos.push((index < self.active, info));
                    let (watch, sample) = stream.watched(&info);
                    watched.push((index, watch, sample));
                }
                // It is no connection any more.
                Some(Err(_)) => stalled.push(index),
                None => {}
            }
        }
        stalled.extend(watch::stalled(watched, patience, now));
        self.survey = Survey::of(infos);
        stalled.sort_unstable();
        for index in stalled.into_iter().rev() {
            self.bury(index, "nothing gets through");
        }
    }
}

/// Read a TCP stream until it has no more, its turn is over, or somebody does not take what it brings. An error says
/// why it is of no use any more.
fn read_stream(
    stream: &mut DataStream,
    keys: &mut Keys,
    now: &impl Fn() -> Time,
    handle: &mut impl FnMut(KeyPhase, Arrival, &mut [u8]) -> bool,
) -> Result<bool, Ended> {
    let mut any = false;
    while let Some((number, body)) = stream.held.front_mut() {
        if !handle(KeyPhase::Main, Arrival::new(now(), *number), body) {
            return Ok(any);
        }
        stream.held.pop_front();
        any = true;
    }
    for turn in 0..=READS {
        while let Some(record) = stream.records.next_record()? {
            let header = Header::decode(record).filter(|header| header.phase == KeyPhase::Main);
            let header = header.ok_or(Ended::NoHeader)?;
            let mut bundle = match keys.open(&header, record) {
                Ok(bundle) => bundle,
                Err(Refused::Repeated) => continue,
                Err(Refused::Forged) => return Err(Ended::Forged),
            };
            any = true;
            for number in header.number.. {
                let Some(body) = next_body(&mut bundle)? else { break };
                // What one body waits for those behind it wait for too.
                if !stream.held.is_empty() || !handle(KeyPhase::Main, Arrival::new(now(), number), body) {
                    stream.held.push_back((number, body.to_vec()));
                }
            }
            if !stream.held.is_empty() {
                return Ok(any);
            }
        }
        if turn == READS || !stream.readable || !stream.fill()? {
            break;
        }
    }
    Ok(any)
}

/// Why a TCP stream is of no use any more.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("a record without a datagram's header")]
    NoHeader,
    #[error("a record that is not authentic")]
    Forged,
    #[error(transparent)]
    Broken(#[from] io::Error),
}

/// Seal a record whose bundle stands where it belongs.
fn seal_record(record: &mut [u8], keys: &mut Keys, first: DatagramNumber) {
    let (length, datagram) = record.split_at_mut(LENGTH_LEN);
    encode_length(length, datagram.len());
    keys.seal(datagram, first);
}

/// Bytes given to a TCP stream in one system call: some 45 datagrams of what Ethernet carries.
const RUN_LEN: usize = 64 << 10;
/// Calls to read one TCP stream before the others have their turn.
const READS: usize = 2;
/// TCP streams are looked after so often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Bytes read from a TCP stream in one call: of so many of them, of the others no more than a record may have, so that all together
/// take 5 MiB at most.
const READ_LEN: usize = 256 << 10;
const WIDE_MAX: usize = 4;

#[cfg(test)]
mod tests;
