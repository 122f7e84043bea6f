//! The experiments of the papers, and our own, as programs that run in the simulator.
//!
//! An [`Experiment`] says beforehand what the paper claims; [`Experiment::run`] simulates and hands back a [`Report`]:
//! tables of figures, and a [`Statement`] on each claim whose verdict is computed from the figures. What is shown, and
//! how, is the caller's affair.

mod contestant;
mod fairness;
mod fobs;
mod grid;
mod host;
mod over;
pub mod pcp;
mod plot;
pub mod ptcp;
mod report;
mod single;
mod switch;

pub use contestant::Contestant;
pub use over::over;
pub use plot::{Plot, PlotKind};
pub use report::{Claim, Column, Report, Source, Statement, Table, Unit, Value, Verdict};

use crate::parallel;
use longhaul_proto::suggest::unknown;
use std::fmt;

/// Something to simulate, and what is said of it.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// What is claimed, by a paper or by us; the report judges each.
    pub claims: &'static [Claim],
    /// Whether it minds [`Options::contestants`].
    pub takes_contestants: bool,
    simulate: fn(&Options<'_>) -> Findings,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("id", &self.id).finish_non_exhaustive()
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// What the paper did, as far as it says.
    #[default]
    Full,
    /// The same with fewer repetitions or points: within a minute on two cores.
    Quick,
    /// Just enough to see that the experiment works; its figures mean nothing.
    Smoke,
}

impl Scale {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Full => "full",
            Scale::Quick => "quick",
            Scale::Smoke => "smoke",
        }
    }

    /// The value for this scale.
    pub fn pick<T>(self, full: T, quick: T, smoke: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
            Scale::Smoke => smoke,
        }
    }
}

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
    fn contestants_or_all(&self) -> Vec<Contestant> {
        if self.contestants.is_empty() { Contestant::all() } else { self.contestants.to_vec() }
    }
}

/// What an experiment hands to its report.
#[derive(Debug, Default)]
pub struct Findings {
    /// What was done and what is measured, a sentence or two each.
    pub method: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
    /// What they say of each claim.
    pub statements: Vec<Statement>,
}

impl Experiment {
    /// Simulate, and report.
    pub fn run(&self, options: &Options<'_>) -> Report {
        let Findings { method, tables, statements } = (self.simulate)(options);
        Report { id: self.id.into(), title: self.title.into(), method, tables, statements }
    }
}

/// Run jobs, `options.threads` at a time; the results come in the order of the jobs.
fn run_jobs<J: Sync, R: Send>(options: &Options<'_>, jobs: &[J], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    parallel::run_all(jobs, options.threads, run, |done| (options.progress)(done, jobs.len()))
}

/// Every experiment, in the order of a list.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    GROUPS.iter().flat_map(|group| group.experiments)
}

/// The experiment of that name, or a line that names near matches.
pub fn find(id: &str) -> Result<&'static Experiment, String> {
    all().find(|one| one.id == id).ok_or_else(|| unknown("experiment", id, all().map(|one| one.id)))
}

/// Experiments that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Where they come from.
    pub title: &'static str,
    /// In order.
    pub experiments: &'static [Experiment],
}

/// Every experiment, by where it comes from.
pub const GROUPS: &[Group] = &[
    Group { title: "FOBS: Dickens and Gropp, object-based data transfers", experiments: fobs::EXPERIMENTS },
    Group { title: "PCP: congestion control by probing, over wide-area paths", experiments: pcp::WIDE_AREA },
    Group { title: "PCP: on a shared link", experiments: pcp::SIMULATIONS },
    Group { title: "Parallel TCP: five variants on a test-bed", experiments: ptcp::EXPERIMENTS },
    Group { title: "Our own", experiments: &[grid::GRID, fairness::FAIRNESS, switch::SWITCH] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_are_found() {
        let mut ids: Vec<_> = all().map(|one| one.id).collect();
        assert!(ids.iter().all(|id| find(id).is_ok_and(|one| one.id == *id)));
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        let error = find("grdi").unwrap_err();
        assert_eq!(error, "there is no experiment \"grdi\"; did you mean grid?");
    }

    #[test]
    fn every_experiment_runs_and_answers_its_claims() {
        for experiment in all() {
            let report = experiment.run(&Options { scale: Scale::Smoke, threads: 2, ..Options::default() });
            let answered: Vec<_> =
                report.statements.iter().map(|statement| statement.claim.as_str()).collect();
            let claimed: Vec<_> = experiment.claims.iter().map(|claim| claim.text).collect();
            assert_eq!(answered, claimed, "{}", experiment.id);
            assert!(!report.method.is_empty(), "{}", experiment.id);
            assert!(report.tables.iter().any(|table| !table.rows.is_empty()), "{}", experiment.id);
            assert!(report.tables.iter().any(|table| !table.plots.is_empty()), "{}", experiment.id);
        }
    }
}
