//! fleet: many movers share one link, each with a card of its own.

use crate::experiment::Experiment;
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use crate::sim::{Options, payload_rate, run_jobs};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec};
use longhaul_sim::metrics::{Summary, jain};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Pair, Traffic};
use longhaul_sim::workload::{FlowRecord, Measured, Workload};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::simulated(
    "fleet",
    "up to a thousand movers share one link: who gets what, how soon, and what is lost",
    &[FAIR, LOST],
    fleet,
);

const FAIR: Claim = Claim::ours("however many movers share the link, they come to a Jain index of 0.95");
const LOST: Claim = Claim::ours("of all that they send, from the first on, 1 % is lost at most");

/// Movers that share a link of [`SHARE_MBIT`] for each.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Crowd {
    movers: u32,
    /// Of their datagrams, as whole IP packets.
    packet_bytes: u32,
}

/// What is simulated, and what of it is measured.
#[derive(Clone, Copy, Debug)]
struct Extent {
    crowds: &'static [Crowd],
    /// All movers have begun then, one after another.
    begun: Duration,
    from: Time,
    until: Time,
    sample: Duration,
}

impl Extent {
    fn of(options: &Options<'_>) -> Extent {
        let full = Extent {
            crowds: &[ONE, TEN, HUNDRED, HUNDRED_IN_RUNS, THOUSAND_IN_RUNS],
            begun: BEGUN,
            from: Time::from_millis(120_000),
            until: Time::from_millis(150_000),
            sample: Duration::from_secs(5),
        };
        options.scale.pick(
            full,
            Extent {
                crowds: &[ONE, TEN, HUNDRED_IN_RUNS],
                from: Time::from_millis(75_000),
                until: Time::from_millis(90_000),
                ..full
            },
            Extent {
                crowds: &[ONE, FOUR],
                begun: Duration::from_millis(500),
                from: Time::from_millis(1500),
                until: Time::from_millis(2000),
                sample: Duration::from_millis(500),
            },
        )
    }

    /// The windows that the run is cut into.
    fn windows(&self) -> usize {
        (self.until.as_secs_f64() / self.sample.as_secs_f64()) as usize
    }
}

impl Crowd {
    fn name(&self) -> String {
        format!("{} in packets of {} bytes", self.movers, self.packet_bytes)
    }

    fn scenario(&self, seed: u64) -> Scenario {
        let mbit = SHARE_MBIT * f64::from(self.movers);
        Scenario { mtu: self.packet_bytes, queue_bdp: Some(1.0), seed, ..Scenario::new(mbit, RTT_MS) }
    }

    fn run(&self, extent: &Extent, seed: u64) -> Outcome {
        let scenario = self.scenario(seed);
        let flow = FlowSpec::object(ControllerKind::Adaptive, ENDLESS);
        let gap = extent.begun / self.movers;
        let one_by_one = Arrivals::Staggered { from: Time::ZERO, gap, count: self.movers.into() };
        let pair = Pair { access_rate: Some(Rate::from_mbps(CARD_MBIT)), ..Pair::default() };
        let traffic = Traffic { pairs: vec![pair], ..Traffic::new(flow, one_by_one) };
        let mut workload = Workload::new(PathConfig::new(&scenario), vec![traffic], extent.until);
        workload.measure_from = extent.from;
        workload.sample_every = Some(extent.sample);
        workload.seed = seed;
        workload.options.trace = TraceMode::Off;
        Outcome::of(*self, &scenario, extent, &workload.run())
    }
}

/// What came of a crowd.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Outcome {
    crowd: Crowd,
    /// Of each mover, Mb/s.
    goodputs: Summary,
    jain: f64,
    /// Of what the link carries of object bytes.
    carried: f64,
    /// Of all datagrams that were sent from the first on.
    lost: f64,
    queue_bdp: f64,
    /// From the last mover's beginning, until the index stays where it is to be.
    fair_after: Option<Duration>,
    /// In each window of the run.
    course: Vec<f64>,
}

impl Outcome {
    fn of(crowd: Crowd, scenario: &Scenario, extent: &Extent, measured: &Measured) -> Outcome {
        let goodputs = measured.goodputs(0);
        let total_mbps = goodputs.iter().sum::<f64>() / 1e6;
        let sent = measured.outcome.forward.counters;
        Outcome {
            crowd,
            jain: measured.jain(0),
            carried: total_mbps / payload_rate(scenario).as_mbps(),
            lost: sent.dropped.total() as f64 / sent.sent.max(1) as f64,
            queue_bdp: measured.hops[0].forward.queue.mean_bytes / scenario.bdp_bytes() as f64,
            fair_after: measured.convergence(0, extent.sample, JAIN_MIN),
            course: (0..extent.windows()).map(|window| jain_in(measured, window)).collect(),
            goodputs: Summary::of(goodputs.into_iter().map(|goodput| goodput / 1e6)),
        }
    }

    fn fairness(&self) -> String {
        let after = self.fair_after.map(|after| format!(", fair after {} s", after.as_secs_f64()));
        format!("{:.3}{}", self.jain, after.unwrap_or_default())
    }

    /// One mover has nobody to share with.
    fn is_shared(&self) -> bool {
        self.crowd.movers > 1
    }
}

/// Jain's index over what each flow got in a window of the run; who is not there yet gets nothing.
fn jain_in(measured: &Measured, window: usize) -> f64 {
    let share = |flow: &FlowRecord| {
        let sample = window.checked_sub(flow.first_sample).and_then(|at| flow.samples.get(at));
        sample.map_or(0.0, |bytes| *bytes as f64)
    };
    jain(&measured.of(0).map(share).collect::<Vec<_>>())
}

fn fleet(options: &Options<'_>) -> Findings {
    let extent = Extent::of(options);
    let outcomes = run_jobs(options, extent.crowds, |crowd| crowd.run(&extent, options.seed));
    Findings {
        method: vec![
            format!(
                "One link of {SHARE_MBIT} Mb/s for each mover, {RTT_MS} ms, a drop-tail queue of one bandwidth-delay \
                 product; every mover has a card of {} Gb/s and sends all the time, controlled by {}. They begin one after \
                 another within {} s. A packet of {RUN_BYTES} bytes stands for seven datagrams of {PACKET_BYTES} that leave \
                 in one run.",
                CARD_MBIT / 1e3,
                ControllerKind::Adaptive.name(),
                extent.begun.as_secs_f64(),
            ),
            format!(
                "From {} s to {} s; what is lost, from the first datagram on. Of the link: of the object bytes that it \
                 carries. Fair after: from the last mover's beginning until the index stays at {JAIN_MIN}, to {} s.",
                extent.from.as_secs_f64(),
                extent.until.as_secs_f64(),
                extent.sample.as_secs_f64(),
            ),
        ],
        tables: vec![table(&outcomes), course(&outcomes, &extent)],
        statements: judge(&outcomes),
    }
}

fn table(outcomes: &[Outcome]) -> Table {
    Table::of("fleet", "Who gets what", outcomes)
        .column("movers", Unit::Number, |one| one.crowd.movers)
        .column("link", Unit::Mbps, |one| SHARE_MBIT * f64::from(one.crowd.movers))
        .column("packet", Unit::Bytes, |one| one.crowd.packet_bytes)
        .column("Jain index", Unit::Number, |one| one.jain)
        .column("fair after", Unit::Seconds, |one| one.fair_after.map(|after| after.as_secs_f64()))
        .column("least", Unit::Mbps, |one| one.goodputs.min)
        .column("median", Unit::Mbps, |one| one.goodputs.median)
        .column("most", Unit::Mbps, |one| one.goodputs.max)
        .column("of the link", Unit::Share, |one| one.carried)
        .column("lost", Unit::Share, |one| one.lost)
        .column("queue", Unit::Bdp, |one| one.queue_bdp)
        .table()
}

/// How the index grows.
fn course(outcomes: &[Outcome], extent: &Extent) -> Table {
    let shared: Vec<&Outcome> = outcomes.iter().filter(|one| one.is_shared()).collect();
    let names: Vec<String> = shared.iter().map(|one| one.crowd.name()).collect();
    let windows: Vec<usize> = (0..extent.windows()).collect();
    let lines: Vec<&str> = names.iter().map(String::as_str).collect();
    Table::of("course", "Jain's index over time", &windows)
        .column("until", Unit::Seconds, |window| (*window + 1) as f64 * extent.sample.as_secs_f64())
        .columns(&names, Unit::Number, |window, at| shared[at].course[*window])
        .table()
        .detail()
        .plot(Plot::lines("until", &lines))
}

fn judge(outcomes: &[Outcome]) -> Vec<Statement> {
    let figures = |of: fn(&Outcome) -> String| {
        let each = outcomes.iter().filter(|one| one.is_shared());
        each.map(|one| format!("{}: {}", one.crowd.name(), of(one))).collect::<Vec<_>>().join("; ")
    };
    let shared = || outcomes.iter().filter(|one| one.is_shared());
    vec![
        FAIR.judge(shared().all(|one| one.jain >= JAIN_MIN), figures(Outcome::fairness)),
        LOST.judge(
            outcomes.iter().all(|one| one.lost <= LOST_MAX),
            figures(|one| format!("{:.2} %", 100.0 * one.lost)),
        ),
    ]
}

const ONE: Crowd = Crowd { movers: 1, packet_bytes: PACKET_BYTES };
const FOUR: Crowd = Crowd { movers: 4, ..ONE };
const TEN: Crowd = Crowd { movers: 10, ..ONE };
const HUNDRED: Crowd = Crowd { movers: 100, ..ONE };
const HUNDRED_IN_RUNS: Crowd = Crowd { packet_bytes: RUN_BYTES, ..HUNDRED };
const THOUSAND_IN_RUNS: Crowd = Crowd { movers: 1000, ..HUNDRED_IN_RUNS };
/// What data movers' networks carry in one packet.
const PACKET_BYTES: u32 = 9000;
/// Seven of these, as hosts hand them to their cards. With single ones a thousand movers take an hour.
const RUN_BYTES: u32 = 7 * PACKET_BYTES;
/// What each mover may have: 400 Gb/s for a thousand.
const SHARE_MBIT: f64 = 400.0;
/// Across a continent and back.
const RTT_MS: f64 = 65.0;
/// The slowest card of a data mover, and far more than a share: one of them could crowd out others.
const CARD_MBIT: f64 = 10_000.0;
/// As long as a job scheduler takes to start a thousand.
const BEGUN: Duration = Duration::from_secs(10);
const JAIN_MIN: f64 = 0.95;
const LOST_MAX: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use crate::report::Verdict::{Met, NotMet};

    fn smoke() -> Options<'static> {
        Options { scale: Scale::Smoke, ..Options::default() }
    }

    #[test]
    fn a_crowd_fills_its_link_and_every_mover_is_measured() {
        let extent = Extent::of(&smoke());
        let outcome = FOUR.run(&extent, 1);
        assert_eq!((outcome.goodputs.count, outcome.course.len()), (4, 4));
        assert!((0.8..1.01).contains(&outcome.carried), "{}", outcome.carried);
        assert!(outcome.goodputs.min > 0.0 && outcome.goodputs.max < CARD_MBIT);
        assert!((0.25..=1.0).contains(&outcome.jain));
    }

    #[test]
    fn who_is_late_had_nothing_before() {
        let late = Crowd { movers: 2, ..ONE };
        let extent = Extent { begun: Duration::from_secs(2), ..Extent::of(&smoke()) };
        let course = late.run(&extent, 1).course;
        assert!((course[0] - 0.5).abs() < 1e-9 && course[3] > 0.5, "{course:?}");
    }

    #[test]
    fn a_missed_bar_is_told() {
        let mut outcome = FOUR.run(&Extent::of(&smoke()), 1);
        (outcome.jain, outcome.lost) = (0.949, 0.01);
        let verdicts = |outcome: &Outcome| {
            let judged = judge(std::slice::from_ref(outcome));
            judged.iter().map(|one| one.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&outcome), [NotMet, Met]);
        (outcome.jain, outcome.lost) = (0.95, 0.0101);
        assert_eq!(verdicts(&outcome), [Met, NotMet]);
    }
}
