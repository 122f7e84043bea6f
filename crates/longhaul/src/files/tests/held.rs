//! What a destination holds, against what it may hold after copies, faults and power cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::harness::MIB;
use longhaul_proto::session::message::{Fsync, Report};

/// A file that is copied until it is there.
#[derive(Debug, Default)]
pub struct Held {
    /// What its name may hold at the destination, the latest last.
    pub allowed: Vec<Vec<u8>>,
    /// The disk has something of that name, whatever happens.
    pub was_there: bool,
    /// Counts how often the source changed.
    pub version: u8,
    /// It may have been put in place without having been brought to the disk.
    is_exposed: bool,
    /// And it was torn then. Nothing but its size and time need be right until contents are compared.
    is_torn: bool,
    /// The disk may still have it torn, under a name that was given anew since.
    was_torn: bool,
}

impl Held {
    pub fn of(bytes: Vec<u8>) -> Held {
        Held { allowed: vec![bytes], ..Held::default() }
    }

    pub fn now(&self) -> &[u8] {
        self.allowed.last().expect("it has a version")
    }

    /// What the disk has of it now, it has for good.
    fn settle(&mut self, is_there: bool) {
        (self.is_exposed, self.was_there, self.was_torn) = (false, is_there, self.is_torn);
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Files(pub BTreeMap<PathBuf, Held>);

impl Files {
    /// A copy was asked for that brings so much to the disk.
    pub fn expose(&mut self, fsync: Fsync) {
        let is_safe = |held: &Held| match fsync {
            Fsync::Always => true,
            Fsync::Auto => held.now().len() as u64 > MIB,
            Fsync::Never => false,
        };
        self.0.values_mut().filter(|held| !is_safe(held)).for_each(|held| held.is_exposed = true);
    }

    /// All but these were called durable.
    pub fn settle_but(&mut self, failed: &BTreeSet<PathBuf>) {
        let durable = self.0.iter_mut().filter(|(name, _)| !failed.contains(*name));
        durable.for_each(|(_, held)| held.settle(true));
    }

    /// What is there now has outlived a power cut.
    pub fn settle_all(&mut self, dest: &Path) {
        self.0.iter_mut().for_each(|(name, held)| held.settle(dest.join(name).exists()));
    }

    /// Files that failed, by name: all, if that is not known.
    pub fn failed(&self, report: Option<&Report>) -> BTreeSet<PathBuf> {
        match report.filter(|report| report.failed.more == 0) {
            Some(report) => report.failed.first.iter().map(|failure| path_of(&failure.path)).collect(),
            None => self.0.keys().cloned().collect(),
        }
    }

    pub fn has_torn(&self) -> bool {
        self.0.values().any(|held| held.is_torn)
    }

    /// Contents are to be compared: nothing excuses a torn file any more.
    pub fn mend_torn(&mut self) {
        self.0.values_mut().for_each(|held| held.is_torn = false);
    }

    /// Every file at the destination that was promised to be whole has a content that it may have. Returns how many of the
    /// others do not.
    pub fn assert_whole(&mut self, dest: &Path, seed: u64) -> u64 {
        let mut torn = 0;
        for (name, held) in &mut self.0 {
            let found = fs::read(dest.join(name)).ok();
            let is_whole = match &found {
                Some(bytes) => held.allowed.contains(bytes),
                None => !held.was_there,
            };
            if is_whole {
                held.is_torn = false;
                continue;
            }
            assert!(
                held.is_exposed || held.was_torn,
                "seed {seed}: {name:?}, {:?} bytes, is none of its versions of {:?} bytes",
                found.map(|found| found.len()),
                held.allowed.iter().map(Vec::len).collect::<Vec<_>>(),
            );
            torn += u64::from(!held.is_torn);
            held.is_torn = found.is_some();
            held.was_torn |= held.is_torn;
            held.was_there &= found.is_some();
        }
        torn
    }

    /// All but these, and what is torn, hold what the source has.
    pub fn assert_new_but(&self, failed: &BTreeSet<PathBuf>, dest: &Path, seed: u64) {
        for (name, held) in self.0.iter().filter(|(name, held)| !held.is_torn && !failed.contains(*name)) {
            let found = fs::read(dest.join(name));
            let is_new = found.is_ok_and(|found| found == held.now());
            assert!(is_new, "seed {seed}: {name:?} is not what its source has");
        }
    }
}

pub fn path_of(name: &[u8]) -> PathBuf {
    OsStr::from_bytes(name).into()
}
