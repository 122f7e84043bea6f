//! What is said on a TCP connection that joins a copy, to carry its data or to go on with its control stream, and what
//! joining a striped stream has in common with that: both sides prove over fresh nonces that they know the secret, so that
//! nothing can be replayed.
//!
//! ```text
//! join     client  "LHL" or "LHR" · version u8 · connection id u64 · client nonce (32)
//!          server  0 u8 · server nonce (32) · proof (32)              or  reason u8
//!          client  proof (32)
//! first    client  "LHF" · version u8 · connection id u64 · proof (32) · taken u64
//! ```
//! The first connection of a control stream that was opened over UDP asks nothing: the server takes one such proof, once.

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 32;
/// Bytes of a proof.
pub const PROOF_LEN: usize = 32;
/// Bytes of the server's words after the status.
pub const WELCOME_LEN: usize = NONCE_LEN + PROOF_LEN;
/// Status: go on.
pub const WELCOME: u8 = 0;

/// The first bytes of a connection that joins a copy; the last is the version.
pub const MAGIC: [u8; 4] = *b"LHL\x02";
/// The first bytes of a connection that goes on with a copy's control stream; the last is the version.
pub const CONTROL_MAGIC: [u8; 4] = *b"LHR\x01";
/// The first bytes of the first connection of a control stream that was opened over UDP; the last is the version.
pub const FIRST_MAGIC: [u8; 4] = *b"LHF\x01";
/// Bytes of any.
pub const MAGIC_LEN: usize = MAGIC.len();
/// Bytes of a client's first words after the magic.
pub const HELLO_LEN: usize = 8 + NONCE_LEN;
/// Status: there is no such copy, or it has connections enough.
pub const UNKNOWN: u8 = 1;

/// What a client that joins a copy says first, after the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which copy.
    pub connection_id: u64,
    /// The client's random bytes.
    pub nonce: [u8; NONCE_LEN],
}

impl Hello {
    /// Write it, after the magic of what it is to join.
    pub fn encode(&self, magic: [u8; MAGIC_LEN]) -> Vec<u8> {
        [&magic[..], &self.connection_id.to_be_bytes(), &self.nonce].concat()
    }

    /// Read what follows the magic.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Hello {
        let (id, nonce) = bytes.split_at(8);
        Hello {
            connection_id: id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte)),
            nonce: std::array::from_fn(|i| nonce[i]),
        }
    }
}

/// Bytes of a client's words on its control stream's first connection after the magic.
pub const FIRST_LEN: usize = 8 + PROOF_LEN + 8;

/// What a client says on the first connection of a control stream that was opened over UDP, before the stream's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Which copy.
    pub connection_id: u64,
    /// That the client knows its secret.
    pub proof: [u8; PROOF_LEN],
    /// Bytes of the server's stream that came over UDP: the server goes on from there.
    pub taken: u64,
}

impl First {
    /// Write it, after the magic.
    pub fn encode(&self) -> Vec<u8> {
        let (id, taken) = (self.connection_id.to_be_bytes(), self.taken.to_be_bytes());
        [&FIRST_MAGIC[..], &id, &self.proof, &taken].concat()
    }

    /// Read what follows the magic.
    pub fn decode(bytes: &[u8; FIRST_LEN]) -> First {
        let number = |from: usize| (0..8).fold(0, |number, at| number << 8 | u64::from(bytes[from + at]));
        First {
            connection_id: number(0),
            proof: std::array::from_fn(|at| bytes[8 + at]),
            taken: number(8 + PROOF_LEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_as_written() {
        let hello = Hello { connection_id: 0x0102_0304_0506_0708, nonce: [7; NONCE_LEN] };
        let bytes = hello.encode(MAGIC);
        assert_eq!(bytes[..4], MAGIC);
        assert_eq!(Hello::decode(bytes[4..].try_into().unwrap()), hello);
    }

    #[test]
    fn the_first_words_are_read_as_written() {
        let first = First { connection_id: 0x0102_0304_0506_0708, proof: [7; PROOF_LEN], taken: 0x0a0b };
        let bytes = first.encode();
        assert_eq!(bytes[..4], FIRST_MAGIC);
        assert_eq!(First::decode(bytes[4..].try_into().unwrap()), first);
    }
}
