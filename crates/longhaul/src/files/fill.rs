//! Reads blocks of the object from the files they are made of.

use super::errors::why;
use super::extents::DataMap;
use super::folders::{Folders, split};
use super::hash::group_hash;
use super::scan::{Scan, mtime, open_to_read};
use longhaul_proto::session::manifest::{Entry, EntryIndex, Group, Kind, Layout, Ranges};
use longhaul_proto::session::message::GroupHash;
use rustix::fs::{Advice, FileType, fadvise, fstat};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Fills blocks, for several threads at once.
pub(super) struct Filler {
    scan: Arc<Scan>,
    layout: Arc<Layout>,
    /// Object bytes that the receiver has.
    have: Ranges,
    memory: Mutex<Memory>,
}

/// What is worth keeping from one block to the next.
#[derive(Default)]
struct Memory {
    /// The large file read last. One handle for all threads, so that the kernel sees a file read from front to back.
    large: Option<(EntryIndex, Arc<Opened>)>,
    /// Handles of folders below the origin used last.
    folders: Option<(Arc<OwnedFd>, Folders)>,
    failed: BTreeSet<EntryIndex>,
}

struct Opened {
    file: File,
    map: DataMap,
}

impl Filler {
    pub(super) fn new(scan: Arc<Scan>, layout: Arc<Layout>, have: Ranges) -> Filler {
        Filler { scan, layout, have, memory: Mutex::default() }
    }

    /// Read the object's bytes in `range`, a block. Groups that the receiver has, and those of files that failed, read
    /// as zeros. With `hash`, the hash of each group read is appended.
    pub(super) fn fill(
        &self,
        range: Range<u64>,
        data: &mut [u8],
        hash: bool,
        hashes: &mut Vec<GroupHash>,
        failures: &mut Vec<(EntryIndex, String)>,
    ) {
        for group in self.layout.groups_in(range.clone()) {
            let place = self.layout.group_range(group);
            let piece = &mut data[(place.start - range.start) as usize..(place.end - range.start) as usize];
            let needed = self.have.gaps(&place).next().is_some();
            if !needed || self.memory().failed.contains(&group.entry) {
                piece.fill(0);
                continue;
            }
            match self.read(group, place.start - self.layout.entry_range(group.entry).start, piece) {
                Ok(()) if hash => {
                    let hash = group_hash(group.index, self.layout.group_count(group.entry), piece);
                    hashes.push(GroupHash { group, hash });
                }
                Ok(()) => {}
                Err(reason) => {
                    piece.fill(0);
                    if self.memory().failed.insert(group.entry) {
                        failures.push((group.entry, reason));
                    }
                }
            }
        }
    }

    fn read(&self, group: Group, data_offset: u64, piece: &mut [u8]) -> Result<(), String> {
        let entry = &self.scan.manifest.entries[group.entry as usize];
        let opened = self.open(group.entry, entry)?;
        opened.map.read(&opened.file, data_offset, piece).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CHANGED.to_string(),
            _ => format!("cannot be read: {}", why(error)),
        })?;
        // Looking once, afterwards, suffices: whoever wrote since the listing has left another time.
        let stat = fstat(&opened.file).map_err(|error| format!("cannot be read: {}", why(error)))?;
        let size = match &entry.kind {
            Kind::File { size, .. } => *size,
            Kind::Dir | Kind::Symlink { .. } => 0,
        };
        let same = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_size as u64 == size
            && mtime(&stat) == entry.mtime;
        if same { Ok(()) } else { Err(CHANGED.into()) }
    }

    fn open(&self, index: EntryIndex, entry: &Entry) -> Result<Arc<Opened>, String> {
        let cannot = |error| format!("cannot be opened: {}", why(error));
        let mut memory = self.memory();
        if let Some((known, opened)) = &memory.large
            && *known == index
        {
            return Ok(opened.clone());
        }
        let origin = self.scan.origin(index);
        let folder = memory.folder(origin, split(&entry.path).0).map_err(cannot)?;
        let is_large = self.layout.group_count(index) > 1;
        if !is_large {
            drop(memory);
            let file = open_to_read(&folder, split(&entry.path).1).map_err(cannot)?;
            return Ok(Arc::new(Opened { file, map: DataMap::new(&entry.kind) }));
        }
        let file = open_to_read(&folder, split(&entry.path).1).map_err(cannot)?;
        // Only advice: not every file system takes it.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        let opened = Arc::new(Opened { file, map: DataMap::new(&entry.kind) });
        memory.large = Some((index, opened.clone()));
        Ok(opened)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn folder(&mut self, origin: Arc<OwnedFd>, path: &[u8]) -> Result<Arc<OwnedFd>, rustix::io::Errno> {
        match &mut self.folders {
            Some((known, folders)) if Arc::ptr_eq(known, &origin) => folders.open(path),
            _ => {
                let mut folders = Folders::new(origin.clone());
                let opened = folders.open(path);
                self.folders = Some((origin, folders));
                opened
            }
        }
    }
}

const CHANGED: &str = "changed while it was being copied; copy it again";
