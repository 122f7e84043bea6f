//! What the destination has and the source has not, to be removed at the end (`FileOptions::delete`).
//!
//! Folders are compared one at a time, as the source lists them: the names that a folder holds here are noted when the
//! source names the folder, crossed off as the source names what is in it, and what is left when the source has gone on
//! elsewhere is extraneous. So only the names of folders that are being listed are in memory.

use super::disk::unnamed;
use super::exclude::Exclude;
use super::folders::{Folders, list, split};
use super::names::{file_of_journal, file_of_part, is_journal, is_of_pieces, journal_name, journal_of_part};
use super::scan::{PATH_MAX, is_below, join};
use super::spill::Spill;
use super::twins::{inode, is_alike};
use longhaul_proto::session::manifest::{Entry, Kind, Manifest, by_components};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The topmost paths that the destination has and the source has not, without those that a pattern protects and the folders
/// above these.
#[derive(Debug, Default)]
pub(super) struct Extraneous {
    paths: Spill,
    /// What the source has was told in an order from which this cannot be known.
    is_unclear: bool,
    /// Where there are patterns: what they protect may have come since.
    protects: Option<(Arc<OwnedFd>, Exclude)>,
}

impl Extraneous {
    /// Whether there is nothing to remove, as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.is_unclear
    }

    /// Whether it is known what to remove.
    pub(super) fn is_clear(&self) -> bool {
        !self.is_unclear
    }

    #[cfg(test)]
    pub(super) fn paths(&self) -> Vec<Vec<u8>> {
        let mut paths = vec![];
        self.for_each(|path| paths.push(path.to_vec())).unwrap();
        paths
    }

    /// Go through the paths.
    pub(super) fn for_each(&self, look: impl FnMut(&[u8])) -> std::io::Result<()> {
        self.paths.for_each(look)
    }

    /// Go through what of them may be removed now; `None`: of one that is not known.
    pub(super) fn for_each_unprotected(&self, mut look: impl FnMut(Option<&[u8]>)) -> std::io::Result<()> {
        let Some((top, exclude)) = &self.protects else { return self.for_each(|path| look(Some(path))) };
        let mut folders = Folders::new(top.clone());
        self.for_each(|path| {
            let is_folder = folders.open(path).is_ok();
            match unprotected(&mut folders, path.to_vec(), is_folder, exclude) {
                Some(paths) => paths.iter().for_each(|path| look(Some(path))),
                None => look(None),
            }
        })
    }
}

/// Finds them, part by part.
#[derive(Debug)]
pub(super) struct Sweep {
    top: Arc<OwnedFd>,
    folders: Folders,
    exclude: Exclude,
    /// Folders that are being listed, the topmost first.
    open: Vec<Listed>,
    found: Extraneous,
}

/// A folder that the source is listing.
#[derive(Debug)]
struct Listed {
    path: Vec<u8>,
    /// What is in it here and was not named by the source so far.
    names: HashMap<Vec<u8>, FileType>,
    /// Journals of which something is in it, and whether the source has the file they are about.
    journals: HashMap<Vec<u8>, bool>,
}

impl Listed {
    /// What the source calls `name` may be here under another spelling, where the file system takes the two for one.
    fn forget_alike(&mut self, folders: &mut Folders, name: &[u8]) {
        let Ok(folder) = folders.open(&self.path) else { return };
        // It is not listed: where spelling counts it is not there.
        let Ok(there) = inode(&folder, name) else { return };
        let before = self.names.len();
        self.names.retain(|listed, _| !is_alike(listed, name) || inode(&folder, listed) != Ok(there));
        if self.names.len() == before {
            // Not only in case, as where accents are spelled in several ways.
            self.names.retain(|listed, _| inode(&folder, listed) != Ok(there));
        }
    }
}

impl Sweep {
    pub(super) fn new(top: Arc<OwnedFd>, exclude: Exclude) -> Sweep {
        let folders = Folders::new(top.clone());
        Sweep { top, folders, exclude, open: Vec::new(), found: Extraneous::default() }
    }

    /// Compare a part. After the last one everything is known.
    pub(super) fn part(&mut self, manifest: &Manifest) {
        let seams = &manifest.seams;
        let mut fresh: Vec<&Entry> = manifest.entries.iter().skip(seams.continued as usize).collect();
        let is_whole = seams.continued == 0 && !seams.has_more;
        if is_whole {
            // Several sources may give one folder each a part of what is in it.
            fresh.sort_by(|a, b| by_components(&a.path, &b.path));
        }
        for entry in fresh {
            while let Some(folder) = self.open.pop_if(|folder| !is_below(&entry.path, &folder.path)) {
                self.close(folder);
            }
            self.note(entry, is_whole);
        }
        if !seams.has_more {
            while let Some(folder) = self.open.pop() {
                self.close(folder);
            }
        }
        // Before the first part has been compared nothing is written.
        if seams.continued > 0 {
            let top = &self.top;
            self.found.paths.settle(|| unnamed(top)?.ok_or(std::io::ErrorKind::Unsupported.into()));
        }
    }

    pub(super) fn finish(self) -> Extraneous {
        let protects = (!self.exclude.is_empty()).then_some((self.top, self.exclude));
        Extraneous { protects, ..self.found }
    }

    /// The source has this.
    fn note(&mut self, entry: &Entry, is_whole: bool) {
        let (above, name) = split(&entry.path);
        match self.open.last_mut() {
            Some(folder) if folder.path == above && !entry.path.is_empty() => {
                if folder.names.remove(name).is_none() && !folder.names.is_empty() {
                    folder.forget_alike(&mut self.folders, name);
                }
                if matches!(entry.kind, Kind::File { .. })
                    && !folder.journals.is_empty()
                    && let Some(is_of_use) = folder.journals.get_mut(&journal_name(name))
                {
                    *is_of_use = true;
                }
            }
            // Had its folder been listed before, this would be taken for something that the source has not.
            above => self.found.is_unclear |= !is_whole && (above.is_some() || entry.path.contains(&b'/')),
        }
        if matches!(entry.kind, Kind::Dir) {
            let names = names_in(&mut self.folders, &entry.path);
            self.found.is_unclear |= names.is_none();
            let names = names.unwrap_or_default();
            let journals = names.iter().filter_map(|(name, _)| journal_of(name));
            let journals = journals.map(|journal| (journal, false)).collect();
            self.open.push(Listed { path: entry.path.clone(), names: names.into_iter().collect(), journals });
        }
    }

    /// The source has named all that it has in this folder.
    fn close(&mut self, folder: Listed) {
        let is_of_use = |name: &Vec<u8>| {
            journal_of(name)
                .and_then(|journal| folder.journals.get(&journal))
                .is_some_and(|is_of_use| *is_of_use)
        };
        // What comes in pieces is for the last step of its plan to see to.
        let is_of_use = |name: &Vec<u8>| is_of_use(name) || is_of_pieces(name);
        let mut names: Vec<_> = folder.names.iter().filter(|(name, _)| !is_of_use(name)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        for (name, kind) in names {
            let path = join(&folder.path, name);
            let is_folder = *kind == FileType::Directory;
            let Some(paths) = unprotected(&mut self.folders, path, is_folder, &self.exclude) else {
                self.found.is_unclear = true;
                continue;
            };
            paths.iter().for_each(|path| self.found.paths.push(path));
        }
    }
}

/// The journal that a name is of, or that a part file goes with.
fn journal_of(name: &[u8]) -> Option<Vec<u8>> {
    if is_journal(name) { Some(name.to_vec()) } else { journal_of_part(name) }
}

/// Something that the source has not, or what is in it.
struct Extra {
    path: Vec<u8>,
    is_folder: bool,
    /// The folder that it is in, by its place in the list.
    above: Option<usize>,
    /// It may be removed with all in it.
    is_whole: bool,
}

/// The names in a folder, none where there is no such folder; `None`: it cannot be listed.
fn names_in(folders: &mut Folders, path: &[u8]) -> Option<Vec<(Vec<u8>, FileType)>> {
    match folders.open(path).and_then(|folder| list(&folder)) {
        Ok(names) => Some(names),
        Err(error) => (error == Errno::NOENT).then(Vec::new),
    }
}

/// What of `path` and all in it may be removed: the topmost paths. `None`: a folder in it cannot be listed.
fn unprotected(
    folders: &mut Folders,
    path: Vec<u8>,
    is_folder: bool,
    exclude: &Exclude,
) -> Option<Vec<Vec<u8>>> {
    let mut found = vec![Extra { path, is_folder, above: None, is_whole: true }];
    let mut pending = vec![0];
    while let Some(at) = pending.pop() {
        let Extra { path, is_folder, .. } = &found[at];
        if is_protected(exclude, path, *is_folder) {
            found[at].is_whole = false;
            continue;
        }
        // What lies deeper than any path that is copied has no patterns.
        if !is_folder || exclude.is_empty() || path.len() > PATH_MAX {
            continue;
        }
        let names = names_in(folders, path)?;
        let inner = |(name, kind): (Vec<u8>, FileType)| Extra {
            path: join(path, &name),
            is_folder: kind == FileType::Directory,
            above: Some(at),
            is_whole: true,
        };
        let inner: Vec<Extra> = names.into_iter().map(inner).collect();
        pending.extend(found.len()..found.len() + inner.len());
        found.extend(inner);
    }
    // What is in a folder stands behind it.
    for at in (0..found.len()).rev() {
        if let (false, Some(folder)) = (found[at].is_whole, found[at].above) {
            found[folder].is_whole = false;
        }
    }
    let is_topmost =
        |extra: &&Extra| extra.is_whole && extra.above.is_none_or(|folder| !found[folder].is_whole);
    Some(found.iter().filter(is_topmost).map(|extra| extra.path.clone()).collect())
}

/// A pattern protects what it would have left out at the source, and what another copy has of that on its way. The source may have
/// been given with or without its own name, so both readings count.
fn is_protected(exclude: &Exclude, path: &[u8], is_folder: bool) -> bool {
    let (above, name) = split(path);
    if !is_folder && journal_of(name).is_some() {
        // Of a name that was cut nobody knows whether it is protected.
        let file = file_of_part(name).or_else(|| file_of_journal(name));
        return !exclude.is_empty()
            && file.is_none_or(|file| is_protected(exclude, &join(above, file), false));
    }
    let below_name = path.iter().position(|b| *b == b'/').map(|slash| &path[slash + 1..]);
    exclude.leaves_out(path, is_folder) || below_name.is_some_and(|path| exclude.leaves_out(path, is_folder))
}
