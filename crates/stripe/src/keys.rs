//! What both ends of a stream know, and the keys that the frames of its lanes are sealed with.

use longhaul_net::aead::{AeadKey, Cipher, Contexts, KeyChain};
use longhaul_net::join::{JoinKey, Nonces};
use longhaul_net::seal::Side;
use longhaul_proto::stripe::frame::HEADER_LEN;
use longhaul_proto::stripe::hello::{ID_LEN, SECRET_LEN};
use longhaul_proto::stripe::lane::Opener;
use longhaul_proto::wire::TAG_LEN;

/// What both ends of a stream know and nobody else.
#[derive(Clone)]
pub struct Secrets {
    /// Names the stream.
    pub id: [u8; ID_LEN],
    /// All keys come from it.
    secret: [u8; SECRET_LEN],
    /// How frames are sealed; `None`: they travel in clear.
    cipher: Option<Cipher>,
    /// What lanes prove to know.
    pub join: JoinKey,
}

impl Secrets {
    /// As agreed when the stream was opened.
    pub fn new(id: [u8; ID_LEN], secret: [u8; SECRET_LEN], cipher: Option<Cipher>) -> Secrets {
        Secrets { id, secret, cipher, join: JoinKey::new("longhaul stripe proof v1", secret, &id) }
    }

    /// What seals `side`'s frames on a lane, and what opens the other's.
    pub fn lane(&self, side: Side, nonces: &Nonces) -> (LaneSealer, LaneOpener) {
        let said = [&b"longhaul stripe lane v1"[..], &self.id, &nonces.client, &nonces.server].concat();
        let lane = *blake3::keyed_hash(&self.secret, &said).as_bytes();
        let [up, down] = ["client to server", "server to client"].map(|way| {
            let context = format!("longhaul stripe key v1 {way}");
            FrameKey::new(blake3::derive_key(&context, &lane), self.cipher)
        });
        match side {
            Side::Client => (LaneSealer(up), LaneOpener(down)),
            Side::Server => (LaneSealer(down), LaneOpener(up)),
        }
    }
}

/// Seals the frames of one direction of a lane.
pub struct LaneSealer(FrameKey);

/// Opens the frames of one direction of a lane.
pub struct LaneOpener(FrameKey);

/// The keys of one direction of a lane. The number of the frame is the nonce, so frames can be neither left out nor put
/// in another order.
struct FrameKey {
    /// `None`: frames travel in clear.
    keys: Option<KeyChain>,
    /// Frames so far.
    frames: u64,
}

impl FrameKey {
    fn new(secret: [u8; 32], cipher: Option<Cipher>) -> FrameKey {
        let contexts = || Contexts {
            key: "longhaul stripe frame key v1".into(),
            iv: "longhaul stripe frame iv v1".into(),
            next: "longhaul stripe next key v1",
        };
        let keys = cipher.map(|cipher| KeyChain::new(&secret, cipher, contexts(), FRAMES_PER_KEY));
        FrameKey { keys, frames: 0 }
    }

    /// Key and number of the next frame; `None` where frames travel in clear.
    fn next(&mut self) -> Option<(&AeadKey, u64)> {
        let key = self.keys.as_mut()?.to_seal(self.frames);
        self.frames += 1;
        Some((key, self.frames - 1))
    }
}

impl LaneSealer {
    /// Whether frames travel in clear, and [`LaneSealer::seal`] has nothing to do.
    pub fn is_clear(&self) -> bool {
        self.0.keys.is_none()
    }

    /// Seal a payload in place and append its tag.
    pub fn seal(&mut self, head: &[u8; HEADER_LEN], payload: &mut Vec<u8>) {
        if let Some((key, frame)) = self.0.next() {
            key.seal_append(frame, head, payload);
        }
    }
}

impl Opener for LaneOpener {
    fn tag_len(&self) -> usize {
        if self.0.keys.is_none() { 0 } else { TAG_LEN }
    }

    fn open(&mut self, head: &[u8; HEADER_LEN], sealed: &mut Vec<u8>) -> bool {
        let Some((key, frame)) = self.0.next() else { return true };
        let Some(len) = key.open(frame, head, sealed).map(|payload| payload.len()) else { return false };
        sealed.truncate(len);
        true
    }
}

/// A key seals so many frames, then the next is derived from it: 2²⁰ frames of 256 KiB stay below the bytes for which
/// RFC 8446 §5.5 trusts one key of AES-GCM (2²⁴·⁵ records of 16 KiB).
const FRAMES_PER_KEY: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(cipher: Option<Cipher>) -> Secrets {
        Secrets::new([1; ID_LEN], [2; SECRET_LEN], cipher)
    }

    fn sealed(sealer: &mut LaneSealer, text: &[u8]) -> Vec<u8> {
        let mut payload = text.to_vec();
        sealer.seal(&[7; HEADER_LEN], &mut payload);
        payload
    }

    #[test]
    fn each_side_opens_what_the_other_sealed_in_order() {
        for cipher in [None, Some(Cipher::Aes), Some(Cipher::ChaCha)] {
            let nonces = Nonces { client: [3; 32], server: [4; 32] };
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
        let nonces = Nonces::default();
        let secrets = secrets(Some(Cipher::Aes));
        let (mut up, mut back) = secrets.lane(Side::Client, &nonces);
        let (_, mut open) = secrets.lane(Side::Server, &nonces);
        let first = sealed(&mut up, b"first");
        assert!(!open.open(&[8; HEADER_LEN], &mut first.clone()), "another header");
        let (_, mut open) = secrets.lane(Side::Server, &nonces);
        assert!(open.open(&[7; HEADER_LEN], &mut first.clone()));
        assert!(!open.open(&[7; HEADER_LEN], &mut first.clone()), "sent twice");
        assert!(!back.open(&[7; HEADER_LEN], &mut first.clone()), "sent back");
        let (_, mut other) = secrets.lane(Side::Server, &Nonces { client: [1; 32], ..nonces });
        assert!(!other.open(&[7; HEADER_LEN], &mut first.clone()), "of another lane");
    }

    #[test]
    fn both_sides_change_keys_at_the_same_frame() {
        let (mut up, _) = secrets(Some(Cipher::Aes)).lane(Side::Client, &Nonces::default());
        let (_, mut open) = secrets(Some(Cipher::Aes)).lane(Side::Server, &Nonces::default());
        (up.0.frames, open.0.frames) = (FRAMES_PER_KEY - 1, FRAMES_PER_KEY - 1);
        for text in [b"last", b"next"] {
            assert!(open.open(&[7; HEADER_LEN], &mut sealed(&mut up, text)));
        }
        // The key before does not open what the next one sealed.
        let mut frame = sealed(&mut up, b"more");
        let (_, mut early) = secrets(Some(Cipher::Aes)).lane(Side::Server, &Nonces::default());
        let key = early.0.keys.as_mut().unwrap().to_seal(0);
        assert!(key.open(FRAMES_PER_KEY + 1, &[7; HEADER_LEN], &mut frame).is_none());
    }

    #[test]
    fn proofs_differ_by_side_and_nonce() {
        let (a, b) = (Nonces::default(), Nonces { server: [9; 32], ..Nonces::default() });
        let secrets = secrets(None);
        assert_ne!(secrets.join.proof(Side::Client, &a), secrets.join.proof(Side::Server, &a));
        assert_ne!(secrets.join.proof(Side::Client, &a), secrets.join.proof(Side::Client, &b));
    }
}
