//! Files and folders to copy, and what there is to compare of them afterwards.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, statvfs, utimensat};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that goes away with the test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The same in memory, where there is room: for many files. A disk with ext4 looks long for a free inode while many have just been
/// removed.
pub fn folder_in_memory() -> tempfile::TempDir {
    const PLACE: &str = "/dev/shm";
    let has_room = statvfs(PLACE).is_ok_and(|place| place.f_bavail * place.f_frsize >= 2 << 30);
    has_room.then(|| tempfile::tempdir_in(PLACE).ok()).flatten().unwrap_or_else(folder)
}

/// A path with a slash behind it: what is in that folder.
pub fn inside(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    path.push("/");
    path
}

/// Bytes that no compression and no luck can guess; equal seeds, equal bytes.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// Write a file, with the folders above it.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
    fs::write(path, bytes).expect("a file can be written");
}

/// Put a program there: a copy of a file, which may be a pipe. By another process: one that this process starts meanwhile
/// would hold the file open for writing for a moment, and what is so cannot be run.
pub fn install(program: impl AsRef<Path>, from: impl Into<Stdio>) {
    let program = program.as_ref();
    fs::create_dir_all(program.parent().expect("a file is in a folder")).expect("folders can be made");
    let mut install = Command::new("install");
    let done = install.args(["-m", "755", "/dev/stdin"]).arg(program).stdin(from).status();
    assert!(done.expect("install can be run").success(), "{}", program.display());
}

/// Put a shell script there.
pub fn write_script(program: impl AsRef<Path>, lines: &str) {
    let (text, mut writer) = std::io::pipe().expect("a pipe");
    // It is shorter than what a pipe holds.
    writer.write_all(format!("#!/bin/sh\n{lines}\n").as_bytes()).expect("it is open");
    drop(writer);
    install(program, text);
}

/// Write a file of noise.
pub fn write_noise(path: impl AsRef<Path>, len: usize, seed: u64) {
    write(path, noise(len, seed));
}

/// What a file holds.
pub fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Fail unless both files hold the same bytes; says where they differ and does not print them.
pub fn assert_same_bytes(left: impl AsRef<Path>, right: impl AsRef<Path>) {
    let (a, b) = (read(&left), read(&right));
    if a != b {
        let differ = a.iter().zip(&b).position(|(a, b)| a != b);
        let (left, right) = (left.as_ref().display(), right.as_ref().display());
        panic!("{left} and {right}: {} and {} bytes, first difference at {differ:?}", a.len(), b.len());
    }
}

/// Set permissions.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions can be set");
}

/// Set the time of last modification, of a link itself too.
pub fn set_mtime(path: impl AsRef<Path>, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path.as_ref(), &times, AtFlags::SYMLINK_NOFOLLOW).expect("times can be set");
}

/// Make a file that is a hole but for `data` at these offsets.
pub fn write_sparse(path: impl AsRef<Path>, len: u64, data: &[(u64, &[u8])]) {
    let file = File::create(path).expect("a file can be made");
    file.set_len(len).expect("its length can be set");
    for (offset, bytes) in data {
        file.write_all_at(bytes, *offset).expect("it can be written");
    }
}

/// Bytes that a file takes on its disk.
pub fn disk_bytes(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).expect("the file is there").blocks() * 512
}

/// The part file of a file that is on its way; a path where there is nothing if there is none.
pub fn part_of(file: impl AsRef<Path>) -> PathBuf {
    let (folder, name) = (file.as_ref().parent().unwrap(), file.as_ref().file_name().unwrap());
    let (start, end) = (format!(".{}.", name.to_str().unwrap()), ".longhaul-part");
    let is_part = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&start) && name.ends_with(end) && name.len() == start.len() + 16 + end.len()
    };
    let paths = fs::read_dir(folder).unwrap().map(|item| item.unwrap().path());
    paths.into_iter().find(is_part).unwrap_or_else(|| folder.join("no part file"))
}

/// A file name that is not UTF-8.
pub fn odd_name() -> &'static OsStr {
    OsStr::from_bytes(b"caf\xe9 \xff")
}

/// A tree with one of everything: large and small files, empty ones, folders with and without content, links, odd
/// names, permissions and times.
pub fn write_zoo(top: &Path) {
    write_noise(top.join("large"), 3_500_000, 1);
    write_noise(top.join("one group"), 1 << 20, 2);
    write_noise(top.join("deep/er/small"), 7, 3);
    write(top.join("empty"), b"");
    write(top.join(" spaces and\ttab "), b"odd but legal");
    write(top.join("deep").join(odd_name()), b"not UTF-8");
    fs::create_dir(top.join("hollow")).expect("a folder can be made");
    for n in 0..50 {
        write_noise(top.join(format!("many/{n:02}")), n * 97, n as u64);
    }
    symlink("deep/er/small", top.join("link")).expect("a link can be made");
    symlink("../nowhere", top.join("deep/dangling")).expect("a link can be made");
    symlink("deep", top.join("link to folder")).expect("a link can be made");
    set_mode(top.join("large"), 0o640);
    set_mode(top.join("one group"), 0o755);
    set_mode(top.join("empty"), 0o400);
    set_mode(top.join("hollow"), 0o711);
    set_mode(top.join("deep/er"), 0o500);
    for (n, path) in
        ["large", "link", "empty", "deep/er/small", "deep/er", "hollow", "deep", ""].iter().enumerate()
    {
        set_mtime(top.join(path), 1_000_000_000 + n as i64, 123_456_789);
    }
}

/// One thing of a tree, as far as a copy is to keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A file: permissions, time, length and hash of its bytes.
    File(u32, (i64, i64), u64, blake3::Hash),
    /// A folder: permissions and time.
    Folder(u32, (i64, i64)),
    /// A link: where it points, and its own time.
    Link(PathBuf, (i64, i64)),
}

/// Everything at and below `top`, by its path from there.
pub fn snapshot(top: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut things = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let full = top.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap_or_else(|e| panic!("{}: {e}", full.display()));
        // The other bits are not kept.
        let (mode, mtime) = (meta.mode() & 0o777, (meta.mtime(), meta.mtime_nsec()));
        let thing = if meta.is_dir() {
            let names =
                fs::read_dir(&full).expect("a folder can be listed").map(|item| item.unwrap().file_name());
            pending.extend(names.map(|name| path.join(name)));
            Thing::Folder(mode, mtime)
        } else if meta.is_symlink() {
            Thing::Link(fs::read_link(&full).expect("a link can be read"), mtime)
        } else {
            Thing::File(mode, mtime, meta.len(), blake3::hash(&read(&full)))
        };
        things.insert(path, thing);
    }
    things
}

/// Paths of everything below `top`, sorted, with a slash behind those of folders.
pub fn names(top: &Path) -> Vec<String> {
    let below = snapshot(top).into_iter().filter(|(path, _)| !path.as_os_str().is_empty());
    let shown = below.map(|(path, thing)| {
        format!("{}{}", path.display(), if matches!(thing, Thing::Folder(..)) { "/" } else { "" })
    });
    shown.collect()
}
