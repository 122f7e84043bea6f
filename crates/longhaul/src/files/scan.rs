//! The sender's first step: what there is to copy.

use super::errors::why;
use super::exclude::Exclude;
use super::extents::data_extents;
use super::folders::{Folders, list};
use super::hash::hash_of_file;
use super::names::is_ours;
use super::root::{Root, Written};
use longhaul_proto::session::manifest::{Entry, EntryIndex, Kind, Manifest};
use longhaul_proto::session::message::FileFailure;
use longhaul_proto::session::told::Told;
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
    /// Hash every file, so that the other side can compare contents.
    pub checksum: bool,
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
    pub left_out: Told<Vec<u8>>,
    /// The first entry of each source, and the folder its path is relative to.
    origins: Vec<(EntryIndex, Arc<OwnedFd>)>,
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
    pub fn emptiness(&self) -> Option<String> {
        if !self.manifest.entries.is_empty() {
            return None;
        }
        let failed = self.errors.first().map(FileFailure::to_string);
        Some(failed.unwrap_or_else(|| match self.warnings().into_iter().next() {
            Some(line) => line,
            None => "nothing to copy: everything is left out".into(),
        }))
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
        if let Err(reason) = scanner.source(root, &source.path) {
            scanner.fail(shown, reason);
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
    fn source(&mut self, root: &Root, path: &Path) -> Result<(), String> {
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
        let stat = statat(&parent, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).map_err(why)?;
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

    fn folder(&mut self, root: &Root, path: &Path) -> Result<Arc<OwnedFd>, String> {
        if let Some(known) = self.folders.get(path) {
            return Ok(known.clone());
        }
        let folder = Arc::new(root.open_folder(path).map_err(why)?);
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
                    self.fail(&folder.path, TWICE.into());
                    continue;
                }
            }
            match folders.open(&folder.path).and_then(|handle| Ok((list(&handle)?, handle))) {
                Ok((names, handle)) => self.folder_items(&handle, &folder.path, names, below, &mut pending),
                Err(error) => self.fail(&folder.path, format!("cannot list this folder: {}", why(error))),
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
                    self.fail(&full, why(error));
                    continue;
                }
            };
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let relative = full[below.len()..].strip_prefix(b"/").unwrap_or(&full[below.len()..]);
            if self.options.exclude.leaves_out(relative, is_folder) {
                continue;
            }
            if full.len() > PATH_MAX {
                self.fail(&full, format!("its path is longer than {PATH_MAX} bytes"));
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
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => match self.file(folder, name, stat) {
                Ok(kind) => kind,
                Err(reason) => return self.fail(&path, reason),
            },
            FileType::Symlink => match readlinkat(folder, name, Vec::new()) {
                Ok(target) => Kind::Symlink { target: target.into_bytes() },
                Err(error) => return self.fail(&path, why(error)),
            },
            _ => return self.scan.left_out.push(path),
        };
        match self.claim(&path, false) {
            Claim::New => self.push(path, kind, stat),
            Claim::Known => {}
            Claim::Conflict => self.fail(&path, TWICE.into()),
        }
    }

    fn file(&self, folder: &OwnedFd, name: &[u8], stat: &Stat) -> Result<Kind, String> {
        let size = stat.st_size as u64;
        let mut kind = Kind::File { size, extents: None, hash: None };
        let may_have_holes = size >= SPARSE_MIN && (stat.st_blocks as u64).saturating_mul(512) < size;
        if !may_have_holes && !self.options.checksum {
            return Ok(kind);
        }
        let file = match open_to_read(folder, name) {
            Ok(file) => file,
            // Not a matter of listing: reading it will say so, and by then it may be possible.
            Err(_) if !self.options.checksum => return Ok(kind),
            Err(error) => return Err(why(error)),
        };
        let found = if may_have_holes { data_extents(&file, size) } else { None };
        if let Kind::File { extents, .. } = &mut kind {
            *extents = found;
        }
        if self.options.checksum {
            let sum = hash_of_file(&file, &kind, &self.options.stop)
                .map_err(|error| format!("cannot be read: {}", why(error)))?;
            if let Kind::File { hash, .. } = &mut kind {
                *hash = Some(sum);
            }
        }
        Ok(kind)
    }

    /// What `files_from` names below `top`.
    fn listed_files(&mut self, top: &Arc<OwnedFd>) -> Result<(), String> {
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
                    self.fail(
                        listed.as_os_str().as_bytes(),
                        "\"..\" is not allowed in a list of files".into(),
                    );
                    continue;
                }
            };
            if let Err(reason) = self.listed_file(&mut folders, &path) {
                self.fail(&path, reason);
            }
        }
        Ok(())
    }

    fn listed_file(&mut self, folders: &mut Folders, path: &[u8]) -> Result<(), String> {
        if path.is_empty() {
            let stat = stat_folder(&folders.open(b"").map_err(why)?)?;
            self.tree(folders, Pending { path: Vec::new(), stat }, b"");
            return Ok(());
        }
        // The folders on the way down are copied too, without what else is in them.
        for (slash, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
            let ancestor = &path[..slash];
            let stat = stat_folder(&folders.open(ancestor).map_err(why)?)?;
            match self.claim(ancestor, true) {
                Claim::New => self.push(ancestor.to_vec(), Kind::Dir, &stat),
                Claim::Known => {}
                Claim::Conflict => return Err(TWICE.into()),
            }
        }
        let (folder, name) = folders.parent(path).map_err(why)?;
        let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(why)?;
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

    fn fail(&mut self, path: &[u8], reason: String) {
        self.scan.errors.push(FileFailure { path: path.to_vec(), reason });
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

fn stat_folder(folder: impl AsFd) -> Result<Stat, String> {
    rustix::fs::fstat(folder).map_err(why)
}

/// The names that make up a relative path; `None` if it goes up.
fn relative_parts(path: &Path) -> Option<Vec<Vec<u8>>> {
    let names = path.as_os_str().as_bytes().split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".");
    names.map(|name| (name != b".." && !name.contains(&0)).then(|| name.to_vec())).collect()
}

/// More would hide what else is told: a home folder may hold hundreds of sockets.
const LEFT_OUT_NAMED: usize = 10;

/// The longest path the manifest takes (Linux's own limit).
const PATH_MAX: usize = 4096;

/// Shorter files are not searched for holes.
const SPARSE_MIN: u64 = 32 << 10;

const TWICE: &str = "another source has something else at this path; only the first is copied";
