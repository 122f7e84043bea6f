//! What an experiment is.

use crate::lab::{self, Bench};
use crate::report::{Claim, Findings, Origin, Report, Table};
use crate::{ExperimentError, sim};
use longhaul_sim::scenario::Scenario;
use std::fmt;

/// A path that comes with the project, as `scenarios/` has it.
pub(crate) fn path(name: &str) -> Scenario {
    Scenario::named(name).unwrap_or_else(|error| panic!("it comes with the program: {error}"))
}

/// A question, what is claimed of its answer, and how it is put: by the simulator, over emulated paths, or by either.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// What is claimed, by a paper or by us; the report judges each.
    pub claims: &'static [Claim],
    /// Over emulated paths it looks at several, of which a run may take some only.
    pub has_parts: bool,
    /// Over emulated paths it needs the whole machine: processors are its limit, or hosts that are a little late are.
    pub is_alone: bool,
    /// Its runs are those of one before it.
    pub shares_runs: bool,
    /// Whether it minds [`sim::Options::contestants`].
    pub takes_contestants: bool,
    /// Why what is measured and what is simulated may be far apart.
    pub differs: Option<&'static str>,
    run: Run,
}

/// Who can run an experiment.
#[derive(Clone, Copy)]
enum Run {
    Simulator(fn(&sim::Options<'_>) -> Findings),
    Lab(fn(&Bench<'_>) -> Result<Findings, ExperimentError>),
    Either(fn(&Backend<'_>) -> Result<Findings, ExperimentError>),
}

/// Who runs an experiment.
pub(crate) enum Backend<'a> {
    /// The simulator, on virtual time.
    Simulator(sim::Options<'a>),
    /// Real programs and the kernel's TCP over emulated paths.
    Lab(Bench<'a>),
}

impl Backend<'_> {
    /// The value for the scale that was asked for.
    pub(crate) fn pick<T>(&self, full: T, quick: T, smoke: T) -> T {
        let scale = match self {
            Backend::Simulator(options) => options.scale,
            Backend::Lab(bench) => bench.options.scale,
        };
        scale.pick(full, quick, smoke)
    }

    /// The value for whoever runs it.
    pub(crate) fn choose<T>(&self, simulator: T, lab: T) -> T {
        match self {
            Backend::Simulator(_) => simulator,
            Backend::Lab(_) => lab,
        }
    }
}

impl Experiment {
    /// One for the simulator.
    pub(crate) const fn simulated(
        id: &'static str,
        title: &'static str,
        claims: &'static [Claim],
        simulate: fn(&sim::Options<'_>) -> Findings,
    ) -> Experiment {
        Experiment::new(id, title, claims, Run::Simulator(simulate))
    }

    /// One for emulated paths.
    pub(crate) const fn measured(
        id: &'static str,
        title: &'static str,
        claims: &'static [Claim],
        measure: fn(&Bench<'_>) -> Result<Findings, ExperimentError>,
    ) -> Experiment {
        Experiment::new(id, title, claims, Run::Lab(measure))
    }

    /// One that either can run.
    pub(crate) const fn either(
        id: &'static str,
        title: &'static str,
        claims: &'static [Claim],
        run: fn(&Backend<'_>) -> Result<Findings, ExperimentError>,
    ) -> Experiment {
        Experiment::new(id, title, claims, Run::Either(run))
    }

    const fn new(id: &'static str, title: &'static str, claims: &'static [Claim], run: Run) -> Experiment {
        Experiment {
            id,
            title,
            claims,
            has_parts: false,
            is_alone: false,
            shares_runs: false,
            takes_contestants: false,
            differs: None,
            run,
        }
    }

    /// The same, of several paths.
    pub(crate) const fn in_parts(mut self) -> Experiment {
        self.has_parts = true;
        self
    }

    /// The same, for a machine that does nothing else meanwhile.
    pub(crate) const fn alone(mut self) -> Experiment {
        self.is_alone = true;
        self
    }

    /// The same, of what another one before it has measured.
    pub(crate) const fn of_shared_runs(mut self) -> Experiment {
        self.shares_runs = true;
        self
    }

    /// The same, for contestants of the user's choice.
    pub(crate) const fn for_contestants(mut self) -> Experiment {
        self.takes_contestants = true;
        self
    }

    /// The same, with the reason why what is measured and what is simulated may be far apart.
    pub(crate) const fn differing(mut self, why: &'static str) -> Experiment {
        self.differs = Some(why);
        self
    }

    /// Whether the simulator can run it.
    pub fn can_be_simulated(&self) -> bool {
        !matches!(self.run, Run::Lab(_))
    }

    /// Whether it can be run over emulated paths.
    pub fn can_be_measured(&self) -> bool {
        !matches!(self.run, Run::Simulator(_))
    }

    /// Who can run it; the first is who does where no other is asked for.
    pub fn origins(&self) -> &'static [Origin] {
        match self.run {
            Run::Simulator(_) => &[Origin::Simulator],
            Run::Lab(_) => &[Origin::Lab],
            Run::Either(_) => &[Origin::Lab, Origin::Simulator],
        }
    }

    /// What the file of such a result is called, without its extension.
    pub fn file_stem(&self, origin: Origin) -> String {
        if origin == self.origins()[0] { self.id.into() } else { format!("{}.{}", self.id, origin.words()) }
    }

    /// Simulate, and report.
    ///
    /// # Panics
    /// If it cannot be simulated.
    pub fn simulate(&self, options: &sim::Options<'_>) -> Report {
        let findings = match self.run {
            Run::Simulator(simulate) => simulate(options),
            Run::Either(run) => run(&Backend::Simulator(*options)).expect("nothing fails on virtual time"),
            Run::Lab(_) => panic!("{} is not for the simulator", self.id),
        };
        let mut report = findings.report(self.id, self.title);
        // What only real programs and hosts have.
        report.tables.iter_mut().for_each(Table::drop_empty_columns);
        report
    }

    /// Measure over emulated paths, and report.
    ///
    /// # Panics
    /// If it cannot be measured.
    pub fn measure(&self, options: &lab::Options<'_>) -> Result<Report, ExperimentError> {
        let backend = Backend::Lab(Bench::new(*options));
        let Backend::Lab(bench) = &backend else { unreachable!("it was made so") };
        let mut findings = match self.run {
            Run::Lab(measure) => measure(bench)?,
            Run::Either(run) => run(&backend)?,
            Run::Simulator(_) => panic!("{} is not for emulated paths", self.id),
        };
        bench.check_parts()?;
        findings.method.extend(bench.warning());
        Ok(findings.report(self.id, self.title))
    }
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("id", &self.id).finish_non_exhaustive()
    }
}
