//! The thread that sends: what was written, acknowledgements, and everything that has its time.

use super::keys::LaneSealer;
use super::state::{Core, Lane, State};
use super::tick::Ticker;
use crate::clock;
use longhaul_proto::stripe::LaneId;
use longhaul_proto::stripe::frame::{Frame, HEADER_LEN, data_header};
use longhaul_proto::stripe::outgoing::Piece;
use longhaul_proto::units::Time;
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Run until the stream is over.
pub fn run(core: &Arc<Core>) {
    let mut sender = Sender { core, lanes: vec![], ticker: Ticker::new(core, clock::now()) };
    if let Err(error) = sender.run() {
        core.fail(super::state::Failure::new(error.kind(), format!("waiting for lanes failed: {error}")));
    }
    sender.say_goodbye();
    core.lock().said_goodbye = true;
    core.changed.notify_all();
}

struct Sender<'a> {
    core: &'a Arc<Core>,
    lanes: Vec<SendLane>,
    ticker: Ticker,
}

/// The sending end of a lane.
struct SendLane {
    lane: Arc<Lane>,
    sealer: LaneSealer,
    /// Frames that the socket has not taken completely.
    pending: VecDeque<Chunk>,
    /// Bytes of the first of them that it has taken.
    written: usize,
    /// The socket takes nothing now.
    blocked: bool,
    /// Where a frame was sealed, for use again.
    scratch: Option<Vec<u8>>,
}

/// A frame on its way into a socket.
struct Chunk {
    head: [u8; HEADER_LEN],
    body: Body,
    sealed: bool,
}

enum Body {
    /// A piece of the stream, not copied.
    Piece(Arc<Vec<u8>>),
    /// Anything else, or a sealed piece.
    Own(Vec<u8>),
}

impl Chunk {
    fn body(&self) -> &[u8] {
        match &self.body {
            Body::Piece(bytes) => bytes,
            Body::Own(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        HEADER_LEN + self.body().len()
    }
}

impl Sender<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let now = clock::now();
            let mut state = self.core.lock();
            self.adopt(&mut state);
            if state.is_over() {
                state.settled = state.failure.is_none();
                return Ok(());
            }
            let due = self.ticker.tick(self.core, &mut state, now);
            if !due.is_empty() {
                drop(state);
                due.act(self.core);
                continue;
            }
            let (mut found, alone) = (false, self.lanes.len() == 1);
            let ack_on = self.lane_for_ack(&state);
            for lane in &mut self.lanes {
                found |= lane.take_work(&mut state, ack_on, alone, now);
            }
            if state.out.has_good_room() {
                self.core.wake_writers(&mut state, false);
            }
            if !found && self.lanes.iter().all(|lane| lane.pending.is_empty() || lane.blocked) {
                state.sender_idle = self.lanes.iter().any(|lane| !lane.blocked);
                let starved = state.out.active_lanes().any(|id| self.has_room(id));
                let wait = self.ticker.wait(self.core, &state, now);
                drop(state);
                self.sleep(wait)?;
                if starved {
                    self.ticker.starved(clock::now().since(now));
                }
                continue;
            }
            drop(state);
            self.write();
        }
    }

    /// Take over new lanes, forget those that died.
    fn adopt(&mut self, state: &mut State) {
        for (lane, sealer) in state.new_senders.drain(..) {
            let (pending, scratch) = (VecDeque::new(), None);
            self.lanes.push(SendLane { lane, sealer, pending, written: 0, blocked: false, scratch });
        }
        self.lanes.retain(|lane| state.lanes.contains_key(&lane.lane.id));
    }

    fn has_room(&self, id: LaneId) -> bool {
        self.lanes.iter().any(|lane| lane.lane.id == id && !lane.blocked)
    }

    /// Acknowledgements go where data came in last or one was asked for, or else where there is room.
    fn lane_for_ack(&self, state: &State) -> Option<LaneId> {
        let free = self.lanes.iter().find(|lane| !lane.blocked).map(|lane| lane.lane.id);
        state.ack_on.filter(|id| self.has_room(*id)).or(free)
    }

    fn write(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| !lane.blocked) {
            if let Err(error) = lane.write() {
                self.core.lane_died(lane.lane.id, &format!("sending failed: {error}"));
                lane.blocked = true;
            }
        }
    }

    /// Wait for room in a socket, to be woken, or for the time to pass.
    fn sleep(&mut self, wait: Duration) -> io::Result<()> {
        let waits = |lane: &SendLane| lane.blocked && !lane.pending.is_empty();
        let blocked: Vec<usize> = (0..self.lanes.len()).filter(|at| waits(&self.lanes[*at])).collect();
        let socket = |at: &usize| self.lanes[*at].lane.socket.as_fd();
        let fds = blocked.iter().map(|at| PollFd::from_borrowed_fd(socket(at), PollFlags::OUT)).collect();
        let ready = self.core.send_waker.wait_many(fds, wait)?;
        for (at, _) in blocked.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            self.lanes[at].blocked = false;
        }
        Ok(())
    }

    /// Let sockets take what is left, a little while, and close our direction of each.
    fn say_goodbye(&mut self) {
        let (deadline, reason) = {
            let mut state = self.core.lock();
            self.adopt(&mut state);
            let reason = state.failure.as_ref().map(|failure| failure.line().to_owned());
            (clock::now() + GOODBYE_PATIENCE, reason)
        };
        if let Some(reason) = reason {
            for lane in &mut self.lanes {
                lane.push_frame(&Frame::Abort(reason.clone()));
            }
        }
        while clock::now() < deadline && self.lanes.iter().any(|lane| !lane.pending.is_empty()) {
            self.lanes.retain_mut(|lane| lane.blocked || lane.write().is_ok());
            let left = deadline.since(clock::now()).min(Duration::from_millis(50));
            if self.lanes.iter().any(|lane| lane.blocked) && self.sleep(left).is_err() {
                break;
            }
        }
        for lane in &self.lanes {
            let _ = lane.lane.socket.shutdown(Shutdown::Write);
        }
        self.core.receive_waker.wake();
    }
}

impl SendLane {
    /// Take what is to go out on this lane, if it has nothing left. Returns whether there is something.
    fn take_work(&mut self, state: &mut State, ack_on: Option<LaneId>, alone: bool, now: Time) -> bool {
        if self.blocked || !self.pending.is_empty() {
            return false;
        }
        let id = self.lane.id;
        if ack_on == Some(id) && state.inc.wants_ack() {
            let ack = state.inc.ack();
            self.push_frame(&Frame::Ack(ack));
        }
        if let Some(at) = state.probes.iter().position(|lane| *lane == id) {
            state.probes.swap_remove(at);
            self.push_frame(&Frame::Probe);
        }
        while let Some(frame) = state.notices.next(id, alone, now) {
            self.push_frame(&frame);
        }
        if let Some(piece) = state.out.next(id, now) {
            self.push_piece(piece);
        }
        !self.pending.is_empty()
    }

    fn push_frame(&mut self, frame: &Frame) {
        let (header, body) = frame.encode();
        self.push(header.encode(), Body::Own(body));
    }

    fn push_piece(&mut self, piece: Piece) {
        self.lane.count_sent(piece.bytes.len() as u64);
        let head = data_header(piece.offset, piece.bytes.len()).encode();
        self.push(head, Body::Piece(piece.bytes));
    }

    fn push(&mut self, head: [u8; HEADER_LEN], body: Body) {
        self.pending.push_back(Chunk { head, body, sealed: false });
    }

    /// Seal what is not sealed yet, in the order in which it goes out. Only here and not before, as it takes its time and
    /// needs no lock.
    fn seal(&mut self) {
        if self.sealer.is_clear() {
            return;
        }
        for chunk in self.pending.iter_mut().filter(|chunk| !chunk.sealed) {
            let mut sealed = self.scratch.take().unwrap_or_default();
            sealed.clear();
            sealed.extend_from_slice(chunk.body());
            self.sealer.seal(&chunk.head, &mut sealed);
            (chunk.body, chunk.sealed) = (Body::Own(sealed), true);
        }
    }

    /// Hand to the socket what it takes.
    fn write(&mut self) -> io::Result<()> {
        self.seal();
        while let Some(first) = self.pending.front() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            if let Some(head) = first.head.get(self.written..).filter(|head| !head.is_empty()) {
                slices[count] = IoSlice::new(head);
                count += 1;
            }
            slices[count] = IoSlice::new(&first.body()[self.written.saturating_sub(HEADER_LEN)..]);
            count += 1;
            for chunk in self.pending.iter().skip(1).take((SLICES_MAX - 2) / 2) {
                slices[count] = IoSlice::new(&chunk.head);
                slices[count + 1] = IoSlice::new(chunk.body());
                count += 2;
            }
            // Not `write_vectored`: a program in another language may not ignore SIGPIPE.
            let socket = SockRef::from(&self.lane.socket);
            match socket.send_vectored_with_flags(&slices[..count], libc::MSG_NOSIGNAL) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => self.taken(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The socket has taken so many bytes more.
    fn taken(&mut self, len: usize) {
        self.written += len;
        while let Some(first) = self.pending.front()
            && self.written >= first.len()
        {
            self.written -= first.len();
            if let Some(Chunk { body: Body::Own(buffer), .. }) = self.pending.pop_front()
                && buffer.len() > SCRATCH_MIN
            {
                self.scratch = Some(buffer);
            }
        }
    }
}

/// Buffers handed to the kernel in one call.
const SLICES_MAX: usize = 16;
/// Smaller buffers are not worth keeping.
const SCRATCH_MIN: usize = 4 << 10;
/// How long last words may take to leave.
pub const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);
