//! What a simulation is told beside the path.

use crate::trace::TraceMode;
use longhaul_proto::units::Time;
use std::time::Duration;

/// What is not part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Occupancy of the queues is measured from here on.
    pub measure_from: Time,
    /// What is recorded.
    pub trace: TraceMode,
    /// Hand datagrams with wrong bytes to the endpoint instead of dropping them as unauthentic.
    pub deliver_corrupt: bool,
    /// Hand datagrams to the endpoint whose number it has seen, instead of dropping them.
    pub deliver_replays: bool,
    /// Datagrams that a host's device holds; while they fill it, the endpoint is not asked to transmit.
    pub device_slots: usize,
    /// How far the clocks of the right hosts are ahead of those of the left.
    pub right_clock_ahead: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            measure_from: Time::ZERO,
            trace: TraceMode::Hash,
            deliver_corrupt: false,
            deliver_replays: false,
            device_slots: DEVICE_SLOTS,
            right_clock_ahead: Duration::ZERO,
        }
    }
}

/// Datagrams in a device's buffer: about what a socket's send buffer of 100 KB holds.
const DEVICE_SLOTS: usize = 64;
