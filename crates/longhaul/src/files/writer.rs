//! The threads that store, verify and land what the network thread has put together.

use super::complete::Complete;
use super::errors::FileError;
use super::jobs::{Job, Load};
use super::journal::Record;
use super::ledger::{Ledger, Verdict};
use super::part::Part;
use super::shared::{Happened, Shared, Status};
use super::version::birth;
use crossbeam_channel::{Receiver, Sender};
use longhaul_proto::session::manifest::{EntryIndex, Group, Layout};
use longhaul_proto::session::message::GroupHash;
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

/// One writer.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    jobs: Receiver<Job>,
    /// Where buffers go when they are done with.
    spare: Sender<Box<[u8]>>,
    /// Files that are to reach the disk before they get their names.
    pub(super) complete: RefCell<Vec<Complete>>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, jobs: Receiver<Job>, spare: Sender<Box<[u8]>>) -> Writer {
        Writer { shared, jobs, spare, complete: RefCell::default() }
    }

    /// Work until told to stop. `prepare` makes folders, links and all that needs no data; the others wait for it.
    pub(super) fn run(self, prepared: &Barrier, prepare: Option<super::prepare::Preparation>) {
        if let Some(preparation) = prepare {
            preparation.run(&self.shared, |entry| self.land(entry));
        }
        prepared.wait();
        // Claims wait while there is data to store: it comes again and again where it finds no room.
        let mut claims = VecDeque::new();
        loop {
            let is_idle = claims.is_empty() && self.complete.borrow().is_empty();
            let job = if is_idle { self.jobs.recv().ok() } else { self.jobs.try_recv().ok() };
            match job {
                Some(Job::Block(load)) => self.block(load),
                Some(Job::Expect(expected)) => {
                    if let Some(claim) = self.expect(expected) {
                        claims.push_back(claim);
                        self.shared.to_compare.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Some(Job::BeginAnew(group)) => self.shared.lock_ledger().begin_anew(group),
                Some(Job::Finish) => super::prepare::finish(&self.shared),
                Some(Job::Stop) => return self.settle(),
                None if is_idle => return,
                None if !self.complete.borrow().is_empty() => self.settle(),
                None => {
                    if let Some(claim) = claims.pop_front() {
                        self.look(claim);
                        self.shared.to_compare.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    fn block(&self, mut load: Load) {
        let shared = &self.shared;
        let range = shared.blocks.range(load.block);
        for group in shared.target.layout.groups_in(range.clone()) {
            if shared.no_room.load(Ordering::Relaxed) {
                break;
            }
            if !shared.is_open(group.entry) || !shared.lock_ledger().takes_data(group) {
                continue;
            }
            let place = shared.target.layout.group_range(group);
            let local = (place.start - range.start) as u32..(place.end - range.start) as u32;
            let at = |offset: u32| range.start + u64::from(offset);
            shared.supersede(load.in_memory.within(local.clone()).map(|run| at(run.start)..at(run.end)));
            let stored = if load.covered.covers(&local) {
                self.complete(group, local, &mut load)
            } else {
                self.store_runs(group, &local, &load)
            };
            if let Err(error) = stored {
                shared.fail_storing(group.entry, error);
            }
        }
        self.release_spool(load.block);
        // The sink may be gone already.
        let _ = self.spare.send(load.data);
    }

    /// All of a group has come in: store, hash and judge it.
    fn complete(&self, group: Group, local: Range<u32>, load: &mut Load) -> io::Result<()> {
        let shared = &self.shared;
        let data_range = self.data_range(group);
        let count = shared.target.layout.group_count(group.entry);
        let piece = local.start as usize..local.end as usize;
        let in_memory = load.in_memory.covers(&local);
        if !in_memory {
            if count > 1 {
                self.store_runs(group, &local, load)?;
            }
            self.fetch_gaps(group, &local, load)?;
        }
        let data = &load.data[piece];
        let hash = shared.target.group_hash(group, data);
        let known = shared.lock_ledger().preview(group, hash);
        if known == Some(false) {
            self.bad(group);
            return Ok(());
        }
        if count == 1 {
            if known == Some(true) {
                return self.land_small(group.entry, data);
            }
            shared.spool.write(load.block, local.start, data, || shared.target.scratch())?;
        } else {
            let part = self.part(group.entry)?;
            if in_memory {
                part.write(data_range.start, data)?;
            }
            self.begin_sync(group.entry, &part, data_range.clone())?;
        }
        self.count_written(u64::from(local.end - local.start));
        // Whatever comes of it, these bytes are stored.
        shared.logs.note(group.entry, Record::Range(data_range));
        let verdict = self.enter(group, hash, Ledger::computed);
        self.judge(group, verdict);
        Ok(())
    }

    /// Store what there is of a group, for later: in its part file, or in the spool where it is a whole small file.
    fn store_runs(&self, group: Group, local: &Range<u32>, load: &Load) -> io::Result<()> {
        let shared = &self.shared;
        if load.in_memory.within(local.clone()).next().is_none() {
            return Ok(());
        }
        if shared.target.layout.group_count(group.entry) == 1 {
            for run in load.in_memory.within(local.clone()) {
                let data = &load.data[run.start as usize..run.end as usize];
                shared.spool.write(load.block, run.start, data, || shared.target.scratch())?;
            }
            return Ok(());
        }
        let part = self.part(group.entry)?;
        let data_start = self.data_range(group).start;
        for run in load.in_memory.within(local.clone()) {
            let offset = data_start + u64::from(run.start - local.start);
            part.write(offset, &load.data[run.start as usize..run.end as usize])?;
            let stored = offset..offset + u64::from(run.end - run.start);
            shared.logs.note(group.entry, Record::Range(stored));
        }
        Ok(())
    }

    /// Read what of a group was stored before.
    fn fetch_gaps(&self, group: Group, local: &Range<u32>, load: &mut Load) -> io::Result<()> {
        let shared = &self.shared;
        let is_small = shared.target.layout.group_count(group.entry) == 1;
        let part = if is_small { None } else { Some(self.part(group.entry)?) };
        for gap in load.in_memory.gaps(local.clone()) {
            let buf = &mut load.data[gap.start as usize..gap.end as usize];
            match &part {
                Some(part) => {
                    part.read(self.data_range(group).start + u64::from(gap.start - local.start), buf)?
                }
                None => shared.spool.read(load.block, gap.start, buf)?,
            }
        }
        Ok(())
    }

    /// Nothing is kept of a block whose small files are all settled.
    pub(super) fn release_spool(&self, block: u64) {
        let shared = &self.shared;
        if shared.spool.holds(block)
            && shared
                .target
                .layout
                .groups_in(shared.blocks.range(block))
                .all(|group| !shared.is_open(group.entry))
        {
            shared.spool.release(block);
        }
    }

    /// Take in the sender's hash; a claim that is to be looked at is returned.
    fn expect(&self, expected: GroupHash) -> Option<GroupHash> {
        let GroupHash { group, hash } = expected;
        if !self.shared.is_open(group.entry) {
            return None;
        }
        let verdict = self.enter(group, hash, Ledger::expect);
        if verdict == Verdict::Look {
            return Some(expected);
        }
        if self.shared.claims.take_noted(group) {
            self.settle_noted(expected, verdict);
        } else {
            self.judge(group, verdict);
        }
        None
    }

    pub(super) fn judge(&self, group: Group, verdict: Verdict) {
        match verdict {
            Verdict::Waiting | Verdict::Look | Verdict::Verified { file_complete: false } => {}
            Verdict::Bad => self.bad(group),
            Verdict::NoMemory => drop(self.shared.fail(group.entry, FileError::NoMemory.into())),
            Verdict::Verified { file_complete: true } => self.land(group.entry),
        }
    }

    /// Enter into the ledger what has come in of a group. That it is verified is noted before another writer can find its file
    /// complete, and with it the journal.
    pub(super) fn enter(
        &self,
        group: Group,
        hash: [u8; 32],
        how: impl FnOnce(&mut Ledger, &Layout, Group, [u8; 32]) -> Verdict,
    ) -> Verdict {
        let shared = &self.shared;
        let mut ledger = shared.lock_ledger();
        let verdict = how(&mut ledger, &shared.target.layout, group, hash);
        if matches!(verdict, Verdict::Verified { .. }) {
            shared.logs.note(group.entry, Record::Group { index: group.index, hash });
        }
        verdict
    }

    pub(super) fn bad(&self, group: Group) {
        let shared = &self.shared;
        shared.logs.note(group.entry, Record::Lost { index: group.index });
        if shared.lock_ledger().reject(group) >= BAD_MAX {
            shared.fail(group.entry, FileError::Unverifiable.into());
            return;
        }
        shared.tell(Happened::Bad(group));
    }

    /// The part file of a file, begun if there is none: its journal first.
    pub(super) fn part(&self, entry: EntryIndex) -> io::Result<Arc<Part>> {
        let (shared, target) = (&self.shared, &self.shared.target);
        target.parts.ask_closed(entry).inspect_err(|_| shared.logs.give_up(target, entry))?;
        target.part(entry, || {
            if !shared.step(entry, &[Status::Waiting], Status::Started) {
                return target.reopen_part(entry);
            }
            // The journal of a piece says in which file it is, which may have been made for another piece; the others' names theirs.
            let pieces = if target.is_piece(entry) { Some(target.create_part(entry)?) } else { None };
            let named = pieces.as_ref().map_or_else(|| target.token(entry), birth);
            if let Err(error) = shared.logs.begin(target, entry, named) {
                // Without a journal there is no part file either. The file fails before another writer can begin it: that one would
                // be in the way of the copy that has the journal.
                shared.step(entry, &[Status::Started], Status::Waiting);
                shared.fail_storing(entry, error);
                // The file has failed: what the caller makes of this changes nothing.
                return Err(Errno::CANCELED.into());
            }
            pieces.map_or_else(|| target.create_part(entry), Ok)
        })
    }

    pub(super) fn data_range(&self, group: Group) -> Range<u64> {
        let layout = &self.shared.target.layout;
        let (place, start) = (layout.group_range(group), layout.entry_range(group.entry).start);
        place.start - start..place.end - start
    }

    pub(super) fn count_written(&self, bytes: u64) {
        self.shared.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A piece that came in wrong so often is not going to come in right.
pub(super) const BAD_MAX: u32 = 5;
