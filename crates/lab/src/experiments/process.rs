//! A program at an end of a path: heard line by line, and killed when it is no longer wanted.

use super::ExperimentError;
use super::bench::Bench;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running program. Dropping it kills it, and what it has started.
pub(super) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
    /// It and all of its group are gone; their numbers may belong to others by now.
    is_over: bool,
}

/// What a program said until it ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) is_success: bool,
    /// On its standard output.
    pub(super) said: String,
    /// On its standard error.
    pub(super) complained: String,
}

impl Ended {
    /// The last that it complained of, or else said; for messages.
    pub(super) fn last_words(&self) -> &str {
        let texts = [&self.complained, &self.said].into_iter();
        let mut lasts = texts.filter_map(|text| text.trim_end().lines().last()).map(str::trim);
        lasts.find(|line| !line.is_empty()).unwrap_or("it said nothing")
    }
}

impl Process {
    /// Start it. `name` is for messages.
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Process, ExperimentError> {
        // A group of its own: what it starts can be ended with it.
        command.process_group(0);
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
        Ok(Process { name: name.into(), child, lines, complaints, is_over: false })
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

    /// Wait until it ends, which must be within `limit`.
    pub(super) fn end(&mut self, bench: &Bench<'_>, limit: Duration) -> Result<Ended, ExperimentError> {
        let deadline = Instant::now() + limit;
        let mut said = String::new();
        let is_success = loop {
            let patience = match self.lines.recv_timeout(STOP_POLL) {
                Ok(line) => {
                    said = said + &line + "\n";
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => END_POLL,
                Err(RecvTimeoutError::Timeout) => Duration::ZERO,
            };
            if let Some(status) = self.status()? {
                break status.success();
            }
            bench.check()?;
            if Instant::now() >= deadline {
                return Err(self.failed(format!("not done after {} s", limit.as_secs())));
            }
            thread::sleep(patience);
        };
        // What it has left behind would keep its output open.
        self.is_over_now();
        said.extend(self.lines.iter().map(|line| line + "\n"));
        Ok(Ended { is_success, said, complained: self.complaints() })
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, ExperimentError> {
        Ok(self.status()?.is_some())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, ExperimentError> {
        self.child.try_wait().map_err(|error| self.failed(format!("cannot be waited for: {error}")))
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
        self.is_over_now();
        let said = self.complaints();
        let last = said.trim_end().lines().last().unwrap_or("it ended without a result");
        self.failed(last.strip_prefix("error: ").unwrap_or(last).into())
    }

    /// What it complained of, once it has ended.
    fn complaints(&mut self) -> String {
        self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// It has ended and been waited for.
    fn is_over_now(&mut self) {
        self.kill_group();
        self.is_over = true;
    }

    /// What it has started may outlive it.
    fn kill_group(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Fails where all have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
        // Fails only where it has ended already.
        let _ = self.child.wait();
    }
}

/// How soon a wish to stop is noticed.
const STOP_POLL: Duration = Duration::from_millis(50);
/// How soon the end of a program is noticed that says nothing any more.
const END_POLL: Duration = Duration::from_millis(1);
/// More than any error message takes.
const COMPLAINTS_MAX: u64 = 64 << 10;
