//! A copy between two hosts that a third one asks for: what that one, the *arranger*, says to each end, and hears. From
//! [`SINCE`] on.
//!
//! The arranger has a control stream to each end. One of them is then the server of an ordinary copy and the other one its
//! client, under a key that is good for this copy alone. Their own control stream goes inside the arranger's two, sealed from
//! one end to the other; the data goes between the two directly, or, if the arranger says so, the same way.

use super::{Operation, Report, SenderStatus};
use crate::session::transport::Transport;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// The first version with copies between two other hosts.
pub const SINCE: u8 = 12;

/// The key of one copy, which both ends are given.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneCopyKey(pub [u8; 32]);

impl fmt::Debug for OneCopyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneCopyKey(…)")
    }
}

/// How an end is reached by the other one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// Its addresses, as far as they are known.
    pub hosts: Vec<IpAddr>,
    /// A name that may lead to others, as the arranger's user wrote it.
    pub name: Option<String>,
    /// UDP and TCP.
    pub port: u16,
}

/// An end is ready to be told its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Where it believes to be reached.
    pub at: Whereabouts,
    /// Whether it connects to hosts that an arranger names.
    pub connects: bool,
}

/// The part of the end that is the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerPart {
    /// What the other end comes with.
    pub key: OneCopyKey,
    /// The data, too, goes by way of the arranger.
    pub relayed: bool,
}

/// The part of the end that is the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientPart {
    /// What it comes with.
    pub key: OneCopyKey,
    /// Where the other end is.
    pub to: Whereabouts,
    /// What is asked of the other end.
    pub asks: Operation,
    /// What may carry the data; [`Transport::Ssh`] stands for the way by the arranger.
    pub transport: Transport,
}

/// What came of a copy, as its client tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the receiver reported.
    pub report: Report,
    /// What the sender said of it.
    pub status: SenderStatus,
    /// Data bytes in all.
    pub bytes: u64,
    /// Regular files in all.
    pub files: u64,
    /// The largest datagrams that passed, with their headers.
    pub packet_len: u32,
}
