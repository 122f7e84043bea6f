//! What an experiment found: tables with units, and verdicts on claims.

use super::Plot;
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

/// Figures in rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name in JSON.
    pub name: String,
    /// Its headline.
    pub title: String,
    /// What its rows hold.
    pub columns: Vec<Column>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
    /// Too long to be printed: for programs to read.
    pub is_detail: bool,
    /// How to draw it.
    pub plots: Vec<Plot>,
}

impl Table {
    /// An empty table.
    pub fn new(name: impl Into<String>, title: impl Into<String>, columns: Vec<Column>) -> Table {
        let (name, title) = (name.into(), title.into());
        Table { name, title, columns, rows: Vec::new(), is_detail: false, plots: Vec::new() }
    }

    /// The same, too long to be printed.
    pub fn detail(mut self) -> Table {
        self.is_detail = true;
        self
    }

    /// The same, to be drawn like this too.
    ///
    /// # Panics
    /// If it has not all the columns that the plot names.
    pub fn plot(mut self, plot: Plot) -> Table {
        for name in plot.columns() {
            assert!(
                self.columns.iter().any(|column| column.name == name),
                "{} has a column {name}",
                self.name
            );
        }
        self.plots.push(plot);
        self
    }

    /// Add a row.
    ///
    /// # Panics
    /// If it has not one value for each column.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a row of {} has a value for each column", self.name);
        self.rows.push(row);
    }
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// A word or two.
    pub name: String,
    /// What its numbers count.
    pub unit: Unit,
}

impl Column {
    /// A column of numbers.
    pub fn new(name: impl Into<String>, unit: Unit) -> Column {
        Column { name: name.into(), unit }
    }

    /// A column of words.
    pub fn text(name: impl Into<String>) -> Column {
        Column::new(name, Unit::Text)
    }

    /// Its name in JSON, with the unit at the end.
    pub fn key(&self) -> String {
        let mut key = String::new();
        for letter in self.name.chars() {
            match letter {
                letter if letter.is_ascii_alphanumeric() => key.extend(letter.to_lowercase()),
                _ if key.ends_with('_') || key.is_empty() => {}
                _ => key.push('_'),
            }
        }
        let stem = key.trim_end_matches('_');
        match self.unit.suffix() {
            "" => stem.to_owned(),
            suffix => format!("{stem}_{suffix}"),
        }
    }
}

/// What numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Words, no numbers.
    Text,
    /// Things, or nothing at all (an index, a ratio).
    Number,
    /// A share of a whole, 0 to 1; shown in percent.
    Share,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// 10⁶ bit/s.
    Mbps,
    /// Bytes.
    Bytes,
    /// Bandwidth-delay products.
    Bdp,
    /// Times as much.
    Times,
}

impl Unit {
    /// The sign behind a number; empty where there is none, or where it depends on the number.
    pub fn sign(self) -> &'static str {
        match self {
            Unit::Text | Unit::Number | Unit::Bytes => "",
            Unit::Share => "%",
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::Mbps => "Mb/s",
            Unit::Bdp => "BDP",
            Unit::Times => "×",
        }
    }

    /// What stands at the end of a name in JSON.
    fn suffix(self) -> &'static str {
        match self {
            Unit::Text | Unit::Number => "",
            Unit::Share => "share",
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::Mbps => "mbps",
            Unit::Bytes => "bytes",
            Unit::Bdp => "bdp",
            Unit::Times => "times",
        }
    }
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Not measured, or not to be measured.
    Nothing,
    /// A number in the column's unit.
    Number(f64),
    /// Words.
    Text(String),
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        if number.is_finite() { Value::Number(number) } else { Value::Nothing }
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Value {
        number.map_or(Value::Nothing, Value::from)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(f64::from(number))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as f64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
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
            Verdict::Reproduced | Verdict::Better | Verdict::Met | Verdict::Open => self,
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
    pub const ALL: [Verdict; 6] = [
        Verdict::Reproduced,
        Verdict::Better,
        Verdict::NotReproduced,
        Verdict::Met,
        Verdict::NotMet,
        Verdict::Open,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
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
    fn keys_end_in_units() {
        let keys = [
            Column::new("goodput", Unit::Mbps),
            Column::new("queue, mean", Unit::Bdp),
            Column::text("FQ (ideal)"),
            Column::new("Jain index", Unit::Number),
            Column::new("> 5 s", Unit::Share),
        ];
        let keys: Vec<_> = keys.iter().map(Column::key).collect();
        assert_eq!(keys, ["goodput_mbps", "queue_mean_bdp", "fq_ideal", "jain_index", "5_s_share"]);
    }

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

    #[test]
    fn what_is_no_number_is_nothing() {
        assert_eq!(Value::from(f64::NAN), Value::Nothing);
        assert_eq!(Value::from(Some(1.5)), Value::Number(1.5));
        assert_eq!(Value::from(None), Value::Nothing);
    }

    #[test]
    #[should_panic(expected = "t has a column b")]
    fn plots_of_what_is_not_there_are_a_bug() {
        let _ = Table::new("t", "T", vec![Column::text("a")]).plot(Plot::bars("a", &["b"]));
    }

    #[test]
    #[should_panic(expected = "a value for each column")]
    fn short_rows_are_a_bug() {
        Table::new("t", "T", vec![Column::text("a"), Column::text("b")]).push(vec!["x".into()]);
    }
}
