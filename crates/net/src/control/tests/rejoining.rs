//! Two control streams over TCP connections that break at any byte, again and again.

use super::*;
use crate::control::rejoin::ResumableStream;
use crate::join::JoinKey;
use crate::tcp_set::{CONTROL_MAGIC, MAGIC_LEN, admit_control, control_key, rejoin_control};
use fastrand::Rng;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Passes on so many bytes of a connection in either direction, and breaks it then. What the other direction holds is lost.
fn pass_on(client: TcpStream, server: TcpStream, budgets: [usize; 2]) {
    let pipes = [(&client, &server), (&server, &client)];
    for ((from, to), mut budget) in pipes.into_iter().zip(budgets) {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                let passes = len.min(budget);
                budget -= passes;
                if to.write_all(&buffer[..passes]).is_err() || passes < len {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

/// In front of a server: connections break, the first some time after its handshake and the others anywhere, until there have
/// been so many.
fn breaking_relay(server: SocketAddr, seed: u64, cuts: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut rng = Rng::with_seed(seed);
        for (number, client) in listener.incoming().enumerate() {
            let least = if number == 0 { OFFER_MAX } else { 0 };
            let budgets = [(); 2].map(|()| least + if rng.bool() { rng.usize(..300) } else { rng.usize(..20_000) });
            let budgets = if number < cuts { budgets } else { [usize::MAX; 2] };
            // The server has all it needs, and listens no more.
            let Ok(server) = TcpStream::connect(server) else { return };
            pass_on(client.unwrap(), server, budgets);
        }
    });
    address
}

fn key() -> JoinKey {
    control_key(&[5; 32], offer().connection_id)
}

/// What a client does: it makes another connection when one breaks.
fn keep(control: &Arc<ResumableStream>, address: SocketAddr) {
    control.allow(PATIENCE);
    let control = control.clone();
    thread::spawn(move || {
        while control.await_break() {
            let socket = TcpStream::connect(address).unwrap();
            let target = (offer().connection_id, &*control);
            let _ = rejoin_control(socket, &key(), target, Instant::now() + PATIENCE);
        }
    });
}

/// What a server does with the connections after the first.
fn admit(listener: TcpListener, control: Arc<ResumableStream>, over: Arc<AtomicBool>) {
    control.allow(PATIENCE);
    thread::spawn(move || {
        for socket in listener.incoming() {
            if over.load(Ordering::Relaxed) {
                return;
            }
            let (mut socket, control) = (socket.unwrap(), control.clone());
            thread::spawn(move || {
                let mut magic = [0; MAGIC_LEN];
                if socket.read_exact(&mut magic).is_ok() {
                    assert_eq!(magic, CONTROL_MAGIC);
                    let _ = admit_control(socket, |_| Some((key(), control)));
                }
            });
        }
    });
}

/// Both ends, open, through a relay that breaks so many connections. The flag ends the server's door.
fn through(seed: u64, cuts: usize) -> (Control, Control, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = breaking_relay(listener.local_addr().unwrap(), seed, cuts);
    let over = Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    let server = thread::spawn(move || {
        let stream = tcp_stream(listener.accept().unwrap().0, PATIENCE).unwrap();
        let (server, ..) = accept(stream, shared([9; 32]), Waker::new().unwrap(), answer).unwrap();
        admit(listener, server.resumable().unwrap().clone(), ended);
        server
    });
    let stream = tcp_stream(TcpStream::connect(address).unwrap(), PATIENCE).unwrap();
    let (client, _) = connect(stream, &[9; 32].into(), &offer(), Waker::new().unwrap(), || {}).unwrap();
    let server = server.join().unwrap();
    keep(client.resumable().unwrap(), address);
    (client, server, over)
}

/// Short messages and long ones, each of which names its place.
fn story(rng: &mut Rng, len: usize) -> Vec<Message> {
    let lines = (0..len).map(|at| Message::Warning(format!("{at} {}", "x".repeat(rng.usize(..2000)))));
    lines.collect()
}

#[test]
fn every_message_comes_once_and_in_order_wherever_connections_break() {
    let broken = Mutex::new(0);
    for seed in 0..25 {
        let mut rng = Rng::with_seed(seed);
        let (client, server, over) = through(seed, rng.usize(1..12));
        let stories = [story(&mut rng, 150), story(&mut rng, 150)];
        thread::scope(|scope| {
            for ((from, to), story) in [(&client, &server), (&server, &client)].into_iter().zip(&stories) {
                scope.spawn(move || {
                    for message in story {
                        from.send(message.clone());
                        // What is sent at once would go in a few writes.
                        thread::sleep(Duration::from_micros(200));
                    }
                });
                scope.spawn(move || {
                    for (at, expected) in story.iter().enumerate() {
                        let came = next(to);
                        assert!(
                            matches!(&came, Incoming::Message(message) if message == expected),
                            "seed {seed}: {at}: {came:?}"
                        );
                    }
                });
            }
        });
        *broken.lock().unwrap() += client.resumable().unwrap().breaks();
        let ending = thread::spawn(|| server.finish_heard());
        assert!(matches!(next(&client), Incoming::Closed), "seed {seed}");
        client.finish();
        ending.join().unwrap();
        over.store(true, Ordering::Relaxed);
    }
    assert!(*broken.lock().unwrap() > 50, "connections broke: {broken:?}");
}

#[test]
fn the_last_word_comes_though_the_connection_breaks_under_it() {
    for seed in 0..10 {
        let (client, server, _over) = through(seed, 4);
        let bye = Message::Warning("y".repeat(100_000));
        server.send(bye.clone());
        let ending = thread::spawn(|| server.finish_heard());
        assert!(matches!(next(&client), Incoming::Message(message) if message == bye), "seed {seed}");
        assert!(matches!(next(&client), Incoming::Closed), "seed {seed}");
        assert!(client.resumable().unwrap().breaks() > 0, "seed {seed}: nothing broke");
        client.finish();
        ending.join().unwrap();
    }
}

#[test]
fn what_the_other_side_has_taken_is_not_kept() {
    let (client, server, _over) = through(1, 0);
    let part = Message::ListingPart { base: 0, total: 9, bytes: vec![7; 500_000] };
    // Four times what is kept at most, so that messages have waited for the other side's word.
    let parts = 128;
    (0..parts).for_each(|_| client.send(part.clone()));
    (0..parts).for_each(|_| assert!(matches!(next(&server), Incoming::Message(message) if message == part)));
    let kept = client.resumable().unwrap();
    let until = Instant::now() + PATIENCE;
    while kept.kept() > 1000 {
        assert!(Instant::now() < until, "{} bytes are kept", kept.kept());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stream_that_ends_without_its_last_word_waits_for_another_connection() {
    let (client, server, _over) = through(1, 0);
    server.resumable().unwrap().allow(Duration::from_millis(300));
    // As a kill ends it.
    client.resumable().unwrap().end();
    let began = Instant::now();
    assert!(matches!(next(&server), Incoming::Closed));
    assert!(began.elapsed() >= Duration::from_millis(300), "it waited {:?}", began.elapsed());
}
