//! The thread that keeps what has arrived safe from an interruption.

use super::shared::Shared;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the keeper does what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How much time's worth of data a killed receiver may lose.
    pub flush_every: Duration,
    /// How long open blocks may take to be stored before the journals are written out.
    pub write_out: Duration,
    /// After a crash of the whole host, what is younger than this is read and hashed again.
    pub sync_every: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { flush_every: FLUSH_EVERY, write_out: WRITE_OUT, sync_every: SYNC_EVERY }
    }
}

/// Until `stop` is closed: have open blocks handed over, write out the journals, and now and then bring all to the
/// disk itself.
pub(super) fn keep(shared: &Shared, pace: Pace, stop: &Receiver<()>) {
    let mut synced_at = Instant::now();
    let mut synced_bytes = 0;
    while stop.recv_timeout(pace.flush_every - pace.write_out) == Err(RecvTimeoutError::Timeout) {
        if shared.has_open.load(Ordering::Relaxed) {
            shared.flush_due.store(true, Ordering::Relaxed);
            shared.wake();
            // What the writers store and note now is to stand in the journals this time, not the next.
            if stop.recv_timeout(pace.write_out) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
        shared.logs.flush();
        let written_bytes = shared.written_bytes.load(Ordering::Relaxed);
        if synced_at.elapsed() >= pace.sync_every || written_bytes - synced_bytes >= SYNC_BYTES {
            shared.logs.sync(&shared.target, |entry, error| shared.fail_storing(entry, error));
            synced_at = Instant::now();
            synced_bytes = written_bytes;
        }
    }
}

/// Little against any transfer worth resuming.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// What the network thread and the writers need for that, mostly.
const WRITE_OUT: Duration = Duration::from_millis(20);

/// Seldom enough for a disk that has else to do.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// As `SYNC_EVERY`, for fast transfers: what is read again in a second or so.
const SYNC_BYTES: u64 = 1 << 30;
