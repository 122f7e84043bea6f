//! The destination: where each entry goes, its part file, and how it lands.

use super::extents::DataMap;
use super::folders::{Folders, split};
use super::names::{journal_name, part_name};
use longhaul_proto::session::manifest::{Entry, EntryIndex, Kind, Layout, Manifest};
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chmodat, fchmod, fstat, fstatvfs, futimens,
    mkdirat, openat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the entries of a manifest go.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The folder below which they go; `None` if nothing is to be stored.
    pub top: Option<Arc<OwnedFd>>,
    /// The name that a copy's only entry is given.
    pub rename: Option<Vec<u8>>,
    /// Permission bits that are taken over.
    pub mode_mask: u32,
    /// The top folder keeps its own permissions and time.
    pub keeps_top: bool,
}

/// The destination of a copy.
pub(super) struct Target {
    pub manifest: Arc<Manifest>,
    pub layout: Arc<Layout>,
    place: Place,
    folders: Mutex<Folders>,
    /// Part files used lately, the last one first.
    parts: Mutex<Vec<(EntryIndex, Arc<Part>)>>,
}

/// A file on its way.
pub(super) struct Part {
    pub file: File,
    map: DataMap,
    /// Held while writing: the kernel lets in one writer at a time, and others spin before its door.
    writing: Mutex<()>,
}

impl Part {
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

impl Target {
    pub(super) fn new(manifest: Arc<Manifest>, layout: Arc<Layout>, place: Place) -> Target {
        let folders = Mutex::new(Folders::new(place.top.clone()));
        Target { manifest, layout, place, folders, parts: Mutex::default() }
    }

    pub(super) fn entry(&self, entry: EntryIndex) -> &Entry {
        &self.manifest.entries[entry as usize]
    }

    /// Whether a file is journalled: one group is sent again sooner than looked after.
    pub(super) fn is_journalled(&self, entry: EntryIndex) -> bool {
        self.layout.group_count(entry) > 1
    }

    /// Bytes that may still be stored, if the file system tells.
    pub(super) fn room(&self) -> Option<u64> {
        self.place.top.as_ref().and_then(room)
    }

    /// A file's part file; `open` opens it where it is not open yet (one thread at a time).
    pub(super) fn part(
        &self,
        entry: EntryIndex,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<Part>> {
        let mut parts = lock(&self.parts);
        if let Some(at) = parts.iter().position(|(known, _)| *known == entry) {
            parts[..=at].rotate_right(1);
            return Ok(parts[0].1.clone());
        }
        let map = DataMap::new(&self.entry(entry).kind);
        let part = Arc::new(Part { file: open()?, map, writing: Mutex::new(()) });
        parts.truncate(PARTS_OPEN_MAX - 1);
        parts.insert(0, (entry, part.clone()));
        Ok(part)
    }

    /// Close a file's part file.
    pub(super) fn close_part(&self, entry: EntryIndex) {
        lock(&self.parts).retain(|(known, _)| *known != entry);
    }

    /// Make a new part file. What an earlier run left is removed, the journal first: it must never speak of a part
    /// file that is not its own.
    pub(super) fn create_part(&self, entry: EntryIndex) -> io::Result<File> {
        let (folder, name) = self.parent(entry)?;
        if self.is_journalled(entry) {
            remove_file(&folder, &journal_name(name))?;
        }
        Ok(create_new(&folder, &part_name(name))?)
    }

    /// Open a part file that was made before.
    pub(super) fn reopen_part(&self, entry: EntryIndex) -> io::Result<File> {
        let (folder, name) = self.parent(entry)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&folder, part_name(name), flags, Mode::empty())?.into())
    }

    /// Open a file's journal to append to it: a new one, or the one that is there.
    pub(super) fn open_journal(&self, entry: EntryIndex, fresh: bool) -> io::Result<File> {
        let (folder, name) = self.parent(entry)?;
        let name = journal_name(name);
        if fresh {
            return Ok(create_new(&folder, &name)?);
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&folder, name, flags, Mode::empty())?.into())
    }

    pub(super) fn remove_journal(&self, entry: EntryIndex) -> io::Result<()> {
        let (folder, name) = self.parent(entry)?;
        Ok(remove_file(&folder, &journal_name(name))?)
    }

    pub(super) fn remove_part(&self, entry: EntryIndex) -> io::Result<()> {
        self.close_part(entry);
        let (folder, name) = self.parent(entry)?;
        Ok(remove_file(&folder, &part_name(name))?)
    }

    /// Give a part file that holds all data its length, permissions, time and name.
    pub(super) fn land(&self, entry: EntryIndex, file: &File) -> io::Result<()> {
        let wanted = self.entry(entry);
        if let Kind::File { size, .. } = wanted.kind {
            let stat = fstat(file)?;
            if stat.st_size as u64 != size {
                file.set_len(size)?;
            }
        }
        let (folder, name) = self.parent(entry)?;
        let part = part_name(name);
        if self.is_journalled(entry) {
            let (ours, there) = (fstat(file)?, statat(&folder, part.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?);
            if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino) {
                return Err(io::Error::other("another copy is writing the same file"));
            }
        }
        fchmod(file, self.mode(wanted))?;
        futimens(file, &times(wanted))?;
        Ok(renameat(&folder, part.as_slice(), &folder, name)?)
    }

    /// Store an empty file.
    pub(super) fn land_empty(&self, entry: EntryIndex) -> io::Result<()> {
        let file = self.create_part(entry)?;
        self.land(entry, &file)
    }

    /// Store a symbolic link.
    pub(super) fn land_link(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        let Kind::Symlink { target } = &wanted.kind else { return Ok(()) };
        let (folder, name) = self.parent(entry)?;
        let part = part_name(name);
        remove_file(&folder, &part)?;
        symlinkat(target.as_slice(), &folder, part.as_slice())?;
        utimensat(&folder, part.as_slice(), &times(wanted), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(renameat(&folder, part.as_slice(), &folder, name)?)
    }

    /// Make a folder, or see to it that an existing one can be written to.
    pub(super) fn make_folder(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        if wanted.path.is_empty() {
            return Ok(());
        }
        let (folder, name) = self.parent(entry)?;
        match mkdirat(&folder, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if stat.st_mode & libc::S_IFMT != libc::S_IFDIR {
                    return Err(Errno::NOTDIR.into());
                }
                if stat.st_mode & 0o700 != 0o700 {
                    chmodat(
                        &folder,
                        name,
                        Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700),
                        AtFlags::empty(),
                    )?;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Give a folder its permissions and time, when nothing more changes in it.
    pub(super) fn finish_folder(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        if wanted.path.is_empty() && self.place.keeps_top {
            return Ok(());
        }
        let folder = lock(&self.folders).open(&wanted.path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(folder, ".", flags, Mode::empty())?;
        futimens(&folder, &times(wanted))?;
        Ok(fchmod(&folder, self.mode(wanted))?)
    }

    /// Give a file that was already there the permissions and time that the source has.
    pub(super) fn fix_file(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        let (folder, name) = self.parent(entry)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = openat(&folder, name, flags, Mode::empty())?;
        if fstat(&there)?.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(());
        }
        chmodat(&folder, name, self.mode(wanted), AtFlags::empty())?;
        Ok(utimensat(&folder, name, &times(wanted), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Remove something that the source has not, with all that is in it. What vanished by itself is no error.
    pub(super) fn remove(&self, path: &[u8]) -> io::Result<()> {
        let (folder, name) = match lock(&self.folders).parent(path) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        remove_tree(&folder, name)
    }

    /// Forget handles of folders that may be gone.
    pub(super) fn forget_folders(&self) {
        lock(&self.folders).forget();
    }

    /// The folder that an entry lies in, made if it is missing, and the entry's name in it.
    fn parent(&self, entry: EntryIndex) -> io::Result<(Arc<OwnedFd>, &[u8])> {
        let path = self.place.rename.as_deref().unwrap_or(&self.entry(entry).path);
        let (parent, name) = split(path);
        let mut folders = lock(&self.folders);
        match folders.open(parent) {
            Ok(folder) => Ok((folder, name)),
            Err(Errno::NOENT) => Ok((make_all(&mut folders, parent)?, name)),
            Err(error) => Err(error.into()),
        }
    }

    fn mode(&self, entry: &Entry) -> Mode {
        Mode::from_raw_mode(entry.mode & self.place.mode_mask)
    }
}

/// Bytes that may still be stored in the file system of a folder; `None` where it does not tell.
pub(super) fn room(folder: impl AsFd) -> Option<u64> {
    let stat = fstatvfs(folder).ok()?;
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn make_all(folders: &mut Folders, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).chain([path.len()]);
    for end in ends {
        let (parent, name) = folders.parent(&path[..end])?;
        match mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    folders.open(path)
}

/// Make a file that was not there, in place of whatever was.
fn create_new(folder: &OwnedFd, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    match openat(folder, name, flags, mode) {
        Err(Errno::EXIST) => {
            remove_file(folder, name)?;
            openat(folder, name, flags, mode).map(File::from)
        }
        other => other.map(File::from),
    }
}

fn remove_file(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn remove_tree(folder: &OwnedFd, name: &[u8]) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = openat(folder, name, flags, Mode::empty())?;
    for (item, _) in super::folders::list(&inner)? {
        remove_tree(&inner, &item)?;
    }
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

fn times(entry: &Entry) -> Timestamps {
    let stamp = Timespec { tv_sec: entry.mtime.0, tv_nsec: entry.mtime.1.into() };
    let untouched = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps { last_access: untouched, last_modification: stamp }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Part files kept open: large files of which packets are missing may be many, and handles are few.
const PARTS_OPEN_MAX: usize = 64;
