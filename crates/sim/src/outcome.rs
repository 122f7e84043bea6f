//! How far a run goes, and what comes of it.

use crate::counters::Counters;
use crate::queue::Occupancy;
use longhaul_proto::units::Time;

/// Where a run ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// No event after this moment is handled.
    pub time: Time,
    /// No more events than these are handled.
    pub events: u64,
}

/// An hour of virtual time, and 10⁹ events: what no test means to reach.
impl Default for Limits {
    fn default() -> Limits {
        Limits { time: Time::from_millis(3_600_000), events: 1_000_000_000 }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The caller said so.
    Stopped,
    /// Nothing is left to happen.
    Idle,
    /// The limit of virtual time.
    TimeLimit,
    /// The limit of events.
    EventLimit,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub end: End,
    /// When, in virtual time: the moment of the last event.
    pub time: Time,
    /// Events handled.
    pub events: u64,
    /// From left to right.
    pub forward: Direction,
    /// From right to left.
    pub reverse: Direction,
    /// Equal for equal runs.
    pub trace_hash: blake3::Hash,
}

/// What came of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// What became of the datagrams.
    pub counters: Counters,
    /// Datagrams still on their way.
    pub in_flight: u64,
    /// How full the queue of the first hop was, since [`Options::measure_from`](crate::Options::measure_from).
    pub queue: Occupancy,
}

/// A pair of endpoints after its run.
#[derive(Debug)]
pub struct Run<L, R> {
    /// What came of it.
    pub outcome: Outcome,
    /// The left endpoint.
    pub left: L,
    /// The right endpoint.
    pub right: R,
}
