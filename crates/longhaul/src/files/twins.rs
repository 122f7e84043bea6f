//! Entries of a part whose paths differ only in case. A file system that does not tell such paths apart has room for one of
//! them: the one whose name is there keeps its place, the others fail by name. Without this each would replace the one before it.
//! Those of one part are known before any of them is stored. Of two that are in different parts the one that comes first stays.

use super::calls::statat;
use super::folders::{Folders, list, split};
use longhaul_proto::session::manifest::{EntryIndex, Manifest};
use rustix::fs::{AtFlags, fstat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Those of a manifest. They are looked for when the first entry meets its destination.
#[derive(Debug, Default)]
pub(super) struct Twins {
    /// All that a path may be taken for, itself included.
    groups: OnceLock<HashMap<EntryIndex, Arc<[EntryIndex]>>>,
}

impl Twins {
    /// The path of another entry that has the place to which this one's path leads; `beside`: what of each is looked at.
    pub(super) fn holder<'m>(
        &self,
        manifest: &'m Manifest,
        index: EntryIndex,
        folders: &mut Folders,
        beside: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Option<&'m [u8]> {
        let group = self.groups.get_or_init(|| groups(manifest)).get(&index)?;
        let path = |index: EntryIndex| manifest.entries[index as usize].path.as_slice();
        let own = beside(path(index));
        let others = group.iter().filter(|other| **other != index).take(ALIKE_MAX).map(|other| path(*other));
        others.into_iter().find(|other| leads_to(folders, &own, &beside(other)))
    }
}

/// What the paths of a copy in parts stand for, in folders that take names of other case for one another.
#[derive(Debug, Default)]
pub(super) struct Taken(Mutex<Paths>);

#[derive(Debug, Default)]
struct Paths {
    /// Folders looked at lately, and whether they do so.
    folding: HashMap<Vec<u8>, bool>,
    /// Hashes of paths without their case, and of the very path that has the place.
    paths: HashMap<u64, u64>,
}

impl Taken {
    /// The name of what has the place in `folder` to which `path` leads, if that is another path's. If nobody has it, this path has
    /// it from now on, as soon as there is something.
    pub(super) fn holder(&self, folder: &OwnedFd, path: &[u8]) -> Option<Vec<u8>> {
        let (above, name) = split(path);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let folds = match known.folding.get(above) {
            Some(folds) => *folds,
            None => {
                let folds = folds(folder, name)?;
                if known.folding.len() >= FOLDERS_MAX {
                    known.folding.clear();
                }
                known.folding.insert(above.to_vec(), folds);
                folds
            }
        };
        if !folds {
            return None;
        }
        let (folded, own) = (folded_hash(path), hash(path));
        let Some(holder) = known.paths.get(&folded) else {
            if known.paths.len() < PATHS_MAX {
                known.paths.insert(folded, own);
            }
            return None;
        };
        if *holder == own {
            return None;
        }
        let names = list(folder).unwrap_or_default();
        let other = names.into_iter().map(|(listed, _)| listed).find(|listed| is_alike(listed, name));
        Some(other.unwrap_or_else(|| name.to_vec()))
    }
}

/// Whether a folder takes the name of something in it for one of other case; `None` where this name cannot tell.
fn folds(folder: &OwnedFd, name: &[u8]) -> Option<bool> {
    let swap = |byte: &u8| {
        if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }
    };
    let other: Vec<u8> = name.iter().map(swap).collect();
    if other == name {
        return None;
    }
    let there = inode(folder, name).ok()?;
    if inode(folder, &other) != Ok(there) {
        return Some(false);
    }
    // Two names of one file are both listed.
    let names = list(folder).ok()?;
    let count = names.iter().filter(|(listed, _)| listed == name || *listed == other).count();
    Some(count < 2)
}

fn groups(manifest: &Manifest) -> HashMap<EntryIndex, Arc<[EntryIndex]>> {
    let entries = (0..).zip(&manifest.entries);
    let mut folded: Vec<_> = entries.map(|(index, entry)| (folded_hash(&entry.path), index)).collect();
    folded.sort_unstable();
    let mut groups = HashMap::new();
    for group in folded.chunk_by(|one, next| one.0 == next.0).filter(|group| group.len() > 1) {
        let members: Arc<[EntryIndex]> = group.iter().map(|(_, index)| *index).collect();
        groups.extend(members.iter().map(|index| (*index, members.clone())));
    }
    groups
}

/// Where a file system takes them for one, any of them shows it.
const ALIKE_MAX: usize = 64;

/// Whether a file system may take two names for one another.
pub(super) fn is_alike(one: &[u8], other: &[u8]) -> bool {
    folded_hash(one) == folded_hash(other)
}

/// Equal for paths that a file system may take for one another.
fn folded_hash(path: &[u8]) -> u64 {
    match std::str::from_utf8(path) {
        Ok(text) if !text.is_ascii() => hash(text.to_lowercase().as_bytes()),
        _ => hash(&path.to_ascii_lowercase()),
    }
}

fn hash(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// What tells what a name leads to from all else.
pub(super) fn inode(folder: &OwnedFd, name: &[u8]) -> Result<(u64, u64), Errno> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (stat.st_dev, stat.st_ino))
}

/// The same of what is open.
pub(super) fn inode_of(file: impl AsFd) -> Result<(u64, u64), Errno> {
    fstat(file).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Whether `path` leads to what has the path `other`.
fn leads_to(folders: &mut Folders, path: &[u8], other: &[u8]) -> bool {
    if path == other {
        return true;
    }
    let ((above, name), (other_above, other_name)) = (split(path), split(other));
    let is_taken_for =
        name == other_name || folders.open(above).is_ok_and(|folder| is_called(&folder, name, other_name));
    is_taken_for && leads_to(folders, above, other_above)
}

/// Whether what `name` leads to is called `other` and nothing else.
fn is_called(folder: &OwnedFd, name: &[u8], other: &[u8]) -> bool {
    if inode(folder, name).is_err() || inode(folder, name) != inode(folder, other) {
        return false;
    }
    // Two names of one file are both listed.
    let names = list(folder).unwrap_or_default();
    let is_listed = |wanted| names.iter().any(|(listed, _)| listed == wanted);
    is_listed(other) && !is_listed(name)
}

/// A look tells it again.
const FOLDERS_MAX: usize = 4096;
/// 36 MiB. What comes after that many paths is not compared with them.
const PATHS_MAX: usize = 1 << 20;
