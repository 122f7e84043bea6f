//! psockets-b: goodput by amount of data, for several numbers of sockets.

use super::{
    Condition, WINDOWS_BYTES, goodput_mbps, method, over_conditions, paper_iperf, paper_stream,
    payload_limit_mbps,
};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::iperf::{self, Iperf};
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-b",
    "Goodput by amount of data, 1 KB to 4 MB, against iperf3 (Figure 3)",
    &[RISES_AND_FALLS, AMOUNT],
    measure,
);

const RISES_AND_FALLS: Claim =
    Claim::paper("PSockets §4 b, Figure 3", "goodput rises with the number of sockets and then drops");
const AMOUNT: Claim = Claim::paper(
    "PSockets §4 b, Figure 3",
    "at a fixed number of sockets the amount of data does not matter (four fifths of the fastest at least)",
);

/// An amount of data, Mb/s with each number of sockets, and Mb/s of iperf3.
struct Row {
    bytes: u64,
    mbps: Vec<f64>,
    iperf: Option<f64>,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let amounts: Vec<u64> = bench.pick(
        (0..=12).step_by(2).map(|power| 1024 << power).collect(),
        vec![1 << 10, 64 << 10, 4 << 20],
        vec![64 << 10],
    );
    let counts = bench.pick(vec![1, 2, 4, 8, 12, 16, 24, 32], vec![1, 4, 12, 32], vec![1, 4]);
    // 4 MB that are read in order last a third of a second: of many, one more or less is little.
    let (skip, measure) = bench.pick((1.0, 8.0), (1.0, 8.0), (0.2, 0.3));
    let windows: &[u64] = bench.pick(&WINDOWS_BYTES[..], &WINDOWS_BYTES[..2], &WINDOWS_BYTES[..1]);
    let has_iperf = iperf::is_installed() && bench.pick(true, true, false);
    bench.expect_runs(windows.len() * amounts.len() * (counts.len() + usize::from(has_iperf)));
    let method = vec![
        method(),
        format!(
            "Equal partitions. The amount of data is what each call of send is given, over and over: \
             so small amounts could not have filled the paper's path otherwise. iperf3 takes 1 MB at most. {measure} s after the first {skip} s."
        ),
    ];
    over_conditions(bench, &Condition::windows(windows), method, |condition, lab| {
        let buffer = condition.buffer();
        let mut rows = vec![];
        for &bytes in &amounts {
            let mut mbps = vec![];
            for &count in &counts {
                let stream = paper_stream(count, Amount::Seconds { skip, measure });
                let stream = Striped { write_bytes: bytes, window_bytes: buffer, ..stream };
                mbps.push(goodput_mbps(&stream, bench, lab)?);
            }
            let iperf = Iperf {
                write_bytes: Some(bytes.min(IPERF_WRITE_MAX)),
                measure_s: bench.pick(2, 1, 1),
                ..paper_iperf(buffer)
            };
            let iperf = if has_iperf { Some(iperf.run(bench, lab, false)?) } else { None };
            rows.push(Row { bytes, mbps, iperf });
        }
        Ok((judge(&rows, &counts), table(&rows, &counts)))
    })
}

fn table(rows: &[Row], counts: &[u32]) -> Table {
    let names: Vec<String> = counts.iter().map(|count| format!("{count} sockets")).collect();
    let series: Vec<&str> = names.iter().map(String::as_str).chain(["iperf3"]).collect();
    Table::of("goodput", "Goodput by amount of data and number of sockets", rows)
        .column("amount in KiB", Unit::Number, |row| row.bytes >> 10)
        .columns(&names, Unit::Mbps, |row, at| row.mbps[at])
        .column("iperf3", Unit::Mbps, |row| row.iperf)
        .table()
        .plot(Plot::lines("amount in KiB", &series).log_x())
}

fn judge(rows: &[Row], counts: &[u32]) -> Vec<Statement> {
    let column = |at: usize| rows.iter().map(move |row| row.mbps[at]);
    let means: Vec<f64> =
        (0..counts.len()).map(|at| column(at).sum::<f64>() / rows.len().max(1) as f64).collect();
    let peak = means.iter().copied().fold(0.0, f64::max);
    let (first, last) = (means.first().copied().unwrap_or(0.0), means.last().copied().unwrap_or(0.0));
    let figures = counts.iter().zip(&means).map(|(count, mbps)| format!("{count}: {mbps:.1}"));
    let figures = format!("means over all amounts, Mb/s: {}", figures.collect::<Vec<_>>().join(", "));
    let spread = (0..counts.len())
        .map(|at| {
            let (low, high) =
                column(at).fold((f64::MAX, 0.0_f64), |(low, high), mbps| (low.min(mbps), high.max(mbps)));
            (low / high.max(f64::MIN_POSITIVE), counts[at])
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((1.0, 0));
    vec![
        RISES_AND_FALLS
            .judge(first < NOTABLY_LESS * peak && last < NOTABLY_LESS * peak, figures)
            .otherwise("once the path is full more sockets cost nothing here: no host or switch gets tired of them"),
        AMOUNT
            .judge(
                spread.0 >= ALIKE,
                format!(
                    "the slowest amount has at worst {:.0} % of the fastest, at {} sockets; limit {:.1} Mb/s",
                    100.0 * spread.0,
                    spread.1,
                    payload_limit_mbps()
                ),
            )
            .otherwise(
                "calls of 1 KB in equal partitions make pieces of some tens of bytes, whose headers and handling cost more \
                 than they; and where too many sockets fill the queue, runs differ by chance",
            ),
    ]
}

/// iperf3 refuses more.
const IPERF_WRITE_MAX: u64 = 1 << 20;
/// Less by more than what runs differ.
const NOTABLY_LESS: f64 = 0.95;
/// As in the paper's figure, whose curves lie within a fifth of each other as far as its text tells; ours.
const ALIKE: f64 = 0.8;
