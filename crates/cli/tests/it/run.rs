//! Programs that `longhaul run` has connect to other hosts, without their knowing.

use crate::common::forwarding::rest;
use crate::common::tree::folder;
use crate::common::{Ended, Running, Server, longhaul, wait_until};
use longhaul_testing::process::has_network;
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpListener;
use std::thread;

const V4: &str = "192.0.2.7";
const V6: &str = "2001:db8::7";

/// A daemon, and ports of this host that it connects to.
struct Host {
    server: Server,
    _root: tempfile::TempDir,
}

impl Host {
    fn new(allows: &[&TcpListener]) -> Host {
        let root = folder();
        let allows = allows.iter().map(|one| format!("--allow-forward={}", one.local_addr().unwrap()));
        let allows: Vec<String> = allows.collect();
        let allows: Vec<&str> = allows.iter().map(String::as_str).collect();
        Host { server: Server::start(root.path(), &allows), _root: root }
    }

    /// Run a command whose connections go to it.
    fn run(&self, command: &[&str]) -> Running {
        self.start(&["--via", self.server.url("").trim_end_matches('/')], command)
    }

    /// Run one with other arguments.
    fn start(&self, args: &[&str], command: &[&str]) -> Running {
        let mut run = longhaul();
        run.args(["run", "--token-file"]).arg(self.server.token_file()).args(args).args(command);
        Running::start(&mut run)
    }
}

/// A port that sends back what comes, whole, for ever.
fn echo(ip: &str) -> TcpListener {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let accepts = listener.try_clone().unwrap();
    thread::spawn(move || {
        for socket in accepts.incoming().flatten() {
            thread::spawn(move || {
                if let Ok(all) = rest(&socket) {
                    let _ = (&socket).write_all(&all);
                }
            });
        }
    });
    listener
}

fn port(listener: &TcpListener) -> String {
    listener.local_addr().unwrap().port().to_string()
}

/// Says to a host and port what it is told, reads all that comes, and prints the other end's address and how much that was.
const CLIENT: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
peer = s.getpeername()[:2]
s.sendall(b'x' * int(sys.argv[3]))
s.shutdown(socket.SHUT_WR)
got = 0
while data := s.recv(65536): got += len(data)
print(*peer, got)
";

fn said(ended: Ended) -> String {
    ended.expect_code(0).stdout.trim_end().to_string()
}

#[test]
fn a_program_that_knows_nothing_of_it_reaches_the_host() {
    if !has_network(&[V4, V6]) {
        return;
    }
    for ip in [V4, V6] {
        let target = echo(ip);
        let host = Host::new(&[&target]);
        let said = said(host.run(&["python3", "-c", CLIENT, ip, &port(&target), "5000000"]).finish());
        let [near, _, got] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert_eq!((near, got), (if ip == V4 { "127.0.0.1" } else { "::1" }, "5000000"));
    }
}

#[test]
fn sockets_that_do_not_wait_and_many_threads_connect_too() {
    const MANY: &str = "
import asyncio, concurrent.futures, socket, sys
at = (sys.argv[1], int(sys.argv[2]))
async def one(n):
    reader, writer = await asyncio.open_connection(*at)
    writer.write(str(n).encode()); writer.write_eof()
    assert await reader.read() == str(n).encode()
    writer.close()
async def all(): await asyncio.gather(*map(one, range(30)))
asyncio.run(all())
def two(n):
    with socket.create_connection(at) as s:
        s.sendall(str(n).encode()); s.shutdown(socket.SHUT_WR)
        assert s.recv(9, socket.MSG_WAITALL) == str(n).encode()
with concurrent.futures.ThreadPoolExecutor(30) as pool: list(pool.map(two, range(30)))
";
    if !has_network(&[V4]) {
        return;
    }
    let target = echo(V4);
    let host = Host::new(&[&target]);
    host.run(&["python3", "-c", MANY, V4, &port(&target)]).finish().expect_code(0);
}

#[test]
fn what_a_program_says_before_it_ends_arrives_however_late_it_is_read() {
    const LEN: usize = 20_000_000;
    if !has_network(&[V4]) {
        return;
    }
    let target = TcpListener::bind((V4, 0)).unwrap();
    let host = Host::new(&[&target]);
    const PARTING: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(b'x' * int(sys.argv[3]))
print('told')
";
    // What it starts asks as well.
    let script = "python3 -c \"$0\" \"$@\"; echo over";
    let mut running = host.run(&["sh", "-c", script, PARTING, V4, &port(&target), &LEN.to_string()]);
    let socket = target.accept().unwrap().0;
    wait_until("the program has ended", || running.said()[0].contains("over"));
    assert!(running.is_running());
    assert_eq!(rest(&socket).unwrap().len(), LEN);
    drop(socket);
    assert_eq!(said(running.finish()), "told\nover");
}

#[test]
fn what_the_host_refuses_is_refused_and_loopback_is_left_alone() {
    if !has_network(&[V4]) {
        return;
    }
    let (refused, here) = (echo(V4), echo("127.0.0.1"));
    let host = Host::new(&[&here]);
    let ended = host.run(&["python3", "-c", CLIENT, V4, &port(&refused), "1"]).finish().expect_code(1);
    let lines = format!("{}{}", ended.stdout, ended.stderr);
    assert!(lines.contains("ConnectionRefusedError") && lines.contains("does not forward"), "{lines}");
    let own = host.run(&["python3", "-c", CLIENT, "127.0.0.1", &port(&here), "1"]).finish();
    assert_eq!(said(own), format!("127.0.0.1 {} 1", port(&here)));
}

#[test]
fn without_a_host_named_each_is_asked_for_a_daemon_of_its_own() {
    if !has_network(&[V4, "198.51.100.7"]) {
        return;
    }
    // What one has on its loopback alone its daemon allows by that name. The other has no daemon.
    let target = echo("127.0.0.1");
    let other = echo("198.51.100.7");
    let root = folder();
    let args = [format!("--listen={V4}:7700"), format!("--allow-forward=localhost:{}", port(&target))];
    let server = Server::start_with(longhaul(), root.path(), &args.each_ref().map(String::as_str));
    let host = Host { server, _root: root };
    let run = |ip: &str, port: &str| host.start(&[], &["python3", "-c", CLIENT, ip, port, "9"]).finish();
    let through = said(run(V4, &port(&target)));
    assert!(through.starts_with("127.0.0.1 ") && through.ends_with(" 9"), "{through}");
    let direct = run("198.51.100.7", &port(&other));
    let line = format!("connections to 198.51.100.7:{} go their usual way", port(&other));
    assert!(direct.stderr.contains(&line), "{}", direct.stderr);
    assert_eq!(said(direct), format!("198.51.100.7 {} 9", port(&other)));
}

#[test]
fn it_ends_as_its_command_does() {
    let host = Host::new(&[]);
    let sh = |script: &str| host.run(&["sh", "-c", script]);
    sh("exit 7").finish().expect_code(7);
    sh("kill -9 $$").finish().expect_code(137);
    let missing = host.run(&["/no/such/program"]).finish().expect_code(127);
    assert!(missing.stderr.contains("/no/such/program: No such file"), "{}", missing.stderr);
    host.run(&["/etc/passwd"]).finish().expect_code(126);
    let told = sh("trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    wait_until("it waits", || told.said()[0].contains("ready"));
    told.signal(Signal::TERM);
    assert_eq!(told.finish().expect_code(3).stdout, "ready\ntold\n");
}
