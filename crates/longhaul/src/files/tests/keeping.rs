//! Owners, attributes, ACLs, names and devices arrive as they were, and are put right where they differ.

use super::harness::*;
use crate::files::{PartLimits, Root, Scan, ScanOptions, scan, scan_in_parts};
use fastrand::Rng;
use longhaul_proto::session::attributes::{Preserve, acl_ids};
use longhaul_proto::session::manifest::{Entry, Kind, Manifest, Named, Seams};
use longhaul_proto::session::message::{FileOptions, Report};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_testing::rich::*;
use longhaul_testing::tree::set_mode;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn keeping(preserve: Preserve) -> (ScanOptions, FileOptions) {
    let scan = ScanOptions { preserve, ..ScanOptions::default() };
    (scan, FileOptions { preserve, ..options() })
}

fn scan_rich(source: &Path, preserve: Preserve) -> Scan {
    let scan = scan(&Root::ambient(), &sources(&[&inside(source)]), &keeping(preserve).0);
    assert_eq!(scan.errors, []);
    scan
}

fn copy_rich(source: &Path, dest: &Path, preserve: Preserve) -> (Report, Vec<String>) {
    let scan = scan_rich(source, preserve);
    let plan = plan_of(&scan.manifest, dest, &keeping(preserve).1).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.run();
    let warnings = std::mem::take(&mut trip.warnings);
    (trip.sink.suspend(), warnings)
}

/// What users may make, as far as this process can.
fn all() -> Preserve {
    Preserve { devices: is_root(), ..Preserve::ARCHIVE }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn random_trees_arrive_with_all_that_they_have(seed: u64) {
        let (Some(source), Some(dest)) = (rich_folder(), rich_folder()) else { return Ok(()) };
        let (rng, privileged) = (&mut Rng::with_seed(seed), is_root());
        grow_rich(source.path(), rng, privileged);
        let (report, warnings) = copy_rich(source.path(), dest.path(), all());
        prop_assert_eq!((&report.failed.first, &warnings), (&vec![], &vec![]));
        prop_assert_eq!(portraits(source.path()), portraits(dest.path()));
        // Whatever is changed at the destination, but for contents, is put right and nothing is sent.
        let paths: Vec<_> = portraits(dest.path()).into_keys().collect();
        for path in &paths {
            let there = dest.path().join(path);
            let meta = fs::symlink_metadata(&there).unwrap();
            if rng.bool() {
                strip(&there);
            }
            attire(&there, rng, privileged);
            if meta.is_file() {
                set_mtime(&there, meta.mtime(), meta.mtime_nsec());
            }
        }
        let (report, warnings) = copy_rich(source.path(), dest.path(), all());
        prop_assert_eq!((&report.failed.first, &warnings), (&vec![], &vec![]));
        prop_assert_eq!(report.files_done, 0);
        prop_assert_eq!(portraits(source.path()), portraits(dest.path()));
        let before = changes(dest.path());
        let (report, _) = copy_rich(source.path(), dest.path(), all());
        prop_assert_eq!(report.files_done, 0);
        prop_assert_eq!(before, changes(dest.path()));
    }

    #[test]
    fn what_is_not_asked_for_is_left_alone(seed: u64) {
        let (Some(source), Some(dest)) = (rich_folder(), rich_folder()) else { return Ok(()) };
        grow_rich(source.path(), &mut Rng::with_seed(seed), is_root());
        let scan = scan_rich(source.path(), Preserve::default());
        prop_assert_eq!(&scan.manifest.attributes, &Default::default());
        let is_plain = |kind: &Kind| matches!(kind, Kind::File { .. } | Kind::Dir | Kind::Symlink { .. });
        prop_assert!(scan.manifest.entries.iter().all(|entry| is_plain(&entry.kind)));
        let (report, _) = copy_rich(source.path(), dest.path(), Preserve::default());
        prop_assert_eq!(report.failed.first, vec![]);
        let own = fs::metadata(dest.path()).unwrap();
        for portrait in portraits(dest.path()).into_values() {
            prop_assert_eq!(portrait.owners, (own.uid(), own.gid()));
            prop_assert!(portrait.xattrs.is_empty() && portrait.mode & 0o7000 == 0);
        }
    }
}

const LINKS: Preserve = Preserve {
    hard_links: true,
    xattrs: false,
    acls: false,
    owner: false,
    group: false,
    devices: false,
    specials: false,
    numeric_ids: false,
    confined: false,
};

#[test]
fn a_file_that_goes_without_its_acl_gives_its_group_no_more_than_that_did() {
    let (Some(source), Some(dest)) = (rich_folder(), rich_folder()) else { return };
    let preserve = Preserve { acls: true, ..LINKS };
    write(source.path().join("file"), b"for a few");
    set_xattr(&source.path().join("file"), "system.posix_acl_access", &acl(6, 4));
    let mode = |top: &Path| fs::metadata(top.join("file")).unwrap().mode() & 0o777;
    assert_eq!(
        mode(source.path()),
        0o650,
        "what somebody who is named may do stands where the group's bits are"
    );
    let mut scan = scan_rich(source.path(), preserve);
    let acls = scan.manifest.attributes.entries.iter_mut().flat_map(|entry| &mut entry.xattrs);
    for acl in acls {
        // No system has this user.
        let (place, _) = acl_ids(&acl.value).unwrap()[0];
        acl.value[place..place + 4].fill(255);
    }
    let plan = plan_of(&scan.manifest, dest.path(), &keeping(preserve).1).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.run();
    assert_eq!(trip.warnings.len(), 1, "{:?}", trip.warnings);
    assert_eq!(trip.sink.suspend().failed.count(), 0);
    assert_eq!(mode(dest.path()), 0o640);
}

/// With the source's time it would be taken for the source's from then on.
#[test]
fn what_changes_after_it_was_compared_does_not_get_the_sources_time() {
    let (source, dest) = (folder(), folder());
    for top in [&source, &dest] {
        write(top.path().join("f"), b"what was copied");
        set_mtime(top.path().join("f"), 1000, 0);
    }
    fs::set_permissions(dest.path().join("f"), Permissions::from_mode(0o600)).unwrap();
    let begin = || {
        let scan = scan_of(&source.path().join("f"));
        let plan = plan_of(&scan.manifest, dest.path(), &options()).unwrap();
        (scan, plan)
    };
    let run = |(scan, plan)| Trip::begin(scan, plan, Road::default()).run();
    let mtime = || fs::metadata(dest.path().join("f")).unwrap().mtime();
    let compared = begin();
    write(dest.path().join("f"), b"another's words");
    run(compared);
    assert_ne!(mtime(), 1000);
    run(begin());
    assert_eq!(mtime(), 1000);
    assert_eq!(fs::read(dest.path().join("f")).unwrap(), b"what was copied");
}

/// Two names of one file, in two folders.
fn linked() -> (tempfile::TempDir, tempfile::TempDir) {
    let (source, dest) = (folder(), folder());
    write(source.path().join("a/first"), random_bytes(3000, 1));
    write(source.path().join("b/other"), b"");
    link(&source.path().join("a/first"), &source.path().join("b/second"));
    (source, dest)
}

fn inode(path: impl AsRef<Path>) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[test]
fn another_name_takes_the_place_of_what_is_there() {
    let (source, dest) = linked();
    write(dest.path().join("b/second"), b"something else");
    let (report, _) = copy_rich(source.path(), dest.path(), LINKS);
    assert_eq!((report.failed.count(), report.files_done), (0, 3));
    assert_eq!(inode(dest.path().join("a/first")), inode(dest.path().join("b/second")));
    assert_eq!(contents(source.path()), contents(dest.path()));
    let before = changes(dest.path());
    let (report, _) = copy_rich(source.path(), dest.path(), LINKS);
    assert_eq!((report.files_done, report.files_skipped), (0, 3));
    assert_eq!(before, changes(dest.path()));
    assert_tidy(dest.path());
    // A new version of the file gets both names.
    write(source.path().join("b/second"), b"shorter");
    copy_rich(source.path(), dest.path(), LINKS);
    assert_eq!(fs::read(dest.path().join("b/second")).unwrap(), b"shorter");
    assert_eq!(inode(dest.path().join("a/first")), inode(dest.path().join("b/second")));
}

#[test]
fn a_file_that_is_there_unchanged_gets_its_other_name() {
    let (source, dest) = linked();
    copy_rich(source.path(), dest.path(), LINKS);
    let first = inode(dest.path().join("a/first"));
    fs::remove_file(dest.path().join("b/second")).unwrap();
    let scan = scan_rich(source.path(), LINKS);
    let dry = FileOptions { dry_run: true, ..keeping(LINKS).1 };
    let forecast = plan_of(&scan.manifest, dest.path(), &dry).unwrap().forecast();
    assert_eq!((forecast.to_copy.first, forecast.files_skipped), (vec![b"b/second".to_vec()], 2));
    let (report, _) = copy_rich(source.path(), dest.path(), LINKS);
    assert_eq!((report.files_done, report.files_skipped), (1, 2));
    assert_eq!(inode(dest.path().join("b/second")), first);
    assert_eq!(contents(source.path()), contents(dest.path()));
}

#[test]
fn no_other_name_is_given_to_an_older_file() {
    let (source, dest) = linked();
    write(dest.path().join("a/first"), b"from before");
    set_mtime(dest.path().join("a/first"), 1, 0);
    write(dest.path().join("b/second"), b"up to date, for all that is known");
    let scan = scan_rich(source.path(), LINKS);
    let first = scan.manifest.entries.iter().position(|entry| entry.path == b"a/first").unwrap() as u32;
    let mut plan = plan_of(&scan.manifest, dest.path(), &keeping(LINKS).1).unwrap();
    plan.source_incomplete = true;
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.sink.source_failed(first, &Reason::new(Cause::Other, "gone"));
    trip.run();
    let report = trip.sink.suspend();
    assert_eq!(report.failed.count(), 2);
    let lines: Vec<_> = report.failed.first.iter().map(ToString::to_string).collect();
    assert!(
        lines.iter().any(|line| line.starts_with("b/second") && line.contains("a/first, is not there")),
        "{lines:?}"
    );
    assert_eq!(fs::read(dest.path().join("b/second")).unwrap(), b"up to date, for all that is known");
}

#[test]
fn who_has_not_been_granted_links_gives_no_name_to_what_is_there() {
    let dest = folder();
    write(dest.path().join("others/secret"), b"of somebody else");
    set_mtime(dest.path().join("others/secret"), 5, 0);
    let link = |to: &[u8]| {
        let kind = Kind::Link { to: to.to_vec(), of: Named::File(16) };
        Manifest::of(vec![Entry { path: b"mine".to_vec(), kind, mode: 0o644, mtime: (5, 0) }])
    };
    let drop_box = FileOptions { new_only: true, ..keeping(LINKS).1 };
    for (to, asked) in [
        (&b"others/secret"[..], options()),
        (b"others/secret", drop_box),
        (b"others/.secret.longhaul-journal", keeping(LINKS).1),
    ] {
        let manifest = Manifest { seams: Seams { has_more: true, ..Seams::default() }, ..link(to) };
        let plan = plan_of(&manifest, dest.path(), &asked).unwrap();
        assert_eq!(plan.failures.len(), 1, "{}", String::from_utf8_lossy(to));
        let plan = plan_of(&link(to), &dest.path().join(""), &asked).unwrap();
        let mut trip = Trip::begin_with(link(to), plan);
        trip.run();
        assert_eq!(trip.sink.report().failed.count(), 1);
        assert!(!dest.path().join("mine").exists());
    }
}

#[test]
fn no_other_name_is_given_to_what_is_no_such_file() {
    let (source, dest) = linked();
    std::os::unix::fs::symlink("elsewhere", dest.path().join("first")).unwrap();
    fs::create_dir(dest.path().join("a")).unwrap();
    fs::rename(dest.path().join("first"), dest.path().join("a/first")).unwrap();
    write(dest.path().join("b/second"), b"up to date, for all that is known");
    let scan = scan_rich(source.path(), LINKS);
    let first = scan.manifest.entries.iter().position(|entry| entry.path == b"a/first").unwrap() as u32;
    let plan = plan_of(&scan.manifest, dest.path(), &keeping(LINKS).1).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.sink.source_failed(first, &Reason::new(Cause::Other, "gone"));
    trip.run();
    assert_eq!(trip.sink.suspend().failed.count(), 2);
    assert_eq!(fs::read(dest.path().join("b/second")).unwrap(), b"up to date, for all that is known");
}

#[test]
fn names_of_one_file_in_several_parts_of_a_listing_are_told() {
    let (source, _dest) = linked();
    for n in 0..20 {
        write(source.path().join(format!("a/more-{n}")), b"");
    }
    let (mut links, mut parts) = (vec![], 0);
    let limits = PartLimits { entries: 5, bytes: usize::MAX };
    let options = keeping(Preserve { owner: true, ..LINKS }).0;
    scan_in_parts(&Root::ambient(), &sources(&[&inside(source.path())]), &options, limits, &mut |scan| {
        scan.manifest.validate().unwrap();
        assert_eq!(scan.manifest.attributes.entries.len(), scan.manifest.entries.len());
        parts += 1;
        for entry in &scan.manifest.entries {
            if let Kind::Link { to, .. } = &entry.kind {
                links.push((entry.path.clone(), to.clone()));
            }
        }
        true
    });
    assert!(parts > 3, "{parts}");
    assert_eq!(links, [(b"b/second".to_vec(), b"a/first".to_vec())]);
}

#[test]
fn what_takes_privileges_is_not_done_for_everybody() {
    let (Some(source), Some(dest)) = (rich_folder(), rich_folder()) else { return };
    if !is_root() {
        return longhaul_testing::skip("only root can make what is left out here");
    }
    let file = source.path().join("file");
    write(&file, b"x");
    give(&file, 5000, 5001);
    set_xattr(&file, "trusted.mark", b"");
    set_xattr(&file, "user.note", b"kept");
    set_mode(&file, 0o6755);
    set_mtime(&file, 1_000_000, 0);
    mknodat(CWD, source.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let scan = scan_rich(source.path(), Preserve::ARCHIVE);
    let confined = FileOptions { preserve: Preserve::ARCHIVE.confine(), ..options() };
    let plan = plan_of(&scan.manifest, dest.path(), &confined).unwrap();
    let mut trip = Trip::begin(scan, plan, Road::default());
    trip.run();
    assert_eq!(trip.sink.report().failed.first, []);
    let there = &portraits(dest.path())[Path::new("file")];
    assert_eq!((there.owners, there.mode & 0o7777), ((0, 0), 0o755));
    assert_eq!(there.xattrs.keys().map(Vec::as_slice).collect::<Vec<_>>(), [b"user.note"]);
    assert!(!dest.path().join("pipe").exists());
    let told = trip.warnings.join("\n");
    assert!(told.contains("pipes") && told.contains("attributes"), "{told}");
}
