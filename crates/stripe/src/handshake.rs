//! What is said on a new lane before frames flow. The client's side blocks within a deadline; the server's side
//! takes what has come and never waits, so that one thread meets any number of strangers.

use super::keys::Secrets;
use super::options::StripeOptions;
use longhaul_net::aead::{Cipher, has_aes};
use longhaul_net::control::{ServerKey, TokenId};
use longhaul_net::join::{self, JoinError, JoinKey, Nonces};
use longhaul_net::noise::{Initiator, Known, NoiseError, Responder, refusal};
use longhaul_net::patient::Watched;
use longhaul_net::random::random;
use longhaul_net::seal::Side;
use longhaul_proto::streams::join::{NONCE_LEN, PROOF_LEN};
use longhaul_proto::stripe::hello::{
    Answer, ID_LEN, NOISE_MAX, Offer, PREAMBLE_LEN, Purpose, Refusal, VERSION, preamble, read_preamble,
};
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::time::Instant;

/// What the two sides agreed on.
pub struct Agreed {
    /// For keys and proofs.
    pub secrets: Secrets,
    /// Lanes at most.
    pub lanes_max: u32,
    /// Bytes that we may send before we hear more.
    pub limit: u64,
    /// Bytes that the other side may send before it hears more.
    pub told_limit: u64,
}

fn refused(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, why)
}

/// What the other side said no with, if it is that.
pub fn refusal_of(error: &io::Error) -> Option<Refusal> {
    error.get_ref()?.downcast_ref().copied()
}

fn stranger(what: &str) -> io::Error {
    let line =
        format!("the other side does not answer as a striped listener does ({what}); is it the right port?");
    io::Error::new(ErrorKind::InvalidData, line)
}

/// Open a stream over its first lane.
pub fn open(socket: &TcpStream, options: &StripeOptions, deadline: Instant) -> io::Result<Agreed> {
    let key = options.key.as_ref();
    let offer =
        Offer { plain: options.plain, aes: has_aes(), lanes_max: options.lanes_max(), limit: options.buffer };
    let (first, known, is_pinned) = match (key, &options.pinned) {
        (Some(key), Some((id, server))) => (opening_as(id), Known::KeyAndServer(key, server), true),
        _ => (preamble(Purpose::Open { keyed: key.is_some() }).to_vec(), key.into(), false),
    };
    let prologue = if is_pinned { &first[..] } else { &[] };
    let (mut initiator, frame) = Initiator::begin(known, prologue, &[], &offer).map_err(io::Error::other)?;
    let mut stream = Watched::until(socket, deadline, SILENCE);
    stream.write_all(&[&first[..], &frame].concat())?;
    let answer = initiator.answer(&mut stream, NOISE_MAX).map_err(|error| match error {
        NoiseError::Refused { reason, .. } => refusal_with(reason),
        NoiseError::Key => refused(Refusal::Key),
        NoiseError::Malformed => stranger("an answer that makes no sense"),
        NoiseError::TooLong(_) => stranger("its first message is too long"),
        NoiseError::Io(error) => error,
        other => io::Error::other(other),
    })?;
    match answer {
        Answer::Refuse(line) => Err(refused(line)),
        Answer::Accept { lanes_max: 0, .. } => Err(stranger("it allows no lane")),
        Answer::Accept { id, secret, aes, lanes_max, limit } => {
            let secrets = Secrets::new(id, secret, cipher(options.plain, aes));
            stream.write_all(secrets.join.proof(Side::Client, &Nonces::default()).as_bytes())?;
            Ok(Agreed { secrets, lanes_max: lanes_max.min(offer.lanes_max), limit, told_limit: offer.limit })
        }
    }
}

/// The first bytes of a stream that somebody opens with a token.
fn opening_as(id: &TokenId) -> Vec<u8> {
    [&preamble(Purpose::OpenAs)[..], id].concat()
}

/// The server's word for no.
fn refusal_with(code: u8) -> io::Error {
    Refusal::of_code(code).map_or_else(|| stranger("an unknown refusal"), refused)
}

fn cipher(plain: bool, aes: bool) -> Option<Cipher> {
    (!plain).then(|| Cipher::of(aes))
}

/// Join a stream with a further lane.
pub fn join(socket: &TcpStream, secrets: &Secrets, deadline: Instant) -> io::Result<Nonces> {
    let mut stream = Watched::until(socket, deadline, SILENCE);
    let hello = |nonce: &[u8; NONCE_LEN]| [&preamble(Purpose::Join)[..], &secrets.id, nonce].concat();
    join::join(&mut stream, &secrets.join, hello).map_err(|error| match error {
        JoinError::Refused(code) => refusal_with(code),
        JoinError::Unproven => stranger("it does not know the stream's secret"),
        JoinError::Io(error) => error,
        other => io::Error::other(other),
    })
}

/// What is said of the other side when patience ends.
const SILENCE: &str = "the other side stays silent; is it a striped listener?";

/// What a server's side asks of whoever it stands before.
pub trait House {
    /// Whether nobody comes in without a key, or nobody with one.
    fn wants_key(&self) -> bool;
    /// The key of whoever has this token, or the one that all share.
    fn key(&mut self, id: Option<TokenId>) -> Option<ServerKey>;
    /// What lanes of an open stream prove to know.
    fn joined(&self, id: &[u8; ID_LEN]) -> Option<JoinKey>;
    /// Bytes that somebody may send first who has not proved yet that he does not repeat what he has heard another say; `None`: there
    /// is no room for one more stream.
    fn first_limit(&self) -> Option<u64>;
}

/// The server's side of a lane's beginning, fed with exactly as many bytes as it [needs](Greeting::needs) next.
pub struct Greeting {
    stage: Stage,
}

enum Stage {
    Preamble,
    TokenId,
    OfferLen(Claims),
    Offer { claims: Claims, len: usize },
    OpenProof(Box<Opened>),
    Joining,
    JoinProof { id: [u8; ID_LEN], key: Box<JoinKey>, nonces: Box<Nonces> },
}

/// What somebody says to have.
#[derive(Clone, Copy)]
enum Claims {
    NoKey,
    SharedKey,
    Token(TokenId),
}

/// A stream that somebody has opened.
pub struct Opened {
    /// What was agreed.
    pub agreed: Agreed,
}

/// What came of the bytes.
pub enum Step {
    /// Send these, then wait for more.
    More(Vec<u8>),
    /// Somebody has opened a stream.
    Opened(Box<Opened>),
    /// Somebody who knows its secret joins a stream.
    Joined {
        /// Which.
        id: [u8; ID_LEN],
        /// For the lane's keys.
        nonces: Box<Nonces>,
    },
    /// Send these and close.
    Refused(Refusal, Vec<u8>),
    /// Close without a word: it is something else, or does not know what it should.
    Stranger(&'static str),
}

impl Default for Greeting {
    fn default() -> Greeting {
        Greeting { stage: Stage::Preamble }
    }
}

impl Greeting {
    /// How many bytes must come next. A few hundred at most.
    pub fn needs(&self) -> usize {
        match self.stage {
            Stage::Preamble => PREAMBLE_LEN,
            Stage::TokenId => size_of::<TokenId>(),
            Stage::OfferLen(_) => 2,
            Stage::Offer { len, .. } => len,
            Stage::OpenProof(_) | Stage::JoinProof { .. } => PROOF_LEN,
            Stage::Joining => ID_LEN + NONCE_LEN,
        }
    }

    /// The stream that this one is about to open: only its last word is missing.
    pub fn opens(&self) -> Option<&[u8; ID_LEN]> {
        if let Stage::OpenProof(opened) = &self.stage { Some(&opened.agreed.secrets.id) } else { None }
    }

    /// The stream that this one asks to join with these bytes, if they are those.
    pub fn asks_to_join(&self, said: &[u8]) -> Option<[u8; ID_LEN]> {
        if matches!(self.stage, Stage::Joining) { said.first_chunk().copied() } else { None }
    }

    /// Take as many bytes as were needed.
    pub fn take(
        &mut self,
        bytes: &[u8],
        options: &StripeOptions,
        house: &mut impl House,
    ) -> io::Result<Step> {
        debug_assert_eq!(bytes.len(), self.needs());
        match std::mem::replace(&mut self.stage, Stage::Preamble) {
            Stage::Preamble => Ok(self.take_preamble(bytes, house)),
            Stage::TokenId => {
                let Ok(id) = bytes.try_into() else { return Ok(Step::Stranger("too short")) };
                self.stage = Stage::OfferLen(Claims::Token(id));
                Ok(Step::More(vec![]))
            }
            Stage::OfferLen(claims) => {
                let len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
                if len == 0 || len > NOISE_MAX {
                    return Ok(Step::Stranger("an offer of impossible length"));
                }
                self.stage = Stage::Offer { claims, len };
                Ok(Step::More(vec![]))
            }
            Stage::Offer { claims, .. } => self.take_offer(bytes, claims, options, house),
            Stage::OpenProof(opened) => {
                let known = is_proven(&opened.agreed.secrets.join, &Nonces::default(), bytes);
                Ok(if known { Step::Opened(opened) } else { Step::Stranger("an offer that was recorded") })
            }
            Stage::Joining => self.take_join(bytes, house),
            Stage::JoinProof { id, key, nonces } => {
                let known = is_proven(&key, &nonces, bytes);
                let joined = Step::Joined { id, nonces };
                Ok(if known { joined } else { Step::Stranger("it does not know the stream's secret") })
            }
        }
    }

    fn take_preamble(&mut self, bytes: &[u8], house: &impl House) -> Step {
        let Ok(bytes) = bytes.try_into() else { return Step::Stranger("too short") };
        match read_preamble(bytes) {
            Ok(None) => Step::Stranger("wrong first bytes"),
            Err(refusal) => refuse_open(refusal),
            Ok(Some(Purpose::Open { keyed })) if keyed != house.wants_key() => refuse_open(Refusal::Key),
            Ok(Some(Purpose::Open { keyed })) => {
                self.stage = Stage::OfferLen(if keyed { Claims::SharedKey } else { Claims::NoKey });
                Step::More(vec![])
            }
            Ok(Some(Purpose::OpenAs)) if !house.wants_key() => refuse_open(Refusal::Key),
            Ok(Some(Purpose::OpenAs)) => {
                self.stage = Stage::TokenId;
                Step::More(vec![])
            }
            Ok(Some(Purpose::Join)) => {
                self.stage = Stage::Joining;
                Step::More(vec![])
            }
        }
    }

    fn take_offer(
        &mut self,
        bytes: &[u8],
        claims: Claims,
        options: &StripeOptions,
        house: &mut impl House,
    ) -> io::Result<Step> {
        let (key, first) = match claims {
            Claims::NoKey => (None, vec![]),
            Claims::SharedKey => (house.key(None), vec![]),
            Claims::Token(id) => (house.key(Some(id)), opening_as(&id)),
        };
        let known = match (claims, &key) {
            (Claims::NoKey, _) => Known::Nothing,
            (Claims::SharedKey, Some(ServerKey { psk, .. })) => Known::Key(psk),
            (Claims::Token(_), Some(ServerKey { psk, identity: Some(identity) })) => {
                Known::KeyAndServer(psk, identity.private())
            }
            _ => return Ok(refuse_open(Refusal::Key)),
        };
        let (mut responder, offer) = match Responder::begin::<Offer>(known, &first, bytes) {
            Ok(read) => read,
            Err(NoiseError::Malformed) => return Ok(Step::Stranger("an offer that makes no sense")),
            Err(_) => return Ok(refuse_open(Refusal::Key)),
        };
        let Some(told_limit) = house.first_limit() else { return Ok(refuse_open(Refusal::Busy)) };
        if offer.plain != options.plain {
            let line = if options.plain {
                "the listener wants data in clear (plain), the client wants it sealed; set both alike"
            } else {
                "the listener wants data sealed, the client wants it in clear (plain); set both alike"
            };
            let answer = responder.answer(&Answer::Refuse(line.into())).map_err(io::Error::other)?;
            return Ok(Step::Refused(Refusal::Key, answer));
        }
        let (id, secret, aes) = (random()?, random()?, offer.aes && has_aes());
        let lanes_max = options.lanes_max().min(offer.lanes_max).max(1);
        let accept = Answer::Accept { id, secret, aes, lanes_max, limit: told_limit };
        let secrets = Secrets::new(id, secret, cipher(offer.plain, aes));
        let agreed = Agreed { secrets, lanes_max, limit: offer.limit, told_limit };
        self.stage = Stage::OpenProof(Box::new(Opened { agreed }));
        Ok(Step::More(responder.answer(&accept).map_err(io::Error::other)?))
    }

    fn take_join(&mut self, bytes: &[u8], house: &impl House) -> io::Result<Step> {
        let (Some((id, _)), Some((_, client))) = (bytes.split_first_chunk(), bytes.split_last_chunk()) else {
            return Ok(Step::Stranger("too short"));
        };
        let Some(key) = house.joined(id) else {
            return Ok(Step::Refused(Refusal::Stream, vec![Refusal::Stream.code()]));
        };
        let (reply, nonces) = key.challenge(*client)?;
        self.stage = Stage::JoinProof { id: *id, key: Box::new(key), nonces: Box::new(nonces) };
        Ok(Step::More(reply))
    }
}

/// Whether these bytes are the client's proof.
fn is_proven(key: &JoinKey, nonces: &Nonces, bytes: &[u8]) -> bool {
    bytes.try_into().is_ok_and(|proof| key.is_proven(nonces, proof))
}

fn refuse_open(refused: Refusal) -> Step {
    Step::Refused(refused, refusal(refused.code(), VERSION).to_vec())
}
