//! What an experiment found: tables, and verdicts on claims.

use super::Table;
use serde::{Deserialize, Serialize};

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The experiment's name.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// What was simulated and what is measured, a sentence or two each.
    pub method: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
    /// What they say of each claim.
    pub statements: Vec<Statement>,
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

impl Findings {
    /// The report of the experiment of that name.
    pub fn report(self, id: &str, title: &str) -> Report {
        let Findings { method, tables, statements } = self;
        Report { id: id.into(), title: title.into(), method, tables, statements }
    }
}

/// What is said of an experiment before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who says so.
    pub source: Source,
    /// What, with the figure where there is one.
    pub text: &'static str,
}

/// Who makes a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A paper, at this place.
    Paper(&'static str),
    /// We do: a bar that our own protocols are to pass.
    Ours,
}

impl Claim {
    /// A paper's.
    pub const fn paper(place: &'static str, text: &'static str) -> Claim {
        Claim { source: Source::Paper(place), text }
    }

    /// Ours.
    pub const fn ours(text: &'static str) -> Claim {
        Claim { source: Source::Ours, text }
    }

    /// What the figures say of it: whether it holds here, and the figures in words.
    pub fn judge(&self, holds: bool, figures: impl Into<String>) -> Statement {
        let (source, verdict) = match (self.source, holds) {
            (Source::Paper(place), true) => (Some(place), Verdict::Reproduced),
            (Source::Paper(place), false) => (Some(place), Verdict::NotReproduced),
            (Source::Ours, true) => (None, Verdict::Met),
            (Source::Ours, false) => (None, Verdict::NotMet),
        };
        Statement {
            claim: self.text.into(),
            paper: source.map(str::to_owned),
            figures: figures.into(),
            verdict,
            remark: None,
        }
    }

    /// Nothing can be said of it, and why.
    pub fn leave_open(&self, why: impl Into<String>) -> Statement {
        Statement { verdict: Verdict::Open, ..self.judge(false, why) }
    }
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// What is claimed.
    pub claim: String,
    /// The paper and the place in it; absent: our own bar.
    pub paper: Option<String>,
    /// Our figures, in words.
    pub figures: String,
    /// Computed from the figures.
    pub verdict: Verdict,
    /// What to know about it; where the claim does not hold, why we think so.
    pub remark: Option<String>,
}

impl Statement {
    /// What to know about it, whatever the verdict.
    pub fn remark(mut self, text: impl Into<String>) -> Statement {
        self.remark = Some(text.into());
        self
    }

    /// Why we think it is so if the claim does not hold.
    pub fn otherwise(self, why: &str) -> Statement {
        match self.verdict {
            Verdict::NotReproduced | Verdict::NotMet => self.remark(why),
            _ => self,
        }
    }

    /// The paper's figure is beaten here, if `is_better`: the claim holds, and more.
    pub fn better_if(self, is_better: bool) -> Statement {
        match self.verdict {
            Verdict::Reproduced if is_better => Statement { verdict: Verdict::Better, ..self },
            _ => self,
        }
    }
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The paper's claim holds here.
    Reproduced,
    /// It holds under some of the conditions that the paper does not give.
    ReproducedWhere,
    /// It holds, and the paper's figure is beaten.
    Better,
    /// It does not.
    NotReproduced,
    /// Our own bar is passed.
    Met,
    /// It is not.
    NotMet,
    /// Nothing can be said.
    Open,
}

impl Verdict {
    /// All of them: on papers' claims, on ours, and neither.
    pub const ALL: [Verdict; 7] = [
        Verdict::Reproduced,
        Verdict::ReproducedWhere,
        Verdict::Better,
        Verdict::NotReproduced,
        Verdict::Met,
        Verdict::NotMet,
        Verdict::Open,
    ];

    /// Whether the claim holds, at least under some conditions.
    pub fn holds(self) -> bool {
        use Verdict::{Better, Met, Reproduced, ReproducedWhere};
        matches!(self, Reproduced | ReproducedWhere | Better | Met)
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::ReproducedWhere => "reproduced where",
            Verdict::Better => "better",
            Verdict::NotReproduced => "not reproduced",
            Verdict::Met => "met",
            Verdict::NotMet => "not met",
            Verdict::Open => "open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_figures_and_reasons_stand_only_where_they_are_needed() {
        const PAPER: Claim = Claim::paper("FOBS, Table 1", "half");
        let good = PAPER.judge(true, "51 %").otherwise("too slow");
        assert_eq!((good.verdict, good.remark), (Verdict::Reproduced, None));
        let better = [true, false].map(|is_better| PAPER.judge(true, "60 %").better_if(is_better).verdict);
        assert_eq!(better, [Verdict::Better, Verdict::Reproduced]);
        assert_eq!(PAPER.judge(false, "60 %").better_if(true).verdict, Verdict::NotReproduced);
        let bad = PAPER.judge(false, "5 %").otherwise("too slow");
        assert_eq!((bad.verdict, bad.remark.as_deref()), (Verdict::NotReproduced, Some("too slow")));
        let ours = Claim::ours("full").judge(false, "5 %");
        assert_eq!((ours.verdict, ours.paper), (Verdict::NotMet, None));
        let open = PAPER.leave_open("no such controller").otherwise("too slow");
        assert_eq!((open.verdict, open.remark), (Verdict::Open, None));
    }
}
