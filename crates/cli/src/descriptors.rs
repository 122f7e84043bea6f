//! How many files and sockets may be open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many descriptors as this user may have: each copy takes some for its sockets, TCP streams, folders and files on
/// their way. What the shell gives is meant for programs that use select(2).
pub fn have_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the old limit holds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
