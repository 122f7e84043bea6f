//! A lab that tells when it was disturbed.

use longhaul_lab::{Lab, Scenario};
use longhaul_testing::machine::note_disturbance;
use std::ops::Deref;
use std::thread;

/// A lab that says in the end whether it was disturbed.
pub struct Watched(Lab);

/// What was wrong, in one line.
pub type Verdict = Result<(), String>;

pub fn start(scenario: &Scenario) -> Result<Watched, String> {
    Lab::start(scenario).map(Watched).map_err(|error| error.to_string())
}

pub fn check(holds: bool, complaint: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(complaint()) }
}

/// Measure all cases at once, each over a path of its own, where together they leave much of the machine idle.
pub fn side_by_side<C: Send, T: Send, const N: usize>(
    cases: [C; N],
    measure: impl Fn(C) -> Result<T, String> + Sync,
) -> Result<[T; N], String> {
    thread::scope(|scope| {
        let measure = &measure;
        let running = cases.map(|case| scope.spawn(move || measure(case)));
        let found = running.map(|case| case.join().unwrap_or_else(|_| Err("panicked".into())));
        let found: Result<Vec<T>, String> = found.into_iter().collect();
        found.map(|found| found.try_into().unwrap_or_else(|_| unreachable!("one for each case")))
    })
}

impl Deref for Watched {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        note_disturbance(self.0.cpu_limited());
    }
}
