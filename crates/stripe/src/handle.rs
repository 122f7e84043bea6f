//! What a program does with a stream: reading, writing, ending; whoever has to wait, waits here.

use super::options::Partition;
use super::receiver::Engine;
use super::state::{Failure, State, after, locked};
use super::{receiver, sender};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker as TaskWaker;
use std::time::{Duration, Instant};

/// What all handles of one end share.
pub(super) struct Handle {
    pub core: Arc<Engine>,
    reading: Mutex<Reading>,
    /// Writes of several threads do not mix.
    writing: Mutex<()>,
    pub read_timeout: Mutex<Option<Duration>>,
    pub write_timeout: Mutex<Option<Duration>>,
    pub nonblocking: AtomicBool,
    /// So many bytes had been acknowledged when somebody had waited in vain for all to be.
    stuck_at: Mutex<Option<u64>>,
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

impl Handle {
    /// The first handle of one end.
    pub(super) fn new(core: Arc<Engine>) -> Handle {
        Handle {
            core,
            reading: Mutex::default(),
            writing: Mutex::default(),
            read_timeout: Mutex::default(),
            write_timeout: Mutex::default(),
            nonblocking: AtomicBool::new(false),
            stuck_at: Mutex::default(),
        }
    }

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
                    core.send(state);
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
                core.take_receiving_back(&mut state);
                return Err(wait_as_task(&mut state.read_tasks, task));
            }
            match self.patience(&self.read_timeout, &mut deadline) {
                Ok(until) => state = receiver::receive_here(core, state, until)?,
                Err(error) => {
                    core.take_receiving_back(&mut state);
                    return Err(error);
                }
            }
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
                self.send(state);
                return Ok(taken);
            }
            if let Waiter::Task(task) = waiter {
                core.take_receiving_back(&mut state);
                return Err(wait_as_task(&mut state.write_tasks, task));
            }
            state = self.wait_to_write(state, &mut deadline)?;
        }
    }

    /// Take a whole block; false if it must be written as any other bytes.
    pub(super) fn write_block(&self, block: &mut Vec<u8>) -> io::Result<bool> {
        let _turn = locked(&self.writing);
        let mut deadline = None;
        let mut state = self.core.lock();
        loop {
            writable(&state)?;
            // Blocks may have become smaller while this one waited for room.
            if block.is_empty() || !state.out.takes_whole(block.len()) {
                return Ok(false);
            }
            if state.out.room(block.len()) == block.len() {
                let next = state.out.used_buffer();
                state.out.push(std::mem::replace(block, next));
                self.send(state);
                return Ok(true);
            }
            state = self.wait_to_write(state, &mut deadline)?;
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
            self.send(state);
            state = self.core.lock();
            taken += len;
        }
        Ok((state, taken))
    }

    /// Send what was written: here, but for small pieces while much is on its way, which the sending thread joins.
    fn send(&self, mut state: MutexGuard<'_, State>) {
        let in_flight = state.out.in_flight();
        if in_flight >= JOINING && state.out.unsent() < SMALL {
            return self.core.wake_sender(&mut state);
        }
        self.core.send(state);
        if in_flight >= BULK {
            receiver::look_here(&self.core);
        }
    }

    /// Until when to wait, without an end if `None`; an error if no longer.
    fn patience(
        &self,
        timeout: &Mutex<Option<Duration>>,
        deadline: &mut Option<Instant>,
    ) -> io::Result<Option<Instant>> {
        if self.nonblocking.load(Ordering::Relaxed) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let Some(timeout) = *locked(timeout) else { return Ok(None) };
        let until = *deadline.get_or_insert_with(|| after(timeout));
        if until <= Instant::now() { Err(ErrorKind::WouldBlock.into()) } else { Ok(Some(until)) }
    }

    fn wait_to_write<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        deadline: &mut Option<Instant>,
    ) -> io::Result<MutexGuard<'a, State>> {
        state.writer_waits = true;
        self.core.take_receiving_back(&mut state);
        let place = &self.core.writable;
        let Some(until) = self.patience(&self.write_timeout, deadline)? else {
            return Ok(place.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let left = until.saturating_duration_since(Instant::now());
        Ok(place.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(super) fn shutdown(&self, how: Shutdown) {
        let core = &*self.core;
        let mut state = core.lock();
        let mut is_news = how != Shutdown::Read && state.finish_writing();
        is_news |= how != Shutdown::Write && state.stop_reading();
        // A task asks again whenever it is woken, and must not be woken by that.
        if is_news {
            core.wake_all(&mut state);
        }
    }

    /// Wait until all that was written is delivered, as long as some of it gets through now and then.
    pub(super) fn linger(&self) -> io::Result<()> {
        let (mut acked, mut since) = (self.core.lock().out.acked(), Instant::now());
        let delivered = self.await_delivery(|now_acked| {
            if now_acked > acked {
                (acked, since) = (now_acked, Instant::now());
            }
            self.core.options.patience.saturating_sub(since.elapsed())
        });
        delivered.unwrap_or_else(|| {
            *locked(&self.stuck_at) = Some(acked);
            let line = "closed before the other side had taken all that was written";
            Err(io::Error::new(ErrorKind::TimedOut, line))
        })
    }

    /// Wait until all that was written is delivered, for so long.
    pub(super) fn wait_delivered(&self, wait: Duration) -> io::Result<()> {
        let until = Instant::now() + wait;
        let delivered = self.await_delivery(|_| until.saturating_duration_since(Instant::now()));
        let late = || io::Error::new(ErrorKind::TimedOut, "not all that was written has been taken");
        delivered.unwrap_or_else(|| Err(late()))
    }

    /// How delivering went, once that is known. `left` is how much longer that may take, by the bytes that are acknowledged;
    /// `None` if it took longer.
    fn await_delivery(&self, mut left: impl FnMut(u64) -> Duration) -> Option<io::Result<()>> {
        let mut state = self.core.lock();
        loop {
            if let Some(outcome) = delivered(&state) {
                return Some(outcome);
            }
            let left = left(state.out.acked());
            if left.is_zero() {
                return None;
            }
            state.writer_waits = true;
            let place = &self.core.writable;
            state = place.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether all that was written is delivered, and how that went; otherwise the task is woken when more is known.
    #[cfg(feature = "tokio")]
    pub(super) fn poll_delivered(&self, task: &TaskWaker) -> Option<io::Result<()>> {
        let mut state = self.core.lock();
        let outcome = delivered(&state);
        if outcome.is_none() {
            self.core.take_receiving_back(&mut state);
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
        // Whoever has closed it has waited already, unless something got through since.
        let is_hopeless = *locked(&self.stuck_at) == Some(self.core.lock().out.acked());
        let lingered = match is_hopeless || std::thread::panicking() {
            true => Err(ErrorKind::Interrupted.into()),
            false => self.linger(),
        };
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

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "to {}", self.core.peer)
    }
}

/// Whoever has so much on its way is busy writing.
const BULK: u64 = 1 << 20;
/// With so much on its way, pieces that are [`SMALL`] may wait for others.
const JOINING: u64 = 64 << 10;
/// So little takes longer to send than to copy.
const SMALL: u64 = 8 << 10;
