//! Brings what was stored to the disk itself, and asks what became of it on the way there.

use super::calls::{fstatfs, fsync, openat, sync_file_range, syncfs};
use rustix::fs::{Mode, OFlags, fstat, fstatvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The file system that a destination is in.
#[derive(Debug, Default)]
pub(super) struct Disk {
    whole: Option<Whole>,
}

/// A file system that can be brought to the disk as a whole.
#[derive(Debug)]
struct Whole {
    top: File,
    /// Opened by itself: the system tells each error once to who has it open.
    for_all: File,
    /// It has told this one of an error.
    has_failed: AtomicBool,
    device: u64,
    /// Nothing is left to do for a file after that.
    is_thorough: bool,
}

/// What is on the disk after a whole file system was brought there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    device: u64,
    is_thorough: bool,
}

impl Whole {
    fn covered(&self) -> Covered {
        Covered { device: self.device, is_thorough: self.is_thorough }
    }
}

impl Covered {
    /// Whether this file or folder is.
    pub(super) fn holds(&self, file: impl AsFd) -> bool {
        self.is_thorough && fstat(file).is_ok_and(|stat| stat.st_dev == self.device)
    }
}

impl Disk {
    /// The one that a folder is in.
    pub(super) fn of(folder: &OwnedFd) -> Disk {
        let whole = || {
            let top = reopen(folder)?;
            let kind = fstatfs(&top)?.f_type as u64 & 0xffff_ffff;
            let (device, is_thorough) = (fstat(&top)?.st_dev, THOROUGH.contains(&kind));
            let (for_all, has_failed) = (reopen(folder)?, AtomicBool::new(false));
            Ok(Whole { top, for_all, has_failed, device, is_thorough })
        };
        // A folder that may not be read is no reason to fail: its files are brought to the disk one by one.
        let whole: Result<Whole, Errno> = whole();
        Disk { whole: whole.ok() }
    }

    /// Bring the whole file system to the disk. `None` if that cannot be done, or somebody's data did not get there, now or
    /// before.
    pub(super) fn sync_whole(&self) -> Option<Covered> {
        let whole = self.whole.as_ref()?;
        let is_done = syncfs(&whole.for_all).is_ok();
        if whole.has_failed.fetch_or(!is_done, Ordering::Relaxed) || !is_done {
            return None;
        }
        Some(whole.covered())
    }

    /// Bring new files to the disk: what came of each. Many go together, which costs the disk a pass instead of one for
    /// each.
    pub(super) fn sync(&self, files: &[&File]) -> Vec<io::Result<()>> {
        let thorough = self.whole.as_ref().filter(|whole| whole.is_thorough && files.len() >= MANY);
        let covered = thorough.filter(|whole| syncfs(&whole.top).is_ok()).map(Whole::covered);
        let sync = |file: &&File| match covered {
            // Others' errors come up with the whole, ours with the file.
            Some(covered) if covered.holds(file) => errors_so_far(file),
            _ => Ok(fsync(file)?),
        };
        files.iter().map(sync).collect()
    }
}

/// Open for reading what is held as a place only.
pub(super) fn reopen(folder: &OwnedFd) -> Result<File, Errno> {
    openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

/// Make a file without a name in a folder; `None` where the file system does not allow it.
pub(super) fn unnamed(folder: &OwnedFd) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match openat(folder, ".", flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Bytes that may still be stored in the file system of a folder; `None` where it does not tell.
pub(super) fn room(folder: impl AsFd) -> Option<u64> {
    let stat = fstatvfs(folder).ok()?;
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Have a stretch of a file begin its way to the disk.
pub(super) fn begin_sync(file: &File, offset: u64, len: u64) -> io::Result<()> {
    range(file, offset, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Wait for a stretch that has begun its way to the disk.
pub(super) fn await_sync(file: &File, offset: u64, len: u64) -> io::Result<()> {
    range(file, offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

/// The error, if one is known, that the file's data met on the way to the disk. Network file systems store their data when
/// a descriptor is closed, so a copy of the descriptor is. The kernel reports each error once.
pub(super) fn ask(file: &File) -> io::Result<()> {
    let second = file.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor is ours alone and is not used again, whatever closing says.
    if unsafe { libc::close(second) } != 0 {
        return Err(io::Error::last_os_error());
    }
    errors_so_far(file)
}

/// Waits for a range beyond the end of any file, so for nothing: what is reported is about the whole file.
fn errors_so_far(file: &File) -> io::Result<()> {
    await_sync(file, BEYOND, 1)
}

fn range(file: &File, offset: u64, len: u64, how: libc::c_uint) -> io::Result<()> {
    match sync_file_range(file, offset, len, how) {
        // Where the system lacks it nothing is known, which is no error.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        done => done,
    }
}

/// From so many files on, the whole file system is synced instead of each file: slower than a few single syncs, faster than
/// many.
pub(super) const MANY: usize = 8;

const BEYOND: u64 = 1 << 62;

/// File systems in which `syncfs` brings everything to the disk. Others, such as FUSE, may not pass it on.
const THOROUGH: [u64; 4] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn few_and_many_files_reach_the_disk() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let disk = Disk::of(&File::open(folder.path()).unwrap().into());
        for count in [1, MANY - 1, 3 * MANY] {
            let files: Vec<File> =
                (0..count).map(|_| tempfile::tempfile_in(folder.path()).unwrap()).collect();
            for mut file in &files {
                file.write_all(b"data").unwrap();
                begin_sync(file, 0, 4).unwrap();
                ask(file).unwrap();
            }
            let synced = disk.sync(&files.iter().collect::<Vec<_>>());
            assert!(synced.len() == count && synced.iter().all(Result::is_ok), "{synced:?}");
        }
        assert!(disk.sync_whole().is_some());
    }
}
