//! Runs the real program.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod lab;
pub mod relay;
pub mod shim;
pub mod tree;

use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The program.
pub const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// The program with nothing of the caller's environment that would change what it does.
pub fn longhaul() -> Command {
    undisturbed(Command::new(LONGHAUL))
}

/// A command that starts the program in some special way, with the same environment.
pub fn undisturbed(mut command: Command) -> Command {
    command.env_remove("LONGHAUL_TOKEN").env_remove("LONGHAUL_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Wait until `done`, which must be so soon.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not after {PATIENCE:?}");
        sleep(Duration::from_millis(2));
    }
}

/// Say that the test that asks is skipped, and why; also where the harness hides what passing tests print.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", thread.name().unwrap_or("a test"));
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

/// Run it to its end.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ended {
    Running::start(longhaul().args(args)).finish()
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

/// A run that goes on. Dropping it kills it.
pub struct Running {
    child: Child,
    /// Read as they come, so that a run that says much does not wait for us.
    streams: [Option<JoinHandle<Vec<u8>>>; 2],
}

impl Running {
    /// Start it, its output captured.
    pub fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams = [stdout.map(collect), stderr.map(collect)];
        Running { child, streams }
    }

    /// Send it a signal.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
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
        let [stdout, stderr] = self
            .streams
            .each_mut()
            .map(|stream| stream.take().and_then(|thread| thread.join().ok()).unwrap_or_default());
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

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

/// Longer than any copy of these tests takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A `longhaul serve` on a free port. Dropping it kills it.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
    token_file: PathBuf,
    _keys: tempfile::TempDir,
}

impl Server {
    /// Serve `root` on loopback, with more arguments, and wait until it listens.
    pub fn start(root: &Path, more: &[&str]) -> Server {
        Server::start_with(longhaul(), root, &[&["--listen", "127.0.0.1:0"], more].concat())
    }

    /// The same with a command of one's own making, which says where to listen.
    pub fn start_with(mut command: Command, root: &Path, more: &[&str]) -> Server {
        let keys = tempfile::tempdir().expect("a temporary folder");
        let token_file = token_file(keys.path());
        command.arg("serve").arg("--root").arg(root).arg("--token-file").arg(&token_file).args(more);
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

    /// Where it listens, TCP and UDP.
    pub fn address(&self) -> SocketAddr {
        self.url["longhaul://".len()..]
            .trim_end_matches('/')
            .parse()
            .expect("the URL holds an address and a port")
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file with its token.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// `longhaul://127.0.0.1:PORT/` and a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// `cp --json` with this server's token, not yet started.
    pub fn cp_command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.cp_by(longhaul(), args)
    }

    /// The same with a command of one's own making.
    pub fn cp_by<A: AsRef<OsStr>>(&self, mut command: Command, args: impl IntoIterator<Item = A>) -> Command {
        command.args(["cp", "--json", "--token-file"]).arg(&self.token_file).args(args);
        command
    }

    /// Run `cp --json` with this server's token.
    pub fn cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ended {
        Running::start(&mut self.cp_command(args)).finish()
    }

    /// Send it a signal.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Kill it as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Send it a signal and say how it ended.
    pub fn stop(mut self, signal: Signal) -> i32 {
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
