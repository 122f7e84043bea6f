//! Queues that mark instead of dropping: what a control makes of them alone and beside a CUBIC, and how long L4S waits.

use crate::Scale;
use crate::experiment::Experiment;
use crate::report::{Claim, Findings, Plot, Table, Unit};
use crate::sim::starts::{Bar, Case, CaseOutcomes, Extent, judge};
use crate::sim::{Options, payload_rate};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::tcp;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSim, FlowSpec, ObjectFlow, Protocol, TcpFlow};
use longhaul_sim::metrics::quantile;
use longhaul_sim::path::PathConfig;
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::{TraceKind, TraceMode};
use longhaul_sim::{FlowId, Limits, Options as SimOptions, Placement, Side};
use std::collections::HashMap;

pub(crate) const EXPERIMENT: Experiment = Experiment::simulated(
    "ecn",
    "queues that mark instead of dropping (ECN, L4S): alone, beside one CUBIC, and how long packets wait",
    &[ALONE, BESIDE, L4S],
    mark,
);

const ALONE: Claim = Claim::ours("alone it loses nothing once under way, and has at least 95 % of the link");
const BESIDE: Claim =
    Claim::ours("beside one CUBIC that answers marks each has at least 35 % whoever came first");
const L4S: Claim = Claim::ours("with L4S packets wait 2 ms at most on average behind DualPI2");

/// A control behind a queue.
#[derive(Clone, Copy, Debug)]
struct Row {
    queue: QueueDiscipline,
    control: ControllerKind,
    is_beside: bool,
    rate_mbit: f64,
    rtt_ms: f64,
}

impl Row {
    fn scenario(&self, seed: u64) -> Scenario {
        let mark_ms = (self.queue == QueueDiscipline::Step).then_some(STEP_MS);
        let path = Scenario::new(self.rate_mbit, self.rtt_ms);
        Scenario { queue_discipline: self.queue, mark_ms, queue_bdp: Some(2.0), seed, ..path }
    }

    fn name(&self) -> String {
        let beside = if self.is_beside { "beside one CUBIC" } else { "alone" };
        format!("{beside}, {}: {} Mb/s, {} ms", self.queue, self.rate_mbit, self.rtt_ms)
    }

    fn is_default(&self) -> bool {
        self.control == ControllerKind::default()
    }

    fn is_low_latency(&self) -> bool {
        self.control.ecn() == Ecn::Ect1
    }
}

impl Case for Row {
    fn label(&self) -> String {
        format!("{}, {}", self.control.name(), self.name())
    }

    fn is_of(&self, claim: Claim) -> bool {
        match claim {
            ALONE => !self.is_beside && (self.is_default() || self.is_low_latency()),
            BESIDE => self.is_beside && self.is_default(),
            _ => self.is_low_latency(),
        }
    }
}

/// What is marked after a wait of so much by the queue that marks from a step on: what routers that keep packets
/// for a few milliseconds do.
const STEP_MS: f64 = 5.0;
const QUEUES: [QueueDiscipline; 3] =
    [QueueDiscipline::Step, QueueDiscipline::CoDelEcn, QueueDiscipline::DualPi2];
const PATHS: [(f64, f64); 2] = [(50.0, 40.0), (20.0, 20.0)];

/// The rows of these controls.
fn rows(controls: &[ControllerKind], paths: &[(f64, f64)]) -> Vec<Row> {
    let mut rows = vec![];
    for (rate_mbit, rtt_ms) in paths.iter().copied() {
        for control in controls.iter().copied() {
            for is_beside in [false, true] {
                rows.extend(QUEUES.map(|queue| Row { queue, control, is_beside, rate_mbit, rtt_ms }));
            }
        }
    }
    // Behind a queue for all alike, who answers marks in small steps leaves little to who answers as to a loss (RFC 9331 §4.3.1).
    rows.retain(|row| !row.is_low_latency() || row.queue == QueueDiscipline::DualPi2);
    rows
}

/// When ours and the rival begin, in seconds.
type Start = (f64, f64);

const STARTS: [Start; 4] = [(0.0, 2.3), (3.1, 0.0), (0.7, 0.3), (5.2, 0.0)];

/// What came of a row and a start.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// Of what the link carries.
    ours: f64,
    rival: f64,
    /// Packets of ours that were dropped, and that the link marked of all.
    lost: u64,
    marked: u64,
    /// How long our packets waited, ms.
    wait_ms: f64,
    wait_p99_ms: f64,
}

const BARS: &[Bar<Row, Shared>] = &[
    Bar {
        claim: ALONE,
        holds: |outcomes, _| {
            outcomes.over(|one| one.ours).min >= 0.95 && outcomes.over(|one| one.lost as f64).max == 0.0
        },
        figures: |outcomes| {
            let (ours, lost) = (outcomes.over(|one| one.ours).min, outcomes.over(|one| one.lost as f64).max);
            format!("{:.1} %, {lost} lost", 100.0 * ours)
        },
    },
    Bar {
        claim: BESIDE,
        holds: |outcomes, _| {
            outcomes.over(|one| one.ours).min >= 0.35 && outcomes.over(|one| one.rival).min >= 0.35
        },
        figures: |outcomes| {
            let (ours, rival) = (outcomes.over(|one| one.ours).min, outcomes.over(|one| one.rival).min);
            format!("{:.1} % and {:.1} % at worst", 100.0 * ours, 100.0 * rival)
        },
    },
    Bar {
        claim: L4S,
        holds: |outcomes, _| outcomes.over(|one| one.wait_ms).max <= 2.0,
        figures: |outcomes| {
            let (mean, p99) =
                (outcomes.over(|one| one.wait_ms).max, outcomes.over(|one| one.wait_p99_ms).max);
            format!("{mean:.2} ms, 99 % at most {p99:.2} ms")
        },
    },
];

fn extent(scale: Scale) -> Extent<Row, Start> {
    use ControllerKind::{Adaptive, Cubic, NewReno, Prague};
    let [from, until] = [20_000, 50_000].map(Time::from_millis);
    let of = |controls: &[ControllerKind], paths: &[(f64, f64)]| Extent {
        cases: rows(controls, paths),
        starts: &STARTS,
        from,
        until,
    };
    scale.pick(
        of(&[Adaptive, Cubic, NewReno, Prague], &PATHS),
        of(&[Adaptive, Prague], &PATHS),
        of(&[Adaptive, Prague], &PATHS[1..]).smoke(),
    )
}

fn mark(options: &Options<'_>) -> Findings {
    let extent = extent(options.scale);
    let outcomes = extent.run(options, |row, start| simulate(row, *start, &extent, options.seed));
    let method = format!(
        "{}. {} orders of beginning; worst: of these. Queues have room for two bandwidth-delay products; step marks \
         what waits longer than {STEP_MS} ms, CoDel and DualPI2 are as in RFC 8289 and RFC 9332. The CUBIC says ECT(0) and \
         keeps 85 % of its window after a mark (RFC 8511). Waiting: our packets, beyond the way of the empty path.",
        extent.method(),
        extent.starts.len()
    );
    Findings { method: vec![method], tables: vec![table(&outcomes)], statements: judge(BARS, &outcomes) }
}

fn simulate(row: &Row, (ours_s, rival_s): Start, extent: &Extent<Row, Start>, seed: u64) -> Shared {
    let scenario = row.scenario(seed);
    let options = SimOptions { measure_from: extent.from, trace: TraceMode::Keep, ..SimOptions::default() };
    let mut sim = FlowSim::with_path(PathConfig::new(&scenario), options);
    let at = |seconds: f64| Placement::at(Time::ZERO + std::time::Duration::from_secs_f64(seconds));
    let ours = sim.add(&FlowSpec::new(Protocol::Object(ObjectFlow::new(row.control)), ENDLESS), &at(ours_s));
    let rival = row.is_beside.then(|| {
        let plain = TcpFlow::new(ControllerKind::Cubic);
        let config = tcp::Config { ecn: Ecn::Ect0, ..plain.config };
        sim.add(&FlowSpec::new(Protocol::Tcp(TcpFlow { config, ..plain }), ENDLESS), &at(rival_s))
    });
    let counts = |sim: &mut FlowSim| {
        let delivered = |id: Option<FlowId>| id.map_or(0, |id| sim.stats(id).bytes_delivered);
        let (ours_bytes, rival_bytes) = (delivered(Some(ours)), delivered(rival));
        let lost = sim.flow_counters(ours, Side::Left).dropped.total();
        let hop = sim.hops().next().expect("a path has a hop");
        (ours_bytes, rival_bytes, lost, sim.link_totals(hop, Side::Left).marked)
    };
    sim.run(Limits { time: extent.from, ..Limits::default() }, |_| false);
    let before = counts(&mut sim);
    sim.run(Limits { time: extent.until, ..Limits::default() }, |_| false);
    let after = counts(&mut sim);
    let carried = payload_rate(&scenario).bytes_in(extent.until.since(extent.from)) as f64;
    let waits = waits_ms(&mut sim, extent.from);
    Shared {
        ours: (after.0 - before.0) as f64 / carried,
        rival: (after.1 - before.1) as f64 / carried,
        lost: after.2 - before.2,
        marked: after.3 - before.3,
        wait_ms: waits.iter().sum::<f64>() / waits.len().max(1) as f64,
        wait_p99_ms: quantile(&waits, 0.99),
    }
}

/// How much longer than the fastest each datagram of the first flow that left from `from` on was on its way, ms, ascending.
fn waits_ms(sim: &mut FlowSim, from: Time) -> Vec<f64> {
    let (mut left, mut least, mut on_way) = (HashMap::new(), f64::INFINITY, vec![]);
    for record in sim.trace().records().filter(|record| record.flow == 0 && !record.from_right) {
        match record.kind {
            TraceKind::Sent => drop(left.insert(record.number, record.time)),
            TraceKind::Delivered => {
                if let Some(sent) = left.remove(&record.number) {
                    let took_ms = record.time.since(sent).as_secs_f64() * 1e3;
                    least = least.min(took_ms);
                    if sent >= from {
                        on_way.push(took_ms);
                    }
                }
            }
            _ => {}
        }
    }
    on_way.iter_mut().for_each(|took_ms| *took_ms -= least);
    on_way.sort_by(f64::total_cmp);
    on_way
}

fn table(outcomes: &[CaseOutcomes<Row, Shared>]) -> Table {
    Table::of("ecn", "Behind queues that mark", outcomes)
        .text("case", |one| one.case.name())
        .text("control", |one| one.case.control.name())
        .column("share, mean", Unit::Share, |one| one.over(|shared| shared.ours).mean)
        .column("worst", Unit::Share, |one| one.over(|shared| shared.ours).min)
        .column("CUBIC, worst", Unit::Share, |one| {
            one.case.is_beside.then(|| one.over(|shared| shared.rival).min)
        })
        .column("lost, most", Unit::Number, |one| one.over(|shared| shared.lost as f64).max)
        .column("marked, mean", Unit::Number, |one| one.over(|shared| shared.marked as f64).mean)
        .column("wait, mean", Unit::Millis, |one| one.over(|shared| shared.wait_ms).mean)
        .column("wait, 99 %", Unit::Millis, |one| one.over(|shared| shared.wait_p99_ms).max)
        .table()
        .plot(Plot::bars("case", &["share, mean"]).by("control"))
}
