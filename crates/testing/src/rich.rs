//! Trees whose files have owners, attributes, ACLs, several names or no contents at all, and what there is to compare of them.

use crate::tree::{noise, set_mtime, write};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Uid, XattrFlags, chownat, lgetxattr, linkat, llistxattr, lremovexattr,
    lsetxattr, makedev, mknodat,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A folder for a test, in a file system that has attributes and ACLs; says so where there is none.
pub fn rich_folder() -> Option<tempfile::TempDir> {
    let places = [std::env::temp_dir(), PathBuf::from(env!("CARGO_MANIFEST_DIR")), "/var/tmp".into()];
    let has_all = |folder: &tempfile::TempDir| {
        let probe = folder.path().join("probe");
        write(&probe, b"");
        let sets = |name: &str, value: &[u8]| lsetxattr(&probe, name, value, XattrFlags::empty()).is_ok();
        let found = sets("user.probe", b"") && sets(ACCESS, &acl(6, 4));
        let _ = fs::remove_file(&probe);
        found
    };
    let found = places.iter().filter_map(|place| tempfile::tempdir_in(place).ok()).find(has_all);
    if found.is_none() {
        crate::skip("no file system here with extended attributes and ACLs");
    }
    found
}

/// Whether this process may make devices and give files away.
pub fn is_root() -> bool {
    let Ok(folder) = tempfile::tempdir() else { return false };
    let at = folder.path().join("null");
    mknodat(CWD, &at, FileType::CharacterDevice, Mode::RUSR, makedev(1, 3)).is_ok()
        && chownat(CWD, &at, Some(Uid::from_raw(12_345)), None, AtFlags::empty()).is_ok()
}

/// An ACL as the kernel takes it: the owner's permissions, those of user 4242 and of the group 4343.
pub fn acl(owner: u16, others: u16) -> Vec<u8> {
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let (none, named) = (u32::MAX, others | 1);
    let entries = [
        entry(1, owner, none),
        entry(2, named, 4242),
        entry(4, others, none),
        entry(8, others, 4343),
        entry(16, named | others, none),
        entry(32, 0, none),
    ];
    [2u32.to_le_bytes().to_vec(), entries.concat()].concat()
}

/// Give a file an attribute, a link itself too.
pub fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap_or_else(|e| panic!("{name} of {path:?}: {e}"));
}

/// Give a file to somebody, a link itself too.
pub fn give(path: &Path, uid: u32, gid: u32) {
    chownat(CWD, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)
        .unwrap_or_else(|e| panic!("{path:?}: {e}"));
}

/// Give a file, or whatever it is, another name.
pub fn link(from: &Path, to: &Path) {
    linkat(CWD, from, CWD, to, AtFlags::empty()).unwrap_or_else(|e| panic!("{to:?}: {e}"));
}

/// A random tree with all of that. `privileged`: with what root alone can make.
pub fn grow_rich(top: &Path, rng: &mut fastrand::Rng, privileged: bool) {
    let mut folders = vec![top.to_path_buf()];
    for n in 0..rng.usize(1..5) {
        let folder = rng.choice(&folders).unwrap().join(format!("folder-{n}"));
        fs::create_dir(&folder).unwrap();
        folders.push(folder);
    }
    let mut leaves = vec![];
    for n in 0..rng.usize(1..25) {
        let path = rng.choice(&folders).unwrap().join(format!("leaf-{n}"));
        match rng.u8(0..10) {
            0 => symlink(format!("../nowhere/{n}"), &path).unwrap(),
            1 => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            2 => mknodat(CWD, &path, FileType::Socket, Mode::RUSR, 0).unwrap(),
            3 if privileged => {
                let device = makedev(rng.u32(1..200), rng.u32(0..5000));
                mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR, device).unwrap();
            }
            4 => write(&path, noise(rng.usize(1 << 20..3 << 20), rng.u64(..))),
            _ => write(&path, noise(rng.usize(0..5000), rng.u64(..))),
        }
        leaves.push(path);
    }
    for n in 0..rng.usize(0..8) {
        link(rng.choice(&leaves).unwrap(), &rng.choice(&folders).unwrap().join(format!("again-{n}")));
    }
    // What is in a folder changes its time.
    folders.reverse();
    for path in leaves.iter().chain(&folders) {
        attire(path, rng, privileged);
    }
}

/// Give something a random owner, attributes, ACLs, permissions and time.
pub fn attire(path: &Path, rng: &mut fastrand::Rng, privileged: bool) {
    let kind = fs::symlink_metadata(path).unwrap().file_type();
    if !kind.is_symlink() {
        // What may not be written to gets no attributes either.
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    if privileged && rng.bool() {
        give(path, rng.u32(0..3) * 5000, rng.u32(0..3) * 5001);
    }
    if privileged && rng.u8(..4) == 0 {
        set_xattr(path, "trusted.mark", &noise(rng.usize(0..50), rng.u64(..)));
    }
    if kind.is_file() || kind.is_dir() {
        for n in 0..rng.usize(0..3) {
            set_xattr(path, &format!("user.note-{n}"), &noise(rng.usize(0..200), rng.u64(..)));
        }
        if rng.u8(..4) == 0 {
            set_xattr(path, ACCESS, &acl(6, rng.u16(0..8)));
        }
        if kind.is_dir() && rng.u8(..3) == 0 {
            set_xattr(path, DEFAULT, &acl(7, rng.u16(0..8)));
        }
        if privileged && kind.is_file() && rng.u8(..4) == 0 {
            set_xattr(path, "security.capability", &CAPABILITY);
        }
    }
    if !kind.is_symlink() {
        let modes = [0o644, 0o600, 0o755, 0o4755, 0o2751, 0o1777, 0o400, 0o550];
        let mode = *rng.choice(modes.iter()).unwrap() | if kind.is_dir() { 0o700 } else { 0 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    set_mtime(path, rng.i64(1..2_000_000_000), rng.i64(0..1_000_000_000));
}

/// Take all attributes of something away.
pub fn strip(path: &Path) {
    if !path.is_symlink() {
        // What may not be written to keeps them; whoever wants other permissions sets them afterwards.
        let mode = fs::symlink_metadata(path).unwrap().permissions().mode();
        fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o200)).unwrap();
    }
    for name in xattrs(path).keys() {
        lremovexattr(path, name.as_slice()).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}

/// One thing of a tree, with all that can be kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portrait {
    /// Kind and permissions.
    pub mode: u32,
    /// User and group.
    pub owners: (u32, u32),
    /// Seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// Which device it is.
    pub device: u64,
    /// Length and hash of what a file holds; where a link points.
    pub data: (u64, Vec<u8>),
    /// Extended attributes, ACLs among them.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path of the same file.
    pub first_name: PathBuf,
}

/// Everything at and below `top`, by its path from there.
pub fn portraits(top: &Path) -> BTreeMap<PathBuf, Portrait> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(path) = pending.pop() {
        let full = top.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap_or_else(|e| panic!("{}: {e}", full.display()));
        let kind = meta.file_type();
        let data = if kind.is_dir() {
            pending.extend(fs::read_dir(&full).unwrap().map(|item| path.join(item.unwrap().file_name())));
            (0, vec![])
        } else if kind.is_symlink() {
            (0, fs::read_link(&full).unwrap().into_os_string().into_encoded_bytes())
        } else if kind.is_file() {
            (meta.len(), blake3::hash(&fs::read(&full).unwrap()).as_bytes().to_vec())
        } else {
            (0, vec![])
        };
        let portrait = Portrait {
            mode: meta.mode(),
            owners: (meta.uid(), meta.gid()),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            device: meta.rdev(),
            data,
            xattrs: xattrs(&full),
            first_name: path.clone(),
        };
        found.insert(path, (portrait, (meta.dev(), meta.ino())));
    }
    let mut first = BTreeMap::new();
    let named = found.into_iter().map(|(path, (portrait, inode))| {
        let first_name = first.entry(inode).or_insert_with(|| path.clone()).clone();
        (path, Portrait { first_name, ..portrait })
    });
    named.collect()
}

/// What tells of any change of what is no folder: the inode, and its time of change.
pub fn changes(top: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    for path in portraits(top).into_keys() {
        let meta = fs::symlink_metadata(top.join(&path)).unwrap();
        if !meta.is_dir() {
            found.insert(path, (meta.ino(), meta.ctime(), meta.ctime_nsec()));
        }
    }
    found
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let len = llistxattr(path, &mut names[..]).unwrap();
    let mut found = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let len = lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        found.insert(name.to_vec(), value);
    }
    found
}

/// The extended attribute that is a file's ACL.
pub const ACCESS: &str = "system.posix_acl_access";
/// That of a folder which new files in it get.
pub const DEFAULT: &str = "system.posix_acl_default";
/// `cap_net_raw=ep`: VFS_CAP_REVISION_2, effective; permitted and inheritable sets.
pub const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
