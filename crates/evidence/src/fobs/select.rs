//! Section 3.1.1: which of the unacknowledged packets goes next.

use super::plan::{Plan, Sweep};
use super::run::{CARD_MBIT, CIRCULAR, Fobs, LONG, OBJECT_BYTES, desktop_path, failures, loss_text, method};
use super::simulated::{BLIND, Hosts};
use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment::either(
    "fobs-select",
    "Which unacknowledged packet goes next, on the long haul with loss (§3.1.1)",
    &[BEST, BY_FAR],
    measure,
);

const BEST: Claim = Claim::paper(
    "FOBS §3.1.1",
    "the data as a circular buffer is the best choice of the next packet (no other gets 1 % more)",
);
const BY_FAR: Claim = Claim::paper("FOBS §3.1.1", "by far: the best other gets at least a tenth less");

/// Copies in each order over a path with that loss.
struct Row<'a> {
    loss: f64,
    orders: &'a [&'static str],
    sweep: Sweep,
}

fn measure(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let losses = backend.pick(&LOSSES[..], &QUICK_LOSSES[..], &QUICK_LOSSES[..1]);
    let (rounds, bytes) =
        (backend.pick(3, 1, 1), backend.pick(OBJECT_BYTES, OBJECT_BYTES / 2, OBJECT_BYTES / 40));
    // Rounds need a receiver that answers when asked, RBUDP's: the simulator's is FOBS's.
    let orders = backend.choose([&ORDERS[..4], &BLIND].concat(), ORDERS.to_vec());
    let variants: Vec<Fobs> = orders.iter().map(|&select| Fobs { select, ..Fobs::default() }).collect();
    let paths: Vec<Scenario> =
        losses.iter().map(|&loss| Scenario { loss, ..desktop_path(LONG.0, LONG.1) }).collect();
    let plan =
        Plan { paths: &paths, bytes, rounds, variants: &variants, hosts: Hosts::Desktop, period_ms: None };
    let sweeps = plan.run(backend)?.into_iter().zip(losses);
    let rows: Vec<Row<'_>> = sweeps.map(|(sweep, &loss)| Row { loss, orders: &orders, sweep }).collect();
    let mut about = method(backend, bytes);
    about.push(format!(
        "F = 64, B = 2. {CIRCULAR} is the paper's order. The paper does not name the others that it tried. {}",
        backend.choose(
            format!("Like it, {} choose among all that is unacknowledged and do not know what is on its way.", BLIND.join(" and ")),
            format!(
                "The others are those of --select, which leave alone what may still be on its way. Medians of {rounds} \
                 round(s)."
            )
        )
    ));
    about.extend(failures(rows.iter().flat_map(|row| row.sweep.all())));
    Ok(Findings { method: about, tables: vec![table(&rows)], statements: judge(&rows) })
}

fn table(rows: &[Row<'_>]) -> Table {
    let points = rows.iter().flat_map(|row| {
        let names = row.orders.iter().copied().chain(["longhaul's default"]);
        names.zip(row.sweep.all()).map(move |(name, runs)| (row, name, runs))
    });
    Table::of("orders", "The long haul, by order", &points.collect::<Vec<_>>())
        .column("loss", Unit::Share, |(row, ..)| row.loss)
        .text("order", |(_, name, _)| name)
        .column("goodput", Unit::Mbps, |(.., runs)| runs.goodput_mbps())
        .column("of card", Unit::Share, |(.., runs)| runs.share(CARD_MBIT))
        .column("waste", Unit::Share, |(.., runs)| runs.waste())
        .table()
        .plot(Plot::lines("loss", &["of card"]).by("order"))
        .plot(Plot::lines("loss", &["waste"]).by("order").title("Waste on the long haul, by order"))
}

/// The best circular order and the best other one at a loss.
struct Compared {
    loss: f64,
    circular: (&'static str, f64),
    other: (&'static str, f64),
}

impl Compared {
    fn of(row: &Row<'_>) -> Option<Compared> {
        let goodputs = row.orders.iter().copied().zip(&row.sweep.fobs);
        // Where there are others that know as little as the paper's, it is these that it must beat.
        let is_like =
            |order: &str| !row.orders.contains(&BLIND[0]) || order == CIRCULAR || BLIND.contains(&order);
        let goodputs = goodputs.filter(|(order, _)| is_like(order));
        let goodputs = goodputs.filter_map(|(order, runs)| Some((order, runs.goodput_mbps()?)));
        let (circular, others): (Vec<_>, Vec<_>) =
            goodputs.partition(|(order, _)| CIRCULAR_ORDERS.contains(order));
        let best = |orders: Vec<(&'static str, f64)>| orders.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Some(Compared { loss: row.loss, circular: best(circular)?, other: best(others)? })
    }
}

fn judge(rows: &[Row<'_>]) -> Vec<Statement> {
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
         know, and among such orders the choice hardly matters; the simulator also has some that do not know";
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
    use crate::report::Verdict;

    fn verdicts(goodputs: [f64; 5]) -> Vec<Verdict> {
        let sweep = Sweep::of(goodputs.map(|mbps| Runs::one(mbps, 0.0)).into(), Runs::one(90.0, 0.0));
        judge(&[Row { loss: 0.01, orders: &ORDERS, sweep }])
            .into_iter()
            .map(|statement| statement.verdict)
            .collect()
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
        let row =
            |fobs: Vec<Runs>| [Row { loss: 0.0, orders: &ORDERS, sweep: Sweep::of(fobs, Runs::default()) }];
        let open = |fobs| judge(&row(fobs)).iter().all(|statement| statement.verdict == Verdict::Open);
        assert!(open(fobs.clone()));
        for (at, mbps) in [(0, 90.0), (4, 70.0)] {
            fobs[at] = Runs::one(mbps, 0.0);
        }
        assert!(!open(fobs));
    }
}
