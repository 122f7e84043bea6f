//! The handshake that opens a control stream or a striped stream: Noise_NNpsk0 (revision 34), Noise_NN where the two
//! sides share no key, Noise_NKpsk0 where the client knows the server's public key too.
//!
//! ```text
//! client  first bytes of its protocol · frame(what it says in clear · Noise message 1 with an offer)
//! server  frame(Noise message 2 with an answer)                or  0 u16 · reason u8 · version u8, in clear
//! frame   length u16 · bytes
//! ```
//! With a key, whoever has not the same one can neither read the offer nor answer it. With the server's public key,
//! nobody but the server can, whoever else has the shared one. What is said in clear belongs to the handshake's prologue.

use crate::random::random;
use serde::{Serialize, de::DeserializeOwned};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{HandshakeState, StatelessTransportState};
use std::fmt;
use std::io::{self, Read, Write};

/// A shared key.
pub type Psk = [u8; 32];

/// What a server shows of its identity.
pub type PublicKey = [u8; 32];

/// What a server proves to be itself with.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    private: [u8; 32],
    public: PublicKey,
}

impl Identity {
    /// A new one.
    pub fn generate() -> io::Result<Identity> {
        Ok(Identity::from_private(random()?))
    }

    /// That of a private key that was kept.
    pub fn from_private(private: [u8; 32]) -> Identity {
        let mut curve = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("snow knows Curve25519");
        curve.set(&private);
        let public = curve.pubkey().try_into().expect("a public key has 32 bytes");
        Identity { private, public }
    }

    /// To be kept where nobody else can read it.
    pub fn private(&self) -> &[u8; 32] {
        &self.private
    }

    /// What clients are given.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// What the two sides know of each other before they talk.
#[derive(Clone, Copy)]
pub enum Known<'a> {
    /// Nothing.
    Nothing,
    /// A shared key.
    Key(&'a Psk),
    /// A shared key, and the server's key: to the client the public one, to the server its private one.
    KeyAndServer(&'a Psk, &'a [u8; 32]),
}

impl<'a> From<Option<&'a Psk>> for Known<'a> {
    fn from(key: Option<&'a Psk>) -> Known<'a> {
        key.map_or(Known::Nothing, Known::Key)
    }
}

/// Reason for a refusal: the other side has another key.
pub const REASON_KEY: u8 = 1;
/// Reason for a refusal: the other side speaks another version.
pub const REASON_VERSION: u8 = 2;
/// The longest frame: Noise's longest message.
pub const FRAME_MAX: usize = 65_535;

/// Why a handshake came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// The other side said no in clear.
    #[error("the other side refuses, for reason {reason}")]
    Refused {
        /// One of the constants here, or of the protocol's own.
        reason: u8,
        /// The version that the other side speaks.
        version: u8,
    },
    /// Whoever sealed the message has another key.
    #[error("a message under another key")]
    Key,
    /// The message is authentic, and nonsense.
    #[error("a message that makes no sense")]
    Malformed,
    /// A message that is longer than any may be.
    #[error("a message of {0} bytes, which is too long")]
    TooLong(usize),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The client's side.
pub struct Initiator {
    state: HandshakeState,
}

impl Initiator {
    /// Begin with an offer. Returns the frame to send.
    pub fn offer(key: Option<&Psk>, offer: &impl Serialize) -> Result<(Initiator, Vec<u8>), NoiseError> {
        Initiator::begin(key.into(), &[], &[], offer)
    }

    /// Begin with something in clear and an offer. Returns the frame to send. `prologue` is what has to arrive as it was
    /// said: mostly that, and what was said before it.
    pub fn begin(
        known: Known<'_>,
        prologue: &[u8],
        clear: &[u8],
        offer: &impl Serialize,
    ) -> Result<(Initiator, Vec<u8>), NoiseError> {
        let builder = builder(known, prologue);
        let builder = match known {
            Known::KeyAndServer(_, public) => builder.remote_public_key(public).expect("set once"),
            _ => builder,
        };
        let mut state = builder.build_initiator().expect("an initiator needs nothing more");
        let frame = seal(&mut state, clear, offer)?;
        Ok((Initiator { state }, frame))
    }

    /// Read the answer, in a frame of so many bytes at most.
    pub fn answer<T: DeserializeOwned>(
        &mut self,
        reader: &mut dyn Read,
        len_max: usize,
    ) -> Result<T, NoiseError> {
        let mut len = [0; 2];
        reader.read_exact(&mut len)?;
        let len = usize::from(u16::from_be_bytes(len));
        if len == 0 {
            let mut refusal = [0; 2];
            reader.read_exact(&mut refusal)?;
            return Err(NoiseError::Refused { reason: refusal[0], version: refusal[1] });
        }
        if len > len_max {
            return Err(NoiseError::TooLong(len));
        }
        let mut message = vec![0; len];
        reader.read_exact(&mut message)?;
        open(&mut self.state, &message)
    }

    /// The keys of what follows, once the answer was read.
    pub fn into_transport(self) -> StatelessTransportState {
        into_transport(self.state)
    }
}

/// The server's side.
pub struct Responder {
    state: HandshakeState,
}

impl Responder {
    /// Read an offer, without its frame.
    pub fn read<T: DeserializeOwned>(
        key: Option<&Psk>,
        message: &[u8],
    ) -> Result<(Responder, T), NoiseError> {
        Responder::begin(key.into(), &[], message)
    }

    /// Read an offer, without its frame and without what was said in clear before it.
    pub fn begin<T: DeserializeOwned>(
        known: Known<'_>,
        prologue: &[u8],
        message: &[u8],
    ) -> Result<(Responder, T), NoiseError> {
        let builder = builder(known, prologue);
        let builder = match known {
            Known::KeyAndServer(_, private) => builder.local_private_key(private).expect("set once"),
            _ => builder,
        };
        let mut state = builder.build_responder().expect("a responder needs nothing more");
        let offer = open(&mut state, message)?;
        Ok((Responder { state }, offer))
    }

    /// The frame with the answer.
    pub fn answer(&mut self, answer: &impl Serialize) -> Result<Vec<u8>, NoiseError> {
        seal(&mut self.state, &[], answer)
    }

    /// The keys of what follows, once the answer was made.
    pub fn into_transport(self) -> StatelessTransportState {
        into_transport(self.state)
    }
}

/// What a server that speaks `version` says to a client that it refuses.
pub fn refusal(reason: u8, version: u8) -> [u8; 4] {
    [0, 0, reason, version]
}

/// Plain data as it travels.
pub(crate) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain data always serialises")
}

/// Write a frame.
pub(crate) fn write_frame(writer: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    let len = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    writer.write_all(&[&len.to_be_bytes()[..], bytes].concat())
}

/// Read a frame.
pub(crate) fn read_frame(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    reader.read_exact(&mut len)?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(len))];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn builder<'a>(known: Known<'a>, prologue: &'a [u8]) -> snow::Builder<'a> {
    let (pattern, key) = match known {
        Known::Nothing => (WITHOUT_KEY, None),
        Known::Key(key) => (WITH_KEY, Some(key)),
        Known::KeyAndServer(key, _) => (WITH_SERVER, Some(key)),
    };
    let builder = snow::Builder::new(pattern.parse().expect("a pattern that snow knows"));
    let builder = builder.prologue(prologue).expect("set once");
    match key {
        Some(key) => builder.psk(0, key).expect("the pattern takes a key at 0"),
        None => builder,
    }
}

/// A frame with the next message, after something in clear.
fn seal(state: &mut HandshakeState, clear: &[u8], value: &impl Serialize) -> Result<Vec<u8>, NoiseError> {
    let payload = to_bytes(value);
    let too_long = || NoiseError::TooLong(payload.len());
    let mut message = vec![0; (payload.len() + OVERHEAD).min(FRAME_MAX)];
    let len = state.write_message(&payload, &mut message).map_err(|_| too_long())?;
    if clear.len() + len > FRAME_MAX {
        return Err(too_long());
    }
    let mut frame = Vec::with_capacity(2 + clear.len() + len);
    write_frame(&mut frame, &[clear, &message[..len]].concat())?;
    Ok(frame)
}

fn open<T: DeserializeOwned>(state: &mut HandshakeState, message: &[u8]) -> Result<T, NoiseError> {
    let mut payload = vec![0; message.len()];
    let len = state.read_message(message, &mut payload).map_err(|_| NoiseError::Key)?;
    read_older(&payload[..len])
}

/// Read what a program of this version or an older one says: fields that the older one did not know are `None`, `false` or 0.
pub(crate) fn read_older<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, NoiseError> {
    // Nearly all are whole, and need no copy.
    postcard::from_bytes(bytes)
        .or_else(|_| postcard::from_bytes(&[bytes, &[0; ADDED_MAX]].concat()))
        .map_err(|_| NoiseError::Malformed)
}

fn into_transport(state: HandshakeState) -> StatelessTransportState {
    state.into_stateless_transport_mode().expect("two messages complete NN and NK")
}

const WITH_SERVER: &str = "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2s";
const WITH_KEY: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const WITHOUT_KEY: &str = "Noise_NN_25519_ChaChaPoly_BLAKE2s";
/// Bytes of what was added to offers, answers and messages since the oldest version that is understood, as far as they can be missing.
const ADDED_MAX: usize = 5;
/// More than a public key and two tags.
const OVERHEAD: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_and_its_answer_pass_with_a_key_and_without() {
        for key in [None, Some(&[7; 32])] {
            let (mut client, frame) = Initiator::offer(key, &"an offer").unwrap();
            let (mut server, offer) = Responder::read::<String>(key, &frame[2..]).unwrap();
            assert_eq!(offer, "an offer");
            let frame = server.answer(&17u32).unwrap();
            assert_eq!(client.answer::<u32>(&mut &frame[..], FRAME_MAX).unwrap(), 17);
            let (client, server) = (client.into_transport(), server.into_transport());
            let (mut sealed, mut opened) = ([0; 20], [0; 20]);
            let len = client.write_message(0, b"more", &mut sealed).unwrap();
            assert_eq!(server.read_message(0, &sealed[..len], &mut opened).unwrap(), 4);
        }
    }

    #[test]
    fn a_server_is_known_by_its_key_whoever_else_has_the_shared_one() {
        let (server, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let psk = [7; 32];
        let known = Known::KeyAndServer(&psk, server.public());
        let (mut client, frame) = Initiator::begin(known, b"id", b"id", &"an offer").unwrap();
        assert_eq!(frame[2..4], *b"id");
        let read = |identity: &Identity, clear: &[u8]| {
            Responder::begin::<String>(Known::KeyAndServer(&psk, identity.private()), clear, &frame[4..])
        };
        assert!(matches!(read(&other, b"id"), Err(NoiseError::Key)));
        assert!(
            matches!(read(&server, b"ix"), Err(NoiseError::Key)),
            "what is said in clear cannot be changed"
        );
        let shared = Responder::begin::<String>(Known::Key(&psk), b"id", &frame[4..]);
        assert!(matches!(shared, Err(NoiseError::Key)));
        let (mut responder, offer) = read(&Identity::from_private(*server.private()), b"id").unwrap();
        assert_eq!(offer, "an offer");
        let answer = responder.answer(&17u32).unwrap();
        assert_eq!(client.answer::<u32>(&mut &answer[..], FRAME_MAX).unwrap(), 17);
    }

    #[test]
    fn another_key_nonsense_refusals_and_length_are_told_apart() {
        let (mut client, frame) = Initiator::offer(Some(&[7; 32]), &"an offer").unwrap();
        let other = Responder::read::<String>(Some(&[8; 32]), &frame[2..]);
        assert!(matches!(other, Err(NoiseError::Key)));
        let nonsense = Responder::read::<(String, [u64; ADDED_MAX + 1])>(Some(&[7; 32]), &frame[2..]);
        assert!(matches!(nonsense, Err(NoiseError::Malformed)));
        let mut answer = |bytes: &[u8]| client.answer::<u32>(&mut &bytes[..], 100);
        let refused = answer(&refusal(REASON_VERSION, 9));
        assert!(matches!(refused, Err(NoiseError::Refused { reason: REASON_VERSION, version: 9 })));
        assert!(matches!(answer(&[0, 101]), Err(NoiseError::TooLong(101))));
        assert!(matches!(answer(&[0, 50, 1]), Err(NoiseError::Io(_))));
        let long = Initiator::offer(None, &vec![0u8; FRAME_MAX]);
        assert!(matches!(long, Err(NoiseError::TooLong(_))));
    }
}
