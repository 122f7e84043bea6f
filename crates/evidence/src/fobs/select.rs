//! Section 3.1.1: which of the unacknowledged packets goes next.

use super::plan::{Plan, Sweep};
use super::run::{CARD_MBIT, CIRCULAR, Fobs, LONG, OBJECT_BYTES, desktop_path, failures, loss_text, method};
use super::simulated::{BLIND, Hosts};
use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
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
    Ok(judge(&rows).findings(about, [table(&rows)]))
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

/// The paper's order and the best of its rivals at a loss.
struct Compared {
    loss: f64,
    circular_mbps: f64,
    other: (&'static str, f64),
}

impl Compared {
    fn of(row: &Row<'_>, rivals: &[&str]) -> Option<Compared> {
        let goodputs = row.orders.iter().copied().zip(&row.sweep.fobs);
        let goodputs: Vec<_> =
            goodputs.filter_map(|(order, runs)| Some((order, runs.goodput_mbps()?))).collect();
        let (_, circular_mbps) = *goodputs.iter().find(|(order, _)| *order == CIRCULAR)?;
        let others = goodputs.into_iter().filter(|(order, _)| rivals.contains(order));
        let other = others.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Compared { loss: row.loss, circular_mbps, other })
    }
}

/// Beside each kind of rivals that were tried: the paper does not say what its others were.
fn judge(rows: &[Row<'_>]) -> Plane {
    let mut plane = Plane::default();
    for (kind, rivals, remark) in RIVALS {
        let is_tried = |order: &&str| rows.iter().any(|row| row.orders.contains(order));
        if rivals.iter().any(is_tried) {
            let judged = judge_beside(rows, rivals);
            let said = |statement: Statement| match remark {
                Some(remark) => statement.otherwise(remark),
                None => statement,
            };
            plane.push(*kind, judged.into_iter().map(said).collect());
        }
    }
    plane
}

fn judge_beside(rows: &[Row<'_>], rivals: &[&str]) -> Vec<Statement> {
    let compared: Vec<Compared> = rows.iter().filter_map(|row| Compared::of(row, rivals)).collect();
    if compared.is_empty() || compared.len() < rows.len() {
        return [BEST, BY_FAR].map(|claim| claim.leave_open("too few copies were done")).into();
    }
    let figures: Vec<String> = compared
        .iter()
        .map(|Compared { loss, circular_mbps, other: (order, mbps) }| {
            format!("{circular_mbps:.1} Mb/s against {mbps:.1} for {order} at {} loss", loss_text(*loss))
        })
        .collect();
    let figures = figures.join(", ");
    let at_least = |factor: f64| compared.iter().all(|one| one.circular_mbps >= factor * one.other.1);
    vec![BEST.judge(at_least(NEARLY), figures.clone()), BY_FAR.judge(at_least(FAR), figures)]
}

/// Other orders by what they know, and why they do as well as the paper's.
const RIVALS: &[(&str, &[&str], Option<&str>)] = &[
    (
        "orders that leave alone what may still be on its way",
        &["sequential", "random", "rounds"],
        Some(
            "the paper's sender could not know what is on its way, and among orders that do the choice hardly matters",
        ),
    ),
    ("orders that do not know what is on its way", &BLIND, None),
];
/// As `--select` names them: the paper's, ours that is circular as well, and others.
const ORDERS: [&str; 5] = [CIRCULAR, "circular", "sequential", "random", "rounds"];
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
        verdicts_of(&[Row { loss: 0.01, orders: &ORDERS, sweep }])
    }

    fn verdicts_of(rows: &[Row<'_>]) -> Vec<Verdict> {
        judge(rows).findings(vec![], []).statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn the_best_other_order_is_what_counts_and_ours_is_not_the_papers() {
        let (yes, no) = (Verdict::Reproduced, Verdict::NotReproduced);
        assert_eq!(verdicts([90.0, 70.0, 81.0, 50.0, 60.0]), [yes, yes]);
        assert_eq!(verdicts([89.0, 90.0, 89.5, 50.0, 60.0]), [yes, no]);
        assert_eq!(verdicts([80.0, 90.0, 89.0, 50.0, 60.0]), [no, no]);
        assert_eq!(verdicts([80.0, 82.0, 70.0, 90.0, 60.0]), [no, no]);
    }

    #[test]
    fn beside_orders_that_know_less_it_is_judged_by_itself() {
        let orders = [&ORDERS[..3], &BLIND].concat();
        let goodputs = [90.0, 90.0, 90.0, 50.0, 60.0].map(|mbps| Runs::one(mbps, 0.0));
        let sweep = Sweep::of(goodputs.into(), Runs::default());
        let found = verdicts_of(&[Row { loss: 0.01, orders: &orders, sweep }]);
        assert_eq!(found, [Verdict::Reproduced, Verdict::ReproducedWhere]);
    }

    #[test]
    fn an_order_that_never_gets_done_leaves_the_others_to_be_compared() {
        let failed = Runs { done: vec![], failures: vec!["no".into()] };
        let mut fobs = vec![failed; 5];
        let row =
            |fobs: Vec<Runs>| [Row { loss: 0.0, orders: &ORDERS, sweep: Sweep::of(fobs, Runs::default()) }];
        let open = |fobs| verdicts_of(&row(fobs)).iter().all(|verdict| *verdict == Verdict::Open);
        assert!(open(fobs.clone()));
        for (at, mbps) in [(0, 90.0), (4, 70.0)] {
            fobs[at] = Runs::one(mbps, 0.0);
        }
        assert!(!open(fobs));
    }
}
