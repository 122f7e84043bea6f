//! psockets-d: eight sockets with windows of 1 KB to 4 MB, against iperf3.

use super::{Condition, median_mbps, method, over_conditions, paper_iperf, paper_stream, window_name};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::figures::median;
use crate::lab::iperf::{self, Iperf};
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-d",
    "Eight sockets with windows of 1 KB to 4 MB, against iperf3 (Figure 5)",
    &[NOT_PRODUCT, AHEAD, NARROWS, TWO],
    measure,
);

const NOT_PRODUCT: Claim = Claim::paper(
    "PSockets §4 d, Figure 5",
    "windows of the bandwidth-delay product, 245 KB, are not best, but larger ones, of 512 KB (a twentieth more at least)",
);
const AHEAD: Claim = Claim::paper(
    "PSockets §4 d, Figure 5",
    "eight sockets get more than one of Iperf's with windows up to 8 KB (a twentieth, with each of these)",
);
const NARROWS: Claim = Claim::paper(
    "PSockets §4 d, Figure 5",
    "the lead over one socket narrows as windows grow (the median with up to 16 KB against that from 256 KB on)",
);
const TWO: Claim = Claim::paper(
    "PSockets §4 d",
    "with windows beyond the product two clients of Iperf together get more than one (a twentieth)",
);

/// A window, and Mb/s of eight sockets, of iperf3 and of two clients of it.
struct Row {
    window_bytes: u64,
    eight: f64,
    iperf: Option<f64>,
    two: Option<f64>,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let kb = bench.pick(
        (0..=12).map(|power| 1_u64 << power).collect(),
        vec![1, 8, 32, 64, 256, 512, 4096],
        vec![16, 64],
    );
    let rounds = bench.pick(3, 1, 1);
    let (skip, measure) = bench.pick((1.0, 5.0), (1.0, 5.0), (0.2, 0.3));
    let has_iperf = iperf::is_installed() && bench.pick(true, true, false);
    let conditions = bench.pick(&CONDITIONS[..], &CONDITIONS[..], &CONDITIONS[..1]);
    bench.expect_runs(conditions.len() * kb.len() * rounds * if has_iperf { 3 } else { 1 });
    let method = vec![
        method(),
        format!(
            "{SOCKETS} sockets, equal partitions of writes of 8 KB, as the paper's amount of data. A window is what is asked \
             for; Linux grants no less than about 2 KB. {measure} s after the first {skip} s; medians of {rounds} round(s)."
        ),
    ];
    over_conditions(bench, conditions, method, |_, lab| {
        let mut rows = vec![];
        for &kb in &kb {
            let window_bytes = kb << 10;
            let stream = paper_stream(SOCKETS, Amount::Seconds { skip, measure });
            let stream = Striped { window_bytes: Some(window_bytes), write_bytes: WRITE_BYTES, ..stream };
            let eight = median_mbps(&stream, rounds, bench, lab)?;
            let clients = |connections| -> Result<Option<f64>, ExperimentError> {
                let measure_s = bench.pick(5, 5, 1);
                let iperf = Iperf { connections, skip_s: 1, measure_s, ..paper_iperf(Some(window_bytes)) };
                let found = (0..if has_iperf { rounds } else { 0 }).map(|_| iperf.run(bench, lab, false));
                Ok(median(found.collect::<Result<_, _>>()?))
            };
            rows.push(Row { window_bytes, eight, iperf: clients(1)?, two: clients(2)? });
        }
        Ok((judge(&rows), table(&rows)))
    })
}

fn table(rows: &[Row]) -> Table {
    Table::of("goodput", "Goodput by window", rows)
        .column("window in KiB", Unit::Number, |row| row.window_bytes >> 10)
        .column("8 sockets", Unit::Mbps, |row| row.eight)
        .column("iperf3", Unit::Mbps, |row| row.iperf)
        .column("of iperf3", Unit::Times, |row| row.iperf.map(|iperf| row.eight / iperf))
        .column("two of iperf3", Unit::Mbps, |row| row.two)
        .table()
        .plot(Plot::lines("window in KiB", &["8 sockets", "iperf3", "two of iperf3"]).log_x())
}

fn judge(rows: &[Row]) -> Vec<Statement> {
    let peak = rows.iter().map(|row| row.eight).fold(0.0, f64::max);
    let good = |row: &&Row| row.eight >= GOOD * peak;
    let good: Vec<String> = rows.iter().filter(good).map(|row| window_name(row.window_bytes)).collect();
    let with = |bytes: u64| rows.iter().find(|row| row.window_bytes == bytes);
    let not_product = match with(PRODUCT_BYTES).zip(with(2 * PRODUCT_BYTES)) {
        Some((product, larger)) => NOT_PRODUCT
            .judge(
                product.eight < GOOD * larger.eight,
                format!(
                    "{:.1} Mb/s with {}, {:.1} with {}; within 5 % of the best ({peak:.1} Mb/s) with {}",
                    product.eight,
                    window_name(PRODUCT_BYTES),
                    larger.eight,
                    window_name(2 * PRODUCT_BYTES),
                    good.join(", ")
                ),
            )
            .otherwise(
                "where losses bind no window matters that is not smaller than an eighth of the product",
            ),
        None => NOT_PRODUCT.leave_open("that window was not tried"),
    };
    let two = match rows.last().and_then(|row| Some((row.window_bytes, row.iperf?, row.two?))) {
        Some((bytes, one, two)) if bytes > PRODUCT_BYTES => TWO
            .judge(one < GOOD * two, format!("{two:.1} against {one:.1} Mb/s with {}", window_name(bytes)))
            .otherwise("one connection fills this path where nothing is lost"),
        Some(_) => TWO.leave_open("no such window was tried"),
        None => TWO.leave_open(iperf::MISSING),
    };
    let lead = |row: &Row| row.iperf.map(|iperf| (row.eight / iperf, row.window_bytes));
    let leads: Vec<(f64, u64)> = rows.iter().filter_map(lead).collect();
    let small = leads.iter().filter(|(_, bytes)| *bytes <= SMALL_BYTES);
    let least = small.min_by(|a, b| a.0.total_cmp(&b.0));
    let ahead = match least {
        Some(&(times, bytes)) => AHEAD.judge(
            times * GOOD > 1.0,
            format!("{times:.1} times iperf3 at least, at {}", window_name(bytes)),
        ),
        None => {
            AHEAD.leave_open(if iperf::is_installed() { "no such window was tried" } else { iperf::MISSING })
        }
    };
    let of = |is_meant: fn(u64) -> bool| {
        median(leads.iter().filter(|(_, bytes)| is_meant(*bytes)).map(|(times, _)| *times).collect())
    };
    let narrows = match of(|bytes| bytes <= NARROW_BYTES).zip(of(|bytes| bytes >= PRODUCT_BYTES)) {
        Some((narrow, wide)) => NARROWS.judge(
            wide < narrow,
            format!(
                "{narrow:.1} times iperf3 up to {}, {wide:.2} times from {} on",
                window_name(NARROW_BYTES),
                window_name(PRODUCT_BYTES)
            ),
        ),
        None if leads.is_empty() => NARROWS.leave_open(iperf::MISSING),
        None => NARROWS.leave_open("no such windows were tried"),
    };
    vec![not_product, ahead, narrows, two]
}

/// By itself, and with losses, which the authors suspected of something in their network.
const CONDITIONS: [Condition; 2] = [Condition::PLAIN, Condition { loss: 0.0002, ..Condition::PLAIN }];
/// Of the windows tried the one nearest to the paper's 245 KB.
const PRODUCT_BYTES: u64 = 256 << 10;
/// Up to here the paper has PSockets ahead of Iperf.
const SMALL_BYTES: u64 = 8 << 10;
/// Windows that are small beside the product.
const NARROW_BYTES: u64 = 16 << 10;
/// Section 4 d.
const SOCKETS: u32 = 8;
const WRITE_BYTES: u64 = 8 << 10;
/// Nearly as good as the best.
const GOOD: f64 = 0.95;
