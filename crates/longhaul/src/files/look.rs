//! How a writer deals with claims: it looks at what is there once the sender's hash says what it should be.

use super::calls::copy_file_range;
use super::claims::{Claimed, Equal, InPlace};
use super::compare::holes_are_empty;
use super::extents::DataMap;
use super::journal::Record;
use super::ledger::{Ledger, Verdict};
use super::part::Part;
use super::shared::{Happened, Origin};
use super::version::Identity;
use super::writer::Writer;
use longhaul_proto::session::manifest::{EntryIndex, Group, Kind};
use longhaul_proto::session::message::GroupHash;
use std::fs::File;
use std::io;
use std::sync::Arc;

impl Writer {
    /// What the sender's hash says of a group of the part file whose hash was noted for another version.
    pub(super) fn settle_noted(&self, claim: GroupHash, verdict: Verdict) {
        match verdict {
            Verdict::Verified { .. } => {
                self.shared.confirm(claim.group, Origin::Part);
                self.judge(claim.group, verdict);
            }
            _ => self.refuse(claim),
        }
    }

    /// A claimed group that nobody has looked at yet.
    pub(super) fn look(&self, claim: GroupHash) {
        let claimed = self.shared.claims.get(claim.group.entry);
        let Some(claimed) = claimed.filter(|_| self.shared.is_open(claim.group.entry)) else { return };
        let looked = if claimed.take_in_part(claim.group.index) {
            self.look_in_part(claim)
        } else {
            let looked = self.look_in_place(&claimed, claim);
            claimed.end_look();
            looked
        };
        if let Err(error) = looked {
            self.shared.fail_storing(claim.group.entry, error);
        }
    }

    fn look_in_part(&self, claim: GroupHash) -> io::Result<()> {
        let part = self.part(claim.group.entry)?;
        if self.hash_of(claim.group, |offset, buf| part.read(offset, buf)) != Some(claim.hash) {
            self.refuse(claim);
            return Ok(());
        }
        self.shared.confirm(claim.group, Origin::Part);
        self.keep(claim);
        Ok(())
    }

    fn look_in_place(&self, claimed: &Claimed, claim: GroupHash) -> io::Result<()> {
        let group = claim.group;
        let Ok(there) = self.in_place(claimed, group.entry) else {
            // It was removed meanwhile, or may not be read: then it is of no help.
            return self.differs(claimed, claim);
        };
        if claimed.differs() {
            if self.take_over(&there, claim)? {
                self.shared.confirm(group, Origin::InPlace);
            } else {
                self.refuse(claim);
            }
            return Ok(());
        }
        if self.hash_of(group, |offset, buf| there.map.read(&there.file, offset, buf)) != Some(claim.hash) {
            return self.differs(claimed, claim);
        }
        self.shared.lock_ledger().found_in_place(&self.shared.target.layout, group, claim.hash);
        self.shared.confirm(group, Origin::InPlace);
        match claimed.note_equal(group.index, claim.hash) {
            Equal::Wait => Ok(()),
            Equal::All => self.conclude(claimed, &there, group.entry),
            Equal::TakeOver => self.take_over_confirmed(&there, claim),
        }
    }

    /// The file in place is not the one that is to come: this group differs, and what was equal goes into the part file.
    fn differs(&self, claimed: &Claimed, claim: GroupHash) -> io::Result<()> {
        let entry = claim.group.entry;
        let equal = claimed.note_difference();
        if self.shared.dry_run {
            self.shared.would_copy(entry);
            return Ok(());
        }
        self.refuse(claim);
        self.take_over_all(claimed, entry, equal)
    }

    /// All groups of the file in place are equal: it stays, if it still is the file that was looked at and has nothing
    /// where the source has holes.
    fn conclude(&self, claimed: &Claimed, there: &InPlace, entry: EntryIndex) -> io::Result<()> {
        let shared = &self.shared;
        let kind = &shared.target.entry(entry).kind;
        let is_still = || {
            let now = shared.target.open_in_place(entry).ok()?;
            (Identity::of(&now).ok()? == there.identity).then_some(())
        };
        // To look at the holes may take long, so that comes first.
        if holes_are_empty(&there.file, kind).unwrap_or(false) && is_still().is_some() {
            if !shared.dry_run && !shared.target.is_dressed(entry, &there.file) {
                shared.target.dress_held(entry, &there.file)?;
            }
            shared.stays(entry);
            return Ok(());
        }
        if shared.dry_run {
            shared.would_copy(entry);
            return Ok(());
        }
        self.take_over_all(claimed, entry, claimed.note_difference())
    }

    fn take_over_all(
        &self,
        claimed: &Claimed,
        entry: EntryIndex,
        equal: Vec<(u32, [u8; 32])>,
    ) -> io::Result<()> {
        for (index, hash) in equal {
            let claim = GroupHash { group: Group { entry, index }, hash };
            let there = self.in_place(claimed, entry)?;
            self.take_over_confirmed(&there, claim)?;
        }
        Ok(())
    }

    /// A group that was found to be equal and is confirmed goes into the part file.
    fn take_over_confirmed(&self, there: &InPlace, claim: GroupHash) -> io::Result<()> {
        if !self.take_over(there, claim)? {
            // Somebody writes to the file in place. The sender took our word for it: it has to send this after all.
            self.shared.lock_ledger().refuse(&self.shared.target.layout, claim.group, claim.hash);
            self.shared.disclaim(claim.group);
            self.bad(claim.group);
        }
        Ok(())
    }

    /// Take a group over from the file in place; `false` if it is not what the sender has. What counts is what is in the
    /// part file, however it came there: where the file system can, the two files share it.
    fn take_over(&self, there: &InPlace, claim: GroupHash) -> io::Result<bool> {
        let group = claim.group;
        if !self.shared.target.is_journalled(group.entry) {
            // It has no part file, and is sent again sooner than looked after.
            return Ok(false);
        }
        let part = self.part(group.entry)?;
        let range = self.data_range(group);
        if share(there, &part, range.clone()) {
            if self.hash_of(group, |offset, buf| part.read(offset, buf)) != Some(claim.hash) {
                return Ok(false);
            }
        } else {
            let mut data = Vec::new();
            let read = |offset, buf: &mut [u8]| {
                there.map.read(&there.file, offset, buf)?;
                data = buf.to_vec();
                Ok(())
            };
            if self.hash_of(group, read) != Some(claim.hash) {
                return Ok(false);
            }
            part.write(range.start, &data)?;
        }
        self.begin_sync(group.entry, &part, range.clone())?;
        self.count_written(range.end - range.start);
        self.shared.logs.note(group.entry, Record::Range(range));
        self.keep(claim);
        Ok(true)
    }

    /// A group of the part file is confirmed.
    fn keep(&self, claim: GroupHash) {
        let verdict = self.enter(claim.group, claim.hash, Ledger::taken_over);
        self.judge(claim.group, verdict);
    }

    /// A claimed group is not what the sender has: it is to be sent.
    fn refuse(&self, claim: GroupHash) {
        let shared = &self.shared;
        shared.logs.note(claim.group.entry, Record::Lost { index: claim.group.index });
        shared.lock_ledger().refuse(&shared.target.layout, claim.group, claim.hash);
        shared.tell(Happened::Refused(claim.group));
    }

    fn in_place(&self, claimed: &Claimed, entry: EntryIndex) -> io::Result<Arc<InPlace>> {
        let target = &self.shared.target;
        let differs = claimed.differs();
        claimed.opened(|| {
            let file = target.open_in_place(entry)?;
            let (map, identity) = (DataMap::new(&target.entry(entry).kind), Identity::of(&file)?);
            let size = match target.entry(entry).kind {
                Kind::File { size, .. } => size,
                _ => 0,
            };
            let meta = file.metadata()?;
            // What was compared by size at first may be another file by now.
            if !meta.is_file() || (!differs && meta.len() != size) {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(InPlace { file, map, identity })
        })
    }

    /// The hash of a group's data as `read` reads it; `None` if it cannot be read.
    fn hash_of(
        &self,
        group: Group,
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> Option<[u8; 32]> {
        let range = self.data_range(group);
        let mut buf = vec![0; (range.end - range.start) as usize];
        read(range.start, &mut buf).ok()?;
        Some(self.shared.target.group_hash(group, &buf))
    }
}

/// Have the kernel copy data from the file in place to the part file, or share it; `false` if it does not.
fn share(there: &InPlace, part: &Part, data: std::ops::Range<u64>) -> bool {
    there.map.places(data).all(|(at, len)| copy_at(&there.file, &part.file, at, len).is_ok())
}

fn copy_at(from: &File, to: &File, at: u64, len: u64) -> io::Result<()> {
    let (mut read_at, mut write_at, end) = (at, at, at + len);
    while read_at < end {
        let left = (end - read_at) as usize;
        if copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), left)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}
