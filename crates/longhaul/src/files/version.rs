//! Versions of files: how a file system shows that a file was changed, or replaced by another.

use super::sealing::version_key;
use longhaul_proto::session::manifest::FileVersion;
use rustix::fs::{AtFlags, Statx, StatxFlags, fstatfs, statx};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// All attributes of a file that change when its contents do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    hash: FileVersion,
    /// Seconds since 1970 and nanoseconds.
    ctime: (i64, u32),
}

impl Identity {
    /// Of an open file: device, inode, size, time of modification, of change and, where there is one, of birth.
    pub(super) fn of(file: impl AsFd) -> Result<Identity, Errno> {
        Identity::under(version_key(), file, true)
    }

    /// The same as all hosts see it that have the file system in common: hosts number devices each for itself.
    pub(super) fn shared(key: &[u8; 32], file: impl AsFd) -> Result<Identity, Errno> {
        Identity::under(key, file, false)
    }

    /// Anybody on this host can read these attributes. The key keeps others from passing another file off as the same
    /// version.
    fn under(key: &[u8; 32], file: impl AsFd, has_device: bool) -> Result<Identity, Errno> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        // A network file system is to ask its server, not its memory.
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let found = statx(file, "", how, wanted)?;
        let born = born(&found);
        let (mtime, ctime) = (found.stx_mtime, (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec));
        let mut hasher = blake3::Hasher::new_keyed(key);
        if has_device {
            hasher.update(&found.stx_dev_major.to_le_bytes()).update(&found.stx_dev_minor.to_le_bytes());
        }
        hasher.update(&found.stx_ino.to_le_bytes()).update(&found.stx_size.to_le_bytes());
        for (seconds, nanoseconds) in [(mtime.tv_sec, mtime.tv_nsec), ctime, born] {
            hasher.update(&seconds.to_le_bytes()).update(&nanoseconds.to_le_bytes());
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Ok(Identity { hash, ctime })
    }

    /// The version that a copy goes by, if what the file system says can be relied on.
    pub(super) fn version(&self, file: impl AsFd) -> Option<FileVersion> {
        let kind = fstatfs(file).ok()?.f_type as u64 & 0xffff_ffff;
        (RELIABLE.contains(&kind) && self.is_settled(SystemTime::now())).then_some(self.hash)
    }

    /// Whether it is this version, whether that can be relied on or not.
    pub(super) fn is(&self, version: &FileVersion) -> bool {
        self.hash == *version
    }

    /// Whether a change after `now` is sure to get another ctime than the last one. If the clock was set back, it is not.
    fn is_settled(&self, now: SystemTime) -> bool {
        // Whole seconds are what coarse file systems keep.
        let tick = if self.ctime.1 == 0 { COARSE_TICK } else { TICK };
        let changed = u64::try_from(self.ctime.0).map(|s| UNIX_EPOCH + Duration::new(s, self.ctime.1));
        changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|age| age > tick))
    }
}

/// When a file was made, to be noted: what tells it from another that had its name before, to all hosts that have the file system
/// in common. Zeros where the file system does not tell.
pub(super) fn birth(file: impl AsFd) -> [u8; 8] {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let (seconds, nanoseconds) = found.map_or((0, 0), |found| born(&found));
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds.into()).to_be_bytes()
}

/// Whether a file may be the one whose birth was noted: not every host is told.
pub(super) fn may_be_of(noted: [u8; 8], file: impl AsFd) -> bool {
    let birth = birth(file);
    birth == noted || birth == [0; 8] || noted == [0; 8]
}

/// Seconds since 1970 and nanoseconds; zeros where the file system does not tell.
fn born(found: &Statx) -> (i64, u32) {
    let is_told = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    if is_told { (found.stx_btime.tv_sec, found.stx_btime.tv_nsec) } else { (0, 0) }
}

/// Have what was written to a stretch of a file begin its way to the disk. From then on a program that has mapped the
/// file and writes to it changes its times, which it does not while the pages are still dirty from before.
pub(super) fn expose_writes(file: &File, offset: u64, len: u64) {
    // SAFETY: takes numbers only. Where it is not supported nothing happens.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset as i64, len as i64, libc::SYNC_FILE_RANGE_WRITE)
    };
}

/// File systems that change a file's ctime with each change of its contents, through a mapping too. Not tmpfs, where
/// stores to a page that is dirty leave no trace, and not FUSE, where all depends on the program behind it.
const RELIABLE: [u64; 12] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlayfs
    0x6969,      // NFS
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x00c3_6400, // Ceph
    0x1983_0326, // BeeGFS
];

/// The kernel's clock for time stamps moves on at least every 10 ms; twice that.
const TICK: Duration = Duration::from_millis(20);
/// FAT has the coarsest, 2 s.
const COARSE_TICK: Duration = Duration::from_millis(2100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_time_that_the_next_change_may_have_too_is_not_relied_on() {
        let at = |ctime: (i64, u32), now_ms: u64| {
            Identity { hash: [0; 16], ctime }.is_settled(UNIX_EPOCH + Duration::from_millis(now_ms))
        };
        assert!(at((100, 1), 100_100) && !at((100, 1), 100_010));
        assert!(at((100, 0), 102_200) && !at((100, 0), 100_100), "whole seconds");
        assert!(!at((100, 1), 99_000), "the clock was set back");
        assert!(!at((-1, 0), 99_000));
    }

    #[test]
    fn a_file_is_told_from_one_that_had_its_name_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let made = || {
            std::fs::remove_file(&path).ok();
            File::create(&path).unwrap()
        };
        let first = birth(made());
        std::thread::sleep(2 * TICK);
        let second = made();
        second.set_len(5).unwrap();
        assert!(may_be_of(birth(&second), &second) && may_be_of([0; 8], &second));
        assert!(first == [0; 8] || !may_be_of(first, &second));
    }

    #[test]
    fn nobody_without_the_key_can_make_a_version_up() {
        let file = tempfile::tempfile().unwrap();
        let under = |key: u8| Identity::under(&[key; 32], &file, true).unwrap().hash;
        assert_eq!(under(1), under(1));
        assert_ne!(under(1), under(2));
    }

    #[test]
    fn every_kind_of_change_is_another_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"abc").unwrap();
        let of = |path: &std::path::Path| Identity::of(File::open(path).unwrap()).unwrap().hash;
        let mut seen = vec![of(&path)];
        let wait = || std::thread::sleep(2 * TICK);
        let mtime = std::fs::metadata(&path).unwrap().modified().unwrap();
        wait();
        File::options().append(true).open(&path).unwrap().write_all(b"d").unwrap();
        seen.push(of(&path));
        wait();
        // The same size, and its time put back.
        std::fs::write(&path, b"abd").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(mtime).unwrap();
        seen.push(of(&path));
        std::fs::copy(&path, folder.path().join("g")).unwrap();
        std::fs::rename(folder.path().join("g"), &path).unwrap();
        seen.push(of(&path));
        assert_eq!(of(&path), of(&path));
        let different: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(different.len(), seen.len());
    }
}
