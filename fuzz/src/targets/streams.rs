//! What comes over the control stream: from strangers in the handshake, from a peer with the key after it.

use super::{Script, put_piece};
use longhaul_proto::session::limit::Limit;
use longhaul_proto::session::manifest::{Group, Ranges};
use longhaul_proto::session::message::{
    Answer, Direction, FileFailure, FileOptions, GroupHash, Message, Offer, PROTOCOL_VERSION, Report,
    SenderStatus, TransferOptions,
};
use longhaul_proto::units::Rate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Cursor};
use std::time::Duration;

// The crate keeps these to itself: here they are taken in as source, and what no target calls is dead.
#[allow(dead_code)]
#[path = "../../../crates/longhaul/src/net/control.rs"]
mod control;
#[allow(dead_code)]
#[path = "../../../crates/longhaul/src/net/wake.rs"]
mod wake;

const PSK: [u8; 32] = [9; 32];

/// A server that meets a stranger, a server that meets a client with the key, a client that meets a stranger: whatever
/// the bytes, the handshake ends, and what follows it is read or refused.
pub fn handshake(bytes: &[u8]) {
    match bytes {
        [0, from_client @ ..] => drop(accept(from_client.to_vec())),
        [1, from_server @ ..] => {
            let waker = wake::Waker::new().expect("an event descriptor");
            drop(control::connect(stream(from_server.to_vec()), &PSK, &offer(), waker, || {}));
        }
        [_, rest @ ..] => {
            let mut script = Script { bytes: rest };
            let Some(offered) = script.piece() else { return };
            drop(accept(first_flight(offered)));
        }
        [] => {}
    }
}

fn accept(from_client: Vec<u8>) -> Result<(), control::HandshakeError> {
    let waker = wake::Waker::new().expect("an event descriptor");
    let (control, _) = control::accept(stream(from_client), &PSK, waker, |_| answer())?;
    // Nothing can follow, since a client seals what follows with our answer; the reader sees the end.
    while let Some(control::Incoming::Message(_)) = control.wait(Duration::from_secs(5)) {}
    Ok(())
}

fn stream(from_other_side: Vec<u8>) -> control::Stream {
    control::Stream {
        reader: Box::new(Cursor::new(from_other_side)),
        writer: Box::new(io::sink()),
        closer: Box::new(|| {}),
    }
}

/// What a client that holds the key sends first, with these bytes in place of an offer.
fn first_flight(offered: &[u8]) -> Vec<u8> {
    let params = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern that snow knows");
    let builder = snow::Builder::new(params).psk(0, &PSK).expect("a key at 0");
    let mut state = builder.build_initiator().expect("an initiator needs nothing more");
    let mut frame = vec![0; 65_535];
    let len = state.write_message(offered, &mut frame).expect("inputs are shorter than a frame");
    let mut first = vec![b'L', b'H', b'C', PROTOCOL_VERSION as u8];
    put_piece(&mut first, &frame[..len]);
    first
}

pub fn handshake_seeds() -> Vec<Vec<u8>> {
    let offered = to_bytes(&offer());
    let mut with_key = vec![2];
    put_piece(&mut with_key, &offered);
    let refusal = [&[1, 0, 0, 1, 1][..], &[1, 0, 0, 2, 9]].map(<[u8]>::to_vec);
    let reply = [&[1, 0, 48][..], &[5; 48]].concat();
    [vec![[&[0][..], &first_flight(&offered)].concat(), with_key, reply], refusal.to_vec()].concat()
}

/// What is read means the same when it is written and read again.
pub fn message(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    match kind % 3 {
        0 => again::<Message>(rest),
        1 => again::<Offer>(rest),
        _ => again::<Answer>(rest),
    }
}

fn again<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = postcard::from_bytes::<T>(bytes) else { return };
    let written = to_bytes(&value);
    let read: T = postcard::from_bytes(&written).expect("what was written can be read");
    // Compared as bytes: some hold floating-point numbers, of which one is not equal to itself.
    assert_eq!(to_bytes(&read), written);
}

pub fn message_seeds() -> Vec<Vec<u8>> {
    let tagged = |tag: u8, bytes: Vec<u8>| [&[tag][..], &bytes].concat();
    let messages = messages();
    let mut seeds: Vec<_> = messages.iter().map(|message| tagged(0, to_bytes(message))).collect();
    seeds.push(tagged(1, to_bytes(&offer())));
    let pull = Direction::Pull { sources: vec![b"a".to_vec(), b"b/".to_vec()] };
    seeds.push(tagged(1, to_bytes(&Offer { direction: pull, ..offer() })));
    seeds.push(tagged(2, to_bytes(&answer())));
    seeds.push(tagged(2, to_bytes(&Answer::Refuse("no".into()))));
    seeds
}

/// One of each kind.
fn messages() -> Vec<Message> {
    let ranges: Ranges = [0..1000, 5000..9000].into_iter().collect();
    let failure = FileFailure { path: b"a/b".to_vec(), reason: "permission denied".into() };
    let hash = GroupHash { group: Group { entry: 1, index: 2 }, hash: [3; 32] };
    let status =
        SenderStatus { limited_by: Limit::Path, remarks: vec!["x".into()], ..SenderStatus::default() };
    vec![
        Message::ManifestPart { total: 300, bytes: vec![1; 100] },
        Message::Start { have: ranges.clone(), skipped: 3 },
        Message::Hashes(vec![hash, hash]),
        Message::SourceFailed { entry: 4, reason: "gone".into() },
        Message::SourceErrors(vec![failure.clone()]),
        Message::Resend { epoch: 2, ranges: ranges.clone() },
        Message::Unwanted { ranges },
        Message::Finished(Report { files_done: 5, failed: vec![failure], ..Report::default() }),
        Message::Status(status.clone()),
        Message::Bye(status),
        Message::Abort("enough".into()),
        Message::KeepAlive,
    ]
}

fn offer() -> Offer {
    Offer {
        version: PROTOCOL_VERSION,
        connection_id: 7,
        aes: true,
        early_salt: [1; 32],
        direction: Direction::Push { dest: b"in/".to_vec() },
        files: FileOptions { resume: true, exclude: vec!["*.o".into()], ..FileOptions::default() },
        transfer: TransferOptions {
            control: "adaptive".into(),
            select: "circular".into(),
            rate_cap: Some(Rate::from_mbps(800.0)),
            ack_every: Some(32),
            batch: None,
            classes: vec![1200, 1472],
            stall_timeout_ms: 60_000,
        },
        manifest_len: 5,
        manifest_head: vec![1, 2, 3],
    }
}

fn answer() -> Answer {
    let hosts = vec!["192.0.2.1".parse().expect("an address"), "2001:db8::1".parse().expect("an address")];
    Answer::Accept { aes: true, udp_secret: [5; 32], udp_port: 7700, udp_hosts: hosts }
}

fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain data always serialises")
}
