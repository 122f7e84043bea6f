//! How much memory a copy of very many entries takes: a few parts of it, however many there are. Both sides are in one process
//! here; the source is made up, and nothing is stored (`dry_run`), since ten million files would take a disk of their own.

use longhaul::files::{Base, FileSink, Planner, Reader, Root, Scan};
use longhaul::listing::{self, Room};
use longhaul_proto::session::manifest::{Entry, Kind, Layout, Manifest, PARTS_MAX, Ranges};
use longhaul_proto::session::message::{FileOptions, Report};
use longhaul_testing::process::is_alone;
use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A part at work, on both sides.
struct AtWork {
    _reader: Reader,
    sink: FileSink,
}

/// Entries of a made-up tree: a folder for every thousand files.
fn part(from: u64, to: u64, has_more: bool) -> Scan {
    let mut scan = Scan::default();
    let mut entries = vec![];
    for at in from..to {
        let folder = format!("experiment-2026/run-{:06}", at / 1000);
        let (path, kind) = match at % 1000 {
            0 => (folder, Kind::Dir),
            n => (
                format!("{folder}/sample-{n:04}.dat"),
                Kind::File { size: 4096, extents: None, version: None },
            ),
        };
        entries.push(Entry { path: path.into(), kind, mode: 0o755, mtime: (1_700_000_000, at as u32) });
    }
    scan.manifest = Manifest::of(entries);
    scan.manifest.seams.has_more = has_more;
    scan
}

/// Copy so many made-up entries in parts of so many. Returns the report and the most memory that was in use meanwhile.
fn copy(total: u64, part_len: u64) -> (Report, u64) {
    let dest = tempfile::tempdir().unwrap();
    let options = FileOptions { dry_run: true, ..FileOptions::default() };
    let mut planner = Planner::new(Base::new(Root::ambient(), dest.path()), options).unwrap();
    let (mut at_work, mut whole) = (VecDeque::<AtWork>::new(), None::<Report>);
    forget_peak();
    for from in (0..total).step_by(part_len as usize) {
        let to = (from + part_len).min(total);
        let scan = part(from, to, to < total);
        let bytes = listing::encode(&scan.manifest, &scan.errors).unwrap();
        let (manifest, _) = listing::decode(&bytes, &mut Room::of(listing::PART_ROOM)).unwrap();
        let plan = planner.plan(&manifest, &AtomicBool::default()).unwrap();
        let layout = Arc::new(Layout::new(&manifest));
        let have: Ranges = std::iter::once(0..layout.object_len()).collect();
        let claimed = Ranges::new();
        let sink = FileSink::start(plan, Arc::new(manifest), layout.clone(), Arc::new(|| {})).unwrap();
        let reader = Reader::start(Arc::new(scan), layout, (&have, &claimed), Arc::new(|| {})).unwrap();
        at_work.push_back(AtWork { _reader: reader, sink });
        if at_work.len() == PARTS_MAX {
            end(at_work.pop_front().unwrap(), &mut whole);
        }
    }
    at_work.into_iter().for_each(|part| end(part, &mut whole));
    (whole.unwrap(), peak())
}

/// The oldest part is done with.
fn end(part: AtWork, whole: &mut Option<Report>) {
    if whole.is_some() {
        part.sink.go_ahead(true);
    }
    while !part.sink.finished() {
        std::thread::yield_now();
    }
    let report = part.sink.suspend();
    match whole {
        Some(whole) => whole.add(report),
        none => *none = Some(report),
    }
}

/// From now on the peak is that of what follows.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn memory_follows_the_parts_at_work_and_not_the_copy() {
    // The peak is that of the process.
    if !is_alone() {
        return;
    }
    let (total, part_len) = (200_000, 4096);
    let (report, peak) = copy(total, part_len);
    assert_eq!(report.to_copy.count(), total - total.div_ceil(1000));
    // A kilobyte for each entry of the parts at work, both sides together, and what a process takes anyway. All of the
    // entries would take 60 MB.
    let bound = PARTS_MAX as u64 * part_len * 1024 + (24 << 20);
    assert!(peak < bound, "{} KiB, more than {} KiB", peak >> 10, bound >> 10);
}

#[test]
#[ignore = "takes minutes"]
fn ten_million_entries_take_less_than_a_gigabyte() {
    // The peak is that of the process.
    if !is_alone() {
        return;
    }
    let total = 10_000_000;
    let (report, peak) = copy(total, 1 << 16);
    assert_eq!(report.to_copy.count(), total - total / 1000);
    println!("{total} entries: {} MiB at most, both sides together", peak >> 20);
    assert!(peak < 1 << 30, "{} MiB", peak >> 20);
}
