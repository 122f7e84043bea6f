//! Which groups have been verified: what the sender says of each, and what came in.

use crate::net::budget::Allowance;
use longhaul_proto::session::manifest::{EntryIndex, Group, Layout, Ranges};
use std::collections::HashMap;
use std::ops::Range;

/// Hashes of the groups of files on their way.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    files: HashMap<EntryIndex, Sheet>,
    /// Groups that came in wrong.
    bad: HashMap<Group, Bad>,
    /// What an earlier run left of groups that nobody has vouched for yet: object bytes.
    unproved: Ranges,
    /// How many hashes are kept of files of many groups, and the memory that they take: the sender may tell any number without data.
    kept: u64,
    room: Allowance,
}

/// What is known of a group that came in wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Bad {
    times: u32,
    /// The network thread has not heard of it yet: what it hands over still counts the wrong data as there.
    unreported: bool,
}

/// A file's groups.
#[derive(Debug)]
enum Sheet {
    One(State, [u8; 32]),
    /// Of groups that are verified no hash is kept: a file may have millions of them.
    Many {
        states: Vec<u8>,
        hashes: HashMap<u32, [u8; 32]>,
        verified: usize,
    },
}

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown = 0,
    /// The sender's hash is here, the data is not.
    Expected = 1,
    /// The data is here, the sender's hash is not.
    Computed = 2,
    Verified = 3,
    /// The data is claimed to be here, and has not been looked at.
    Claimed = 4,
    /// It is here as the sender has it, in the file that is in place.
    InPlace = 5,
}

/// What a new hash tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The other one is still to come (or it says nothing new).
    Waiting,
    /// They are equal; `file_complete` if this was the file's last group.
    Verified { file_complete: bool },
    /// They differ: the data has to come again.
    Bad,
    /// The data is claimed to be here: it is to be looked at.
    Look,
    /// There is no memory for it.
    NoMemory,
}

impl Ledger {
    /// The memory for hashes is from here.
    pub(super) fn take_from(&mut self, room: Allowance) {
        self.room = room;
    }

    /// The sender's hash of a group.
    pub(super) fn expect(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) -> Verdict {
        let (state, known) = self.get(group);
        match state {
            State::Unknown if !self.has_room() => return Verdict::NoMemory,
            State::Unknown => self.set(layout, group, State::Expected, hash),
            State::Computed if known == hash => return self.verify(layout, group, hash),
            State::Computed => {
                self.set(layout, group, State::Expected, hash);
                return Verdict::Bad;
            }
            State::Claimed => return Verdict::Look,
            State::Expected | State::Verified | State::InPlace => {}
        }
        Verdict::Waiting
    }

    /// Data of this group is claimed to be here; where it was verified before, it hashed to this.
    pub(super) fn claim(&mut self, layout: &Layout, group: Group, noted: Option<[u8; 32]>) {
        match noted {
            Some(hash) => self.set(layout, group, State::Computed, hash),
            None => self.set(layout, group, State::Claimed, [0; 32]),
        }
    }

    /// What the file in place has of this claimed group is what the sender has.
    pub(super) fn found_in_place(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) {
        self.set(layout, group, State::InPlace, hash);
    }

    /// A claimed group, or one that is equal in place, is in the part file.
    pub(super) fn taken_over(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) -> Verdict {
        self.verify(layout, group, hash)
    }

    /// A claimed group is not what the sender has, which hashes to this. Takes no data of it until it is begun anew.
    pub(super) fn refuse(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) {
        self.set(layout, group, State::Expected, hash);
        self.bad.entry(group).or_default().unreported = true;
    }

    /// Data of a file's only group, read back from where it waited, hashes to this. If that is not what was verified, it has to
    /// come again.
    pub(super) fn still_is(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) -> bool {
        let (_, verified) = self.get(group);
        if hash != verified {
            self.refuse(layout, group, verified);
        }
        hash == verified
    }

    /// The hash of a group's data, which has come in whole.
    pub(super) fn computed(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) -> Verdict {
        let (state, known) = self.get(group);
        match state {
            State::Unknown => self.set(layout, group, State::Computed, hash),
            State::Expected if known == hash => return self.verify(layout, group, hash),
            State::Expected => return Verdict::Bad,
            State::Computed | State::Verified | State::Claimed | State::InPlace => {}
        }
        Verdict::Waiting
    }

    /// Groups of a file that an earlier run verified, by their numbers; `true` if they are all.
    pub(super) fn resume(&mut self, layout: &Layout, entry: EntryIndex, groups: &Ranges) -> bool {
        let mut complete = false;
        for index in groups.iter().flat_map(|run| run.start as u32..run.end as u32) {
            let verdict = self.verify(layout, Group { entry, index }, [0; 32]);
            complete = verdict == Verdict::Verified { file_complete: true };
        }
        complete
    }

    /// An earlier run left these object bytes, which are part of groups that nobody has vouched for yet.
    pub(super) fn set_unproved(&mut self, unproved: Ranges) {
        self.unproved = unproved;
    }

    /// Whether an earlier run left anything that nobody has vouched for and that has not come again.
    pub(super) fn has_unproved(&self) -> bool {
        !self.unproved.is_empty()
    }

    /// These object bytes came from the sender: how many of them an earlier run had left. They are told of once.
    pub(super) fn supersede(&mut self, come: Range<u64>) -> u64 {
        let bytes =
            self.unproved.overlapping(&come).map(|kept| kept.end.min(come.end) - kept.start.max(come.start));
        let bytes = bytes.sum();
        self.unproved.remove(come);
        bytes
    }

    /// Whether data of this group is known to be wrong already: `Some(false)`, right: `Some(true)`.
    pub(super) fn preview(&self, group: Group, hash: [u8; 32]) -> Option<bool> {
        match self.get(group) {
            (State::Expected, known) => Some(known == hash),
            _ => None,
        }
    }

    /// Whether data of this group is of use: it is not there yet, and it is not what was found to be wrong.
    pub(super) fn takes_data(&self, group: Group) -> bool {
        let unreported = self.bad.get(&group).is_some_and(|bad| bad.unreported);
        !unreported && matches!(self.get(group).0, State::Unknown | State::Expected)
    }

    /// A group came in wrong: takes no data of it until it is begun anew, and says how often that has been by now.
    pub(super) fn reject(&mut self, group: Group) -> u32 {
        let bad = self.bad.entry(group).or_default();
        bad.times += 1;
        bad.unreported = true;
        bad.times
    }

    /// From now on, data of this group is new data.
    pub(super) fn begin_anew(&mut self, group: Group) {
        if let Some(bad) = self.bad.get_mut(&group) {
            bad.unreported = false;
        }
    }

    /// This file is settled, one way or the other.
    pub(super) fn forget(&mut self, entry: EntryIndex) {
        if let Some(Sheet::Many { hashes, .. }) = self.files.remove(&entry) {
            self.kept -= hashes.len() as u64;
            self.room.keep(memory_of(self.kept));
        }
    }

    /// Whether there is memory for one more hash.
    fn has_room(&mut self) -> bool {
        self.room.reach(memory_of(self.kept + 1))
    }

    fn verify(&mut self, layout: &Layout, group: Group, hash: [u8; 32]) -> Verdict {
        let again = self.get(group).0 == State::Verified;
        self.set(layout, group, State::Verified, hash);
        let file_complete = match self.files.get_mut(&group.entry) {
            Some(Sheet::Many { states, verified, .. }) => {
                *verified += usize::from(!again);
                *verified == states.len()
            }
            _ => true,
        };
        Verdict::Verified { file_complete }
    }

    fn get(&self, group: Group) -> (State, [u8; 32]) {
        match self.files.get(&group.entry) {
            None => (State::Unknown, [0; 32]),
            Some(Sheet::One(state, hash)) => (*state, *hash),
            Some(Sheet::Many { states, hashes, .. }) => {
                let at = group.index as usize;
                let state = match states[at] {
                    1 => State::Expected,
                    2 => State::Computed,
                    3 => State::Verified,
                    4 => State::Claimed,
                    5 => State::InPlace,
                    _ => State::Unknown,
                };
                (state, hashes.get(&group.index).copied().unwrap_or_default())
            }
        }
    }

    fn set(&mut self, layout: &Layout, group: Group, state: State, hash: [u8; 32]) {
        let count = layout.group_count(group.entry) as usize;
        let sheet = self.files.entry(group.entry).or_insert_with(|| match count {
            0 | 1 => Sheet::One(State::Unknown, [0; 32]),
            // Zeroed memory costs nothing until it is used, however large the file claims to be.
            _ => Sheet::Many { states: vec![0; count], hashes: HashMap::new(), verified: 0 },
        });
        match sheet {
            Sheet::One(at_state, at_hash) => (*at_state, *at_hash) = (state, hash),
            Sheet::Many { states, hashes, .. } => {
                states[group.index as usize] = state as u8;
                self.kept -= hashes.len() as u64;
                let _before = match state {
                    State::Unknown | State::Claimed | State::Verified => hashes.remove(&group.index),
                    State::Expected | State::Computed | State::InPlace => hashes.insert(group.index, hash),
                };
                self.kept += hashes.len() as u64;
            }
        }
    }
}

/// The memory that so many hashes take: those at hand need not be asked for.
fn memory_of(hashes: u64) -> u64 {
    hashes.saturating_sub(HASHES_AT_HAND) * HASH_LEN
}

/// What an honest sender is ahead of its data.
const HASHES_AT_HAND: u64 = 4096;
/// One in a map that has grown just now.
const HASH_LEN: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::budget::{Budget, Purpose};
    use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Kind, Manifest};
    use std::sync::Arc;

    #[test]
    fn hashes_without_data_end_where_the_memory_of_all_copies_does() {
        let kind = Kind::File { size: 1 << 50, extents: None, version: None };
        let entries = [b"a", b"b"].map(|path| Entry {
            path: path.to_vec(),
            mode: 0o644,
            mtime: (0, 0),
            kind: kind.clone(),
        });
        let layout = Layout::new(&Manifest::of(entries.to_vec()));
        let budget = Arc::new(Budget::new(100 * HASH_LEN));
        let mut ledger = Ledger::default();
        ledger.take_from(Allowance::of(&budget, Purpose::Need));
        let most = HASHES_AT_HAND as u32 + 100;
        assert!(GROUP_LEN * u64::from(most) < 1 << 50);
        let group = |entry, index| Group { entry, index };
        let expect = |ledger: &mut Ledger, entry, index| ledger.expect(&layout, group(entry, index), [1; 32]);
        assert!((0..most).all(|index| expect(&mut ledger, 0, index) == Verdict::Waiting));
        assert_eq!(expect(&mut ledger, 0, most), Verdict::NoMemory);
        // What is here counts, and makes room for the next.
        let first = ledger.computed(&layout, group(0, 0), [1; 32]);
        assert_eq!(first, Verdict::Verified { file_complete: false });
        assert_eq!([0, 1].map(|index| expect(&mut ledger, 1, index)), [Verdict::Waiting, Verdict::NoMemory]);
        ledger.forget(0);
        assert_eq!(expect(&mut ledger, 1, 1), Verdict::Waiting);
        assert!(Allowance::of(&budget, Purpose::Need).take(100 * HASH_LEN), "all is given back");
    }
}
