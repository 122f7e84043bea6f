//! Copying files, told of as it goes.

use crate::errors::{CopyError, os_error};
use crate::options;
use crate::waiting::{LOOK_AROUND, seconds};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use longhaul::{
    Cause, CopyOptions, Delta, Error, Fsync, Location, Observer, Phase, Rate, Remark, RequestError, Summary,
    Token, Transport,
};
use longhaul_stripe::Streams;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

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

fn read_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<CopyOptions> {
    // This program is Python, which is nothing to put on the far side as longhaul.
    let mut options = CopyOptions { deploy: false, ..CopyOptions::default() };
    options.token = std::env::var("LONGHAUL_TOKEN").ok().filter(|token| !token.is_empty()).map(Token::from);
    for (name, value) in given.into_iter().flatten() {
        let name = name.extract::<String>()?;
        // None always stands for what is usual.
        if !value.is_none() {
            read_option(&mut options, &name, &value)?;
        }
    }
    Ok(options)
}

fn read_option(options: &mut CopyOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "transport" => options.transport = transport(&value.extract::<String>()?)?,
        "streams" => {
            options.streams = match options::count(value)? {
                Streams::Auto => None,
                // 64 at most.
                Streams::Fixed(streams) => u16::try_from(streams).ok(),
            }
        }
        "congestion" => options.congestion = Some(value.extract()?),
        "rate" => options.rate = Some(rate(value.extract()?)?),
        "control" => options.control = named(value)?,
        "select" => options.select = Some(named(value)?),
        "background" => options.background = value.extract()?,
        "ack_every" => options.ack_every = Some(at_least_one(name, value.extract()?)?),
        "batch" => options.batch = Some(at_least_one(name, value.extract()?)?),
        "packet_size" => options.packet_size = Some(value.extract()?),
        "stall_timeout" => {
            let day = Duration::from_secs(86_400);
            options.stall_timeout = seconds(value.extract()?)?.unwrap_or(day).min(day);
        }
        "token" => options.token = Some(Token::from(value.extract::<String>()?)),
        "dest_token" => options.dest_token = Some(Token::from(value.extract::<String>()?)),
        "via_here" => options.via_here = value.extract()?,
        "ports" => {
            let (first, last) = value.extract::<(u16, u16)>()?;
            options.ports = Some(first..=last);
        }
        "ssh" => {
            options.ssh_command = value.extract::<String>()?.split_whitespace().map(OsString::from).collect();
        }
        "files_from" => options.files_from = Some(value.extract()?),
        "exclude" => options.files.exclude = value.extract()?,
        "resume" => options.files.resume = value.extract()?,
        "checksum" => options.files.checksum = value.extract()?,
        "delta" => options.files.delta = delta(&value.extract::<String>()?)?,
        "delete" => options.files.delete = value.extract()?,
        "fsync" => options.files.fsync = if value.extract()? { Fsync::Always } else { Fsync::Never },
        "dry_run" => options.files.dry_run = value.extract()?,
        _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument {name:?}"))),
    }
    Ok(())
}

/// Something that the library knows by its name.
fn named<T: FromStr<Err: Display>>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    value.extract::<String>()?.parse().map_err(|error: T::Err| PyValueError::new_err(error.to_string()))
}

fn delta(name: &str) -> PyResult<Delta> {
    Ok(match name {
        "auto" => Delta::Auto,
        "always" => Delta::Always,
        "never" => Delta::Never,
        _ => return Err(PyValueError::new_err("delta is \"auto\", \"always\" or \"never\"")),
    })
}

fn transport(name: &str) -> PyResult<Transport> {
    Ok(match name {
        "auto" => Transport::Auto,
        "object" => Transport::Object,
        "stripe" => Transport::Stripe,
        "ssh" => Transport::Ssh,
        _ => return Err(PyValueError::new_err("transport is \"auto\", \"object\", \"stripe\" or \"ssh\"")),
    })
}

fn rate(bits_per_second: f64) -> PyResult<Rate> {
    if bits_per_second.is_finite() && bits_per_second >= 1.0 {
        return Ok(Rate(bits_per_second as u64));
    }
    Err(PyValueError::new_err("rate is a number of bits per second, at least 1"))
}

fn at_least_one(name: &str, value: u32) -> PyResult<u32> {
    if value > 0 { Ok(value) } else { Err(PyValueError::new_err(format!("{name} is at least 1"))) }
}
