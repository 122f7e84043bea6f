//! The receiver's bytes: put together in memory on the network thread, stored by writers.

use super::blocks::{Bits, Blocks};
use super::errors::FileError;
use super::jobs::{Job, Load};
use super::keeper::{Pace, keep};
use super::plan::Plan;
use super::prepare::Preparation;
use super::reader::Wake;
use super::runs::Runs;
use super::shared::{Happened, Shared, Status};
use super::target::Target;
use super::threads::{Threads, WRITERS};
use crate::net::budget::{Allowance, Budget, Purpose};
use crossbeam_channel::{Receiver, Sender, unbounded};
use longhaul_proto::endpoint::{Full, Sink};
use longhaul_proto::session::manifest::{EntryIndex, GROUP_LEN, Kind, Layout, Manifest, Ranges};
use longhaul_proto::session::message::{FileFailure, GroupHash, Report};
use longhaul_proto::session::reason::Reason;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// What a [`FileSink`] tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkEvent {
    /// These object bytes were not what the sender read: they are to be sent again.
    Bad {
        /// Which.
        ranges: Ranges,
    },
    /// What came of claims.
    Settled {
        /// Object bytes that are here as the sender has them.
        confirmed: Ranges,
        /// Object bytes that are not: they are to be sent.
        refused: Ranges,
    },
    /// These object bytes are not needed any more.
    Unwanted {
        /// Which.
        ranges: Ranges,
    },
    /// A file or link is verified and in place.
    FileDone {
        /// Which.
        entry: EntryIndex,
    },
    /// An entry cannot be stored.
    FileFailed(FileFailure),
    /// A line that the user should know.
    Warning(String),
}

/// How far the writers are behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes of memory that wait to be stored.
    pub queued_bytes: u64,
    /// Bytes of memory there may be in all.
    pub limit_bytes: u64,
    /// Packets turned away since the sink began because the writers were behind.
    pub refused: u64,
}

/// The object as the receiver stores it.
///
/// Packets are copied into blocks in memory. A block that is complete goes to a writer, which stores, hashes and
/// lands what is in it. Ten times a second, and when memory runs short, incomplete blocks go there too; what follows
/// of them is put together with what was stored.
pub struct FileSink {
    shared: Arc<Shared>,
    /// Blocks of which nothing more is wanted.
    closed: Bits,
    /// Of blocks that are not closed: what is stored already or not wanted.
    elsewhere: HashMap<u64, Runs>,
    open: Vec<Open>,
    /// Index in `open` of the block written to last, and its object range.
    current: usize,
    current_range: Range<u64>,
    /// Counts packets: a clock for which block was touched last.
    clock: u64,
    jobs: Vec<Sender<Job>>,
    spare: Receiver<Box<[u8]>>,
    /// Buffers at hand; the last one came back last and is still in the processor's cache.
    at_hand: Vec<Box<[u8]>>,
    /// Buffers made, how many there may be in the best case, and how many as things are.
    made: usize,
    made_most: usize,
    made_max: usize,
    /// What they may take beside those of other copies.
    allowance: Allowance,
    refused: u64,
    happened: Receiver<Happened>,
    events: VecDeque<SinkEvent>,
    /// The keeper works until this is dropped.
    keeper: Option<Sender<()>>,
    writers: Vec<JoinHandle<()>>,
}

/// A block that is being put together.
struct Open {
    block: u64,
    data: Box<[u8]>,
    in_memory: Runs,
    /// `in_memory` and what is elsewhere; `None` while nothing is.
    covered: Option<Runs>,
    touched: u64,
}

impl FileSink {
    /// Begin to receive what a plan leaves to come. `wake` is called when there are events, when there is room again,
    /// and when time has come to call [`poll_event`](FileSink::poll_event).
    pub fn start(
        plan: Plan,
        manifest: Arc<Manifest>,
        layout: Arc<Layout>,
        wake: Wake,
    ) -> Result<FileSink, FileError> {
        FileSink::with(plan, manifest, layout, wake, (MEMORY_LEN, Pace::default()))
    }

    /// Share a budget with others. Where they have left nothing, it gets along with the buffers that it has: the sender is held
    /// up, as by a slow disk. What is to be known of data that is still to come fails where there is no memory for it.
    pub(crate) fn beside_others(mut self, budget: &Arc<Budget>) -> FileSink {
        self.allowance = Allowance::of(budget, Purpose::Speed);
        self.shared.lock_ledger().take_from(Allowance::of(budget, Purpose::Need));
        self
    }

    /// The same with at most so many bytes of memory for data (four blocks at the least), and journals kept at this pace.
    pub(super) fn with(
        plan: Plan,
        manifest: Arc<Manifest>,
        layout: Arc<Layout>,
        wake: Wake,
        (memory_len, pace): (usize, Pace),
    ) -> Result<FileSink, FileError> {
        let threads = Threads::start().map_err(FileError::step("no thread can be started"))?;
        let blocks = Blocks::new(&layout, manifest.entries.len());
        let (tell, happened) = unbounded();
        let (give_back, spare) = unbounded();
        let (jobs, queues): (Vec<_>, Vec<_>) = (0..WRITERS).map(|_| unbounded()).unzip();
        let mut closed = Bits::new(blocks.count());
        let mut not_wanted = plan.have.clone();
        not_wanted.extend(plan.claimed.iter().cloned());
        let elsewhere = elsewhere(&blocks, &not_wanted, &mut closed);
        let (place, obstacle) = match plan.occupy() {
            Ok(place) => (place, None),
            Err(error) => (None, Some(Reason::from(error))),
        };
        let nothing_to_do = place.is_none() && obstacle.is_none();
        let tokens = plan.resumed.iter().map(|resumed| (resumed.entry, resumed.header.part())).collect();
        let target = Target::new(manifest, layout, place.unwrap_or_default(), tokens);
        let talk = (tell, wake, jobs[0].clone());
        let report = plan.first_report();
        let removal = (plan.extraneous, plan.source_incomplete, plan.follows);
        let aim = (plan.bytes_to_come, plan.dry_run, plan.fsync);
        let shared = Arc::new(Shared::new(target, blocks, report, aim, removal, talk));
        shared.lock_ledger().set_unproved(plan.unproved);
        for entry in plan.skipped.iter().chain(&plan.failed).chain(&plan.kept) {
            shared.settle_beforehand(*entry);
        }
        for entry in 0..shared.target.manifest.entries.len() as EntryIndex {
            if let Some(reason) = &obstacle {
                shared.fail(entry, reason.clone());
            } else if nothing_to_do {
                shared.settle_beforehand(entry);
            }
        }
        if plan.dry_run {
            shared.settle_but(&plan.standing);
        }
        let mut preparation = Preparation { to_fix: plan.to_fix, complete: Vec::new() };
        for assembled in plan.assembled.into_iter().filter(|_| !plan.dry_run) {
            if shared.step(assembled.entry, &[Status::Waiting], Status::Started) {
                preparation.complete.push(assembled.entry);
                shared.target.hold_pieces(assembled);
            }
        }
        for standing in plan.standing {
            shared.claim_in_place(standing, &plan.claimed, &plan.resumed);
        }
        for resumed in plan.resumed.into_iter().filter(|_| !plan.dry_run) {
            let entry = resumed.entry;
            if shared.take_up(resumed) {
                preparation.complete.push(entry);
            }
        }
        let (stop, stopped) = unbounded();
        let kept = shared.clone();
        let writers =
            threads.begin(&shared, queues, &give_back, preparation, move || keep(&kept, pace, &stopped));
        Ok(FileSink {
            shared,
            closed,
            elsewhere,
            open: Vec::new(),
            current: 0,
            current_range: 0..0,
            clock: 0,
            jobs,
            spare,
            at_hand: Vec::new(),
            made: 0,
            made_most: (memory_len / GROUP_LEN as usize).max(MADE_LEAST),
            made_max: (memory_len / GROUP_LEN as usize).max(MADE_LEAST),
            allowance: Allowance::default(),
            refused: 0,
            happened,
            events: VecDeque::new(),
            keeper: Some(stop),
            writers,
        })
    }

    /// All parts before this one have come to their end, well or not: now this one may. Not for the first part.
    pub fn go_ahead(&self, all_well: bool) {
        if !all_well {
            self.shared.is_incomplete.store(true, Ordering::Release);
        }
        self.shared.count_down();
    }

    /// The sender's hash of a group.
    pub fn expect(&mut self, hash: GroupHash) {
        let layout = &self.shared.target.layout;
        let group = hash.group;
        let exists = (group.entry as usize) < self.shared.target.manifest.entries.len()
            && group.index < layout.group_count(group.entry);
        if exists && self.shared.is_open(group.entry) {
            let block = self.shared.blocks.at(layout.group_range(group).start);
            self.send(block, Job::Expect(hash));
        }
    }

    /// The sender cannot read a file to its end. A file that is in place already stays.
    pub fn source_failed(&mut self, entry: EntryIndex, reason: &Reason) {
        if (entry as usize) < self.shared.target.manifest.entries.len() {
            self.shared.fail(entry, Reason::new(reason.cause, format_args!("at the source: {reason}")));
        }
    }

    /// The next thing to know. To be called whenever `wake` was.
    pub fn poll_event(&mut self) -> Option<SinkEvent> {
        if self.shared.flush_due.load(Ordering::Relaxed) {
            self.flush();
        }
        if self.events.is_empty() {
            self.gather_events();
        }
        self.events.pop_front()
    }

    /// The transfer has delivered all packets: store what is still in memory.
    pub fn object_complete(&mut self) {
        while !self.open.is_empty() {
            self.hand_over(0);
        }
    }

    /// Whether all that could be done is done: every file in place or failed.
    pub fn finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// What has been done so far.
    pub fn report(&self) -> Report {
        self.shared.report().clone()
    }

    /// Whether so much waits to be done that nothing more should be said of it for now.
    pub fn is_behind(&self) -> bool {
        let to_compare = self.shared.to_compare.load(Ordering::Relaxed);
        to_compare > JOBS_MUCH || self.jobs.iter().any(|jobs| jobs.len() > JOBS_MUCH)
    }

    /// How far the writers are behind.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            queued_bytes: self.queued() as u64 * GROUP_LEN,
            limit_bytes: self.made_max as u64 * GROUP_LEN,
            refused: self.refused,
        }
    }

    /// How full memory is with what waits to be stored: 0 (empty) to 255 (packets are turned away).
    pub fn pressure(&self) -> u8 {
        (self.queued() * 255 / self.made_max) as u8
    }

    /// Stop, and leave all that has arrived so that the same copy can go on from it. Dropping does the same.
    pub fn suspend(mut self) -> Report {
        self.close();
        self.report()
    }

    /// The same; what there is to know of it can still be polled.
    pub(crate) fn close(&mut self) {
        self.object_complete();
        for jobs in &self.jobs {
            // A writer that is gone has nothing to stop.
            let _ = jobs.send(Job::Stop);
        }
        for writer in self.writers.drain(..) {
            let _ = writer.join();
        }
        let Some(stop) = self.keeper.take() else { return };
        for entry in self.shared.target.parts.spoiled() {
            self.shared.logs.give_up(&self.shared.target, entry);
        }
        // Nobody waits for the keeper, which may be waiting for the disk: it has nothing more to say.
        drop(stop);
        self.shared.logs.close_all();
    }

    /// Take in what the writers have to say.
    fn gather_events(&mut self) {
        let (mut unwanted, mut confirmed, mut refused) = (Ranges::new(), Ranges::new(), Ranges::new());
        let mut no_room = None;
        while let Ok(happened) = self.happened.try_recv() {
            match happened {
                Happened::Done(entry) => self.events.push_back(SinkEvent::FileDone { entry }),
                Happened::Failed(failure, entry) => {
                    let range = self.shared.target.layout.entry_range(entry);
                    if !range.is_empty() {
                        self.mark_unwanted(&range);
                        unwanted.insert(range);
                    }
                    self.events.push_back(SinkEvent::FileFailed(failure));
                }
                Happened::Bad(group) => {
                    let range = self.shared.target.layout.group_range(group);
                    self.mark_wanted(&range);
                    self.send(self.shared.blocks.at(range.start), Job::BeginAnew(group));
                    self.events.push_back(SinkEvent::Bad { ranges: [range].into_iter().collect() });
                }
                Happened::Confirmed(group) => confirmed.insert(self.shared.target.layout.group_range(group)),
                Happened::Refused(group) => {
                    let range = self.shared.target.layout.group_range(group);
                    self.mark_wanted(&range);
                    self.send(self.shared.blocks.at(range.start), Job::BeginAnew(group));
                    refused.insert(range);
                }
                Happened::Warning(line) => self.events.push_back(SinkEvent::Warning(line)),
                Happened::NoRoom(reason) => no_room = Some(reason),
            }
            if let Some(reason) = no_room.take() {
                self.give_up(&reason);
            }
        }
        // Before what is sent again: a group may be confirmed and then turn out to have changed.
        if !confirmed.is_empty() || !refused.is_empty() {
            self.events.push_front(SinkEvent::Settled { confirmed, refused });
        }
        if !unwanted.is_empty() {
            self.events.push_back(SinkEvent::Unwanted { ranges: unwanted });
        }
    }

    /// Nothing can be stored any more: every file that still needs room fails.
    fn give_up(&mut self, reason: &Reason) {
        for (index, entry) in self.shared.target.manifest.entries.iter().enumerate() {
            if entry.kind != Kind::Dir {
                self.shared.fail(index as EntryIndex, reason.clone());
            }
        }
    }

    /// These bytes need not come.
    fn mark_unwanted(&mut self, range: &Range<u64>) {
        for block in self.shared.blocks.touching(range) {
            if self.closed.get(block) {
                continue;
            }
            let (local, whole) = self.local(block, range);
            if let Some(at) = self.open.iter().position(|open| open.block == block) {
                let open = &mut self.open[at];
                let covered = open.covered.get_or_insert_with(|| open.in_memory.clone());
                covered.insert(local);
                if covered.covers(&whole) {
                    self.hand_over(at);
                }
                continue;
            }
            let covered = self.elsewhere.entry(block).or_default();
            covered.insert(local);
            if covered.covers(&whole) {
                self.elsewhere.remove(&block);
                self.closed.set(block, true);
            }
        }
    }

    /// These bytes, a group, have to come again.
    fn mark_wanted(&mut self, range: &Range<u64>) {
        let block = self.shared.blocks.at(range.start);
        let (local, whole) = self.local(block, range);
        if self.closed.get(block) {
            self.closed.set(block, false);
            let mut covered = Runs::default();
            covered.insert(whole);
            covered.remove(local);
            self.elsewhere.insert(block, covered);
            return;
        }
        if let Some(open) = self.open.iter_mut().find(|open| open.block == block) {
            open.in_memory.remove(local.clone());
            if let Some(covered) = &mut open.covered {
                covered.remove(local.clone());
            }
        }
        if let Some(covered) = self.elsewhere.get_mut(&block) {
            covered.remove(local);
        }
    }

    /// The part of a range that lies in a block, and the whole block, both relative to the block.
    fn local(&self, block: u64, range: &Range<u64>) -> (Range<u32>, Range<u32>) {
        let whole = self.shared.blocks.range(block);
        let start = range.start.max(whole.start) - whole.start;
        let end = range.end.min(whole.end) - whole.start;
        (start as u32..end as u32, 0..(whole.end - whole.start) as u32)
    }

    /// Hand over what has come in since the last time, unless the writers have enough to do.
    fn flush(&mut self) {
        self.shared.flush_due.store(false, Ordering::Relaxed);
        if self.queued() * 2 <= self.made_max {
            self.object_complete();
        }
    }

    /// Buffers that the writers hold.
    fn queued(&self) -> usize {
        self.made - self.open.len() - self.spare.len() - self.at_hand.len()
    }

    /// Make sure that a block is open; `false` if there is no memory for it.
    fn ensure_open(&mut self, block: u64) -> bool {
        if let Some(open) = self.open.iter_mut().find(|open| open.block == block) {
            open.touched = self.clock;
            return true;
        }
        self.at_hand.extend(self.spare.try_iter());
        let data = match self.at_hand.pop() {
            Some(data) => data,
            None if self.made < self.made_most && self.may_make() => {
                self.made += 1;
                self.made_max = self.made_max.max(self.made);
                vec![0; GROUP_LEN as usize].into()
            }
            None => {
                if self.queued() * 4 < self.made_max {
                    self.hand_over_oldest();
                }
                return false;
            }
        };
        let covered = self.elsewhere.get(&block).cloned();
        self.open.push(Open { block, data, in_memory: Runs::default(), covered, touched: self.clock });
        self.shared.has_open.store(true, Ordering::Relaxed);
        if self.open.len() * 4 > self.made_max * 3 {
            self.hand_over_oldest();
        }
        true
    }

    /// Whether there is memory for another buffer. Those that none can do without are not asked for.
    fn may_make(&mut self) -> bool {
        let may = self.made < MADE_LEAST || self.allowance.take(GROUP_LEN);
        if !may {
            self.made_max = self.made;
        }
        may
    }

    /// Make room: the block that was not touched for longest goes to its writer as it is.
    fn hand_over_oldest(&mut self) {
        let others = self.open.iter().enumerate().filter(|(_, open)| open.touched < self.clock);
        if let Some((at, _)) = others.min_by_key(|(_, open)| open.touched) {
            self.hand_over(at);
        }
    }

    fn hand_over(&mut self, at: usize) {
        let Open { block, data, in_memory, covered, .. } = self.open.swap_remove(at);
        self.current_range = 0..0;
        if self.open.is_empty() {
            self.shared.has_open.store(false, Ordering::Relaxed);
        }
        let covered = covered.unwrap_or_else(|| in_memory.clone());
        let range = self.shared.blocks.range(block);
        if covered.covers(&(0..(range.end - range.start) as u32)) {
            self.closed.set(block, true);
            self.elsewhere.remove(&block);
        } else {
            self.elsewhere.insert(block, covered.clone());
        }
        self.send(block, Job::Block(Load { block, data, in_memory, covered }));
    }

    fn send(&self, block: u64, job: Job) {
        // A writer that is gone has panicked and said so; the transfer ends by its time limit.
        let _ = self.jobs[(block % WRITERS as u64) as usize].send(job);
    }

    /// Copy `data`, which lies in one block that is open or closed.
    fn put(&mut self, block: u64, from: usize, data: &[u8]) {
        let Some(at) = self.open.iter().position(|open| open.block == block) else { return };
        self.current = at;
        self.current_range = self.shared.blocks.range(block);
        self.put_current(from, data);
    }

    fn put_current(&mut self, from: usize, data: &[u8]) {
        let open = &mut self.open[self.current];
        open.touched = self.clock;
        open.data[from..from + data.len()].copy_from_slice(data);
        let run = from as u32..(from + data.len()) as u32;
        open.in_memory.insert(run.clone());
        let covered = match &mut open.covered {
            Some(covered) => {
                covered.insert(run);
                covered
            }
            None => &open.in_memory,
        };
        if covered.covers(&(0..(self.current_range.end - self.current_range.start) as u32)) {
            self.hand_over(self.current);
        }
    }
}

impl Sink for FileSink {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        if self.shared.flush_due.load(Ordering::Relaxed) {
            self.flush();
        }
        self.clock += 1;
        let end = offset.saturating_add(data.len() as u64);
        if self.current_range.start <= offset && end <= self.current_range.end {
            self.put_current((offset - self.current_range.start) as usize, data);
            return Ok(());
        }
        let end = end.min(self.shared.target.layout.object_len());
        if offset >= end {
            return Ok(());
        }
        // Room for all of it before any of it is taken.
        let blocks = self.shared.blocks.touching(&(offset..end));
        for block in blocks.clone() {
            if !self.closed.get(block) && !self.ensure_open(block) {
                self.refused += 1;
                return Err(Full);
            }
        }
        for block in blocks {
            let range = self.shared.blocks.range(block);
            let (start, end) = (range.start.max(offset), range.end.min(end));
            let piece = &data[(start - offset) as usize..(end - offset) as usize];
            self.put(block, (start - range.start) as usize, piece);
        }
        Ok(())
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        self.close();
    }
}

/// What is there or not wanted, by block; blocks of which nothing is wanted are closed.
fn elsewhere(blocks: &Blocks, have: &Ranges, closed: &mut Bits) -> HashMap<u64, Runs> {
    let mut elsewhere: HashMap<u64, Runs> = HashMap::new();
    for range in have.iter() {
        for block in blocks.touching(range) {
            let whole = blocks.range(block);
            if range.start <= whole.start && whole.end <= range.end {
                closed.set(block, true);
                continue;
            }
            let local = range.start.max(whole.start) - whole.start..range.end.min(whole.end) - whole.start;
            elsewhere.entry(block).or_default().insert(local.start as u32..local.end as u32);
        }
    }
    elsewhere
}

/// Memory for blocks that are put together or wait to be stored.
const MEMORY_LEN: usize = 64 << 20;
/// Buffers that a copy has in any case: fewer would wait for each other.
const MADE_LEAST: usize = 4;

/// Hashes that wait for a writer take some 50 bytes each.
const JOBS_MUCH: usize = 1 << 16;
