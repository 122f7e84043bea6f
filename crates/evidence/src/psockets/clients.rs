//! psockets-e: one to eight applications at once, eight sockets each.

use super::{method, paper_stream, path};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::figures::median;
use crate::lab::striped::{Amount, run_together};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_sim::metrics::jain;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-e",
    "One to eight applications of eight sockets each, 2 MB each (Figure 6)",
    &[GROWS, FALLS, EQUAL],
    measure,
);

const GROWS: Claim = Claim::paper("PSockets §4 e, Figure 6", "the aggregate grows from 1 application to 7");
const FALLS: Claim =
    Claim::paper("PSockets §4 e, Figure 6", "with 8 applications, which are 64 sockets, it drops");
const EQUAL: Claim = Claim::paper("PSockets §4 e, Figure 6", "each application has nearly the same share");

/// What so many applications carried.
struct Row {
    applications: usize,
    /// All bytes until the last had arrived; the median of the rounds.
    aggregate_mbps: f64,
    /// Jain's index over the applications' goodputs, likewise.
    fairness: f64,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let most = bench.pick(MOST, MOST, 2);
    let rounds = bench.pick(15, 3, 1);
    bench.expect_runs(most * rounds);
    let lab = bench.lab(&path())?;
    let mut rows = vec![];
    for applications in 1..=most {
        let streams = vec![paper_stream(SOCKETS, Amount::Bytes(BYTES)); applications];
        let (mut aggregates, mut fairness) = (vec![], vec![]);
        for _ in 0..rounds {
            let done = run_together(bench, &lab, &streams)?;
            let seconds: Vec<f64> = done.iter().map(|one| one.sent.seconds).collect();
            let last = seconds.iter().copied().fold(0.0, f64::max);
            let bytes: u64 = done.iter().map(|one| one.sent.bytes).sum();
            aggregates.push(bytes as f64 * 8e-6 / last);
            fairness.push(jain(&seconds.iter().map(|seconds| 1.0 / seconds).collect::<Vec<_>>()));
        }
        rows.push(Row {
            applications,
            aggregate_mbps: median(aggregates).unwrap_or_default(),
            fairness: median(fairness).unwrap_or_default(),
        });
    }
    let method = vec![
        method(),
        format!(
            "Each application sends 2 MB in writes of 64 KB over {SOCKETS} sockets with buffers of 64 KB, equal partitions; \
             all begin at once, when they are connected. Aggregate: all their bytes until the last of them was acknowledged. \
             Medians of {rounds} rounds."
        ),
    ];
    Ok(Findings { method, tables: vec![table(&rows)], statements: judge(&rows) })
}

fn table(rows: &[Row]) -> Table {
    Table::of("goodput", "Goodput by number of applications", rows)
        .column("applications", Unit::Number, |row| row.applications)
        .column("sockets", Unit::Number, |row| row.applications * SOCKETS as usize)
        .column("aggregate", Unit::Mbps, |row| row.aggregate_mbps)
        .column("Jain's index", Unit::Number, |row| row.fairness)
        .table()
        .plot(Plot::lines("applications", &["aggregate"]))
        .plot(Plot::lines("applications", &["Jain's index"]).title("Fairness among the applications"))
}

fn judge(rows: &[Row]) -> Vec<Statement> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return vec![] };
    let best = rows.iter().max_by(|a, b| a.aggregate_mbps.total_cmp(&b.aggregate_mbps)).unwrap_or(last);
    let before_last = rows.iter().rev().nth(1).unwrap_or(last);
    let least_fair = rows.iter().min_by(|a, b| a.fairness.total_cmp(&b.fairness)).unwrap_or(last);
    vec![
        GROWS
            .judge(
                best.applications + 1 >= rows.len() && before_last.aggregate_mbps > first.aggregate_mbps,
                format!(
                    "{:.1} Mb/s with 1, most with {}: {:.1} Mb/s",
                    first.aggregate_mbps, best.applications, best.aggregate_mbps
                ),
            )
            .otherwise(
                "2 MB are eight bandwidth-delay products: a few applications hide each other's slow start and fill the path, \
                 more only lose packets to each other and wait for the last one",
            ),
        FALLS.judge(
            last.aggregate_mbps < TIE * before_last.aggregate_mbps,
            format!("{:.1} Mb/s with 7, {:.1} with 8", before_last.aggregate_mbps, last.aggregate_mbps),
        ),
        EQUAL.judge(
            least_fair.fairness >= FAIR,
            format!("Jain's index at worst {:.3}, with {}", least_fair.fairness, least_fair.applications),
        ),
    ]
}

/// Section 4 e.
const MOST: usize = 8;
const SOCKETS: u32 = 8;
const BYTES: u64 = 2 << 20;
/// What differs by less does not differ.
const TIE: f64 = 0.99;
/// "Nearly same" in the paper; at 0.9 one of eight may have a third more or less than the others.
const FAIR: f64 = 0.9;
