//! Errors as Python knows them: subclasses of `OSError`, by their numbers.

use pyo3::create_exception;
use pyo3::exceptions::{PyConnectionRefusedError, PyOSError};
use pyo3::prelude::*;
use std::io;

create_exception!(longhaul, CopyError, PyOSError, "A copy that was not done, or not all of it.");

/// As an `OSError`: a `TimeoutError`, say, if its number is that of one. Whatever a listener refuses for is a
/// `ConnectionRefusedError`.
pub fn os_error(py: Python<'_>, error: &io::Error) -> PyErr {
    let (errno, line) = (longhaul_stripe::errno::of(error), error.to_string());
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return PyConnectionRefusedError::new_err((errno, line));
    }
    numbered(py, errno, line)
}

/// An `OSError` with a number and a line.
pub fn numbered(py: Python<'_>, errno: i32, line: impl Into<String>) -> PyErr {
    // Made at once, since OSError picks the subclass when it is made.
    match py.get_type::<PyOSError>().call1((errno, line.into())) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// What is asked of something that was closed.
pub fn closed(py: Python<'_>) -> PyErr {
    numbered(py, libc::EBADF, "it was closed")
}

/// The time was up.
pub fn timed_out(py: Python<'_>) -> PyErr {
    numbered(py, libc::ETIMEDOUT, "timed out")
}

/// There is no descriptor that stands for all lanes.
pub fn no_fileno(py: Python<'_>) -> PyErr {
    let line = "it is several TCP connections behind one lock, not one descriptor; take socket() of a stream";
    let error = py.import("io").and_then(|io| io.getattr("UnsupportedOperation")?.call1((line,)));
    error.map_or_else(|error| error, PyErr::from_value)
}
