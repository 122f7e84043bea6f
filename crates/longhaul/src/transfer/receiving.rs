//! The side that gets the files.

mod figures;
mod listed;
mod parts;
mod trace;

use self::listed::await_memory;
pub use self::listed::get_expanded;
use self::parts::{Before, Compared, Next, Part, PartEnd, Parts, Storer, stretch_len};
use super::object_receiver::ObjectReceiver;
use super::sending::Totals;
use super::session::{HEARTBEAT, Session};
use super::tracer::{Traced, Tracer};
use crate::api::Phase;
use crate::clock;
use crate::error::Error;
use crate::files::{Base, Drain, FileSink, Outlet, Passed, Plan, Planner, SinkEvent};
use crate::listing;
use crate::net::budget::{Allowance, Purpose};
use crate::trace::{Event, Role};
use crossbeam_channel::TryRecvError;
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::session::manifest::{Layout, Manifest, Ranges, bytes_in, shifted};
use longhaul_proto::session::message::{Already, FileOptions, Message, Report, SenderStatus};
use longhaul_proto::units::{Rate, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What came of receiving.
pub struct Received {
    /// What this side has to report.
    pub report: Report,
    /// What the sender said of it.
    pub status: SenderStatus,
    /// Largest UDP payload that passed.
    pub datagram_len: u16,
    /// Data bytes in all.
    pub total: u64,
    /// Regular files in all.
    pub files: u64,
}

/// What an offer says of a listing: how long it is, and its first bytes.
pub struct ListingHead {
    /// Compressed bytes in all, if known yet.
    pub total: Option<u64>,
    /// The first of them.
    pub bytes: Vec<u8>,
}

/// Receive into `base` over an agreed session.
pub fn receive(
    session: &mut Session<'_>,
    base: Base,
    files: FileOptions,
    head: ListingHead,
) -> Result<Received, Error> {
    let ((manifest, source_errors), listed) = get_expanded(session, head, listing::decode)?;
    let (manifest, is_dry_run) = (Arc::new(manifest), files.dry_run);
    let planner = Planner::new(base, files).map_err(|error| session.abort(error))?;
    let (planner, mut plan) = compare(session, planner, manifest.clone())?;
    plan.source_incomplete = !source_errors.is_empty();
    let layout = Arc::new(Layout::new(&manifest));
    // Contents are compared as in a copy; then it is known what would be copied.
    if is_dry_run && plan.claimed.is_empty() && !manifest.seams.has_more {
        let mut report = plan.forecast();
        report.failed.extend(source_errors);
        let mut totals = Totals::default();
        totals.add(&manifest, &layout);
        return Ok(conclude(session, report.clone(), (report, totals), Seen::default()));
    }
    let Before { have, claimed, already, failures, files_there } = Before::of(&plan, &manifest, &layout);
    session.keep_first_flight(claimed.is_empty());
    session.tell_rate(None);
    session.control.send(Message::Start { have: have.clone(), claimed, already });
    if let Some(supervision) = &mut session.supervision {
        supervision.begin(0, || manifest.clone(), &layout, plan.renames());
        failures.iter().for_each(|failure| supervision.failed(failure));
    }
    await_confirmation(session)?;
    let sink = FileSink::start(plan, manifest.clone(), layout.clone(), session.waker.to_call());
    let sink = Box::new(sink.map_err(|error| session.abort(error))?.beside_others(&session.budget));
    let first = Part { manifest, layout, sink, source_errors, files_there, _listed: listed };
    let next = Next::new(Storer::Files(Box::new(planner)), session.waker.to_call(), session.budget.clone());
    receive_parts(session, (Parts::default(), first), (have, already), next, is_dry_run)
}

/// Receive a stream over an agreed session. `tell` is called with what goes through as soon as something can.
pub fn receive_pipe(
    session: &mut Session<'_>,
    outlet: Outlet,
    head: ListingHead,
    tell: impl FnOnce(Arc<Passed>),
) -> Result<Received, Error> {
    let ((manifest, source_errors), listed) = get_expanded(session, head, listing::decode)?;
    let len = stretch_len(&manifest).map_err(|error| session.abort(error))?;
    let entry = manifest.entries[0].clone();
    let looked = on_thread(session, "compare", move |over| outlet.look(&entry, &over))?;
    let ready = looked.map_err(|reason| session.abort(Error::Pipe(reason)))?;
    let budget = session.budget.clone();
    let memory = await_memory(session, || {
        let mut memory = Allowance::of(&budget, Purpose::Need);
        memory.take(len).then_some(memory)
    })?;
    session.keep_first_flight(false);
    session.tell_rate(None);
    session.control.send(Message::Start {
        have: Ranges::new(),
        claimed: Ranges::new(),
        already: Already::default(),
    });
    await_confirmation(session)?;
    let drain = Drain::start(ready, session.waker.to_call());
    let mut drain = drain.map_err(|error| session.abort(error))?;
    tell(drain.passed());
    let (layout, manifest) = (Arc::new(Layout::new(&manifest)), Arc::new(manifest));
    let sink = drain.stretch(len, !manifest.seams.has_more, memory);
    let first = Part { manifest, layout, sink, source_errors, files_there: 0, _listed: listed };
    let next = Next::new(Storer::Pipe(drain), session.waker.to_call(), session.budget.clone());
    receive_parts(session, (Parts::of_pipe(), first), (Ranges::new(), Already::default()), next, false)
}

/// Receive the first part and all others.
fn receive_parts(
    session: &mut Session<'_>,
    (parts, first): (Parts, Part),
    before: (Ranges, Already),
    next: Next,
    is_dry_run: bool,
) -> Result<Received, Error> {
    let mut receiving = Receiving::new(session, (parts, first), before, next, is_dry_run)?;
    let outcome = receiving.run();
    receiving.end_trace();
    receiving.warn_of_drops();
    let seen =
        Seen { datagram_len: receiving.object.datagram_len().unwrap_or(0), status: receiving.status.clone() };
    match outcome {
        Ok((mut last, mut whole)) => {
            let drops = receiving.session.drops();
            (last.receiver_drops, whole.receiver_drops) = (drops, drops);
            let totals = receiving.parts().totals();
            Ok(conclude(session, last, (whole, totals), seen))
        }
        Err(broken) => {
            // What has arrived is kept for another run.
            receiving.parts().suspend();
            receiving.heed_sink();
            Err(broken)
        }
    }
}

/// What was learnt of the transfer while it ran.
#[derive(Default)]
struct Seen {
    datagram_len: u16,
    status: SenderStatus,
}

/// Tell what there is to report of the last part; of all of them this side tells its own user.
fn conclude(
    session: &mut Session<'_>,
    last: Report,
    (report, totals): (Report, Totals),
    seen: Seen,
) -> Received {
    let status = part(session, last, seen.status);
    Received { report, status, datagram_len: seen.datagram_len, total: totals.bytes, files: totals.files }
}

/// Say that all is done, and hear the sender's last word; `last` is what it said before.
fn part(session: &mut Session<'_>, report: Report, last: SenderStatus) -> SenderStatus {
    session.control.send(Message::Finished(report));
    let deadline = clock::now() + PARTING;
    loop {
        match session.poll_message() {
            Ok(Some(Message::Bye(status))) => return status,
            Ok(Some(_)) => continue,
            Ok(None) => {}
            // All is in place; a peer that left without a word changes nothing.
            Err(_) => return last,
        }
        let now = clock::now();
        if now >= deadline {
            return last;
        }
        let _ = session.receive(|_, _, _, _| true);
        session.run_check(now);
        let _ = session.wait(now, deadline.min(now + HEARTBEAT));
    }
}

/// Run the session's network side until `done` gives something.
pub fn serve_until<T>(
    session: &mut Session<'_>,
    mut done: impl FnMut(&mut Session<'_>) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    loop {
        session.begin_turn()?;
        session.tell_phase(Phase::Comparing);
        if let Some(value) = done(session)? {
            return Ok(value);
        }
        session.receive_ahead()?;
        let now = clock::now();
        session.run_check(now);
        session.tend_streams(now);
        session.check_silence(session.last_word)?;
        let deadline = session.check.poll_timeout().unwrap_or(Time::MAX).min(now + HEARTBEAT);
        session.wait(now, deadline)?;
    }
}

/// Have something done that takes its time at the disk, on a thread of its own so that probes are answered meanwhile. The
/// flag that it is given is set when the session ends before it does.
pub fn on_thread<T: Send + 'static>(
    session: &mut Session<'_>,
    name: &str,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, Error> {
    let (waker, over) = (session.waker.clone(), Arc::new(AtomicBool::new(false)));
    let (done, result) = crossbeam_channel::bounded(1);
    let seen = over.clone();
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        // Nobody waits any more if the session is over.
        let _ = done.send(work(seen));
        waker.wake();
    });
    thread.map_err(|error| session.abort(Error::Threads(error)))?;
    let outcome = serve_until(session, |session| {
        session.last_word = clock::now();
        // Nothing is said to us before we have answered, unless the other side gives up.
        while session.poll_message()?.is_some() {}
        match result.try_recv() {
            Ok(outcome) => Ok(Some(outcome)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(session.abort(Error::Panicked)),
        }
    });
    over.store(true, Ordering::Relaxed);
    outcome
}

/// Compare the first part with what is here.
fn compare(
    session: &mut Session<'_>,
    mut planner: Planner,
    manifest: Arc<Manifest>,
) -> Result<(Planner, Plan), Error> {
    let began = clock::now();
    let outcome = on_thread(session, "compare", move |over| {
        let plan = planner.plan(&manifest, &over);
        plan.map(|plan| (planner, plan))
    })?;
    let span = clock::now().since(began);
    session.remark(format!("comparing with what is here took {:.0} ms", span.as_secs_f64() * 1e3));
    outcome.map_err(|error| session.abort(error))
}

/// Nothing is written before the other side has shown that it holds the session's keys. Its first message has no other
/// meaning, and comes with the first data.
pub fn await_confirmation(session: &mut Session<'_>) -> Result<(), Error> {
    let deadline = clock::now() + CONFIRMATION_PATIENCE;
    serve_until(session, |session| {
        if !session.confirmed {
            session.poll_message()?;
        }
        if !session.confirmed && clock::now() > deadline {
            return Err(session.abort(Error::Protocol("did not confirm its offer")));
        }
        Ok(session.confirmed.then_some(()))
    })?;
    session.give_ticket();
    Ok(())
}

struct Receiving<'a, 's> {
    session: &'a mut Session<'s>,
    /// Object bytes that are not needed.
    have: Ranges,
    already: Already,
    object: ObjectReceiver<Parts>,
    next: Next,
    status: SenderStatus,
    last_progress: Time,
    recent: (Time, u64, Rate),
    /// Bytes that are there without having come in now.
    spared: u64,
    complete_told: bool,
    is_dry_run: bool,
    /// What a trace was told last.
    tracer: Option<Tracer>,
}

impl<'a, 's> Receiving<'a, 's> {
    fn new(
        session: &'a mut Session<'s>,
        (mut parts, first): (Parts, Part),
        (have, already): (Ranges, Already),
        next: Next,
        is_dry_run: bool,
    ) -> Result<Receiving<'a, 's>, Error> {
        let now = clock::now();
        parts.push(first, 0).map_err(|error| session.abort(error))?;
        let tracer = Tracer::of(session, Role::Receiver, None, now);
        Ok(Receiving {
            object: ObjectReceiver::new(session, parts.end(), parts.has_more(), parts)?,
            session,
            tracer,
            have,
            already,
            next,
            status: SenderStatus::default(),
            last_progress: now,
            recent: (now, 0, Rate::default()),
            spared: 0,
            complete_told: false,
            is_dry_run,
        })
    }

    fn parts(&mut self) -> &mut Parts {
        self.object.sink()
    }

    /// Until the last part is done with: what there is to report of it, and of all.
    fn run(&mut self) -> Result<(Report, Report), Error> {
        loop {
            self.session.begin_turn()?;
            let was_there = self.object.receiver().is_none().then(|| bytes_in(&self.have));
            let busy = self.object.take(self.session, &self.have)?;
            if self.object.receiver().is_some() {
                self.spared += was_there.unwrap_or(0);
            }
            self.take_messages()?;
            self.heed_sink();
            if let Some(reason) = self.parts().broken() {
                return Err(self.session.abort(Error::Pipe(reason)));
            }
            let now = clock::now();
            // Again after a piece was taken back; the sink hears of it once.
            if self.object.acknowledge(self.session, now) && !self.complete_told {
                self.complete_told = true;
                self.parts().object_complete();
            }
            self.session.run_check(now);
            self.session.tend_streams(now);
            self.begin_next()?;
            if let Some(done) = self.end_oldest(now) {
                return Ok(done);
            }
            self.check_stall()?;
            if self.tracer.is_some() {
                self.tell_trace(now);
            }
            if now.since(self.last_progress) >= HEARTBEAT {
                self.last_progress = now;
                self.tell_progress(now);
                let used = (self.recent.1 > 0).then_some(self.recent.2);
                self.session.tell_rate(used);
                self.session.tell_pace();
            }
            if busy {
                continue;
            }
            let timer = self.object.poll_timeout().unwrap_or(Time::MAX);
            let patience = if self.session.link.streams().is_holding() { OFFER_AGAIN } else { HEARTBEAT };
            let deadline = timer.min(now + patience);
            self.session.wait(now, deadline)?;
        }
    }

    fn take_messages(&mut self) -> Result<(), Error> {
        while !self.parts().is_behind()
            && let Some(message) = self.session.poll_message()?
        {
            match message {
                Message::Hashes(hashes) => {
                    if let Some(supervision) = &mut self.session.supervision {
                        supervision.hashes(&hashes);
                    }
                    hashes.into_iter().for_each(|hash| self.parts().expect(hash));
                }
                Message::SourceFailed { entry, reason } => self.parts().source_failed(entry, &reason),
                Message::ListingPart { base, total, bytes } => {
                    let at_work = self.parts().len();
                    let taken = self.next.take(base, total, &bytes, at_work);
                    taken.map_err(|error| self.session.abort(error))?;
                }
                Message::Status(mut status) => {
                    let remarks = std::mem::take(&mut status.remarks);
                    remarks.into_iter().for_each(|line| self.session.remark(line));
                    self.tell_switches(&status);
                    self.heed_rtt(status.rtt_ns[0]);
                    self.status = status;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The sender measures the shortest round trip. What a busy host found of it at first may be many times as long, and
    /// acknowledgements held back for a quarter of that would leave the sender's window full.
    fn heed_rtt(&mut self, least_ns: u64) {
        if let Some(receiver) = self.object.receiver_mut().filter(|_| least_ns > 0) {
            receiver.set_rtt(Duration::from_nanos(least_ns));
        }
    }

    /// Begin with a part that has been compared.
    fn begin_next(&mut self) -> Result<(), Error> {
        let at_work = self.parts().len();
        let compared = self.next.poll(at_work).map_err(|error| self.session.abort(error))?;
        self.session.waits.fetch_or(self.next.waits_long(), Ordering::Relaxed);
        let Some(Compared { base, part, before }) = compared else { return Ok(()) };
        let Before { have, claimed, already, failures, .. } = before;
        let (manifest, layout) = (part.manifest.clone(), part.layout.clone());
        let end = self.parts().end();
        let first = self.parts().push(part, base).map_err(|error| self.session.abort(error))?;
        let mut known = shifted(&have, base);
        if end < base {
            known.insert(end..base);
        }
        self.have.extend(known.iter().cloned());
        let (end, is_growing) = (base + layout.object_len(), manifest.seams.has_more);
        let before = self.bytes_done();
        let grown = self.object.grow(end, is_growing, &known);
        grown.map_err(|error| self.session.abort(error))?;
        self.spared += self.bytes_done() - before;
        self.complete_told = false;
        self.already.add(already);
        self.session.control.send(Message::Start { have, claimed, already });
        if let Some(supervision) = &mut self.session.supervision {
            supervision.begin(first, || manifest.clone(), &layout, false);
            failures.iter().for_each(|failure| supervision.failed(failure));
        }
        Ok(())
    }

    /// If the oldest part has come to its end, go on without it. If it was the last: what there is to report of it and of all.
    fn end_oldest(&mut self, now: Time) -> Option<(Report, Report)> {
        if !self.parts().is_oldest_done() {
            return None;
        }
        // What it said last, and how far it came.
        self.heed_sink();
        let PartEnd { report, range, whole } = self.parts().poll_end()?;
        if let Some(supervision) = &mut self.session.supervision {
            supervision.end_part();
        }
        if let Some(whole) = whole {
            self.tell_progress(now);
            return Some((report, whole));
        }
        self.session.control.send(Message::Finished(report));
        if !range.is_empty() {
            self.skip(&[range].into_iter().collect());
        }
        None
    }

    /// What the other side has changed since it last said so.
    fn tell_switches(&mut self, status: &SenderStatus) {
        for switch in status.switches.iter().skip(self.status.switches.len()) {
            if switch.trial {
                self.session.remark(switch.to_string());
            } else {
                self.session.observer.warning(&switch.to_string());
            }
            self.session.trace(0, Event::transport(switch));
        }
    }

    /// Pass on what the sink says, to the receiver and to the other side.
    fn heed_sink(&mut self) {
        while let Some(event) = self.parts().poll_event() {
            match event {
                SinkEvent::Bad { ranges } => {
                    self.session.remark("a piece failed verification and is asked for again".into());
                    // Of what an earlier run left, too.
                    ranges.iter().for_each(|range| self.have.remove(range.clone()));
                    // Before the first datagram no acknowledgement can be late.
                    let receiver = self.object.receiver_mut();
                    let epoch = receiver.map_or(0, |receiver| receiver.take_back(&ranges));
                    self.complete_told = false;
                    self.session.control.send(Message::Resend { epoch, ranges });
                }
                SinkEvent::Settled { confirmed, refused } => {
                    self.already.resumed_bytes += bytes_in(&confirmed);
                    self.skip(&confirmed);
                    if !self.is_dry_run {
                        self.session.control.send(Message::Settled { confirmed, refused });
                    }
                }
                SinkEvent::Unwanted { ranges } => {
                    self.skip(&ranges);
                    self.session.control.send(Message::Unwanted { ranges });
                }
                SinkEvent::Warning(line) => self.session.warn(line),
                SinkEvent::FileDone { entry } => {
                    if let Some(supervision) = &mut self.session.supervision {
                        supervision.landed(entry);
                    }
                }
                SinkEvent::FileFailed(failure) => {
                    if let Some(supervision) = &mut self.session.supervision {
                        supervision.failed(&failure);
                    }
                }
            }
        }
        let backlog = self.parts().backlog();
        let pressure = (255 * backlog.queued_bytes / backlog.limit_bytes.max(1)).min(255) as u8;
        if let Some(receiver) = self.object.receiver_mut() {
            receiver.set_host_state(self.session.link.drops(), pressure);
            let known = receiver.paths();
            for (path, side) in self.session.paths.iter_mut().filter(|(path, _)| *path < known) {
                let drops = side.link.drops();
                receiver.on_path(path, |receiver| receiver.set_host_state(drops, pressure));
            }
        }
    }

    /// These bytes need not come.
    fn skip(&mut self, ranges: &Ranges) {
        self.have.extend(ranges.iter().cloned());
        let before = self.bytes_done();
        if let Some(receiver) = self.object.receiver_mut() {
            // Together with what lies around them: a packet may cross the border of two ranges.
            let whole = ranges.iter().filter_map(|range| self.have.get(&range.start).cloned());
            receiver.skip(&whole.collect());
        }
        self.spared += self.bytes_done() - before;
    }

    /// Bytes of the object that are there, in whole packets.
    fn bytes_done(&self) -> u64 {
        self.object.receiver().map_or(0, |r| r.received() * u64::from(r.shape().packet_len))
    }

    fn check_stall(&mut self) -> Result<(), Error> {
        // What waits for room here may have words of the sender behind it.
        let held = if self.session.link.streams().is_holding() { clock::now() } else { Time::ZERO };
        self.session.check_silence(self.object.last_news().max(self.session.last_word).max(held))
    }
}

/// The word that confirms an offer leaves when the answer to that has come: a round trip later.
const CONFIRMATION_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for the sender's last word.
pub const PARTING: Duration = Duration::from_secs(5);
/// What a TCP stream brought and a full sink refused is offered again so soon.
const OFFER_AGAIN: Duration = Duration::from_millis(2);
