//! psockets-g: packets dropped with eight sockets and with one.

use super::{Condition, WINDOWS_BYTES, goodput_mbps, method, over_conditions, paper_stream};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
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
    let mut conditions = Condition::windows(&WINDOWS_BYTES);
    // The paper's packets met those of others ("more contention within packets").
    for others in [0.05, 0.1] {
        let plain = Condition::windows(&WINDOWS_BYTES[1..]).into_iter();
        conditions.extend(plain.map(|plain| Condition { others, ..plain }));
    }
    let conditions = bench.pick(&conditions[..], &conditions[..], &conditions[..1]);
    bench.expect_runs(conditions.len() * SOCKETS.len());
    let method = vec![
        method(),
        format!(
            "One after the other, equal partitions of writes of 512 KB; of all packets at the bottleneck, others' too, over the \
             whole run of {:.0} s, its start included.",
            skip + measure
        ),
    ];
    over_conditions(bench, conditions, method, |condition, lab| {
        let mut runs = vec![];
        for (sockets, paper) in SOCKETS {
            let stream = Striped {
                write_bytes: WRITE_BYTES,
                window_bytes: condition.buffer(),
                ..paper_stream(sockets, Amount::Seconds { skip, measure })
            };
            let mbps = goodput_mbps(&stream, bench, lab)?;
            let DirectionCounters { packets_in, dropped_queue, .. } = lab.counters().left_to_right;
            let dropped = dropped_queue as f64 / packets_in.max(1) as f64;
            runs.push(Run { sockets, mbps, packets: packets_in, dropped, paper });
        }
        Ok((judge(&runs), table(&runs)))
    })
}

/// What came of so many sockets.
struct Run {
    sockets: u32,
    mbps: f64,
    packets: u64,
    /// Shares of these.
    dropped: f64,
    paper: f64,
}

fn table(runs: &[Run]) -> Table {
    Table::of("drops", "Packets that the bottleneck's queue dropped", runs)
        .column("sockets", Unit::Number, |run| run.sockets)
        .column("goodput", Unit::Mbps, |run| run.mbps)
        .column("packets", Unit::Number, |run| run.packets)
        .column("dropped", Unit::Share, |run| run.dropped)
        .column("paper", Unit::Share, |run| run.paper)
        .table()
        .plot(Plot::bars("sockets", &["dropped", "paper"]))
}

fn judge(runs: &[Run]) -> Vec<Statement> {
    let dropped = [runs[0].dropped, runs[1].dropped];
    let figures = format!("{:.4} % with 8, {:.4} % with 1", 100.0 * dropped[0], 100.0 * dropped[1]);
    vec![
        MORE.judge(dropped[0] > dropped[1], figures.clone())
            .otherwise("windows and queue are such that neither overflows it"),
        FEW.judge(dropped[0] > 0.0 && dropped[0] <= FEW_MAX, figures).otherwise(
            "eight windows of 64 KB overfill one bandwidth-delay product of path and one of queue all the time",
        ),
    ]
}

/// Sockets, and the paper's share of packets dropped.
const SOCKETS: [(u32, f64); 2] = [(8, 0.0003), (1, 0.000_002)];
/// Section 4 e.
const WRITE_BYTES: u64 = 512 << 10;
/// Of the paper's order: nearer to its figure than to ten times as many.
const FEW_MAX: f64 = 0.001;
