//! psockets-f: an application with eight sockets beside one with a single socket.

use super::{Condition, WINDOWS_BYTES, believable_mbps, method, over_conditions, paper_stream};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::figures::possible;
use crate::lab::striped::{Amount, Striped, run_together};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_sim::metrics::Summary;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-f",
    "An application of eight sockets beside one of a single socket",
    &[EQUALLY],
    measure,
);

const EQUALLY: Claim = Claim::paper(
    "PSockets §4 e",
    "the throughput is divided equally among the nine sockets (the single one within a quarter of a ninth)",
);

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let rounds = bench.pick(5, 3, 1);
    let (skip, measure) = bench.pick((5.0, 25.0), (1.5, 7.0), (0.2, 0.3));
    let windows: &[u64] = bench.pick(&WINDOWS_BYTES[..], &WINDOWS_BYTES[..2], &WINDOWS_BYTES[..1]);
    bench.expect_runs(windows.len() * rounds);
    let amount = Amount::Seconds { skip, measure };
    let method = vec![
        method(),
        format!(
            "Both begin at once, equal partitions of writes of 64 KB; {measure} s after the first {skip} s."
        ),
    ];
    over_conditions(bench, &Condition::windows(windows), method, |condition, lab| {
        let streams = [EIGHT, 1]
            .map(|sockets| Striped { window_bytes: condition.buffer(), ..paper_stream(sockets, amount) });
        let mut pairs = vec![];
        for round in 1..=rounds {
            let done = run_together(bench, lab, &streams)?;
            let mbps = [0, 1].map(|at| done[at].received.goodput_mbps);
            possible(mbps.iter().sum(), believable_mbps(bench))?;
            pairs.push((round, mbps));
        }
        Ok((vec![judge(&pairs)], table(&pairs)))
    })
}

/// A round, and Mb/s of the eight and of the single one.
type Pair = (usize, [f64; 2]);

fn single_share([eight, single]: [f64; 2]) -> f64 {
    single / (eight + single)
}

fn table(pairs: &[Pair]) -> Table {
    Table::of("goodput", "Goodput side by side", pairs)
        .column("round", Unit::Number, |(round, _)| *round)
        .column("eight", Unit::Mbps, |(_, mbps)| mbps[0])
        .column("single", Unit::Mbps, |(_, mbps)| mbps[1])
        .column("single's share", Unit::Share, |(_, mbps)| single_share(*mbps))
        .table()
        .plot(Plot::bars("round", &["eight", "single"]))
}

fn judge(pairs: &[Pair]) -> Statement {
    let mean = Summary::of(pairs.iter().map(|(_, mbps)| single_share(*mbps))).mean;
    let even = 1.0 / f64::from(EIGHT + 1);
    let figures =
        format!("the single one has {:.1} % on average, a ninth is {:.1} %", 100.0 * mean, 100.0 * even);
    EQUALLY.judge((mean / even - 1.0).abs() <= EVEN, figures).otherwise(
        "the single socket's windows and losses come and go by themselves; nine sockets are few to average over",
    )
}

/// Section 4 e.
const EIGHT: u32 = 8;
/// How far from a ninth, as a share of it.
const EVEN: f64 = 0.25;
