//! Claims under several conditions, where a paper does not say under which one it was measured.

use super::{Findings, Statement, Table, Verdict};

/// What came of each claim under each condition: the same claims in the same order. The first condition is the one that
/// our own claims are for.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    /// In words.
    name: String,
    /// What came of the claims under it.
    statements: Vec<Statement>,
    /// What came of other claims on the same runs, which another report has.
    beside: Vec<Statement>,
}

impl Condition {
    /// Whether all of the paper's claims hold, those that another report has among them.
    fn all_hold(&self) -> bool {
        of_papers(&self.statements).chain(of_papers(&self.beside)).all(|one| one.verdict.holds())
    }
}

impl Plane {
    /// One more condition, in words, and what came of the claims under it.
    pub fn push(&mut self, condition: impl Into<String>, statements: Vec<Statement>) {
        self.push_beside(condition, statements, vec![]);
    }

    /// The same where another report has other claims on the same runs, of which this came: they hold together, or do not.
    pub fn push_beside(
        &mut self,
        condition: impl Into<String>,
        statements: Vec<Statement>,
        beside: Vec<Statement>,
    ) {
        self.conditions.push(Condition { name: condition.into(), statements, beside });
    }

    /// What is to be said of each claim: that it holds wherever it was looked at, where it does, or nowhere.
    pub(crate) fn statements(&self) -> Vec<Statement> {
        let claims = self.conditions.first().map_or(0, |first| first.statements.len());
        (0..claims).map(|claim| self.statement(claim)).collect()
    }

    /// What an experiment hands to its report: these, and before its own tables that of where they hold, if it looked at several
    /// places.
    pub fn findings(&self, mut method: Vec<String>, tables: impl IntoIterator<Item = Table>) -> Findings {
        method.extend(self.together());
        let where_they_hold = (self.conditions.len() > 1).then(|| self.table());
        let tables = where_they_hold.into_iter().chain(tables).collect();
        Findings { method, tables, statements: self.statements() }
    }

    /// Where all of the paper's claims hold, which were measured in one place.
    fn together(&self) -> Option<String> {
        let first = self.conditions.first()?;
        let claims = of_papers(&first.statements).chain(of_papers(&first.beside)).count();
        let of = self.conditions.len();
        if of < 2 || claims < 2 {
            return None;
        }
        let holding = self.conditions.iter().filter(|one| one.all_hold());
        let names: Vec<&str> = holding.map(|one| one.name.as_str()).collect();
        Some(match names.is_empty() {
            true => format!("{NOWHERE} {of} conditions do all of the paper's claims hold together."),
            false => format!("{TOGETHER}: {} ({} of {of}).", names.join("; "), names.len()),
        })
    }

    fn statement(&self, claim: usize) -> Statement {
        let first = &self.conditions[0].statements[claim];
        if first.paper.is_none() || self.conditions.len() == 1 {
            return first.clone();
        }
        let of = |wanted: fn(Verdict) -> bool| -> Vec<_> {
            let all = self.conditions.iter().map(|one| (&one.name, &one.statements[claim]));
            all.filter(|(_, statement)| wanted(statement.verdict)).collect()
        };
        let (holds, fails) = (of(Verdict::holds), of(|verdict| verdict == Verdict::NotReproduced));
        let opens = of(|verdict| verdict == Verdict::Open);
        let Some((condition, held)) = holds.first() else {
            let Some((_, failed)) = fails.first() else { return first.clone() };
            let open =
                if opens.is_empty() { String::new() } else { format!(", {} of them open", opens.len()) };
            return Statement {
                figures: format!(
                    "nowhere we looked ({} conditions{open}); {}",
                    fails.len() + opens.len(),
                    failed.figures
                ),
                ..(*failed).clone()
            };
        };
        // Where nothing can be said it does not hold either.
        let Some((elsewhere, failed)) = fails.first().or(opens.first()) else { return (*held).clone() };
        let named = holds.iter().take(NAMED).map(|(condition, _)| condition.as_str());
        let more = holds.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("{more} more of {}", self.conditions.len()));
        let conditions: Vec<&str> = named.chain(more.as_deref()).collect();
        Statement {
            figures: format!(
                "{}; at {condition}: {}; but at {elsewhere}: {}",
                conditions.join("; "),
                held.figures,
                failed.figures
            ),
            verdict: Verdict::ReproducedWhere,
            ..(*failed).clone()
        }
    }

    /// A row for each condition, a column for each of the papers' claims in their order.
    fn table(&self) -> Table {
        let statements = self.conditions.first().map_or(&[][..], |first| &first.statements);
        let rows = Table::of(
            "conditions",
            "Where the paper's claims hold, which are listed below",
            &self.conditions,
        )
        .text("conditions", |one| one.name.as_str());
        let papers = (0..statements.len()).filter(|claim| statements[*claim].paper.is_some());
        let rows = papers.enumerate().fold(rows, |rows, (number, claim)| {
            rows.text(format!("claim {}", number + 1), move |one| one.statements[claim].verdict.words())
        });
        rows.table()
    }
}

/// Whether this line of a method says where all of a paper's claims hold.
pub(super) fn tells_together(line: &str) -> bool {
    [NOWHERE, TOGETHER].iter().any(|beginning| line.starts_with(beginning))
}

fn of_papers(statements: &[Statement]) -> impl Iterator<Item = &Statement> {
    statements.iter().filter(|one| one.paper.is_some())
}

const NOWHERE: &str = "Under none of the";
const TOGETHER: &str = "All of the paper's claims hold together under";
/// Conditions under which a claim holds that are named in a sentence. All are in the table.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Claim;

    const PAPER: Claim = Claim::paper("PSockets §4", "it rises");
    const OURS: Claim = Claim::ours("we are faster");

    fn plane(found: &[Option<bool>]) -> Plane {
        let mut plane = Plane::default();
        for (at, holds) in found.iter().enumerate() {
            let paper =
                holds.map_or(PAPER.leave_open("too few"), |holds| PAPER.judge(holds, format!("{at} %")));
            plane.push(format!("queue {at}"), vec![paper.otherwise("too slow"), OURS.judge(at == 0, "")]);
        }
        plane
    }

    fn verdicts(found: &[Option<bool>]) -> Vec<Verdict> {
        plane(found).statements().iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn a_claim_holds_everywhere_somewhere_or_nowhere_and_ours_is_for_the_first_condition() {
        use Verdict::{Met, NotReproduced, Open, Reproduced, ReproducedWhere};
        assert_eq!(verdicts(&[Some(true), Some(true)]), [Reproduced, Met]);
        assert_eq!(verdicts(&[Some(false), Some(true)]), [ReproducedWhere, Met]);
        assert_eq!(verdicts(&[Some(false), Some(false)]), [NotReproduced, Met]);
        assert_eq!(verdicts(&[None, None]), [Open, Met]);
        assert_eq!(verdicts(&[None, Some(true)]), [ReproducedWhere, Met]);
        assert_eq!(verdicts(&[None, Some(false)]), [NotReproduced, Met]);
        assert!(verdicts(&[]).is_empty());
    }

    #[test]
    fn where_it_holds_is_named_with_figures_from_there_and_from_elsewhere() {
        let found = plane(&[Some(false), Some(true), Some(true)]).statements();
        assert_eq!(found[0].figures, "queue 1; queue 2; at queue 1: 1 %; but at queue 0: 0 %");
        assert_eq!(found[0].remark.as_deref(), Some("too slow"));
        let nowhere = plane(&[Some(false), None]).statements();
        assert_eq!(nowhere[0].figures, "nowhere we looked (2 conditions, 1 of them open); 0 %");
        assert_eq!(plane(&[Some(false)]).statements()[0].figures, "0 %");
    }

    #[test]
    fn where_all_claims_of_a_paper_hold_together_is_said() {
        let mut plane = Plane::default();
        for (at, [one, other]) in [[true, false], [false, true], [true, true]].into_iter().enumerate() {
            plane.push(format!("queue {at}"), vec![PAPER.judge(one, ""), PAPER.judge(other, "")]);
        }
        let told = plane.together().unwrap();
        assert_eq!(told, "All of the paper's claims hold together under: queue 2 (1 of 3).");
        assert!(tells_together(&told));
        plane.conditions.pop();
        assert_eq!(plane.statements()[1].verdict, Verdict::ReproducedWhere);
        assert_eq!(
            plane.together().unwrap(),
            "Under none of the 2 conditions do all of the paper's claims hold together."
        );
    }

    #[test]
    fn claims_that_another_report_has_must_hold_together_with_these() {
        let told = |elsewhere: [bool; 2]| {
            let mut plane = Plane::default();
            for (at, holds) in elsewhere.into_iter().enumerate() {
                let beside = vec![PAPER.judge(holds, "")];
                plane.push_beside(format!("queue {at}"), vec![PAPER.judge(true, "")], beside);
            }
            assert_eq!(plane.statements().len(), 1, "the others are told elsewhere");
            plane.together().unwrap()
        };
        assert!(told([false, true]).ends_with("under: queue 1 (1 of 2)."), "{}", told([false, true]));
        assert!(told([false; 2]).starts_with(NOWHERE));
    }

    #[test]
    fn one_condition_has_no_table() {
        let tables = |found| plane(found).findings(vec![], []).tables.len();
        assert_eq!((tables(&[Some(true)]), tables(&[Some(true), Some(false)])), (0, 1));
    }

    #[test]
    fn the_table_has_what_came_of_the_papers_claims_under_each_condition() {
        let table = plane(&[Some(false), Some(true)]).table();
        assert_eq!((table.columns.len(), table.rows.len()), (2, 2));
    }
}
