mod recorded;
mod rejoining;

use super::open::OUTBOX_MAX;
use super::*;
use crate::budget::{Allowance, Budget, Purpose};
use crate::noise::to_bytes;
use longhaul_proto::ranges::Ranges;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::manifest::Group;
use longhaul_proto::session::message::Message;
use longhaul_proto::session::message::{FileOptions, GroupHash, Operation, TransferOptions};
use longhaul_proto::session::transport::Transport;
use longhaul_proto::units::Time;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        resumable: None,
        budget: Arc::default(),
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
        connection_id: 7,
        aes: true,
        early_salt: [1; 32],
        made_s: 1_700_000_000,
        operation: Operation::Push { dest: b"x".to_vec() },
        copy: [4; 16],
        files: FileOptions::default(),
        transfer,
        listing_len: 0,
        listing_head: vec![],
        ticket: None,
        third_party: false,
        dscp: None,
        preserve: None,
        scitag: None,
    }
}

/// A server that has one shared key.
fn shared(psk: Psk) -> impl FnOnce(Option<TokenId>) -> (ServerKey, Option<()>) {
    move |_| (psk.into(), Some(()))
}

fn answer(_: &Offer, _: &()) -> Answer {
    Answer::Accept { aes: true, udp_secret: [5; 32], udp_port: 1, udp_hosts: vec![], honours_ticket: false }
}

#[test]
fn messages_pass_both_ways_and_long_ones_whole() {
    let (a, b) = UnixStream::pair().unwrap();
    let waker = Waker::new().unwrap();
    let waker2 = waker.clone();
    let server = std::thread::spawn(move || accept(stream(b), shared([9; 32]), waker2, answer).unwrap());
    let (client, got) = connect(stream(a), &[9; 32].into(), &offer(), waker).unwrap();
    let (server, seen, ()) = server.join().unwrap();
    assert_eq!((got, seen), (answer(&offer(), &()), offer()));
    let long = Message::ListingPart { base: 0, total: 9, bytes: (0..300_000u32).map(|i| i as u8).collect() };
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
    let (client, _) = connect(stream(a), &[9; 32].into(), &offer(), near).unwrap();
    (client, server.join().unwrap())
}

#[test]
fn what_went_into_the_pipe_comes_before_the_last_word() {
    for round in 0..50 {
        let (a, b) = UnixStream::pair().unwrap();
        let (client, server) = both(a, b);
        let mut session = server.open_pipe().unwrap();
        session.write_all(b"and goodbye").unwrap();
        drop(session);
        server.await_pipe(PATIENCE, &AtomicBool::new(false));
        server.finish();
        let Incoming::Pipe(mut pipe) = next(&client) else { panic!("round {round}: it is lost") };
        let mut heard = [0; 11];
        pipe.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"and goodbye", "round {round}");
    }
}

#[test]
fn who_says_more_than_is_heeded_is_held_up_and_not_kept() {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, server) = both(a, b);
    let part = Message::ListingPart { base: 0, total: 9, bytes: vec![7; 500_000] };
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
    // The other side may have said that it is alive.
    assert!(!matches!(client.poll(), Some(Incoming::Closed)));
    while client.waiting.load(Ordering::Relaxed) <= OUTBOX_MAX {
        client.send(message.clone());
    }
    assert!(matches!(client.poll(), Some(Incoming::Closed)));
}

/// Of those short ones that a client asks for at will.
#[test]
fn who_takes_nothing_is_gone_before_very_many_short_messages_wait() {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, _server) = both(a, b);
    let sent = (1..).find(|_| {
        client.send(Message::Here { at: Time::ZERO });
        client.waiting.load(Ordering::Relaxed) > OUTBOX_MAX
    });
    assert!(sent.unwrap() < 600_000);
}

#[test]
fn a_message_longer_than_its_kind_may_be_ends_the_stream() {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, server) = both(a, b);
    client.send(Message::Warning("x".repeat(2 << 20)));
    assert!(matches!(next(&server), Incoming::Closed));
}

#[test]
fn a_long_message_takes_its_memory_beside_others_until_it_is_done_with() {
    let (a, b) = UnixStream::pair().unwrap();
    let budget = Arc::new(Budget::new(64 << 20));
    let beside = Stream { budget: budget.clone(), ..stream(b) };
    let accepting =
        std::thread::spawn(move || accept(beside, shared([9; 32]), Waker::new().unwrap(), answer).unwrap().0);
    let (client, _) = connect(stream(a), &[9; 32].into(), &offer(), Waker::new().unwrap()).unwrap();
    let server = accepting.join().unwrap();
    let ranges: Ranges = (0..400_000).map(|at| at * 2..at * 2 + 1).collect();
    let message = Message::Unwanted { ranges };
    // One of 2.4 MB is there and another one is read: for a third there would be no memory before the first is done with.
    for _ in 0..3 {
        client.send(message.clone());
    }
    (0..3).for_each(|_| assert!(matches!(next(&server), Incoming::Message(m) if m == message)));
    let mut others = Allowance::of(&budget, Purpose::Need);
    // What the messages took is given back just after they are handed over.
    for _ in 0..62 {
        while !others.take(1 << 20) {
            std::thread::yield_now();
        }
    }
    while others.take(1 << 20) {}
    client.send(message.clone());
    assert!(matches!(next(&server), Incoming::NoRoom));
}

#[test]
fn a_wrong_key_is_named_on_both_sides() {
    let (a, b) = UnixStream::pair().unwrap();
    let server =
        std::thread::spawn(move || accept(stream(b), shared([9; 32]), Waker::new().unwrap(), answer).err());
    let error = connect(stream(a), &[8; 32].into(), &offer(), Waker::new().unwrap()).err();
    assert!(matches!(error, Some(HandshakeError::WrongKey)), "{error:?}");
    assert!(matches!(server.join().unwrap(), Some(HandshakeError::WrongKey)));
}

type Outcome = Result<u8, HandshakeError>;

/// A client and a server that speak these versions. `relay` passes the client's first flight on. What came of it on either
/// side: the version they speak.
fn meet(client: Versions, server: Versions, relay: impl FnOnce(&mut Vec<u8>)) -> (Outcome, Outcome) {
    let ((a, mut middle), (mut far, b)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let accepting = std::thread::spawn(move || {
        let met = accept_as(server, stream(b), shared([9; 32]), Waker::new().unwrap(), answer);
        met.map(|(control, ..)| control.version())
    });
    let connecting = std::thread::spawn(move || {
        let key = [9; 32].into();
        let begun = Beginning::new_as(client, &key, &offer());
        let met = begun.and_then(|begun| begun.over(stream(a), Waker::new().unwrap(), || {}));
        met.map(|(control, _)| control.version())
    });
    let mut flight = vec![0; 4];
    middle.read_exact(&mut flight).unwrap();
    let frame = read_frame(&mut middle).unwrap();
    flight.extend((frame.len() as u16).to_be_bytes());
    flight.extend(frame);
    relay(&mut flight);
    far.write_all(&flight).unwrap();
    let back = std::thread::spawn(move || drop(io::copy(&mut far, &mut middle)));
    let met = (connecting.join().unwrap(), accepting.join().unwrap());
    back.join().unwrap();
    met
}

#[test]
fn the_highest_version_that_both_speak_is_spoken() {
    for (client, server, spoken) in
        [((11, 11), (11, 12), 11), ((11, 13), (12, 12), 12), ((12, 13), (11, 14), 13)]
    {
        let [client, server] = [client, server].map(|(low, high)| Versions::new(low, high));
        let (near, far) = meet(client, server, |_| {});
        assert_eq!((near.unwrap(), far.unwrap()), (spoken, spoken));
    }
}

#[test]
fn without_a_common_version_both_sides_name_both_ranges() {
    let (old, new) = (Versions::new(11, 12), Versions::new(13, 15));
    for (client, server) in [(old, new), (new, old)] {
        let (near, far) = meet(client, server, |_| {});
        for (met, own, other) in [(near, client, server), (far, server, client)] {
            let error = met.unwrap_err();
            assert!(
                matches!(error, HandshakeError::WrongVersion { theirs, ours } if theirs == other && ours == own)
            );
            let wanted = if own == old { "newer release here" } else { "newer release there" };
            let line = error.to_string();
            assert!(line.contains(&other.to_string()) && line.contains(wanted), "{line}");
        }
    }
}

#[test]
fn an_older_program_tells_its_version_where_it_does_not_know_what_is_asked_for() {
    let asked = |operation: Operation, preserve: Option<Preserve>| {
        let (a, b) = UnixStream::pair().unwrap();
        let old = Versions::new(11, 12);
        let accepting = std::thread::spawn(move || {
            accept_as(old, stream(b), shared([9; 32]), Waker::new().unwrap(), answer).map(drop)
        });
        let asks = Offer { operation, preserve, ..offer() };
        let met = connect(stream(a), &[9; 32].into(), &asks, Waker::new().unwrap()).map(drop);
        let _ = accepting.join().unwrap();
        met
    };
    let push = || Operation::Push { dest: b"x".to_vec() };
    asked(push(), None).unwrap();
    asked(push(), Some(Preserve::default())).unwrap();
    assert!(matches!(asked(push(), Some(Preserve::ARCHIVE)), Err(HandshakeError::WrongVersion { .. })));
    for pipe in [Operation::PushPipe { dest: b"x".to_vec() }, Operation::PullPipe { source: b"x".to_vec() }] {
        assert!(matches!(asked(pipe, None), Err(HandshakeError::WrongVersion { .. })));
    }
}

#[test]
fn who_changes_the_versions_on_the_way_breaks_the_handshake() {
    let (client, server) = (Versions::new(11, 13), Versions::new(11, 13));
    // The highest is behind the magic, the lowest first in the frame.
    for (at, changed) in [(3, 12), (6, 12), (6, 10)] {
        let (near, far) = meet(client, server, |flight| flight[at] = changed);
        assert!(matches!(near, Err(HandshakeError::WrongKey)), "{near:?}");
        assert!(matches!(far, Err(HandshakeError::WrongKey)), "{far:?}");
    }
}

#[test]
fn programs_from_before_ranges_are_told_in_words_they_know() {
    let (mut a, b) = UnixStream::pair().unwrap();
    let server =
        std::thread::spawn(move || accept(stream(b), shared([9; 32]), Waker::new().unwrap(), answer).err());
    // What version 10 began its first frame with was no version.
    a.write_all(&[MAGIC[0], MAGIC[1], MAGIC[2], 10, 0, 1, 0]).unwrap();
    let mut reply = vec![];
    a.read_to_end(&mut reply).unwrap();
    assert_eq!(reply[..4], [0, 0, REASON_VERSION, Versions::OURS.highest()]);
    let error = server.join().unwrap().unwrap().to_string();
    assert!(error.contains("speaks version 10 of the protocol") && error.contains("there"), "{error}");
    // A server of that time tells its own version and no more.
    let (a, mut b) = UnixStream::pair().unwrap();
    b.write_all(&[0, 0, REASON_VERSION, 10]).unwrap();
    b.shutdown(Shutdown::Write).unwrap();
    let error = connect(stream(a), &[9; 32].into(), &offer(), Waker::new().unwrap()).err();
    assert_eq!(error.unwrap().to_string(), error_of_10());
}

fn error_of_10() -> String {
    let (theirs, ours) = (Versions::new(10, 10), Versions::OURS);
    HandshakeError::WrongVersion { theirs, ours }.to_string()
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
        let met = connect(stream(a), &key, &offer(), Waker::new().unwrap()).map(drop);
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

/// A server's answer to a first message that came by datagrams, and its stream.
fn answer_to(first: &[u8]) -> (Control, Vec<u8>) {
    let waker = Waker::new().unwrap();
    let (stream, kept) = unconnected_stream(first.to_vec(), PATIENCE, waker.clone()).unwrap();
    let accepted = accept(stream, |_| ([9; 32].into(), Some(())), waker, answer);
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    (accepted.unwrap().0, kept)
}

#[test]
fn a_handshake_by_datagrams_gives_streams_that_wait_for_their_connection() {
    let beginning = Box::new(Beginning::new(&[9; 32].into(), &offer()).unwrap());
    let (server, words) = answer_to(beginning.first());
    // What somebody else answers leaves it as it was.
    let mut forged = words.clone();
    *forged.last_mut().unwrap() ^= 1;
    let refused = refusal(REASON_KEY, 0).to_vec();
    let mut beginning = beginning;
    for other in [forged, refused, words[..9].to_vec(), vec![]] {
        let same = beginning.answered(&other, PATIENCE, Waker::new().unwrap());
        beginning = same.err().expect("no answer to it");
    }
    let answered = beginning.answered(&words, PATIENCE, Waker::new().unwrap());
    let (client, got) = answered.unwrap_or_else(|_| panic!("the answer to it"));
    assert_eq!(got, answer(&offer(), &()));
    server.send(Message::NoStreams("early".into()));
    let (there, here) = (server.resumable().unwrap(), client.resumable().unwrap());
    let words = loop {
        if let Some(words) = there.early_words(1000) {
            break words;
        }
    };
    here.take_early(words.0, &words.1);
    assert!(matches!(next(&client), Incoming::Message(Message::NoStreams(line)) if line == "early"));
    // Over the connection it goes on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let key = crate::tcp_set::control_key(&[5; 32], 7);
    crate::tcp_set::begin_control(near, &key, (7, here)).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let mut magic = [0; 4];
    far.read_exact(&mut magic).unwrap();
    assert_eq!(magic, crate::tcp_set::FIRST_MAGIC);
    crate::tcp_set::admit_first(far, |id| (id == 7).then(|| (key.clone(), there.clone()))).unwrap();
    client.send(Message::NoStreams("late".into()));
    assert!(matches!(next(&server), Incoming::Message(Message::NoStreams(line)) if line == "late"));
    server.send(Message::NoStreams("there".into()));
    assert!(matches!(next(&client), Incoming::Message(Message::NoStreams(line)) if line == "there"));
}
