//! What is swept, and what comes of it.

use super::measured::Ground;
use super::run::{Fobs, Runs, Session};
use super::simulated::{Hosts, Transfer};
use crate::ExperimentError;
use crate::experiment::Backend;
use crate::lab::bench::Bench;
use crate::sim::{Options, run_jobs};
use longhaul_lab::Scenario;

/// Copies over one path, by FOBS in several variants and by longhaul's default, one after the other in each round.
pub(super) struct Sweep {
    /// In the order of the variants.
    pub(super) fobs: Vec<Runs>,
    /// The simulator's hosts are the paper's, for which longhaul's default is not made.
    pub(super) default: Option<Runs>,
    pub(super) session: Session,
}

/// What is swept.
pub(super) struct Plan<'a> {
    pub(super) paths: &'a [Scenario],
    pub(super) bytes: u64,
    /// Over emulated paths; a simulation is the same each time.
    pub(super) rounds: usize,
    pub(super) variants: &'a [Fobs],
    /// Of the simulator.
    pub(super) hosts: Hosts,
    /// Over emulated paths both ends get a millisecond of a processor in so many, if any.
    pub(super) period_ms: Option<u32>,
}

impl Plan<'_> {
    /// A sweep of each path.
    pub(super) fn run(&self, backend: &Backend<'_>) -> Result<Vec<Sweep>, ExperimentError> {
        Plan::run_all(std::slice::from_ref(self), backend)
    }

    /// The sweeps of all plans, one after another.
    pub(super) fn run_all(plans: &[Plan<'_>], backend: &Backend<'_>) -> Result<Vec<Sweep>, ExperimentError> {
        match backend {
            Backend::Simulator(options) => Ok(plans.iter().flat_map(|plan| plan.simulate(options)).collect()),
            Backend::Lab(bench) => {
                let runs = |plan: &Plan<'_>| plan.paths.len() * plan.rounds * (plan.variants.len() + 2);
                bench.expect_runs(plans.iter().map(runs).sum());
                let paths = plans.iter().flat_map(|plan| plan.paths.iter().map(move |path| (plan, path)));
                paths.map(|(plan, path)| plan.measure(bench, path)).collect()
            }
        }
    }

    fn simulate(&self, options: &Options<'_>) -> Vec<Sweep> {
        let jobs: Vec<(&Scenario, &Fobs)> =
            self.paths.iter().flat_map(|path| self.variants.iter().map(move |fobs| (path, fobs))).collect();
        let done = run_jobs(options, &jobs, |(path, fobs)| {
            let path = Scenario { seed: options.seed, ..(*path).clone() };
            Transfer::of(fobs, path, self.hosts, self.bytes).run()
        });
        let runs = done.iter().zip(&jobs).map(|(done, (path, fobs))| {
            done.map_or_else(|| Runs::without_end(never_ended(path, fobs)), Runs::of)
        });
        let runs: Vec<Runs> = runs.collect();
        let of_path =
            |runs: &[Runs]| Sweep { fobs: runs.to_vec(), default: None, session: Session::default() };
        runs.chunks(self.variants.len()).map(of_path).collect()
    }

    fn measure(&self, bench: &Bench<'_>, path: &Scenario) -> Result<Sweep, ExperimentError> {
        let ground = Ground::open(bench, path, self.bytes)?;
        let ground = match self.period_ms {
            Some(period_ms) => ground.slowed(period_ms)?,
            None => ground,
        };
        let (mut fobs, mut default) = (vec![Runs::default(); self.variants.len()], Runs::default());
        let mut session = Session::default();
        for _ in 0..self.rounds {
            ground.session(&mut session)?;
            ground.default(&mut default)?;
            for (variant, runs) in self.variants.iter().zip(&mut fobs) {
                ground.fobs(*variant, runs)?;
            }
        }
        Ok(Sweep { fobs, default: Some(default), session })
    }
}

fn never_ended(path: &Scenario, fobs: &Fobs) -> String {
    let Fobs { ack_every, batch, .. } = fobs;
    format!(
        "F = {ack_every}, B = {batch} over the {}: waits for an acknowledgement that never comes",
        path.name
    )
}

impl Sweep {
    pub(super) fn all(&self) -> impl Iterator<Item = &Runs> {
        self.fobs.iter().chain(&self.default)
    }

    /// What longhaul's default got of this rate.
    pub(super) fn default_share(&self, mbit: f64) -> Option<f64> {
        self.default.as_ref()?.share(mbit)
    }

    /// Made of figures.
    #[cfg(test)]
    pub(super) fn of(fobs: Vec<Runs>, default: Runs) -> Sweep {
        Sweep { fobs, default: Some(default), session: Session::default() }
    }
}
