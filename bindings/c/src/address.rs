//! Addresses as C has them.

use crate::errors::{Answer, Fault};
use libc::{c_int, sockaddr, socklen_t};
use std::ffi::{CStr, c_char};
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Read an address.
///
/// # Safety
/// `address` is null or points to `len` bytes that may be read.
pub unsafe fn read(address: *const sockaddr, len: socklen_t) -> Answer<SocketAddr> {
    let len = len as usize;
    if address.is_null() {
        return Err(Fault::null("the address"));
    }
    if len < size_of::<libc::sa_family_t>() {
        return Err(too_short());
    }
    // SAFETY: the caller says that so much is there; it need not be aligned.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    match family {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as above, and all bit patterns are values of it.
            let raw = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
            Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let raw = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Ok(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(too_short()),
        _ => Err(Fault::new(libc::EAFNOSUPPORT, "the address is neither of IPv4 nor of IPv6")),
    }
}

/// Hand out an address, cut off where there is no room, as `accept` does. Nothing is done if `out` is null.
///
/// # Safety
/// `out` is null, or `len` points to the number of bytes that may be written there; neither need be aligned.
pub unsafe fn write(address: SocketAddr, out: *mut sockaddr, len: *mut socklen_t) -> Answer<()> {
    if out.is_null() {
        return Ok(());
    }
    if len.is_null() {
        return Err(Fault::null("the length of the address"));
    }
    match address {
        SocketAddr::V4(address) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: what the caller promises is passed on.
            unsafe { copy_out(&raw, out, len) };
        }
        SocketAddr::V6(address) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { copy_out(&raw, out, len) };
        }
    }
    Ok(())
}

/// # Safety
/// `len` points to the number of bytes that may be written to `out`. `T` has no padding.
unsafe fn copy_out<T>(raw: &T, out: *mut sockaddr, len: *mut socklen_t) {
    // SAFETY: the caller says so.
    let room = unsafe { len.read_unaligned() } as usize;
    // SAFETY: no more than there is, to where there is room; the caller's buffer is not our local.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *raw).cast::<u8>(), out.cast(), room.min(size_of::<T>()));
        len.write_unaligned(size_of::<T>() as socklen_t);
    }
}

fn too_short() -> Fault {
    Fault::new(libc::EINVAL, "the address is too short for its family")
}

/// Read a name.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Answer<&'a str> {
    if text.is_null() {
        return Err(Fault::null(what));
    }
    // SAFETY: the caller says so.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Fault::new(libc::EINVAL, format!("{what} is not UTF-8")))
}
