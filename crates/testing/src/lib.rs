//! What the test programs of several crates share: programs that run, trees of files, and the machine itself, which
//! a test that measures needs to itself.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod documents;
pub mod machine;
pub mod process;
pub mod relay;
pub mod rich;
pub mod running;
pub mod tree;

use std::io::Write;
use std::thread::{current, sleep};
use std::time::{Duration, Instant};

/// Wait until `done`, which must be so soon.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not after {PATIENCE:?}");
        sleep(Duration::from_millis(2));
    }
}

/// Say that the test that asks is skipped, and why; also where the harness hides what passing tests print.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", current().name().unwrap_or("a test"));
}

/// Longer than anything that these tests wait for takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
