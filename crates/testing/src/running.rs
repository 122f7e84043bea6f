//! Programs that run, and how they end.

use crate::machine::{Hold, share};
use crate::{PATIENCE, skip};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A command that starts the program in some special way, with the same environment.
pub fn undisturbed(mut command: Command) -> Command {
    command.env_remove("LONGHAUL_TOKEN").env_remove("LONGHAUL_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Processes with this in their environment: a namespace of a lab lives as long as one of them.
pub fn processes_with(name: &str, value: &Path) -> usize {
    let mark = format!("{name}={}\0", value.display());
    let environments = fs::read_dir("/proc").expect("/proc can be read").filter_map(|entry| {
        let environment = fs::read(entry.ok()?.path().join("environ")).ok()?;
        Some(String::from_utf8_lossy(&environment).into_owned())
    });
    environments.filter(|environment| environment.contains(&mark)).count()
}

/// Whether no lab can be made here, for one of these reasons, which is said.
pub fn is_without(reasons: &[&str], ended: &Ended) -> bool {
    let without = ended.code == 1 && reasons.iter().any(|reason| ended.stderr.contains(reason));
    if without {
        skip(ended.stderr.trim_end());
    }
    without
}

/// A run that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// From what was captured. No run may panic, whatever a test is about.
    pub fn of(output: Output) -> Ended {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let ended = Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended
    }

    /// The object on the last line of standard output.
    pub fn json(&self) -> serde_json::Value {
        let line = self.stdout.lines().last().unwrap_or_else(|| panic!("no JSON; stderr: {}", self.stderr));
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Fail the test unless it ended with this status.
    pub fn expect_code(self, code: i32) -> Ended {
        assert_eq!(self.code, code, "\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// Start a program that this test may just have written: for as long as a child that another thread is about to start has not begun
/// its own program it holds a copy of the descriptor that was written to, and the system starts nothing that is being written.
fn spawn(command: &mut Command) -> Child {
    let until = Instant::now() + PATIENCE;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < until => {
                sleep(Duration::from_millis(1));
            }
            started => return started.expect("the program starts"),
        }
    }
}

/// A run that goes on. Dropping it kills it.
pub struct Running {
    child: Child,
    /// What it says: into files, so that a run that says much does not wait for us, and what it has said is there at once.
    streams: [File; 2],
    _machine: Hold,
}

impl Running {
    /// Start it, its output captured.
    pub fn start(command: &mut Command) -> Running {
        let machine = share();
        let streams = [(); 2].map(|()| tempfile::tempfile().expect("a file can be made"));
        let [stdout, stderr] =
            streams.each_ref().map(|file| file.try_clone().expect("a descriptor is to be had"));
        let child = spawn(command.stdout(stdout).stderr(stderr));
        Running { child, streams, _machine: machine }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Send it a signal.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// What it has said so far on standard output, and on standard error.
    pub fn said(&self) -> [String; 2] {
        self.streams.each_ref().map(|stream| String::from_utf8_lossy(&read(stream)).into_owned())
    }

    /// Wait until it says this on standard error.
    pub fn await_line(&self, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let [_, stderr] = self.said();
            if stderr.contains(part) {
                break;
            }
            assert!(Instant::now() < deadline, "{part}: not after {PATIENCE:?}, but: {stderr}");
            sleep(Duration::from_millis(2));
        }
    }

    /// Wait for its end, which must come within `limit`.
    pub fn finish_within(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        while self.is_running() && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        let late = self.is_running();
        if late {
            let _ = self.child.kill();
        }
        let status = self.child.wait().expect("a child can be waited for");
        let [stdout, stderr] = self.streams.each_ref().map(read);
        let ended = Ended::of(Output { status, stdout, stderr });
        assert!(!late, "still running after {limit:?}; stderr: {}", ended.stderr);
        ended
    }

    /// Wait for its end, which must come soon.
    pub fn finish(self) -> Ended {
        self.finish_within(PATIENCE)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of it, wherever the run writes next.
fn read(said: &File) -> Vec<u8> {
    let len = said.metadata().expect("a file has a length").len();
    let mut all = vec![0; len as usize];
    said.read_exact_at(&mut all, 0).expect("it only grows");
    all
}

/// A fresh token in a file that only its owner can read.
pub fn token_file(folder: &Path) -> PathBuf {
    let path = folder.join("token");
    fs::write(&path, "a token for tests, long enough\n").expect("the token file can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
    path
}

/// Send a signal to a child.
pub fn send(child: &Child, signal: Signal) {
    send_to(child.id(), signal);
}

/// Send a signal to a child by its id.
pub fn send_to(id: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(id.cast_signed()).expect("a child has an id");
    rustix::process::kill_process(pid, signal).expect("the child is there");
}

/// Wait for a child's exit status (-1: a signal ended it).
pub fn wait(child: &mut Child, limit: Duration) -> i32 {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => return status.code().unwrap_or(-1),
            None => assert!(Instant::now() < deadline, "still running after {limit:?}"),
        }
        sleep(Duration::from_millis(10));
    }
}
