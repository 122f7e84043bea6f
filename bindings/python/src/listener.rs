//! A listener as a Python object.

use crate::errors::{closed, no_fileno, os_error, timed_out};
use crate::options;
use crate::stream::{Stream, address, locked};
use crate::waiting::{Deadline, on_thread, seconds};
use longhaul_stripe::{StripeOptions, StripedListener};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Wait for streams.
#[pyfunction]
#[pyo3(signature = (host, port, streams=None, key=None, plain=false, timeout=None, **others))]
#[pyo3(text_signature = "(host, port, streams=\"auto\", key=None, plain=False, timeout=None, **options)")]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn listen(
    py: Python<'_>,
    host: Option<String>,
    port: u16,
    streams: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    plain: bool,
    timeout: Option<f64>,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<Listener> {
    let timeout = seconds(timeout)?;
    let options = options::read(streams, key, plain, others)?;
    // Finding an address by name takes its time.
    let listener = on_thread(py, move || match host.as_deref() {
        None | Some("") => listen_anywhere(&options, port),
        Some(host) => options.bind((host, port)),
    })?;
    let listener = listener.map_err(|error| os_error(py, &error))?;
    Ok(Listener { open: Mutex::new(Some(Arc::new(listener))), timeout: Mutex::new(timeout) })
}

fn listen_anywhere(options: &StripeOptions, port: u16) -> io::Result<StripedListener> {
    // A socket of IPv6 takes IPv4 too, unless this host has no IPv6.
    let six = options.bind((Ipv6Addr::UNSPECIFIED, port));
    six.or_else(|_| options.bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Waits for streams at an address.
#[pyclass(frozen, weakref, module = "longhaul")]
pub struct Listener {
    /// `None`: closed.
    open: Mutex<Option<Arc<StripedListener>>>,
    timeout: Mutex<Option<Duration>>,
}

impl Listener {
    fn listener(&self, py: Python<'_>) -> PyResult<Arc<StripedListener>> {
        locked(&self.open).clone().ok_or_else(|| closed(py))
    }
}

#[pymethods]
impl Listener {
    fn accept<'py>(&self, py: Python<'py>) -> PyResult<(Stream, Bound<'py, PyTuple>)> {
        let deadline = Deadline::after(*locked(&self.timeout));
        loop {
            // Asked for anew each time: it may have been closed meanwhile.
            let listener = self.listener(py)?;
            match py.detach(|| listener.accept_timeout(deadline.slice())) {
                Ok((stream, peer)) => {
                    let stream = Stream::new(stream, None).map_err(|error| os_error(py, &error))?;
                    return Ok((stream, address(py, peer)?));
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => py.check_signals()?,
                Err(error) => return Err(os_error(py, &error)),
            }
            if deadline.is_past() {
                return Err(timed_out(py));
            }
        }
    }

    fn getsockname<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let local = self.listener(py)?.local_addr().map_err(|error| os_error(py, &error))?;
        address(py, local)
    }

    #[getter]
    fn port(&self, py: Python<'_>) -> PyResult<u16> {
        Ok(self.listener(py)?.local_addr().map_err(|error| os_error(py, &error))?.port())
    }

    fn settimeout(&self, timeout: Option<f64>) -> PyResult<()> {
        *locked(&self.timeout) = seconds(timeout)?;
        Ok(())
    }

    fn gettimeout(&self) -> Option<f64> {
        locked(&self.timeout).map(|timeout| timeout.as_secs_f64())
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Err(no_fileno(py))
    }

    fn close(&self) {
        locked(&self.open).take();
    }

    #[getter]
    fn closed(&self) -> bool {
        locked(&self.open).is_none()
    }

    fn __enter__(slf: Bound<'_, Listener>) -> Bound<'_, Listener> {
        slf
    }

    #[pyo3(signature = (_kind, _value, _traceback))]
    fn __exit__(&self, _kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        match &*locked(&self.open) {
            None => "<longhaul.Listener, closed>".into(),
            Some(listener) => match listener.local_addr() {
                Ok(local) => format!("<longhaul.Listener at {local}>"),
                Err(_) => "<longhaul.Listener>".into(),
            },
        }
    }
}
