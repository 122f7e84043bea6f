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

mod open;
pub mod rejoin;

pub use open::{Control, Incoming, KEEP_ALIVE_EVERY};

use crate::budget::Budget;
use crate::noise::{
    FRAME_MAX, Identity, Initiator, Known, NoiseError, Psk, PublicKey, REASON_KEY, REASON_VERSION, Responder,
    read_frame, refusal, write_frame,
};
use crate::patient::{SILENCE, Watched};
use crate::wake::Waker;
use longhaul_proto::session::message::{Answer, Offer};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::versions::Versions;
use open::Threads;
use rejoin::ResumableStream;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// What takes the place of reader, writer and closer after the handshake, if one connection may follow another.
    pub resumable: Option<Arc<ResumableStream>>,
    /// From which long messages take their memory.
    pub budget: Arc<Budget>,
}

/// A TCP connection as a control stream, with `patience` for the whole handshake.
pub fn tcp_stream(socket: TcpStream, patience: Duration) -> io::Result<Stream> {
    let (writer, closing, whole) = (socket.try_clone()?, socket.try_clone()?, socket.try_clone()?);
    let reader = Watched::until(socket, Instant::now() + patience, SILENCE);
    let watch = reader.watch.clone();
    Ok(Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        closer: Box::new(move || drop(closing.shutdown(Shutdown::Both))),
        settled: Box::new(move || watch.settle()),
        resumable: Some(ResumableStream::new(whole)),
        budget: Arc::default(),
    })
}

/// A stream whose handshake goes over UDP: the client's first message is there, and the answer is put where the second value
/// has it. A connection may be missing for as long as `patience`; meanwhile `waker` is told of what is to be said.
pub fn unconnected_stream(
    opening: Vec<u8>,
    patience: Duration,
    waker: Waker,
) -> io::Result<(Stream, Arc<Mutex<Vec<u8>>>)> {
    let answer = Arc::new(Mutex::new(vec![]));
    let stream = Stream {
        reader: Box::new(io::Cursor::new(opening)),
        writer: Box::new(Kept(answer.clone())),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
        resumable: Some(ResumableStream::unconnected(patience, waker)?),
        budget: Arc::default(),
    };
    Ok((stream, answer))
}

/// Keeps what is written.
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

/// Bytes that the offer may take in all so that it fits the first handshake message.
pub const OFFER_MAX: usize = FRAME_MAX - 256;

/// Open a control stream as the client.
pub fn connect(
    stream: Stream,
    key: &ClientKey,
    offer: &Offer,
    waker: Waker,
) -> Result<(Control, Answer), HandshakeError> {
    Beginning::new(key, offer)?.over(stream, waker, || {})
}

/// A client's side of a handshake, whichever way its messages take.
pub struct Beginning {
    ours: Versions,
    initiator: Initiator,
    first: Vec<u8>,
}

impl Beginning {
    /// Begin with an offer.
    pub fn new(key: &ClientKey, offer: &Offer) -> Result<Beginning, HandshakeError> {
        // An older program that cannot read it says so, if it knows beforehand that it cannot.
        let lowest = Versions::OURS.lowest().max(offer.since());
        Beginning::new_as(Versions::new(lowest, Versions::OURS.highest()), key, offer)
    }

    fn new_as(ours: Versions, key: &ClientKey, offer: &Offer) -> Result<Beginning, HandshakeError> {
        let known = match &key.pinned {
            None => Known::Key(&key.psk),
            Some((_, server)) => Known::KeyAndServer(&key.psk, server),
        };
        let opening = opening(ours, key);
        let prologue = prologue(ours.highest(), &opening);
        let (initiator, frame) = Initiator::begin(known, &prologue, &opening, offer)
            .map_err(|_| HandshakeError::NotLonghaul("offer too long"))?;
        let first = [&MAGIC[..], &[ours.highest()], &frame].concat();
        Ok(Beginning { ours, initiator, first })
    }

    /// What is to be said.
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// Say it over a stream, and read the answer there. `meanwhile` is called between the two.
    pub fn over(
        mut self,
        mut stream: Stream,
        waker: Waker,
        meanwhile: impl FnOnce(),
    ) -> Result<(Control, Answer), HandshakeError> {
        stream.writer.write_all(&self.first).map_err(unexpected)?;
        stream.writer.flush().map_err(unexpected)?;
        meanwhile();
        let (version, answer) = self.read(&mut *stream.reader)?;
        let threads = Threads::start().map_err(HandshakeError::Threads)?;
        Ok((threads.serve(version, stream, self.initiator.into_transport(), waker), answer))
    }

    /// An answer came over UDP. With it there is a control stream that has no connection yet, for as long as `patience`. An
    /// answer that is none, or a refusal, leaves it all to TCP.
    pub fn answered(
        mut self,
        frame: &[u8],
        patience: Duration,
        waker: Waker,
    ) -> Result<(Control, Answer), Box<Beginning>> {
        let mut reader = frame;
        let Ok(threads) = Threads::start() else { return Err(Box::new(self)) };
        let Ok((stream, _)) = unconnected_stream(vec![], patience, waker.clone()) else {
            return Err(Box::new(self));
        };
        let Ok((version, answer)) = self.read(&mut reader) else { return Err(Box::new(self)) };
        Ok((threads.serve(version, stream, self.initiator.into_transport(), waker), answer))
    }

    fn read(&mut self, reader: &mut dyn Read) -> Result<(u8, Answer), HandshakeError> {
        let ours = self.ours;
        let answered = self.initiator.answer(reader, FRAME_MAX);
        let ((lowest, highest), answer): ((u8, u8), Answer) = answered.map_err(|error| match error {
            NoiseError::Refused { reason: REASON_KEY, .. } => HandshakeError::WrongKey,
            NoiseError::Refused { reason: REASON_VERSION, version } => {
                let mut lowest = [0];
                let lowest = reader.read_exact(&mut lowest).is_ok().then_some(lowest[0]);
                HandshakeError::WrongVersion { theirs: Versions::told(version, lowest), ours }
            }
            NoiseError::Refused { .. } => HandshakeError::NotLonghaul("an unknown refusal"),
            NoiseError::Key => HandshakeError::NotLonghaul("a reply under another key"),
            NoiseError::Io(error) => unexpected(error),
            other => HandshakeError::Io(io::Error::other(other)),
        })?;
        let version = agree(ours, Versions::new(lowest, highest))?;
        match answer {
            Answer::Refuse(reason) => Err(HandshakeError::Refused(reason)),
            answer => Ok((version, answer)),
        }
    }
}

/// The whole first message of a client, of which `begun` has been read: for who may have met it before.
pub fn read_first(begun: [u8; 4], reader: &mut dyn Read) -> Result<Vec<u8>, HandshakeError> {
    if begun[..3] != MAGIC {
        return Err(HandshakeError::NotLonghaul("wrong first bytes"));
    }
    let frame = read_frame(reader).map_err(unexpected)?;
    let mut first = begun.to_vec();
    write_frame(&mut first, &frame)?;
    Ok(first)
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
        (Ok((responder, offer)), Some(user)) => (responder, offer.gathered(), user),
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

#[cfg(test)]
mod tests;
