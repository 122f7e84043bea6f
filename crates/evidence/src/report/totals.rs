//! How many of the papers' claims hold here.

use super::results::{Entry, Group};
use super::{Origin, Results, Stored, Table, Unit, Verdict};

/// Claims of the papers in an experiment or more, each once.
#[derive(Clone, Copy, Default)]
struct Totals {
    claims: usize,
    /// As the paper says, or better.
    reproduced: usize,
    /// Under some of the conditions that the paper does not give.
    reproduced_where: usize,
    open: usize,
    /// Of all, those that hold where they were measured.
    measured: usize,
}

impl Results {
    /// A row for each paper, if there is any; a claim that was both measured and simulated counts by where it came off
    /// better.
    pub(super) fn totals(&self) -> Option<Table> {
        let mut rows: Vec<(&str, Totals)> =
            self.groups.iter().map(|group| (group.title.as_str(), Totals::of(group))).collect();
        rows.retain(|(_, totals)| totals.claims > 0);
        let all = rows.iter().fold(Totals::default(), |all, (_, totals)| all.and(*totals));
        rows.push(("all", all));
        let table = Table::of("totals", "The papers' claims", &rows)
            .text("paper", |(title, _)| *title)
            .column("claims", Unit::Number, |(_, one)| one.claims)
            .column(Verdict::Reproduced.words(), Unit::Number, |(_, one)| one.reproduced)
            .column(Verdict::ReproducedWhere.words(), Unit::Number, |(_, one)| one.reproduced_where)
            .column(Verdict::NotReproduced.words(), Unit::Number, |(_, one)| one.failed())
            .column(Verdict::Open.words(), Unit::Number, |(_, one)| one.open)
            .column("hold as measured", Unit::Number, |(_, one)| one.measured)
            .table();
        (all.claims > 0).then_some(table)
    }
}

impl Totals {
    fn of(group: &Group) -> Totals {
        group.entries.iter().fold(Totals::default(), |all, entry| all.and(Totals::of_entry(entry)))
    }

    fn of_entry(entry: &Entry) -> Totals {
        let mut totals = Totals::default();
        for claim in entry.claims().into_iter().filter(|claim| claim.paper.is_some()) {
            let found = |of: &Stored| of.statement(&claim.claim).map(|statement| statement.verdict);
            let verdicts: Vec<Verdict> = entry.results.iter().filter_map(found).collect();
            let measured = entry.results.iter().filter(|stored| stored.head.origin == Origin::Lab);
            totals.claims += 1;
            totals.measured += usize::from(measured.filter_map(found).any(Verdict::holds));
            match verdicts {
                all if all.contains(&Verdict::Reproduced) || all.contains(&Verdict::Better) => {
                    totals.reproduced += 1;
                }
                all if all.contains(&Verdict::ReproducedWhere) => totals.reproduced_where += 1,
                all if all.contains(&Verdict::NotReproduced) => {}
                _ => totals.open += 1,
            }
        }
        totals
    }

    fn failed(&self) -> usize {
        self.claims - self.reproduced - self.reproduced_where - self.open
    }

    fn and(self, other: Totals) -> Totals {
        Totals {
            claims: self.claims + other.claims,
            reproduced: self.reproduced + other.reproduced,
            reproduced_where: self.reproduced_where + other.reproduced_where,
            open: self.open + other.open,
            measured: self.measured + other.measured,
        }
    }
}
