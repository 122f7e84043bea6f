//! Keys. Datagrams are each sealed on their own, their header authenticated, their number the nonce.

use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use longhaul_proto::seen::Seen;
use longhaul_proto::units::DatagramNumber;
use longhaul_proto::wire::{HEADER_LEN, Header, SEAL_OVERHEAD, TAG_LEN};

/// Which keys a datagram is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The path check.
    Early,
    /// The transfer.
    Main,
}

/// Which side of the control stream we are; each direction has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opened the control stream.
    Client,
    /// Accepted it.
    Server,
}

/// Seals what we send and opens what the peer sends, in one phase (early or main).
pub struct Keys {
    early: bool,
    connection_id: u64,
    seal: AeadKey,
    open: AeadKey,
    seen: Seen,
}

/// How things are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes,
    /// ChaCha20-Poly1305.
    ChaCha,
}

impl Cipher {
    /// AES where both sides have the instructions for it.
    pub fn of(aes: bool) -> Cipher {
        if aes { Cipher::Aes } else { Cipher::ChaCha }
    }
}

/// The key of one direction. Whoever uses it numbers what it seals, and uses no number twice.
pub struct AeadKey {
    key: LessSafeKey,
    iv: [u8; 12],
}

impl AeadKey {
    /// From a secret. The two contexts, of the key and of the vector, are those of BLAKE3's `derive_key`.
    pub fn derive(secret: &[u8; 32], cipher: Cipher, key_context: &str, iv_context: &str) -> AeadKey {
        let material = blake3::derive_key(key_context, secret);
        let iv = blake3::derive_key(iv_context, secret);
        let key = match cipher {
            Cipher::Aes => UnboundKey::new(&AES_128_GCM, &material[..16]),
            Cipher::ChaCha => UnboundKey::new(&CHACHA20_POLY1305, &material),
        };
        let key = LessSafeKey::new(key.expect("the key has the cipher's length"));
        AeadKey { key, iv: iv[..12].try_into().expect("12 of 32 bytes") }
    }

    /// As in TLS 1.3 (RFC 8446 §5.3): the number, padded, over the derived vector.
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(n, b)| *n ^= b);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seal `body` in place, and return the tag.
    fn seal(&self, number: u64, authenticated: &[u8], body: &mut [u8]) -> Tag {
        self.key
            .seal_in_place_separate_tag(self.nonce(number), Aad::from(authenticated), body)
            .expect("what is sealed is far below the cipher's limit")
    }

    /// Seal `body` in place and append its tag.
    pub fn seal_append(&self, number: u64, authenticated: &[u8], body: &mut Vec<u8>) {
        let tag = self.seal(number, authenticated, body);
        body.extend_from_slice(tag.as_ref());
    }

    /// Open in place, tag at the end; what is left is the body. `None` if it is not authentic.
    pub fn open<'a>(&self, number: u64, authenticated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.key.open_in_place(self.nonce(number), Aad::from(authenticated), sealed).ok()
    }
}

/// Whether this processor has the instructions that make AES-GCM the faster cipher.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

impl Keys {
    /// For datagrams before the handshake is done: from the shared key and the client's salt. They carry nothing but
    /// the path check. ChaCha20, as nothing is agreed yet.
    pub fn early(psk: &[u8; 32], salt: &[u8; 32], connection_id: u64, side: Side) -> Keys {
        let secret = *blake3::keyed_hash(psk, salt).as_bytes();
        Keys::new(&secret, false, connection_id, side, true)
    }

    /// For the transfer: from the secret that the handshake carried.
    pub fn main(secret: &[u8; 32], aes: bool, connection_id: u64, side: Side) -> Keys {
        Keys::new(secret, aes, connection_id, side, false)
    }

    fn new(secret: &[u8; 32], aes: bool, connection_id: u64, side: Side, early: bool) -> Keys {
        let [up, down] = ["client to server", "server to client"].map(|way| {
            let context = |of: &str| format!("longhaul datagram {of} v1 {way}");
            AeadKey::derive(secret, Cipher::of(aes), &context("key"), &context("iv"))
        });
        let (seal, open) = if side == Side::Client { (up, down) } else { (down, up) };
        Keys { early, connection_id, seal, open, seen: Seen::default() }
    }

    /// Seal in place: `datagram` holds room for the header, the body, room for the tag.
    pub fn seal(&self, datagram: &mut [u8], number: DatagramNumber) {
        let header = Header { early: self.early, connection_id: self.connection_id, number }.encode();
        let (head, rest) = datagram.split_at_mut(HEADER_LEN);
        let (body, tag_room) = rest.split_at_mut(rest.len() - TAG_LEN);
        head.copy_from_slice(&header);
        let tag = self.seal.seal(number, &header, body);
        tag_room.copy_from_slice(tag.as_ref());
    }

    /// Open in place a datagram whose header is `header`.
    pub fn open<'a>(&mut self, header: &Header, datagram: &'a mut [u8]) -> Result<&'a mut [u8], Refused> {
        if header.connection_id != self.connection_id || datagram.len() < SEAL_OVERHEAD {
            return Err(Refused::Forged);
        }
        if !self.seen.is_new(header.number) {
            return Err(Refused::Repeated);
        }
        let (head, rest) = datagram.split_at_mut(HEADER_LEN);
        let body = self.open.open(header.number, head, rest).ok_or(Refused::Forged)?;
        self.seen.insert(header.number);
        Ok(body)
    }
}

/// Why a datagram is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// One of its number was opened, or it is too old to tell.
    #[error("a datagram that was opened before, or is too old to tell")]
    Repeated,
    /// It is not authentic, or not of this transfer.
    #[error("a datagram that is not authentic")]
    Forged,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(keys: &Keys, number: u64) -> Vec<u8> {
        let mut datagram = [&[0; HEADER_LEN][..], b"body", &[0; TAG_LEN]].concat();
        keys.seal(&mut datagram, number);
        datagram
    }

    fn open(keys: &mut Keys, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut copy = datagram.to_vec();
        let header = Header::decode(&copy)?;
        keys.open(&header, &mut copy).ok().map(|body| body.to_vec())
    }

    #[test]
    fn opens_once_what_the_other_side_sealed() {
        for aes in [true, false] {
            let client = Keys::main(&[3; 32], aes, 9, Side::Client);
            let mut server = Keys::main(&[3; 32], aes, 9, Side::Server);
            let datagram = sealed(&client, 5);
            assert_eq!(open(&mut server, &datagram).as_deref(), Some(&b"body"[..]));
            assert_eq!(open(&mut server, &datagram), None, "a replay");
            // A reflected datagram is under the other direction's key.
            let mut client = client;
            assert_eq!(open(&mut client, &datagram), None);
        }
    }

    #[test]
    fn any_changed_bit_is_refused() {
        let client = Keys::main(&[3; 32], true, 9, Side::Client);
        let datagram = sealed(&client, 5);
        for bit in 0..datagram.len() * 8 {
            let mut server = Keys::main(&[3; 32], true, 9, Side::Server);
            let mut bad = datagram.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&mut server, &bad), None, "bit {bit}");
        }
    }

    #[test]
    fn early_keys_differ_by_salt() {
        let client = Keys::early(&[1; 32], &[2; 32], 9, Side::Client);
        let datagram = sealed(&client, 0);
        assert!(open(&mut Keys::early(&[1; 32], &[2; 32], 9, Side::Server), &datagram).is_some());
        assert!(open(&mut Keys::early(&[1; 32], &[3; 32], 9, Side::Server), &datagram).is_none());
    }
}
