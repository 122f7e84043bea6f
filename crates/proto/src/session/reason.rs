//! Why something failed: in a word for programs and in a line for people. It travels, since mostly the other side
//! asks.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of failure it is. A program can act on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// None of the others.
    #[default]
    Other,
    /// The user stopped it.
    Interrupted,
    /// The request makes no sense.
    Request,
    /// The disk or the quota is full.
    NoSpace,
    /// The file system does not permit it.
    Denied,
    /// There is no such file or folder.
    NotFound,
    /// The source changed while it was copied.
    Changed,
    /// Another copy writes the same file, or others have all the places that a server has.
    InUse,
    /// The other host cannot be reached.
    Unreachable,
    /// The other side does not accept the token.
    WrongToken,
    /// The other side speaks another version of the protocol.
    WrongVersion,
    /// The other side does not want to.
    Refused,
    /// No UDP port can be had.
    NoPort,
    /// UDP does not pass between the hosts.
    UdpBlocked,
    /// No datagram of the size that the user named passes.
    SizeBlocked,
    /// No TCP connection for data comes about.
    TcpBlocked,
    /// Path or peer were silent for too long.
    Silent,
    /// The other side went away.
    PeerLeft,
}

impl Cause {
    /// As bindings for other languages say it: `no_space`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Other => "other",
            Cause::Interrupted => "interrupted",
            Cause::Request => "request",
            Cause::NoSpace => "no_space",
            Cause::Denied => "denied",
            Cause::NotFound => "not_found",
            Cause::Changed => "changed",
            Cause::InUse => "in_use",
            Cause::Unreachable => "unreachable",
            Cause::WrongToken => "wrong_token",
            Cause::WrongVersion => "wrong_version",
            Cause::Refused => "refused",
            Cause::NoPort => "no_port",
            Cause::UdpBlocked => "udp_blocked",
            Cause::SizeBlocked => "size_blocked",
            Cause::TcpBlocked => "tcp_blocked",
            Cause::Silent => "silent",
            Cause::PeerLeft => "peer_left",
        }
    }
}

/// Why something failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// For programs.
    pub cause: Cause,
    /// One line for people.
    pub line: String,
}

impl Reason {
    /// What happened, and how that is told.
    pub fn new(cause: Cause, line: impl fmt::Display) -> Reason {
        Reason { cause, line: line.to_string() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}
