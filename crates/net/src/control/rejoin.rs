//! A control stream outlives its TCP connection: what was written and not taken by the other side is kept, and goes out again
//! over the next connection.
//!
//! ```text
//! client  a join of the copy's control stream (`tcp_set/join.rs`)
//! both    bytes of the stream that were taken so far, u64; from there the other side goes on
//! ```
//! The bytes are those of sealed frames, as they were sealed first. A nonce is therefore never used for anything else, and
//! who changes the two numbers on their way breaks the stream, as with any other byte of it.
//!
//! A stream that was opened over UDP begins without a connection. What the server has to say goes over UDP until there is one.

use crate::dscp;
use crate::join::read_array;
use crate::seal::Side;
use crate::tcp::TcpInfo;
use crate::wake::Waker;
use crossbeam_channel::{Receiver, Sender, bounded};
use longhaul_proto::dscp::Dscp;
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What one side has written to a stream and the other has not said to have taken. Positions count the stream's bytes from its
/// beginning.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: VecDeque<u8>,
    /// Position of the first of them.
    begin: u64,
    /// Up to where the present connection was given the stream.
    given: u64,
}

impl Backlog {
    /// More is written.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// How many bytes are kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the other side has taken all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Position behind all that was written.
    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// What follows a position, up to `max` bytes, as long as the other side has not said to have taken any.
    fn after(&self, position: u64, max: usize) -> Vec<u8> {
        let from = self.bytes.len().min((position - self.begin) as usize);
        self.bytes.range(from..self.bytes.len().min(from + max)).copied().collect()
    }

    /// What the present connection is to be given next, up to `max` bytes, and the position behind it.
    pub fn next(&self, max: usize) -> (Vec<u8>, u64) {
        let skip = (self.given - self.begin) as usize;
        let until = self.bytes.len().min(skip.saturating_add(max));
        (self.bytes.range(skip..until).copied().collect(), self.begin + until as u64)
    }

    /// Whether the present connection was given all.
    fn is_given(&self) -> bool {
        self.given == self.end()
    }

    /// The present connection was given all up to `position`. The other side may have told before that it has taken more.
    pub fn note_given(&mut self, position: u64) {
        self.given = self.given.max(position.min(self.end()));
    }

    /// The other side tells that it has taken all up to `position`. `false` if that cannot be.
    pub fn note_taken(&mut self, position: u64) -> bool {
        // What was told before the last break may come later than what was told at the new beginning.
        let may = position <= self.end();
        if may && position > self.begin {
            self.bytes.drain(..(position - self.begin) as usize);
            self.begin = position;
            self.given = self.given.max(position);
        }
        may
    }

    /// Another connection begins, over which the other side wants the stream from `position` on. `false` if that cannot be.
    pub fn go_on_from(&mut self, position: u64) -> bool {
        let may = position >= self.begin && self.note_taken(position);
        if may {
            self.given = position;
        }
        may
    }
}

/// A control stream over one TCP connection after the other.
pub struct ResumableStream {
    state: Mutex<State>,
    changed: Condvar,
    /// Something is in it when another connection has taken the place of the one before.
    resumed: (Sender<()>, Receiver<()>),
    /// Wakes who reads from the first connection when the same comes another way. `None`: it does not.
    bell: Option<Waker>,
}

struct State {
    backlog: Backlog,
    /// Bytes of the other side's stream that were taken.
    taken: u64,
    /// The present connection, and how many there have been before.
    socket: Option<Arc<TcpStream>>,
    number: u64,
    /// Since when there is none.
    broken_at: Option<Instant>,
    /// How long there may be none.
    patience: Duration,
    /// How often the other side says something, if a connection over which it does not is doubted.
    says_every: Option<Duration>,
    /// The present connection has brought nothing for too long.
    is_doubted: bool,
    /// Since when it has been waited for something from the other side.
    quiet_since: Option<Instant>,
    over: bool,
    /// Before the first connection. `None`: there has been one.
    early: Option<Early>,
    /// What came of the other side's stream and was not read.
    unread: VecDeque<u8>,
    /// Up to where the present connection has brought it: behind what came, if that came another way.
    brought: u64,
    /// What the packets of its connections ask routers for.
    dscp: Dscp,
}

/// What a stream without a connection needs.
struct Early {
    /// Told when there is something that goes another way.
    waker: Waker,
    /// Up to where that was given the stream.
    given: u64,
}

impl ResumableStream {
    /// Over a connection on which the handshake is done. Until [`ResumableStream::allow`] its break is the stream's end.
    pub fn new(socket: TcpStream) -> Arc<ResumableStream> {
        ResumableStream::begin(Some(socket), None, Duration::ZERO, None)
    }

    /// Without a connection, for so long at most. What is to be said meanwhile may go another way
    /// ([`ResumableStream::early_words`]), of which `waker` is told.
    pub fn unconnected(patience: Duration, waker: Waker) -> io::Result<Arc<ResumableStream>> {
        let bell = Some(Waker::new()?);
        Ok(ResumableStream::begin(None, Some(Early { waker, given: 0 }), patience, bell))
    }

    fn begin(
        socket: Option<TcpStream>,
        early: Option<Early>,
        patience: Duration,
        bell: Option<Waker>,
    ) -> Arc<ResumableStream> {
        let state = State {
            backlog: Backlog::default(),
            taken: 0,
            broken_at: socket.is_none().then(Instant::now),
            socket: socket.map(Arc::new),
            number: 0,
            patience,
            says_every: None,
            is_doubted: false,
            quiet_since: None,
            over: false,
            early,
            unread: VecDeque::new(),
            brought: 0,
            dscp: Dscp::default(),
        };
        let (changed, resumed) = (Condvar::new(), bounded(1));
        Arc::new(ResumableStream { state: Mutex::new(state), changed, resumed, bell })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a connection may be missing for so long; for no time at all: its break is the end.
    pub fn allow(&self, patience: Duration) {
        self.state().patience = patience;
    }

    /// From now on a connection over which nothing comes is doubted: the way that it took may be gone. The other side says
    /// something `every` so often. For the side that can make another.
    pub fn doubt_silence(&self, every: Duration) -> io::Result<()> {
        let mut state = self.state();
        state.says_every = Some(every);
        state.socket.as_ref().map_or(Ok(()), |socket| socket.set_read_timeout(state.silence_borne()))
    }

    /// Tells whoever writes that there is another connection: to be flushed, so that it is given what the one before lost.
    pub fn resumed(&self) -> &Receiver<()> {
        &self.resumed.1
    }

    /// How often a connection has broken.
    pub fn breaks(&self) -> u64 {
        self.state().number
    }

    /// It is over: whoever waits for it is told.
    pub fn end(&self) {
        self.state().end();
        self.changed.notify_all();
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Whether it has no connection at the moment.
    pub fn is_broken(&self) -> bool {
        let state = self.state();
        state.socket.is_none() && !state.over
    }

    /// Whether another connection is needed: there is none, or none that brings anything.
    pub fn needs_another(&self) -> bool {
        self.state().needs_another()
    }

    /// Something came from the other side on another way.
    pub fn note_life(&self) {
        let mut state = self.state();
        if state.quiet_since.is_some() {
            state.quiet_since = Some(Instant::now());
        }
    }

    /// For how long nothing has come from the other side, on any way.
    pub fn quiet(&self) -> Duration {
        self.state().quiet_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Bytes that were taken of the other side's stream: it need not keep them.
    pub fn taken(&self) -> u64 {
        self.state().taken
    }

    /// Bytes that are kept for the other side.
    pub fn kept(&self) -> usize {
        self.state().backlog.len()
    }

    /// The other side tells that it has taken all up to `position`. `false` if that cannot be.
    pub fn note_taken(&self, position: u64) -> bool {
        self.state().backlog.note_taken(position)
    }

    /// The packets of its connections ask routers for this from now on.
    pub fn set_dscp(&self, dscp: Dscp) {
        let mut state = self.state();
        state.dscp = dscp;
        state.socket.iter().for_each(|socket| dscp::mark(socket, dscp));
    }

    /// This host's end of the present connection.
    pub fn local_address(&self) -> Option<IpAddr> {
        let socket = self.state().socket.clone()?;
        socket.local_addr().ok().map(|address| address.ip())
    }

    /// Wait until another connection is needed. `false`: it is over.
    pub fn await_need(&self) -> bool {
        let is_well = |state: &mut State| !state.over && !state.needs_another();
        let state = self.changed.wait_while(self.state(), is_well);
        !state.unwrap_or_else(PoisonError::into_inner).over
    }

    /// What there is to be said while there has been no connection, and where in the stream it belongs: each byte once, `max`
    /// bytes at a time and [`EARLY_MAX`] in all. The first connection brings it again, but for what has come.
    pub fn early_words(&self, max: usize) -> Option<(u64, Vec<u8>)> {
        let mut state = self.state();
        let given = state.early.as_ref()?.given;
        let bytes = state.backlog.after(given, max.min((EARLY_MAX - given.min(EARLY_MAX)) as usize));
        state.early.as_mut()?.given += bytes.len() as u64;
        (!bytes.is_empty()).then_some((given, bytes))
    }

    /// Bytes of the other side's stream came another way than over the first connection, which brings them as well. What does
    /// not follow what is there is left to that.
    pub fn take_early(&self, position: u64, bytes: &[u8]) {
        let mut state = self.state();
        if let Some(bell) = &self.bell
            && state.number == 0
            && position == state.come()
            && position < EARLY_MAX
        {
            state.unread.extend(bytes);
            self.changed.notify_all();
            bell.wake();
        }
    }

    /// The first connection is there. `hello` says so over it, and what of the other side's stream has come.
    pub fn connect(&self, mut socket: TcpStream, hello: impl FnOnce(u64) -> Vec<u8>) -> io::Result<()> {
        let mut state = self.state();
        let come = state.may_connect()?;
        socket.write_all(&hello(come))?;
        state.brought = come;
        self.connected(&mut state, socket)
    }

    /// The first connection is there, over which the other side wants the stream from `position` on.
    pub fn connect_from(&self, socket: TcpStream, position: u64) -> io::Result<()> {
        let mut state = self.state();
        state.may_connect()?;
        if !state.backlog.go_on_from(position) {
            return Err(io::Error::other(IMPOSSIBLE));
        }
        self.connected(&mut state, socket)
    }

    fn connected(&self, state: &mut State, socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(state.silence_borne())?;
        socket.set_write_timeout(None)?;
        dscp::mark(&socket, state.dscp);
        (state.socket, state.broken_at, state.early) = (Some(Arc::new(socket)), None, None);
        self.changed.notify_all();
        // One word is enough, however often.
        let _ = self.resumed.0.try_send(());
        Ok(())
    }

    /// Go on over a new connection, which has proven that it may. A client keeps the one that it has if that speaks again.
    pub fn go_on(&self, mut socket: TcpStream, side: Side) -> io::Result<()> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(EXCHANGE))?;
        // The server keeps its connection until the client has shown that it goes on over the new one.
        let told = if side == Side::Server { Some(read_position(&mut socket)?) } else { None };
        let number = {
            let mut state = self.state();
            if state.over || state.patience.is_zero() {
                return Err(ErrorKind::NotConnected.into());
            }
            if side == Side::Client && !state.needs_another() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            // Nothing more is taken from the old one: the other side is told where to go on.
            state.break_off();
            self.changed.notify_all();
            state.brought = state.come();
            socket.write_all(&state.brought.to_be_bytes())?;
            state.number
        };
        let theirs = told.map_or_else(|| read_position(&mut socket), Ok)?;
        let mut state = self.state();
        if state.number != number || state.over {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if !state.backlog.go_on_from(theirs) {
            return Err(io::Error::other(IMPOSSIBLE));
        }
        self.connected(&mut state, socket)
    }

    /// The present connection, waiting for one while that may be.
    fn connection(&self) -> io::Result<(Arc<TcpStream>, u64)> {
        self.connection_unless(|_| false).map(|found| found.expect("only what is asked for comes before it"))
    }

    /// The same; `None` as soon as something else is the case.
    fn connection_unless(&self, other: impl Fn(&State) -> bool) -> io::Result<Option<(Arc<TcpStream>, u64)>> {
        let mut state = self.state();
        loop {
            if other(&state) {
                return Ok(None);
            }
            if state.over {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some(socket) = &state.socket {
                return Ok(Some((socket.clone(), state.number)));
            }
            let since = *state.broken_at.get_or_insert_with(Instant::now);
            let left = state.patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                state.end();
                self.changed.notify_all();
                continue;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The connection with this number is no good any more.
    fn note_broken(&self, number: u64, why: &io::Error) {
        let mut state = self.state();
        if state.number == number && state.socket.is_some() {
            tracing::debug!("the connection of the control stream broke: {why}");
            state.break_off();
            self.changed.notify_all();
        }
    }

    /// The same for one that takes nothing. What it has brought is read first, which may be the other side's last word: whoever
    /// reads notices the end then.
    fn note_unwritable(&self, number: u64, why: &io::Error) {
        let may_bring = |state: &mut State| state.number == number && state.socket.is_some();
        drop(self.changed.wait_timeout_while(self.state(), LAST_READ, may_bring));
        self.note_broken(number, why);
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.state().quiet_since.get_or_insert_with(Instant::now);
        let mut waits = (u64::MAX, Instant::now());
        loop {
            let Some((socket, number)) = self.connection_unless(|state| !state.unread.is_empty())? else {
                let mut state = self.state();
                let len = state.unread.read(buf)?;
                state.taken += len as u64;
                state.quiet_since = None;
                return Ok(len);
            };
            if waits.0 != number {
                waits = (number, Instant::now());
            }
            let outcome = match self.await_bytes(&socket, number) {
                Ok(false) => continue,
                Ok(true) => (&*socket).read(buf),
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.note_silence(number, &socket, waits.1.elapsed())?;
                }
                Err(error) => self.note_broken(number, &error),
                Ok(0) => self.note_broken(number, &ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    let mut state = self.state();
                    // What an old connection brought after the new one began comes again over that.
                    if state.number == number {
                        let known = len.min((state.come() - state.brought) as usize);
                        state.unread.extend(&buf[known..len]);
                        state.brought += len as u64;
                        waits.1 = Instant::now();
                        if std::mem::take(&mut state.is_doubted) {
                            tracing::debug!("the connection of the control stream speaks again");
                        }
                    }
                }
            }
        }
    }

    /// Nothing has come over the connection with this number for so long.
    fn note_silence(&self, number: u64, socket: &TcpStream, silence: Duration) -> io::Result<()> {
        let mut state = self.state();
        let Some(every) = state.says_every.filter(|_| state.number == number) else { return Ok(()) };
        let info = TcpInfo::of(socket).unwrap_or_default();
        let may_last = may_be_silent(every, info.rtt, info.rtt_var);
        let left = may_last.saturating_sub(silence);
        if left.is_zero() && !state.is_doubted {
            tracing::debug!("the connection of the control stream brings nothing");
            state.is_doubted = true;
            self.changed.notify_all();
        }
        // To be woken by the socket alone where all is said; zero would be for ever, too.
        socket.set_read_timeout(Some(if left.is_zero() { may_last } else { left }))
    }

    /// Whether the connection has something to be read, rather than something having come another way.
    fn await_bytes(&self, socket: &TcpStream, number: u64) -> io::Result<bool> {
        let Some(bell) = self.bell.as_ref().filter(|_| number == 0) else { return Ok(true) };
        let (began, span) = (Instant::now(), socket.read_timeout()?.unwrap_or(Duration::MAX));
        let is_ready = bell.wait_many(vec![PollFd::new(socket, PollFlags::IN)], span)?[0];
        if !is_ready && began.elapsed() >= span {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(is_ready)
    }

    /// After the last word: whatever a connection loses is given to the next one, until it is over.
    pub fn give_again(&self) {
        loop {
            let is_given = |state: &mut State| !state.over && state.backlog.is_given();
            let state = self.changed.wait_while(self.state(), is_given);
            // The end may come while something is given, which is all the same: there is nothing more to be said.
            if state.unwrap_or_else(PoisonError::into_inner).over || self.write_all(&[]).is_err() {
                return;
            }
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        {
            let mut state = self.state();
            state.backlog.push(bytes);
            state.early.iter().for_each(|early| early.waker.wake());
        }
        loop {
            let (socket, number) = self.connection()?;
            let (chunk, until) = {
                let state = self.state();
                if state.number != number {
                    continue;
                }
                state.backlog.next(CHUNK)
            };
            if chunk.is_empty() {
                return Ok(());
            }
            let from = until - chunk.len() as u64;
            match (&*socket).write(&chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.note_unwritable(number, &error),
                Ok(len) => {
                    let mut state = self.state();
                    if state.number == number {
                        state.backlog.note_given(from + len as u64);
                    }
                }
            }
        }
    }
}

impl State {
    /// For how long a connection may bring nothing, before it is known how far the other side is.
    fn silence_borne(&self) -> Option<Duration> {
        self.says_every.map(|every| every * SAYINGS_MISSED)
    }

    fn needs_another(&self) -> bool {
        !self.over && (self.socket.is_none() || self.is_doubted)
    }

    /// Bytes of the other side's stream that have come, read or not.
    fn come(&self) -> u64 {
        self.taken + self.unread.len() as u64
    }

    /// What has come, if there has been no connection.
    fn may_connect(&self) -> io::Result<u64> {
        if self.over || self.early.is_none() { Err(ErrorKind::NotConnected.into()) } else { Ok(self.come()) }
    }

    fn break_off(&mut self) {
        self.shut();
        self.is_doubted = false;
        self.number += 1;
        self.broken_at.get_or_insert_with(Instant::now);
        self.over |= self.patience.is_zero();
    }

    fn end(&mut self) {
        self.over = true;
        self.shut();
    }

    fn shut(&mut self) {
        if let Some(socket) = self.socket.take() {
            // Whoever is blocked on it is not any more. Fails only on a socket that is gone.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn read_position(socket: &mut TcpStream) -> io::Result<u64> {
    read_array(socket).map(u64::from_be_bytes)
}

/// What comes over a stream.
pub struct ResumableReader(pub Arc<ResumableStream>);

impl Read for ResumableReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

/// What goes over a stream. What a connection loses goes over the next one when that is written to or flushed.
pub struct ResumableWriter(pub Arc<ResumableStream>);

impl Write for ResumableWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write_all(buf)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.write_all(&[])
    }
}

/// For how long a connection may bring nothing from a side that says something `every` so often. The word that comes next may
/// be as late as a retransmission's timer allows for (RFC 6298 §2.3).
fn may_be_silent(every: Duration, rtt: Duration, rtt_var: Duration) -> Duration {
    SAYINGS_MISSED * (every + rtt + 4 * rtt_var)
}

/// Why a stream cannot go on with a peer that says so.
pub const IMPOSSIBLE: &str = "the other side claims to have taken what was never said";
/// For the numbers that a new connection begins with.
const EXCHANGE: Duration = Duration::from_secs(5);
/// What a connection has brought that takes nothing more is read within this, or not at all.
const LAST_READ: Duration = Duration::from_secs(1);
/// One may be lost, and its retransmission too.
const SAYINGS_MISSED: u32 = 3;
/// Of a stream without a connection: its first messages, which are short unless much is there already.
const EARLY_MAX: u64 = 16 << 10;
/// Written at a time.
const CHUNK: usize = 64 << 10;

#[cfg(test)]
mod tests;
