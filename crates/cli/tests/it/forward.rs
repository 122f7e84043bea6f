//! Other programs' connections through `longhaul forward` and `longhaul connect`.

use crate::common::forwarding::{Forwarding, Target, forward_args, reset, rest};
use crate::common::site::Site;
use crate::common::sshd::Sshd;
use crate::common::tree::*;
use crate::common::{LONGHAUL, PATIENCE, Running, Server, longhaul, run, wait_until};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// What is between a program and what it is connected to.
struct Between {
    forwarding: Forwarding,
    server: Server,
    _root: tempfile::TempDir,
}

/// A program's connection, and the other end of it.
fn joined() -> (TcpStream, TcpStream, Between) {
    let target = Target::new();
    let (server, root) = target.serve();
    let forwarding = Forwarding::start(&server, &[target.port()]);
    let near = forwarding.connect();
    (near, target.accept(), Between { forwarding, server, _root: root })
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

#[test]
fn each_direction_ends_by_itself_and_nothing_is_changed() {
    let (near, far, _between) = joined();
    let (question, answer) = (noise(30_000_000, 1), noise(20_000_000, 2));
    thread::scope(|scope| {
        scope.spawn(|| {
            (&near).write_all(&question).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let got = rest(&far).unwrap();
        assert!(blake3::hash(&got) == blake3::hash(&question), "{} bytes came", got.len());
        // The asking program reads on although it has said all.
        scope.spawn(|| {
            (&far).write_all(&answer).unwrap();
            far.shutdown(Shutdown::Write).unwrap();
        });
        let got = rest(&near).unwrap();
        assert!(blake3::hash(&got) == blake3::hash(&answer), "{} bytes came", got.len());
    });
}

#[test]
fn what_says_little_says_it_at_once_over_one_connection() {
    let (mut near, mut far, between) = joined();
    let at_first = between.forwarding.sockets();
    let mut word = [0; 5];
    for _ in 0..200 {
        near.write_all(b"hello").unwrap();
        far.read_exact(&mut word).unwrap();
        far.write_all(&word).unwrap();
        near.read_exact(&mut word).unwrap();
    }
    assert_eq!(between.forwarding.sockets(), at_first, "no further connection was opened");
}

#[test]
fn a_reset_is_no_end_in_either_direction() {
    for far_breaks in [false, true] {
        let (near, far, _between) = joined();
        let (breaks, mut sees) = if far_breaks { (far, near) } else { (near, far) };
        (&breaks).write_all(b"half of it").unwrap();
        let mut half = [0; 10];
        sees.read_exact(&mut half).unwrap();
        reset(breaks);
        assert_eq!(rest(&sees).unwrap_err().kind(), ErrorKind::ConnectionReset, "{far_breaks}");
    }
}

#[test]
fn whoever_does_not_read_holds_up_whoever_writes() {
    let (mut near, far, between) = joined();
    near.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let piece = noise(1 << 20, 1);
    let mut taken = 0;
    // Buffers of sockets and streams, and no more.
    let held = loop {
        match near.write(&piece) {
            Ok(len) => taken += len,
            Err(error) => break error.kind(),
        }
        assert!(taken < 400 << 20, "it takes all that is written");
    };
    assert_eq!(held, ErrorKind::WouldBlock);
    assert!(crate::common::peak_memory(between.server.id()) < 250 << 20);
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&far).unwrap().len(), taken);
}

#[test]
fn a_target_that_is_away_is_told_and_the_connection_reset() {
    // Nobody listens there, and nobody else gets the port.
    let away = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    away.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let port = away.local_addr().unwrap().as_socket().unwrap().port();
    let root = folder();
    let server = Server::start(root.path(), &[&format!("--allow-forward=localhost:{port}")]);
    let forwarding = Forwarding::start(&server, &[port]);
    let near = forwarding.connect();
    assert_eq!(rest(&near).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let line = format!("cannot connect to localhost:{port}");
    forwarding.running.await_line(&line);
    let ended = Running::start(connect(&server, port).stdin(Stdio::null())).finish().expect_code(1);
    assert!(ended.stderr.contains(&line) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
}

#[test]
fn what_is_allowed_by_name_may_be_asked_for_by_address() {
    let target = Target::new();
    let (server, _root) = target.serve();
    let mut command = longhaul();
    let to = format!("127.0.0.1:{}", target.port());
    forward_args(&mut command, server.token_file(), &[to], server.url("").trim_end_matches('/'));
    let forwarding = Forwarding::run(&mut command, 1);
    let near = forwarding.connect();
    (&near).write_all(b"by address").unwrap();
    let far = target.accept();
    let mut got = [0; 10];
    (&far).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"by address");
}

#[test]
fn what_the_daemon_was_not_told_to_allow_is_refused_before_anything_listens() {
    let (allowed, other) = (Target::new(), Target::new());
    let (server, root) = allowed.serve();
    let refused = |server: &Server, to: &str| {
        let mut command = longhaul();
        forward_args(&mut command, server.token_file(), &[to.into()], server.url("").trim_end_matches('/'));
        let ended = Running::start(&mut command).finish().expect_code(1);
        assert!(ended.stdout.is_empty() && ended.stderr.lines().count() == 1, "{ended:?}");
        ended.stderr
    };
    let line = refused(&server, &format!("localhost:{}", other.port()));
    assert!(line.contains("does not forward to localhost"), "{line}");
    // What is allowed by name is allowed by its address, and by no other.
    assert!(refused(&server, &format!("127.0.0.2:{}", allowed.port())).contains("does not forward"));
    assert!(refused(&server, &format!("127.0.0.1:{}", other.port())).contains("does not forward"));
    let closed = Server::start(root.path(), &[]);
    let line = refused(&closed, &format!("localhost:{}", allowed.port()));
    assert!(line.contains("forwards nothing"), "{line}");
}

#[test]
fn a_wrong_token_opens_nothing_and_is_named() {
    let target = Target::new();
    let (server, _root) = target.serve();
    let folder = folder();
    let wrong = folder.path().join("token");
    write(&wrong, b"a secret that nobody has");
    set_mode(&wrong, 0o600);
    let mut command = longhaul();
    let to = format!("localhost:{}", target.port());
    forward_args(&mut command, &wrong, &[to], server.url("").trim_end_matches('/'));
    let ended = Running::start(&mut command).finish().expect_code(1);
    assert!(ended.stderr.contains("does not accept the token"), "{}", ended.stderr);
}

#[test]
fn many_connections_go_at_a_time_to_several_targets() {
    let targets = [Target::new(), Target::new()];
    let root = folder();
    let allowed: Vec<String> = targets.iter().map(Target::allowed).collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    let server = Server::start(root.path(), &allowed);
    let forwarding = Forwarding::start(&server, &targets.each_ref().map(Target::port));
    let mut pairs = vec![];
    for n in 0..60 {
        let mut near = TcpStream::connect(forwarding.ports[n % 2]).unwrap();
        near.set_read_timeout(Some(PATIENCE)).unwrap();
        near.write_all(&[n as u8]).unwrap();
        pairs.push((near, targets[n % 2].accept()));
    }
    for (near, mut far) in pairs {
        let mut byte = [0];
        far.read_exact(&mut byte).unwrap();
        far.write_all(&byte).unwrap();
        drop(far);
        assert_eq!(rest(&near).unwrap(), byte);
    }
}

#[test]
fn a_daemon_that_dies_midway_breaks_the_connection_and_does_not_end_it() {
    let (near, far, mut between) = joined();
    (&far).write_all(b"half of it").unwrap();
    let mut half = [0; 10];
    (&near).read_exact(&mut half).unwrap();
    between.server.kill();
    for side in [&near, &far] {
        assert_eq!(rest(side).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    between.forwarding.running.await_line("a connection broke off after 0 bytes there and 10 back");
}

#[test]
fn a_client_that_dies_midway_breaks_the_connection_and_does_not_end_it() {
    let (near, far, between) = joined();
    (&near).write_all(b"half of it").unwrap();
    let mut half = [0; 10];
    (&far).read_exact(&mut half).unwrap();
    drop(between.forwarding);
    for side in [&near, &far] {
        assert_eq!(rest(side).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn who_takes_the_rest_late_gets_all_of_it() {
    let (near, far, _between) = joined();
    near.shutdown(Shutdown::Write).unwrap();
    // More than both streams' buffers and both sockets' hold.
    let answer = noise(100_000_000, 3);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&far).write_all(&answer).unwrap();
            far.shutdown(Shutdown::Write).unwrap();
        });
        // Longer than a stream that says nothing is waited for.
        thread::sleep(Duration::from_secs(12));
        let got = rest(&near).unwrap();
        assert!(blake3::hash(&got) == blake3::hash(&answer), "{} bytes came", got.len());
    });
}

#[test]
fn a_daemon_that_is_told_to_end_does_not_wait_for_forwarded_connections() {
    let (near, far, mut between) = joined();
    assert_eq!(between.server.stop(Signal::TERM), 0);
    for side in [near, far] {
        assert_eq!(rest(&side).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

/// `longhaul connect` to a port beside the server.
fn connect(server: &Server, port: u16) -> Command {
    let mut command = longhaul();
    command.args(["connect", "--token-file"]).arg(server.token_file());
    command.arg(format!("longhaul://{}:{port}", server.address()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn connect_is_a_connection_by_its_standard_streams() {
    let target = Target::new();
    let (server, _root) = target.serve();
    let mut child = connect(&server, target.port()).spawn().unwrap();
    let mut far = target.accept();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    stdin.write_all(b"hello").unwrap();
    let mut word = [0; 5];
    far.read_exact(&mut word).unwrap();
    far.write_all(b"there").unwrap();
    stdout.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"there");
    // The other side's end is seen while this one is still open.
    far.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stdout.read(&mut word).unwrap(), 0);
    stdin.write_all(b"bye").unwrap();
    drop(stdin);
    assert_eq!(rest(&far).unwrap(), b"bye");
    assert!(child.wait().unwrap().success());
}

#[test]
fn connect_tells_a_break_from_an_end() {
    let target = Target::new();
    let (server, _root) = target.serve();
    let mut child = connect(&server, target.port()).spawn().unwrap();
    let mut far = target.accept();
    // Before that the daemon may not know yet that it is connected.
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    far.read_exact(&mut [0]).unwrap();
    reset(far);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("broke") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn users_may_connect_where_the_configuration_says_and_each_connection_is_noted() {
    let (target, other) = (Target::new(), Target::new());
    let allow = format!("allow-forward = [\"localhost:{}\"]\naudit = \"audit.jsonl\"", target.port());
    let site = Site::new(&allow);
    site.add("alice", &["data"]);
    let daemon = site.serve();
    let host = daemon.url("").into_string().unwrap();
    let host = host.trim_end_matches('/');
    let connect = |port: u16| {
        let mut command = longhaul();
        command.args(["connect", "--token-file"]).arg(site.path("alice"));
        Running::start(command.args(["--via", host]).arg(format!("localhost:{port}")))
    };
    let connected = connect(target.port());
    let mut far = target.accept();
    assert_eq!(rest(&far).unwrap(), b"", "its standard input is empty");
    far.write_all(b"welcome").unwrap();
    drop(far);
    assert_eq!(connected.finish().expect_code(0).stdout, "welcome");
    let refused = connect(other.port()).finish().expect_code(1);
    assert!(refused.stderr.contains("does not forward"), "{}", refused.stderr);
    let lines = || {
        let text = fs::read_to_string(site.path("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).collect::<Vec<_>>()
    };
    wait_until("both are noted", || lines().len() == 2);
    let [ended, failed] = &lines()[..] else { panic!("two were noted") };
    assert_eq!((&ended["user"], &ended["outcome"]), (&"alice".into(), &"ended".into()), "{ended}");
    assert_eq!(ended["forward"], format!("localhost:{}", target.port()), "{ended}");
    assert_eq!((&ended["bytes_there"], &ended["bytes_back"]), (&0.into(), &7.into()), "{ended}");
    assert_eq!((&failed["outcome"], &failed["bytes_back"]), (&"failed".into(), &0.into()), "{failed}");
}

#[test]
fn what_is_forwarded_keeps_to_the_daemons_rate() {
    let target = Target::new();
    let root = folder();
    let server = Server::start(root.path(), &[&target.allowed(), "--max-rate=80mbit"]);
    let forwarding = Forwarding::start(&server, &[target.port()]);
    let near = forwarding.connect();
    let far = target.accept();
    let began = std::time::Instant::now();
    thread::spawn(move || (&far).write_all(&noise(10_000_000, 1)));
    assert_eq!(rest(&near).unwrap().len(), 10_000_000);
    assert!(began.elapsed().as_secs_f64() > 0.9, "faster than it may");
}

#[test]
fn over_ssh_any_port_that_the_far_side_reaches_is_there() {
    let Some(sshd) = Sshd::start() else { return };
    let target = Target::new();
    let mut command = longhaul();
    let to = format!("0:localhost:{}", target.port());
    command.args(["forward", "-L", &to, "--ssh", &sshd.ssh("user"), "127.0.0.1"]);
    let forwarding = Forwarding::run(&mut command, 1);
    for word in [b"first", b"other"] {
        let near = forwarding.connect();
        let mut far = target.accept();
        far.write_all(word).unwrap();
        drop(far);
        assert_eq!(rest(&near).unwrap(), word);
    }
    // The far side goes with this one.
    forwarding.running.signal(Signal::TERM);
    forwarding.running.finish().expect_code(0);
    // And this one with the far side.
    let forwarding = Forwarding::run(&mut command, 1);
    sshd.break_sessions();
    let ended = forwarding.running.finish().expect_code(1);
    assert!(ended.stderr.contains("ssh has ended"), "{}", ended.stderr);
    // A key that is good for copies alone is good for no forwards.
    let key = fs::read_to_string(sshd.path("user.pub")).unwrap();
    let agent = format!("{LONGHAUL} agent --root {}", sshd.path("cache").display());
    write(sshd.path("authorized"), format!("restrict,command=\"{agent}\" {key}"));
    let refused = run(["forward", "-L", &to, "--ssh", &sshd.ssh("user"), "127.0.0.1"]).expect_code(1);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("127.0.0.1"), "{refused:?}");
}

#[test]
fn git_clones_through_a_forwarded_port() {
    if Command::new("git").arg("--version").output().is_err() {
        return crate::common::skip("no git here");
    }
    let folder = folder();
    let bare = folder.path().join("bare.git");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(args);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q", "work"]);
    write_noise(folder.path().join("work/file"), 3_000_000, 1);
    git(&["-C", "work", "add", "."]);
    git(&["-C", "work", "commit", "-q", "-m", "a file"]);
    git(&["clone", "-q", "--bare", "work", "bare.git"]);
    fs::write(bare.join("git-daemon-export-ok"), "").unwrap();
    // As inetd does for git: a process for each connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let base = folder.path().display().to_string();
    let serve = thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let fd = || Stdio::from(std::os::fd::OwnedFd::from(socket.try_clone().unwrap()));
        let mut daemon = Command::new("git");
        daemon.args(["daemon", "--inetd", &format!("--base-path={base}")]).stdin(fd()).stdout(fd());
        daemon.status().unwrap()
    });
    let root = crate::common::tree::folder();
    let server = Server::start(root.path(), &[&format!("--allow-forward=localhost:{port}")]);
    let forwarding = Forwarding::start(&server, &[port]);
    git(&["clone", "-q", &format!("git://{}/bare.git", forwarding.ports[0]), "copy"]);
    assert_same_bytes(folder.path().join("work/file"), folder.path().join("copy/file"));
    assert!(serve.join().unwrap().success());
}

#[test]
fn what_makes_no_sense_is_refused_with_a_line() {
    for (args, says) in [
        (&["forward", "far"][..], "-L"),
        (&["forward", "-L", "8080:db", "far"], "TARGET"),
        (&["forward", "-L", "0:db:80", "a/b"], "no host"),
        (&["connect", "far"], "HOST:PORT"),
        (&["connect", "--via", "far", "db"], "HOST:PORT"),
        (&["connect", "longhaul://far:22"], "LONGHAUL_TOKEN"),
        (&["serve", "--root", ".", "--allow-forward", "db"], "HOST:PORT"),
    ] {
        let ended = run(args).expect_code(2);
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    }
}
