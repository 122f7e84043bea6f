//! A file that is being written: its data lies in a file of ours until it is in the store. Where it is known which object it becomes,
//! its parts leave as soon as they are whole.
//!
//! What of it is in the store has no place here any more, but not at once: whoever writes a journal notes only after a sync
//! what that has covered, and whatever no note covers is read again after a crash. So a part makes room with the second sync
//! after it was stored.

use crate::cut::{self, PartNumber};
use crate::object::{Kind, Meta};
use crate::store::{Store, StoredPart};
use crossbeam_channel::Sender;
use rangemap::RangeSet;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A part of a draft that is to be stored.
pub type Job = (Arc<Draft>, PartNumber);

/// A file that is being written.
pub struct Draft {
    store: Arc<Store>,
    jobs: Sender<Job>,
    file: File,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by whoever begins the upload.
    beginning: Mutex<()>,
}

struct State {
    /// Where its data lies, and what is noted of its upload.
    path: PathBuf,
    /// Which object it becomes, where that is known.
    key: Option<String>,
    meta: Meta,
    upload: Option<Noted>,
    parts: BTreeMap<PartNumber, Part>,
    written: RangeSet<u64>,
    /// Parts that wait or are under way, and their bytes.
    outstanding: (usize, u64),
    failed: Option<Failed>,
    is_removed: bool,
}

enum Part {
    /// It waits or is under way. `again`: its data changed meanwhile.
    Queued {
        again: bool,
    },
    Stored {
        etag: String,
        len: u64,
        room: Room,
    },
}

/// What a stored part takes here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// All of it.
    Taken,
    /// All of it, and there was a sync since.
    Synced,
    /// Nothing.
    Free,
}

/// What is noted on the disk of an upload, so that it is gone on with.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noted {
    key: String,
    upload: String,
    meta: Meta,
    /// Parts of which the store alone has the data.
    freed: Vec<PartNumber>,
}

/// Why it cannot become an object.
#[derive(Clone, Debug)]
struct Failed {
    kind: io::ErrorKind,
    why: String,
    /// It never will.
    is_lost: bool,
}

impl Failed {
    fn lost(why: impl Into<String>) -> Option<Failed> {
        Some(Failed { kind: io::ErrorKind::Other, why: why.into(), is_lost: true })
    }
}

impl From<Failed> for io::Error {
    fn from(failed: Failed) -> io::Error {
        io::Error::new(failed.kind, failed.why)
    }
}

impl Draft {
    /// A new one, or one that is there from an earlier run. `key`: which object it becomes.
    pub fn open(
        store: Arc<Store>,
        jobs: Sender<Job>,
        (path, file): (PathBuf, File),
        key: Option<String>,
        meta: Meta,
    ) -> io::Result<Draft> {
        let written = extents(&file)?;
        let mut state = State {
            path,
            key,
            meta,
            upload: None,
            parts: BTreeMap::new(),
            written,
            outstanding: (0, 0),
            failed: None,
            is_removed: false,
        };
        if let Some(noted) = state.read_note()? {
            match store.parts(&noted.key, &noted.upload) {
                Ok(stored) => state.go_on(noted, stored),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    state.failed = Failed::lost("the store has given its upload up");
                }
                Err(error) => return Err(error),
            }
        }
        let (changed, beginning) = (Condvar::new(), Mutex::new(()));
        Ok(Draft { store, jobs, file, state: Mutex::new(state), changed, beginning })
    }

    /// Its length, and what is kept of it beside its data.
    pub fn look(&self) -> io::Result<(u64, Meta)> {
        Ok((self.file.metadata()?.len(), self.lock().meta))
    }

    /// Somebody begins anew with it: what the store would not take is tried again.
    pub fn begin_anew(&self) {
        let mut state = self.lock();
        state.failed = state.failed.take().filter(|failed| failed.is_lost);
    }

    /// Change what is kept of it.
    pub fn dress(&self, change: impl FnOnce(&mut Meta)) {
        change(&mut self.lock().meta);
    }

    /// Give it another length.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        let before = self.file.metadata()?.len();
        self.file.set_len(len)?;
        if len < before {
            state.written.remove(len..before);
            let first = cut::part_at(len).ok_or(Errno::FBIG)?;
            state.forget(first..=cut::PARTS_MAX);
        }
        Ok(())
    }

    /// A stretch of it, as far as it goes.
    pub fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.lock().check_here(&(offset..offset + len as u64))?;
        let mut data = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match self.file.read_at(&mut data[filled..], offset + filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// Write a stretch. Waits while much is on its way to the store.
    pub fn write(self: &Arc<Draft>, offset: u64, data: &[u8]) -> io::Result<()> {
        let stretch = offset..offset + data.len() as u64;
        let parts = cut::parts(&stretch).ok_or(Errno::FBIG)?;
        let state = self.lock();
        let is_behind = |state: &mut State| state.outstanding.0 >= 2 && state.outstanding.1 >= BEHIND_MAX;
        let state = self.changed.wait_while(state, |s| s.failed.is_none() && is_behind(s));
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.check_here(&stretch)?;
        drop(state);
        self.file.write_all_at(data, offset)?;
        let mut state = self.lock();
        state.forget(parts.clone());
        if !data.is_empty() {
            state.written.insert(stretch);
        }
        if state.key.is_none() {
            return Ok(());
        }
        for part in parts {
            if state.written.gaps(&cut::range(part)).next().is_none() {
                self.queue(&mut state, part);
            }
        }
        Ok(())
    }

    /// Bring it to the disk, and let go of what was there, and in the store, at the last sync.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let mut state = self.lock();
        let mut freed = vec![];
        for (number, part) in &mut state.parts {
            let Part::Stored { room, .. } = part else { continue };
            match room {
                Room::Taken => *room = Room::Synced,
                Room::Synced => freed.push(*number),
                Room::Free => {}
            }
        }
        if freed.is_empty() {
            return Ok(());
        }
        if let Some(noted) = &mut state.upload {
            noted.freed.extend(&freed);
        }
        state.write_note()?;
        for number in freed {
            let range = cut::range(number);
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where it cannot be done it takes room until the file is complete.
            let _ = fallocate(&self.file, punch, range.start, range.end - range.start);
            if let Some(Part::Stored { room, .. }) = state.parts.get_mut(&number) {
                *room = Room::Free;
            }
        }
        Ok(())
    }

    /// It lies elsewhere from now on.
    pub fn moved(&self, path: PathBuf, key: Option<String>) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(noted) = &state.upload
            && Some(&noted.key) != key.as_ref()
        {
            return Err(Errno::XDEV.into());
        }
        std::fs::rename(&state.path, &path)?;
        let _ = std::fs::rename(note_of(&state.path), note_of(&path));
        (state.path, state.key) = (path, key);
        Ok(())
    }

    /// Make it the object of this key, in place of what is there. Afterwards it is no draft any more.
    pub fn finish(self: &Arc<Draft>, key: &str) -> io::Result<(u64, Meta)> {
        let len = self.file.metadata()?.len();
        let last = cut::part_at(len.saturating_sub(1)).ok_or(Errno::FBIG)?;
        let mut state = self.lock();
        state.check()?;
        let meta = state.meta;
        if last == 1 && state.upload.is_none() && state.parts.is_empty() {
            drop(state);
            self.store.put(key, Kind::File, &meta, Some((&self.file, len)))?;
        } else {
            if state.key.get_or_insert_with(|| key.into()) != key {
                return Err(Errno::XDEV.into());
            }
            self.store_all(state, last, len)?;
            self.complete(key, last, len, &meta)?;
        }
        self.lock().remove_files();
        Ok((len, meta))
    }

    /// It has no name any more. Who has it open goes on with it, and nothing of it is stored.
    pub fn discard(&self) {
        let mut state = self.lock();
        state.is_removed = true;
        state.remove_files();
        let upload = state.upload.take();
        drop(state);
        if let Some(noted) = upload
            && let Err(error) = self.store.abort(&noted.key, &noted.upload)
        {
            tracing::warn!("{error}; its parts stay until the bucket's rules remove them");
        }
    }

    /// Store a part: what a thread for this does.
    pub fn store_part(self: &Arc<Draft>, number: PartNumber) {
        let stored = self.put_part(number);
        let mut state = self.lock();
        state.outstanding.0 -= 1;
        state.outstanding.1 -= len_of(number);
        match stored {
            Err(error) => {
                state.parts.remove(&number);
                if state.failed.is_none() && !state.is_removed {
                    tracing::error!("{error}");
                    let (kind, why) = (error.kind(), error.to_string());
                    state.failed = Some(Failed { kind, why, is_lost: false });
                }
            }
            Ok((etag, len)) => match state.parts.get(&number) {
                Some(Part::Queued { again: true }) => {
                    state.parts.remove(&number);
                    self.queue(&mut state, number);
                }
                _ => {
                    state.parts.insert(number, Part::Stored { etag, len, room: Room::Taken });
                }
            },
        }
        drop(state);
        self.changed.notify_all();
    }

    fn put_part(&self, number: PartNumber) -> io::Result<(String, u64)> {
        let (key, upload) = self.begin()?;
        let range = cut::range(number);
        let end = range.end.min(self.file.metadata()?.len()).max(range.start);
        let etag = self.store.put_part(&key, &upload, number, &self.file, range.start..end)?;
        Ok((etag, end - range.start))
    }

    /// The upload, begun if there is none yet.
    fn begin(&self) -> io::Result<(String, String)> {
        let _one = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.lock();
        state.check()?;
        if state.is_removed {
            return Err(Errno::NOENT.into());
        }
        if let Some(noted) = &state.upload {
            return Ok((noted.key.clone(), noted.upload.clone()));
        }
        let (key, meta) = (state.key.clone().ok_or(Errno::INVAL)?, state.meta);
        drop(state);
        // Permissions come last, when all is verified; most files have these.
        let meta = Meta { mode: crate::object::FILE_MODE, ..meta };
        let upload = self.store.begin(&key, &meta)?;
        let mut state = self.lock();
        if state.is_removed {
            drop(state);
            let _ = self.store.abort(&key, &upload);
            return Err(Errno::NOENT.into());
        }
        state.upload = Some(Noted { key: key.clone(), upload: upload.clone(), meta, freed: vec![] });
        state.write_note()?;
        Ok((key, upload))
    }

    fn queue(self: &Arc<Draft>, state: &mut State, number: PartNumber) {
        if state.parts.contains_key(&number) || state.failed.is_some() || state.is_removed {
            return;
        }
        state.parts.insert(number, Part::Queued { again: false });
        state.outstanding.0 += 1;
        state.outstanding.1 += len_of(number);
        // The threads that take it live as long as the program.
        let _ = self.jobs.send((self.clone(), number));
    }

    /// Wait until each part is stored, with all that is in it.
    fn store_all(
        self: &Arc<Draft>,
        mut state: MutexGuard<'_, State>,
        last: PartNumber,
        len: u64,
    ) -> io::Result<()> {
        loop {
            for number in 1..=last {
                let range = cut::range(number);
                let wanted = range.end.min(len) - range.start;
                let is_other = |part: &Part| matches!(part, Part::Stored { len, .. } if *len != wanted);
                if state.parts.get(&number).is_some_and(is_other) {
                    state.parts.remove(&number);
                }
                self.queue(&mut state, number);
            }
            if state.outstanding.0 == 0 {
                return state.check();
            }
            let waited = self.changed.wait_while(state, |state| state.outstanding.0 > 0);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.check()?;
        }
    }

    fn complete(&self, key: &str, last: PartNumber, len: u64, meta: &Meta) -> io::Result<()> {
        let state = self.lock();
        let noted = state.upload.clone().ok_or(Errno::INVAL)?;
        let etag = |part: &Part| match part {
            Part::Stored { etag, .. } => Ok(etag.clone()),
            Part::Queued { .. } => Err(Errno::BUSY),
        };
        let etags = (1..=last).map(|number| state.parts.get(&number).map_or(Err(Errno::INVAL), etag));
        let etags: Vec<String> = etags.collect::<Result<_, _>>()?;
        drop(state);
        let etags: Vec<&str> = etags.iter().map(String::as_str).collect();
        match self.store.complete(key, &noted.upload, &etags) {
            // It was done, and the answer was lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let there = self.store.head(key)?;
                let ending = format!("-{last}\"");
                if !there.is_some_and(|object| object.len == len && object.etag.ends_with(&ending)) {
                    return Err(error);
                }
            }
            other => other?,
        }
        if noted.meta == *meta {
            return Ok(());
        }
        if len > COPY_MAX {
            tracing::warn!("{key}: too large for the store to change its permissions or its time");
            return Ok(());
        }
        self.store.copy(key, key, Kind::File, meta)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Parts whose data has changed.
    fn forget(&mut self, parts: std::ops::RangeInclusive<PartNumber>) {
        let mut stored = vec![];
        for (number, part) in self.parts.range_mut(parts) {
            match part {
                Part::Queued { again } => *again = true,
                Part::Stored { .. } => stored.push(*number),
            }
        }
        for number in stored {
            self.parts.remove(&number);
        }
    }

    fn check(&self) -> io::Result<()> {
        self.failed.clone().map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// An error where the store alone has some of this.
    fn check_here(&self, stretch: &Range<u64>) -> io::Result<()> {
        self.check()?;
        let Some(parts) = cut::parts(stretch) else { return Ok(()) };
        let is_away = |part: &Part| matches!(part, Part::Stored { room: Room::Free, .. });
        if self.parts.range(parts).any(|(_, part)| is_away(part)) { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// An upload that an earlier run began.
    fn go_on(&mut self, noted: Noted, stored: Vec<StoredPart>) {
        for part in stored {
            if part.number == 0 || part.number > cut::PARTS_MAX {
                continue;
            }
            let range = cut::range(part.number);
            let held = range.start..(range.start + part.len).clamp(range.start + 1, range.end);
            let is_here = self.written.gaps(&held).next().is_none();
            let room = if is_here { Room::Taken } else { Room::Free };
            self.parts.insert(part.number, Part::Stored { etag: part.etag, len: part.len, room });
        }
        if let Some(lost) = noted.freed.iter().find(|number| !self.parts.contains_key(number)) {
            self.failed = Failed::lost(format!("the store has lost part {lost}"));
        }
        self.upload = Some(noted);
    }

    fn read_note(&self) -> io::Result<Option<Noted>> {
        match std::fs::read(note_of(&self.path)) {
            // Torn, it says no more than that there was one.
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of it, or what was there.
    fn write_note(&self) -> io::Result<()> {
        let Some(noted) = &self.upload else { return Ok(()) };
        let path = note_of(&self.path);
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(noted)?)?;
        File::open(&new)?.sync_all()?;
        std::fs::rename(&new, &path)?;
        // What it says is relied on from now on.
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    fn remove_files(&self) {
        let _ = std::fs::remove_file(note_of(&self.path));
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What of a file holds data.
fn extents(file: &File) -> io::Result<RangeSet<u64>> {
    let len = file.metadata()?.len();
    let mut found = RangeSet::new();
    let mut at = 0;
    while at < len {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?;
        found.insert(start..at);
    }
    Ok(found)
}

fn len_of(number: PartNumber) -> u64 {
    let range = cut::range(number);
    range.end - range.start
}

/// Where it is noted what of a draft is in the store.
fn note_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(NOTE);
    name.into()
}

/// Whether a name in our folder is that of a note.
pub fn is_note(name: &str) -> bool {
    name.ends_with(NOTE) || name.ends_with(".new") && !name.ends_with("-new")
}

const NOTE: &str = ".upload";
/// S3 copies no larger object in one go, and changes none otherwise.
const COPY_MAX: u64 = 5 << 30;
/// What may lie here before a writer has to wait for the store.
const BEHIND_MAX: u64 = 256 << 20;
