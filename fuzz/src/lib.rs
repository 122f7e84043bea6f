//! Hostile bytes for everything that parses: each [`Target`] takes any bytes and panics if what it guards misbehaves.
//!
//! The same targets run in two ways: under libFuzzer, which learns from coverage, and in
//! the program `longhaul-fuzz`, which any compiler builds: it mutates known inputs at random, from a seed, for a given
//! number of runs, and is part of `make test`.

pub mod mutate;
mod targets;

pub use targets::TARGETS;

/// Something that takes bytes from strangers.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Give it bytes. Panics if a property does not hold.
    pub run: fn(&[u8]),
    /// One run takes so many times as long as one of most targets: it gets so many times fewer.
    pub weight: u64,
    /// Inputs that reach deep, to be mutated.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// The target of that name.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
