//! psockets-g: packets dropped with eight sockets and with one.

use super::{Condition, WINDOWS_BYTES, goodput_mbps, method, over_conditions, paper_stream};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Finding, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::DirectionCounters;
use longhaul_sim::metrics::Summary;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-g",
    "Packets dropped with eight sockets and with one",
    &[MORE, FEW],
    measure,
);

const MORE: Claim =
    Claim::paper("PSockets §4 e", "eight sockets lose more packets than one: 0.03 % against 0.0002 %");
const FEW: Claim = Claim::paper("PSockets §4 e", "still they are few: 0.03 % (0.1 % at most)");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let (skip, measure) = bench.pick((1.0, 60.0), (1.0, 12.0), (0.2, 0.3));
    let mut conditions = Condition::windows(&WINDOWS_BYTES);
    // The paper's packets met those of others ("more contention within packets").
    for others in [0.05, 0.1] {
        let plain = Condition::windows(&WINDOWS_BYTES[1..]).into_iter();
        conditions.extend(plain.map(|plain| Condition { others, ..plain }));
    }
    let conditions = bench.pick(&conditions[..], &conditions[..], &conditions[..1]);
    let rounds = bench.pick(ROUNDS, 1, 1);
    bench.expect_runs(conditions.len() * SOCKETS.len() * rounds);
    let method = vec![
        method(),
        format!(
            "By turns, {rounds} times, equal partitions of writes of 512 KB; of all packets at the bottleneck, others' too, over \
             whole runs of {:.0} s, their start included.",
            skip + measure
        ),
    ];
    over_conditions(bench, conditions, method, |condition, lab| {
        let mut runs = SOCKETS.map(|(sockets, paper)| Run { sockets, paper, ..Run::default() });
        for at in (0..rounds).flat_map(|_| 0..SOCKETS.len()) {
            let (sockets, _) = SOCKETS[at];
            let stream = Striped {
                write_bytes: WRITE_BYTES,
                window_bytes: condition.buffer(),
                ..paper_stream(sockets, Amount::Seconds { skip, measure })
            };
            let mbps = goodput_mbps(&stream, bench, lab)?;
            let DirectionCounters { packets_in, dropped_queue, .. } = lab.counters().left_to_right;
            runs[at].mbps.push(mbps);
            runs[at].packets.push(packets_in);
            runs[at].dropped.push(dropped_queue);
        }
        Ok((judge(&runs), table(&runs)))
    })
}

/// What came of so many sockets, of each round.
#[derive(Default)]
struct Run {
    sockets: u32,
    mbps: Vec<f64>,
    packets: Vec<u64>,
    dropped: Vec<u64>,
    /// The share of packets dropped.
    paper: f64,
}

impl Run {
    fn share(&self) -> f64 {
        share_of(self.dropped.iter().sum(), self.packets.iter().sum())
    }

    /// Of each round.
    fn shares(&self) -> impl Iterator<Item = f64> {
        self.dropped.iter().zip(&self.packets).map(|(dropped, packets)| share_of(*dropped, *packets))
    }
}

fn share_of(dropped: u64, packets: u64) -> f64 {
    dropped as f64 / packets.max(1) as f64
}

fn table(runs: &[Run]) -> Table {
    Table::of("drops", "Packets that the bottleneck's queue dropped", runs)
        .column("sockets", Unit::Number, |run| run.sockets)
        .column("goodput", Unit::Mbps, |run| Summary::of(run.mbps.iter().copied()).mean)
        .column("packets", Unit::Number, |run| run.packets.iter().sum::<u64>())
        .column("dropped", Unit::Share, Run::share)
        .column("paper", Unit::Share, |run| run.paper)
        .table()
        .plot(Plot::bars("sockets", &["dropped", "paper"]))
}

fn judge(runs: &[Run]) -> Vec<Statement> {
    let dropped = [runs[0].share(), runs[1].share()];
    let rounds = || runs[0].shares().zip(runs[1].shares());
    let more = match rounds().all(|(eight, one)| eight > one) {
        true => Finding::Holds,
        false if rounds().all(|(eight, one)| eight <= one) => Finding::Fails,
        false => Finding::Tie,
    };
    let figures = format!("{:.4} % with 8, {:.4} % with 1", 100.0 * dropped[0], 100.0 * dropped[1]);
    vec![
        MORE.judge_finding(more, &figures)
            .otherwise("windows and queue are such that neither overflows it"),
        FEW.judge(dropped[0] > 0.0 && dropped[0] <= FEW_MAX, figures).otherwise(
            "eight windows of 64 KB are more than the path and its queue of one product hold; why those of 48 KB, which are \
             not, lose more is not known",
        ),
    ]
}

/// Sockets, and the paper's share of packets dropped.
const SOCKETS: [(u32, f64); 2] = [(8, 0.0003), (1, 0.000_002)];
/// Section 4 e.
const WRITE_BYTES: u64 = 512 << 10;
/// What others send differs from one to the next.
const ROUNDS: usize = 3;
/// Of the paper's order: nearer to its figure than to ten times as many.
const FEW_MAX: f64 = 0.001;
