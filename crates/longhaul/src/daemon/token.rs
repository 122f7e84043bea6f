//! What a user is given: one line that says which server it is for, whose it is, and holds the secret.

use crate::error::DamagedToken;
use crate::net::control::{ClientKey, TokenId, psk_of_token};
use crate::net::noise::{Psk, PublicKey};
use crate::net::random::random;
use std::io;

/// A user's token.
#[derive(Clone, PartialEq, Eq)]
pub struct UserToken {
    /// The server's public key: nobody else can answer to this token.
    pub server: PublicKey,
    /// Whose it is: random, and no secret.
    pub id: TokenId,
    /// What nobody else has.
    pub secret: Secret,
}

/// 128 random bits.
pub type Secret = [u8; 16];

impl UserToken {
    /// A new one for clients of this server.
    pub fn generate(server: PublicKey) -> io::Result<UserToken> {
        Ok(UserToken { server, id: random()?, secret: random()? })
    }

    /// Read one. `None`: it is no such token but a secret of the older kind, which is all there is to know.
    pub fn read(text: &str) -> Result<Option<UserToken>, DamagedToken> {
        let Some(digits) = text.trim().strip_prefix(PREFIX) else { return Ok(None) };
        let bytes: [u8; BYTES] = from_hex(digits).ok_or(DAMAGED)?;
        let (body, check) = bytes.split_at(BYTES - CHECK_LEN);
        if check != check_of(body) {
            return Err(DAMAGED);
        }
        let (server, rest) = body.split_at(32);
        let (id, secret) = rest.split_at(8);
        let fits = "split at its length";
        Ok(Some(UserToken {
            server: server.try_into().expect(fits),
            id: id.try_into().expect(fits),
            secret: secret.try_into().expect(fits),
        }))
    }

    /// As it is given to the user.
    pub fn text(&self) -> String {
        let body = [&self.server[..], &self.id, &self.secret].concat();
        format!("{PREFIX}{}{}", to_hex(&body), to_hex(&check_of(&body)))
    }
}

/// What a client begins with that was given this.
pub(crate) fn client_key(text: &str) -> Result<ClientKey, DamagedToken> {
    Ok(match UserToken::read(text)? {
        None => psk_of_token(text).into(),
        Some(token) => ClientKey { psk: psk(&token.secret), pinned: Some((token.id, token.server)) },
    })
}

/// The key that a user's secret stands for.
pub(crate) fn psk(secret: &Secret) -> Psk {
    blake3::derive_key("longhaul daemon user token v1", secret)
}

/// Bytes as they are written.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Read as many bytes as are asked for and no more.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}

fn check_of(body: &[u8]) -> [u8; CHECK_LEN] {
    *blake3::hash(body).as_bytes().first_chunk().expect("a hash is longer")
}

/// Says what it is, and that it is the first of its kind.
const PREFIX: &str = "lh1.";
/// Enough to notice that a line was not copied whole.
const CHECK_LEN: usize = 4;
const BYTES: usize = 32 + size_of::<TokenId>() + size_of::<Secret>() + CHECK_LEN;
const TEXT_LEN: usize = PREFIX.len() + 2 * BYTES;
const DAMAGED: DamagedToken = DamagedToken { len: TEXT_LEN };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_a_damaged_one_is_told() {
        let token = UserToken::generate([7; 32]).unwrap();
        let text = token.text();
        assert_eq!(text.len(), TEXT_LEN);
        assert!(UserToken::read(&format!(" {text}\n")) == Ok(Some(token.clone())));
        assert!(UserToken::read("a secret of one's own") == Ok(None));
        let swapped = text.replace(&text[40..42], if &text[40..42] == "00" { "01" } else { "00" });
        for bad in [&text[..text.len() - 1], &format!("{text}0"), "lh1.", &swapped, "lh1.ünï"] {
            assert!(UserToken::read(bad) == Err(DAMAGED), "{bad}");
        }
    }
}
