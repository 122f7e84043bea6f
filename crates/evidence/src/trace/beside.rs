//! A copy beside one like it in the simulator, on one page.

use super::bands::bands;
use super::curves::{Lines, curves};
use super::page::timeline;
use super::read::Trace;
use super::replay::{Likeness, PathLikeness, Replayed};
use crate::report::{Band, TimedCurves, document};
use longhaul_cli::output::{bytes_text, share_text};
use maud::{Markup, html};

pub(super) fn page(trace: &Trace, name: &str, likeness: &Likeness, replayed: &Replayed) -> String {
    let (curves, bands) = ([trace, &replayed.trace].map(curves), [trace, &replayed.trace].map(bands));
    let end_s = trace.end_s().max(replayed.trace.end_s());
    document(
        &format!("longhaul: {name}, replayed"),
        &html! {
            header {
                h1 { "A copy, and one like it in the simulator" }
                p { code { (name) } " · " (trace.header.code_version) }
                @for path in &likeness.paths { (described(path, likeness.paths.len())) }
                p { (outcome(likeness, replayed)) "." }
                p {
                    "The path is what the trace shows of it: the rate that was delivered at best, the shortest round trip, the "
                    "share lost at random, a queue of a round trip or more. Traffic of others is no part of it."
                    @if likeness.paths.len() > 1 { " Each path carries by itself what it carried." }
                }
            }
            main {
                section {
                    h2 { "Over time" }
                    (timeline(end_s, &both(&curves), &controllers(bands), &[]))
                }
            }
            footer { p { "Made by " code { "longhaul replay" } "." } }
        },
    )
}

/// How long it took, and how long in the simulator.
pub(super) fn outcome(likeness: &Likeness, replayed: &Replayed) -> String {
    let measured = likeness.seconds;
    match replayed.seconds {
        Some(simulated) => format!(
            "{} took {measured:.2} s, and {simulated:.2} s in the simulator",
            bytes_text(likeness.bytes())
        ),
        None => format!(
            "{} took {measured:.2} s, and are not through in many times that in the simulator",
            bytes_text(likeness.bytes())
        ),
    }
}

fn described(like: &PathLikeness, paths: usize) -> Markup {
    let path = &like.scenario;
    let queue = bytes_text((path.queue_kb.unwrap_or(0.0) * 1e3) as u64);
    html! {
        p {
            @if paths > 1 { (format!("Path {}, {}: ", like.number + 1, bytes_text(like.bytes))) }
            (format!("{:.1} Mb/s, {:.1} ms, ", path.bottleneck_mbit, path.rtt_ms))
            (share_text(path.loss)) " lost at random, a queue of " (queue) "."
        }
    }
}

/// Of each picture the series that says most, as it was and as it is in the simulator; of each path, where there are several.
fn both([measured, simulated]: &[Vec<TimedCurves>; 2]) -> Vec<TimedCurves> {
    const KEPT: [&str; 6] =
        [Lines::DELIVERED, Lines::SMOOTHED, Lines::QUEUE, Lines::LOST, Lines::ON_ITS_WAY, Lines::THERE];
    let of = |curves: &TimedCurves, named: &str| {
        let kept = curves.series.iter().filter_map(|(name, points)| {
            let prefix = KEPT.iter().find_map(|kept| name.strip_suffix(kept))?;
            Some((format!("{prefix}{named}"), points.clone()))
        });
        kept.collect::<Vec<_>>()
    };
    let pairs = measured.iter().zip(simulated);
    let joined = pairs.map(|(measured, simulated)| TimedCurves {
        name: measured.name,
        unit: measured.unit,
        series: [of(measured, "measured"), of(simulated, "simulated")].concat(),
    });
    joined.collect()
}

fn controllers(bands: [Vec<Band>; 2]) -> Vec<Band> {
    let named = ["measured", "simulated"].into_iter().zip(bands);
    let all = named.flat_map(|(what, bands)| {
        let of_controllers = bands.into_iter().filter(|band| band.name == super::bands::CONTROLLER);
        of_controllers.map(move |band| Band { name: format!("{}, {what}", band.name), ..band })
    });
    all.collect()
}
