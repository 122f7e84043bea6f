//! What is said on a new lane before frames flow. The client's side blocks within a deadline; the server's side takes
//! what has come and never waits, so that one thread meets any number of strangers.

use super::keys::{Cipher, LaneNonces, Secrets};
use super::options::StripeOptions;
use crate::net::hurried::Hurried;
use crate::net::seal::{Side, has_aes};
use longhaul_proto::stripe::hello::{
    Answer, ID_LEN, NOISE_MAX, Offer, PREAMBLE_LEN, PROOF_LEN, Purpose, Refusal, VERSION, preamble,
    read_preamble,
};
use snow::HandshakeState;
use std::io::{self, ErrorKind, Read, Write};
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
}

const WITH_KEY: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const WITHOUT_KEY: &str = "Noise_NN_25519_ChaChaPoly_BLAKE2s";

fn noise(key: Option<&[u8; 32]>) -> snow::Builder<'_> {
    let parse = |name: &str| name.parse().expect("a pattern that snow knows");
    match key {
        Some(key) => snow::Builder::new(parse(WITH_KEY)).psk(0, key).expect("NNpsk0 takes a key at 0"),
        None => snow::Builder::new(parse(WITHOUT_KEY)),
    }
}

fn to_bytes(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain data always serialises")
}

/// Random bytes that nobody can guess.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| io::Error::other(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes)
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
    let mut state = noise(key).build_initiator().expect("an initiator needs nothing more");
    let offer =
        Offer { plain: options.plain, aes: has_aes(), lanes_max: options.lanes_max(), limit: options.buffer };
    let mut scratch = vec![0; NOISE_MAX];
    let len = state.write_message(&to_bytes(&offer), &mut scratch).map_err(io::Error::other)?;
    let purpose = Purpose::Open { keyed: key.is_some() };
    let first = [&preamble(purpose)[..], &(len as u16).to_be_bytes(), &scratch[..len]].concat();
    let mut hurried = Hurried { socket, deadline, silence: SILENCE };
    hurried.write_all(&first)?;
    let len = usize::from(u16::from_be_bytes(hurried.read_array()?));
    if len == 0 {
        let [reason, _] = hurried.read_array()?;
        return Err(Refusal::of_code(reason).map_or_else(|| stranger("an unknown refusal"), refused));
    }
    if len > NOISE_MAX {
        return Err(stranger("its first message is too long"));
    }
    let mut reply = vec![0; len];
    hurried.read_exact(&mut reply)?;
    let len = state.read_message(&reply, &mut scratch).map_err(|_| refused(Refusal::Key))?;
    let answer =
        postcard::from_bytes(&scratch[..len]).map_err(|_| stranger("an answer that makes no sense"))?;
    match answer {
        Answer::Refuse(line) => Err(refused(line)),
        Answer::Accept { lanes_max: 0, .. } => Err(stranger("it allows no lane")),
        Answer::Accept { id, secret, aes, lanes_max, limit } => {
            let secrets = Secrets { id, secret, cipher: cipher(options.plain, aes) };
            hurried.write_all(secrets.proof(Side::Client, &LaneNonces::default()).as_bytes())?;
            Ok(Agreed { secrets, lanes_max: lanes_max.min(offer.lanes_max), limit })
        }
    }
}

fn cipher(plain: bool, aes: bool) -> Cipher {
    match (plain, aes) {
        (true, _) => Cipher::Clear,
        (false, true) => Cipher::Aes,
        (false, false) => Cipher::ChaCha,
    }
}

/// Join a stream with a further lane.
pub fn join(socket: &TcpStream, secrets: &Secrets, deadline: Instant) -> io::Result<LaneNonces> {
    let mut nonces = LaneNonces { client: random()?, ..LaneNonces::default() };
    let mut hurried = Hurried { socket, deadline, silence: SILENCE };
    hurried.write_all(&[&preamble(Purpose::Join)[..], &secrets.id, &nonces.client].concat())?;
    let [status] = hurried.read_array()?;
    if status != 0 {
        return Err(Refusal::of_code(status).map_or_else(|| stranger("an unknown refusal"), refused));
    }
    nonces.server = hurried.read_array()?;
    let proof: [u8; PROOF_LEN] = hurried.read_array()?;
    if secrets.proof(Side::Server, &nonces) != proof {
        return Err(stranger("it does not know the stream's secret"));
    }
    hurried.write_all(secrets.proof(Side::Client, &nonces).as_bytes())?;
    Ok(nonces)
}

/// What is said of the other side when patience ends.
const SILENCE: &str = "the other side stays silent; is it a striped listener?";

/// The server's side of a lane's beginning, fed with exactly as many bytes as it [needs](Greeting::needs) next.
pub struct Greeting {
    stage: Stage,
}

enum Stage {
    Preamble,
    OfferLen { keyed: bool },
    Offer { keyed: bool, len: usize },
    OpenProof(Box<Opened>),
    Joining,
    JoinProof { secrets: Box<Secrets>, nonces: Box<LaneNonces> },
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
        nonces: Box<LaneNonces>,
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
            Stage::OfferLen { .. } => 2,
            Stage::Offer { len, .. } => len,
            Stage::OpenProof(_) | Stage::JoinProof { .. } => PROOF_LEN,
            Stage::Joining => ID_LEN + PROOF_LEN,
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

    /// Take as many bytes as were needed. `find` knows the streams that are open, `is_busy` whether one more is too many.
    pub fn take(
        &mut self,
        bytes: &[u8],
        options: &StripeOptions,
        find: impl FnOnce(&[u8; ID_LEN]) -> Option<Secrets>,
        is_busy: impl FnOnce() -> bool,
    ) -> io::Result<Step> {
        debug_assert_eq!(bytes.len(), self.needs());
        match std::mem::replace(&mut self.stage, Stage::Preamble) {
            Stage::Preamble => Ok(self.take_preamble(bytes, options)),
            Stage::OfferLen { keyed } => {
                let len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
                if len == 0 || len > NOISE_MAX {
                    return Ok(Step::Stranger("an offer of impossible length"));
                }
                self.stage = Stage::Offer { keyed, len };
                Ok(Step::More(vec![]))
            }
            Stage::Offer { keyed, .. } => self.take_offer(bytes, keyed, options, is_busy()),
            Stage::OpenProof(opened) => {
                let proof = opened.agreed.secrets.proof(Side::Client, &LaneNonces::default());
                let known = <[u8; PROOF_LEN]>::try_from(bytes).is_ok_and(|bytes| proof == bytes);
                Ok(if known { Step::Opened(opened) } else { Step::Stranger("an offer that was recorded") })
            }
            Stage::Joining => self.take_join(bytes, find),
            Stage::JoinProof { secrets, nonces } => {
                let proof = secrets.proof(Side::Client, &nonces);
                let known = <[u8; PROOF_LEN]>::try_from(bytes).is_ok_and(|bytes| proof == bytes);
                let joined = Step::Joined { id: secrets.id, nonces };
                Ok(if known { joined } else { Step::Stranger("it does not know the stream's secret") })
            }
        }
    }

    fn take_preamble(&mut self, bytes: &[u8], options: &StripeOptions) -> Step {
        let Ok(bytes) = bytes.try_into() else { return Step::Stranger("too short") };
        match read_preamble(bytes) {
            Ok(None) => Step::Stranger("wrong first bytes"),
            Err(refusal) => refuse_open(refusal),
            Ok(Some(Purpose::Open { keyed })) if keyed != options.key.is_some() => refuse_open(Refusal::Key),
            Ok(Some(Purpose::Open { keyed })) => {
                self.stage = Stage::OfferLen { keyed };
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
        keyed: bool,
        options: &StripeOptions,
        is_busy: bool,
    ) -> io::Result<Step> {
        let key = options.key.as_ref().filter(|_| keyed);
        let mut state = noise(key).build_responder().expect("a responder needs nothing more");
        let mut scratch = vec![0; NOISE_MAX];
        let Ok(len) = state.read_message(bytes, &mut scratch) else { return Ok(refuse_open(Refusal::Key)) };
        let Ok(offer) = postcard::from_bytes::<Offer>(&scratch[..len]) else {
            return Ok(Step::Stranger("an offer that makes no sense"));
        };
        if is_busy {
            return Ok(refuse_open(Refusal::Busy));
        }
        if offer.plain != options.plain {
            let line = if options.plain {
                "the listener wants data in clear (plain), the client wants it sealed; set both alike"
            } else {
                "the listener wants data sealed, the client wants it in clear (plain); set both alike"
            };
            let answer = answer(&mut state, &Answer::Refuse(line.into()), &mut scratch)?;
            return Ok(Step::Refused(Refusal::Key, answer));
        }
        let (id, secret, aes) = (random()?, random()?, offer.aes && has_aes());
        let lanes_max = options.lanes_max().min(offer.lanes_max).max(1);
        let accept = Answer::Accept { id, secret, aes, lanes_max, limit: options.buffer };
        let secrets = Secrets { id, secret, cipher: cipher(offer.plain, aes) };
        self.stage =
            Stage::OpenProof(Box::new(Opened { agreed: Agreed { secrets, lanes_max, limit: offer.limit } }));
        Ok(Step::More(answer(&mut state, &accept, &mut scratch)?))
    }

    fn take_join(
        &mut self,
        bytes: &[u8],
        find: impl FnOnce(&[u8; ID_LEN]) -> Option<Secrets>,
    ) -> io::Result<Step> {
        let (Some((id, _)), Some((_, client))) = (bytes.split_first_chunk(), bytes.split_last_chunk()) else {
            return Ok(Step::Stranger("too short"));
        };
        let Some(secrets) = find(id) else {
            return Ok(Step::Refused(Refusal::Stream, vec![Refusal::Stream.code()]));
        };
        let nonces = LaneNonces { client: *client, server: random()? };
        let reply = [&[0][..], &nonces.server, secrets.proof(Side::Server, &nonces).as_bytes()].concat();
        self.stage = Stage::JoinProof { secrets: Box::new(secrets), nonces: Box::new(nonces) };
        Ok(Step::More(reply))
    }
}

fn answer(state: &mut HandshakeState, answer: &Answer, scratch: &mut [u8]) -> io::Result<Vec<u8>> {
    let len = state.write_message(&to_bytes(answer), scratch).map_err(io::Error::other)?;
    Ok([&(len as u16).to_be_bytes()[..], &scratch[..len]].concat())
}

fn refuse_open(refusal: Refusal) -> Step {
    Step::Refused(refusal, vec![0, 0, refusal.code(), VERSION])
}
