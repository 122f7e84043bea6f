//! Copies over bad roads onto bad disks, one after another: whatever was lost, torn or damaged, no file is ever wrong.

use super::harness::*;
use super::resuming::snapshot;
use crate::files::names::journal_of_part;
use fastrand::Rng;
use longhaul_proto::session::message::FileOptions;
use longhaul_testing::campaign::{self, fresh_seeds};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn a_campaign_of_faults_makes_no_wrong_file() {
    campaign(0..150);
}

/// `make campaign`; `CAMPAIGN_SEED=N make campaign` begins with that seed.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign_of_faults_makes_no_wrong_file() {
    campaign(fresh_seeds(5000));
}

fn campaign(seeds: Range<u64>) {
    let copies = campaign::run(seeds, AT_A_TIME, |seed| Round::new(seed).run());
    println!("{} copies", copies.iter().sum::<u64>());
}

/// Files that are copied until they are there.
struct Round {
    seed: u64,
    rng: Rng,
    source: tempfile::TempDir,
    dest: tempfile::TempDir,
    /// What a name may hold at the destination.
    allowed: BTreeMap<PathBuf, Vec<Vec<u8>>>,
    /// Names that had a file before.
    there_before: BTreeSet<PathBuf>,
    /// A source changed, and neither its size nor its time did.
    is_deceptive: bool,
    /// There was a part file without a journal, of which nobody can know whose it is.
    is_orphaned: bool,
}

impl Round {
    fn new(seed: u64) -> Round {
        let (source, dest) = (folder(), folder());
        let rng = Rng::with_seed(seed);
        let (allowed, there_before) = (BTreeMap::new(), BTreeSet::new());
        let mut round =
            Round { seed, rng, source, dest, allowed, there_before, is_deceptive: false, is_orphaned: false };
        for index in 0..round.rng.usize(1..5) {
            let name = PathBuf::from(format!("f{index}"));
            let bytes = round.some_bytes();
            write(round.source.path().join(&name), &bytes);
            let mut allowed = vec![bytes];
            if round.rng.u8(..3) == 0 {
                let older = round.some_bytes();
                write(round.dest.path().join(&name), &older);
                set_mtime(round.dest.path().join(&name), 1_000_000_000, 0);
                allowed.push(older);
                round.there_before.insert(name.clone());
            }
            round.allowed.insert(name, allowed);
        }
        round
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        let len = match rng.u8(..4) {
            0 => rng.u64(..5000),
            1 => (rng.u64(1..4) * MIB).saturating_add_signed(rng.i64(-2..3)),
            _ => rng.u64(MIB..7 * MIB / 2),
        };
        random_bytes(len, rng.u64(..))
    }

    /// Returns how many copies it took.
    fn run(mut self) -> u64 {
        let copies = self.rng.u64(1..4);
        for _ in 0..copies {
            self.copy_badly();
            self.assert_whole();
            self.damage_what_is_left();
            if self.rng.u8(..3) == 0 {
                self.change_a_source();
            }
        }
        let options = FileOptions { checksum: self.is_deceptive, ..options() };
        let report = copy_with(&inside(self.source.path()), self.dest.path(), Road::default(), &options);
        assert_eq!(report.failed.first, [], "seed {}", self.seed);
        let (source, dest) = (self.source.path(), self.dest.path());
        for name in self.allowed.keys() {
            let (from, to) = (fs::read(source.join(name)).unwrap(), fs::read(dest.join(name)).unwrap());
            assert!(from == to, "seed {}: {name:?} differs", self.seed);
        }
        if !self.is_orphaned {
            assert_tidy(dest);
        }
        copies + 1
    }

    /// A copy that is stopped somewhere, over a road that loses the order, repeats and damages.
    fn copy_badly(&mut self) {
        let rng = &mut self.rng;
        let road = Road {
            packet_len: [1400, 8000, 64_000][rng.usize(..3)],
            seed: rng.u64(..),
            shuffled: rng.bool(),
            sink_memory: [4 << 20, 64 << 20][rng.usize(..2)],
            until: if rng.u8(..4) == 0 { 1.0 } else { rng.f64() },
            corrupt_every: rng.bool().then(|| rng.u64(2..50)),
            ..Road::default()
        };
        let scan = scan_of(&inside(self.source.path()));
        let plan = plan_of(&scan.manifest, self.dest.path(), &options()).unwrap();
        let mut trip = Trip::begin(scan, plan, road);
        trip.run();
        if self.rng.bool() {
            // As a receiver that is killed leaves it.
            let left = folder();
            snapshot(self.dest.path(), left.path());
            self.dest = left;
            self.is_orphaned |= self.has_orphan();
        }
        trip.sink.suspend();
    }

    /// Whether there is a part file without a journal: one that was begun between the two looks that a snapshot is.
    fn has_orphan(&self) -> bool {
        let names = fs::read_dir(self.dest.path()).unwrap().map(|item| item.unwrap().file_name());
        let names: BTreeSet<Vec<u8>> = names.map(OsString::into_vec).collect();
        names.iter().filter_map(|name| journal_of_part(name)).any(|journal| !names.contains(&journal))
    }

    /// What a power cut, a disk that is going and a clumsy hand do to part files and journals. What the journal says is on
    /// the disk is believed to be there, so within its length a part file is left alone.
    fn damage_what_is_left(&mut self) {
        for item in fs::read_dir(self.dest.path()).unwrap() {
            let path = item.unwrap().path();
            if !path.to_string_lossy().contains(".longhaul-") || self.rng.bool() {
                continue;
            }
            let file = fs::File::options().read(true).write(true).open(&path).unwrap();
            let len = file.metadata().unwrap().len();
            let at = self.rng.u64(..len.max(1));
            let is_part = path.to_string_lossy().ends_with("-part");
            match [0, 1, 4, 2, 3][self.rng.usize(..if is_part { 3 } else { 5 })] {
                0 => {
                    self.is_orphaned |= path.to_string_lossy().ends_with("-journal");
                    fs::remove_file(&path).unwrap();
                }
                1 => file.set_len(at).unwrap(),
                2 => file.write_all_at(&vec![0; (len - at).min(70_000) as usize], at).unwrap(),
                3 => file.write_all_at(&[self.rng.u8(..)], at).unwrap(),
                _ => file.write_all_at(&random_bytes(self.rng.u64(1..200), at), len).unwrap(),
            }
        }
    }

    fn change_a_source(&mut self) {
        let names: Vec<PathBuf> = self.allowed.keys().cloned().collect();
        let name = self.rng.choice(&names).unwrap();
        let path = self.source.path().join(name);
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let at = self.rng.usize(..bytes.len().max(1));
        match self.rng.u8(..3) {
            0 if !bytes.is_empty() => bytes[at] ^= 1,
            1 => bytes.truncate(at),
            _ => bytes.extend(random_bytes(self.rng.u64(1..MIB), self.rng.u64(..))),
        }
        write(&path, &bytes);
        // The clock of a file system may stand still between two writes.
        let later = if self.rng.bool() { Duration::ZERO } else { Duration::from_secs(1) };
        self.is_deceptive |= later.is_zero();
        fs::File::options().write(true).open(&path).unwrap().set_modified(before + later).unwrap();
        self.allowed.get_mut(name).unwrap().push(bytes);
    }

    /// Every name at the destination holds the whole of something that it may hold.
    fn assert_whole(&self) {
        for (name, allowed) in &self.allowed {
            let is_whole = match fs::read(self.dest.path().join(name)) {
                Ok(bytes) => allowed.contains(&bytes),
                Err(_) => !self.there_before.contains(name),
            };
            assert!(is_whole, "seed {}: {name:?} is none of its {} versions", self.seed, allowed.len());
        }
    }
}

/// Rounds side by side.
const AT_A_TIME: usize = 2;
