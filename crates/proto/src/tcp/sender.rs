//! The sending side.

use super::congestion::{AckedSegments, Congestion, Next};
use super::rto::RetransmitTimer;
use super::scoreboard::{News, SegmentIndex};
use super::segment::{BLOCKS_MAX, Blocks, Body, HEADER_LEN, Options, Segment, unwrap48};
use super::{Config, WINDOW_MAX, stamp_us};
use crate::control::{AckSample, Controller, Snapshot};
use crate::ecn::Ecn;
use crate::endpoint::{Arrival, Endpoint, Source, Transmit};
use crate::pacer::Pacer;
use crate::rtt::Rtt;
use crate::units::{DatagramNumber, Time};
use core::time::Duration;
use std::collections::VecDeque;
use std::ops::Range;

/// What a sender tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver has answered.
    Connected,
    /// The receiver has the whole stream.
    Complete,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Segments of data sent, each as often as it was.
    pub segments_sent: u64,
    /// Of those, sent before.
    pub retransmitted: u64,
    /// Of those, that had arrived already, as far as the receiver said (RFC 2883).
    pub spurious: u64,
    /// SYNs sent.
    pub syns: u64,
    /// Segments that came in marked by a queue.
    pub marked: u64,
    /// Times that nothing was acknowledged for too long.
    pub timeouts: u64,
    /// Times that a loss was noticed from acknowledgements.
    pub fast_recoveries: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Stream bytes acknowledged cumulatively.
    pub bytes_acked: u64,
    /// Acknowledgements taken in.
    pub acks: u64,
    /// Segments that made no sense or belong to another connection.
    pub malformed: u64,
}

/// Opens a connection and sends one stream of known length.
#[derive(Debug)]
pub struct Sender<S> {
    config: Config,
    cut: Cut,
    source: S,
    congestion: Congestion,
    pacer: Pacer,
    timer: RetransmitTimer,
    state: ConnectionState,
    /// What the receiver's windows are shifted by.
    scale: u8,
    /// End of what the receiver has room for. It never takes back what it granted.
    window_edge: u64,
    /// The window as last told: an acknowledgement that changes it is no duplicate.
    window_told: u16,
    window_max: u64,
    /// The SYN-ACK awaits its own acknowledgement.
    owes_ack: bool,
    probe_due: bool,
    next_number: DatagramNumber,
    rtt_min: Duration,
    /// The receiver's clock, µs, unwrapped.
    peer_clock_us: Option<u64>,
    app_limited: bool,
    /// What keeps the next segment is the pacer.
    is_paced: bool,
    events: VecDeque<SenderEvent>,
    stats: SenderStats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Opening,
    Open,
    Done,
}

impl<S: Source> Sender<S> {
    /// Ready to open the connection. A controller counts in datagrams of [`Config::datagram_len`].
    pub fn new(config: Config, stream_len: u64, source: S, controller: Box<dyn Controller>) -> Sender<S> {
        let config = Config { mss: config.mss.max(1), ..config };
        Sender {
            cut: Cut { len: stream_len, mss: u64::from(config.mss) },
            source,
            congestion: Congestion::new(controller, config.sack, config.datagram_len()),
            pacer: Pacer::new(),
            timer: RetransmitTimer::new(&config),
            state: ConnectionState::Opening,
            scale: 0,
            window_edge: 0,
            window_told: 0,
            window_max: 1,
            owes_ack: false,
            probe_due: false,
            next_number: 0,
            rtt_min: Duration::MAX,
            peer_clock_us: None,
            app_limited: false,
            is_paced: false,
            events: VecDeque::new(),
            stats: SenderStats::default(),
            config,
        }
    }

    /// The source, for its owner's own business with it.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            fast_recoveries: self.congestion.fast_recoveries(),
            bytes_acked: self.cut.bytes(0..self.congestion.board().una()).end,
            ..self.stats
        }
    }

    /// The round trip as the retransmission timer sees it: delays of acknowledgements are part of it.
    pub fn rtt(&self) -> &Rtt {
        self.timer.rtt()
    }

    /// The controller's view.
    pub fn snapshot(&self) -> Snapshot {
        self.congestion.controller().snapshot()
    }

    /// Bytes on their way, as whole datagrams.
    pub fn in_flight(&self) -> u64 {
        self.congestion.in_flight()
    }

    fn on_syn_ack(&mut self, now: Time, stamp_us: u32, echo_us: u32, options: Options) {
        self.owes_ack = self.state != ConnectionState::Done;
        if self.state != ConnectionState::Opening || options.mss == 0 {
            return;
        }
        self.config.mss = self.config.mss.min(options.mss);
        self.cut.mss = u64::from(self.config.mss);
        self.congestion.agree(options.sack && self.config.sack, self.config.datagram_len());
        self.scale = options.scale.filter(|_| self.config.window_scaling).unwrap_or(0);
        self.window_edge = u64::from(options.window);
        self.window_max = self.window_edge.max(1);
        self.peer_clock(stamp_us);
        if let Some(rtt) = age(now, echo_us) {
            self.timer.sample(rtt);
            self.rtt_min = rtt;
        }
        self.timer.on_progress(now, false);
        self.state = ConnectionState::Open;
        self.events.push_back(SenderEvent::Connected);
    }

    fn on_ack(&mut self, now: Time, ack: Ack) {
        let board = self.congestion.board();
        let (una, sent) = (board.una(), board.next());
        let next = unwrap48(ack.next, self.cut.bytes(0..una).end);
        let end = self.cut.segments_before(next);
        if end > sent || end < una {
            // Never sent, or overtaken by a later one.
            self.stats.malformed += u64::from(end > sent);
            return;
        }
        self.stats.acks += 1;
        // A count that went back was overtaken.
        let marked = ack.marked.wrapping_sub(self.stats.marked as u16);
        self.stats.marked += if marked < 1 << 15 { marked.into() } else { 0 };
        let arrival = self.peer_clock(ack.stamp_us);
        let told_before = std::mem::replace(&mut self.window_told, ack.window);
        self.open_window(now, next, ack.window);
        let is_duplicate = end == una && una < sent && told_before == ack.window;
        let blocks = self.blocks(&ack.blocks, next);
        let told = AckedSegments { end, blocks: blocks.into_iter().flatten(), is_duplicate };
        let news = self.congestion.on_ack(now, told);
        if end > una {
            if let Some(rtt) = age(now, ack.echo_us) {
                self.timer.sample(rtt);
            }
            self.timer.on_progress(now, end < sent);
        }
        if news.delivered > 0 {
            self.report(now, arrival, &news);
        }
        if end == self.cut.count() {
            self.state = ConnectionState::Done;
            self.timer.stop();
            self.events.push_back(SenderEvent::Complete);
        }
    }

    /// The receiver has room up to `window` beyond `next`.
    fn open_window(&mut self, now: Time, next: u64, window: u16) {
        let window = u64::from(window) << self.scale;
        self.window_max = self.window_max.max(window);
        if next + window > self.window_edge {
            self.window_edge = next + window;
            if self.congestion.board().is_empty() {
                self.timer.on_progress(now, false);
                self.probe_due = false;
            }
        }
    }

    /// The blocks in segments. Of one that speaks of repeated bytes, a note is taken and no more: it is the first, and
    /// acknowledged already or within the second (RFC 2883 §4).
    fn blocks(&mut self, blocks: &Blocks, next: u64) -> [Option<Range<SegmentIndex>>; BLOCKS_MAX] {
        let mut found = [const { None }; BLOCKS_MAX];
        let mut told = blocks.unwrap(next).peekable();
        let mut i = 0;
        while let Some((start, end)) = told.next() {
            let within_next = told.peek().is_some_and(|second| second.0 <= start && end <= second.1);
            if i == 0 && (start < next || within_next) {
                self.stats.spurious += 1;
            } else {
                found[i] = Some(self.cut.segments_within(start, end));
            }
            i += 1;
        }
        found
    }

    /// Tell the controller.
    fn report(&mut self, now: Time, arrival: Time, news: &News) {
        // What left more than once says nothing about the round trip (Karn).
        let departure = news.latest.filter(|latest| !latest.is_ambiguous).map(|latest| latest.time);
        let rtt = departure.map(|left| now.since(left));
        if let Some(rtt) = rtt {
            self.rtt_min = self.rtt_min.min(rtt);
        }
        let totals = self.congestion.totals();
        let room = self.window_edge.saturating_sub(self.cut.bytes(0..self.congestion.board().una()).end);
        let sample = AckSample {
            now,
            arrival,
            one_way_ns: departure.map(|left| arrival.0.wrapping_sub(left.0) as i64),
            rtt,
            rtt_min: self.rtt_min.min(self.timer.rtt().smoothed()),
            received_bytes: totals.delivered,
            accepted_bytes: totals.delivered,
            covered_bytes: totals.covered,
            overrun_bytes: 0,
            ce_bytes: self.stats.marked * self.config.datagram_len(),
            pressure: 1.0 - (room as f64 / self.window_max as f64).min(1.0),
            latest: news.latest.map_or(totals.largest, |latest| latest.number),
            largest: totals.largest,
            next_number: self.next_number,
            in_flight: self.congestion.in_flight(),
            // A window that is not in use has not shown that it may grow.
            app_limited: std::mem::take(&mut self.app_limited) || self.congestion.is_repairing(),
            time_lost: Duration::ZERO,
        };
        self.congestion.controller_mut().on_ack(&sample);
    }

    /// The receiver's clock, which only goes forward, from its low bits.
    fn peer_clock(&mut self, stamp_us: u32) -> Time {
        let clock = match self.peer_clock_us {
            Some(clock) => clock.saturating_add_signed((stamp_us.wrapping_sub(clock as u32) as i32).into()),
            None => u64::from(stamp_us),
        };
        self.peer_clock_us = self.peer_clock_us.max(Some(clock));
        Time(clock.saturating_mul(1000))
    }

    /// SYN, its acknowledgement, or a probe of the window.
    fn write_control(&mut self, now: Time, buf: &mut [u8]) -> Option<usize> {
        if self.state == ConnectionState::Opening && self.timer.deadline().is_none() {
            self.timer.start(now);
            self.stats.syns += 1;
            let options = Options {
                mss: self.config.mss,
                sack: self.config.sack,
                scale: self.config.window_scaling.then_some(0),
                window: WINDOW_MAX as u16,
            };
            return Some(self.segment(now, Body::Syn(options)).encode(buf));
        }
        if self.state != ConnectionState::Open {
            return None;
        }
        let next = self.cut.bytes(0..self.congestion.board().next()).end;
        if self.owes_ack {
            self.owes_ack = false;
            let body = Body::Ack { next: 0, window: WINDOW_MAX as u16, marked: 0, blocks: Blocks::default() };
            return Some(self.segment(now, body).encode(buf));
        }
        if self.probe_due {
            self.probe_due = false;
            self.stats.window_probes += 1;
            self.timer.start(now);
            let body = Body::Data { sequence: next, fin: false, bytes: &[] };
            return Some(self.segment(now, body).encode(buf));
        }
        None
    }

    fn segment<'a>(&self, now: Time, body: Body<'a>) -> Segment<'a> {
        Segment { connection: self.config.connection, stamp_us: stamp_us(now), echo_us: 0, body }
    }

    /// The next segment, if there is one and window and pacer let it go.
    fn next_segment(&mut self, now: Time) -> Option<(Next, SegmentIndex)> {
        let fresh = self.congestion.board().next();
        let has_room = self.cut.bytes(fresh..fresh + 1).end <= self.window_edge;
        let is_left = fresh < self.cut.count();
        let Some(next) = self.congestion.choose(is_left && has_room) else {
            self.app_limited |= self.congestion.may_send(Next::New, self.config.datagram_len());
            if is_left && self.congestion.board().is_empty() {
                // The window is closed and nothing is on its way that would be answered.
                self.timer.start(now);
            }
            self.pacer.skip_idle(now);
            return None;
        };
        let index = match next {
            Next::New => fresh,
            Next::Resend(index) | Next::Rescue(index) => index,
        };
        if !self.congestion.may_send(next, u64::from(self.cut.weight(index))) {
            self.pacer.skip_idle(now);
            return None;
        }
        self.pacer.set_rate(self.congestion.controller().pacing_rate());
        self.pacer.set_burst(self.congestion.controller().burst());
        self.is_paced = !self.pacer.may_send(now);
        (!self.is_paced).then_some((next, index))
    }

    fn write_data(&mut self, now: Time, buf: &mut [u8]) -> Option<usize> {
        let (next, index) = self.next_segment(now)?;
        let range = self.cut.bytes(index..index + 1);
        let len = HEADER_LEN + (range.end - range.start) as usize;
        if self.source.read_at(range.start, &mut buf[HEADER_LEN..len]).is_err() {
            self.app_limited = true;
            self.pacer.skip_idle(now);
            return None;
        }
        let fin = index + 1 == self.cut.count();
        let header = Body::Data { sequence: range.start, fin, bytes: &[] };
        self.segment(now, header).encode(buf);
        let weight = self.cut.weight(index);
        if next != Next::New && index == self.congestion.board().una() {
            // Its answer takes a round trip from now (as Linux; RFC 6298 leaves it open).
            self.timer.restart(now);
        }
        self.timer.start(now);
        self.pacer.on_sent(now, weight.into());
        self.congestion.on_sent(now, next, self.next_number, weight);
        self.stats.segments_sent += 1;
        self.stats.retransmitted += u64::from(next != Next::New);
        Some(len)
    }
}

/// An acknowledgement.
struct Ack {
    stamp_us: u32,
    echo_us: u32,
    next: u64,
    window: u16,
    marked: u16,
    blocks: Blocks,
}

impl<S: Source> Endpoint for Sender<S> {
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Time, _arrival: Arrival, body: &[u8]) {
        let segment = Segment::decode(body).filter(|segment| segment.connection == self.config.connection);
        let Some(Segment { stamp_us, echo_us, body, .. }) = segment else {
            self.stats.malformed += 1;
            return;
        };
        match body {
            Body::SynAck(options) => self.on_syn_ack(now, stamp_us, echo_us, options),
            Body::Ack { next, window, marked, blocks } if self.state == ConnectionState::Open => {
                self.on_ack(now, Ack { stamp_us, echo_us, next, window, marked, blocks });
            }
            Body::Ack { .. } if self.state == ConnectionState::Done => {}
            _ => self.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timer.deadline().is_none_or(|at| now < at) {
            return;
        }
        self.timer.on_run_out();
        if self.state == ConnectionState::Open {
            if self.congestion.board().is_empty() {
                self.probe_due = true;
            } else {
                self.stats.timeouts += 1;
                self.congestion.on_timeout(now);
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        self.is_paced = false;
        let control = self.write_control(now, buf);
        let len = match self.state {
            ConnectionState::Open if control.is_none() => self.write_data(now, buf),
            _ => control,
        }?;
        let number = self.next_number;
        self.next_number += 1;
        Some(Transmit { number, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        let wake = if self.is_paced { self.pacer.wake_at(self.config.datagram_len()) } else { None };
        [wake, self.timer.deadline()].into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    fn framing(&self) -> usize {
        0
    }

    /// RFC 3168 §6.1.1: the SYN is none to be marked.
    fn ecn(&self) -> Ecn {
        if self.state == ConnectionState::Opening { Ecn::NotEct } else { self.config.ecn }
    }
}

/// How long ago our clock showed what came back as an echo; `None` for one from the future.
fn age(now: Time, echo_us: u32) -> Option<Duration> {
    let us = stamp_us(now).wrapping_sub(echo_us);
    (us < 1 << 31).then(|| Duration::from_micros(us.into()))
}

/// How the stream is cut into segments. The last one carries its end too, which takes a place of its own in the
/// sequence.
#[derive(Clone, Copy, Debug)]
struct Cut {
    len: u64,
    mss: u64,
}

impl Cut {
    /// How many segments there are: at least the one that says that the stream ends.
    fn count(&self) -> u64 {
        self.len.div_ceil(self.mss).max(1)
    }

    /// The stream's bytes in these segments.
    fn bytes(&self, segments: Range<SegmentIndex>) -> Range<u64> {
        let place = |index: u64| index.saturating_mul(self.mss).min(self.len);
        place(segments.start)..place(segments.end)
    }

    /// Bytes of a segment as a datagram.
    fn weight(&self, index: SegmentIndex) -> u32 {
        let bytes = self.bytes(index..index + 1);
        (bytes.end - bytes.start) as u32 + HEADER_LEN as u32
    }

    /// How many segments lie wholly before this place of the sequence.
    fn segments_before(&self, sequence: u64) -> u64 {
        if sequence > self.len { self.count() } else { (sequence / self.mss).min(self.count() - 1) }
    }

    /// The segments that lie wholly between these places.
    fn segments_within(&self, start: u64, end: u64) -> Range<SegmentIndex> {
        start.div_ceil(self.mss)..self.segments_before(end).max(start.div_ceil(self.mss))
    }
}
