//! Streams behind sockets of the system's.

use super::common::{PATIENCE, fixed, pair, text};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;

#[test]
fn bytes_and_ends_pass_both_ways_through_sockets() {
    let (near, far) = pair(&fixed(2), &fixed(2));
    let (near, far) = (near.into_socket().unwrap(), far.into_socket().unwrap());
    let (there, back) = (text(1, 3 << 20), text(2, 2 << 20));
    let send = |mut socket: &std::net::TcpStream, bytes: &[u8]| {
        socket.write_all(bytes).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
    };
    let receive = |mut socket: &std::net::TcpStream| {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = vec![];
        socket.read_to_end(&mut got).unwrap();
        got
    };
    thread::scope(|scope| {
        scope.spawn(|| send(&near, &there));
        scope.spawn(|| send(&far, &back));
        let got = scope.spawn(|| receive(&near));
        assert!(receive(&far) == there);
        assert!(got.join().unwrap() == back);
    });
}

#[test]
fn a_stream_that_breaks_never_looks_like_one_that_ended() {
    let (near, far) = pair(&fixed(1), &fixed(1));
    let mut near = near.into_socket().unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    (&far).write_all(b"so far").unwrap();
    let mut got = [0; 6];
    near.read_exact(&mut got).unwrap();
    far.abort("enough");
    assert_eq!(near.read(&mut got).unwrap_err().kind(), ErrorKind::ConnectionReset);
}
