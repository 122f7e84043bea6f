//! What sends, and the thread that sees to it: what was written, acknowledgements, and everything that has its
//! time.

use super::keys::LaneSealer;
use super::state::{Core, Lane, State, locked};
use super::tick::Ticker;
use longhaul_net::clock;
use longhaul_proto::stripe::LaneId;
use longhaul_proto::stripe::frame::{Frame, HEADER_LEN, data_header};
use longhaul_proto::stripe::outgoing::Piece;
use longhaul_proto::units::Time;
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// One end of a stream with what sends in it.
pub struct Sending {
    /// What the threads share.
    pub core: Arc<Core>,
    /// Whoever has it may lock the state, but not the other way round.
    sender: Mutex<LaneSender>,
}

impl Deref for Sending {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Sending {
    /// Nothing is sent yet.
    pub fn new(core: Core) -> Sending {
        Sending { core: Arc::new(core), sender: Mutex::default() }
    }

    /// Be the one that sends.
    fn sender(&self) -> MutexGuard<'_, LaneSender> {
        locked(&self.sender)
    }

    /// There is something to send: send it if the sending thread sleeps, which otherwise sees it by itself.
    pub fn send(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.sender_idle) && !state.is_over() {
            drop(state);
            send_here(self);
        }
    }
}

/// Run until the stream is over.
pub fn run(core: &Sending) {
    if let Err(error) = serve(core) {
        core.fail(super::state::Failure::new(error.kind(), format!("waiting for lanes failed: {error}")));
    }
    // Nobody who comes late shall wait until the last words are said.
    let mut last = std::mem::take(&mut *core.sender());
    last.say_goodbye(core);
    core.lock().said_goodbye = true;
    core.changed.notify_all();
}

fn serve(core: &Sending) -> io::Result<()> {
    let mut ticker = Ticker::new(core, clock::now());
    loop {
        let mut sender = core.sender();
        sender.asleep_until = None;
        let now = clock::now();
        ticker.starved(sender.take_starved(now));
        let mut state = core.lock();
        if state.is_over() {
            state.sender_idle = false;
            state.settled = state.failure.is_none();
            return Ok(());
        }
        let due = ticker.tick(&core.core, &mut state, now);
        drop(state);
        if !due.is_empty() {
            drop(sender);
            due.act(core);
            continue;
        }
        if !sender.turns(core) {
            continue;
        }
        let wait = ticker.wait(core, &core.lock(), now);
        sender.asleep_until = Some(now + wait);
        let blocked = sender.blocked();
        sender.watched = blocked.iter().map(|lane| lane.id).collect();
        drop(sender);
        let ready = wait_for_room(core, &blocked, wait)?;
        core.sender().unblock(&ready);
    }
}

/// Wait for room in a lane, to be woken, or for the time to pass. Returns the lanes that have room.
fn wait_for_room(core: &Core, blocked: &[Arc<Lane>], wait: Duration) -> io::Result<Vec<LaneId>> {
    let fds = blocked.iter().map(|lane| PollFd::new(&lane.socket, PollFlags::OUT)).collect();
    let ready = core.send_waker.wait_many(fds, wait)?;
    Ok(blocked.iter().zip(ready).filter(|(_, ready)| *ready).map(|(lane, _)| lane.id).collect())
}

/// Send what there is to send in the calling thread, as the sending thread sleeps: to wake it for each block would cost
/// more than to send one.
fn send_here(core: &Sending) {
    let mut sender = core.sender();
    let rests = sender.turns(core);
    let Some(asleep_until) = sender.asleep_until else {
        // It is awake and about to look for itself.
        return;
    };
    let watches_all = sender.blocked().iter().all(|lane| sender.watched.contains(&lane.id));
    let comes_in_time = asleep_until <= clock::now() + LOOKS_AFTER || core.lock().out.in_flight() == 0;
    if !rests || !watches_all || !comes_in_time {
        core.send_waker.wake();
    }
}

/// What sends: the sending thread, or while that sleeps, whoever has something to send.
#[derive(Default)]
pub struct LaneSender {
    lanes: Vec<SendLane>,
    /// The sending thread sleeps until then, or until it is woken.
    asleep_until: Option<Time>,
    /// The lanes for whose room it waits.
    watched: Vec<LaneId>,
    /// There has been room, and nothing to send, since then.
    starving_since: Option<Time>,
    /// For how long that was so before.
    starved: Duration,
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

impl LaneSender {
    /// For how long there was room and nothing to send, since this was last asked.
    fn take_starved(&mut self, now: Time) -> Duration {
        self.count_starved(now);
        std::mem::take(&mut self.starved)
    }

    fn count_starved(&mut self, now: Time) {
        if let Some(since) = &mut self.starving_since {
            self.starved += now.since(std::mem::replace(since, now));
        }
    }

    /// Some turns, unless there is less to do. Returns whether it is done, or has no room.
    fn turns(&mut self, core: &Core) -> bool {
        (0..TURNS).any(|_| self.turn(core))
    }

    /// Send what there is to send now. Returns whether there was nothing, or no room for it.
    fn turn(&mut self, core: &Core) -> bool {
        let now = clock::now();
        let mut state = core.lock();
        self.adopt(&mut state);
        self.count_starved(now);
        self.starving_since = None;
        if state.is_over() {
            // What is to be said last is the sending thread's.
            state.sender_idle = false;
            core.send_waker.wake();
            core.given_back.notify_all();
            return true;
        }
        let (mut found, alone) = (false, self.lanes.len() == 1);
        let ack_on = self.lane_for_ack(&state);
        for lane in &mut self.lanes {
            found |= lane.take_work(&mut state, ack_on, alone, now);
        }
        if state.out.has_good_room() {
            core.wake_writers(&mut state, false);
        }
        if !found && self.lanes.iter().all(|lane| lane.pending.is_empty() || lane.blocked) {
            state.sender_idle = self.lanes.iter().any(|lane| !lane.blocked);
            let starves = state.out.active_lanes().any(|id| self.has_room(id));
            self.starving_since = starves.then_some(now);
            return true;
        }
        drop(state);
        self.write(core);
        false
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

    fn write(&mut self, core: &Core) {
        for lane in self.lanes.iter_mut().filter(|lane| !lane.blocked) {
            if let Err(error) = lane.write() {
                core.lane_died(lane.lane.id, &format!("sending failed: {error}"));
                lane.blocked = true;
            }
        }
    }

    /// The lanes that wait for room.
    fn blocked(&self) -> Vec<Arc<Lane>> {
        let waits = |lane: &&SendLane| lane.blocked && !lane.pending.is_empty();
        self.lanes.iter().filter(waits).map(|lane| lane.lane.clone()).collect()
    }

    /// These have room.
    fn unblock(&mut self, ready: &[LaneId]) {
        let has_room = |lane: &&mut SendLane| ready.contains(&lane.lane.id);
        self.lanes.iter_mut().filter(has_room).for_each(|lane| lane.blocked = false);
    }

    /// Let sockets take what is left, a little while, and close our direction of each.
    fn say_goodbye(&mut self, core: &Core) {
        let (deadline, reason) = {
            let mut state = core.lock();
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
            let blocked = self.blocked();
            if !blocked.is_empty() {
                let Ok(ready) = wait_for_room(core, &blocked, left) else { break };
                self.unblock(&ready);
            }
        }
        for lane in &self.lanes {
            let _ = lane.lane.socket.shutdown(Shutdown::Write);
        }
        core.receive_waker.wake();
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
            state.owes_ack_since = None;
            self.push_frame(&Frame::Ack(ack));
        }
        if let Some(at) = state.probes.iter().position(|lane| *lane == id) {
            state.probes.swap_remove(at);
            self.push_frame(&Frame::Probe);
        }
        while let Some(frame) = state.notices.next(id, alone, now) {
            if frame == Frame::Stop {
                // What did arrive is told first, and on this lane: what goes on another may come later.
                self.push_frame(&Frame::Ack(state.inc.ack()));
            }
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
/// Turns before there are other things to do.
const TURNS: usize = 16;
/// While something is on its way, the sending thread looks after it at least so often: a little more than a tick.
const LOOKS_AFTER: Duration = Duration::from_millis(100);
/// How long last words may take to leave.
pub const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);
