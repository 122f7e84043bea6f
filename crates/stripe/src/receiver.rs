//! What receives, and the thread that sees to it: takes in what comes on the lanes and hands it to whoever reads.

use super::keys::LaneOpener;
use super::sender::Sending;
use super::state::{Core, Failure, Lane, State, locked};
use longhaul_net::clock;
use longhaul_net::wake::Waker;
use longhaul_proto::streams::STREAMS_MAX;
use longhaul_proto::stripe::Violation;
use longhaul_proto::stripe::frame::Frame;
use longhaul_proto::stripe::lane::LaneReader;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// One end of a stream with what sends and what receives in it.
pub struct Engine {
    sending: Sending,
    /// Whoever has it may lock what sends and the state, but not the other way round.
    receiver: Mutex<LaneReceiver>,
}

impl Deref for Engine {
    type Target = Sending;

    fn deref(&self) -> &Sending {
        &self.sending
    }
}

impl Engine {
    /// Nothing is sent or received yet.
    pub fn new(core: Core) -> Engine {
        Engine { sending: Sending::new(core), receiver: Mutex::default() }
    }

    /// Be the one that receives.
    fn receiver(&self) -> MutexGuard<'_, LaneReceiver> {
        locked(&self.receiver)
    }

    /// Be the one that receives, if nobody is.
    fn try_receiver(&self) -> Option<MutexGuard<'_, LaneReceiver>> {
        match self.receiver.try_lock() {
            Ok(receiver) => Some(receiver),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Run until the stream is over and the other side has closed.
pub fn run(core: &Engine) {
    if let Err(error) = serve(core) {
        core.fail(Failure::new(error.kind(), format!("waiting for lanes failed: {error}")));
    }
}

fn serve(core: &Engine) -> io::Result<()> {
    let mut close_by = None;
    loop {
        wait_for_turn(core);
        let mut receiver = core.receiver();
        let mut state = core.lock();
        let mut wait = IDLE_WAIT;
        receiver.adopt(&mut state);
        if state.is_over() {
            // Until the other side has closed too: closing with bytes unread would take our last words back.
            let by = *close_by.get_or_insert(clock::now() + CLOSE_PATIENCE);
            wait = by.since(clock::now());
            if receiver.lanes.is_empty() || wait.is_zero() {
                return Ok(());
            }
            if state.receives.at_it {
                // It waits for the receiver, to find out that this is the end.
                drop(receiver);
                drop(core.given_back.wait_timeout(state, LOOK_EVERY));
                continue;
            }
        } else if state.receives.by_program {
            continue;
        }
        let wait = time_for_ack(core, state).min(wait);
        receiver.receive(core, &core.receive_waker, wait, READS_PER_TURN)?;
    }
}

/// Wait until the program no longer receives by itself.
fn wait_for_turn(core: &Core) {
    let mut state = core.lock();
    let mut turns = state.receives.turns;
    while state.receives.by_program && !state.is_over() {
        state = core.given_back.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        let is_new = std::mem::replace(&mut turns, state.receives.turns) != turns;
        if !is_new && state.receives.at_it && !state.is_over() {
            // It waits for long.
            state.receives.is_awaited = true;
            state = core.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        } else if !is_new {
            state.receives.by_program = false;
        }
    }
}

/// Receive in the program's own thread, until there is something to read or to tell it, or the time is over.
pub fn receive_here<'a>(
    core: &'a Engine,
    mut state: MutexGuard<'a, State>,
    deadline: Option<Instant>,
) -> io::Result<MutexGuard<'a, State>> {
    state.receives.at_it = true;
    state.receives.turns += 1;
    if !std::mem::replace(&mut state.receives.by_program, true) {
        core.receive_waker.wake();
    }
    drop(state);
    let received = core.receiver().receive_for_program(core, deadline);
    let mut state = core.lock();
    state.receives.at_it = false;
    if std::mem::take(&mut state.receives.is_awaited) {
        core.given_back.notify_all();
    }
    received.map(|()| state)
}

/// Take in what has come, in the thread of a program that writes much. While it sends, a thread that would be woken for each
/// acknowledgement could only wait for the socket.
pub fn look_here(core: &Engine) {
    let mut state = core.lock();
    if state.lanes.len() != 1 || state.receives.at_it || state.is_over() {
        return;
    }
    state.receives.turns += 1;
    let is_new = !std::mem::replace(&mut state.receives.by_program, true);
    drop(state);
    if is_new {
        core.receive_waker.wake();
    } else if let Some(mut receiver) = core.try_receiver() {
        receiver.look(core);
    }
}

/// How long to wait. What came in is told a little later if not enough comes to tell it at once.
fn time_for_ack(core: &Sending, mut state: MutexGuard<'_, State>) -> Duration {
    let now = clock::now();
    if !state.inc.owes_ack() {
        state.owes_ack_since = None;
        return IDLE_WAIT;
    }
    let due = *state.owes_ack_since.get_or_insert(now) + ACK_DELAY;
    if now < due {
        return due.since(now);
    }
    state.inc.ask_ack();
    core.send(state);
    ACK_DELAY
}

/// What receives: the receiving thread, or the program while it waits for something to read.
#[derive(Default)]
pub struct LaneReceiver {
    lanes: Vec<ReceiveLane>,
    /// Buffers to read into.
    spare: Vec<Vec<u8>>,
}

/// The receiving end of a lane.
struct ReceiveLane {
    lane: Arc<Lane>,
    opener: LaneOpener,
    reader: LaneReader,
}

/// Why a lane is of no use any more.
enum Ended {
    Closed,
    Broken(io::Error),
    Violated(Violation),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Closed => write!(f, "the other side closed it"),
            Ended::Broken(error) => write!(f, "receiving failed: {error}"),
            Ended::Violated(violation) => write!(f, "the other side {violation}"),
        }
    }
}

impl LaneReceiver {
    /// Take over new lanes, forget those that died.
    fn adopt(&mut self, state: &mut State) {
        for (lane, opener) in state.new_receivers.drain(..) {
            self.lanes.push(ReceiveLane { lane, opener, reader: LaneReader::default() });
        }
        self.lanes.retain(|lane| state.lanes.contains_key(&lane.lane.id));
    }

    fn receive_for_program(&mut self, core: &Sending, deadline: Option<Instant>) -> io::Result<()> {
        loop {
            let mut state = core.lock();
            self.adopt(&mut state);
            let is_told = state.inc.is_at_end() || state.read_shut || state.is_over();
            let left = deadline.map_or(IDLE_WAIT, |at| at.saturating_duration_since(Instant::now()));
            if state.inc.is_readable() || is_told || left.is_zero() {
                return Ok(());
            }
            let wait = time_for_ack(core, state).min(left);
            // Often something is there already.
            if self.lanes.len() != 1 || !self.take_from(core, 0, 1) {
                self.receive(core, &core.program_waker, wait, 1)?;
            }
        }
    }

    fn look(&mut self, core: &Sending) {
        self.adopt(&mut core.lock());
        if self.lanes.len() == 1 {
            self.take_from(core, 0, READS_PER_TURN);
        }
        time_for_ack(core, core.lock());
    }

    /// Wait for something to come on the lanes and take it in, with so many reads at most on each.
    fn receive(&mut self, core: &Sending, waker: &Waker, wait: Duration, reads: usize) -> io::Result<()> {
        let fds = self.lanes.iter().map(|lane| PollFd::new(&lane.lane.socket, PollFlags::IN)).collect();
        let ready = waker.wait_many(fds, wait)?;
        for at in (0..ready.len()).filter(|at| ready[*at]) {
            self.take_from(core, at, reads);
        }
        Ok(())
    }

    /// Take in what has come on a lane. Returns whether something had.
    fn take_from(&mut self, core: &Sending, at: usize, reads: usize) -> bool {
        let taken = self.read(core, at, reads);
        if let Err(ended) = &taken {
            let lane = &self.lanes[at].lane;
            if let Ended::Violated(violation) = ended {
                tracing::warn!("{}: lane closed: the other side {violation}", core.peer);
            }
            core.lane_died(lane.id, &ended.to_string());
        }
        taken.unwrap_or(true)
    }

    fn read(&mut self, core: &Sending, at: usize, reads: usize) -> Result<bool, Ended> {
        for done in 0..reads {
            let lane = &mut self.lanes[at];
            let (body, head) = lane.reader.space();
            let mut slices = [IoSliceMut::new(body), IoSliceMut::new(head)];
            match (&lane.lane.socket).read_vectored(&mut slices) {
                Ok(0) => return Err(Ended::Closed),
                Ok(len) => lane.reader.filled(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(done > 0),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Ended::Broken(error)),
            }
            while let Some(frame) =
                lane.reader.poll(&mut lane.opener, &mut self.spare).map_err(Ended::Violated)?
            {
                take_in(core, &lane.lane, frame, &mut self.spare).map_err(Ended::Violated)?;
            }
        }
        Ok(true)
    }
}

/// Act on a frame.
fn take_in(core: &Sending, lane: &Lane, frame: Frame, spare: &mut Vec<Vec<u8>>) -> Result<(), Violation> {
    let mut guard = core.lock();
    let state = &mut *guard;
    let sends = match frame {
        Frame::Data { offset, bytes } => {
            lane.count_received(bytes.len() as u64);
            state.ack_on = Some(lane.id);
            let was_readable = state.inc.is_readable();
            state.inc.insert(offset, bytes)?;
            if spare.is_empty() {
                spare.append(state.inc.spare());
            }
            if !was_readable && state.inc.is_readable() {
                core.wake_readers(state);
            }
            state.inc.wants_ack()
        }
        Frame::Ack(ack) => {
            state.out.on_ack(&ack, clock::now())?;
            if state.out.is_complete() {
                state.notices.withdraw(&Frame::End(0));
            }
            if state.out.has_good_room() || state.out.end().is_some() {
                core.wake_writers(state, false);
            }
            if state.is_settled() {
                core.wake_all(state);
            }
            // The other side may take more now.
            state.out.unsent() > 0
        }
        Frame::End(end) => {
            state.inc.finish(end)?;
            state.ack_on = Some(lane.id);
            core.wake_readers(state);
            true
        }
        Frame::Stop => {
            state.peer_stopped = true;
            core.wake_writers(state, false);
            false
        }
        Frame::Probe => {
            state.inc.ask_ack();
            state.ack_on = Some(lane.id);
            true
        }
        Frame::Want(lanes) => {
            state.wanted_by_peer = lanes.clamp(1, STREAMS_MAX);
            core.send_waker.wake();
            false
        }
        Frame::Abort(line) => {
            if !state.is_settled() {
                let line = format!("the other side gave up: {line}");
                state.failure.get_or_insert(Failure::new(ErrorKind::ConnectionAborted, line));
            }
            core.wake_all(state);
            false
        }
    };
    if sends {
        core.send(guard);
    }
    Ok(())
}

/// Reads on one lane before the others have their turn.
const READS_PER_TURN: usize = 16;
/// What came in is told after so long at the latest: a small part of a long path's round trip.
const ACK_DELAY: Duration = Duration::from_millis(20);
/// The receiving thread looks so often whether the program still receives: seldom enough to cost nothing, often enough for
/// acknowledgements of what a program writes that has just read.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// With nothing to do.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// How long the other side may take to close its lanes when all has been said.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
