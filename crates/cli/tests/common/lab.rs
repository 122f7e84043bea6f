//! Tests over an emulated path. They have a harness of their own: an ordinary user must enter a user namespace before
//! the first thread starts, and some need the machine for themselves.

use super::{Ended, LONGHAUL, Running, Server, undisturbed};
use longhaul_lab::{End, Lab, Scenario};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A name and what it stands for.
pub type Test = (&'static str, fn());

/// Run those tests whose name contains one of the program's arguments (all if there are none), `at_once` of them at a
/// time. Without the privileges that a lab needs they are skipped, which is said.
pub fn run(tests: &[Test], at_once: usize) -> ExitCode {
    if let Err(error) = longhaul_lab::ensure_privileges() {
        println!("{} tests skipped: {error}", tests.len());
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen: Vec<&Test> = tests
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((name, test)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // On a thread of its own that bears its name, for what is said of it.
                    let thread = thread::Builder::new().name((*name).into()).spawn(*test);
                    let passed = thread.expect("a thread can be started").join().is_ok();
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    failed.fetch_add(usize::from(!passed), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner();
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {failed} failed; {} filtered out",
        chosen.len() - failed,
        tests.len() - chosen.len()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measure until it comes out as it should, three times at most. What the host had too little time for counts only if it
/// came out well, and is repeated more often. Returns what was measured.
pub fn repeat<T>(lab: &Lab, mut measure: impl FnMut() -> Result<T, String>) -> T {
    let mut failed = 0;
    for attempt in 1.. {
        lab.reset_counters();
        let before = ProcessorTimes::now();
        let why = match measure() {
            Ok(found) => return found,
            Err(why) => why,
        };
        let disturbed = lab.cpu_limited() || ProcessorTimes::now().were_short_since(&before);
        println!("attempt {attempt}{}: {why}", if disturbed { ", disturbed" } else { "" });
        failed += u32::from(!disturbed);
        assert!(failed < ATTEMPTS && attempt < ATTEMPTS_AT_ALL, "{why}");
        // What keeps the machine busy may pass.
        thread::sleep(Duration::from_secs(1));
    }
    unreachable!("attempts are limited")
}

/// Undisturbed ones.
const ATTEMPTS: u32 = 3;
const ATTEMPTS_AT_ALL: u32 = 8;

/// What the host's processors did since it was started, in units of the kernel's.
struct ProcessorTimes {
    idle: u64,
    /// What other machines on the same hardware had of it.
    stolen: u64,
    all: u64,
}

impl ProcessorTimes {
    fn now() -> ProcessorTimes {
        let text = fs::read_to_string("/proc/stat").expect("the kernel says it");
        let first = text.lines().next().expect("a line for all processors");
        let times: Vec<u64> = first.split_whitespace().skip(1).map_while(|time| time.parse().ok()).collect();
        // user, nice, system, idle, waiting for a disk, two kinds of interrupts, stolen.
        ProcessorTimes { idle: times[3] + times[4], stolen: times[7], all: times[..8].iter().sum() }
    }

    /// Whether there was less than a tenth to spare, or others had more than a tenth.
    fn were_short_since(&self, before: &ProcessorTimes) -> bool {
        let all = self.all - before.all;
        self.idle.saturating_sub(before.idle) * 10 < all
            || self.stolen.saturating_sub(before.stolen) * 10 > all
    }
}

/// A path, and a server at its far end.
pub struct Haul {
    /// The path.
    pub lab: Lab,
    /// At its right end.
    pub server: Server,
}

impl Haul {
    /// Serve `root` at the far end of a path.
    pub fn start(scenario: &Scenario, root: &Path) -> Haul {
        Haul::start_with(scenario, root, |_| {})
    }

    /// The same; `furnish` may change how the server is started.
    pub fn start_with(scenario: &Scenario, root: &Path, furnish: impl FnOnce(&mut Command)) -> Haul {
        let lab = Lab::start(scenario).expect("a lab can be made here");
        let mut command = undisturbed(lab.command(End::Right, LONGHAUL));
        furnish(&mut command);
        let listen = format!("{}:0", lab.address(End::Right));
        let server = Server::start_with(command, root, &["--listen", &listen]);
        Haul { lab, server }
    }

    /// `cp --json` at the near end, not yet started.
    pub fn cp_command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.server.cp_by(undisturbed(self.lab.command(End::Left, LONGHAUL)), args)
    }

    /// Start `cp --json` at the near end.
    pub fn start_cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        Running::start(&mut self.cp_command(args))
    }

    /// Run `cp --json` at the near end.
    pub fn cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ended {
        self.start_cp(args).finish()
    }
}
