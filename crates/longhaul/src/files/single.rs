//! One file that is read as a stream, from its beginning to its end, holes as zeros.

use super::errors::FileError;
use super::root::{Root, Written};
use super::scan::{mtime, open_to_read};
use super::tap::{Tap, fill};
use super::version::{Identity, expose_writes};
use crate::net::budget::Allowance;
use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Kind};
use longhaul_proto::session::reason::Reason;
use rustix::fs::{Advice, AtFlags, FileType, Stat, fadvise, fstat, statat};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Begin to read a file. Nothing else is looked at.
pub fn tap_file(root: &Root, path: PathBuf, allowance: Allowance) -> Result<Tap, Reason> {
    let opened = Watched::open(root, &path).map_err(|error| Reason::from(error.at(&path)));
    let (mut watched, entry) = opened?;
    let inlet = move |data: &mut [u8]| watched.fill(data).map_err(|error| error.at(&path));
    Ok(Tap::open(Box::new(inlet), entry, allowance)?)
}

/// A file that nobody is to write to while it is read.
struct Watched {
    file: File,
    size: u64,
    at: u64,
    identity: Identity,
}

impl Watched {
    /// Open what is there, and tell what it is like.
    fn open(root: &Root, path: &Path) -> Result<(Watched, Entry), FileError> {
        let written = Written::new(path);
        let name = written.name.filter(|_| !written.is_folder).ok_or(FileError::NoSingleFile)?;
        let folder = root.open_folder(&written.parent)?;
        // To open a device may change something.
        check_regular(&statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?)?;
        let file = open_to_read(&folder, &name).map_err(FileError::step("cannot be opened"))?;
        // Something else may have taken its place.
        let stat = fstat(&file)?;
        check_regular(&stat)?;
        let identity = Identity::of(&file)?;
        // Only advice: not every file system takes it.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        let size = stat.st_size as u64;
        let kind = Kind::File { size, extents: None, version: None };
        let entry = Entry { path: name, kind, mode: stat.st_mode & 0o7777, mtime: mtime(&stat) };
        Ok((Watched { file, size, at: 0, identity }, entry))
    }

    fn fill(&mut self, data: &mut [u8]) -> Result<usize, FileError> {
        expose_writes(&self.file, self.at, GROUP_LEN);
        let len = fill(&self.file, data, |_| Err(io::ErrorKind::WouldBlock.into()))
            .map_err(FileError::step("cannot be read"))?;
        self.at += len as u64;
        let is_short = len < data.len() && self.at != self.size;
        if is_short || Identity::of(&self.file)? != self.identity {
            return Err(FileError::Changed);
        }
        Ok(len)
    }
}

fn check_regular(stat: &Stat) -> Result<(), FileError> {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular.then_some(()).ok_or(FileError::NoSingleFile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (root, at) = (Root::confined(dir.path()).unwrap(), |name: &str| dir.path().join(name));
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("folder/file"), b"data").unwrap();
        std::os::unix::fs::symlink("folder/file", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, 0o600.into(), 0).unwrap();
        let open = |path: &str| Watched::open(&root, Path::new(path));
        for none in ["folder", "folder/", ".", "link", "pipe"] {
            assert!(matches!(open(none), Err(FileError::NoSingleFile)), "{none}");
        }
        assert!(matches!(open("none"), Err(FileError::System(_))));
        let (mut watched, entry) = open("folder/file").unwrap();
        assert_eq!((&entry.path[..], entry.kind.data_len()), (&b"file"[..], 4));
        assert_eq!(watched.fill(&mut [0; 9]).unwrap(), 4);
        // It is cut short after it was opened.
        let (mut watched, _) = open("folder/file").unwrap();
        std::fs::write(at("folder/file"), b"").unwrap();
        assert!(matches!(watched.fill(&mut [0; 9]), Err(FileError::Changed)));
    }
}
