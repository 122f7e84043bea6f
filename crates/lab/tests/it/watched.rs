//! A lab that tells when it was disturbed.

use longhaul_lab::{Lab, Scenario};
use longhaul_testing::machine::note_disturbance;
use std::ops::Deref;

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
