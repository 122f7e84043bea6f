//! Streams behind sockets of the system's.

use super::common::{PATIENCE, fixed, pair, text, until};
use longhaul_stripe::pump::{Local, NEVER, Rules, pump, unlimited};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

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

#[test]
fn what_was_said_before_a_socket_was_closed_arrives_though_the_other_side_says_more() {
    let (near, far) = pair(&fixed(1), &fixed(1));
    let mut near = near.into_socket().unwrap();
    let said = text(3, 8 << 20);
    near.write_all(&said).unwrap();
    drop(near);
    until(|| (far.stats().bytes_received == said.len() as u64).then_some(()));
    let refused = loop {
        match (&far).write_all(b"anybody there?") {
            Ok(()) => thread::sleep(Duration::from_millis(1)),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    let mut got = vec![];
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    (&far).read_to_end(&mut got).unwrap();
    assert!(got == said, "{} bytes", got.len());
}

/// It reads nothing more while one of its threads goes on writing.
#[test]
fn a_program_that_ends_is_held_up_by_nothing_and_takes_that_for_no_end() {
    let (near, far) = pair(&fixed(1), &fixed(1));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = Local::socket(listener.accept().unwrap().0).unwrap();
    let (leaving, ender) = (AtomicBool::new(false), near.try_clone().unwrap());
    let (ends, ended) = mpsc::channel();
    // More than the buffers of the socket hold.
    let unread = text(4, 30 << 20);
    thread::scope(|scope| {
        scope.spawn(|| (&far).write_all(&unread));
        let writing = scope.spawn(|| {
            loop {
                if let Err(error) = (&theirs).write_all(b".") {
                    return error.kind();
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        scope.spawn(|| {
            let rules = Rules { stop: &NEVER, drain: &leaving, out: &unlimited, back: &unlimited };
            ends.send(pump(near, ours, rules))
        });
        (&theirs).read_exact(&mut [0]).unwrap();
        leaving.store(true, Ordering::Release);
        ender.shutdown(Shutdown::Read).unwrap();
        let pumped = ended.recv_timeout(PATIENCE).expect("it ends");
        assert!(pumped.broken.is_none(), "{pumped:?}");
        assert!(pumped.out > 0);
        // The system tells of it once: whoever writes, or whoever reads.
        let mut told = vec![writing.join().unwrap()];
        told.extend((&theirs).read_to_end(&mut vec![]).err().map(|error| error.kind()));
        assert!(told.contains(&ErrorKind::ConnectionReset), "{told:?}");
    });
}
