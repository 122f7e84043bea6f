//! An open control stream: its two threads, what waits to be written, and what has come.

use super::Stream;
use super::rejoin::{IMPOSSIBLE, ResumableReader, ResumableStream, ResumableWriter};
use crate::budget::{Allowance, Budget, Purpose};
use crate::noise::{FRAME_MAX, NoiseError, read_frame, read_older, to_bytes, write_frame};
use crate::pipe::Pipe;
use crate::prepared::{Prepared, Task};
use crate::wake::Waker;
use crossbeam_channel::{
    Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, never, select, unbounded,
};
use longhaul_proto::session::message::Message;
use snow::StatelessTransportState;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What comes out of a control stream.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and few of them wait at a time")]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// The other side sends datagrams over the stream: our end of their way.
    Pipe(UnixStream),
    /// A message came that needs more memory than others leave. Nothing more will come.
    NoRoom,
    /// It ended; nothing more will come.
    Closed,
}

/// An open control stream. Two threads serve it, so that neither a slow peer nor a slow network holds up the owner. A
/// message is read when the one before it has been taken, so that who says more than is heeded is held up by TCP.
pub struct Control {
    /// What both sides speak.
    version: u8,
    pub(super) outbox: Option<Sender<Outgoing>>,
    /// Bytes of messages that wait to be written.
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) inbox: Receiver<Incoming>,
    pub(super) written: Receiver<()>,
    closer: Option<Box<dyn FnOnce() + Send>>,
    pipe: Pipe,
    resumable: Option<Arc<ResumableStream>>,
}

/// A message to be written.
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// How many of them count as waiting.
    counted: usize,
    /// What of the other side's stream it says to have been taken.
    tells_taken: u64,
    is_last: bool,
}

impl Outgoing {
    fn new(message: &Message) -> Outgoing {
        let bytes = to_bytes(message);
        // A listing is there beforehand, and goes once.
        let counted = if matches!(message, Message::ListingPart { .. }) { 0 } else { bytes.len() + QUEUED };
        Outgoing { counted, ..Outgoing::unasked_bytes(bytes) }
    }

    pub(super) fn unasked_bytes(bytes: Vec<u8>) -> Outgoing {
        Outgoing { bytes, counted: 0, tells_taken: 0, is_last: false }
    }

    /// Of the writer's own.
    fn unasked(message: &Message) -> Outgoing {
        Outgoing::unasked_bytes(to_bytes(message))
    }

    /// Still there, and having taken so much.
    fn keep_alive(taken: u64) -> Outgoing {
        Outgoing { tells_taken: taken, ..Outgoing::unasked(&Message::KeepAlive { taken }) }
    }

    /// A stream that ends without it was cut.
    fn last() -> Outgoing {
        Outgoing { is_last: true, ..Outgoing::unasked(&Message::Over) }
    }
}

/// The threads of a control stream, before there is one.
pub(super) struct Threads {
    write: Prepared<Task>,
    read: Prepared<Task>,
}

impl Threads {
    pub(super) fn start() -> io::Result<Threads> {
        let write = Prepared::for_task("control-write")?;
        Ok(Threads { write, read: Prepared::for_task("control-read")? })
    }

    pub(super) fn serve(
        self,
        version: u8,
        stream: Stream,
        state: StatelessTransportState,
        waker: Waker,
    ) -> Control {
        (stream.settled)();
        tracing::debug!("both sides speak version {version} of the protocol");
        let (mut reader, mut writer, mut closer) = (stream.reader, stream.writer, Some(stream.closer));
        let resumable = stream.resumable;
        if let Some(stream) = &resumable {
            (reader, writer) =
                (Box::new(ResumableReader(stream.clone())), Box::new(ResumableWriter(stream.clone())));
            closer = None;
        }
        let (outbox, to_write) = unbounded();
        let (arrived, inbox) = bounded(INBOX);
        let (done, written) = bounded(1);
        let (pipe_out, from_pipe) = bounded(PIPE_CHUNKS);
        let pipe = Pipe::new(pipe_out);
        let state = Arc::new(state);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (sealer, counter, kept) = (state.clone(), waiting.clone(), resumable.clone());
        self.write.begin(Box::new(move || {
            let sources = Sources { messages: &to_write, waiting: &counter, from_pipe: &from_pipe };
            let outcome = write_messages(&mut *writer, &sealer, &sources, kept.as_deref());
            drop(writer);
            let _ = done.send(());
            drop(done);
            let Some(stream) = kept else { return };
            match outcome {
                Ok(()) => stream.give_again(),
                // A broken stream shows on the reading side, which tells the owner.
                Err(error) => {
                    tracing::debug!("nothing more can be said over the control stream: {error}");
                    stream.end();
                }
            }
        }));
        let (passing, heard, budget) = (pipe.clone(), resumable.clone(), stream.budget);
        self.read.begin(Box::new(move || {
            let incoming = MessageReader {
                reader: &mut *reader,
                state: &state,
                nonce: 0,
                plain: vec![],
                at: 0,
                resumable: heard,
                room: Allowance::of(&budget, Purpose::Need),
                room_before: Allowance::of(&budget, Purpose::Need),
                budget,
            };
            incoming.run(&passing, &arrived, &waker);
        }));
        Control { version, outbox: Some(outbox), waiting, inbox, written, closer, pipe, resumable }
    }
}

impl Control {
    /// The version of the protocol that both sides speak.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Send a message; never blocks. A stream that broke is told by [`Control::poll`].
    pub fn send(&self, message: Message) {
        if let Some(outbox) = &self.outbox {
            let message = Outgoing::new(&message);
            self.waiting.fetch_add(message.counted, Ordering::Relaxed);
            let _ = outbox.send(message);
        }
    }

    /// Whether so much waits to be written that nothing should be done that adds to it.
    pub fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > OUTBOX_MUCH
    }

    /// What goes on over another connection when this one breaks, if the stream is a TCP connection.
    pub fn resumable(&self) -> Option<&Arc<ResumableStream>> {
        self.resumable.as_ref()
    }

    /// Our end of the way that datagrams take over the stream from now on.
    pub fn open_pipe(&self) -> io::Result<UnixStream> {
        self.pipe.open()
    }

    /// Wait until what went into the pipe, whose end is closed by now, is to be sent before the last word: for so long at most, and
    /// no longer than [`Control::finish`] once `stop` is set.
    pub fn await_pipe(&self, patience: Duration, stop: &AtomicBool) {
        self.pipe.await_end(looks(patience, stop));
    }

    /// The next message, if one has come. Who does not take what it is told is gone.
    pub fn poll(&self) -> Option<Incoming> {
        if self.waiting.load(Ordering::Relaxed) > OUTBOX_MAX {
            tracing::warn!("the other side does not take what it is told");
            return Some(Incoming::Closed);
        }
        match self.inbox.try_recv() {
            Ok(incoming) => Some(incoming),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Incoming::Closed),
        }
    }

    /// Send what is left, wait for it to be written (a little), and close.
    pub fn finish(mut self) {
        self.outbox = None;
        // Without a connection it may come to nothing, and whoever ends need not wait for long.
        let is_broken = self.resumable.as_ref().is_some_and(|stream| stream.needs_another());
        let _ = self.written.recv_timeout(if is_broken { BROKEN_PATIENCE } else { FINISH_PATIENCE });
    }

    /// Send what is left, and wait until the other side has taken it all, over another connection if need be: it ends its
    /// side then. Waits for so long at most, and no longer than [`Control::finish`] once `stop` is set.
    pub fn finish_heard(mut self, patience: Duration, stop: &AtomicBool) {
        self.outbox = None;
        if self.resumable.is_none() {
            return self.finish();
        }
        let mut next_look = looks(patience, stop);
        while let Some(look) = next_look()
            && self.written.recv_deadline(look) == Err(RecvTimeoutError::Timeout)
        {}
        while let Some(look) = next_look()
            && !matches!(
                self.inbox.recv_deadline(look),
                Ok(Incoming::Closed) | Err(RecvTimeoutError::Disconnected)
            )
        {}
    }
}

/// When to look next whether there is reason to wait on, which ends after `patience`, and soon once `stop` is set.
fn looks(patience: Duration, stop: &AtomicBool) -> impl FnMut() -> Option<Instant> {
    let mut until = Instant::now() + patience;
    move || {
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) {
            until = until.min(now + FINISH_PATIENCE);
        }
        (now < until).then(|| until.min(now + KEEP_ALIVE_EVERY))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.outbox = None;
        if let Some(stream) = &self.resumable {
            let _ = self.written.recv_timeout(BROKEN_PATIENCE);
            stream.end();
        }
        if let Some(closer) = self.closer.take() {
            closer();
        }
    }
}

/// How long last words may take to leave.
const FINISH_PATIENCE: Duration = Duration::from_secs(5);
/// And if there is no connection for them, or who says them ends without ceremony: time for a busy host to write what it can.
const BROKEN_PATIENCE: Duration = Duration::from_secs(1);
/// A silent stream says that it is alive this often: well within the shortest stall timeout.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_millis(300);

/// What a writing thread writes.
struct Sources<'a> {
    messages: &'a Receiver<Outgoing>,
    /// Bytes of these.
    waiting: &'a AtomicUsize,
    from_pipe: &'a Receiver<Vec<u8>>,
}

fn write_messages(
    writer: &mut dyn Write,
    state: &StatelessTransportState,
    sources: &Sources<'_>,
    resumable: Option<&ResumableStream>,
) -> io::Result<()> {
    let (mut nonce, mut frame, mut out) = (0, vec![0; FRAME_MAX], vec![]);
    let (no_messages, no_bytes, not_resumed) = (never(), never(), never());
    let resumed = resumable.map_or(&not_resumed, ResumableStream::resumed);
    let (mut told, mut said_at) = (0, Instant::now());
    loop {
        let taken = resumable.map_or(0, ResumableStream::taken);
        let kept = resumable.map_or(0, ResumableStream::kept);
        if kept > KEPT_LIMIT {
            return Err(io::Error::other("the other side does not say what it has taken"));
        }
        // Who takes nothing is told nothing more but that we are there.
        let is_full = kept > KEPT_MAX;
        let (messages, from_pipe) =
            if is_full { (&no_messages, &no_bytes) } else { (sources.messages, sources.from_pipe) };
        let message = if taken - told >= TELL_TAKEN {
            Outgoing::keep_alive(taken)
        } else {
            select! {
                recv(messages) -> message => match message {
                    Ok(message) => message,
                    Err(_) => match sources.from_pipe.try_recv() {
                        Ok(bytes) => Outgoing::unasked(&Message::Bytes(bytes)),
                        Err(_) => Outgoing::last(),
                    },
                },
                // The other end of this one is in `Control` and the reading thread, and they end together.
                recv(from_pipe) -> bytes => Outgoing::unasked(&Message::Bytes(bytes.unwrap_or_default())),
                recv(resumed) -> _ => {
                    writer.flush()?;
                    continue;
                }
                default(if is_full { FULL_PAUSE } else { KEEP_ALIVE_EVERY }) => {
                    if is_full && said_at.elapsed() < KEEP_ALIVE_EVERY {
                        continue;
                    }
                    Outgoing::keep_alive(resumable.map_or(0, ResumableStream::taken))
                },
            }
        };
        (told, said_at) = (told.max(message.tells_taken), Instant::now());
        let is_last = message.is_last;
        out.clear();
        let mut next = Some(message);
        // What has queued up goes out in one write.
        while let Some(message) = next {
            let plain = [&(message.bytes.len() as u32).to_be_bytes()[..], &message.bytes].concat();
            sources.waiting.fetch_sub(message.counted, Ordering::Relaxed);
            for piece in plain.chunks(PIECE_MAX) {
                let len = state.write_message(nonce, piece, &mut frame).map_err(io::Error::other)?;
                nonce += 1;
                write_frame(&mut out, &frame[..len])?;
            }
            next = if out.len() < WRITE_BYTES { messages.try_recv().ok() } else { None };
        }
        writer.write_all(&out)?;
        writer.flush()?;
        if is_last {
            return Ok(());
        }
    }
}

/// Messages that have been read and not taken.
const INBOX: usize = 1;
/// What a message that waits takes in memory beside its bytes, so that many short ones count for what they take.
const QUEUED: usize = 128;
/// Messages that wait to be written may take so much before data waits for them: hashes of 400 000 small files.
const OUTBOX_MUCH: usize = 16 << 20;
/// And never so much: twice the longest message.
pub(super) const OUTBOX_MAX: usize = 64 << 20;
const WRITE_BYTES: usize = 1 << 20;
/// Of a message in one frame: what a frame holds without its tag.
const PIECE_MAX: usize = FRAME_MAX - 16;
/// Chunks of the pipe that wait to be written: what waits there holds up messages.
const PIPE_CHUNKS: usize = 2;
/// So much that the other side has not said to have taken is kept, for when the connection breaks; then messages wait.
const KEPT_MAX: usize = 16 << 20;
/// With the longest message, and signs of life that nobody says to have taken.
const KEPT_LIMIT: usize = KEPT_MAX + OUTBOX_MAX;
/// Looked at again this often whether it has.
const FULL_PAUSE: Duration = Duration::from_millis(10);
/// Acknowledged at least after so many bytes; else with each sign of life.
const TELL_TAKEN: u64 = 1 << 20;

struct MessageReader<'a> {
    reader: &'a mut dyn Read,
    state: &'a StatelessTransportState,
    nonce: u64,
    /// What was opened and not read; up to `at` it has been read.
    plain: Vec<u8>,
    at: usize,
    resumable: Option<Arc<ResumableStream>>,
    budget: Arc<Budget>,
    /// The memory of the message that is read, and of the one before it, which its owner may still use.
    room: Allowance,
    room_before: Allowance,
}

/// Why there is no next message.
enum Stopped {
    Broken(io::Error),
    NoRoom,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Broken(error)
    }
}

impl MessageReader<'_> {
    /// Until the stream ends, or nobody takes what comes.
    fn run(mut self, pipe: &Pipe, arrived: &Sender<Incoming>, waker: &Waker) {
        loop {
            let message = self.next_incoming(pipe).unwrap_or_else(|stopped| match stopped {
                Stopped::Broken(error) => {
                    tracing::debug!("the control stream ended: {error}");
                    Incoming::Closed
                }
                Stopped::NoRoom => Incoming::NoRoom,
            });
            let (last, no_room) = (matches!(message, Incoming::Closed), matches!(message, Incoming::NoRoom));
            let gone = arrived.send(message).is_err();
            waker.wake();
            if last || gone {
                return;
            }
            if no_room {
                // Whoever is still saying it would hear nothing of why it is for nothing if the connection broke.
                while read_frame(self.reader).is_ok() {}
                let _ = arrived.send(Incoming::Closed);
                return;
            }
        }
    }

    /// The next message that is the owner's business.
    fn next_incoming(&mut self, pipe: &Pipe) -> Result<Incoming, Stopped> {
        loop {
            match self.next()? {
                Message::Bytes(bytes) => {
                    if let Some(end) = pipe.pass_on(&bytes)? {
                        return Ok(Incoming::Pipe(end));
                    }
                }
                Message::Over => {
                    // Whoever ends its side does not wait for another connection.
                    self.resumable.iter().for_each(|stream| stream.allow(Duration::ZERO));
                    return Ok(Incoming::Closed);
                }
                Message::KeepAlive { taken } => {
                    if self.resumable.as_ref().is_some_and(|stream| !stream.note_taken(taken)) {
                        return Err(io::Error::other(IMPOSSIBLE).into());
                    }
                    return Ok(Incoming::Message(Message::KeepAlive { taken }));
                }
                message => return Ok(Incoming::Message(message)),
            }
        }
    }

    fn next(&mut self) -> Result<Message, Stopped> {
        let room = Allowance::of(&self.budget, Purpose::Need);
        self.room_before = std::mem::replace(&mut self.room, room);
        let mut asked = false;
        loop {
            if let Some((len, rest)) = self.plain[self.at..].split_first_chunk::<4>()
                && let Some(kind) = rest.first()
            {
                let len = u32::from_be_bytes(*len) as usize;
                if len == 0 || len > Message::len_max(*kind) {
                    return Err(io::Error::other(NoiseError::Malformed).into());
                }
                if !std::mem::replace(&mut asked, true) && !self.room.take(Message::memory_max(*kind, len)) {
                    return Err(Stopped::NoRoom);
                }
                if let Some(bytes) = rest.get(..len) {
                    let message = read_older(bytes).map_err(io::Error::other)?;
                    self.at += 4 + len;
                    return Ok(message);
                }
            }
            self.plain.drain(..self.at);
            self.at = 0;
            let sealed = read_frame(self.reader)?;
            let mut piece = vec![0; sealed.len()];
            let len = self
                .state
                .read_message(self.nonce, &sealed, &mut piece)
                .map_err(|_| io::Error::other("a message that is not authentic"))?;
            self.nonce += 1;
            self.plain.extend_from_slice(&piece[..len]);
        }
    }
}
