//! User-level TCP that meets a hostile peer.

use super::endpoints::drive;
use super::put_piece;
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::endpoint::{Arrival, Endpoint, Full, Sink};
use longhaul_proto::tcp::{Config, Receiver, Sender};
use longhaul_proto::units::Time;
use std::time::Duration;

const STREAM_LEN: u64 = 40_000;
/// Few enough that a peer reaches every bound.
const BUFFER: u64 = 30_000;

fn config(choice: u8) -> Config {
    Config {
        sack: choice & 1 == 0,
        window_scaling: choice & 2 == 0,
        receive_buffer: BUFFER,
        ..Config::default()
    }
}

fn new_sender(choice: u8) -> Sender<Vec<u8>> {
    let kind = ControllerKind::ALL[usize::from(choice / 4) % ControllerKind::ALL.len()];
    let config = config(choice);
    let control = ControlConfig::new(config.datagram_len(), Duration::from_millis(20));
    let stream = (0..STREAM_LEN).map(|at| at as u8).collect();
    Sender::new(config, STREAM_LEN, stream, kind.build(control))
}

/// Whatever segments say, a sender sends its stream's bytes, in segments that fit, and never more than it has.
pub fn sender(bytes: &[u8]) {
    let [choice, rest @ ..] = bytes else { return };
    let mut sender = new_sender(*choice);
    let mut last = None;
    drive(&mut sender, rest, |transmit, body| {
        assert!(last.is_none_or(|last| transmit.number > last));
        last = Some(transmit.number);
        assert!(body.len() as u64 <= config(*choice).datagram_len());
    });
    let stats = sender.stats();
    assert!(stats.retransmitted <= stats.segments_sent && stats.bytes_acked <= STREAM_LEN);
}

/// Takes bytes in order and is full now and then.
#[derive(Default)]
struct InOrder {
    taken: u64,
    writes: u64,
}

impl Sink for InOrder {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        assert!(offset == self.taken && !data.is_empty());
        self.writes += 1;
        if self.writes.is_multiple_of(7) {
            return Err(Full);
        }
        self.taken += data.len() as u64;
        Ok(())
    }
}

/// Whatever segments say, a receiver hands on bytes in order, and answers with no more than it was sent.
pub fn receiver(bytes: &[u8]) {
    let [choice, rest @ ..] = bytes else { return };
    let mut receiver = Receiver::new(config(*choice), InOrder::default());
    drive(&mut receiver, rest, |transmit, _| assert!(transmit.len <= ACK_LEN_MAX));
    assert_eq!(receiver.delivered_bytes(), receiver.sink_mut().taken);
}

pub fn sender_seeds() -> Vec<Vec<u8>> {
    (0..16).map(|choice| exchange(choice).0).collect()
}

pub fn receiver_seeds() -> Vec<Vec<u8>> {
    (0..4).map(|choice| exchange(choice).1).collect()
}

/// What each side hears in a transfer that loses every ninth segment, as scripts.
fn exchange(choice: u8) -> (Vec<u8>, Vec<u8>) {
    let (mut left, mut right) = (new_sender(choice), Receiver::new(config(choice), InOrder::default()));
    let (mut to_left, mut to_right) = (vec![choice], vec![choice]);
    let (mut now, mut buf, mut segments) = (Time::from_millis(1), vec![0; 2000], 0u64);
    for _ in 0..60 {
        now = now + Duration::from_millis(10);
        while let Some(sent) = left.poll_transmit(now, &mut buf) {
            segments += 1;
            if !segments.is_multiple_of(9) {
                write_step(&mut to_right, sent.number, &buf[..sent.len]);
                right.handle_datagram(now, Arrival::new(now, sent.number), &buf[..sent.len]);
            }
            while let Some(sent) = right.poll_transmit(now, &mut buf) {
                write_step(&mut to_left, sent.number, &buf[..sent.len]);
                left.handle_datagram(now, Arrival::new(now, sent.number), &buf[..sent.len]);
            }
        }
        left.handle_timeout(now);
        right.handle_timeout(now);
    }
    (to_left, to_right)
}

/// A step as [`drive`] reads it: 2 ms later, a datagram.
fn write_step(script: &mut Vec<u8>, number: u64, body: &[u8]) {
    script.extend(500u16.to_be_bytes());
    script.extend((number as u16).to_be_bytes());
    put_piece(script, body);
}

/// Header, three blocks.
const ACK_LEN_MAX: usize = 52;
