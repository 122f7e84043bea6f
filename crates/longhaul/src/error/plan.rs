//! What can be wrong with a planned copy, beside what can be with any.

use crate::files::PatternError;
use crate::listing::ListingError;
use std::io;
use std::path::PathBuf;

/// Why a planned copy is of no use, or a part of it cannot be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no plan in the folder.
    #[error("{}: there is no plan here, or it was not written to its end; plan the copy again", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// There is one already.
    #[error("{}: there is a plan here already; give another folder, or remove this one", folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
    },
    /// Another version of the program wrote it.
    #[error(
        "{}: the plan is of version {version}, and this program knows version {known}; plan and copy with the same longhaul",
        folder.display()
    )]
    Version {
        /// The folder.
        folder: PathBuf,
        /// What it says.
        version: u32,
        /// What this program knows.
        known: u32,
    },
    /// What is there makes no sense.
    #[error("{}: {what}; plan the copy again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The system does not read or write it.
    #[error("{}: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// What was listed cannot be written down.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// The plan has no such part.
    #[error("there is no part {part}: the plan has {parts}, numbered from 0")]
    NoSuchPart {
        /// What was asked for.
        part: u32,
        /// How many there are.
        parts: u32,
    },
    /// Another process copies it.
    #[error("part {part} is being copied by {by}; it is not copied twice at a time")]
    InUse {
        /// The part.
        part: u32,
        /// Who does.
        by: String,
    },
    /// A path that JSON cannot hold.
    #[error("{}: only paths in UTF-8 can be planned as sources", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// There is nothing to copy.
    #[error("nothing to copy: {why}")]
    Empty {
        /// Why.
        why: String,
    },
    /// The last step could not be taken: it looks at all of the copy in one session.
    #[error(
        "a copy in parts has at most 1 PiB of data and 4294967295 entries, and this one {bytes} bytes in {entries}; \
         plan its folders one by one"
    )]
    TooLarge {
        /// Its data.
        bytes: u64,
        /// Files, folders and links.
        entries: u64,
    },
    /// A pattern of what to leave out.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A plan cannot be cut so.
    #[error("{0}")]
    Uncuttable(&'static str),
    /// It was stopped.
    #[error("interrupted")]
    Interrupted,
}

impl PlanError {
    /// The system does not read or write a file.
    pub(crate) fn at(path: &std::path::Path) -> impl Fn(io::Error) -> PlanError + '_ {
        |source| PlanError::Unusable { path: path.into(), source }
    }
}
