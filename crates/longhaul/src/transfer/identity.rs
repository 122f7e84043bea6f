//! What tells one copy from another, for a server that may still hold an earlier run of it.

use crate::api::CopyOptions;
use longhaul_proto::session::message::CopyId;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};

/// Equal for each run of the same command by the same user at the same host. `local`: its paths on this host.
pub fn copy_id<P: AsRef<Path>>(local: &[P], options: &CopyOptions) -> CopyId {
    let system = rustix::system::uname();
    // Hosts may share a name, and hosts made from one image share a machine id; hardly any share both.
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let user = rustix::process::geteuid().as_raw().to_be_bytes();
    let paths = local.iter().map(|path| absolute(path).unwrap_or_else(|_| path.as_ref().to_owned()));
    let paths: Vec<_> = paths.collect();
    let host = [system.nodename().to_bytes(), &machine, &user].into_iter();
    let paths = paths.iter().map(|path| path.as_os_str().as_bytes());
    let named = options.files_from.iter().flatten().map(|name| name.as_os_str().as_bytes());
    let left_out = options.files.exclude.iter().map(String::as_bytes);
    let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026-11-25 copy id");
    hash_all(&mut hasher, host);
    hash_all(&mut hasher, paths);
    hash_all(&mut hasher, named);
    hash_all(&mut hasher, left_out);
    let mut id = CopyId::default();
    hasher.finalize_xof().fill(&mut id);
    id
}

/// No two lists give the same.
fn hash_all<'a>(hasher: &mut blake3::Hasher, items: impl Iterator<Item = &'a [u8]>) {
    for item in items {
        hasher.update(&(item.len() as u64).to_be_bytes()).update(item);
    }
    hasher.update(&u64::MAX.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_is_the_same_copy_and_no_other_is() {
        let here = absolute("b").unwrap();
        let plain = CopyOptions::default();
        let mut listed = CopyOptions { files_from: Some(vec!["x".into()]), ..CopyOptions::default() };
        let mut excluding = CopyOptions::default();
        excluding.files.exclude = vec!["x".into()];
        let ids = [
            copy_id(&["a"], &plain),
            copy_id(&["b"], &plain),
            copy_id(&["a", "b"], &plain),
            copy_id(&["ab"], &plain),
            copy_id(&["a"], &listed),
            copy_id(&["a"], &excluding),
        ];
        let all: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(all.len(), ids.len());
        listed.rate = Some(longhaul_proto::units::Rate::from_mbps(1.0));
        assert_eq!(copy_id(&["a"], &listed), ids[4], "how it is done does not matter");
        assert_eq!(copy_id(&[here], &plain), ids[1]);
    }
}
