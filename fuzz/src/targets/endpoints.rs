//! Endpoints that meet a hostile peer.

use super::datagrams::{ack_body, body_seeds, full_ack};
use super::{Script, put_piece};
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Endpoint, Sink, Transmit};
use longhaul_proto::object::{
    AckPolicy, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, Shape,
};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire::{self, Ack, Answer, DATA_PREFIX, Request};
use std::time::Duration;

const SHAPE: Shape = Shape { object_len: 150_000, packet_len: 1000 };
const RTT: Duration = Duration::from_millis(20);

/// Step the clock by what the script says, give the endpoint a body, drain it as a driver does.
pub(super) fn drive<E: Endpoint>(endpoint: &mut E, bytes: &[u8], mut sent: impl FnMut(Transmit, &[u8])) {
    let mut script = Script { bytes };
    let (mut now, mut buf) = (Time::from_millis(1), vec![0; 9000]);
    while let (Some(step_us), Some(number), Some(body)) = (script.u16(), script.u16(), script.piece()) {
        now = now + Duration::from_micros(u64::from(step_us) * 4);
        let arrival = Arrival::new(now, number.into());
        endpoint.handle_datagram(now, arrival, body);
        for _ in 0..TRANSMITS_MAX {
            let Some(transmit) = endpoint.poll_transmit(now, &mut buf) else { break };
            assert!(transmit.len > 0 && transmit.len <= buf.len());
            sent(transmit, &buf[..transmit.len]);
        }
        if endpoint.poll_timeout().is_some_and(|at| at <= now) {
            endpoint.handle_timeout(now);
        }
        while endpoint.poll_event().is_some() {}
    }
}

/// Whatever acknowledgements say, a sender numbers its datagrams upwards and sends its object's bytes.
pub fn sender(bytes: &[u8]) {
    let [choice, rest @ ..] = bytes else { return };
    let selectors = SelectorKind::ALL.len();
    let kind = ControllerKind::ALL[usize::from(*choice) / selectors % ControllerKind::ALL.len()];
    let config = SenderConfig {
        shape: SHAPE,
        class: 0,
        selector: SelectorKind::ALL[usize::from(*choice) % selectors],
        rate_cap: None,
        rtt: RTT,
        have: Ranges::new(),
        ecn: Ecn::Ect0,
        seed: 1,
    };
    let object: Vec<u8> = (0..SHAPE.object_len).map(|at| at as u8).collect();
    let mut sender = Sender::new(config, object, kind.build(control_config()));
    let mut next = 0;
    drive(&mut sender, rest, |transmit, body| {
        assert_eq!(transmit.number, next);
        next += 1;
        match wire::Body::decode(body) {
            Some(wire::Body::Data { packet, data, .. }) => {
                let range = SHAPE.range(packet);
                assert_eq!(data.len() as u64, range.end - range.start);
                assert_eq!(data[0], range.start as u8);
            }
            Some(wire::Body::Request(request)) => assert!(request.from <= SHAPE.packets()),
            other => panic!("{other:?}"),
        }
    });
    let stats = sender.stats();
    assert!(stats.packets_sent + stats.requests == next && sender.acked() <= SHAPE.packets());
}

pub fn sender_seeds() -> Vec<Vec<u8>> {
    let acks = [1, 20, 40, 99, 140, 150].map(|count| {
        let runs = if count > 30 { vec![10, 2, count - 12] } else { vec![count] };
        Ack {
            received: count,
            distinct: count,
            largest: count - 1,
            latest: count - 1,
            runs,
            ..Ack::default()
        }
    });
    let script = |choice: u8, acks: &[Ack]| {
        let mut script = vec![choice];
        for (number, ack) in acks.iter().enumerate() {
            script.extend(5000u16.to_be_bytes());
            script.extend((number as u16).to_be_bytes());
            put_piece(&mut script, &ack_body(ack));
        }
        script
    };
    let complete = Ack { complete: true, low: SHAPE.packets(), ..full_ack() };
    let answers = acks.clone().map(|ack| {
        let answer = Some(Answer { round: 1, last: ack.received > 100 });
        Ack { answer, runs: vec![], slice: vec![u64::MAX >> 1], ..ack }
    });
    let mut seeds: Vec<_> = (0..60).map(|choice| script(choice, &acks)).collect();
    seeds.push(script(0, &[full_ack(), complete]));
    // Rounds are the last of the selectors.
    seeds.extend((4..60).step_by(5).map(|choice| script(choice, &answers)));
    seeds
}

/// Writes are counted and must lie within the object.
#[derive(Default)]
struct Bounded {
    writes: u64,
}

impl Sink for Bounded {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), longhaul_proto::endpoint::Full> {
        assert!(offset + data.len() as u64 <= SHAPE.object_len);
        self.writes += 1;
        if self.writes.is_multiple_of(7) { Err(longhaul_proto::endpoint::Full) } else { Ok(()) }
    }
}

/// Whatever datagrams say, a receiver writes within the object and acknowledges in datagrams that fit.
pub fn receiver(bytes: &[u8]) {
    let config = ReceiverConfig {
        shape: SHAPE,
        class: 0,
        ack: AckPolicy::new(4, RTT),
        have: Ranges::new(),
        max_body: ACK_BODY_MAX,
    };
    let mut receiver = Receiver::new(config, Bounded::default());
    drive(&mut receiver, bytes, |transmit, body| {
        assert!(transmit.len <= ACK_BODY_MAX);
        assert!(matches!(wire::Body::decode(body), Some(wire::Body::Ack(_))));
    });
    let (stats, received) = (receiver.stats(), receiver.received());
    assert!(received <= SHAPE.packets() && stats.repeats + stats.refused <= stats.received);
}

pub fn receiver_seeds() -> Vec<Vec<u8>> {
    let script = |packets: &[u64]| {
        let mut script = vec![];
        for (number, packet) in packets.iter().enumerate() {
            script.extend(20u16.to_be_bytes());
            script.extend((number as u16 * 3).to_be_bytes());
            let range = SHAPE.range(*packet);
            let mut body = vec![1; DATA_PREFIX + (range.end - range.start) as usize];
            wire::encode_data_prefix(&mut body, 0, false, *packet);
            put_piece(&mut script, &body);
        }
        script
    };
    let mut asked = script(&[0, 1, 2, 70, 149]);
    for (round, from) in [(1, 0), (1, 64), (2, 3)] {
        let mut body = vec![0; wire::REQUEST_LEN];
        Request { class: 0, round, from }.encode(&mut body);
        asked.extend(50u16.to_be_bytes());
        asked.extend((500 + round as u16 + from as u16).to_be_bytes());
        put_piece(&mut asked, &body);
    }
    vec![script(&[0, 1, 2, 3, 4, 5, 6]), script(&[149, 0, 149, 75]), script(&[3, 3, 3]), asked]
}

/// Whatever comes in, a path check sends no more than it was told to, and replies that are shorter than probes.
pub fn path_check(bytes: &[u8]) {
    let [train, rest @ ..] = bytes else { return };
    let mut check = PathCheck::new(CLASSES.to_vec(), train % 2 == 0, TOKEN);
    let mut probes = 0;
    drive(&mut check, rest, |transmit, body| match wire::Body::decode(body) {
        Some(wire::Body::Probe { class, len, token: TOKEN }) => {
            probes += 1;
            assert_eq!(len + wire::SEAL_OVERHEAD, usize::from(CLASSES[usize::from(class)]));
        }
        Some(wire::Body::Reply { .. }) => assert_eq!(transmit.len, wire::REPLY_LEN),
        other => panic!("{other:?}"),
    });
    assert!(probes < 256);
    let report = check.report();
    assert!(report.largest_class.is_none_or(|class| usize::from(class) < CLASSES.len()));
}

/// In the probes of a path check.
const TOKEN: u64 = 0x0102_0304_0506_0708;

pub fn path_check_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for train in [0, 1] {
        let mut script = vec![train];
        for number in 0..40u16 {
            let mut body = vec![0; if number % 4 == 0 { 1000 } else { wire::REPLY_LEN }];
            if number % 4 == 0 {
                wire::encode_probe(&mut body, 0, TOKEN);
            } else {
                let token = TOKEN + u64::from(number % 4 == 1);
                wire::encode_reply(&mut body, number.into(), Time::from_millis(u64::from(number)), token);
            }
            script.extend(100u16.to_be_bytes());
            script.extend(number.to_be_bytes());
            put_piece(&mut script, &body);
        }
        seeds.push(script);
    }
    seeds.extend(body_seeds());
    seeds
}

fn control_config() -> ControlConfig {
    ControlConfig { rate: Some(Rate::from_mbps(50.0)), ..ControlConfig::new(1038, RTT) }
}

/// UDP payload lengths that the path check tries.
const CLASSES: [u16; 3] = [1200, 1472, 8972];
/// A driver never asks without end; a sender without control would go on for the whole object.
const TRANSMITS_MAX: usize = 300;
const ACK_BODY_MAX: usize = 1169;
