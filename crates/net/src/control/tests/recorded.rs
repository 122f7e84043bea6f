//! What versions 11 and 14 send, as it was recorded: each later release reads it. `make record` records it anew, which only a
//! version that was not released may do.

use super::super::open::Outgoing;
use super::*;
use crate::noise::read_older;
use longhaul_proto::ranges::Ranges;
use longhaul_proto::session::limit::Limit;
use longhaul_proto::session::message::several::{PathStatus, Paths, WantPaths};
use longhaul_proto::session::message::third_party::{
    ClientPart, OneCopyKey, Outcome, Ready, ServerPart, Whereabouts,
};
use longhaul_proto::session::message::{Already, FileFailure, Pace, Report, SenderStatus, Ticket};
use longhaul_proto::session::progress::Progress;
use longhaul_proto::session::transport::{Carrier, Switch};
use longhaul_proto::units::{Rate, Time};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn what_version_11_sends_is_still_read() {
    let recorded = recorded(11, record);
    let of = |name: &str| found(&recorded, name);
    for (name, key) in keys() {
        let (seen, answered) = replay(of(name));
        assert_eq!(seen, Ok(offer()), "{name}: {key}");
        // A frame, no refusal.
        assert!(answered.len() > 2 && answered[..2] != [0, 0], "{name}");
    }
    answers().iter().for_each(|(name, answer)| is_read(name, of(name), answer));
    messages().into_iter().for_each(|(name, message)| comes_out(of(&name), message));
}

#[test]
fn what_version_14_sends_besides_is_still_read() {
    let recorded = recorded(14, || bytes_of(messages_since()));
    messages_since().into_iter().for_each(|(name, message)| comes_out(found(&recorded, &name), message));
}

#[test]
fn no_kind_of_message_is_left_out() {
    let all: Vec<_> = messages().into_iter().chain(messages_since()).collect();
    for (kind, (name, message)) in all.iter().enumerate() {
        assert_eq!((usize::from(to_bytes(message)[0]), name), (kind, &format!("message-{kind}")));
    }
    let is_a_kind = |kind: usize| {
        let bytes = [&[kind as u8][..], &[0; 64]].concat();
        postcard::take_from_bytes::<Message>(&bytes).is_ok()
    };
    assert_eq!([all.len() - 1, all.len()].map(is_a_kind), [true, false], "make record has it recorded");
}

/// What a version sends, by name.
fn recorded(version: u8, record: impl Fn() -> Vec<(String, Vec<u8>)>) -> BTreeMap<String, Vec<u8>> {
    let path = format!("{}/src/control/tests/version-{version}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("LONGHAUL_RECORD").is_some() {
        let lines = record().into_iter().map(|(name, bytes)| format!("{name} {}\n", to_hex(&bytes)));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    let lines = recorded.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, hex)| (name.to_string(), of_hex(hex))).collect()
}

fn found<'r>(recorded: &'r BTreeMap<String, Vec<u8>>, name: &str) -> &'r [u8] {
    recorded.get(name).unwrap_or_else(|| panic!("{name}: make record has it recorded"))
}

#[test]
fn how_far_a_copy_is_is_read_from_version_13() {
    let progress = Progress { bytes_done: 7, files_total: 3, ..Progress::default() };
    let message = Message::Progress(Box::new(progress));
    let mut bytes = to_bytes(&message);
    assert_eq!(bytes.pop(), Some(0), "version 13 ends before the number of files in place");
    comes_out(&bytes, message);
}

/// Out of a control stream into which the bytes went.
fn comes_out(bytes: &[u8], expected: Message) {
    let (a, b) = UnixStream::pair().unwrap();
    let (client, server) = both(a, b);
    client.outbox.as_ref().unwrap().send(Outgoing::unasked_bytes(bytes.to_vec())).unwrap();
    let came = loop {
        match server.inbox.recv_timeout(PATIENCE).unwrap() {
            // Of the writer's own.
            Incoming::Message(Message::KeepAlive { taken: 0 }) => {}
            came => break came,
        }
    };
    match (came, expected) {
        (Incoming::Message(came), expected) => assert_eq!(came, expected),
        (Incoming::Pipe(mut end), Message::Bytes(expected)) => {
            let mut came = vec![0; expected.len()];
            end.read_exact(&mut came).unwrap();
            assert_eq!(came, expected);
        }
        (Incoming::Closed, Message::Over) => {}
        (came, expected) => panic!("{came:?} for {expected:?}"),
    }
}

fn is_read<T: DeserializeOwned + PartialEq + Debug>(name: &str, bytes: &[u8], expected: &T) {
    let read: T = read_older(bytes).unwrap_or_else(|error| panic!("{name}: {expected:?}: {error}"));
    assert_eq!(&read, expected, "{name}");
}

/// Server and key as they were when it was recorded.
const PSK: Psk = [9; 32];
const PRIVATE: [u8; 32] = [3; 32];

fn keys() -> [(&'static str, &'static str); 2] {
    [("first-flight-key", "a shared key"), ("first-flight-token", "a user's token")]
}

/// What a server of today makes of a first flight: the offer, and what it says.
fn replay(flight: &[u8]) -> (Result<Offer, String>, Vec<u8>) {
    let (mut a, b) = UnixStream::pair().unwrap();
    a.write_all(flight).unwrap();
    let find = |_| (ServerKey { psk: PSK, identity: Some(Identity::from_private(PRIVATE)) }, Some(()));
    let met = accept(stream(b), find, Waker::new().unwrap(), answer);
    let mut said = vec![0; 65_536];
    let len = a.read(&mut said).unwrap();
    said.truncate(len);
    (met.map(|(_, offer, ())| offer).map_err(|error| error.to_string()), said)
}

fn record() -> Vec<(String, Vec<u8>)> {
    let pinned = Some((*b"alice's ", *Identity::from_private(PRIVATE).public()));
    let flights = [None, pinned].map(|pinned| {
        let (a, mut b) = UnixStream::pair().unwrap();
        let key = ClientKey { psk: PSK, pinned };
        let client =
            std::thread::spawn(move || connect(stream(a), &key, &offer(), Waker::new().unwrap()).err());
        let mut begin = [0; 4];
        b.read_exact(&mut begin).unwrap();
        let frame = read_frame(&mut b).unwrap();
        drop(b);
        assert!(client.join().unwrap().is_some());
        [&begin[..], &(frame.len() as u16).to_be_bytes(), &frame].concat()
    });
    let mut recorded: Vec<_> =
        keys().iter().zip(flights).map(|((name, _), bytes)| (name.to_string(), bytes)).collect();
    recorded.extend(answers().iter().map(|(name, answer)| (name.to_string(), to_bytes(answer))));
    recorded.extend(bytes_of(messages()));
    recorded
}

fn bytes_of(messages: Vec<(String, Message)>) -> Vec<(String, Vec<u8>)> {
    messages.into_iter().map(|(name, message)| (name, to_bytes(&message))).collect()
}

fn answers() -> [(&'static str, Answer); 2] {
    [("accept", answer(&offer(), &())), ("refuse", Answer::Refuse(Reason::new(Cause::Refused, "no")))]
}

/// One of each kind that version 11 has, in their order.
fn messages() -> Vec<(String, Message)> {
    let ranges: Ranges = [0..1000, 5000..9000].into_iter().collect();
    let reason = || Reason::new(Cause::Denied, "permission denied");
    let failed = [FileFailure { path: b"a/b".to_vec(), reason: reason() }].into_iter().collect();
    let report = Report { files_done: 5, failed, durable: true, ..Report::default() };
    let switch = Switch { seconds: 3.5, to: Carrier::Stripe, why: "no news".into(), trial: false };
    let status = SenderStatus { limited_by: Limit::Path, switches: vec![switch], ..SenderStatus::default() };
    let hash = GroupHash { group: Group { entry: 1, index: 2 }, hash: [3; 32] };
    let already = Already { skipped: 3, ..Already::default() };
    let messages = vec![
        Message::ListingPart { base: 0, total: 300, bytes: vec![1; 9] },
        Message::Start { have: ranges.clone(), claimed: ranges.clone(), already },
        Message::Hashes(vec![hash]),
        Message::SourceFailed { entry: 4, reason: reason() },
        Message::Resend { epoch: 2, ranges: ranges.clone() },
        Message::Unwanted { ranges: ranges.clone() },
        Message::Settled { confirmed: ranges, refused: Ranges::new() },
        Message::Finished(report),
        Message::Status(status.clone()),
        Message::Bye(status),
        Message::Abort(reason()),
        Message::KeepAlive { taken: 9 },
        Message::Ask { at: Time(1) },
        Message::Here { at: Time(2) },
        Message::Streams { wanted: 8 },
        Message::NoStreams("refused".into()),
        Message::Bytes(vec![7; 5]),
        Message::Warning("left out".into()),
        Message::RateCap(Rate::from_mbps(10.0)),
        Message::Over,
    ];
    numbered(0, messages)
}

/// Those that versions 12 to 14 added.
fn messages_since() -> Vec<(String, Message)> {
    let at = Whereabouts { hosts: vec![HOST], name: Some("far".into()), port: 7700 };
    let key = OneCopyKey([8; 32]);
    let asks = Operation::Push { dest: b"in/".to_vec() };
    let transport = Transport::Auto;
    let path =
        PathStatus { from: HOST, to: HOST, packets_sent: 5, loss: 0.5, rtt_ns: [1, 2], is_silent: true };
    let messages = vec![
        Message::Ticket(Ticket { id: [6; 16], secret: [7; 32] }),
        Message::Ready(Ready { at: at.clone(), connects: true }),
        Message::Reach(at.clone()),
        Message::Reached(Some("refused".into())),
        Message::BeServer(ServerPart { key, relayed: true }),
        Message::BeClient(Box::new(ClientPart { key, to: at, asks, transport })),
        Message::Progress(Box::new(Progress { bytes_done: 7, files_total: 3, ..Progress::default() })),
        Message::Remark("it goes on".into()),
        Message::Copied(Box::new(Outcome { bytes: 9, files: 2, ..Outcome::default() })),
        Message::WantPaths(WantPaths { places: 2 }),
        Message::Paths(Paths { hosts: vec![HOST], ports: vec![7701] }),
        Message::PathStatus(vec![path]),
        Message::FilesDone(4),
        Message::Pace(Pace { rate: Some(Rate::from_mbps(10.0)), paused: true }),
    ];
    numbered(self::messages().len(), messages)
}

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn numbered(first: usize, messages: Vec<Message>) -> Vec<(String, Message)> {
    messages.into_iter().enumerate().map(|(n, message)| (format!("message-{}", first + n), message)).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_hex(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}
