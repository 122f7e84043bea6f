//! psockets-c: with and without large windows, against iperf3.

use super::{Condition, goodput_mbps, method, over_conditions, paper_iperf, paper_stream, window_name};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::iperf::{self, Iperf};
use crate::lab::striped::{Amount, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-c",
    "Windows of 64 KB and 256 KB, against iperf3 (Figure 4)",
    &[WITHOUT_TUNING, OVER_IPERF],
    measure,
);

const WITHOUT_TUNING: Claim = Claim::paper(
    "PSockets §4 c, Figure 4",
    "striping over untuned windows of 64 KB comes near tuned ones of 256 KB: 57.7 against 67.7 Mb/s (85 % at least)",
);
const OVER_IPERF: Claim = Claim::paper(
    "PSockets §4 c, Figure 4",
    "one socket of Iperf's with a tuned window stays behind: 47.7 against 67.7 Mb/s (85 % at most)",
);

/// A window, Mb/s with each number of sockets, and Mb/s of iperf3.
struct Row {
    window_bytes: u64,
    points: Vec<(u32, f64)>,
    iperf: Option<f64>,
}

impl Row {
    fn best(&self) -> (u32, f64) {
        self.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let counts = bench.pick(vec![1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24], vec![1, 2, 4, 8, 12], vec![1, 4]);
    let (skip, measure) = bench.pick((1.0, 10.0), (1.0, 5.0), (0.2, 0.3));
    let has_iperf = iperf::is_installed() && bench.pick(true, true, false);
    let conditions = bench.pick(&CONDITIONS[..], &CONDITIONS[..], &CONDITIONS[..1]);
    bench.expect_runs(conditions.len() * WINDOWS.len() * (counts.len() + usize::from(has_iperf)));
    let method = vec![
        method(),
        format!(
            "Equal partitions, writes of 64 KB, the best of {counts:?} sockets; {measure} s after the first {skip} s."
        ),
    ];
    over_conditions(bench, conditions, method, |_, lab| {
        let mut rows = vec![];
        for window_bytes in WINDOWS {
            let mut points = vec![];
            for &count in &counts {
                let stream = paper_stream(count, Amount::Seconds { skip, measure });
                let stream = Striped { window_bytes: Some(window_bytes), ..stream };
                points.push((count, goodput_mbps(&stream, bench, lab)?));
            }
            let measure_s = bench.pick(10, 5, 1);
            let iperf = Iperf { skip_s: 1, measure_s, ..paper_iperf(Some(window_bytes)) };
            let iperf = if has_iperf { Some(iperf.run(bench, lab, false)?) } else { None };
            rows.push(Row { window_bytes, points, iperf });
        }
        Ok((judge(&rows), table(&rows)))
    })
}

fn table(rows: &[Row]) -> Table {
    Table::of(
        "goodput",
        "Goodput with the best number of sockets",
        &rows.iter().zip(PAPER_MBPS).collect::<Vec<_>>(),
    )
    .text("window", |(row, _)| window_name(row.window_bytes))
    .column("best", Unit::Number, |(row, _)| row.best().0)
    .column("equal partitions", Unit::Mbps, |(row, _)| row.best().1)
    .column("paper", Unit::Mbps, |(_, paper)| paper.0)
    .column("iperf3", Unit::Mbps, |(row, _)| row.iperf)
    .column("paper's Iperf", Unit::Mbps, |(_, paper)| paper.1)
    .table()
    .plot(Plot::bars("window", &["equal partitions", "paper", "iperf3", "paper's Iperf"]))
}

fn judge(rows: &[Row]) -> Vec<Statement> {
    let [small, large] = rows else { return vec![] };
    let ((few, small_mbps), (_, large_mbps)) = (small.best(), large.best());
    let near = WITHOUT_TUNING.judge(
        small_mbps >= PAPER_SHARE * large_mbps,
        format!("{small_mbps:.1} Mb/s over {few} sockets against {large_mbps:.1} Mb/s"),
    );
    let over = match large.iperf {
        None => OVER_IPERF.leave_open(iperf::MISSING),
        Some(iperf) => OVER_IPERF
            .judge(
                iperf <= PAPER_IPERF_SHARE_MAX * large_mbps,
                format!("iperf3 {iperf:.1} Mb/s against {large_mbps:.1}"),
            )
            .otherwise(
                "one socket with a window as large as the path needs fills it here; the authors suspected a fault of their \
                 TCP or network",
            ),
    };
    vec![near, over]
}

/// By itself, and with what may have kept the paper's single socket from filling it: a router with a short queue, and losses.
const CONDITIONS: [Condition; 5] = [
    Condition::PLAIN,
    Condition { queue_bdp: 0.1, ..Condition::PLAIN },
    Condition { loss: 0.0002, ..Condition::PLAIN },
    Condition { loss: 0.0005, ..Condition::PLAIN },
    Condition { queue_bdp: 0.25, loss: 0.0002, ..Condition::PLAIN },
];
/// Section 4 c: the usual one, and one near the bandwidth-delay product.
const WINDOWS: [u64; 2] = [64 << 10, 256 << 10];
/// PSockets, Iperf; section 4 c.
const PAPER_MBPS: [(f64, Option<f64>); 2] = [(57.7, None), (67.7, Some(47.7))];
/// 57.7 / 67.7.
const PAPER_SHARE: f64 = 0.85;
/// 47.7 / 67.7 = 0.70; up to this it is still clearly behind.
const PAPER_IPERF_SHARE_MAX: f64 = 0.85;
