//! How many of the papers' claims hold here.

use super::results::{Entry, Group};
use super::{Origin, Results, Stored, Table, Unit, Verdict};

/// What came of a paper's claim.
#[derive(Clone, Copy)]
struct Outcome {
    /// Where it came off better, of measured and simulated.
    best: Verdict,
    /// Whether it holds where it was measured.
    holds_as_measured: bool,
}

impl Results {
    /// A row for each paper, if there is any; a claim that was both measured and simulated counts by where it came off
    /// better.
    pub(super) fn totals(&self) -> Option<Table> {
        let of = |group: &Group| group.entries.iter().flat_map(outcomes).collect::<Vec<_>>();
        let mut rows: Vec<(&str, Vec<Outcome>)> =
            self.groups.iter().map(|group| (group.title.as_str(), of(group))).collect();
        rows.retain(|(_, outcomes)| !outcomes.is_empty());
        let all = rows.iter().flat_map(|(_, outcomes)| outcomes).copied().collect();
        rows.push(("all", all));
        let table = Table::of("totals", "The papers' claims", &rows)
            .text("paper", |(title, _)| *title)
            .column("claims", Unit::Number, |(_, outcomes)| outcomes.len())
            .columns(&FROM_BEST.map(Verdict::words), Unit::Number, |(_, outcomes), at| {
                outcomes.iter().filter(|one| one.best == FROM_BEST[at]).count()
            })
            .column("hold as measured", Unit::Number, |(_, outcomes)| {
                outcomes.iter().filter(|one| one.holds_as_measured).count()
            })
            .table();
        (rows.len() > 1).then_some(table)
    }
}

/// Of each claim of a paper's in an experiment.
fn outcomes(entry: &Entry) -> Vec<Outcome> {
    let claims = entry.claims().into_iter().filter(|claim| claim.paper.is_some());
    let outcome = |claim: &str| {
        let verdict = |of: &Stored| match of.statement(claim)?.verdict {
            // As the paper says, and more.
            Verdict::Better => Some(Verdict::Reproduced),
            verdict => Some(verdict),
        };
        let verdicts: Vec<Verdict> = entry.results.iter().filter_map(verdict).collect();
        let measured = entry.results.iter().filter(|stored| stored.head.origin == Origin::Lab);
        Outcome {
            best: FROM_BEST.into_iter().find(|one| verdicts.contains(one)).unwrap_or(Verdict::Open),
            holds_as_measured: measured.filter_map(verdict).any(Verdict::holds),
        }
    };
    claims.map(|claim| outcome(&claim.claim)).collect()
}

const FROM_BEST: [Verdict; 4] =
    [Verdict::Reproduced, Verdict::ReproducedWhere, Verdict::NotReproduced, Verdict::Open];
