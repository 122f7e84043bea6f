//! Strangers, mistakes and hostile input: a clear line, no crash, nothing touched that should not be.

use crate::common::relay::{Relay, Way};
use crate::common::tree::*;
use crate::common::{
    Ended, LONGHAUL, Running, Server, error_of, longhaul, run, token_file, undisturbed, wait_until,
};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

// ---- the other side is not what it should be ----

/// Copy a small file to whatever listens at an address.
fn copy_to(address: SocketAddr) -> Ended {
    let here = folder();
    write(here.path().join("file"), b"data");
    let mut command = longhaul();
    command.args(["cp", "--json", "--stall-timeout=2s", "--token-file"]).arg(token_file(here.path()));
    command.arg(here.path().join("file")).arg(format!("longhaul://{address}/"));
    Running::start(&mut command).finish_within(Duration::from_secs(20))
}

/// A listener that hands its first connection to `serve`.
fn stranger(serve: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    address
}

#[test]
fn a_wrong_token_is_named() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let error = error_of(run(["cp", "--json", "/etc/hostname", &server.url("")]
        .into_iter()
        .map(OsString::from)
        .chain([OsString::from("--token-file"), other_token(there.path())])));
    assert!(error.contains("token"), "{error}");
    fs::remove_file(there.path().join("other")).unwrap();
    assert_eq!(names(there.path()), Vec::<String>::new());
}

#[test]
fn of_several_sources_one_that_is_missing_does_not_make_the_other_replace_the_destination() {
    let (here, there) = (folder(), folder());
    let server = Server::start(there.path(), &[]);
    for place in [here.path(), there.path()] {
        write(place.join("source"), b"new");
        write(place.join("precious"), b"old");
    }
    let local = |name: &str| here.path().join(name).into_os_string();
    let far = |name: &str| OsString::from(server.url(name));
    for args in [
        [local("source"), local("missing"), far("precious")],
        [far("source"), far("missing"), local("precious")],
    ] {
        let error = server.cp(&args).expect_code(1).stderr;
        assert!(error.contains("not a folder"), "{error}");
    }
    for place in [here.path(), there.path()] {
        assert_eq!(fs::read(place.join("precious")).unwrap(), b"old");
    }
    let json = server.cp([local("source"), local("missing"), far("both")]).expect_code(1).json();
    assert_eq!((&json["files_in_place"], &json["files_failed"]), (&1.into(), &1.into()), "{json}");
    assert_eq!(fs::read(there.path().join("both/source")).unwrap(), b"new");
}

/// A file with a token that is not the server's.
fn other_token(folder: &Path) -> OsString {
    let path = folder.join("other");
    write(&path, "some other token, just as long\n");
    set_mode(&path, 0o600);
    path.into_os_string()
}

#[test]
fn another_version_of_the_protocol_is_named() {
    // A server that is one ahead: zero length, reason 2, its version.
    let address = stranger(|mut socket| {
        let _ = socket.read(&mut [0; 4096]);
        let _ = socket.write_all(&[0, 0, 2, 250]);
        let _ = socket.read_to_end(&mut vec![]);
    });
    let error = error_of(copy_to(address));
    assert!(error.contains("version 250") && error.contains("newer release here"), "{error}");
    // A client that is one ahead gets the same answer from us, and the server lives on.
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.write_all(&[b'L', b'H', b'C', 250, 0, 3, 249, 2, 3]).unwrap();
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..3], [0, 0, 2]);
    assert!(answer[4] <= answer[3] && answer[3] < 249, "{answer:?}");
    server.cp([OsString::from("/etc/hostname"), server.url("").into()]).expect_code(0);
}

#[test]
fn something_else_at_that_port_is_named() {
    let web = stranger(|mut socket| {
        let _ = socket.read(&mut [0; 4096]);
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let mail = stranger(|mut socket| {
        let _ = socket.write_all(b"220 mail.example.org ESMTP\r\n");
        let _ = socket.read_to_end(&mut vec![]);
    });
    let closes = stranger(drop);
    for address in [web, mail, closes] {
        let error = error_of(copy_to(address));
        assert!(error.contains("does not answer as longhaul does"), "{error}");
    }
}

#[test]
fn a_server_that_falls_silent_in_the_handshake_is_given_up() {
    let says = |said: &'static [u8]| {
        let address = stranger(move |mut socket| {
            let _ = socket.write_all(said);
            let _ = socket.read_to_end(&mut vec![]);
        });
        let error = error_of(copy_to(address));
        assert!(error.contains("silent"), "{said:?}: {error}");
    };
    thread::scope(|scope| {
        for said in [&b""[..], b"\x00", b"\x00\x00", b"\x01\x00half of a frame"] {
            scope.spawn(move || says(said));
        }
    });
}

#[test]
fn a_closed_port_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = error_of(copy_to(address));
    assert!(error.contains("cannot reach 127.0.0.1") && error.contains("longhaul serve"), "{error}");
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    let token = folder();
    let token = token_file(token.path());
    let args = ["cp", "--json", "/etc/hostname", "longhaul://no-such-host.invalid/", "--token-file"];
    let error = error_of(run(args.into_iter().map(OsString::from).chain([token.into_os_string()])));
    assert!(error.contains("no-such-host.invalid"), "{error}");
}

// ---- sources ----

#[test]
fn unreadable_files_are_listed_and_the_others_copied() {
    let (here, there) = (folder(), folder());
    for name in ["a", "secret", "z", "locked/file"] {
        write(here.path().join("data").join(name), name);
    }
    set_mode(here.path().join("data/secret"), 0o000);
    let server = Server::start(there.path(), &[]);
    let program = here.path().join("longhaul");
    let mut command = if rustix::process::geteuid().is_root() {
        // Root reads everything, so the copy runs as nobody, who needs a program in reach.
        install(&program, fs::File::open(LONGHAUL).unwrap());
        for path in [here.path(), server.token_file().parent().unwrap()] {
            set_mode(path, 0o755);
        }
        set_mode(server.token_file(), 0o644);
        let mut command = undisturbed(Command::new(&program));
        command.uid(NOBODY).gid(NOBODY);
        command
    } else {
        longhaul()
    };
    set_mode(here.path().join("data/locked"), 0o000);
    command.current_dir("/");
    let source = inside(&here.path().join("data"));
    let mut command = server.cp_by(command, [source, server.url("copy").into()]);
    let ended = Running::start(&mut command).finish().expect_code(1);
    set_mode(here.path().join("data/locked"), 0o755);
    for name in ["secret", "locked"] {
        let line = ended.stderr.lines().find(|line| line.starts_with("error: ") && line.contains(name));
        assert!(line.is_some_and(|line| line.contains("permission denied")), "{name}: {}", ended.stderr);
    }
    let json = ended.json();
    assert_eq!((&json["ok"], &json["files_failed"]), (&false.into(), &2.into()), "{json}");
    assert_eq!(names(&there.path().join("copy")), ["a", "locked/", "z"]);
    assert_same_bytes(here.path().join("data/z"), there.path().join("copy/z"));
}

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

#[test]
fn a_source_that_is_not_there_is_named() {
    let (here, there) = (folder(), folder());
    write(here.path().join("file"), b"data");
    let server = Server::start(there.path(), &[]);
    let missing = here.path().join("missing").into_os_string();
    let error = error_of(server.cp([missing.clone(), server.url("").into()]));
    assert!(error.contains("missing") && error.contains("no such file"), "{error}");
    let error =
        error_of(server.cp([missing, here.path().join("file").into_os_string(), server.url("").into()]));
    assert!(error.contains("missing"), "{error}");
    assert_eq!(names(there.path()), ["file"], "the other source arrives");
    let error = error_of(server.cp([server.url("not/here").into(), here.path().join("x").into_os_string()]));
    assert!(error.contains("not/here"), "{error}");
    assert_eq!(names(here.path()), ["file"]);
}

/// A copy of a file that `change` is done to while it is being sent, over an older copy of it.
fn changed_midway(change: impl Fn(&Path)) {
    let (here, there) = (folder(), folder());
    for name in ["a", "z"] {
        write_noise(here.path().join(name), 100_000, 1);
    }
    // More than a sender reads ahead.
    write_noise(here.path().join("file"), 90_000_000, 2);
    write(there.path().join("file"), b"an older version");
    let server = Server::start(there.path(), &[]);
    let source = inside(here.path());
    let copy =
        Running::start(&mut server.cp_command([source, server.url("").into(), "--rate=300mbit".into()]));
    wait_until("it begins", || part_of(there.path().join("file")).exists());
    change(&here.path().join("file"));
    let error = error_of(copy.finish());
    assert!(error.contains("file") && error.contains("changed while it was being copied"), "{error}");
    assert_eq!(read(there.path().join("file")), b"an older version");
    for name in ["a", "z"] {
        assert_same_bytes(here.path().join(name), there.path().join(name));
    }
}

#[test]
fn a_source_that_shrinks_midway_fails_alone() {
    changed_midway(|file| {
        fs::OpenOptions::new().write(true).open(file).unwrap().set_len(70_000_000).unwrap()
    });
}

#[test]
fn a_source_that_grows_midway_fails_alone() {
    changed_midway(|file| {
        fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b"more").unwrap()
    });
}

// ---- destinations ----

#[test]
fn a_read_only_server_takes_nothing() {
    let (here, there) = (folder(), folder());
    write(here.path().join("file"), b"new");
    write(there.path().join("file"), b"old");
    set_mtime(there.path().join("file"), 1_000_000_000, 0);
    let server = Server::start(there.path(), &["--read-only"]);
    let error = error_of(server.cp([here.path().join("file").into_os_string(), server.url("").into()]));
    assert!(error.contains("read-only"), "{error}");
    assert_eq!(read(there.path().join("file")), b"old");
    server.cp([server.url("file").into(), here.path().join("file").into_os_string()]).expect_code(0);
    assert_eq!(read(here.path().join("file")), b"old");
}

#[test]
fn nobody_gets_out_of_the_served_folder() {
    let (here, outer) = (folder(), folder());
    let root = outer.path().join("root");
    write(root.join("inside"), b"inside");
    write(outer.path().join("secret"), b"secret");
    write(here.path().join("dir/file"), b"new");
    symlink(outer.path(), root.join("out")).unwrap();
    symlink("../secret", root.join("leak")).unwrap();
    let server = Server::start(&root, &[]);
    let before = snapshot(outer.path());
    let absolute = outer.path().to_str().unwrap();
    let escapes = ["../", "../secret", "out/", "out/new", "out/sub/new", "inside/../../x", "a/../../x"];
    for escape in escapes {
        error_of(server.cp([here.path().join("dir").into_os_string(), server.url(escape).into()]));
        error_of(server.cp([here.path().join("dir/file").into_os_string(), server.url(escape).into()]));
    }
    for escape in ["../", "../secret", "out/", "out/secret", "leak/", "inside/../../secret"] {
        error_of(server.cp([server.url(escape).into(), here.path().join("got/").into_os_string()]));
        assert!(!here.path().join("got/secret").exists(), "{escape}");
    }
    assert_eq!(snapshot(outer.path()), before);
    // A link itself may be fetched; what it points to may not.
    server.cp([server.url("leak").into(), here.path().join("leak").into_os_string()]).expect_code(0);
    assert_eq!(fs::read_link(here.path().join("leak")).unwrap(), Path::new("../secret"));
    // An absolute path begins at the served folder.
    server
        .cp([here.path().join("dir/file").into_os_string(), server.url(&format!("{absolute}/x")).into()])
        .expect_code(0);
    assert_eq!(read(root.join(format!(".{absolute}/x"))), b"new");
    assert!(!outer.path().join("x").exists());
    assert_eq!(read(outer.path().join("secret")), b"secret");
}

// ---- the network ----

#[test]
fn half_a_million_bad_datagrams_change_nothing() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 30_000_000, 1);
    let server = Server::start(there.path(), &[]);
    for pull in [false, true] {
        let (local, far) = if pull { ("back", "file") } else { ("file", "file") };
        let target = if pull { here.path().join(local) } else { there.path().join(far) };
        let mut left = [FLOOD; 3];
        // Only what comes while data flows counts: a busy host may not get it all into one copy.
        while left != [0; 3] {
            let before = left;
            let relay = Relay::start(server.address());
            let (local, far) = (here.path().join(local).into_os_string(), relay.url(far).into());
            let ends = if pull { [far, local] } else { [local, far] };
            let args = ends.into_iter().chain(["--rate=100mbit".into()]);
            let mut copy = Running::start(&mut server.cp_command(args));
            flood_while_it_runs(&mut copy, &server, &relay, &mut left);
            let json = copy.finish().expect_code(0).json();
            println!("{left:?} to go: {json}");
            assert_eq!(json["hash_verified"], true);
            assert!(left != before, "nothing came while data flowed");
            assert_same_bytes(here.path().join("file"), &target);
            if left != [0; 3] {
                fs::remove_file(&target).unwrap();
            }
        }
    }
}

/// Datagrams of one flood; three floods in each of two directions make half a million.
const FLOOD: usize = 85_000;

/// Let three floods go while a copy runs, each of as many datagrams as are `left` of it, and take off what came of them
/// before the copy's end.
fn flood_while_it_runs(copy: &mut Running, server: &Server, relay: &Relay, left: &mut [usize; 3]) {
    wait_until("data flows, and news of it", || {
        [Way::ToServer, Way::ToClient].iter().all(|way| relay.remembered(*way).len() > 50)
    });
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (over, sent) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 3]);
    let quota = |n: usize| Quota { limit: left[n], sent: &sent[n], over: &over };
    let came = thread::scope(|scope| {
        // From an address that the server does not know; from the address that the client talks to; from the address
        // that the server talks to.
        let (outside, to, first) = (&outside, server.address(), quota(0));
        scope.spawn(move || flood(relay, Way::ToServer, first, |bytes| drop(outside.send_to(bytes, to))));
        for (way, quota) in [(Way::ToServer, quota(1)), (Way::ToClient, quota(2))] {
            scope.spawn(move || flood(relay, way, quota, |bytes| relay.slip_in(way, bytes)));
        }
        let mut came = [0; 3];
        while came != *left {
            // What was sent by then was sent while it ran.
            let by_now = [0, 1, 2].map(|n| sent[n].load(Ordering::Relaxed));
            if !copy.is_running() {
                break;
            }
            came = by_now;
            sleep(Duration::from_millis(2));
        }
        over.store(true, Ordering::Relaxed);
        came
    });
    left.iter_mut().zip(came).for_each(|(left, came)| *left -= came);
}

/// How much of a flood is to be sent, has been sent, and whether that is enough.
struct Quota<'a> {
    limit: usize,
    sent: &'a AtomicUsize,
    over: &'a AtomicBool,
}

/// Noise, real datagrams again, and real ones with a few bytes changed, cut or made longer.
fn flood(relay: &Relay, way: Way, quota: Quota<'_>, send: impl Fn(&[u8])) {
    let mut rng = fastrand::Rng::with_seed(quota.limit as u64);
    let real = relay.remembered(way);
    for n in 0..quota.limit {
        if quota.over.load(Ordering::Relaxed) {
            return;
        }
        let mut datagram = real[rng.usize(..real.len())].clone();
        match n % 6 {
            0 => {}
            1 => (0..rng.usize(1..8)).for_each(|_| {
                let at = rng.usize(..datagram.len());
                datagram[at] = rng.u8(..);
            }),
            2 => datagram.truncate(rng.usize(..=datagram.len())),
            3 => datagram.extend((0..rng.usize(1..50)).map(|_| rng.u8(..))),
            // A good header before a body of noise: the number and the phase are under attack.
            4 => {
                let len = rng.usize(15..200).min(datagram.len());
                datagram.truncate(len);
                datagram[0] = rng.u8(..2);
                rng.fill(&mut datagram[9..]);
            }
            _ => {
                datagram.truncate(rng.usize(..=60));
                rng.fill(&mut datagram);
            }
        }
        send(&datagram);
        quota.sent.store(n + 1, Ordering::Relaxed);
    }
}

/// This many connections, of which the n-th says what `words` has for it and then waits.
fn connect_many(server: &Server, count: usize, words: impl Fn(usize) -> Vec<u8>) -> Vec<TcpStream> {
    let connect = |n| {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        // It may have been shown out already.
        let _ = socket.write_all(&words(n));
        socket
    };
    (0..count).map(connect).collect()
}

#[test]
fn two_hundred_strangers_do_not_keep_a_friend_out() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let strangers = connect_many(&server, 200, |n| match n % 5 {
        0 => vec![],
        1 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        2 => b"LHC\x01".to_vec(),
        3 => [b"LHC\x01\x02\x00", &noise(512, n as u64)[..]].concat(),
        _ => noise(500, n as u64),
    });
    server.cp([OsString::from("/etc/hostname"), server.url("").into()]).expect_code(0);
    drop(strangers);
}

#[test]
fn strangers_who_say_a_word_and_wait_are_shown_out() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    // More than a server takes at a time.
    let strangers = connect_many(&server, 300, |_| b"LHC\x01".to_vec());
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.cp([OsString::from("/etc/hostname"), server.url("").into()]).code != 0 {
        assert!(Instant::now() < deadline, "strangers hold all places");
        sleep(Duration::from_millis(500));
    }
    drop(strangers);
}
