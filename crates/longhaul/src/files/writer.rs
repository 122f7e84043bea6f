//! The threads that store, verify and land what the network thread has put together.

use super::hash::group_hash;
use super::journal::Record;
use super::ledger::Verdict;
use super::runs::Runs;
use super::shared::{Happened, Shared, Status};
use super::target::Part;
use crossbeam_channel::{Receiver, Sender};
use longhaul_proto::session::manifest::{EntryIndex, Group, Kind};
use longhaul_proto::session::message::GroupHash;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

/// Something for a writer to do.
pub(super) enum Job {
    /// Store what is in memory of a block; verify the groups that are complete.
    Block(Load),
    /// The sender's hash of a group of this writer's blocks.
    Expect(GroupHash),
    /// What is handed over of this group from now on came in after it was found to be wrong.
    BeginAnew(Group),
    /// All entries are settled: do what comes last.
    Finish,
    /// Do no more.
    Stop,
}

/// A block, or what there is of it.
pub(super) struct Load {
    pub block: u64,
    pub data: Box<[u8]>,
    /// What of `data` has come in, relative to the block.
    pub in_memory: Runs,
    /// That, and what has been stored before or is not wanted.
    pub covered: Runs,
}

/// One writer.
pub(super) struct Writer {
    shared: Arc<Shared>,
    jobs: Receiver<Job>,
    /// Where buffers go when they are done with.
    spare: Sender<Box<[u8]>>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, jobs: Receiver<Job>, spare: Sender<Box<[u8]>>) -> Writer {
        Writer { shared, jobs, spare }
    }

    /// Work until told to stop. `prepare` makes folders, links and all that needs no data; the others wait for it.
    pub(super) fn run(self, prepared: &Barrier, prepare: Option<super::prepare::Preparation>) {
        if let Some(preparation) = prepare {
            preparation.run(&self.shared, |entry| self.land(entry));
        }
        prepared.wait();
        for job in &self.jobs {
            match job {
                Job::Block(load) => self.block(load),
                Job::Expect(expected) => self.expect(expected),
                Job::BeginAnew(group) => self.shared.lock_ledger().begin_anew(group),
                Job::Finish => super::prepare::finish(&self.shared),
                Job::Stop => return,
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
            let stored = if load.covered.covers(&local) {
                self.complete(group, local, &mut load)
            } else {
                self.partial(group, local, &load)
            };
            if let Err(error) = stored {
                shared.fail_storing(group.entry, error);
            }
        }
        // The sink may be gone already.
        let _ = self.spare.send(load.data);
    }

    /// All of a group has come in: store, hash and judge it.
    fn complete(&self, group: Group, local: Range<u32>, load: &mut Load) -> io::Result<()> {
        let shared = &self.shared;
        let data_range = self.data_range(group);
        let count = shared.target.layout.group_count(group.entry);
        let piece = local.start as usize..local.end as usize;
        let hash = if load.in_memory.covers(&local) {
            let data = &load.data[piece];
            let hash = group_hash(group.index, count, data);
            let known = shared.lock_ledger().preview(group, hash);
            if known == Some(false) {
                self.bad(group);
                return Ok(());
            }
            if known == Some(true) && count == 1 && shared.status(group.entry) == Status::Waiting {
                return self.land_at_once(group.entry, data);
            }
            let part = self.part(group.entry)?;
            part.write(data_range.start, data)?;
            hash
        } else {
            let part = self.part(group.entry)?;
            self.store_runs(&part, group, &local, load)?;
            for gap in load.in_memory.gaps(local.clone()) {
                let offset = data_range.start + u64::from(gap.start - local.start);
                part.read(offset, &mut load.data[gap.start as usize..gap.end as usize])?;
            }
            group_hash(group.index, count, &load.data[piece])
        };
        self.count_written(u64::from(local.end - local.start));
        // Whatever comes of it, these bytes are stored.
        shared.logs.note(group.entry, Record::Range(data_range));
        let verdict = shared.lock_ledger().computed(&shared.target.layout, group, hash);
        self.judge(group, hash, verdict);
        Ok(())
    }

    /// Store what there is of a group, for later.
    fn partial(&self, group: Group, local: Range<u32>, load: &Load) -> io::Result<()> {
        if load.in_memory.within(local.clone()).next().is_none() {
            return Ok(());
        }
        let part = self.part(group.entry)?;
        self.store_runs(&part, group, &local, load)
    }

    fn store_runs(&self, part: &Part, group: Group, local: &Range<u32>, load: &Load) -> io::Result<()> {
        let data_start = self.data_range(group).start;
        for run in load.in_memory.within(local.clone()) {
            let offset = data_start + u64::from(run.start - local.start);
            part.write(offset, &load.data[run.start as usize..run.end as usize])?;
            let stored = offset..offset + u64::from(run.end - run.start);
            self.shared.logs.note(group.entry, Record::Range(stored));
        }
        Ok(())
    }

    fn expect(&self, expected: GroupHash) {
        let GroupHash { group, hash } = expected;
        if self.shared.is_open(group.entry) {
            let verdict = self.shared.lock_ledger().expect(&self.shared.target.layout, group, hash);
            self.judge(group, hash, verdict);
        }
    }

    fn judge(&self, group: Group, hash: [u8; 32], verdict: Verdict) {
        match verdict {
            Verdict::Waiting => {}
            Verdict::Bad => self.bad(group),
            Verdict::Verified { file_complete } => {
                self.shared.logs.note(group.entry, Record::Group { index: group.index, hash });
                if file_complete {
                    self.land(group.entry);
                }
            }
        }
    }

    fn bad(&self, group: Group) {
        let shared = &self.shared;
        shared.logs.note(group.entry, Record::Lost { index: group.index });
        if shared.lock_ledger().reject(group) >= BAD_MAX {
            shared.fail(group.entry, UNVERIFIABLE.into());
            return;
        }
        shared.tell(Happened::Bad(group));
    }

    /// Store a small file that is all there and verified, in one go.
    fn land_at_once(&self, entry: EntryIndex, data: &[u8]) -> io::Result<()> {
        let target = &self.shared.target;
        if !self.shared.step(entry, &[Status::Waiting], Status::Landing) {
            return Ok(());
        }
        if self.contents_differ(entry, blake3::hash(data).as_bytes()) {
            self.shared.fail_landing(entry, CHANGED.into());
            return Ok(());
        }
        let file = target.create_part(entry)?;
        super::extents::DataMap::new(&target.entry(entry).kind).write(&file, 0, data)?;
        target.land(entry, &file)?;
        self.count_written(data.len() as u64);
        self.shared.done(entry);
        Ok(())
    }

    /// All groups of a file are stored and verified: put it in place.
    fn land(&self, entry: EntryIndex) {
        let shared = &self.shared;
        if !shared.step(entry, &[Status::Started], Status::Landing) {
            return;
        }
        let hash = shared.lock_ledger().file_hash(entry);
        if self.contents_differ(entry, &hash) {
            // Going on from these bytes would end the same way.
            shared.logs.close(entry);
            let _ = shared.target.remove_journal(entry).and_then(|()| shared.target.remove_part(entry));
            return shared.fail_landing(entry, CHANGED.into());
        }
        let part = shared.target.part(entry, || shared.target.reopen_part(entry));
        let landed = part.and_then(|part| shared.target.land(entry, &part.file));
        if let Err(error) = landed {
            return shared.fail_storing(entry, error);
        }
        shared.logs.close(entry);
        shared.target.close_part(entry);
        if shared.target.is_journalled(entry) {
            // A journal left without its part file is never believed.
            let _ = shared.target.remove_journal(entry);
        }
        shared.done(entry);
    }

    /// Whether a file that came in whole is not the one that was listed with its hash.
    fn contents_differ(&self, entry: EntryIndex, hash: &[u8; 32]) -> bool {
        matches!(&self.shared.target.entry(entry).kind, Kind::File { hash: Some(listed), .. } if listed != hash)
    }

    /// The part file of a file, begun if there is none.
    fn part(&self, entry: EntryIndex) -> io::Result<Arc<Part>> {
        let (shared, target) = (&self.shared, &self.shared.target);
        target.part(entry, || {
            if !shared.step(entry, &[Status::Waiting], Status::Started) {
                return target.reopen_part(entry);
            }
            let file = target.create_part(entry)?;
            if target.is_journalled(entry) {
                shared.logs.begin(target, entry);
            }
            Ok(file)
        })
    }

    fn data_range(&self, group: Group) -> Range<u64> {
        let layout = &self.shared.target.layout;
        let (place, start) = (layout.group_range(group), layout.entry_range(group.entry).start);
        place.start - start..place.end - start
    }

    fn count_written(&self, bytes: u64) {
        self.shared.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A piece that came in wrong so often is not going to come in right.
const BAD_MAX: u32 = 5;

const UNVERIFIABLE: &str = "cannot be verified; is it being written to while it is copied? copy it again";

const CHANGED: &str = "its content changed after it was listed; copy it again";
