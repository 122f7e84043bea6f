//! Trees to copy, a stand-in for the network, and a close look at the result.

use crate::files::FileError;
use crate::files::keeper::Pace;
use crate::files::{
    Base, FileSink, Plan, Reader, Root, Scan, ScanOptions, SinkEvent, SourceSpec, Wake, plan, scan,
};
use crate::net::budget::Allowance;
use fastrand::Rng;
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::session::manifest::{Layout, Manifest, Ranges};
use longhaul_proto::session::message::{FileOptions, GroupHash, Report};
use longhaul_testing::tree::noise;
pub use longhaul_testing::tree::{Thing, folder_in_memory as folder, set_mtime, snapshot as contents, write};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A copy that does nothing for so long will never end.
const HANGS: Duration = Duration::from_secs(30);

pub const MIB: u64 = 1 << 20;

pub fn random_bytes(len: u64, seed: u64) -> Vec<u8> {
    noise(len as usize, seed)
}

/// A random tree with all kinds of things in it.
pub fn grow(top: &Path, rng: &mut Rng, large_files: usize) {
    let mut folders = vec![top.to_path_buf()];
    for n in 0..rng.usize(1..6) {
        let folder = rng.choice(&folders).unwrap().join(format!("folder {n}"));
        fs::create_dir(&folder).unwrap();
        folders.push(folder);
    }
    let edge = |rng: &mut Rng| (rng.u64(1..4) * MIB).saturating_add_signed(rng.i64(-2..3));
    for n in 0..rng.usize(0..60) {
        let len = match rng.u8(0..8) {
            0 => 0,
            1..6 => rng.u64(1..9000),
            _ => rng.u64(1..300_000),
        };
        write(rng.choice(&folders).unwrap().join(format!("small-{n}\n")), random_bytes(len, rng.u64(..)));
    }
    for n in 0..large_files {
        let len = if rng.bool() { edge(rng) } else { rng.u64(MIB..5 * MIB) };
        write(rng.choice(&folders).unwrap().join(format!("large-{n}")), random_bytes(len, rng.u64(..)));
    }
    for n in 0..rng.usize(0..3) {
        let file = fs::File::create(rng.choice(&folders).unwrap().join(format!("sparse-{n}"))).unwrap();
        file.set_len(rng.u64(0..9 * MIB)).unwrap();
        for _ in 0..rng.usize(0..4) {
            let bytes = random_bytes(rng.u64(1..2 * MIB), rng.u64(..));
            file.write_all_at(&bytes, rng.u64(0..8 * MIB)).unwrap();
        }
    }
    let odd: &[u8] = b"odd \xff\xfe name";
    write(top.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(odd)), b"odd");
    write(top.join("x".repeat(250)), b"a long name");
    for n in 0..rng.usize(0..4) {
        symlink(format!("../nowhere/{n}"), rng.choice(&folders).unwrap().join(format!("link-{n}"))).unwrap();
    }
    dress(top, rng);
}

/// Give everything below a folder its own permissions and time.
fn dress(folder: &Path, rng: &mut Rng) {
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            dress(&path, rng);
        }
        if !meta.is_symlink() {
            set_mtime(&path, rng.i64(1..2_000_000_000), rng.i64(0..1_000_000_000));
            let modes: &[u32] = if meta.is_dir() {
                &[0o755, 0o700, 0o500, 0o2775]
            } else {
                &[0o644, 0o600, 0o755, 0o400, 0o4755]
            };
            fs::set_permissions(&path, fs::Permissions::from_mode(*rng.choice(modes).unwrap())).unwrap();
        }
    }
}

/// How packets travel.
#[derive(Clone, Debug)]
pub struct Road {
    pub packet_len: u64,
    pub seed: u64,
    /// In random order, one in eight twice.
    pub shuffled: bool,
    pub reader_cache: usize,
    pub sink_memory: usize,
    pub pace: Pace,
    /// Stop after this share of the packets.
    pub until: f64,
    /// Change a byte of every n-th packet, [`DAMAGED_MAX`] times in all.
    pub corrupt_every: Option<u64>,
    /// The object byte at this offset always arrives changed.
    pub spoiled: Option<u64>,
}

impl Default for Road {
    fn default() -> Road {
        Road {
            packet_len: 1400,
            seed: 1,
            shuffled: false,
            reader_cache: 48 << 20,
            sink_memory: 64 << 20,
            pace: Pace::default(),
            until: 1.0,
            corrupt_every: None,
            spoiled: None,
        }
    }
}

/// One less than makes a group unverifiable: chance may let all the damage hit one group.
const DAMAGED_MAX: usize = 4;

/// Wakes a test that waits.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub fn wake(self: &Arc<Bell>) -> Wake {
        let bell = self.clone();
        Arc::new(move || {
            *bell.rung.lock().unwrap() = true;
            bell.heard.notify_all();
        })
    }

    /// Wait for a ring; the limit only keeps a broken test from hanging.
    pub fn wait(&self) {
        let rung = self.rung.lock().unwrap();
        let (mut rung, _) =
            self.heard.wait_timeout_while(rung, Duration::from_millis(200), |rung| !*rung).unwrap();
        *rung = false;
    }
}

/// A copy under way.
pub struct Trip {
    pub layout: Arc<Layout>,
    pub reader: Reader,
    pub sink: FileSink,
    pub bell: Arc<Bell>,
    /// Packets still to be sent, the next one last.
    pub to_send: Vec<u64>,
    /// Object bytes that the sink has taken in.
    pub taken: Ranges,
    pub bad: usize,
    pub unwanted: Ranges,
    pub confirmed: Ranges,
    pub refused: Ranges,
    pub failures: Vec<String>,
    pub warnings: Vec<String>,
    road: Road,
    rng: Rng,
    sent: u64,
    pub damaged: usize,
    held_hashes: Vec<GroupHash>,
}

pub fn sources(paths: &[&Path]) -> Vec<SourceSpec> {
    paths.iter().map(|path| SourceSpec { path: path.to_path_buf() }).collect()
}

/// A path with a slash at its end: what is in it.
pub fn inside(path: &Path) -> PathBuf {
    path.join("")
}

pub fn scan_of(path: &Path) -> Scan {
    scan(&Root::ambient(), &sources(&[path]), &ScanOptions::default())
}

pub fn options() -> FileOptions {
    FileOptions { resume: true, ..FileOptions::default() }
}

pub fn plan_of(manifest: &Manifest, dest: &Path, options: &FileOptions) -> Result<Plan, FileError> {
    manifest.validate().unwrap();
    plan(&Base::new(Root::ambient(), dest), manifest, options, &AtomicBool::default())
}

impl Trip {
    pub fn begin(scan: Scan, plan: Plan, road: Road) -> Trip {
        let (scan, bell) = (Arc::new(scan), Arc::new(Bell::default()));
        let layout = Arc::new(Layout::new(&scan.manifest));
        let (mut have, claimed) = (plan.have.clone(), plan.claimed.clone());
        let wanted = (&have, &claimed);
        let reader = Reader::with_cache(
            scan.clone(),
            layout.clone(),
            wanted,
            bell.wake(),
            (road.reader_cache, Allowance::default()),
        )
        .unwrap();
        have.extend(claimed);
        let manifest = Arc::new(scan.manifest.clone());
        let limits = (road.sink_memory, road.pace);
        let sink = FileSink::with(plan, manifest, layout.clone(), bell.wake(), limits).unwrap();
        let mut rng = Rng::with_seed(road.seed);
        let mut to_send = packets(&have, &layout, road.packet_len);
        if road.shuffled {
            let again: Vec<u64> = to_send.iter().copied().filter(|_| rng.u8(..8) == 0).collect();
            to_send.extend(again);
            rng.shuffle(&mut to_send);
            // What is sent last comes for the first time then: a copy that stops before it is not whole.
            if let Some(last) = to_send.first().copied() {
                let mut is_last = true;
                to_send.retain(|packet| std::mem::take(&mut is_last) || *packet != last);
            }
        } else {
            to_send.reverse();
        }
        Trip {
            layout,
            reader,
            sink,
            bell,
            to_send,
            taken: Ranges::new(),
            bad: 0,
            unwanted: Ranges::new(),
            confirmed: Ranges::new(),
            refused: Ranges::new(),
            failures: vec![],
            warnings: vec![],
            road,
            rng,
            sent: 0,
            damaged: 0,
            held_hashes: vec![],
        }
    }

    /// A copy of a made-up manifest without data.
    pub fn begin_with(manifest: Manifest, plan: Plan) -> Trip {
        Trip::begin(Scan { manifest, ..Scan::default() }, plan, Road::default())
    }

    /// Carry packets until the share that the road allows, but the last one only if it allows all; then until all has
    /// landed.
    pub fn run(&mut self) {
        self.run_until(|| false);
    }

    /// The same, or until something else happens.
    pub fn run_until(&mut self, mut stop: impl FnMut() -> bool) {
        let stop_at = (self.to_send.len() as f64 * (1.0 - self.road.until)).ceil() as usize;
        let mut moved = Instant::now();
        while !stop() && (self.to_send.len() > stop_at || (self.road.until >= 1.0 && !self.sink.finished())) {
            let before = self.to_send.len();
            self.carry();
            self.pass_on_news();
            if before != self.to_send.len() {
                moved = Instant::now();
            }
            assert!(
                moved.elapsed() < HANGS,
                "nothing moves: {before} packets left, {:?}",
                self.sink.backlog()
            );
            if self.to_send.is_empty() && !self.sink.finished() {
                self.sink.object_complete();
                self.bell.wait();
            }
        }
        self.pass_on_news();
    }

    /// Carry what is left.
    pub fn finish(&mut self) {
        self.road.until = 1.0;
        self.run();
    }

    /// Carry so many packets more.
    pub fn carry_some(&mut self, count: usize) {
        let left = self.to_send.len().saturating_sub(count);
        while self.to_send.len() > left {
            self.carry();
            self.pass_on_news();
        }
    }

    /// Send one packet, or wait.
    pub fn carry(&mut self) {
        let Some(packet) = self.to_send.last().copied() else { return };
        let start = packet * self.road.packet_len;
        let end = (start + self.road.packet_len).min(self.layout.object_len());
        let mut buf = vec![0xee; (end - start) as usize];
        match self.reader.read_at(start, &mut buf) {
            Err(NotReady) => return self.bell.wait(),
            Ok(()) => self.sent += 1,
        }
        let mut damage = 0;
        if self.damaged < DAMAGED_MAX && self.road.corrupt_every.is_some_and(|n| self.sent.is_multiple_of(n))
        {
            buf[0] ^= 1;
            damage = 1;
        }
        if let Some(spoiled) = self.road.spoiled.filter(|at| (start..end).contains(at)) {
            buf[(spoiled - start) as usize] ^= 1;
        }
        match self.sink.write_at(start, &buf) {
            Ok(()) => {
                self.to_send.pop();
                self.taken.insert(start..end);
                self.damaged += damage;
            }
            Err(Full) => std::thread::sleep(Duration::from_micros(100)),
        }
    }

    pub fn pass_on_news(&mut self) {
        self.reader.poll_hashes(&mut self.held_hashes);
        // Hashes travel on another stream: some come late.
        if self.rng.u8(..4) == 0 || self.to_send.is_empty() {
            for hash in self.held_hashes.drain(..) {
                self.sink.expect(hash);
            }
        }
        while let Some((entry, reason)) = self.reader.poll_failures() {
            self.sink.source_failed(entry, &reason);
        }
        while let Some(event) = self.sink.poll_event() {
            match event {
                SinkEvent::Bad { ranges } => {
                    self.bad += 1;
                    self.send_again(&ranges);
                }
                SinkEvent::Settled { confirmed, refused } => {
                    self.confirmed.extend(confirmed);
                    self.refused.extend(refused.iter().cloned());
                    self.send_again(&refused);
                }
                SinkEvent::Unwanted { ranges } => {
                    let (len, object_len) = (self.road.packet_len, self.layout.object_len());
                    self.unwanted.extend(ranges);
                    let unwanted = &self.unwanted;
                    let whole = |n: &u64| n * len..(n * len + len).min(object_len);
                    self.to_send.retain(|n| unwanted.gaps(&whole(n)).next().is_some());
                }
                SinkEvent::FileFailed(failure) => self.failures.push(failure.reason.line),
                SinkEvent::Warning(line) => self.warnings.push(line),
                SinkEvent::FileDone { .. } => {}
            }
        }
    }
}

impl Trip {
    fn send_again(&mut self, ranges: &Ranges) {
        let len = self.road.packet_len;
        for range in ranges.iter() {
            self.to_send.extend(range.start / len..(range.end - 1) / len + 1);
        }
    }
}

/// Packets that hold anything not in `have`.
fn packets(have: &Ranges, layout: &Layout, packet_len: u64) -> Vec<u64> {
    let mut packets = Vec::new();
    for gap in have.gaps(&(0..layout.object_len())) {
        for packet in gap.start / packet_len..(gap.end - 1) / packet_len + 1 {
            if packets.last() != Some(&packet) {
                packets.push(packet);
            }
        }
    }
    packets
}

/// Copy `source` to `dest` all the way.
pub fn copy(source: &Path, dest: &Path, road: Road) -> Report {
    copy_with(source, dest, road, &options())
}

pub fn copy_with(source: &Path, dest: &Path, road: Road, options: &FileOptions) -> Report {
    let scan = scan_of(source);
    assert_eq!(scan.errors, []);
    copy_scan(scan, dest, road, options)
}

pub fn copy_scan(scan: Scan, dest: &Path, road: Road, options: &FileOptions) -> Report {
    let plan = plan_of(&scan.manifest, dest, options).unwrap();
    let mut trip = Trip::begin(scan, plan, road);
    trip.run();
    trip.sink.suspend()
}

/// No file of ours is left below a folder.
pub fn assert_tidy(top: &Path) {
    for path in contents(top).keys() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(!name.contains(".longhaul-"), "left behind: {path:?}");
    }
}
