//! A report as text for people.

use crate::report::cell;
use crate::report::{Report, Statement, Table, Unit, Verdict};
use std::fmt::Write as _;

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut out = format!("{}: {}\n", report.id, report.title);
    for line in &report.method {
        out.push_str(&wrapped(line, "  ", "  "));
    }
    for table in report.tables.iter().filter(|table| !table.is_detail) {
        let _ = write!(out, "\n{}", self::table(table));
    }
    if !report.statements.is_empty() {
        out.push_str("\nWhat is claimed, and what came of it here\n");
        for statement in &report.statements {
            out.push_str(&self::statement(statement));
        }
    }
    out.trim_end().to_owned()
}

/// A table: a headline, the columns' names and units, a rule, the rows.
pub fn table(table: &Table) -> String {
    let columns = &table.columns;
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let units = columns.iter().map(|column| column.unit.sign().to_owned()).collect();
    let rows = table.rows.iter().map(|row| {
        row.iter().zip(columns).map(|(value, column)| cell(value, column.unit)).collect::<Vec<_>>()
    });
    let lines: Vec<Vec<String>> = [names, units].into_iter().chain(rows).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let shown = |line: &Vec<String>| {
        let cells = line.iter().zip(columns).zip(&widths);
        let cells: Vec<_> = cells.map(|((cell, column), width)| aligned(cell, column.unit, *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let rule = "─".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1));
    let mut out = format!("{}\n{}\n", table.title, shown(&lines[0]));
    if columns.iter().any(|column| !column.unit.sign().is_empty()) {
        let _ = writeln!(out, "{}", shown(&lines[1]));
    }
    let _ = writeln!(out, "{rule}");
    for line in &lines[2..] {
        let _ = writeln!(out, "{}", shown(line));
    }
    out
}

/// Words to the left, figures to the right.
fn aligned(cell: &str, unit: Unit, width: usize) -> String {
    if unit == Unit::Text { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

fn statement(statement: &Statement) -> String {
    let verdict = statement.verdict.words();
    let mut out = wrapped(&statement.claim, &format!("  {verdict:<VERDICT_WIDTH$}"), INDENT);
    if let Some(paper) = &statement.paper {
        out.push_str(&wrapped(&format!("({paper})"), INDENT, INDENT));
    }
    out.push_str(&wrapped(&format!("here: {}", statement.figures), INDENT, INDENT));
    if let Some(remark) = &statement.remark {
        let word = match statement.verdict {
            Verdict::NotReproduced | Verdict::NotMet => "why",
            _ => "note",
        };
        out.push_str(&wrapped(&format!("{word}: {remark}"), INDENT, INDENT));
    }
    out
}

/// `text` in lines no longer than the terminal is wide at least, the first behind `first`, others behind `rest`.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = rest.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{line}");
    out
}

const WIDTH: usize = 100;
/// "reproduced where" and two spaces.
const VERDICT_WIDTH: usize = 18;
/// Two spaces and the verdict's width.
const INDENT: &str = "                    ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Claim, Column, Value};

    fn sample() -> Report {
        const CLAIM: Claim = Claim::paper("FOBS, Figure 1", "about 90 % of the card's rate");
        let columns =
            vec![Column::text("haul"), Column::new("goodput", Unit::Mbps), Column::new("waste", Unit::Share)];
        let mut table = Table::new("goodput", "Two hauls", columns);
        table.push(vec!["short".into(), 91.25.into(), 0.012.into()]);
        table.push(vec!["long".into(), Value::Nothing, 0.0.into()]);
        let hidden = Table::new("cells", "Every cell", vec![Column::text("cell")]).detail();
        Report {
            id: "fobs-fig1".into(),
            title: "greedy".into(),
            method: vec!["One flow.".into()],
            tables: vec![table, hidden],
            statements: vec![CLAIM.judge(false, "50 %").otherwise("a slow host")],
        }
    }

    #[test]
    fn reports_read_well() {
        let expected = "\
fobs-fig1: greedy
  One flow.

Two hauls
haul   goodput  waste
          Mb/s      %
─────────────────────
short     91.2   1.20
long         –      0

What is claimed, and what came of it here
  not reproduced    about 90 % of the card's rate
                    (FOBS, Figure 1)
                    here: 50 %
                    why: a slow host";
        assert_eq!(report(&sample()), expected);
    }

    #[test]
    fn long_lines_are_wrapped() {
        let text = "word ".repeat(60);
        let shown = wrapped(&text, "- ", "  ");
        assert!(
            shown.lines().all(|line| line.chars().count() <= WIDTH) && shown.lines().count() == 4,
            "{shown}"
        );
        assert!(
            shown.starts_with("- word")
                && shown.lines().nth(1).is_some_and(|line| line.starts_with("  word"))
        );
        assert_eq!(shown.split_whitespace().filter(|word| *word == "word").count(), 60);
    }
}
