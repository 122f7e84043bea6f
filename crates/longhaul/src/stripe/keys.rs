//! Proofs of lanes that join, and the keys that their frames are sealed with.

use crate::net::seal::Side;
use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use longhaul_proto::stripe::frame::HEADER_LEN;
use longhaul_proto::stripe::hello::{ID_LEN, PROOF_LEN};
use longhaul_proto::stripe::lane::Opener;

/// How the frames of a stream travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// In clear.
    Clear,
    /// Under AES-128-GCM.
    Aes,
    /// Under ChaCha20-Poly1305.
    ChaCha,
}

/// What both ends of a stream know and nobody else.
#[derive(Clone)]
pub struct Secrets {
    /// Names the stream.
    pub id: [u8; ID_LEN],
    /// All keys come from it.
    pub secret: [u8; PROOF_LEN],
    /// How frames are sealed.
    pub cipher: Cipher,
}

/// The nonces of both sides that make each lane another.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneNonces {
    /// The client's.
    pub client: [u8; PROOF_LEN],
    /// The server's.
    pub server: [u8; PROOF_LEN],
}

impl Secrets {
    /// What `side` shows to prove that it knows the secret. Compared in constant time, as [`blake3::Hash`] is.
    pub fn proof(&self, side: Side, nonces: &LaneNonces) -> blake3::Hash {
        let label: &[u8] = match side {
            Side::Client => b"longhaul stripe proof v1 client",
            Side::Server => b"longhaul stripe proof v1 server",
        };
        let said = [label, &self.id, &nonces.client, &nonces.server].concat();
        blake3::keyed_hash(&self.secret, &said)
    }

    /// What seals `side`'s frames on a lane, and what opens the other's.
    pub fn lane(&self, side: Side, nonces: &LaneNonces) -> (LaneSealer, LaneOpener) {
        let said = [&b"longhaul stripe lane v1"[..], &self.id, &nonces.client, &nonces.server].concat();
        let lane = *blake3::keyed_hash(&self.secret, &said).as_bytes();
        let [up, down] = ["client to server", "server to client"].map(|way| {
            let context = format!("longhaul stripe key v1 {way}");
            LaneKey::new(blake3::derive_key(&context, &lane), self.cipher)
        });
        match side {
            Side::Client => (LaneSealer(up), LaneOpener(down)),
            Side::Server => (LaneSealer(down), LaneOpener(up)),
        }
    }
}

/// Seals the frames of one direction of a lane.
pub struct LaneSealer(LaneKey);

/// Opens the frames of one direction of a lane.
pub struct LaneOpener(LaneKey);

/// The key of one direction of a lane. The number of the frame is the nonce, so frames can be neither left out nor put
/// in another order.
struct LaneKey {
    cipher: Cipher,
    secret: [u8; 32],
    key: Option<(LessSafeKey, [u8; 12])>,
    /// Frames so far.
    frames: u64,
}

impl LaneKey {
    fn new(secret: [u8; 32], cipher: Cipher) -> LaneKey {
        LaneKey { cipher, secret, key: derive(&secret, cipher), frames: 0 }
    }

    /// Key and nonce of the next frame; `None` where frames travel in clear.
    fn next(&mut self) -> Option<(&LessSafeKey, Nonce)> {
        if self.frames > 0 && self.frames.is_multiple_of(FRAMES_PER_KEY) {
            self.secret = blake3::derive_key("longhaul stripe next key v1", &self.secret);
            self.key = derive(&self.secret, self.cipher);
        }
        let (key, iv) = self.key.as_ref()?;
        // As in TLS 1.3 (RFC 8446 §5.3): the number, padded, over the derived vector.
        let mut nonce = *iv;
        nonce[4..].iter_mut().zip(self.frames.to_be_bytes()).for_each(|(n, b)| *n ^= b);
        self.frames += 1;
        Some((key, Nonce::assume_unique_for_key(nonce)))
    }
}

fn derive(secret: &[u8; 32], cipher: Cipher) -> Option<(LessSafeKey, [u8; 12])> {
    let material = blake3::derive_key("longhaul stripe frame key v1", secret);
    let iv = blake3::derive_key("longhaul stripe frame iv v1", secret);
    let key = match cipher {
        Cipher::Clear => return None,
        Cipher::Aes => UnboundKey::new(&AES_128_GCM, &material[..16]),
        Cipher::ChaCha => UnboundKey::new(&CHACHA20_POLY1305, &material),
    };
    let key = LessSafeKey::new(key.expect("the key has the cipher's length"));
    Some((key, iv[..12].try_into().expect("12 of 32 bytes")))
}

impl LaneSealer {
    /// Whether frames travel in clear, and [`LaneSealer::seal`] has nothing to do.
    pub fn is_clear(&self) -> bool {
        self.0.cipher == Cipher::Clear
    }

    /// Seal a payload in place and append its tag.
    pub fn seal(&mut self, head: &[u8; HEADER_LEN], payload: &mut Vec<u8>) {
        if let Some((key, nonce)) = self.0.next() {
            key.seal_in_place_append_tag(nonce, Aad::from(head), payload)
                .expect("a frame is far below the cipher's limit");
        }
    }
}

impl Opener for LaneOpener {
    fn tag_len(&self) -> usize {
        if self.0.cipher == Cipher::Clear { 0 } else { TAG_LEN }
    }

    fn open(&mut self, head: &[u8; HEADER_LEN], sealed: &mut Vec<u8>) -> bool {
        let Some((key, nonce)) = self.0.next() else { return true };
        let Ok(len) = key.open_in_place(nonce, Aad::from(head), sealed).map(|payload| payload.len()) else {
            return false;
        };
        sealed.truncate(len);
        true
    }
}

/// Of both ciphers.
const TAG_LEN: usize = 16;
/// A key seals so many frames, then the next is derived from it: 2²⁰ frames of 256 KiB stay below the bytes for which
/// RFC 8446 §5.5 trusts one key of AES-GCM (2²⁴·⁵ records of 16 KiB).
const FRAMES_PER_KEY: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(cipher: Cipher) -> Secrets {
        Secrets { id: [1; ID_LEN], secret: [2; PROOF_LEN], cipher }
    }

    fn sealed(sealer: &mut LaneSealer, text: &[u8]) -> Vec<u8> {
        let mut payload = text.to_vec();
        sealer.seal(&[7; HEADER_LEN], &mut payload);
        payload
    }

    #[test]
    fn each_side_opens_what_the_other_sealed_in_order() {
        for cipher in [Cipher::Clear, Cipher::Aes, Cipher::ChaCha] {
            let nonces = LaneNonces { client: [3; 32], server: [4; 32] };
            let (mut up, _) = secrets(cipher).lane(Side::Client, &nonces);
            let (_, mut open) = secrets(cipher).lane(Side::Server, &nonces);
            for text in [&b"one"[..], b"", b"three"] {
                let mut frame = sealed(&mut up, text);
                assert_eq!(frame.len(), text.len() + open.tag_len());
                assert!(open.open(&[7; HEADER_LEN], &mut frame));
                assert_eq!(frame, text);
            }
        }
    }

    #[test]
    fn changed_reflected_and_repeated_frames_and_those_of_other_lanes_are_refused() {
        let nonces = LaneNonces::default();
        let secrets = secrets(Cipher::Aes);
        let (mut up, mut back) = secrets.lane(Side::Client, &nonces);
        let (_, mut open) = secrets.lane(Side::Server, &nonces);
        let first = sealed(&mut up, b"first");
        assert!(!open.open(&[8; HEADER_LEN], &mut first.clone()), "another header");
        let (_, mut open) = secrets.lane(Side::Server, &nonces);
        assert!(open.open(&[7; HEADER_LEN], &mut first.clone()));
        assert!(!open.open(&[7; HEADER_LEN], &mut first.clone()), "sent twice");
        assert!(!back.open(&[7; HEADER_LEN], &mut first.clone()), "sent back");
        let (_, mut other) = secrets.lane(Side::Server, &LaneNonces { client: [1; 32], ..nonces });
        assert!(!other.open(&[7; HEADER_LEN], &mut first.clone()), "of another lane");
    }

    #[test]
    fn both_sides_change_keys_at_the_same_frame() {
        let (mut up, _) = secrets(Cipher::Aes).lane(Side::Client, &LaneNonces::default());
        let (_, mut open) = secrets(Cipher::Aes).lane(Side::Server, &LaneNonces::default());
        let before = up.0.secret;
        (up.0.frames, open.0.frames) = (FRAMES_PER_KEY - 1, FRAMES_PER_KEY - 1);
        for text in [b"last", b"next"] {
            assert!(open.open(&[7; HEADER_LEN], &mut sealed(&mut up, text)));
        }
        assert_ne!(up.0.secret, before);
    }

    #[test]
    fn proofs_differ_by_side_and_nonce() {
        let (a, b) = (LaneNonces::default(), LaneNonces { server: [9; 32], ..LaneNonces::default() });
        let secrets = secrets(Cipher::Clear);
        assert_ne!(secrets.proof(Side::Client, &a), secrets.proof(Side::Server, &a));
        assert_ne!(secrets.proof(Side::Client, &a), secrets.proof(Side::Client, &b));
    }
}
