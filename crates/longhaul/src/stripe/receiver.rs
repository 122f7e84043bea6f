//! The thread that receives: takes in what comes on the lanes and hands it to whoever reads.

use super::keys::LaneOpener;
use super::state::{Core, Failure, Lane, State};
use crate::clock;
use longhaul_proto::stripe::Violation;
use longhaul_proto::stripe::frame::Frame;
use longhaul_proto::stripe::hello::LANES_MAX;
use longhaul_proto::stripe::lane::LaneReader;
use longhaul_proto::units::Time;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::sync::Arc;
use std::time::Duration;

/// Run until the stream is over and the other side has closed.
pub fn run(core: &Arc<Core>) {
    let mut receiver = Receiver { core, lanes: vec![], spare: vec![], owes_ack_since: None };
    if let Err(error) = receiver.run() {
        core.fail(Failure::new(error.kind(), format!("waiting for lanes failed: {error}")));
    }
}

struct Receiver<'a> {
    core: &'a Arc<Core>,
    lanes: Vec<ReceiveLane>,
    /// Buffers to read into.
    spare: Vec<Vec<u8>>,
    /// Something came in that the other side has not been told of.
    owes_ack_since: Option<Time>,
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

impl Receiver<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut close_by = None;
        loop {
            let mut state = self.core.lock();
            for (lane, opener) in state.new_receivers.drain(..) {
                self.lanes.push(ReceiveLane { lane, opener, reader: LaneReader::default() });
            }
            self.lanes.retain(|lane| state.lanes.contains_key(&lane.lane.id));
            if state.is_over() {
                // Until the other side has closed too: closing with bytes unread would take our last words back.
                let by = *close_by.get_or_insert(clock::now() + CLOSE_PATIENCE);
                if self.lanes.is_empty() || clock::now() >= by {
                    return Ok(());
                }
            }
            let wait = self.time_for_ack(&mut state, close_by);
            drop(state);
            for at in self.ready(wait)? {
                if let Err(ended) = self.receive(at) {
                    let lane = &self.lanes[at].lane;
                    if let Ended::Violated(violation) = ended {
                        tracing::warn!("{}: lane closed: the other side {violation}", self.core.peer);
                    }
                    self.core.lane_died(lane.id, &ended.to_string());
                }
            }
        }
    }

    /// How long to wait. What came in is told a little later if not enough comes to tell it at once.
    fn time_for_ack(&mut self, state: &mut State, close_by: Option<Time>) -> Duration {
        let now = clock::now();
        if !state.inc.owes_ack() {
            self.owes_ack_since = None;
            return close_by.map_or(IDLE_WAIT, |by| by.since(now).min(IDLE_WAIT));
        }
        let due = *self.owes_ack_since.get_or_insert(now) + ACK_DELAY;
        if now < due {
            return due.since(now);
        }
        state.inc.ask_ack();
        self.core.wake_sender(state);
        self.owes_ack_since = None;
        ACK_DELAY
    }

    /// The lanes on which something has come.
    fn ready(&self, wait: Duration) -> io::Result<Vec<usize>> {
        let fds = self.lanes.iter().map(|lane| PollFd::new(&lane.lane.socket, PollFlags::IN)).collect();
        let ready = self.core.receive_waker.wait_many(fds, wait)?;
        Ok((0..ready.len()).filter(|at| ready[*at]).collect())
    }

    /// Take in what has come on a lane, or a good part of it.
    fn receive(&mut self, at: usize) -> Result<(), Ended> {
        for _ in 0..READS_PER_TURN {
            let lane = &mut self.lanes[at];
            let (body, head) = lane.reader.space();
            let mut slices = [IoSliceMut::new(body), IoSliceMut::new(head)];
            match (&lane.lane.socket).read_vectored(&mut slices) {
                Ok(0) => return Err(Ended::Closed),
                Ok(len) => lane.reader.filled(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Ended::Broken(error)),
            }
            while let Some(frame) =
                lane.reader.poll(&mut lane.opener, &mut self.spare).map_err(Ended::Violated)?
            {
                take_in(self.core, &lane.lane, frame, &mut self.spare).map_err(Ended::Violated)?;
            }
        }
        Ok(())
    }
}

/// Act on a frame.
fn take_in(core: &Core, lane: &Lane, frame: Frame, spare: &mut Vec<Vec<u8>>) -> Result<(), Violation> {
    let mut state = core.lock();
    let state = &mut *state;
    match frame {
        Frame::Data { offset, bytes } => {
            lane.count_received(bytes.len() as u64);
            state.ack_on = Some(lane.id);
            let was_readable = state.inc.is_readable();
            state.inc.insert(offset, bytes)?;
            if spare.is_empty() {
                spare.append(state.inc.spare());
            }
            if !was_readable && state.inc.is_readable() {
                core.wake_readers(state, false);
            }
            if state.inc.wants_ack() {
                core.wake_sender(state);
            }
        }
        Frame::Ack(ack) => {
            state.out.on_ack(&ack, clock::now())?;
            if state.out.is_complete() {
                state.notices.withdraw(&Frame::End(0));
            }
            core.wake_sender(state);
            if state.out.has_good_room() || state.out.end().is_some() {
                core.wake_writers(state, false);
            }
            if state.is_settled() {
                core.wake_all(state);
            }
        }
        Frame::End(end) => {
            state.inc.finish(end)?;
            state.ack_on = Some(lane.id);
            core.wake_readers(state, false);
            core.wake_sender(state);
        }
        Frame::Stop => {
            state.peer_stopped = true;
            core.wake_writers(state, false);
        }
        Frame::Probe => {
            state.inc.ask_ack();
            state.ack_on = Some(lane.id);
            core.wake_sender(state);
        }
        Frame::Want(lanes) => {
            state.wanted_by_peer = lanes.clamp(1, LANES_MAX);
            core.send_waker.wake();
        }
        Frame::Abort(line) => {
            if !state.is_settled() {
                let line = format!("the other side gave up: {line}");
                state.failure.get_or_insert(Failure::new(ErrorKind::ConnectionAborted, line));
            }
            core.wake_all(state);
        }
    }
    Ok(())
}

/// Reads on one lane before the others have their turn.
const READS_PER_TURN: usize = 16;
/// What came in is told after so long at the latest: a small part of a long path's round trip.
const ACK_DELAY: Duration = Duration::from_millis(20);
/// With nothing to do.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// How long the other side may take to close its lanes when all has been said.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
