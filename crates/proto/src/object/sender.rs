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
#[cfg(test)]
mod testing;

use super::asking::Asking;
use super::flight::Flight;
use super::selector::{Selector, View};
use super::sending::{Blocked, Channel, SenderConfig, SenderEvent, SenderStats, Totals};
use super::{MAX_DELAY, Shape};
use crate::bitmap::Bitmap;
use crate::control::{AckSample, Controller, Remembered, Sent, Snapshot, TimedArrival};
use crate::ecn::Ecn;
use crate::endpoint::{Arrival, Endpoint, Source, Transmit};
use crate::pacer::Pacer;
use crate::ranges::Ranges;
use crate::rtt::Rtt;
use crate::units::{DatagramNumber, PacketNumber, Rate, Time};
use crate::wire::{self, Ack, Body};
use core::time::Duration;
use marking::Marking;
use std::collections::VecDeque;
use std::ops::Range;

/// Sends one object. FOBS §3.1: a batch, then a look for acknowledgements that never blocks, then the choice of the
/// next packet; here the driver looks for acknowledgements between any two calls of `poll_transmit`.
#[derive(Debug)]
pub struct Sender<S> {
    config: SenderConfig,
    source: S,
    selector: Box<dyn Selector>,
    controller: Box<dyn Controller>,
    pacer: Pacer,
    rtt: Rtt,
    /// Packets that the receiver has.
    acked: Bitmap,
    /// Packets that the receiver has or that are on their way.
    busy: Bitmap,
    /// Packets sent at least once.
    tried: Bitmap,
    /// Bytes that the receiver claims to have: packets that touch them are busy until that is settled.
    claimed: Ranges,
    /// How datagrams travel at present.
    channel: Channel,
    marking: Marking,
    flight: Flight,
    /// Between the rounds of a selector that works in rounds.
    asking: Asking,
    /// Chosen, but the source was not ready.
    pending: Option<(PacketNumber, bool)>,
    epoch: u16,
    /// Datagrams with lower numbers belong to an earlier cut of the object.
    cut_from: DatagramNumber,
    /// Bytes in the longest packet of earlier cuts.
    longest_before: u32,
    /// Datagrams of before there was a sender, while nothing has been acknowledged: the window is not for them.
    sent_before: u64,
    /// Datagrams given up since an acknowledgement last named data that came in.
    vanished: u64,
    /// When the newest datagram that one named had left.
    proven: Time,
    /// Datagrams left to send of the controller's train.
    train_left: u32,
    /// When the last datagram of data left.
    last_sent: Time,
    /// A loss from here on opens a new congestion episode.
    episode_from: DatagramNumber,
    /// When the largest acknowledged datagram left.
    largest_sent: Time,
    reorder_window: Duration,
    app_limited: bool,
    /// Going down from here to repeat what is on its way at the end of the object.
    hedge_from: DatagramNumber,
    blocked: Blocked,
    events: VecDeque<SenderEvent>,
    complete: bool,
    stats: SenderStats,
    /// Of these, what went by TCP streams: the controller does not hear of it.
    base: Totals,
    /// What the controller was last told: it never goes back.
    told: Totals,
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
        Sender {
            selector: config.selector.build(config.seed),
            controller,
            pacer: Pacer::new(),
            rtt: Rtt::new(config.rtt),
            busy: acked.clone(),
            tried: acked.clone(),
            claimed: Ranges::new(),
            acked,
            channel: Channel::Datagrams,
            marking: Marking::new(config.ecn),
            flight: Flight::default(),
            asking: Asking::new(config.class, packets),
            pending: None,
            epoch: 0,
            cut_from: 0,
            longest_before: 0,
            sent_before: 0,
            vanished: 0,
            proven: Time::ZERO,
            train_left: 0,
            last_sent: Time::ZERO,
            episode_from: 0,
            largest_sent: Time::ZERO,
            reorder_window: (config.rtt / 8).max(REORDER_MIN),
            app_limited: false,
            hedge_from: 0,
            blocked: if complete { Blocked::Done } else { Blocked::Pacing },
            events: complete.then_some(SenderEvent::Complete).into_iter().collect(),
            complete,
            stats: SenderStats { packets_required: required, ..SenderStats::default() },
            base: Totals::default(),
            told: Totals::default(),
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

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The round trip.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The controller's view.
    pub fn snapshot(&self) -> Snapshot {
        self.controller.snapshot()
    }

    /// Why nothing could be sent when `poll_transmit` last said so.
    pub fn blocked(&self) -> Blocked {
        self.blocked
    }

    /// Sending time lost to late wake-ups.
    pub fn time_lost(&self) -> Duration {
        self.pacer.time_lost()
    }

    /// Never faster than this from now on.
    pub fn set_rate_cap(&mut self, rate: Option<Rate>) {
        self.config.rate_cap = rate;
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
        self.controller.remember()
    }

    /// How the object is cut.
    pub fn shape(&self) -> Shape {
        self.config.shape
    }

    /// The receiver takes back these bytes: they failed verification. Everything on its way is forgotten, so that no
    /// late acknowledgement of the old bytes counts for the new.
    pub fn resend(&mut self, epoch: u16, ranges: &Ranges) {
        self.epoch = epoch;
        let on_way: Vec<PacketNumber> = self.flight.packets().map(|(packet, _)| packet).collect();
        for packet in on_way.into_iter().filter(|p| !self.acked.contains(*p)) {
            self.busy.remove(packet);
        }
        self.flight.clear();
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
        self.stats.packets_required += packets.saturating_sub(before + self.acked.count() - had);
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
        if ack.largest < self.cut_from {
            // Its packet numbers are those of an earlier cut. What it says comes again in later ones.
            return;
        }
        if ack.epoch < self.epoch || ack.largest >= self.flight.next_number() {
            self.stats.malformed += u64::from(ack.epoch >= self.epoch);
            return;
        }
        self.stats.acks += 1;
        self.marking.heard(ack, self.flight.next_number());
        self.tell_timed(now, ack);
        let latest_sent = self.flight.udp_sent_time(ack.latest).or_else(|| self.asking.sent_time(ack.latest));
        if let Some(sent) = self.flight.sent_time(ack.largest) {
            self.largest_sent = self.largest_sent.max(sent);
        }
        let before = self.acked.count();
        self.merge_map(ack);
        let ranges: Vec<Range<DatagramNumber>> = ack.received_ranges().collect();
        let (acked, busy) = (&mut self.acked, &mut self.busy);
        for range in &ranges {
            self.flight.settle(range.clone(), |landed| {
                acked.insert(landed.packet);
                busy.insert(landed.packet);
            });
        }
        if let Some(late) = self.flight.spurious(&ranges, self.largest_sent) {
            self.stats.spurious += 1;
            self.reorder_window =
                self.reorder_window.max(late * 9 / 8).min(self.rtt.smoothed().max(REORDER_MIN));
        }
        let deadline = self.largest_sent - self.reorder_window;
        self.give_up(now, ack.largest, deadline);
        if ack.complete {
            self.acked.insert_range(0..self.acked.len());
            self.busy.insert_range(0..self.busy.len());
        }
        if self.acked.count() > before {
            (self.vanished, self.proven) = (0, self.largest_sent);
        }
        let news = self.acked.count() > before || ack.received > self.stats.received;
        if news {
            self.report(now, ack, latest_sent);
            self.stats.last_news = now;
            self.stats.timeouts_in_a_row = 0;
        }
        if self.asking.hear(now, ack, self.rtt.timeout(MAX_DELAY)) {
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
                self.flight.sent_time(number).map(|sent| TimedArrival { number, sent, arrival })
            })
            .collect();
        if !arrivals.is_empty() {
            self.controller.on_timed(now, &arrivals);
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
        self.sent_before = 0;
        let stats = &mut self.stats;
        stats.received = stats.received.max(ack.received);
        stats.distinct = stats.distinct.max(ack.distinct);
        stats.covered = stats.covered.max(ack.largest + 1);
        stats.receiver_drops = stats.receiver_drops.max(ack.dropped);
        stats.refused = stats.refused.max(ack.refused);
        stats.marked = stats.marked.max(ack.marked);
        stats.pressure = ack.pressure;
        if self.channel == Channel::Streams {
            return;
        }
        if ack.delay > ack_delay_max {
            stats.receiver_late += now.since(stats.last_news).min(ack.delay);
        }
        // What comes out of TCP streams meanwhile was not sent under this controller.
        let landed = self.base.in_streams.saturating_sub(self.flight.in_streams());
        let received = stats.received.saturating_sub(self.base.received + landed);
        let distinct = stats.distinct.saturating_sub(self.base.distinct + landed);
        self.told.received = self.told.received.max(received);
        self.told.distinct = self.told.distinct.max(distinct);
        if self.marking.is_sound() {
            self.told.marked = self.told.marked.max(stats.marked.saturating_sub(self.base.marked));
        }
        // A delay longer than the round trip means that the receiver's clock was set meanwhile: no sample.
        let rtt = latest_sent.and_then(|sent| now.since(sent).checked_sub(ack.delay));
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        let sample = AckSample {
            now,
            arrival: ack.latest_time,
            one_way_ns: latest_sent.map(|sent| ack.latest_time.0.wrapping_sub(sent.0) as i64),
            rtt,
            rtt_min: self.rtt.min(),
            // Acknowledgements overtake each other: totals never go back.
            received_bytes: self.told.received.saturating_mul(len),
            accepted_bytes: self.told.distinct.saturating_mul(len),
            covered_bytes: stats.covered.saturating_sub(self.base.covered).saturating_mul(len),
            overrun_bytes: stats.overruns().saturating_sub(self.base.overruns).saturating_mul(len),
            ce_bytes: self.told.marked.saturating_mul(len),
            pressure: f64::from(ack.pressure) / 255.0,
            latest: ack.latest,
            largest: ack.largest,
            next_number: self.flight.next_number(),
            in_flight: self.flight.in_datagrams() * len,
            app_limited: std::mem::take(&mut self.app_limited),
            time_lost: self.time_lost(),
        };
        self.controller.on_ack(&sample);
    }

    fn choose(&mut self) -> Option<(PacketNumber, bool)> {
        if let Some(pending) = self.pending.take().filter(|(packet, _)| !self.acked.contains(*packet)) {
            return Some(pending);
        }
        match self.selector.next(View { acked: &self.acked, busy: &self.busy }) {
            Some(packet) => {
                self.hedge_from = DatagramNumber::MAX;
                if self.selector.round_is_over().is_some() {
                    self.stats.rounds = self.asking.round();
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
        let budget = self.stats.packets_required / HEDGE_SHARE + HEDGE_MIN;
        let by_streams = self.channel == Channel::Streams;
        if by_streams
            || self.stats.given_up == 0
            || self.stats.packets_hedged >= budget
            || self.rtt.min() < HEDGE_RTT_MIN
        {
            return None;
        }
        let (packet, number) = self.flight.newest_single(self.hedge_from, |p| self.acked.contains(p))?;
        self.hedge_from = number;
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
        let number = self.flight.push_empty(now);
        let request = self.asking.ask(now, number, self.rtt.timeout(MAX_DELAY));
        self.stats.requests += 1;
        Some(Transmit { number, len: request.encode(buf) })
    }

    /// A packet goes, or went, at that time: with this number.
    fn note_sent(&mut self, packet: PacketNumber, now: Time, in_train: bool) -> DatagramNumber {
        let again = !self.tried.insert(packet);
        let by_stream = self.channel == Channel::Streams;
        let number = self.flight.push(packet, now, again, by_stream);
        self.busy.insert(packet);
        self.stats.packets_sent += 1;
        self.stats.packets_resent += u64::from(again);
        self.last_sent = now;
        if by_stream {
            self.stats.packets_by_streams += 1;
        } else {
            let bytes = self.datagram_len();
            let in_flight = self.flight.in_datagrams() * bytes;
            self.controller.on_sent(&Sent { now, number, bytes, in_train, in_flight });
        }
        number
    }

    fn window_is_full(&self) -> bool {
        if self.channel == Channel::Streams {
            return self.flight.len() as u64 >= STREAMS_SPAN;
        }
        let len = self.datagram_len();
        let window = self.controller.window().unwrap_or(u64::MAX).max(2 * len);
        let on_way = self.flight.in_datagrams().saturating_sub(self.sent_before);
        on_way * len + len > window || self.flight.len() >= FLIGHT_MAX
    }
}

impl<S: Source> Endpoint for Sender<S> {
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Time, _arrival: Arrival, body: &[u8]) {
        self.marking.advance(self.flight.next_number());
        match Body::decode(body) {
            Some(Body::Ack(ack)) => self.on_ack(now, &ack),
            _ => self.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.complete {
            return;
        }
        self.marking.advance(self.flight.next_number());
        if self.overtaken_at().is_some_and(|at| now >= at) {
            self.give_up(now, self.stats.covered - 1, self.largest_sent);
        }
        if self.timeout_at().is_none_or(|at| now < at) {
            return;
        }
        self.stats.timeouts_in_a_row += 1;
        if self.stats.timeouts_in_a_row > 1 {
            // Once may be the loss of the last few datagrams; again is silence.
            self.marking.doubt(self.flight.next_number());
            self.controller.on_timeout(now);
        }
        let deadline = now - self.rtt.timeout(self.ack_delay_max());
        self.give_up(now, DatagramNumber::MAX, deadline);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        if self.complete {
            self.blocked = Blocked::Done;
            return None;
        }
        if let Some(transmit) = self.ask(now, buf) {
            return Some(transmit);
        }
        if self.window_is_full() {
            self.blocked = Blocked::Window;
            return None;
        }
        let reason = self.set_pace(now);
        if !self.pacer.may_send(now) {
            self.blocked = reason;
            return None;
        }
        let Some((packet, hedge)) = self.choose() else {
            self.train_left = 0;
            // Claims are settled when the source has been read.
            self.blocked = if self.claimed.is_empty() { Blocked::Acks } else { Blocked::Source };
            self.app_limited = true;
            self.pacer.skip_idle(now);
            return self.ask(now, buf);
        };
        let range = self.config.shape.range(packet);
        let len = wire::DATA_PREFIX + (range.end - range.start) as usize;
        if self.source.read_at(range.start, &mut buf[wire::DATA_PREFIX..len]).is_err() {
            self.pending = Some((packet, hedge));
            self.blocked = Blocked::Source;
            self.train_left = 0;
            self.app_limited = true;
            self.pacer.skip_idle(now);
            return None;
        }
        // Only a sender that is paced can be late; one that had no data, no room or no beginning waited for others.
        if self.stats.packets_sent == 0 || !self.blocked.is_paced() {
            self.pacer.skip_idle(now);
        }
        self.blocked = Blocked::No;
        let in_train = self.train_left > 0;
        self.train_left = self.train_left.saturating_sub(1);
        wire::encode_data_prefix(buf, self.config.class, in_train, packet);
        self.stats.packets_hedged += u64::from(hedge);
        if in_train && self.train_left == 0 {
            self.pacer.end_train(now, self.effective_rate().0, self.controller.burst());
        }
        self.pacer.on_sent(now, self.datagram_len());
        Some(Transmit { number: self.note_sent(packet, now, in_train), len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.complete {
            return None;
        }
        let paced = matches!(self.blocked, Blocked::Pacing | Blocked::RateCap);
        let wake = if paced { self.pacer.wake_at(self.datagram_len()) } else { None };
        let probe = self.controller.probe_at().filter(|_| paced && self.train_left == 0 && self.may_probe());
        let probe = probe.map(|at| at.max(self.capped_until()));
        let all = [wake, probe, self.overtaken_at(), self.timeout_at(), self.ask_at()];
        all.into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    fn ecn(&self) -> Ecn {
        self.marking.ecn()
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
