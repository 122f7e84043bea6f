//! A trace as one page in HTML that needs nothing else: no network, no script, no other file.

use super::bands::bands;
use super::curves::curves;
use super::read::Trace;
use super::story::{Happening, ended, story};
use crate::report::{Band, TimedCurves, Timeline, document, drawn};
use longhaul_cli::trace::Role;
use maud::{Markup, html};

pub(super) fn page(trace: &Trace, name: &str) -> String {
    let happenings = story(trace);
    document(
        &format!("longhaul: {name}"),
        &html! {
            header {
                h1 { "A copy, moment by moment" }
                (head(trace, name))
            }
            main {
                section {
                    h2 { "Over time" }
                    p { "Seconds since the program began. Broken lines are events that the story below tells of." }
                    (pictures(trace, &happenings))
                }
                section {
                    h2 { "The story" }
                    (told(&happenings))
                }
            }
            footer { p { "Made by " code { "longhaul trace" } "." } }
        },
    )
}

/// Whose trace it is, and what came of the copy.
fn head(trace: &Trace, name: &str) -> Markup {
    let head = &trace.header.trace;
    let view = match head.vantage_point.name {
        Role::Sender => "the side that sent the data",
        Role::Receiver => {
            "the side that got the data: what comes in is its own to know, round trips and limits are what the sender told"
        }
        Role::Arranger => "the host that had two others copy: it knows what they told",
    };
    html! {
        p { code { (name) } " · " (trace.header.code_version) " · " (head.common_fields.reference_time.wall_clock_time) }
        p { "As seen by " (view) "." }
        @match trace.summary() {
            Some(summary) => p { (ended(summary)) "." },
            None => p { "The trace ends before the copy did." },
        }
        @if trace.is_cut { p { "Its last line is cut off." } }
        @if trace.others > 0 { p { (trace.others) " events are of kinds that this version does not know." } }
    }
}

fn pictures(trace: &Trace, happenings: &[Happening]) -> Markup {
    let marks: Vec<f64> =
        happenings.iter().filter(|one| one.is_mark).map(|one| one.at_s).take(MARKS_MAX).collect();
    timeline(trace.end_s(), &curves(trace), &bands(trace), &marks)
}

/// Pictures of these, below each other.
pub(super) fn timeline(end_s: f64, curves: &[TimedCurves], bands: &[Band], marks: &[f64]) -> Markup {
    let timeline = Timeline::new(end_s, curves, marks);
    let first = curves.iter().map(|one| (one.name.to_owned(), timeline.curves(one)));
    let all = first.chain(bands.iter().map(|one| (one.name.clone(), timeline.band(one))));
    html! {
        div.timeline {
            @for (number, (name, drawing)) in all.enumerate() {
                @if let Some(drawing) = drawing { (drawn(&drawing, &name, &format!("picture-{number}"), &html! {})) }
            }
        }
    }
}

fn told(happenings: &[Happening]) -> Markup {
    let more = happenings.len().saturating_sub(ROWS_MAX);
    html! {
        div.scroll tabindex="0" role="region" aria-label="The story" {
            table {
                thead { tr { th scope="col" { "seconds" } th scope="col" { "what" } } }
                tbody {
                    @for one in happenings.iter().take(ROWS_MAX) {
                        tr { td.figure { (format!("{:.3}", one.at_s)) } td { (one.text) } }
                    }
                }
            }
        }
        @if more > 0 { p { "and " (more) " more" } }
    }
}

/// More of them would hide the curves.
const MARKS_MAX: usize = 60;
const ROWS_MAX: usize = 1000;
