//! The calls on handles that are connected or listen.

use crate::address;
use crate::errors::{Answer, Fault, answer};
use crate::handles::{Handle, State};
use crate::setup::number;
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};
use longhaul_stripe::StripedStream;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

/// Wait for a stream, as accept() does. Where it comes from is written to the address unless that is null. Returns its
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of accept.
            return number(unsafe { libc::accept(fd, address, len) });
        };
        if !address.is_null() && len.is_null() {
            return Err(Fault::null("the length of the address"));
        }
        let (stream, peer) = handle.accept()?;
        // SAFETY: the caller's arguments are those of accept.
        unsafe { address::write(peer, address, len) }?;
        Handle::add(State::Open(stream))
    })
}

/// Send bytes, as send() does: returns how many were taken, which may be fewer than there are. Of the flags,
/// MSG_NOSIGNAL and MSG_MORE are allowed and mean nothing: no signal is ever raised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of send.
            return size(unsafe { libc::send(fd, data, len, flags) });
        };
        allow(flags, libc::MSG_NOSIGNAL | libc::MSG_MORE)?;
        // SAFETY: the caller says that so much is there.
        unsafe { send(&handle, data, len) }
    })
}

/// Receive bytes, as recv() does: returns how many came, 0 at the end of what the other side has sent. Of the flags,
/// MSG_WAITALL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of recv.
            return size(unsafe { libc::recv(fd, data, len, flags) });
        };
        allow(flags, libc::MSG_WAITALL | libc::MSG_NOSIGNAL)?;
        // SAFETY: the caller says that there is so much room.
        unsafe { receive(&handle, data, len, flags & libc::MSG_WAITALL != 0) }
    })
}

/// Send bytes, as write() does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    answer(|| match Handle::find(fd)? {
        // SAFETY: the caller says that so much is there.
        Some(handle) => unsafe { send(&handle, data, len) },
        // SAFETY: the caller's arguments are those of write.
        None => size(unsafe { libc::write(fd, data, len) }),
    })
}

/// Receive bytes, as read() does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    answer(|| match Handle::find(fd)? {
        // SAFETY: the caller says that there is so much room.
        Some(handle) => unsafe { receive(&handle, data, len, false) },
        // SAFETY: the caller's arguments are those of read.
        None => size(unsafe { libc::read(fd, data, len) }),
    })
}

/// End receiving (SHUT_RD), sending (SHUT_WR) or both (SHUT_RDWR), as shutdown() does.
#[unsafe(no_mangle)]
pub extern "C" fn lh_shutdown(fd: c_int, how: c_int) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: it takes two numbers.
            return number(unsafe { libc::shutdown(fd, how) });
        };
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Fault::new(libc::EINVAL, "it is SHUT_RD, SHUT_WR or SHUT_RDWR")),
        };
        handle.stream()?.shutdown(how)?;
        Ok(0)
    })
}

/// Close a handle. Unlike close(), it waits until the other side has all that was sent, and fails if it does not get
/// it; the handle is gone in any case. Of a descriptor that is no handle this is close().
#[unsafe(no_mangle)]
pub extern "C" fn lh_close(fd: c_int) -> c_int {
    answer(|| {
        let Some(handle) = Handle::begin_closing(fd)? else {
            // SAFETY: it takes a number; whoever passes that of a descriptor in use elsewhere asked for it.
            return number(unsafe { libc::close(fd) });
        };
        let closed = handle.stream().map_or(Ok(()), deliver);
        Handle::remove(fd);
        closed.map(|()| 0)
    })
}

fn deliver(stream: StripedStream) -> Answer<()> {
    let delivered = stream.try_clone()?.close();
    // Whoever still reads in another thread is to come to an end.
    stream.shutdown(Shutdown::Both)?;
    Ok(delivered?)
}

/// Make a descriptor of the system's of a handle that is connected, under the same number: for poll(), select(), epoll,
/// fcntl(), dup(), fdopen(), read(), write() and all else that sockets can do. It is a socket of loopback, which its
/// addresses show; lh_getpeername() is to be called before. From then on it is no handle: close() does not wait, and
/// what was written is delivered in the background and before exit() is done, unless nothing gets through for ten
/// seconds. _exit(), exec() and signals that kill end that, and what a FILE holds is to be flushed before main() returns.
/// The timeouts that were set stay, and O_NONBLOCK. Returns the number; of a descriptor that is no handle, its own.
#[unsafe(no_mangle)]
pub extern "C" fn lh_descriptor(fd: c_int) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: it takes two numbers.
            return number(unsafe { libc::fcntl(fd, libc::F_GETFD) }).map(|_| fd);
        };
        handle.become_descriptor(fd)?;
        Ok(fd)
    })
}

/// Where a handle's stream begins or its listener waits, as getsockname() does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of getsockname.
            return number(unsafe { libc::getsockname(fd, address, len) });
        };
        let local = match &*handle.state() {
            State::Listening { listener, .. } => listener.local_addr()?,
            State::Open(stream) => stream.local_addr()?,
            State::Fresh(_) | State::Connecting => {
                return Err(Fault::new(libc::EINVAL, "the handle is neither bound nor connected"));
            }
        };
        // SAFETY: the caller's arguments are those of getsockname.
        unsafe { told(local, address, len) }
    })
}

/// Where a handle's stream leads, as getpeername() does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of getpeername.
            return number(unsafe { libc::getpeername(fd, address, len) });
        };
        let peer = handle.stream()?.peer_addr()?;
        // SAFETY: the caller's arguments are those of getpeername.
        unsafe { told(peer, address, len) }
    })
}

/// # Safety
/// As of [`address::write`].
unsafe fn told(found: SocketAddr, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    if address.is_null() {
        return Err(Fault::null("the address"));
    }
    // SAFETY: the caller says so.
    unsafe { address::write(found, address, len) }?;
    Ok(0)
}

/// # Safety
/// `data` is null or points to `len` bytes that may be read.
unsafe fn send(handle: &Handle, data: *const c_void, len: size_t) -> Answer<ssize_t> {
    let mut stream = handle.stream()?;
    check(data, len, "the data")?;
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: the caller says that so much is there, and it is no more than a slice may have.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
    Ok(stream.write(data)? as ssize_t)
}

/// # Safety
/// `data` is null or points to `len` bytes that may be written.
unsafe fn receive(handle: &Handle, data: *mut c_void, len: size_t, all: bool) -> Answer<ssize_t> {
    let mut stream = handle.stream()?;
    check(data, len, "the buffer")?;
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: the caller says that there is so much room, and it is no more than a slice may have. The stream writes to
    // it and reads nothing of it, so what is in it does not matter.
    let room = unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), len) };
    let mut got = stream.read(room)?;
    while all && got > 0 && got < len {
        match stream.read(&mut room[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            // What has come is told first, as recv does.
            Err(_) => break,
        }
    }
    Ok(got as ssize_t)
}

fn check(data: *const c_void, len: size_t, what: &str) -> Answer<()> {
    if data.is_null() && len > 0 {
        return Err(Fault::null(what));
    }
    if len > isize::MAX as usize {
        return Err(Fault::new(libc::EINVAL, "no buffer is that long"));
    }
    Ok(())
}

fn allow(flags: c_int, known: c_int) -> Answer<()> {
    if flags & !known == 0 {
        return Ok(());
    }
    let line =
        "this flag is not for handles; there are MSG_NOSIGNAL, MSG_MORE to send and MSG_WAITALL to receive";
    Err(Fault::new(libc::EOPNOTSUPP, line))
}

/// What a system call that moves bytes came to.
fn size(result: ssize_t) -> Answer<ssize_t> {
    if result < 0 { Err(Fault::last_os()) } else { Ok(result) }
}
