//! What the kernel asks of a file system in user space (FUSE), answered by [`Folder`].

use crate::folder::{Change, Folder, Item, Look};
use crate::object::Kind;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::process::{getgid, getuid};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Answers the kernel.
pub struct Kernel {
    folder: Folder,
    /// Folders that are being listed.
    listed: Mutex<HashMap<u64, Vec<Item>>>,
    next: AtomicU64,
}

impl Kernel {
    /// For one mount.
    pub fn new(folder: Folder) -> Kernel {
        Kernel { folder, listed: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl Filesystem for Kernel {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Many may be in a folder at a time: each answer is a round trip to the store.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_readahead(READ_AHEAD);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match text(name).and_then(|name| self.folder.lookup(parent, name)) {
            Ok(look) => reply.entry(&ttl(&look), &attributes(&look), Generation(0)),
            Err(error) => reply.error(errno("look at", name, &error)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.folder.forget(number, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.folder.look(number) {
            Ok(look) => reply.attr(&ttl(&look), &attributes(&look)),
            Err(error) => reply.error(errno("look at", OsStr::new(""), &error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        len: Option<u64>,
        _: Option<TimeOrNow>,
        time: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // An object has no owner in the file system's sense.
        let is_ours = |id: Option<u32>, ours: u32| id.is_none_or(|id| id == ours);
        if !is_ours(uid, getuid().as_raw()) || !is_ours(gid, getgid().as_raw()) {
            return reply.error(Errno::EPERM);
        }
        match self.folder.change(number, &Change { mode, len, time }) {
            Ok(look) => reply.attr(&ttl(&look), &attributes(&look)),
            Err(error) => reply.error(errno("change", OsStr::new(""), &error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.folder.read_link(number) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno("read", OsStr::new(""), &error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        match text(name).and_then(|name| self.folder.make_folder(parent, name, mode)) {
            Ok(look) => reply.entry(&ttl(&look), &attributes(&look), Generation(0)),
            Err(error) => reply.error(errno("make", name, &error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, "remove", name, text(name).and_then(|name| self.folder.remove(parent, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, "remove", name, text(name).and_then(|name| self.folder.remove_folder(parent, name)));
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = text(name).and_then(|name| {
            let target = text(target.as_os_str())?;
            self.folder.make_link(parent, name, target)
        });
        match made {
            Ok(look) => reply.entry(&ttl(&look), &attributes(&look), Generation(0)),
            Err(error) => reply.error(errno("make", name, &error)),
        }
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let is_known = (flags - RenameFlags::RENAME_NOREPLACE).is_empty();
        if !is_known {
            return reply.error(Errno::EINVAL);
        }
        let replaces = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let done = text(name)
            .and_then(|name| self.folder.rename((parent, name), (new_parent, text(new_name)?), replaces));
        answer(reply, "store", new_name, done);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        match self.folder.open(number, writes) {
            Ok(is_draft) => reply.opened(FileHandle(0), caching(is_draft)),
            Err(error) => reply.error(errno("open", OsStr::new(""), &error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match text(name).and_then(|name| self.folder.create(parent, name, mode)) {
            Ok(look) => {
                let flags = caching(true);
                reply.created(&ttl(&look), &attributes(&look), Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(errno("make", name, &error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.folder.read(number, offset, len as usize) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(errno("read", OsStr::new(""), &error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.folder.write(number, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno("write", OsStr::new(""), &error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, "sync", OsStr::new(""), self.folder.sync(number));
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.folder.list(number) {
            Ok(listing) => {
                let handle = self.next.fetch_add(1, Ordering::Relaxed);
                self.listed.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(errno("list", OsStr::new(""), &error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listing) = listed.get(&handle.0) else { return reply.error(Errno::EBADF) };
        for (index, item) in listing.iter().enumerate().skip(offset as usize) {
            let kind = if item.is_folder { FileType::Directory } else { FileType::RegularFile };
            if reply.add(item.number, index as u64 + 1, kind, &item.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // A store has no end that it tells.
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, u64::from(u32::MAX), u64::from(u32::MAX), BLOCK, 255, BLOCK);
    }
}

fn answer(reply: ReplyEmpty, what: &str, name: &OsStr, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(what, name, &error)),
    }
}

/// Keys are text.
fn text(name: &OsStr) -> io::Result<&str> {
    Ok(name.to_str().ok_or(rustix::io::Errno::ILSEQ)?)
}

/// What the kernel is told. Why the store refused is in the log, as a number says too little.
fn errno(what: &str, name: &OsStr, error: &io::Error) -> Errno {
    if let Some(number) = error.raw_os_error() {
        return Errno::from_i32(number);
    }
    if error.kind() != io::ErrorKind::NotFound {
        tracing::error!("cannot {what} {}: {error}", name.to_string_lossy());
    }
    match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::AlreadyExists => Errno::EEXIST,
        io::ErrorKind::PermissionDenied => Errno::EACCES,
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        io::ErrorKind::StaleNetworkFileHandle => Errno::ESTALE,
        io::ErrorKind::TimedOut => Errno::ETIMEDOUT,
        _ => Errno::EIO,
    }
}

fn attributes(look: &Look) -> FileAttr {
    let (kind, links) = match look.kind {
        Kind::File => (FileType::RegularFile, 1),
        Kind::Folder => (FileType::Directory, 2),
        Kind::Link => (FileType::Symlink, 1),
    };
    let time = look.meta.time();
    FileAttr {
        ino: look.number,
        size: look.len,
        blocks: look.len.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: look.stored,
        crtime: look.stored,
        kind,
        perm: look.meta.mode as u16,
        nlink: links,
        uid: getuid().as_raw(),
        gid: getgid().as_raw(),
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

/// Drafts change all the time; what the store has is remembered by us.
fn ttl(look: &Look) -> Duration {
    if look.is_draft { Duration::ZERO } else { Duration::from_secs(1) }
}

/// What is being written is not kept twice, and what of it is only in the store is not to be read from memory.
fn caching(is_draft: bool) -> FopenFlags {
    if is_draft { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
}

/// As large as a read may be.
const READ_AHEAD: u32 = 1 << 20;
const BLOCK: u32 = 4096;
/// An exbibyte.
const BLOCKS: u64 = 1 << 48;
