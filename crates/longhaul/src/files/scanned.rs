//! What there is to copy, as it was listed.

use super::errors::FileError;
use super::pieces::Pieces;
use super::root::Root;
use super::version::Identity;
use crate::net::budget::Allowance;
use longhaul_proto::session::manifest::{EntryIndex, Manifest};
use longhaul_proto::session::message::FileFailure;
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::truncated::Truncated;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What there is to copy, or a part of it.
#[derive(Debug, Default)]
pub struct Scan {
    /// The entries; files of a folder before its subfolders, each sorted by name, and all of a folder together.
    pub manifest: Manifest,
    /// Files of which only a piece is to be copied.
    pub(super) pieces: Pieces,
    /// What could not be listed.
    pub errors: Vec<FileFailure>,
    /// Sockets, pipes and devices: no copy of them would be of use.
    pub left_out: Truncated<Vec<u8>>,
    /// Files whose other names become files of their own.
    pub(super) apart: u64,
    /// The first entry of each source, and the folder its path is relative to.
    pub(super) origins: Vec<(EntryIndex, Origin)>,
    /// What told of changes of files of several groups, ascending.
    pub(super) identities: Vec<(EntryIndex, Identity)>,
    /// It was listed when a copy was planned; the key of its files' versions.
    pub(super) plan_key: Option<[u8; 32]>,
    /// The memory that it takes beside other copies.
    pub(super) room: Allowance,
    /// There was none.
    pub(super) is_crowded: bool,
}

impl Scan {
    /// What was listed when a copy was planned: the first entry of each source and the folder that its path is relative to, and
    /// which files are to be copied as pieces.
    pub(crate) fn planned(
        listed: (Manifest, Vec<FileFailure>),
        origins: &[(EntryIndex, PathBuf)],
        pieces: Pieces,
        plan_key: [u8; 32],
    ) -> Result<Scan, FileError> {
        let open = |(first, path): &(EntryIndex, PathBuf)| {
            let opened = Root::ambient().open_folder(path);
            let folder = Arc::new(opened.map_err(|error| FileError::from(error).at(path))?);
            Ok((*first, Origin { folder, path: path.as_path().into() }))
        };
        let origins = origins.iter().map(open).collect::<Result<Vec<_>, FileError>>()?;
        let (manifest, errors) = listed;
        Ok(Scan { manifest, errors, origins, pieces, plan_key: Some(plan_key), ..Scan::default() })
    }

    /// A stretch of what comes of a pipe.
    pub(super) fn of_pipe(manifest: Manifest) -> Scan {
        Scan { manifest, ..Scan::default() }
    }

    /// Lines about what is left out although nobody asked for that.
    pub fn warnings(&self) -> Vec<String> {
        let shown = |path: &Vec<u8>| {
            format!("{}: not copied: neither a file nor a folder nor a link", String::from_utf8_lossy(path))
        };
        let mut lines: Vec<_> = self.left_out.first.iter().take(LEFT_OUT_NAMED).map(shown).collect();
        let more = self.left_out.count() - lines.len() as u64;
        if more > 0 {
            lines.push(format!("{more} more are not copied: neither files nor folders nor links"));
        }
        if self.apart > 0 {
            lines.push(format!(
                "{} files have other names too, and become files of their own: their names are too many to remember",
                self.apart
            ));
        }
        lines
    }

    /// Why there is nothing to copy, if that is so.
    pub fn emptiness(&self) -> Option<Reason> {
        if !self.manifest.entries.is_empty() || self.manifest.seams.has_more {
            return None;
        }
        let failed = self.errors.first().map(|failure| Reason::new(failure.reason.cause, failure));
        Some(failed.unwrap_or_else(|| match self.warnings().into_iter().next() {
            Some(line) => Reason::new(Cause::Other, line),
            None => Reason::new(Cause::Other, "nothing to copy: everything is left out"),
        }))
    }

    /// What told of an entry's changes when it was listed, if it is a file of several groups.
    pub(super) fn identity(&self, entry: EntryIndex) -> Option<Identity> {
        let at = self.identities.binary_search_by_key(&entry, |(known, _)| *known).ok()?;
        Some(self.identities[at].1)
    }

    /// The folder below which an entry was found at its path.
    pub(super) fn origin(&self, entry: EntryIndex) -> Arc<OwnedFd> {
        let at = self.origins.partition_point(|(first, _)| *first <= entry) - 1;
        self.origins[at].1.folder.clone()
    }

    /// The first entry of each source, and the path of the folder that its own is relative to.
    pub(crate) fn origin_paths(&self) -> impl Iterator<Item = (EntryIndex, &Path)> {
        self.origins.iter().map(|(first, origin)| (*first, &*origin.path))
    }
}

/// A folder that paths are relative to.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub folder: Arc<OwnedFd>,
    pub path: Arc<Path>,
}

/// More would hide what else is told: a home folder may hold hundreds of sockets.
const LEFT_OUT_NAMED: usize = 10;
