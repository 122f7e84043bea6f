//! Other names of files that the copy has under a first one. They are made when all files of a part and of those before it are in
//! place, whether these came now or were there.

use super::attributes::same_time;
use super::calls::{linkat, statat};
use super::errors::FileError;
use super::folders::split;
use super::scan::mtime;
use super::shared::{Happened, Shared};
use super::target::{Target, remove_file};
use super::twins::inode;
use longhaul_proto::session::manifest::{EntryIndex, Kind, Named};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::io;

/// Make those of a part.
pub(super) fn make_links(shared: &Shared) {
    let target = &shared.target;
    for (index, entry) in (0..).zip(&target.manifest.entries) {
        let Kind::Link { to, of } = &entry.kind else { continue };
        if !shared.is_open(index) {
            continue;
        }
        match target.make_link(index, to, *of) {
            // It has been said that there are none.
            Ok(Made::Missing) if *of == Named::Node && !target.has_all_nodes() => {
                shared.settle_beforehand(index)
            }
            Ok(Made::Missing) => {
                let other = String::from_utf8_lossy(to).into_owned().into();
                shared.fail(index, FileError::OtherNameMissing { other }.into());
            }
            Ok(made) => {
                shared.settle_beforehand(index);
                let mut report = shared.report();
                if made == Made::New {
                    report.files_done += 1
                } else {
                    report.files_skipped += 1
                }
                drop(report);
                shared.tell(Happened::Done(index));
            }
            Err(error) => shared.fail_storing(index, error),
        }
    }
}

/// What came of another name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    New,
    /// It was there.
    Before,
    /// The file is not there.
    Missing,
}

impl Target {
    /// Give the file at `to` this entry's name too.
    fn make_link(&self, entry: EntryIndex, to: &[u8], of: Named) -> io::Result<Made> {
        let (first_parent, first) = split(to);
        let Ok(first_folder) = self.handle(first_parent) else { return Ok(Made::Missing) };
        let Ok(there) = statat(&first_folder, first, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(Made::Missing);
        };
        // An older one may be there, if the one that was to come has failed.
        let is_right = match (of, FileType::from_raw_mode(there.st_mode)) {
            (Named::File(size), FileType::RegularFile) => {
                there.st_size as u64 == size && same_time(self.entry(entry).mtime, mtime(&there))
            }
            (Named::Symlink, FileType::Symlink) => true,
            (Named::Node, kind) => {
                !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Directory)
            }
            _ => false,
        };
        if !is_right {
            return Ok(Made::Missing);
        }
        let (folder, name) = self.parent(entry)?;
        if inode(&folder, name) == Ok((there.st_dev, there.st_ino)) {
            return Ok(Made::Before);
        }
        self.look_for_twin(entry)?;
        let link = |name: &[u8]| linkat(&first_folder, first, &folder, name, AtFlags::empty());
        match link(name) {
            Err(Errno::EXIST) if self.may_replace() => {
                let new = self.new_name(entry, name);
                link(&new).map_err(not_made)?;
                let renamed = self.rename(entry, &folder, &new, name);
                // Where both names were one file's by then, renaming does nothing.
                let _ = remove_file(&folder, &new);
                renamed?;
            }
            made => made.map_err(not_made)?,
        }
        let _ = self.take_place(entry);
        Ok(Made::New)
    }
}

/// FAT has no such names, nor has the bucket of an object store; the kernel may protect another user's file.
fn not_made(error: Errno) -> io::Error {
    match error {
        Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS => io::Error::other(NO_LINK),
        error => error.into(),
    }
}

const NO_LINK: &str = "no hard link can be made there; copy it without -H";
