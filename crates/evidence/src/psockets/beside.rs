//! psockets-f: an application with eight sockets beside one with a single socket.

use super::{method, paper_stream, path};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::striped::{Amount, run_together};
use crate::report::{Claim, Findings, Plot, Table, Unit};
use longhaul_sim::metrics::Summary;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-f",
    "An application of eight sockets beside one of a single socket",
    &[EQUALLY],
    measure,
);

const EQUALLY: Claim =
    Claim::paper("PSockets §4 e", "the throughput is divided equally among the nine sockets");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let rounds = bench.pick(5, 3, 1);
    let (skip, measure) = bench.pick((5.0, 25.0), (1.5, 7.0), (0.2, 0.3));
    bench.expect_runs(rounds);
    let lab = bench.lab(&path())?;
    let amount = Amount::Seconds { skip, measure };
    let mut pairs = vec![];
    for _ in 0..rounds {
        let streams = [paper_stream(EIGHT, amount), paper_stream(1, amount)];
        let done = run_together(bench, &lab, &streams)?;
        pairs.push((pairs.len() + 1, [0, 1].map(|at| done[at].received.goodput_mbps)));
    }
    let share = |[eight, single]: [f64; 2]| single / (eight + single);
    let table = Table::of("goodput", "Goodput side by side", &pairs)
        .column("round", Unit::Number, |(round, _)| *round)
        .column("eight", Unit::Mbps, |(_, mbps)| mbps[0])
        .column("single", Unit::Mbps, |(_, mbps)| mbps[1])
        .column("single's share", Unit::Share, |(_, mbps)| share(*mbps))
        .table()
        .plot(Plot::bars("round", &["eight", "single"]));
    let mean = Summary::of(pairs.iter().map(|(_, mbps)| share(*mbps))).mean;
    let even = 1.0 / f64::from(EIGHT + 1);
    let figures =
        format!("the single one has {:.1} % on average, a ninth is {:.1} %", 100.0 * mean, 100.0 * even);
    let statement = EQUALLY
        .judge((mean / even - 1.0).abs() <= EVEN, figures)
        .otherwise("the single socket's windows and losses come and go by themselves; nine sockets are few to average over");
    let method = vec![
        method(),
        format!(
            "Both begin at once, buffers of 64 KB, equal partitions of writes of 64 KB; {measure} s after the first {skip} s."
        ),
    ];
    Ok(Findings { method, tables: vec![table], statements: vec![statement] })
}

/// Section 4 e.
const EIGHT: u32 = 8;
/// How far from a ninth, as a share of it.
const EVEN: f64 = 0.25;
