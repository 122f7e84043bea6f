//! Runs the real program.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program with nothing of the caller's environment that would change what it does.
pub fn longhaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.env_remove("LONGHAUL_TOKEN").env_remove("LONGHAUL_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Run it to its end.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ended {
    Ended::of(longhaul().args(args).output().expect("the program starts"))
}

/// A run that has ended.
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

/// A `longhaul serve` on a free loopback port. Dropping it kills it.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
    token_file: PathBuf,
    _keys: tempfile::TempDir,
}

impl Server {
    /// Serve `root`, with more arguments, and wait until it listens.
    pub fn start(root: &Path, more: &[&str]) -> Server {
        let keys = tempfile::tempdir().expect("a temporary folder");
        let token_file = token_file(keys.path());
        let mut command = longhaul();
        command.arg("serve").arg("--root").arg(root).args(["--listen", "127.0.0.1:0"]);
        command.arg("--token-file").arg(&token_file).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its standard output is a pipe"));
        let url = stdout.by_ref().lines().map_while(Result::ok).find_map(|line| {
            let from = line.find("longhaul://")?;
            let url = line[from..].split_whitespace().next()?;
            Some(url[..=url.rfind('/')?].to_string())
        });
        let url = url.unwrap_or_else(|| panic!("the server ended: {:?}", child.wait()));
        Server { child, stdout, url, token_file, _keys: keys }
    }

    /// `longhaul://127.0.0.1:PORT/` and a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// `cp --json` with this server's token, not yet started.
    pub fn cp_command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = longhaul();
        command.args(["cp", "--json", "--token-file"]).arg(&self.token_file).args(args);
        command
    }

    /// Run `cp --json` with this server's token.
    pub fn cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ended {
        Ended::of(self.cp_command(args).output().expect("the program starts"))
    }

    /// Send it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        send(&self.child, signal);
    }

    /// Send it a signal and say how it ended.
    pub fn stop(mut self, signal: rustix::process::Signal) -> i32 {
        self.signal(signal);
        wait(&mut self.child, Duration::from_secs(10))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fresh token in a file that only its owner can read.
pub fn token_file(folder: &Path) -> PathBuf {
    let path = folder.join("token");
    fs::write(&path, "a token for tests, long enough\n").expect("the token file can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
    path
}

/// Send a signal to a child.
pub fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a child has an id");
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
        std::thread::sleep(Duration::from_millis(10));
    }
}
