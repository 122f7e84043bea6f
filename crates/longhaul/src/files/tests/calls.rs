//! What `files/calls.rs` is in tests: below a folder with a [`Disk`] every call goes through that, elsewhere to the system.

use super::disk::{Call, Disk, itself};
use crate::files::calls::system;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, StatFs, Timestamps};
use rustix::io::Result;
use rustix::path::Arg;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn openat(folder: impl AsFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let turn = Turn::at(&folder);
    let name = turn.named(&folder, name)?;
    let make = || system::openat(&folder, name.as_slice(), flags, mode);
    let is_unnamed = flags.contains(OFlags::TMPFILE);
    match Disk::under(&folder).filter(|_| is_unnamed || flags.contains(OFlags::CREATE)) {
        Some(disk) => disk.create(&folder, (!is_unnamed).then_some(&name), make),
        None => make(),
    }
}

pub fn statat(folder: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<Stat> {
    let turn = Turn::at(&folder);
    system::statat(&folder, turn.named(&folder, name)?.as_slice(), flags)
}

pub fn mkdirat(folder: impl AsFd, name: impl Arg, mode: Mode) -> Result<()> {
    let turn = Turn::at(&folder);
    let name = turn.named(&folder, name)?;
    rename(&folder, &[&name], || system::mkdirat(&folder, name.as_slice(), mode))
}

pub fn symlinkat(target: &[u8], folder: impl AsFd, name: impl Arg) -> Result<()> {
    let turn = Turn::at(&folder);
    let name = turn.named(&folder, name)?;
    rename(&folder, &[&name], || system::symlinkat(target, &folder, name.as_slice()))
}

pub fn linkat(
    from: impl AsFd,
    path: impl Arg,
    folder: impl AsFd,
    name: impl Arg,
    flags: AtFlags,
) -> Result<()> {
    let turn = Turn::at(&folder);
    let name = turn.named(&folder, name)?;
    rename(&folder, &[&name], || system::linkat(&from, path, &folder, name.as_slice(), flags))
}

pub fn mknodat(folder: impl AsFd, name: impl Arg, kind: FileType, mode: Mode, device: u64) -> Result<()> {
    let turn = Turn::at(&folder);
    let name = turn.named(&folder, name)?;
    rename(&folder, &[&name], || system::mknodat(&folder, name.as_slice(), kind, mode, device))
}

pub fn unlinkat(folder: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<()> {
    let turn = Turn::at(&folder);
    let name = turn.named(&folder, name)?;
    rename(&folder, &[&name], || system::unlinkat(&folder, name.as_slice(), flags))
}

/// Within one folder, as all renaming is.
pub fn renameat_with(
    folder: impl AsFd,
    from: impl Arg,
    same: impl AsFd,
    to: impl Arg,
    flags: RenameFlags,
) -> Result<()> {
    let turn = Turn::at(&folder);
    let (from, to) = (turn.named(&folder, from)?, turn.named(&folder, to)?);
    let real = || system::renameat_with(&folder, from.as_slice(), &same, to.as_slice(), flags);
    rename(&folder, &[&from, &to], real)
}

/// Change what these names of a folder are.
fn rename(folder: &impl AsFd, names: &[&[u8]], real: impl FnOnce() -> Result<()>) -> Result<()> {
    match Disk::under(folder) {
        Some(disk) => disk.rename(folder, names, real),
        None => real(),
    }
}

pub fn fchmod(file: impl AsFd, mode: Mode) -> Result<()> {
    meet(&file, Call::Change)?;
    system::fchmod(file, mode)
}

pub fn futimens(file: impl AsFd, times: &Timestamps) -> Result<()> {
    meet(&file, Call::Change)?;
    system::futimens(file, times)
}

fn meet(file: &impl AsFd, call: Call) -> Result<()> {
    Disk::under(file).map_or(Ok(()), |disk| disk.meet(call))
}

pub fn set_len(file: &File, len: u64) -> io::Result<()> {
    match Disk::under(file) {
        Some(disk) => disk.set_len(file, len),
        None => system::set_len(file, len),
    }
}

pub fn fsync(file: impl AsFd) -> Result<()> {
    match Disk::under(&file) {
        Some(disk) => disk.sync(&file, true),
        None => system::fsync(file),
    }
}

pub fn fdatasync(file: impl AsFd) -> Result<()> {
    match Disk::under(&file) {
        Some(disk) => disk.sync(&file, false),
        None => system::fdatasync(file),
    }
}

pub fn syncfs(file: impl AsFd) -> Result<()> {
    match Disk::under(&file) {
        Some(disk) => disk.sync_all(),
        None => system::syncfs(file),
    }
}

pub fn sync_file_range(file: &File, offset: u64, len: u64, how: libc::c_uint) -> io::Result<()> {
    match Disk::under(file) {
        Some(disk) => Ok(disk.sync_range(file, offset..offset + len, how == libc::SYNC_FILE_RANGE_WRITE)?),
        None => system::sync_file_range(file, offset, len, how),
    }
}

pub fn fstatfs(file: impl AsFd) -> Result<StatFs> {
    let mut found = system::fstatfs(&file)?;
    if let Some(kind) = Disk::under(&file).and_then(|disk| disk.poses_as) {
        found.f_type = kind;
    }
    Ok(found)
}

pub fn copy_file_range(
    from: &File,
    read_at: Option<&mut u64>,
    to: &File,
    write_at: Option<&mut u64>,
    len: usize,
) -> Result<usize> {
    if let (Some(disk), Some(at)) = (Disk::under(to), &write_at) {
        disk.overwrite(to, **at..**at + len as u64)?;
    }
    system::copy_file_range(from, read_at, to, write_at, len)
}

/// As the trait of the same name.
pub trait FileExt {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;
    fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize>;

    fn read_exact_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], at + done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => done += len,
            }
        }
        Ok(())
    }

    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            done += self.write_at(&data[done..], at + done as u64)?;
        }
        Ok(())
    }
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let len = match Disk::under(self) {
            Some(disk) => disk.read_some(buf.len())?,
            None => buf.len(),
        };
        system::FileExt::read_at(self, &mut buf[..len], at)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        match Disk::under(self) {
            Some(disk) => disk.write(self, data, at),
            None => system::FileExt::write_at(self, data, at),
        }
    }
}

/// Folders that do not tell upper and lower case apart, with all in them.
static FOLDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder does not tell upper and lower case apart for as long as this lives.
pub struct Folding(PathBuf);

pub fn fold(top: &Path) -> Folding {
    let top = top.canonicalize().unwrap();
    FOLDING.lock().unwrap().push(top.clone());
    Folding(top)
}

impl Drop for Folding {
    fn drop(&mut self) {
        FOLDING.lock().unwrap().retain(|top| *top != self.0);
    }
}

/// A call below such a folder is one step for all others, as it is in a file system: to find the name and to do something
/// with it. Elsewhere nobody waits.
struct Turn(Option<MutexGuard<'static, ()>>);

impl Turn {
    fn at(folder: &impl AsFd) -> Turn {
        static ONE: Mutex<()> = Mutex::new(());
        let is_below = |path: PathBuf| FOLDING.lock().unwrap().iter().any(|top| path.starts_with(top));
        let folds =
            !FOLDING.lock().unwrap().is_empty() && std::fs::read_link(itself(folder)).is_ok_and(is_below);
        Turn(folds.then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The name to which a name leads.
    fn named(&self, folder: &impl AsFd, name: impl Arg) -> Result<Vec<u8>> {
        let name = name.as_cow_c_str()?.to_bytes().to_vec();
        if self.0.is_none() {
            return Ok(name);
        }
        let listed = std::fs::read_dir(itself(folder)).into_iter().flatten();
        let mut listed = listed.map_while(|item| Some(item.ok()?.file_name().into_vec()));
        Ok(listed.find(|listed| listed.eq_ignore_ascii_case(&name)).unwrap_or(name))
    }
}
