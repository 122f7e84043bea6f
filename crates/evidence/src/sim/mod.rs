//! What experiments in the simulator work with.

mod contestant;
mod over;
mod single;

pub use contestant::Contestant;
pub use over::over;
pub(crate) use single::{Single, SingleResult, payload_rate, run_singles};

use crate::{KeptRuns, Scale};
use longhaul_proto::control::ControllerKind;
use longhaul_sim::flow::{Protocol, TcpFlow};
use longhaul_sim::parallel;
use serde::Serialize;
use serde::de::DeserializeOwned;
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
    /// Where simulations that are done are kept, and found again.
    pub kept: Option<&'a KeptRuns>,
}

impl Default for Options<'_> {
    /// All of it, seed 1, one thread, everybody.
    fn default() -> Self {
        Options {
            scale: Scale::Full,
            seed: 1,
            threads: 1,
            contestants: &[],
            progress: &|_, _| {},
            kept: None,
        }
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

/// TCP as up to 2006, with NewReno's rule and SACK, and windows beyond 64 KB or not.
pub(crate) fn classic_tcp(large_windows: bool) -> Protocol {
    let mut flow = TcpFlow { classic: true, ..TcpFlow::new(ControllerKind::NewReno) };
    flow.config.window_scaling = large_windows;
    Protocol::Tcp(flow)
}

/// Run jobs but those that are kept, `options.threads` at a time; the results come in the order of the jobs.
pub(crate) fn run_jobs<J: Sync, R: Send + Serialize + DeserializeOwned>(
    options: &Options<'_>,
    jobs: &[J],
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let batch = options.kept.map(KeptRuns::batch);
    let numbered: Vec<(usize, &J)> = jobs.iter().enumerate().collect();
    let run = |&(number, job): &(usize, &J)| {
        let kept = batch.as_ref().and_then(|batch| batch.get(number));
        kept.unwrap_or_else(|| {
            let result = run(job);
            batch.iter().for_each(|batch| batch.keep(number, &result));
            result
        })
    };
    parallel::run_all(&numbered, options.threads, run, |done| (options.progress)(done, jobs.len()))
}
