//! Files that come in pieces, as the parts of a planned copy bring them. All pieces of a file go into one part file,
//! `.NAME.PLAN.longhaul-pieces`, each at its place. Each has a journal of its own, which a piece that is complete leaves behind. It
//! says when that part file was made, and is nobody's word on another one that has come to have its name.
//! The copy's last step finds the journals, sees that they speak of all groups, and puts the file in place.

use super::calls::fdatasync;
use super::errors::FileError;
use super::extents::{DataMap, is_within};
use super::hash::{FileHash, group_hash};
use super::journal::{Ours, Owner, Source, group_range};
use super::lease::{self, Lease, Patience};
use super::names::{piece_journal_name, pieces_name};
use super::recover::{last_source, recover};
use super::sealing::{keeper_of, ours};
use super::version::may_be_of;
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Group, Kind, Layout};
use longhaul_proto::session::message::{PlanId, PlanStep, PlanTask};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// Which entries of a listing are, or were, in pieces.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    plan: PlanId,
    /// Of those of which a piece is copied: by which number its first group goes in the file.
    first_groups: HashMap<EntryIndex, u32>,
    /// Those all of whose pieces are here.
    whole: HashSet<EntryIndex>,
    step: Step,
}

/// Which step of a planned copy it is, if it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    None,
    /// A part, of which others have parts too.
    Part,
    /// The last: nothing is to come.
    Last,
}

impl Pieces {
    /// Of a listing whose first entry has this number in the session.
    pub fn of(step: &PlanStep, first: u64, entries: usize) -> Pieces {
        let mut found = Pieces { plan: step.plan, step: Step::Last, ..Pieces::default() };
        if let PlanTask::Part { pieces, .. } = &step.task {
            let here = pieces.iter().filter_map(|piece| {
                let index = u64::from(piece.entry).checked_sub(first)?;
                (index < entries as u64).then_some((index as EntryIndex, piece.first_group))
            });
            found.first_groups = here.collect();
            found.step = Step::Part;
        }
        found
    }

    /// All pieces of these are here.
    pub(super) fn add_whole(&mut self, entries: impl Iterator<Item = EntryIndex>) {
        self.whole.extend(entries);
    }

    /// It is a part of a copy: what belongs to all of it, such as folders, is left to the last step.
    pub(super) fn is_part(&self) -> bool {
        self.step == Step::Part
    }

    /// The plan, if this is its last step.
    pub(super) fn finishes(&self) -> Option<PlanId> {
        (self.step == Step::Last).then_some(self.plan)
    }

    /// Of which plan the entry is a piece, and the number of its first group.
    pub(super) fn piece(&self, entry: EntryIndex) -> Option<(PlanId, u32)> {
        self.first_groups.get(&entry).map(|first| (self.plan, *first))
    }

    /// Of which plan, if the entry came in pieces or is one.
    pub(super) fn plan_of(&self, entry: EntryIndex) -> Option<PlanId> {
        (self.first_groups.contains_key(&entry) || self.whole.contains(&entry)).then_some(self.plan)
    }

    /// The hash of a group's data.
    pub(super) fn hash(&self, layout: &Layout, group: Group, data: &[u8]) -> [u8; 32] {
        let first_group = self.first_groups.get(&group.entry).copied();
        hash_in(first_group, group.index, layout.group_count(group.entry), data)
    }
}

/// The hash of a group's data; `first_group`: of a piece that begins with that one.
pub(super) fn hash_in(first_group: Option<u32>, index: u32, count: u32, data: &[u8]) -> [u8; 32] {
    match first_group {
        // It has more groups than its piece.
        Some(first) => group_hash(first.saturating_add(index), u32::MAX, data),
        None => group_hash(index, count, data),
    }
}

/// The entry of which a copy has this data only: the rest of it is as holes are.
pub fn piece_of(entry: &Entry, data: Range<u64>) -> Entry {
    let Kind::File { size, version, .. } = entry.kind else { return entry.clone() };
    let places = DataMap::new(&entry.kind);
    let extents = places.places(data).map(|(at, len)| at..at + len).collect();
    Entry { kind: Kind::File { size, extents: Some(extents), version }, ..entry.clone() }
}

/// A file all of whose pieces are here and verified.
#[derive(Debug)]
pub(super) struct Assembled {
    pub entry: EntryIndex,
    /// The names of its pieces' journals.
    pub journals: Vec<Vec<u8>>,
    /// The hash of the file.
    pub hash: [u8; 32],
}

/// Look for the pieces of a file. An error says which data is not here.
pub(super) fn assemble(
    folder: &OwnedFd,
    name: &[u8],
    (index, entry): (EntryIndex, &Entry),
    (plan, owner): (PlanId, Owner),
    patience: Patience<'_>,
) -> Result<Assembled, FileError> {
    let data_len = entry.kind.data_len();
    let Some(part) = lease::open_pieces(folder, &pieces_name(name, plan))? else {
        return Err(FileError::NotYet);
    };
    let mut pieces =
        Found { map: DataMap::new(&entry.kind), len: part.metadata()?.len(), part, synced: None };
    let (mut journals, mut file_hash, mut at) = (Vec::new(), FileHash::default(), 0);
    while at < data_len {
        if patience.stop.load(Ordering::Relaxed) {
            return Err(FileError::Interrupted);
        }
        let journal_name = piece_journal_name(name, plan, (at / GROUP_LEN) as u32);
        let missing = || FileError::Missing { from_byte: at };
        let journal = lease::read_in_turn(folder, &journal_name, patience)?.ok_or_else(missing)?;
        let len = pieces.take(entry, owner, &journal, at..data_len, &mut file_hash).ok_or_else(missing)?;
        journals.push(journal_name);
        at += len;
    }
    Ok(Assembled { entry: index, journals, hash: file_hash.finish() })
}

/// The part file of a file that came in pieces.
struct Found {
    map: DataMap,
    part: File,
    len: u64,
    /// Whether it could be brought to the disk, once that was tried.
    synced: Option<bool>,
}

impl Found {
    /// Take in the piece that a journal speaks of, at the beginning of what is `left`: its length, if all of it is here.
    fn take(
        &mut self,
        entry: &Entry,
        owner: Owner,
        journal: &Lease,
        left: Range<u64>,
        file_hash: &mut FileHash,
    ) -> Option<u64> {
        let len = last_source(&**journal)?.data_len;
        // Groups of one piece are not those of the next.
        let is_whole = len % GROUP_LEN == 0 || len == left.end - left.start;
        if len == 0 || len > left.end - left.start || !is_whole {
            return None;
        }
        let piece = piece_of(entry, left.start..left.start + len);
        let ours = Ours { owner, boot: keeper_of(journal), ..ours() };
        let found = recover(&Source::new(&piece), &ours, &**journal)?;
        if !found.is_alike || !may_be_of(found.header.part(), &self.part) {
            return None;
        }
        let (mut next, first) = (0, (left.start / GROUP_LEN) as u32);
        for (group, verified) in found.groups.iter() {
            let data = group_range(group, len)?;
            let data = left.start + data.start..left.start + data.end;
            let is_noted = verified.is_synced || verified.is_kept && self.sync();
            if self.synced == Some(false) {
                // Memory may have what the disk lacks.
                return None;
            }
            // Of very long pieces not all hashes are kept in memory.
            let of_the_disk = || self.hash(data.clone(), first, group).filter(|_| is_noted);
            let hash = verified.hash.or_else(of_the_disk)?;
            // Whether a version is relied on or not: each step of the plan has seen that the file is what was planned, and notes anew what
            // it finds of an earlier turn.
            let is_here = group == next
                && verified.is_latest
                && is_within(&self.map, &data, self.len)
                && (is_noted || self.hash(data, first, group)? == hash);
            if !is_here {
                return None;
            }
            file_hash.push(hash);
            next += 1;
        }
        (u64::from(next) == len.div_ceil(GROUP_LEN)).then_some(len)
    }

    fn sync(&mut self) -> bool {
        let part = &self.part;
        *self.synced.get_or_insert_with(|| fdatasync(part).is_ok())
    }

    fn hash(&self, data: Range<u64>, first: u32, group: u32) -> Option<[u8; 32]> {
        let mut buf = vec![0; (data.end - data.start) as usize];
        self.map.read(&self.part, data.start, &mut buf).ok()?;
        Some(hash_in(Some(first), group, 0, &buf))
    }
}

/// The shortest piece, in groups: files of one group have no journal.
pub const PIECE_GROUPS_MIN: u32 = 2;
