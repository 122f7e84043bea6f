//! Waiting without keeping other threads of Python from running, and without keeping Ctrl-C from being heard.

use crate::errors::{numbered, os_error};
use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::thread;
use std::time::{Duration, Instant};

/// Signals are looked for so often.
pub const LOOK_AROUND: Duration = Duration::from_millis(100);

/// Until when to wait.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now; for ever if `None`.
    pub fn after(timeout: Option<Duration>) -> Deadline {
        Deadline(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Whether it is past.
    pub fn is_past(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }

    /// What is left of it, but no more than until the next look for signals.
    pub fn slice(self) -> Duration {
        let left = self.0.map_or(LOOK_AROUND, |at| at.saturating_duration_since(Instant::now()));
        left.min(LOOK_AROUND)
    }
}

/// Do what takes its time in a thread of its own and wait for it. If a signal's handler raises something, such as
/// KeyboardInterrupt, that is returned and the work is left to itself.
pub fn on_thread<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = bounded(1);
    let started = thread::Builder::new().name("longhaul".into()).spawn(move || {
        // Nobody waits any more if a signal came: what came of the work is dropped.
        let _ = sender.send(work());
    });
    started.map_err(|error| os_error(py, &error))?;
    loop {
        match py.detach(|| receiver.recv_timeout(LOOK_AROUND)) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(numbered(py, libc::EIO, "longhaul panicked: please report this bug"));
            }
        }
    }
}

/// Drop what takes its time to go in a thread of its own.
pub fn drop_on_thread<T: Send + 'static>(what: T) {
    // Without a thread it goes at once, on this one.
    let _ = thread::Builder::new().name("longhaul".into()).spawn(move || drop(what));
}

/// A timeout as programs give it, in seconds.
pub fn seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = timeout else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() => Ok(Some(timeout)),
        // Beyond what can be told: for ever.
        Err(_) if seconds > 1e9 => Ok(None),
        _ => Err(PyValueError::new_err(
            "a timeout is more than 0 seconds, or None; there is no non-blocking mode",
        )),
    }
}
