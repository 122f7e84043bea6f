//! What `longhaul serve --root` prints: lines to paste on another host.

use crate::values::{TOKEN_ENV, TokenFrom};
use longhaul::DEFAULT_PORT;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The lines to paste on another host.
pub struct Paste {
    /// The token itself.
    pub token: String,
    /// `None`: it is fresh, and nobody else knows it yet.
    pub from: Option<TokenFrom>,
    /// Nothing can be copied into it.
    pub read_only: bool,
}

impl Paste {
    /// For a folder that is served at this address.
    pub fn text(&self, root: &str, bound: SocketAddr) -> String {
        let url = url(SocketAddr::from((reachable(bound.ip()), bound.port())));
        let command = match &self.from {
            None => format!("{TOKEN_ENV}={} longhaul cp", self.token),
            Some(TokenFrom::File(path)) => format!("longhaul cp --token-file {}", path.display()),
            Some(TokenFrom::Environment) => "longhaul cp".into(),
        };
        let note = match &self.from {
            None => "",
            Some(TokenFrom::File(_)) => " (with a copy of the token file there)",
            Some(TokenFrom::Environment) => " (with the same LONGHAUL_TOKEN there)",
        };
        let mode = if self.read_only { ", read-only" } else { "" };
        let mut text =
            format!("serving {root} at {bound}{mode}\ncopy from it{note}:\n  {command} {url}PATH .");
        if !self.read_only {
            let _ = write!(text, "\ncopy into it:\n  {command} PATH {url}");
        }
        text
    }
}

/// `longhaul://…/` for an address.
fn url(address: SocketAddr) -> String {
    match (address.port(), address.ip()) {
        (DEFAULT_PORT, IpAddr::V4(ip)) => format!("longhaul://{ip}/"),
        (DEFAULT_PORT, IpAddr::V6(ip)) => format!("longhaul://[{ip}]/"),
        _ => format!("longhaul://{address}/"),
    }
}

/// An address of this host that others may reach, where the one listened at is "any".
fn reachable(bound: IpAddr) -> IpAddr {
    if !bound.is_unspecified() {
        return bound;
    }
    // Connecting a UDP socket sends nothing; it only asks the kernel which address it would use.
    let source = |any: IpAddr, target: IpAddr| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((target, DEFAULT_PORT)).ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
    };
    let v4 = || source(Ipv4Addr::UNSPECIFIED.into(), OUTSIDE_V4.into());
    let v6 = || bound.is_ipv6().then(|| source(Ipv6Addr::UNSPECIFIED.into(), OUTSIDE_V6.into())).flatten();
    v4().or_else(v6).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// An address beyond the default route (documentation prefix, RFC 5737).
const OUTSIDE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The same for IPv6 (RFC 3849).
const OUTSIDE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

#[cfg(test)]
mod tests {
    use super::*;

    fn paste(from: Option<TokenFrom>, read_only: bool) -> String {
        Paste { token: "5ec4e7".into(), from, read_only }.text("/data", "10.0.0.5:7700".parse().unwrap())
    }

    #[test]
    fn a_fresh_token_is_printed_with_the_lines_to_paste() {
        let text = paste(None, false);
        assert!(text.starts_with("serving /data at 10.0.0.5:7700\n"));
        assert!(text.contains("\n  LONGHAUL_TOKEN=5ec4e7 longhaul cp longhaul://10.0.0.5/PATH .\n"));
        assert!(text.ends_with("\n  LONGHAUL_TOKEN=5ec4e7 longhaul cp PATH longhaul://10.0.0.5/"));
    }

    #[test]
    fn a_secret_of_the_users_own_is_not_printed() {
        for from in [TokenFrom::Environment, TokenFrom::File("/k/token".into())] {
            let text = paste(Some(from), false);
            assert!(!text.contains("5ec4e7") && text.contains("longhaul://10.0.0.5/"), "{text}");
        }
    }

    #[test]
    fn a_read_only_server_offers_no_way_in() {
        let text = paste(None, true);
        assert!(text.contains("read-only") && !text.contains("copy into it"), "{text}");
    }

    #[test]
    fn addresses_make_urls() {
        let shown = |address: &str| url(address.parse().unwrap());
        assert_eq!(shown("10.0.0.5:99"), "longhaul://10.0.0.5:99/");
        assert_eq!(shown("[fd73::2]:7700"), "longhaul://[fd73::2]/");
        assert_eq!(shown("[fd73::2]:99"), "longhaul://[fd73::2]:99/");
        assert!(!reachable(Ipv6Addr::UNSPECIFIED.into()).is_unspecified());
    }
}
