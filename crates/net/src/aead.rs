//! What seals: a cipher's key, and keys that follow one another. A cipher may be trusted with so much under one key (RFC 8446
//! §5.5): then the next one is derived. Which one it is follows from the number of what is sealed, so that nothing need be
//! said about it.

use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};

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
    pub(crate) fn seal(&self, number: u64, authenticated: &[u8], body: &mut [u8]) -> Tag {
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

/// The keys of one direction.
pub struct KeyChain {
    cipher: Cipher,
    contexts: Contexts,
    /// So many numbers belong to each key.
    per_key: u64,
    /// Which key is the current one, counted from 0.
    generation: u64,
    /// For what comes late.
    before: Option<AeadKey>,
    current: AeadKey,
    next: AeadKey,
    /// That of `next`.
    next_secret: [u8; 32],
}

/// What tells the keys of one protocol and direction from all others: contexts of BLAKE3's `derive_key`.
pub struct Contexts {
    /// Of a secret's key.
    pub key: String,
    /// Of its vector.
    pub iv: String,
    /// Of the secret that follows it.
    pub next: &'static str,
}

impl KeyChain {
    /// From the first secret.
    pub fn new(secret: &[u8; 32], cipher: Cipher, contexts: Contexts, per_key: u64) -> KeyChain {
        let derive = |secret| AeadKey::derive(secret, cipher, &contexts.key, &contexts.iv);
        let next_secret = blake3::derive_key(contexts.next, secret);
        let (current, next) = (derive(secret), derive(&next_secret));
        KeyChain { cipher, per_key, generation: 0, before: None, current, next, next_secret, contexts }
    }

    /// The key that seals `number`. Numbers go up.
    pub fn to_seal(&mut self, number: u64) -> &AeadKey {
        while number / self.per_key > self.generation {
            self.advance();
        }
        self.to_open(number).expect("numbers go up")
    }

    /// The key that opens `number`; `None` if that is far from those opened so far. Whoever then opens it says so with
    /// [`KeyChain::opened`].
    pub fn to_open(&self, number: u64) -> Option<&AeadKey> {
        let generation = number / self.per_key;
        if generation == self.generation {
            Some(&self.current)
        } else if generation == self.generation + 1 {
            Some(&self.next)
        } else if generation + 1 == self.generation {
            self.before.as_ref()
        } else {
            None
        }
    }

    /// `number` was authentic.
    pub fn opened(&mut self, number: u64) {
        if number / self.per_key > self.generation {
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.next_secret = blake3::derive_key(self.contexts.next, &self.next_secret);
        let next = AeadKey::derive(&self.next_secret, self.cipher, &self.contexts.key, &self.contexts.iv);
        let current = std::mem::replace(&mut self.next, next);
        self.before = Some(std::mem::replace(&mut self.current, current));
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(per_key: u64) -> KeyChain {
        let contexts = Contexts { key: "test key".into(), iv: "test iv".into(), next: "test next" };
        KeyChain::new(&[7; 32], Cipher::ChaCha, contexts, per_key)
    }

    /// What `sealer` makes of a number, if `opener` opens it.
    fn pass(sealer: &mut KeyChain, opener: &mut KeyChain, number: u64) -> Option<Vec<u8>> {
        let mut body = b"body".to_vec();
        sealer.to_seal(number).seal_append(number, b"", &mut body);
        let sealed = body.clone();
        opener.to_open(number)?.open(number, b"", &mut body)?;
        opener.opened(number);
        Some(sealed)
    }

    #[test]
    fn both_sides_change_keys_at_the_same_number_and_what_comes_late_is_opened() {
        let (mut sealer, mut opener) = (chain(4), chain(4));
        let mut late = vec![];
        for number in 0..20 {
            if number % 4 == 3 {
                // Sealed under a key that is given up before it is opened.
                let mut body = b"late".to_vec();
                sealer.to_seal(number).seal_append(number, b"", &mut body);
                late.push((number, body));
                continue;
            }
            assert!(pass(&mut sealer, &mut opener, number).is_some(), "{number}");
            while let Some((number, mut body)) = late.pop() {
                assert!(opener.to_open(number).is_some_and(|key| key.open(number, b"", &mut body).is_some()));
            }
        }
        assert_eq!((sealer.generation, opener.generation), (4, 4));
    }

    #[test]
    fn one_key_is_not_the_next() {
        let mut opener = chain(1);
        let [first, second] = [0, 1].map(|number| pass(&mut chain(1), &mut opener, number).unwrap());
        assert_ne!(first, second);
        // The same number under the first key.
        let mut body = b"body".to_vec();
        chain(100).to_seal(1).seal_append(1, b"", &mut body);
        assert_ne!(body, second);
    }

    #[test]
    fn a_number_from_nowhere_moves_nothing() {
        let (mut sealer, mut opener) = (chain(4), chain(4));
        assert!(opener.to_open(8).is_none());
        let mut forged = vec![0; 20];
        assert!(opener.to_open(5).is_some_and(|key| key.open(5, b"", &mut forged).is_none()));
        assert_eq!(opener.generation, 0);
        assert!(pass(&mut sealer, &mut opener, 0).is_some());
    }
}
