//! Section 3.1.1: which of the unacknowledged packets goes next.

use super::run::{
    CARD_MBIT, CIRCULAR, Fobs, LONG, OBJECT_BYTES, Sweep, desktop_path, failures, loss_text, method,
};
use crate::Scenario;
use crate::experiments::bench::Bench;
use crate::experiments::{Claim, Experiment, ExperimentError, Findings, Statement};
use longhaul_sim::experiments::{Column, Plot, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fobs-select",
    title: "Which unacknowledged packet goes next, on the long haul with loss (§3.1.1)",
    claims: &[BEST, BY_FAR],
    has_parts: false,
    measure,
};

const BEST: Claim = Claim::paper(
    "FOBS §3.1.1",
    "the data as a circular buffer is the best choice of the next packet (no other gets 1 % more)",
);
const BY_FAR: Claim = Claim::paper("FOBS §3.1.1", "by far: the best other gets at least a tenth less");

/// Copies in each order over a path with that loss, in the order of [`ORDERS`].
struct Row {
    loss: f64,
    sweep: Sweep,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let losses = bench.pick(&LOSSES[..], &QUICK_LOSSES[..], &QUICK_LOSSES[..1]);
    let (rounds, bytes) =
        (bench.pick(3, 1, 1), bench.pick(OBJECT_BYTES, OBJECT_BYTES / 2, OBJECT_BYTES / 40));
    bench.expect_runs(losses.len() * Sweep::runs(rounds, ORDERS.len()));
    let variants = ORDERS.map(|select| Fobs { select, ..Fobs::default() });
    let mut rows = vec![];
    for &loss in losses {
        let scenario = Scenario { loss, ..desktop_path(LONG.0, LONG.1) };
        rows.push(Row { loss, sweep: Sweep::run(bench, &scenario, bytes, rounds, &variants)? });
    }
    let lines = [
        method(bytes),
        format!(
            "Every order that longhaul has, by --select, F = 64, B = 2. {CIRCULAR} is the paper's; it alone may send again \
             what is still on its way. The paper does not name the others that it tried. Medians of {rounds} round(s). Shares \
             are of the card's rate."
        ),
    ];
    let method = lines.into_iter().chain(failures(rows.iter().flat_map(|row| row.sweep.all()))).collect();
    Ok(Findings { method, tables: vec![table(&rows)], statements: judge(&rows) })
}

fn table(rows: &[Row]) -> Table {
    let columns = vec![
        Column::new("loss", Unit::Share),
        Column::text("order"),
        Column::new("goodput", Unit::Mbps),
        Column::new("of card", Unit::Share),
        Column::new("waste", Unit::Share),
    ];
    let mut table = Table::new("orders", "The long haul, by order", columns)
        .plot(Plot::lines("loss", &["of card"]).by("order"))
        .plot(Plot::lines("loss", &["waste"]).by("order").title("Waste on the long haul, by order"));
    for row in rows {
        let names = ORDERS.into_iter().chain(["longhaul's default"]);
        for (name, runs) in names.zip(row.sweep.all()) {
            table.push(vec![
                row.loss.into(),
                name.into(),
                runs.goodput_mbps().into(),
                runs.share(CARD_MBIT).into(),
                runs.waste().into(),
            ]);
        }
    }
    table
}

/// The best circular order and the best other one at a loss.
struct Compared {
    loss: f64,
    circular: (&'static str, f64),
    other: (&'static str, f64),
}

impl Compared {
    fn of(row: &Row) -> Option<Compared> {
        let goodputs = ORDERS.into_iter().zip(&row.sweep.fobs);
        let goodputs = goodputs.filter_map(|(order, runs)| Some((order, runs.goodput_mbps()?)));
        let (circular, others): (Vec<_>, Vec<_>) =
            goodputs.partition(|(order, _)| CIRCULAR_ORDERS.contains(order));
        let best = |orders: Vec<(&'static str, f64)>| orders.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Some(Compared { loss: row.loss, circular: best(circular)?, other: best(others)? })
    }
}

fn judge(rows: &[Row]) -> Vec<Statement> {
    let compared: Vec<Compared> = rows.iter().filter_map(Compared::of).collect();
    if compared.is_empty() || compared.len() < rows.len() {
        return [BEST, BY_FAR].map(|claim| claim.leave_open("too few copies were done")).into();
    }
    let figures: Vec<String> = compared
        .iter()
        .map(|Compared { loss, circular, other }| {
            format!(
                "{} {:.1} Mb/s against {:.1} for {} at {} loss",
                circular.0,
                circular.1,
                other.1,
                other.0,
                loss_text(*loss)
            )
        })
        .collect();
    let figures = figures.join(", ");
    let at_least = |factor: f64| compared.iter().all(|one| one.circular.1 >= factor * one.other.1);
    let others_know = "the other orders here leave alone what may still be on its way, which the paper's sender could not \
         know, and among such orders the choice hardly matters; longhaul sim fobs-select also has some that do not know";
    vec![
        BEST.judge(at_least(NEARLY), figures.clone()).otherwise(others_know),
        BY_FAR.judge(at_least(FAR), figures).otherwise(others_know),
    ]
}

/// As `--select` names them: the paper's first, and ours that is like it.
const CIRCULAR_ORDERS: [&str; 2] = [CIRCULAR, "circular"];
const ORDERS: [&str; 5] = [CIRCULAR_ORDERS[0], CIRCULAR_ORDERS[1], "sequential", "random", "rounds"];
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.03];
const QUICK_LOSSES: [f64; 2] = [0.001, 0.01];
const NEARLY: f64 = 0.99;
const FAR: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::super::run::Runs;
    use super::*;
    use crate::experiments::Verdict;

    fn verdicts(goodputs: [f64; 5]) -> Vec<Verdict> {
        let sweep = Sweep::of(goodputs.map(|mbps| Runs::one(mbps, 0.0)).into(), Runs::one(90.0, 0.0));
        judge(&[Row { loss: 0.01, sweep }]).into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn the_best_other_order_is_what_counts() {
        let (yes, no) = (Verdict::Reproduced, Verdict::NotReproduced);
        assert_eq!(verdicts([90.0, 70.0, 81.0, 50.0, 60.0]), [yes, yes]);
        assert_eq!(verdicts([80.0, 90.0, 89.0, 50.0, 60.0]), [yes, no]);
        assert_eq!(verdicts([80.0, 82.0, 70.0, 90.0, 60.0]), [no, no]);
    }

    #[test]
    fn an_order_that_never_gets_done_leaves_the_others_to_be_compared() {
        let failed = Runs { done: vec![], failures: vec!["no".into()] };
        let mut fobs = vec![failed; 5];
        let row = |fobs: Vec<Runs>| [Row { loss: 0.0, sweep: Sweep::of(fobs, Runs::default()) }];
        let open = |fobs| judge(&row(fobs)).iter().all(|statement| statement.verdict == Verdict::Open);
        assert!(open(fobs.clone()));
        for (at, mbps) in [(0, 90.0), (4, 70.0)] {
            fobs[at] = Runs::one(mbps, 0.0);
        }
        assert!(!open(fobs));
    }
}
