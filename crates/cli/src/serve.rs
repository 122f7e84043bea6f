//! `longhaul serve`.

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output::{self, Exit, warn};
use crate::values::{TOKEN_ENV, Token, TokenFrom, find_token, fresh_token};
use crate::{log, signals};
use longhaul::{DEFAULT_PORT, ServeOptions};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Serve until a signal comes.
pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    if !args.root.is_dir() {
        return Err(Failure::Usage(format!("--root {}: no such folder", args.root.display())));
    }
    let given = find_token(args.token_file.as_deref()).map_err(Failure::Usage)?;
    warn_about(given.as_ref());
    let token = match &given {
        Some(token) => token.secret.clone(),
        None => longhaul::Token::from(fresh_token().map_err(Failure::Failed)?),
    };
    let paste = Paste {
        token: token.secret().into(),
        from: given.map(|token| token.from),
        read_only: args.read_only,
    };
    log::start("info")?;
    let stop = signals::stop_flag()?;
    let options = ServeOptions {
        root: args.root.clone(),
        listen: args.listen.unwrap_or_else(everywhere),
        token,
        read_only: args.read_only,
        max_rate: args.max_rate,
    };
    let root = args.root.display().to_string();
    longhaul::serve(options, stop, |bound| output::result(&paste.text(&root, bound)))?;
    Ok(Exit::Done)
}

fn warn_about(token: Option<&Token>) {
    let Some(token) = token else { return };
    if let Some(warning) = &token.warning {
        warn(warning);
    }
    if token.secret.secret().len() < TOKEN_LEN_MIN {
        warn(&format!(
            "a token of fewer than {TOKEN_LEN_MIN} characters can be guessed; use a long random one"
        ));
    }
}

/// The default port on every address, of IPv4 alone where the host has no IPv6.
fn everywhere() -> SocketAddr {
    let any = match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        Err(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::from((any, DEFAULT_PORT))
}

/// The lines to paste on another host.
struct Paste {
    token: String,
    /// `None`: it is fresh, and nobody else knows it yet.
    from: Option<TokenFrom>,
    read_only: bool,
}

impl Paste {
    fn text(&self, root: &str, bound: SocketAddr) -> String {
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

/// Characters below which a token is called weak.
const TOKEN_LEN_MIN: usize = 16;
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
