//! What the kernel holds of a disk's files, and what of that the disk has.

use super::{Call, Fault, Weather};
use crate::files::calls::system::FileExt;
use fastrand::Rng;
use rustix::fs::{AtFlags, FileType, fstat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the kernel has, and what of it the disk has.
pub struct State {
    pub rng: Rng,
    pub weather: Weather,
    pub calls: u64,
    pub is_down: bool,
    pub faults: BTreeMap<Fault, u64>,
    pub inodes: BTreeMap<u64, Inode>,
    /// The names that the disk has, by folder.
    pub names: BTreeMap<Name, Node>,
    /// Changes of names since.
    pub changes: Vec<Change>,
    /// Something was lost, and nobody who brought all to the disk was told.
    pub unreported: bool,
    /// Files of which a loss was told to the process that is at work.
    pub told: BTreeSet<u64>,
    /// Whether the last calls that change names and lengths failed, the latest in the lowest bit.
    pub refused: u8,
}

/// A folder and a name in it.
pub type Name = (u64, Vec<u8>);

/// What names are from now on, all of them at once.
pub type Change = Vec<(Name, Option<Node>)>;

#[derive(Clone, Debug)]
pub enum Node {
    File(u64),
    Folder(u64),
    Link(PathBuf),
}

pub struct Inode {
    pub file: File,
    /// Pages that the disk may lack, with what it had.
    pub dirty: BTreeMap<u64, Page>,
    /// Pages that the disk lacks and will never get, with what it has.
    pub lost: BTreeMap<u64, Page>,
    /// What the disk has.
    pub len: u64,
    pub dress: Dress,
    pub unreported: bool,
}

/// `None`: zeros.
type Page = Option<Box<[u8]>>;

/// Permissions and time of last modification.
pub type Dress = (u32, SystemTime);

impl State {
    /// A call begins: what comes of it.
    pub fn meet(&mut self, call: Call) -> Result<(), Errno> {
        self.calls += 1;
        if self.is_down || self.calls >= self.weather.last {
            self.is_down = true;
            return Err(Errno::IO);
        }
        let is_refused = self.weather.refuses == Some(call);
        let mut is_wrong = is_refused || self.goes_wrong();
        if matches!(call, Call::Name | Call::Change) && !is_refused {
            // A disk that refuses every way to note down that it lost something cannot be helped.
            is_wrong &= (self.refused << 1).count_ones() < REFUSED_MAX;
            self.refused = self.refused << 1 | u8::from(is_wrong);
        }
        if is_wrong {
            self.note(Fault::Error(call));
            return Err(Errno::IO);
        }
        // Meanwhile the kernel does what it would do some time.
        if self.rng.u8(..16) == 0 {
            let all: Vec<u64> = self.inodes.keys().copied().collect();
            if let Some(at) = self.rng.choice(&all) {
                let is_faulty = self.goes_wrong();
                self.write_back(*at, 0..u64::MAX, is_faulty);
            }
            let count = self.rng.usize(..=self.changes.len());
            for change in self.changes.drain(..count).collect::<Vec<_>>() {
                self.apply(change);
            }
        }
        Ok(())
    }

    /// Quotas of other hosts show only when something is brought there.
    pub fn meet_sync(&mut self) -> Result<(), Errno> {
        self.meet(Call::Sync).map_err(|error| if self.rng.u8(..4) == 0 { Errno::NOSPC } else { error })
    }

    pub fn goes_wrong(&mut self) -> bool {
        self.weather.spell.contains(&self.calls) || self.rng.u64(..10_000) < self.weather.errors
    }

    pub fn note(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub fn some_of(&mut self, len: usize) -> usize {
        if len < 2 || self.rng.u64(..100) >= self.weather.short {
            return len;
        }
        self.note(Fault::Short);
        self.rng.usize(1..len)
    }

    /// The kernel writes some pages of a file, or tries to.
    pub fn write_back(&mut self, at: u64, range: Range<u64>, is_faulty: bool) {
        let Some(inode) = self.inodes.get_mut(&at) else { return };
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let share = self.rng.f64();
        if !is_faulty {
            let kept: Vec<u64> = inode.dirty.range(pages).map(|(page, _)| *page).collect();
            inode.dirty.retain(|page, _| kept.binary_search(page).is_err() || self.rng.f64() >= share);
        } else if inode.store(pages, |_| self.rng.f64() < share) {
            (inode.unreported, self.unreported) = (true, true);
            self.note(Fault::Lost);
        }
    }

    /// A stretch of a file is about to change.
    pub fn touch(&mut self, file: &File, range: Range<u64>) {
        let inode = self.inodes.get_mut(&number(file)).expect("all files are known");
        let len = inode.file.metadata().unwrap().len();
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            if !inode.dirty.contains_key(&page) {
                let old = inode.lost.remove(&page);
                let old = old.unwrap_or_else(|| page_of(&inode.file, page, len));
                inode.dirty.insert(page, old);
            }
        }
    }

    /// Bring changes of names to the disk: those of a folder, or all.
    pub fn sync_names(&mut self, folder: Option<u64>) {
        let is_of = |at: &u64| folder.is_none_or(|folder| folder == *at);
        let changes = std::mem::take(&mut self.changes);
        let is_due = |change: &Change| change.iter().any(|((at, _), _)| is_of(at));
        let (due, later): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_due);
        self.changes = later;
        due.into_iter().for_each(|change| self.apply(change));
    }

    pub fn apply(&mut self, change: Change) {
        for (name, node) in change {
            match node {
                Some(node) => self.names.insert(name, node),
                None => self.names.remove(&name),
            };
        }
    }
}

impl Inode {
    pub fn of(file: File) -> Inode {
        let (len, dress) = (file.metadata().unwrap().len(), dress_of(&file));
        Inode { file, dirty: BTreeMap::new(), lost: BTreeMap::new(), len, dress, unreported: false }
    }

    pub fn reopen(&self) -> File {
        File::options().read(true).write(true).open(itself(&self.file)).unwrap()
    }

    /// Pages go to the disk, or get lost on the way; whether any did.
    pub fn store(&mut self, pages: Range<u64>, mut is_lost: impl FnMut(u64) -> bool) -> bool {
        let going: Vec<u64> = self.dirty.range(pages).map(|(page, _)| *page).collect();
        let mut any = false;
        for page in going {
            let old = self.dirty.remove(&page).expect("it was there");
            if is_lost(page) {
                self.lost.insert(page, old);
                any = true;
            }
        }
        any
    }

    /// Write what the disk has, and such a share of what it may have.
    pub fn leave(&self, path: &Path, share: f64, rng: &mut Rng) {
        let now = self.file.metadata().unwrap().len();
        let len = match rng.u8(..4) {
            0 => self.len,
            1 => rng.u64(self.len.min(now)..=self.len.max(now)),
            _ => now,
        };
        let pages = now.max(self.len).div_ceil(PAGE);
        let mut bytes = vec![0; (pages * PAGE) as usize];
        self.file.read_exact_at(&mut bytes[..now as usize], 0).unwrap();
        let dirty = self.dirty.iter().filter(|_| rng.f64() >= share);
        for (page, old) in dirty.chain(&self.lost) {
            let at = (page * PAGE) as usize;
            let Some(place) = bytes.get_mut(at..at + PAGE as usize) else { continue };
            match old {
                Some(old) => place.copy_from_slice(old),
                None => place.fill(0),
            }
        }
        fs::write(path, &bytes[..len as usize]).unwrap();
        let (mode, mtime) = if rng.bool() { dress_of(&self.file) } else { self.dress };
        let made = File::options().write(true).open(path).unwrap();
        made.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        made.set_modified(mtime).unwrap();
    }
}

pub fn page_of(file: &File, page: u64, len: u64) -> Page {
    if page * PAGE >= len {
        return None;
    }
    let mut bytes = vec![0; PAGE as usize];
    let there = (len - page * PAGE).min(PAGE) as usize;
    file.read_exact_at(&mut bytes[..there], page * PAGE).unwrap();
    bytes.iter().any(|byte| *byte != 0).then(|| bytes.into())
}

pub fn dress_of(file: &File) -> Dress {
    let meta = file.metadata().unwrap();
    (meta.mode() & 0o7777, meta.modified().unwrap())
}

pub fn change(folder: &impl AsFd, name: &[u8]) -> (Name, Option<Node>) {
    ((number(folder), name.to_vec()), node(folder, name))
}

/// What a name is now.
pub fn node(folder: &impl AsFd, name: &[u8]) -> Option<Node> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Node::Folder(stat.st_ino),
        FileType::Symlink => {
            let target = readlinkat(folder, name, vec![]).ok()?;
            Node::Link(OsStr::from_bytes(target.to_bytes()).into())
        }
        _ => Node::File(stat.st_ino),
    })
}

pub fn number(file: &impl AsFd) -> u64 {
    fstat(file).unwrap().st_ino
}

pub fn itself(file: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

pub const PAGE: u64 = 4096;

/// Of eight calls in a row that change names and lengths so many fail at most.
const REFUSED_MAX: u32 = 2;
