//! How far a copy is.

use super::limit::{Limit, LimitSpans};
use super::transport::Carrier;
use crate::units::Rate;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a copy is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Reaching the other side.
    #[default]
    Connecting,
    /// Listing and comparing files.
    Comparing,
    /// Moving data.
    Moving,
    /// Writing out and verifying the rest.
    Verifying,
}

impl Phase {
    /// As in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Connecting => "connecting",
            Phase::Comparing => "comparing",
            Phase::Moving => "moving",
            Phase::Verifying => "verifying",
        }
    }
}

/// How far a copy is, ten times a second. Before data moves only the phase is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Data bytes that the receiver has (with those skipped and resumed).
    pub bytes_done: u64,
    /// Data bytes in all.
    pub bytes_total: u64,
    /// Files in all.
    pub files_total: u64,
    /// New data per second over the last second or so.
    pub goodput: Rate,
    /// Share of datagrams lost on the path lately, 0 to 1.
    pub loss: f64,
    /// Latest smoothed round-trip time.
    pub rtt: Duration,
    /// What holds it back now.
    pub limited_by: Limit,
    /// For how long each limit has held since data moves.
    pub limits: LimitSpans,
    /// What carries the data.
    pub carrier: Carrier,
    /// Of `bytes_done`, those of files that were already there.
    pub skipped_bytes: u64,
    /// Of `bytes_done`, those taken over from an interrupted run, or from files that are replaced.
    pub resumed_bytes: u64,
    /// Regular files that are in place, with those that were there; `None` where the receiver does not tell. From version 14 on.
    pub files_done: Option<u64>,
}
