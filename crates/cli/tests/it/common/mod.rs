//! Runs the real program.

pub mod client;
pub mod forwarding;
pub mod lab;
pub mod mapping;
pub mod shim;
pub mod sides;
pub mod site;
pub mod small;
pub mod sshd;

pub use longhaul_testing::running::*;
pub use longhaul_testing::{PATIENCE, relay, rich, skip, tree, wait_until};

use longhaul_testing::machine::{Hold, share};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The program.
pub const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// The program with nothing of the caller's environment that would change what it does. `LONGHAUL_PROGRAM` names another
/// one than was built for the tests, such as the static one that is installed.
pub fn longhaul() -> Command {
    undisturbed(Command::new(std::env::var_os("LONGHAUL_PROGRAM").unwrap_or_else(|| LONGHAUL.into())))
}

/// Run it to its end.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ended {
    Running::start(longhaul().args(args)).finish()
}

/// The error of a copy that failed: one line, the same on standard error and in the JSON.
pub fn error_of(ended: Ended) -> String {
    let ended = ended.expect_code(1);
    let json = ended.json();
    assert_eq!(json["ok"], false);
    let error = json["error"].as_str().unwrap_or_else(|| panic!("no error in {json}")).to_string();
    assert!(!error.contains('\n') && ended.stderr.contains(&error), "{error:?} in {:?}", ended.stderr);
    error
}

/// Connect to the server, say something, and return what it answers up to its end or so many bytes.
pub fn knock(server: &Server, says: &[u8], len: usize) -> (TcpStream, Vec<u8>) {
    let mut socket = TcpStream::connect(server.address()).expect("it listens");
    socket.write_all(says).expect("it takes bytes");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut answer = vec![];
    Read::by_ref(&mut socket).take(len as u64).read_to_end(&mut answer).expect("it answers or ends");
    (socket, answer)
}

/// Peak of a process's memory in bytes.
pub fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// A `longhaul serve` on a free port. Dropping it kills it.
pub struct Server {
    child: Child,
    /// Open, so that the server can say more.
    _stdout: BufReader<ChildStdout>,
    url: String,
    token_file: PathBuf,
    _keys: tempfile::TempDir,
    _machine: Hold,
}

impl Server {
    /// Serve `root` on loopback, with more arguments, and wait until it listens.
    pub fn start(root: &Path, more: &[&str]) -> Server {
        Server::start_with(longhaul(), root, &[&["--listen", "127.0.0.1:0"], more].concat())
    }

    /// The same with a command of one's own making, which says where to listen.
    pub fn start_with(mut command: Command, root: &Path, more: &[&str]) -> Server {
        let machine = share();
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
        Server { child, _stdout: stdout, url, token_file, _keys: keys, _machine: machine }
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

    /// Whether it has a file open that is on its way.
    pub fn holds_part(&self) -> bool {
        let open = fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs").flatten();
        open.filter_map(|one| fs::read_link(one.path()).ok())
            .any(|file| file.to_string_lossy().ends_with(".longhaul-part"))
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
        // What its copies are told of it for the next ones.
        command.env("XDG_CACHE_HOME", self.token_file.with_file_name("cache"));
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
    pub fn stop(&mut self, signal: Signal) -> i32 {
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
