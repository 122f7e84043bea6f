//! Several paths between the two hosts of a session.
//!
//! The client asks, the server says where else it is reached, and the client looks at paths 1, 2, …: the session began with
//! path 0. Each has a connection id and keys of its own, which follow from the session's secret and the path's number.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The first version with these messages.
pub const SINCE: u8 = 14;

/// Paths that a session has at most.
pub const PATHS_MAX: u16 = 8;

/// What a client that has several ways out asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantPaths {
    /// How many places it sends from.
    pub places: u16,
}

/// Where else a server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// All its addresses that it wants to be reached at, those in use too.
    pub hosts: Vec<IpAddr>,
    /// The UDP ports of paths 1, 2, …: so many there may be.
    pub ports: Vec<u16>,
}

/// How a path does, told by who sends over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's.
    pub to: IpAddr,
    /// Data datagrams sent over it.
    pub packets_sent: u64,
    /// Share of them that it lost, 0 to 1.
    pub loss: f64,
    /// Round trips in ns: shortest, smoothed.
    pub rtt_ns: [u64; 2],
    /// Nothing comes back over it at present.
    pub is_silent: bool,
}
