//! What `files/calls.rs` is in tests: below a folder with a [`Disk`] every call goes through that, elsewhere to the system.

use super::disk::{Call, Disk};
use crate::files::calls::system;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, StatFs, Timestamps};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub fn openat(folder: impl AsFd, name: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let name = bytes(name)?;
    let make = || system::openat(&folder, name.as_slice(), flags, mode);
    let is_unnamed = flags.contains(OFlags::TMPFILE);
    match Disk::under(&folder).filter(|_| is_unnamed || flags.contains(OFlags::CREATE)) {
        Some(disk) => disk.create(&folder, (!is_unnamed).then_some(&name), make),
        None => make(),
    }
}

pub fn mkdirat(folder: impl AsFd, name: impl Arg, mode: Mode) -> Result<()> {
    let name = bytes(name)?;
    rename(&folder, &[&name], || system::mkdirat(&folder, name.as_slice(), mode))
}

pub fn symlinkat(target: &[u8], folder: impl AsFd, name: impl Arg) -> Result<()> {
    let name = bytes(name)?;
    rename(&folder, &[&name], || system::symlinkat(target, &folder, name.as_slice()))
}

pub fn linkat(from: impl AsFd, path: &str, folder: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<()> {
    let name = bytes(name)?;
    rename(&folder, &[&name], || system::linkat(&from, path, &folder, name.as_slice(), flags))
}

pub fn unlinkat(folder: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<()> {
    let name = bytes(name)?;
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
    let (from, to) = (bytes(from)?, bytes(to)?);
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

fn bytes(name: impl Arg) -> std::result::Result<Vec<u8>, Errno> {
    Ok(name.as_cow_c_str()?.to_bytes().to_vec())
}
