//! The verdicts as a table in Markdown.

use super::agreement::Agreements;
use super::plane::tells_together;
use super::results::{Entry, Group};
use super::{Head, Results, Table, cell};
use std::fmt::Write as _;

impl Results {
    /// The verdicts as a table for documentation: a row for each claim.
    pub fn markdown(&self) -> String {
        markdown(self)
    }
}

fn markdown(results: &Results) -> String {
    let mut out = String::from(INTRODUCTION);
    let mut hosts: Vec<String> = vec![];
    for stored in results.results() {
        let Some(host) = &stored.head.host else { continue };
        let host = format!("{}, {} processors ({})", host.kernel, host.cpus, host.cpu);
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    if !hosts.is_empty() {
        let _ = writeln!(
            out,
            "\nMeasured on: {}.",
            hosts.iter().map(|host| escaped(host)).collect::<Vec<_>>().join("; ")
        );
    }
    if let Some(totals) = results.totals() {
        let _ = writeln!(out, "\n## {}\n\n{TOTALS}", totals.title);
        rows(&mut out, &totals);
    }
    for group in &results.groups {
        if group.entries.iter().all(|entry| entry.results.is_empty()) {
            continue;
        }
        let _ = writeln!(out, "\n## {}\n", escaped(&group.title));
        out.push_str("| experiment | claim | figures | verdict |\n|---|---|---|---|\n");
        group.entries.iter().for_each(|entry| experiment(&mut out, entry));
        together(&mut out, group);
    }
    agreement(&mut out, results);
    let missing: Vec<String> = results.missing().map(|id| format!("`{id}`")).collect();
    if !missing.is_empty() {
        let _ = writeln!(out, "\nWithout a result: {}.", missing.join(", "));
    }
    out
}

fn agreement(out: &mut String, results: &Results) {
    let Some(Agreements { table, differences }) = results.agreements() else { return };
    let _ = writeln!(out, "\n## {}\n", table.title);
    rows(out, &table);
    if !differences.is_empty() {
        out.push_str("\nWhy some are farther apart:\n\n");
    }
    for (id, why) in differences {
        let _ = writeln!(out, "* `{id}`: {}.", escaped(why));
    }
}

fn rows(out: &mut String, table: &Table) {
    let line = |out: &mut String, cells: Vec<String>| {
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    line(out, table.columns.iter().map(|column| escaped(&column.name)).collect());
    line(out, vec!["---".into(); table.columns.len()]);
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        line(out, cells.map(|(value, column)| escaped(&cell(value, column.unit))).collect());
    }
}

/// Claims of one figure may hold each under another condition: where they do together.
fn together(out: &mut String, group: &Group) {
    let mut begins = "\n";
    for stored in group.entries.iter().flat_map(|entry| &entry.results) {
        for line in stored.report.method.iter().filter(|line| tells_together(line)) {
            let Head { what, origin, .. } = &stored.head;
            let _ = writeln!(out, "{begins}* `{what}`, {}: {}", origin.words(), escaped(line));
            begins = "";
        }
    }
}

/// What was measured of a claim and what was simulated stand in rows below each other.
fn experiment(out: &mut String, entry: &Entry) {
    for (number, claim) in entry.claims().into_iter().enumerate() {
        let source = claim.paper.as_ref().map_or(String::new(), |paper| format!(" ({paper})"));
        let mut text = escaped(&format!("{}{source}", claim.claim));
        for stored in &entry.results {
            let Some(statement) = stored.statement(&claim.claim) else { continue };
            let name = if number == 0 {
                full_name(&stored.head)
            } else {
                entry.mark(stored).unwrap_or_default().into()
            };
            let mut figures = escaped(&statement.figures);
            if let Some(remark) = &statement.remark {
                let _ = write!(figures, "; {}", escaped(remark));
            }
            let claim = std::mem::take(&mut text);
            let _ = writeln!(out, "| {name} | {claim} | {figures} | {} |", statement.verdict.words());
        }
    }
}

fn full_name(head: &Head) -> String {
    let part = head.only.as_ref().map_or(String::new(), |only| format!(", only {only}"));
    format!("`{}` ({}, {}, seed {}{part})", head.what, head.origin.words(), head.scale, head.seed)
}

/// As text inside a table's cell.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' => out.extend(['\\', letter]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}

const TOTALS: &str = "\
Each claim once. What was both measured and simulated counts by where it came off better; how many hold as measured, over real
sockets, is in the last column.
";
const INTRODUCTION: &str = "\
# Results

What the papers and we claim, and what came of it here. Made by `longhaul lab report --markdown` from the results of
`longhaul lab run all`; the [lab](lab.md) says how it is measured, the [simulator](simulator.md) how it is simulated. Each
verdict is computed from the figures beside it.
";
