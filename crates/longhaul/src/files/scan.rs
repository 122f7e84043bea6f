//! The sender's first step: what there is to copy.

use super::errors::FileError;
use super::exclude::Exclude;
use super::extents::data_extents;
use super::folders::{Folders, list};
use super::gather::Gather;
use super::names::is_ours;
use super::root::{Root, Written};
use super::scanned::{Origin, Scan};
use super::version::Identity;
use crate::net::budget::{Allowance, Budget, Purpose};
use longhaul_proto::session::attributes::{EntryAttributes, Preserve};
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Kind, Manifest, Named, Seams};
use longhaul_proto::session::message::FileFailure;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Something to copy, as the user wrote it: `folder` means the folder, `folder/` what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// Its path.
    pub path: PathBuf,
}

/// Whether what comes of so many sources, or of names in them, goes into a folder whatever is found: one that is not there does not
/// make another take the destination's name.
pub fn goes_into_folder(sources: usize, files_from: Option<&[PathBuf]>) -> bool {
    sources > 1 || files_from.is_some()
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
    /// From which what is listed takes its memory.
    pub budget: Arc<Budget>,
    /// Set when listing waits long for that.
    pub waits: Arc<AtomicBool>,
    /// Of a copy that many hosts are to make: the key of its files' versions.
    pub plan_key: Option<[u8; 32]>,
    /// What to tell of files beyond contents, permissions and times.
    pub preserve: Preserve,
}

/// How much a part of a listing holds at most, folders that it has in common with the part before left out.
#[derive(Clone, Copy, Debug)]
pub struct PartLimits {
    /// Entries.
    pub entries: usize,
    /// Bytes that they take in memory. The last entry may take it beyond that.
    pub bytes: usize,
}

impl Default for PartLimits {
    fn default() -> PartLimits {
        PartLimits { entries: PART_ENTRIES, bytes: PART_BYTES }
    }
}

/// List the sources as a whole.
pub fn scan(root: &Root, sources: &[SourceSpec], options: &ScanOptions) -> Scan {
    let mut whole = Scan::default();
    let limits = PartLimits { entries: usize::MAX, bytes: usize::MAX };
    scan_in_parts(root, sources, options, limits, &mut |part| {
        whole = part;
        true
    });
    whole
}

/// List the sources part by part; `emit` takes them, and says whether to go on. Links are kept as links; what cannot be
/// listed becomes an error and the rest goes on. Sources that may have paths in common, and what `files_from` names, are one
/// part: all of their paths are to be known at a time.
pub fn scan_in_parts(
    root: &Root,
    sources: &[SourceSpec],
    options: &ScanOptions,
    limits: PartLimits,
    emit: &mut dyn FnMut(Scan) -> bool,
) {
    let mut gather = Gather::new(options.preserve, &options.budget);
    let first = Manifest { attributes: gather.begin(vec![]), ..Manifest::default() };
    let room = Allowance::of(&options.budget, Purpose::Need);
    let mut scanner = Scanner {
        options,
        scan: Scan { room, manifest: first, ..Scan::default() },
        gather,
        taken: (may_meet(sources) || options.files_from.is_some()).then(HashMap::new),
        folders: HashMap::new(),
        limits,
        emit,
        len: 0,
        above: Vec::new(),
        is_refused: false,
    };
    let mut named = HashSet::new();
    for source in sources.iter().filter(|source| named.insert(source.path.as_os_str())) {
        let shown = source.path.as_os_str().as_bytes();
        if let Err(error) = scanner.source(root, &source.path) {
            scanner.fail(shown, error);
        }
    }
    // What was listed when it was stopped must not pass for all there is.
    if !scanner.is_stopped() || scanner.scan.is_crowded {
        scanner.scan.room.keep(scanner.len as u64 * LEN_TIMES);
        scanner.scan.apart = scanner.gather.apart;
        (scanner.emit)(scanner.scan);
    }
}

/// Whether a path may come from two of the sources.
fn may_meet(sources: &[SourceSpec]) -> bool {
    let mut names = HashSet::new();
    let is_apart = |source: &SourceSpec| {
        let written = Written::new(&source.path);
        written.name.filter(|_| !written.is_folder).is_some_and(|name| names.insert(name))
    };
    sources.len() > 1 && !sources.iter().all(is_apart)
}

struct Scanner<'a> {
    options: &'a ScanOptions,
    /// The part at work.
    scan: Scan,
    gather: Gather,
    /// Paths given so far, and whose they are; kept only where one could come twice.
    taken: Option<HashMap<Vec<u8>, Owner>>,
    /// Handles of the folders that sources lie in.
    folders: HashMap<PathBuf, Arc<OwnedFd>>,
    limits: PartLimits,
    emit: &'a mut dyn FnMut(Scan) -> bool,
    /// Bytes that the part's own entries take in memory.
    len: usize,
    /// Folders that the last entry lies in, and that one itself if it is a folder: the topmost first.
    above: Vec<EntryIndex>,
    /// Nobody wants any more of it.
    is_refused: bool,
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
            self.begin(&top, path);
            return self.listed_files(&top);
        }
        let Some(name) = written.name.filter(|_| !written.is_folder) else {
            let top = self.folder(root, path)?;
            self.begin(&top, path);
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
        self.begin(&parent, &written.parent);
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

    /// From the next entry on, paths are relative to this folder.
    fn begin(&mut self, folder: &Arc<OwnedFd>, path: &Path) {
        let origin = Origin { folder: folder.clone(), path: path.into() };
        self.scan.origins.push((self.scan.manifest.entries.len() as EntryIndex, origin));
    }

    /// A folder and all below it. `below` is the part of the paths that names the source itself.
    fn tree(&mut self, folders: &mut Folders, top: Pending, below: &[u8]) {
        let mut pending = vec![top];
        while let Some(folder) = pending.pop().filter(|_| !self.is_stopped()) {
            match self.claim(&folder.path, true) {
                Claim::New => self.folder_entry(folders, &folder.path, &folder.stat),
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

    /// A folder itself.
    fn folder_entry(&mut self, folders: &mut Folders, path: &[u8], stat: &Stat) {
        let mut found = EntryAttributes::default();
        if self.options.preserve.has_attributes() {
            let read = folders.open(path).map_err(FileError::from);
            match read.and_then(|held| self.gather.read(&*held, stat)) {
                Ok(read) => found = read,
                Err(error) => self.fail(path, error),
            }
        }
        self.push(path.to_vec(), Kind::Dir, stat, found);
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
        let other_name = self.gather.other_name(stat).map(<[u8]>::to_vec);
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            kind if other_name.is_some() => {
                let of = match kind {
                    FileType::RegularFile => Named::File(stat.st_size as u64),
                    FileType::Symlink => Named::Symlink,
                    _ => Named::Node,
                };
                Kind::Link { to: other_name.unwrap_or_default(), of }
            }
            FileType::RegularFile if stat.st_size == 0 && has_contents(folder, name) => {
                return self.fail(&path, FileError::NotEmpty);
            }
            FileType::RegularFile => {
                let (kind, found) = self.file(folder, name, stat);
                identity = found;
                kind
            }
            FileType::Symlink => match readlinkat(folder, name, Vec::new()) {
                Ok(target) => Kind::Symlink { target: target.into_bytes() },
                Err(error) => return self.fail(&path, error),
            },
            _ => match self.gather.node(stat) {
                Some(kind) => kind,
                None => return self.scan.left_out.push(path),
            },
        };
        let mut found = EntryAttributes::default();
        if self.options.preserve.has_attributes() && !matches!(kind, Kind::Link { .. }) {
            match self.gather.read_at(folder, name, stat) {
                Ok(read) => found = read,
                Err(error) => return self.fail(&path, error),
            }
        }
        match self.claim(&path, false) {
            Claim::New => {
                self.gather.came(stat, &path);
                let entry = self.push(path, kind, stat, found);
                self.scan.identities.extend(identity.map(|identity| (entry, identity)));
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
        // Another file may have come to its name since: then the listing speaks of neither, which reading finds out by size and time.
        let of = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, mtime(stat));
        let is_listed = fstat(&file).is_ok_and(|now| of(&now) == of(stat));
        let found = Identity::of(&file).ok().filter(|_| size > GROUP_LEN && is_listed);
        if let Kind::File { extents, version, .. } = &mut kind {
            *extents = if may_have_holes { data_extents(&file, size) } else { None };
            let shared = |key| Identity::shared(key, &file).ok().filter(|_| size > GROUP_LEN);
            let told = self.options.plan_key.as_ref().map_or(found, shared);
            *version = told.and_then(|identity| identity.version(&file));
        }
        (kind, found)
    }

    /// What `files_from` names below `top`.
    fn listed_files(&mut self, top: &Arc<OwnedFd>) -> Result<(), FileError> {
        let stat = stat_folder(top)?;
        let mut folders = Folders::new(top.clone());
        if let Claim::New = self.claim(b"", true) {
            self.folder_entry(&mut folders, b"", &stat);
        }
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
            if self.options.exclude.leaves_out(ancestor, true) {
                return Ok(());
            }
            let stat = stat_folder(&folders.open(ancestor)?)?;
            match self.claim(ancestor, true) {
                Claim::New => self.folder_entry(folders, ancestor, &stat),
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

    fn push(&mut self, path: Vec<u8>, kind: Kind, stat: &Stat, found: EntryAttributes) -> EntryIndex {
        let entry = Entry { path, kind, mode: stat.st_mode & 0o7777, mtime: mtime(stat) };
        let entries = &self.scan.manifest.entries;
        while self.above.pop_if(|above| !is_below(&entry.path, &entries[*above as usize].path)).is_some() {}
        self.make_room();
        let attributes_len = self.gather.add(&mut self.scan.manifest.attributes, found);
        self.note_len(entry.memory_len() + attributes_len);
        let index = self.scan.manifest.entries.len() as EntryIndex;
        if matches!(entry.kind, Kind::Dir) {
            self.above.push(index);
        }
        self.scan.manifest.entries.push(entry);
        index
    }

    /// Begin a new part if this one is full, with the folders that are still being listed.
    fn make_room(&mut self) {
        let own = self.scan.manifest.entries.len() - self.scan.manifest.seams.continued as usize;
        let is_full = own + self.scan.errors.len() >= self.limits.entries || self.len >= self.limits.bytes;
        if !is_full || self.taken.is_some() {
            return;
        }
        let entry = |index: &EntryIndex| self.scan.manifest.entries[*index as usize].clone();
        let entries: Vec<Entry> = self.above.iter().map(entry).collect();
        let attributes = self.scan.manifest.attributes.of(self.above.iter().map(|index| *index as usize));
        let attributes = self.gather.begin(attributes.entries);
        let continued = entries.len() as u32;
        let goes_on = std::mem::replace(&mut self.above, (0..continued).collect());
        let origins = self.scan.origins.last().map(|(_, origin)| (0, origin.clone()));
        let next = Scan {
            room: Allowance::of(&self.options.budget, Purpose::Ahead),
            manifest: Manifest { entries, seams: Seams { continued, ..Seams::default() }, attributes },
            origins: origins.into_iter().collect(),
            ..Scan::default()
        };
        let mut full = std::mem::replace(&mut self.scan, next);
        let seams = &mut full.manifest.seams;
        (seams.goes_on, seams.has_more) = (goes_on, true);
        full.room.keep(std::mem::take(&mut self.len) as u64 * LEN_TIMES);
        self.is_refused = self.is_refused || !(self.emit)(full);
    }

    /// So much more is in the part. Before it is long it waits for the memory of a usual one, holding little; the parts before it go on
    /// meanwhile. One that is longer than usual has to find what it takes at once.
    fn note_len(&mut self, len: usize) {
        let before = self.len;
        self.len += len;
        let usual = PART_BYTES as u64 * LEN_TIMES;
        if before < LEN_AT_HAND && self.len >= LEN_AT_HAND {
            let began = Instant::now();
            while !self.scan.room.take(usual) && !self.is_stopped() {
                self.options.waits.fetch_or(began.elapsed() > WAIT_LONG, Ordering::Relaxed);
                std::thread::sleep(ASK_AGAIN);
            }
        } else if self.len / PART_BYTES > before / PART_BYTES
            && self.taken.is_some()
            && !self.scan.room.take(usual)
        {
            (self.scan.is_crowded, self.is_refused) = (true, true);
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_refused || self.options.stop.load(Ordering::Relaxed)
    }

    fn fail(&mut self, path: &[u8], error: impl Into<FileError>) {
        self.make_room();
        let failure = FileFailure { path: path.to_vec(), reason: error.into().into() };
        self.note_len(size_of::<FileFailure>() + path.len() + failure.reason.line.len());
        self.scan.errors.push(failure);
    }
}

/// Whether a path lies in a folder, however deep.
pub(crate) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => !rest.is_empty() && (folder.is_empty() || rest.starts_with(b"/")),
        None => false,
    }
}

/// Open a regular file to read it; anything that took its place is refused without waiting for it.
pub(super) fn open_to_read(folder: &OwnedFd, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Whether a file that is said to be empty is not. What cannot be read has nothing for us.
fn has_contents(folder: &OwnedFd, name: &[u8]) -> bool {
    open_to_read(folder, name).is_ok_and(|mut file| file.read(&mut [0]).is_ok_and(|len| len > 0))
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

/// The longest path the manifest takes (Linux's own limit).
pub(super) const PATH_MAX: usize = 4096;

/// Shorter files are not searched for holes.
const SPARSE_MIN: u64 = 32 << 10;

/// Entries of a part: a listing of some 300 kB that takes some 4 MB in memory, and many more small files than are on their way
/// at a time. A copy of fewer entries is one part.
const PART_ENTRIES: usize = 1 << 14;

/// Memory for the entries of a part: of usual ones so many take less.
const PART_BYTES: usize = 8 << 20;

/// A part of so many bytes takes nothing from other copies.
const LEN_AT_HAND: usize = 512 << 10;
/// What is made of a list takes as much again.
const LEN_TIMES: u64 = 2;
/// A wait that is told.
const WAIT_LONG: Duration = Duration::from_secs(1);
/// Whoever waits for memory asks again after this.
const ASK_AGAIN: Duration = Duration::from_millis(20);
