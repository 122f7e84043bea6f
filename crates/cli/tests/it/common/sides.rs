//! Two folders, one of them served, and a copy from the one into the other.

use super::tree::*;
use super::{Server, wait_until};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub struct Sides {
    pub pull: bool,
    /// The client's folder, and the server's.
    pub here: tempfile::TempDir,
    pub there: tempfile::TempDir,
}

impl Sides {
    pub fn new(pull: bool) -> Sides {
        Sides { pull, here: folder(), there: folder() }
    }

    /// For many files.
    pub fn in_memory(pull: bool) -> Sides {
        Sides { pull, here: folder_in_memory(), there: folder_in_memory() }
    }

    /// With one file to be copied.
    pub fn with_file(pull: bool, len: usize) -> Sides {
        let sides = Sides::new(pull);
        write_noise(sides.source(), len, 1);
        sides
    }

    pub fn from(&self) -> &Path {
        if self.pull { self.there.path() } else { self.here.path() }
    }

    pub fn to(&self) -> &Path {
        if self.pull { self.here.path() } else { self.there.path() }
    }

    pub fn source(&self) -> PathBuf {
        self.from().join("file")
    }

    pub fn target(&self) -> PathBuf {
        self.to().join("file")
    }

    /// The target as long as it is not complete.
    pub fn part(&self) -> PathBuf {
        part_of(self.target())
    }

    pub fn await_part(&self, bytes: u64) {
        wait_until("a part arrives", || self.part().exists() && disk_bytes(self.part()) > bytes);
    }

    pub fn serve(&self) -> Server {
        Server::start(self.there.path(), &[])
    }

    /// A copy of all that is in the folder; `url` is the server's.
    pub fn args(&self, url: String, more: &[&str]) -> Vec<OsString> {
        self.ends(inside(self.here.path()), url.into(), more)
    }

    /// A copy of the file; `url` is the server's.
    pub fn file_args(&self, url: &str, more: &[&str]) -> Vec<OsString> {
        self.ends(self.here.path().join("file").into(), format!("{url}file").into(), more)
    }

    fn ends(&self, local: OsString, far: OsString, more: &[&str]) -> Vec<OsString> {
        let ends = if self.pull { [far, local] } else { [local, far] };
        ends.into_iter().chain(more.iter().map(OsString::from)).collect()
    }

    pub fn assert_complete(&self) {
        for name in names(self.from()).iter().filter(|name| !name.ends_with('/')) {
            assert_same_bytes(self.from().join(name), self.to().join(name));
        }
        assert_eq!(names(self.from()), names(self.to()), "and nothing is left over");
    }
}
