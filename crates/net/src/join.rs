//! How a further connection joins what is open, be it a copy or a striped stream: both sides prove over fresh
//! nonces that they know its secret, so that nothing can be replayed.
//!
//! ```text
//! client  first bytes of its protocol, with what it joins · client nonce (32)
//! server  0 u8 · server nonce (32) · proof (32)                or  reason u8
//! client  proof (32)
//! ```

use crate::random::random;
use crate::seal::Side;
use longhaul_proto::streams::join::{NONCE_LEN, PROOF_LEN, WELCOME};
use std::io::{self, Read, Write};

/// What connections that join one thing prove to know.
#[derive(Clone)]
pub struct JoinKey {
    /// Tells proofs of one protocol from those of another.
    context: &'static str,
    key: [u8; 32],
    /// Names what they join.
    id: Vec<u8>,
}

/// The nonces of both sides, which make each connection another. Zeros stand for the connection that opened it all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nonces {
    /// The client's.
    pub client: [u8; NONCE_LEN],
    /// The server's.
    pub server: [u8; NONCE_LEN],
}

/// Why a connection does not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The server said no, with this byte.
    #[error("the other side refuses, for reason {0}")]
    Refused(u8),
    /// The server does not know the secret.
    #[error("the other side does not know the secret")]
    Unproven,
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl JoinKey {
    /// For proofs of a protocol, the `context`, about the thing named `id`.
    pub fn new(context: &'static str, key: [u8; 32], id: &[u8]) -> JoinKey {
        JoinKey { context, key, id: id.to_vec() }
    }

    /// What `side` shows to prove that it knows the key. Compared in constant time, as [`blake3::Hash`] is.
    pub fn proof(&self, side: Side, nonces: &Nonces) -> blake3::Hash {
        let side: &[u8] = if side == Side::Client { b"client" } else { b"server" };
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(self.context.as_bytes()).update(b" ").update(side);
        hasher.update(&self.id).update(&nonces.client).update(&nonces.server);
        hasher.finalize()
    }

    /// Whether the client of a connection has proven that it knows the key.
    pub fn is_proven(&self, nonces: &Nonces, proof: [u8; PROOF_LEN]) -> bool {
        self.proof(Side::Client, nonces) == proof
    }

    /// What a server says to a client that asks to join, and the nonces under which that has to prove itself then.
    pub fn challenge(&self, client: [u8; NONCE_LEN]) -> io::Result<(Vec<u8>, Nonces)> {
        let nonces = Nonces { client, server: random()? };
        let proof = self.proof(Side::Server, &nonces);
        Ok(([&[WELCOME][..], &nonces.server, proof.as_bytes()].concat(), nonces))
    }
}

/// Join as the client. `hello` writes the first bytes around the nonce.
pub fn join(
    stream: &mut (impl Read + Write),
    key: &JoinKey,
    hello: impl FnOnce(&[u8; NONCE_LEN]) -> Vec<u8>,
) -> Result<Nonces, JoinError> {
    let client = random()?;
    stream.write_all(&hello(&client))?;
    let [status] = read_array(stream)?;
    if status != WELCOME {
        return Err(JoinError::Refused(status));
    }
    let nonces = Nonces { client, server: read_array(stream)? };
    let proof: [u8; PROOF_LEN] = read_array(stream)?;
    if key.proof(Side::Server, &nonces) != proof {
        return Err(JoinError::Unproven);
    }
    stream.write_all(key.proof(Side::Client, &nonces).as_bytes())?;
    Ok(nonces)
}

/// The next `N` bytes.
pub(crate) fn read_array<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_differ_by_side_nonce_protocol_and_what_is_joined() {
        let key = |context, id: &[u8]| JoinKey::new(context, [1; 32], id);
        let (a, b) = (Nonces::default(), Nonces { server: [9; 32], ..Nonces::default() });
        let proof = key("one", b"id").proof(Side::Client, &a);
        assert_ne!(proof, key("one", b"id").proof(Side::Server, &a));
        assert_ne!(proof, key("one", b"id").proof(Side::Client, &b));
        assert_ne!(proof, key("other", b"id").proof(Side::Client, &a));
        assert_ne!(proof, key("one", b"di").proof(Side::Client, &a));
        assert!(key("one", b"id").is_proven(&a, *proof.as_bytes()));
    }
}
