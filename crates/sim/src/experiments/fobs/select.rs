//! §3.1.1: which of the unacknowledged packets goes next.

use super::run::{Done, HAULS, OBJECT_LEN, Transfer, desktop_path};
use crate::experiments::{Claim, Column, Experiment, Findings, Options, Statement, Table, Unit, run_jobs};
use longhaul_proto::object::SelectorKind;

/// Bandwidth and waste of each selector.
pub const SELECT: Experiment = Experiment {
    id: "fobs-select",
    title: "which unacknowledged packet goes next",
    claims: &[CIRCULAR],
    simulate: select,
};

const CIRCULAR: Claim = Claim::paper(
    "FOBS §3.1.1",
    "the data as a circular buffer is the best choice of the next packet, by far",
);

/// A point of the table.
struct Point {
    selector: SelectorKind,
    loss: f64,
    done: Done,
}

fn select(options: &Options<'_>) -> Findings {
    let object_len = options.scale.pick(OBJECT_LEN, OBJECT_LEN, OBJECT_LEN / 40);
    let (_, rtt_ms) = HAULS[1];
    let jobs: Vec<(f64, SelectorKind)> = LOSSES
        .iter()
        .flat_map(|&loss| SelectorKind::ALL.into_iter().map(move |selector| (loss, selector)))
        .collect();
    let done = run_jobs(options, &jobs, |&(loss, selector)| {
        let mut scenario = desktop_path(rtt_ms, options.seed);
        scenario.loss = loss;
        Transfer { selector, object_len, ..Transfer::new(scenario) }.run()
    });
    let points: Vec<Point> =
        jobs.into_iter().zip(done).map(|((loss, selector), done)| Point { selector, loss, done }).collect();
    let columns = vec![
        Column::new("loss", Unit::Share),
        Column::text("selector"),
        Column::new("goodput", Unit::Mbps),
        Column::new("waste", Unit::Share),
    ];
    let mut table = Table::new("selectors", "The long haul, by selector", columns);
    for point in &points {
        let done = point.done;
        table.push(vec![
            point.loss.into(),
            point.selector.name().into(),
            done.goodput_mbps.into(),
            done.waste.into(),
        ]);
    }
    Findings {
        method: vec![
            "As fobs-fig1 on the long haul with F = 64, with and without random loss. circular-strict is the paper's \
             order; the others leave alone what may still be on its way."
                .into(),
        ],
        tables: vec![table],
        statements: vec![judge(&points)],
    }
}

/// Circular against the best of those that are not.
fn judge(points: &[Point]) -> Statement {
    let best = |loss: f64, is_circular: bool| {
        let of_kind = points.iter().filter(|point| {
            let circular = [SelectorKind::Circular, SelectorKind::CircularStrict].contains(&point.selector);
            point.loss == loss && circular == is_circular
        });
        of_kind.map(|point| point.done.goodput_mbps).fold(0.0, f64::max)
    };
    let is_far_better = LOSSES.iter().all(|&loss| best(loss, true) >= 1.1 * best(loss, false));
    let figures: Vec<String> = LOSSES
        .iter()
        .map(|&loss| {
            let (circular, other) = (best(loss, true), best(loss, false));
            format!(
                "{circular:.1} Mb/s against {other:.1} for the best other order at {} % loss",
                loss * 100.0
            )
        })
        .collect();
    CIRCULAR.judge(is_far_better, figures.join(", ")).otherwise(
        "the other orders here skip packets that may still be on their way, as the paper's seem not to have done; then \
         the order hardly matters",
    )
}

const LOSSES: [f64; 3] = [0.0, 0.001, 0.01];
