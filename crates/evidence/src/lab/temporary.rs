//! Folders for temporary files. What a killed program left can be told from what is in use, and removed.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that is removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    /// The kernel gives it up with the process, however that ends.
    _lock: File,
}

impl Folder {
    /// A new, empty one.
    pub(crate) fn new() -> io::Result<Folder> {
        Folder::new_in(&std::env::temp_dir())
    }

    /// One with room for so many bytes: in memory, or else where temporary files are.
    pub(crate) fn with_room(bytes: u64) -> io::Result<Folder> {
        let is_free = |parent: &PathBuf| {
            let free = rustix::fs::statvfs(parent).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
            free.is_ok_and(|free| free >= bytes)
        };
        let mut parents = [PathBuf::from(MEMORY), std::env::temp_dir()].into_iter();
        parents
            .find(is_free)
            .ok_or(io::ErrorKind::StorageFull.into())
            .and_then(|parent| Folder::new_in(&parent))
    }

    fn new_in(parent: &Path) -> io::Result<Folder> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::open(folder.path())?;
        lock.lock()?;
        Ok(Folder { folder, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Remove those that nobody uses any more; which they were.
pub fn remove_abandoned() -> io::Result<Vec<PathBuf>> {
    let mut removed = remove_abandoned_in(&std::env::temp_dir())?;
    if Path::new(MEMORY).is_dir() {
        removed.extend(remove_abandoned_in(Path::new(MEMORY))?);
    }
    Ok(removed)
}

fn remove_abandoned_in(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut removed = vec![];
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // Not where a link of that name leads to.
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_abandoned(&entry.path()) {
            fs::remove_dir_all(entry.path())?;
            removed.push(entry.path());
        }
    }
    removed.sort_unstable();
    Ok(removed)
}

/// Others' folders cannot be opened, and count as used.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(file) = File::open(folder) else { return false };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// Where files are kept in memory.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "longhaul-lab-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_said_before_anything_is_written() {
        assert_eq!(Folder::with_room(1 << 60).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn what_nobody_holds_any_more_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let used = Folder::new_in(parent.path()).unwrap();
        let left = Folder::new_in(parent.path()).unwrap();
        fs::write(left.path().join("payload"), "noise").unwrap();
        // As of a program that was killed: the lock is gone and the folder is not.
        let Folder { folder, _lock } = left;
        let left = folder.keep();
        // A child that another test is about to start has a copy of the descriptor.
        _lock.unlock().unwrap();
        let elsewhere = parent.path().join("somebody's");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, parent.path().join("longhaul-lab-link")).unwrap();
        assert_eq!(remove_abandoned_in(parent.path()).unwrap(), [left]);
        assert!(used.path().exists() && elsewhere.exists());
        assert!(remove_abandoned_in(parent.path()).unwrap().is_empty());
        let was_used = used.path().to_owned();
        drop(used);
        assert!(!was_used.exists());
    }
}
