//! Errors as the numbers of `errno`, for bindings to other languages.

use crate::handshake::refusal_of;
use longhaul_proto::stripe::hello::Refusal;
use std::io::{Error, ErrorKind};

/// The number that says best what went wrong: the system's own where it has one.
pub fn of(error: &Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| match refusal_of(error) {
        Some(Refusal::Key) => libc::EKEYREJECTED,
        Some(Refusal::Version) => libc::EPROTONOSUPPORT,
        Some(Refusal::Busy) => libc::EBUSY,
        _ => of_kind(error.kind()),
    })
}

fn of_kind(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => libc::ECONNRESET,
        ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::NetworkUnreachable => libc::ENETUNREACH,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::Interrupted => libc::EINTR,
        ErrorKind::InvalidInput => libc::EINVAL,
        // What came makes no sense.
        ErrorKind::InvalidData => libc::EPROTO,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_number_goes_before_the_kind() {
        assert_eq!(of(&Error::from_raw_os_error(libc::ENETDOWN)), libc::ENETDOWN);
        assert_eq!(of(&Error::new(ErrorKind::ConnectionRefused, "nobody listens")), libc::ECONNREFUSED);
        assert_eq!(of(&Error::other("anything")), libc::EIO);
    }

    #[test]
    fn a_listener_that_refuses_is_told_from_none() {
        let of_refusal = |refusal: Refusal| of(&Error::new(ErrorKind::ConnectionRefused, refusal));
        assert_eq!(of_refusal(Refusal::Key), libc::EKEYREJECTED);
        assert_eq!(of_refusal(Refusal::Version), libc::EPROTONOSUPPORT);
        assert_eq!(of_refusal(Refusal::Busy), libc::EBUSY);
    }
}
