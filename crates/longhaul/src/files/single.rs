//! One file that is read as a stream, from its beginning to its end, holes as zeros.

use super::errors::FileError;
use super::folders::split;
use super::root::Root;
use super::scan::{ScanOptions, SourceSpec, open_to_read, scan};
use super::tap::{Tap, fill};
use super::version::{Identity, expose_writes};
use crate::net::budget::Allowance;
use longhaul_proto::session::manifest::{GROUP_LEN, Kind};
use longhaul_proto::session::reason::Reason;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::path::PathBuf;

/// Begin to read a file.
pub fn tap_file(root: &Root, path: PathBuf, allowance: Allowance) -> Result<Tap, Reason> {
    let scan = scan(root, &[SourceSpec { path: path.clone() }], &ScanOptions::default());
    if let Some(reason) = scan.emptiness() {
        return Err(reason);
    }
    let [entry] = &scan.manifest.entries[..] else { return Err(FileError::NoSingleFile.at(&path).into()) };
    let Kind::File { size, .. } = entry.kind else { return Err(FileError::NoSingleFile.at(&path).into()) };
    let cannot = FileError::step("cannot be opened");
    let opened = open_to_read(&scan.origin(0), split(&entry.path).1).map_err(cannot);
    let watched = opened.and_then(|file| Watched::new(file, size));
    let mut watched = watched.map_err(|error| Reason::from(error.at(&path)))?;
    let inlet = move |data: &mut [u8]| watched.fill(data).map_err(|error| error.at(&path));
    Ok(Tap::open(Box::new(inlet), entry.clone(), allowance)?)
}

/// A file that nobody is to write to while it is read.
struct Watched {
    file: File,
    size: u64,
    at: u64,
    identity: Identity,
}

impl Watched {
    fn new(file: File, size: u64) -> Result<Watched, FileError> {
        let identity = Identity::of(&file)?;
        // Only advice: not every file system takes it.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Watched { file, size, at: 0, identity })
    }

    fn fill(&mut self, data: &mut [u8]) -> Result<usize, FileError> {
        expose_writes(&self.file, self.at, GROUP_LEN);
        let len = fill(&self.file, data).map_err(FileError::step("cannot be read"))?;
        self.at += len as u64;
        let is_short = len < data.len() && self.at != self.size;
        if is_short || Identity::of(&self.file)? != self.identity {
            return Err(FileError::Changed);
        }
        Ok(len)
    }
}
