//! Nothing outside the destination is touched, and a full disk is told as what it is.

use super::harness::*;
use crate::files::{Base, Root, plan};
use longhaul_proto::session::manifest::{Entry, Kind, Layout, Manifest, OBJECT_LEN_MAX};
use longhaul_proto::session::reason::Cause;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn file(path: &str, size: u64) -> Entry {
    Entry {
        path: path.into(),
        kind: Kind::File { size, extents: None, version: None },
        mode: 0o4755,
        mtime: (5, 0),
    }
}

fn dir(path: &str) -> Entry {
    Entry { path: path.into(), kind: Kind::Dir, mode: 0o755, mtime: (5, 0) }
}

#[test]
fn a_confined_destination_cannot_be_left() {
    let (served, outside) = (folder(), folder());
    write(outside.path().join("victim"), b"safe");
    symlink(outside.path(), served.path().join("out")).unwrap();
    symlink(outside.path().join("victim"), served.path().join("to-victim")).unwrap();
    fs::create_dir(served.path().join("in")).unwrap();
    symlink("in", served.path().join("inner")).unwrap();
    let root = Root::confined(served.path()).unwrap();
    let manifest = Manifest::of(vec![file("f", 0)]);
    for dest in ["..", "../", "../x", "in/../../x", "out", "out/", "out/new", "to-victim"] {
        let refused = plan(&Base::new(root.clone(), dest), &manifest, &options(), &AtomicBool::default());
        assert!(refused.is_err(), "{dest}: {refused:?}");
    }
    // Absolute paths begin at the served folder, links inside it are fine.
    for dest in ["/in/a", "inner/b", "/", ""] {
        let plan =
            plan(&Base::new(root.clone(), dest), &manifest, &options(), &AtomicBool::default()).unwrap();
        let mut trip = Trip::begin_with(manifest.clone(), plan);
        trip.run();
        let report = trip.sink.report();
        assert_eq!(report.files_done + report.files_skipped, 1, "{dest}");
    }
    for landed in ["in/a", "in/b", "f"] {
        let meta = fs::metadata(served.path().join(landed)).unwrap();
        // No set-user-ID bits from a stranger.
        assert_eq!(meta.permissions().mode() & 0o7777, 0o755, "{landed}");
    }
    assert_eq!(contents(outside.path()).len(), 2);
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"safe");
}

#[test]
fn entries_do_not_follow_links_out_of_the_destination() {
    let (dest, outside) = (folder(), folder());
    symlink(outside.path(), dest.path().join("d")).unwrap();
    symlink(outside.path(), dest.path().join("e")).unwrap();
    let manifest = Manifest::of(vec![dir("d"), file("d/f", 0), dir("d/sub"), file("e/f", 0), file("ok", 0)]);
    let plan = plan_of(&manifest, dest.path(), &options()).unwrap();
    assert_eq!(plan.failures.len(), 4);
    let mut trip = Trip::begin_with(manifest, plan);
    trip.run();
    assert_eq!(trip.sink.report().files_done, 1);
    assert_eq!(contents(outside.path()).len(), 1);
}

#[test]
fn a_link_that_appears_after_the_comparison_is_not_followed() {
    let (dest, outside) = (folder(), folder());
    let manifest = Manifest::of(vec![dir("d"), file("d/f", 0), file("e/g", 0), file("h", 0)]);
    let plan = plan_of(&manifest, dest.path(), &options()).unwrap();
    write(outside.path().join("victim"), b"safe");
    symlink(outside.path(), dest.path().join("d")).unwrap();
    symlink(outside.path(), dest.path().join("e")).unwrap();
    symlink(outside.path().join("victim"), dest.path().join(".h.longhaul-part")).unwrap();
    let mut trip = Trip::begin_with(manifest, plan);
    trip.run();
    let report = trip.sink.report();
    assert_eq!((report.files_done, report.failed.count()), (1, 3), "{report:?}");
    assert_eq!(contents(outside.path()).len(), 2);
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"safe");
}

#[test]
fn names_of_our_own_files_are_refused() {
    let dest = folder();
    let manifest = Manifest::of(vec![file(".f.longhaul-part", 0), file("f", 0)]);
    let plan = plan_of(&manifest, dest.path(), &options()).unwrap();
    assert_eq!(plan.failures.len(), 1);
}

#[test]
fn no_folder_of_a_destination_has_a_name_of_our_own_files() {
    let dest = folder();
    let long = "x".repeat(256);
    for (to, entries) in [
        (".f.longhaul-journal", vec![file("f", 0)]),
        (".f.longhaul-journal/", vec![file("f", 0)]),
        ("in/.f.0000000000000000.longhaul-part/new", vec![dir(""), file("f", 0)]),
        (&long, vec![dir(""), file("f", 0)]),
    ] {
        let error = plan_of(&Manifest::of(entries), &dest.path().join(to), &options()).unwrap_err();
        assert!(error.to_string().contains("choose another"), "{to}: {error}");
    }
    assert_eq!(contents(dest.path()).len(), contents(folder().path()).len());
}

#[test]
fn sizes_that_cannot_be_are_refused_at_once() {
    let dest = folder();
    for size in [1 << 49, 1 << 51, OBJECT_LEN_MAX] {
        let manifest = Manifest::of(vec![file("f", size)]);
        assert!(plan_of(&manifest, dest.path(), &options()).is_err());
    }
}

/// A file system of its own with room for `mib`, gone with the thread that made it; `None` without the right to.
fn small_disk(at: &Path, mib: u64) -> Option<()> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    // SAFETY: only this thread's view of the mounts changes; it shares no file descriptors table and no other state
    // that the call could pull from under another thread.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.ok()?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).ok()?;
    let size = std::ffi::CString::new(format!("size={mib}m")).unwrap();
    mount("none", at, "tmpfs", MountFlags::empty(), Some(size.as_c_str())).ok()
}

/// Run `test` on a thread with a small disk.
fn on_small_disk(mib: u64, test: impl FnOnce(&Path) + Send + 'static) {
    let at = folder();
    let path = at.path().to_path_buf();
    let thread = std::thread::spawn(move || match small_disk(&path, mib) {
        Some(()) => test(&path),
        None => eprintln!("skipped: no right to mount a small file system"),
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_sent() {
    on_small_disk(4, |disk| {
        let manifest = Manifest::of(vec![file("f", 5 * MIB)]);
        let refused = plan_of(&manifest, disk, &options()).unwrap_err();
        assert!(refused.to_string().contains("not enough room: 5.2 MB are to come; free 1."), "{refused}");
    });
}

#[test]
fn a_disk_that_fills_up_fails_what_is_left_and_keeps_what_came() {
    on_small_disk(12, |disk| {
        let source = folder();
        for n in 0..4 {
            write(source.path().join(format!("{n}")), random_bytes(3 * MIB + 300_000, n));
        }
        let scan = scan_of(&inside(source.path()));
        let plan = plan_of(&scan.manifest, disk, &options());
        assert!(plan.is_err(), "14 MB do not fit");
        // Let it think so: the room goes while the copy runs.
        fs::remove_file(source.path().join("3")).unwrap();
        let scan = scan_of(&inside(source.path()));
        let plan = plan_of(&scan.manifest, disk, &options()).unwrap();
        write(disk.join("in the way"), random_bytes(4 * MIB, 1));
        let mut trip = Trip::begin(scan, plan, Road::default());
        trip.run();
        let report = trip.sink.suspend();
        assert!(report.files_done >= 1 && report.files_done < 3, "{report:?}");
        assert_eq!(report.files_done + report.failed.count(), 3);
        for failure in &report.failed.first {
            assert_eq!(failure.reason.cause, Cause::NoSpace);
            assert!(
                failure.reason.line.starts_with("no space left at the destination; free "),
                "{}",
                failure.reason
            );
            assert!(
                failure.reason.line.ends_with(" MB and run the same command again"),
                "{}",
                failure.reason
            );
        }
        // Room again: the same command goes on.
        fs::remove_file(disk.join("in the way")).unwrap();
        let report = copy(&inside(source.path()), disk, Road::default());
        assert_eq!(report.failed.first, []);
        assert!(report.resumed_bytes > 0 && report.files_skipped >= 1, "{report:?}");
        assert_eq!(contents(source.path()), contents(disk));
        let _ = rustix::mount::unmount(disk, rustix::mount::UnmountFlags::DETACH);
    });
}

#[test]
fn a_folder_that_cannot_be_made_fails_every_entry() {
    let top = folder();
    let manifest = Manifest::of(vec![dir(""), file("a", 0), file("b", 0)]);
    let dest = top.path().join("new/deep");
    let plan = plan_of(&manifest, &dest, &options()).unwrap();
    write(top.path().join("new"), b"in the way by now");
    let mut trip = Trip::begin_with(manifest.clone(), plan);
    trip.run();
    let report = trip.sink.report();
    assert_eq!((report.files_done, report.failed.count()), (0, 3));
    assert!(report.failed.first[0].reason.line.contains("cannot make this folder"));
    assert_eq!(Layout::new(&manifest).object_len(), 0);
}
