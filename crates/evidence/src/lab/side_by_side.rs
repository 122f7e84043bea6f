//! Several paths at a time: runs that wait for their paths most of the time need not wait for each other.

use super::bench::Bench;
use crate::{ExperimentError, KeptRuns};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Tells a run on a thread of its own when it is to end early.
#[derive(Clone, Copy)]
pub(crate) struct Halt<'a> {
    stop: &'a AtomicBool,
    /// Another run failed.
    failed: &'a AtomicBool,
    /// What this goes along with is over.
    over: Option<&'a AtomicBool>,
}

impl<'a> Halt<'a> {
    /// For what goes along with a run: to end when that is over, too.
    pub(crate) fn until(self, over: &'a AtomicBool) -> Halt<'a> {
        Halt { over: Some(over), ..self }
    }

    /// Go on, unless there is no use in it.
    pub(crate) fn check(self) -> Result<(), ExperimentError> {
        let flags = [Some(self.stop), Some(self.failed), self.over];
        let is_over = flags.into_iter().flatten().any(|flag| flag.load(Ordering::Relaxed));
        if is_over { Err(ExperimentError::Interrupted) } else { Ok(()) }
    }

    /// Let time pass.
    pub(crate) fn sleep(self, span: Duration) -> Result<(), ExperimentError> {
        let end = Instant::now() + span;
        loop {
            self.check()?;
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => thread::sleep(left.min(POLL)),
            }
        }
    }
}

/// What came of a run, and whether the emulator was late in it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outcome<T> {
    pub(crate) of: T,
    pub(crate) is_late: bool,
}

/// Do all jobs but those that are kept, `at_a_time` of them at a time, begun in their order. Each makes its own path. The
/// first that fails ends all.
pub(crate) fn side_by_side<J: Sync, T: Send + Serialize + DeserializeOwned>(
    bench: &Bench<'_>,
    at_a_time: usize,
    jobs: &[J],
    run: impl Fn(&J, Halt<'_>) -> Result<Outcome<T>, ExperimentError> + Sync,
) -> Result<Vec<T>, ExperimentError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let halt = Halt { stop: bench.options.stop, failed: &failed, over: None };
    let batch = bench.options.kept.map(KeptRuns::batch);
    let mut found: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let mut problem = None;
    thread::scope(|scope| {
        let (sender, results) = channel();
        for _ in 0..at_a_time.min(jobs.len()) {
            let (sender, run, next, batch) = (sender.clone(), &run, &next, batch.as_ref());
            scope.spawn(move || {
                while let (number, Ok(())) = (next.fetch_add(1, Ordering::Relaxed), halt.check()) {
                    let Some(job) = jobs.get(number) else { return };
                    let done = match batch.and_then(|batch| batch.get(number)) {
                        Some(kept) => Ok(kept),
                        None => run(job, halt).inspect(|outcome| {
                            batch.iter().for_each(|batch| batch.keep(number, outcome));
                        }),
                    };
                    // The other end lives until all threads have ended.
                    let _ = sender.send((number, done));
                }
            });
        }
        drop(sender);
        for (number, result) in results {
            match result {
                Ok(outcome) => {
                    bench.note_late(outcome.is_late);
                    bench.count_run();
                    found[number] = Some(outcome.of);
                }
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    // The others are interrupted because of the first.
                    problem.get_or_insert(error);
                }
            }
        }
    });
    bench.check()?;
    match problem {
        Some(error) => Err(error),
        None => found.into_iter().collect::<Option<_>>().ok_or(ExperimentError::Interrupted),
    }
}

/// How soon a wish to stop is noticed.
const POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bench::with_stop as with_bench;

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_late_ones_are_noted() {
        with_bench(&AtomicBool::new(false), |bench| {
            let jobs: Vec<u32> = (0..20).collect();
            let squares =
                side_by_side(bench, 3, &jobs, |&job, _| Ok(Outcome { of: job * job, is_late: job == 7 }));
            assert_eq!(squares.unwrap(), jobs.iter().map(|job| job * job).collect::<Vec<_>>());
            assert!(bench.warning().is_some_and(|text| text.contains("in 1 of 20 runs")));
        });
    }

    #[test]
    fn the_first_failure_ends_all() {
        with_bench(&AtomicBool::new(false), |bench| {
            let failed = side_by_side(bench, 2, &[1, 2, 3, 4], |&job, halt: Halt<'_>| {
                if job == 2 {
                    let reason = "no".into();
                    return Err(ExperimentError::Program { program: "it".into(), reason });
                }
                halt.sleep(Duration::from_secs(3600))?;
                Ok(Outcome { of: (), is_late: false })
            });
            assert!(matches!(failed, Err(ExperimentError::Program { .. })), "{failed:?}");
        });
    }

    #[test]
    fn what_goes_along_with_a_run_ends_for_each_of_three_reasons() {
        let flags = [const { AtomicBool::new(false) }; 3];
        let halt = Halt { stop: &flags[0], failed: &flags[1], over: None }.until(&flags[2]);
        assert!(halt.check().is_ok());
        for flag in &flags {
            flag.store(true, Ordering::Relaxed);
            assert!(halt.check().is_err());
            flag.store(false, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wish_to_stop_ends_all() {
        with_bench(&AtomicBool::new(true), |bench| {
            let stopped = side_by_side(bench, 2, &[1, 2], |_, _| Ok(Outcome { of: (), is_late: false }));
            assert!(matches!(stopped, Err(ExperimentError::Interrupted)), "{stopped:?}");
        });
    }
}
