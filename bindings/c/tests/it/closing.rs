//! Each alone in its process: where others open descriptors meanwhile, the number of a closed one may be theirs.

use crate::common::*;
use longhaul_c::{lh_accept, lh_close, lh_socket};
use longhaul_testing::process::is_alone;
use std::ptr::{null, null_mut};
use std::thread;
use std::time::Duration;

#[test]
fn what_is_closed_is_no_handle_any_more() {
    if !is_alone() {
        return;
    }
    let fd = lh_socket(libc::AF_INET, libc::SOCK_STREAM, 0);
    assert!(fd >= 0);
    assert_eq!(lh_close(fd), 0);
    assert_eq!(lh_close(fd), -1);
    assert_eq!(errno(), libc::EBADF);
}

#[test]
fn timeouts_pass_and_closing_ends_waiting() {
    if !is_alone() {
        return;
    }
    let (near, far) = pair();
    set_timeout(near, libc::SO_RCVTIMEO, 20_000);
    assert_eq!((receive(near, &mut [0]), errno()), (-1, libc::EAGAIN));
    set_timeout(near, libc::SO_RCVTIMEO, 0);
    let (listener, _) = serve(null());
    set_timeout(listener, libc::SO_RCVTIMEO, 20_000);
    // SAFETY: null is allowed.
    assert_eq!((unsafe { lh_accept(listener, null_mut(), null_mut()) }, errno()), (-1, libc::EAGAIN));
    set_timeout(listener, libc::SO_RCVTIMEO, 0);
    thread::scope(|scope| {
        let reading = scope.spawn(|| receive(near, &mut [0]));
        // SAFETY: null is allowed.
        let accepting = scope.spawn(|| (unsafe { lh_accept(listener, null_mut(), null_mut()) }, errno()));
        // Most likely both wait by then; if not, the outcome is the same but for the number.
        thread::sleep(Duration::from_millis(50));
        assert_eq!((lh_close(near), lh_close(listener)), (0, 0));
        assert!(reading.join().unwrap() <= 0);
        assert_eq!(accepting.join().unwrap(), (-1, libc::EBADF));
    });
    assert_eq!(lh_close(far), 0);
}
