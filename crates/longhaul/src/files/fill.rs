//! Reads blocks of the object from the files they are made of.

use super::errors::FileError;
use super::extents::DataMap;
use super::folders::{Folders, split};
use super::scan::{mtime, open_to_read};
use super::scanned::Scan;
use super::version::{Identity, expose_writes};
use longhaul_proto::session::manifest::{Entry, EntryIndex, Group, Kind, Layout, Ranges};
use longhaul_proto::session::message::GroupHash;
use longhaul_proto::session::reason::Reason;
use rustix::fs::{Advice, FileType, Stat, fadvise, fstat};
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
    /// The large files read last, the latest first: one that is sent and one that is only hashed. One handle for all
    /// threads, so that the kernel sees a file read from front to back.
    large: Vec<(EntryIndex, Arc<Opened>)>,
    /// Handles of folders below the origin used last.
    folders: Option<(Arc<OwnedFd>, Folders)>,
    failed: BTreeSet<EntryIndex>,
}

struct Opened {
    file: File,
    map: DataMap,
    /// What told of its changes when it was opened, of a planned copy.
    identity: Option<Identity>,
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
        failures: &mut Vec<(EntryIndex, Reason)>,
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
                    let hash = self.scan.pieces.hash(&self.layout, group, piece);
                    hashes.push(GroupHash { group, hash });
                }
                Ok(()) => {}
                Err(error) => {
                    piece.fill(0);
                    if self.memory().failed.insert(group.entry) {
                        failures.push((group.entry, error.into()));
                    }
                }
            }
        }
    }

    fn read(&self, group: Group, data_offset: u64, piece: &mut [u8]) -> Result<(), FileError> {
        let entry = &self.scan.manifest.entries[group.entry as usize];
        let opened = self.open(group.entry, entry)?;
        let listed = self.scan.identity(group.entry).or(opened.identity);
        if listed.is_some() {
            for (at, len) in opened.map.places(data_offset..data_offset + piece.len() as u64) {
                expose_writes(&opened.file, at, len);
            }
        }
        let unreadable = FileError::step("cannot be read");
        opened.map.read(&opened.file, data_offset, piece).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.changed(),
            _ => unreadable(error),
        })?;
        // Looking once, afterwards, suffices: whoever wrote since the listing has left another time.
        let same = match listed {
            Some(listed) => Identity::of(&opened.file).map(|now| now == listed),
            None => fstat(&opened.file).map(|stat| is_as_listed(entry, &stat)),
        };
        match same {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.changed()),
            Err(error) => Err(unreadable(error.into())),
        }
    }

    fn changed(&self) -> FileError {
        if self.scan.plan_key.is_some() { FileError::ChangedSincePlan } else { FileError::Changed }
    }

    fn open(&self, index: EntryIndex, entry: &Entry) -> Result<Arc<Opened>, FileError> {
        let cannot = FileError::step("cannot be opened");
        let mut memory = self.memory();
        if let Some(at) = memory.large.iter().position(|(known, _)| *known == index) {
            memory.large[..=at].rotate_right(1);
            return Ok(memory.large[0].1.clone());
        }
        let origin = self.scan.origin(index);
        let folder = memory.folder(origin, split(&entry.path).0).map_err(cannot)?;
        let is_large = self.layout.group_count(index) > 1;
        if !is_large {
            drop(memory);
            let file = open_to_read(&folder, split(&entry.path).1).map_err(cannot)?;
            return Ok(Arc::new(Opened { file, map: DataMap::new(&entry.kind), identity: None }));
        }
        let file = open_to_read(&folder, split(&entry.path).1).map_err(cannot)?;
        let identity = self.scan.plan_key.map(|key| as_planned(entry, &key, &file)).transpose()?;
        // Only advice: not every file system takes it.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        let opened = Arc::new(Opened { file, map: DataMap::new(&entry.kind), identity });
        memory.large.truncate(LARGE_OPEN_MAX - 1);
        memory.large.insert(0, (index, opened.clone()));
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

/// Whether a small file, which is read in one go, is what was listed.
fn is_as_listed(entry: &Entry, stat: &Stat) -> bool {
    let size = match &entry.kind {
        Kind::File { size, .. } => *size,
        _ => 0,
    };
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_size as u64 == size
        && mtime(stat) == entry.mtime
}

/// What tells of changes of a file from now on, if it is what was listed when the copy was planned.
fn as_planned(entry: &Entry, key: &[u8; 32], file: &File) -> Result<Identity, FileError> {
    let version = match &entry.kind {
        Kind::File { version, .. } => version.as_ref(),
        _ => None,
    };
    let identity = Identity::of(file)?;
    let is_same = is_as_listed(entry, &fstat(file)?)
        && version.map_or(Ok(true), |version| Identity::shared(key, file).map(|now| now.is(version)))?;
    if is_same { Ok(identity) } else { Err(FileError::ChangedSincePlan) }
}

/// Two files are read at a time at most, and one may be asked for again.
const LARGE_OPEN_MAX: usize = 3;
