//! Takes over what an interrupted run left of a large file.

use super::calls::{FileExt, fdatasync};
use super::extents::{DataMap, is_within};
use super::journal::{Header, Ours, Owner, Source, group_range};
use super::lease::{self, Lease, Patience};
use super::names::{journal_name, part_name, piece_journal_name, pieces_name};
use super::pieces::hash_in;
use super::recover::{Recovered, Stored, recover};
use super::sealing::{keeper_of, ours};
use super::version::may_be_of;
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Ranges};
use longhaul_proto::session::message::PlanId;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of which a part is there.
#[derive(Debug)]
pub(super) struct Resumed {
    pub entry: EntryIndex,
    /// Its journal, which is ours for as long as this is open.
    pub journal: Lease,
    pub header: Header,
    /// Length of the journal's sound part, and all of it for its next seal.
    pub journal_len: u64,
    pub digest: blake3::Hasher,
    /// The journal speaks of this version of the file, and can be gone on with as it is.
    pub is_same_version: bool,
    /// Numbers of groups of this version that were verified.
    pub groups: Ranges,
    /// Groups that are there and that the sender has to confirm; with their hash where it is known.
    pub claims: Vec<(u32, Option<[u8; 32]>)>,
    /// Groups that the journal calls verified and that are not there as it says.
    pub lost: Vec<u32>,
    /// Data bytes that need not come again, claims left out.
    pub kept: Ranges,
}

/// Look for a part file and a journal that speaks of it. Groups that were verified for the very version that is to
/// come are taken as they are, unless they may not have reached the disk, or with `distrust`: then they are read and
/// hashed again. All else is claimed. What another user of a daemon left is not looked at. Nothing is found when
/// that is called off; where another copy is at work with the file for longer than `patience` lasts, that is the error.
/// `piece`: of which plan it is a piece, and the number of its first group.
pub(super) fn resume(
    folder: &OwnedFd,
    name: &[u8],
    (index, entry): (EntryIndex, &Entry),
    piece: Option<(PlanId, u32)>,
    (owner, distrust): (Owner, bool),
    patience: Patience<'_>,
) -> io::Result<Option<Resumed>> {
    let journal_name = match piece {
        Some((plan, first_group)) => piece_journal_name(name, plan, first_group),
        None => journal_name(name),
    };
    let Some(journal) = lease::take_in_turn(folder, &journal_name, patience)? else { return Ok(None) };
    let ours = Ours { owner, boot: keeper_of(&journal), ..ours() };
    let Some(found) = recover(&Source::new(entry), &ours, &*journal) else { return Ok(None) };
    // Nothing is sent, or compared, of holes: they have to be holes in the part file from the first on.
    if !found.has_same_holes {
        return Ok(None);
    }
    let part_name = match piece {
        Some((plan, _)) => pieces_name(name, plan),
        None => part_name(name, found.header.part()),
    };
    let Some(part) = lease::open_ours(folder, &part_name)? else { return Ok(None) };
    if piece.is_some() && !may_be_of(found.header.part(), &part) {
        return Ok(None);
    }
    let data_len = entry.kind.data_len();
    let map = DataMap::new(&entry.kind);
    let mut sorting = Sorting {
        map: &map,
        len: part.metadata()?.len(),
        part,
        data_len,
        distrust,
        first_group: piece.map(|(_, first_group)| first_group),
        synced: None,
        buf: Vec::new(),
    };
    let mut resumed = Resumed {
        entry: index,
        journal,
        header: found.header.clone(),
        journal_len: found.journal_len,
        digest: found.digest.clone(),
        is_same_version: found.is_same_version,
        groups: Ranges::new(),
        claims: Vec::new(),
        lost: Vec::new(),
        kept: Ranges::new(),
    };
    let is_sorted = sorting.verified(&found, &mut resumed, patience.stop);
    // What met an error on its way to the disk is worth nothing: memory may have what the disk lacks. The system says so once,
    // so the next one who looks must not find it.
    if sorting.synced == Some(false) {
        lease::give_up(&resumed.journal, folder, &journal_name);
        return Ok(None);
    }
    if !is_sorted {
        return Ok(None);
    }
    sorting.unverified(found.ranges, found.is_alike, &mut resumed);
    Ok(Some(resumed))
}

impl Stored for File {
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buf, at)
    }
}

/// Sorts out what can be believed of a part file.
struct Sorting<'a> {
    map: &'a DataMap,
    part: File,
    /// The part file's length.
    len: u64,
    data_len: u64,
    distrust: bool,
    /// By which number the first group goes in the file, if this is a piece of it.
    first_group: Option<u32>,
    /// Whether the part file could be brought to the disk, once that was tried.
    synced: Option<bool>,
    buf: Vec<u8>,
}

impl Sorting<'_> {
    /// Groups that were verified once; `false` if `stop` was set.
    fn verified(&mut self, found: &Recovered, resumed: &mut Resumed, stop: &AtomicBool) -> bool {
        let count = self.data_len.div_ceil(GROUP_LEN) as u32;
        for (group, verified) in found.groups.iter() {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let Some(range) = group_range(group, self.data_len) else { continue };
            let is_noted = !self.distrust && (verified.is_synced || verified.is_kept && self.sync());
            if !is_within(self.map, &range, self.len) {
                resumed.lost.push(group);
            } else if !verified.is_current {
                resumed.claims.push((group, verified.hash.filter(|_| is_noted)));
            } else if !is_noted && verified.hash.is_none() {
                // What the journal notes from now on is not to speak for it before it has been looked at.
                resumed.lost.push(group);
                resumed.claims.push((group, None));
            } else if is_noted || self.hash(&range, group, count) == verified.hash {
                resumed.groups.insert(u64::from(group)..u64::from(group) + 1);
                resumed.kept.insert(range);
            } else {
                resumed.lost.push(group);
            }
        }
        true
    }

    /// What was never verified. Groups that are there in full are claimed; of the others, if there is reason to keep them,
    /// what is missing is to come, and with it the sender's hash of all.
    fn unverified(&mut self, mut ranges: Ranges, keep: bool, resumed: &mut Resumed) {
        let mut group = 0;
        while let Some(range) = group_range(group, self.data_len) {
            if ranges.gaps(&range).next().is_none() {
                ranges.remove(range.clone());
                if is_within(self.map, &range, self.len) {
                    resumed.claims.push((group, None));
                }
            }
            group += 1;
        }
        for range in ranges.iter().filter(|range| keep && is_within(self.map, range, self.len)) {
            resumed.kept.insert(range.clone());
        }
    }

    /// Whether all that the kernel had of the part file is on the disk now; an error on its way there shows here.
    fn sync(&mut self) -> bool {
        let part = &self.part;
        *self.synced.get_or_insert_with(|| fdatasync(part).is_ok())
    }

    fn hash(&mut self, range: &Range<u64>, group: u32, count: u32) -> Option<[u8; 32]> {
        self.buf.resize((range.end - range.start) as usize, 0);
        self.map.read(&self.part, range.start, &mut self.buf).ok()?;
        Some(hash_in(self.first_group, group, count, &self.buf))
    }
}
