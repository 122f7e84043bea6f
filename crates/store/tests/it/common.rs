//! The store, the programs, and what they say.

pub use longhaul_testing::running::*;
pub use longhaul_testing::tree::{assert_same_bytes, folder, inside, noise, write, write_noise};
pub use longhaul_testing::wait_until;

use longhaul_testing::skip;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

pub const STORE: &str = env!("CARGO_BIN_EXE_longhaul-store");

/// An object store with one bucket.
pub struct Gateway {
    folder: tempfile::TempDir,
    program: PathBuf,
    address: SocketAddr,
    child: Child,
}

impl Gateway {
    /// `None`, with a line that says why, where there is none.
    pub fn start() -> Option<Gateway> {
        let Some(program) = program() else {
            skip("no versitygw here (make setup builds it where there is Go)");
            return None;
        };
        let folder = folder();
        fs::create_dir_all(folder.path().join("files/bucket")).unwrap();
        let address = own_address();
        let child = run(&program, folder.path(), address);
        let gateway = Gateway { folder, program, address, child };
        gateway.await_listening();
        Some(gateway)
    }

    fn await_listening(&self) {
        wait_until("the store listens", || TcpStream::connect(self.address).is_ok());
    }

    /// It is away from now on.
    pub fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// It is back.
    pub fn restart(&mut self) {
        self.child = run(&self.program, self.folder.path(), self.address);
        self.await_listening();
    }

    /// What it keeps: the file of an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.folder.path().join("files/bucket").join(key)
    }

    /// The keys below a prefix, sorted.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let top = self.file(prefix);
        let mut found = vec![];
        let mut folders = vec![top.clone()];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(folder).into_iter().flatten() {
                let item = item.unwrap();
                let key = item.path().strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
                if item.file_type().unwrap().is_dir() {
                    folders.push(item.path());
                    found.push(key + "/");
                } else {
                    found.push(key);
                }
            }
        }
        found.sort();
        found
    }

    /// The parts that it has stored so far, by their numbers, in order.
    pub fn parts(&self) -> Vec<u32> {
        let log = String::from_utf8_lossy(&fs::read(self.log()).unwrap()).into_owned();
        let number = |line: &str| -> Option<u32> {
            let rest = line.contains("| 200 |").then(|| line.split_once("partNumber="))??.1;
            rest.split('&').next()?.parse().ok()
        };
        log.lines().filter_map(number).collect()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// What programs are to know of it.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ACCESS_KEY_ID", KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.into()),
        ]
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what the store was asked:\n{}", fs::read_to_string(self.log()).unwrap_or_default());
        }
    }
}

/// An address that nobody else has, at a port that the kernel gives to nobody: what is free now may be taken before a store listens.
fn own_address() -> SocketAddr {
    static GATEWAYS: AtomicU8 = AtomicU8::new(1);
    let [.., third, last] = std::process::id().to_be_bytes();
    let second = GATEWAYS.fetch_add(1, Ordering::Relaxed);
    (Ipv4Addr::new(127, second, third, last), 7070).into()
}

fn run(program: &Path, folder: &Path, address: SocketAddr) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    Command::new(program)
        .args(["--port", &address.to_string(), "--keep-alive", "posix"])
        .arg(folder.join("files"))
        .env("ROOT_ACCESS_KEY_ID", KEY)
        .env("ROOT_SECRET_ACCESS_KEY", SECRET)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Where tools are built, or on the PATH.
fn program() -> Option<PathBuf> {
    let tools = std::env::var_os("TOOLS").map(PathBuf::from).unwrap_or_else(|| "target/tools".into());
    // Tests run in the folder of their crate.
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(tools).join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [tools].into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join("versitygw")).find(|program| program.is_file())
}

/// The program that copies: beside the other.
pub fn longhaul() -> Command {
    let program = PathBuf::from(STORE).with_file_name("longhaul");
    assert!(
        program.is_file(),
        "{} is missing; build it with: cargo build -p longhaul-cli",
        program.display()
    );
    undisturbed(Command::new(program))
}

/// A daemon that serves a folder of the bucket.
pub struct Daemon {
    running: Running,
    state: PathBuf,
    url: String,
}

impl Daemon {
    /// Serve `s3://bucket/a/b`. `state`: what it is to keep from one start to the next. `None`, with a line that says why,
    /// where nothing can be mounted.
    pub fn start(gateway: &Gateway, state: &Path) -> Option<Daemon> {
        Daemon::start_with(longhaul().envs(gateway.environment()), state)
    }

    /// The same with an environment of one's own making.
    pub fn start_with(command: &mut Command, state: &Path) -> Option<Daemon> {
        command.args(["serve", "--listen", "127.0.0.1:0", "--root", "s3://bucket/a/b"]);
        command.env("XDG_STATE_HOME", state).env("LONGHAUL_TOKEN", TOKEN);
        let mut running = Running::start(command);
        let said = |running: &Running| {
            let [stdout, _] = running.said();
            let url = stdout
                .lines()
                .find_map(|line| line.split_whitespace().find(|w| w.starts_with("longhaul://")))?;
            Some(url[..=url.rfind('/')?].to_owned())
        };
        wait_until("the daemon listens or ends", || said(&running).is_some() || !running.is_running());
        let Some(url) = said(&running) else {
            let ended = running.finish();
            assert!(ended.stderr.contains("cannot be mounted"), "{}", ended.stderr);
            skip(ended.stderr.trim());
            return None;
        };
        Some(Daemon { running, state: state.into(), url })
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// `cp --json`, not yet started.
    pub fn cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = longhaul();
        command.args(["cp", "--json"]).args(args).env("LONGHAUL_TOKEN", TOKEN);
        // Its own memory of hosts.
        command.env("XDG_CACHE_HOME", self.state.join("client"));
        command.env("XDG_STATE_HOME", self.state.join("client"));
        command
    }

    /// Copy, and fail the test unless that goes well.
    pub fn copy<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> serde_json::Value {
        self.await_success(Running::start(&mut self.cp(args))).json()
    }

    /// Fail the test unless a copy ends well.
    pub fn await_success(&self, copy: Running) -> Ended {
        let ended = copy.finish();
        assert_eq!(ended.code, 0, "{}\nthe daemon: {}", ended.stderr, self.running.said()[1]);
        ended
    }

    /// The program that it has started.
    pub fn store(&self) -> u32 {
        let parent_of = |id: u32| -> Option<u32> {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        let all = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|item| item.unwrap().file_name().to_str()?.parse().ok());
        all.into_iter().find(|id| parent_of(*id) == Some(self.running.id())).expect("it runs")
    }

    /// How it ends.
    pub fn finish(self) -> Ended {
        self.running.finish()
    }

    /// It goes at once, and what it has started with it.
    pub fn kill(self) {
        let state = self.state.clone();
        self.running.signal(Signal::KILL);
        drop(self);
        let left = || processes_with("XDG_STATE_HOME", &state);
        wait_until("longhaul-store ends with its daemon", || left() == 0);
    }
}

const KEY: &str = "key";
const SECRET: &str = "a secret for tests";
const TOKEN: &str = "a token for tests, long enough";
