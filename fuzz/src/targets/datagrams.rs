//! What stands in a datagram.

use longhaul_proto::ecn::Ecn;
use longhaul_proto::session::opening::{Assembly, OPENING, Openings, PIECE_LEN, Piece, cut};
use longhaul_proto::units::Time;
use longhaul_proto::wire::{self, Ack, Body, DATA_PREFIX, HEADER_LEN, Header, MAX_NUMBER, SEAL_OVERHEAD};
use std::time::Duration;

/// A header that is read is written the same.
pub fn header(bytes: &[u8]) {
    let Some(header) = Header::decode(bytes) else { return };
    assert!(bytes.len() >= SEAL_OVERHEAD && header.number < MAX_NUMBER);
    assert_eq!(header.encode(), bytes[..HEADER_LEN]);
}

pub fn header_seeds() -> Vec<Vec<u8>> {
    let header = |phase, number| {
        let header = Header { phase, connection_id: 0x0102_0304_0506_0708, number };
        [&header.encode()[..], &[0; SEAL_OVERHEAD]].concat()
    };
    let [main, early, ticket] = wire::KeyPhase::ALL;
    vec![header(early, 0), header(main, 7), header(main, MAX_NUMBER - 1), header(ticket, 1)]
}

/// A body that is read means the same when it is written and read again, and keeps to its bounds.
pub fn body(bytes: &[u8]) {
    let Some(body) = Body::decode(bytes) else { return };
    let mut buf = vec![0; BODY_LEN_MAX];
    let written = match &body {
        Body::Data { class, timed, packet, data } => {
            assert!(usize::from(*class) < wire::MAX_CLASSES && *packet < MAX_NUMBER && !data.is_empty());
            wire::encode_data_prefix(&mut buf, *class, *timed, *packet);
            buf[DATA_PREFIX..DATA_PREFIX + data.len()].copy_from_slice(data);
            DATA_PREFIX + data.len()
        }
        Body::Ack(ack) => {
            check(ack);
            ack.encode(&mut buf)
        }
        Body::Probe { class, token, len } => {
            assert_eq!(*len, bytes.len());
            wire::encode_probe(&mut buf[..*len], *class, *token);
            *len
        }
        Body::Reply { probe, arrival, token } => wire::encode_reply(&mut buf, *probe, *arrival, *token),
        Body::Request(request) => request.encode(&mut buf),
        Body::Words { position, bytes } => wire::encode_words(&mut buf, *position, bytes),
    };
    assert_eq!(Body::decode(&buf[..written]), Some(body));
}

fn check(ack: &Ack) {
    assert!(ack.runs.len() <= wire::MAX_RUNS && ack.slice.len() <= wire::MAX_SLICE_WORDS);
    assert!(ack.latest <= ack.largest && ack.slice_start.is_multiple_of(64));
    let floor = ack.runs_floor();
    let mut above = ack.largest.saturating_add(1);
    for range in ack.received_ranges() {
        assert!(floor <= range.start && range.start <= range.end && range.end <= above);
        above = range.start;
    }
}

pub fn body_seeds() -> Vec<Vec<u8>> {
    let mut data = vec![7; DATA_PREFIX + 100];
    wire::encode_data_prefix(&mut data, 2, false, 77);
    let mut probe = vec![0; 1169];
    wire::encode_probe(&mut probe, 0, 9);
    let mut reply = vec![0; wire::REPLY_LEN];
    wire::encode_reply(&mut reply, 3, Time::from_millis(5), 9);
    let mut request = vec![0; wire::REQUEST_LEN];
    wire::Request { class: 0, round: 2, from: 64 }.encode(&mut request);
    let mut words = vec![0; wire::WORDS_PREFIX + 5];
    wire::encode_words(&mut words, 7, b"words");
    vec![data, probe, reply, request, words, ack_body(&Ack::default()), ack_body(&full_ack())]
}

/// An acknowledgement with something in every field.
pub fn full_ack() -> Ack {
    Ack {
        epoch: 1,
        complete: false,
        answer: Some(wire::Answer { round: 3, last: false }),
        pressure: 128,
        latest: 98,
        latest_time: Time::from_millis(1234),
        latest_ecn: Ecn::Ect0,
        marked: 7,
        delay: Duration::from_micros(150),
        received: 90,
        distinct: 88,
        dropped: 2,
        refused: 1,
        low: 60,
        largest: 99,
        runs: vec![10, 5, 20, 1, 64],
        timed: vec![(97, Time::from_millis(1233)), (96, Time::from_millis(1232))],
        slice_start: 64,
        slice: vec![0x00ff_00ff_00ff_00ff, u64::MAX],
    }
}

/// An acknowledgement as it travels.
pub fn ack_body(ack: &Ack) -> Vec<u8> {
    let mut buf = vec![0; 1400];
    let len = ack.encode(&mut buf);
    buf.truncate(len);
    buf
}

/// Pieces of messages from two clients, in any order and cut in any way: what comes out whole is what was put in.
pub fn opening(bytes: &[u8]) {
    let mut script = super::Script { bytes };
    let (mut openings, mut alone) = (Openings::default(), Assembly::default());
    while let Some(kind) = script.u8() {
        let Some(raw) = script.piece() else { return };
        let whole: Vec<_> = cut(u64::from(kind % 2), raw).collect();
        // Bytes as they come, or pieces of a message.
        let datagrams = if kind < 128 { vec![raw.to_vec()] } else { whole };
        for datagram in &datagrams {
            let Some(piece) = Piece::decode(datagram) else { continue };
            assert!(piece.encode() == *datagram && datagram[0] == OPENING && piece.bytes.len() <= PIECE_LEN);
            for message in [openings.take(kind % 4, &piece), alone.take(&piece)].into_iter().flatten() {
                assert!(!message.is_empty() && message.len() >= piece.bytes.len());
            }
        }
    }
}

pub fn opening_seeds() -> Vec<Vec<u8>> {
    let mut script = vec![];
    for (kind, len) in [(130, 100), (131, 3000)] {
        script.push(kind);
        super::put_piece(&mut script, &vec![kind; len]);
        for datagram in cut(1, &vec![kind; len]) {
            script.push(0);
            super::put_piece(&mut script, &datagram);
        }
    }
    vec![script]
}

/// More than any input that the fuzzers make.
const BODY_LEN_MAX: usize = 1 << 20;
