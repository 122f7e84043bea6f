//! The receiving side.

use super::reassembly::{Placed, Reassembly};
use super::segment::{Body, Options, Segment, unwrap48};
use super::{Config, WINDOW_MAX, stamp_us};
use crate::ecn::Ecn;
use crate::endpoint::{Arrival, Endpoint, Sink, Transmit};
use crate::units::{DatagramNumber, Time};
use core::time::Duration;
use std::collections::VecDeque;
use std::ops::Range;

/// What a receiver tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// The sender knows that we are here.
    Connected,
    /// The sink has the whole stream.
    Complete,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Segments of data that came in, in whatever order and however often.
    pub segments: u64,
    /// Of those, ahead of something missing.
    pub out_of_order: u64,
    /// Of those, with nothing new.
    pub repeats: u64,
    /// Of those, beyond what there was room for.
    pub outside: u64,
    /// Of those, marked by a queue.
    pub marked: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Segments that made no sense or belong to another connection.
    pub malformed: u64,
}

/// Takes in one stream, from the first SYN on, and puts it into a sink byte after byte in order.
#[derive(Debug)]
pub struct Receiver<K> {
    config: Config,
    sink: K,
    state: ConnectionState,
    /// Valid from the first SYN on.
    peer: Peer,
    store: Reassembly,
    /// Where the stream ends, once known.
    end: Option<u64>,
    /// End of the window as last advertised, before it was shifted for the wire.
    advertised: u64,
    /// What `next()` was at the last acknowledgement (RFC 7323's Last.ACK.sent).
    acknowledged: u64,
    ack: AckState,
    /// The latest segment came in then.
    latest_arrival: Time,
    /// The segment that the next acknowledgement echoes (RFC 7323's TS.Recent).
    echo_us: u32,
    number: DatagramNumber,
    /// When to try the sink again.
    sink_retry: Option<Time>,
    events: VecDeque<ReceiverEvent>,
    is_complete: bool,
    stats: ReceiverStats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Listening,
    /// Answered a SYN `attempts` times; when the next answer is due, if one is.
    Answering {
        attempts: u32,
        due: Option<Time>,
    },
    Open,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    connection: u32,
    mss: u16,
    sack: bool,
    /// What our windows are shifted by; zero if either side cannot.
    scale: u8,
    /// The SYN named a scale, so that the answer may.
    scales: bool,
}

/// What is owed to the sender.
#[derive(Clone, Debug, Default)]
struct AckState {
    is_due: bool,
    /// Segments in order that have not been acknowledged.
    waiting: u32,
    deadline: Option<Time>,
    /// Bytes that came in again.
    repeated: Option<Range<u64>>,
}

impl<K: Sink> Receiver<K> {
    /// Wait for a sender.
    pub fn new(config: Config, sink: K) -> Receiver<K> {
        Receiver {
            sink,
            state: ConnectionState::Listening,
            peer: Peer { connection: 0, mss: config.mss, sack: false, scale: 0, scales: false },
            store: Reassembly::new(window_limit(&config, true)),
            end: None,
            advertised: 0,
            acknowledged: 0,
            ack: AckState::default(),
            latest_arrival: Time::ZERO,
            echo_us: 0,
            number: 0,
            sink_retry: None,
            events: VecDeque::new(),
            is_complete: false,
            stats: ReceiverStats::default(),
            config,
        }
    }

    /// The sink, for its owner's own business with it.
    pub fn sink_mut(&mut self) -> &mut K {
        &mut self.sink
    }

    /// Bytes that the sink has.
    pub fn delivered_bytes(&self) -> u64 {
        self.store.taken()
    }

    /// Different bytes that have come in, with those that wait for others before them.
    pub fn arrived_bytes(&self) -> u64 {
        self.store.arrived()
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Place of the first thing missing; the end of the stream counts for one.
    fn next(&self) -> u64 {
        self.store.next() + u64::from(self.end == Some(self.store.next()))
    }

    fn on_syn(&mut self, now: Time, connection: u32, stamp_us: u32, options: Options) {
        let is_known = self.state != ConnectionState::Listening && connection == self.peer.connection;
        if options.mss == 0 || (self.state == ConnectionState::Open && !is_known) {
            self.stats.malformed += 1;
            return;
        }
        if !is_known {
            // The first, or the first of a new connection after one that never came about.
            let scales = options.scale.is_some() && self.config.window_scaling;
            self.store = Reassembly::new(window_limit(&self.config, scales));
            self.peer = Peer {
                connection,
                mss: self.config.mss.min(options.mss),
                sack: options.sack && self.config.sack,
                scale: self.config.scale().filter(|_| scales).unwrap_or(0),
                scales,
            };
            self.state = ConnectionState::Answering { attempts: 0, due: None };
        }
        if let ConnectionState::Answering { due, .. } = &mut self.state {
            self.echo_us = stamp_us;
            *due = Some(now);
        }
    }

    fn on_data(&mut self, now: Time, arrival: Time, stamp_us: u32, segment: Data<'_>) {
        self.open();
        self.stats.segments += 1;
        self.latest_arrival = arrival;
        let len = segment.bytes.len() as u64;
        let start = unwrap48(segment.sequence, self.next());
        if start <= self.acknowledged {
            // RFC 7323 §4.3 (2): of segments acknowledged together, the first one's clock counts.
            let is_newer = (stamp_us.wrapping_sub(self.echo_us) as i32) >= 0;
            if is_newer && start + len >= self.acknowledged {
                self.echo_us = stamp_us;
            }
        }
        let before = self.next();
        let is_first = before == 0;
        let placed = self.take_in(start, &segment);
        match placed {
            Placed::Repeated if len > 0 => {
                self.stats.repeats += 1;
                self.ack.repeated = Some(start..start + len + u64::from(segment.fin));
            }
            Placed::Beyond => self.stats.out_of_order += 1,
            Placed::Outside => self.stats.outside += 1,
            _ => {}
        }
        self.ack.waiting += 1;
        // RFC 5681 §4.2; at once also for the very first, whose sender has nothing more to send, and for the last.
        let at_once = is_first || segment.fin || placed != Placed::InOrder || self.ack.waiting >= ACK_EVERY;
        if at_once {
            self.ack.is_due = true;
        } else {
            self.ack.deadline.get_or_insert(now + self.config.delayed_ack);
        }
        self.after_sink(now);
    }

    /// Put the segment where it belongs, the end of the stream too.
    fn take_in(&mut self, start: u64, segment: &Data<'_>) -> Placed {
        let mut bytes = segment.bytes;
        let end = start.saturating_add(bytes.len() as u64);
        if segment.fin && self.end.is_none() && end >= self.store.next() {
            self.end = Some(end);
        }
        if let Some(end) = self.end {
            bytes = &bytes[..bytes.len().min(end.saturating_sub(start) as usize)];
        }
        if bytes.is_empty() {
            // The bare end, or a question what has come in.
            return if segment.fin { Placed::InOrder } else { Placed::Repeated };
        }
        self.store.place(start, bytes, &mut self.sink)
    }

    /// The sink may have taken more, or refused.
    fn after_sink(&mut self, now: Time) {
        self.sink_retry = self.store.is_held_up().then_some(now + SINK_RETRY);
        if !self.is_complete && self.end == Some(self.store.taken()) {
            self.is_complete = true;
            self.events.push_back(ReceiverEvent::Complete);
        }
    }

    /// Hand to the sink what it refused before; tell the sender if that makes much room (RFC 9293 §3.8.6.2.2).
    fn retry_sink(&mut self, now: Time) {
        if self.store.is_held_up() {
            self.store.hand_on(&mut self.sink);
            self.after_sink(now);
            let step = (2 * u64::from(self.peer.mss)).min(self.config.buffer() / 2);
            self.ack.is_due |= self.store.edge() >= self.advertised + step;
        }
    }

    fn open(&mut self) {
        if self.state != ConnectionState::Open {
            self.state = ConnectionState::Open;
            self.events.push_back(ReceiverEvent::Connected);
        }
    }

    /// The window from `next` on, shifted for the wire.
    fn window(&mut self, next: u64) -> u16 {
        let edge = self.store.edge();
        // Steps below a segment would make the sender send less than one (RFC 9293 §3.8.6.2.2).
        if edge >= self.advertised + u64::from(self.peer.mss) {
            self.advertised = edge;
        }
        (self.advertised.saturating_sub(next) >> self.peer.scale).min(WINDOW_MAX) as u16
    }

    fn write_ack(&mut self, now: Time, buf: &mut [u8]) -> usize {
        let next = self.next();
        let window = self.window(next);
        let ack = std::mem::take(&mut self.ack);
        let blocks = if self.peer.sack {
            self.store.blocks(ack.repeated, self.end)
        } else {
            super::segment::Blocks::default()
        };
        self.acknowledged = next;
        self.stats.acks += 1;
        let marked = self.stats.marked as u16;
        let body = Body::Ack { next, window, marked, blocks };
        // A clock of arrivals instead of departures tells the sender one-way delays without our own.
        let stamp = if self.stats.segments > 0 { self.latest_arrival } else { now };
        self.segment(stamp, body).encode(buf)
    }

    fn write_syn_ack(&mut self, now: Time, buf: &mut [u8]) -> usize {
        self.advertised = self.store.edge();
        let options = Options {
            mss: self.config.mss,
            sack: self.peer.sack,
            scale: self.peer.scales.then_some(self.peer.scale),
            window: self.advertised.min(WINDOW_MAX) as u16,
        };
        self.segment(now, Body::SynAck(options)).encode(buf)
    }

    fn segment<'a>(&self, stamp: Time, body: Body<'a>) -> Segment<'a> {
        let connection = self.peer.connection;
        Segment { connection, stamp_us: stamp_us(stamp), echo_us: self.echo_us, body }
    }
}

/// A segment of data.
struct Data<'a> {
    sequence: u64,
    fin: bool,
    bytes: &'a [u8],
}

impl<K: Sink> Endpoint for Receiver<K> {
    type Event = ReceiverEvent;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        let Some(segment) = Segment::decode(body) else {
            self.stats.malformed += 1;
            return;
        };
        let is_ours = self.state != ConnectionState::Listening && segment.connection == self.peer.connection;
        match segment.body {
            Body::Syn(options) => self.on_syn(now, segment.connection, segment.stamp_us, options),
            Body::Data { sequence, fin, bytes } if is_ours => {
                self.stats.marked += u64::from(arrival.ecn == Some(Ecn::Ce));
                self.on_data(now, arrival.time, segment.stamp_us, Data { sequence, fin, bytes });
            }
            Body::Ack { .. } if is_ours => self.open(),
            _ => self.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.ack.deadline.is_some_and(|at| now >= at) {
            self.ack.is_due = true;
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        self.retry_sink(now);
        let len = match self.state {
            ConnectionState::Answering { attempts, due: Some(due) } if now >= due => {
                let attempts = attempts + 1;
                let due = (attempts < ANSWERS_MAX).then(|| now + SYN_TIMEOUT * (1 << (attempts - 1)));
                self.state = ConnectionState::Answering { attempts: attempts.min(ANSWERS_MAX), due };
                self.write_syn_ack(now, buf)
            }
            ConnectionState::Open if self.ack.is_due => self.write_ack(now, buf),
            _ => return None,
        };
        self.number += 1;
        Some(Transmit { number: self.number, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        let answer = match self.state {
            ConnectionState::Answering { due, .. } => due,
            _ => None,
        };
        [answer, self.ack.deadline, self.sink_retry].into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    fn framing(&self) -> usize {
        0
    }
}

/// Bytes of window that can be advertised.
fn window_limit(config: &Config, scales: bool) -> u64 {
    if scales { config.buffer() } else { config.buffer().min(WINDOW_MAX) }
}

/// RFC 5681 §4.2: every second full segment is acknowledged at least.
const ACK_EVERY: u32 = 2;
/// The first wait for an answer (RFC 6298 (2.1)); each later one is twice as long.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// Answers to a SYN of which nothing more is heard, unless it comes again.
const ANSWERS_MAX: u32 = 6;
/// How long a sink that was full is left alone, unless something else happens before.
const SINK_RETRY: Duration = Duration::from_millis(10);
