//! What an experiment works with: how much to do, paths, and whether it is to stop.

use crate::report::{Statement, Verdict};
use crate::{ExperimentError, KeptRuns, Scale};
use longhaul_lab::{Lab, Scenario};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How an experiment runs.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How much is measured.
    pub scale: Scale,
    /// The emulated paths lose what follows from it. What processors and kernels do is not repeated by it.
    pub seed: u64,
    /// The program `longhaul`, which is measured.
    pub program: &'a Path,
    /// The program `longhaul-lab`, which is also the ends of streams and of plain copies.
    pub lab_program: &'a Path,
    /// Of an experiment over several paths: only those whose name contains this.
    pub only: Option<&'a str>,
    /// Set: come to an end soon, with [`ExperimentError::Interrupted`].
    pub stop: &'a AtomicBool,
    /// Told after each run how many are done, and of how many.
    pub progress: &'a dyn Fn(usize, usize),
    /// Where runs that are done are kept, and found again: those that do not depend on one before.
    pub kept: Option<&'a KeptRuns>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("scale", &self.scale)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// An experiment at work.
pub(crate) struct Bench<'a> {
    pub(crate) options: Options<'a>,
    total: Cell<usize>,
    done: Cell<usize>,
    /// Runs during which the host was too busy to emulate the path.
    late: Cell<usize>,
    /// Names of all paths that were asked about, and whether they are taken.
    parts: RefCell<Vec<(String, bool)>>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(options: Options<'a>) -> Bench<'a> {
        let [total, done, late] = [0; 3].map(Cell::new);
        Bench { options, total, done, late, parts: RefCell::default() }
    }

    /// The value for the scale that was asked for.
    pub(crate) fn pick<T>(&self, full: T, quick: T, smoke: T) -> T {
        self.options.scale.pick(full, quick, smoke)
    }

    /// Whether to take the path of this name: those that were asked for, or else those that are usual at this scale.
    pub(crate) fn wants(&self, name: &str, is_usual: bool) -> bool {
        let is_wanted = self.options.only.map_or(is_usual, |part| name.contains(part));
        self.parts.borrow_mut().push((name.to_owned(), is_wanted));
        is_wanted
    }

    /// Whether any is taken of all that [`wants`](Bench::wants) was asked about, if some were asked for.
    pub(crate) fn check_parts(&self) -> Result<(), ExperimentError> {
        let parts = self.parts.borrow();
        match self.options.only {
            Some(only) if !parts.iter().any(|(_, is_wanted)| *is_wanted) => {
                Err(ExperimentError::NoSuchPart {
                    only: only.into(),
                    parts: parts.iter().map(|(name, _)| name.clone()).collect(),
                })
            }
            _ => Ok(()),
        }
    }

    /// How many are taken of all that [`wants`](Bench::wants) was asked about.
    pub(crate) fn coverage(&self) -> Coverage {
        let parts = self.parts.borrow();
        self.coverage_of(parts.iter().filter(|(_, is_wanted)| *is_wanted).count(), parts.len())
    }

    /// So many were measured of all that a claim speaks of.
    pub(crate) fn coverage_of(&self, measured: usize, all: usize) -> Coverage {
        Coverage { measured, all, is_chosen: self.options.only.is_some() }
    }

    /// So many runs will be made.
    pub(crate) fn expect_runs(&self, runs: usize) {
        self.total.set(runs);
        (self.options.progress)(self.done.get(), runs);
    }

    /// A path.
    pub(crate) fn lab(&self, scenario: &Scenario) -> Result<Lab, ExperimentError> {
        Ok(Lab::start(&Scenario { seed: self.options.seed, ..scenario.clone() })?)
    }

    /// A run over `lab`, which is counted from zero and has its scenario's time begin before; a late emulator is noted.
    pub(crate) fn run<T>(
        &self,
        lab: &Lab,
        run: impl FnOnce() -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        self.check()?;
        lab.restart_clock()?;
        lab.reset_counters();
        // A failure after a signal is the signal's: it reached the children too.
        let result =
            run().map_err(|error| if self.is_stopped() { ExperimentError::Interrupted } else { error })?;
        self.note_late(lab.cpu_limited());
        self.count_run();
        Ok(result)
    }

    /// Whether the emulator was late in a run.
    pub(crate) fn note_late(&self, is_late: bool) {
        self.late.set(self.late.get() + usize::from(is_late));
    }

    /// The last run, in which it was, does not count.
    pub(crate) fn forget_late_run(&self) {
        self.late.update(|late| late - 1);
        self.done.update(|done| done - 1);
    }

    /// Runs so far in which it was, and all.
    pub(crate) fn late_runs(&self) -> (usize, usize) {
        (self.late.get(), self.done.get())
    }

    /// The figures are those of an earlier experiment, in which it was late in so many runs of so many.
    pub(crate) fn take_over(&self, (late, done): (usize, usize)) {
        self.late.set(late);
        self.done.set(done);
        (self.options.progress)(done, done);
    }

    /// A run is done.
    pub(crate) fn count_run(&self) {
        self.done.set(self.done.get() + 1);
        (self.options.progress)(self.done.get(), self.total.get().max(self.done.get()));
    }

    /// Let time pass.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), ExperimentError> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => thread::sleep(left.min(STOP_POLL)),
            }
        }
    }

    /// Go on, unless asked to stop.
    pub(crate) fn check(&self) -> Result<(), ExperimentError> {
        if self.is_stopped() { Err(ExperimentError::Interrupted) } else { Ok(()) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    /// What to say of the host, if there is anything.
    pub(crate) fn warning(&self) -> Option<String> {
        let (late, done) = (self.late.get(), self.done.get());
        (late > 0).then(|| {
            format!(
                "The host was too busy to emulate the path well in {late} of {done} runs; their figures prove little."
            )
        })
    }
}

/// How much was measured of what a claim speaks of as "every".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    measured: usize,
    all: usize,
    /// By whoever asked for some only; otherwise by the scale, at which these stand for all.
    is_chosen: bool,
}

impl Coverage {
    /// Say with a verdict how many of all `parts` it is from. That a claim holds on some that were chosen says nothing of the
    /// others; that it fails on one is enough.
    pub(crate) fn of_every(&self, parts: &str, mut statement: Statement) -> Statement {
        let Coverage { measured, all, is_chosen } = *self;
        if measured >= all {
            return statement;
        }
        let holds = matches!(statement.verdict, Verdict::Met | Verdict::Reproduced | Verdict::Better);
        let figures = &mut statement.figures;
        *figures = match (is_chosen, holds) {
            (true, true) => {
                format!("{figures}; holds on {measured} of {all} {parts}, the others were not measured")
            }
            _ => format!("{figures}; {measured} of {all} {parts} measured"),
        };
        if is_chosen && holds {
            statement.verdict = Verdict::Open;
        }
        statement
    }
}

/// How soon a wish to stop is noticed.
const STOP_POLL: Duration = Duration::from_millis(50);

/// For tests: a bench that takes what `only` says.
#[cfg(test)]
pub(crate) fn with_bench<T>(only: Option<&str>, run: impl FnOnce(&Bench<'_>) -> T) -> T {
    run(&Bench::new(options(only, &AtomicBool::new(false))))
}

/// For tests: a bench that ends when told to.
#[cfg(test)]
pub(crate) fn with_stop<T>(stop: &AtomicBool, run: impl FnOnce(&Bench<'_>) -> T) -> T {
    run(&Bench::new(options(None, stop)))
}

#[cfg(test)]
fn options<'a>(only: Option<&'a str>, stop: &'a AtomicBool) -> Options<'a> {
    let [program, lab_program] = ["longhaul", "longhaul-lab"].map(Path::new);
    Options {
        scale: Scale::Quick,
        seed: 1,
        program,
        lab_program,
        only,
        stop,
        progress: &|_, _| {},
        kept: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Claim;

    #[test]
    fn a_name_that_no_path_has_is_refused_and_the_paths_are_named() {
        let check = |only| {
            with_bench(only, |bench| {
                for name in ["100 Mb/s, 65 ms", "10 Mb/s"] {
                    bench.wants(name, false);
                }
                bench.check_parts()
            })
        };
        assert!(check(Some("65 ms")).is_ok() && check(None).is_ok());
        let error = check(Some("65ms")).unwrap_err().to_string();
        assert_eq!(error, "no path's name contains \"65ms\"; choose from: 100 Mb/s, 65 ms; 10 Mb/s");
    }

    #[test]
    fn a_claim_on_every_path_is_not_met_by_some_that_were_chosen() {
        let judged = |only, holds| {
            with_bench(only, |bench| {
                let taken = ["10 ms", "65 ms", "65 ms, loss"].map(|name| bench.wants(name, name != "10 ms"));
                let statement = Claim::ours("on every path").judge(holds, "at worst 3 %");
                (taken, bench.coverage().of_every("paths", statement))
            })
        };
        let (taken, some) = judged(Some("10"), true);
        assert_eq!((taken, some.verdict), ([true, false, false], Verdict::Open));
        assert_eq!(some.figures, "at worst 3 %; holds on 1 of 3 paths, the others were not measured");
        let (_, failed) = judged(Some("10"), false);
        assert_eq!(
            (failed.verdict, failed.figures.as_str()),
            (Verdict::NotMet, "at worst 3 %; 1 of 3 paths measured")
        );
        let (_, quick) = judged(None, true);
        assert_eq!(
            (quick.verdict, quick.figures.as_str()),
            (Verdict::Met, "at worst 3 %; 2 of 3 paths measured")
        );
        let (_, all) = judged(Some("ms"), true);
        assert_eq!((all.verdict, all.figures.as_str()), (Verdict::Met, "at worst 3 %"));
    }
}
