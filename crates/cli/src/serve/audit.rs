//! A line of JSON for each file that was copied or could not be, and for each connection that was forwarded or could not be.

use crate::failure::Failure;
use crate::values::describe;
use longhaul::Reason;
use longhaul::daemon::records::{FileNote, Forward, Who};
use longhaul::daemon::token::to_hex;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

/// Writes lines in a thread of its own. A disk that does not keep up slows copies down: no line is left out.
pub struct Audit {
    path: PathBuf,
    lines: Mutex<Option<SyncSender<Vec<u8>>>>,
    /// Until the thread is started.
    writer: Mutex<Writer>,
}

enum Writer {
    Waits(File, Receiver<Vec<u8>>),
    Works(JoinHandle<()>),
    Gone,
}

/// A file, as it is written.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    user: &'a str,
    address: std::net::IpAddr,
    direction: &'static str,
    path: std::borrow::Cow<'a, str>,
    bytes: u64,
    blake3: Option<String>,
    outcome: &'static str,
    error: Option<String>,
}

/// A forwarded connection, as it is written.
#[derive(Serialize)]
struct ForwardLine<'a> {
    time: String,
    user: &'a str,
    address: std::net::IpAddr,
    forward: String,
    bytes_there: u64,
    bytes_back: u64,
    outcome: &'static str,
    error: Option<String>,
}

impl Audit {
    /// Open the file, which is made where it is missing and never cut.
    pub fn open(path: &Path) -> Result<Audit, Failure> {
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
        let file = file.map_err(|error| {
            Failure::Failed(format!("cannot write the audit to {}: {}", path.display(), describe(&error)))
        })?;
        let (sender, receiver) = sync_channel(LINES_MAX);
        Ok(Audit {
            path: path.into(),
            lines: Mutex::new(Some(sender)),
            writer: Mutex::new(Writer::Waits(file, receiver)),
        })
    }

    /// Write from now on.
    pub fn start(&self) -> Result<(), Failure> {
        let mut writer = lock(&self.writer);
        if let Writer::Waits(mut file, lines) = std::mem::replace(&mut *writer, Writer::Gone) {
            let path = self.path.clone();
            let write = move || {
                let mut failed = false;
                for line in lines {
                    let written = file.write_all(&line);
                    if let (Err(error), false) = (&written, failed) {
                        tracing::error!("the audit in {} has gaps: {}", path.display(), describe(error));
                    }
                    failed = written.is_err();
                }
            };
            let thread = thread::Builder::new().name("audit".into()).spawn(write);
            *writer = Writer::Works(thread.map_err(|error| Failure::Failed(describe(&error)))?);
        }
        Ok(())
    }

    /// A file has come to its end.
    pub fn note(&self, who: &Who<'_>, file: &FileNote<'_>) {
        self.write(&Line {
            time: now(),
            user: who.user,
            address: who.from.to_canonical(),
            direction: who.way.name(),
            path: String::from_utf8_lossy(file.path),
            bytes: file.bytes,
            blake3: file.hash.map(|hash| to_hex(&hash)),
            outcome: if file.failure.is_none() { "copied" } else { "failed" },
            error: file.failure.map(told),
        });
    }

    /// A forwarded connection has come to its end.
    pub fn note_forward(&self, forward: &Forward<'_>) {
        self.write(&ForwardLine {
            time: now(),
            user: forward.user,
            address: forward.from.to_canonical(),
            forward: forward.target.to_string(),
            bytes_there: forward.bytes_there,
            bytes_back: forward.bytes_back,
            outcome: if forward.failure.is_none() { "ended" } else { "failed" },
            error: forward.failure.map(told),
        });
    }

    fn write(&self, line: &impl Serialize) {
        let Ok(mut bytes) = serde_json::to_vec(line) else { return };
        bytes.push(b'\n');
        let lines = lock(&self.lines).clone();
        if let Some(lines) = lines {
            // Nobody takes it any more when the program ends.
            let _ = lines.send(bytes);
        }
    }

    /// Write what is left.
    pub fn close(&self) {
        lock(&self.lines).take();
        if let Writer::Works(thread) = std::mem::replace(&mut *lock(&self.writer), Writer::Gone) {
            let _ = thread.join();
        }
    }
}

/// What failed may be told in the other side's words, of any length.
fn told(reason: &Reason) -> String {
    reason.line.chars().take(REASON_MAX).collect()
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines that wait to be written: some 30 MB where they are as long as can be.
const LINES_MAX: usize = 1000;
/// Letters of what is told of a failure.
const REASON_MAX: usize = 500;
