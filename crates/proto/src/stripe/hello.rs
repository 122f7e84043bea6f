//! How a stream is opened and how further lanes join it: what is said before frames flow.
//!
//! ```text
//! open   client  "LHS" version u8 · how · length u16 · Noise message 1 with an Offer
//!        how     0 u8 (no shared key)   or   1 u8 (with one)   or   3 u8 · token id 8 (its key, and the server's)
//!        server  length u16 · Noise message 2 with an Answer            or  0 u16 · reason u8 · version u8
//!        client  proof (32 bytes)
//! join   client  "LHS" version u8 · 2 · stream id (16) · client nonce (32)
//!        server  0 u8 · server nonce (32) · proof (32)                  or  reason u8
//!        client  proof (32)
//! ```
//! Whoever wants in must prove that it knows the stream's secret, over nonces of both sides: nothing can be
//! replayed.

use serde::{Deserialize, Serialize};

/// The version that both sides must speak.
pub const VERSION: u8 = 1;
/// The first bytes of every lane.
pub const MAGIC: [u8; 3] = *b"LHS";
/// Magic, version, kind.
pub const PREAMBLE_LEN: usize = 5;
/// Bytes of a stream's id.
pub const ID_LEN: usize = 16;
/// Bytes of a stream's secret.
pub const SECRET_LEN: usize = 32;
/// The longest Noise message in either direction. Offers and answers are far shorter.
pub const NOISE_MAX: usize = 1024;

/// What a new connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Opens a stream, with a key that both sides know or without one.
    Open {
        /// There is a shared key.
        keyed: bool,
    },
    /// Opens a stream, with a token whose id follows.
    OpenAs,
    /// Joins a stream that is open.
    Join,
}

/// Why a connection is refused. Said in clear, so it tells no more than it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The other side has another key, or no key where one is needed.
    #[error("the two sides do not have the same key")]
    Key,
    /// The other side speaks another version.
    #[error("the other side speaks another version of the protocol; install the same release on both")]
    Version,
    /// There is no such stream, or it has lanes enough.
    #[error("the other side does not know the stream any more")]
    Stream,
    /// Too much going on.
    #[error("the other side has as many connections as it takes; try again later")]
    Busy,
}

impl Refusal {
    /// As it travels; never 0.
    pub fn code(self) -> u8 {
        match self {
            Refusal::Key => 1,
            Refusal::Version => 2,
            Refusal::Stream => 3,
            Refusal::Busy => 4,
        }
    }

    /// Read a code.
    pub fn of_code(code: u8) -> Option<Refusal> {
        [Refusal::Key, Refusal::Version, Refusal::Stream, Refusal::Busy]
            .into_iter()
            .find(|r| r.code() == code)
    }
}

/// Write the first bytes of a lane.
pub fn preamble(purpose: Purpose) -> [u8; PREAMBLE_LEN] {
    let kind = match purpose {
        Purpose::Open { keyed } => u8::from(keyed),
        Purpose::Join => 2,
        Purpose::OpenAs => 3,
    };
    [MAGIC[0], MAGIC[1], MAGIC[2], VERSION, kind]
}

/// Read the first bytes of a lane. `Ok(None)`: this is something else entirely, and best left unanswered.
pub fn read_preamble(bytes: &[u8; PREAMBLE_LEN]) -> Result<Option<Purpose>, Refusal> {
    let [m0, m1, m2, version, kind] = *bytes;
    if [m0, m1, m2] != MAGIC {
        return Ok(None);
    }
    if version != VERSION {
        return Err(Refusal::Version);
    }
    Ok(match kind {
        0 | 1 => Some(Purpose::Open { keyed: kind == 1 }),
        2 => Some(Purpose::Join),
        3 => Some(Purpose::OpenAs),
        _ => None,
    })
}

/// What the client proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Frames are to travel in clear.
    pub plain: bool,
    /// The processor has AES instructions.
    pub aes: bool,
    /// Lanes that the client opens at most.
    pub lanes_max: u32,
    /// Bytes that the server may send before it hears more.
    pub limit: u64,
}

/// What the server says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The stream is open.
    Accept {
        /// Names the stream to lanes that join.
        id: [u8; ID_LEN],
        /// All keys and proofs of the stream come from it.
        secret: [u8; SECRET_LEN],
        /// Seal with AES-GCM rather than ChaCha20-Poly1305.
        aes: bool,
        /// Lanes that the server takes at most.
        lanes_max: u32,
        /// Bytes that the client may send before it hears more.
        limit: u64,
    },
    /// It is not, and why.
    Refuse(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preambles_are_read_as_written_and_strangers_told_apart() {
        for purpose in
            [Purpose::Open { keyed: true }, Purpose::Open { keyed: false }, Purpose::Join, Purpose::OpenAs]
        {
            assert_eq!(read_preamble(&preamble(purpose)), Ok(Some(purpose)));
        }
        assert_eq!(read_preamble(b"GET /"), Ok(None));
        assert_eq!(read_preamble(b"LHS\x01\x07"), Ok(None));
        assert_eq!(read_preamble(b"LHS\x02\x00"), Err(Refusal::Version));
    }

    #[test]
    fn refusals_have_codes_of_their_own() {
        for code in 0..=u8::MAX {
            assert!(Refusal::of_code(code).is_none_or(|refusal| refusal.code() == code && code != 0));
        }
        assert_eq!(Refusal::of_code(4), Some(Refusal::Busy));
    }
}
