//! The journals of the files on their way: notes are gathered in memory, a thread writes them out.

use super::journal::{Header, Record};
use super::resume::Resumed;
use super::target::Target;
use longhaul_proto::session::manifest::EntryIndex;
use rustix::fs::fdatasync;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The journals of all large files on their way.
#[derive(Default)]
pub(super) struct Logs {
    logs: Mutex<BTreeMap<EntryIndex, Arc<Mutex<Log>>>>,
}

/// One file's journal.
struct Log {
    header: Header,
    /// Bytes in the journal file.
    written_len: u64,
    /// Bytes to be appended.
    pending: Vec<u8>,
    /// The journal file is to be made, in place of any that is there.
    fresh: bool,
    /// The journal file is to be cut to `written_len` first: what follows is torn.
    torn: bool,
    /// Something was noted since the last marker.
    unsynced: bool,
    /// The file has landed: nothing may be written any more.
    closed: bool,
}

impl Logs {
    /// Begin a journal for a new part file. It is written at once: should the disk fill up, there is a block for what
    /// follows.
    pub(super) fn begin(&self, target: &Target, entry: EntryIndex) {
        let header = Header::new(target.entry(entry));
        let pending = header.bytes().to_vec();
        self.insert(
            entry,
            Log { header, written_len: 0, pending, fresh: true, torn: false, unsynced: true, closed: false },
        );
        if let Some(log) = self.get(entry) {
            let _ = lock(&log).flush(target, entry);
        }
    }

    /// Go on with the journal of an earlier run.
    pub(super) fn resume(&self, target: &Target, resumed: &Resumed) {
        let log = Log {
            header: Header::new(target.entry(resumed.entry)),
            written_len: resumed.journal_len,
            pending: Vec::new(),
            fresh: false,
            torn: true,
            unsynced: true,
            closed: false,
        };
        self.insert(resumed.entry, log);
        for index in &resumed.lost {
            self.note(resumed.entry, Record::Lost { index: *index });
        }
    }

    /// Note something that holds for the part file from now on. A file without a journal is passed over.
    pub(super) fn note(&self, entry: EntryIndex, record: Record) {
        if let Some(log) = self.get(entry) {
            lock(&log).note(&record);
        }
    }

    /// Write out what was noted. What cannot be written stays for the next time.
    pub(super) fn flush(&self, target: &Target) {
        for (entry, log) in self.all() {
            // A journal that cannot be written costs progress after an interruption, not the copy.
            let _ = lock(&log).flush(target, entry);
        }
    }

    /// Write out what was noted of a file that fails. Its journal stays open: a writer may have stored something that
    /// it is only about to note.
    pub(super) fn flush_failed(&self, target: &Target, entry: EntryIndex) {
        if let Some(log) = self.get(entry) {
            let _ = lock(&log).flush(target, entry);
        }
    }

    /// Bring part files to the disk itself, and note that. What cannot be brought there is told.
    pub(super) fn sync(&self, target: &Target, failed: impl Fn(EntryIndex, io::Error)) {
        for (entry, log) in self.all() {
            if let Err(error) = sync_one(target, entry, &log) {
                failed(entry, error);
            }
        }
    }

    /// Write out what was noted of all files, and stop their journals.
    pub(super) fn close_all(&self, target: &Target) {
        let logs = std::mem::take(&mut *lock(&self.logs));
        for (entry, log) in logs {
            let mut log = lock(&log);
            let _ = log.flush(target, entry);
            log.closed = true;
        }
    }

    /// Stop a file's journal.
    pub(super) fn close(&self, entry: EntryIndex) {
        let log = lock(&self.logs).remove(&entry);
        if let Some(log) = log {
            lock(&log).closed = true;
        }
    }

    fn insert(&self, entry: EntryIndex, log: Log) {
        lock(&self.logs).insert(entry, Arc::new(Mutex::new(log)));
    }

    fn get(&self, entry: EntryIndex) -> Option<Arc<Mutex<Log>>> {
        lock(&self.logs).get(&entry).cloned()
    }

    fn all(&self) -> Vec<(EntryIndex, Arc<Mutex<Log>>)> {
        lock(&self.logs).iter().map(|(entry, log)| (*entry, log.clone())).collect()
    }
}

fn sync_one(target: &Target, entry: EntryIndex, log: &Mutex<Log>) -> io::Result<()> {
    let journal_len = {
        let mut log = lock(log);
        if log.closed || !log.unsynced || log.flush(target, entry).is_err() {
            return Ok(());
        }
        log.unsynced = false;
        log.written_len
    };
    // It may have landed meanwhile.
    let Ok(part) = target.part(entry, || target.reopen_part(entry)) else { return Ok(()) };
    // Others may go on noting things; the marker speaks of what was noted before.
    fdatasync(&part.file)?;
    let mut log = lock(log);
    let unsynced = log.unsynced;
    log.note(&Record::Synced { journal_len });
    log.unsynced = unsynced;
    // What cannot be written now stays for the next time.
    let _ = log.flush(target, entry);
    Ok(())
}

impl Log {
    fn note(&mut self, record: &Record) {
        let position = self.written_len + self.pending.len() as u64;
        record.write(&self.header, position, &mut self.pending);
        self.unsynced = true;
    }

    fn flush(&mut self, target: &Target, entry: EntryIndex) -> io::Result<()> {
        if self.closed || self.pending.is_empty() {
            return Ok(());
        }
        let file = target.open_journal(entry, self.fresh)?;
        self.fresh = false;
        if self.torn {
            file.set_len(self.written_len)?;
            self.torn = false;
        }
        if let Err(error) = file.write_all_at(&self.pending, self.written_len) {
            self.torn = true;
            return Err(error);
        }
        self.written_len += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::journal::recover;
    use super::super::names::journal_name;
    use super::super::target::Place;
    use super::*;
    use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Kind, Layout, Manifest};
    use std::fs;

    /// With two writers one may find the disk full, and fail the file, between the other's storing and noting.
    #[test]
    fn what_is_noted_just_after_a_file_failed_is_kept() {
        let top = tempfile::tempdir().unwrap();
        let data_len = 3 * GROUP_LEN;
        let kind = Kind::File { size: data_len, extents: None, hash: None };
        let entry = Entry { path: b"f".to_vec(), kind, mode: 0o644, mtime: (1, 0) };
        let manifest = Manifest { entries: vec![entry] };
        let layout = Layout::new(&manifest);
        let folder = Arc::new(fs::File::open(top.path()).unwrap().into());
        let place = Place { top: Some(folder), ..Place::default() };
        let target = Target::new(Arc::new(manifest), Arc::new(layout), place);
        let logs = Logs::default();
        logs.begin(&target, 0);
        logs.note(0, Record::Range(0..100));
        logs.flush_failed(&target, 0);
        logs.note(0, Record::Range(100..200));
        logs.close_all(&target);
        logs.note(0, Record::Range(200..300));
        let name = String::from_utf8(journal_name(b"f")).unwrap();
        let journal = fs::read(top.path().join(name)).unwrap();
        let found = recover(&Header::new(target.entry(0)), data_len, &journal).unwrap();
        assert!(found.ranges.iter().cloned().eq(std::iter::once(0..200)), "{found:?}");
    }
}
