//! The machine, which all tests of all test programs share. What measures has it to itself, or shares it with two other tests that
//! take little of it as well; all else runs side by side.

use crate::process::may_build_labs;
use crate::skip;
use std::cell::RefCell;
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use std::{env, io, thread};

/// The machine is not another's alone as long as this is there.
pub struct Hold {
    files: Arc<[File]>,
    _place: Option<Place>,
}

impl Hold {
    /// The same for a thread that works for the test which has it.
    pub fn lend(&self) -> Hold {
        HELD.set(Arc::downgrade(&self.files));
        Hold { files: self.files.clone(), _place: None }
    }
}

thread_local! {
    /// A thread, and so a test, holds the machine once.
    static HELD: RefCell<Weak<[File]>> = const { RefCell::new(Weak::<[File; 0]>::new()) };
}

/// For what measures over an emulated path. Nothing where no lab can be made or the test has been run elsewhere.
pub fn measure() -> Option<Hold> {
    may_build_labs().then(hold_alone)
}

/// The same for what takes little of the machine: other such tests of this program may measure beside it. What fails so is
/// measured once more alone, see [`repeat`].
pub fn measure_beside_others() -> Option<Hold> {
    may_build_labs().then(|| {
        let group = GROUP.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |group: &mut Group| group.measuring == GROUP_MAX;
        let mut group = GROUP.1.wait_while(group, is_full).unwrap_or_else(PoisonError::into_inner);
        let files = group.files.upgrade().unwrap_or_else(|| hold_alone().files);
        group.measuring += 1;
        group.files = Arc::downgrade(&files);
        HELD.set(group.files.clone());
        Hold { files, _place: Some(Place) }
    })
}

fn hold_alone() -> Hold {
    assert!(HELD.with_borrow(|held| held.upgrade().is_none()), "this test shares the machine already");
    hold(|machine, turn| {
        // Many may be waiting for it.
        turn.lock_shared()?;
        machine.lock()?;
        Ok([machine, turn].into())
    })
}

/// The tests that measure beside each other, and what they hold.
static GROUP: (Mutex<Group>, Condvar) =
    (Mutex::new(Group { measuring: 0, files: Weak::<[File; 0]>::new() }), Condvar::new());

struct Group {
    measuring: usize,
    files: Weak<[File]>,
}

/// That of one of a group.
struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        GROUP.0.lock().unwrap_or_else(PoisonError::into_inner).measuring -= 1;
        GROUP.1.notify_one();
    }
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
        Hold { files: locked, _place: None }
    })
}

/// Measure until it comes out as it should: what failed may be repeated twice, and what disturbed itself more often.
/// Nothing if others kept the machine busy all three times, programs or other machines on the same hardware: then there
/// is nothing to be said of it but that.
pub fn repeat<T>(mut measure: impl FnMut() -> Result<T, String>) -> Option<T> {
    /// The first attempts of a group go beside each other.
    static SIDE_BY_SIDE: RwLock<()> = RwLock::new(());
    let (mut failed, mut always_taken, mut disturbed) = (0, true, false);
    for attempt in 1.. {
        let beside = (attempt == 1).then(|| SIDE_BY_SIDE.read());
        let alone = (attempt > 1).then(|| SIDE_BY_SIDE.write());
        if disturbed {
            await_calm();
        }
        let before = DISTURBANCES.load(Ordering::Relaxed);
        let (why, is_taken) = match beside_others(|| watch_pauses(&mut measure)) {
            Ok(found) => return Some(found),
            Err(failed) => failed,
        };
        always_taken &= is_taken;
        drop((beside, alone));
        disturbed = is_taken || DISTURBANCES.load(Ordering::Relaxed) > before;
        println!("attempt {attempt}{}: {why}", if disturbed { ", disturbed" } else { "" });
        failed += u32::from(!disturbed);
        if attempt == ATTEMPTS && always_taken {
            skip(&format!("others had the machine all the time: {why}"));
            return None;
        }
        assert!(failed < ATTEMPTS && attempt < ATTEMPTS_AT_ALL, "{why}");
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

/// Wait for a second in which nothing keeps a thread from going on when it means to. What disturbs comes in bursts, mostly
/// from other machines on the same hardware; all that a program waits for it in vain is a minute, since a machine that is
/// busy for that long stays so.
pub fn await_calm() {
    static WAITED_S: AtomicU64 = AtomicU64::new(0);
    let mut waited_s = 0;
    while WAITED_S.load(Ordering::Relaxed) < CALM_PATIENCE_S {
        let (before, disturbances) = (ProcessorTimes::now(), DISTURBANCES.load(Ordering::Relaxed));
        watch_pauses(|| thread::sleep(Duration::from_secs(1)));
        let is_idle = ProcessorTimes::now().idle_share_since(&before) >= IDLE_SHARE_MIN;
        if is_idle && DISTURBANCES.load(Ordering::Relaxed) == disturbances {
            WAITED_S.fetch_sub(waited_s, Ordering::Relaxed);
            return;
        }
        waited_s += 1;
        WAITED_S.fetch_add(1, Ordering::Relaxed);
    }
}

/// Of all measurements of this program: one may be held to be disturbed by what disturbed another beside it.
static DISTURBANCES: AtomicU64 = AtomicU64::new(0);

/// Something else kept the machine from what is being measured, if `disturbed`.
pub fn note_disturbance(disturbed: bool) {
    DISTURBANCES.fetch_add(disturbed.into(), Ordering::Relaxed);
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

/// With three of them half of two processors is idle.
const GROUP_MAX: usize = 3;
/// That tell something: undisturbed ones, or as many that others took from the first on.
const ATTEMPTS: u32 = 3;
const ATTEMPTS_AT_ALL: u32 = 8;
/// What a machine that does nothing but measure has to spare between two attempts.
const IDLE_SHARE_MIN: f64 = 0.7;
/// What other machines take now and then changes no measurement.
const STOLEN_SHARE_MAX: f64 = 0.03;
const CALM_PATIENCE_S: u64 = 60;
const NAP: Duration = Duration::from_millis(2);
/// More than an idle host's timers are late, and less than what shows in a measurement.
const PAUSE: Duration = Duration::from_millis(5);
