//! Measures the emulator against what a scenario asks for, from outside, with sockets on its two hosts.

mod gso;
mod hosts;
mod impairments;
mod path;
mod probe;
mod queues;
mod shared;
mod steps;

use crate::watched::Verdict;
use longhaul_testing::machine;

/// A measurement, which is repeated where the machine was disturbed.
fn measure(measure: impl FnMut() -> Verdict) {
    if let Some(_beside_others) = machine::measure_beside_others() {
        machine::repeat(measure);
    }
}

/// What no busy machine changes.
fn wait(test: impl FnOnce() -> Verdict) {
    if let Some(_shared) = machine::wait() {
        test().unwrap_or_else(|why| panic!("{why}"));
    }
}
