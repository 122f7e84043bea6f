//! Copying files, told of as it goes.

use crate::copy_options::read_options;
use crate::errors::{CopyError, os_error};
use crate::waiting::LOOK_AROUND;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use longhaul::{Cause, Error, Location, Observer, Phase, Remark, RequestError, Summary};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Copy files to or from another host.
#[pyfunction]
#[pyo3(signature = (src, dst, *, progress=None, warning=None, remark=None, **options))]
pub fn copy<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: PathBuf,
    progress: Option<&Bound<'py, PyAny>>,
    warning: Option<&Bound<'py, PyAny>>,
    remark: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let sources = match src.extract::<PathBuf>() {
        Ok(one) => vec![one],
        Err(_) => src
            .extract::<Vec<PathBuf>>()
            .map_err(|_| PyTypeError::new_err("src is a str, a path, or a list of them"))?,
    };
    let sources = sources.into_iter().map(location).collect::<PyResult<Vec<_>>>()?;
    let dest = location(dst)?;
    let options = read_options(options)?;
    let (sender, receiver) = unbounded();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let worker = thread::Builder::new().name("longhaul-copy".into()).spawn(move || {
        let mut teller = Teller { sender };
        let outcome = longhaul::copy(&sources, &dest, &options, &mut teller, seen);
        let _ = teller.sender.send(News::Done(Box::new(outcome)));
    });
    let worker = worker.map_err(|error| os_error(py, &error))?;
    let audience = Audience { progress, warning, remark };
    let outcome = audience.follow(py, &receiver);
    if outcome.is_err() {
        // A callback or a signal's handler has raised something: what arrived is kept and can be resumed.
        stop.store(true, Ordering::Relaxed);
        drop(receiver);
    }
    let _ended = py.detach(|| worker.join());
    finish(py, *outcome?)
}

/// What the copying thread has to say.
enum News {
    Progress(longhaul::Progress),
    Warning(String),
    Remark(Remark),
    Done(Box<Result<Summary, Error>>),
}

/// Tells the thread that called; nobody may listen any more.
struct Teller {
    sender: Sender<News>,
}

impl Observer for Teller {
    fn progress(&mut self, progress: &longhaul::Progress) {
        let _ = self.sender.send(News::Progress(*progress));
    }

    fn remark(&mut self, remark: Remark) {
        let _ = self.sender.send(News::Remark(remark));
    }

    fn warning(&mut self, line: &str) {
        let _ = self.sender.send(News::Warning(line.into()));
    }

    fn wants_breakdown(&self) -> bool {
        false
    }
}

/// The program's functions, which run in the thread that called.
struct Audience<'a, 'py> {
    progress: Option<&'a Bound<'py, PyAny>>,
    warning: Option<&'a Bound<'py, PyAny>>,
    remark: Option<&'a Bound<'py, PyAny>>,
}

impl Audience<'_, '_> {
    fn follow(&self, py: Python<'_>, news: &Receiver<News>) -> PyResult<Box<Result<Summary, Error>>> {
        let mut held = None;
        loop {
            let mut next = held.take().map_or_else(|| py.detach(|| news.recv_timeout(LOOK_AROUND)), Ok);
            // Of progress only the latest is told: a slow listener must not fall behind.
            while let Ok(News::Progress(_)) = next
                && held.is_none()
            {
                match news.try_recv() {
                    Ok(newer @ News::Progress(_)) => next = Ok(newer),
                    Ok(other) => held = Some(other),
                    Err(_) => break,
                }
            }
            match next {
                Ok(News::Done(outcome)) => return Ok(outcome),
                Ok(News::Progress(progress)) => tell(self.progress, (Progress(progress),))?,
                Ok(News::Warning(line)) => tell(self.warning, (line,))?,
                Ok(News::Remark(remark)) => tell(self.remark, (remark.at_seconds, remark.text))?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CopyError::new_err("longhaul panicked: please report this bug"));
                }
            }
            py.check_signals()?;
        }
    }
}

fn tell<'py>(listener: Option<&Bound<'py, PyAny>>, news: impl pyo3::call::PyCallArgs<'py>) -> PyResult<()> {
    listener.map_or(Ok(()), |listener| listener.call1(news).map(drop))
}

fn finish<'py>(py: Python<'py>, outcome: Result<Summary, Error>) -> PyResult<Bound<'py, PyAny>> {
    match outcome {
        Ok(summary) => {
            let told = summary_dict(py, &summary)?;
            if summary.ok {
                return Ok(told);
            }
            let cause = summary.failures.first().map_or(Cause::Other, |failure| failure.reason.cause);
            Err(copy_error(py, first_error(&summary), cause, Some(told)))
        }
        Err(Error::Request(RequestError::NoToken)) => {
            let line = "longhaul:// needs the server's token: give token=… or set LONGHAUL_TOKEN";
            Err(PyValueError::new_err(line))
        }
        Err(Error::Request(request)) => Err(PyValueError::new_err(request.to_string())),
        Err(error @ Error::Interrupted) => Err(PyKeyboardInterrupt::new_err(error.to_string())),
        Err(error) => Err(copy_error(py, error.to_string(), error.cause(), None)),
    }
}

fn first_error(summary: &Summary) -> String {
    summary.error.clone().unwrap_or_else(|| format!("{} files failed", summary.files_failed))
}

fn copy_error(py: Python<'_>, line: String, cause: Cause, summary: Option<Bound<'_, PyAny>>) -> PyErr {
    let error = CopyError::new_err(line);
    let value = error.value(py);
    match value.setattr("summary", summary).and_then(|()| value.setattr("cause", cause.name())) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn summary_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(summary).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let told = py.import("json")?.call_method1("loads", (text,))?;
    let os = py.import("os")?;
    let mut failures = vec![];
    for failure in &summary.failures {
        failures.push((os.call_method1("fsdecode", (failure.path.as_slice(),))?, &failure.reason.line));
    }
    told.set_item("failures", failures)?;
    Ok(told)
}

/// How far a copy is.
#[pyclass(frozen, module = "longhaul")]
pub struct Progress(longhaul::Progress);

#[pymethods]
impl Progress {
    #[getter]
    fn phase(&self) -> &'static str {
        match self.0.phase {
            Phase::Connecting => "connecting",
            Phase::Comparing => "comparing",
            Phase::Moving => "moving",
            Phase::Verifying => "verifying",
        }
    }

    #[getter]
    fn bytes_done(&self) -> u64 {
        self.0.bytes_done
    }

    #[getter]
    fn bytes_total(&self) -> u64 {
        self.0.bytes_total
    }

    #[getter]
    fn files_done(&self) -> Option<u64> {
        self.0.files_done
    }

    #[getter]
    fn files_total(&self) -> u64 {
        self.0.files_total
    }

    #[getter]
    fn goodput_bps(&self) -> u64 {
        self.0.goodput.0
    }

    #[getter]
    fn loss(&self) -> f64 {
        self.0.loss
    }

    #[getter]
    fn rtt_seconds(&self) -> f64 {
        self.0.rtt.as_secs_f64()
    }

    #[getter]
    fn limited_by(&self) -> &'static str {
        self.0.limited_by.name()
    }

    fn __repr__(&self) -> String {
        let (phase, done, total) = (self.phase(), self.0.bytes_done, self.0.bytes_total);
        format!("<longhaul.Progress {phase}, {done} of {total} bytes>")
    }
}

fn location(path: PathBuf) -> PyResult<Location> {
    Location::parse(&path.into_os_string()).map_err(|error| PyValueError::new_err(error.to_string()))
}
