//! Handles of folders below one folder, opened a component at a time and never through a link.

use super::calls::{mkdirat, openat};
use rustix::fs::{AtFlags, DirEntry, FileType, Mode, OFlags, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A folder and the handles used last below it.
#[derive(Debug)]
pub(super) struct Folders {
    /// `None`: there is no such folder.
    top: Option<Arc<OwnedFd>>,
    /// Most recently used first.
    recent: Vec<(Vec<u8>, Arc<OwnedFd>)>,
}

impl Folders {
    pub(super) fn new(top: impl Into<Option<Arc<OwnedFd>>>) -> Folders {
        Folders { top: top.into(), recent: Vec::new() }
    }

    /// The folder at `path` below the top (empty: the top itself).
    pub(super) fn open(&mut self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        if path.is_empty() {
            return self.top.clone().ok_or(Errno::NOENT);
        }
        if let Some(at) = self.recent.iter().position(|(known, _)| known == path) {
            self.recent[..=at].rotate_right(1);
            return Ok(self.recent[0].1.clone());
        }
        let (parent, name) = split(path);
        let parent = match self.recent.iter().position(|(known, _)| known == parent) {
            Some(at) => self.recent[at].1.clone(),
            None => self.walk(parent)?,
        };
        let handle = Arc::new(openat(&parent, name, FOLDER_FLAGS, Mode::empty())?);
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.insert(0, (path.to_vec(), handle.clone()));
        Ok(handle)
    }

    /// The folder that holds `path`, and the name of `path` in it.
    pub(super) fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(Arc<OwnedFd>, &'p [u8]), Errno> {
        let (parent, name) = split(path);
        Ok((self.open(parent)?, name))
    }

    /// Forget the handles, as after something was removed or renamed.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
    }

    fn walk(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        let mut at = self.top.clone().ok_or(Errno::NOENT)?;
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            at = Arc::new(openat(&at, name, FOLDER_FLAGS, Mode::empty())?);
        }
        Ok(at)
    }
}

/// Make a folder and those above it.
pub(super) fn make_all(folders: &mut Folders, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
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

/// A path's folder (empty: the top) and its last component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// The names in a folder with what they are, unsorted.
pub(super) fn list(folder: &OwnedFd) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut names = Vec::new();
    for item in rustix::fs::Dir::new(openat(folder, ".", flags, Mode::empty())?)? {
        let item = item?;
        let name = item.file_name();
        if name != c"." && name != c".." {
            names.push((name.to_bytes().to_vec(), kind_of(folder, &item)));
        }
    }
    Ok(names)
}

/// Not every file system tells with the name what it is.
fn kind_of(folder: &OwnedFd, item: &DirEntry) -> FileType {
    match item.file_type() {
        FileType::Unknown => statat(folder, item.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        told => told,
    }
}

const FOLDER_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Handles kept: enough for a path of usual depth and a few of its neighbours.
const RECENT_MAX: usize = 32;
