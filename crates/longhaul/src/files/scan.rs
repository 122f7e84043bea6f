//! The sender's first step: what there is to copy.

use super::errors::FileError;
use super::exclude::Exclude;
use super::extents::data_extents;
use super::folders::{Folders, list};
use super::names::is_ours;
use super::root::{Root, Written};
use super::version::Identity;
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Kind, Manifest};
use longhaul_proto::session::message::FileFailure;
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::truncated::Truncated;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something to copy, as the user wrote it: `folder` means the folder, `folder/` what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// Its path.
    pub path: PathBuf,
}

/// What to list, and how closely to look.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Leave these out.
    pub exclude: Exclude,
    /// Of each source folder only these and what is in them, relative to it.
    pub files_from: Option<Vec<PathBuf>>,
    /// Set from outside to end it early; what has been found by then is of no use.
    pub stop: Arc<AtomicBool>,
}

/// What there is to copy.
#[derive(Debug, Default)]
pub struct Scan {
    /// The entries; files of a folder before its subfolders, each sorted by name.
    pub manifest: Manifest,
    /// What could not be listed.
    pub errors: Vec<FileFailure>,
    /// Sockets, pipes and devices: no copy of them would be of use.
    pub left_out: Truncated<Vec<u8>>,
    /// The first entry of each source, and the folder its path is relative to.
    origins: Vec<(EntryIndex, Arc<OwnedFd>)>,
    /// What told of changes of files of several groups, ascending.
    identities: Vec<(EntryIndex, Identity)>,
}

impl Scan {
    /// Lines about what is left out although nobody asked for that.
    pub fn warnings(&self) -> Vec<String> {
        let shown = |path: &Vec<u8>| {
            format!("{}: not copied: neither a file nor a folder nor a link", String::from_utf8_lossy(path))
        };
        let mut lines: Vec<_> = self.left_out.first.iter().take(LEFT_OUT_NAMED).map(shown).collect();
        let more = self.left_out.count() - lines.len() as u64;
        if more > 0 {
            lines.push(format!("{more} more are not copied: neither files nor folders nor links"));
        }
        lines
    }

    /// Why there is nothing to copy, if that is so.
    pub fn emptiness(&self) -> Option<Reason> {
        if !self.manifest.entries.is_empty() {
            return None;
        }
        let failed = self.errors.first().map(|failure| Reason::new(failure.reason.cause, failure));
        Some(failed.unwrap_or_else(|| match self.warnings().into_iter().next() {
            Some(line) => Reason::new(Cause::Other, line),
            None => Reason::new(Cause::Other, "nothing to copy: everything is left out"),
        }))
    }

    /// What told of an entry's changes when it was listed, if it is a file of several groups.
    pub(super) fn identity(&self, entry: EntryIndex) -> Option<Identity> {
        let at = self.identities.binary_search_by_key(&entry, |(known, _)| *known).ok()?;
        Some(self.identities[at].1)
    }

    /// The folder below which an entry was found at its path.
    pub(super) fn origin(&self, entry: EntryIndex) -> Arc<OwnedFd> {
        let at = self.origins.partition_point(|(first, _)| *first <= entry) - 1;
        self.origins[at].1.clone()
    }
}

/// List the sources. Links are kept as links; what cannot be listed becomes an error and the rest goes on.
pub fn scan(root: &Root, sources: &[SourceSpec], options: &ScanOptions) -> Scan {
    let mut scanner = Scanner {
        options,
        scan: Scan::default(),
        taken: (sources.len() > 1 || options.files_from.is_some()).then(HashMap::new),
        folders: HashMap::new(),
    };
    for source in sources {
        let shown = source.path.as_os_str().as_bytes();
        if let Err(error) = scanner.source(root, &source.path) {
            scanner.fail(shown, error);
        }
    }
    scanner.scan
}

struct Scanner<'a> {
    options: &'a ScanOptions,
    scan: Scan,
    /// Paths given so far, and whose they are; kept only where one could come twice.
    taken: Option<HashMap<Vec<u8>, Owner>>,
    /// Handles of the folders that sources lie in.
    folders: HashMap<PathBuf, Arc<OwnedFd>>,
}

/// A folder still to be listed.
struct Pending {
    path: Vec<u8>,
    stat: Stat,
}

/// Who gave a path first.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    is_folder: bool,
    source: usize,
}

/// Whether a path may be used.
enum Claim {
    /// Nobody gave it before.
    New,
    /// It is there already and all is well: a folder of two sources, or a file listed twice.
    Known,
    /// Two sources want to be there.
    Conflict,
}

impl Scanner<'_> {
    fn source(&mut self, root: &Root, path: &Path) -> Result<(), FileError> {
        let written = Written::new(path);
        if self.options.files_from.is_some() {
            let top = self.folder(root, path)?;
            self.begin(&top);
            return self.listed_files(&top);
        }
        let Some(name) = written.name.filter(|_| !written.is_folder) else {
            let top = self.folder(root, path)?;
            self.begin(&top);
            let stat = stat_folder(&top)?;
            self.tree(&mut Folders::new(top.clone()), Pending { path: Vec::new(), stat }, b"");
            return Ok(());
        };
        let parent = self.folder(root, &written.parent)?;
        let stat = statat(&parent, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if self.options.exclude.leaves_out(&name, is_folder) {
            return Ok(());
        }
        self.begin(&parent);
        let mut folders = Folders::new(parent.clone());
        if is_folder {
            self.tree(&mut folders, Pending { path: name.clone(), stat }, &name);
        } else {
            self.leaf(&parent, &name, name.clone(), &stat);
        }
        Ok(())
    }

    fn folder(&mut self, root: &Root, path: &Path) -> Result<Arc<OwnedFd>, FileError> {
        if let Some(known) = self.folders.get(path) {
            return Ok(known.clone());
        }
        let folder = Arc::new(root.open_folder(path)?);
        self.folders.insert(path.into(), folder.clone());
        Ok(folder)
    }

    /// From the next entry on, paths are relative to `origin`.
    fn begin(&mut self, origin: &Arc<OwnedFd>) {
        self.scan.origins.push((self.scan.manifest.entries.len() as EntryIndex, origin.clone()));
    }

    /// A folder and all below it. `below` is the part of the paths that names the source itself.
    fn tree(&mut self, folders: &mut Folders, top: Pending, below: &[u8]) {
        let mut pending = vec![top];
        while let Some(folder) = pending.pop().filter(|_| !self.is_stopped()) {
            match self.claim(&folder.path, true) {
                Claim::New => self.push(folder.path.clone(), Kind::Dir, &folder.stat),
                Claim::Known => {}
                Claim::Conflict => {
                    self.fail(&folder.path, FileError::Twice);
                    continue;
                }
            }
            match folders.open(&folder.path).and_then(|handle| Ok((list(&handle)?, handle))) {
                Ok((names, handle)) => self.folder_items(&handle, &folder.path, names, below, &mut pending),
                Err(error) => self.fail(&folder.path, FileError::step("cannot list this folder")(error)),
            }
        }
    }

    /// The items of one folder: files and links at once, subfolders into `pending` so that the first is on top.
    fn folder_items(
        &mut self,
        handle: &OwnedFd,
        path: &[u8],
        mut names: Vec<(Vec<u8>, FileType)>,
        below: &[u8],
        pending: &mut Vec<Pending>,
    ) {
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let first = pending.len();
        for (name, _) in names {
            if self.is_stopped() {
                return;
            }
            if is_ours(&name) {
                continue;
            }
            let full = join(path, &name);
            let stat = match statat(handle, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Gone since it was listed: as if it had never been there.
                Err(Errno::NOENT) => continue,
                Err(error) => {
                    self.fail(&full, error);
                    continue;
                }
            };
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let relative = full[below.len()..].strip_prefix(b"/").unwrap_or(&full[below.len()..]);
            if self.options.exclude.leaves_out(relative, is_folder) {
                continue;
            }
            if full.len() > PATH_MAX {
                self.fail(&full, FileError::PathTooLong { max: PATH_MAX });
            } else if is_folder {
                pending.push(Pending { path: full, stat });
            } else {
                self.leaf(handle, &name, full, &stat);
            }
        }
        pending[first..].reverse();
    }

    /// Something that is not a folder.
    fn leaf(&mut self, folder: &OwnedFd, name: &[u8], path: Vec<u8>, stat: &Stat) {
        let mut identity = None;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let (kind, found) = self.file(folder, name, stat);
                identity = found;
                kind
            }
            FileType::Symlink => match readlinkat(folder, name, Vec::new()) {
                Ok(target) => Kind::Symlink { target: target.into_bytes() },
                Err(error) => return self.fail(&path, error),
            },
            _ => return self.scan.left_out.push(path),
        };
        match self.claim(&path, false) {
            Claim::New => {
                let entry = self.scan.manifest.entries.len() as EntryIndex;
                self.scan.identities.extend(identity.map(|identity| (entry, identity)));
                self.push(path, kind, stat);
            }
            Claim::Known => {}
            Claim::Conflict => self.fail(&path, FileError::Twice),
        }
    }

    /// A regular file, and what tells of its changes where it may be resumed.
    fn file(&self, folder: &OwnedFd, name: &[u8], stat: &Stat) -> (Kind, Option<Identity>) {
        let size = stat.st_size as u64;
        let may_have_holes = size >= SPARSE_MIN && (stat.st_blocks as u64).saturating_mul(512) < size;
        let mut kind = Kind::File { size, extents: None, version: None };
        if !may_have_holes && size <= GROUP_LEN {
            return (kind, None);
        }
        // Where it cannot be opened, that is not a matter of listing: reading it will say so, and by then it may be
        // possible.
        let Ok(file) = open_to_read(folder, name) else { return (kind, None) };
        let found = Identity::of(&file).ok().filter(|_| size > GROUP_LEN);
        if let Kind::File { extents, version, .. } = &mut kind {
            *extents = if may_have_holes { data_extents(&file, size) } else { None };
            *version = found.and_then(|identity| identity.version(&file));
        }
        (kind, found)
    }

    /// What `files_from` names below `top`.
    fn listed_files(&mut self, top: &Arc<OwnedFd>) -> Result<(), FileError> {
        let stat = stat_folder(top)?;
        if let Claim::New = self.claim(b"", true) {
            self.push(Vec::new(), Kind::Dir, &stat);
        }
        let mut folders = Folders::new(top.clone());
        for listed in self.options.files_from.iter().flatten() {
            if self.is_stopped() {
                break;
            }
            let path = match relative_parts(listed) {
                Some(parts) => parts.join(&b'/'),
                None => {
                    self.fail(listed.as_os_str().as_bytes(), FileError::LeavesSource);
                    continue;
                }
            };
            if let Err(error) = self.listed_file(&mut folders, &path) {
                self.fail(&path, error);
            }
        }
        Ok(())
    }

    fn listed_file(&mut self, folders: &mut Folders, path: &[u8]) -> Result<(), FileError> {
        if path.is_empty() {
            let stat = stat_folder(&folders.open(b"")?)?;
            self.tree(folders, Pending { path: Vec::new(), stat }, b"");
            return Ok(());
        }
        // The folders on the way down are copied too, without what else is in them.
        for (slash, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
            let ancestor = &path[..slash];
            let stat = stat_folder(&folders.open(ancestor)?)?;
            match self.claim(ancestor, true) {
                Claim::New => self.push(ancestor.to_vec(), Kind::Dir, &stat),
                Claim::Known => {}
                Claim::Conflict => return Err(FileError::Twice),
            }
        }
        let (folder, name) = folders.parent(path)?;
        let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if self.options.exclude.leaves_out(path, is_folder) {
            return Ok(());
        }
        if is_folder {
            self.tree(folders, Pending { path: path.to_vec(), stat }, b"");
        } else {
            self.leaf(&folder, name, path.to_vec(), &stat);
        }
        Ok(())
    }

    /// Note that the source at work gives `path`.
    fn claim(&mut self, path: &[u8], is_folder: bool) -> Claim {
        let owner = Owner { is_folder, source: self.scan.origins.len() };
        let Some(taken) = &mut self.taken else { return Claim::New };
        match taken.get(path) {
            None => {
                taken.insert(path.to_vec(), owner);
                Claim::New
            }
            Some(first) if *first == owner || (first.is_folder && is_folder) => Claim::Known,
            Some(_) => Claim::Conflict,
        }
    }

    fn push(&mut self, path: Vec<u8>, kind: Kind, stat: &Stat) {
        self.scan.manifest.entries.push(Entry {
            path,
            kind,
            mode: stat.st_mode & 0o7777,
            mtime: mtime(stat),
        });
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    fn fail(&mut self, path: &[u8], error: impl Into<FileError>) {
        self.scan.errors.push(FileFailure { path: path.to_vec(), reason: error.into().into() });
    }
}

/// Open a regular file to read it; anything that took its place is refused without waiting for it.
pub(super) fn open_to_read(folder: &OwnedFd, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Last modification: seconds since 1970 and nanoseconds.
pub(super) fn mtime(stat: &Stat) -> (i64, u32) {
    (stat.st_mtime, stat.st_mtime_nsec as u32)
}

/// `folder/name`, or `name` alone below the top.
pub(super) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, name].join(&b'/') }
}

fn stat_folder(folder: impl AsFd) -> Result<Stat, FileError> {
    Ok(rustix::fs::fstat(folder)?)
}

/// The names that make up a relative path; `None` if it goes up.
fn relative_parts(path: &Path) -> Option<Vec<Vec<u8>>> {
    let names = path.as_os_str().as_bytes().split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".");
    names.map(|name| (name != b".." && !name.contains(&0)).then(|| name.to_vec())).collect()
}

/// More would hide what else is told: a home folder may hold hundreds of sockets.
const LEFT_OUT_NAMED: usize = 10;

/// The longest path the manifest takes (Linux's own limit).
pub(super) const PATH_MAX: usize = 4096;

/// Shorter files are not searched for holes.
const SPARSE_MIN: u64 = 32 << 10;
