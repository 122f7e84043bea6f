//! streams-auto: the number of streams that is found during the transfer, against the best that all fixed ones
//! give.

use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::paths::{self, Path};
use crate::lab::striped::{Amount, Streamed, Streams, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit, Value};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "streams-auto",
    "The number of streams found during the transfer, against all fixed ones",
    &[AS_FAST, NO_MORE, CHEAP],
    measure,
)
.in_parts();

const AS_FAST: Claim = Claim::ours("on every path within 5 % of the best fixed number of streams");
const NO_MORE: Claim =
    Claim::ours("on every path at most 1.5 times the smallest number that is within 5 % of the best");
const CHEAP: Claim = Claim::ours("searching costs at most 5 % of a transfer of 30 s on every path");

/// How long is measured, in seconds.
#[derive(Clone, Copy)]
struct Times {
    /// With a fixed number: at first, not counted; then counted.
    fixed: (f64, f64),
    /// With the number that is found: all in all, and counted at the end.
    auto: (f64, f64),
}

/// What came of a path.
struct Outcome {
    path: String,
    /// Number and Mb/s.
    fixed: Vec<(u32, f64)>,
    best: (u32, f64),
    /// The smallest within 5 % of the best.
    enough: u32,
    auto: (u32, f64),
    /// Seconds lost to the search.
    cost_s: f64,
    course: String,
    tried: String,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let counts: Vec<u32> =
        bench.pick(vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32], vec![1, 2, 4, 8, 16, 32], vec![1, 4]);
    let times = bench.pick(
        Times { fixed: (3.0, 7.0), auto: (30.0, 10.0) },
        Times { fixed: (1.5, 2.0), auto: (12.0, 4.0) },
        Times { fixed: (0.2, 0.3), auto: (1.0, 0.5) },
    );
    let is_short = bench.pick(false, true, true);
    let is_wanted = |path: &&Path| bench.wants(path.name(), !is_short || path.is_quick);
    let listed = Path::table(paths::STREAMS);
    let paths: Vec<&Path> = listed.iter().filter(is_wanted).collect();
    bench.check_parts()?;
    bench.expect_runs(paths.len() * (counts.len() + 2));
    let outcomes: Vec<Outcome> =
        paths.into_iter().map(|path| on(path, bench, &counts, times)).collect::<Result<_, _>>()?;
    let method = vec![
        format!(
            "Queues of one bandwidth-delay product, kernel TCP under CUBIC, in clear. Each fixed number is measured for \
             {} s after the first {} s ({SLOW_START_RTTS} round trips at least), which finds the best of them; the number that longhaul finds by itself is \
             that at the end of {} s, its goodput that of the last {} s. The best is then measured over the same stretch: at \
             the end of slow start lanes hold more than random loss leaves them later.",
            times.fixed.1, times.fixed.0, times.auto.0, times.auto.1
        ),
        format!(
            "Search: what the transfer is behind its own later speed when the number last changes, less what the \
             best fixed number is behind after its slow start, as a share of {TRANSFER_S} s."
        ),
    ];
    let statements =
        judge(&outcomes).into_iter().map(|one| bench.coverage().of_every("paths", one)).collect();
    Ok(Findings { method, tables: vec![table(&outcomes), detail(&outcomes)], statements })
}

fn on(path: &Path, bench: &Bench<'_>, counts: &[u32], times: Times) -> Result<Outcome, ExperimentError> {
    let is_quick = bench.pick(false, true, false);
    let lab = bench.lab(&path.scenario)?;
    // Slow start and the losses at its end must be over.
    let skip = times.fixed.0.max(SLOW_START_RTTS * path.scenario.rtt_ms / 1e3);
    let run = |streams, (skip, measure)| {
        let amount = Amount::Seconds { skip, measure };
        Striped { streams, window_bytes: path.window_bytes, amount, ..Striped::default() }.run(bench, &lab)
    };
    let (whole_s, end_s) = times.auto;
    let auto = run(Streams::Auto, (whole_s - end_s, end_s))?;
    let mut fixed = vec![];
    let mut best: Option<(u32, Streamed)> = None;
    for &count in counts {
        // More cannot carry more over a path that is full.
        if is_quick && best.as_ref().is_some_and(|(_, best)| best.received.goodput_mbps >= full_mbps(path)) {
            bench.count_run();
            continue;
        }
        let streamed = run(Streams::Fixed(count), (skip, times.fixed.1))?;
        let mbps = streamed.received.goodput_mbps;
        fixed.push((count, mbps));
        if best.as_ref().is_none_or(|(_, best)| mbps > best.received.goodput_mbps) {
            best = Some((count, streamed));
        }
    }
    let (best_count, best) = best.unwrap_or_else(|| (0, auto.clone()));
    let enough_mbps = GOOD * best.received.goodput_mbps;
    let enough = fixed.iter().find(|(_, mbps)| *mbps >= enough_mbps).map_or(best_count, |(count, _)| *count);
    // As old as the one that it is compared with.
    let best_mbps = run(Streams::Fixed(best_count.max(1)), (whole_s - end_s, end_s))?.received.goodput_mbps;
    let searched_s = auto.sent.course.last().map_or(0.0, |(at, _)| at + SETTLE_S).min(whole_s - end_s);
    let course: Vec<String> =
        auto.sent.course.iter().map(|(at, count)| format!("{count} at {at:.1} s")).collect();
    let tried: Vec<String> =
        auto.sent.tried_mbps.iter().map(|(count, mbps)| format!("{count}: {mbps:.1} Mb/s")).collect();
    Ok(Outcome {
        path: path.name().into(),
        fixed,
        best: (best_count, best_mbps),
        enough,
        auto: (auto.streams(), auto.received.goodput_mbps),
        cost_s: (behind(&auto, searched_s) - behind(&best, skip)).max(0.0),
        course: course.join(", "),
        tried: tried.join(", "),
    })
}

/// Nearly what TCP could carry over it: packets of 1500 bytes with 1448 bytes of data.
fn full_mbps(path: &Path) -> f64 {
    FULL * path.scenario.bottleneck_mbit * 1448.0 / 1500.0
}

/// Seconds that a stream is behind its later speed at a time.
fn behind(streamed: &Streamed, at_s: f64) -> f64 {
    at_s * (1.0 - streamed.mbps_until(at_s) / streamed.received.goodput_mbps.max(f64::MIN_POSITIVE))
}

impl Outcome {
    fn of_best(&self) -> f64 {
        self.auto.1 / self.best.1
    }

    fn cost(&self) -> f64 {
        self.cost_s / TRANSFER_S
    }
}

fn table(outcomes: &[Outcome]) -> Table {
    Table::of("paths", "Streams on each path", outcomes)
        .text("path", |outcome| outcome.path.as_str())
        .column("best", Unit::Number, |outcome| outcome.best.0)
        .column("with the best", Unit::Mbps, |outcome| outcome.best.1)
        .column("enough", Unit::Number, |outcome| outcome.enough)
        .column("found", Unit::Number, |outcome| outcome.auto.0)
        .column("with the found", Unit::Mbps, |outcome| outcome.auto.1)
        .column("of best", Unit::Share, |outcome| outcome.of_best())
        .column("search", Unit::Share, |outcome| outcome.cost())
        .table()
        .plot(
            Plot::bars("path", &["with the best", "with the found"])
                .title("Goodput with the best and the found number"),
        )
}

fn detail(outcomes: &[Outcome]) -> Table {
    let runs = outcomes.iter().flat_map(|outcome| {
        let fixed = outcome.fixed.iter().map(move |run| (outcome, Some(run.0), run.1));
        fixed.chain([(outcome, None, outcome.auto.1)])
    });
    let auto = |streams: &Option<u32>, text: &String| {
        if streams.is_none() { text.clone() } else { String::new() }
    };
    Table::of("cells", "Every run", &runs.collect::<Vec<_>>())
        .text("path", |(outcome, ..)| outcome.path.as_str())
        .column("streams", Unit::Number, |(_, streams, _)| streams.map_or("auto".into(), Value::from))
        .column("goodput", Unit::Mbps, |(.., mbps)| *mbps)
        .text("course", |(outcome, streams, _)| auto(streams, &outcome.course))
        .text("tried", |(outcome, streams, _)| auto(streams, &outcome.tried))
        .table()
        .detail()
        .plot(
            Plot::lines("streams", &["goodput"])
                .by("path")
                .log_x()
                .title("Goodput by fixed number of streams"),
        )
}

fn judge(outcomes: &[Outcome]) -> Vec<Statement> {
    let verdict = |claim: &Claim, worst: Option<(&Outcome, String)>, holds: bool| match worst {
        None => claim.leave_open("no path has such a name"),
        Some((outcome, figure)) => claim.judge(holds, format!("at worst {figure}, {}", outcome.path)),
    };
    let worst = |key: fn(&Outcome) -> f64| outcomes.iter().max_by(|a, b| key(a).total_cmp(&key(b)));
    let too_many = |outcome: &Outcome| f64::from(outcome.auto.0) / f64::from(outcome.enough.max(1));
    let slowest = worst(|outcome| -outcome.of_best());
    let widest = worst(|outcome| f64::from(outcome.auto.0) / f64::from(outcome.enough.max(1)));
    let dearest = worst(Outcome::cost);
    vec![
        verdict(
            &AS_FAST,
            slowest.map(|one| (one, format!("{:.1} % of the best", 100.0 * one.of_best()))),
            outcomes.iter().all(|one| one.of_best() >= GOOD),
        ),
        verdict(
            &NO_MORE,
            widest.map(|one| (one, format!("{} where {} are enough", one.auto.0, one.enough))),
            outcomes.iter().all(|one| too_many(one) <= TOO_MANY),
        ),
        verdict(
            &CHEAP,
            dearest.map(|one| (one, format!("{:.1} %", 100.0 * one.cost()))),
            outcomes.iter().all(|one| one.cost() <= COST_MAX),
        ),
    ]
}

/// Nearly as good as the best.
const GOOD: f64 = 0.95;
/// Within what runs differ.
const FULL: f64 = 0.98;
const TOO_MANY: f64 = 1.5;
const COST_MAX: f64 = 0.05;
/// The transfer whose share the search may cost.
const TRANSFER_S: f64 = 30.0;
const SLOW_START_RTTS: f64 = 40.0;
/// For the last number to find its speed.
const SETTLE_S: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn outcome(auto: (u32, f64), cost_s: f64) -> Outcome {
        let (fixed, best) = (vec![(1, 30.0), (4, 96.0), (8, 98.0)], (8, 98.0));
        let (course, tried) = (String::new(), String::new());
        Outcome { path: "a path".into(), fixed, best, enough: 4, auto, cost_s, course, tried }
    }

    #[test]
    fn the_worst_path_decides_each_bar() {
        let verdicts =
            |outcomes: &[Outcome]| judge(outcomes).into_iter().map(|one| one.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&[outcome((6, 95.0), 1.0)]), [Verdict::Met; 3]);
        assert_eq!(verdicts(&[outcome((6, 95.0), 1.0), outcome((7, 90.0), 2.0)]), [Verdict::NotMet; 3]);
        assert_eq!(verdicts(&[]), [Verdict::Open; 3]);
    }
}
