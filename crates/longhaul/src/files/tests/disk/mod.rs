//! A disk that errs, fills up and loses its power. The files lie in a folder in memory, which stands for what the kernel has;
//! this knows what of it the disk has.
//!
//! What was not brought to the disk may be there all the same, page by page and name by name: a power cut keeps any of it. What
//! the kernel could not write is gone: the next who brings the file to the disk is told, once, and from then on nobody knows.

mod kernel;

pub use self::kernel::itself;
use self::kernel::{Inode, Node, PAGE, State, change, dress_of, node, number};
use crate::files::calls::system::FileExt;
use fastrand::Rng;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk does beside what it is asked to.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Of 10 000 calls so many go wrong, alone.
    pub errors: u64,
    /// These calls all go wrong, by their number.
    pub spell: Range<u64>,
    /// Calls of this kind all go wrong.
    pub refuses: Option<Call>,
    /// Of 100 calls that read or write so many do a part of it.
    pub short: u64,
    /// Bytes that it still takes.
    pub room: u64,
    /// From this call on the process is dead, or there is no power.
    pub last: u64,
}

impl Weather {
    pub const CALM: Weather =
        Weather { errors: 0, spell: 0..0, refuses: None, short: 0, room: u64::MAX, last: u64::MAX };
}

/// A kind of call, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    Read,
    Write,
    Sync,
    /// Of names.
    Name,
    /// Of a length, of permissions, of a time.
    Change,
}

/// What befell those who used a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Error(Call),
    NoSpace,
    Short,
    /// The kernel could not write what it had taken.
    Lost,
}

pub struct Disk {
    top: PathBuf,
    /// The file system that it says it has; `None`: what it is.
    pub poses_as: Option<i64>,
    state: Mutex<State>,
}

/// All disks there are.
static DISKS: Mutex<Vec<Arc<Disk>>> = Mutex::new(Vec::new());

/// A disk for as long as this lives.
pub struct Installed(Arc<Disk>);

impl std::ops::Deref for Installed {
    type Target = Disk;

    fn deref(&self) -> &Disk {
        &self.0
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        DISKS.lock().unwrap().retain(|disk| !Arc::ptr_eq(disk, &self.0));
    }
}

impl Disk {
    /// Put a disk under a folder. All that is there now is on it.
    pub fn install(top: &Path, seed: u64) -> Installed {
        let mut rng = Rng::with_seed(seed);
        let poses_as = rng.bool().then_some(EXT4);
        let state = State {
            rng,
            weather: Weather::CALM,
            calls: 0,
            is_down: false,
            faults: BTreeMap::new(),
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            changes: vec![],
            unreported: false,
            told: BTreeSet::new(),
            refused: 0,
        };
        let disk = Disk { top: top.canonicalize().unwrap(), poses_as, state: Mutex::new(state) };
        disk.settle();
        let disk = Arc::new(disk);
        DISKS.lock().unwrap().push(disk.clone());
        Installed(disk)
    }

    /// The one that an open file is on.
    pub fn under(file: &impl AsFd) -> Option<Arc<Disk>> {
        let disks = DISKS.lock().unwrap();
        if disks.is_empty() {
            return None;
        }
        let path = fs::read_link(itself(file)).ok()?;
        disks.iter().find(|disk| path.starts_with(&disk.top)).cloned()
    }

    /// All that is there is on the disk from now on. What has still to be told will be.
    pub fn settle(&self) {
        let mut state = self.lock();
        let before = std::mem::take(&mut state.inodes);
        state.names.clear();
        state.changes.clear();
        let mut folders = vec![self.top.clone()];
        while let Some(path) = folders.pop() {
            let folder = File::open(&path).unwrap();
            let at = number(&folder);
            for item in fs::read_dir(&path).unwrap() {
                let item = item.unwrap();
                let name = item.file_name().as_bytes().to_vec();
                let node = node(&folder, &name).unwrap();
                match node {
                    Node::File(inode) => {
                        let unreported = before.get(&inode).is_some_and(|inode| inode.unreported);
                        let file = File::open(item.path()).unwrap();
                        state.inodes.insert(inode, Inode { unreported, ..Inode::of(file) });
                    }
                    Node::Folder(_) => folders.push(item.path()),
                    Node::Link(_) => {}
                }
                state.names.insert((at, name), node);
            }
        }
    }

    /// Whether the next who brings all to the disk is told of an error.
    pub fn has_unreported(&self) -> bool {
        let state = self.lock();
        state.unreported || state.inodes.values().any(|inode| inode.unreported)
    }

    /// From now on calls are counted anew and meet this: another process is at work. One that was killed between hearing of
    /// a loss and acting on it is taken for one that had not heard: nobody could know.
    pub fn set_weather(&self, weather: Weather) {
        let mut state = self.lock();
        let told = std::mem::take(&mut state.told);
        for at in told.into_iter().filter(|_| state.is_down).collect::<Vec<_>>() {
            if let Some(inode) = state.inodes.get_mut(&at) {
                inode.unreported = true;
            }
        }
        (state.weather, state.calls, state.is_down) = (weather, 0, false);
    }

    pub fn weather(&self) -> Weather {
        self.lock().weather.clone()
    }

    /// Nothing that is asked for happens any more.
    pub fn take_down(&self) {
        self.lock().is_down = true;
    }

    pub fn is_down(&self) -> bool {
        self.lock().is_down
    }

    /// What has befallen those who used it, by kind.
    pub fn faults(&self) -> BTreeMap<Fault, u64> {
        self.lock().faults.clone()
    }

    /// The kernel cannot write anything of what it has still to write of files that are longer than that.
    pub fn lose(&self, len: u64) {
        let mut state = self.lock();
        for inode in state.inodes.values_mut().filter(|inode| inode.file.metadata().unwrap().len() > len) {
            inode.unreported |= inode.store(0..u64::MAX, |_| true);
        }
        state.unreported = true;
    }

    /// Whether it has all of files that are longer than that.
    pub fn is_clean(&self, len: u64) -> bool {
        let state = self.lock();
        let mut large =
            state.inodes.values().filter(|inode| inode.file.metadata().is_ok_and(|meta| meta.len() > len));
        large.all(|inode| inode.dirty.is_empty())
    }

    /// Memory forgets what it could not write: what is read from now on is what the disk has. Of files that nobody has open it
    /// forgets `unreported` errors too.
    pub fn forget_lost(&self, unreported: bool) {
        for inode in self.lock().inodes.values_mut() {
            inode.unreported &= !unreported;
            let writable = inode.reopen();
            let len = inode.file.metadata().unwrap().len();
            for (page, old) in std::mem::take(&mut inode.lost) {
                let start = page * PAGE;
                let old = old.unwrap_or_else(|| vec![0; PAGE as usize].into());
                let end = (start + PAGE).min(len).max(start);
                writable.write_all_at(&old[..(end - start) as usize], start).unwrap();
            }
        }
    }

    /// The power fails: make in another folder what the disk has.
    pub fn cut(&self, into: &Path) {
        let mut state = self.lock();
        let state = &mut *state;
        let share = state.rng.f64();
        // Most file systems keep the order of such changes, which nobody promises.
        let kept = state.rng.bool().then(|| state.rng.usize(..=state.changes.len()));
        for (at, change) in std::mem::take(&mut state.changes).into_iter().enumerate() {
            if kept.map_or_else(|| state.rng.f64() < share, |kept| at < kept) {
                state.apply(change);
            }
        }
        let mut folders = vec![(number(&File::open(&self.top).unwrap()), into.to_path_buf())];
        while let Some((folder, path)) = folders.pop() {
            let names = state.names.range((folder, vec![])..).take_while(|((at, _), _)| *at == folder);
            for ((_, name), node) in names {
                let path = path.join(OsStr::from_bytes(name));
                match node {
                    Node::Folder(folder) => {
                        fs::create_dir(&path).unwrap();
                        folders.push((*folder, path));
                    }
                    Node::Link(target) => symlink(target, path).unwrap(),
                    Node::File(inode) => state.inodes[inode].leave(&path, share, &mut state.rng),
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// What is done to it.
impl Disk {
    pub fn meet(&self, call: Call) -> Result<(), Errno> {
        self.lock().meet(call)
    }

    /// How many of so many bytes are read at once.
    pub fn read_some(&self, len: usize) -> Result<usize, Errno> {
        let mut state = self.lock();
        state.meet(Call::Read)?;
        Ok(state.some_of(len))
    }

    pub fn write(&self, file: &File, data: &[u8], at: u64) -> io::Result<usize> {
        let mut state = self.lock();
        if state.is_down {
            return Err(Errno::IO.into());
        }
        let met = state.meet(Call::Write);
        let mut len = match met {
            Ok(()) => state.some_of(data.len()),
            Err(_) => state.rng.usize(..=data.len()),
        };
        let room = state.weather.room;
        if met.is_ok() && room < len as u64 {
            state.note(Fault::NoSpace);
            len = room as usize;
            if len == 0 {
                return Err(Errno::NOSPC.into());
            }
        }
        if room < u64::MAX {
            state.weather.room = room.saturating_sub(len as u64);
        }
        state.touch(file, at..at + len as u64);
        file.write_all_at(&data[..len], at)?;
        met?;
        Ok(len)
    }

    /// A stretch is about to be written in another way.
    pub fn overwrite(&self, file: &File, range: Range<u64>) -> Result<(), Errno> {
        let mut state = self.lock();
        state.meet(Call::Write)?;
        if state.weather.room < range.end - range.start {
            state.note(Fault::NoSpace);
            return Err(Errno::NOSPC);
        }
        state.touch(file, range);
        Ok(())
    }

    pub fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.meet(Call::Change)?;
        let before = file.metadata()?.len();
        state.touch(file, len..before.max(len));
        file.set_len(len)
    }

    /// Make a file, with a name or without.
    pub fn create(
        &self,
        folder: &impl AsFd,
        name: Option<&Vec<u8>>,
        real: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        let mut state = self.lock();
        state.meet(Call::Name)?;
        if state.weather.room == 0 {
            state.note(Fault::NoSpace);
            return Err(Errno::NOSPC);
        }
        let made = real()?;
        let inode = Inode::of(File::open(itself(&made)).map_err(|_| Errno::IO)?);
        state.inodes.insert(number(&made), inode);
        if let Some(name) = name {
            state.changes.push(vec![change(folder, name)]);
        }
        Ok(made)
    }

    /// Change what these names of a folder are.
    pub fn rename(
        &self,
        folder: &impl AsFd,
        names: &[&[u8]],
        real: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut state = self.lock();
        state.meet(Call::Name)?;
        real()?;
        state.changes.push(names.iter().map(|name| change(folder, name)).collect());
        Ok(())
    }

    /// Bring a file, or the names of a folder, to the disk; `dress`: with its permissions and time.
    pub fn sync(&self, file: &impl AsFd, dress: bool) -> Result<(), Errno> {
        let mut state = self.lock();
        let met = state.meet_sync();
        if state.is_down {
            return Err(Errno::IO);
        }
        let (state, at) = (&mut *state, number(file));
        let Some(inode) = state.inodes.get_mut(&at) else {
            met?;
            state.sync_names(Some(at));
            return Ok(());
        };
        let lost = if met.is_err() { state.rng.f64() } else { 0.0 };
        inode.store(0..u64::MAX, |_| state.rng.f64() < lost);
        let unreported = std::mem::take(&mut inode.unreported);
        if unreported || met.is_err() {
            state.told.insert(at);
        }
        met?;
        inode.len = inode.file.metadata().map_err(|_| Errno::IO)?.len();
        if dress {
            inode.dress = dress_of(&inode.file);
        }
        if unreported { Err(Errno::IO) } else { Ok(()) }
    }

    /// Bring all to the disk.
    pub fn sync_all(&self) -> Result<(), Errno> {
        let mut state = self.lock();
        let met = state.meet_sync();
        if state.is_down {
            return Err(Errno::IO);
        }
        let state = &mut *state;
        for inode in state.inodes.values_mut() {
            let lost = if met.is_err() && state.rng.bool() { 1.0 } else { 0.0 };
            inode.unreported |= inode.store(0..u64::MAX, |_| state.rng.f64() < lost);
            if met.is_ok() {
                inode.len = inode.file.metadata().map_err(|_| Errno::IO)?.len();
                inode.dress = dress_of(&inode.file);
            }
        }
        let unreported = std::mem::take(&mut state.unreported);
        met?;
        state.sync_names(None);
        if unreported { Err(Errno::IO) } else { Ok(()) }
    }

    /// Begin to bring a stretch to the disk, or wait for that: then what went wrong is told.
    pub fn sync_range(&self, file: &File, range: Range<u64>, begin: bool) -> Result<(), Errno> {
        let mut state = self.lock();
        if state.is_down {
            return Err(Errno::IO);
        }
        let (at, met) = (number(file), state.meet(Call::Sync));
        if state.is_down {
            return Err(Errno::IO);
        }
        if begin {
            state.write_back(at, range, met.is_err());
            return Ok(());
        }
        let unreported = state.inodes.get_mut(&at).is_some_and(|inode| std::mem::take(&mut inode.unreported));
        if unreported {
            state.told.insert(at);
        }
        if unreported { Err(Errno::IO) } else { Ok(()) }
    }
}

/// Where `syncfs` leaves nothing to do.
const EXT4: i64 = 0xef53;
