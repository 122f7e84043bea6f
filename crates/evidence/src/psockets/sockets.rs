//! psockets-a: goodput by number of sockets.

use super::{
    Condition, WINDOWS_BYTES, median_mbps, method, over_conditions, paper_stream, path, payload_limit_mbps,
};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::striped::{Amount, Partition, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-a",
    "Goodput by number of sockets (Figure 2)",
    &[RISES, BEST, PEAK, FILLS, KNEE],
    measure,
);

const RISES: Claim = Claim::paper(
    "PSockets §3, §4 a",
    "sockets with windows too small for the path carry together what one cannot",
);
const BEST: Claim = Claim::paper("PSockets §4 a, Figure 2", "12 sockets are best, in other runs 6 to 16");
const PEAK: Claim = Claim::ours("more than the 76 Mb/s that PSockets reached");
const FILLS: Claim = Claim::ours("at least 90 % of what TCP could carry over the path");
const KNEE: Claim = Claim::ours("as many sockets are enough as it takes for their windows to fill the path");

/// A number of sockets and what they carried, Mb/s.
struct Point {
    sockets: u32,
    equal: f64,
    longhaul: f64,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let counts = bench.pick(COUNTS.to_vec(), vec![1, 2, 3, 4, 8, 12, 16, 32], vec![1, 4]);
    let rounds = bench.pick(3, 1, 1);
    let (skip, measure) = bench.pick((1.0, 3.0), (0.5, 1.0), (0.2, 0.3));
    let amount = Amount::Seconds { skip, measure };
    let windows: &[u64] = bench.pick(&WINDOWS_BYTES[..], &WINDOWS_BYTES[..2], &WINDOWS_BYTES[..1]);
    bench.expect_runs(windows.len() * counts.len() * 2 * rounds);
    let method = vec![
        method(),
        format!(
            "Windows are what a socket has on its way at most. Equal partitions: PSockets' way, each write of 64 KB cut into \
             as many as there are sockets. Longhaul's: writes of 1 MiB, the next block to the socket that has room. \
             {measure} s after the first {skip} s; medians of {rounds} round(s)."
        ),
    ];
    over_conditions(bench, &Condition::windows(windows), method, |condition, lab| {
        let mut points = vec![];
        let window_bytes = condition.buffer();
        for &sockets in &counts {
            let equal = Striped { window_bytes, ..paper_stream(sockets, amount) };
            let longhaul = Striped { partition: Partition::Auto, write_bytes: 1 << 20, ..equal.clone() };
            points.push(Point {
                sockets,
                equal: median_mbps(&equal, rounds, bench, lab)?,
                longhaul: median_mbps(&longhaul, rounds, bench, lab)?,
            });
        }
        Ok((judge(&points), table(&points)))
    })
}

fn table(points: &[Point]) -> Table {
    Table::of("goodput", "Goodput by number of sockets", points)
        .column("sockets", Unit::Number, |point| point.sockets)
        .column("equal partitions", Unit::Mbps, |point| point.equal)
        .column("longhaul's", Unit::Mbps, |point| point.longhaul)
        .column("paper", Unit::Mbps, |point| (point.sockets == PAPER_BEST).then_some(PAPER_PEAK_MBPS))
        .column("of limit", Unit::Share, |point| point.longhaul / payload_limit_mbps())
        .table()
        .plot(Plot::lines("sockets", &["equal partitions", "longhaul's", "paper"]))
}

fn judge(points: &[Point]) -> Vec<Statement> {
    let Some(one) = points.first() else { return vec![] };
    let peak = points.iter().map(|point| point.equal.max(point.longhaul)).fold(0.0, f64::max);
    let equal_peak = points.iter().map(|point| point.equal).fold(0.0, f64::max);
    let enough = points.iter().find(|point| point.equal >= GOOD * equal_peak).unwrap_or(one);
    let window_kb = one.equal * 1e6 / 8.0 * path().rtt_ms / 1e3 / 1e3;
    let expected = (GOOD * equal_peak / one.equal).ceil() as u32;
    let last_too_few =
        points.iter().rfind(|point| point.sockets < enough.sockets).map_or(0, |few| few.sockets);
    let knee = format!(
        "one socket carries {:.1} Mb/s, {window_kb:.0} kB a round trip; {expected} of them make 95 % of {equal_peak:.1} \
         Mb/s, {} did",
        one.equal, enough.sockets
    );
    vec![
        RISES.judge(
            equal_peak > 2.0 * one.equal,
            format!("one socket {:.1} Mb/s, the best number {equal_peak:.1} Mb/s", one.equal),
        ),
        BEST.judge((6..=16).contains(&enough.sockets), format!("{} are within 5 % of the best", enough.sockets))
            .otherwise(
                "here only the window holds a socket back, until all of them together overflow the queue; the systems of 1999 \
                 also lost by hosts and switches",
            ),
        PEAK.judge(peak > PAPER_PEAK_MBPS, format!("{peak:.1} Mb/s")),
        FILLS
            .judge(
                peak >= FILLED * payload_limit_mbps(),
                format!("{peak:.1} Mb/s, {:.1} % of it", 100.0 * peak / payload_limit_mbps()),
            )
            .otherwise("a busy host: repeat it on a quiet one"),
        // Where not every number is tried, any up to the next that was is as good as expected.
        KNEE.judge(enough.sockets >= expected && last_too_few <= expected, knee)
            .otherwise("a busy host: repeat it on a quiet one"),
    ]
}

const COUNTS: [u32; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 28, 32];
/// Nearly as good as the best.
const GOOD: f64 = 0.95;
const FILLED: f64 = 0.9;
/// Section 4 a; the text gives no other point of Figure 2.
const PAPER_BEST: u32 = 12;
/// Section 4 a.
const PAPER_PEAK_MBPS: f64 = 76.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn points(mbps: impl Fn(u32) -> f64) -> Vec<Point> {
        let point = |sockets| Point { sockets, equal: mbps(sockets), longhaul: mbps(sockets) };
        [1, 2, 3, 4, 6, 8, 12, 16, 24, 32].map(point).into()
    }

    fn verdicts(points: &[Point]) -> Vec<Verdict> {
        judge(points).into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn windows_that_fill_the_path_pass_and_the_papers_twelve_are_missed() {
        let filled = points(|sockets| (30.0 * f64::from(sockets)).min(96.0));
        let expected =
            [Verdict::Reproduced, Verdict::NotReproduced, Verdict::Met, Verdict::Met, Verdict::Met];
        assert_eq!(verdicts(&filled), expected);
    }

    #[test]
    fn a_late_knee_and_an_empty_path_are_noticed() {
        let slow = points(|sockets| if sockets < 12 { 20.0 } else { 60.0 });
        let expected =
            [Verdict::Reproduced, Verdict::Reproduced, Verdict::NotMet, Verdict::NotMet, Verdict::NotMet];
        assert_eq!(verdicts(&slow), expected);
    }
}
