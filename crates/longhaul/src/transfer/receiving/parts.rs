//! The files that are received, a few parts of them at a time, and the comparison of the part that comes next.

use super::super::sending::Totals;
use super::listed::{LISTED_AT_HAND, PACKED_AT_HAND, Standing, WAIT_LONG, await_stretch};
use crate::clock;
use crate::error::Error;
use crate::files::{
    Backlog, Drain, FileSink, OBJECT_MAX, PartSink, Plan, Planner, SinkEvent, Wake, check_stretch,
};
use crate::listing::{self, ListingError, Room};
use crate::net::budget::{Allowance, Budget, Purpose};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use longhaul_proto::endpoint::{Full, Sink};
use longhaul_proto::session::manifest::{
    Entry, EntryIndex, Kind, Layout, Manifest, PARTS_MAX, Ranges, shifted,
};
use longhaul_proto::session::message::{Already, FileFailure, GroupHash, Report};
use longhaul_proto::session::reason::Reason;
use longhaul_proto::units::Time;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A part that can be received.
pub struct Part {
    /// What it holds.
    pub manifest: Arc<Manifest>,
    /// Where its files lie in it.
    pub layout: Arc<Layout>,
    /// Where its data stores itself.
    pub sink: Box<dyn PartSink>,
    /// What the other side could not list.
    pub source_errors: Vec<FileFailure>,
    /// Regular files of it that were there as a whole.
    pub files_there: u64,
    /// The memory that its listing takes.
    pub _listed: Allowance,
}

/// What parts are stored by.
pub enum Storer {
    /// They are files, and compared with what is there.
    Files(Box<Planner>),
    /// They are stretches of a stream.
    Pipe(Drain),
}

/// The parts at work, as one sink.
#[derive(Default)]
pub struct Parts {
    live: VecDeque<Placed>,
    /// Entries of all parts so far.
    entries: u64,
    /// Where the last part's data ends.
    end: u64,
    totals: Totals,
    /// Regular files that are in place.
    files_done: u64,
    /// They are stretches of a stream.
    is_pipe: bool,
    /// What there is to report of the parts that are done with.
    report: Option<Report>,
}

/// A part in its place.
struct Placed {
    part: Part,
    base: u64,
    first: EntryIndex,
}

/// The oldest part is done with.
pub struct PartEnd {
    /// What there is to report of it.
    pub report: Report,
    /// Its object bytes.
    pub range: Range<u64>,
    /// If it was the last one, what there is to report of all.
    pub whole: Option<Report>,
}

impl Parts {
    /// Of a stream.
    pub fn of_pipe() -> Parts {
        Parts { is_pipe: true, ..Parts::default() }
    }

    /// Whether nobody knows how many bytes will come.
    pub fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Where the last part's data ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// What was listed so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Regular files that are in place, with those that were there. A stream has none before its end.
    pub fn files_done(&self) -> Option<u64> {
        Some(self.files_done).filter(|_| !self.is_pipe)
    }

    /// How many are at work.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether another part follows those that are at work.
    pub fn has_more(&self) -> bool {
        self.live.back().is_some_and(|last| last.part.manifest.seams.has_more)
    }

    /// Receive a further part, whose data begins at `base`. Returns the number of its first entry.
    pub fn push(&mut self, part: Part, base: u64) -> Result<EntryIndex, Error> {
        let impossible = Error::Protocol("lists parts that do not fit together");
        let all = self.entries + part.manifest.entries.len() as u64;
        let end = base.checked_add(part.layout.object_len()).filter(|end| *end <= OBJECT_MAX);
        let (Ok(first), Ok(_)) = (EntryIndex::try_from(self.entries), EntryIndex::try_from(all)) else {
            return Err(impossible);
        };
        let Some(end) = end.filter(|_| base >= self.end) else { return Err(impossible) };
        (self.entries, self.end) = (all, end);
        self.totals.add(&part.manifest, &part.layout);
        self.files_done += part.files_there;
        if self.is_pipe {
            self.totals.of_one_file();
        }
        if self.live.is_empty() && self.report.is_some() {
            part.sink.go_ahead(self.all_well());
        }
        self.live.push_back(Placed { part, base, first });
        Ok(first)
    }

    fn all_well(&self) -> bool {
        self.report.as_ref().is_none_or(|report| report.failed.is_empty())
    }

    /// The sender's hash of a group.
    pub fn expect(&mut self, mut hash: GroupHash) {
        if let Some((part, entry)) = self.of_entry(hash.group.entry) {
            hash.group.entry = entry;
            part.sink.expect(hash);
        }
    }

    /// The sender cannot read a file to its end.
    pub fn source_failed(&mut self, entry: EntryIndex, reason: &Reason) {
        if let Some((part, entry)) = self.of_entry(entry) {
            part.sink.source_failed(entry, reason);
        }
    }

    fn of_entry(&mut self, entry: EntryIndex) -> Option<(&mut Part, EntryIndex)> {
        let placed = self.live.iter_mut().rev().find(|placed| placed.first <= entry)?;
        Some((&mut placed.part, entry - placed.first))
    }

    /// The next thing to know, of bytes of the object and entries of all parts.
    pub fn poll_event(&mut self) -> Option<SinkEvent> {
        let files_done = &mut self.files_done;
        self.live.iter_mut().find_map(|placed| {
            let (base, first) = (placed.base, placed.first);
            placed.part.sink.poll_event().map(|event| match event {
                SinkEvent::Bad { ranges } => SinkEvent::Bad { ranges: shifted(&ranges, base) },
                SinkEvent::Settled { confirmed, refused } => SinkEvent::Settled {
                    confirmed: shifted(&confirmed, base),
                    refused: shifted(&refused, base),
                },
                SinkEvent::Unwanted { ranges } => SinkEvent::Unwanted { ranges: shifted(&ranges, base) },
                SinkEvent::FileDone { entry } => {
                    let entries = &placed.part.manifest.entries;
                    let is_file = |entry: &Entry| matches!(entry.kind, Kind::File { .. });
                    *files_done += u64::from(entries.get(entry as usize).is_some_and(is_file));
                    SinkEvent::FileDone { entry: first + entry }
                }
                other => other,
            })
        })
    }

    /// Whether the oldest part has come to its end.
    pub fn is_oldest_done(&self) -> bool {
        self.live.front().is_some_and(|oldest| oldest.part.sink.is_finished())
    }

    /// If the oldest part has come to its end, let go of it. All it has to say has been heard.
    pub fn poll_end(&mut self) -> Option<PartEnd> {
        let oldest = self.live.front().filter(|_| self.is_oldest_done())?;
        let (mut report, is_last) = (oldest.part.sink.report(), !oldest.part.manifest.seams.has_more);
        let Placed { part, base, .. } = self.live.pop_front()?;
        report.failed.extend(part.source_errors);
        match &mut self.report {
            Some(all) => all.add(report.clone()),
            none => *none = Some(report.clone()),
        }
        if let Some(next) = self.live.front() {
            next.part.sink.go_ahead(self.all_well());
        }
        let range = base..base + part.layout.object_len();
        Some(PartEnd { report, range, whole: self.report.clone().filter(|_| is_last) })
    }

    /// All packets have been delivered: store what is still in memory.
    pub fn object_complete(&mut self) {
        self.live.iter_mut().for_each(|placed| placed.part.sink.object_complete());
    }

    /// Whether so much waits to be done that nothing more should be said of it for now.
    pub fn is_behind(&self) -> bool {
        self.live.iter().any(|placed| placed.part.sink.is_behind())
    }

    /// Why nothing more can be done about the copy, if that is so.
    pub fn broken(&self) -> Option<Reason> {
        self.live.iter().find_map(|placed| placed.part.sink.broken())
    }

    /// How far the writers are behind who are most so.
    pub fn backlog(&self) -> Backlog {
        let all = self.live.iter().map(|placed| placed.part.sink.backlog());
        all.max_by_key(|backlog| backlog.queued_bytes).unwrap_or_default()
    }

    /// Stop, and leave all that has arrived so that the same copy can go on from it. What came of files last can be polled.
    pub fn suspend(&mut self) {
        self.live.iter_mut().for_each(|placed| placed.part.sink.close());
    }
}

impl Sink for Parts {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        let end = offset + data.len() as u64;
        let mut at = offset;
        while at < end {
            let rest = &data[(at - offset) as usize..];
            let index = self.live.iter().rposition(|placed| placed.base <= at);
            let next = self.live.get(index.map_or(0, |index| index + 1));
            let len = next.map_or(end, |placed| placed.base.min(end)) - at;
            if let Some(index) = index {
                self.live[index].write_at(at, &rest[..len as usize])?;
            }
            at += len;
        }
        Ok(())
    }
}

impl Placed {
    /// Nobody wants what lies between this part and the next.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        let at = offset - self.base;
        let len = self.part.layout.object_len().saturating_sub(at).min(data.len() as u64) as usize;
        if len == 0 { Ok(()) } else { self.part.sink.write_at(at, &data[..len]) }
    }
}

/// The part that comes next, until it has been compared.
pub struct Next {
    /// Rests here between two parts.
    storer: Option<Storer>,
    wake: Wake,
    /// Of all sessions.
    budget: Arc<Budget>,
    /// The listing that is coming in, and how long it is.
    coming: Option<(Packed, u64)>,
    /// Listings that have come.
    listings: VecDeque<Packed>,
    /// Since when the next one waits for memory.
    waits_since: Option<Time>,
    comparing: Option<Receiver<Result<(Storer, Compared), Error>>>,
    /// What the thread that compares hears of the session.
    standing: Arc<Standing>,
}

/// A listing.
struct Packed {
    /// Where the part's data begins.
    base: u64,
    /// What has come of it.
    bytes: Vec<u8>,
    /// The memory that a long one takes.
    _room: Allowance,
}

/// A part that has been compared, and can be begun with.
pub struct Compared {
    /// Where its data begins in the object.
    pub base: u64,
    /// What receives it.
    pub part: Part,
    /// What was found of it here.
    pub before: Before,
}

/// What is here of a part.
#[derive(Default)]
pub struct Before {
    /// Of its bytes, those that are not needed.
    pub have: Ranges,
    /// Those that are there if the sender confirms it.
    pub claimed: Ranges,
    /// What was there before.
    pub already: Already,
    /// Entries that cannot be stored.
    pub failures: Vec<FileFailure>,
    /// Regular files that are there as a whole.
    pub files_there: u64,
}

impl Before {
    /// As it was planned.
    pub fn of(plan: &Plan, manifest: &Manifest, layout: &Layout) -> Before {
        let is_file =
            |entry: &&EntryIndex| matches!(manifest.entries[**entry as usize].kind, Kind::File { .. });
        Before {
            files_there: plan.skipped.iter().filter(is_file).count() as u64,
            have: plan.have_to_begin_with(layout),
            claimed: plan.claimed.clone(),
            already: plan.already(),
            failures: plan.failures.clone(),
        }
    }
}

impl Next {
    /// `wake` is called when a part has been compared, and by what receives it.
    pub fn new(storer: Storer, wake: Wake, budget: Arc<Budget>) -> Next {
        let (listings, standing) = (VecDeque::new(), Arc::default());
        Next {
            storer: Some(storer),
            wake,
            budget,
            coming: None,
            listings,
            waits_since: None,
            comparing: None,
            standing,
        }
    }

    /// A piece of a listing has come, while so many parts are at work.
    pub fn take(&mut self, base: u64, total: u64, bytes: &[u8], at_work: usize) -> Result<(), Error> {
        let waiting = self.listings.len() + usize::from(self.comparing.is_some());
        if at_work + waiting >= PARTS_MAX {
            return Err(Error::Protocol("lists more parts than it may"));
        }
        if total > PART_LISTING_MAX {
            return Err(ListingError::TooLong.into());
        }
        let (mut packed, total) = match self.coming.take() {
            Some(known) => known,
            None => {
                let mut room = Allowance::of(&self.budget, Purpose::Need);
                if total > PACKED_AT_HAND && !room.take(total) {
                    return Err(ListingError::Busy.into());
                }
                (Packed { base, bytes: Vec::new(), _room: room }, total)
            }
        };
        packed.bytes.extend(bytes);
        if (packed.bytes.len() as u64) < total {
            self.coming = Some((packed, total));
        } else {
            self.listings.push_back(packed);
        }
        Ok(())
    }

    /// Whether the next part waits long for memory.
    pub fn waits_long(&self) -> bool {
        let waits = self.waits_since.is_some_and(|since| clock::now().since(since) > WAIT_LONG);
        waits || self.standing.waits.load(Ordering::Relaxed)
    }

    /// Compare what has come with what is here, on a thread of its own, once there is memory for it beside the parts at work: those
    /// never wait for this one. Gives a part that has been compared.
    pub fn poll(&mut self, at_work: usize) -> Result<Option<Compared>, Error> {
        let mut ready = None;
        self.standing.is_alone.store(at_work == 0, Ordering::Relaxed);
        if let Some(comparing) = &self.comparing {
            match comparing.try_recv() {
                Ok(outcome) => {
                    let (storer, compared) = outcome?;
                    (self.storer, ready) = (Some(storer), Some(compared));
                }
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(Error::Panicked),
            }
            self.comparing = None;
        }
        if self.listings.is_empty() || self.storer.is_none() {
            return Ok(ready);
        }
        self.standing.is_alone.store(at_work == 0 && ready.is_none(), Ordering::Relaxed);
        let room = match self.storer {
            // One entry.
            Some(Storer::Pipe(_)) => Some(Room::of(LISTED_AT_HAND)),
            _ => Room::beside_others(Allowance::of(&self.budget, self.standing.purpose()), 0),
        };
        let Some(room) = room else {
            self.waits_since.get_or_insert_with(clock::now);
            return Ok(ready);
        };
        self.waits_since = None;
        if let Some(packed) = self.listings.pop_front()
            && let Some(storer) = self.storer.take()
        {
            let (tell, told) = bounded(1);
            let (wake, standing, budget) = (self.wake.clone(), self.standing.clone(), self.budget.clone());
            let compare = move || {
                // Nobody waits any more if the session is over.
                let _ = tell.send(compare(storer, packed, room, &wake, (&standing, &budget)));
                wake();
            };
            let thread = std::thread::Builder::new().name("compare".into());
            thread.spawn(compare).map_err(Error::Threads)?;
            self.comparing = Some(told);
        }
        Ok(ready)
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        self.standing.over.store(true, Ordering::Relaxed);
    }
}

fn compare(
    storer: Storer,
    packed: Packed,
    mut room: Room,
    wake: &Wake,
    (standing, budget): (&Standing, &Arc<Budget>),
) -> Result<(Storer, Compared), Error> {
    let base = packed.base;
    let (manifest, source_errors) = listing::decode(&packed.bytes, &mut room)?;
    drop(packed);
    let listed = room.settle();
    let (layout, manifest) = (Arc::new(Layout::new(&manifest)), Arc::new(manifest));
    let (storer, sink, before) = match storer {
        Storer::Files(mut planner) => {
            let mut plan: Plan = planner.plan(&manifest, &standing.over)?;
            plan.source_incomplete = !source_errors.is_empty();
            let before = Before::of(&plan, &manifest, &layout);
            let sink = FileSink::start(plan, manifest.clone(), layout.clone(), wake.clone())?;
            let sink: Box<dyn PartSink> = Box::new(sink.beside_others(budget));
            (Storer::Files(planner), sink, before)
        }
        Storer::Pipe(mut drain) => {
            let len = stretch_len(&manifest)?;
            let memory = await_stretch(len, standing, budget)?;
            let sink = drain.stretch(len, !manifest.seams.has_more, memory);
            (Storer::Pipe(drain), sink, Before::default())
        }
    };
    let files_there = before.files_there;
    let part = Part { manifest, layout, sink, source_errors, files_there, _listed: listed };
    Ok((storer, Compared { base, part, before }))
}

/// How long the stretch of a stream is of which this is the manifest.
pub fn stretch_len(manifest: &Manifest) -> Result<u64, Error> {
    check_stretch(manifest).ok_or(Error::Protocol("sends something else than a stretch of a stream"))
}

/// Longer than any listing of a part that is not all of a copy.
const PART_LISTING_MAX: u64 = 64 << 20;
