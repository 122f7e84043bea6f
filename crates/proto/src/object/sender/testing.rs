//! What tests of a sender share: an object in packets of 1000 bytes, and who receives it.

use super::Sender;
use crate::control::Controller;
use crate::ecn::Ecn;
use crate::endpoint::{Arrival, Endpoint};
use crate::object::{AckKind, DEFAULT_EVERY, Receiver, ReceiverConfig, SelectorKind, SenderConfig, Shape};
use crate::ranges::Ranges;
use crate::units::{DatagramNumber, Time};
use core::time::Duration;

pub const RTT: Duration = Duration::from_millis(20);

fn shape(len: usize) -> Shape {
    Shape { object_len: len as u64, packet_len: 1000 }
}

pub fn sender(object: Vec<u8>, controller: Box<dyn Controller>) -> Sender<Vec<u8>> {
    let config = SenderConfig {
        shape: shape(object.len()),
        class: 0,
        selector: SelectorKind::default(),
        rate_cap: None,
        rtt: RTT,
        have: Ranges::default(),
        ecn: Ecn::NotEct,
        seed: 1,
    };
    Sender::new(config, object, controller)
}

/// Of an object of so many bytes.
pub fn receiver(len: usize) -> Receiver<Vec<u8>> {
    let ack = AckKind::Every(DEFAULT_EVERY).policy(RTT);
    let config = ReceiverConfig { shape: shape(len), class: 0, ack, have: Ranges::default(), max_body: 1169 };
    Receiver::new(config, vec![0; len])
}

/// All that may be sent now: numbers and bodies.
pub fn drain(sender: &mut Sender<Vec<u8>>, now: Time) -> Vec<(DatagramNumber, Vec<u8>)> {
    let (mut buf, mut sent) = (vec![0; 1100], vec![]);
    while let Some(transmit) = sender.poll_transmit(now, &mut buf) {
        sent.push((transmit.number, buf[..transmit.len].to_vec()));
    }
    sent
}

pub fn take(receiver: &mut Receiver<Vec<u8>>, now: Time, number: DatagramNumber, body: &[u8]) {
    receiver.handle_datagram(now, Arrival::new(now, number), body);
}

/// All acknowledgements that are due reach the sender.
pub fn acknowledge(receiver: &mut Receiver<Vec<u8>>, sender: &mut Sender<Vec<u8>>, now: Time) {
    receiver.handle_timeout(now);
    let mut buf = vec![0; 1169];
    while let Some(ack) = receiver.poll_transmit(now, &mut buf) {
        sender.handle_datagram(now, Arrival::new(now, ack.number), &buf[..ack.len]);
    }
}
