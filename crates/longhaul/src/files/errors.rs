//! What went wrong with files, and in which words that is told.

use super::exclude::PatternError;
use longhaul_proto::session::reason::{Cause, Reason};
use std::io;
use std::path::{Path, PathBuf};

/// Why a file, or all of a copy, cannot be listed, read or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system does not do it.
    #[error("{}", words(.0))]
    System(io::Error),
    /// The system does not do what `what` says.
    #[error("{what}: {}", words(source))]
    Step {
        /// What cannot be done.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// What goes wrong at a path.
    #[error("{}: {error}", path.display())]
    At {
        /// Where.
        path: PathBuf,
        /// What.
        error: Box<FileError>,
    },
    /// There is less room at the destination than the copy takes.
    #[error(
        "not enough room: {} are to come; free {} and run the same command again",
        shown_bytes(*needed_bytes),
        shown_bytes(*missing_bytes)
    )]
    NoRoom {
        /// Bytes that the copy takes.
        needed_bytes: u64,
        /// Bytes that are missing.
        missing_bytes: u64,
    },
    /// The destination became full.
    #[error("{} at the destination; free {} and run the same command again", words(source), shown_bytes(*missing_bytes))]
    Full {
        /// Bytes that are missing.
        missing_bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// Something else is where a folder has to be.
    #[error("not a folder; give another destination or remove it first")]
    NotAFolder,
    /// Something else is where a folder of the copy has to be.
    #[error("something that is not a folder is in the way; remove it")]
    NoFolderInTheWay,
    /// A folder is where a file has to be.
    #[error("a folder is in the way; remove it")]
    FolderInTheWay,
    /// Bytes without a name are to go into a folder.
    #[error("a folder; add the name of the file that the pipe is to fill")]
    PipeIntoFolder,
    /// What is to go into a pipe is not one file.
    #[error("only a regular file can be copied into a pipe; name one")]
    NoSingleFile,
    /// There is something of that name, and nothing is to be replaced.
    #[error("this name is taken, and nothing is replaced here; choose another")]
    Taken,
    /// The destination does not tell its name from that of another entry.
    #[error("its name differs only in case from {}, and the destination does not tell them apart; rename one", other.display())]
    OnlyCase {
        /// The path of the other.
        other: PathBuf,
    },
    /// The folder of an entry cannot be made.
    #[error("its folder cannot be made")]
    FolderMissing,
    /// The destination has a name that is too long, or one of those for files on their way.
    #[error("a name in it is too long, or one that longhaul uses for files on their way; choose another")]
    NameUnusable,
    /// The source has a file whose name is one of those for files on their way.
    #[error("its name is one that longhaul uses for files on their way; rename it")]
    NameReserved,
    /// A planned copy is to be finished, and nothing of this has come.
    #[error("is not there yet")]
    NotYet,
    /// A planned copy is to be finished, and a piece of this has not come in full.
    #[error("has come in pieces, and the one from byte {from_byte} of its data on is not there in full yet")]
    Missing {
        /// Where the piece begins in the file's data.
        from_byte: u64,
    },
    /// A piece of a file that is none.
    #[error("is said to be a piece of a file and is too short for one")]
    NoPiece,
    /// It was written since the copy was planned.
    #[error("changed since the copy was planned; plan it anew")]
    ChangedSincePlan,
    /// Its groups do not match the sender's hashes, time and again.
    #[error("cannot be verified; is it being written to while it is copied? copy it again")]
    Unverifiable,
    /// Of its data less has come than its sender has told hashes of.
    #[error(
        "has more hashes without data than there is memory for; copy it again when fewer copies run there"
    )]
    NoMemory,
    /// It was written while it was copied.
    #[error("changed while it was being copied; copy it again")]
    Changed,
    /// It has been written just now, or its contents are made when it is read, as in `/proc`: nobody knows how long they are.
    #[error(
        "is said to be empty, and is not; copy it again, or its contents through a pipe, with - as the source"
    )]
    NotEmpty,
    /// Two sources give the same path.
    #[error("another source has something else at this path; only the first is copied")]
    Twice,
    /// The path is longer than the manifest takes.
    #[error("its path is longer than {max} bytes")]
    PathTooLong {
        /// The longest, bytes.
        max: usize,
    },
    /// It has more extended attributes than are copied.
    #[error("its extended attributes take more than {max} bytes, or are none that are copied")]
    Attributes {
        /// The most, bytes.
        max: usize,
    },
    /// Another name of a file where none may be made.
    #[error("hard links are not made in this copy")]
    LinkNotAsked,
    /// Of another name of a file, that file is not at the destination.
    #[error("the file of which it is another name, {}, is not there as it is at the source", other.display())]
    OtherNameMissing {
        /// That file's path.
        other: PathBuf,
    },
    /// A list of files leaves its source.
    #[error("\"..\" is not allowed in a list of files")]
    LeavesSource,
    /// The object would be larger than one can be.
    #[error("a copy of more than 1 PiB is too large; copy its folders one by one")]
    TooLarge,
    /// A pattern makes no sense.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A thread ended without a word.
    #[error("longhaul panicked: please report this bug")]
    Panicked,
    /// It was stopped meanwhile.
    #[error("interrupted while comparing")]
    Interrupted,
}

impl FileError {
    /// The system does not do what `what` says: for `map_err`.
    pub(super) fn step<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> FileError + Copy {
        move |error| FileError::Step { what, source: error.into() }
    }

    /// What goes wrong at `path`.
    pub(super) fn at(self, path: &Path) -> FileError {
        FileError::At { path: path.into(), error: Box::new(self) }
    }

    /// The destination does not tell its path from this one.
    pub(super) fn only_case(other: &[u8]) -> FileError {
        FileError::OnlyCase { other: String::from_utf8_lossy(other).into_owned().into() }
    }

    /// What kind of failure it is.
    pub fn cause(&self) -> Cause {
        match self {
            FileError::System(source) | FileError::Step { source, .. } => cause_of(source),
            FileError::At { error, .. } => error.cause(),
            FileError::NoRoom { .. } | FileError::Full { .. } => Cause::NoSpace,
            FileError::Changed | FileError::ChangedSincePlan | FileError::Unverifiable => Cause::Changed,
            FileError::Pattern(_) => Cause::Request,
            FileError::Interrupted => Cause::Interrupted,
            _ => Cause::Other,
        }
    }
}

impl From<FileError> for Reason {
    fn from(error: FileError) -> Reason {
        Reason::new(error.cause(), error)
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        FileError::System(error)
    }
}

impl From<rustix::io::Errno> for FileError {
    fn from(error: rustix::io::Errno) -> FileError {
        FileError::System(error.into())
    }
}

fn cause_of(error: &io::Error) -> Cause {
    match error.kind() {
        _ if is_no_room(error) => Cause::NoSpace,
        io::ErrorKind::NotFound => Cause::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Cause::Denied,
        io::ErrorKind::ResourceBusy => Cause::InUse,
        _ => Cause::Other,
    }
}

/// The reason alone, without the number: "permission denied".
pub(super) fn why(error: impl Into<io::Error>) -> String {
    words(&error.into())
}

/// What cap-std says of such a path.
const LEFT_THE_ROOT: &str = "a path led outside of the filesystem";

fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "no space left".into(),
        Some(libc::EDQUOT) => "the disk quota is used up".into(),
        Some(libc::ENOENT) => "no such file or folder".into(),
        Some(libc::ELOOP) => "a symbolic link is in the way".into(),
        Some(libc::ENOTDIR) => "something on the way to it is not a folder".into(),
        Some(libc::EISDIR) => "a folder is in the way".into(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files; raise the limit with ulimit -n".into(),
        Some(libc::EIO) => "the disk reports an input/output error".into(),
        _ => {
            let text = error.to_string();
            if text == LEFT_THE_ROOT {
                return "it leads out of the folder that is served".into();
            }
            let text = text.split(" (os error").next().unwrap_or_default();
            let mut letters = text.chars();
            // The system's messages begin with a capital letter; here they stand inside a sentence.
            match letters.next() {
                Some(first) => first.to_lowercase().chain(letters).collect(),
                None => text.into(),
            }
        }
    }
}

/// Whether nothing more can be stored there for now.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// A count of bytes as a person reads it.
pub(super) fn shown_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_like_part_of_a_sentence() {
        assert_eq!(why(io::Error::from_raw_os_error(libc::EACCES)), "permission denied");
        assert_eq!(why(io::Error::other("Odd thing")), "odd thing");
    }

    #[test]
    fn byte_counts_have_units() {
        assert_eq!(shown_bytes(999), "999 bytes");
        assert_eq!(shown_bytes(1_000), "1.0 kB");
        assert_eq!(shown_bytes(999_999), "1.0 MB");
        assert_eq!(shown_bytes(3_200_000_000), "3.2 GB");
    }
}
