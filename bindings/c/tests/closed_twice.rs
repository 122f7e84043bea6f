//! Alone in its process: where others open descriptors meanwhile, the number of a closed one may be theirs.

use longhaul_c::{lh_close, lh_socket};
use std::io::Error;

#[test]
fn what_is_closed_is_no_handle_any_more() {
    let fd = lh_socket(libc::AF_INET, libc::SOCK_STREAM, 0);
    assert!(fd >= 0);
    assert_eq!(lh_close(fd), 0);
    assert_eq!(lh_close(fd), -1);
    assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EBADF));
}
