//! What the network thread, the writers and the keeper of a receiver share.

use super::blocks::Blocks;
use super::errors::{is_no_room, shown_bytes, why};
use super::ledger::Ledger;
use super::log::Logs;
use super::reader::Wake;
use super::target::Target;
use super::writer::Job;
use crossbeam_channel::Sender;
use longhaul_proto::session::manifest::{EntryIndex, Group, Kind};
use longhaul_proto::session::message::{FileFailure, Report};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What happened, for the network thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// A group's data is not what the sender read.
    Bad(Group),
    /// A file or link is in place.
    Done(EntryIndex),
    /// A file cannot be stored.
    Failed(FileFailure, EntryIndex),
    /// Nothing can be stored any more, and why.
    NoRoom(String),
    /// Something that is no failure and should be known.
    Warning(String),
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
    statuses: Vec<AtomicU8>,
    /// Files and links that are not settled, and one for the preparations.
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
    pub extraneous: Vec<Vec<u8>>,
    pub no_room: AtomicBool,
    /// The open blocks are to be handed over.
    pub flush_due: AtomicBool,
    /// The network thread holds data that no writer has seen.
    pub has_open: AtomicBool,
    /// The other side could not list all it was asked for: nothing is removed here.
    pub source_incomplete: bool,
    /// All that could be done is done.
    pub finished: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        target: Target,
        blocks: Blocks,
        report: Report,
        bytes_to_come: u64,
        (extraneous, source_incomplete): (Vec<Vec<u8>>, bool),
        (happened, wake, finisher): (Sender<Happened>, Wake, Sender<Job>),
    ) -> Shared {
        let statuses = target.manifest.entries.iter().map(|_| AtomicU8::new(Status::Waiting as u8)).collect();
        let counted = target.manifest.entries.iter().filter(|entry| !matches!(entry.kind, Kind::Dir)).count();
        Shared {
            target,
            blocks,
            ledger: Mutex::default(),
            logs: Logs::default(),
            statuses,
            unsettled: AtomicUsize::new(counted + 1),
            report: Mutex::new(report),
            happened,
            wake,
            finisher,
            written_bytes: AtomicU64::new(0),
            bytes_to_come,
            extraneous,
            no_room: AtomicBool::new(false),
            flush_due: AtomicBool::new(false),
            has_open: AtomicBool::new(false),
            source_incomplete,
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

    /// An entry that was in order before anything began.
    pub(super) fn settle_beforehand(&self, entry: EntryIndex) {
        let fresh = self.step(entry, &[Status::Waiting], Status::Settled);
        if fresh && !matches!(self.target.entry(entry).kind, Kind::Dir) {
            self.unsettled.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// A file or link is in place.
    pub(super) fn done(&self, entry: EntryIndex) {
        if self.step(entry, &[Status::Waiting, Status::Started, Status::Landing], Status::Settled) {
            self.report().files_done += 1;
            self.lock_ledger().forget(entry);
            self.tell(Happened::Done(entry));
            self.count_down();
        }
    }

    /// A file cannot be stored. `false` if it is settled already (or about to be).
    pub(super) fn fail(&self, entry: EntryIndex, reason: String) -> bool {
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
    pub(super) fn fail_landing(&self, entry: EntryIndex, reason: String) {
        if self.step(entry, &[Status::Landing], Status::Settled) {
            self.clear_away(entry);
            self.close_failed(entry, reason);
        }
    }

    /// Storing an entry met an error of the system.
    pub(super) fn fail_storing(&self, entry: EntryIndex, error: io::Error) {
        if !is_no_room(&error) {
            let reason = format!("cannot be stored: {}", why(error));
            if !self.fail(entry, reason.clone()) {
                self.fail_landing(entry, reason);
            }
            return;
        }
        let reason = self.no_room_line(error);
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

    /// What stays of a file that failed: a large one's part file and journal, to go on from.
    fn clear_away(&self, entry: EntryIndex) {
        let target = &self.target;
        self.logs.flush_failed(target, entry);
        if target.is_journalled(entry) {
            target.close_part(entry);
        } else if target.layout.group_count(entry) == 1 {
            // It is about to be reported as failed anyway.
            let _ = target.remove_part(entry);
        }
    }

    fn close_failed(&self, entry: EntryIndex, reason: String) {
        let target = &self.target;
        self.lock_ledger().forget(entry);
        let failure = FileFailure { path: target.entry(entry).path.clone(), reason };
        {
            let mut report = self.report();
            report.failed.push(failure.clone());
            report.failed_bytes += target.entry(entry).kind.data_len();
        }
        self.tell(Happened::Failed(failure, entry));
        if !matches!(target.entry(entry).kind, Kind::Dir) {
            self.count_down();
        }
    }

    fn no_room_line(&self, error: io::Error) -> String {
        let remaining = self.bytes_to_come.saturating_sub(self.written_bytes.load(Ordering::Relaxed));
        let missing = remaining.saturating_sub(self.target.room().unwrap_or(0)).max(MISSING_MIN);
        format!(
            "{} at the destination; free {} and run the same command again",
            why(error),
            shown_bytes(missing)
        )
    }
}

/// Asking for less than this would not help for long.
const MISSING_MIN: u64 = 1_000_000;
