//! What experiments in the simulator work with.

mod contestant;
mod over;
mod single;

pub use contestant::Contestant;
pub use over::over;
pub(crate) use single::{Single, SingleResult, payload_rate, run_singles};

use crate::Scale;
use longhaul_sim::parallel;
use std::fmt;

/// How an experiment runs.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How much is simulated.
    pub scale: Scale,
    /// Everything random follows from it.
    pub seed: u64,
    /// Simulations that run side by side; no result depends on it.
    pub threads: usize,
    /// Who takes part, in experiments that leave it open; none: everybody.
    pub contestants: &'a [Contestant],
    /// Told after each simulation how many are done, and of how many.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Default for Options<'_> {
    /// All of it, seed 1, one thread, everybody.
    fn default() -> Self {
        Options { scale: Scale::Full, seed: 1, threads: 1, contestants: &[], progress: &|_, _| {} }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("scale", &self.scale)
            .field("seed", &self.seed)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Options<'_> {
    pub(crate) fn contestants_or_all(&self) -> Vec<Contestant> {
        if self.contestants.is_empty() { Contestant::all() } else { self.contestants.to_vec() }
    }
}

/// Run jobs, `options.threads` at a time; the results come in the order of the jobs.
pub(crate) fn run_jobs<J: Sync, R: Send>(
    options: &Options<'_>,
    jobs: &[J],
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    parallel::run_all(jobs, options.threads, run, |done| (options.progress)(done, jobs.len()))
}
