//! How fast files are read, stored and listed, without a network.
//!
//! ```sh
//! cargo run --release -p longhaul --example disk -- /dev/shm
//! ```

use longhaul::files::{Base, FileSink, Reader, Root, ScanOptions, SourceSpec, plan, scan};
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::session::manifest::{GROUP_LEN, Layout, Ranges};
use longhaul_proto::session::message::{FileOptions, GroupHash};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let top = folder.join(format!("longhaul-disk-{}", std::process::id()));
    let outcome = measure(&top);
    fs::remove_dir_all(&top)?;
    outcome
}

fn measure(top: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (large, small) = (top.join("large"), top.join("small"));
    fs::create_dir_all(&large)?;
    let mut bytes = vec![0; LARGE_LEN];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    fs::write(large.join("file"), &bytes)?;
    for n in 0..SMALL_COUNT {
        let folder = small.join(format!("{}", n / 1000));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{n}")), &bytes[n * 100..n * 100 + SMALL_LEN])?;
    }
    for (name, source) in [("one file of 1 GB", &large), ("20 000 files of 8 KB", &small)] {
        println!("{name}");
        read(source)?;
        // From the second time on the system has warm memory to give.
        for _ in 0..3 {
            store(source, &top.join("stored"), &bytes, source == &large)?;
            fs::remove_dir_all(top.join("stored"))?;
        }
    }
    Ok(())
}

fn read(source: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let bell = Arc::new(Bell::default());
    let start = Instant::now();
    let scan = Arc::new(list(source));
    println!("  listed in {:.3} s", start.elapsed().as_secs_f64());
    let layout = Arc::new(Layout::new(&scan.manifest));
    let mut reader =
        Reader::start(scan, layout.clone(), (&Ranges::new(), &Ranges::new()), bell.wake()).expect("threads");
    let (start, mut at, mut waits) = (Instant::now(), 0, 0);
    let (mut packet, mut hashes) = ([0; PACKET_LEN], Vec::new());
    while at < layout.object_len() {
        let len = PACKET_LEN.min((layout.object_len() - at) as usize);
        match reader.read_at(at, &mut packet[..len]) {
            Ok(()) => at += len as u64,
            Err(NotReady) => {
                waits += 1;
                bell.wait();
            }
        }
        reader.poll_hashes(&mut hashes);
    }
    print_rate("read and hashed", at, start.elapsed());
    println!("  waited {waits} times for the disk");
    Ok(())
}

fn store(source: &Path, dest: &Path, bytes: &[u8], is_large: bool) -> Result<(), Box<dyn std::error::Error>> {
    let scan = list(source);
    let layout = Arc::new(Layout::new(&scan.manifest));
    let hashes = if is_large { large_hashes(bytes) } else { small_hashes(&scan.manifest, bytes) };
    let start = Instant::now();
    let options = FileOptions { resume: true, ..FileOptions::default() };
    let plan = plan(&Base::new(Root::ambient(), dest), &scan.manifest, &options, &AtomicBool::default())?;
    println!("  compared in {:.3} s", start.elapsed().as_secs_f64());
    let bell = Arc::new(Bell::default());
    let manifest = Arc::new(scan.manifest);
    let mut object = Vec::new();
    if !is_large {
        for entry in 0..manifest.entries.len() {
            if let Some(n) = number(&manifest.entries[entry].path) {
                object.extend(&bytes[n * 100..n * 100 + SMALL_LEN]);
            }
        }
    }
    let object = if is_large { bytes } else { &object };
    let start = Instant::now();
    let mut sink = FileSink::start(plan, manifest, layout, bell.wake()).expect("threads");
    hashes.into_iter().for_each(|hash| sink.expect(hash));
    let (mut at, mut refused, mut on_network) = (0, 0, Duration::ZERO);
    while at < object.len() {
        let end = (at + PACKET_LEN).min(object.len());
        match sink.write_at(at as u64, &object[at..end]) {
            Ok(()) => at = end,
            Err(Full) => {
                refused += 1;
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        on_network = start.elapsed();
        while sink.poll_event().is_some() {}
    }
    while !sink.finished() {
        bell.wait();
        while sink.poll_event().is_some() {}
    }
    let report = sink.suspend();
    print_rate("stored, verified and landed", object.len() as u64, start.elapsed());
    println!(
        "  {} files, {} failed; packets taken after {:.3} s, room waited for {refused} times",
        report.files_done,
        report.failed.count(),
        on_network.as_secs_f64()
    );
    Ok(())
}

fn list(source: &Path) -> longhaul::files::Scan {
    scan(&Root::ambient(), &[SourceSpec { path: source.join("") }], &ScanOptions::default())
}

/// The number that a small file is named by.
fn number(path: &[u8]) -> Option<usize> {
    let name = path.strip_prefix(b".").unwrap_or(path);
    let (_, name) = std::str::from_utf8(name).ok()?.split_once('/')?;
    name.parse().ok()
}

fn small_hashes(manifest: &longhaul_proto::session::manifest::Manifest, bytes: &[u8]) -> Vec<GroupHash> {
    let hash = |(entry, path): (usize, &[u8])| {
        let n = number(path)?;
        let group = longhaul_proto::session::manifest::Group { entry: entry as u32, index: 0 };
        Some(GroupHash { group, hash: *blake3::hash(&bytes[n * 100..n * 100 + SMALL_LEN]).as_bytes() })
    };
    manifest.entries.iter().map(|e| e.path.as_slice()).enumerate().filter_map(hash).collect()
}

fn large_hashes(bytes: &[u8]) -> Vec<GroupHash> {
    use blake3::hazmat::HasherExt;
    let hash = |(index, group): (usize, &[u8])| {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(index as u64 * GROUP_LEN).update(group);
        let group = longhaul_proto::session::manifest::Group { entry: 1, index: index as u32 };
        GroupHash { group, hash: hasher.finalize_non_root() }
    };
    bytes.chunks(GROUP_LEN as usize).enumerate().map(hash).collect()
}

fn print_rate(what: &str, bytes: u64, took: Duration) {
    let seconds = took.as_secs_f64();
    println!("  {what} in {seconds:.3} s: {:.2} GB/s", bytes as f64 / seconds / 1e9);
}

#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    fn wake(self: &Arc<Bell>) -> longhaul::files::Wake {
        let bell = self.clone();
        Arc::new(move || {
            if let Ok(mut rung) = bell.rung.lock() {
                *rung = true;
                bell.heard.notify_all();
            }
        })
    }

    fn wait(&self) {
        if let Ok(rung) = self.rung.lock()
            && let Ok((mut rung, _)) =
                self.heard.wait_timeout_while(rung, Duration::from_millis(100), |rung| !*rung)
        {
            *rung = false;
        }
    }
}

const LARGE_LEN: usize = 1_000_000_000;
const SMALL_COUNT: usize = 20_000;
const SMALL_LEN: usize = 8192;
const PACKET_LEN: usize = 1400;
