//! Randomness for keys and names.

use std::io;

/// Random bytes that nobody can guess.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| io::Error::other(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes)
}
