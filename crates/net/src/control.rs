//! The control stream: ordered, reliable, encrypted messages over TCP or over the stdio of an ssh.
//!
//! ```text
//! client  "LHC" · highest version u8 · frame(lowest version u8 · who · Noise message 1 with the offer)
//! who     0 u8   or   1 u8 · token id 8
//! server  frame(Noise message 2 with lowest version u8 · highest version u8 · the answer)       or a refusal, in clear:
//!         0 u16 · reason u8 · highest version u8 · lowest version u8
//! both    frame(sealed piece)…     a message is its length u32 and its bytes, cut into pieces
//! frame   length u16 · bytes
//! ```
//! The highest version that both speak is used. All that the client says in clear is the handshake's prologue, and what the
//! server says of its versions is sealed: whoever changes either on the way makes the handshake fail.
//!
//! Whoever has not the shared key can neither read the offer nor answer it: Noise_NNpsk0. Where the client has a token
//! that names its user and pins the server it is Noise_NKpsk0, and nobody but that server can.

pub mod rejoin;

use crate::deadline::{Deadline, DeadlineStream, SILENCE};
use crate::noise::{
    FRAME_MAX, Identity, Initiator, Known, NoiseError, Psk, PublicKey, REASON_KEY, REASON_VERSION, Responder,
    read_frame, refusal, to_bytes, write_frame,
};
use crate::pipe::Pipe;
use crate::prepared::{Prepared, Task};
use crate::wake::Waker;
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, never, select, unbounded};
use longhaul_proto::session::message::{Answer, Message, Offer};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::versions::Versions;
use rejoin::{Line, LineReader, LineWriter};
use snow::StatelessTransportState;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The key that a daemon's token stands for.
pub fn psk_of_token(token: &str) -> Psk {
    blake3::derive_key("longhaul daemon token v1", token.trim().as_bytes())
}

/// What tells a server whose token a client has. It is random and no secret.
pub type TokenId = [u8; 8];

/// What a client begins with.
#[derive(Clone)]
pub struct ClientKey {
    /// The shared key.
    pub psk: Psk,
    /// Whose it is, and the server that it is for; `None`: the key is all.
    pub pinned: Option<(TokenId, PublicKey)>,
}

impl From<Psk> for ClientKey {
    fn from(psk: Psk) -> ClientKey {
        ClientKey { psk, pinned: None }
    }
}

/// What a server answers a client with.
#[derive(Clone)]
pub struct ServerKey {
    /// The shared key.
    pub psk: Psk,
    /// What it shows to those who know it by it.
    pub identity: Option<Identity>,
}

impl From<Psk> for ServerKey {
    fn from(psk: Psk) -> ServerKey {
        ServerKey { psk, identity: None }
    }
}

/// What a client says in clear in its first frame, before its offer.
fn opening(versions: Versions, key: &ClientKey) -> Vec<u8> {
    match &key.pinned {
        None => vec![versions.lowest(), SHARED],
        Some((id, _)) => [&[versions.lowest(), PINNED][..], id].concat(),
    }
}

/// What of a first frame was said in clear, the id in it, and the handshake's message.
fn split_opening(frame: &[u8]) -> Option<(&[u8], Option<TokenId>, &[u8])> {
    match *frame.get(1)? {
        SHARED => Some((&frame[..2], None, &frame[2..])),
        PINNED => {
            let (clear, message) = frame.split_at_checked(2 + size_of::<TokenId>())?;
            Some((clear, clear[2..].try_into().ok(), message))
        }
        _ => None,
    }
}

/// What nobody can have changed on the way: the first bytes but for the frame's length.
fn prologue(highest: u8, opening: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &[highest], opening].concat()
}

/// The two directions of an ordered byte stream.
pub struct Stream {
    /// From the other side.
    pub reader: Box<dyn Read + Send>,
    /// To the other side.
    pub writer: Box<dyn Write + Send>,
    /// Ends both directions at once, so that a blocked reader returns.
    pub closer: Box<dyn FnOnce() + Send>,
    /// Called when the handshake is done: from then on silence is the session's to judge.
    pub settled: Box<dyn FnOnce() + Send>,
    /// The TCP connection that it is, if it may be followed by another.
    pub socket: Option<TcpStream>,
}

/// A TCP connection as a control stream, with `patience` for the whole handshake.
pub fn tcp_stream(socket: TcpStream, patience: Duration) -> io::Result<Stream> {
    let (writer, closing, settling) = (socket.try_clone()?, socket.try_clone()?, socket.try_clone()?);
    let deadline = Deadline::at(Instant::now() + patience);
    let lifted = deadline.clone();
    let whole = socket.try_clone()?;
    Ok(Stream {
        reader: Box::new(DeadlineStream::new(socket, deadline, SILENCE)),
        writer: Box::new(writer),
        closer: Box::new(move || drop(closing.shutdown(Shutdown::Both))),
        settled: Box::new(move || {
            lifted.lift();
            // Fails only on a socket that is gone, which reading will tell.
            let _ = settling.set_read_timeout(None);
        }),
        socket: Some(whole),
    })
}

/// Why a control stream did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The other side has another key.
    #[error(
        "the other side does not accept the token; give the one that its `longhaul serve` was started with, or that \
         `longhaul user add` printed there"
    )]
    WrongKey,
    /// There is no version that both sides speak.
    #[error(
        "the other side speaks {theirs} of the protocol, this program {ours}; install the newer release {}",
        if theirs.highest() < ours.highest() { "there" } else { "here" }
    )]
    WrongVersion {
        /// The other side's.
        theirs: Versions,
        /// This side's.
        ours: Versions,
    },
    /// The other side said no.
    #[error("{0}")]
    Refused(Reason),
    /// The other side is something else, or went away.
    #[error(
        "the other side does not answer as longhaul does ({0}); is it `longhaul serve`, and the right port?"
    )]
    NotLonghaul(&'static str),
    /// The stream broke.
    #[error("the connection broke during the handshake: {0}")]
    Io(#[from] io::Error),
    /// The system has no threads to give.
    #[error("no thread can be started: {0}; try again later")]
    Threads(io::Error),
}

const MAGIC: [u8; 3] = *b"LHC";
/// The handshake is under a shared key.
const SHARED: u8 = 0;
/// A token's id follows; the handshake is under its key and the server's.
const PINNED: u8 = 1;
const PIECE_MAX: usize = FRAME_MAX - 16;

/// Bytes that the offer may take in all so that it fits the first handshake message.
pub const OFFER_MAX: usize = FRAME_MAX - 256;

/// Open a control stream as the client. `meanwhile` is called once the offer is on its way, a round trip before the
/// answer.
pub fn connect(
    stream: Stream,
    key: &ClientKey,
    offer: &Offer,
    waker: Waker,
    meanwhile: impl FnOnce(),
) -> Result<(Control, Answer), HandshakeError> {
    connect_as(Versions::OURS, stream, key, offer, waker, meanwhile)
}

/// [`connect`] as a program that speaks these versions.
fn connect_as(
    ours: Versions,
    mut stream: Stream,
    key: &ClientKey,
    offer: &Offer,
    waker: Waker,
    meanwhile: impl FnOnce(),
) -> Result<(Control, Answer), HandshakeError> {
    let known = match &key.pinned {
        None => Known::Key(&key.psk),
        Some((_, server)) => Known::KeyAndServer(&key.psk, server),
    };
    let opening = opening(ours, key);
    let prologue = prologue(ours.highest(), &opening);
    let (mut initiator, frame) = Initiator::begin(known, &prologue, &opening, offer)
        .map_err(|_| HandshakeError::NotLonghaul("offer too long"))?;
    let first = [&MAGIC[..], &[ours.highest()], &frame].concat();
    stream.writer.write_all(&first).map_err(unexpected)?;
    stream.writer.flush().map_err(unexpected)?;
    meanwhile();
    let answered = initiator.answer(&mut *stream.reader, FRAME_MAX);
    let ((lowest, highest), answer): ((u8, u8), Answer) = answered.map_err(|error| match error {
        NoiseError::Refused { reason: REASON_KEY, .. } => HandshakeError::WrongKey,
        NoiseError::Refused { reason: REASON_VERSION, version } => {
            let mut lowest = [0];
            let lowest = stream.reader.read_exact(&mut lowest).is_ok().then_some(lowest[0]);
            HandshakeError::WrongVersion { theirs: Versions::told(version, lowest), ours }
        }
        NoiseError::Refused { .. } => HandshakeError::NotLonghaul("an unknown refusal"),
        NoiseError::Key => HandshakeError::NotLonghaul("a reply under another key"),
        NoiseError::Io(error) => unexpected(error),
        other => HandshakeError::Io(io::Error::other(other)),
    })?;
    let version = agree(ours, Versions::new(lowest, highest))?;
    if let Answer::Refuse(reason) = answer {
        return Err(HandshakeError::Refused(reason));
    }
    let threads = Threads::start().map_err(HandshakeError::Threads)?;
    Ok((threads.serve(version, stream, initiator.into_transport(), waker), answer))
}

fn unexpected(error: io::Error) -> HandshakeError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            HandshakeError::NotLonghaul("it closed the connection")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HandshakeError::NotLonghaul("it stays silent"),
        _ => HandshakeError::Io(error),
    }
}

/// The version to speak.
fn agree(ours: Versions, theirs: Versions) -> Result<u8, HandshakeError> {
    ours.common(theirs).ok_or(HandshakeError::WrongVersion { theirs, ours })
}

/// Answer a client. `find` tells whose token an id is (without one: who has the shared key) and what to answer with.
/// For an id that nobody has it gives a key that nobody has either: the two cannot be told apart from outside. `decide`
/// sees the offer.
pub fn accept<U>(
    stream: Stream,
    find: impl FnOnce(Option<TokenId>) -> (ServerKey, Option<U>),
    waker: Waker,
    decide: impl FnOnce(&Offer, &U) -> Answer,
) -> Result<(Control, Offer, U), HandshakeError> {
    accept_as(Versions::OURS, stream, find, waker, decide)
}

/// [`accept`] as a program that speaks these versions.
fn accept_as<U>(
    ours: Versions,
    mut stream: Stream,
    find: impl FnOnce(Option<TokenId>) -> (ServerKey, Option<U>),
    waker: Waker,
    decide: impl FnOnce(&Offer, &U) -> Answer,
) -> Result<(Control, Offer, U), HandshakeError> {
    let mut magic = [0; 4];
    stream.reader.read_exact(&mut magic).map_err(unexpected)?;
    if magic[..3] != MAGIC {
        return Err(HandshakeError::NotLonghaul("wrong first bytes"));
    }
    let first = read_frame(&mut *stream.reader).map_err(unexpected)?;
    let theirs = Versions::told(magic[3], first.first().copied());
    let version = match agree(ours, theirs) {
        Ok(version) => version,
        Err(error) => {
            refuse_in_clear(&mut stream, REASON_VERSION, ours)?;
            return Err(error);
        }
    };
    let Some((opening, id, message)) = split_opening(&first) else {
        return Err(HandshakeError::NotLonghaul("a malformed first frame"));
    };
    let prologue = prologue(magic[3], opening);
    let (key, user) = find(id);
    let read = match (id, &key.identity) {
        (None, _) => Responder::begin::<Offer>(Known::Key(&key.psk), &prologue, message),
        (Some(_), Some(identity)) => {
            Responder::begin(Known::KeyAndServer(&key.psk, identity.private()), &prologue, message)
        }
        (Some(_), None) => Err(NoiseError::Key),
    };
    let (mut responder, offer, user) = match (read, user) {
        (Ok((responder, offer)), Some(user)) => (responder, offer, user),
        (Ok(_), None) | (Err(NoiseError::Key), _) => {
            refuse_in_clear(&mut stream, REASON_KEY, ours)?;
            return Err(HandshakeError::WrongKey);
        }
        (Err(error), _) => return Err(HandshakeError::Io(io::Error::other(error))),
    };
    let threads = Threads::start();
    let answer = match &threads {
        Ok(_) => decide(&offer, &user),
        Err(error) => {
            let line = format!("the server has no thread to spare ({error}); try again later");
            Answer::Refuse(Reason::new(Cause::Refused, line))
        }
    };
    let answered = ((ours.lowest(), ours.highest()), &answer);
    stream.writer.write_all(&responder.answer(&answered).map_err(io::Error::other)?)?;
    stream.writer.flush()?;
    if let Answer::Refuse(reason) = answer {
        return Err(HandshakeError::Refused(reason));
    }
    let threads = threads.map_err(HandshakeError::Threads)?;
    Ok((threads.serve(version, stream, responder.into_transport(), waker), offer, user))
}

/// The lowest version comes last: programs from before ranges do not read so far.
fn refuse_in_clear(stream: &mut Stream, reason: u8, ours: Versions) -> io::Result<()> {
    let refusal = [&refusal(reason, ours.highest())[..], &[ours.lowest()]].concat();
    stream.writer.write_all(&refusal)?;
    stream.writer.flush()
}

/// What comes out of a control stream.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// The other side sends datagrams over the stream: our end of their way.
    Pipe(UnixStream),
    /// It ended; nothing more will come.
    Closed,
}

/// An open control stream. Two threads serve it, so that neither a slow peer nor a slow network holds up the owner. A
/// message is read when the one before it has been taken, so that who says more than is heeded is held up by TCP.
pub struct Control {
    /// What both sides speak.
    version: u8,
    outbox: Option<Sender<Outgoing>>,
    /// Bytes of messages that wait to be written.
    waiting: Arc<AtomicUsize>,
    inbox: Receiver<Incoming>,
    written: Receiver<()>,
    closer: Option<Box<dyn FnOnce() + Send>>,
    pipe: Pipe,
    line: Option<Arc<Line>>,
}

/// A message to be written.
struct Outgoing {
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
        let counted = if matches!(message, Message::ListingPart { .. }) { 0 } else { bytes.len() };
        Outgoing { counted, ..Outgoing::unasked_bytes(bytes) }
    }

    fn unasked_bytes(bytes: Vec<u8>) -> Outgoing {
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
struct Threads {
    write: Prepared<Task>,
    read: Prepared<Task>,
}

impl Threads {
    fn start() -> io::Result<Threads> {
        let write = Prepared::for_task("control-write")?;
        Ok(Threads { write, read: Prepared::for_task("control-read")? })
    }

    fn serve(self, version: u8, stream: Stream, state: StatelessTransportState, waker: Waker) -> Control {
        (stream.settled)();
        tracing::debug!("both sides speak version {version} of the protocol");
        let state = Arc::new(state);
        let (outbox, to_write) = unbounded();
        let (arrived, inbox) = bounded(INBOX);
        let (done, written) = bounded(1);
        let (pipe_out, from_pipe) = bounded(PIPE_CHUNKS);
        let pipe = Pipe::new(pipe_out);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (mut reader, mut writer) = (stream.reader, stream.writer);
        let line = stream.socket.map(Line::new);
        if let Some(line) = &line {
            (reader, writer) = (Box::new(LineReader(line.clone())), Box::new(LineWriter(line.clone())));
        }
        let (sealer, counter) = (state.clone(), waiting.clone());
        let (written_line, heard_line) = (line.clone(), line.clone());
        self.write.begin(Box::new(move || {
            let sources = Sources { messages: &to_write, waiting: &counter, from_pipe: &from_pipe };
            // A broken stream shows on the reading side, which tells the owner.
            let _ = write_messages(&mut *writer, &sealer, &sources, written_line.as_deref());
            drop(writer);
            let _ = done.send(());
        }));
        let passing = pipe.clone();
        self.read.begin(Box::new(move || {
            let mut incoming = MessageReader {
                reader: &mut *reader,
                state: &state,
                nonce: 0,
                plain: vec![],
                at: 0,
                line: heard_line,
            };
            loop {
                let message = incoming.next_incoming(&passing).unwrap_or_else(|error| {
                    tracing::debug!("the control stream ended: {error}");
                    Incoming::Closed
                });
                let last = matches!(message, Incoming::Closed);
                let gone = arrived.send(message).is_err();
                waker.wake();
                if last || gone {
                    return;
                }
            }
        }));
        Control { version, outbox: Some(outbox), waiting, inbox, written, closer: Some(stream.closer), pipe, line }
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
    pub fn line(&self) -> Option<&Arc<Line>> {
        self.line.as_ref()
    }

    /// Our end of the way that datagrams take over the stream from now on.
    pub fn open_pipe(&self) -> io::Result<UnixStream> {
        self.pipe.open()
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
        let _ = self.written.recv_timeout(FINISH_PATIENCE);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.outbox = None;
        if let Some(line) = &self.line {
            let _ = self.written.recv_timeout(LAST_WORD);
            line.end();
        }
        if let Some(closer) = self.closer.take() {
            closer();
        }
    }
}

/// How long last words may take to leave.
const FINISH_PATIENCE: Duration = Duration::from_secs(5);
/// A silent stream says that it is alive this often: well within the shortest stall timeout.
const KEEP_ALIVE_EVERY: Duration = Duration::from_millis(300);

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
    line: Option<&Line>,
) -> io::Result<()> {
    let (mut nonce, mut frame, mut out) = (0, vec![0; FRAME_MAX], vec![]);
    let (idle, taken) = (never(), || line.map_or(0, Line::taken));
    let mut told = 0;
    loop {
        // Who takes nothing, or cannot be reached, is told nothing more but that we are there.
        let is_full = line.is_some_and(|line| line.kept() > KEPT_MAX);
        let messages = if is_full { &idle } else { sources.messages };
        let pause = if is_full { FULL_PAUSE } else { KEEP_ALIVE_EVERY };
        let message = if taken() - told >= TELL_TAKEN {
            Outgoing::keep_alive(taken())
        } else {
            select! {
                recv(messages) -> message => match message {
                    Ok(message) => message,
                    Err(_) => Outgoing::last(),
                },
                // The other end of this one is in `Control` and the reading thread, and they end together.
                recv(sources.from_pipe) -> bytes => Outgoing::unasked(&Message::Bytes(bytes.unwrap_or_default())),
                default(pause) => Outgoing::keep_alive(taken()),
            }
        };
        told = told.max(message.tells_taken);
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
/// Messages that wait to be written may take so much before data waits for them: hashes of 400 000 small files.
const OUTBOX_MUCH: usize = 16 << 20;
/// And never so much: twice the longest message.
const OUTBOX_MAX: usize = 128 << 20;
const WRITE_BYTES: usize = 1 << 20;
/// Chunks of the pipe that wait to be written: what waits there holds up messages.
const PIPE_CHUNKS: usize = 2;
/// So much that the other side has not said to have taken is kept, for when the connection breaks.
const KEPT_MAX: usize = 16 << 20;
/// Looked at again this often whether it has.
const FULL_PAUSE: Duration = Duration::from_millis(10);
/// Told to have been taken at least after so many bytes; else with each sign of life.
const TELL_TAKEN: u64 = 1 << 20;
/// How long the last word of who ends without ceremony may take.
const LAST_WORD: Duration = Duration::from_millis(200);

struct MessageReader<'a> {
    reader: &'a mut dyn Read,
    state: &'a StatelessTransportState,
    nonce: u64,
    /// What was opened and not read; up to `at` it has been read.
    plain: Vec<u8>,
    at: usize,
    line: Option<Arc<Line>>,
}

impl MessageReader<'_> {
    /// The next message that is the owner's business.
    fn next_incoming(&mut self, pipe: &Pipe) -> io::Result<Incoming> {
        loop {
            match self.next()? {
                Message::Bytes(bytes) => {
                    if let Some(end) = pipe.pass_on(&bytes)? {
                        return Ok(Incoming::Pipe(end));
                    }
                }
                Message::Over => return Ok(Incoming::Closed),
                Message::KeepAlive { taken } => {
                    if self.line.as_ref().is_some_and(|line| !line.note_taken(taken)) {
                        return Err(io::Error::other("it claims to have taken what was never said"));
                    }
                    return Ok(Incoming::Message(Message::KeepAlive { taken }));
                }
                message => return Ok(Incoming::Message(message)),
            }
        }
    }

    fn next(&mut self) -> io::Result<Message> {
        loop {
            if let Some((len, rest)) = self.plain[self.at..].split_first_chunk::<4>()
                && let Some(kind) = rest.first()
            {
                let len = u32::from_be_bytes(*len) as usize;
                if len == 0 || len > Message::len_max(*kind) {
                    return Err(io::Error::other(NoiseError::Malformed));
                }
                if let Some(bytes) = rest.get(..len) {
                    let message =
                        postcard::from_bytes(bytes).map_err(|_| io::Error::other(NoiseError::Malformed))?;
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

#[cfg(test)]
mod tests;
