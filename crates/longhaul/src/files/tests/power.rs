//! The power is cut at any moment of a copy with `fsync`: every name has what it had before or what it is to have, and
//! what a copy has called finished is there.

use super::harness::*;
use super::recorder::{BTRFS, EXT4, Format, Recorder, XFS, alone};
use crate::files::keeper::Pace;
use crate::files::sealing::reboot;
use fastrand::Rng;
use longhaul_proto::session::message::{FileOptions, Fsync, Report};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[test]
fn a_power_cut_leaves_each_name_its_old_file_or_its_new_one_on_ext4() {
    alone(|| cut_the_power(EXT4, 48, 1));
}

#[test]
fn a_power_cut_leaves_each_name_its_old_file_or_its_new_one_on_xfs() {
    alone(|| cut_the_power(XFS, 24, 1));
}

#[test]
fn a_power_cut_leaves_each_name_its_old_file_or_its_new_one_on_btrfs() {
    alone(|| cut_the_power(BTRFS, 24, 1));
}

#[test]
#[ignore = "minutes: many copies, hundreds of cuts each"]
fn power_cuts_at_very_many_moments() {
    alone(|| {
        for seed in 0..10 {
            cut_the_power(EXT4, 300, seed);
            cut_the_power(XFS, 150, seed);
            cut_the_power(BTRFS, 150, seed);
        }
    });
}

/// Copies follow one another to one place; then the power fails at so many moments of that.
fn cut_the_power(format: Format, cuts: usize, seed: u64) {
    let Some(mut disk) = Recorder::new(format) else { return };
    let rng = &mut Rng::with_seed(seed);
    let sources: Vec<_> = (0..COPIES).map(|n| source(n, rng)).collect();
    let begun = disk.now();
    // When each copy had ended.
    let ends: Vec<usize> = sources
        .iter()
        .map(|source| {
            let report = copy_to(&disk.top(), source.path(), Fsync::Always);
            assert!(report.durable && report.failed.first.is_empty(), "{report:?}");
            disk.now()
        })
        .collect();
    disk.stop();
    let mut moments = ends.clone();
    moments.extend((0..cuts).map(|_| rng.usize(begun..=ends[COPIES - 1])));
    let states: Vec<_> = sources.iter().map(|source| contents(source.path())).collect();
    disk.cut(moments, seed, |moment, top| {
        let finished = ends.iter().filter(|end| **end <= moment).count();
        let before = finished.checked_sub(1).map(|n| &states[n]);
        let next = finished.min(COPIES - 1);
        let found = found_at(top);
        if finished == COPIES {
            assert_eq!(found, states[next], "{}: cut at {moment}, after the last copy", format.name);
        }
        for (path, is) in files(&found) {
            let allowed = [before, Some(&states[next])].map(|state| state.and_then(|state| state.get(path)));
            let told = format!("{}: {path:?}, cut at {moment} of {ends:?}, seed {seed}", format.name);
            assert!(allowed.contains(&Some(is)), "{told}: {is:?} is neither of {allowed:?}");
        }
        for (path, was) in
            before.into_iter().flat_map(files).filter(|(path, _)| states[next].contains_key(*path))
        {
            assert!(found.contains_key(path), "{}: {was:?} is gone, cut at {moment}", format.name);
        }
        reboot();
        let report = copy_to(top, sources[next].path(), Fsync::Never);
        assert_eq!(report.failed.first, [], "cut at {moment}");
        assert_eq!(found_at(top), states[next], "{}: copied again after a cut at {moment}", format.name);
    });
}

/// Few things go to the disk one by one. The folders above, which the copy made too, are not to be forgotten.
#[test]
fn a_single_file_is_on_the_disk_with_the_folders_made_for_it() {
    alone(|| {
        for (format, len) in [(EXT4, 5000), (EXT4, 5 * MIB / 2), (XFS, 5 * MIB / 2), (BTRFS, 5 * MIB / 2)] {
            let Some(mut disk) = Recorder::new(format) else { continue };
            let source = folder();
            write(source.path().join("f"), random_bytes(len, 1));
            let scan = scan_of(&source.path().join("f"));
            let options = FileOptions { fsync: Fsync::Always, ..options() };
            let plan = plan_of(&scan.manifest, &disk.top().join("new/deep/name"), &options).unwrap();
            let mut trip = Trip::begin(scan, plan, Road::default());
            trip.run();
            let (end, report) = (disk.now(), trip.sink.report());
            drop(trip);
            assert!(report.durable && report.files_done == 1, "{report:?}");
            disk.stop();
            disk.cut(vec![end; 5], 1, |_, top| {
                let found = fs::read(top.join("new/deep/name")).unwrap();
                assert!(found == fs::read(source.path().join("f")).unwrap(), "{}, {len} bytes", format.name);
            });
        }
    });
}

/// Also where durability was not asked for: when another program syncs, the name may reach the disk before the data.
#[test]
fn a_large_file_is_on_the_disk_before_it_has_its_name() {
    alone(|| {
        let source = folder();
        write(source.path().join("large"), random_bytes(3 * MIB, 1));
        for format in [EXT4, XFS, BTRFS] {
            let Some(mut disk) = Recorder::new(format) else { continue };
            let begun = disk.now();
            assert!(
                !copy_to(&disk.top(), source.path(), Fsync::default()).durable,
                "its name may not be there yet"
            );
            fs::File::create(disk.top().join("another's")).unwrap().sync_all().unwrap();
            let end = disk.now();
            disk.stop();
            let rng = &mut Rng::with_seed(1);
            let moments = (0..10).map(|_| rng.usize(begun..=end)).chain([end; 5]).collect();
            disk.cut(moments, 1, |moment, top| {
                let path = top.join(DEST).join("large");
                let is_whole = |found| found == fs::read(source.path().join("large")).unwrap();
                assert!(
                    !path.exists() || is_whole(fs::read(&path).unwrap()),
                    "{}: cut at {moment}",
                    format.name
                );
            });
        }
    });
}

/// What the journal says has to be on the disk as well as the data, and so have their names.
#[test]
fn what_had_reached_the_disk_of_an_unfinished_file_is_kept_over_a_power_cut() {
    alone(|| {
        let source = folder();
        write(source.path().join("large"), random_bytes(10 * MIB, 1));
        let disks: Vec<_> = [EXT4, XFS, BTRFS].into_iter().filter_map(Recorder::new).collect();
        let begin = |disk: &Recorder| {
            let scan = scan_of(&inside(source.path()));
            let plan = plan_of(&scan.manifest, &disk.top().join(DEST), &options()).unwrap();
            let pace = Pace { sync_every: Duration::from_millis(200), ..Pace::default() };
            let mut trip = Trip::begin(scan, plan, Road { until: 0.9, pace, ..Road::default() });
            trip.run();
            trip
        };
        let trips: Vec<_> = disks.iter().map(begin).collect();
        std::thread::sleep(Duration::from_secs(3));
        let moments: Vec<_> = disks.iter().map(Recorder::now).collect();
        drop(trips);
        for (mut disk, moment) in disks.into_iter().zip(moments) {
            disk.stop();
            disk.cut(vec![moment; 3], 1, |_, top| {
                reboot();
                let report = copy_to(top, source.path(), Fsync::Never);
                assert!(report.resumed_bytes >= 8 * MIB, "{report:?}");
                assert_eq!(found_at(top), contents(source.path()));
            });
        }
    });
}

/// An unwritable disk is found out before the name is given, and what did not get there is not believed to be there.
#[test]
fn a_file_that_does_not_reach_the_disk_fails_and_the_old_one_stays() {
    alone(|| {
        let Some(mut disk) = Recorder::new(EXT4) else { return };
        let (old, new) = (folder(), folder());
        let marked = |len: u64, seed: u64| {
            let mut bytes = random_bytes(len, seed);
            bytes[..MARK.len()].copy_from_slice(MARK);
            bytes
        };
        // Large ones go to the disk one by one, so many small ones together.
        let names = (0..SMALL).map(|n| format!("small {n}")).chain(["large".into()]);
        for (name, n) in names.zip(1..) {
            let len = if n > SMALL { 5 * MIB / 2 } else { 5000 };
            write(old.path().join(&name), random_bytes(len, n));
            write(new.path().join(&name), marked(len, 2 * n));
            set_mtime(new.path().join(&name), 1_000_000_000, 5);
        }
        assert!(copy_to(&disk.top(), old.path(), Fsync::Always).durable);
        disk.refuse(Some(MARK.to_vec()));
        let report = copy_to(&disk.top(), new.path(), Fsync::Always);
        let told: Vec<_> = report.failed.first.iter().map(ToString::to_string).collect();
        assert_eq!((report.files_done, told.len() as u64), (0, SMALL + 1), "{told:?}");
        assert!(told.iter().all(|line| line.ends_with("the disk reports an input/output error")), "{told:?}");
        let files_of =
            |found| files(&found).map(|(path, thing)| (path.clone(), thing.clone())).collect::<Vec<_>>();
        assert_eq!(files_of(found_at(&disk.top())), files_of(contents(old.path())));
        disk.refuse(None);
        let report = copy_to(&disk.top(), new.path(), Fsync::Always);
        assert_eq!((report.files_done, report.resumed_bytes), (SMALL + 1, 0), "{report:?}");
        let end = disk.now();
        disk.stop();
        disk.cut(vec![end], 1, |_, top| assert_eq!(found_at(top), contents(new.path())));
    });
}

fn copy_to(top: &Path, source: &Path, fsync: Fsync) -> Report {
    let options = FileOptions { fsync, delete: true, ..options() };
    let scan = scan_of(&inside(source));
    let plan = plan_of(&scan.manifest, &top.join(DEST), &options).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.run();
    // What is reported now is finished, whatever comes of the rest.
    trip.sink.report()
}

/// What the destination has, but for what copies leave that did not end.
fn found_at(top: &Path) -> BTreeMap<PathBuf, Thing> {
    let dest = top.join(DEST);
    if !dest.exists() {
        return BTreeMap::new();
    }
    let is_ours = |path: &PathBuf| path.to_string_lossy().contains(".longhaul-");
    contents(&dest).into_iter().filter(|(path, _)| !is_ours(path)).collect()
}

/// Folders take their permissions and times last.
fn files(found: &BTreeMap<PathBuf, Thing>) -> impl Iterator<Item = (&PathBuf, &Thing)> {
    found.iter().filter(|(_, thing)| !matches!(thing, Thing::Folder(..)))
}

/// What the n-th copy copies: some of it is new each time, some stays, and the last is of a few files only.
fn source(n: usize, rng: &mut Rng) -> tempfile::TempDir {
    let top = folder();
    let path = |name: &str| top.path().join(name);
    let small = if n + 1 < COPIES { 30 } else { 3 };
    for file in 0..small {
        let len = rng.u64(1..20_000);
        let seed = if file % 3 == 0 { file } else { rng.u64(..) };
        write(
            path(&format!("folder {}/{file}", file % 4)),
            random_bytes(if file % 3 == 0 { 9000 } else { len }, seed),
        );
        if file % 3 == 0 {
            set_mtime(path(&format!("folder {}/{file}", file % 4)), 1_000_000_000, 5);
        }
    }
    write(path("large"), random_bytes(rng.u64(2 * MIB..3 * MIB), rng.u64(..)));
    write(path(&format!("large {n}")), random_bytes(5 * MIB / 4, rng.u64(..)));
    write(path("empty"), b"");
    symlink(format!("large {n}"), path("link")).unwrap();
    fs::create_dir(path(&format!("hollow {n}"))).unwrap();
    for (at, folder) in ["folder 0", ""].iter().enumerate() {
        set_mtime(path(folder), 1_000_000_000 + n as i64, at as i64);
    }
    top
}

const SMALL: u64 = 20;
const COPIES: usize = 3;
/// It is not there to begin with.
const DEST: &str = "new/dest";
const MARK: &[u8; 16] = b"this is refused!";
