//! The calls that change a disk, bring it up to date or read back what is on it. Tests put a disk of their own under them
//! (`tests/calls.rs`), so none of these is called in another way; and those that look a name up, for disks that do not tell
//! upper and lower case apart.

#[cfg(not(test))]
pub(super) use self::system::*;
#[cfg(test)]
pub(super) use super::tests::calls::*;

/// As the system does them.
pub(super) mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    pub use rustix::fs::{
        copy_file_range, fchmod, fdatasync, fstatfs, fsync, futimens, linkat, mkdirat, mknodat, openat,
        renameat_with, statat, symlinkat, syncfs, unlinkat,
    };
    pub use std::os::unix::fs::FileExt;

    /// Give a file a length: cut it, or let it end in a hole.
    pub fn set_len(file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Begin to bring a stretch of a file to the disk, or wait for that; `how` as the system call has it.
    pub fn sync_file_range(file: &File, offset: u64, len: u64, how: libc::c_uint) -> io::Result<()> {
        // SAFETY: takes numbers only.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, len as i64, how) } == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
}
