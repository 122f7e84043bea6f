//! The stream as a program sees it.

use super::halves::{ReadHalf, WriteHalf};
use super::handshake;
use super::keys::LaneNonces;
use super::options::{Partition, Streams, StripeOptions};
use super::state::{Core, Failure, State};
use super::stats::StripeStats;
use super::{receiver, sender};
use crate::net::seal::Side;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker as TaskWaker;
use std::time::{Duration, Instant};

/// An ordered, reliable stream of bytes in both directions over several TCP connections; to be used as a
/// [`TcpStream`] is.
///
/// Clones and halves are handles to the same stream. When the last one goes, what was written is still delivered:
/// dropping it waits as long as data gets through. [`StripedStream::close`] does the same and tells how it went.
pub struct StripedStream {
    pub(super) handle: Arc<Handle>,
}

/// What all handles of one end share.
pub(super) struct Handle {
    pub core: Arc<Core>,
    reading: Mutex<Reading>,
    /// Writes of several threads do not mix.
    writing: Mutex<()>,
    read_timeout: Mutex<Option<Duration>>,
    write_timeout: Mutex<Option<Duration>>,
    nonblocking: AtomicBool,
}

/// Who waits if nothing can be done at once.
#[derive(Clone, Copy)]
pub(super) enum Waiter<'a> {
    /// The calling thread.
    Thread,
    /// A task, which is woken; the call fails with [`ErrorKind::WouldBlock`].
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "only tasks of the tokio feature wait so"))]
    Task(&'a TaskWaker),
}

/// The piece that is being read.
#[derive(Default)]
struct Reading {
    piece: Vec<u8>,
    at: usize,
}

impl StripedStream {
    /// Open a stream to a [`StripedListener`](super::StripedListener) with the usual options.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<StripedStream> {
        StripeOptions::new().connect(address)
    }

    pub(super) fn open(options: &StripeOptions, address: impl ToSocketAddrs) -> io::Result<StripedStream> {
        let deadline = Instant::now() + options.connect_timeout;
        let mut last = io::Error::new(ErrorKind::InvalidInput, "the name stands for no address");
        for address in address.to_socket_addrs()? {
            match Self::open_at(options, address, deadline) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn open_at(options: &StripeOptions, address: SocketAddr, deadline: Instant) -> io::Result<StripedStream> {
        let socket = options.dial(address, deadline)?;
        let agreed = handshake::open(&socket, options, deadline)?;
        let core = Core::new(options, agreed.secrets, agreed.lanes_max, agreed.limit, &socket, Side::Client)?;
        let stream = StripedStream::start(core, socket)?;
        if let (Streams::Fixed(_), Partition::Equal | Partition::Blocks(_)) =
            (options.streams, options.partition)
        {
            let left = deadline.saturating_duration_since(Instant::now());
            stream.wait_for_lanes(agreed.lanes_max as usize, left)?;
        }
        Ok(stream)
    }

    /// Begin with a first lane.
    pub(super) fn start(core: Core, socket: TcpStream) -> io::Result<StripedStream> {
        let core = Arc::new(core);
        let (sealer, opener) = core.secrets.lane(core.side, &LaneNonces::default());
        core.add_lane(socket, sealer, opener)?;
        let (sending, receiving) = (core.clone(), core.clone());
        std::thread::Builder::new().name("stripe-send".into()).spawn(move || sender::run(&sending))?;
        let started = std::thread::Builder::new()
            .name("stripe-receive".into())
            .spawn(move || receiver::run(&receiving));
        if let Err(error) = started {
            core.fail(Failure::new(error.kind(), "cannot start a thread"));
            return Err(error);
        }
        let handle = Handle {
            core,
            reading: Mutex::default(),
            writing: Mutex::default(),
            read_timeout: Mutex::default(),
            write_timeout: Mutex::default(),
            nonblocking: AtomicBool::new(false),
        };
        Ok(StripedStream { handle: Arc::new(handle) })
    }

    /// What the threads share.
    pub(super) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// Give up at once, whatever was not delivered.
    pub(super) fn abort(self) {
        self.handle.core.fail(Failure::new(ErrorKind::ConnectionAborted, "given up"));
    }

    /// Another handle to the same stream.
    pub fn try_clone(&self) -> io::Result<StripedStream> {
        Ok(StripedStream { handle: self.handle.clone() })
    }

    /// A half that reads and one that writes, for two threads. Dropping one shuts its direction down.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf { handle: self.handle.clone() }, WriteHalf { handle: self.handle })
    }

    /// End reading, writing, or both. After writing was shut down the other side reads to the end of what was written;
    /// after reading was, what it still writes fails with [`ErrorKind::BrokenPipe`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.handle.shutdown(how);
        Ok(())
    }

    /// Shut down writing, wait until the other side has all that was written, and end. Fails if it does not get it, or
    /// if nothing gets through for as long as [`StripeOptions::patience`] says.
    pub fn close(self) -> io::Result<()> {
        self.handle.shutdown(Shutdown::Write);
        self.handle.linger()
    }

    /// Where the first lane leads.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.core.peer)
    }

    /// Where the first lane begins.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.core.local)
    }

    /// How long reading waits, for ever if `None`. Then it fails with [`ErrorKind::WouldBlock`], as with a
    /// [`TcpStream`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.handle.read_timeout, timeout)
    }

    /// How long writing waits for room, for ever if `None`. Then it fails with [`ErrorKind::WouldBlock`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.handle.write_timeout, timeout)
    }

    /// See [`StripedStream::set_read_timeout`].
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(*locked(&self.handle.read_timeout))
    }

    /// See [`StripedStream::set_write_timeout`].
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(*locked(&self.handle.write_timeout))
    }

    /// Whether reading and writing fail with [`ErrorKind::WouldBlock`] at once rather than wait.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.handle.nonblocking.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// Whether lanes send small pieces at once. On by default. Lanes that join later do as [`StripeOptions`] says.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        let state = self.handle.core.lock();
        state.lanes.values().try_for_each(|lane| lane.socket.set_nodelay(on))
    }

    /// How the stream and its lanes are doing.
    pub fn stats(&self) -> StripeStats {
        StripeStats::of(&self.handle.core)
    }

    /// Wait until there are so many lanes, and tell how many there are. An error if the stream fails before.
    pub fn wait_for_lanes(&self, count: usize, timeout: Duration) -> io::Result<usize> {
        let core = &self.handle.core;
        let deadline = Instant::now() + timeout;
        let mut state = core.lock();
        loop {
            let there = state.lanes.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(failure) = &state.failure {
                return Err(failure.to_error());
            }
            if there >= count || left.is_zero() {
                return Ok(there);
            }
            state = core.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_timeout(place: &Mutex<Option<Duration>>, timeout: Option<Duration>) -> io::Result<()> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a timeout cannot be zero; use set_nonblocking"));
    }
    *locked(place) = timeout;
    Ok(())
}

impl Handle {
    pub(super) fn read(&self, buf: &mut [u8], waiter: Waiter<'_>) -> io::Result<usize> {
        let mut reading = locked(&self.reading);
        if buf.is_empty() {
            return Ok(0);
        }
        if reading.at == reading.piece.len() {
            let done = std::mem::take(&mut *reading).piece;
            let Some(piece) = self.next_piece(done, waiter)? else { return Ok(0) };
            reading.piece = piece;
        }
        let rest = &reading.piece[reading.at..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        reading.at += len;
        Ok(len)
    }

    pub(super) fn read_block(&self, spent: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut reading = locked(&self.reading);
        let Reading { mut piece, at } = std::mem::take(&mut *reading);
        if at < piece.len() {
            // A read before took a part of it.
            piece.drain(..at);
            return Ok(piece);
        }
        Ok(self.next_piece(spent, Waiter::Thread)?.unwrap_or_default())
    }

    /// Wait for the next piece; `None` at the end.
    fn next_piece(&self, done: Vec<u8>, waiter: Waiter<'_>) -> io::Result<Option<Vec<u8>>> {
        let core = &*self.core;
        let mut deadline = None;
        let mut state = core.lock();
        state.inc.recycle(done);
        loop {
            if let Some(piece) = state.inc.pop() {
                if state.inc.wants_ack() {
                    core.wake_sender(&mut state);
                }
                return Ok(Some(piece));
            }
            if state.inc.is_at_end() || state.read_shut {
                return Ok(None);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.to_error());
            }
            if let Waiter::Task(task) = waiter {
                return Err(wait_as_task(&mut state.read_tasks, task));
            }
            state.reader_waits = true;
            state = self.wait(state, &core.readable, &self.read_timeout, &mut deadline)?;
        }
    }

    pub(super) fn write(&self, buf: &[u8], waiter: Waiter<'_>) -> io::Result<usize> {
        let _turn = locked(&self.writing);
        let core = &*self.core;
        let mut deadline = None;
        let mut state = core.lock();
        loop {
            writable(&state)?;
            let taken = if core.options.partition == Partition::Auto && buf.len() >= state.out.block_len() {
                let taken;
                (state, taken) = self.write_blocks(state, buf)?;
                taken
            } else {
                state.out.write(buf)
            };
            if taken > 0 || buf.is_empty() {
                core.wake_sender(&mut state);
                return Ok(taken);
            }
            if let Waiter::Task(task) = waiter {
                return Err(wait_as_task(&mut state.write_tasks, task));
            }
            state.writer_waits = true;
            state = self.wait(state, &core.writable, &self.write_timeout, &mut deadline)?;
        }
    }

    /// Take a whole block; false if it must be written as any other bytes.
    pub(super) fn write_block(&self, block: &mut Vec<u8>) -> io::Result<bool> {
        let _turn = locked(&self.writing);
        let mut deadline = None;
        let mut state = self.core.lock();
        if block.is_empty() || !state.out.takes_whole(block.len()) {
            return Ok(false);
        }
        loop {
            writable(&state)?;
            if state.out.room(block.len()) == block.len() {
                let next = state.out.used_buffer();
                state.out.push(std::mem::replace(block, next));
                self.core.wake_sender(&mut state);
                return Ok(true);
            }
            state.writer_waits = true;
            state = self.wait(state, &self.core.writable, &self.write_timeout, &mut deadline)?;
        }
    }

    /// Write whole blocks, each copied while the threads go on.
    fn write_blocks<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        buf: &[u8],
    ) -> io::Result<(MutexGuard<'a, State>, usize)> {
        let mut taken = 0;
        while taken < buf.len() {
            let len = state.out.room(buf.len() - taken).min(state.out.block_len());
            if len == 0 {
                break;
            }
            let mut block = state.out.buffer();
            drop(state);
            block.extend_from_slice(&buf[taken..taken + len]);
            state = self.core.lock();
            writable(&state)?;
            state.out.push(block);
            self.core.wake_sender(&mut state);
            taken += len;
        }
        Ok((state, taken))
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        place: &Condvar,
        timeout: &Mutex<Option<Duration>>,
        deadline: &mut Option<Instant>,
    ) -> io::Result<MutexGuard<'a, State>> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let Some(timeout) = *locked(timeout) else {
            return Ok(place.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let left = deadline.get_or_insert(Instant::now() + timeout).saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(place.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(super) fn shutdown(&self, how: Shutdown) {
        let core = &*self.core;
        let mut state = core.lock();
        if how != Shutdown::Read {
            state.finish_writing();
        }
        if how != Shutdown::Write {
            state.stop_reading();
        }
        core.wake_all(&mut state);
    }

    /// Wait until all that was written is delivered, as long as some of it gets through now and then.
    fn linger(&self) -> io::Result<()> {
        let core = &*self.core;
        let mut state = core.lock();
        let (mut acked, mut since) = (state.out.acked(), Instant::now());
        loop {
            if let Some(outcome) = delivered(&state) {
                return outcome;
            }
            if state.out.acked() > acked {
                (acked, since) = (state.out.acked(), Instant::now());
            }
            let left = core.options.patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                let line = "closed before the other side had taken all that was written";
                return Err(io::Error::new(ErrorKind::TimedOut, line));
            }
            state.writer_waits = true;
            state = core.writable.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether all that was written is delivered, and how that went; otherwise the task is woken when more is known.
    #[cfg(feature = "tokio")]
    pub(super) fn poll_delivered(&self, task: &TaskWaker) -> Option<io::Result<()>> {
        let mut state = self.core.lock();
        let outcome = delivered(&state);
        if outcome.is_none() {
            wait_as_task(&mut state.write_tasks, task);
        }
        outcome
    }
}

/// How delivering went, once that is known.
fn delivered(state: &State) -> Option<io::Result<()>> {
    if state.out.is_complete() || state.peer_stopped && state.out.acked() == state.out.written() {
        return Some(Ok(()));
    }
    if state.peer_stopped {
        return Some(Err(stopped()));
    }
    state.failure.as_ref().map(|failure| Err(failure.to_error()))
}

/// Have a task woken. Returns the error that stands for waiting.
fn wait_as_task(tasks: &mut Vec<TaskWaker>, task: &TaskWaker) -> io::Error {
    if !tasks.iter().any(|other| other.will_wake(task)) {
        tasks.push(task.clone());
    }
    ErrorKind::WouldBlock.into()
}

/// Whether anything can be written.
fn writable(state: &State) -> io::Result<()> {
    if let Some(failure) = &state.failure {
        return Err(failure.to_error());
    }
    if state.out.end().is_some() {
        return Err(io::Error::new(ErrorKind::BrokenPipe, "writing was shut down"));
    }
    if state.peer_stopped {
        return Err(stopped());
    }
    Ok(())
}

fn stopped() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "the other side reads no more")
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shutdown(Shutdown::Both);
        let lingered =
            if std::thread::panicking() { Err(ErrorKind::Interrupted.into()) } else { self.linger() };
        let mut state = self.core.lock();
        if lingered.is_err() {
            let line = "closed before everything had been delivered";
            state.failure.get_or_insert(Failure::new(ErrorKind::ConnectionAborted, line));
        }
        self.core.wake_all(&mut state);
        if lingered.is_ok() {
            // A program that ends now must not take its last word along: the other side would wait for it.
            let unsaid = |state: &mut State| !state.said_goodbye && !state.lanes.is_empty();
            let _ = self.core.changed.wait_timeout_while(state, sender::GOODBYE_PATIENCE, unsaid);
        }
    }
}

impl std::fmt::Debug for StripedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let core = &self.handle.core;
        f.debug_struct("StripedStream")
            .field("local", &core.local)
            .field("peer", &core.peer)
            .field("lanes", &core.lock().lanes.len())
            .finish()
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "to {}", self.core.peer)
    }
}
