//! Whatever becomes of the lanes, the bytes come out as they went in.

use super::LaneId;
use super::frame::{Frame, PAYLOAD_MAX, data_header};
use super::lane::{InClear, LaneReader};
use super::notices::Notices;
use super::outgoing::{BLOCK_MIN, Outgoing, Partition};
use super::reassembly::Reassembly;
use crate::units::Time;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// One direction of a stream over lanes that lose nothing until they die.
struct Model {
    text: Vec<u8>,
    written: usize,
    got: Vec<u8>,
    out: Outgoing,
    notices: Notices,
    inc: Reassembly,
    lanes: BTreeMap<LaneId, ModelLane>,
    next_lane: LaneId,
    now: Time,
    deaths: u64,
    /// Each lane's longest queue.
    lane_room: usize,
}

#[derive(Default)]
struct ModelLane {
    there: VecDeque<u8>,
    reader: LaneReader,
    back: VecDeque<u8>,
    back_reader: LaneReader,
}

/// Something that happens; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Event {
    Write(usize),
    Send(usize),
    Arrive(usize, usize),
    Acknowledge(usize),
    AckArrives(usize, usize),
    Read,
    LaneJoins,
    LaneDies(usize),
    Activate(usize),
    BlockLen(usize),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1..60_000usize).prop_map(Event::Write),
        1 => (1..40usize).prop_map(Event::Write),
        5 => any::<usize>().prop_map(Event::Send),
        5 => (any::<usize>(), 1..50_000usize).prop_map(|(lane, len)| Event::Arrive(lane, len)),
        2 => any::<usize>().prop_map(Event::Acknowledge),
        3 => (any::<usize>(), 1..100usize).prop_map(|(lane, len)| Event::AckArrives(lane, len)),
        2 => Just(Event::Read),
        1 => Just(Event::LaneJoins),
        1 => any::<usize>().prop_map(Event::LaneDies),
        1 => (1..8usize).prop_map(Event::Activate),
        1 => (0..100_000usize).prop_map(Event::BlockLen),
    ]
}

fn partitions() -> impl Strategy<Value = Partition> {
    prop_oneof![
        Just(Partition::Auto),
        Just(Partition::Equal),
        (BLOCK_MIN..100_000).prop_map(Partition::Blocks),
    ]
}

fn byte_at(offset: usize) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 11) as u8
}

/// Move up to `len` bytes of a queue into a reader, cut as they come. Returns the frames that are complete.
fn feed(queue: &mut VecDeque<u8>, reader: &mut LaneReader, len: usize) -> Vec<Frame> {
    let (mut left, mut frames) = (len.min(queue.len()), vec![]);
    while left > 0 {
        let (body, head) = reader.space();
        let count = left.min(body.len() + head.len());
        for (place, byte) in body.iter_mut().chain(head).zip(queue.drain(..count)) {
            *place = byte;
        }
        left -= count;
        reader.filled(count);
        while let Some(frame) = reader.poll(&mut InClear, &mut vec![]).expect("nobody cheats") {
            frames.push(frame);
        }
    }
    frames
}

impl Model {
    fn new(partition: Partition, len: usize, bound: u64, lane_room: usize) -> Model {
        let mut model = Model {
            text: (0..len).map(byte_at).collect(),
            written: 0,
            got: vec![],
            out: Outgoing::new(partition, bound, bound),
            notices: Notices::default(),
            inc: Reassembly::new(bound),
            lanes: BTreeMap::new(),
            next_lane: 0,
            now: Time::ZERO,
            deaths: 0,
            lane_room,
        };
        model.join();
        model
    }

    fn pick(&self, lane: usize) -> Option<LaneId> {
        self.lanes.keys().copied().nth(lane % self.lanes.len().max(1))
    }

    fn join(&mut self) {
        if self.lanes.len() < 8 {
            self.lanes.insert(self.next_lane, ModelLane::default());
            self.out.add_lane(self.next_lane);
            self.next_lane += 1;
        }
    }

    fn die(&mut self, id: LaneId) {
        self.lanes.remove(&id);
        self.out.remove_lane(id);
        self.notices.lane_died(id);
        self.inc.ask_ack();
        self.deaths += 1;
    }

    fn write(&mut self, len: usize) {
        let rest = &self.text[self.written..];
        self.written += self.out.write(&rest[..len.min(rest.len())]);
        if self.written == self.text.len() && self.out.end().is_none() {
            self.out.finish();
            self.notices.post(Frame::End(self.written as u64));
        }
    }

    fn send(&mut self, id: LaneId) {
        let alone = self.lanes.len() == 1;
        let Some(lane) = self.lanes.get_mut(&id).filter(|lane| lane.there.len() < self.lane_room) else {
            return;
        };
        while let Some(frame) = self.notices.next(id, alone, self.now) {
            let (header, payload) = frame.encode();
            lane.there.extend(header.encode());
            lane.there.extend(payload);
        }
        let promised = self.out.has_next(id);
        let piece = self.out.next(id, self.now);
        assert_eq!(promised, piece.is_some());
        if let Some(piece) = piece {
            assert!(piece.bytes.len() <= PAYLOAD_MAX);
            lane.there.extend(data_header(piece.offset, piece.bytes.len()).encode());
            lane.there.extend(piece.bytes.iter());
        }
    }

    fn arrive(&mut self, id: LaneId, len: usize) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        for frame in feed(&mut lane.there, &mut lane.reader, len) {
            match frame {
                Frame::Data { offset, bytes } => self.inc.insert(offset, bytes).expect("nobody cheats"),
                Frame::End(end) => self.inc.finish(end).expect("nobody cheats"),
                other => panic!("{other:?} was not sent"),
            }
        }
    }

    fn acknowledge(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            let (header, payload) = Frame::Ack(self.inc.ack()).encode();
            lane.back.extend(header.encode());
            lane.back.extend(payload);
        }
    }

    fn ack_arrives(&mut self, id: LaneId, len: usize) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        for frame in feed(&mut lane.back, &mut lane.back_reader, len) {
            let Frame::Ack(ack) = frame else { panic!("only acknowledgements come back") };
            self.out.on_ack(&ack, self.now).expect("nobody cheats");
        }
    }

    fn read(&mut self) {
        while let Some(piece) = self.inc.pop() {
            self.got.extend(piece);
        }
    }

    fn happen(&mut self, event: &Event) {
        self.now = self.now + core::time::Duration::from_millis(1);
        match *event {
            Event::Write(len) => self.write(len),
            Event::Send(lane) => self.pick(lane).into_iter().for_each(|id| self.send(id)),
            Event::Arrive(lane, len) => self.pick(lane).into_iter().for_each(|id| self.arrive(id, len)),
            Event::Acknowledge(lane) => self.pick(lane).into_iter().for_each(|id| self.acknowledge(id)),
            Event::AckArrives(lane, len) => {
                self.pick(lane).into_iter().for_each(|id| self.ack_arrives(id, len));
            }
            Event::Read => self.read(),
            Event::LaneJoins => self.join(),
            Event::LaneDies(lane) => self.pick(lane).into_iter().for_each(|id| self.die(id)),
            Event::Activate(lanes) => self.out.set_active(lanes),
            Event::BlockLen(len) => self.out.set_block_len(len),
        }
    }

    /// Let everything go its way until all is done.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.out.is_complete() {
                break;
            }
            self.join();
            self.write(usize::MAX);
            for id in self.lanes.keys().copied().collect::<Vec<_>>() {
                self.send(id);
                self.arrive(id, usize::MAX);
            }
            self.read();
            for id in self.lanes.keys().copied().collect::<Vec<_>>() {
                self.acknowledge(id);
                self.ack_arrives(id, usize::MAX);
            }
        }
        self.read();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_order_of_events_and_any_deaths_of_lanes_give_the_same_bytes(
        partition in partitions(),
        len in 0..400_000usize,
        bound in 300_000..1_000_000u64,
        lane_room in 20_000..400_000usize,
        events in proptest::collection::vec(events(), 0..300),
    ) {
        let mut model = Model::new(partition, len, bound, lane_room);
        for event in &events {
            model.happen(event);
            prop_assert!(model.inc.held() <= bound, "more is held than the bound");
            prop_assert!(model.out.unsent() + model.out.in_flight() <= bound);
        }
        model.finish();
        prop_assert!(model.out.is_complete() && model.inc.is_at_end(), "it does not end");
        prop_assert!(model.got == model.text, "other bytes came out");
        prop_assert_eq!((model.out.unsent(), model.out.in_flight()), (0, 0));
    }
}

#[test]
fn one_lane_that_stalls_does_not_stop_the_others_until_the_bound() {
    let mut model = Model::new(Partition::Auto, 3 << 20, 1 << 20, PAYLOAD_MAX);
    model.join();
    model.write(usize::MAX);
    model.send(0);
    for _ in 0..100 {
        model.write(usize::MAX);
        model.send(1);
        model.arrive(1, usize::MAX);
        model.acknowledge(1);
        model.ack_arrives(1, usize::MAX);
    }
    let held = model.inc.held();
    assert!(held + 2 * 128 * 1024 > 1 << 20 && held <= 1 << 20, "{held}");
    assert!(model.out.is_held_up() || model.out.unsent() == 0);
    assert_eq!(model.inc.pop(), None, "the first block is on the other lane");
    model.die(0);
    model.finish();
    assert!(model.got == model.text);
}

#[test]
fn equal_partitions_go_to_as_many_lanes_as_the_paper_says() {
    let mut out = Outgoing::new(Partition::Equal, 1 << 20, 1 << 20);
    (0..4).for_each(|lane| out.add_lane(lane));
    assert_eq!(out.write(&[1; 100_000]), 100_000);
    for lane in 0..4 {
        let piece = out.next(lane, Time::ZERO).expect("each lane has a part");
        assert_eq!((piece.offset, piece.bytes.len()), (u64::from(lane) * 25_000, 25_000));
        assert!(out.next(lane, Time::ZERO).is_none());
    }
}

#[test]
fn blocks_go_round_the_lanes_and_small_writes_share_one() {
    let mut out = Outgoing::new(Partition::Blocks(10_000), 1 << 20, 1 << 20);
    (0..3).for_each(|lane| out.add_lane(lane));
    for _ in 0..45 {
        out.write(&[1; 1000]);
    }
    let sent: Vec<Vec<u64>> = (0..3)
        .map(|lane| std::iter::from_fn(|| out.next(lane, Time::ZERO)).map(|piece| piece.offset).collect())
        .collect();
    assert_eq!(sent, [vec![0, 30_000], vec![10_000, 40_000], vec![20_000]]);
}

#[test]
fn acknowledging_what_was_never_sent_is_told() {
    let mut out = Outgoing::new(Partition::Auto, 1 << 20, 1 << 20);
    out.add_lane(0);
    out.write(&[1; 1000]);
    let ack = super::frame::Ack { received: 1, ..Default::default() };
    assert_eq!(out.on_ack(&ack, Time::ZERO), Err(super::Violation::NeverSent));
    out.next(0, Time::ZERO);
    let ack = super::frame::Ack { received: 1000, complete: true, ..Default::default() };
    assert_eq!(out.on_ack(&ack, Time::ZERO), Err(super::Violation::NeverSent), "it has not ended");
}
