//! This user's key: receivers seal journals with it, and senders derive from it the key of file versions.

use super::journal::{BootId, Ours, SealKey};
use crate::net::random::random;
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// This user's key and the id of this boot, for a copy that belongs to no user of a daemon.
pub(super) fn ours() -> Ours {
    static OURS: OnceLock<Ours> = OnceLock::new();
    let ours = *OURS.get_or_init(|| Ours { key: seal_key(), boot: boot_id(), owner: [0; 16] });
    #[cfg(test)]
    let ours = Ours { boot: BOOT.get().unwrap_or(ours.boot), ..ours };
    ours
}

/// Identifies the page cache that this process writes a file into: this boot of the kernel and this mount of the file
/// system. What is only in memory is lost with either, as when a disk is pulled out and put in again.
pub(super) fn keeper_of(file: &File) -> BootId {
    let wanted = StatxFlags::from_bits_retain(MNT_ID_UNIQUE);
    let found = statx(file, "", AtFlags::EMPTY_PATH, wanted).ok();
    let mount = found.filter(|found| found.stx_mask & MNT_ID_UNIQUE != 0).map(|found| found.stx_mnt_id);
    // Where the kernel does not number mounts, each is taken for a new one.
    let mount = mount.map_or_else(|| fresh().to_vec(), |number| number.to_le_bytes().to_vec());
    let hash = blake3::Hasher::new().update(&ours().boot).update(&mount).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    id
}

#[cfg(test)]
thread_local! {
    /// The id that this thread takes for that of this boot.
    static BOOT: std::cell::Cell<Option<BootId>> = const { std::cell::Cell::new(None) };
}

/// For this thread the host has just been booted anew.
#[cfg(test)]
pub(super) fn reboot() {
    BOOT.set(Some(random().expect("the system gives random bytes")));
}

/// The key of this user's file versions. Where it cannot be kept, no version equals one of another run.
pub(super) fn version_key() -> &'static [u8; 32] {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    KEY.get_or_init(|| blake3::derive_key("longhaul 2026-11 versions of files", &ours().key))
}

/// Read what the user's home and the kernel have to say, for a process that will not be able to later.
pub fn prime() {
    ours();
}

/// A random one where the kernel does not tell.
fn boot_id() -> BootId {
    let told = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| fresh().to_vec());
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::hash(&told).as_bytes()[..16]);
    id
}

/// Made when it is first needed. Where it cannot be kept, it is good for this process only: then both ends read again what
/// an interrupted copy left.
fn seal_key() -> SealKey {
    let kept = file().ok_or_else(|| io::Error::other("there is no home folder")).and_then(|file| keep(&file));
    kept.unwrap_or_else(|error| {
        tracing::debug!(%error, "the key of journals is not kept");
        fresh()
    })
}

/// `longhaul/journal-key` in `XDG_STATE_HOME`, or else in `~/.local/state`.
fn file() -> Option<PathBuf> {
    Some(crate::net::user::state_folder()?.join("journal-key"))
}

/// The key in a file, which is made where it is missing.
fn keep(file: &Path) -> io::Result<SealKey> {
    let is_short = match read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // Its data was lost, as when the power fails.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
        found => return found,
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    // Whole or not at all, and never in place of one that another process has just made.
    let made = folder.join(format!(".journal-key.{:016x}", u64::from_ne_bytes(random()?)));
    let mut key = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made)?;
    key.write_all(&fresh())?;
    key.sync_all()?;
    if is_short {
        fs::rename(&made, file)?;
        return read(file);
    }
    let linked = fs::hard_link(&made, file);
    fs::remove_file(&made)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(file),
    }
}

fn read(file: &Path) -> io::Result<SealKey> {
    let mut file = File::open(file)?;
    let meta = file.metadata()?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(io::Error::other("others can read it"));
    }
    let mut key = [0; 32];
    file.read_exact(&mut key)?;
    Ok(key)
}

fn fresh() -> SealKey {
    // Without randomness no session comes about either.
    random().expect("the system gives random bytes")
}

/// `STATX_MNT_ID_UNIQUE` of Linux 6.8: the number of a mount, never given to another until the next boot.
const MNT_ID_UNIQUE: u32 = 0x4000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_stays_the_same_and_is_nobody_elses() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a/longhaul/journal-key");
        let key = keep(&file).unwrap();
        assert_eq!(keep(&file).unwrap(), key);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        // As a power cut may leave it.
        fs::write(&file, b"").unwrap();
        let other = keep(&file).unwrap();
        assert!(other != key && keep(&file).unwrap() == other);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(keep(&file).is_err());
    }
}
