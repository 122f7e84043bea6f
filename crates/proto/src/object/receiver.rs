//! The receiving side.

use super::{AckPolicy, Shape};
use crate::blocks::Blocks;
use crate::endpoint::{Arrival, Endpoint, Sink, Transmit};
use crate::seen::Seen;
use crate::session::manifest::Ranges;
use crate::units::{DatagramNumber, PacketNumber, Time};
use crate::wire::{Ack, Body, MAX_SLICE_WORDS, MAX_TIMED};
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
    /// Data datagrams that came in.
    pub received: u64,
    /// Of those, with a packet that was there already.
    pub repeats: u64,
    /// Packets refused because the sink was full.
    pub refused: u64,
    /// Bodies that made no sense.
    pub malformed: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// When the last new packet came in.
    pub last_news: Time,
}

/// Receives one object (FOBS §3.2): places each packet by its number and says, after every F new ones, which it has.
#[derive(Debug)]
pub struct Receiver<K> {
    config: ReceiverConfig,
    sink: K,
    map: Blocks,
    /// Numbers seen lately.
    seen: Seen,
    epoch: u16,
    /// Raised by the owner from the socket's own counter.
    dropped: u64,
    pressure: u8,
    latest: DatagramNumber,
    latest_time: Time,
    /// Arrivals that the sender wants to know one by one, newest first.
    timed: VecDeque<Timed>,
    /// Packet above which none has come in yet.
    frontier: PacketNumber,
    /// Where the next slice of the map begins.
    slice_from: PacketNumber,
    /// New packets since the last acknowledgement, and since when.
    unspoken: u64,
    unspoken_since: Option<Time>,
    ack_now: bool,
    /// After completion, late data is answered at most this often.
    next_reminder: Time,
    next_number: DatagramNumber,
    complete: bool,
    events: VecDeque<ReceiverEvent>,
    stats: ReceiverStats,
}

/// An arrival to be told.
#[derive(Clone, Copy, Debug)]
struct Timed {
    number: DatagramNumber,
    time: Time,
    /// In so many more acknowledgements.
    untold: u8,
}

impl<K: Sink> Receiver<K> {
    /// Ready to receive.
    pub fn new(config: ReceiverConfig, sink: K) -> Receiver<K> {
        let mut map = Blocks::new(config.shape.packets());
        for range in config.have.iter() {
            map.insert_range(config.shape.packets_within(range));
        }
        let complete = map.is_full();
        Receiver {
            map,
            sink,
            seen: Seen::default(),
            epoch: 0,
            dropped: 0,
            pressure: 0,
            latest: 0,
            latest_time: Time::ZERO,
            timed: VecDeque::new(),
            frontier: 0,
            slice_from: 0,
            unspoken: 0,
            unspoken_since: None,
            ack_now: false,
            next_reminder: Time::ZERO,
            next_number: 0,
            complete,
            events: complete.then_some(ReceiverEvent::Complete).into_iter().collect(),
            stats: ReceiverStats::default(),
            config,
        }
    }

    /// The sink, for its owner's own business with it.
    pub fn sink_mut(&mut self) -> &mut K {
        &mut self.sink
    }

    /// The sink, when the transfer is over.
    pub fn into_sink(self) -> K {
        self.sink
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Different packets that are in (with those that were here before).
    pub fn received(&self) -> u64 {
        self.map.count()
    }

    /// How the object is cut.
    pub fn shape(&self) -> Shape {
        self.config.shape
    }

    /// What the socket says it dropped so far, and how full the sink is (0 to 255).
    pub fn set_host_state(&mut self, dropped: u64, pressure: u8) {
        self.dropped = dropped;
        self.pressure = pressure;
    }

    /// These bytes failed verification: ask for them again. Returns the new epoch, to be told to the sender.
    pub fn take_back(&mut self, ranges: &Ranges) -> u16 {
        for range in ranges.iter() {
            for packet in self.config.shape.packets_touching(range) {
                self.map.remove(packet);
            }
        }
        self.complete = self.map.is_full();
        self.epoch = self.epoch.saturating_add(1);
        self.ack_now = true;
        self.epoch
    }

    /// These bytes are not needed any more.
    pub fn skip(&mut self, ranges: &Ranges) {
        for range in ranges.iter() {
            self.map.insert_range(self.config.shape.packets_within(range));
        }
        self.ack_now = true;
        self.check_complete();
    }

    fn check_complete(&mut self) {
        if !self.complete && self.map.is_full() {
            self.complete = true;
            self.ack_now = true;
            self.events.push_back(ReceiverEvent::Complete);
        }
    }

    fn on_data(&mut self, now: Time, arrival: Arrival, packet: PacketNumber, data: &[u8]) {
        self.seen.insert(arrival.number);
        self.stats.received += 1;
        (self.latest, self.latest_time) = (arrival.number, arrival.time);
        if self.map.contains(packet) {
            self.stats.repeats += 1;
        } else if self.sink.write_at(self.config.shape.range(packet).start, data).is_err() {
            self.stats.refused += 1;
            // Counted as come in but not acknowledged: it will be sent again.
            self.seen.remove(arrival.number);
        } else {
            self.map.insert(packet);
            self.frontier = self.frontier.max(packet + 1);
            self.stats.last_news = now;
        }
        self.unspoken += 1;
        self.unspoken_since.get_or_insert(now);
        if self.complete && now >= self.next_reminder {
            self.ack_now = true;
            self.next_reminder = now + REMINDER_GAP;
        }
        self.check_complete();
    }

    fn note_timed(&mut self, arrival: Arrival) {
        self.timed.push_front(Timed { number: arrival.number, time: arrival.time, untold: TIMED_TOLD });
        self.timed.truncate(MAX_TIMED);
        self.ack_now = true;
    }

    /// Each arrival is told several times: an acknowledgement that gets lost must not look like a lost datagram.
    fn tell_timed(&mut self) -> Vec<(DatagramNumber, Time)> {
        let told = self.timed.iter().map(|timed| (timed.number, timed.time)).collect();
        self.timed.retain_mut(|timed| {
            timed.untold -= 1;
            timed.untold > 0
        });
        told
    }

    /// Acknowledge at once in the beginning, when the sender knows nothing of the path, then ever less often up to F.
    fn policy(&self) -> AckPolicy {
        let ramp = (self.stats.received / 4).clamp(1, u64::from(self.config.ack.every));
        AckPolicy { every: ramp as u32, ..self.config.ack }
    }

    fn ack_is_due(&self, now: Time) -> bool {
        let quiet = self.complete;
        self.ack_now || (!quiet && self.policy().is_due(now, self.unspoken, self.unspoken_since))
    }

    fn compose(&mut self, now: Time) -> Ack {
        let low = self.map.low();
        let mut ack = Ack {
            epoch: self.epoch,
            complete: self.complete,
            pressure: self.pressure,
            latest: self.latest,
            latest_time: self.latest_time,
            delay: now.since(self.latest_time),
            received: self.stats.received,
            distinct: self.map.count(),
            dropped: self.dropped,
            refused: self.stats.refused,
            low,
            largest: self.seen.largest(),
            runs: self.seen.runs(),
            timed: self.tell_timed(),
            ..Ack::default()
        };
        if low < self.frontier {
            if self.slice_from < low || self.slice_from >= self.frontier {
                self.slice_from = low;
            }
            let first = self.slice_from / 64;
            let words = (self.frontier.div_ceil(64) - first).min(MAX_SLICE_WORDS as u64);
            ack.slice_start = first * 64;
            ack.slice = (first..first + words).map(|word| self.map.word(word)).collect();
            self.slice_from = (first + words) * 64;
        }
        ack
    }
}

impl<K: Sink> Endpoint for Receiver<K> {
    type Event = ReceiverEvent;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        match Body::decode(body) {
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
            _ => self.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.ack_is_due(now) {
            self.ack_now = true;
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        if !self.ack_is_due(now) || self.stats.received == 0 {
            return None;
        }
        let ack = self.compose(now);
        let room = buf.len().min(self.config.max_body);
        let len = ack.encode(&mut buf[..room]);
        self.seen.spoken();
        self.ack_now = false;
        self.unspoken = 0;
        self.unspoken_since = None;
        self.stats.acks += 1;
        let number = self.next_number;
        self.next_number += 1;
        Some(Transmit { number, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.complete && !self.ack_now { None } else { self.policy().deadline(self.unspoken_since) }
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }
}

/// Acknowledgements in a row that tell of a timed arrival.
const TIMED_TOLD: u8 = 4;
/// Late data after completion is answered this often: the sender missed the word, once is not enough.
const REMINDER_GAP: Duration = Duration::from_millis(5);
