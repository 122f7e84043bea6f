//! psockets-d: eight sockets with windows of 1 KB to 4 MB, against iperf3.

use super::{goodput_mbps, method, paper_stream, path, window_name};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::iperf::{self, Iperf};
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-d",
    "Eight sockets with windows of 1 KB to 4 MB, against iperf3 (Figure 5)",
    &[BEST, NARROWS],
    measure,
);

const BEST: Claim = Claim::paper(
    "PSockets §4 d, Figure 5",
    "windows of 512 KB are best, not those of the bandwidth-delay product, 245 KB",
);
const NARROWS: Claim =
    Claim::paper("PSockets §4 d, Figure 5", "the lead over one socket narrows as windows grow");

/// A window, and Mb/s of eight sockets and of iperf3.
struct Row {
    window_bytes: u64,
    eight: f64,
    iperf: Option<f64>,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let kb = bench.pick(
        (0..=12).map(|power| 1 << power).collect(),
        vec![1, 8, 32, 64, 256, 512, 4096],
        vec![16, 64],
    );
    let (skip, measure) = bench.pick((1.0, 5.0), (0.5, 1.0), (0.2, 0.3));
    let has_iperf = iperf::is_installed() && bench.pick(true, true, false);
    bench.expect_runs(kb.len() * if has_iperf { 2 } else { 1 });
    let lab = bench.lab(&path())?;
    let mut rows = vec![];
    for window_bytes in kb.into_iter().map(|kb: u64| kb << 10) {
        let stream = paper_stream(SOCKETS, Amount::Seconds { skip, measure });
        let stream = Striped { window_bytes: Some(window_bytes), write_bytes: WRITE_BYTES, ..stream };
        let eight = goodput_mbps(&stream, bench, &lab)?;
        let iperf = Iperf {
            window_bytes: Some(window_bytes),
            skip_s: 1,
            measure_s: bench.pick(5, 1, 1),
            ..Iperf::default()
        };
        let iperf = if has_iperf { Some(iperf.run(bench, &lab, false)?) } else { None };
        rows.push(Row { window_bytes, eight, iperf });
    }
    let method = vec![
        method(),
        format!(
            "{SOCKETS} sockets, equal partitions of writes of 8 KB, as the paper's amount of data. A window is what is asked \
             for; Linux grants no less than about 2 KB. {measure} s after the first {skip} s."
        ),
    ];
    Ok(Findings { method, tables: vec![table(&rows)], statements: judge(&rows) })
}

fn table(rows: &[Row]) -> Table {
    Table::of("goodput", "Goodput by window", rows)
        .column("window in KiB", Unit::Number, |row| row.window_bytes >> 10)
        .column("8 sockets", Unit::Mbps, |row| row.eight)
        .column("iperf3", Unit::Mbps, |row| row.iperf)
        .column("of iperf3", Unit::Times, |row| row.iperf.map(|iperf| row.eight / iperf))
        .table()
        .plot(Plot::lines("window in KiB", &["8 sockets", "iperf3"]).log_x())
}

fn judge(rows: &[Row]) -> Vec<Statement> {
    let peak = rows.iter().map(|row| row.eight).fold(0.0, f64::max);
    let good = |row: &&Row| row.eight >= GOOD * peak;
    let good: Vec<String> = rows.iter().filter(good).map(|row| window_name(row.window_bytes)).collect();
    let product_kb = path().bdp_bytes() as f64 / 1e3;
    let best = BEST
        .judge(
            good == [window_name(512 << 10)],
            format!("within 5 % of the best ({peak:.1} Mb/s): {}; the product is {product_kb:.0} kB", good.join(", ")),
        )
        .otherwise(
            "eight windows fill this path as soon as each is an eighth of the product, and larger ones harm only where they \
             overflow the queue; the paper's hosts behaved otherwise",
        );
    let lead = |row: &Row| row.iperf.map(|iperf| (row.eight / iperf, row.window_bytes));
    let leads: Vec<(f64, u64)> = rows.iter().filter_map(lead).collect();
    let narrows = match (leads.first(), leads.last()) {
        (Some(first), Some(last)) if leads.len() > 1 => NARROWS.judge(
            last.0 < first.0,
            format!(
                "{:.1} times iperf3 at {}, {:.2} times at {}",
                first.0,
                window_name(first.1),
                last.0,
                window_name(last.1)
            ),
        ),
        _ => NARROWS.leave_open(iperf::MISSING),
    };
    vec![best, narrows]
}

/// Section 4 d.
const SOCKETS: u32 = 8;
const WRITE_BYTES: u64 = 8 << 10;
/// Nearly as good as the best.
const GOOD: f64 = 0.95;
