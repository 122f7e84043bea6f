//! A program at an end of a path: heard line by line, and killed when it is no longer wanted.

use super::ExperimentError;
use super::bench::Bench;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running program. Dropping it kills it.
pub(super) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
}

impl Process {
    /// Start it. `name` is for messages.
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Process, ExperimentError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |reason: String| ExperimentError::Program { program: name.into(), reason };
        let mut child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                // Ends with the program, or when nobody listens any more.
                BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
        }
        let complaints = child.stderr.take().map(|stderr| {
            thread::spawn(move || {
                let mut text = String::new();
                // What cannot be read is not complained about.
                let _ = stderr.take(COMPLAINTS_MAX).read_to_string(&mut text);
                text
            })
        });
        Ok(Process { name: name.into(), child, lines, complaints })
    }

    /// The next line that it says, which must come within `limit`.
    pub(super) fn line(&mut self, bench: &Bench<'_>, limit: Duration) -> Result<String, ExperimentError> {
        let deadline = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(STOP_POLL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => {
                    bench.check()?;
                    if Instant::now() >= deadline {
                        return Err(self.failed(format!("not done after {} s", limit.as_secs())));
                    }
                }
            }
        }
    }

    /// All that it says until it ends.
    pub(super) fn text(&mut self, bench: &Bench<'_>, limit: Duration) -> Result<String, ExperimentError> {
        let deadline = Instant::now() + limit;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(STOP_POLL) {
                Ok(line) => text = text + &line + "\n",
                Err(RecvTimeoutError::Disconnected) if text.is_empty() => return Err(self.ended()),
                Err(RecvTimeoutError::Disconnected) => return Ok(text),
                Err(RecvTimeoutError::Timeout) => {
                    bench.check()?;
                    if Instant::now() >= deadline {
                        return Err(self.failed(format!("not done after {} s", limit.as_secs())));
                    }
                }
            }
        }
    }

    /// Say a line to it.
    pub(super) fn tell(&mut self, line: &str) -> Result<(), ExperimentError> {
        let told = self.child.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed("it hears nothing".into())),
        }
    }

    /// Whether it still runs.
    pub(super) fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// It did not do its part.
    pub(super) fn failed(&self, reason: String) -> ExperimentError {
        ExperimentError::Program { program: self.name.clone(), reason }
    }

    /// It has closed its standard output without saying what was waited for.
    fn ended(&mut self) -> ExperimentError {
        let _ = self.child.wait();
        let said = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let last = said.trim_end().lines().last().unwrap_or("it ended without a result");
        self.failed(last.strip_prefix("error: ").unwrap_or(last).into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How soon a wish to stop is noticed.
const STOP_POLL: Duration = Duration::from_millis(50);
/// More than any error message takes.
const COMPLAINTS_MAX: u64 = 64 << 10;
