//! Copies over parallel TCP connections that break, and among strangers who knock at the same port.

use crate::common::relay::Relay;
use crate::common::sides::Sides;
use crate::common::tree::*;
use crate::common::{Running, Server, knock, wait_until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;

const LEN: usize = 25_000_000;

/// A daemon, and a file to push to it.
struct Pushed {
    sides: Sides,
    server: Server,
}

impl Pushed {
    fn new() -> Pushed {
        let sides = Sides::with_file(false, LEN);
        let server = sides.serve();
        Pushed { sides, server }
    }

    /// Start a push to `url` that takes four seconds.
    fn push(&self, url: &str, more: &[&str]) -> Running {
        let args = self.sides.file_args(url, &[&["--rate=50mbit"], more].concat());
        Running::start(&mut self.server.cp_command(args))
    }

    fn finish(&self, copy: Running) -> serde_json::Value {
        let json = copy.finish().expect_code(0).json();
        assert_same_bytes(self.sides.source(), self.sides.target());
        json
    }
}

const STRIPE: &[&str] = &["--transport=stripe", "--streams=3", "--stall-timeout=4s"];

/// The TCP streams' places among the connections: the control stream came first.
const STREAMS: std::ops::Range<usize> = 1..4;

/// Wait until every stream has carried far more than it takes to join.
fn await_streams(relay: &Relay) {
    wait_until("all streams join", || relay.connections() >= STREAMS.end);
    wait_until("all streams carry data", || STREAMS.into_iter().all(|stream| relay.came(stream) > 200_000));
}

#[test]
fn tcp_streams_that_are_reset_are_replaced() {
    let pushed = Pushed::new();
    let relay = Relay::start(pushed.server.address());
    let mut copy = pushed.push(&relay.url(""), STRIPE);
    await_streams(&relay);
    STREAMS.for_each(|stream| relay.reset(stream));
    wait_until("others take their places", || relay.connections() >= 7 || !copy.is_running());
    let json = pushed.finish(copy);
    assert!(relay.connections() >= 7, "{}: {json}", relay.connections());
    assert!(json["packets_sent"].as_u64() >= json["packets_required"].as_u64(), "{json}");
}

#[test]
fn a_tcp_stream_that_swallows_everything_is_given_up() {
    let pushed = Pushed::new();
    let relay = Relay::start(pushed.server.address());
    let copy = pushed.push(&relay.url(""), STRIPE);
    await_streams(&relay);
    relay.swallow(2);
    let json = pushed.finish(copy);
    assert!(relay.swallowed(2) > 0, "it was given something: {json}");
    assert!(
        json["packets_sent"].as_u64() > json["packets_required"].as_u64(),
        "what it had goes again: {json}"
    );
}

#[test]
fn a_copy_goes_on_over_another_transport() {
    for [first, then] in [["object", "stripe"], ["stripe", "object"]] {
        let pushed = Pushed::new();
        let copy = pushed.push(&pushed.server.url(""), &[&format!("--transport={first}")]);
        pushed.sides.await_part(10_000_000);
        copy.signal(Signal::INT);
        copy.finish().expect_code(130);
        let json = pushed.finish(pushed.push(&pushed.server.url(""), &[&format!("--transport={then}")]));
        assert_eq!(json["transport"], then, "{json}");
        assert!(json["resumed_bytes"].as_u64().unwrap() > 8_000_000, "{json}");
    }
}

/// The first words of a TCP stream; the copies' real connection id is not known to strangers.
fn hello(id: u64) -> Vec<u8> {
    [&b"LHL\x02"[..], &id.to_be_bytes(), &[7; 32]].concat()
}

/// Nothing more is said, and the connection ends.
fn assert_closed(mut socket: TcpStream) {
    assert_eq!(socket.read(&mut [0; 10]).unwrap(), 0, "closed");
}

#[test]
fn strangers_at_the_port_disturb_nobody() {
    let pushed = Pushed::new();
    let copy = pushed.push(&pushed.server.url(""), STRIPE);
    pushed.sides.await_part(3_000_000);
    let server = pushed.server.address();
    let mut open = vec![];
    for turn in 0..40u8 {
        let says: &[&[u8]] = &[b"", b"LH", b"LHL\x02", b"GET / HTTP/1.0\r\n\r\n", b"LHL\x01aaaaaaaa"];
        let socket = TcpStream::connect(server).expect("it listens");
        (&socket).write_all(says[usize::from(turn) % says.len()]).expect("it takes bytes");
        open.push(socket);
    }
    // Somebody who has the format but not the transfer.
    let (socket, answer) = knock(&pushed.server, &hello(0x1234), 1);
    assert_eq!(answer, [1], "there is no such transfer");
    assert_closed(socket);
    pushed.finish(copy);
}

#[test]
fn who_cannot_prove_that_he_belongs_to_a_transfer_is_shut_out() {
    let pushed = Pushed::new();
    let relay = Relay::start(pushed.server.address());
    // Over UDP, whose header tells the connection id to whoever listens.
    let copy = pushed.push(&relay.url(""), &["--transport=object"]);
    pushed.sides.await_part(3_000_000);
    let datagram = &relay.remembered(crate::common::relay::Way::ToServer)[0];
    let id = u64::from_be_bytes(datagram[1..9].try_into().unwrap());
    let (mut socket, welcome) = knock(&pushed.server, &hello(id), 65);
    assert_eq!(welcome[0], 0, "asked for a proof");
    // The server's own proof is none of the client's.
    socket.write_all(&welcome[33..]).unwrap();
    assert_closed(socket);
    pushed.finish(copy);
}

#[test]
fn a_server_without_the_congestion_control_asked_for_says_so() {
    let pushed = Pushed::new();
    write_noise(pushed.sides.there.path().join("data"), 1_000_000, 2);
    let args = [pushed.server.url("data").into(), pushed.sides.here.path().join("back").into_os_string()];
    let more = ["--transport=stripe", "--congestion=no-such-control"].map(Into::into);
    let ended = pushed.server.cp(args.into_iter().chain(more)).expect_code(0);
    assert!(
        ended.stderr.contains("warning: over TCP the other host sends as it usually does"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.json()["transport"], "stripe");
    assert_same_bytes(pushed.sides.there.path().join("data"), pushed.sides.here.path().join("back"));
}

#[test]
fn in_the_background_one_connection_is_enough() {
    let pushed = Pushed::new();
    for pull in [false, true] {
        let [near, far] =
            [pushed.sides.here.path().join("file").into_os_string(), pushed.server.url("file").into()];
        let args =
            if pull { [far, pushed.sides.here.path().join("back").into_os_string()] } else { [near, far] };
        let more = ["--transport=stripe", "--background", "--rate=200mbit"].map(Into::into);
        let ended = pushed.server.cp(args.into_iter().chain(more)).expect_code(0);
        assert_eq!(ended.json()["streams"], 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("warning: a copy in the background has no say over TCP"),
            "{}",
            ended.stderr
        );
    }
}
