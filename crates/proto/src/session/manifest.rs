//! What a copy consists of: its entries in order, and where each file's bytes lie in the object.
//!
//! All files of a copy, in manifest order, form one contiguous byte space, the *object*. A file contributes its
//! data extents only (holes of a sparse file are not in the object), back to back. Hash *groups* cut each file's
//! contribution into pieces of [`GROUP_LEN`] bytes, aligned to the file's first byte.

use super::attributes::{Attributes, EntryAttributes};
pub use crate::ranges::{Ranges, bytes_in, shifted};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of a file that are read, verified and journalled together: 1 MiB. A power of two multiple of BLAKE3's 1 KiB
/// chunk, so that group hashes are subtrees of the file's own BLAKE3 tree and its root follows without reading again.
pub const GROUP_LEN: u64 = 1 << 20;

/// A version of one file: a hash over all by which the sender's file system tells that it was changed, or replaced by
/// another. Equal versions have equal contents. Only files of several groups have one, since only these are resumed, and
/// only where the file system can be trusted to tell.
pub type FileVersion = [u8; 16];

/// Parts of a copy that a sender lists before the oldest of them is done with: one whose last files are being put in place, one
/// that is on its way, and one that is being compared.
pub const PARTS_MAX: usize = 3;

/// Index of an entry in its manifest; in messages, among all entries of all parts.
pub type EntryIndex = u32;

/// One file, folder or symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path below the destination, `/` between components, any bytes but NUL. Empty: the destination itself (a folder
    /// whose contents are copied).
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits (`07777`).
    pub mode: u32,
    /// Last modification: seconds since 1970 (may be negative) and nanoseconds (below 10⁹).
    pub mtime: (i64, u32),
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its length in bytes, holes included.
        size: u64,
        /// `None`: all of it is data. `Some`: a sparse file's data extents, ascending, disjoint, not touching, within
        /// `size`; what lies between is a hole.
        extents: Option<Vec<Range<u64>>>,
        /// Its version, where it has one.
        version: Option<FileVersion>,
    },
    /// A folder.
    Dir,
    /// A symbolic link and the bytes it holds.
    Symlink {
        /// Where it points, as is.
        target: Vec<u8>,
    },
    /// Another name of a file that comes before it in the copy. From version 14 on, as what follows.
    Link {
        /// The path of that one.
        to: Vec<u8>,
        /// What that is.
        of: Named,
    },
    /// A named pipe, a socket or a device.
    Node {
        /// Which of these.
        node: Node,
        /// Major and minor number of a device.
        device: (u32, u32),
    },
}

/// What has several names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Named {
    /// A regular file of this length.
    File(u64),
    /// A symbolic link.
    Symlink,
    /// A [`Node`].
    Node,
}

/// What is neither a file nor a folder nor a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device that is read and written in characters.
    Character,
    /// One that is in blocks.
    Block,
}

impl Entry {
    /// Bytes that it takes in memory.
    pub fn memory_len(&self) -> usize {
        let more = match &self.kind {
            Kind::File { extents, .. } => {
                extents.as_ref().map_or(0, |extents| size_of_val(extents.as_slice()))
            }
            Kind::Symlink { target: path } | Kind::Link { to: path, .. } => path.len(),
            Kind::Dir | Kind::Node { .. } => 0,
        };
        size_of::<Entry>() + self.path.len() + more
    }
}

impl Kind {
    /// Bytes this entry adds to the object.
    pub fn data_len(&self) -> u64 {
        match self {
            Kind::File { size, extents: None, .. } => *size,
            Kind::File { extents: Some(extents), .. } => {
                extents.iter().fold(0u64, |sum, e| sum.saturating_add(e.end.saturating_sub(e.start)))
            }
            _ => 0,
        }
    }

    /// Whether it is done only once all else is there: a folder, a name of a file that has another one.
    pub fn comes_last(&self) -> bool {
        matches!(self, Kind::Dir | Kind::Link { .. })
    }
}

/// The entries of a copy, or of one part of it, parents before children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The entries.
    pub entries: Vec<Entry>,
    /// How it goes with the parts before and after it.
    pub seams: Seams,
    /// What is kept of the entries beyond that, where it is asked for. It travels after what could not be listed.
    #[serde(skip)]
    pub attributes: Attributes,
}

/// How a part of a copy goes with those before and after it. A copy of very many entries is listed, compared and stored in
/// parts, each with a manifest of its own, so that neither side has more than a few of them in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seams {
    /// So many of the first entries are folders that were in the part before as well: what follows is in them.
    pub continued: u32,
    /// Folders that are in the next part too. They get their permissions and times with the last part they are in.
    pub goes_on: Vec<EntryIndex>,
    /// Another part follows.
    pub has_more: bool,
}

/// Why a manifest from the other side was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadManifest {
    /// A path that would leave the destination, or that no file system takes.
    #[error("the other side sent an unsafe path: {0:?}")]
    Path(String),
    /// Extents out of order, overlapping or beyond the file.
    #[error("the other side sent impossible extents for {0:?}")]
    Extents(String),
    /// Folders that are said to be in several parts and are no folders of this one.
    #[error("the other side sent parts of a copy that do not fit together")]
    Seams,
    /// More bytes than [`OBJECT_LEN_MAX`], or more entries than 2³².
    #[error(
        "the other side offered a copy of more than 4 PiB, or of more than 4294967295 files; copy it in parts"
    )]
    TooLarge,
    /// Extended attributes that nobody has.
    #[error("the other side sent impossible owners, attributes or ACLs")]
    Attributes,
    /// The same path twice, or a path below something that is not a folder.
    #[error("the other side sent the path {0:?} twice or below a file")]
    Conflict(String),
}

impl Manifest {
    /// Of a copy that has one part.
    pub fn of(entries: Vec<Entry>) -> Manifest {
        Manifest { entries, ..Manifest::default() }
    }

    /// What is kept of an entry beyond what it says itself, if anything is.
    pub fn attributes_of(&self, entry: EntryIndex) -> Option<&EntryAttributes> {
        self.attributes.entries.get(entry as usize)
    }

    /// How many of the entries are regular files.
    pub fn regular_files(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count() as u64
    }

    /// Check all that an honest sender keeps to within a part: relative paths without `.`, `..`, empty components or NUL; no path
    /// twice, none below a file or link; extents ascending and inside the file; totals that can be numbered.
    pub fn validate(&self) -> Result<(), BadManifest> {
        if u32::try_from(self.entries.len()).is_err() {
            return Err(BadManifest::TooLarge);
        }
        let mut total = 0u64;
        for entry in &self.entries {
            let shown = || String::from_utf8_lossy(&entry.path).into_owned();
            if !path_is_safe(&entry.path, matches!(entry.kind, Kind::Dir)) || entry.mtime.1 >= 1_000_000_000 {
                return Err(BadManifest::Path(shown()));
            }
            if matches!(&entry.kind, Kind::Link { to, .. } if !path_is_safe(to, false)) {
                return Err(BadManifest::Path(shown()));
            }
            if !extents_are_sane(&entry.kind) {
                return Err(BadManifest::Extents(shown()));
            }
            total = total.checked_add(entry.kind.data_len()).ok_or(BadManifest::TooLarge)?;
        }
        if total > OBJECT_LEN_MAX {
            return Err(BadManifest::TooLarge);
        }
        if !self.attributes.fit(self.entries.len()) {
            return Err(BadManifest::Attributes);
        }
        self.check_seams()?;
        self.check_conflicts()
    }

    fn check_seams(&self) -> Result<(), BadManifest> {
        let Seams { continued, goes_on, has_more } = &self.seams;
        let is_folder = |entry: &EntryIndex| {
            self.entries.get(*entry as usize).is_some_and(|entry| matches!(entry.kind, Kind::Dir))
        };
        let fits = (0..*continued).all(|entry| is_folder(&entry))
            && goes_on.iter().all(is_folder)
            && (*has_more || goes_on.is_empty());
        if fits { Ok(()) } else { Err(BadManifest::Seams) }
    }

    /// In order of their components what lies below a path follows it at once, so that neighbours tell all.
    fn check_conflicts(&self) -> Result<(), BadManifest> {
        let mut sorted: Vec<&Entry> = self.entries.iter().collect();
        sorted.sort_by(|a, b| by_components(&a.path, &b.path));
        for pair in sorted.windows(2) {
            let [above, entry] = [&pair[0], &pair[1]];
            let rest = entry.path.strip_prefix(above.path.as_slice());
            let is_below_leaf = |rest: &[u8]| rest.starts_with(b"/") && !matches!(above.kind, Kind::Dir);
            if rest.is_some_and(|rest| rest.is_empty() || is_below_leaf(rest)) {
                return Err(BadManifest::Conflict(String::from_utf8_lossy(&entry.path).into_owned()));
            }
        }
        Ok(())
    }
}

/// 4 PiB: so many [groups](Group) of a file can be numbered, and their bitmap fits in memory.
pub const OBJECT_LEN_MAX: u64 = 1 << 52;

/// The order of paths in which all that lies below one follows it at once: `/` before any other byte. Compared in pieces, as
/// long paths that have nearly all in common are to cost no more than reading them.
pub fn by_components(a: &[u8], b: &[u8]) -> Ordering {
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE)).take_while(|(a, b)| a == b).count();
    let from = (pieces * PIECE).min(a.len()).min(b.len());
    let same = from + a[from..].iter().zip(&b[from..]).take_while(|(a, b)| a == b).count();
    let rank = |byte: Option<&u8>| byte.map(|byte| (*byte != b'/', *byte));
    rank(a.get(same)).cmp(&rank(b.get(same)))
}

const PIECE: usize = 64;

fn path_is_safe(path: &[u8], may_be_empty: bool) -> bool {
    if path.is_empty() {
        return may_be_empty;
    }
    path.len() <= 4096
        && path
            .split(|b| *b == b'/')
            .all(|c| !c.is_empty() && c.len() <= 255 && c != b"." && c != b".." && !c.contains(&0))
}

fn extents_are_sane(kind: &Kind) -> bool {
    match kind {
        Kind::File { size, extents: Some(extents), .. } => {
            let mut end = None;
            *size <= 1 << 62
                && extents.iter().all(|e| {
                    let ok = e.start < e.end && e.end <= *size && end.is_none_or(|last| e.start > last);
                    end = Some(e.end);
                    ok
                })
        }
        Kind::File { size, extents: None, .. } => *size <= 1 << 62,
        Kind::Symlink { target } => !target.is_empty() && target.len() <= 4096 && !target.contains(&0),
        Kind::Dir | Kind::Link { .. } | Kind::Node { .. } => true,
    }
}

/// A hash group: a piece of one file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    /// The file.
    pub entry: EntryIndex,
    /// Which piece: it covers data bytes from `index` × [`GROUP_LEN`] on.
    pub index: u32,
}

/// Where each file's data lies in the object.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Object offset at which each entry's data begins; one more element than entries, the last the object's length.
    starts: Vec<u64>,
}

impl Layout {
    /// Lay out a validated manifest.
    pub fn new(manifest: &Manifest) -> Layout {
        let mut starts = Vec::with_capacity(manifest.entries.len() + 1);
        let mut at = 0u64;
        for entry in &manifest.entries {
            starts.push(at);
            at = at.saturating_add(entry.kind.data_len());
        }
        starts.push(at);
        Layout { starts }
    }

    /// Bytes in the object.
    pub fn object_len(&self) -> u64 {
        *self.starts.last().expect("starts has an end")
    }

    /// The object range that an entry's data fills (empty for folders, links and empty files).
    pub fn entry_range(&self, entry: EntryIndex) -> Range<u64> {
        self.starts[entry as usize]..self.starts[entry as usize + 1]
    }

    /// How many groups an entry has.
    pub fn group_count(&self, entry: EntryIndex) -> u32 {
        let range = self.entry_range(entry);
        (range.end - range.start).div_ceil(GROUP_LEN) as u32
    }

    /// The object range of a group that exists.
    pub fn group_range(&self, group: Group) -> Range<u64> {
        let range = self.entry_range(group.entry);
        let start = range.start + u64::from(group.index) * GROUP_LEN;
        start..(start + GROUP_LEN).min(range.end)
    }

    /// The group that holds the object byte at `offset`, which is below the object's length.
    pub fn group_at(&self, offset: u64) -> Group {
        let entry = self.starts.partition_point(|s| *s <= offset) - 1;
        Group { entry: entry as u32, index: ((offset - self.starts[entry]) / GROUP_LEN) as u32 }
    }

    /// The groups that a range of object bytes touches, in order.
    pub fn groups_in(&self, range: Range<u64>) -> impl Iterator<Item = Group> + '_ {
        let end = range.end.min(self.object_len());
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let group = self.group_at(at);
            at = self.group_range(group).end;
            Some(group)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(path: impl Into<Vec<u8>>, is_dir: bool) -> Entry {
        let kind = if is_dir { Kind::Dir } else { Kind::File { size: 0, extents: None, version: None } };
        Entry { path: path.into(), kind, mode: 0o644, mtime: (0, 0) }
    }

    fn is_conflict(entries: Vec<Entry>) -> bool {
        match Manifest::of(entries).validate() {
            Ok(()) => false,
            Err(BadManifest::Conflict(_)) => true,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_path_twice_or_below_a_file_is_refused_in_whatever_order() {
        let [file, beside, below] = [entry("a", false), entry("a-b", false), entry("a/c", false)];
        assert!(is_conflict(vec![file.clone(), beside.clone(), below.clone()]));
        assert!(is_conflict(vec![below.clone(), beside.clone(), file.clone()]));
        assert!(is_conflict(vec![file.clone(), beside.clone(), file.clone()]));
        assert!(!is_conflict(vec![below, beside, entry("a", true)]));
    }

    #[test]
    fn many_very_deep_paths_are_looked_through_as_fast_as_they_are_read() {
        // Each differs from the others at its end; looking up all folders above each would take very long.
        let path = |at: usize| format!("{}{at:05}", "a/".repeat(2043));
        let mut entries: Vec<Entry> = (0..5_000).map(|at| entry(path(at * 7 % 5_000), false)).collect();
        assert_eq!(entries[0].path.split(|b| *b == b'/').count(), 2044);
        assert!(!is_conflict(entries.clone()));
        entries.push(entry("a/".repeat(1000) + "a", false));
        assert!(is_conflict(entries));
    }

    proptest! {
        #[test]
        fn conflicts_are_what_looking_at_all_pairs_finds(
            list in proptest::collection::vec(("[ab-]{1,2}(/[ab-]{1,2}){0,3}", any::<bool>()), 0..12)
        ) {
            let entries: Vec<Entry> = list.iter().map(|(path, is_dir)| entry(path.as_str(), *is_dir)).collect();
            let below = |path: &str, above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
            let clash = |i: usize, j: usize| {
                i != j && (list[i].0 == list[j].0 || (below(&list[i].0, &list[j].0) && !list[j].1))
            };
            let model = (0..list.len()).any(|i| (0..list.len()).any(|j| clash(i, j)));
            prop_assert_eq!(is_conflict(entries), model);
        }
    }
}
