//! Hosts with a port, as they are written.

use crate::error::LocationError;

/// `HOST[:PORT]`, where an IPv6 address has brackets if a port follows. The host may be empty.
pub(crate) fn host_and_port(text: &str, default: u16) -> Result<(&str, u16), LocationError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    match port.map(str::parse::<u16>) {
        None => Ok((host, default)),
        Some(Ok(number)) if number > 0 => Ok((host, number)),
        Some(_) => Err(LocationError::Port(port.unwrap_or_default().into())),
    }
}
