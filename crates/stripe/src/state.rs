//! What the threads of a stream share.

use super::handshake::Agreed;
use super::keys::{LaneOpener, LaneSealer, Secrets};
use super::options::StripeOptions;
use super::turns::Turns;
use longhaul_net::clock;
use longhaul_net::join::JoinKey;
use longhaul_net::seal::Side;
use longhaul_net::wake::Waker;
use longhaul_proto::stripe::LaneId;
use longhaul_proto::stripe::frame::Frame;
use longhaul_proto::stripe::notices::Notices;
use longhaul_proto::stripe::outgoing::Outgoing;
use longhaul_proto::stripe::reassembly::Reassembly;
use longhaul_proto::units::Time;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker as TaskWaker;
use std::time::{Duration, Instant};

/// One end of a striped stream, as its threads and its owners see it.
pub struct Core {
    state: Mutex<State>,
    /// There may be room to write, or more was acknowledged.
    pub writable: Condvar,
    /// A lane was added or died, or the stream is over.
    pub changed: Condvar,
    /// Wakes the sending thread.
    pub send_waker: Waker,
    /// Wakes the receiving thread.
    pub receive_waker: Waker,
    /// Wakes a program that receives in its own thread.
    pub program_waker: Waker,
    /// The receiving thread may go on.
    pub given_back: Condvar,
    /// Fixed when the stream was opened.
    pub secrets: Secrets,
    /// How it was set up.
    pub options: StripeOptions,
    /// Lanes at most.
    pub lanes_max: u32,
    /// Where lanes lead.
    pub peer: SocketAddr,
    /// Where the first lane began.
    pub local: SocketAddr,
    /// Clients open lanes, servers take them.
    pub side: Side,
    /// A client: where its lanes begin.
    pub turns: Turns,
}

/// What changes.
pub struct State {
    /// What we write.
    pub out: Outgoing,
    /// What we read.
    pub inc: Reassembly,
    /// What the other side must be told.
    pub notices: Notices,
    /// Those alive.
    pub lanes: BTreeMap<LaneId, Arc<Lane>>,
    /// For the sending thread to take over.
    pub new_senders: Vec<(Arc<Lane>, LaneSealer)>,
    /// For the receiving thread to take over.
    pub new_receivers: Vec<(Arc<Lane>, LaneOpener)>,
    /// The lane on which an acknowledgement was asked for, or data came last.
    pub ack_on: Option<LaneId>,
    /// The lanes on which to ask for one.
    pub probes: Vec<LaneId>,
    /// Why the stream failed.
    pub failure: Option<Failure>,
    /// All was said and heard at some time: what is asked for afterwards, such as an end, needs no saying.
    pub settled: bool,
    /// The last word was said: the sending thread has ended.
    pub said_goodbye: bool,
    /// The other side reads no more.
    pub peer_stopped: bool,
    /// We read no more.
    pub read_shut: bool,
    /// Lanes that died while the stream lived.
    pub lanes_lost: u64,
    /// Lanes wanted, by either side.
    pub wanted: u32,
    /// How many lanes the other side asked for.
    pub wanted_by_peer: u32,
    /// Numbers of lanes tried and bytes per second with each.
    pub lanes_tried: Vec<(u32, f64)>,
    /// When the last lane died, while there is none.
    pub alone_since: Option<Time>,
    /// Why the last attempt at a lane failed.
    pub last_lane_error: Option<String>,
    /// The sending thread sleeps although a lane has room.
    pub sender_idle: bool,
    /// Who receives.
    pub receives: Receives,
    /// Something came in that the other side has not been told of.
    pub owes_ack_since: Option<Time>,
    /// Somebody waits at [`Core::writable`].
    pub writer_waits: bool,
    /// Tasks to wake when there is something to read.
    pub read_tasks: Vec<TaskWaker>,
    /// Tasks to wake when there is room to write.
    pub write_tasks: Vec<TaskWaker>,
    next_lane: LaneId,
}

/// Who receives: a thread of ours, or the program itself in its calls, which spares waking it for each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receives {
    /// The program does; the receiving thread looks now and then whether it still does.
    pub by_program: bool,
    /// It is at it now.
    pub at_it: bool,
    /// How often it was.
    pub turns: u64,
    /// The receiving thread waits to be told when the program is no longer at it.
    pub is_awaited: bool,
}

/// Why a stream failed: given to everybody who asks.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: ErrorKind,
    line: String,
}

impl Failure {
    /// In a line.
    pub fn new(kind: ErrorKind, line: impl Into<String>) -> Failure {
        Failure { kind, line: line.into() }
    }

    /// As an error.
    pub fn to_error(&self) -> io::Error {
        io::Error::new(self.kind, self.line.clone())
    }

    /// The line.
    pub fn line(&self) -> &str {
        &self.line
    }
}

/// A lane that is alive.
pub struct Lane {
    /// Its name here.
    pub id: LaneId,
    /// At which of our local ends it begins, if we began it.
    end: usize,
    /// Does not block.
    pub socket: TcpStream,
    /// Bytes of the stream that went out on it.
    pub sent: AtomicU64,
    /// Bytes of the stream that came in on it.
    pub received: AtomicU64,
}

impl Core {
    /// A stream without lanes yet.
    pub fn new(
        options: &StripeOptions,
        Agreed { secrets, lanes_max, limit, told_limit }: Agreed,
        socket: &TcpStream,
        side: Side,
    ) -> io::Result<Core> {
        let out = Outgoing::new(options.partition, options.buffer, limit);
        let state = State {
            out,
            inc: Reassembly::new(options.buffer).told(told_limit),
            notices: Notices::default(),
            lanes: BTreeMap::new(),
            new_senders: vec![],
            new_receivers: vec![],
            ack_on: None,
            probes: vec![],
            failure: None,
            settled: false,
            said_goodbye: false,
            peer_stopped: false,
            read_shut: false,
            lanes_lost: 0,
            wanted: 1,
            wanted_by_peer: 1,
            lanes_tried: vec![],
            alone_since: None,
            last_lane_error: None,
            sender_idle: false,
            receives: Receives::default(),
            owes_ack_since: None,
            writer_waits: false,
            read_tasks: vec![],
            write_tasks: vec![],
            next_lane: 0,
        };
        Ok(Core {
            state: Mutex::new(state),
            writable: Condvar::new(),
            changed: Condvar::new(),
            send_waker: Waker::new()?,
            receive_waker: Waker::new()?,
            program_waker: Waker::new()?,
            given_back: Condvar::new(),
            secrets,
            options: options.clone(),
            lanes_max,
            peer: socket.peer_addr()?,
            local: socket.local_addr()?,
            side,
            turns: Turns::new(vec![], 0),
        })
    }

    /// Lanes at least: one from each local end, each of which may have a path of its own.
    pub fn lanes_min(&self) -> u32 {
        (self.turns.ends() as u32).clamp(1, self.lanes_max)
    }

    /// What further lanes prove to know, unless the stream is over.
    pub fn join_key(&self) -> Option<JoinKey> {
        (!self.lock().is_over()).then(|| self.secrets.join.clone())
    }

    /// Look at what changes.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane joins. `false`: there are enough, or the stream is over.
    pub fn add_lane(
        &self,
        socket: TcpStream,
        end: usize,
        sealer: LaneSealer,
        opener: LaneOpener,
    ) -> io::Result<bool> {
        socket.set_nonblocking(true)?;
        let mut state = self.lock();
        // A server may not know yet that a lane which the client replaces has died.
        let most = if self.side == Side::Client { self.lanes_max } else { self.lanes_max * 2 };
        if state.is_over() || state.lanes.len() >= most as usize {
            return Ok(false);
        }
        let id = state.next_lane;
        state.next_lane += 1;
        self.turns.begun(end);
        let lane = Lane { id, end, socket, sent: 0.into(), received: 0.into() };
        let lane = Arc::new(lane);
        state.lanes.insert(id, lane.clone());
        state.out.add_lane(id);
        state.new_senders.push((lane.clone(), sealer));
        state.new_receivers.push((lane, opener));
        state.alone_since = None;
        // What we knew may be news to a side whose lanes have died.
        state.inc.ask_ack();
        drop(state);
        self.changed.notify_all();
        self.send_waker.wake();
        self.wake_receivers();
        Ok(true)
    }

    /// A lane is of no use any more. What it carried goes to the others.
    pub fn lane_died(&self, id: LaneId, why: &str) {
        let mut state = self.lock();
        // The other side closes its lanes when all has been said: what was settled stays so.
        state.settled |= state.is_settled();
        let Some(lane) = state.lanes.remove(&id) else { return };
        self.turns.ended(lane.end);
        let _ = lane.socket.shutdown(Shutdown::Both);
        let again = state.out.remove_lane(id);
        state.notices.lane_died(id);
        state.inc.ask_ack();
        state.probes.retain(|lane| *lane != id);
        if !state.is_settled() {
            state.lanes_lost += 1;
            state.last_lane_error = Some(why.to_owned());
            tracing::debug!("lane {id} to {}: {why}; {again} bytes go over others", self.peer);
        }
        if state.lanes.is_empty() {
            state.alone_since = Some(clock::now());
        }
        drop(state);
        self.changed.notify_all();
        self.send_waker.wake();
        self.wake_receivers();
    }

    /// The stream has failed: everybody who waits is told.
    pub fn fail(&self, failure: Failure) {
        let mut state = self.lock();
        if !state.is_settled() {
            state.failure.get_or_insert(failure);
        }
        self.wake_all(&mut state);
    }

    /// Wake whoever waits for anything.
    pub fn wake_all(&self, state: &mut State) {
        self.wake_readers(state);
        self.wake_writers(state, true);
        self.changed.notify_all();
        self.send_waker.wake();
        self.take_receiving_back(state);
        self.given_back.notify_all();
        self.wake_receivers();
    }

    fn wake_receivers(&self) {
        self.receive_waker.wake();
        self.program_waker.wake();
    }

    /// The receiving thread is to receive again, unless the program is just at it.
    pub fn take_receiving_back(&self, state: &mut State) {
        if state.receives.by_program && !state.receives.at_it {
            state.receives.by_program = false;
            self.given_back.notify_all();
        }
    }

    /// There is something to read, or an end to be seen. A program that waits for it receives itself, and sees it.
    pub fn wake_readers(&self, state: &mut State) {
        state.read_tasks.drain(..).for_each(TaskWaker::wake);
    }

    /// There is room to write, or an end to be seen.
    pub fn wake_writers(&self, state: &mut State, force: bool) {
        if state.writer_waits || force {
            state.writer_waits = false;
            self.writable.notify_all();
        }
        state.write_tasks.drain(..).for_each(TaskWaker::wake);
    }

    /// There is something to send: wake the sending thread if it does not know.
    pub fn wake_sender(&self, state: &mut State) {
        if std::mem::take(&mut state.sender_idle) {
            self.send_waker.wake();
        }
    }
}

impl State {
    /// Nothing can change any more: threads may end.
    pub fn is_over(&self) -> bool {
        self.failure.is_some() || self.is_settled()
    }

    /// All that either side had to say has been said and heard.
    pub fn is_settled(&self) -> bool {
        if self.settled {
            return true;
        }
        let said = self.out.is_complete() || self.peer_stopped;
        let heard = self.inc.is_complete() || self.read_shut && !self.notices.is_unsent(&Frame::Stop);
        self.failure.is_none() && said && heard && !self.inc.owes_ack()
    }

    /// Nothing more will be written. Returns whether that is news.
    pub fn finish_writing(&mut self) -> bool {
        let is_news = self.out.end().is_none();
        if is_news {
            self.out.finish();
            self.notices.post(Frame::End(self.out.written()));
        }
        is_news
    }

    /// Nothing more will be read. Returns whether that is news.
    pub fn stop_reading(&mut self) -> bool {
        let is_news = !self.read_shut;
        if is_news {
            self.read_shut = true;
            self.inc.stop();
            if !self.inc.is_complete() {
                self.notices.post(Frame::Stop);
            }
        }
        is_news
    }
}

impl Lane {
    /// Count what went out.
    pub fn count_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Count what came in.
    pub fn count_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The moment so long from now. What is too far off to be told apart from never is in a century.
pub fn after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + CENTURY)
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Whatever happened to others who had it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
