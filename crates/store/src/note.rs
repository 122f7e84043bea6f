//! What is noted on the disk of an upload, so that it is gone on with.

use crate::cut::PartNumber;
use crate::object::Meta;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// An upload in parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// The object that it becomes.
    pub key: String,
    /// What the store calls it.
    pub upload: String,
    /// What it was begun with.
    pub meta: Meta,
    /// Parts of which the store alone has the data.
    pub freed: Vec<PartNumber>,
}

impl Note {
    /// What is there, if anything is.
    pub fn read(path: &Path) -> io::Result<Option<Note>> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of it, or what was there before. It lasts.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(self)?)?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}
