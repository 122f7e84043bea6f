//! The folders of the user who runs this (XDG Base Directory Specification), and the name of the host.

use std::path::PathBuf;

/// What may be lost: `longhaul` in `XDG_CACHE_HOME`, or else in `~/.cache`. `None` without a home.
pub fn cache_folder() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache")
}

/// What is to last: `longhaul` in `XDG_STATE_HOME`, or else in `~/.local/state`. `None` without a home.
pub fn state_folder() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state")
}

/// What this host calls itself.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The specification has it that relative paths do not count.
fn folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))?;
    Some(base.join("longhaul"))
}
