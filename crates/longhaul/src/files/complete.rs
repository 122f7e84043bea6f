//! Files that have all their data and no name yet.

use super::calls::fsync;
use super::disk;
use super::part::Part;
use longhaul_proto::session::manifest::EntryIndex;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A file that holds all its data and has its permissions and time, and lacks its name.
pub(super) struct Complete {
    pub entry: EntryIndex,
    pub(super) held: Held,
}

pub(super) enum Held {
    /// A file that has a journal.
    Part(Arc<Part>),
    /// A small one: nobody else can reach it.
    Unnamed(File),
    /// A small one where files without a name cannot be made.
    Named(File),
}

impl Complete {
    /// Bring it to the disk. Small files go together: [`Disk::sync`].
    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.held {
            Held::Part(part) => part.last_word(|file| Ok(fsync(file)?)),
            Held::Unnamed(file) | Held::Named(file) => Ok(fsync(file)?),
        }
    }

    /// What went wrong so far on its way to the disk.
    pub(super) fn ask(&self) -> io::Result<()> {
        match &self.held {
            Held::Part(part) => part.last_word(disk::ask),
            Held::Unnamed(file) | Held::Named(file) => disk::ask(file),
        }
    }

    pub(super) fn file(&self) -> &File {
        match &self.held {
            Held::Part(part) => &part.file,
            Held::Unnamed(file) | Held::Named(file) => file,
        }
    }

    /// Whether it is small, and so has been made just now.
    pub(super) fn is_small(&self) -> bool {
        !matches!(self.held, Held::Part(_))
    }
}
