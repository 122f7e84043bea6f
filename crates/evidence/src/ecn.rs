//! Queues that mark instead of dropping: what a control makes of them alone and beside a CUBIC, and how long L4S waits.

use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::meeting::{Guest, Meeting, Shares};
use crate::report::{Claim, Findings, Plot, Table, Unit};
use crate::sim::payload_rate;
use crate::starts::{Bar, Case, CaseOutcomes, Extent, Ways};
use longhaul_lab::DirectionCounters;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::tcp;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSim, FlowSpec, Protocol, TcpFlow};
use longhaul_sim::metrics::{Summary, quantile};
use longhaul_sim::path::PathConfig;
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::{TraceKind, TraceMode};
use longhaul_sim::{FlowId, Limits, Options as SimOptions, Placement, Side};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::either(
    "ecn",
    "queues that mark instead of dropping (ECN, L4S): alone, beside one CUBIC, and how long packets wait",
    &[ALONE, BESIDE, L4S],
    mark,
)
.in_parts()
.alone();

const ALONE: Claim = Claim::ours("alone it loses nothing once under way, and has at least 95 % of the link");
const BESIDE: Claim =
    Claim::ours("beside one CUBIC that answers marks each has at least 35 % whoever came first");
const L4S: Claim = Claim::ours("with L4S packets wait 2 ms at most on average behind DualPI2");

/// A control behind a queue.
#[derive(Clone, Copy, Debug)]
struct Row {
    queue: QueueDiscipline,
    control: ControllerKind,
    /// What the CUBIC beside it says of marks, if there is one.
    rival: Option<Ecn>,
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
        let beside = match self.rival {
            None => "alone",
            Some(Ecn::NotEct) => "beside one CUBIC without ECN",
            Some(_) => "beside one CUBIC",
        };
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
            ALONE => self.rival.is_none() && (self.is_default() || self.is_low_latency()),
            BESIDE => self.rival == Some(Ecn::Ect0) && self.is_default(),
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
fn rows(controls: &[ControllerKind]) -> Vec<Row> {
    let mut rows = vec![];
    for (rate_mbit, rtt_ms) in PATHS {
        for control in controls.iter().copied() {
            for rival in [None, Some(Ecn::Ect0), Some(Ecn::NotEct)] {
                rows.extend(QUEUES.map(|queue| Row { queue, control, rival, rate_mbit, rtt_ms }));
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Shared {
    /// Of what the link carries.
    ours: f64,
    rival: f64,
    /// Packets of ours that were dropped, where it is known whose they were, and that the link marked of all.
    lost: Option<f64>,
    marked: u64,
    /// How long our packets waited, ms, where it is known of ours.
    wait_ms: Option<f64>,
    wait_p99_ms: Option<f64>,
}

const BARS: &[Bar<Row, Shared>] = &[
    Bar {
        claim: ALONE,
        holds: |outcomes, _| {
            outcomes.over(|one| one.ours).min >= 0.95
                && outcomes.known(|one| one.lost).is_some_and(|lost| lost.max == 0.0)
        },
        figures: |outcomes| {
            let lost = outcomes
                .known(|one| one.lost)
                .map_or("an unknown number".into(), |lost| lost.max.to_string());
            format!("{:.1} %, {lost} lost", 100.0 * outcomes.over(|one| one.ours).min)
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
        holds: |outcomes, _| outcomes.known(|one| one.wait_ms).is_none_or(|wait| wait.max <= 2.0),
        figures: |outcomes| {
            let most = |of| outcomes.known(of).map_or("unknown".into(), |wait| format!("{:.2} ms", wait.max));
            format!("{}, 99 % at most {}", most(|one| one.wait_ms), most(|one| one.wait_p99_ms))
        },
    },
];

impl CaseOutcomes<Row, Shared> {
    /// A figure over all starts, where it is known.
    fn known(&self, figure: fn(&Shared) -> Option<f64>) -> Option<Summary> {
        let known: Option<Vec<f64>> = self.outcomes.iter().map(figure).collect();
        known.map(Summary::of)
    }
}

fn extent(backend: &Backend<'_>) -> Extent<Row, Start> {
    use ControllerKind::{Adaptive, Cubic, NewReno, Prague};
    // Copies are of the default control and of that of `--l4s`.
    let (all, few): (&[_], &[_]) = (&[Adaptive, Cubic, NewReno, Prague], &[Adaptive, Prague]);
    let controls = backend.choose(backend.pick(all, few, few), few);
    let is_short = |row: &Row| row.rtt_ms == PATHS[1].1;
    let is_smoke = |row: &Row| {
        is_short(row)
            && backend
                .choose(true, row.is_default() && row.rival == Some(Ecn::Ect0) && row.queue == QUEUES[0])
    };
    let is_usual = |row: &Row| backend.pick(true, backend.choose(true, is_short(row)), is_smoke(row));
    let rows = rows(controls).into_iter();
    Extent::new(backend, rows.map(|row| (row, is_usual(&row))).collect(), &STARTS, [20, 50])
}

const WAYS: Ways<Row, Start, Shared> = Ways {
    meeting: |extent, row, start, seed| row.meeting(*start, extent, seed),
    simulate: |_, meeting| simulate(meeting),
    measured: |row, shares, link| row.measured(&shares, link),
};

fn mark(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let extent = extent(backend);
    let (mut method, outcomes) = extent.run(backend, &WAYS)?;
    method.push(format!(
        "{} order(s) of beginning; worst: of these. Queues have room for two bandwidth-delay products; step marks \
         what waits longer than {STEP_MS} ms, CoDel and DualPI2 are as in RFC 8289 and RFC 9332. The CUBIC says ECT(0) and \
         keeps {}, or has no ECN. {}.",
        extent.starts.len(),
        backend.choose("85 % of its window after a mark (RFC 8511)", "what the kernel's keeps after a mark"),
        backend.choose(
            "Waiting: our packets, beyond the way of the empty path",
            "Waiting: by the mean queue and what leaves it; with L4S beside others it is another queue's, too"
        )
    ));
    let mut table = table(&outcomes);
    table.drop_empty_columns();
    Ok(Findings { method, tables: vec![table], statements: extent.judge(backend, BARS, &outcomes) })
}

impl Row {
    fn meeting(&self, (ours_s, rival_s): Start, extent: &Extent<Row, Start>, seed: u64) -> Meeting {
        let at = |seconds: f64| Time::ZERO + Duration::from_secs_f64(seconds);
        let rival = self.rival.map(|ecn| {
            let plain = TcpFlow::new(ControllerKind::Cubic);
            let config = tcp::Config { ecn, ..plain.config };
            Guest::new(Protocol::Tcp(TcpFlow { config, ..plain }), at(rival_s))
        });
        Meeting {
            path: self.scenario(seed),
            ours: vec![Guest::object(self.control, at(ours_s))],
            rivals: rival.into_iter().collect(),
            from: extent.from,
            until: extent.until,
            transport: "object",
        }
    }

    /// What an emulated path tells, which does not count by flows.
    fn measured(&self, shares: &Shares, link: &DirectionCounters) -> Shared {
        let ours = shares.ours.iter().sum();
        let is_one_queue = self.rival.is_none() || !self.is_low_latency();
        Shared {
            ours,
            rival: shares.rivals,
            lost: self.rival.is_none().then_some(link.dropped_queue as f64),
            marked: link.marked,
            wait_ms: is_one_queue.then_some(shares.queue_bdp * self.rtt_ms / (ours + shares.rivals)),
            wait_p99_ms: None,
        }
    }
}

fn simulate(meeting: &Meeting) -> Shared {
    let Meeting { path, ours, rivals, from, until, .. } = meeting;
    let options = SimOptions { measure_from: *from, trace: TraceMode::Keep, ..SimOptions::default() };
    let mut sim = FlowSim::with_path(PathConfig::new(path), options);
    let mut add =
        |guest: &Guest| sim.add(&FlowSpec::new(guest.protocol.clone(), ENDLESS), &Placement::at(guest.at));
    let (ours, rival) = (add(&ours[0]), rivals.first().map(add));
    let counts = |sim: &mut FlowSim| {
        let delivered = |id: Option<FlowId>| id.map_or(0, |id| sim.stats(id).bytes_delivered);
        let (ours_bytes, rival_bytes) = (delivered(Some(ours)), delivered(rival));
        let lost = sim.flow_counters(ours, Side::Left).dropped.total();
        let hop = sim.hops().next().expect("a path has a hop");
        (ours_bytes, rival_bytes, lost, sim.link_totals(hop, Side::Left).marked)
    };
    sim.run(Limits { time: *from, ..Limits::default() }, |_| false);
    let before = counts(&mut sim);
    sim.run(Limits { time: *until, ..Limits::default() }, |_| false);
    let after = counts(&mut sim);
    let carried = payload_rate(path).bytes_in(until.since(*from)) as f64;
    let waits = waits_ms(&mut sim, *from);
    Shared {
        ours: (after.0 - before.0) as f64 / carried,
        rival: (after.1 - before.1) as f64 / carried,
        lost: Some((after.2 - before.2) as f64),
        marked: after.3 - before.3,
        wait_ms: Some(waits.iter().sum::<f64>() / waits.len().max(1) as f64),
        wait_p99_ms: Some(quantile(&waits, 0.99)),
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
            one.case.rival.map(|_| one.over(|shared| shared.rival).min)
        })
        .column("lost, most", Unit::Number, |one| one.known(|shared| shared.lost).map(|lost| lost.max))
        .column("marked, mean", Unit::Number, |one| one.over(|shared| shared.marked as f64).mean)
        .column("wait, mean", Unit::Millis, |one| one.known(|shared| shared.wait_ms).map(|wait| wait.mean))
        .column("wait, 99 %", Unit::Millis, |one| one.known(|shared| shared.wait_p99_ms).map(|wait| wait.max))
        .table()
        .plot(Plot::bars("case", &["share, mean"]).by("control"))
}
