//! A part file that is open: what comes of a large file.

use super::calls::fdatasync;
use super::disk;
use super::extents::DataMap;
use longhaul_proto::session::manifest::Kind;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// A file on its way.
pub(super) struct Part {
    pub file: File,
    map: DataMap,
    /// Held while writing: the kernel lets in one writer at a time, and others spin before its door.
    writing: Mutex<()>,
    /// Stretches that are on their way to the disk, the first one first.
    under_way: Mutex<VecDeque<Range<u64>>>,
    /// The system tells of an error on that way once. Held alone by who must know all that was told by then.
    asking: RwLock<()>,
    failed: OnceLock<i32>,
}

impl Part {
    pub(super) fn new(file: File, kind: &Kind) -> Part {
        Part {
            file,
            map: DataMap::new(kind),
            writing: Mutex::default(),
            under_way: Mutex::default(),
            asking: RwLock::default(),
            failed: OnceLock::new(),
        }
    }

    /// Have stored data begin its way to the disk, and wait for what began it long before: little is left to wait for in
    /// the end, and a slow disk is felt while data comes.
    pub(super) fn begin_sync(&self, data: Range<u64>) -> io::Result<()> {
        self.told(|file| {
            self.map.places(data.clone()).try_for_each(|(at, len)| disk::begin_sync(file, at, len))?;
            let first = {
                let mut under_way = lock(&self.under_way);
                under_way.push_back(data);
                if under_way.len() > UNDER_WAY_MAX { under_way.pop_front() } else { None }
            };
            let first = first.unwrap_or_default();
            self.map.places(first).try_for_each(|(at, len)| disk::await_sync(file, at, len))
        })
    }

    /// Bring what is stored to the disk. An error that another thread was told of meanwhile, or long before, is told here too.
    pub(super) fn sync_data(&self) -> io::Result<()> {
        self.told(|file| Ok(fdatasync(file)?))?;
        self.last_word(|_| Ok(()))
    }

    /// What went wrong so far on the way to the disk, whoever was told.
    pub(super) fn ask(&self) -> io::Result<()> {
        self.told(disk::ask)?;
        self.known()
    }

    /// The last word on its data: how `how` goes, and all that was told before.
    pub(super) fn last_word(&self, how: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let _asking = self.asking.write().unwrap_or_else(PoisonError::into_inner);
        how(&self.file)?;
        self.known()
    }

    fn known(&self) -> io::Result<()> {
        self.failed.get().map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(*errno)))
    }

    fn told(&self, how: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let _asking = self.asking.read().unwrap_or_else(PoisonError::into_inner);
        how(&self.file).inspect_err(|error| {
            let _ = self.failed.set(error.raw_os_error().unwrap_or(libc::EIO));
        })
    }

    /// Store data from a data offset on.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _writing = lock(&self.writing);
        self.map.write(&self.file, offset, data)
    }

    /// Read back what was stored.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.map.read(&self.file, offset, buf)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Groups of a file that are on their way to the disk at a time: enough for any disk to be busy.
const UNDER_WAY_MAX: usize = 64;
