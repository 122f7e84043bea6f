//! Copies as a program that embeds the library makes them: several in one process.

use longhaul::daemon::policy::{Access, Policy};
use longhaul::{
    Cause, CopyOptions, FileOptions, Location, Observer, Phase, Progress, Rate, Remark, ServeOptions,
    Summary, Transport,
};
use longhaul_testing::relay::Relay;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TOKEN: &str = "a token that only this test knows";

/// A daemon on loopback, until it is dropped.
struct Daemon {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start(root: &Path) -> Daemon {
        Daemon::start_at("127.0.0.1:0", root)
    }

    fn start_at(listen: &str, root: &Path) -> Daemon {
        let stop = Arc::new(AtomicBool::new(false));
        let policy = Policy::one_folder(root, TOKEN.into(), Access::ReadWrite);
        let options = ServeOptions::new(listen.parse().unwrap(), policy).unwrap();
        let (told, bound) = mpsc::channel();
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            longhaul::serve(options, flag, |at| told.send(at).unwrap()).unwrap();
        });
        Daemon { at: bound.recv().unwrap(), stop, thread: Some(thread) }
    }

    fn place(&self, path: &str) -> Location {
        Location::parse(&format!("longhaul://{}/{path}", self.at).into()).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// When remarks were made, and the phases that were told, each once.
#[derive(Default)]
struct Story(Vec<f64>, Vec<Phase>);

impl Observer for Story {
    fn remark(&mut self, remark: Remark) {
        self.0.push(remark.at_seconds);
    }

    fn progress(&mut self, progress: &Progress) {
        if self.1.last() != Some(&progress.phase) {
            self.1.push(progress.phase);
        }
    }
}

fn options() -> CopyOptions {
    CopyOptions { token: Some(TOKEN.into()), history: None, ..CopyOptions::default() }
}

fn copy(from: &Path, to: &Location, options: &CopyOptions, observer: &mut dyn Observer) -> Summary {
    longhaul::copy(&[Location::Local(from.into())], to, options, observer, Arc::default()).unwrap()
}

#[test]
fn seconds_count_from_the_copy_or_the_probe_and_not_from_an_earlier_one() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("file"), [7; 100_000]).unwrap();
    let daemon = Daemon::start(there.path());
    let file = here.path().join("file");
    let first = copy(&file, &daemon.place("first"), &options(), &mut ());
    let (began, mut story) = (Instant::now(), Story::default());
    let second = copy(&file, &daemon.place("second"), &options(), &mut story);
    let took = began.elapsed().as_secs_f64();
    assert!(first.ok && second.ok, "{first:?} {second:?}");
    assert!(second.seconds <= took, "{} of {took}", second.seconds);
    assert!(!story.0.is_empty() && story.0.iter().all(|at| *at <= took), "{:?} of {took}", story.0);
    let began = Instant::now();
    let trial = Duration::from_millis(200);
    let probe = longhaul::probe(&daemon.place(""), &options(), trial, &mut (), Arc::default()).unwrap();
    let took = began.elapsed().as_secs_f64();
    assert!(probe.ok && probe.seconds <= took, "{} of {took}", probe.seconds);
    // Who knows of an earlier start says so.
    let began = Instant::now() - Duration::from_secs(3600);
    let third =
        copy(&file, &daemon.place("third"), &CopyOptions { began: Some(began), ..options() }, &mut ());
    assert!(third.seconds >= 3600.0, "{}", third.seconds);
}

#[test]
fn a_caller_can_tell_why_a_copy_was_not_made() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("file"), [7; 100_000]).unwrap();
    let daemon = Daemon::start(there.path());
    let file = Location::Local(here.path().join("file"));
    let cause = |to: Location, options: &CopyOptions, is_stopped: bool| {
        let stop = Arc::new(AtomicBool::new(is_stopped));
        longhaul::copy(std::slice::from_ref(&file), &to, options, &mut (), stop).unwrap_err().cause()
    };
    let stranger = CopyOptions { token: Some("another token".into()), ..options() };
    assert_eq!(cause(daemon.place("copy"), &stranger, false), Cause::WrongToken);
    assert_eq!(cause(daemon.place("copy"), &options(), true), Cause::Interrupted);
    let relay = Relay::start(daemon.at);
    relay.block_udp();
    let blocked = Location::parse(&relay.url("copy").into()).unwrap();
    let by_udp = CopyOptions { transport: Transport::Object, ..options() };
    assert_eq!(cause(blocked, &by_udp, false), Cause::UdpBlocked);
}

#[test]
fn the_path_mtu_holds_the_headers_of_the_ip_version_in_use() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("file"), [7; 100_000]).unwrap();
    let options = CopyOptions { transport: Transport::Object, packet_size: Some(1200), ..options() };
    for (listen, headers) in [("127.0.0.1:0", 28), ("[::1]:0", 48)] {
        if UdpSocket::bind(listen).is_err() {
            eprintln!("skipped: no {listen} here");
            continue;
        }
        let daemon = Daemon::start_at(listen, there.path());
        let pushed = copy(&here.path().join("file"), &daemon.place("file"), &options, &mut ());
        assert_eq!(pushed.path_mtu, 1200 + headers, "{listen}");
        let back = Location::Local(here.path().join(format!("back-{headers}")));
        let pulled = longhaul::copy(&[daemon.place("file")], &back, &options, &mut (), Arc::default());
        assert_eq!(pulled.unwrap().path_mtu, 1200 + headers, "{listen}");
        let trial = Duration::from_millis(200);
        let probe = longhaul::probe(&daemon.place(""), &options, trial, &mut (), Arc::default()).unwrap();
        assert_eq!(probe.path_mtu, Some(1200 + headers), "{listen}");
        std::fs::remove_file(there.path().join("file")).unwrap();
    }
}

#[test]
fn all_that_a_copy_can_be_told_has_a_name_here() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["kept", "left.out"] {
        std::fs::write(here.path().join(name), name).unwrap();
    }
    let daemon = Daemon::start(there.path());
    let files = FileOptions { exclude: vec!["*.out".into()], ..FileOptions::default() };
    let options = CopyOptions { rate: Some(Rate::from_mbps(500.0)), files, ..options() };
    let summary = copy(here.path(), &daemon.place("copy"), &options, &mut ());
    assert_eq!((summary.ok, summary.files, summary.failures), (true, 1, vec![]));
}

#[test]
fn connecting_and_comparing_are_told_while_no_data_moves_yet() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("file"), vec![7; 3_000_000]).unwrap();
    let (daemon, [mut pushed, mut pulled]) =
        (Daemon::start(there.path()), [(); 2].map(|()| Story::default()));
    assert!(copy(&here.path().join("file"), &daemon.place("file"), &options(), &mut pushed).ok);
    let back = Location::Local(here.path().join("back"));
    let from = [daemon.place("file")];
    assert!(longhaul::copy(&from, &back, &options(), &mut pulled, Arc::default()).unwrap().ok);
    for Story(_, phases) in [pushed, pulled] {
        assert_eq!(phases[..2], [Phase::Connecting, Phase::Comparing], "{phases:?}");
    }
}
