use super::*;
use crate::seal::Side;
use longhaul_proto::wire::DATA_OVERHEAD;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

const SECRET: [u8; 32] = [5; 32];
const DATAGRAM_LEN: usize = 1472;

/// The two ends of one TCP stream, and the keys of each side.
fn ends() -> [(StreamSet, Keys); 2] {
    let (left, right) = UnixStream::pair().unwrap();
    [(left, Side::Client), (right, Side::Server)].map(|(socket, side)| {
        let mut streams = StreamSet::default();
        streams.add(StreamSocket::Pipe(socket));
        (streams, Keys::main(&SECRET, true, 9, side))
    })
}

/// Send bodies that hold their own number.
fn send(streams: &mut StreamSet, keys: &mut Keys, numbers: Range<DatagramNumber>) {
    let mut left = numbers;
    let sent = streams.send_run(keys, DATAGRAM_LEN, Time::ZERO, |buf| {
        let number = left.next()?;
        let len = DATAGRAM_LEN - DATA_OVERHEAD;
        buf[..len].fill(number as u8);
        Some(Transmit { number, len })
    });
    assert!(sent.is_some() && left.is_empty());
}

#[test]
fn a_bundle_that_is_refused_midway_waits_whole_and_in_order_and_holds_up_what_is_behind() {
    let [(mut sender, mut seal), (mut receiver, mut open)] = ends();
    send(&mut sender, &mut seal, 0..10);
    send(&mut sender, &mut seal, 10..20);
    let (mut taken, mut room) = (vec![], 3);
    let mut take = |room: &mut i32| {
        receiver.receive(&mut open, || Time::ZERO, &mut |_, arrival, body| {
            assert!(body.iter().all(|byte| *byte == arrival.number as u8), "each body with its own number");
            if *room > 0 {
                taken.push(arrival.number);
            }
            *room -= 1;
            *room >= 0
        });
        (taken.clone(), receiver.is_holding())
    };
    assert_eq!(take(&mut room), (vec![0, 1, 2], true));
    room = 0;
    assert_eq!(take(&mut room), (vec![0, 1, 2], true), "refused once more");
    room = 5;
    assert_eq!(take(&mut room), ((0..8).collect(), true), "the rest of it still waits");
    room = 100;
    take(&mut room);
    assert_eq!(take(&mut room), ((0..20).collect(), false), "and what came behind it");
}

#[test]
fn a_stream_that_is_given_up_sends_no_more_of_what_waits_in_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let (mut streams, mut keys) = (StreamSet::default(), Keys::main(&SECRET, true, 9, Side::Client));
    streams.add(StreamSocket::Tcp(near));
    send(&mut streams, &mut keys, 0..10);
    streams.leave_all_but("192.0.2.1".parse().unwrap());
    let ended = far.read_to_end(&mut vec![]).map_err(|error| error.kind());
    assert_eq!((ended, streams.poll_lost()), (Err(ErrorKind::ConnectionReset), Some(0..10)));
}

#[test]
fn very_many_streams_are_read_with_little_memory() {
    let mut streams = StreamSet::default();
    (0..STREAMS_MAX).for_each(|_| streams.add(StreamSocket::Pipe(UnixStream::pair().unwrap().0)));
    let room: usize = streams.streams.iter_mut().map(|stream| stream.records.room().len()).sum();
    assert!(room <= 5 << 20, "{room} bytes");
}
