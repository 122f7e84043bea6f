//! `longhaul forward`, and programs that it forwards connections of.

use super::{Running, Server, longhaul, wait_until};
use socket2::SockRef;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A `longhaul forward` that listens. Dropping it kills it.
pub struct Forwarding {
    pub running: Running,
    /// Its ports, as they were asked for.
    pub ports: Vec<SocketAddr>,
}

impl Forwarding {
    /// Through a daemon to ports of loopback.
    pub fn start(server: &Server, to: &[u16]) -> Forwarding {
        let mut command = longhaul();
        let to: Vec<String> = to.iter().map(|port| format!("localhost:{port}")).collect();
        forward_args(&mut command, server.token_file(), &to, server.url("").trim_end_matches('/'));
        Forwarding::run(&mut command, to.len())
    }

    /// With a command of one's own making, which asks for so many ports.
    pub fn run(command: &mut Command, ports: usize) -> Forwarding {
        let mut running = Running::start(command);
        let lines = |running: &Running| running.said()[0].lines().map(String::from).collect::<Vec<_>>();
        wait_until("it listens", || lines(&running).len() == ports || !running.is_running());
        let said = lines(&running);
        assert_eq!(said.len(), ports, "{:?}", running.said());
        let address = |line: &String| line.split(' ').next().unwrap().parse().unwrap();
        Forwarding { ports: said.iter().map(address).collect(), running }
    }

    /// A program that connects to its first port.
    pub fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.ports[0]).expect("it listens"))
    }

    /// Sockets that it has open.
    pub fn sockets(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.running.id())).expect("it runs").flatten();
        let links = open.filter_map(|one| std::fs::read_link(one.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }
}

/// What `longhaul forward` is told to have any port lead to each of these.
pub fn forward_args(command: &mut Command, token_file: &Path, to: &[String], host: &str) {
    command.arg("forward").arg("--token-file").arg(token_file);
    for to in to {
        command.args(["-L", &format!("0:{to}")]);
    }
    command.arg(host);
}

/// A program that is connected to.
pub struct Target {
    listener: TcpListener,
}

impl Target {
    pub fn new() -> Target {
        Target { listener: TcpListener::bind("127.0.0.1:0").expect("loopback is there") }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("it is bound").port()
    }

    /// What lets a daemon connect to it.
    pub fn allowed(&self) -> String {
        format!("--allow-forward=localhost:{}", self.port())
    }

    /// A daemon that does, for no files.
    pub fn serve(&self) -> (Server, tempfile::TempDir) {
        let root = super::tree::folder();
        (Server::start(root.path(), &[&self.allowed()]), root)
    }

    pub fn accept(&self) -> TcpStream {
        patient(self.listener.accept().expect("somebody connects").0)
    }
}

/// One that waits for long, but not for ever.
fn patient(socket: TcpStream) -> TcpStream {
    socket.set_read_timeout(Some(super::PATIENCE)).expect("a timeout can be set");
    socket
}

/// Close a connection as a program that dies of a bug does.
pub fn reset(socket: TcpStream) {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("it is open");
}

/// All that comes, if it comes to an end.
pub fn rest(mut socket: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    socket.read_to_end(&mut bytes).map(|_| bytes)
}
