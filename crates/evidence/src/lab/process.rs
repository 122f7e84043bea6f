//! A program at an end of a path: heard line by line, and killed when it is no longer wanted.

use super::bench::Bench;
use crate::ExperimentError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running program. Dropping it kills it, and what it has started.
pub(crate) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
    /// It and all of its group are gone; their numbers may belong to others by now.
    is_over: bool,
}

/// What a program said until it ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) is_success: bool,
    /// On its standard output.
    pub(crate) said: String,
    /// The last of it on its standard error.
    pub(crate) complained: String,
}

impl Ended {
    /// The last that it complained of, or else said; for messages.
    pub(crate) fn last_words(&self) -> &str {
        let texts = [&self.complained, &self.said].into_iter();
        let mut lasts = texts.filter_map(|text| text.trim_end().lines().last()).map(str::trim);
        lasts.find(|line| !line.is_empty()).unwrap_or("it said nothing")
    }
}

impl Process {
    /// Start it. `name` is for messages.
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Process, ExperimentError> {
        // A group of its own: what it starts can be ended with it.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |reason: String| ExperimentError::Program { program: name.into(), reason };
        let mut child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || hear(stdout, &sender));
        }
        let complaints = child.stderr.take().map(|stderr| thread::spawn(move || last_of(stderr)));
        Ok(Process { name: name.into(), child, lines, complaints, is_over: false })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it says, which must come within `limit`.
    pub(crate) fn line(&mut self, bench: &Bench<'_>, limit: Duration) -> Result<String, ExperimentError> {
        self.next_line(bench, Instant::now(), limit)?.ok_or_else(|| self.ended())
    }

    /// All that it says until it ends.
    pub(crate) fn text(&mut self, bench: &Bench<'_>, limit: Duration) -> Result<String, ExperimentError> {
        let (begun, mut text) = (Instant::now(), String::new());
        while let Some(line) = self.next_line(bench, begun, limit)? {
            text = text + &line + "\n";
        }
        if text.is_empty() { Err(self.ended()) } else { Ok(text) }
    }

    /// The next line; none where it says nothing any more.
    fn next_line(
        &mut self,
        bench: &Bench<'_>,
        begun: Instant,
        limit: Duration,
    ) -> Result<Option<String>, ExperimentError> {
        loop {
            match self.lines.recv_timeout(STOP_POLL) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.check(bench, begun, limit)?,
            }
        }
    }

    /// Go on waiting for it, unless there is no use in it.
    fn check(&self, bench: &Bench<'_>, begun: Instant, limit: Duration) -> Result<(), ExperimentError> {
        bench.check()?;
        if begun.elapsed() < limit {
            return Ok(());
        }
        Err(self.failed(format!("not done after {} s", limit.as_secs())))
    }

    /// Wait until it ends, which must be within `limit`.
    pub(crate) fn end(&mut self, bench: &Bench<'_>, limit: Duration) -> Result<Ended, ExperimentError> {
        let (begun, mut said) = (Instant::now(), String::new());
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
            self.check(bench, begun, limit)?;
            thread::sleep(patience);
        };
        // What it has left behind would keep its output open.
        self.is_over_now();
        said.extend(self.lines.iter().map(|line| line + "\n"));
        Ok(Ended { is_success, said, complained: self.complaints() })
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> Result<bool, ExperimentError> {
        Ok(self.status()?.is_some())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, ExperimentError> {
        self.child.try_wait().map_err(|error| self.failed(format!("cannot be waited for: {error}")))
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// It did not do its part.
    pub(crate) fn failed(&self, reason: String) -> ExperimentError {
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

/// Hand on its lines. Whatever they are made of, and whether anybody wants them or not: a program whose output is closed
/// is killed by its next word.
fn hear(stdout: impl Read, to: &Sender<String>) {
    let (mut stdout, mut line) = (BufReader::new(stdout), vec![]);
    while stdout.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        // Fails where nobody wants them any more.
        let _ = to.send(text.strip_suffix('\r').unwrap_or(text).to_owned());
        line.clear();
    }
}

/// The last that it says, all of which is read for the same reason.
fn last_of(stderr: impl Read) -> String {
    let (mut stderr, mut last) = (BufReader::new(stderr), vec![]);
    // What cannot be read is not complained about.
    while let Ok(block @ [_, ..]) = stderr.fill_buf() {
        let len = block.len();
        last.extend_from_slice(block);
        last.drain(..last.len().saturating_sub(COMPLAINTS_MAX));
        stderr.consume(len);
    }
    String::from_utf8_lossy(&last).into_owned()
}

/// How soon a wish to stop is noticed.
const STOP_POLL: Duration = Duration::from_millis(50);
/// How soon the end of a program is noticed that says nothing any more.
const END_POLL: Duration = Duration::from_millis(1);
/// More than any error message takes, in bytes.
const COMPLAINTS_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bench::with_bench;

    fn ended(script: &str) -> Ended {
        let mut process = Process::start("sh", Command::new("sh").args(["-c", script])).unwrap();
        with_bench(None, |bench| process.end(bench, Duration::from_secs(60)).unwrap())
    }

    #[test]
    fn what_a_program_says_does_not_end_it_however_much_and_whatever_it_is() {
        let ended =
            ended("yes no | head -c 300000 >&2 && echo never >&2 && printf '\\377\\r\\n' && echo done");
        assert!(ended.is_success, "{}", ended.complained.len());
        assert_eq!(ended.said, "\u{fffd}\ndone\n");
        assert_eq!((ended.last_words(), ended.complained.len()), ("never", COMPLAINTS_MAX));
    }
}
