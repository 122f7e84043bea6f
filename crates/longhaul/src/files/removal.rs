//! Removes trees, however deep they are.

use super::calls::unlinkat;
use super::twins::inode_of;
use rustix::fs::{AtFlags, Mode, OFlags, openat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Remove what is below a folder of this path.
#[cfg(test)]
pub(super) fn remove_below(folder: &std::path::Path, name: &[u8]) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    remove_tree(&openat(rustix::fs::CWD, folder, flags, Mode::empty())?, name)
}

/// Remove a file, a link or a folder with all in it. However deep the tree is: at work are the handles of two folders, and of
/// those above only what tells them apart.
pub(super) fn remove_tree(folder: &OwnedFd, name: &[u8]) -> io::Result<()> {
    if remove_leaf(folder, name)? {
        return Ok(());
    }
    let mut at = open_inner(folder, name)?;
    let mut left = clear(&at)?;
    let mut above: Vec<Above> = vec![];
    loop {
        if let Some(name) = left.pop() {
            let inner = match open_inner(&at, &name) {
                Err(Errno::NOENT) => continue,
                opened => opened?,
            };
            above.push(Above { identity: inode_of(&at)?, name, left });
            left = clear(&inner)?;
            at = inner;
        } else if let Some(up) = above.pop() {
            at = open_inner(&at, b"..")?;
            if inode_of(&at)? != up.identity {
                return Err(io::Error::other(
                    "it was moved while it was removed; run the same command again",
                ));
            }
            unlinkat(&at, up.name.as_slice(), AtFlags::REMOVEDIR)?;
            left = up.left;
        } else {
            return Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?);
        }
    }
}

/// A folder that is removed after what is in it.
struct Above {
    identity: (u64, u64),
    /// The one in it that is at work, and those whose turn comes then.
    name: Vec<u8>,
    left: Vec<Vec<u8>>,
}

/// Remove all in a folder but folders that hold something; those are named.
fn clear(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut left = vec![];
    for (name, _) in super::folders::list(folder)? {
        if !remove_leaf(folder, &name)? {
            left.push(name);
        }
    }
    Ok(left)
}

/// Remove a file, a link or an empty folder. `false`: it is a folder that holds something.
fn remove_leaf(folder: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn open_inner(folder: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
