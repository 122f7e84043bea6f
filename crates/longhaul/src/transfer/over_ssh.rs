//! What the far end of an ssh knows of that connection.

use crate::error::Error;
use std::io::{self, Read};
use std::net::IpAddr;

/// The key that a client sends ahead. `None`: whoever started this is gone, and has said why.
pub fn key_from_stdin() -> Result<Option<[u8; 32]>, Error> {
    let mut key = [0; 32];
    match io::stdin().read_exact(&mut key) {
        Ok(()) => Ok(Some(key)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Error::NoKey(error)),
    }
}

/// The address at which the ssh client reached this host.
pub fn ssh_address() -> Vec<IpAddr> {
    ssh_connection(2).into_iter().collect()
}

/// The address from which it did.
pub fn ssh_client() -> Option<IpAddr> {
    ssh_connection(0)
}

/// `SSH_CONNECTION` is client, port, server, port.
fn ssh_connection(at: usize) -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split(' ').nth(at)?.parse().ok()
}
