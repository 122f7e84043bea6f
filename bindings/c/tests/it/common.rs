//! What the tests of the calls share.

use libc::{c_int, sockaddr_in, socklen_t};
use longhaul_c::*;
use std::ffi::CStr;
use std::io::Error;
use std::mem::size_of;
use std::net::Ipv4Addr;
use std::ptr::{null, null_mut};

pub const LOCALHOST: &CStr = c"127.0.0.1";

/// The number of the last failure of this thread.
pub fn errno() -> c_int {
    Error::last_os_error().raw_os_error().unwrap()
}

/// What `lh_strerror` says of it.
pub fn line() -> String {
    // SAFETY: it is text that is valid until the next call fails.
    unsafe { CStr::from_ptr(lh_strerror(errno())) }.to_str().unwrap().to_owned()
}

pub fn address(port: u16) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    }
}

pub const ADDRESS_LEN: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// A handle that listens on loopback, and its port.
pub fn serve(options: *const LhOptions) -> (c_int, u16) {
    // SAFETY: all pointers are good.
    unsafe {
        let listener = lh_serve(LOCALHOST.as_ptr(), 0, options);
        assert!(listener >= 0, "{}", line());
        (listener, port_of(listener))
    }
}

pub fn port_of(fd: c_int) -> u16 {
    let (mut found, mut len) = (address(0), ADDRESS_LEN);
    // SAFETY: there is room for the address.
    let told = unsafe { lh_getsockname(fd, (&raw mut found).cast(), &mut len) };
    assert_eq!((told, len), (0, ADDRESS_LEN), "{}", line());
    assert_eq!(u32::from_be(found.sin_addr.s_addr), u32::from(Ipv4Addr::LOCALHOST));
    u16::from_be(found.sin_port)
}

/// Both ends of a stream over loopback.
pub fn pair() -> (c_int, c_int) {
    let (listener, port) = serve(null());
    // SAFETY: all pointers are good.
    let ends =
        unsafe { (lh_dial(LOCALHOST.as_ptr(), port, null()), lh_accept(listener, null_mut(), null_mut())) };
    assert!(ends.0 >= 0 && ends.1 >= 0, "{}", line());
    assert_eq!(lh_close(listener), 0);
    ends
}

pub fn receive(fd: c_int, room: &mut [u8]) -> isize {
    // SAFETY: it is a slice.
    unsafe { lh_recv(fd, room.as_mut_ptr().cast(), room.len(), 0) }
}

pub fn set_timeout(fd: c_int, name: c_int, micros: i64) {
    let value = libc::timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 };
    let len = size_of::<libc::timeval>() as socklen_t;
    // SAFETY: the value is there.
    let set = unsafe { lh_setsockopt(fd, libc::SOL_SOCKET, name, (&raw const value).cast(), len) };
    assert_eq!(set, 0, "{}", line());
}
