//! A stream as a Python object.

use crate::errors::{closed, no_fileno, os_error, timed_out};
use crate::options;
use crate::waiting::{Deadline, LOOK_AROUND, drop_on_thread, on_thread, seconds};
use longhaul_stripe::{LaneStats, StripedStream};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Deref;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connect to a listener.
#[pyfunction]
#[pyo3(signature = (host, port, streams=None, key=None, plain=false, timeout=None, **others))]
#[pyo3(text_signature = "(host, port, streams=\"auto\", key=None, plain=False, timeout=None, **options)")]
#[allow(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn connect(
    py: Python<'_>,
    host: String,
    port: u16,
    streams: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    plain: bool,
    timeout: Option<f64>,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let timeout = seconds(timeout)?;
    let mut options = options::read(streams, key, plain, others)?;
    if let Some(timeout) = timeout {
        options = options.connect_timeout(timeout);
    }
    let stream = on_thread(py, move || options.connect((host, port)))?;
    Stream::new(stream.map_err(|error| os_error(py, &error))?, timeout).map_err(|error| os_error(py, &error))
}

/// An ordered stream of bytes both ways over several TCP connections.
#[pyclass(frozen, weakref, module = "longhaul")]
pub struct Stream {
    /// `None`: closed.
    open: Mutex<Option<StripedStream>>,
    timeout: Mutex<Option<Duration>>,
    /// Memory to read into, kept between calls.
    scratch: Mutex<Vec<u8>>,
}

impl Stream {
    /// From the library's.
    pub fn new(stream: StripedStream, timeout: Option<Duration>) -> io::Result<Stream> {
        set_slices(&stream, timeout)?;
        Ok(Stream { open: Mutex::new(Some(stream)), timeout: Mutex::new(timeout), scratch: Mutex::default() })
    }

    /// The library's stream, for one operation.
    fn stream(&self, py: Python<'_>) -> PyResult<Lent<'_>> {
        let open = locked(&self.open);
        let stream = open.as_ref().ok_or_else(|| closed(py))?;
        let stream = stream.try_clone().map_err(|error| os_error(py, &error))?;
        Ok(Lent { stream: Some(stream), of: self })
    }

    /// Repeat an operation until it is done, the time is up or a signal's handler raises something.
    fn patiently<T: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        mut operation: impl FnMut() -> io::Result<T> + Send,
    ) -> PyResult<T> {
        loop {
            match py.detach(&mut operation) {
                Ok(done) => return Ok(done),
                Err(error) if error.kind() == ErrorKind::WouldBlock => py.check_signals()?,
                Err(error) => return Err(os_error(py, &error)),
            }
            if deadline.is_past() {
                return Err(timed_out(py));
            }
        }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(*locked(&self.timeout))
    }

    fn write(&self, py: Python<'_>, data: &[u8], deadline: Deadline) -> PyResult<usize> {
        let stream = self.stream(py)?;
        self.patiently(py, deadline, || (&*stream).write(data))
    }

    /// Read up to `len` bytes and do something with them. They are read into memory of our own, since that of Python
    /// may be touched by other threads meanwhile.
    fn read<T>(&self, py: Python<'_>, len: usize, then: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
        let stream = self.stream(py)?;
        let len = len.min(PIECE_MAX);
        let mut scratch = std::mem::take(&mut *locked(&self.scratch));
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let room = &mut scratch[..len];
        let got = self.patiently(py, self.deadline(), || (&*stream).read(room));
        let outcome = got.map(|got| then(&scratch[..got]));
        *locked(&self.scratch) = scratch;
        outcome
    }
}

/// The library's stream while an operation has it.
struct Lent<'a> {
    stream: Option<StripedStream>,
    of: &'a Stream,
}

impl Deref for Lent<'_> {
    type Target = StripedStream;

    fn deref(&self) -> &StripedStream {
        self.stream.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // Closed meanwhile, it may be the last: to let go of that takes until all is delivered, and nobody runs Python then.
        if locked(&self.of.open).is_none() {
            drop_on_thread(self.stream.take());
        }
    }
}

#[pymethods]
impl Stream {
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return self.write(py, bytes.as_bytes(), self.deadline());
        }
        let buffer = contiguous(data)?;
        let piece = copy_out(py, &buffer, 0);
        self.write(py, &piece, self.deadline())
    }

    fn sendall(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let deadline = self.deadline();
        let send = |mut data: &[u8]| -> PyResult<()> {
            while !data.is_empty() {
                let taken = self.write(py, data, deadline)?;
                data = &data[taken..];
            }
            Ok(())
        };
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return send(bytes.as_bytes());
        }
        // Memory that can change is copied piece by piece while no other thread of Python runs.
        let buffer = contiguous(data)?;
        let mut at = 0;
        while at < buffer.len_bytes() {
            let piece = copy_out(py, &buffer, at);
            send(&piece)?;
            at += piece.len();
        }
        Ok(())
    }

    fn recv<'py>(&self, py: Python<'py>, bufsize: isize) -> PyResult<Bound<'py, PyBytes>> {
        let len = usize::try_from(bufsize).map_err(|_| PyValueError::new_err("bufsize is negative"))?;
        self.read(py, len, |got| PyBytes::new(py, got))
    }

    #[pyo3(signature = (buffer, nbytes=0))]
    fn recv_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, nbytes: isize) -> PyResult<usize> {
        let room = contiguous(buffer)?;
        if room.readonly() {
            return Err(PyBufferError::new_err("what is received needs memory that can be written to"));
        }
        let len = match usize::try_from(nbytes) {
            Ok(0) => room.len_bytes(),
            Ok(len) if len <= room.len_bytes() => len,
            _ => return Err(PyValueError::new_err("nbytes is negative or more than the buffer has")),
        };
        self.read(py, len, |got| {
            // SAFETY: the buffer is contiguous, writable, at least so long, and lives as long as `room`. We are attached
            // to the interpreter, so no other thread of Python touches it, and it is not memory of ours.
            unsafe { std::ptr::copy_nonoverlapping(got.as_ptr(), room.buf_ptr().cast(), got.len()) };
            got.len()
        })
    }

    #[pyo3(signature = (mode="r", buffering=-1, *, encoding=None, errors=None, newline=None))]
    fn makefile<'py>(
        slf: &Bound<'py, Stream>,
        mode: &str,
        buffering: i64,
        encoding: Option<&str>,
        errors: Option<&str>,
        newline: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let files = slf.py().import("longhaul._file")?;
        files.call_method1("makefile", (slf, mode, buffering, encoding, errors, newline))
    }

    fn shutdown(&self, py: Python<'_>, how: i32) -> PyResult<()> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(PyValueError::new_err("how is socket.SHUT_RD, SHUT_WR or SHUT_RDWR")),
        };
        self.stream(py)?.shutdown(how).map_err(|error| os_error(py, &error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(stream) = locked(&self.open).take() else { return Ok(()) };
        let outcome = on_thread(py, move || {
            let delivered = stream.try_clone().and_then(StripedStream::close);
            // Whoever still reads in another thread is to come to an end.
            stream.shutdown(Shutdown::Both).and(delivered)
        })?;
        outcome.map_err(|error| os_error(py, &error))
    }

    fn settimeout(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?;
        set_slices(&*self.stream(py)?, timeout).map_err(|error| os_error(py, &error))?;
        *locked(&self.timeout) = timeout;
        Ok(())
    }

    fn gettimeout(&self) -> Option<f64> {
        locked(&self.timeout).map(|timeout| timeout.as_secs_f64())
    }

    fn getsockname<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let local = self.stream(py)?.local_addr().map_err(|error| os_error(py, &error))?;
        address(py, local)
    }

    fn getpeername<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let peer = self.stream(py)?.peer_addr().map_err(|error| os_error(py, &error))?;
        address(py, peer)
    }

    fn socket<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stream = locked(&self.open).take().ok_or_else(|| closed(py))?;
        let timeout = *locked(&self.timeout);
        let socket = match behind_socket(&stream) {
            Ok(socket) => socket,
            Err(error) => {
                let _ = set_slices(&stream, timeout);
                *locked(&self.open) = Some(stream);
                return Err(os_error(py, &error));
            }
        };
        let arguments = PyDict::new(py);
        arguments.set_item("fileno", socket.as_raw_fd())?;
        let made = py.import("socket")?.getattr("socket")?.call((), Some(&arguments))?;
        // It is that object's from now on.
        let _fileno = socket.into_raw_fd();
        made.call_method1("settimeout", (timeout.map(|timeout| timeout.as_secs_f64()),))?;
        Ok(made)
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Err(no_fileno(py))
    }

    #[getter]
    fn closed(&self) -> bool {
        locked(&self.open).is_none()
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.stream(py)?.stats();
        let told = PyDict::new(py);
        told.set_item("bytes_written", stats.bytes_written)?;
        told.set_item("bytes_acked", stats.bytes_acked)?;
        told.set_item("bytes_unsent", stats.bytes_unsent)?;
        told.set_item("bytes_resent", stats.bytes_resent)?;
        told.set_item("bytes_received", stats.bytes_received)?;
        told.set_item("bytes_held", stats.bytes_held)?;
        told.set_item("lanes_active", stats.lanes_active)?;
        told.set_item("lanes_wanted", stats.lanes_wanted)?;
        told.set_item("lanes_lost", stats.lanes_lost)?;
        told.set_item("lanes_tried", stats.lanes_tried)?;
        let lanes: Vec<_> = stats.lanes.iter().map(|lane| lane_dict(py, lane)).collect::<PyResult<_>>()?;
        told.set_item("lanes", PyList::new(py, lanes)?)?;
        Ok(told)
    }

    fn __enter__(slf: Bound<'_, Stream>) -> Bound<'_, Stream> {
        slf
    }

    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if kind.is_none() {
            return self.close(py);
        }
        // What went wrong is not to be hidden by how closing goes, nor held up by it. Whoever still reads in another thread
        // is to come to an end.
        if let Some(stream) = locked(&self.open).take() {
            let _ = stream.shutdown(Shutdown::Both);
            drop_on_thread(stream);
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        match &*locked(&self.open) {
            None => "<longhaul.Stream, closed>".into(),
            Some(stream) => match (stream.local_addr(), stream.peer_addr()) {
                (Ok(local), Ok(peer)) => format!("<longhaul.Stream from {local} to {peer}>"),
                _ => "<longhaul.Stream>".into(),
            },
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // It waits until all is delivered, for which the other end, maybe in this program, may need the interpreter.
        if open.is_some() {
            drop_on_thread(open);
        }
    }
}

/// An address as `socket` tells it.
pub fn address(py: Python<'_>, address: SocketAddr) -> PyResult<Bound<'_, PyTuple>> {
    let host = address.ip().to_string();
    match address {
        SocketAddr::V4(v4) => (host, v4.port()).into_pyobject(py),
        SocketAddr::V6(v6) => (host, v6.port(), v6.flowinfo(), v6.scope_id()).into_pyobject(py),
    }
}

/// A mutex that guards single values: poisoned or not.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket in front of it, which waits for as long as it takes: the slices in which the stream was waited for are not the
/// program's.
fn behind_socket(stream: &StripedStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    stream.try_clone()?.into_socket()
}

/// Single waits are short, so that signals are heard.
fn set_slices(stream: &StripedStream, timeout: Option<Duration>) -> io::Result<()> {
    let slice = timeout.unwrap_or(LOOK_AROUND).min(LOOK_AROUND);
    stream.set_read_timeout(Some(slice))?;
    stream.set_write_timeout(Some(slice))
}

fn contiguous(data: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(data)?;
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(PyBufferError::new_err("its bytes do not lie one after the other; take bytes(…) of it"))
}

/// A piece of a buffer from `at` on.
fn copy_out(_attached: Python<'_>, buffer: &PyUntypedBuffer, at: usize) -> Vec<u8> {
    let len = buffer.len_bytes().saturating_sub(at).min(PIECE_MAX);
    let mut piece = Vec::with_capacity(len);
    // SAFETY: the buffer is contiguous and has at least `at + len` bytes; there is room for `len`. We are attached to the
    // interpreter, so no other thread of Python changes it meanwhile.
    unsafe {
        let from = buffer.buf_ptr().cast::<u8>().add(at);
        std::ptr::copy_nonoverlapping(from, piece.as_mut_ptr(), len);
        piece.set_len(len);
    }
    piece
}

fn lane_dict<'py>(py: Python<'py>, lane: &LaneStats) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("id", lane.id)?;
    told.set_item("bytes_sent", lane.bytes_sent)?;
    told.set_item("bytes_received", lane.bytes_received)?;
    told.set_item("bytes_in_flight", lane.bytes_in_flight)?;
    told.set_item("rtt_seconds", lane.tcp.rtt.as_secs_f64())?;
    told.set_item("cwnd_bytes", lane.tcp.cwnd_bytes)?;
    told.set_item("retransmits", lane.tcp.retransmits)?;
    Ok(told)
}

/// Bytes that one operation moves at most: more than a lane hands over at once.
const PIECE_MAX: usize = 1 << 20;
