//! Both ends of an object transfer over a network that does to each datagram what a script says.

use super::Script;
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Endpoint, Full, Sink};
use longhaul_proto::object::{
    AckPolicy, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Each byte says where it stands, nearly.
fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8
}

/// Takes what belongs where it is to go, and nothing else.
#[derive(Default)]
struct Checked {
    full: bool,
}

impl Sink for Checked {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        assert!(offset + data.len() as u64 <= SHAPE.object_len);
        assert!(data.iter().zip(offset..).all(|(byte, at)| *byte == byte_at(at)), "wrong bytes at {offset}");
        self.full = !self.full;
        if self.full { Ok(()) } else { Err(Full) }
    }
}

/// A datagram on its way.
type Flying = (u64, Vec<u8>);

/// Whatever the network does, the receiver is given each byte where it belongs, and the sender believes no more to be there
/// than is.
pub fn transfer(bytes: &[u8]) {
    let [choice, rest @ ..] = bytes else { return };
    let selectors = SelectorKind::ALL.len();
    let kind = ControllerKind::ALL[usize::from(*choice) / selectors % ControllerKind::ALL.len()];
    let selector = SelectorKind::ALL[usize::from(*choice) % selectors];
    let object: Vec<u8> = (0..SHAPE.object_len).map(byte_at).collect();
    let config = SenderConfig {
        shape: SHAPE,
        class: 0,
        selector,
        rate_cap: None,
        rtt: RTT,
        have: Ranges::new(),
        ecn: Ecn::Ect0,
        seed: 1,
    };
    let control = ControlConfig { rate: Some(Rate::from_mbps(50.0)), ..ControlConfig::new(1038, RTT) };
    let mut sender = Sender::new(config, object, kind.build(control));
    let ack = AckPolicy::new(4, RTT);
    let config = ReceiverConfig { shape: SHAPE, class: 0, ack, have: Ranges::new(), max_body: 1169 };
    let mut receiver = Receiver::new(config, Checked::default());
    let (mut there, mut back) = (Network::default(), Network::default());
    let (mut script, mut now) = (Script { bytes: rest }, Time::from_millis(1));
    while let (Some(step_us), Some(fate)) = (script.u16(), script.u8()) {
        now = now + Duration::from_micros(u64::from(step_us) * 4);
        there.take_from(&mut sender, now);
        there.do_to(fate & 15, now, &mut receiver);
        back.take_from(&mut receiver, now);
        back.do_to(fate >> 4, now, &mut sender);
        assert!(sender.acked() <= receiver.received(), "more is believed to be there than is");
    }
}

/// One way, with what is on it.
#[derive(Default)]
struct Network {
    flying: VecDeque<Flying>,
    numbers: u64,
}

impl Network {
    fn take_from(&mut self, endpoint: &mut impl Endpoint, now: Time) {
        if endpoint.poll_timeout().is_some_and(|at| at <= now) {
            endpoint.handle_timeout(now);
        }
        let mut buf = [0; 2000];
        for _ in 0..TRANSMITS_MAX {
            let Some(transmit) = endpoint.poll_transmit(now, &mut buf) else { break };
            self.flying.push_back((self.numbers, buf[..transmit.len].to_vec()));
            self.numbers += 1;
        }
        // A queue has an end.
        self.flying.truncate(FLYING_MAX);
        while endpoint.poll_event().is_some() {}
    }

    /// Deliver some, from the front or the back, twice or once, or lose them.
    fn do_to(&mut self, fate: u8, now: Time, endpoint: &mut impl Endpoint) {
        for _ in 0..=fate >> 2 {
            let next = if fate & 1 == 0 { self.flying.pop_front() } else { self.flying.pop_back() };
            let Some((number, body)) = next else { return };
            // A number is let through once by the driver's window of replays.
            if fate & 2 == 0 {
                endpoint.handle_datagram(now, Arrival::new(now, number), &body);
            }
        }
    }
}

pub fn transfer_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for choice in 0..60u8 {
        for fates in [&[0xcc][..], &[0xcc, 0xce, 0xcd], &[0x0c, 0x2e, 0xc1, 0xe0]] {
            let steps =
                (0..150).flat_map(|n| [&600u16.to_be_bytes()[..], &[fates[n % fates.len()]]].concat());
            seeds.push([choice].into_iter().chain(steps).collect());
        }
    }
    seeds
}

const SHAPE: Shape = Shape { object_len: 150_300, packet_len: 1000 };
const RTT: Duration = Duration::from_millis(20);
const TRANSMITS_MAX: usize = 300;
const FLYING_MAX: usize = 1000;
