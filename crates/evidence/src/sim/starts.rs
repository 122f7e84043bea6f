//! Flows that meet on a path, each case with several starts: what comes of a meeting depends on who begins when.

use super::{Options, run_jobs};
use crate::report::{Claim, Statement};
use longhaul_proto::units::Time;
use longhaul_sim::metrics::Summary;

/// Flows that meet.
pub(crate) trait Case: Clone + Sync {
    /// What statements call it.
    fn label(&self) -> String;

    /// Whether a claim is about it.
    fn is_of(&self, claim: Claim) -> bool;
}

/// What is simulated: each case with each start. What lies between the two times is measured.
pub(crate) struct Extent<C, S: 'static> {
    pub cases: Vec<C>,
    pub starts: &'static [S],
    pub from: Time,
    pub until: Time,
}

/// What came of a case, with each start.
pub(crate) struct CaseOutcomes<C, O> {
    pub case: C,
    pub outcomes: Vec<O>,
}

/// Whether a case passes, among all that were simulated.
type Judge<C, O> = fn(&CaseOutcomes<C, O>, &[CaseOutcomes<C, O>]) -> bool;

/// What a claim asks of each case that it is about.
pub(crate) struct Bar<C, O> {
    pub claim: Claim,
    pub holds: Judge<C, O>,
    /// Its figures, in words.
    pub figures: fn(&CaseOutcomes<C, O>) -> String,
}

impl<C: Case, S: Sync> Extent<C, S> {
    /// The same, for [`Scale::Smoke`](crate::Scale::Smoke).
    pub fn smoke(self) -> Extent<C, S> {
        let [from, until] = [400, 800].map(Time::from_millis);
        Extent { starts: &self.starts[..1], from, until, ..self }
    }

    pub fn run<O: Clone + Send>(
        &self,
        options: &Options<'_>,
        simulate: impl Fn(&C, &S) -> O + Sync,
    ) -> Vec<CaseOutcomes<C, O>> {
        let with_each = |case| self.starts.iter().map(move |start| (case, start));
        let jobs: Vec<(&C, &S)> = self.cases.iter().flat_map(with_each).collect();
        let outcomes = run_jobs(options, &jobs, |(case, start)| simulate(case, start));
        let of_cases = self.cases.iter().zip(outcomes.chunks(self.starts.len()));
        of_cases
            .map(|(case, outcomes)| CaseOutcomes { case: case.clone(), outcomes: outcomes.to_vec() })
            .collect()
    }

    /// The first words of the experiment's method.
    pub fn method(&self) -> String {
        let [from, until] = [self.from, self.until].map(Time::as_secs_f64);
        format!("From {from:.0} s to {until:.0} s, as a share of what the link carries of object bytes")
    }
}

impl<C, O> CaseOutcomes<C, O> {
    /// A figure over all starts.
    pub fn over(&self, figure: impl Fn(&O) -> f64) -> Summary {
        Summary::of(self.outcomes.iter().map(figure))
    }
}

/// Judge each claim by the cases that it is about.
pub(crate) fn judge<C: Case, O>(bars: &[Bar<C, O>], all: &[CaseOutcomes<C, O>]) -> Vec<Statement> {
    let judge = |bar: &Bar<C, O>| {
        let those: Vec<&CaseOutcomes<C, O>> = all.iter().filter(|one| one.case.is_of(bar.claim)).collect();
        if those.is_empty() {
            return bar.claim.leave_open("not simulated at this scale");
        }
        let holds = those.iter().all(|one| (bar.holds)(one, all));
        let figures = those.iter().map(|one| format!("{}: {}", one.case.label(), (bar.figures)(one)));
        bar.claim.judge(holds, figures.collect::<Vec<_>>().join("; "))
    };
    bars.iter().map(judge).collect()
}
