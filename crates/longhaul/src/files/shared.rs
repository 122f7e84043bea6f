//! What the network thread, the writers and the keeper of a receiver share.

use super::blocks::Blocks;
use super::claims::{Claims, Standing};
use super::errors::{FileError, is_no_room};
use super::extraneous::Extraneous;
use super::jobs::Job;
use super::ledger::Ledger;
use super::log::Logs;
use super::reader::Wake;
use super::resume::Resumed;
use super::spool::Spool;
use super::target::Target;
use crossbeam_channel::Sender;
use longhaul_proto::session::manifest::{EntryIndex, Group, Ranges};
use longhaul_proto::session::message::{FileFailure, Fsync, Report};
use longhaul_proto::session::reason::Reason;
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What happened, for the network thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// A group's data is not what the sender read.
    Bad(Group),
    /// A claimed group is what the sender has.
    Confirmed(Group),
    /// A claimed group is not.
    Refused(Group),
    /// A file or link is in place.
    Done(EntryIndex),
    /// A file cannot be stored.
    Failed(FileFailure, EntryIndex),
    /// Nothing can be stored any more, and why.
    NoRoom(Reason),
    /// Something that is no failure and should be known.
    Warning(String),
}

/// Where data is taken from that does not come from the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// What an interrupted run left.
    Part,
    /// The file that is to be replaced.
    InPlace,
}

/// How far an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    /// Nothing has been stored.
    Waiting = 0,
    /// There is a part file.
    Started = 1,
    /// All is there; it is being put in place.
    Landing = 2,
    /// In place, or failed, or never wanted.
    Settled = 3,
}

/// State shared by the threads of a receiver.
pub(super) struct Shared {
    pub target: Target,
    pub blocks: Blocks,
    pub ledger: Mutex<Ledger>,
    pub logs: Logs,
    pub claims: Claims,
    pub spool: Spool,
    /// Nothing is changed: contents are compared, and what would be copied is told.
    pub dry_run: bool,
    /// What is to be on the disk before it is put in place, and when the copy is finished.
    pub fsync: Fsync,
    statuses: Vec<AtomicU8>,
    /// What is not settled and does not come last, one for the preparations, and one for the parts before this one if there are any.
    unsettled: AtomicUsize,
    report: Mutex<Report>,
    happened: Sender<Happened>,
    wake: Wake,
    /// The first writer, which does what comes last.
    finisher: Sender<Job>,
    /// Stored bytes that were still to come when the copy began.
    pub written_bytes: AtomicU64,
    bytes_to_come: u64,
    /// What to remove at the end.
    pub extraneous: Extraneous,
    pub no_room: AtomicBool,
    /// The open blocks are to be handed over.
    pub flush_due: AtomicBool,
    /// Hashes for which writers have still to read what is here.
    pub to_compare: AtomicUsize,
    /// The network thread holds data that no writer has seen.
    pub has_open: AtomicBool,
    /// The other side could not list all it was asked for, or something of a part before this one failed: nothing is removed
    /// here.
    pub is_incomplete: AtomicBool,
    /// All that could be done is done.
    pub finished: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        target: Target,
        blocks: Blocks,
        report: Report,
        (bytes_to_come, dry_run, fsync): (u64, bool, Fsync),
        (extraneous, source_incomplete, follows): (Extraneous, bool, bool),
        (happened, wake, finisher): (Sender<Happened>, Wake, Sender<Job>),
    ) -> Shared {
        let statuses = target.manifest.entries.iter().map(|_| AtomicU8::new(Status::Waiting as u8)).collect();
        let counted = target.manifest.entries.iter().filter(|entry| !entry.kind.comes_last()).count();
        Shared {
            target,
            blocks,
            ledger: Mutex::default(),
            logs: Logs::default(),
            claims: Claims::default(),
            spool: Spool::default(),
            dry_run,
            fsync,
            statuses,
            unsettled: AtomicUsize::new(counted + 1 + usize::from(follows)),
            report: Mutex::new(report),
            happened,
            wake,
            finisher,
            written_bytes: AtomicU64::new(0),
            bytes_to_come,
            extraneous,
            no_room: AtomicBool::new(false),
            flush_due: AtomicBool::new(false),
            to_compare: AtomicUsize::new(0),
            has_open: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(source_incomplete),
            finished: AtomicBool::new(false),
        }
    }

    pub(super) fn status(&self, entry: EntryIndex) -> Status {
        match self.statuses[entry as usize].load(Ordering::Acquire) {
            0 => Status::Waiting,
            1 => Status::Started,
            2 => Status::Landing,
            _ => Status::Settled,
        }
    }

    /// Whether data for this entry is still of use.
    pub(super) fn is_open(&self, entry: EntryIndex) -> bool {
        matches!(self.status(entry), Status::Waiting | Status::Started)
    }

    /// Go from one of `from` to `to`; `false` if the entry is in none of them.
    pub(super) fn step(&self, entry: EntryIndex, from: &[Status], to: Status) -> bool {
        let status = &self.statuses[entry as usize];
        let go = |from: &Status| {
            status.compare_exchange(*from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        from.iter().any(go)
    }

    /// In a dry run only contents are compared: nothing is done about the other entries.
    pub(super) fn settle_but(&self, compared: &[Standing]) {
        let compared: HashSet<EntryIndex> = compared.iter().map(|standing| standing.entry).collect();
        let all = 0..self.target.manifest.entries.len() as EntryIndex;
        all.filter(|entry| !compared.contains(entry)).for_each(|entry| self.settle_beforehand(entry));
    }

    /// Claim what the file in place has of an entry, but for what its part file has.
    pub(super) fn claim_in_place(&self, standing: Standing, claimed: &Ranges, resumed: &[Resumed]) {
        let layout = &self.target.layout;
        let parts = resumed.iter().filter(|part| part.entry == standing.entry);
        let in_part: HashSet<u32> =
            parts.flat_map(|part| part.claims.iter().map(|(index, _)| *index)).collect();
        let mut count = 0;
        for index in 0..standing.end {
            let group = Group { entry: standing.entry, index };
            if claimed.contains(&layout.group_range(group).start) && !in_part.contains(&index) {
                self.lock_ledger().claim(layout, group, None);
                count += 1;
            }
        }
        self.claims.add_standing(standing, count);
    }

    /// Go on with what an interrupted run left; `true` if that is all of the file.
    pub(super) fn take_up(&self, resumed: Resumed) -> bool {
        let (entry, layout) = (resumed.entry, &self.target.layout);
        self.step(entry, &[Status::Waiting], Status::Started);
        for (index, noted) in &resumed.claims {
            self.lock_ledger().claim(layout, Group { entry, index: *index }, *noted);
        }
        self.claims.add_part(entry, &resumed.claims);
        let complete = self.lock_ledger().resume(layout, entry, &resumed.groups);
        match self.logs.resume(&self.target, resumed) {
            Ok(()) => complete,
            Err(error) => {
                self.fail_storing(entry, error);
                false
            }
        }
    }

    /// An entry that was in order before anything began.
    pub(super) fn settle_beforehand(&self, entry: EntryIndex) {
        let fresh = self.step(entry, &[Status::Waiting], Status::Settled);
        if fresh && !self.target.entry(entry).kind.comes_last() {
            self.unsettled.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// A file or link is in place.
    pub(super) fn done(&self, entry: EntryIndex) {
        if self.step(entry, &[Status::Waiting, Status::Started, Status::Landing], Status::Settled) {
            self.report().files_done += 1;
            self.settled(entry);
        }
    }

    /// A file that is in place has been compared and stays.
    pub(super) fn stays(&self, entry: EntryIndex) {
        if self.step(entry, &[Status::Waiting], Status::Settled) {
            let bytes = self.target.entry(entry).kind.data_len();
            {
                let mut report = self.report();
                report.files_skipped += 1;
                report.skipped_bytes += bytes;
                report.compared_bytes += bytes;
                report.delta_bytes = report.delta_bytes.saturating_sub(bytes);
            }
            self.settled(entry);
        }
    }

    /// In a dry run: the file that is in place is not the same.
    pub(super) fn would_copy(&self, entry: EntryIndex) {
        if self.step(entry, &[Status::Waiting], Status::Settled) {
            self.report().to_copy.push(self.target.entry(entry).path.clone());
            self.settled(entry);
        }
    }

    fn settled(&self, entry: EntryIndex) {
        self.lock_ledger().forget(entry);
        self.claims.forget(entry);
        self.tell(Happened::Done(entry));
        self.count_down();
    }

    /// A claimed group is what the sender has: it need not be sent.
    pub(super) fn confirm(&self, group: Group, origin: Origin) {
        let bytes = self.group_len(group);
        {
            let mut report = self.report();
            match origin {
                Origin::Part => report.resumed_bytes += bytes,
                Origin::InPlace => report.delta_bytes += bytes,
            }
        }
        self.tell(Happened::Confirmed(group));
    }

    /// A group of the file in place was confirmed, and has changed since.
    pub(super) fn disclaim(&self, group: Group) {
        let bytes = self.group_len(group);
        let mut report = self.report();
        report.delta_bytes = report.delta_bytes.saturating_sub(bytes);
    }

    /// These object bytes came from the sender: what an earlier run had left of them was of no use. A group's, where it was
    /// not what the sender has; a piece that is shorter than a packet comes again with its packet.
    pub(super) fn supersede(&self, come: impl Iterator<Item = Range<u64>>) {
        let mut ledger = self.lock_ledger();
        if !ledger.has_unproved() {
            return;
        }
        let bytes: u64 = come.map(|run| ledger.supersede(run)).sum();
        drop(ledger);
        let mut report = self.report();
        report.resumed_bytes = report.resumed_bytes.saturating_sub(bytes);
    }

    fn group_len(&self, group: Group) -> u64 {
        let range = self.target.layout.group_range(group);
        range.end - range.start
    }

    /// A file cannot be stored. `false` if it is settled already (or about to be).
    pub(super) fn fail(&self, entry: EntryIndex, reason: Reason) -> bool {
        if self.step(entry, &[Status::Waiting], Status::Settled) {
            self.close_failed(entry, reason);
        } else if self.step(entry, &[Status::Started], Status::Settled) {
            self.clear_away(entry);
            self.close_failed(entry, reason);
        } else {
            return false;
        }
        true
    }

    /// Putting a file in place did not work.
    pub(super) fn fail_landing(&self, entry: EntryIndex, reason: Reason) {
        if self.step(entry, &[Status::Landing], Status::Settled) {
            self.clear_away(entry);
            self.close_failed(entry, reason);
        }
    }

    /// Storing an entry met an error of the system.
    pub(super) fn fail_storing(&self, entry: EntryIndex, error: io::Error) {
        if !is_no_room(&error) {
            let takes_none = self.target.is_piece(entry) && error.raw_os_error() == Some(libc::EPERM);
            let what = if takes_none { NO_PIECES } else { "cannot be stored" };
            let reason = Reason::from(FileError::step(what)(error));
            if !self.fail(entry, reason.clone()) {
                self.fail_landing(entry, reason);
            }
            return;
        }
        let reason = Reason::from(self.full(error));
        if !self.fail(entry, reason.clone()) {
            self.fail_landing(entry, reason.clone());
        }
        if !self.no_room.swap(true, Ordering::AcqRel) {
            self.tell(Happened::NoRoom(reason));
        }
    }

    pub(super) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, happened: Happened) {
        // The network thread may have gone; then nobody asks.
        let _ = self.happened.send(happened);
        (self.wake)();
    }

    /// Have the network thread look for events and time.
    pub(super) fn wake(&self) {
        (self.wake)();
    }

    /// One thing less to wait for; the last one sets off the end.
    pub(super) fn count_down(&self) {
        if self.unsettled.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.finisher.send(Job::Finish);
        }
    }

    /// What stays of a file that failed: its part file and journal, to go on from, if all of it is on its way to the disk.
    fn clear_away(&self, entry: EntryIndex) {
        match self.target.parts.close(entry) {
            Ok(()) => self.logs.flush_failed(entry),
            Err(_) => self.logs.give_up(&self.target, entry),
        }
    }

    fn close_failed(&self, entry: EntryIndex, reason: Reason) {
        let target = &self.target;
        self.lock_ledger().forget(entry);
        self.claims.forget(entry);
        let failure = FileFailure { path: target.entry(entry).path.clone(), reason };
        {
            let mut report = self.report();
            report.failed.push(failure.clone());
            report.failed_bytes += target.entry(entry).kind.data_len();
        }
        self.tell(Happened::Failed(failure, entry));
        if !target.entry(entry).kind.comes_last() {
            self.count_down();
        }
    }

    fn full(&self, source: io::Error) -> FileError {
        let remaining = self.bytes_to_come.saturating_sub(self.written_bytes.load(Ordering::Relaxed));
        let missing_bytes = remaining.saturating_sub(self.target.room().unwrap_or(0)).max(MISSING_MIN);
        FileError::Full { missing_bytes, source }
    }
}

/// A bucket is such a destination.
const NO_PIECES: &str = "cannot be stored in pieces here; plan it in parts that hold it whole";
/// Asking for less than this would not help for long.
const MISSING_MIN: u64 = 1_000_000;
