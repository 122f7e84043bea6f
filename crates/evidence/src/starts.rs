//! Flows that meet on a path, each case with several starts: what comes of a meeting depends on who begins when. One
//! definition serves the simulator and emulated paths.

use crate::ExperimentError;
use crate::experiment::Backend;
use crate::lab::Bench;
use crate::lab::copiers::Payload;
use crate::meeting::{Meeting, Shares};
use crate::report::{Claim, Statement};
use crate::sim::run_jobs;
use longhaul_lab::{DirectionCounters, LabError};
use longhaul_proto::units::Time;
use longhaul_sim::metrics::Summary;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::rc::Rc;

/// Flows that meet.
pub(crate) trait Case: Clone + Sync {
    /// What statements call it.
    fn label(&self) -> String;

    /// Whether a claim is about it.
    fn is_of(&self, claim: Claim) -> bool;
}

/// Each case, with whether it is usual at this scale, is to take place with each start. What lies between the two times is
/// measured.
pub(crate) struct Extent<C, S: 'static> {
    pub cases: Vec<(C, bool)>,
    pub starts: &'static [S],
    pub from: Time,
    pub until: Time,
}

/// What came of a case, with each start.
pub(crate) struct CaseOutcomes<C, O> {
    pub case: C,
    pub outcomes: Vec<O>,
}

/// How all were run, and what came of them.
type Ran<C, O> = (Vec<String>, Vec<CaseOutcomes<C, O>>);

/// Whether a case passes, among all that took place.
type Judge<C, O> = fn(&CaseOutcomes<C, O>, &[CaseOutcomes<C, O>]) -> bool;

/// What a claim asks of each case that it is about.
pub(crate) struct Bar<C, O> {
    pub claim: Claim,
    pub holds: Judge<C, O>,
    /// Its figures, in words.
    pub figures: fn(&CaseOutcomes<C, O>) -> String,
}

/// How a case becomes flows that meet, and what is seen of these by either.
pub(crate) struct Ways<C, S: 'static, O> {
    pub meeting: fn(&Extent<C, S>, &C, &S, u64) -> Meeting,
    pub simulate: fn(&C, &Meeting) -> O,
    pub measured: fn(&C, Shares, &DirectionCounters) -> O,
}

impl<C: Case, S: Sync> Extent<C, S> {
    /// In full what lies between these seconds. Over emulated paths there is time for ours first and rivals first.
    pub fn new(
        backend: &Backend<'_>,
        cases: Vec<(C, bool)>,
        starts: &'static [S],
        seconds: [u64; 2],
    ) -> Extent<C, S> {
        let ms = seconds.map(|second| 1000 * second);
        let full = (backend.choose(starts, &starts[..2]), ms);
        let quick = (full.0, backend.choose(ms, QUICK_MS));
        let (starts, ms) = backend.pick(full, quick, (&starts[2..3], SMOKE_MS));
        let [from, until] = ms.map(Time::from_millis);
        Extent { cases, starts, from, until }
    }

    /// How it was run, and what came of it.
    pub fn run<O: Clone + Send + Serialize + DeserializeOwned>(
        &self,
        backend: &Backend<'_>,
        ways: &Ways<C, S, O>,
    ) -> Result<Ran<C, O>, ExperimentError> {
        let how = format!(
            "From {} s to {} s, as a share of what the link carries",
            self.from.as_secs_f64(),
            self.until.as_secs_f64()
        );
        match backend {
            Backend::Simulator(options) => {
                let cases: Vec<&C> =
                    self.cases.iter().filter(|(_, is_usual)| *is_usual).map(|(case, _)| case).collect();
                let with_each = |case| self.starts.iter().map(move |start| (case, start));
                let jobs: Vec<(&C, &S)> = cases.iter().copied().flat_map(with_each).collect();
                let outcomes = run_jobs(options, &jobs, |(case, start)| {
                    (ways.simulate)(case, &(ways.meeting)(self, case, start, options.seed))
                });
                let of_cases = cases.into_iter().zip(outcomes.chunks(self.starts.len()));
                let of_cases = of_cases
                    .map(|(case, outcomes)| CaseOutcomes { case: case.clone(), outcomes: outcomes.to_vec() });
                Ok((vec![format!("{how} of object bytes.")], of_cases.collect()))
            }
            Backend::Lab(bench) => {
                let (left_out, of_cases) = self.measure(bench, ways)?;
                let how = format!(
                    "{how} of whole IP packets, later where the last begins later. Copies by longhaul cp --transport object, \
                     each to a server of its own, by what arrives at its port; the kernel's TCP by what its programs get, \
                     with its headers."
                );
                Ok(([vec![how], left_out].concat(), of_cases))
            }
        }
    }

    /// Cases that could not be measured and why, and what came of the others. Each meeting has a path of its own.
    fn measure<O>(&self, bench: &Bench<'_>, ways: &Ways<C, S, O>) -> Result<Ran<C, O>, ExperimentError> {
        let is_wanted = |(case, is_usual): &&(C, bool)| bench.wants(&case.label(), *is_usual);
        let cases: Vec<&(C, bool)> = self.cases.iter().filter(is_wanted).collect();
        bench.check_parts()?;
        bench.expect_runs(cases.len() * self.starts.len());
        let of_case = |(case, _): &(C, bool)| {
            let meeting = |start| (ways.meeting)(self, case, start, bench.options.seed).after_all_began();
            (case.clone(), self.starts.iter().map(meeting).collect())
        };
        let cases: Vec<(C, Vec<Meeting>)> = cases.into_iter().map(of_case).collect();
        let payload = Meeting::payload(bench, cases.iter().flat_map(|(_, meetings)| meetings))?;
        let (mut left_out, mut of_cases) = (vec![], vec![]);
        'cases: for (case, meetings) in cases {
            let mut outcomes = vec![];
            for meeting in &meetings {
                match measure(bench, meeting, &payload)? {
                    Ok((shares, link)) => outcomes.push((ways.measured)(&case, shares, &link)),
                    Err(reason) => {
                        left_out.push((case.label(), reason));
                        continue 'cases;
                    }
                }
            }
            of_cases.push(CaseOutcomes { case, outcomes });
        }
        // What is judged by another of its name has no judge without it.
        of_cases.retain(|one| left_out.iter().all(|(label, _)| *label != one.case.label()));
        let left_out = left_out.iter().map(|(label, reason)| format!("Left out: {label}: {reason}."));
        Ok((left_out.collect(), of_cases))
    }

    /// Judge each claim by the cases that it is about.
    pub fn judge<O>(
        &self,
        backend: &Backend<'_>,
        bars: &[Bar<C, O>],
        all: &[CaseOutcomes<C, O>],
    ) -> Vec<Statement> {
        let judge = |bar: &Bar<C, O>| {
            let those: Vec<_> = all.iter().filter(|one| one.case.is_of(bar.claim)).collect();
            if those.is_empty() {
                return bar.claim.leave_open(backend.choose("not simulated at this scale", "not measured"));
            }
            let holds = those.iter().all(|one| (bar.holds)(one, all));
            let figures = those.iter().map(|one| format!("{}: {}", one.case.label(), (bar.figures)(one)));
            let statement = bar.claim.judge(holds, figures.collect::<Vec<_>>().join("; "));
            let Backend::Lab(bench) = backend else { return statement };
            let listed = self.cases.iter().filter(|(case, _)| case.is_of(bar.claim)).count();
            bench.coverage_of(those.len(), listed).of_every("rows", statement)
        };
        bars.iter().map(judge).collect()
    }
}

impl<C, O> CaseOutcomes<C, O> {
    /// A figure over all starts.
    pub fn over(&self, figure: impl Fn(&O) -> f64) -> Summary {
        Summary::of(self.outcomes.iter().map(figure))
    }
}

/// What came of it, or why nothing that would be a figure of the path's.
fn measure(
    bench: &Bench<'_>,
    meeting: &Meeting,
    payload: &Rc<Payload>,
) -> Result<Result<(Shares, DirectionCounters), String>, ExperimentError> {
    let mut reason = format!("the machine was too busy to emulate it, {TRIES} times");
    for _ in 0..TRIES {
        let (late, _) = bench.late_runs();
        match meeting.lab().and_then(|lab| meeting.measure(bench, &lab, payload)) {
            Ok(_) if bench.late_runs().0 > late => bench.forget_late_run(),
            Ok(found) => return Ok(Ok(found)),
            Err(ExperimentError::Lab(error @ LabError::NoCongestionControl { .. })) => {
                return Ok(Err(error.to_string()));
            }
            Err(error @ ExperimentError::Program { .. }) => reason = error.to_string(),
            Err(error) => return Err(error),
        }
    }
    bench.count_run();
    Ok(Err(reason))
}

/// Over emulated paths, in milliseconds: when most copies have come to a share, and for as long as minutes allow.
const QUICK_MS: [u64; 2] = [8000, 14_000];
const SMOKE_MS: [u64; 2] = [1200, 1600];
/// What the machine disturbs is measured again.
const TRIES: u32 = 2;
