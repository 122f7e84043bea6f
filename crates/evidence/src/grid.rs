//! Every controller on every path.

use crate::Scale;
use crate::experiment::Experiment;
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use crate::sim::{Contestant, Options, Single, SingleResult, payload_rate, run_singles};
use longhaul_proto::units::Time;
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::simulated(
    "grid",
    "every controller on every path: rate × RTT × loss × queue",
    &[MEDIAN, WORST, WASTE, QUEUE],
    grid,
)
.for_contestants();

const MEDIAN: Claim = Claim::ours("adaptive gets at least 97 % of what the path carries in the median cell");
const WORST: Claim = Claim::ours("adaptive gets at least 85 % in the worst cell");
const WASTE: Claim =
    Claim::ours("adaptive wastes at most 2 points more than random loss makes, in every cell");
const QUEUE: Claim =
    Claim::ours("adaptive keeps the mean queue within 0.3 bandwidth-delay products or 1 ms, in every cell");

/// The axes.
struct Axes {
    /// Rising: the cells of the first few rates are the first cells.
    rates_mbit: &'static [f64],
    rtts_ms: &'static [f64],
    losses: &'static [f64],
    queues_bdp: &'static [f64],
    /// An object lasts so long at the path's rate.
    length: Duration,
}

impl Axes {
    fn of(scale: Scale) -> Axes {
        scale.pick(
            Axes {
                rates_mbit: &[10.0, 100.0, 1000.0, 10_000.0],
                rtts_ms: &[1.0, 10.0, 100.0, 300.0],
                losses: &[0.0, 0.001, 0.01, 0.05],
                queues_bdp: &[0.1, 0.5, 1.0, 2.0],
                length: Duration::from_secs(20),
            },
            Axes {
                rates_mbit: &[10.0, 100.0, 500.0],
                rtts_ms: &[10.0, 100.0],
                losses: &[0.0, 0.01],
                queues_bdp: &[0.2, 1.0],
                length: Duration::from_secs(4),
            },
            Axes {
                rates_mbit: &[10.0],
                rtts_ms: &[20.0],
                losses: &[0.0],
                queues_bdp: &[1.0],
                length: Duration::from_millis(500),
            },
        )
    }

    fn cells(&self, seed: u64) -> Vec<Scenario> {
        let mut cells = Vec::new();
        for &rate in self.rates_mbit {
            for &rtt in self.rtts_ms {
                for &loss in self.losses {
                    for &queue in self.queues_bdp {
                        let path = Scenario::new(rate, rtt);
                        cells.push(Scenario { loss, queue_bdp: Some(queue), seed, ..path });
                    }
                }
            }
        }
        cells
    }

    fn describe(&self) -> String {
        let list = |values: &[f64], factor: f64| {
            values.iter().map(|value| format!("{}", value * factor)).collect::<Vec<_>>().join(", ")
        };
        format!(
            "Paths: {} Mb/s × {} ms × {} % random loss × a queue of {} bandwidth-delay products. Each transfer has the \
             path for itself, and its object would take {} s at the path's rate; it is stopped after {STOP_FACTOR} times \
             that.",
            list(self.rates_mbit, 1.0),
            list(self.rtts_ms, 1.0),
            list(self.losses, 100.0),
            list(self.queues_bdp, 1.0),
            self.length.as_secs_f64()
        )
    }
}

fn grid(options: &Options<'_>) -> Findings {
    let axes = Axes::of(options.scale);
    let cells = axes.cells(options.seed);
    let contestants = options.contestants_or_all();
    // Nine tenths of the time would go to the fastest paths.
    let slow = cells.iter().filter(|cell| cell.bottleneck_mbit <= YARDSTICK_MBIT_MAX).count();
    let runs_all = |one: &Contestant| one.is_default() || !options.contestants.is_empty();
    let cells_of = |one: &Contestant| if runs_all(one) { &cells[..] } else { &cells[..slow] };
    let singles: Vec<Single> = contestants
        .iter()
        .flat_map(|contestant| {
            cells_of(contestant).iter().map(move |scenario| (contestant.clone(), scenario))
        })
        .map(|(contestant, scenario)| {
            let bytes = payload_rate(scenario).bytes_in(axes.length).max(1);
            let until = Time::ZERO + axes.length * STOP_FACTOR;
            Single { scenario: scenario.clone(), contestant, bytes, until }
        })
        .collect();
    let results = run_singles(options, &singles);
    let mut rest = &results[..];
    let by_contestant: Vec<(&Contestant, &[SingleResult])> = contestants
        .iter()
        .map(|contestant| (contestant, rest.split_off(..cells_of(contestant).len()).unwrap_or_default()))
        .collect();
    let default = by_contestant.iter().find(|(contestant, _)| contestant.is_default());
    // All over the same cells.
    let common = by_contestant.iter().map(|(_, results)| results.len()).min().unwrap_or_default();
    let beside_others: Vec<_> =
        by_contestant.iter().map(|(one, results)| (*one, &results[..common])).collect();
    Findings {
        method: vec![
            axes.describe(),
            "Share: goodput, start-up included, of what the path carries of object bytes (1434 of each 1500, less the \
             share lost). Waste over loss: (sent − required) / required, less what random loss makes by itself. Queue: \
             mean over the whole transfer. Controllers that must be told a rate are told 90 % of the path's. Paths of more \
             than 1000 Mb/s are for adaptive alone, and for those that are named with --control; the first table has only \
             paths that all ran over."
                .into(),
        ],
        tables: vec![summary(&beside_others, &cells), all_cells(&singles, &results)],
        statements: match default {
            Some((_, results)) => judge(results, &cells),
            None => EXPERIMENT.claims.iter().map(|claim| claim.leave_open("adaptive did not run")).collect(),
        },
    }
}

fn summary(by_contestant: &[(&Contestant, &[SingleResult])], cells: &[Scenario]) -> Table {
    let of =
        |results: &[SingleResult], figure: fn(&SingleResult) -> f64| Summary::of(results.iter().map(figure));
    Table::of("controllers", "Share of the path, over all cells", by_contestant)
        .text("control", |(contestant, _)| contestant.to_string())
        .column("median", Unit::Share, |(_, results)| of(results, |done| done.share).median)
        .column("worst", Unit::Share, |(_, results)| of(results, |done| done.share).min)
        .text("where", |(_, results)| {
            worst(results, cells).map_or(String::new(), |(_, scenario)| label(scenario))
        })
        .column("waste over loss, median", Unit::Share, |(_, results)| {
            of(results, |done| done.waste_over_loss).median
        })
        .column("most", Unit::Share, |(_, results)| of(results, |done| done.waste_over_loss).max)
        .column("queue, median", Unit::Bdp, |(_, results)| of(results, |done| done.queue_bdp).median)
        .column("longest", Unit::Bdp, |(_, results)| of(results, |done| done.queue_bdp).max)
        .table()
        .plot(Plot::bars("control", &["median", "worst"]))
}

fn all_cells(singles: &[Single], results: &[SingleResult]) -> Table {
    Table::of("cells", "Every cell", &singles.iter().zip(results).collect::<Vec<_>>())
        .text("control", |(single, _)| single.contestant.to_string())
        .column("rate", Unit::Mbps, |(single, _)| single.scenario.bottleneck_mbit)
        .column("RTT", Unit::Millis, |(single, _)| single.scenario.rtt_ms)
        .column("loss", Unit::Share, |(single, _)| single.scenario.loss)
        .column("queue size", Unit::Bdp, |(single, _)| single.scenario.queue_bdp)
        .column("time", Unit::Seconds, |(_, done)| done.seconds)
        .text("complete", |(_, done)| done.is_complete)
        .column("goodput", Unit::Mbps, |(_, done)| done.goodput_mbps)
        .column("of path", Unit::Share, |(_, done)| done.share)
        .column("waste", Unit::Share, |(_, done)| done.waste)
        .column("waste over loss", Unit::Share, |(_, done)| done.waste_over_loss)
        .column("queue", Unit::Bdp, |(_, done)| done.queue_bdp)
        .column("queue delay", Unit::Millis, |(_, done)| done.queue_ms)
        .column("dropped", Unit::Share, |(_, done)| done.dropped)
        .table()
        .detail()
}

/// Adaptive against its bars.
fn judge(results: &[SingleResult], cells: &[Scenario]) -> Vec<Statement> {
    let share = Summary::of(results.iter().map(|done| done.share));
    let place = worst(results, cells).map_or(String::new(), |(_, scenario)| label(scenario));
    let count = |is_bad: fn(&SingleResult) -> bool| results.iter().filter(|done| is_bad(done)).count();
    let wasteful = count(|done| done.waste_over_loss > 0.02);
    let long = count(|done| done.queue_bdp > 0.3 && done.queue_ms > 1.0);
    let most = |figure: fn(&SingleResult) -> f64| Summary::of(results.iter().map(figure)).max;
    vec![
        MEDIAN.judge(
            share.median >= 0.97,
            format!("{:.1} % in the median of {} cells", share.median * 100.0, cells.len()),
        ),
        WORST.judge(share.min >= 0.85, format!("{:.1} % at {place}", share.min * 100.0)),
        WASTE.judge(
            wasteful == 0,
            format!(
                "{wasteful} of {} cells beyond that, {:.1} points at most",
                cells.len(),
                most(|done| done.waste_over_loss) * 100.0
            ),
        ),
        QUEUE.judge(
            long == 0,
            format!(
                "{long} of {} cells beyond that, {:.2} products at most",
                cells.len(),
                most(|done| done.queue_bdp)
            ),
        ),
    ]
}

fn worst<'a>(results: &'a [SingleResult], cells: &'a [Scenario]) -> Option<(&'a SingleResult, &'a Scenario)> {
    results.iter().zip(cells).min_by(|a, b| a.0.share.total_cmp(&b.0.share))
}

fn label(scenario: &Scenario) -> String {
    format!(
        "{} Mb/s, {} ms, {} %, {} BDP",
        scenario.bottleneck_mbit,
        scenario.rtt_ms,
        scenario.loss * 100.0,
        scenario.queue_bdp.unwrap_or(1.0)
    )
}

/// Others than the default need not be shown beyond that.
const YARDSTICK_MBIT_MAX: f64 = 1000.0;
/// Who needs longer has shown how slow it is.
const STOP_FACTOR: u32 = 3;
