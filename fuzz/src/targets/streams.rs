//! What comes over the control stream: from strangers in the handshake, from a peer with the key after it.

use super::{Script, put_piece};
use longhaul_net::noise::Identity;
use longhaul_net::{control, wake};
use longhaul_proto::scitag::SciTag;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::limit::Limit;
use longhaul_proto::session::manifest::{Group, Ranges};
use longhaul_proto::session::message::several::{PathStatus, Paths, WantPaths};
use longhaul_proto::session::message::third_party::{ClientPart, OneCopyKey, Ready, ServerPart, Whereabouts};
use longhaul_proto::session::message::{
    Already, Answer, FileFailure, FileOptions, GroupHash, Message, Offer, Operation, Pace, Report,
    SenderStatus, Ticket, TransferOptions,
};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::transport::{Carrier, Switch, Transport};
use longhaul_proto::session::versions::Versions;
use longhaul_proto::units::{Rate, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::HandshakeState;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex};
use std::thread;

const PSK: [u8; 32] = [9; 32];
/// What a client says in clear in its first frame: its lowest version, and that it has a shared key and no more.
const OPENING: [u8; 2] = [Versions::OURS.lowest(), 0];
/// What a client begins with.
const BEGIN: [u8; 4] = [b'L', b'H', b'C', Versions::OURS.highest()];

/// A server that meets a stranger, a client that meets one, a server whose client has the key and offers nonsense, a
/// server whose client says nonsense later: whatever the bytes, the handshake ends, and what follows is read or
/// refused.
pub fn handshake(bytes: &[u8]) {
    match bytes {
        [0, from_client @ ..] => accept(Cursor::new(from_client.to_vec()), io::sink()),
        [1, from_server @ ..] => {
            let waker = wake::Waker::new().expect("an event descriptor");
            let stream = stream(Cursor::new(from_server.to_vec()), io::sink());
            drop(control::connect(stream, &PSK.into(), &offer(), waker));
        }
        [2, offered @ ..] => accept(Cursor::new(first_flight(&mut initiator(), offered)), io::sink()),
        [_, said @ ..] => {
            let client = Client::new(said);
            accept(client.clone(), client);
        }
        [] => {}
    }
}

fn accept(from_client: impl Read + Send + 'static, to_client: impl Write + Send + 'static) {
    let waker = wake::Waker::new().expect("an event descriptor");
    let stream = stream(from_client, to_client);
    let identity = Identity::from_private([3; 32]);
    let find = |_| (control::ServerKey { psk: PSK, identity: Some(identity) }, Some(()));
    let Ok((control, ..)) = control::accept(stream, find, waker, |_, ()| answer()) else { return };
    while !matches!(control.poll(), Some(control::Incoming::Closed)) {
        thread::yield_now();
    }
}

fn stream(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> control::Stream {
    control::Stream {
        reader: Box::new(reader),
        writer: Box::new(writer),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
        resumable: None,
        budget: Arc::default(),
    }
}

fn initiator() -> HandshakeState {
    let params = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern that snow knows");
    let prologue = [&BEGIN[..], &OPENING].concat();
    let builder = snow::Builder::new(params).psk(0, &PSK).expect("a key at 0");
    let builder = builder.prologue(&prologue).expect("set once");
    builder.build_initiator().expect("an initiator needs nothing more")
}

/// What a client that holds the key sends first, with these bytes in place of an offer.
fn first_flight(state: &mut HandshakeState, offered: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; FRAME_MAX];
    let offered = &offered[..offered.len().min(control::OFFER_MAX)];
    let len = state.write_message(offered, &mut frame).expect("it fits a frame");
    let mut first = BEGIN.to_vec();
    put_piece(&mut first, &[&OPENING, &frame[..len]].concat());
    first
}

/// A client that holds the key, offers what makes sense, and says anything under the session's keys: both halves of
/// the stream that a server has with it.
#[derive(Clone)]
struct Client {
    shared: Arc<Mutex<ClientState>>,
}

struct ClientState {
    /// Until the server's answer is needed.
    handshake: Option<HandshakeState>,
    from_server: Vec<u8>,
    to_server: VecDeque<u8>,
    said: Vec<u8>,
}

impl Client {
    fn new(said: &[u8]) -> Client {
        let mut handshake = initiator();
        let to_server = first_flight(&mut handshake, &to_bytes(&offer())).into();
        let said = said.to_vec();
        let state = ClientState { handshake: Some(handshake), from_server: vec![], to_server, said };
        Client { shared: Arc::new(Mutex::new(state)) }
    }
}

impl ClientState {
    /// Take the server's answer and seal what is to be said, cut into pieces as a script.
    fn speak(&mut self) {
        let Some(mut handshake) = self.handshake.take() else { return };
        let (mut frame, mut sealed) = (vec![0; FRAME_MAX], vec![]);
        // The server may have said that it is still there, too.
        let mut from_server = Script { bytes: &self.from_server };
        let answer = from_server.piece().expect("the server's answer");
        handshake.read_message(answer, &mut frame).expect("it is under the same key");
        let mut transport = handshake.into_transport_mode().expect("two messages complete NN");
        let mut script = Script { bytes: &self.said };
        while let Some(piece) = script.piece() {
            let piece = &piece[..piece.len().min(FRAME_MAX - 16)];
            let len = transport.write_message(piece, &mut frame).expect("it fits a frame");
            put_piece(&mut sealed, &frame[..len]);
        }
        self.to_server.extend(sealed);
    }
}

impl Read for Client {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.shared.lock().expect("nobody panics while holding it");
        if state.to_server.is_empty() {
            state.speak();
        }
        state.to_server.read(buf)
    }
}

impl Write for Client {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.lock().expect("nobody panics while holding it");
        if state.handshake.is_some() {
            state.from_server.extend_from_slice(buf);
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn handshake_seeds() -> Vec<Vec<u8>> {
    let offered = to_bytes(&offer());
    let tagged = |tag: u8, bytes: &[u8]| [&[tag], bytes].concat();
    let mut said = vec![];
    for message in messages() {
        let bytes = to_bytes(&message);
        let plain = [&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat();
        // Some whole, some cut in two.
        let (head, tail) = plain.split_at(if plain.len() % 2 == 0 { plain.len() } else { plain.len() / 2 });
        put_piece(&mut said, head);
        if !tail.is_empty() {
            put_piece(&mut said, tail);
        }
    }
    vec![
        tagged(0, &first_flight(&mut initiator(), &offered)),
        tagged(0, &[&BEGIN[..], &[0, 60, OPENING[0], 1], &[5; 58]].concat()),
        tagged(1, &[0, 0, 1, 1]),
        tagged(1, &[0, 0, 2, 9]),
        tagged(1, &[0, 0, 2, 13, 12]),
        tagged(1, &[&[0, 48][..], &[5; 48]].concat()),
        tagged(2, &offered),
        tagged(3, &said),
        tagged(3, &said[..said.len() / 2]),
    ]
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
    let pull = Operation::Pull { sources: vec![b"a".to_vec(), b"b/".to_vec()] };
    seeds.push(tagged(1, to_bytes(&Offer { operation: pull, ..offer() })));
    let pipe = Operation::PullPipe { source: b"a".to_vec() };
    seeds.push(tagged(1, to_bytes(&Offer { operation: pipe, ..offer() })));
    seeds.push(tagged(2, to_bytes(&answer())));
    seeds.push(tagged(2, to_bytes(&Answer::Refuse(Reason::new(Cause::Refused, "no")))));
    seeds
}

/// One of each kind.
pub(super) fn messages() -> Vec<Message> {
    let ranges: Ranges = [0..1000, 5000..9000].into_iter().collect();
    let failure =
        FileFailure { path: b"a/b".to_vec(), reason: Reason::new(Cause::Denied, "permission denied") };
    let switch = Switch { seconds: 3.5, to: Carrier::Stripe, why: "no news".into(), trial: false };
    let hash = GroupHash { group: Group { entry: 1, index: 2 }, hash: [3; 32] };
    let status = SenderStatus {
        limited_by: Limit::Path,
        remarks: vec!["x".into()],
        switches: vec![switch],
        ..SenderStatus::default()
    };
    let host = whereabouts().hosts[0];
    let path =
        PathStatus { from: host, to: host, packets_sent: 5, loss: 0.5, rtt_ns: [1, 2], is_silent: true };
    vec![
        Message::ListingPart { base: 0, total: 300, bytes: vec![1; 100] },
        Message::Start {
            have: ranges.clone(),
            claimed: ranges.clone(),
            already: Already { skipped: 3, ..Already::default() },
        },
        Message::Settled { confirmed: ranges.clone(), refused: Ranges::new() },
        Message::Hashes(vec![hash, hash]),
        Message::SourceFailed { entry: 4, reason: Reason::new(Cause::NotFound, "gone") },
        Message::Resend { epoch: 2, ranges: ranges.clone() },
        Message::Unwanted { ranges },
        Message::Finished(Report {
            files_done: 5,
            failed: [failure].into_iter().collect(),
            removed: [b"old".to_vec()].into_iter().collect(),
            to_copy: [b"a/b".to_vec()].into_iter().collect(),
            ..Report::default()
        }),
        Message::Status(status.clone()),
        Message::Bye(status),
        Message::Abort(Reason::new(Cause::Other, "enough")),
        Message::KeepAlive { taken: 9 },
        Message::Over,
        Message::Ask { at: Time(1) },
        Message::Here { at: Time(2) },
        Message::Streams { wanted: 8 },
        Message::NoStreams("refused".into()),
        Message::Bytes(vec![7; 50]),
        Message::Warning("left out".into()),
        Message::RateCap(Rate::from_mbps(10.0)),
        Message::Ready(Ready { at: whereabouts(), connects: true }),
        Message::Reach(whereabouts()),
        Message::Reached(Some("refused".into())),
        Message::BeServer(ServerPart { key: OneCopyKey([8; 32]), relayed: true }),
        Message::BeClient(Box::new(ClientPart {
            key: OneCopyKey([8; 32]),
            to: whereabouts(),
            asks: Operation::Push { dest: b"in/".to_vec() },
            transport: Transport::Auto,
        })),
        Message::Progress(Box::default()),
        Message::Remark("x".into()),
        Message::Copied(Box::default()),
        Message::Ticket(Ticket { id: [6; 16], secret: [7; 32] }),
        Message::WantPaths(WantPaths { places: 2 }),
        Message::Paths(Paths { hosts: whereabouts().hosts, ports: vec![7701] }),
        Message::PathStatus(vec![path]),
        Message::FilesDone(4),
        Message::Pace(Pace { rate: Some(Rate::from_mbps(10.0)), paused: true }),
    ]
}

pub(super) fn offer() -> Offer {
    Offer {
        connection_id: 7,
        aes: true,
        early_salt: [1; 32],
        made_s: 1_700_000_000,
        operation: Operation::Push { dest: b"in/".to_vec() },
        copy: [4; 16],
        files: FileOptions { resume: true, exclude: vec!["*.o".into()], ..FileOptions::default() },
        transfer: TransferOptions {
            control: "adaptive".into(),
            select: Some("circular".into()),
            rate_cap: Some(Rate::from_mbps(800.0)),
            ack_every: Some(32),
            batch: None,
            classes: vec![1200, 1472],
            background: true,
            stall_timeout_ms: 60_000,
            transport: Transport::Auto,
            streams: Some(4),
            congestion: Some("cubic".into()),
        },
        listing_len: 5,
        listing_head: vec![1, 2, 3],
        ticket: Some([6; 16]),
        third_party: false,
        dscp: Some(46.into()),
        preserve: Some(Preserve::ARCHIVE),
        scitag: SciTag::new(2, 16),
    }
}

fn whereabouts() -> Whereabouts {
    let hosts = vec!["192.0.2.1".parse().expect("an address")];
    Whereabouts { hosts, name: Some("far".into()), port: 7700 }
}

fn answer() -> Answer {
    let hosts = vec!["192.0.2.1".parse().expect("an address"), "2001:db8::1".parse().expect("an address")];
    Answer::Accept { aes: true, udp_secret: [5; 32], udp_port: 7700, udp_hosts: hosts, honours_ticket: true }
}

pub(super) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain data always serialises")
}

/// Noise's largest message.
const FRAME_MAX: usize = 65_535;
