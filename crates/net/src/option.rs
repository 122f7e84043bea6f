//! Options of sockets that the libraries have no name for.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Set one that is an integer.
///
/// # Errors
/// What the kernel says, as where it has no such option or refuses the value.
pub fn set(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_plain(socket, level, name, value)
}

/// Set one that is plain data without padding.
pub(crate) fn set_plain<T: Copy>(socket: &impl AsFd, level: i32, name: i32, value: T) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` lives through the call, its size is given, and it is plain data without padding.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
