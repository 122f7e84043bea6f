//! The sending side.
//!
//! Every datagram has a number of its own, never used twice, also when it carries a packet that was sent before: an
//! acknowledgement of a number is never ambiguous, and every round-trip sample is sound. `flight.rs` remembers which
//! packet each number carried. A datagram is given up as lost when later ones were acknowledged and it left longer ago
//! than the reordering seen so far, or after a timeout (RFC 6298 with the peer's delay added).
//!
//! The selector sees two bitmaps: *acked* and *busy* (acked or in flight). `circular` goes round over what is not
//! busy and returns for losses after at most `LAP` packets, so that files complete soon after their data and the
//! mixed part of the bitmap stays short; `circular-strict` is the paper's order.
//!
//! When everything is on its way and the path is known to lose packets, the sender repeats the newest ones ahead
//! of any sign of loss, one in a hundred of all at most (`HEDGE_SHARE`, `HEDGE_MIN`): otherwise the loss of the
//! very last packet would cost a timeout.

mod before;
mod claims;
mod cut;
mod loss;
mod marking;
mod pace;
mod path;
#[cfg(test)]
mod testing;

use super::asking::Asking;
use super::selector::{Selector, View};
use super::sending::{Blocked, Channel, SenderConfig, SenderEvent};
use super::{MAX_DELAY, Shape};
use crate::bitmap::Bitmap;
use crate::control::{AckSample, Controller, Remembered, Sent, Snapshot, TimedArrival};
use crate::ecn::Ecn;
use crate::endpoint::{Arrival, Endpoint, Source, Transmit};
use crate::ranges::Ranges;
use crate::rtt::Rtt;
use crate::units::{DatagramNumber, PacketNumber, Time};
use crate::wire::{self, Ack, Body};
use core::time::Duration;
pub use path::PathFigures;
use path::{PathState, SILENT_FLIGHT};
use std::collections::VecDeque;
use std::ops::Range;

/// Sends one object. FOBS §3.1: a batch, then a look for acknowledgements that never blocks, then the choice of the
/// next packet; here the driver looks for acknowledgements between any two calls of `poll_transmit`.
#[derive(Debug)]
pub struct Sender<S> {
    config: SenderConfig,
    source: S,
    selector: Box<dyn Selector>,
    /// The path that is spoken of, mostly the first.
    path: PathState,
    others: Vec<PathState>,
    /// Packets that the receiver has.
    acked: Bitmap,
    /// Packets that the receiver has or that are on their way.
    busy: Bitmap,
    /// Packets sent at least once.
    tried: Bitmap,
    /// Packets that had to be delivered.
    packets_required: u64,
    /// Bytes that the receiver claims to have: packets that touch them are busy until that is settled.
    claimed: Ranges,
    /// Between the rounds of a selector that works in rounds.
    asking: Asking,
    /// Chosen, but the source was not ready.
    pending: Option<(PacketNumber, bool)>,
    epoch: u16,
    /// Bytes in the longest packet of earlier cuts.
    longest_before: u32,
    /// The user has it pause.
    paused: bool,
    events: VecDeque<SenderEvent>,
    complete: bool,
}

impl<S: Source> Sender<S> {
    /// Ready to send.
    pub fn new(config: SenderConfig, source: S, controller: Box<dyn Controller>) -> Sender<S> {
        let packets = config.shape.packets();
        let mut acked = Bitmap::new(packets);
        for range in config.have.iter() {
            acked.insert_range(config.shape.packets_within(range));
        }
        let required = packets - acked.count();
        let complete = required == 0;
        let mut path = PathState::new(config.rtt, config.ecn, controller);
        if complete {
            path.blocked = Blocked::Done;
        }
        Sender {
            selector: config.selector.build(config.seed),
            path,
            others: vec![],
            busy: acked.clone(),
            tried: acked.clone(),
            packets_required: required,
            claimed: Ranges::new(),
            acked,
            asking: Asking::new(config.class, packets),
            pending: None,
            epoch: 0,
            longest_before: 0,
            paused: false,
            events: complete.then_some(SenderEvent::Complete).into_iter().collect(),
            complete,
            config,
            source,
        }
    }

    /// Choose packets by a selector that has no name among [`SelectorKind`](super::SelectorKind).
    pub fn with_selector(mut self, selector: Box<dyn Selector>) -> Sender<S> {
        self.selector = selector;
        self
    }

    /// The source, for its owner's own business with it.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The round trip.
    pub fn rtt(&self) -> &Rtt {
        &self.main_path().rtt
    }

    /// The controller's view.
    pub fn snapshot(&self) -> Snapshot {
        self.main_path().controller.snapshot()
    }

    /// Why nothing could be sent when `poll_transmit` last said so.
    pub fn blocked(&self) -> Blocked {
        self.main_path().blocked
    }

    /// Sending time lost to late wake-ups.
    pub fn time_lost(&self) -> Duration {
        self.path.pacer.time_lost()
    }

    /// Packets that the receiver has (with those it had before).
    pub fn acked(&self) -> u64 {
        self.acked.count()
    }

    /// Bytes of the object that the receiver has (with those it had before), as far as they fill packets.
    pub fn acked_bytes(&self) -> u64 {
        self.acked
            .count()
            .saturating_mul(self.config.shape.packet_len.into())
            .min(self.config.shape.object_len)
    }

    /// What the controller has learnt of the path, for a later transfer.
    pub fn remember(&self) -> Option<Remembered> {
        self.path.controller.remember()
    }

    /// How the object is cut.
    pub fn shape(&self) -> Shape {
        self.config.shape
    }

    /// The receiver takes back these bytes: they failed verification. Everything on its way is forgotten, so that no
    /// late acknowledgement of the old bytes counts for the new.
    pub fn resend(&mut self, epoch: u16, ranges: &Ranges) {
        self.epoch = epoch;
        let paths = std::iter::once(&self.path).chain(&self.others);
        for (packet, _) in paths.flat_map(|path| path.flight.packets()) {
            if !self.acked.contains(packet) {
                self.busy.remove(packet);
            }
        }
        self.all_paths().for_each(|path| path.flight.clear());
        for range in ranges.iter() {
            let range = self.widened(range);
            self.config.have.remove(range.clone());
            let packets = self.config.shape.packets_touching(&range);
            self.acked.remove_range(packets.clone());
            self.busy.remove_range(packets.clone());
            self.hold_within(&self.config.shape.bytes(packets));
        }
        if !self.acked.is_full() {
            self.complete = false;
        }
    }

    /// The object has grown to `object_len` bytes; the new ones begin with a new packet. Of these the receiver has, or does
    /// not want, `have`, and it claims to have `claimed`.
    pub fn grow(&mut self, object_len: u64, have: &Ranges, claimed: &Ranges) {
        let before = self.config.shape.packets();
        self.config.shape.object_len = object_len;
        let packets = self.config.shape.packets();
        for map in [&mut self.acked, &mut self.busy, &mut self.tried] {
            map.grow(packets);
        }
        self.asking.grow(packets);
        let had = self.acked.count();
        for range in have.iter() {
            let within = self.config.shape.packets_within(range);
            for map in [&mut self.acked, &mut self.busy, &mut self.tried] {
                map.insert_range(within.clone());
            }
            self.config.have.insert(range.clone());
        }
        self.packets_required += packets.saturating_sub(before + self.acked.count() - had);
        self.hold(claimed);
        self.complete = self.acked.is_full();
    }

    fn check_complete(&mut self) {
        if !self.complete && self.acked.is_full() {
            self.complete = true;
            self.events.push_back(SenderEvent::Complete);
        }
    }

    fn datagram_len(&self) -> u64 {
        u64::from(self.config.shape.packet_len) + wire::DATA_OVERHEAD as u64
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.largest < self.path.cut_from {
            // Its packet numbers are those of an earlier cut. What it says comes again in later ones.
            return;
        }
        if ack.epoch < self.epoch || ack.largest >= self.path.flight.next_number() {
            self.path.stats.malformed += u64::from(ack.epoch >= self.epoch);
            return;
        }
        self.path.stats.acks += 1;
        self.path.marking.heard(ack, self.path.flight.next_number());
        self.tell_timed(now, ack);
        let latest_sent =
            self.path.flight.udp_sent_time(ack.latest).or_else(|| self.asking.sent_time(ack.latest));
        if let Some(sent) = self.path.flight.sent_time(ack.largest) {
            self.path.largest_sent = self.path.largest_sent.max(sent);
        }
        let before = self.acked.count();
        self.merge_map(ack);
        let ranges: Vec<Range<DatagramNumber>> = ack.received_ranges().collect();
        let (acked, busy) = (&mut self.acked, &mut self.busy);
        let mut any_landed = false;
        for range in &ranges {
            self.path.flight.settle(range.clone(), |landed| {
                any_landed = true;
                acked.insert(landed.packet);
                busy.insert(landed.packet);
            });
        }
        if let Some(late) = self.path.flight.spurious(&ranges, self.path.largest_sent) {
            self.path.stats.spurious += 1;
            self.path.reorder_window =
                self.path.reorder_window.max(late * 9 / 8).min(self.path.rtt.smoothed().max(REORDER_MIN));
        }
        let deadline = self.path.largest_sent - self.path.reorder_window;
        self.give_up(now, ack.largest, deadline);
        if ack.complete {
            self.acked.insert_range(0..self.acked.len());
            self.busy.insert_range(0..self.busy.len());
        }
        // What the map tells may have come in over another path.
        let tells_more = self.others.is_empty() && self.acked.count() > before;
        if any_landed || tells_more {
            (self.path.vanished, self.path.proven) = (0, self.path.largest_sent);
        }
        let news = tells_more || ack.received > self.path.stats.received;
        // What came over a stream and finds no room with the receiver is offered there again and again: nothing moves, and all is well.
        let is_offered = ack.refused > self.path.stats.refused;
        if news {
            self.report(now, ack, latest_sent);
        }
        if news || is_offered {
            self.path.stats.refused = self.path.stats.refused.max(ack.refused);
            self.path.stats.last_news = now;
            self.path.stats.timeouts_in_a_row = 0;
        }
        if self.asking.hear(now, ack, self.path.rtt.timeout(MAX_DELAY)) {
            self.selector.start_round();
        }
        self.check_complete();
    }

    fn tell_timed(&mut self, now: Time, ack: &Ack) {
        let arrivals: Vec<TimedArrival> = ack
            .timed
            .iter()
            .rev()
            .filter_map(|&(number, arrival)| {
                self.path.flight.sent_time(number).map(|sent| TimedArrival { number, sent, arrival })
            })
            .collect();
        if !arrivals.is_empty() {
            self.path.controller.on_timed(now, &arrivals);
        }
    }

    /// Merge what the acknowledgement says of the object itself: everything below `low`, and the slice.
    fn merge_map(&mut self, ack: &Ack) {
        let low = self.acked.low();
        self.acked.insert_range(low..ack.low);
        self.busy.insert_range(low..ack.low);
        for (i, bits) in ack.slice.iter().enumerate() {
            let word = ack.slice_start / 64 + i as u64;
            if self.acked.merge_word(word, *bits) != 0 {
                self.busy.merge_word(word, *bits);
            }
        }
    }

    /// Tell the controller.
    fn report(&mut self, now: Time, ack: &Ack, latest_sent: Option<Time>) {
        let (len, ack_delay_max) = (self.datagram_len(), self.ack_delay_max());
        self.path.sent_before = 0;
        let stats = &mut self.path.stats;
        stats.received = stats.received.max(ack.received);
        stats.distinct = stats.distinct.max(ack.distinct);
        stats.covered = stats.covered.max(ack.largest + 1);
        stats.receiver_drops = stats.receiver_drops.max(ack.dropped);
        stats.marked = stats.marked.max(ack.marked);
        stats.pressure = ack.pressure;
        if self.path.channel == Channel::Streams {
            return;
        }
        if ack.delay > ack_delay_max {
            stats.receiver_late += now.since(stats.last_news).min(ack.delay);
        }
        // What comes out of TCP streams meanwhile was not sent under this controller.
        let landed = self.path.base.in_streams.saturating_sub(self.path.flight.in_streams());
        let received = stats.received.saturating_sub(self.path.base.received + landed);
        let distinct = stats.distinct.saturating_sub(self.path.base.distinct + landed);
        self.path.told.received = self.path.told.received.max(received);
        self.path.told.distinct = self.path.told.distinct.max(distinct);
        if self.path.marking.is_sound() {
            self.path.told.marked =
                self.path.told.marked.max(stats.marked.saturating_sub(self.path.base.marked));
        }
        // A delay longer than the round trip means that the receiver's clock was set meanwhile: no sample.
        let rtt = latest_sent.and_then(|sent| now.since(sent).checked_sub(ack.delay));
        if let Some(rtt) = rtt {
            self.path.rtt.sample(rtt);
        }
        let sample = AckSample {
            now,
            arrival: ack.latest_time,
            one_way_ns: latest_sent.map(|sent| ack.latest_time.0.wrapping_sub(sent.0) as i64),
            rtt,
            rtt_min: self.path.rtt.min(),
            // Acknowledgements overtake each other: totals never go back.
            received_bytes: self.path.told.received.saturating_mul(len),
            accepted_bytes: self.path.told.distinct.saturating_mul(len),
            covered_bytes: stats.covered.saturating_sub(self.path.base.covered).saturating_mul(len),
            overrun_bytes: stats.overruns().saturating_sub(self.path.base.overruns).saturating_mul(len),
            ce_bytes: self.path.told.marked.saturating_mul(len),
            pressure: f64::from(ack.pressure) / 255.0,
            latest: ack.latest,
            largest: ack.largest,
            next_number: self.path.flight.next_number(),
            in_flight: self.path.flight.in_datagrams() * len,
            app_limited: std::mem::take(&mut self.path.app_limited),
            time_lost: self.time_lost(),
        };
        self.path.controller.on_ack(&sample);
    }

    fn choose(&mut self) -> Option<(PacketNumber, bool)> {
        if let Some(pending) = self.pending.take().filter(|(packet, _)| !self.acked.contains(*packet)) {
            return Some(pending);
        }
        // A selector that goes by what has come in alone knows nothing of claims, which nothing may touch.
        let acked = if self.claimed.is_empty() { &self.acked } else { &self.busy };
        match self.selector.next(View { acked, busy: &self.busy }) {
            Some(packet) => {
                self.all_paths().for_each(|path| path.hedge_from = DatagramNumber::MAX);
                if self.selector.round_is_over().is_some() {
                    self.path.stats.rounds = self.asking.round();
                }
                Some((packet, false))
            }
            None if self.selector.round_is_over().is_some() => None,
            None => self.hedge().map(|packet| (packet, true)),
        }
    }

    /// At the end of the object, when all is on its way and the path is known to lose: repeat the newest packets,
    /// whose loss would be noticed last. A small share of the object at most.
    fn hedge(&mut self) -> Option<PacketNumber> {
        let budget = self.packets_required / HEDGE_SHARE + HEDGE_MIN;
        let by_streams = self.path.channel == Channel::Streams;
        if by_streams
            || self.path.stats.given_up == 0
            || self.path.stats.packets_hedged >= budget
            || self.path.rtt.min() < HEDGE_RTT_MIN
        {
            return None;
        }
        let (packet, number) =
            self.path.flight.newest_single(self.path.hedge_from, |p| self.acked.contains(p))?;
        self.path.hedge_from = number;
        Some(packet)
    }

    /// When to ask for the receiver's map: all of a round is sent.
    fn ask_at(&self) -> Option<Time> {
        let is_due = self.pending.is_none() && self.selector.round_is_over() == Some(true);
        is_due.then(|| self.asking.ask_at())
    }

    /// The question, if it is due.
    fn ask(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        self.ask_at().filter(|at| now >= *at)?;
        let number = self.path.flight.push_empty(now);
        let request = self.asking.ask(now, number, self.path.rtt.timeout(MAX_DELAY));
        self.path.stats.requests += 1;
        Some(Transmit { number, len: request.encode(buf) })
    }

    /// A packet goes, or went, at that time: with this number.
    fn note_sent(&mut self, packet: PacketNumber, now: Time, in_train: bool) -> DatagramNumber {
        let again = !self.tried.insert(packet);
        let by_stream = self.path.channel == Channel::Streams;
        let number = self.path.flight.push(packet, now, again, by_stream);
        self.busy.insert(packet);
        self.path.stats.packets_sent += 1;
        self.path.stats.packets_resent += u64::from(again);
        self.path.last_sent = now;
        if by_stream {
            self.path.stats.packets_by_streams += 1;
        } else {
            self.send_anew_what_streams_hold();
            let bytes = self.datagram_len();
            let in_flight = self.path.flight.in_datagrams() * bytes;
            self.path.controller.on_sent(&Sent { now, number, bytes, in_train, in_flight });
        }
        number
    }

    fn window_is_full(&self) -> bool {
        if self.path.channel == Channel::Streams {
            return self.path.flight.len() as u64 >= STREAMS_SPAN;
        }
        if self.path.flight.in_datagrams() >= SILENT_FLIGHT && self.is_silent_among_others() {
            return true;
        }
        let len = self.datagram_len();
        let window = self.path.controller.window().unwrap_or(u64::MAX).max(2 * len);
        let on_way = self.path.flight.in_datagrams().saturating_sub(self.path.sent_before);
        on_way * len + len > window || self.path.flight.len() >= FLIGHT_MAX
    }
}

impl<S: Source> Endpoint for Sender<S> {
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Time, _arrival: Arrival, body: &[u8]) {
        self.path.marking.advance(self.path.flight.next_number());
        match Body::decode(body) {
            Some(Body::Ack(ack)) => self.on_ack(now, &ack),
            _ => self.path.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.complete {
            return;
        }
        self.path.marking.advance(self.path.flight.next_number());
        if self.overtaken_at().is_some_and(|at| now >= at) {
            self.give_up(now, self.path.stats.covered - 1, self.path.largest_sent);
        }
        if self.timeout_at().is_none_or(|at| now < at) {
            return;
        }
        self.path.stats.timeouts_in_a_row += 1;
        if self.path.stats.timeouts_in_a_row > 1 {
            // Once may be the loss of the last few datagrams; again is silence.
            self.path.marking.doubt(self.path.flight.next_number());
            self.path.controller.on_timeout(now);
        }
        let deadline = now - self.path.rtt.timeout(self.ack_delay_max());
        self.give_up(now, DatagramNumber::MAX, deadline);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        if self.complete {
            self.path.blocked = Blocked::Done;
            return None;
        }
        if self.paused {
            self.rest(now);
            return None;
        }
        if let Some(transmit) = self.ask(now, buf) {
            return Some(transmit);
        }
        if self.window_is_full() {
            self.path.blocked = Blocked::Window;
            return None;
        }
        let reason = self.set_pace(now);
        if !self.path.pacer.may_send(now) {
            self.path.blocked = reason;
            return None;
        }
        let Some((packet, hedge)) = self.choose() else {
            self.path.train_left = 0;
            // Claims are settled when the source has been read.
            self.path.blocked = if self.claimed.is_empty() { Blocked::Acks } else { Blocked::Source };
            self.path.app_limited = true;
            self.path.pacer.skip_idle(now);
            return self.ask(now, buf);
        };
        let range = self.config.shape.range(packet);
        let len = wire::DATA_PREFIX + (range.end - range.start) as usize;
        if self.source.read_at(range.start, &mut buf[wire::DATA_PREFIX..len]).is_err() {
            self.pending = Some((packet, hedge));
            self.path.blocked = Blocked::Source;
            self.path.train_left = 0;
            self.path.app_limited = true;
            self.path.pacer.skip_idle(now);
            return None;
        }
        // Only a sender that is paced can be late; one that had no data, no room or no beginning waited for others.
        if self.path.stats.packets_sent == 0 || !self.path.blocked.is_paced() {
            self.path.pacer.skip_idle(now);
        }
        self.path.blocked = Blocked::No;
        let in_train = self.path.train_left > 0;
        self.path.train_left = self.path.train_left.saturating_sub(1);
        wire::encode_data_prefix(buf, self.config.class, in_train, packet);
        self.path.stats.packets_hedged += u64::from(hedge);
        if in_train && self.path.train_left == 0 {
            self.path.pacer.end_train(now, self.effective_rate().0, self.path.controller.burst());
        }
        self.path.pacer.on_sent(now, self.datagram_len());
        let number = self.note_sent(packet, now, in_train);
        if self.is_silent_among_others() {
            self.busy.remove(packet);
        }
        Some(Transmit { number, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.complete {
            return None;
        }
        let paced = matches!(self.path.blocked, Blocked::Pacing | Blocked::RateCap);
        let wake = if paced { self.path.pacer.wake_at(self.datagram_len()) } else { None };
        let probe = self
            .path
            .controller
            .probe_at()
            .filter(|_| paced && self.path.train_left == 0 && self.may_probe());
        let probe = probe.map(|at| at.max(self.capped_until()));
        let ask_at = self.ask_at().filter(|_| !self.paused);
        let all = [wake, probe, self.overtaken_at(), self.timeout_at(), ask_at];
        all.into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    fn ecn(&self) -> Ecn {
        self.path.marking.ecn()
    }
}

/// Reordering within this span is never taken for loss: what bursts and batched wake-ups do on any path.
const REORDER_MIN: Duration = Duration::from_millis(1);

/// After an outage the path is tried at least this often.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Datagrams recorded at most: 1.4 GB on their way. A sender without control stops here.
const FLIGHT_MAX: usize = 1 << 20;

/// Datagram numbers that may be under way in TCP streams: what one TCP stream holds back must not become too old for
/// the receiver's check for replays (65 536 numbers).
const STREAMS_SPAN: u64 = 56_000;

/// One packet in so many may be repeated ahead of any sign of loss.
const HEDGE_SHARE: u64 = 100;
/// So many may be in any case.
const HEDGE_MIN: u64 = 2;
/// On shorter paths waiting for an acknowledgement costs nothing worth a repeat.
const HEDGE_RTT_MIN: Duration = Duration::from_millis(5);
