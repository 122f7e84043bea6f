//! Other names of files that the copy has under a first one. They are made when all files of a part and of those before it are in
//! place, whether these came now or were there.

use super::attributes::{set_mode, times};
use super::calls::{futimens, linkat, openat, statat};
use super::compare::same_time;
use super::errors::{FileError, why};
use super::folders::split;
use super::scan::mtime;
use super::shared::{Happened, Shared};
use super::target::{Target, remove_file};
use super::twins::inode;
use longhaul_proto::session::manifest::{EntryIndex, Kind, Named};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchown};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

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
        let linked = match link(name) {
            Err(Errno::EXIST) if self.may_replace() => {
                let new = self.new_name(entry, name);
                link(&new).map(|()| Some(new))
            }
            linked => linked.map(|()| None),
        };
        match linked {
            Ok(None) => {}
            Ok(Some(new)) => {
                let renamed = self.rename(entry, &folder, &new, name);
                // Where both names were one file's by then, renaming does nothing.
                let _ = remove_file(&folder, &new);
                renamed?;
            }
            Err(error) if makes_none(error) && matches!(of, Named::File(_)) => {
                self.note(LINKS, entry, &why(error));
                let is_like = |own: Stat| own.st_size == there.st_size && mtime(&own) == mtime(&there);
                if statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_like) {
                    return Ok(Made::Before);
                }
                self.copy_instead(entry, &first_folder, first, &there)?;
                return Ok(Made::New);
            }
            Err(error) => return Err(error.into()),
        }
        let _ = self.take_place(entry);
        Ok(Made::New)
    }

    /// A file of its own with the same data, permissions and time.
    fn copy_instead(
        &self,
        entry: EntryIndex,
        folder: &OwnedFd,
        first: &[u8],
        there: &Stat,
    ) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut from = File::from(openat(folder, first, flags, Mode::empty())?);
        let complete = self.begin(entry)?;
        let stored = io::copy(&mut from, &mut complete.file()).and_then(|_| {
            if self.keeping().is_some() {
                // Who may not give it away keeps it.
                let (uid, gid) = (Uid::from_raw(there.st_uid), Gid::from_raw(there.st_gid));
                let _ = fchown(complete.file(), Some(uid), Some(gid));
            }
            set_mode(complete.file(), Mode::from_raw_mode(there.st_mode & 0o7777))?;
            Ok(futimens(complete.file(), &times(self.entry(entry)))?)
        });
        match stored {
            Ok(()) => self.put_in_place(&complete),
            Err(error) => {
                self.discard(&complete);
                Err(error)
            }
        }
    }
}

/// Whether the file system has no such names, as FAT has none, nor the bucket of an object store; or no more for this file.
fn makes_none(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK)
}

const LINKS: &str = "not all hard links are kept, some are files of their own";
