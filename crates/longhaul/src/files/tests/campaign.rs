//! Copies over bad roads onto bad disks, one after another: whatever was lost, torn or damaged, no file is ever wrong.
//!
//! A *wrong* file holds neither the whole of a version that its source had nor what was there before. One that nobody asked to
//! bring to the disk may be torn by a power cut, and until then only: the guide says so, and that comparing hashes finds it.

use super::disk::{Call, Disk, Fault, Installed, Weather};
use super::harness::*;
use super::held::{Files, Held, path_of};
use crate::files::disk::MANY;
use crate::files::keeper::Pace;
use crate::files::names::journal_of_part;
use crate::files::sealing::reboot;
use fastrand::Rng;
use longhaul_proto::session::manifest::{Kind, Ranges};
use longhaul_proto::session::message::{Delta, FileOptions, Fsync, Report};
use longhaul_testing::PATIENCE;
use longhaul_testing::campaign::{self, fresh_seeds};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_campaign_of_faults_makes_no_wrong_file() {
    // Others happen too, but may not in so few rounds.
    let faults = [Fault::NoSpace, Fault::Short, Fault::Error(Call::Sync), Fault::Error(Call::Name)];
    campaign(0..150, KEPT_MIN_BUSY, &faults);
}

/// `make campaign`; `CAMPAIGN_SEED=N make campaign` begins with that seed.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign_of_faults_makes_no_wrong_file() {
    let faults =
        [Fault::NoSpace, Fault::Short, Fault::Lost, Fault::Error(Call::Sync), Fault::Error(Call::Name)];
    campaign(fresh_seeds(4500), KEPT_MIN, &faults);
}

fn campaign(seeds: Range<u64>, kept_min: f64, faults: &[Fault]) {
    let begun = Instant::now();
    // On a thread of its own, which alone is told of boots.
    let round = |seed| thread::spawn(move || CampaignRound::new(seed).run()).join();
    let rounds =
        campaign::run(seeds, AT_A_TIME, |seed| round(seed).unwrap_or_else(|panic| resume_unwind(panic)));
    let mut tally = Tally::default();
    rounds.iter().for_each(|round| tally.add(round));
    println!("{tally:#?}\n0 wrong files, 0 hangs, {:.0} s", begun.elapsed().as_secs_f64());
    let is_met = |fault| tally.faults.contains_key(fault);
    assert!(faults.iter().all(is_met) && tally.cuts > 0 && tally.kills > 0, "they happen");
    assert!(tally.kept as f64 >= tally.delivered as f64 * kept_min, "too little was kept");
}

/// What a campaign came to.
#[derive(Debug, Default)]
struct Tally {
    copies: u64,
    /// Copies of which some file failed, or all.
    failed: u64,
    kills: u64,
    cuts: u64,
    /// What the disks did.
    faults: BTreeMap<Fault, u64>,
    /// Files that a power cut or a lost page tore and that nobody had asked to bring to the disk.
    torn: u64,
    /// Bytes of files that can be resumed, which had come of copies that ended early with a sound disk, and those of them
    /// that the next one took over. Of a killed copy, what had come a moment before.
    delivered: u64,
    kept: u64,
    /// Those of killed copies among them.
    killed_delivered: u64,
    killed_kept: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.copies += other.copies;
        self.failed += other.failed;
        self.kills += other.kills;
        self.cuts += other.cuts;
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.torn += other.torn;
        self.delivered += other.delivered;
        self.kept += other.kept;
        self.killed_delivered += other.killed_delivered;
        self.killed_kept += other.killed_kept;
    }
}

/// How a copy comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It has done what it could.
    Done,
    /// Nothing comes any more, and the receiver gives up in good order.
    Stopped,
    Killed,
    /// The same, after a moment in which nothing came.
    KilledIdle,
    PowerCut,
}

/// Files that are copied until they are there.
struct CampaignRound {
    seed: u64,
    rng: Rng,
    disk: Installed,
    source: tempfile::TempDir,
    dest: tempfile::TempDir,
    files: Files,
    /// The source's file system tells versions.
    has_versions: bool,
    /// A source changed, and neither its size nor its time did.
    is_deceptive: bool,
    /// What lies beside a destination may stay there: a call to remove it failed or was lost.
    is_untidy: bool,
    /// What the last copy left of files that can be resumed, if nothing has befallen it.
    left: Option<(Ending, Ranges)>,
    tally: Tally,
    /// What happened, to be told if it ends badly.
    story: Vec<String>,
}

impl CampaignRound {
    fn new(seed: u64) -> CampaignRound {
        let (source, dest) = (folder(), folder());
        let mut rng = Rng::with_seed(seed);
        let mut files = Files::default();
        // Many are brought to the disk together.
        let count = if rng.u8(..4) == 0 { rng.usize(MANY..2 * MANY) } else { rng.usize(1..5) };
        for index in 0..count {
            let name = PathBuf::from(format!("{}f{index}", ["", "folder/"][rng.usize(..2)]));
            let bytes = some_bytes(&mut rng);
            write(source.path().join(&name), &bytes);
            let mut held = Held::of(bytes);
            if rng.u8(..3) == 0 {
                let older = some_bytes(&mut rng);
                write(dest.path().join(&name), &older);
                set_mtime(dest.path().join(&name), 1_000_000_000, 0);
                held.allowed.insert(0, older);
                held.was_there = true;
            }
            files.0.insert(name, held);
        }
        let disk = Disk::install(dest.path(), rng.u64(..));
        let has_versions = rng.u8(..4) > 0;
        CampaignRound {
            seed,
            rng,
            disk,
            source,
            dest,
            files,
            has_versions,
            is_deceptive: false,
            is_untidy: false,
            left: None,
            tally: Tally::default(),
            story: vec![],
        }
    }

    fn run(mut self) -> Tally {
        for _ in 0..self.rng.usize(1..4) {
            self.copy_badly();
            if self.rng.u8(..4) == 0 {
                self.damage_what_is_left();
            }
            if self.rng.u8(..3) == 0 {
                self.change_a_source();
            }
        }
        self.end_well();
        self.note_faults();
        std::mem::take(&mut self.tally)
    }

    /// Nothing befalls the last copies. Where a source may have changed behind the back of its time, or a file may be torn,
    /// they must be asked to look.
    fn end_well(&mut self) {
        self.disk.forget_lost(false);
        let fsync = [Fsync::Auto, Fsync::Always][self.rng.usize(..2)];
        if !self.is_deceptive {
            self.copy_well(FileOptions { fsync, ..options() });
        }
        if self.is_deceptive || self.files.has_torn() {
            self.files.mend_torn();
            self.is_deceptive = false;
            self.copy_well(FileOptions { fsync, checksum: true, ..options() });
        }
        if !self.is_untidy {
            assert_tidy(self.dest.path());
        }
        if fsync == Fsync::Always {
            self.cut();
            self.files.assert_new_but(&BTreeSet::new(), self.dest.path(), self.seed);
        }
    }

    fn copy_well(&mut self, options: FileOptions) {
        self.disk.set_weather(Weather::CALM);
        let mut failed = vec![];
        // What still has to be told of a part file may fail one, and what of its journal another.
        for _ in 0..3 {
            let is_to_be_told = self.disk.has_unreported();
            let report = self.copy(Road::default(), Ending::Done, &options).expect("it can be compared");
            failed = report.failed.first;
            if failed.is_empty() || !is_to_be_told {
                break;
            }
        }
        assert_eq!(failed, [], "seed {}", self.seed);
        self.files.assert_new_but(&BTreeSet::new(), self.dest.path(), self.seed);
    }

    /// A copy on a bad day.
    fn copy_badly(&mut self) {
        let rng = &mut self.rng;
        let ending = [
            Ending::Done,
            Ending::Stopped,
            Ending::Killed,
            Ending::KilledIdle,
            Ending::PowerCut,
            Ending::PowerCut,
        ][rng.usize(..6)];
        let road = Road {
            packet_len: [1400, 8000, 64_000][rng.usize(..3)],
            seed: rng.u64(..),
            shuffled: rng.bool(),
            sink_memory: [4 << 20, 64 << 20][rng.usize(..2)],
            pace: PACE,
            until: if ending == Ending::Done || rng.u8(..3) == 0 { 1.0 } else { rng.f64() },
            corrupt_every: rng.bool().then(|| rng.u64(2..50)),
            ..Road::default()
        };
        let options = FileOptions {
            fsync: [Fsync::Auto, Fsync::Auto, Fsync::Always, Fsync::Always, Fsync::Never][rng.usize(..5)],
            checksum: rng.u8(..8) == 0,
            delta: [Delta::Auto, Delta::Always, Delta::Never][rng.usize(..3)],
            ..options()
        };
        let mut weather = some_weather(rng);
        if matches!(ending, Ending::Killed | Ending::PowerCut) && rng.u8(..4) > 0 {
            weather.last = some_calls(rng);
        }
        self.disk.set_weather(weather);
        let report = self.copy(road, ending, &options);
        if report.as_ref().is_none_or(|report| !report.failed.first.is_empty()) {
            self.tally.failed += 1;
        }
        self.files.expose(options.fsync);
        let is_durable = report.as_ref().is_some_and(|report| report.durable);
        let failed = self.files.failed(report.as_ref());
        if is_durable {
            self.files.settle_but(&failed);
        }
        match ending {
            Ending::PowerCut => self.cut(),
            _ if self.rng.bool() => self.disk.forget_lost(false),
            _ => {}
        }
        self.disk.set_weather(Weather::CALM);
        self.tally.torn += self.files.assert_whole(self.dest.path(), self.seed);
        // What was called done is done, and on the disk if that was said.
        if !self.is_deceptive && (ending != Ending::PowerCut || is_durable) {
            self.files.assert_new_but(&failed, self.dest.path(), self.seed);
        }
        if ending == Ending::PowerCut {
            self.files.settle_all(self.dest.path());
        }
    }

    /// One copy, at the disk's mercy. Returns what it reports if it has come to its end.
    fn copy(&mut self, road: Road, ending: Ending, options: &FileOptions) -> Option<Report> {
        self.tally.copies += 1;
        let before = self.errors();
        let mut scan = scan_of(&inside(self.source.path()));
        assert_eq!(scan.errors, []);
        for entry in &mut scan.manifest.entries {
            if let Kind::File { version, size, .. } = &mut entry.kind {
                let is_told = self.has_versions && *size > MIB;
                *version = is_told.then(|| [self.files.0[&path_of(&entry.path)].version + 1; 16]);
            }
        }
        let left = self.left.take();
        let weather = self.disk.weather();
        self.story.push(format!("{ending:?}, {weather:?}, {road:?}, {options:?}"));
        let plan = match plan_of(&scan.manifest, self.dest.path(), options) {
            Ok(plan) => plan,
            Err(error) => {
                assert!(self.errors() > before || self.disk.is_down(), "seed {}: {error}", self.seed);
                return None;
            }
        };
        if let Some((ended, left)) = left.filter(|_| self.errors() == before && !self.disk.is_down()) {
            let mut there = plan.have.clone();
            there.extend(plan.claimed.iter().cloned());
            let gaps = left.iter().flat_map(|run| there.gaps(run).collect::<Vec<_>>());
            let missing: u64 = gaps.map(|gap| gap.end - gap.start).sum();
            let delivered: u64 = left.iter().map(|run| run.end - run.start).sum();
            self.tally.delivered += delivered;
            self.tally.kept += delivered - missing;
            if ended == Ending::KilledIdle {
                self.tally.killed_delivered += delivered;
                self.tally.killed_kept += delivered - missing;
            }
        }
        let (disk, until) = (&self.disk, road.until);
        let mut trip = Trip::begin(scan, plan, road);
        trip.run_until(|| disk.is_down());
        if ending == Ending::KilledIdle {
            let begun = Instant::now();
            let is_kept = || disk.is_clean(MIB) && begun.elapsed() > IDLE;
            while !is_kept() && begun.elapsed() < IDLE_MAX {
                trip.pass_on_news();
                thread::sleep(PACE.write_out);
            }
            // The last marker.
            thread::sleep(PACE.flush_every);
        }
        let failed = trip.sink.report().failed.first;
        self.story.push(format!("down: {}, {failed:?}", disk.is_down()));
        let report = (until >= 1.0 && !disk.is_down()).then(|| trip.sink.report());
        if matches!(ending, Ending::Killed | Ending::KilledIdle | Ending::PowerCut) {
            disk.take_down();
        }
        let kept = matches!(ending, Ending::Stopped | Ending::KilledIdle);
        if kept && self.errors() == before && trip.damaged == 0 {
            self.left = Some((ending, resumable(&trip)));
        }
        self.tally.kills += u64::from(matches!(ending, Ending::Killed | Ending::KilledIdle));
        let bell = trip.bell.clone();
        drop(trip);
        // Its threads may be at work yet; another process would be gone with all of them.
        let begun = Instant::now();
        while Arc::strong_count(&bell) > 1 {
            assert!(begun.elapsed() < PATIENCE, "seed {}: a thread does not end", self.seed);
            thread::sleep(Duration::from_micros(100));
        }
        self.is_untidy |= self.errors() > before;
        let killed_amid = !matches!(ending, Ending::Done | Ending::Stopped);
        self.is_untidy |= killed_amid && self.has_orphan();
        report
    }

    fn note_faults(&mut self) {
        for (fault, count) in self.disk.faults() {
            *self.tally.faults.entry(fault).or_default() += count;
        }
    }

    /// How often the disk has failed so far.
    fn errors(&self) -> u64 {
        let faults = self.disk.faults();
        faults.iter().filter(|(fault, _)| **fault != Fault::Short).map(|(_, count)| count).sum()
    }

    /// The power fails, and comes back.
    fn cut(&mut self) {
        let left = folder();
        self.disk.take_down();
        self.disk.cut(left.path());
        self.note_faults();
        self.disk = Disk::install(left.path(), self.rng.u64(..));
        self.dest = left;
        (self.left, self.is_untidy) = (None, true);
        self.tally.cuts += 1;
        reboot();
    }

    /// Whether there is a part file without a journal: one that was given up just then.
    fn has_orphan(&self) -> bool {
        let paths: BTreeSet<PathBuf> = contents(self.dest.path()).into_keys().collect();
        let journal = |part: &PathBuf| {
            let name = journal_of_part(part.file_name()?.as_bytes())?;
            Some(part.with_file_name(path_of(&name)))
        };
        paths.iter().filter_map(journal).any(|journal| !paths.contains(&journal))
    }

    /// What a disk that is going and a clumsy hand do to part files and journals. What the journal says is on the disk is
    /// believed to be there, so within its length a part file is left alone.
    fn damage_what_is_left(&mut self) {
        for path in contents(self.dest.path()).into_keys() {
            let path = self.dest.path().join(path);
            if !path.to_string_lossy().contains(".longhaul-") || self.rng.bool() {
                continue;
            }
            let file = fs::File::options().read(true).write(true).open(&path).unwrap();
            let len = file.metadata().unwrap().len();
            let at = self.rng.u64(..len.max(1));
            let is_part = path.to_string_lossy().ends_with("-part");
            match [0, 1, 4, 2, 3][self.rng.usize(..if is_part { 3 } else { 5 })] {
                0 => fs::remove_file(&path).unwrap(),
                1 => file.set_len(at).unwrap(),
                2 => file.write_all_at(&vec![0; (len - at).min(70_000) as usize], at).unwrap(),
                3 => file.write_all_at(&[self.rng.u8(..)], at).unwrap(),
                _ => file.write_all_at(&random_bytes(self.rng.u64(1..200), at), len).unwrap(),
            }
        }
        self.disk.settle();
        self.story.push("damaged".into());
        (self.left, self.is_untidy) = (None, true);
    }

    fn change_a_source(&mut self) {
        let names: Vec<PathBuf> = self.files.0.keys().cloned().collect();
        let name = self.rng.choice(&names).unwrap();
        let held = self.files.0.get_mut(name).unwrap();
        let path = self.source.path().join(name);
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = held.now().to_vec();
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
        held.allowed.push(bytes);
        held.version += 1;
        self.story.push(format!("{name:?} changed, {later:?}"));
        self.left = None;
    }
}

impl Drop for CampaignRound {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("it was seed {}, after {:#?}", self.seed, self.story);
        }
    }
}

fn some_bytes(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.u8(..4) {
        0 => rng.u64(..5000),
        1 => (rng.u64(1..4) * MIB).saturating_add_signed(rng.i64(-2..3)),
        _ => rng.u64(MIB..7 * MIB / 2),
    };
    random_bytes(len, rng.u64(..))
}

/// A number of calls, after which a copy may be anywhere.
fn some_calls(rng: &mut Rng) -> u64 {
    let most = 1 << rng.u32(3..10);
    rng.u64(1..most)
}

fn some_weather(rng: &mut Rng) -> Weather {
    let short = [0, 10][rng.usize(..2)];
    let calm = Weather { short, ..Weather::CALM };
    match rng.u8(..6) {
        0 | 1 => calm,
        2 | 3 => Weather { errors: 1 << rng.u32(4..12), ..calm },
        4 => {
            let from = some_calls(rng);
            Weather { spell: from..from + rng.u64(1..20), ..calm }
        }
        _ => Weather { room: rng.u64(..8 * MIB), ..calm },
    }
}

/// What the sink has taken in of files that can be resumed.
fn resumable(trip: &Trip) -> Ranges {
    let groups = |run: &Range<u64>| trip.layout.groups_in(run.clone()).collect::<Vec<_>>();
    let of_run = |run: &Range<u64>| {
        let large = groups(run).into_iter().filter(|group| trip.layout.group_count(group.entry) > 1);
        let places = large.map(|group| trip.layout.group_range(group));
        places.map(|place| run.start.max(place.start)..run.end.min(place.end)).collect::<Vec<_>>()
    };
    trip.taken.iter().flat_map(of_run).collect()
}

/// So that a copy of some milliseconds is kept as one of seconds is.
const PACE: Pace = Pace {
    flush_every: Duration::from_millis(4),
    write_out: Duration::from_millis(1),
    sync_every: Duration::from_millis(8),
};

/// Several times what the keeper takes to note what has come, and what it is given on a busy machine: it has noted
/// what it has brought to the disk.
const IDLE: Duration = Duration::from_millis(30);
const IDLE_MAX: Duration = Duration::from_millis(150);

/// Rounds side by side.
const AT_A_TIME: usize = 2;

/// Of what had been delivered. What the threads of a sink have noted when it ends hangs on how busy the machine is.
const KEPT_MIN: f64 = 0.95;
/// The same beside other tests: a keeper that notes nothing leaves three tenths.
const KEPT_MIN_BUSY: f64 = 0.5;
