//! A daemon that is open to the world, and one that has too little.

use crate::common::site::Site;
use crate::common::tree::*;
use crate::common::{LONGHAUL, Running, Server, peak_memory, skip, undisturbed, wait_until};
use longhaul_proto::session::versions::Versions;
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Connections to a server that say nothing, from as many addresses.
fn silent(server: &Server, addresses: u8, each: usize) -> Vec<TcpStream> {
    let mut all = vec![];
    for n in 0..addresses as usize * each {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let from = SocketAddr::from(([127, 0, 1, (n % addresses as usize) as u8 + 1], 0));
        socket.bind(&from.into()).unwrap();
        // What is sent away meanwhile was here.
        if socket.connect(&SocketAddr::from(([127, 0, 0, 1], server.address().port())).into()).is_ok() {
            all.push(socket.into());
        }
    }
    all
}

#[test]
fn silent_strangers_keep_nobody_out() {
    let (here, there) = (folder(), folder());
    let server = Server::start(there.path(), &[]);
    write_noise(here.path().join("long"), 10_000_000, 1);
    let long = [here.path().join("long").into_os_string(), server.url("long").into(), "--rate=20mbit".into()];
    let long = Running::start(&mut server.cp_command(long));
    wait_until("it begins", || part_of(there.path().join("long")).exists());
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let many = limit.saturating_sub(200).min(10_000) as usize;
    let copy = |name: &str| {
        write(here.path().join(name), b"new");
        let began = Instant::now();
        server.cp([here.path().join(name).into_os_string(), server.url(name).into()]).expect_code(0);
        let took = began.elapsed();
        assert_same_bytes(here.path().join(name), there.path().join(name));
        took
    };
    let alone = copy("alone");
    for (addresses, each) in [(1, many), (200, many.min(2000) / 200)] {
        let strangers = silent(&server, addresses, each);
        assert!(strangers.len() > many.min(2000) / 2, "{}", strangers.len());
        let beside = copy(&format!("new-{addresses}"));
        // Who had to wait for strangers would wait for the ten seconds that each of them has to say something.
        let most = Duration::from_secs(9);
        assert!(beside < most, "{beside:?} beside {} strangers, {alone:?} without", strangers.len());
        println!("a copy took {beside:?} beside {} strangers, {alone:?} without", strangers.len());
    }
    long.finish().expect_code(0);
    let peak = peak_memory(server.id());
    assert!(peak < 256 << 20, "{peak} bytes");
}

#[test]
fn strangers_by_the_hundred_are_a_few_lines_in_the_log() {
    let site = Site::new("");
    site.add("alice", &["data=read-only"]);
    let daemon = site.serve();
    let url = daemon.url("").into_string().unwrap();
    let address: SocketAddr = url["longhaul://".len()..].trim_end_matches('/').parse().unwrap();
    let frame = [&[Versions::OURS.lowest(), 0][..], &[7; 118]].concat();
    let wrong_key = [b"LHC", &[Versions::OURS.highest()][..], &120u16.to_be_bytes(), &frame].concat();
    for (says, words) in
        [(&wrong_key[..], "refused: wrong token"), (b"GET / HTTP/1.1\r\n\r\n", "not a longhaul client")]
    {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(says).unwrap();
            // It says no, or has not read all that it closes.
            let _ = stream.read_to_end(&mut vec![]);
        }
        daemon.running.await_line(words);
    }
    // Whoever has a key gets a line for each error.
    for n in 0..3 {
        let to = daemon.url(&format!("data/{n}"));
        daemon.cp(&site.path("alice"), &["/etc/hostname".into(), to]).expect_code(1);
    }
    daemon.running.signal(Signal::INT);
    daemon.running.await_line("more were turned away");
    let said = daemon.said();
    let count = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    assert!(said.contains("from 1 address: 99 with a wrong token, 99 that are no longhaul client"), "{said}");
    assert_eq!(
        ["wrong token", "longhaul client", "turned away", "alice: "].map(count),
        [2, 2, 1, 3],
        "{said}"
    );
}

/// As this user, who may do with files what root may.
fn as_user(user: u32) -> Command {
    let mut command = undisturbed(Command::new("setpriv"));
    let caps = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
    command.arg(format!("--reuid={user}")).arg("--clear-groups").args(caps).arg("prlimit");
    command
}

#[test]
fn a_server_without_threads_to_spare_says_so_and_serves_the_next() {
    let user = 40_000 + std::process::id() % 20_000;
    let tried = as_user(user).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        return skip("a command cannot be run as another user here");
    }
    // Two threads accept connections and datagrams, one serves a connection, two its control stream, one compares, three
    // store: each time another one is missing.
    for threads in [4, 5, 6, 7, 8] {
        let (here, there) = (folder(), folder());
        write(here.path().join("file"), b"data");
        let mut command = as_user(user);
        command.arg(format!("--nproc={threads}:100")).arg(LONGHAUL);
        let server = Server::start_with(command, there.path(), &["--listen", "127.0.0.1:0"]);
        let copy = || server.cp([here.path().join("file").into_os_string(), server.url("file").into()]);
        let errors = [(); 3].map(|()| copy().expect_code(1).json()["error"].to_string());
        // Who was let in by datagrams first, and finds no thread for its connection, hears nothing of threads.
        assert!(errors.iter().any(|error| error.contains("thread")), "{threads}: {errors:?}");
        let id = server.id().to_string();
        assert!(as_user(user).args(["--nproc=100:100", "--pid", &id]).status().unwrap().success());
        copy().expect_code(0);
        assert_same_bytes(here.path().join("file"), there.path().join("file"));
    }
}
