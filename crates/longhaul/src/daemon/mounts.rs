//! File systems that this process alone sees, and which are gone with it.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getgid, getuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Have mounts of one's own: as root, or else as a user who may do in a namespace what root may. While this process has one
/// thread; an error of kind `InvalidInput` else.
pub fn separate() -> io::Result<()> {
    let (user, group) = (getuid(), getgid());
    // SAFETY: descriptors stay as they are.
    match unsafe { unshare_unsafe(UnshareFlags::NEWNS) } {
        Err(Errno::PERM) => {
            // SAFETY: as above.
            unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
            fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        }
        done => done?,
    }
    // What others mount is seen here, but not the other way.
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Mount a file system in user space on an empty folder, and give the descriptor by which somebody can answer for it.
pub fn mount_fuse(name: &str, folder: &Path) -> io::Result<OwnedFd> {
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let options = format!("fd={},rootmode=40000,user_id={user},group_id={group}", device.as_raw_fd());
    let options = CString::new(options)?;
    mount(name, folder, "fuse", MountFlags::NODEV | MountFlags::NOSUID, &*options)?;
    Ok(device)
}
