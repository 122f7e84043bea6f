//! What the calls do and refuse, made from Rust as C makes them.

use crate::common::*;
use libc::{c_int, c_void, sockaddr};
use longhaul_c::*;
use longhaul_stripe::{StripeOptions, StripedListener};
use std::ffi::{CStr, CString};
use std::io::{Error, Read, Write};
use std::mem::size_of;
use std::net::TcpListener;
use std::ptr::{null, null_mut};
use std::thread;
use std::time::{Duration, Instant};

fn send(fd: c_int, data: &[u8]) -> isize {
    // SAFETY: it is a slice.
    unsafe { lh_send(fd, data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) }
}

fn send_all(fd: c_int, mut data: &[u8]) {
    while !data.is_empty() {
        let taken = send(fd, data);
        assert!(taken > 0, "{}", line());
        data = &data[taken as usize..];
    }
}

fn receive_all(fd: c_int) -> Vec<u8> {
    let (mut all, mut room) = (vec![], vec![0; 100_000]);
    loop {
        match receive(fd, &mut room) {
            0 => return all,
            got => {
                assert!(got > 0, "{}", line());
                all.extend_from_slice(&room[..got as usize]);
            }
        }
    }
}

fn text(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    bytes
}

#[test]
fn the_calls_of_sockets_make_a_stream() {
    let listener = lh_socket(libc::AF_INET, libc::SOCK_STREAM, 0);
    let mut at = address(0);
    // SAFETY: all pointers are good.
    unsafe {
        assert_eq!(lh_bind(listener, (&raw const at).cast(), ADDRESS_LEN), 0, "{}", line());
        at = address(port_of(listener));
        assert_eq!(lh_listen(listener, 5), 0, "{}", line());
        let near = lh_socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP);
        assert_eq!(lh_connect(near, (&raw const at).cast(), ADDRESS_LEN), 0, "{}", line());
        let (mut peer, mut len) = (address(0), ADDRESS_LEN);
        let far = lh_accept(listener, (&raw mut peer).cast(), &mut len);
        assert_eq!((u16::from_be(peer.sin_port), len), (port_of(near), ADDRESS_LEN));
        assert_eq!(lh_getpeername(near, (&raw mut peer).cast(), &mut len), 0);
        assert_eq!(u16::from_be(peer.sin_port), port_of(listener));
        assert_eq!(lh_connect(near, (&raw const at).cast(), ADDRESS_LEN), -1);
        assert_eq!(errno(), libc::EISCONN);

        assert_eq!(lh_write(near, b"ping".as_ptr().cast(), 4), 4);
        let mut room = [0; 8];
        assert_eq!(lh_read(far, room.as_mut_ptr().cast(), 8), 4);
        assert_eq!(&room[..4], b"ping");
        assert_eq!(lh_shutdown(near, libc::SHUT_WR), 0);
        assert_eq!(receive(far, &mut room), 0);
        assert_eq!(send(near, b"x"), -1);
        assert_eq!((errno(), line()), (libc::EPIPE, "writing was shut down".into()));
        send_all(far, b"pong");
        assert_eq!(lh_recv(near, room.as_mut_ptr().cast(), 4, libc::MSG_WAITALL), 4);
        assert_eq!(&room[..4], b"pong");
        for fd in [near, far, listener] {
            assert_eq!(lh_close(fd), 0, "{}", line());
        }
    }
}

#[test]
fn much_data_passes_both_ways_at_once() {
    let (near, far) = pair();
    let sent = text(20_000_000);
    thread::scope(|scope| {
        for fd in [near, far] {
            let sent = &sent;
            scope.spawn(move || {
                send_all(fd, sent);
                assert_eq!(lh_shutdown(fd, libc::SHUT_WR), 0);
            });
            scope.spawn(move || assert!(receive_all(fd) == *sent));
        }
    });
    let mut stats = LhStats::default();
    // SAFETY: there is room for them.
    assert_eq!(unsafe { lh_stats(near, &mut stats, size_of::<LhStats>()) }, 0, "{}", line());
    assert_eq!((stats.bytes_written, stats.bytes_received), (20_000_000, 20_000_000));
    // A program built with an older header knows of less, one built with a newer header of more.
    let mut few = LhStats { bytes_acked: 7, ..LhStats::default() };
    // SAFETY: there is room for as much.
    assert_eq!(unsafe { lh_stats(near, &mut few, 8) }, 0);
    assert_eq!((few.bytes_written, few.bytes_acked), (20_000_000, 7));
    let mut more = [(LhStats::default(), 7u64); 1];
    // SAFETY: there is room for as much.
    assert_eq!(unsafe { lh_stats(near, more.as_mut_ptr().cast(), size_of_val(&more)) }, 0);
    assert_eq!((more[0].0.bytes_written, more[0].1), (20_000_000, 0));
    assert_eq!((lh_close(near), lh_close(far)), (0, 0));
}

#[test]
fn rust_and_c_speak_to_each_other() {
    let sent = text(3_000_000);
    let listener = StripedListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = vec![];
            stream.read_to_end(&mut got).unwrap();
            stream.write_all(&got).unwrap();
            stream.close().unwrap();
        });
        // SAFETY: all pointers are good.
        let fd = unsafe { lh_dial(LOCALHOST.as_ptr(), port, null()) };
        send_all(fd, &sent);
        lh_shutdown(fd, libc::SHUT_WR);
        assert!(receive_all(fd) == sent);
        assert_eq!(lh_close(fd), 0, "{}", line());
    });
}

#[test]
fn bad_handles_and_null_pointers_are_refused() {
    let (near, far) = pair();
    let mut room = [0u8; 4];
    let data: *mut c_void = room.as_mut_ptr().cast();
    // A number that no descriptor has.
    let none = 1_000_000;
    // SAFETY: all pointers are good or null, which is allowed.
    unsafe {
        let refused = |result: isize, expected: c_int| {
            assert_eq!((result, errno()), (-1, expected), "{}", line());
            assert!(!line().is_empty());
        };
        for fd in [-1, none] {
            refused(lh_send(fd, data, 4, 0), libc::EBADF);
            refused(lh_recv(fd, data, 4, 0), libc::EBADF);
            refused(lh_read(fd, data, 4), libc::EBADF);
            refused(lh_write(fd, data, 4), libc::EBADF);
            refused(lh_accept(fd, null_mut(), null_mut()) as isize, libc::EBADF);
            refused(lh_connect(fd, null(), 0) as isize, libc::EBADF);
            refused(lh_bind(fd, null(), 0) as isize, libc::EBADF);
            refused(lh_listen(fd, 1) as isize, libc::EBADF);
            refused(lh_shutdown(fd, libc::SHUT_WR) as isize, libc::EBADF);
            refused(lh_setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, null(), 0) as isize, libc::EBADF);
            refused(lh_stats(fd, null_mut(), 0) as isize, libc::EBADF);
            refused(lh_set_options(fd, lh_options_new()) as isize, libc::EBADF);
            refused(lh_close(fd) as isize, libc::EBADF);
        }
        refused(lh_send(near, null(), 4, 0), libc::EINVAL);
        refused(lh_recv(near, null_mut(), 4, 0), libc::EINVAL);
        refused(lh_send(near, data, usize::MAX, 0), libc::EINVAL);
        refused(lh_recv(near, data, 4, libc::MSG_PEEK), libc::EOPNOTSUPP);
        refused(lh_shutdown(near, 17) as isize, libc::EINVAL);
        refused(lh_getsockname(near, null_mut(), null_mut()) as isize, libc::EINVAL);
        refused(lh_accept(near, null_mut(), null_mut()) as isize, libc::EINVAL);
        refused(lh_accept(near, data.cast::<sockaddr>(), null_mut()) as isize, libc::EINVAL);
        refused(lh_stats(near, null_mut(), 0) as isize, libc::EINVAL);
        refused(lh_dial(null(), 1, null()) as isize, libc::EINVAL);
        refused(lh_dial(c"\xff".as_ptr(), 1, null()) as isize, libc::EINVAL);
        refused(lh_setsockopt(near, libc::SOL_SOCKET, libc::SO_LINGER, data, 4) as isize, libc::ENOPROTOOPT);
        refused(lh_setsockopt(near, libc::SOL_SOCKET, libc::SO_RCVTIMEO, data, 4) as isize, libc::EINVAL);
        refused(lh_setsockopt(near, libc::SOL_SOCKET, libc::SO_SNDBUF, data, 4) as isize, libc::EISCONN);
        refused(
            lh_socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0) as isize,
            libc::EOPNOTSUPP,
        );
        let fresh = lh_socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        refused(lh_send(fresh, data, 4, 0), libc::ENOTCONN);
        refused(lh_connect(fresh, data.cast::<sockaddr>(), 1) as isize, libc::EINVAL);
        refused(lh_connect(fresh, data.cast::<sockaddr>(), 4) as isize, libc::EAFNOSUPPORT);
        assert_eq!(lh_close(fresh), 0);
        assert_eq!(lh_send(near, null(), 0, 0), 0);
        lh_options_free(null_mut());
    }
    assert_eq!((lh_close(near), lh_close(far)), (0, 0));
}

#[test]
fn options_are_checked_and_heeded() {
    // SAFETY: the options are good or null, which is allowed.
    unsafe {
        let options = lh_options_new();
        for bad in [
            lh_options_streams(null_mut(), 1),
            lh_options_streams(options, 65),
            lh_options_key(options, null(), 3),
            lh_options_congestion(options, null()),
            lh_options_local_ends(options, null()),
            lh_options_local_ends(options, c"lo,,lo".as_ptr()),
            lh_options_patience_ms(options, 0),
        ] {
            assert_eq!((bad, errno()), (-1, libc::EINVAL), "{}", line());
        }
        for good in [
            lh_options_streams(options, 3),
            lh_options_key(options, b"secret".as_ptr().cast(), 6),
            lh_options_plain(options),
            lh_options_buffer(options, 4 << 20),
            lh_options_window(options, 1 << 17),
            lh_options_connect_timeout_ms(options, 60_000),
            lh_options_patience_ms(options, 60_000),
            lh_options_stall_timeout_ms(options, 60_000),
            lh_options_remember(options, 0),
            lh_options_local_ends(options, c"".as_ptr()),
            lh_options_local_ends(options, c"127.0.0.2, lo".as_ptr()),
        ] {
            assert_eq!(good, 0, "{}", line());
        }
        let (listener, port) = serve(options);
        let (near, at) = (lh_socket(libc::AF_INET, libc::SOCK_STREAM, 0), address(port));
        assert_eq!(lh_set_options(near, options), 0, "{}", line());
        assert_eq!(lh_options_congestion(options, c"no such thing".as_ptr()), 0);
        assert_eq!((lh_dial(LOCALHOST.as_ptr(), port, options), errno()), (-1, libc::EINVAL));
        assert!(line().contains("no such thing"), "{}", line());
        lh_options_free(options);
        assert_eq!(lh_connect(near, (&raw const at).cast(), ADDRESS_LEN), 0, "{}", line());
        let far = lh_accept(listener, null_mut(), null_mut());
        let began = Instant::now();
        let mut stats = LhStats::default();
        while stats.lanes < 3 {
            assert!(began.elapsed() < Duration::from_secs(60), "{stats:?}");
            assert_eq!(lh_stats(near, &mut stats, size_of::<LhStats>()), 0);
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((lh_close(near), lh_close(far), lh_close(listener)), (0, 0, 0));
    }
}

#[test]
fn what_cannot_be_reached_is_an_error_with_a_line() {
    // SAFETY: all pointers are good.
    unsafe {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!((lh_dial(LOCALHOST.as_ptr(), free, null()), errno()), (-1, libc::ECONNREFUSED));
        assert!(line().starts_with(&format!("cannot connect to 127.0.0.1 port {free}: ")), "{}", line());
        let (fresh, at) = (lh_socket(libc::AF_INET, libc::SOCK_STREAM, 0), address(free));
        for _ in 0..2 {
            let refused = lh_connect(fresh, (&raw const at).cast(), ADDRESS_LEN);
            assert_eq!((refused, errno()), (-1, libc::ECONNREFUSED));
        }
        assert_eq!(lh_close(fresh), 0);

        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_eq!((lh_serve(LOCALHOST.as_ptr(), port, null()), errno()), (-1, libc::EADDRINUSE));

        let keyed = lh_options_new();
        lh_options_key(keyed, b"right".as_ptr().cast(), 5);
        let (listener, port) = serve(keyed);
        lh_options_key(keyed, b"wrong".as_ptr().cast(), 5);
        assert_eq!((lh_dial(LOCALHOST.as_ptr(), port, keyed), errno()), (-1, libc::EKEYREJECTED));
        assert!(line().contains("key"), "{}", line());
        lh_options_free(keyed);
        assert_eq!(lh_close(listener), 0);
    }
}

#[test]
fn other_descriptors_are_the_systems() {
    // SAFETY: all pointers are good.
    unsafe {
        let (datagrams, any) = (lh_socket(libc::AF_INET, libc::SOCK_DGRAM, 0), address(0));
        assert_eq!(lh_bind(datagrams, (&raw const any).cast(), ADDRESS_LEN), 0, "{}", line());
        let itself = address(port_of(datagrams));
        assert_eq!(lh_connect(datagrams, (&raw const itself).cast(), ADDRESS_LEN), 0, "{}", line());
        assert_eq!(send(datagrams, b"hello"), 5);
        let mut room = [0; 9];
        assert_eq!(receive(datagrams, &mut room), 5);
        assert_eq!(&room[..5], b"hello");
        assert_eq!((lh_listen(datagrams, 1), errno()), (-1, libc::EOPNOTSUPP));
        let system = Error::last_os_error().to_string();
        assert!(system.starts_with(&line()), "{system}: {}", line());
        assert_eq!(lh_close(datagrams), 0);
        assert_eq!(CStr::from_ptr(lh_strerror(libc::ENOENT)), c"No such file or directory");
    }
}

#[test]
fn what_was_sent_arrives_after_closing() {
    let (near, far) = pair();
    let sent = text(1_000_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            send_all(near, &sent);
            assert_eq!(lh_close(near), 0, "{}", line());
        });
        assert!(receive_all(far) == sent);
    });
    assert_eq!(lh_close(far), 0);
    let named = CString::new("localhost").unwrap();
    let listener = StripeOptions::new().bind("localhost:0").unwrap();
    // SAFETY: all pointers are good.
    let fd = unsafe { lh_dial(named.as_ptr(), listener.local_addr().unwrap().port(), null()) };
    assert!(fd >= 0, "{}", line());
    assert_eq!(lh_close(fd), 0);
}
