//! The side that has the files.

mod carrier;
mod feed;
mod limits;
mod parts;
mod pieces;
mod prepare;
mod side_paths;
mod size;
mod trace;

use self::carrier::{CarrierState, Control};
pub use self::feed::Feed;
use self::feed::{PartEnd, PartStart};
use self::parts::Parts;
pub use self::parts::Totals;
use self::pieces::Pieces;
use self::prepare::{Begin, Prepared, begin_class, prepare};
use self::side_paths::{Joined, send_batch};
use self::size::Size;
use super::first_flight;
use super::object_receiver::packet_len;
use super::session::{HEARTBEAT, Session};
use super::tracer::{Traced, Tracer};
use crate::api::{Phase, Progress};
use crate::clock;
use crate::error::Error;
use crate::files::{Listed, Lister};
use crate::net::udp::GSO_SEGMENTS_MAX;
use longhaul_proto::control::{ControlConfig, Remembered};
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::object::{Blocked, Sender, SenderConfig};
use longhaul_proto::session::limit::LimitMeter;
use longhaul_proto::session::manifest::{Layout, Ranges, bytes_in};
use longhaul_proto::session::message::{Already, GroupHash, Message, Report, SenderStatus};
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::{Rate, Time, nanos};
use std::sync::Arc;
use std::time::Duration;

/// What came of sending.
pub struct Sent {
    /// What the receiver reported.
    pub report: Report,
    /// How it went.
    pub status: SenderStatus,
    /// Largest UDP payload that passed.
    pub datagram_len: u16,
    /// What was learnt of the path.
    pub learnt: Option<Remembered>,
    /// What it carries, as far as is known.
    pub bandwidth: Option<Rate>,
}

/// Send what is listed over an agreed session. The listing of the first part has gone before.
pub fn send(session: &mut Session<'_>, first: Listed, lister: Lister) -> Result<(Sent, Totals), Error> {
    let (wake, budget) = (session.waker.to_call(), session.budget.clone());
    let scan = first.scan.clone();
    let layout = Arc::new(Layout::new(&scan.manifest));
    let mut totals = Totals::default();
    totals.add(&scan.manifest, &layout);
    let read = |have: &Ranges, claimed: &Ranges| {
        let mut parts = Parts::new(first, lister, wake, budget);
        parts.start(have, claimed)?;
        Ok(parts)
    };
    let begin = match prepare(session, Phase::Comparing, layout.object_len(), read)? {
        Prepared::Begin(begin) => begin,
        Prepared::Finished(report) => {
            session.control.send(Message::Bye(SenderStatus::default()));
            let status = SenderStatus::default();
            return Ok((Sent { report, status, datagram_len: 0, learnt: None, bandwidth: None }, totals));
        }
    };
    if let Some(supervision) = &mut session.supervision {
        supervision.begin(0, || Arc::new(scan.manifest.clone()), &layout, false);
    }
    drop(scan);
    let object = Whole { object_len: layout.object_len(), files: totals.files };
    let mut sending = Sending::new(session, object, begin)?;
    let outcome = sending.run_to_end(Time::MAX);
    let totals = sending.sender.source_mut().totals();
    Ok((outcome?, totals))
}

/// Send `feed`'s bytes to a receiver that keeps nothing, for `span`.
pub fn send_for(
    session: &mut Session<'_>,
    object_len: u64,
    span: Duration,
    feed: impl Feed,
) -> Result<Sent, Error> {
    let Prepared::Begin(begin) = prepare(session, Phase::Connecting, object_len, |_, _| Ok(feed))? else {
        return Err(session.abort(Error::Protocol("ended the trial before it began")));
    };
    let until = clock::now() + span;
    Sending::new(session, Whole { object_len, files: 0 }, begin)?.run_to_end(until)
}

/// Send the first part's listing, or what of it did not fit the offer; it has `total` bytes.
pub fn send_listing(session: &Session<'_>, rest: &[u8], total: usize) {
    send_part_listing(session, 0, rest, total);
}

/// Send the listing of a part whose data begins at `base`.
fn send_part_listing(session: &Session<'_>, base: u64, rest: &[u8], total: usize) {
    for piece in rest.chunks(LISTING_PART) {
        session.control.send(Message::ListingPart { base, total: total as u64, bytes: piece.to_vec() });
    }
}

/// What is to be sent, as far as the receiver has compared it.
struct Whole {
    object_len: u64,
    files: u64,
}

struct Sending<'a, 's, F> {
    session: &'a mut Session<'s>,
    sender: Sender<F>,
    whole: Whole,
    already: Already,
    /// The memory of what the sender knows of the receiver.
    pieces: Pieces,
    datagram_len: usize,
    size: Size,
    batch: usize,
    meter: LimitMeter,
    finished: Option<Report>,
    /// When all that could be sent so far had last come in.
    last_complete: Time,
    last_progress: Time,
    last_status: Time,
    recent: Recent,
    /// Bytes that the receiver has without our having sent them.
    spared: u64,
    remarks: Vec<String>,
    /// When the way of a copy that pauses was last kept open.
    kept_open: Time,
    hashes: Vec<GroupHash>,
    carrier: CarrierState,
    /// Further paths over which it sends.
    joined: Joined,
    /// What a trace was told last.
    tracer: Option<Tracer>,
}

/// Counters a moment ago, for recent rates.
#[derive(Clone, Copy, Default)]
struct Recent {
    at: Time,
    acked: u64,
    covered: u64,
    lost: u64,
    goodput: Rate,
    loss: f64,
    time_lost: Duration,
    cpu_bound: bool,
    receiver_late: Duration,
    receiver_bound: bool,
}

impl<'a, 's, F: Feed> Sending<'a, 's, F> {
    fn new(session: &'a mut Session<'s>, whole: Whole, begin: Begin<F>) -> Result<Sending<'a, 's, F>, Error> {
        let Begin { mut have, claimed, already, mut feed, path, carrier, why, finished, pieces } = begin;
        let (class, counts_first) = begin_class(session, &path, (carrier, &claimed));
        let datagram_len = usize::from(session.options.classes[usize::from(class)]);
        let rtt = path.rtt.unwrap_or(session.rtt);
        let (kind, companions) = session.options.protocol();
        let rate_cap = session.rate_cap(None);
        let shape = feed.cut(whole.object_len, packet_len(datagram_len as u16));
        if whole.object_len < shape.object_len {
            have.insert(whole.object_len..shape.object_len);
        }
        let config = SenderConfig {
            shape,
            class,
            selector: companions.selector,
            rate_cap,
            rtt,
            have,
            ecn: kind.ecn(),
            seed: nanos(Duration::from_nanos(clock::now().0)),
        };
        let control = ControlConfig {
            path_rate: path.rate,
            rate: rate_cap,
            remembered: session.remembered,
            background: session.options.background,
            seed: config.seed,
            ..ControlConfig::new(datagram_len as u64, rtt)
        };
        let control = Control::new(kind, control, session.options.transport);
        let mut sender = Sender::new(config, feed, control.build(None));
        let spared = sender.acked_bytes();
        sender.hold(&claimed);
        sender.set_paused(session.is_paused());
        first_flight::hand_over(session.first_flight.take(), &mut sender, counts_first);
        let state = CarrierState::new(session, carrier, &path, control);
        if carrier == Carrier::Object {
            let rate = path.rate.map_or("unknown".into(), |r| {
                format!("{}{}", if r.is_bottleneck { "" } else { "at least " }, r.rate)
            });
            session.remark(format!(
                "path check: {datagram_len}-byte datagrams pass, round trip {:.1} ms, rate by train {rate}; control {}, packets {}",
                rtt.as_secs_f64() * 1e3,
                kind.name(),
                companions.selector.name()
            ));
        }
        let batch = session.options.batch.map_or(GSO_SEGMENTS_MAX, |b| b.max(1) as usize);
        let (now, classes) = (clock::now(), session.options.classes.len());
        let mut sending = Sending {
            session,
            sender,
            whole,
            already,
            pieces,
            datagram_len,
            size: Size::new(class, classes, now),
            batch,
            meter: LimitMeter::new(now),
            finished: None,
            last_complete: now,
            last_progress: Time::ZERO,
            last_status: now,
            recent: Recent { at: now, ..Recent::default() },
            spared,
            remarks: vec![],
            kept_open: now,
            hashes: vec![],
            carrier: state,
            joined: Joined::default(),
            tracer: None,
        };
        sending.begin_trace(carrier, &path, now);
        let first = prepare::first_streams(sending.session);
        sending.settle_carrier(carrier, first);
        if let Some(why) = why {
            sending.tell_switch(carrier, why, false);
        }
        if let Some(report) = finished {
            sending.end_part(report)?;
        }
        Ok(sending)
    }

    /// Send until all is done or `until`, and say goodbye.
    fn run_to_end(&mut self, until: Time) -> Result<Sent, Error> {
        let outcome = self.run(until);
        self.end_trace();
        let report = outcome?;
        let (status, learnt) = (self.status_overall(), self.sender.remember());
        self.tell_paths();
        self.session.control.send(Message::Bye(status.clone()));
        let bandwidth =
            self.sender.snapshot().bandwidth.filter(|_| self.carrier.current() == Carrier::Object);
        Ok(Sent { report, status, datagram_len: self.datagram_len as u16, learnt, bandwidth })
    }

    fn run(&mut self, until: Time) -> Result<Report, Error> {
        loop {
            self.session.begin_turn()?;
            self.take_datagrams()?;
            self.take_messages()?;
            self.pass_on_source_news();
            self.list_more()?;
            if let Some(report) = self.finished.take() {
                // A short copy may not have told anything yet.
                self.tell_progress();
                return Ok(report);
            }
            let now = clock::now();
            self.sender.handle_timeouts(now);
            self.session.run_check(now);
            self.session.tend_streams(now);
            self.carry(now)?;
            self.tend_size(now);
            self.join_paths(now);
            let more = self.transmit()?;
            while self.sender.poll_event().is_some() {}
            let now = clock::now();
            self.account(now);
            self.check_stall()?;
            if now >= until {
                return Ok(Report::default());
            }
            if more {
                continue;
            }
            self.carrier.note_idle(now, self.sender.blocked());
            let timers = [self.sender.next_timeout(), self.size.poll_timeout()];
            let deadline = timers.into_iter().flatten().fold(now + HEARTBEAT, Time::min);
            self.session.wait(now, deadline)?;
        }
    }

    fn take_datagrams(&mut self) -> Result<(), Error> {
        let sender = &mut self.sender;
        // Bounded, so that a flood of strangers' datagrams does not keep us from sending.
        for _ in 0..RECEIVES {
            let joined = &self.joined;
            if !self.session.receive(|path, now, arrival, body| {
                if let Some(number) = joined.number_of(path) {
                    sender.on_path(number, |sender| sender.handle_datagram(now, arrival, body));
                }
                true
            })? {
                break;
            }
        }
        Ok(())
    }

    fn take_messages(&mut self) -> Result<(), Error> {
        while let Some(message) = self.session.poll_message()? {
            let before = self.sender.acked_bytes();
            match message {
                Message::Resend { epoch, ranges } => {
                    self.session.remark("a piece failed verification and is sent again".into());
                    self.sender.resend(epoch, &ranges);
                }
                Message::Settled { confirmed, refused } => {
                    self.already.resumed_bytes += bytes_in(&confirmed);
                    self.sender.settle(&confirmed, &refused);
                }
                Message::Unwanted { ranges } => self.sender.skip(&ranges),
                Message::Start { have, claimed, already } => self.start_part(&have, &claimed, already)?,
                Message::Finished(report) => self.end_part(report)?,
                _ => {}
            }
            self.spared += self.sender.acked_bytes().saturating_sub(before);
            let held = self.pieces.hold(self.sender.pieces());
            held.map_err(|error| self.session.abort(error))?;
        }
        Ok(())
    }

    /// Tell the receiver what further parts hold, ahead of their data.
    fn list_more(&mut self) -> Result<(), Error> {
        if self.session.control.is_behind() || self.is_between_sizes() {
            return Ok(());
        }
        if let Some(listed) = self.sender.source_mut().poll_listing() {
            let part = listed.map_err(|error| self.session.abort(error))?;
            part.warnings.into_iter().for_each(|line| self.session.warn(line));
            send_part_listing(self.session, part.base, &part.bytes, part.bytes.len());
        }
        Ok(())
    }

    /// The receiver knows what it needs of a further part.
    fn start_part(&mut self, have: &Ranges, claimed: &Ranges, already: Already) -> Result<(), Error> {
        let started =
            self.sender.source_mut().start(have, claimed).map_err(|error| self.session.abort(error))?;
        let PartStart { first, scan, layout, have, claimed, object_len } = started;
        self.sender.grow(object_len, &have, &claimed);
        self.already.add(already);
        self.whole.object_len += layout.object_len();
        self.whole.files += scan.manifest.regular_files();
        if let Some(supervision) = &mut self.session.supervision {
            supervision.begin(first, || Arc::new(scan.manifest.clone()), &layout, false);
        }
        Ok(())
    }

    /// The receiver is done with the oldest part.
    fn end_part(&mut self, report: Report) -> Result<(), Error> {
        if let Some(supervision) = &mut self.session.supervision {
            supervision.sent(&report);
        }
        match self.sender.source_mut().finish(report).map_err(|error| self.session.abort(error))? {
            PartEnd::Last(report) => self.finished = Some(report),
            PartEnd::Done(range) => {
                self.sender.skip(&[range].into_iter().filter(|r| !r.is_empty()).collect())
            }
        }
        Ok(())
    }

    fn pass_on_source_news(&mut self) {
        self.sender.source_mut().poll_hashes(&mut self.hashes);
        if let Some(supervision) = &mut self.session.supervision {
            supervision.hashes(&self.hashes);
        }
        for hashes in self.hashes.chunks(HASHES_PART) {
            self.session.control.send(Message::Hashes(hashes.to_vec()));
        }
        self.hashes.clear();
        while let Some((entry, reason)) = self.sender.source_mut().poll_failures() {
            self.session.control.send(Message::SourceFailed { entry, reason });
        }
    }

    /// One batch (FOBS §3.1, first phase). True if there is more to send at once.
    fn transmit(&mut self) -> Result<bool, Error> {
        // Hashes of small files may be more than the control stream carries beside them.
        if self.session.control.is_behind() {
            return Ok(false);
        }
        if self.carrier.current() != Carrier::Object {
            return Ok(self.transmit_by_streams());
        }
        let more = self.transmit_aside();
        let first = send_batch(&mut self.session.link, self.batch, self.datagram_len, &mut self.sender)?;
        Ok(first || more)
    }

    fn account(&mut self, now: Time) {
        let limit = self.limit(now);
        let changed = self.meter.note(now, limit);
        if self.tracer.is_some() {
            self.tell_trace(now);
        }
        if let Some(changed) = changed {
            let line =
                format!("limited by {}: {}{}", changed.name(), changed.explain(), self.figures(changed));
            self.session.remark(line.clone());
            self.remarks.push(line);
        }
        if now.since(self.recent.at) >= RECENT {
            self.refresh_recent(now);
        }
        if now.since(self.last_progress) >= HEARTBEAT {
            self.last_progress = now;
            self.tell_progress();
            self.session.tell_breakdown(now);
            let used = (self.recent.acked > 0).then_some(self.recent.goodput);
            self.sender.set_rate_cap(self.session.rate_cap(used));
            self.sender.set_paused(self.session.is_paused());
            self.keep_open(now);
        }
        if now.since(self.last_status) >= STATUS_EVERY {
            self.last_status = now;
            let mut status = self.status_overall();
            status.loss = self.recent.loss;
            status.remarks = std::mem::take(&mut self.remarks);
            self.tell_paths();
            self.session.control.send(Message::Status(status));
        }
    }

    fn refresh_recent(&mut self, now: Time) {
        let (stats, acked) = (self.sender.stats(), self.sender.acked_bytes().saturating_sub(self.spared));
        let time_lost = self.sender.time_lost();
        let lost = stats.path_losses();
        let span = now.since(self.recent.at);
        let news = acked.saturating_sub(self.recent.acked);
        let covered = stats.covered.saturating_sub(self.recent.covered);
        self.recent = Recent {
            at: now,
            acked,
            covered: stats.covered,
            lost,
            goodput: Rate::from_bytes_over(news, span),
            loss: lost.saturating_sub(self.recent.lost) as f64 / covered.max(1) as f64,
            time_lost,
            cpu_bound: time_lost - self.recent.time_lost > span / 5,
            receiver_late: stats.receiver_late,
            receiver_bound: stats.receiver_late - self.recent.receiver_late > span / 5,
        };
        tracing::debug!(snapshot = ?self.sender.snapshot(), blocked = ?self.sender.blocked(), ?stats, "sending");
    }

    fn tell_progress(&mut self) {
        let (listed, is_open_ended) = (self.whole.object_len, self.sender.source_mut().is_open_ended());
        let all = self.sender.acked() == self.sender.shape().packets();
        self.session.observer.progress(&Progress {
            phase: if all && !is_open_ended { Phase::Verifying } else { Phase::Moving },
            bytes_done: self.sender.acked_bytes().min(listed),
            bytes_total: if is_open_ended { 0 } else { listed },
            files_total: if is_open_ended { 1 } else { self.whole.files },
            goodput: self.recent.goodput,
            loss: self.recent.loss,
            rtt: self.sender.rtt().smoothed(),
            limited_by: self.meter.current(),
            limits: self.meter.total(),
            carrier: self.carrier.current(),
            skipped_bytes: self.already.skipped_bytes,
            resumed_bytes: self.already.resumed_bytes,
            files_done: self.session.files_done,
        });
    }

    /// The path is silent although there is something to hear, or the peer is.
    fn check_stall(&mut self) -> Result<(), Error> {
        let patience = self.session.stall_timeout();
        let stats = self.sender.stats();
        let waiting = self.sender.acked() < self.sender.shape().packets()
            && self.sender.blocked() != Blocked::Source
            && !self.sender.is_paused();
        // A source may pause for as long as it likes, and what is said may have to go first over the same way.
        if !waiting || self.session.control.is_behind() {
            self.last_complete = clock::now();
        }
        let since_news = self.session.presence.silence(stats.last_news.max(self.last_complete));
        if waiting && since_news > patience {
            return Err(self.session.abort(Error::Stalled { after: patience }));
        }
        // A word over UDP is a word.
        self.session.check_silence(self.session.last_word.max(stats.last_news))
    }

    fn status_overall(&self) -> SenderStatus {
        let stats = self.sender.stats();
        let rtt = self.sender.rtt();
        let mut status = SenderStatus {
            limited_by: self.meter.current(),
            limits: self.meter.total(),
            packets_required: stats.packets_required,
            packets_sent: stats.packets_sent,
            packets_resent: stats.packets_resent,
            loss: stats.path_losses() as f64 / stats.covered.max(1) as f64,
            rtt_ns: [nanos(rtt.min()), nanos(rtt.mean()), nanos(rtt.smoothed())],
            remarks: self.remarks.clone(),
            ..SenderStatus::default()
        };
        self.carrier.tell(&stats, &mut status);
        status
    }
}

/// Receive calls between two batches.
const RECEIVES: usize = 4;
/// Bytes of a listing in a message.
const LISTING_PART: usize = 256 << 10;
/// Hashes told in one message, of some 40 bytes each.
const HASHES_PART: usize = 4096;
/// Rates shown are over this span.
const RECENT: Duration = Duration::from_millis(500);
const STATUS_EVERY: Duration = Duration::from_millis(500);
