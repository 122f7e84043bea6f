//! psockets-f: an application with eight sockets beside one with a single socket.

use super::{method, paper_stream, path};
use crate::experiments::bench::Bench;
use crate::experiments::striped::{Amount, run_together};
use crate::experiments::{Claim, Experiment, ExperimentError, Findings};
use longhaul_sim::experiments::{Column, Plot, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "psockets-f",
    title: "An application of eight sockets beside one of a single socket",
    claims: &[EQUALLY],
    has_parts: false,
    measure,
};

const EQUALLY: Claim =
    Claim::paper("PSockets §4 e", "the throughput is divided equally among the nine sockets");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let rounds = bench.pick(5, 3, 1);
    let (skip, measure) = bench.pick((5.0, 25.0), (1.5, 7.0), (0.2, 0.3));
    bench.expect_runs(rounds);
    let lab = bench.lab(&path())?;
    let amount = Amount::Seconds { skip, measure };
    let columns = vec![
        Column::new("round", Unit::Number),
        Column::new("eight", Unit::Mbps),
        Column::new("single", Unit::Mbps),
        Column::new("single's share", Unit::Share),
    ];
    let mut table = Table::new("goodput", "Goodput side by side", columns)
        .plot(Plot::bars("round", &["eight", "single"]));
    let mut shares = vec![];
    for round in 1..=rounds {
        let streams = [paper_stream(EIGHT, amount), paper_stream(1, amount)];
        let done = run_together(bench, &lab, &streams)?;
        let [eight, single] = [0, 1].map(|at| done[at].received.goodput_mbps);
        let share = single / (eight + single);
        shares.push(share);
        table.push(vec![(round as u64).into(), eight.into(), single.into(), share.into()]);
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
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
