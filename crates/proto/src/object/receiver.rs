//! The receiving side.
//!
//! It checks number and length of a packet, hands its bytes to the sink, and marks the packet in the bitmap if the
//! sink took them. A full sink refuses: the packet then counts as arrived but not as received, and comes again. An
//! acknowledgement goes out after F new packets or a quarter of a round trip, at the beginning at once. After the end
//! late data is answered with "complete", since an earlier "complete" may have been lost.
//!
//! An acknowledgement says four things that do not depend on its predecessors having arrived: counters that only
//! grow; all packets below `low` are in; runs of datagram numbers that came in, each told in several
//! acknowledgements in a row; a slice of the map, so that whatever else was lost is told in the end.

mod path;

use self::path::PathArrivals;
use super::{AckPolicy, NEVER, Shape};
use crate::bitmap::Bitmap;
use crate::ecn::Ecn;
use crate::endpoint::{Arrival, Endpoint, Sink, Transmit};
use crate::ranges::Ranges;
use crate::units::{DatagramNumber, PacketNumber, Time};
use crate::wire::{Ack, Answer, Body, MAX_TIMED, Request, SLICE_WORDS};
use core::time::Duration;
use std::collections::VecDeque;

/// How to receive.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// How the object is cut.
    pub shape: Shape,
    /// Which of the negotiated sizes this is.
    pub class: u8,
    /// When to acknowledge.
    pub ack: AckPolicy,
    /// Object bytes that are here already or not wanted.
    pub have: Ranges,
    /// Body bytes of an acknowledgement at most.
    pub max_body: usize,
}

/// What a receiver tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// Every packet is in.
    Complete,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiverStats {
    /// Datagrams of data that came in, and requests.
    pub received: u64,
    /// Of those, with a packet that was there already.
    pub repeats: u64,
    /// Packets refused because the sink was full.
    pub refused: u64,
    /// Bodies that made no sense.
    pub malformed: u64,
    /// Datagrams of data and requests that a queue had marked.
    pub marked: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Requests for the map.
    pub requests: u64,
    /// When the last new packet came in.
    pub last_news: Time,
}

/// Receives one object (FOBS §3.2): places each packet by its number and says, after every F new ones, which it has.
#[derive(Debug)]
pub struct Receiver<K> {
    config: ReceiverConfig,
    sink: K,
    /// The path that is spoken of, mostly the first.
    path: PathArrivals,
    others: Vec<PathArrivals>,
    map: Bitmap,
    epoch: u16,
    pressure: u8,
    /// Packet above which none has come in yet.
    frontier: PacketNumber,
    /// Where the next slice of the map begins.
    slice_from: PacketNumber,
    answering: Option<Answering>,
    /// The last round that was asked about.
    round: u32,
    /// More of the object is to become known: it is not complete before that.
    is_growing: bool,
    complete: bool,
    events: VecDeque<ReceiverEvent>,
}

/// An answer that is on its way out, in as many acknowledgements as it takes.
#[derive(Clone, Copy, Debug)]
struct Answering {
    /// Below this all is told.
    from: PacketNumber,
    /// When the next part goes.
    due: Time,
}

/// An arrival to be told.
#[derive(Clone, Copy, Debug)]
struct Timed {
    number: DatagramNumber,
    time: Time,
    /// In so many more acknowledgements.
    repeats_left: u8,
}

impl<K: Sink> Receiver<K> {
    /// Ready to receive.
    pub fn new(config: ReceiverConfig, sink: K) -> Receiver<K> {
        let mut map = Bitmap::new(config.shape.packets());
        for range in config.have.iter() {
            map.insert_range(config.shape.packets_within(range));
        }
        let complete = map.is_full();
        Receiver {
            map,
            sink,
            path: PathArrivals::default(),
            others: vec![],
            epoch: 0,
            pressure: 0,
            frontier: 0,
            slice_from: 0,
            answering: None,
            round: 0,
            is_growing: false,
            complete,
            events: complete.then_some(ReceiverEvent::Complete).into_iter().collect(),
            config,
        }
    }

    /// For an object that is going to [grow](Receiver::grow).
    pub fn growing(mut self) -> Receiver<K> {
        (self.is_growing, self.complete) = (true, false);
        self.events.clear();
        self
    }

    /// More of the object has become known, all of which begins with a new packet: it has `object_len` bytes from now on, of
    /// which `have` are here already or not wanted. `is_whole`: it does not grow any more.
    pub fn grow(&mut self, object_len: u64, have: &Ranges, is_whole: bool) {
        self.config.shape.object_len = object_len;
        self.map.grow(self.config.shape.packets());
        self.is_growing = !is_whole;
        self.skip(have);
    }

    /// A datagram's body came in, as [`Endpoint::handle_datagram`] has it, of a sender that may cut the object anew. That shows in
    /// data, or a question, of another size class that left after all that came before; then `recut` is asked how the object is
    /// cut in that class, and which of its bytes were here from the beginning or are not wanted. `None`: not in that way.
    pub fn handle_recut(
        &mut self,
        now: Time,
        arrival: Arrival,
        body: &[u8],
        recut: impl FnOnce(u8) -> Option<(Shape, Ranges)>,
    ) {
        let body = Body::decode(body);
        if let Some(Body::Data { class, .. } | Body::Request(Request { class, .. })) = body
            && class != self.config.class
            && arrival.number > self.path.seen.largest()
            && let Some((shape, have)) = recut(class)
        {
            self.cut(class, shape, &have);
        }
        match body {
            Some(Body::Data { class, timed, packet, data })
                if class == self.config.class
                    && packet < self.map.len()
                    && data.len() as u64 == {
                        let range = self.config.shape.range(packet);
                        range.end - range.start
                    } =>
            {
                if timed {
                    self.note_timed(arrival);
                }
                self.on_data(now, arrival, packet, data);
            }
            Some(Body::Request(request))
                if request.class == self.config.class && request.from <= self.map.len() =>
            {
                self.on_request(now, arrival, request);
            }
            _ => self.path.stats.malformed += 1,
        }
    }

    /// From now on packets are those of `shape`. What was there stays: a packet of which a part was there comes again. `have`:
    /// all object bytes that were here from the beginning or are not wanted.
    fn cut(&mut self, class: u8, shape: Shape, have: &Ranges) {
        let before = std::mem::replace(&mut self.config.shape, shape);
        let map = shape.recut(&self.map, &before, have);
        (self.map, self.config.class) = (map, class);
        self.frontier = shape.packets_touching(&(0..before.bytes(0..self.frontier).end)).end;
        (self.slice_from, self.answering) = (0, None);
        self.acknowledge_now();
        self.check_complete();
    }

    /// The sink, for its owner's own business with it.
    pub fn sink_mut(&mut self) -> &mut K {
        &mut self.sink
    }

    /// Different packets that are in (with those that were here before).
    pub fn received(&self) -> u64 {
        self.map.count()
    }

    /// Bytes of memory that it takes to know what came in.
    pub fn memory(&self) -> u64 {
        self.map.memory()
    }

    /// How the object is cut.
    pub fn shape(&self) -> Shape {
        self.config.shape
    }

    /// What the socket says it dropped so far, and how full the sink is (0 to 255).
    pub fn set_host_state(&mut self, dropped: u64, pressure: u8) {
        self.path.dropped = dropped;
        self.pressure = pressure;
    }

    /// Whether TCP streams carry what comes in: then nobody needs to know at once what has.
    pub fn set_by_streams(&mut self, by_streams: bool) {
        self.path.by_streams = by_streams;
    }

    /// These bytes failed verification: ask for them again. Returns the new epoch, to be told to the sender.
    pub fn take_back(&mut self, ranges: &Ranges) -> u16 {
        for range in ranges.iter() {
            self.map.remove_range(self.config.shape.packets_touching(range));
        }
        self.complete = self.map.is_full() && !self.is_growing;
        self.epoch = self.epoch.saturating_add(1);
        self.acknowledge_now();
        self.epoch
    }

    /// These bytes are not needed any more.
    pub fn skip(&mut self, ranges: &Ranges) {
        for range in ranges.iter() {
            self.map.insert_range(self.config.shape.packets_within(range));
        }
        self.acknowledge_now();
        self.check_complete();
    }

    fn check_complete(&mut self) {
        if !self.complete && self.map.is_full() && !self.is_growing {
            self.complete = true;
            self.acknowledge_now();
            self.events.push_back(ReceiverEvent::Complete);
        }
    }

    fn note_arrival(&mut self, arrival: Arrival) {
        self.path.seen.insert(arrival.number);
        self.path.stats.received += 1;
        (self.path.latest, self.path.latest_time) = (arrival.number, arrival.time);
        // Where nobody can tell it is as if the way had taken the mark off: the sender asks for none.
        self.path.latest_ecn = arrival.ecn.unwrap_or_default();
        self.path.stats.marked += u64::from(self.path.latest_ecn == Ecn::Ce);
    }

    fn on_data(&mut self, now: Time, arrival: Arrival, packet: PacketNumber, data: &[u8]) {
        self.note_arrival(arrival);
        if self.map.contains(packet) {
            self.path.stats.repeats += 1;
        } else if self.sink.write_at(self.config.shape.range(packet).start, data).is_err() {
            self.path.stats.refused += 1;
            // Counted as come in but not acknowledged: it will be sent again.
            self.path.seen.remove(arrival.number);
            // What came over a TCP stream will be offered again.
            self.path.stats.received -= u64::from(self.path.by_streams);
        } else {
            self.map.insert(packet);
            self.path.distinct += 1;
            self.path.unspoken += 1;
            self.frontier = self.frontier.max(packet + 1);
            self.path.stats.last_news = now;
        }
        self.path.unspoken_since.get_or_insert(now);
        if self.complete && now >= self.path.next_reminder {
            self.path.ack_now = true;
            self.path.next_reminder = now + REMINDER_GAP;
        }
        self.check_complete();
    }

    /// The sender wants the map from a packet on: from now on, whatever part of an answer is still to go.
    fn on_request(&mut self, now: Time, arrival: Arrival, request: Request) {
        self.note_arrival(arrival);
        self.path.stats.requests += 1;
        if self.complete {
            self.path.ack_now = true;
        } else if request.round >= self.round {
            self.round = request.round;
            self.answering = Some(Answering { from: request.from, due: now });
        }
    }

    fn note_timed(&mut self, arrival: Arrival) {
        self.path.timed.push_front(Timed {
            number: arrival.number,
            time: arrival.time,
            repeats_left: TIMED_REPEATS,
        });
        self.path.timed.truncate(MAX_TIMED);
        self.path.ack_now = true;
    }

    /// Each arrival is told several times: an acknowledgement that gets lost must not look like a lost datagram.
    fn tell_timed(&mut self) -> Vec<(DatagramNumber, Time)> {
        let told = self.path.timed.iter().map(|timed| (timed.number, timed.time)).collect();
        self.path.timed.retain_mut(|timed| {
            timed.repeats_left -= 1;
            timed.repeats_left > 0
        });
        told
    }

    /// The first path's round trip has turned out to be this.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.config.ack = self.config.ack.on_rtt(rtt);
    }

    fn policy(&self, path: &PathArrivals) -> AckPolicy {
        let mut policy = self.config.ack;
        if path.by_streams && policy.every != NEVER {
            policy.every = policy.every.max(STREAMS_EVERY);
        }
        policy.early(path.stats.received)
    }

    fn timeout_of(&self, path: &PathArrivals) -> Option<Time> {
        if self.complete && !path.ack_now {
            return None;
        }
        let answers = self.answering.map(|answering| answering.due);
        [answers, self.policy(path).deadline(path.unspoken_since)].into_iter().flatten().min()
    }

    fn news_is_due(&self, now: Time) -> bool {
        let called_for = || self.policy(&self.path).is_due(now, self.path.unspoken, self.path.unspoken_since);
        self.path.ack_now || (!self.complete && called_for())
    }

    fn answer_is_due(&self, now: Time) -> Option<Answering> {
        self.answering.filter(|answering| !self.complete && now >= answering.due)
    }

    /// Counters, and what needs no room.
    fn compose(&mut self, now: Time) -> Ack {
        Ack {
            epoch: self.epoch,
            complete: self.complete,
            pressure: self.pressure,
            latest: self.path.latest,
            latest_time: self.path.latest_time,
            latest_ecn: self.path.latest_ecn,
            delay: now.since(self.path.latest_time),
            received: self.path.stats.received,
            distinct: self.path.distinct,
            dropped: self.path.dropped,
            refused: self.path.stats.refused,
            marked: self.path.stats.marked,
            low: self.map.low(),
            largest: self.path.seen.largest(),
            ..Ack::default()
        }
    }

    /// An acknowledgement of the receiver's own accord: what came in lately, and the next slice of the map in turn.
    fn compose_news(&mut self, now: Time) -> Ack {
        let mut ack = Ack { runs: self.path.seen.runs(), timed: self.tell_timed(), ..self.compose(now) };
        if ack.low < self.frontier {
            if self.slice_from < ack.low || self.slice_from >= self.frontier {
                self.slice_from = ack.low;
            }
            self.slice_from = self.put_slice(&mut ack, self.slice_from, SLICE_WORDS);
        }
        ack
    }

    /// The next part of an answer, as much of the map as fits. Runs would only take its room.
    fn compose_answer(&mut self, now: Time, answering: Answering, room: usize) -> Ack {
        let mut ack = self.compose(now);
        let from = answering.from.max(ack.low);
        let end =
            if from < self.frontier { self.put_slice(&mut ack, from, Ack::words_in(room)) } else { from };
        let last = end >= self.frontier;
        ack.answer = Some(Answer { round: self.round, last });
        self.answering = (!last).then_some(Answering { from: end, due: now + ANSWER_GAP });
        ack
    }

    /// Put in the map's words from that of packet `from` on, up to the last that came in. Returns where it ends.
    fn put_slice(&self, ack: &mut Ack, from: PacketNumber, words_max: usize) -> PacketNumber {
        let first = from / 64;
        let words = (self.frontier.div_ceil(64) - first).min(words_max as u64);
        ack.slice_start = first * 64;
        ack.slice = (first..first + words).map(|word| self.map.word(word)).collect();
        (first + words) * 64
    }
}

impl<K: Sink> Endpoint for Receiver<K> {
    type Event = ReceiverEvent;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        self.handle_recut(now, arrival, body, |_| None);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.news_is_due(now) {
            self.path.ack_now = true;
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        let room = buf.len().min(self.config.max_body);
        let ack = if let Some(answering) = self.answer_is_due(now) {
            self.compose_answer(now, answering, room)
        } else if self.news_is_due(now) && self.path.stats.received > 0 {
            self.path.ack_now = false;
            (self.path.unspoken, self.path.unspoken_since) = (0, None);
            let ack = self.compose_news(now);
            self.path.seen.note_ack();
            ack
        } else {
            return None;
        };
        let len = ack.encode(&mut buf[..room]);
        self.path.stats.acks += 1;
        let number = self.path.next_number;
        self.path.next_number += 1;
        Some(Transmit { number, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timeout_of(&self.path)
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }
}

/// New packets per acknowledgement at least while TCP streams carry them: nothing is paced by acknowledgements, and at
/// 10 Gb/s there are still some thousand a second.
const STREAMS_EVERY: u32 = 256;
/// Acknowledgements in a row that tell of a timed arrival.
const TIMED_REPEATS: u8 = 4;
/// Late data after completion is answered this often: the sender missed the word, once is not enough.
const REMINDER_GAP: Duration = Duration::from_millis(5);

/// Between two parts of an answer: some 48 Mb/s, so that a long one does not fill the way back at once.
const ANSWER_GAP: Duration = Duration::from_micros(200);
