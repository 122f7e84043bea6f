//! What the far end of an ssh knows of that connection.

use std::net::IpAddr;

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
