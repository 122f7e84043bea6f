//! Those who should not get in, and those who got in and misbehave.

use super::common::{PATIENCE, Relay, fixed, live, pass, text, through_relay, until};
use longhaul_net::control::{ClientKey, ServerKey, TokenId};
use longhaul_stripe::{Door, Doorkeeper, Met, Refusal, StripeOptions, StripedListener};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Whether the other side has closed without a word, or with these.
fn answer(mut socket: TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = vec![];
    // A reset is as good as an end.
    let _ = socket.read_to_end(&mut said);
    said
}

#[test]
fn a_wrong_secret_is_told_and_a_live_stream_unharmed() {
    let (listener, near, far) = live(&fixed(2).key(b"right"));
    let address = listener.local_addr().unwrap();
    for wrong in [fixed(2).key(b"wrong"), fixed(2)] {
        let error = wrong.connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let refusal = error.get_ref().and_then(|why| why.downcast_ref());
        assert_eq!(refusal, Some(&Refusal::Key));
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

/// What a client says to the server until it has two lanes through a box of ours.
fn overheard(server: SocketAddr, options: &StripeOptions, listener: &StripedListener) -> [Vec<u8>; 2] {
    let tap = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tap.local_addr().unwrap();
    let heard: Arc<[Mutex<Vec<u8>>; 2]> = Arc::default();
    let taped = heard.clone();
    // All these go on until the connections end.
    thread::spawn(move || {
        for lane in 0..2 {
            let (mut client, _) = tap.accept().unwrap();
            let mut server = TcpStream::connect(server).unwrap();
            let (mut back, mut forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || drop(std::io::copy(&mut back, &mut forth)));
            let taped = taped.clone();
            thread::spawn(move || {
                let mut buffer = [0; 2000];
                while let Ok(len @ 1..) = client.read(&mut buffer) {
                    taped[lane].lock().unwrap().extend_from_slice(&buffer[..len]);
                    if server.write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
                // The other way ends with this one.
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    let near = options.connect(address).unwrap();
    let (far, _) = listener.accept_timeout(PATIENCE).unwrap();
    for end in [&near, &far] {
        assert_eq!(end.wait_for_lanes(2, PATIENCE).unwrap(), 2);
    }
    let said = [0, 1].map(|lane| heard[lane].lock().unwrap().clone());
    drop((near, far));
    said
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

/// Who comes to a door with a key, and how often one of them had memory.
#[derive(Default)]
struct Keeper {
    rooms: usize,
}

impl Doorkeeper for Keeper {
    fn key(&mut self, _: Option<TokenId>) -> ServerKey {
        ServerKey::from(PSK)
    }

    fn room(&mut self) -> u64 {
        self.rooms += 1;
        8 << 20
    }
}

const PSK: [u8; 32] = [7; 32];

#[test]
fn what_was_overheard_takes_no_memory_of_a_door() {
    let options = fixed(1).client_key(ClientKey::from(PSK));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (door, relay) = (Door::new(options.clone()), Relay::start(listener.local_addr().unwrap()));
    let mut keeper = Keeper::default();
    let mut meet = || {
        let deadline = Instant::now() + PATIENCE;
        door.meet(listener.accept().unwrap().0, &[], deadline, &mut keeper).unwrap()
    };
    let bytes = text(7, 4 << 20);
    thread::scope(|scope| {
        // More than anybody may send before the door has answered that it is heard.
        scope.spawn(|| {
            let near = options.connect(relay.address()).unwrap();
            (&near).write_all(&bytes).unwrap();
            near.close().unwrap();
        });
        let Met::Opened(mut far) = meet() else { panic!("it has the key") };
        let mut got = vec![];
        far.read_to_end(&mut got).unwrap();
        assert!(got == bytes);
    });
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket.write_all(&relay.opening(0)).unwrap();
    assert!(matches!(meet(), Met::Stranger("an offer that was recorded")));
    assert_eq!(keeper.rooms, 1);
}

#[test]
fn a_lane_that_was_tampered_with_is_closed_and_replaced() {
    let options = fixed(2).stall_timeout(Duration::from_millis(500));
    let (near, far, relay) = through_relay(&options);
    near.wait_for_lanes(2, PATIENCE).unwrap();
    far.wait_for_lanes(2, PATIENCE).unwrap();
    relay.tamper(1, &[1; 100]);
    until(|| (far.stats().lanes_lost >= 1).then_some(()));
    let bytes = text(6, 4 << 20);
    assert!(pass(near, far, &bytes) == bytes);
}
