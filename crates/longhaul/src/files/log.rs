//! The journals of the files on their way: notes are gathered in memory, a thread writes them out.

use super::calls::{FileExt, fdatasync, set_len};
use super::journal::{BootId, Header, PartToken, Record, Source, seal};
use super::lease::Lease;
use super::resume::Resumed;
use super::sealing::{keeper_of, ours};
use super::target::Target;
use longhaul_proto::session::manifest::EntryIndex;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The journals of all large files on their way.
#[derive(Default)]
pub(super) struct Logs {
    logs: Mutex<BTreeMap<EntryIndex, Arc<Mutex<Log>>>>,
}

/// One file's journal.
struct Log {
    header: Header,
    /// The journal, while it is ours. `None`: the file has landed, or nothing more is kept of it here. Whoever brings the part
    /// file to the disk shares it, since what comes of that decides what may be believed.
    file: Option<Arc<Lease>>,
    /// Who has what is written to it.
    keeper: BootId,
    /// All that is in it, for its next seal.
    digest: blake3::Hasher,
    /// Bytes in the journal file.
    written_len: u64,
    /// Bytes to be appended.
    pending: Vec<u8>,
    /// The journal file is to be cut to `written_len` first: what follows is torn.
    torn: bool,
    /// Something was noted since the last marker.
    unsynced: bool,
    /// A marker has reached the disk, and with it the names of journal and part file.
    synced: bool,
}

impl Logs {
    /// Begin a journal for a new part file, which it names. It is written at once: should the disk fill up, there is a
    /// block for what follows.
    pub(super) fn begin(&self, target: &Target, entry: EntryIndex, part: PartToken) -> io::Result<()> {
        let file = target.create_journal(entry)?;
        let header = Header::new(part, target.owner());
        let pending = header.bytes().to_vec();
        let digest = blake3::Hasher::new_keyed(&ours().key);
        let mut log = Log {
            header,
            keeper: keeper_of(&file),
            file: Some(Arc::new(file)),
            digest,
            written_len: 0,
            pending,
            torn: false,
            unsynced: true,
            synced: false,
        };
        log.note(&Record::Source(Source::new(target.entry(entry))));
        // A journal that cannot be written costs progress after an interruption, not the copy.
        let _ = log.flush();
        self.insert(entry, log);
        Ok(())
    }

    /// Go on with the journal of an earlier run. Where that was of another version, or calls groups verified that are not there, the
    /// journal says so, on the disk too, before anything is stored: else one who goes on with that version would take this one's
    /// data for its own, or holes for those groups once the part file is long again.
    pub(super) fn resume(&self, target: &Target, resumed: Resumed) -> io::Result<()> {
        let journal = Arc::new(resumed.journal);
        let mut log = Log {
            header: resumed.header,
            keeper: keeper_of(&journal),
            file: Some(journal.clone()),
            digest: resumed.digest,
            written_len: resumed.journal_len,
            pending: Vec::new(),
            torn: true,
            unsynced: true,
            synced: false,
        };
        let is_as_it_says = resumed.is_same_version && resumed.lost.is_empty();
        if !resumed.is_same_version {
            log.note(&Record::Source(Source::new(target.entry(resumed.entry))));
        }
        for index in resumed.lost {
            log.note(&Record::Lost { index });
        }
        let is_told =
            if is_as_it_says { Ok(()) } else { log.flush().and_then(|()| Ok(fdatasync(&**journal)?)) };
        self.insert(resumed.entry, log);
        is_told
    }

    /// Note something that holds for the part file from now on. A file without a journal is passed over.
    pub(super) fn note(&self, entry: EntryIndex, record: Record) {
        if let Some(log) = self.get(entry) {
            lock(&log).note(&record);
        }
    }

    /// Write out what was noted. What cannot be written stays for the next time.
    pub(super) fn flush(&self) {
        for (_, log) in self.all() {
            // A journal that cannot be written costs progress after an interruption, not the copy.
            let _ = lock(&log).flush();
        }
    }

    /// Write out what was noted of a file that fails. Its journal stays open: a writer may have stored something that
    /// it is only about to note.
    pub(super) fn flush_failed(&self, entry: EntryIndex) {
        if let Some(log) = self.get(entry) {
            let _ = lock(&log).flush();
        }
    }

    /// Some of what the kernel was given of a file did not reach the disk, and nobody knows which: nothing of it is kept.
    /// Reading would not tell either, since memory may have what the disk lacks.
    pub(super) fn give_up(&self, target: &Target, entry: EntryIndex) {
        let log = lock(&self.logs).remove(&entry);
        match log {
            Some(log) => lock(&log).give_up(target, entry),
            // Without a journal it counts for nothing if it stays.
            None => drop(target.remove_part(entry)),
        }
    }

    /// Bring part files to the disk itself, and note that. What cannot be brought there is told.
    pub(super) fn sync(&self, target: &Target, failed: impl Fn(EntryIndex, io::Error)) {
        for (entry, log) in self.all() {
            if let Err(error) = self.sync_one(target, entry, &log) {
                failed(entry, error);
            }
        }
    }

    /// Write out what was noted of all files, and stop their journals.
    pub(super) fn close_all(&self) {
        let logs = std::mem::take(&mut *lock(&self.logs));
        for log in logs.into_values() {
            let mut log = lock(&log);
            let _ = log.flush();
            log.file = None;
        }
    }

    /// All of a file's piece is stored: its journal stays, and speaks of the disk if that is to have it. It is ours no longer.
    /// Without a journal the piece is not kept.
    pub(super) fn keep(&self, target: &Target, entry: EntryIndex, on_disk: bool) -> io::Result<()> {
        let given_up = || io::Error::other("what was stored of it may not have reached the disk");
        let log = self.get(entry).ok_or_else(given_up)?;
        // Another thread may be at it, and not know yet what comes of that.
        lock(&log).unsynced = true;
        let is_safe = !on_disk || self.sync_one(target, entry, &log)?;
        let mut held = lock(&log);
        held.flush()?;
        let is_kept = is_safe && held.file.take().is_some();
        lock(&self.logs).remove(&entry);
        if is_kept { Ok(()) } else { Err(given_up()) }
    }

    /// A file has landed: its journal goes. It stays ours until then.
    pub(super) fn remove(&self, target: &Target, entry: EntryIndex) {
        let log = lock(&self.logs).remove(&entry);
        if let Some(log) = log {
            let mut log = lock(&log);
            // A journal left without its part file is never believed.
            let _ = target.remove_journal(entry);
            log.file = None;
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

    /// Bring a part file to the disk itself, and note that: whether it is there, with all that was noted before. Where that
    /// fails nothing is kept of it.
    fn sync_one(&self, target: &Target, entry: EntryIndex, log: &Mutex<Log>) -> io::Result<bool> {
        let (journal, journal_len, seal) = {
            let mut log = lock(log);
            let Some(journal) = log.file.clone() else { return Ok(false) };
            if !log.unsynced || log.flush().is_err() {
                return Ok(!log.unsynced);
            }
            log.unsynced = false;
            (journal, log.written_len, seal(&log.digest))
        };
        let part = target.part(entry, || target.reopen_part(entry)).ok();
        // Others may go on noting things; the marker speaks of what was noted before.
        let synced = part.as_ref().map_or(Ok(()), |part| part.sync_data());
        if let Err(error) = synced.and_then(|()| target.parts.ask_closed(entry)) {
            lock(&self.logs).remove(&entry);
            lock(log).file = None;
            // It is still ours, whether anybody else has need of it or not. A folder that is gone has taken it along.
            let _ = target.give_up(entry, &journal);
            return Err(error);
        }
        if part.is_none() {
            // It may have landed meanwhile.
            lock(log).unsynced = true;
            return Ok(false);
        }
        let is_first = {
            let mut log = lock(log);
            if log.file.is_none() {
                // It was stopped meanwhile: whoever has it next waits for nothing more.
                return Ok(false);
            }
            let unsynced = log.unsynced;
            log.note(&Record::Synced { journal_len, seal });
            log.unsynced = unsynced;
            // What cannot be written now stays for the next time.
            let _ = log.flush();
            !std::mem::replace(&mut log.synced, true)
        };
        // After a power cut the data is worth what the journal says of it, and both need their names. Where this fails there is less
        // to go on from, and nothing is wrong.
        let _ = fdatasync(&**journal);
        if is_first {
            let _ = target.sync_folder(entry);
        }
        Ok(true)
    }
}

impl Log {
    fn note(&mut self, record: &Record) {
        let position = self.written_len + self.pending.len() as u64;
        record.write(&self.header, position, &mut self.pending);
        self.unsynced = true;
    }

    fn give_up(&mut self, target: &Target, entry: EntryIndex) {
        // A folder that is gone has taken it along.
        let _ = self.file.take().map(|file| target.give_up(entry, &file));
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_deref().filter(|_| !self.pending.is_empty()) else { return Ok(()) };
        if self.torn {
            set_len(file, self.written_len)?;
            self.torn = false;
        }
        let mut bytes = std::mem::take(&mut self.pending);
        let (len, mut digest) = (bytes.len(), self.digest.clone());
        let kept = Record::Kept { boot: self.keeper, seal: seal(digest.update(&bytes)) };
        kept.write(&self.header, self.written_len + len as u64, &mut bytes);
        if let Err(error) = file.write_all_at(&bytes, self.written_len) {
            self.torn = true;
            bytes.truncate(len);
            self.pending = bytes;
            return Err(error);
        }
        self.digest.update(&bytes);
        self.written_len += bytes.len() as u64;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::names::journal_name;
    use super::super::recover::recover;
    use super::super::target::Place;
    use super::*;
    use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Kind, Layout, Manifest};
    use std::collections::HashMap;
    use std::fs;
    use std::path::Path;

    /// A folder for a file of three groups.
    fn target(top: &Path) -> Target {
        let data_len = 3 * GROUP_LEN;
        let kind = Kind::File { size: data_len, extents: None, version: None };
        let entry = Entry { path: b"f".to_vec(), kind, mode: 0o644, mtime: (1, 0) };
        let manifest = Manifest::of(vec![entry]);
        let layout = Layout::new(&manifest);
        let folder = Arc::new(fs::File::open(top).unwrap().into());
        let place = Place { top: Some(folder), ..Place::default() };
        Target::new(Arc::new(manifest), Arc::new(layout), place, HashMap::new())
    }

    /// Whoever was about to write something out finds that there is nothing to write any more, and keeps nobody out till then.
    #[test]
    fn a_journal_that_was_stopped_is_free_at_once() {
        let top = tempfile::tempdir().unwrap();
        let (target, logs) = (target(top.path()), Logs::default());
        logs.begin(&target, 0, [1; 8]).unwrap();
        let about_to_flush = logs.all();
        logs.close_all();
        assert!(target.create_journal(0).is_ok());
        drop(about_to_flush);
    }

    /// Its data may be in memory alone, and nobody would ever be told that the disk lacks it.
    #[test]
    fn a_piece_that_was_given_up_is_not_kept() {
        let top = tempfile::tempdir().unwrap();
        let (target, logs) = (target(top.path()), Logs::default());
        let begin = |entry| {
            logs.begin(&target, entry, [1; 8]).unwrap();
            target.create_part(entry).unwrap();
            logs.note(entry, Record::Range(0..100));
        };
        begin(0);
        let late = logs.get(0).unwrap();
        logs.give_up(&target, 0);
        lock(&logs.logs).insert(0, late);
        assert!(logs.keep(&target, 0, false).is_err(), "while another thread gives it up");
        assert!(logs.keep(&target, 0, true).is_err(), "and after it");
        begin(0);
        logs.sync(&target, |_, error| panic!("{error}"));
        assert!(logs.keep(&target, 0, true).is_ok());
    }

    /// With two writers one may find the disk full, and fail the file, between the other's storing and noting.
    #[test]
    fn what_is_noted_just_after_a_file_failed_is_kept() {
        let top = tempfile::tempdir().unwrap();
        let (target, logs) = (target(top.path()), Logs::default());
        logs.begin(&target, 0, [1; 8]).unwrap();
        logs.note(0, Record::Range(0..100));
        logs.flush_failed(0);
        logs.note(0, Record::Range(100..200));
        logs.close_all();
        logs.note(0, Record::Range(200..300));
        let name = String::from_utf8(journal_name(b"f")).unwrap();
        let journal = fs::read(top.path().join(name)).unwrap();
        let found = recover(&Source::new(target.entry(0)), &ours(), &journal[..]).unwrap();
        assert!(found.ranges.iter().cloned().eq(std::iter::once(0..200)), "{found:?}");
    }
}
