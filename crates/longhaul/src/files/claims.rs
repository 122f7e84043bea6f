//! Groups that the receiver claims to have, until the sender's hashes confirm or refute it.

use super::extents::DataMap;
use super::version::Identity;
use longhaul_proto::session::manifest::{EntryIndex, Group};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file at the destination that is to be replaced, and which of its groups may be equal to the new one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub entry: EntryIndex,
    /// The groups below this one may be there, without those that the part file has.
    pub end: u32,
    /// It has the right size: if all of its groups are equal it is the same file, and stays.
    pub may_stay: bool,
}

/// All open claims.
#[derive(Default)]
pub(super) struct Claims {
    files: Mutex<HashMap<EntryIndex, Arc<Claimed>>>,
}

/// One file's.
pub(super) struct Claimed {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Groups in the part file whose hash was noted when they were verified for another version.
    noted: BTreeSet<u32>,
    /// Groups in the part file that have to be read.
    in_part: BTreeSet<u32>,
    standing: Option<Standing>,
    /// Groups of the file in place that were not looked at yet.
    left: u32,
    /// Groups that are equal in place and not in the part file.
    equal: Vec<(u32, [u8; 32])>,
    /// The file in place is not the same: what is equal goes into the part file.
    differs: bool,
    opened: Option<Arc<InPlace>>,
    /// So many looks at it are not over.
    looks: u32,
}

/// The file in place, opened.
pub(super) struct InPlace {
    pub file: File,
    pub map: DataMap,
    pub identity: Identity,
}

/// What follows from a group that is equal in place.
pub(super) enum Equal {
    /// More groups have to be looked at before anything follows.
    Wait,
    /// It was the last: all of the file is equal.
    All,
    /// The file differs elsewhere: this group goes into the part file.
    TakeOver,
}

impl Claims {
    /// A part file's claimed groups, with their hash where it was noted.
    pub(super) fn add_part(&self, entry: EntryIndex, groups: &[(u32, Option<[u8; 32]>)]) {
        if groups.is_empty() {
            return;
        }
        let claimed = self.of(entry);
        let mut inner = claimed.lock();
        for (index, noted) in groups {
            if noted.is_some() {
                inner.noted.insert(*index)
            } else {
                inner.in_part.insert(*index)
            };
        }
    }

    /// `count` groups of the file in place.
    pub(super) fn add_standing(&self, standing: Standing, count: u32) {
        let claimed = self.of(standing.entry);
        let mut inner = claimed.lock();
        (inner.left, inner.looks, inner.differs) = (count, count, !standing.may_stay);
        inner.standing = Some(standing);
    }

    /// What is claimed of a file.
    pub(super) fn get(&self, entry: EntryIndex) -> Option<Arc<Claimed>> {
        lock(&self.files).get(&entry).cloned()
    }

    /// Whether this group was claimed with the hash that was noted of it; it is not claimed any more.
    pub(super) fn take_noted(&self, group: Group) -> bool {
        self.get(group.entry).is_some_and(|claimed| claimed.lock().noted.remove(&group.index))
    }

    /// A file is settled.
    pub(super) fn forget(&self, entry: EntryIndex) {
        lock(&self.files).remove(&entry);
    }

    fn of(&self, entry: EntryIndex) -> Arc<Claimed> {
        let new = || Arc::new(Claimed { inner: Mutex::default() });
        lock(&self.files).entry(entry).or_insert_with(new).clone()
    }
}

impl Claimed {
    /// Whether this group is in the part file; it is not claimed any more.
    pub(super) fn take_in_part(&self, index: u32) -> bool {
        self.lock().in_part.remove(&index)
    }

    /// Whether equal groups go into the part file at once.
    pub(super) fn differs(&self) -> bool {
        self.lock().differs
    }

    /// The file in place, opened by `open` where it is not yet.
    pub(super) fn opened(&self, open: impl FnOnce() -> io::Result<InPlace>) -> io::Result<Arc<InPlace>> {
        let mut inner = self.lock();
        if let Some(opened) = &inner.opened {
            return Ok(opened.clone());
        }
        let opened = Arc::new(open()?);
        inner.opened = Some(opened.clone());
        Ok(opened)
    }

    /// One look at the file in place is over, whatever it found; after the last one it is closed: its data may be long in coming.
    pub(super) fn end_look(&self) {
        let mut inner = self.lock();
        inner.looks = inner.looks.saturating_sub(1);
        if inner.looks == 0 {
            inner.opened = None;
        }
    }

    /// A group is equal in place.
    pub(super) fn note_equal(&self, index: u32, hash: [u8; 32]) -> Equal {
        let mut inner = self.lock();
        if inner.differs {
            return Equal::TakeOver;
        }
        inner.equal.push((index, hash));
        inner.left = inner.left.saturating_sub(1);
        if inner.left == 0 { Equal::All } else { Equal::Wait }
    }

    /// The file in place is not the same after all: what was found to be equal in it so far.
    pub(super) fn note_difference(&self) -> Vec<(u32, [u8; 32])> {
        let mut inner = self.lock();
        inner.differs = true;
        std::mem::take(&mut inner.equal)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::session::manifest::Kind;

    #[test]
    fn a_file_is_closed_when_the_last_look_at_it_is_over() {
        let claims = Claims::default();
        claims.add_standing(Standing { entry: 7, end: 2, may_stay: true }, 2);
        let claimed = claims.get(7).unwrap();
        let mut times = 0;
        let mut open = || {
            let opened = claimed.opened(|| {
                times += 1;
                let file = tempfile::tempfile()?;
                let map = DataMap::new(&Kind::File { size: 1, extents: None, version: None });
                Ok(InPlace { identity: Identity::of(&file)?, file, map })
            });
            opened.unwrap();
            times
        };
        assert_eq!((open(), open()), (1, 1));
        claimed.end_look();
        assert_eq!(open(), 1);
        claimed.end_look();
        assert_eq!(open(), 2);
    }
}
