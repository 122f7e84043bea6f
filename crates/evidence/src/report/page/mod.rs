//! All results as one page in HTML that needs nothing else: no network, no script, no other file.

mod figure;
mod table;

pub(crate) use figure::drawn;

use super::agreement::Agreements;
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
    document(
        "longhaul: what was measured",
        &html! {
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
                (papers(results))
                (overview(results))
                @for group in &results.groups {
                    @if group.entries.iter().any(|entry| !entry.results.is_empty()) { (self::group(group)) }
                }
                (agreement(results))
            }
            footer { p { "Made by " code { "longhaul lab report" } " from the results of " code { "longhaul lab run" } "." } }
        },
    )
}

/// A page by itself.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    markup.into_string()
}

/// How near to each other measured and simulated figures are.
fn agreement(results: &Results) -> Markup {
    html! {
        @if let Some(Agreements { table: figures, differences }) = results.agreements() {
            section #agreement {
                h2 { "Measured and simulated" }
                (table::table(&figures, None))
                @if !differences.is_empty() {
                    p { "Why some are farther apart:" }
                    ul { @for (id, why) in differences { li { a href={ "#" (id) } { (id) } ": " (why) "." } } }
                }
            }
        }
    }
}

/// How many of each paper's claims hold.
fn papers(results: &Results) -> Markup {
    html! {
        @if let Some(totals) = results.totals() {
            section #papers {
                h2 { (totals.title) }
                (table::table(&totals, None))
            }
        }
    }
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

/// An experiment, in a line for each way in which it was run.
fn line(entry: &Entry) -> Markup {
    let claims = entry.claims();
    let number = |statement: &Statement| claims.iter().position(|claim| claim.claim == statement.claim);
    html! {
        @for stored in &entry.results {
            tr {
                th scope="row" { a href={ "#" (entry.id) } { (entry.id) } @if let Some(mark) = entry.mark(stored) { ", " (mark) } }
                td.verdicts {
                    @for one in &stored.report.statements {
                        a href={ "#" (claim_id(&entry.id, number(one).unwrap_or_default())) } title=(one.claim) {
                            (badge(one.verdict))
                        } " "
                    }
                }
                td { (entry.title) }
            }
        }
    }
}

fn group(group: &Group) -> Markup {
    html! {
        section.group {
            h2 { (group.title) }
            @for entry in &group.entries { @if let [first, ..] = &entry.results[..] { (experiment(entry, &first.report.title)) } }
        }
    }
}

/// What came of an experiment: side by side, if it was run in more than one way.
fn experiment(entry: &Entry, title: &str) -> Markup {
    let Entry { id, results, .. } = entry;
    html! {
        article #(id) {
            h3 { a href={ "#" (id) } { (id) } " " span.title { (title) } }
            @for stored in results { (how(stored)) }
            ol.claims { @for (number, one) in entry.claims().iter().enumerate() { (claim(one, entry, &claim_id(id, number))) } }
            div.figures {
                @for table in entry.tables() { @for stored in results { (figures(stored, &table.name, entry.mark(stored))) } }
            }
            @for table in entry.tables() { @for stored in results { (self::table(stored, &table.name, entry.mark(stored))) } }
            @for stored in results { (method(stored, entry.mark(stored))) }
        }
    }
}

fn how(stored: &Stored) -> Markup {
    html! {
        p.how {
            (stored.head.origin.words()) ", " (stored.head.scale)
            @if let Some(only) = &stored.head.only { ", only " (only) }
            ", in " (seconds_text(stored.seconds))
        }
    }
}

/// A claim, and what came of it in each result.
fn claim(claim: &Statement, entry: &Entry, id: &str) -> Markup {
    let said =
        entry.results.iter().filter_map(|stored| Some((entry.mark(stored), stored.statement(&claim.claim)?)));
    html! {
        li #(id) {
            span.claim { (claim.claim) } " "
            span.source { @if let Some(paper) = &claim.paper { "(" (paper) ")" } @else { "(ours)" } }
            div.sides {
                @for (mark, one) in said {
                    div {
                        p { (badge(one.verdict)) " " @if let Some(mark) = mark { (mark) ": " } (one.figures) }
                        @if let Some(text) = &one.remark { p.remark { (remark(one.verdict)) (text) } }
                    }
                }
            }
        }
    }
}

fn figures(stored: &Stored, name: &str, mark: Option<&str>) -> Markup {
    let (report, origin) = (&stored.report, origin(stored));
    html! {
        @for (at, table) in report.tables.iter().enumerate().filter(|(_, table)| table.name == name) {
            @for (number, plot) in table.plots.iter().enumerate() {
                (figure::figure(table, plot, &format!("{}-plot-{at}-{number}", report.id), mark, &origin))
            }
        }
    }
}

fn table(stored: &Stored, name: &str, mark: Option<&str>) -> Markup {
    let shown = stored.report.tables.iter().filter(|table| table.name == name && !table.is_detail);
    html! { @for one in shown { (table::table(one, mark)) } }
}

fn method(stored: &Stored, mark: Option<&str>) -> Markup {
    let has_plots = stored.report.tables.iter().any(|table| !table.plots.is_empty());
    html! {
        details open {
            summary { "Method" @if let Some(mark) = mark { ", " (mark) } }
            @for line in &stored.report.method { p { (line) } }
            @if !has_plots { (origin(stored)) }
        }
    }
}

fn remark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NotReproduced | Verdict::NotMet => "Why: ",
        _ => "Note: ",
    }
}

fn badge(verdict: Verdict) -> Markup {
    let (class, sign) = match verdict {
        Verdict::Open => ("badge open", "?"),
        _ if verdict.holds() => ("badge yes", "✓"),
        _ => ("badge no", "✗"),
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
