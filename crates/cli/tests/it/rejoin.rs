//! The control connection to a daemon breaks, and the copy goes on over another one. Clients that do not come back.

use crate::common::relay::{Relay, Way};
use crate::common::sides::Sides;
use crate::common::tree::*;
use crate::common::{Ended, Running, Server, knock, wait_until};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const LEN: usize = 25_000_000;

/// A copy of a file to or from a daemon behind a relay, which takes four seconds.
struct Copying {
    sides: Sides,
    server: Server,
    relay: Relay,
    copy: Running,
}

const OBJECT: &[&str] = &["--transport=object"];
const STRIPE: &[&str] = &["--transport=stripe", "--streams=3"];

impl Copying {
    fn start(pull: bool, more: &[&str]) -> Copying {
        let sides = Sides::with_file(pull, LEN);
        let server = sides.serve();
        let relay = Relay::start(server.address());
        let args = sides.file_args(&relay.url(""), &[&["--rate=50mbit"], more].concat());
        let copy = Running::start(&mut server.cp_command(args));
        Copying { sides, server, relay, copy }
    }

    /// Wait until twice what a resume is to keep has arrived: of that only whole groups of 1 MiB count.
    fn is_under_way(&self) {
        self.sides.await_part(LEN as u64 / 5);
    }

    /// Wait for this connection of the control stream, and until it carries messages. Which of all it is.
    fn control(&mut self, number: usize) -> usize {
        let Copying { relay, copy, .. } = self;
        let is_there = || relay.controls().get(number).is_some_and(|at| relay.came(*at) > 400);
        wait_until("a control connection carries messages", || is_there() || !copy.is_running());
        assert!(is_there(), "the copy ended before");
        relay.controls()[number]
    }

    /// It ends well, in one run, and what had arrived was not sent again.
    fn assert_completes(self) {
        let json = self.copy.finish().expect_code(0).json();
        assert_same_bytes(self.sides.source(), self.sides.target());
        assert_eq!(json["resumed_bytes"], 0, "it is one and the same run: {json}");
        let [sent, required] = ["packets_sent", "packets_required"].map(|name| json[name].as_u64().unwrap());
        // A fifth had arrived, at least; a busy host takes a few that are late for lost.
        assert!(sent <= required + required / 10, "{sent} of {required}: {json}");
    }
}

#[test]
fn a_copy_goes_on_when_its_control_connection_is_reset_again_and_again() {
    for (pull, transport) in [(false, OBJECT), (true, OBJECT), (false, STRIPE), (true, STRIPE)] {
        let mut copying = Copying::start(pull, transport);
        copying.is_under_way();
        for number in 0..3 {
            let control = copying.control(number);
            copying.relay.reset(control);
        }
        copying.control(3);
        copying.assert_completes();
    }
}

#[test]
fn a_copy_of_many_files_goes_on_when_its_control_connection_is_reset_all_the_time() {
    for pull in [false, true] {
        let sides = Sides::in_memory(pull);
        for at in 0..3000 {
            write_noise(sides.from().join(format!("{at}")), 2000, at);
        }
        let server = sides.serve();
        let relay = Relay::start(server.address());
        let mut copy = Running::start(&mut server.cp_command(sides.args(relay.url(""), &["--rate=20mbit"])));
        let way = if pull { Way::ToClient } else { Way::ToServer };
        wait_until("data moves", || relay.bytes(way) > 500_000 || !copy.is_running());
        let mut resets = 0;
        while copy.is_running() {
            if let Some(last) = relay.controls().last().filter(|at| relay.came(**at) > 400) {
                relay.reset(*last);
                resets += 1;
                wait_until("another takes its place", || {
                    relay.controls().last() != Some(last) || !copy.is_running()
                });
            }
        }
        let json = copy.finish().expect_code(0).json();
        sides.assert_complete();
        assert!(resets >= 3 && json["files_failed"] == 0, "{resets}: {json}");
    }
}

#[test]
fn a_control_connection_that_swallows_all_is_replaced() {
    for pull in [false, true] {
        let mut copying = Copying::start(pull, OBJECT);
        copying.is_under_way();
        let control = copying.control(0);
        copying.relay.swallow(control);
        copying.control(1);
        let way = if pull { Way::ToClient } else { Way::ToServer };
        assert!(copying.relay.bytes(way) < LEN as u64, "not before the data was through");
        assert!(copying.relay.swallowed(control) > 0, "nothing was lost");
        copying.assert_completes();
    }
}

/// What a server says to a join: a byte, its nonce, its proof.
const WELCOME: usize = 65;
/// What a client begins a join with: magic, name, nonce.
const HELLO: usize = 44;

#[test]
fn a_reconnect_that_is_forged_or_recorded_does_the_copy_no_harm() {
    let mut copying = Copying::start(false, OBJECT);
    copying.is_under_way();
    let first = copying.control(0);
    copying.relay.reset(first);
    let second = copying.control(1);
    let recorded = copying.relay.opening(second);
    assert_eq!(recorded[..3], *b"LHR");
    // Said again, it meets another nonce.
    let (mut socket, welcome) = knock(&copying.server, &recorded[..HELLO], WELCOME);
    assert_eq!((welcome.len(), welcome[0]), (WELCOME, 0), "asked for a proof");
    socket.write_all(&recorded[HELLO..]).unwrap();
    assert_eq!(socket.read(&mut [0; 9]).unwrap_or(0), 0, "closed");
    // The server's own proof is none of the client's.
    let (mut socket, welcome) = knock(&copying.server, &recorded[..HELLO], WELCOME);
    socket.write_all(&welcome[33..]).unwrap();
    socket.write_all(&0u64.to_be_bytes()).unwrap();
    assert_eq!(socket.read(&mut [0; 9]).unwrap_or(0), 0, "closed");
    // A proof that its streams take is none for the control stream: the name of another copy is not known at all.
    let mut other = recorded[..HELLO].to_vec();
    other[4] ^= 1;
    assert_eq!(knock(&copying.server, &other, WELCOME).1, [1], "there is no such copy");
    // Connections that say half of it and stay are the strangers' affair.
    let waiting: Vec<_> = (0..50).map(|_| knock(&copying.server, &recorded[..HELLO], WELCOME)).collect();
    assert!(copying.copy.is_running());
    assert_eq!(copying.relay.controls().len(), 2, "the copy noticed nothing");
    copying.assert_completes();
    drop(waiting);
}

/// A push that was torn by a kill.
fn killed(stall: &str) -> Copying {
    let copying = Copying::start(false, &["--transport=object", stall]);
    copying.is_under_way();
    copying.copy.signal(Signal::KILL);
    copying
}

/// Start it again, which takes over what has come.
fn start_again(copying: &Copying) -> Ended {
    let ended = copying.server.cp(copying.sides.file_args(&copying.server.url(""), &[])).expect_code(0);
    assert!(ended.json()["resumed_bytes"].as_u64().unwrap() > LEN as u64 / 10, "{}", ended.stderr);
    assert_same_bytes(copying.sides.source(), copying.sides.target());
    ended
}

#[test]
fn a_copy_whose_client_was_killed_can_be_started_again_at_once() {
    start_again(&killed("--stall-timeout=1h"));
}

#[test]
fn a_daemon_does_not_wait_for_ever_for_a_client_that_was_killed() {
    let copying = killed("--stall-timeout=2s");
    wait_until("the session ends", || !copying.server.holds_part());
}

#[test]
fn a_copy_whose_host_has_vanished_can_be_started_again() {
    let copying = Copying::start(false, &["--transport=object", "--stall-timeout=1h"]);
    copying.is_under_way();
    // No packet tells the server that nobody is there any more.
    copying.relay.cut(true);
    copying.copy.signal(Signal::KILL);
    let ended = start_again(&copying);
    let lines: Vec<_> = ended.stderr.lines().filter(|line| line.contains("earlier run")).collect();
    assert!(matches!(lines[..], [line] if line.contains("waiting for it to speak")), "{}", ended.stderr);
}

#[test]
fn another_copy_to_the_same_place_ends_none_that_is_silent() {
    let sides = Sides::with_file(false, LEN);
    let server = sides.serve();
    let push = |file: &str, more: &[&str]| {
        let ends = [sides.here.path().join(file).into_os_string(), server.url("").into()];
        Running::start(&mut server.cp_command(ends.into_iter().chain(more.iter().map(OsString::from))))
    };
    let copy = push("file", &["--rate=50mbit", "--transport=object", "--stall-timeout=1h"]);
    sides.await_part(LEN as u64 / 5);
    // As a host that sleeps for a while, longer than it takes for the same copy to be given up.
    copy.signal(Signal::STOP);
    let began = Instant::now();
    write(sides.here.path().join("other"), b"another file");
    while began.elapsed() < Duration::from_secs(7) {
        push("other", &[]).finish().expect_code(0);
        std::thread::sleep(Duration::from_millis(300));
    }
    copy.signal(Signal::CONT);
    let json = copy.finish().expect_code(0).json();
    assert_eq!(json["resumed_bytes"], 0, "it is one and the same run: {json}");
    assert_same_bytes(sides.source(), sides.target());
}
