//! What it takes to make namespaces, for root and for everybody else.

use crate::error::LabError;
use crate::tun;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, unshare_unsafe};
use std::fs;

/// Make sure that this process may build labs.
///
/// Root already may. For an ordinary user the process moves into a user namespace of its own, in which it is root over
/// its own network namespaces and nothing else; files are still read and written as that user. This must happen before
/// the program starts its first thread.
pub fn ensure_privileges() -> Result<(), LabError> {
    tun::open()?;
    if may_make_namespaces() { Ok(()) } else { enter_user_namespace() }
}

/// Whether this thread may already make and shape network namespaces.
fn may_make_namespaces() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn enter_user_namespace() -> Result<(), LabError> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // SAFETY: only NEWUSER is asked for; descriptors stay shared.
    match unsafe { unshare_unsafe(UnshareFlags::NEWUSER) } {
        Ok(()) => {}
        Err(Errno::INVAL) => return Err(LabError::ThreadsRunning),
        Err(Errno::PERM | Errno::NOSPC | Errno::USERS | Errno::NOSYS) => {
            return Err(LabError::NoUserNamespace);
        }
        Err(other) => return Err(LabError::at("making a user namespace")(other)),
    }
    let write = |path, text: String| match fs::write(path, text) {
        Ok(()) => Ok(()),
        Err(_) => Err(LabError::NoUserNamespace),
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    write("/proc/self/uid_map", format!("0 {uid} 1"))
}
