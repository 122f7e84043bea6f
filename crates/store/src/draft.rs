//! A file that is being written: its data lies in a file of ours until it is in the store. Where it is known which object it becomes,
//! its parts leave as soon as they are whole.
//!
//! What of it is in the store has no place here any more, but not at once: whoever writes a journal notes only after a sync
//! what that has covered, and whatever no note covers is read again after a crash. There may be a sync that no note follows, when a
//! copy is taken up. So a part makes room with the third sync that began after it was stored.

use crate::cut::{self, PartNumber};
use crate::digest;
use crate::note::Note;
use crate::object::{Kind, Meta, Object};
use crate::store::{Store, StoredPart};
use crossbeam_channel::Sender;
use rangemap::RangeSet;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
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

/// Where a draft lies.
#[derive(Clone, Debug)]
pub struct Local {
    /// What was written.
    pub data: PathBuf,
    /// What is noted of its upload.
    pub note: PathBuf,
}

struct State {
    local: Local,
    /// Which object it becomes, where that is known.
    key: Option<String>,
    meta: Meta,
    upload: Option<Note>,
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
    /// All of it, for so many syncs.
    Taken(u8),
    /// Nothing.
    Free,
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
        (local, file): (Local, File),
        key: Option<String>,
        meta: Meta,
    ) -> io::Result<Draft> {
        let written = extents(&file)?;
        let mut state = State {
            local,
            key,
            meta,
            upload: None,
            parts: BTreeMap::new(),
            written,
            outstanding: (0, 0),
            failed: None,
            is_removed: false,
        };
        if let Some(noted) = Note::read(&state.local.note)? {
            match store.parts(&noted.key, &noted.upload) {
                Ok(stored) => state.go_on(&file, noted, stored)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    state.failed = Failed::lost(GIVEN_UP);
                }
                // As moto's does, by another name than S3's. It would be so the next time, too.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!("{}: {error}", noted.key);
                    state.failed =
                        Failed::lost("the store does not say in S3's words what it has of its upload");
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

    /// Whether it can never become an object.
    pub fn is_lost(&self) -> bool {
        self.lock().is_lost()
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
        if len < before {
            let first = cut::part_at(len).ok_or(Errno::FBIG)?;
            state.forget(first..=cut::PARTS_MAX)?;
            state.written.remove(len..before);
        }
        self.file.set_len(len)
    }

    /// A stretch of it, as far as it goes.
    pub fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let parts = cut::parts(&(offset..offset + len as u64)).ok_or(Errno::INVAL)?;
        let state = self.lock();
        state.check()?;
        if state.is_away(parts) {
            return Err(Errno::IO.into());
        }
        drop(state);
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
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        // Nobody is to make room for it meanwhile, nor to take what was stored for what there is then.
        state.forget(parts.clone())?;
        drop(state);
        self.file.write_all_at(data, offset)?;
        let mut state = self.lock();
        state.forget(parts.clone())?;
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

    /// Bring it to the disk, and let go of what was there, and in the store, for long enough.
    pub fn sync(&self) -> io::Result<()> {
        let mut free = vec![];
        for (number, part) in &mut self.lock().parts {
            match part {
                Part::Stored { room: Room::Taken(SYNCS), .. } => free.push(*number),
                Part::Stored { room: Room::Taken(syncs), .. } => *syncs += 1,
                _ => {}
            }
        }
        self.file.sync_data()?;
        let mut state = self.lock();
        // What the store does not take now is here all the same.
        if state.is_lost() {
            return state.check();
        }
        // Some may have been written to since.
        free.retain(|number| {
            matches!(state.parts.get(number), Some(Part::Stored { room: Room::Taken(SYNCS), .. }))
        });
        if free.is_empty() {
            return Ok(());
        }
        if let Some(noted) = &mut state.upload {
            noted.freed.extend(&free);
        }
        state.write_note()?;
        for number in free {
            let range = cut::range(number);
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where it cannot be done it takes room until the file is complete.
            let _ = fallocate(&self.file, punch, range.start, range.end - range.start);
            state.written.remove(range);
            if let Some(Part::Stored { room, .. }) = state.parts.get_mut(&number) {
                *room = Room::Free;
            }
        }
        Ok(())
    }

    /// It lies elsewhere from now on.
    pub fn moved(&self, local: Local, key: Option<String>) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(noted) = &state.upload
            && Some(&noted.key) != key.as_ref()
        {
            return Err(Errno::XDEV.into());
        }
        std::fs::rename(&state.local.data, &local.data)?;
        let _ = std::fs::rename(&state.local.note, &local.note);
        (state.local, state.key) = (local, key);
        Ok(())
    }

    /// Make it the object of this key, in place of what is there, which is returned where the store has told of it. Afterwards it is
    /// no draft any more.
    pub fn finish(self: &Arc<Draft>, key: &str) -> io::Result<Option<Object>> {
        let len = self.file.metadata()?.len();
        let last = cut::part_at(len.saturating_sub(1)).ok_or(Errno::FBIG)?;
        let mut state = self.lock();
        state.check()?;
        let meta = state.meta;
        if last == 1 && state.upload.is_none() && state.parts.is_empty() {
            drop(state);
            let object = self.store.put_file(key, &meta, &self.file, len)?;
            self.lock().remove_files();
            return Ok(Some(object));
        }
        if state.key.get_or_insert_with(|| key.into()) != key {
            return Err(Errno::XDEV.into());
        }
        self.store_all(state, last, len)?;
        self.complete(key, last, len, &meta)?;
        self.lock().remove_files();
        Ok(None)
    }

    /// It has no name any more. Who has it open goes on with it, and nothing of it is stored.
    pub fn discard(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_removed, true) {
            return;
        }
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
            // What the store was sent is not what it was to get.
            Err(_) if state.is_changed(number) => self.queue_again(&mut state, number),
            Err(error) => {
                state.parts.remove(&number);
                if state.failed.is_none() && !state.is_removed {
                    tracing::error!("{error}");
                    let kind = error.kind();
                    state.failed = if kind == io::ErrorKind::NotFound && state.upload.is_some() {
                        // A store that knows no upload of this name will know none the next time either.
                        Failed::lost(GIVEN_UP)
                    } else {
                        Some(Failed { kind, why: error.to_string(), is_lost: false })
                    };
                }
            }
            Ok(_) if state.is_changed(number) => self.queue_again(&mut state, number),
            Ok((etag, len)) => {
                state.parts.insert(number, Part::Stored { etag, len, room: Room::Taken(0) });
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn queue_again(self: &Arc<Draft>, state: &mut State, number: PartNumber) {
        state.parts.remove(&number);
        self.queue(state, number);
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
        state.upload = Some(Note { key: key.clone(), upload: upload.clone(), meta, freed: vec![] });
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
                    state.forget(number..=number)?;
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
        let can_dress = len <= COPY_MAX;
        if !can_dress && noted.meta.time() != meta.time() {
            let mut state = self.lock();
            state.failed = Failed::lost("too large for its time to be changed; the next copy begins anew");
            return state.check();
        }
        match self.store.complete(key, &noted.upload, &etags) {
            // It was done, and the answer was lost: if the object is made of these very parts.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let tag = digest::tag_of_parts(&etags);
                let there = self.store.head(key)?.filter(|object| object.len == len);
                if tag.is_none() || there.map(|object| digest::bare(&object.etag).to_owned()) != tag {
                    tracing::error!("{error}");
                    let mut state = self.lock();
                    state.failed = Failed::lost(GIVEN_UP);
                    return state.check();
                }
            }
            other => other?,
        }
        if noted.meta == *meta {
            return Ok(());
        }
        if can_dress {
            return self.store.copy(key, key, Kind::File, meta);
        }
        tracing::warn!("{key}: too large for its permissions to be changed");
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Parts whose data changes. Whoever changes what the store alone has must begin anew.
    fn forget(&mut self, parts: RangeInclusive<PartNumber>) -> io::Result<()> {
        if self.is_away(parts.clone()) {
            self.failed =
                Failed::lost("what the store alone has was to be changed; the next copy begins anew");
            return self.check();
        }
        for (_, part) in self.parts.range_mut(parts.clone()) {
            if let Part::Queued { again } = part {
                *again = true;
            }
        }
        self.parts.retain(|number, part| !parts.contains(number) || matches!(part, Part::Queued { .. }));
        Ok(())
    }

    fn is_changed(&self, number: PartNumber) -> bool {
        matches!(self.parts.get(&number), Some(Part::Queued { again: true }))
    }

    /// Whether the store alone has some of these.
    fn is_away(&self, parts: RangeInclusive<PartNumber>) -> bool {
        let is_away = |part: &Part| matches!(part, Part::Stored { room: Room::Free, .. });
        self.parts.range(parts).any(|(_, part)| is_away(part))
    }

    fn is_lost(&self) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.is_lost)
    }

    fn check(&self) -> io::Result<()> {
        self.failed.clone().map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// An upload that an earlier run began. A part that is here too counts if it is the same: what was written after it was stored may
    /// not have been stored again.
    fn go_on(&mut self, file: &File, noted: Note, stored: Vec<StoredPart>) -> io::Result<()> {
        for StoredPart { number, len, etag } in stored {
            if number == 0 || number > cut::PARTS_MAX {
                continue;
            }
            let range = cut::range(number);
            let room = if noted.freed.contains(&number) {
                Room::Free
            } else {
                let here = range.start..(range.start + len).min(range.end);
                if here.end > file.metadata()?.len()
                    || digest::tag(digest::of_file(file, here)?) != digest::bare(&etag)
                {
                    continue;
                }
                Room::Taken(0)
            };
            self.parts.insert(number, Part::Stored { etag, len, room });
        }
        if let Some(lost) = noted.freed.iter().find(|number| !self.parts.contains_key(number)) {
            self.failed = Failed::lost(format!("the store has lost part {lost}"));
        }
        self.upload = Some(noted);
        Ok(())
    }

    fn write_note(&self) -> io::Result<()> {
        self.upload.as_ref().map_or(Ok(()), |noted| noted.write(&self.local.note))
    }

    fn remove_files(&self) {
        let _ = std::fs::remove_file(&self.local.note);
        let _ = std::fs::remove_file(&self.local.data);
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

const GIVEN_UP: &str = "the store has given its upload up; the next copy begins anew";
/// After so many a part makes room.
const SYNCS: u8 = 2;
/// S3 copies no larger object in one go, and changes none otherwise.
const COPY_MAX: u64 = 5 << 30;
/// What may lie here before a writer has to wait for the store.
const BEHIND_MAX: u64 = 256 << 20;
