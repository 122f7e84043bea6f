//! Whether the host kept a measurement's threads, or the emulator's, from running when they should.

use longhaul_lab::Lab;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Measurements run one at a time.
static NOTED: AtomicBool = AtomicBool::new(false);

/// Measure, and say whether it was disturbed.
pub fn watch<T>(measure: impl FnOnce() -> T) -> (T, bool) {
    NOTED.store(false, Ordering::Relaxed);
    let over = AtomicBool::new(false);
    let measured = thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Instant::now();
            while !over.load(Ordering::Relaxed) {
                thread::sleep(NAP);
                note_pause(last.elapsed().saturating_sub(NAP));
                last = Instant::now();
            }
        });
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        measured
    });
    (measured, NOTED.load(Ordering::Relaxed))
}

/// A thread went on this much later than it had meant to.
pub fn note_pause(pause: Duration) {
    if pause > PAUSE {
        NOTED.store(true, Ordering::Relaxed);
    }
}

/// A lab that says in the end whether it was disturbed.
pub struct Watched(pub Lab);

impl Deref for Watched {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.0.cpu_limited() {
            NOTED.store(true, Ordering::Relaxed);
        }
    }
}

const NAP: Duration = Duration::from_millis(2);
/// More than an idle host's timers are late, and less than what shows in a measurement.
const PAUSE: Duration = Duration::from_millis(5);
