//! A real OpenSSH server, on this host, where the program is not installed.

use super::tree::*;
use super::{Ended, Running, longhaul};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An ssh server on a free loopback port with keys of its own. Sessions get a PATH without longhaul and a cache folder of
/// the test's.
pub struct Sshd {
    child: Child,
    port: u16,
    /// Keys, configuration, the far side's cache.
    folder: tempfile::TempDir,
}

impl Sshd {
    /// `None` where there is none, which is said.
    pub fn start() -> Option<Sshd> {
        let Some(program) =
            ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())
        else {
            super::skip("no sshd here; install openssh-server");
            return None;
        };
        if rustix::process::geteuid().is_root() {
            // As the service itself does before it starts.
            fs::create_dir_all("/run/sshd").expect("/run can be written to");
        }
        let folder = folder();
        for key in ["host", "user", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(key));
            assert!(keygen.status().expect("ssh-keygen comes with ssh").success());
        }
        fs::copy(folder.path().join("user.pub"), folder.path().join("authorized")).unwrap();
        let port = port();
        let top = folder.path().display();
        // A shell that is not the first reads no start-up file of this machine: those may take a minute. What is in the folder `bin` is
        // installed there.
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {top}/host\nAuthorizedKeysFile {top}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             SetEnv XDG_CACHE_HOME={top}/cache PATH={top}/bin:/usr/bin:/bin SHLVL=2\n"
        );
        write(folder.path().join("config"), config);
        let mut command = Command::new(program);
        command.args(["-D", "-e", "-f"]).arg(folder.path().join("config"));
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("sshd starts");
        let sshd = Sshd { child, port, folder };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || fs::read_to_string(sshd.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "sshd does not come up: {}", log());
            sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    /// Break all connections: the processes that serve them are gone.
    pub fn break_sessions(&self) {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("/proc is there");
        for child in children.split_whitespace().filter_map(|id| id.parse().ok()).filter_map(Pid::from_raw) {
            kill_process(child, Signal::KILL).expect("it is ours");
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The far side's programs that were put there.
    pub fn deployed(&self) -> Vec<String> {
        let cache = self.path("cache/longhaul");
        if cache.exists() { names(&cache) } else { vec![] }
    }

    /// What stands in for `ssh`, logging in with this key.
    pub fn ssh(&self, key: &str) -> String {
        let key = self.path(key);
        format!(
            "ssh -F none -p {} -i {} -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes -o LogLevel=ERROR \
             -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            self.port,
            key.display()
        )
    }

    pub fn cp_with(&self, ssh: &str, args: &[OsString]) -> Ended {
        let mut command = longhaul();
        command.args(["cp", "--json", "--why", "--ssh", ssh]).args(args);
        Running::start(&mut command).finish()
    }

    pub fn cp(&self, args: &[OsString]) -> Ended {
        self.cp_with(&self.ssh("user"), args)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port that the kernel gives to nobody who does not ask for it by number: a server that reads its configuration
/// anew is without it for a moment.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let numbers = 20_000..32_000;
    let first = std::process::id() as usize * 64 % numbers.len();
    let mut asked = std::iter::repeat_with(|| {
        numbers.start + ((first + usize::from(NEXT.fetch_add(1, Ordering::Relaxed))) % numbers.len()) as u16
    });
    asked.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("there is always a next one")
}

/// A path on the far side.
pub fn far(path: &Path) -> OsString {
    let mut far = OsString::from("127.0.0.1:");
    far.push(path);
    far
}
