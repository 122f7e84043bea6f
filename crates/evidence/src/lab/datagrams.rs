//! Transfers by the simulator's endpoints over real UDP sockets.

use super::side_by_side::Halt;
use crate::ExperimentError;
use longhaul_lab::LabError;
use longhaul_lab::datagrams::{Ends, Ran, SLICE, joined, run_until};
use longhaul_proto::control::Remembered;
use longhaul_sim::flow::FlowNews;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
    let Ends { mut sender, mut receiver, setup } = ends;
    let (start, over) = (Instant::now(), AtomicBool::new(false));
    let is_due = || start.elapsed() >= limit;
    let is_over = || over.load(Ordering::Relaxed);
    let (delivered, sent) = thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let delivered = run_until(&mut receiver, FlowNews::Delivered, is_over)?.then(|| start.elapsed());
            // The last acknowledgement may get lost.
            run_until(&mut receiver, FlowNews::Delivered, is_over)?;
            io::Result::Ok(delivered)
        });
        let mut sent = halt.sleep(setup).map(|()| false);
        while let Ok(false) = sent {
            let done = sender.run(SLICE, |news| news == FlowNews::Acknowledged);
            sent = done.map(|ran| ran == Ran::Stopped || is_due()).map_err(failed);
            sent = sent.and_then(|is_over| halt.check().map(|()| is_over));
        }
        over.store(true, Ordering::Relaxed);
        (joined(receiving), sent)
    });
    sent?;
    let delivered = delivered.map_err(failed)?;
    let (seconds, is_late) = (delivered.unwrap_or(limit).as_secs_f64(), receiver.drops() > 0);
    Ok(Moved { seconds, learnt: sender.endpoint().end().learnt(), is_late })
}

/// A socket did not do its part.
pub(crate) fn failed(error: io::Error) -> ExperimentError {
    LabError::at("a transfer over UDP")(error).into()
}
