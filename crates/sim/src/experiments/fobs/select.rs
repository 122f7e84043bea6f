//! §3.1.1: which of the unacknowledged packets goes next.

use super::run::{Done, HAULS, OBJECT_LEN, Order, Transfer, desktop_path};
use crate::experiments::{
    Claim, Column, Experiment, Findings, Options, Plot, Statement, Table, Unit, run_jobs,
};
use longhaul_proto::object::{Selector, SelectorKind, View};
use longhaul_proto::units::PacketNumber;

/// Bandwidth and waste of each order.
pub const SELECT: Experiment = Experiment {
    id: "fobs-select",
    title: "which unacknowledged packet goes next",
    claims: &[CIRCULAR],
    takes_contestants: false,
    simulate: select,
};

const CIRCULAR: Claim = Claim::paper(
    "FOBS §3.1.1",
    "the data as a circular buffer is the best choice of the next packet, by far",
);

/// An order that was tried.
struct Candidate {
    name: &'static str,
    order: Order,
    /// It chooses among all that is unacknowledged, and does not know what is on its way.
    is_blind: bool,
}

/// A line of the table.
struct Point {
    name: &'static str,
    is_blind: bool,
    loss: f64,
    done: Done,
}

fn select(options: &Options<'_>) -> Findings {
    let object_len = options.scale.pick(OBJECT_LEN, OBJECT_LEN, OBJECT_LEN / 40);
    let (_, rtt_ms) = HAULS[1];
    let candidates = candidates();
    let jobs: Vec<(f64, &Candidate)> =
        LOSSES.iter().flat_map(|&loss| candidates.iter().map(move |candidate| (loss, candidate))).collect();
    let done = run_jobs(options, &jobs, |&(loss, candidate)| {
        let mut scenario = desktop_path(rtt_ms, options.seed);
        scenario.loss = loss;
        Transfer { order: candidate.order, object_len, ..Transfer::new(scenario) }.run()
    });
    let points: Vec<Point> = jobs
        .into_iter()
        .zip(done)
        .map(|((loss, candidate), done)| Point {
            name: candidate.name,
            is_blind: candidate.is_blind,
            loss,
            done,
        })
        .collect();
    let columns = vec![
        Column::new("loss", Unit::Share),
        Column::text("order"),
        Column::text("knows what is on its way"),
        Column::new("goodput", Unit::Mbps),
        Column::new("waste", Unit::Share),
    ];
    let mut table = Table::new("orders", "The long haul, by order", columns)
        .plot(Plot::bars("order", &["goodput"]).by("loss"))
        .plot(Plot::bars("order", &["waste"]).by("loss").title("Waste by order"));
    for point in &points {
        let knows = if point.is_blind { "no" } else { "yes" };
        let (goodput, waste) = (point.done.goodput_mbps, point.done.waste);
        table.push(vec![point.loss.into(), point.name.into(), knows.into(), goodput.into(), waste.into()]);
    }
    Findings {
        method: vec![
            "As fobs-fig1 on the long haul with F = 64, with and without random loss. The paper does not name the orders \
             that it tried beside the circular one; the three that do not know what is on its way choose among all \
             unacknowledged packets, as its sender did."
                .into(),
        ],
        tables: vec![table],
        statements: vec![judge(&points)],
    }
}

/// Circular against the best of the other orders that know as little.
fn judge(points: &[Point]) -> Statement {
    let best = |loss: f64, is_circular: bool| {
        let alike = points.iter().filter(|point| {
            point.loss == loss && point.is_blind && (point.name == CIRCULAR_NAME) == is_circular
        });
        alike.map(|point| point.done.goodput_mbps).fold(0.0, f64::max)
    };
    let is_far_better = LOSSES.iter().all(|&loss| best(loss, true) >= 1.1 * best(loss, false));
    let figures: Vec<String> = LOSSES
        .iter()
        .map(|&loss| {
            let (circular, other) = (best(loss, true), best(loss, false));
            format!(
                "{circular:.1} against {other:.1} Mb/s for the best other order at {} % loss",
                loss * 100.0
            )
        })
        .collect();
    CIRCULAR
        .judge(is_far_better, figures.join(", "))
        .remark("among orders that skip what may still be on its way the choice hardly matters")
}

fn candidates() -> Vec<Candidate> {
    // Rounds need a receiver that answers when asked: RBUDP's, not FOBS's.
    let of_fobs = SelectorKind::ALL.into_iter().filter(|kind| *kind != SelectorKind::Rounds);
    let known = of_fobs.map(|kind| Candidate {
        name: kind.name(),
        order: Order::Kind(kind),
        is_blind: kind == SelectorKind::CircularStrict,
    });
    let blind = [
        Candidate {
            name: "back to the lowest",
            order: Order::Own(|| Box::new(BackToLowest::default())),
            is_blind: true,
        },
        Candidate {
            name: "any",
            order: Order::Own(|| Box::new(Any(fastrand::Rng::with_seed(1)))),
            is_blind: true,
        },
    ];
    known.chain(blind).collect()
}

/// Onwards, but back to the lowest unacknowledged packet whenever an acknowledgement has come.
#[derive(Debug, Default)]
struct BackToLowest {
    cursor: PacketNumber,
    acked: u64,
}

impl Selector for BackToLowest {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        if view.acked.count() != self.acked {
            (self.cursor, self.acked) = (0, view.acked.count());
        }
        let packet = view.acked.next_missing(self.cursor).or_else(|| view.acked.next_missing(0))?;
        self.cursor = packet + 1;
        Some(packet)
    }
}

/// Any unacknowledged packet.
#[derive(Debug)]
struct Any(fastrand::Rng);

impl Selector for Any {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        let from = self.0.u64(0..view.acked.len().max(1));
        view.acked.next_missing(from).or_else(|| view.acked.next_missing(0))
    }
}

const CIRCULAR_NAME: &str = "circular-strict";
const LOSSES: [f64; 3] = [0.0, 0.001, 0.01];
