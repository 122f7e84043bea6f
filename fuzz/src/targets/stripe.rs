//! What comes on the lanes of a striped stream.

use super::{Script, put_piece};
use longhaul_proto::forward::{REPLY_MAX, Reply, Request, Target};
use longhaul_proto::session::reason::Cause;
use longhaul_proto::stripe::frame::{Ack, Frame, HEADER_LEN, PAYLOAD_MAX, data_header};
use longhaul_proto::stripe::hello::{Answer, Offer, PREAMBLE_LEN, Purpose, preamble, read_preamble};
use longhaul_proto::stripe::lane::{InClear, LaneReader};
use longhaul_proto::stripe::outgoing::{Outgoing, Partition};
use longhaul_proto::stripe::reassembly::Reassembly;
use longhaul_proto::units::Time;

/// A peer that is let in and says anything on two lanes, while we have something of our own on the way: whatever it is,
/// no more is held than the bound, and what comes out is what came in first.
pub fn lanes(bytes: &[u8]) {
    let mut script = Script { bytes };
    let mut inc = Reassembly::new(BOUND);
    let mut out = Outgoing::new(Partition::Auto, BOUND, BOUND);
    for lane in 0..2 {
        out.add_lane(lane);
    }
    out.write(&[5; 3000]);
    out.next(0, Time::ZERO);
    let mut readers = [LaneReader::default(), LaneReader::default()];
    let (mut spare, mut read) = (vec![], 0);
    while let Some(choice) = script.u8() {
        let Some(said) = script.piece() else { break };
        let reader = &mut readers[usize::from(choice & 1)];
        if hear(reader, said, &mut inc, &mut out, &mut spare).is_none() {
            // The driver ends such a lane.
            *reader = LaneReader::default();
            inc.ask_ack();
        }
        assert!(inc.held() <= BOUND && spare.len() < 100, "{} bytes held", inc.held());
        match choice >> 1 & 3 {
            0 => read += inc.pop().map_or(0, |piece| piece.len() as u64),
            1 => {
                let ack = inc.ack();
                assert!(ack.received >= read && ack.limit <= ack.received + BOUND);
                let (header, payload) = Frame::Ack(ack.clone()).encode();
                assert_eq!(Frame::decode(&header, payload), Ok(Frame::Ack(ack)));
            }
            2 => drop(out.remove_lane(u32::from(choice & 1))),
            _ => {}
        }
    }
}

/// Take in what was said on a lane. `None`: it must not have been.
fn hear(
    reader: &mut LaneReader,
    mut said: &[u8],
    inc: &mut Reassembly,
    out: &mut Outgoing,
    spare: &mut Vec<Vec<u8>>,
) -> Option<()> {
    while !said.is_empty() {
        let (body, head) = reader.space();
        assert!(body.len() <= PAYLOAD_MAX && head.len() <= HEADER_LEN);
        let len = said.len().min(body.len() + head.len());
        body.iter_mut().chain(head).zip(said).for_each(|(place, byte)| *place = *byte);
        said = &said[len..];
        reader.filled(len);
        while let Some(frame) = reader.poll(&mut InClear, spare).ok()? {
            match frame {
                Frame::Data { offset, bytes } => inc.insert(offset, bytes).ok()?,
                Frame::End(end) => inc.finish(end).ok()?,
                Frame::Ack(ack) => drop(out.on_ack(&ack, Time::ZERO).ok()?),
                Frame::Stop => inc.stop(),
                Frame::Probe | Frame::Want(_) | Frame::Abort(_) => {}
            }
        }
    }
    Some(())
}

pub fn lanes_seeds() -> Vec<Vec<u8>> {
    let data = |offset: u64, len: usize| {
        let header = data_header(offset, len).encode();
        [&header[..], &vec![7; len]].concat()
    };
    let framed = |frame: Frame| {
        let (header, payload) = frame.encode();
        [&header.encode()[..], &payload].concat()
    };
    let script = |pieces: &[(u8, Vec<u8>)]| {
        let mut script = vec![];
        for (choice, said) in pieces {
            script.push(*choice);
            put_piece(&mut script, said);
        }
        script
    };
    let ack = Ack { received: 1000, limit: 70_000, complete: false, ranges: vec![(1500, 3000)] };
    vec![
        script(&[(0, data(0, 100)), (1, data(200, 100)), (2, data(100, 100)), (0, data(300, 50))]),
        script(&[(2, data(5, 300)), (3, data(0, 20)), (0, framed(Frame::End(305)))]),
        script(&[(3, framed(Frame::Ack(ack))), (4, framed(Frame::Probe)), (7, framed(Frame::Want(4)))]),
        script(&[(0, framed(Frame::Stop)), (1, data(60_000, 200)), (2, framed(Frame::Abort("no".into())))]),
    ]
}

/// What is read of a beginning means the same when it is written again.
pub fn hello(bytes: &[u8]) {
    if let Some((first, _)) = bytes.split_first_chunk::<PREAMBLE_LEN>()
        && let Ok(Some(purpose)) = read_preamble(first)
    {
        assert_eq!(preamble(purpose), *first);
    }
    if let Ok(offer) = postcard::from_bytes::<Offer>(bytes) {
        let written = postcard::to_allocvec(&offer).expect("plain data always serialises");
        assert_eq!(postcard::from_bytes(&written), Ok(offer));
    }
    if let Ok(answer) = postcard::from_bytes::<Answer>(bytes) {
        let written = postcard::to_allocvec(&answer).expect("plain data always serialises");
        assert_eq!(postcard::from_bytes(&written), Ok(answer));
    }
}

pub fn hello_seeds() -> Vec<Vec<u8>> {
    let offer = Offer { plain: false, aes: true, lanes_max: 8, limit: 1 << 26 };
    let accept = Answer::Accept { id: [1; 16], secret: [2; 32], aes: true, lanes_max: 8, limit: 1 << 26 };
    let bytes = |value: &Answer| postcard::to_allocvec(value).expect("plain data always serialises");
    vec![
        preamble(Purpose::Join).to_vec(),
        preamble(Purpose::OpenAs).to_vec(),
        preamble(Purpose::Open { keyed: true }).to_vec(),
        postcard::to_allocvec(&offer).expect("plain data always serialises"),
        bytes(&accept),
        bytes(&Answer::Refuse("no".into())),
    ]
}

/// What is read of a request or of a reply means the same when it is written again.
pub fn forward(bytes: &[u8]) {
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()[2..]), Some(request));
    }
    if let Some(reply) = Reply::decode(bytes) {
        assert!(reply.encode().len() <= 2 + REPLY_MAX);
        assert_eq!(Reply::decode(&reply.encode()[2..]), Some(reply));
    }
    if let Ok(target) = String::from_utf8_lossy(bytes).parse::<Target>() {
        assert_eq!(target.to_string().parse(), Ok(target));
    }
}

pub fn forward_seeds() -> Vec<Vec<u8>> {
    let target: Target = "[2001:db8::1]:22".parse().expect("it is one");
    vec![
        Request { target: target.clone(), only_asks: false }.encode()[2..].to_vec(),
        Reply::Yes.encode()[2..].to_vec(),
        Reply::no(Cause::Refused, "it is not allowed").encode()[2..].to_vec(),
        target.to_string().into_bytes(),
        b"db.example.org:5432".to_vec(),
    ]
}

/// Bytes that either side holds.
const BOUND: u64 = 1 << 16;
