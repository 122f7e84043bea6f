//! The machine, which all tests of all test programs share. What measures has it to itself; all else runs side by
//! side.

use crate::process::may_build_labs;
use crate::skip;
use std::cell::RefCell;
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{env, io, thread};

/// The machine is not another's alone as long as this is there.
pub struct Hold(Arc<[File]>);

impl Hold {
    /// The same for a thread that works for the test which has it.
    pub fn lend(&self) -> Hold {
        HELD.set(Arc::downgrade(&self.0));
        Hold(self.0.clone())
    }
}

thread_local! {
    /// A thread, and so a test, holds the machine once.
    static HELD: RefCell<Weak<[File]>> = const { RefCell::new(Weak::<[File; 0]>::new()) };
}

/// For what measures over an emulated path. Nothing where no lab can be made or the test has been run elsewhere.
pub fn measure() -> Option<Hold> {
    may_build_labs().then(|| {
        assert!(HELD.with_borrow(|held| held.upgrade().is_none()), "this test shares the machine already");
        hold(|machine, turn| {
            // Many may be waiting for it.
            turn.lock_shared()?;
            machine.lock()?;
            Ok([machine, turn].into())
        })
    })
}

/// The same for what waits most of the time.
pub fn wait() -> Option<Hold> {
    may_build_labs().then(share)
}

/// For as long as a program runs. A test that has the machine to itself already keeps it so.
pub fn share() -> Hold {
    hold(|machine, turn| {
        // Those who measure go first: with others coming and going all the time they would wait till the end, each in the
        // place of a test that could run. A thread that a test has started, which has no name, does not let them: they
        // may be waiting for its test.
        if thread::current().name().is_some() {
            turn.lock()?;
        }
        machine.lock_shared()?;
        Ok([machine].into())
    })
}

/// Locks the machine, and whose turn it is.
fn hold(lock: impl FnOnce(File, File) -> io::Result<Arc<[File]>>) -> Hold {
    HELD.with_borrow_mut(|held| {
        let locked = held.upgrade().unwrap_or_else(|| {
            // The folder that all test programs lie in, and the one around it.
            let program = env::current_exe().expect("a process knows its program");
            let mut folders =
                program.ancestors().skip(1).map(|folder| File::open(folder).expect("it can be read"));
            let mut folder = || folders.next().expect("it is in a folder");
            lock(folder(), folder()).expect("a folder can be locked")
        });
        *held = Arc::downgrade(&locked);
        Hold(locked)
    })
}

/// Measure until it comes out as it should: what failed undisturbed may be repeated twice, what was disturbed more often.
/// Nothing if others kept the machine busy throughout, programs or other machines on the same hardware: then there is
/// nothing to be said of it but that.
pub fn repeat<T>(mut measure: impl FnMut() -> Result<T, String>) -> Option<T> {
    let (mut failed, mut always_taken) = (0, true);
    for attempt in 1.. {
        DISTURBED.store(false, Ordering::Relaxed);
        let (why, is_taken) = match beside_others(|| watch_pauses(&mut measure)) {
            Ok(found) => return Some(found),
            Err(failed) => failed,
        };
        always_taken &= is_taken;
        let disturbed = is_taken || DISTURBED.load(Ordering::Relaxed);
        println!("attempt {attempt}{}: {why}", if disturbed { ", disturbed" } else { "" });
        failed += u32::from(!disturbed);
        if attempt == ATTEMPTS_AT_ALL && always_taken {
            skip(&format!("others had the machine all the time: {why}"));
            return None;
        }
        assert!(failed < ATTEMPTS && attempt < ATTEMPTS_AT_ALL, "{why}");
        if disturbed {
            await_calm();
        }
    }
    unreachable!("attempts are limited")
}

/// What `work` gives; if it failed also whether others had a part of the machine: other machines on the same hardware
/// meanwhile, or programs that still run in the second after. What this program itself did is over by then.
pub fn beside_others<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, (E, bool)> {
    let before = ProcessorTimes::now();
    let done = work();
    let after = ProcessorTimes::now();
    note_disturbance(after.were_short_since(&before));
    done.map_err(|why| {
        thread::sleep(Duration::from_secs(1));
        let is_busy = ProcessorTimes::now().idle_share_since(&after) < IDLE_SHARE_MIN;
        (why, is_busy || after.stolen_share_since(&before) > STOLEN_SHARE_MAX)
    })
}

/// Wait for a second in which nothing keeps a thread from going on when it means to; a minute at most. What disturbs comes
/// in bursts, mostly from other machines on the same hardware.
pub fn await_calm() {
    let until = Instant::now() + CALM_PATIENCE;
    while Instant::now() < until {
        DISTURBED.store(false, Ordering::Relaxed);
        let before = ProcessorTimes::now();
        watch_pauses(|| thread::sleep(Duration::from_secs(1)));
        let is_idle = ProcessorTimes::now().idle_share_since(&before) >= IDLE_SHARE_MIN;
        if is_idle && !DISTURBED.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Of the measurement under way; there is only one.
static DISTURBED: AtomicBool = AtomicBool::new(false);

/// Something else kept the machine from what is being measured, if `disturbed`.
pub fn note_disturbance(disturbed: bool) {
    DISTURBED.fetch_or(disturbed, Ordering::Relaxed);
}

/// A thread went on this much later than it had meant to.
pub fn note_pause(pause: Duration) {
    note_disturbance(pause > PAUSE);
}

fn watch_pauses<T>(measure: impl FnOnce() -> T) -> T {
    /// Ends the watch also where the measurement panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Instant::now();
            while !over.load(Ordering::Relaxed) {
                thread::sleep(NAP);
                note_pause(last.elapsed().saturating_sub(NAP));
                last = Instant::now();
            }
        });
        let _over = Over(&over);
        measure()
    })
}

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
        self.idle_share_since(before) < 0.1 || self.stolen_share_since(before) > 0.1
    }

    fn stolen_share_since(&self, before: &ProcessorTimes) -> f64 {
        self.stolen.saturating_sub(before.stolen) as f64 / (self.all - before.all).max(1) as f64
    }

    fn idle_share_since(&self, before: &ProcessorTimes) -> f64 {
        self.idle.saturating_sub(before.idle) as f64 / (self.all - before.all).max(1) as f64
    }
}

/// Undisturbed ones.
const ATTEMPTS: u32 = 3;
const ATTEMPTS_AT_ALL: u32 = 8;
/// What a machine that does nothing but measure has to spare between two attempts.
const IDLE_SHARE_MIN: f64 = 0.7;
/// What other machines take now and then changes no measurement.
const STOLEN_SHARE_MAX: f64 = 0.03;
const CALM_PATIENCE: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(2);
/// More than an idle host's timers are late, and less than what shows in a measurement.
const PAUSE: Duration = Duration::from_millis(5);
