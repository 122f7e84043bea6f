//! Entries of a part whose paths differ only in case. A file system that does not tell such paths apart has room for one of
//! them: the one whose name is there keeps its place, the others fail by name. Without this each would replace the one before it.

use super::calls::statat;
use super::folders::{Folders, list, split};
use longhaul_proto::session::manifest::{EntryIndex, Manifest};
use rustix::fs::AtFlags;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Those of a manifest. They are looked for when the first entry meets its destination.
#[derive(Debug, Default)]
pub(super) struct Twins {
    /// All that a path may be taken for, itself included.
    groups: OnceLock<HashMap<EntryIndex, Box<[EntryIndex]>>>,
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
        let others = group.iter().filter(|other| **other != index).map(|other| path(*other));
        others.into_iter().find(|other| leads_to(folders, &own, &beside(other)))
    }
}

fn groups(manifest: &Manifest) -> HashMap<EntryIndex, Box<[EntryIndex]>> {
    let entries = (0..).zip(&manifest.entries);
    let mut folded: Vec<_> = entries.map(|(index, entry)| (folded_hash(&entry.path), index)).collect();
    folded.sort_unstable();
    let mut groups = HashMap::new();
    for group in folded.chunk_by(|one, next| one.0 == next.0).filter(|group| group.len() > 1) {
        let members: Box<[EntryIndex]> = group.iter().map(|(_, index)| *index).collect();
        groups.extend(members.iter().map(|index| (*index, members.clone())));
    }
    groups
}

/// Whether a file system may take two names for one another.
pub(super) fn is_alike(one: &[u8], other: &[u8]) -> bool {
    folded_hash(one) == folded_hash(other)
}

/// Equal for paths that a file system may take for one another.
fn folded_hash(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match std::str::from_utf8(path) {
        Ok(text) if !text.is_ascii() => text.to_lowercase().as_bytes().hash(&mut hasher),
        _ => path.to_ascii_lowercase().hash(&mut hasher),
    }
    hasher.finish()
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
pub(super) fn is_called(folder: &OwnedFd, name: &[u8], other: &[u8]) -> bool {
    let inode = |name| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| (stat.st_dev, stat.st_ino));
    if inode(name).is_err() || inode(name) != inode(other) {
        return false;
    }
    // Two names of one file are both listed.
    let names = list(folder).unwrap_or_default();
    let is_listed = |wanted| names.iter().any(|(listed, _)| listed == wanted);
    is_listed(other) && !is_listed(name)
}
