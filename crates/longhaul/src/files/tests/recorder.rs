//! A disk that keeps a record of all that is written to it, and of when it was asked to store that for good. A file in a
//! FUSE file system of this process stands for it; the kernel makes a loop device of that.

use super::harness::folder;
use crate::files::extents::data_extents;
use fastrand::Rng;
use fuser::{
    Config, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request, WriteFlags,
};
use longhaul_testing::{PATIENCE, skip};
use rustix::fs::syncfs;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// A file system to put on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub name: &'static str,
    len: u64,
    make: &'static [&'static str],
    options: &'static str,
}

/// With blocks of a page, as it has on larger disks. The kernel hands a request that does not begin with a page on in two
/// pieces, and where only the second one fails, a loop device calls the whole written.
pub const EXT4: Format = Format {
    name: "ext4",
    len: 64 << 20,
    make: &["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    options: "loop,nodiscard,noinit_itable",
};

pub const XFS: Format = Format {
    name: "xfs",
    len: 300 << 20,
    make: &["mkfs.xfs", "-q", "-f", "-K"],
    options: "loop,nouuid,nodiscard",
};

/// With one copy of its tables, which is less to record.
pub const BTRFS: Format = Format {
    name: "btrfs",
    len: 128 << 20,
    make: &["mkfs.btrfs", "-q", "-f", "-K", "-m", "single"],
    options: "loop,nodiscard",
};

/// What happened to a disk.
enum Step {
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    /// All that was written before is there for good.
    Flush,
}

struct Disk {
    image: File,
    len: u64,
    steps: Mutex<Vec<Step>>,
    /// What holds this cannot be written.
    unwritable: Mutex<Option<Vec<u8>>>,
}

/// A disk with a file system that is mounted, and what has happened to it so far. Gone, with all of its mounts, when it is
/// dropped, and also when the process is killed: then with the mount namespace.
pub struct Recorder {
    disk: Arc<Disk>,
    format: Format,
    /// The image as it was in the beginning is in `base`.
    files: tempfile::TempDir,
    mounted: Option<Mounted>,
    server: Option<fuser::BackgroundSession>,
}

impl Recorder {
    /// `None`, with a line that says why, where this cannot be had. On a thread of its own: [`alone`].
    pub fn new(format: Format) -> Option<Recorder> {
        let files = folder();
        // Its own memory: what a container has for all may be too little.
        mount("none", files.path(), "tmpfs", MountFlags::empty(), Some(c"size=2g")).ok()?;
        let path = |name: &str| files.path().join(name);
        File::create(path("base")).unwrap().set_len(format.len).unwrap();
        let made = command(format.make[0]).args(&format.make[1..]).arg(path("base")).output();
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            skip(&format!("no {} here", format.make[0]));
            return None;
        }
        copy_sparse(&path("base"), &path("image"));
        for name in ["fuse", "top"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let image = File::options().read(true).write(true).open(path("image")).unwrap();
        let (steps, unwritable) = (Mutex::default(), Mutex::default());
        let disk = Arc::new(Disk { image, len: format.len, steps, unwritable });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("recorder".into())];
        let server = match fuser::spawn_mount(Served(disk.clone()), path("fuse"), &config) {
            Ok(server) => server,
            Err(error) => {
                skip(&format!("no FUSE here: {error}"));
                return None;
            }
        };
        let mut recorder = Recorder { disk, format, files, mounted: None, server: Some(server) };
        match Mounted::new(format, &recorder.path("fuse/disk"), &recorder.top()) {
            Ok(mounted) => recorder.mounted = Some(mounted),
            Err(why) => {
                skip(&format!("no loop device with {} here: {why}", format.name));
                return None;
            }
        }
        Some(recorder)
    }

    /// The top folder of the file system.
    pub fn top(&self) -> PathBuf {
        self.path("top")
    }

    /// How much has happened so far.
    pub fn now(&self) -> usize {
        self.disk.steps.lock().unwrap().len()
    }

    /// Have all written to it that is still in memory.
    pub fn sync(&self) {
        syncfs(File::open(self.top()).unwrap()).unwrap();
    }

    /// How many bytes were written to it since then.
    pub fn bytes_since(&self, moment: usize) -> u64 {
        let written = |step: &Step| if let Step::Write { data, .. } = step { data.len() as u64 } else { 0 };
        self.disk.steps.lock().unwrap()[moment..].iter().map(written).sum()
    }

    /// From now on what holds this cannot be written.
    pub fn refuse(&self, what: Option<Vec<u8>>) {
        *self.disk.unwritable.lock().unwrap() = what;
    }

    /// Unmount it, as after a power cut that comes later than all of interest.
    pub fn stop(&mut self) {
        self.mounted = None;
        if let Some(server) = self.server.take() {
            let _ = unmount(self.path("fuse"), UnmountFlags::DETACH);
            server.join().unwrap();
        }
    }

    /// After [`stop`](Recorder::stop): the file system as the disk has it if the power fails at these moments, one after
    /// the other. What was written and not flushed by then is there or not, page by page.
    pub fn cut(&self, mut moments: Vec<usize>, seed: u64, mut look: impl FnMut(usize, &Path)) {
        moments.sort_unstable();
        let mut rng = Rng::with_seed(seed);
        let steps = self.disk.steps.lock().unwrap();
        let (base, image) = (self.path("base"), self.path("cut"));
        let flushed = File::options().write(true).open(&base).unwrap();
        let mut at = 0;
        for moment in moments {
            let last = steps[..moment].iter().rposition(|step| matches!(step, Step::Flush)).unwrap_or(0);
            steps[at..last.max(at)].iter().for_each(|step| step.write(&flushed, |_| true));
            at = last.max(at);
            copy_sparse(&base, &image);
            let cut = File::options().write(true).open(&image).unwrap();
            let share = rng.f64();
            steps[at..moment].iter().for_each(|step| step.write(&cut, |_| rng.f64() < share));
            let mounted = Mounted::new(self.format, &image, &self.top())
                .unwrap_or_else(|why| panic!("cut at {moment}, seed {seed}: {why}"));
            look(moment, &mounted.at);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.mounted = None;
        let _ = unmount(self.path("fuse"), UnmountFlags::DETACH);
        let _ = unmount(self.files.path(), UnmountFlags::DETACH);
    }
}

impl Step {
    /// Write the pages of it that `is_there` picks.
    fn write(&self, to: &File, mut is_there: impl FnMut(u64) -> bool) {
        let Step::Write { offset, data } = self else { return };
        for (page, at) in data.chunks(PAGE).zip((*offset..).step_by(PAGE)) {
            if is_there(at) {
                to.write_all_at(page, at).unwrap();
            }
        }
    }
}

/// A file system on a loop device, unmounted when dropped; the device goes with it.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(format: Format, image: &Path, at: &Path) -> Result<Mounted, String> {
        let mut mount = command("mount");
        mount.args(["-n", "-t", format.name, "-o", format.options]).arg(image).arg(at);
        let done = mount.output().map_err(|error| error.to_string())?;
        if done.status.success() {
            return Ok(Mounted { at: at.into() });
        }
        Err(String::from_utf8_lossy(&done.stderr).trim().into())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A copy's last thread may have a folder of it open for a moment.
        let until = Instant::now() + PATIENCE;
        while unmount(&self.at, UnmountFlags::empty()) == Err(Errno::BUSY) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // What another mount is to take the place of must not stay.
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

/// Run a test on a thread that has its mounts to itself.
pub fn alone(test: impl FnOnce() + Send + 'static) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        // SAFETY: only this thread's view of the mounts changes; it shares no file descriptors table and no other state
        // that the call could pull from under another thread.
        let own = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
        let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        match own.and_then(|()| mount_change("/", private)) {
            Ok(()) => test(),
            Err(_) => skip("only root may mount file systems here"),
        }
    });
    if let Err(panic) = thread.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

/// Programs for administrators are not always in the path.
fn command(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

fn copy_sparse(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    let len = from.metadata().unwrap().len();
    to.set_len(len).unwrap();
    for extent in data_extents(&from, len).unwrap_or_else(|| std::iter::once(0..len).collect()) {
        let mut data = vec![0; (extent.end - extent.start) as usize];
        from.read_exact_at(&mut data, extent.start).unwrap();
        to.write_all_at(&data, extent.start).unwrap();
    }
}

/// A folder with one file, `disk`.
struct Served(Arc<Disk>);

impl Served {
    fn about(&self, what: INodeNo) -> FileAttr {
        let is_disk = what == DISK;
        FileAttr {
            ino: what,
            size: if is_disk { self.0.len } else { 0 },
            blocks: self.0.len / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: PAGE as u32,
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&TTL, &self.about(DISK), Generation(0));
        } else {
            reply.error(fuser::Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, what: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.about(what));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(len).min(self.0.len.saturating_sub(offset));
        let mut data = vec![0; len as usize];
        match self.0.image.read_exact_at(&mut data, offset) {
            Ok(()) => reply.data(&data),
            Err(_) => reply.error(fuser::Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let is_unwritable = self.0.unwritable.lock().unwrap().as_ref().is_some_and(|what| {
            // Where files begin their data.
            data.chunks(512).any(|sector| sector.starts_with(what))
        });
        if is_unwritable || self.0.image.write_all_at(data, offset).is_err() {
            return reply.error(fuser::Errno::EIO);
        }
        self.0.steps.lock().unwrap().push(Step::Write { offset, data: data.into() });
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.steps.lock().unwrap().push(Step::Flush);
        reply.ok();
    }
}

const DISK: INodeNo = INodeNo(2);
const TTL: Duration = Duration::from_secs(3600);
/// What a disk writes whole or not at all.
const PAGE: usize = 4096;
