//! The keys of a transfer's datagrams. These are each sealed on their own, their header authenticated, their number the nonce.

use crate::aead::{Cipher, Contexts, KeyChain};
use longhaul_proto::seen::Seen;
use longhaul_proto::units::DatagramNumber;
pub use longhaul_proto::wire::KeyPhase;
use longhaul_proto::wire::{HEADER_LEN, Header, SEAL_OVERHEAD, TAG_LEN};

/// Which side of the control stream we are; each direction has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opened the control stream.
    Client,
    /// Accepted it.
    Server,
}

/// Seals what we send and opens what the peer sends, in one phase.
pub struct Keys {
    phase: KeyPhase,
    connection_id: u64,
    seal: KeyChain,
    /// `None`: the client does not know them before it has its answer.
    open: Option<KeyChain>,
    seen: Seen,
    /// What was sealed under other keys than these.
    forged: u64,
}

impl Keys {
    /// A client's for datagrams before the handshake is done: from the shared key and its salt. They carry nothing but the
    /// path check. ChaCha20, as nothing is agreed yet. They open nothing before [`Keys::answered`].
    pub fn early_client(psk: &[u8; 32], salt: &[u8; 32], connection_id: u64) -> Keys {
        let up = chain(&early_secret(psk, salt), Cipher::ChaCha, UP);
        Keys::new(KeyPhase::Early, connection_id, up, None)
    }

    /// The server's for the same. What it seals is under its own fresh secret: the client's offer may have been sent
    /// again by somebody else, and no number is to be used twice under one key.
    pub fn early_server(psk: &[u8; 32], salt: &[u8; 32], secret: &[u8; 32], connection_id: u64) -> Keys {
        let up = chain(&early_secret(psk, salt), Cipher::ChaCha, UP);
        Keys::new(KeyPhase::Early, connection_id, chain(secret, Cipher::ChaCha, EARLY_DOWN), Some(up))
    }

    /// The client has its answer, and with it the secret under which the server seals early datagrams.
    pub fn answered(&mut self, secret: &[u8; 32]) {
        self.open = Some(chain(secret, Cipher::ChaCha, EARLY_DOWN));
    }

    /// For the client's first data: from a ticket's secret, the shared key and the offer's salt. The client seals, the server opens.
    /// ChaCha20, as nothing is agreed yet.
    pub fn ticket(ticket: &[u8; 32], psk: &[u8; 32], salt: &[u8; 32], connection_id: u64) -> Keys {
        let secret = *blake3::keyed_hash(ticket, &[&psk[..], salt].concat()).as_bytes();
        let up = || chain(&secret, Cipher::ChaCha, TICKET_UP);
        Keys::new(KeyPhase::Ticket, connection_id, up(), Some(up()))
    }

    /// For the check of a further path of a transfer: from that path's own secret.
    pub fn check(secret: &[u8; 32], connection_id: u64, side: Side) -> Keys {
        let [up, down] = [EARLY_UP, EARLY_DOWN].map(|way| chain(secret, Cipher::ChaCha, way));
        let (seal, open) = if side == Side::Client { (up, down) } else { (down, up) };
        Keys::new(KeyPhase::Early, connection_id, seal, Some(open))
    }

    /// For the transfer: from the secret that the handshake carried.
    pub fn main(secret: &[u8; 32], aes: bool, connection_id: u64, side: Side) -> Keys {
        let [up, down] = [UP, DOWN].map(|way| chain(secret, Cipher::of(aes), way));
        let (seal, open) = if side == Side::Client { (up, down) } else { (down, up) };
        Keys::new(KeyPhase::Main, connection_id, seal, Some(open))
    }

    fn new(phase: KeyPhase, connection_id: u64, seal: KeyChain, open: Option<KeyChain>) -> Keys {
        Keys { phase, connection_id, seal, open, seen: Seen::default(), forged: 0 }
    }

    /// Whether so much was forged that somebody may come to guess a tag (RFC 9001 §6.6).
    pub fn is_spent(&self) -> bool {
        self.forged >= FORGED_MAX
    }

    /// Seal in place: `datagram` holds room for the header, the body, room for the tag. Numbers go up.
    pub fn seal(&mut self, datagram: &mut [u8], number: DatagramNumber) {
        let header = Header { phase: self.phase, connection_id: self.connection_id, number }.encode();
        let (head, rest) = datagram.split_at_mut(HEADER_LEN);
        let (body, tag_room) = rest.split_at_mut(rest.len() - TAG_LEN);
        head.copy_from_slice(&header);
        let tag = self.seal.to_seal(number).seal(number, &header, body);
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
        let open = self.open.as_mut().ok_or(Refused::Forged)?;
        let key = open.to_open(header.number).ok_or(Refused::Forged)?;
        let Some(body) = key.open(header.number, head, rest) else {
            self.forged += 1;
            return Err(Refused::Forged);
        };
        open.opened(header.number);
        self.seen.insert(header.number);
        Ok(body)
    }
}

/// The name and the secret of a transfer's further path, 1, 2, …: its datagrams have numbers of their own.
pub fn path_secret(secret: &[u8; 32], path: u16) -> (u64, [u8; 32]) {
    let material = [&secret[..], &path.to_be_bytes()].concat();
    let [a, b, c, d, e, f, g, h, ..] = blake3::derive_key("longhaul path name v1", &material);
    let connection_id = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    (connection_id, blake3::derive_key("longhaul path secret v1", &material))
}

fn early_secret(psk: &[u8; 32], salt: &[u8; 32]) -> [u8; 32] {
    *blake3::keyed_hash(psk, salt).as_bytes()
}

fn chain(secret: &[u8; 32], cipher: Cipher, way: &str) -> KeyChain {
    let context = |of: &str| format!("longhaul datagram {of} v1 {way}");
    let contexts = Contexts { key: context("key"), iv: context("iv"), next: "longhaul datagram next key v1" };
    KeyChain::new(secret, cipher, contexts, NUMBERS_PER_KEY)
}

/// Ways of datagrams, as the contexts of their keys name them.
const UP: &str = "client to server";
const DOWN: &str = "server to client";
const EARLY_UP: &str = "early client to server";
const EARLY_DOWN: &str = "early server to client";
const TICKET_UP: &str = "ticket client to server";

/// A key seals the datagrams of so many numbers: 2²² of 64 KiB, more than any holds, are the bytes for which RFC 8446 §5.5
/// trusts one key of AES-GCM (2²⁴·⁵ records of 16 KiB).
const NUMBERS_PER_KEY: u64 = 1 << 22;

/// RFC 9001 §6.6, for ChaCha20-Poly1305. AES-128-GCM would stand more.
const FORGED_MAX: u64 = 1 << 36;

/// More was forged than the keys of a transfer stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many datagrams came that are not authentic; run the same command again to continue")]
pub struct Spent;

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
    use crate::aead::AeadKey;

    fn sealed(keys: &mut Keys, number: u64) -> Vec<u8> {
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
            let mut client = Keys::main(&[3; 32], aes, 9, Side::Client);
            let mut server = Keys::main(&[3; 32], aes, 9, Side::Server);
            let datagram = sealed(&mut client, 5);
            assert_eq!(open(&mut server, &datagram).as_deref(), Some(&b"body"[..]));
            assert_eq!(open(&mut server, &datagram), None, "a replay");
            // A reflected datagram is under the other direction's key.
            assert_eq!(open(&mut client, &datagram), None);
        }
    }

    #[test]
    fn any_changed_bit_is_refused() {
        let mut client = Keys::main(&[3; 32], true, 9, Side::Client);
        let datagram = sealed(&mut client, 5);
        for bit in 0..datagram.len() * 8 {
            let mut server = Keys::main(&[3; 32], true, 9, Side::Server);
            let mut bad = datagram.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&mut server, &bad), None, "bit {bit}");
        }
    }

    #[test]
    fn early_keys_differ_by_salt_and_the_servers_by_its_secret() {
        let mut client = Keys::early_client(&[1; 32], &[2; 32], 9);
        let probe = sealed(&mut client, 0);
        let server = |salt, secret| Keys::early_server(&[1; 32], &[salt; 32], &[secret; 32], 9);
        assert!(open(&mut server(2, 7), &probe).is_some());
        assert!(open(&mut server(3, 7), &probe).is_none());
        // The same offer sent again gives the same salt; what the server answers is under another key nevertheless.
        let [first, again] = [7, 8].map(|secret| sealed(&mut server(2, secret), 0));
        assert_ne!(first, again);
        assert_eq!(open(&mut client, &first), None, "before the answer");
        client.answered(&[7; 32]);
        assert!(open(&mut client, &first).is_some() && open(&mut client, &again).is_none());
    }

    #[test]
    fn a_tickets_keys_are_of_one_offer_and_of_those_who_have_the_shared_key() {
        let keys = |ticket, psk, salt| Keys::ticket(&[ticket; 32], &[psk; 32], &[salt; 32], 9);
        let data = sealed(&mut keys(1, 2, 3), 0);
        assert!(open(&mut keys(1, 2, 3), &data).is_some());
        for other in [keys(0, 2, 3), keys(1, 0, 3), keys(1, 2, 0)] {
            assert_eq!(open(&mut { other }, &data), None);
        }
        let mut early = Keys::early_server(&[2; 32], &[3; 32], &[7; 32], 9);
        assert_eq!(open(&mut early, &data), None, "of another phase");
    }

    #[test]
    fn keys_are_renewed_before_they_have_sealed_too_much() {
        let mut client = Keys::main(&[3; 32], true, 9, Side::Client);
        let mut server = Keys::main(&[3; 32], true, 9, Side::Server);
        let numbers = [NUMBERS_PER_KEY - 2, NUMBERS_PER_KEY, NUMBERS_PER_KEY + 1, 2 * NUMBERS_PER_KEY];
        for number in numbers {
            let datagram = sealed(&mut client, number);
            assert_eq!(open(&mut server, &datagram).as_deref(), Some(&b"body"[..]), "{number}");
        }
        // The first key, which would have sealed them all before, opens none of them.
        let header = Header { phase: KeyPhase::Main, connection_id: 9, number: NUMBERS_PER_KEY }.encode();
        let mut datagram = sealed(&mut Keys::main(&[3; 32], true, 9, Side::Client), NUMBERS_PER_KEY);
        let contexts = ["key", "iv"].map(|of| format!("longhaul datagram {of} v1 {UP}"));
        let first = AeadKey::derive(&[3; 32], Cipher::Aes, &contexts[0], &contexts[1]);
        assert!(first.open(NUMBERS_PER_KEY, &header, &mut datagram[HEADER_LEN..]).is_none());
    }

    #[test]
    fn who_guesses_too_often_ends_it() {
        let mut server = Keys::main(&[3; 32], true, 9, Side::Server);
        server.forged = FORGED_MAX - 1;
        let mut forged = sealed(&mut Keys::main(&[3; 32], true, 9, Side::Client), 5);
        forged[HEADER_LEN] ^= 1;
        assert!(!server.is_spent());
        assert_eq!(open(&mut server, &forged), None);
        assert!(server.is_spent());
    }
}
