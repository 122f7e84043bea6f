//! What is said at the beginning of a striped stream that carries another program's TCP connection. What follows, in both
//! directions, are that connection's bytes.
//!
//! ```text
//! client  length u16 · Request
//! server  length u16 · Reply
//! ```
//! The client need not wait for the reply: what it sends meanwhile is thrown away where that is a no.

use crate::session::reason::{Cause, Reason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A host, by its name or address, and a TCP port there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    host: String,
    port: u16,
}

impl Target {
    /// `None`: no host is called so, or has that port.
    pub fn new(host: &str, port: u16) -> Option<Target> {
        let target = Target { host: host.into(), port };
        target.is_sound().then_some(target)
    }

    /// Name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn is_sound(&self) -> bool {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'%');
        self.port > 0 && (1..=HOST_MAX).contains(&self.host.len()) && self.host.bytes().all(fits)
    }
}

/// Names are the same in capitals.
impl PartialEq for Target {
    fn eq(&self, other: &Target) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

impl Eq for Target {}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A text is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("HOST:PORT is wanted, such as db.example.org:5432 or [2001:db8::1]:22")]
pub struct NoTarget;

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Target, NoTarget> {
        let (host, port) = text.rsplit_once(':').ok_or(NoTarget)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(NoTarget);
        }
        Target::new(bare.unwrap_or(host), port.parse().map_err(|_| NoTarget)?).ok_or(NoTarget)
    }
}

/// What the client wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Where to.
    pub target: Target,
    /// It is only asked whether that is allowed.
    pub only_asks: bool,
}

/// What the server says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is connected, or allowed if nothing more was asked.
    Yes,
    /// It is not, and why. Nothing follows.
    No(Reason),
}

impl Request {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Read what followed its length, which is [at most](REQUEST_MAX) so much. `None`: it makes no sense.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        decode::<Request>(bytes, REQUEST_MAX).filter(|request| request.target.is_sound())
    }
}

impl Reply {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Reply::No(reason) if reason.line.len() > LINE_MAX => {
                let end = (0..=LINE_MAX).rev().find(|at| reason.line.is_char_boundary(*at)).unwrap_or(0);
                encode(&Reply::No(Reason::new(reason.cause, &reason.line[..end])))
            }
            reply => encode(reply),
        }
    }

    /// Read what followed its length, which is [at most](REPLY_MAX) so much. `None`: it makes no sense. A line of more than a
    /// line, or with what a terminal would act on, is one that makes none.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let is_line =
            |reply: &Reply| !matches!(reply, Reply::No(reason) if reason.line.contains(char::is_control));
        decode::<Reply>(bytes, REPLY_MAX).filter(is_line)
    }

    /// A no.
    pub fn no(cause: Cause, line: impl fmt::Display) -> Reply {
        Reply::No(Reason::new(cause, line))
    }
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    let bytes = postcard::to_allocvec(value).expect("plain data always serialises");
    [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
}

fn decode<T: DeserializeOwned>(bytes: &[u8], len_max: usize) -> Option<T> {
    if bytes.len() > len_max {
        return None;
    }
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// Bytes of a request, without its length.
pub const REQUEST_MAX: usize = 300;
/// Bytes of a reply, without its length.
pub const REPLY_MAX: usize = 1024;
/// The longest name of a host (RFC 1035), with room for an address's zone.
const HOST_MAX: usize = 255;
/// Bytes of a reason.
const LINE_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(text: &str) -> Option<String> {
        text.parse().ok().map(|target: Target| target.to_string())
    }

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for text in ["db:5432", "192.0.2.7:22", "[2001:db8::1]:22", "[fe80::1%eth0]:22", "a_b.example.org:1"]
        {
            assert_eq!(target(text).as_deref(), Some(text));
        }
        for text in [
            "",
            "db",
            "db:",
            ":22",
            "db:0",
            "db:65536",
            "2001:db8::1:22",
            "[]:22",
            "[db:22",
            "a b:22",
            "a/b:22",
        ] {
            assert_eq!(target(text), None, "{text}");
        }
        let same = |a: &str, b: &str| a.parse::<Target>().unwrap() == b.parse().unwrap();
        assert!(same("DB.example.org:22", "db.Example.org:22"));
        assert!(!same("db:22", "db:23") && !same("db:22", "db.example.org:22"));
    }

    #[test]
    fn a_long_reason_is_cut_and_one_for_a_terminal_is_not_read() {
        let Some(Reply::No(reason)) =
            Reply::decode(&Reply::no(Cause::Refused, "é".repeat(2000)).encode()[2..])
        else {
            panic!("it is read");
        };
        assert_eq!(reason.line, "é".repeat(LINE_MAX / 2));
        assert_eq!(Reply::decode(&Reply::no(Cause::Refused, "a\x1b[2Jb").encode()[2..]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(host in "[a-z0-9.:-]{1,255}", port in 1..=u16::MAX, only_asks: bool) {
            let request = Request { target: Target::new(&host, port).unwrap(), only_asks };
            let bytes = request.encode();
            prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), bytes.len() - 2);
            prop_assert!(bytes.len() - 2 <= REQUEST_MAX);
            prop_assert_eq!(Request::decode(&bytes[2..]), Some(request));
        }

        #[test]
        fn a_request_for_what_is_no_host_makes_no_sense(host in ".*", port: u16) {
            let bytes = encode(&Request { target: Target { host: host.clone(), port }, only_asks: false });
            prop_assert_eq!(Request::decode(&bytes[2..]).is_some(), Target::new(&host, port).is_some());
        }
    }
}
