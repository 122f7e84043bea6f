//! All results as one page in HTML that needs nothing else: no network, no script, no other file.

mod figure;
mod table;

use super::results::{Entry, Group};
use super::{Head, Host, Results, Stored};
use crate::report::{Statement, Verdict};
use longhaul_cli::output::bytes_text;
use maud::{DOCTYPE, Markup, PreEscaped, html};

impl Results {
    /// A page by itself, with plots, in HTML.
    pub fn page(&self) -> String {
        page(self)
    }
}

fn page(results: &Results) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "longhaul: what was measured" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "What was measured" }
                    p {
                        "Claims of papers and of longhaul, rerun. A verdict is computed from the figures beside it: "
                        "a paper's claim is reproduced or not, a bar of ours is met or not, and open is what nothing "
                        "could be said of."
                    }
                    (totals(results))
                }
                main {
                    (overview(results))
                    @for group in &results.groups {
                        @if group.entries.iter().any(|entry| entry.result.is_some()) { (self::group(group)) }
                    }
                }
                footer { p { "Made by " code { "longhaul lab report" } " from the results of " code { "longhaul lab run" } "." } }
            }
        }
    };
    markup.into_string()
}

fn totals(results: &Results) -> Markup {
    let verdicts = || results.results().flat_map(|stored| &stored.report.statements).map(|one| one.verdict);
    let counts = Verdict::ALL.map(|verdict| (verdict, verdicts().filter(|one| *one == verdict).count()));
    html! {
        ul.totals {
            @for (verdict, count) in counts { @if count > 0 { li { (badge(verdict)) " " (count) } } }
        }
    }
}

/// Every experiment in a line.
fn overview(results: &Results) -> Markup {
    let missing: Vec<&str> = results.missing().collect();
    html! {
        section #overview {
            h2 { "Overview" }
            @if results.results().next().is_some() {
                div.scroll tabindex="0" role="region" aria-label="Overview" {
                    table.overview {
                        thead { tr { th scope="col" { "experiment" } th scope="col" { "verdicts" } th scope="col" { "what" } } }
                        tbody { @for entry in results.groups.iter().flat_map(|group| &group.entries) { (line(entry)) } }
                    }
                }
            }
            @if !missing.is_empty() {
                p.missing {
                    "Without a result: "
                    @for (number, id) in missing.iter().enumerate() { @if number > 0 { ", " } code { (id) } }
                    ". " code { "longhaul lab run all" } " measures what is missing."
                }
            }
        }
    }
}

fn line(entry: &Entry) -> Markup {
    let Some(stored) = &entry.result else { return html! {} };
    html! {
        tr {
            th scope="row" { a href={ "#" (entry.id) } { (entry.id) } }
            td.verdicts {
                @for (number, statement) in stored.report.statements.iter().enumerate() {
                    a href={ "#" (claim_id(&entry.id, number)) } title=(statement.claim) { (badge(statement.verdict)) } " "
                }
            }
            td { (entry.title) }
        }
    }
}

fn group(group: &Group) -> Markup {
    html! {
        section.group {
            h2 { (group.title) }
            @for stored in group.entries.iter().filter_map(|entry| entry.result.as_ref()) { (experiment(stored)) }
        }
    }
}

fn experiment(stored: &Stored) -> Markup {
    let report = &stored.report;
    let origin = origin(stored);
    let has_plots = report.tables.iter().any(|table| !table.plots.is_empty());
    html! {
        article #(report.id) {
            h3 { a href={ "#" (report.id) } { (report.id) } " " span.title { (report.title) } }
            p.how {
                (stored.head.origin.words()) ", " (stored.head.scale)
                @if let Some(only) = &stored.head.only { ", only " (only) }
                ", in " (seconds_text(stored.seconds))
            }
            @if !report.statements.is_empty() {
                ol.claims {
                    @for (number, one) in report.statements.iter().enumerate() {
                        (statement(one, &claim_id(&report.id, number)))
                    }
                }
            }
            div.figures {
                @for (at, table) in report.tables.iter().enumerate() {
                    @for (number, plot) in table.plots.iter().enumerate() {
                        (figure::figure(table, plot, &format!("{}-plot-{at}-{number}", report.id), &origin))
                    }
                }
            }
            @for table in report.tables.iter().filter(|table| !table.is_detail) { (table::table(table)) }
            details open {
                summary { "Method" }
                @for line in &report.method { p { (line) } }
                @if !has_plots { (origin) }
            }
        }
    }
}

fn statement(statement: &Statement, id: &str) -> Markup {
    let remark = match statement.verdict {
        Verdict::NotReproduced | Verdict::NotMet => "Why: ",
        Verdict::Reproduced | Verdict::Better | Verdict::Met | Verdict::Open => "Note: ",
    };
    html! {
        li #(id) {
            (badge(statement.verdict)) " " span.claim { (statement.claim) } " "
            span.source { @if let Some(paper) = &statement.paper { "(" (paper) ")" } @else { "(ours)" } }
            p { "Here: " (statement.figures) }
            @if let Some(text) = &statement.remark { p.remark { (remark) (text) } }
        }
    }
}

fn badge(verdict: Verdict) -> Markup {
    let (class, sign) = match verdict {
        Verdict::Reproduced | Verdict::Better | Verdict::Met => ("badge yes", "✓"),
        Verdict::NotReproduced | Verdict::NotMet => ("badge no", "✗"),
        Verdict::Open => ("badge open", "?"),
    };
    html! { span class=(class) { span aria-hidden="true" { (sign) } " " (verdict.words()) } }
}

/// Where a result comes from: the command, the host, the seed.
fn origin(stored: &Stored) -> Markup {
    let Head { command, version, seed, host, .. } = &stored.head;
    html! {
        p.origin {
            code { (command) } " · seed " (seed) " · version " (version)
            @if let Some(Host { kernel, cpu, cpus, memory_bytes, date, build }) = host {
                @if let Some(build) = build { ", build " (build) }
                " · " (kernel) " · " (cpu) ", " (cpus) " × · " (bytes_text(*memory_bytes)) " · " (date)
            }
        }
    }
}

fn claim_id(experiment: &str, number: usize) -> String {
    format!("{experiment}-claim-{}", number + 1)
}

fn seconds_text(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if whole < 100 { format!("{seconds:.1} s") } else { format!("{} min {} s", whole / 60, whole % 60) }
}

const STYLE: &str = include_str!("style.css");

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
