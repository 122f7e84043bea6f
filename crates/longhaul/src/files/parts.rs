//! Part files that are open, a few at a time, and what is known of those that were closed.

use super::part::Part;
use super::twins::inode_of;
use longhaul_proto::session::manifest::EntryIndex;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Those of a copy.
#[derive(Default)]
pub(super) struct Parts {
    /// Used lately, the last one first.
    open: Mutex<Vec<(EntryIndex, Arc<Part>)>>,
    closed: Mutex<HashMap<EntryIndex, Closed>>,
}

/// One that was closed.
struct Closed {
    /// With its device.
    inode: Option<(u64, u64)>,
    /// What had been told of its data by then.
    errno: Option<i32>,
}

impl Parts {
    /// A file's part file; `open` opens it where it is not open yet (one thread at a time).
    pub(super) fn get(
        &self,
        entry: EntryIndex,
        open: impl FnOnce() -> io::Result<Part>,
    ) -> io::Result<Arc<Part>> {
        let mut parts = lock(&self.open);
        if let Some(at) = parts.iter().position(|(known, _)| *known == entry) {
            parts[..=at].rotate_right(1);
            return Ok(parts[0].1.clone());
        }
        // What the system has told once it would not tell of a file that is opened again.
        self.lost(entry)?;
        let part = Arc::new(open()?);
        let kept = parts.len().min(OPEN_MAX - 1);
        // Whoever needs one of them next is told what this tells.
        parts.split_off(kept).iter().for_each(|(closed, part)| drop(self.note_closed(*closed, part)));
        parts.insert(0, (entry, part.clone()));
        Ok(part)
    }

    /// An error if some of a part file's data is known to be lost from when it was closed. It stays so: the file may be there still.
    pub(super) fn ask_closed(&self, entry: EntryIndex) -> io::Result<()> {
        // Not while one is being closed.
        let _open = lock(&self.open);
        self.lost(entry)
    }

    fn lost(&self, entry: EntryIndex) -> io::Result<()> {
        let errno = lock(&self.closed).get(&entry).and_then(|closed| closed.errno);
        errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// Those that are open and of whose data some got lost, as far as is known.
    pub(super) fn spoiled(&self) -> Vec<EntryIndex> {
        let open = lock(&self.open).clone();
        let open = open.into_iter().filter(|(_, part)| part.ask().is_err()).map(|(entry, _)| entry);
        let closed = lock(&self.closed);
        open.chain(closed.iter().filter(|(_, closed)| closed.errno.is_some()).map(|(entry, _)| *entry))
            .collect()
    }

    /// Close one, if it is open: what went wrong on its way to the disk by now, which the system may have forgotten when it is
    /// opened again.
    pub(super) fn close(&self, entry: EntryIndex) -> io::Result<()> {
        let mut parts = lock(&self.open);
        let at = parts.iter().position(|(known, _)| *known == entry);
        at.map_or_else(|| self.lost(entry), |at| self.note_closed(entry, &parts.remove(at).1))
    }

    fn note_closed(&self, entry: EntryIndex, part: &Part) -> io::Result<()> {
        let told = part.ask();
        let errno = told.as_ref().err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
        lock(&self.closed).insert(entry, Closed { inode: inode_of(&part.file).ok(), errno });
        told
    }

    /// Whether this is the file that was closed.
    pub(super) fn is(&self, entry: EntryIndex, file: &File) -> bool {
        let known = lock(&self.closed).get(&entry).and_then(|closed| closed.inode);
        known.is_some() && known == inode_of(file).ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Part files kept open: large files of which packets are missing may be many, and handles are few.
const OPEN_MAX: usize = 64;
