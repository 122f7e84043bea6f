//! Permissions and times of files and folders.

use super::calls::openat;
use longhaul_proto::session::manifest::Entry;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chmodat};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Hold what a name leads to, whatever it is.
pub(super) fn hold(folder: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Set the permissions of what is held, and not of whatever its name may lead to by now.
pub(super) fn set_mode(there: &impl AsRawFd, mode: Mode) -> Result<(), Errno> {
    chmodat(CWD, itself(there).as_str(), mode, AtFlags::empty())
}

/// A path to what is open.
pub(super) fn itself(file: &impl AsRawFd) -> String {
    format!("{ITSELF}/{}", file.as_raw_fd())
}

/// The permissions that an entry gets.
pub(super) fn mode(entry: &Entry) -> Mode {
    Mode::from_raw_mode(entry.mode & PERMISSIONS)
}

/// The times that it gets.
pub(super) fn times(entry: &Entry) -> Timestamps {
    modified(entry.mtime)
}

/// Last modified then.
pub(super) fn modified((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    let stamp = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    let untouched = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps { last_access: untouched, last_modification: stamp }
}

/// Whether two times are the same as far as the destination's file system can tell: some keep whole seconds,
/// microseconds or tenths of them.
pub(super) fn same_time(source: (i64, u32), there: (i64, u32)) -> bool {
    let coarser = [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000];
    source.0 == there.0 && coarser.iter().any(|unit| there.1 == source.1 / unit * unit)
}

/// What is taken over of a mode: no set-user-ID, set-group-ID and sticky bits, which mean something else where the owner is
/// another.
pub(super) const PERMISSIONS: u32 = 0o777;

/// Where a file that is open has a name, whatever other names it has.
pub(super) const ITSELF: &str = "/proc/self/fd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_compare_as_finely_as_the_file_system_keeps_them() {
        assert!(same_time((5, 123_456_789), (5, 123_456_789)));
        assert!(same_time((5, 123_456_789), (5, 0)));
        assert!(same_time((5, 123_456_789), (5, 123_456_000)));
        assert!(same_time((5, 123_456_789), (5, 123_456_700)));
        assert!(!same_time((5, 123_456_789), (5, 123_456_788)));
        assert!(!same_time((5, 0), (6, 0)));
    }
}
