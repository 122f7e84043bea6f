//! How entries of all kinds get permissions, times and what else is kept of them, and those their names that are no files.

use super::attributes::{hold, itself, mode, same_time, set_mode, times};
use super::calls::{fchmod, futimens, mknodat, set_len, symlinkat};
use super::keeping::{NODES, NOT_FOR_ALL, TAKES_ROOT};
use super::scan::mtime;
use super::target::{Target, remove_file};
use longhaul_proto::session::manifest::{Entry, EntryIndex, Kind, Node};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Stat, fstat, makedev, utimensat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

impl Target {
    /// Give a file that holds all its data its length, permissions and time, and what else is kept.
    pub(super) fn dress(&self, entry: EntryIndex, file: &File) -> io::Result<()> {
        if self.keeping().is_none() {
            fchmod(file, mode(self.entry(entry)))?;
            return self.fit(entry, file);
        }
        self.fit(entry, file)?;
        self.keep(entry, file).map(drop)
    }

    /// Length and time alone.
    pub(super) fn fit(&self, entry: EntryIndex, file: &File) -> io::Result<()> {
        let wanted = self.entry(entry);
        if let Kind::File { size, .. } = wanted.kind {
            let stat = fstat(file)?;
            if stat.st_size as u64 != size {
                set_len(file, size)?;
            }
        }
        Ok(futimens(file, &times(wanted))?)
    }

    /// All but length and time, for a file that gets its name next.
    pub(super) fn dress_last(&self, entry: EntryIndex, file: &File) -> io::Result<()> {
        if self.keep(entry, file)? {
            return Ok(());
        }
        Ok(fchmod(file, mode(self.entry(entry)))?)
    }

    /// Give what is held all that is kept of its entry, permissions and time too; `false` if no more is kept than these.
    fn keep(&self, entry: EntryIndex, held: &(impl AsFd + AsRawFd)) -> io::Result<bool> {
        let Some((keeping, kept)) = self.keeping().zip(self.manifest.attributes_of(entry)) else {
            return Ok(false);
        };
        keeping.dress(held, self.entry(entry), kept)?;
        Ok(true)
    }

    /// Whether a file that is in place has the permissions and time that it should have, and no more is kept.
    pub(super) fn is_dressed(&self, entry: EntryIndex, file: &File) -> bool {
        let wanted = self.entry(entry);
        self.keeping().is_none()
            && fstat(file).is_ok_and(|stat| {
                mtime(&stat) == wanted.mtime && stat.st_mode & 0o7777 == mode(wanted).as_raw_mode()
            })
    }

    /// Store a symbolic link.
    pub(super) fn land_link(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        let Kind::Symlink { target } = &wanted.kind else { return Ok(()) };
        let make = |folder: &OwnedFd, name: &[u8]| symlinkat(target.as_slice(), folder, name);
        self.land_made(entry, make, self.keeping().is_some(), |folder, name| {
            if self.keeping().is_some() {
                return self.keep(entry, &hold_made(folder, name, wanted)?).map(drop);
            }
            Ok(utimensat(folder, name, &times(wanted), AtFlags::SYMLINK_NOFOLLOW)?)
        })
    }

    /// Make a device, a named pipe or a socket. `false` if that is left.
    pub(super) fn land_node(&self, entry: EntryIndex) -> io::Result<bool> {
        let wanted = self.entry(entry);
        let Kind::Node { node, device: (major, minor) } = wanted.kind else { return Ok(true) };
        let kind = kind_of(node);
        if !self.may_make(node) {
            self.note(NODES, entry, NOT_FOR_ALL);
            return Ok(false);
        }
        let make = |folder: &OwnedFd, name: &[u8]| {
            mknodat(folder, name, kind, Mode::from_raw_mode(0o600), makedev(major, minor))
        };
        let made = self.land_made(entry, make, true, |folder, name| {
            self.dress_held(entry, &hold_made(folder, name, wanted)?)
        });
        match made {
            Err(error) if is_device(node) && error.raw_os_error() == Some(libc::EPERM) => {
                self.note(NODES, entry, TAKES_ROOT);
                Ok(false)
            }
            made => made.map(|()| true),
        }
    }

    /// Store what is made in one go and has to be dressed afterwards: under its own name if nothing is there and nobody minds that it
    /// is seen before.
    fn land_made(
        &self,
        entry: EntryIndex,
        make: impl Fn(&OwnedFd, &[u8]) -> Result<(), Errno>,
        is_private: bool,
        dress: impl Fn(&OwnedFd, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.look_for_twin(entry)?;
        let (folder, name) = self.parent(entry)?;
        if !is_private {
            match make(&folder, name) {
                Err(Errno::EXIST) if self.may_replace() => {}
                made => {
                    made?;
                    let _ = self.take_place(entry);
                    return dress(&folder, name);
                }
            }
        }
        let new = self.new_name(entry, name);
        make(&folder, &new)?;
        let landed = dress(&folder, &new).and_then(|()| self.rename(entry, &folder, &new, name));
        landed.inspect_err(|_| {
            let _ = remove_file(&folder, &new);
        })?;
        let _ = self.take_place(entry);
        Ok(())
    }

    /// Give a folder its permissions and time, when nothing more changes in it.
    pub(super) fn finish_folder(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        if wanted.path.is_empty() && self.keeps_top() {
            return Ok(());
        }
        let folder = self.open_folder(&wanted.path)?;
        if self.keep(entry, &folder)? {
            return Ok(());
        }
        futimens(&folder, &times(wanted))?;
        Ok(fchmod(&folder, mode(wanted))?)
    }

    /// Give what was already there the permissions and time that the source has, and what else is kept.
    pub(super) fn fix(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        let (folder, name) = self.parent(entry)?;
        let there = hold(&folder, name)?;
        let stat = fstat(&there)?;
        // With the source's time nobody would look again at what was changed since it was compared.
        let is_as_compared = match wanted.kind {
            Kind::File { size, .. } => {
                let is_empty = wanted.kind.data_len() == 0;
                stat.st_size as u64 == size && (is_empty || same_time(wanted.mtime, mtime(&stat)))
            }
            _ => true,
        };
        if !is_as_compared || !is_kind(&stat, wanted) {
            return Ok(());
        }
        self.dress_held(entry, &there)
    }

    /// Give what is held, and is no folder, its permissions and time, and what else is kept.
    pub(super) fn dress_held(&self, entry: EntryIndex, held: &(impl AsFd + AsRawFd)) -> io::Result<()> {
        let wanted = self.entry(entry);
        if self.keep(entry, held)? {
            return Ok(());
        }
        if !matches!(wanted.kind, Kind::Symlink { .. }) {
            set_mode(held, mode(wanted))?;
        }
        Ok(utimensat(CWD, itself(held).as_str(), &times(wanted), AtFlags::empty())?)
    }
}

fn is_device(node: Node) -> bool {
    matches!(node, Node::Character | Node::Block)
}

/// Hold what was made just now, and nothing that somebody else has put in its place.
fn hold_made(folder: &OwnedFd, name: &[u8], entry: &Entry) -> io::Result<OwnedFd> {
    let held = hold(folder, name)?;
    let stat = fstat(&held)?;
    let is_made = is_kind(&stat, entry) && stat.st_nlink == 1;
    if is_made { Ok(held) } else { Err(io::Error::other("something else was put in its place meanwhile")) }
}

/// What a node is to the system.
fn kind_of(node: Node) -> FileType {
    match node {
        Node::Fifo => FileType::Fifo,
        Node::Socket => FileType::Socket,
        Node::Character => FileType::CharacterDevice,
        Node::Block => FileType::BlockDevice,
    }
}

/// Whether something that is no folder is of an entry's kind, and a device the same device.
pub(super) fn is_kind(stat: &Stat, entry: &Entry) -> bool {
    let there = FileType::from_raw_mode(stat.st_mode);
    match &entry.kind {
        Kind::File { .. } => there == FileType::RegularFile,
        Kind::Symlink { .. } => there == FileType::Symlink,
        Kind::Node { node, device: (major, minor) } => {
            there == kind_of(*node) && (!is_device(*node) || stat.st_rdev == makedev(*major, *minor))
        }
        Kind::Dir | Kind::Link { .. } => false,
    }
}
