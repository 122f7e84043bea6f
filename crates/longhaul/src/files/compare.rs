//! Compares one entry with what is at its destination.

use super::attributes::{PERMISSIONS, same_time};
use super::calls::statat;
use super::claims::Standing;
use super::dress::is_kind;
use super::errors::FileError;
use super::extents::{DataMap, is_within};
use super::folders::Folders;
use super::journal::Owner;
use super::journal::group_range;
use super::lease::Patience;
use super::names::names_ours;
use super::pieces::{Assembled, PIECE_GROUPS_MIN, Pieces, assemble};
use super::resume::{Resumed, resume};
use super::scan::{mtime, open_to_read};
use super::twins::{Taken, Twins, inode};
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Kind, Layout, Manifest};
use longhaul_proto::session::message::{Delta, FileOptions};
use rustix::fs::{AtFlags, FileType, Stat, readlinkat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is at an entry's destination.
pub(super) enum Found {
    /// Nothing that could be used.
    Nothing,
    /// The folder.
    Folder,
    /// The folder, which stays as it is.
    Kept,
    /// The same file or link; `fix` if its permissions or time differ.
    Same { fix: bool },
    /// Another name of a file of the copy; whether it is one already.
    Link { is_made: bool },
    /// Part of the file: what an interrupted run left, or what the file in place may have in common with it.
    Part(Option<Box<Resumed>>, Option<Standing>),
    /// All of the file, in pieces.
    Assembled(Box<Assembled>),
    /// Something that it cannot replace.
    Obstacle(FileError),
}

impl Found {
    /// Whether something of it is to come in any case.
    pub(super) fn is_to_come(&self) -> bool {
        match self {
            Found::Nothing | Found::Link { is_made: false } => true,
            Found::Part(resumed, standing) => resumed.is_some() || standing.is_none(),
            _ => false,
        }
    }

    /// What a dry run makes of it: only where contents have to be compared does it take more than a look.
    pub(super) fn without_changes(self) -> Found {
        match self {
            Found::Part(None, Some(standing)) if !standing.may_stay => Found::Nothing,
            Found::Part(Some(mut resumed), _) => {
                resumed.claims.clear();
                Found::Part(Some(resumed), None)
            }
            Found::Link { is_made: true } => Found::Same { fix: false },
            Found::Link { is_made: false } => Found::Nothing,
            found => found,
        }
    }
}

/// Looks at one entry after the other.
pub(super) struct Looker<'a> {
    folders: Folders,
    manifest: &'a Manifest,
    twins: Twins,
    /// Of a copy in parts.
    taken: Option<Arc<Taken>>,
    layout: &'a Layout,
    options: &'a FileOptions,
    patience: Patience<'a>,
    blocked: Blocked,
    owner: Owner,
    pieces: &'a Pieces,
    replaced_bytes: u64,
}

/// The topmost folders that cannot be made: nothing below them can be stored.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// With the byte before all others for `/`, so that what lies below a folder follows it at once.
    folders: BTreeSet<Vec<u8>>,
}

impl Blocked {
    fn insert(&mut self, folder: &[u8]) {
        if self.holds(folder) {
            return;
        }
        let key = Blocked::key(folder);
        let below =
            |other: &&Vec<u8>| other.strip_prefix(key.as_slice()).is_some_and(|rest| rest.starts_with(&[0]));
        while let Some(inner) = self.folders.range(key.clone()..).next().filter(below).cloned() {
            self.folders.remove(&inner);
        }
        self.folders.insert(key);
    }

    /// Whether `path` is one of these folders or below one. However deep it is, it takes one look.
    fn holds(&self, path: &[u8]) -> bool {
        if self.folders.is_empty() {
            return false;
        }
        let key = Blocked::key(path);
        let mut before = self.folders.range::<[u8], _>((Bound::Unbounded, Bound::Included(key.as_slice())));
        let rest = before.next_back().and_then(|folder| key.strip_prefix(folder.as_slice()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(&[0]))
    }

    /// Forget all but these.
    pub(super) fn keep<'f>(&mut self, folders: impl Iterator<Item = &'f [u8]>) {
        let keys: BTreeSet<Vec<u8>> = folders.map(Blocked::key).collect();
        self.folders.retain(|blocked| keys.contains(blocked));
    }

    fn key(path: &[u8]) -> Vec<u8> {
        path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
    }
}

impl<'a> Looker<'a> {
    pub(super) fn new(
        (top, taken): (Option<Arc<OwnedFd>>, Option<Arc<Taken>>),
        (manifest, layout): (&'a Manifest, &'a Layout),
        options: &'a FileOptions,
        blocked: Blocked,
        (owner, pieces): (Owner, &'a Pieces),
        stop: &'a AtomicBool,
    ) -> Looker<'a> {
        let folders = Folders::new(top);
        Looker {
            folders,
            manifest,
            twins: Twins::default(),
            taken,
            layout,
            options,
            patience: Patience::new(stop),
            blocked,
            owner,
            pieces,
            replaced_bytes: 0,
        }
    }

    /// Whether nothing can be stored at `path` for want of a folder.
    pub(super) fn is_blocked(&self, path: &[u8]) -> bool {
        self.blocked.holds(path)
    }

    /// Folders that cannot be made.
    pub(super) fn into_blocked(self) -> Blocked {
        self.blocked
    }

    /// Bytes of files that will give way.
    pub(super) fn replaced_bytes(&self) -> u64 {
        self.replaced_bytes
    }

    /// What is at `path`.
    pub(super) fn look(&mut self, index: EntryIndex, entry: &Entry, path: &[u8]) -> Found {
        let found = match self.find(index, entry, path) {
            Found::Nothing if self.pieces.finishes().is_some() && entry.kind.data_len() > 0 => {
                Found::Obstacle(FileError::NotYet)
            }
            found => found,
        };
        if matches!((&found, &entry.kind), (Found::Obstacle(_), Kind::Dir)) {
            self.blocked.insert(path);
        }
        found
    }

    fn find(&mut self, index: EntryIndex, entry: &Entry, path: &[u8]) -> Found {
        if path.is_empty() {
            return Found::Folder;
        }
        if let Kind::Link { to, .. } = &entry.kind {
            if !self.options.preserve.hard_links || self.options.new_only {
                return Found::Obstacle(FileError::LinkNotAsked);
            }
            if names_ours(to) {
                return Found::Obstacle(FileError::NameReserved);
            }
        }
        // What has its first name in another part only the last step knows.
        if self.pieces.is_part() && matches!(entry.kind, Kind::Link { .. }) {
            return Found::Kept;
        }
        if names_ours(path) {
            return Found::Obstacle(FileError::NameReserved);
        }
        if self.blocked.holds(path) {
            return Found::Obstacle(FileError::FolderMissing);
        }
        let (folder, name) = match self.folders.parent(path) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Found::Nothing,
            Err(error) => return Found::Obstacle(FileError::step("its folder cannot be used")(error)),
        };
        let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Found::Obstacle(error.into()),
        };
        let there = stat.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
        if there.is_some()
            && let Some(other) = self.twins.holder(self.manifest, index, &mut self.folders, <[u8]>::to_vec)
        {
            return Found::Obstacle(FileError::only_case(other));
        }
        if there.is_some()
            && let Some(other) = self.taken.as_ref().and_then(|taken| taken.holder(&folder, path))
        {
            return Found::Obstacle(FileError::only_case(&other));
        }
        match (&entry.kind, there) {
            (Kind::Dir, Some(FileType::Directory)) if self.options.new_only => Found::Kept,
            (_, Some(_)) if self.options.new_only => Found::Obstacle(FileError::Taken),
            (Kind::Dir, None) => Found::Nothing,
            (Kind::Dir, Some(FileType::Directory)) => Found::Folder,
            (Kind::Dir, Some(_)) => Found::Obstacle(FileError::NoFolderInTheWay),
            (_, Some(FileType::Directory)) => Found::Obstacle(FileError::FolderInTheWay),
            (Kind::Symlink { target }, Some(FileType::Symlink)) => {
                match readlinkat(&folder, name, Vec::new()) {
                    Ok(there) if there.as_bytes() == target => Found::Same { fix: self.keeps() },
                    _ => Found::Nothing,
                }
            }
            (Kind::Symlink { .. }, _) => Found::Nothing,
            (Kind::Link { to, .. }, _) => {
                Found::Link { is_made: is_name_of(&mut self.folders, &folder, name, to) }
            }
            (Kind::Node { .. }, _) => match stat {
                Some(stat) if is_kind(&stat, entry) => Found::Same { fix: true },
                _ => Found::Nothing,
            },
            (Kind::File { .. }, _) => self.find_file(index, entry, &folder, name, stat.as_ref()),
        }
    }

    /// Whether more is kept than permissions and times: then what is there is looked at once more.
    fn keeps(&self) -> bool {
        self.options.preserve.has_attributes()
    }

    fn find_file(
        &mut self,
        index: EntryIndex,
        entry: &Entry,
        folder: &OwnedFd,
        name: &[u8],
        stat: Option<&Stat>,
    ) -> Found {
        let piece = self.pieces.piece(index);
        if piece.is_some() && self.layout.group_count(index) < PIECE_GROUPS_MIN {
            return Found::Obstacle(FileError::NoPiece);
        }
        let mut standing = None;
        if let Some(stat) = stat
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        {
            let same_time = same_time(entry.mtime, mtime(stat));
            if self.is_same(entry, folder, name, stat, same_time) {
                let mode = entry.mode & PERMISSIONS;
                return Found::Same { fix: !same_time || stat.st_mode & 0o7777 != mode || self.keeps() };
            }
            if piece.is_none() && self.pieces.finishes().is_none() {
                standing = self.standing(index, entry, stat);
            }
            if standing.is_none_or(|standing| !standing.may_stay) {
                self.replaced_bytes += (stat.st_blocks as u64).saturating_mul(512);
            }
        }
        if let Some(plan) = self.pieces.finishes() {
            return match assemble(folder, name, (index, entry), (plan, self.owner), self.patience) {
                Ok(assembled) => Found::Assembled(Box::new(assembled)),
                Err(error) => Found::Obstacle(error),
            };
        }
        let mut resumed = None;
        if self.options.resume && self.layout.group_count(index) > 1 {
            let how = (self.owner, self.options.checksum);
            match resume(folder, name, (index, entry), piece, how, self.patience) {
                Ok(found) => resumed = found.map(Box::new),
                Err(error) => return Found::Obstacle(error.into()),
            }
        }
        if let (Some(_), Some(standing)) = (&resumed, &mut standing) {
            standing.may_stay = false;
        }
        if resumed.is_none() && standing.is_none() { Found::Nothing } else { Found::Part(resumed, standing) }
    }

    /// Whether the file in place counts as the one that is to come without a look at the sender's hashes.
    fn is_same(&self, entry: &Entry, folder: &OwnedFd, name: &[u8], stat: &Stat, same_time: bool) -> bool {
        let Kind::File { size, .. } = &entry.kind else { return false };
        if stat.st_size as u64 != *size {
            return false;
        }
        // What a planned copy has put in place was verified then.
        let is_planned = self.pieces.finishes().is_some() || self.pieces.is_part();
        if !self.options.checksum || is_planned {
            return same_time;
        }
        // Where there is no data there are no hashes.
        entry.kind.data_len() == 0
            && open_to_read(folder, name)
                .is_ok_and(|file| holes_are_empty(&file, &entry.kind).unwrap_or(false))
    }

    /// What of the file in place may be equal to the one that is to come.
    fn standing(&self, index: EntryIndex, entry: &Entry, stat: &Stat) -> Option<Standing> {
        let Kind::File { size, .. } = &entry.kind else { return None };
        let there_len = stat.st_size as u64;
        let may_stay = there_len == *size;
        let delta = match self.options.delta {
            Delta::Always => true,
            Delta::Auto => there_len >= DELTA_MIN && mtime(stat) < entry.mtime,
            Delta::Never => false,
        };
        let count = self.layout.group_count(index);
        // A file of one group is equal as a whole or not at all.
        if !(may_stay && self.options.checksum || delta && (may_stay || count > 1)) {
            return None;
        }
        let map = DataMap::new(&entry.kind);
        let is_there = |group: u32| {
            group_range(group, entry.kind.data_len()).is_some_and(|range| is_within(&map, &range, there_len))
        };
        // What holds nothing is no basis, and each group that is claimed takes memory.
        let held = (stat.st_blocks as u64).saturating_mul(512).saturating_mul(DENSE_MAX);
        let held = u32::try_from(held / GROUP_LEN).unwrap_or(u32::MAX).saturating_add(HOLLOW_GROUPS);
        let end = partition_point(count.min(held), is_there);
        // What nobody has looked at may be another one.
        (end > 0).then_some(Standing { entry: index, end, may_stay: may_stay && end == count })
    }
}

/// Whether a name is one of the file at `to`.
fn is_name_of(folders: &mut Folders, folder: &OwnedFd, name: &[u8], to: &[u8]) -> bool {
    let there = inode(folder, name);
    there.is_ok() && folders.parent(to).and_then(|(folder, name)| inode(&folder, name)) == there
}

/// The first of 0 to `count` for which `holds` does not hold, where it holds for all before.
fn partition_point(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Whether what the source has as holes reads as zeros here.
pub(super) fn holes_are_empty(file: &std::fs::File, kind: &Kind) -> std::io::Result<bool> {
    use super::calls::FileExt;
    let Kind::File { size, extents: Some(extents), .. } = kind else { return Ok(true) };
    let mut buf = vec![0; 1 << 20];
    // What is a hole here too need not be read.
    let all = 0..*size;
    let data = super::extents::data_extents(file, *size).unwrap_or_else(|| vec![all]);
    let ends = extents.iter().map(|extent| extent.start).chain([*size]);
    let starts = [0].into_iter().chain(extents.iter().map(|extent| extent.end));
    for (hole_start, hole_end) in starts.zip(ends) {
        for there in data.iter().filter(|there| there.start < hole_end && hole_start < there.end) {
            let (mut at, end) = (there.start.max(hole_start), there.end.min(hole_end));
            while at < end {
                let piece = &mut buf[..(end - at).min(1 << 20) as usize];
                file.read_exact_at(piece, at)?;
                if piece.iter().any(|byte| *byte != 0) {
                    return Ok(false);
                }
                at += piece.len() as u64;
            }
        }
    }
    Ok(true)
}

/// No file system packs data of a file more densely, but for zeros.
const DENSE_MAX: u64 = 256;
/// Of holes so many groups may be equal to what is to come.
const HOLLOW_GROUPS: u32 = if cfg!(test) { 8 } else { 4096 };

/// Below this a file is sent sooner than looked through.
const DELTA_MIN: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_blocked_folder_is_found_however_deep_it_is() {
        let mut blocked = Blocked::default();
        assert!(!blocked.holds(b"a"));
        for folder in [&b"x/inner"[..], b"a/b", b"a/b-c/d", b"a/b/inner", b"x"] {
            blocked.insert(folder);
        }
        for path in [&b"a/b"[..], b"a/b/f", b"a/b/inner/f", b"a/b/z/z/z", b"a/b-c/d/f", b"x/y"] {
            assert!(blocked.holds(path), "{}", String::from_utf8_lossy(path));
        }
        for path in [&b"a"[..], b"a/a", b"a/b-c", b"a/b-c/e", b"a/b.", b"a/bb/f", b"xx", b"w/x"] {
            assert!(!blocked.holds(path), "{}", String::from_utf8_lossy(path));
        }
        assert_eq!(blocked.folders.len(), 3, "the topmost ones suffice");
        // Half a million looks at paths of a thousand folders: each takes one step.
        let deep = [b"a/b".as_slice(), &b"/d".repeat(1000)].concat();
        assert!((0..500_000 / 1000).all(|_| blocked.holds(&deep)));
    }
}
