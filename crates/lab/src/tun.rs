//! A TUN device: what the host sends comes out of its file, what is written to the file the host receives.

use crate::error::LabError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Make a TUN device of this name in this thread's network namespace. It goes away with its file. Reads never block.
///
/// With `super_packets` the host may hand over many packets as one, cut up by nobody, and receives them so: each read and
/// write begins with a note on what follows, see [`gso`](crate::gso).
pub(crate) fn create(name: &str, super_packets: bool) -> Result<OwnedFd, LabError> {
    let file = open()?;
    // SAFETY: all-zero is a valid `ifreq`, a plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let notes = if super_packets { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | notes) as libc::c_short;
    // SAFETY: the descriptor is open and `request` is a live `ifreq`, which TUNSETIFF reads and writes.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.kind() {
            io::ErrorKind::PermissionDenied => LabError::Forbidden,
            _ => LabError::System { step: "making a TUN device", source: error },
        });
    }
    if super_packets {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        // Kernels before 6.2 have none for UDP.
        offer(&file, tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6)
            .or_else(|_| offer(&file, tcp))
            .map_err(LabError::at("letting a TUN device take super-packets"))?;
    }
    Ok(file)
}

/// Tell the host what its device does in its stead.
fn offer(device: &OwnedFd, features: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open, and TUNSETOFFLOAD takes its argument by value.
    let result =
        unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(features)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Open the file that TUN devices are made from.
pub(crate) fn open() -> Result<OwnedFd, LabError> {
    rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => LabError::NoTun,
            Errno::ACCESS | Errno::PERM => LabError::TunForbidden,
            other => LabError::System { step: "opening /dev/net/tun", source: other.into() },
        })
}
