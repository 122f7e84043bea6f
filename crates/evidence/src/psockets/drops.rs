//! psockets-g: packets dropped with eight sockets and with one.

use super::{method, paper_stream, path};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Findings, Plot, Table, Unit};
use longhaul_lab::DirectionCounters;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-g",
    "Packets dropped with eight sockets and with one",
    &[MORE, FEW],
    measure,
);

const MORE: Claim =
    Claim::paper("PSockets §4 e", "eight sockets lose more packets than one: 0.03 % against 0.0002 %");
const FEW: Claim = Claim::paper("PSockets §4 e", "still they are few: 0.03 %");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let (skip, measure) = bench.pick((1.0, 60.0), (1.0, 12.0), (0.2, 0.3));
    bench.expect_runs(SOCKETS.len());
    let lab = bench.lab(&path())?;
    let mut runs = vec![];
    for (sockets, paper) in SOCKETS {
        let stream = paper_stream(sockets, Amount::Seconds { skip, measure });
        let done = Striped { write_bytes: WRITE_BYTES, ..stream }.run(bench, &lab)?;
        let DirectionCounters { packets_in, dropped_queue, .. } = lab.counters().left_to_right;
        let dropped = dropped_queue as f64 / packets_in.max(1) as f64;
        runs.push((sockets, done.received.goodput_mbps, packets_in, dropped, paper));
    }
    let table = Table::of("drops", "Packets that the bottleneck's queue dropped", &runs)
        .column("sockets", Unit::Number, |run| run.0)
        .column("goodput", Unit::Mbps, |run| run.1)
        .column("packets", Unit::Number, |run| run.2)
        .column("dropped", Unit::Share, |run| run.3)
        .column("paper", Unit::Share, |run| run.4)
        .table()
        .plot(Plot::bars("sockets", &["dropped", "paper"]));
    let dropped = [runs[0].3, runs[1].3];
    let figures = format!("{:.4} % with 8, {:.4} % with 1", 100.0 * dropped[0], 100.0 * dropped[1]);
    let statements = vec![
        MORE.judge(dropped[0] > dropped[1], figures.clone())
            .otherwise("windows and queue are such that neither overflows it"),
        FEW.judge(dropped[0] <= FEW_MAX, figures)
            .otherwise("eight windows of 64 KB overfill one bandwidth-delay product of path and one of queue all the time"),
    ];
    let method = vec![
        method(),
        format!(
            "One after the other, each alone, buffers of 64 KB, equal partitions of writes of 512 KB; over the whole run of \
             {:.0} s, its start included.",
            skip + measure
        ),
    ];
    Ok(Findings { method, tables: vec![table], statements })
}

/// Sockets, and the paper's share of packets dropped.
const SOCKETS: [(u32, f64); 2] = [(8, 0.0003), (1, 0.000_002)];
/// Section 4 e.
const WRITE_BYTES: u64 = 512 << 10;
/// Of the paper's order: not ten times as many.
const FEW_MAX: f64 = 0.003;
