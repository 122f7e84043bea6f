//! Those who should not get in, and those who got in and misbehave.

use crate::common::{PATIENCE, bind, fixed, pass, text, until};
use crate::relay::Relay;
use longhaul::stripe::{StripeOptions, StripedListener, StripedStream};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// A stream that lives while things happen around it.
fn live(options: &StripeOptions) -> (StripedListener, StripedStream, StripedStream) {
    let listener = bind(options);
    let near = options.connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
    near.wait_for_lanes(2, PATIENCE).unwrap();
    (listener, near, far)
}

/// Whether the other side has closed without a word, or with these.
fn answer(mut socket: TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = vec![];
    // A reset is as good as an end.
    let _ = socket.read_to_end(&mut said);
    said
}

fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_wrong_secret_is_told_and_a_live_stream_unharmed() {
    let (listener, near, far) = live(&fixed(2).key(b"right"));
    let address = listener.local_addr().unwrap();
    for wrong in [fixed(2).key(b"wrong"), fixed(2)] {
        let error = wrong.connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains("same key"), "{error}");
    }
    let error = fixed(2).key(b"right").plain().connect(address).unwrap_err();
    assert!(error.to_string().contains("plain"), "{error}");
    let bytes = text(1, 1 << 20);
    assert!(pass(near, far, &bytes) == bytes);
}

#[test]
fn port_scanners_and_other_programs_are_sent_away() {
    let (listener, near, far) = live(&fixed(2));
    let address = listener.local_addr().unwrap();
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\0\0\0\0", b"LHS\x01\x09", b"LHS\x01\x00\xff\xff"] {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(said).unwrap();
        assert_eq!(answer(socket), b"");
    }
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"LHS\x07\x00").unwrap();
    assert_eq!(answer(socket), [0, 0, 2, 1], "another version is told");
    for _ in 0..100 {
        drop(TcpStream::connect(address).unwrap());
    }
    let bytes = text(2, 1 << 20);
    assert!(pass(near, far, &bytes) == bytes);
}

#[test]
fn nobody_joins_without_the_streams_secret() {
    let (listener, near, far) = live(&fixed(2));
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket.write_all(&[&b"LHS\x01\x02"[..], &[5; 48]].concat()).unwrap();
    assert_eq!(answer(socket), [3], "there is no such stream");
    let bytes = text(3, 1 << 20);
    assert!(pass(near, far, &bytes) == bytes);
}

/// The first bytes that a client sends to the server through a box of ours.
fn overheard(server: SocketAddr, options: &StripeOptions, listener: &StripedListener) -> Vec<Vec<u8>> {
    let tap = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tap.local_addr().unwrap();
    let options = options.clone();
    let taped = thread::spawn(move || {
        let mut all = vec![];
        for _ in 0..2 {
            let (mut client, _) = tap.accept().unwrap();
            let mut server = TcpStream::connect(server).unwrap();
            let (mut back, mut forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || drop(std::io::copy(&mut back, &mut forth)));
            let mut heard = vec![0; 2000];
            client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut len = 0;
            while let Ok(more @ 1..) = client.read(&mut heard[len..]) {
                server.write_all(&heard[len..len + more]).unwrap();
                len += more;
            }
            all.push(heard[..len].to_vec());
        }
        all
    });
    let near = options.connect(address).unwrap();
    let far = listener.accept_timeout(PATIENCE).unwrap();
    let heard = taped.join().unwrap();
    drop((near, far));
    heard
}

#[test]
fn what_was_overheard_gets_nobody_in() {
    let options = fixed(2).key(b"secret").patience(Duration::from_millis(300));
    let (listener, near, far) = live(&options);
    let address = listener.local_addr().unwrap();
    let heard = overheard(address, &options, &listener);
    assert!(heard[0].starts_with(b"LHS\x01\x01") && heard[1].starts_with(b"LHS\x01\x02"), "{heard:?}");
    for said in heard {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&said).unwrap();
        answer(socket);
    }
    let error = listener.accept_timeout(Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "a replayed offer opens no stream");
    assert_eq!(far.stats().lanes.len(), 2);
    let bytes = text(4, 1 << 20);
    assert!(pass(near, far, &bytes) == bytes);
}

#[test]
fn thousands_of_connections_take_little_memory_and_leave_room_for_others() {
    let (listener, near, far) = live(&fixed(2));
    let address = listener.local_addr().unwrap();
    let before = memory_kib();
    let mut crowd = vec![];
    for n in 0..crowd_size() {
        let mut socket = TcpStream::connect(address).unwrap();
        if n % 2 == 0 {
            // Half-open: begins to speak and stops.
            let _ = socket.write_all(b"LHS\x01");
        }
        crowd.push(socket);
    }
    let grown = memory_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more");
    // A stream gets in while they are there.
    let late = fixed(2).connect(address).unwrap();
    let (met, _) = listener.accept_timeout(PATIENCE).unwrap();
    let bytes = text(5, 1 << 20);
    assert!(pass(late, met, &bytes) == bytes);
    assert!(pass(near, far, &bytes) == bytes);
    drop(crowd);
}

#[test]
fn a_lane_that_was_tampered_with_is_closed_and_replaced() {
    let options = fixed(2).stall_timeout(Duration::from_millis(500));
    let listener = bind(&options);
    let relay = Relay::start(listener.local_addr().unwrap());
    let near = options.connect(relay.address()).unwrap();
    let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
    near.wait_for_lanes(2, PATIENCE).unwrap();
    far.wait_for_lanes(2, PATIENCE).unwrap();
    relay.tamper(1, &[1; 100]);
    until(|| (far.stats().lanes_lost == 1).then_some(()));
    let bytes = text(6, 4 << 20);
    assert!(pass(near, far, &bytes) == bytes);
}

#[test]
fn impossible_frames_end_their_lane_and_not_the_stream() {
    let huge = [&[1, 0, 0, 0][..], &u32::MAX.to_be_bytes(), &0u64.to_be_bytes()].concat();
    let far_off = [&[1, 0, 0, 0][..], &1u32.to_be_bytes(), &(1u64 << 60).to_be_bytes(), b"x"].concat();
    let wrapped = [&[1, 0, 0, 0][..], &2u32.to_be_bytes(), &u64::MAX.to_be_bytes(), b"xx"].concat();
    let never_sent = [&[2, 0, 0, 0][..], &9u32.to_be_bytes(), &(1u64 << 50).to_be_bytes(), &[0; 9]].concat();
    for (n, frame) in [huge, far_off, wrapped, never_sent, vec![0xff; 64]].into_iter().enumerate() {
        let options = fixed(2).plain();
        let listener = bind(&options);
        let relay = Relay::start(listener.local_addr().unwrap());
        let near = options.connect(relay.address()).unwrap();
        let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
        near.wait_for_lanes(2, PATIENCE).unwrap();
        far.wait_for_lanes(2, PATIENCE).unwrap();
        let before = memory_kib();
        relay.tamper(1, &frame);
        until(|| (far.stats().lanes_lost == 1).then_some(()));
        assert!(memory_kib().saturating_sub(before) < 16 << 10, "frame {n}");
        let bytes = text(7, 1 << 20);
        assert!(pass(near, far, &bytes) == bytes, "frame {n}");
    }
}

/// As many connections as this process may open, 10 000 at most.
fn crowd_size() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without the right to more it stays as it is.
    let _ = setrlimit(Resource::Nofile, limit);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The listener's guests take descriptors of this process too, and so do the other tests.
    let crowd = most.saturating_sub(1500).clamp(200, 10_000);
    println!("a crowd of {crowd}");
    crowd
}
