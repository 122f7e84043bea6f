//! Two control streams over TCP connections that break at any byte, again and again.

use super::*;
use crate::control::rejoin::ResumableStream;
use crate::join::JoinKey;
use crate::tcp_set::{CONTROL_MAGIC, MAGIC_LEN, admit_control, control_key, rejoin_control};
use fastrand::Rng;
use std::net::{SocketAddr, TcpListener};
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
            let budgets =
                [(); 2].map(|()| least + if rng.bool() { rng.usize(..300) } else { rng.usize(..20_000) });
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
        while control.await_need() {
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
    let (client, _) = connect(stream, &[9; 32].into(), &offer(), Waker::new().unwrap()).unwrap();
    let server = server.join().unwrap();
    keep(client.resumable().unwrap(), address);
    (client, server, over)
}

/// Short messages and long ones, each of which names its place.
fn story(rng: &mut Rng, len: usize) -> Vec<Message> {
    let lines = (0..len).map(|at| Message::Warning(format!("{at} {}", "x".repeat(rng.usize(..2000)))));
    lines.collect()
}

/// One side: it says its story, and hears the other's.
fn talk(control: &Control, own: Vec<Message>, other: Vec<Message>, seed: u64) {
    let mut other = other.into_iter().enumerate();
    let mut check = |came: Incoming| {
        if let Incoming::Message(Message::KeepAlive { .. }) = came {
            return true;
        }
        let Some((at, expected)) = other.next() else { return false };
        assert!(matches!(&came, Incoming::Message(m) if *m == expected), "seed {seed}: {at}: {came:?}");
        other.len() > 0
    };
    let mut has_more = true;
    for message in own {
        control.send(message);
        // What is said at once would go in a few writes.
        thread::sleep(Duration::from_micros(200));
        while has_more && let Ok(came) = control.inbox.try_recv() {
            has_more = check(came);
        }
    }
    while has_more {
        has_more = check(control.inbox.recv_timeout(PATIENCE).unwrap());
    }
}

#[test]
fn every_message_comes_once_and_in_order_wherever_connections_break() {
    let mut broken = 0;
    for seed in 0..25 {
        let mut rng = Rng::with_seed(seed);
        let (client, server, over) = through(seed, rng.usize(1..12));
        let (own, other) = (story(&mut rng, 150), story(&mut rng, 150));
        let (ours, theirs) = (own.clone(), other.clone());
        let talking = thread::spawn(move || {
            talk(&server, theirs, ours, seed);
            server.finish_heard(PATIENCE, &AtomicBool::new(false));
        });
        talk(&client, own, other, seed);
        assert!(matches!(next(&client), Incoming::Closed), "seed {seed}");
        broken += client.resumable().unwrap().breaks();
        client.finish();
        talking.join().unwrap();
        over.store(true, Ordering::Relaxed);
    }
    assert!(broken > 50, "{broken} connections broke");
}

#[test]
fn the_last_word_comes_to_who_is_in_the_middle_of_a_long_message() {
    let once = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = tcp_stream(listener.accept().unwrap().0, PATIENCE).unwrap();
        let accepting =
            thread::spawn(|| accept(far, shared([9; 32]), Waker::new().unwrap(), answer).unwrap().0);
        let near = tcp_stream(near, PATIENCE).unwrap();
        let (client, _) = connect(near, &[9; 32].into(), &offer(), Waker::new().unwrap()).unwrap();
        let server = accepting.join().unwrap();
        let part = Message::ListingPart { base: 0, total: 9, bytes: vec![7; 500_000] };
        (0..20).for_each(|_| client.send(part.clone()));
        assert!(matches!(next(&server), Incoming::Message(message) if message == part));
        // It closes with something unread: the system resets the connection.
        server.send(Message::Abort(Reason::default()));
        server.finish();
        let heard = next(&client);
        assert!(matches!(heard, Incoming::Message(Message::Abort(_))), "{heard:?}");
    };
    // Each waits for a second until nobody writes any more.
    thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(once))));
}

#[test]
fn who_does_not_end_its_side_is_not_waited_for_once_we_are_told_to_stop() {
    let (client, server, over) = through(1, 1);
    server.finish_heard(Duration::from_secs(3600), &AtomicBool::new(true));
    client.finish();
    over.store(true, Ordering::Relaxed);
}

#[test]
fn the_last_word_comes_though_the_connection_breaks_under_it() {
    for seed in 0..10 {
        let (client, server, _over) = through(seed, 4);
        let bye = Message::Warning("y".repeat(100_000));
        server.send(bye.clone());
        let ending = thread::spawn(|| server.finish_heard(PATIENCE, &AtomicBool::new(false)));
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
    // Both owners take what comes.
    let (kept, until) = (client.resumable().unwrap(), Instant::now() + PATIENCE);
    let mut taken = 0;
    while taken < parts || kept.kept() > 1000 {
        assert!(Instant::now() < until, "{taken} came, {} bytes are kept", kept.kept());
        assert!(kept.kept() < 20 << 20, "{} bytes are kept", kept.kept());
        while client.inbox.try_recv().is_ok() {}
        match server.inbox.recv_timeout(Duration::from_millis(5)) {
            Ok(Incoming::Message(message)) if message == part => taken += 1,
            other => assert!(!matches!(other, Ok(Incoming::Closed))),
        }
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
