//! Transfers by the simulator's endpoints over real UDP sockets.

use super::side_by_side::Halt;
use crate::ExperimentError;
use longhaul_lab::LabError;
use longhaul_lab::datagrams::Ends;
use longhaul_proto::control::Remembered;
use std::io;
use std::time::Duration;

/// What came of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// From the beginning of its set-up until the receiver had everything, or until it was given up.
    pub(crate) seconds: f64,
    /// What its controller has learnt of the path, for the next.
    pub(crate) learnt: Option<Remembered>,
    /// The receiving host dropped datagrams for want of buffer.
    pub(crate) is_late: bool,
}

/// Move everything, within `limit`.
pub(crate) fn transfer(ends: Ends, limit: Duration, halt: Halt<'_>) -> Result<Moved, ExperimentError> {
    let moved = ends.transfer(limit, || halt.check().is_ok()).map_err(failed)?;
    halt.check()?;
    let seconds = moved.delivered.unwrap_or(limit).as_secs_f64();
    Ok(Moved { seconds, learnt: moved.learnt, is_late: moved.drops > 0 })
}

/// A socket did not do its part.
pub(crate) fn failed(error: io::Error) -> ExperimentError {
    LabError::at("a transfer over UDP")(error).into()
}
