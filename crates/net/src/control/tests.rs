use super::*;
use longhaul_proto::session::manifest::Group;
use longhaul_proto::session::message::{Direction, FileOptions, GroupHash, TransferOptions};
use longhaul_proto::session::transport::Transport;

/// Longer than a busy host takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The next message but for those that are sent when there has been nothing to say for a while.
fn next(control: &Control) -> Incoming {
    loop {
        match control.inbox.recv_timeout(PATIENCE).unwrap() {
            Incoming::Message(Message::KeepAlive { .. }) => {}
            incoming => return incoming,
        }
    }
}

fn stream(socket: UnixStream) -> Stream {
    let (writer, closing) = (socket.try_clone().unwrap(), socket.try_clone().unwrap());
    let closer = Box::new(move || drop(closing.shutdown(std::net::Shutdown::Both)));
    Stream {
        reader: Box::new(socket),
        writer: Box::new(writer),
        closer,
        settled: Box::new(|| {}),
        socket: None,
    }
}

fn offer() -> Offer {
    let transfer = TransferOptions {
        control: "adaptive".into(),
        select: None,
        rate_cap: None,
        background: false,
        ack_every: None,
        batch: None,
        classes: vec![1200],
        stall_timeout_ms: 1000,
        transport: Transport::Auto,
        streams: Some(4),
        congestion: Some("cubic".into()),
    };
    Offer {
        version: PROTOCOL_VERSION,
        connection_id: 7,
        aes: true,
        early_salt: [1; 32],
        made_s: 1_700_000_000,
        direction: Direction::Push { dest: b"x".to_vec() },
        files: FileOptions::default(),
        transfer,
        listing_len: 0,
        listing_head: vec![],
    }
}

/// A server that has one shared key.
fn shared(psk: Psk) -> impl FnOnce(Option<TokenId>) -> (ServerKey, Option<()>) {
    move |_| (psk.into(), Some(()))
}

fn answer(_: &Offer, _: &()) -> Answer {
    Answer::Accept { aes: true, udp_secret: [5; 32], udp_port: 1, udp_hosts: vec![] }
}

#[test]
fn messages_pass_both_ways_and_long_ones_whole() {
    let (a, b) = UnixStream::pair().unwrap();
    let waker = Waker::new().unwrap();
    let waker2 = waker.clone();
    let server = std::thread::spawn(move || accept(stream(b), shared([9; 32]), waker2, answer).unwrap());
    let (client, got) = connect(stream(a), &[9; 32].into(), &offer(), waker, || {}).unwrap();
    let (server, seen, ()) = server.join().unwrap();
    assert_eq!((got, seen), (answer(&offer(), &()), offer()));
    let long = Message::ListingPart { total: 9, bytes: (0..300_000u32).map(|i| i as u8).collect() };
    server.send(long.clone());
    let short = Message::Abort(Reason::default());
    client.send(short.clone());
    assert!(matches!(next(&client), Incoming::Message(m) if m == long));
    assert!(matches!(next(&server), Incoming::Message(m) if m == short));
    client.finish();
    assert!(matches!(next(&server), Incoming::Closed));
}

/// Both ends, open, over this pair of sockets.
fn both(a: UnixStream, b: UnixStream) -> (Control, Control) {
    let (near, far) = (Waker::new().unwrap(), Waker::new().unwrap());
    let server = std::thread::spawn(move || accept(stream(b), shared([9; 32]), far, answer).unwrap().0);
    let (client, _) = connect(stream(a), &[9; 32].into(), &offer(), near, || {}).unwrap();
    (client, server.join().unwrap())
}

#[test]
fn who_says_more_than_is_heeded_is_held_up_and_not_kept() {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, server) = both(a, b);
    let part = Message::ListingPart { total: 9, bytes: vec![7; 500_000] };
    let parts = 200;
    (0..parts).for_each(|_| client.send(part.clone()));
    client.send(Message::Abort(Reason::default()));
    // So long as nobody takes them, they are where they came from.
    assert!(matches!(next(&server), Incoming::Message(m) if m == part));
    assert!(client.written.try_recv().is_err() && client.outbox.as_ref().unwrap().len() > parts / 2);
    (1..parts).for_each(|_| assert!(matches!(next(&server), Incoming::Message(m) if m == part)));
    assert!(matches!(next(&server), Incoming::Message(Message::Abort(_))));
}

#[test]
fn who_takes_nothing_is_gone_before_memory_is() {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, _server) = both(a, b);
    let hash = GroupHash { group: Group { entry: 1 << 30, index: 1 << 30 }, hash: [1; 32] };
    let message = Message::Hashes(vec![hash; 20_000]);
    while !client.is_behind() {
        client.send(message.clone());
    }
    assert!(client.poll().is_none());
    while client.waiting.load(Ordering::Relaxed) <= OUTBOX_MAX {
        client.send(message.clone());
    }
    assert!(matches!(client.poll(), Some(Incoming::Closed)));
}

#[test]
fn a_message_longer_than_its_kind_may_be_ends_the_stream() {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, server) = both(a, b);
    client.send(Message::Warning("x".repeat(2 << 20)));
    assert!(matches!(next(&server), Incoming::Closed));
}

#[test]
fn a_wrong_key_is_named_on_both_sides() {
    let (a, b) = UnixStream::pair().unwrap();
    let server =
        std::thread::spawn(move || accept(stream(b), shared([9; 32]), Waker::new().unwrap(), answer).err());
    let error = connect(stream(a), &[8; 32].into(), &offer(), Waker::new().unwrap(), || {}).err();
    assert!(matches!(error, Some(HandshakeError::WrongKey)), "{error:?}");
    assert!(matches!(server.join().unwrap(), Some(HandshakeError::WrongKey)));
}

#[test]
fn another_version_is_named() {
    let (mut a, b) = UnixStream::pair().unwrap();
    let server =
        std::thread::spawn(move || accept(stream(b), shared([9; 32]), Waker::new().unwrap(), answer).err());
    a.write_all(&[MAGIC[0], MAGIC[1], MAGIC[2], 77, 0, 0]).unwrap();
    let mut reply = [0; 4];
    a.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [0, 0, REASON_VERSION, PROTOCOL_VERSION as u8]);
    assert!(matches!(server.join().unwrap(), Some(HandshakeError::WrongVersion { theirs: 77 })));
}

#[test]
fn a_stranger_is_told_apart() {
    let (mut a, b) = UnixStream::pair().unwrap();
    a.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let error = accept(stream(b), shared([9; 32]), Waker::new().unwrap(), answer).err();
    assert!(matches!(error, Some(HandshakeError::NotLonghaul(_))), "{error:?}");
}

#[test]
fn a_token_names_its_user_and_pins_the_server() {
    let [server, other] = [(); 2].map(|()| Identity::generate().unwrap());
    let meet = |id: TokenId, psk: Psk, identity: &Identity| {
        let (a, b) = UnixStream::pair().unwrap();
        let (served, known) = (identity.clone(), *b"alice's ");
        let accepting = std::thread::spawn(move || {
            // An id that nobody has gets a key that nobody has.
            let find = move |id| {
                let is_known = id == Some(known);
                let psk = if is_known { [9; 32] } else { [77; 32] };
                (ServerKey { psk, identity: Some(served) }, is_known.then_some("alice"))
            };
            let decide = |offer: &Offer, _: &&str| answer(offer, &());
            accept(stream(b), find, Waker::new().unwrap(), decide).map(|(_, _, user)| user).ok()
        });
        let key = ClientKey { psk, pinned: Some((id, *server.public())) };
        let met = connect(stream(a), &key, &offer(), Waker::new().unwrap(), || {}).map(drop);
        (met, accepting.join().unwrap())
    };
    let (met, user) = meet(*b"alice's ", [9; 32], &server);
    assert!(met.is_ok() && user == Some("alice"), "{met:?}");
    for (id, psk, identity) in [
        (*b"alice's ", [8; 32], &server),
        (*b"nobody's", [9; 32], &server),
        // Whoever knew the dummy would not get in either.
        (*b"nobody's", [77; 32], &server),
        (*b"alice's ", [9; 32], &other),
    ] {
        let (met, user) = meet(id, psk, identity);
        assert!(matches!(met, Err(HandshakeError::WrongKey)) && user.is_none(), "{met:?}");
    }
}
