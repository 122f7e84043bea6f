//! A server that has little room.

use super::tree::folder;
use super::{LONGHAUL, Server, skip, undisturbed};
use std::path::PathBuf;
use std::process::Command;

/// A server whose folder is a file system of its own with little room.
pub struct Small {
    pub server: Server,
    /// The folder, seen from here.
    pub root: PathBuf,
    _mount_point: tempfile::TempDir,
}

impl Small {
    /// `None` where this user cannot mount anything, which is said.
    pub fn start(bytes: u64) -> Option<Small> {
        let mount_point = folder();
        let unshare = || {
            let mut command = Command::new("unshare");
            let map_root = (!rustix::process::geteuid().is_root()).then_some("--map-root-user");
            command.arg("--mount").args(map_root);
            command
        };
        let can = unshare().args(["mount", "-t", "tmpfs", "none"]).arg(mount_point.path()).output();
        if !can.is_ok_and(|output| output.status.success()) {
            skip("this user cannot mount a small file system (unshare --mount)");
            return None;
        }
        let mut command = unshare();
        let script = format!("mount -t tmpfs -o size={bytes} none \"$0\" && exec \"$@\"");
        command.args(["sh", "-c", &script]).arg(mount_point.path()).arg(LONGHAUL);
        let server =
            Server::start_with(undisturbed(command), mount_point.path(), &["--listen", "127.0.0.1:0"]);
        let root = PathBuf::from(format!("/proc/{}/root{}", server.id(), mount_point.path().display()));
        Some(Small { server, root, _mount_point: mount_point })
    }
}
