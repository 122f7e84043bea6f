//! sharing: what a control leaves to others, and what they leave to it. The judge of every change to the default one.

use crate::Scale;
use crate::experiment::Experiment;
use crate::report::{Claim, Findings, Plot, Table, Unit};
use crate::sim::starts::{Bar, Case, CaseOutcomes, Extent, judge};
use crate::sim::{Options, payload_rate};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowSpec, ObjectFlow, Protocol, TcpFlow};
use longhaul_sim::metrics::{Summary, jain};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Pair, Traffic};
use longhaul_sim::workload::Workload;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::simulated(
    "sharing",
    "what a control leaves to others on a path, and they to it: rivals, its like, crowds",
    &[ONE_BBR, BBRS, ONE_TCP, CUBICS, CROWDS, ALIKE, RTTS, BEHIND, POLICED],
    share,
);

const ONE_BBR: Claim =
    Claim::ours("beside one BBR it has at least 35 % of the link on average and 25 % at worst, BBR 35 %");
const BBRS: Claim = Claim::ours("beside four BBRs it has 10 to 30 %");
const ONE_TCP: Claim =
    Claim::ours("beside one CUBIC or one NewReno each has at least 35 % whoever came first");
const CUBICS: Claim = Claim::ours("beside 4 and 16 CUBICs it has half to one and a half times a fair share");
const CROWDS: Claim =
    Claim::ours("10 and 30 of it lose at most a point more than as many CUBICs, with a Jain index of 0.95");
const ALIKE: Claim =
    Claim::ours("2 to 10 of it share with a Jain index of 0.95 and a mean queue of 0.3 products at most");
const RTTS: Claim =
    Claim::ours("where half of them have four times the others' round trip the index is at least 0.9");
const BEHIND: Claim = Claim::ours("CUBIC and BBR keep at least 95 % beside it in the background");

const POLICED: Claim = Claim::ours(
    "alone behind a policer it has at least 92 % of its rate and loses 1 % at most, both from 2 s on",
);

/// Flows that meet on a path.
#[derive(Clone, Copy, Debug)]
struct Row {
    claim: Claim,
    rate_mbit: f64,
    rtt_ms: f64,
    queue_bdp: f64,
    count: u32,
    /// Every other one has four times the round trip.
    has_far: bool,
    /// In the background.
    yields: bool,
    rivals: Option<(ControllerKind, u32)>,
    /// Rate, in Mb/s, and burst, in ms.
    policer: Option<(f64, f64)>,
}

impl Row {
    const fn new(claim: Claim, (rate_mbit, rtt_ms, queue_bdp): (f64, f64, f64), count: u32) -> Row {
        Row {
            claim,
            rate_mbit,
            rtt_ms,
            queue_bdp,
            count,
            has_far: false,
            yields: false,
            rivals: None,
            policer: None,
        }
    }

    const fn beside(claim: Claim, path: (f64, f64, f64), rival: ControllerKind, count: u32) -> Row {
        Row { rivals: Some((rival, count)), ..Row::new(claim, path, 1) }
    }

    const fn far(self) -> Row {
        Row { has_far: true, ..self }
    }

    const fn policed(path: (f64, f64, f64), mbit: f64, burst_ms: f64) -> Row {
        Row { policer: Some((mbit, burst_ms)), ..Row::new(POLICED, path, 1) }
    }

    const fn behind(self) -> Row {
        Row { yields: true, ..self }
    }

    fn name(&self) -> String {
        let Row { rate_mbit, rtt_ms, queue_bdp, .. } = self;
        let path = format!("{rate_mbit} Mb/s, {rtt_ms} ms, queue {queue_bdp}");
        let far = if self.has_far { ", round trips 1 : 4" } else { "" };
        if let Some((mbit, burst_ms)) = self.policer {
            return format!("policed to {mbit} Mb/s, burst {burst_ms} ms: {path}");
        }
        match self.rivals {
            Some((rival, count)) if self.yields => format!("behind {count} {}: {path}", rival.name()),
            Some((rival, count)) => format!("beside {count} {}: {path}", rival.name()),
            None => format!("{} alike{far}: {path}", self.count),
        }
    }

    fn scenario(&self, start: Start, seed: u64) -> Scenario {
        let path = Scenario::new(self.rate_mbit, self.rtt_ms);
        let path = Scenario { queue_bdp: Some(self.queue_bdp), seed, ..path };
        let Some((mbit, burst_ms)) = self.policer else { return path };
        Scenario {
            policer_mbit: Some(mbit),
            policer_burst_ms: Some(burst_ms),
            // Alone on an even path it would do the same after each start.
            jitter_ms: POLICED_JITTER_MS,
            seed: seed + (start.ours_s * 10.0) as u64,
            ..path
        }
    }

    /// The share that would be even.
    fn fair(&self) -> f64 {
        1.0 / f64::from(self.count + self.rivals.map_or(0, |(_, count)| count))
    }
}

const LONG: (f64, f64, f64) = (100.0, 40.0, 1.0);
const SHORT: (f64, f64, f64) = (20.0, 20.0, 0.5);
const DEEP: (f64, f64, f64) = (50.0, 80.0, 2.0);
const CROWDED: [(f64, f64, f64); 3] = [(10.0, 100.0, 0.25), (10.0, 100.0, 1.0), (10.0, 100.0, 2.0)];

const ROWS: &[Row] = &[
    Row::beside(ONE_BBR, LONG, ControllerKind::Bbr, 1),
    Row::beside(ONE_BBR, SHORT, ControllerKind::Bbr, 1),
    Row::beside(BBRS, LONG, ControllerKind::Bbr, 4),
    Row::beside(ONE_TCP, LONG, ControllerKind::Cubic, 1),
    Row::beside(ONE_TCP, DEEP, ControllerKind::Cubic, 1),
    Row::beside(ONE_TCP, SHORT, ControllerKind::Cubic, 1),
    Row::beside(ONE_TCP, LONG, ControllerKind::NewReno, 1),
    Row::beside(ONE_TCP, SHORT, ControllerKind::NewReno, 1),
    Row::beside(CUBICS, LONG, ControllerKind::Cubic, 4),
    Row::beside(CUBICS, LONG, ControllerKind::Cubic, 16),
    Row::new(CROWDS, CROWDED[0], 10),
    Row::new(CROWDS, CROWDED[1], 10),
    Row::new(CROWDS, CROWDED[2], 10),
    Row::new(CROWDS, CROWDED[0], 30),
    Row::new(CROWDS, CROWDED[1], 30),
    Row::new(CROWDS, CROWDED[2], 30),
    Row::new(CROWDS, LONG, 30),
    Row::new(ALIKE, LONG, 2),
    Row::new(ALIKE, LONG, 4),
    Row::new(ALIKE, LONG, 8),
    Row::new(ALIKE, (50.0, 50.0, 1.0), 10),
    Row::new(RTTS, LONG, 2).far(),
    Row::new(RTTS, LONG, 8).far(),
    Row::beside(BEHIND, LONG, ControllerKind::Cubic, 1).behind(),
    Row::beside(BEHIND, LONG, ControllerKind::Bbr, 1).behind(),
    Row::policed((200.0, 40.0, 1.0), 50.0, 100.0),
    Row::policed((100.0, 100.0, 1.0), 20.0, 100.0),
];

/// When flows begin: the first of ours, the gap between two of ours, the first of the rivals, theirs.
#[derive(Clone, Copy, Debug)]
struct Start {
    ours_s: f64,
    gap_s: f64,
    rivals_s: f64,
}

/// Ours first, rivals first, all at about the same time, with several gaps: what comes of a meeting hangs by tenths of a
/// second.
const STARTS: [Start; 6] = [
    Start { ours_s: 0.0, gap_s: 2.0, rivals_s: 2.3 },
    Start { ours_s: 3.1, gap_s: 1.3, rivals_s: 0.0 },
    Start { ours_s: 0.7, gap_s: 3.1, rivals_s: 0.3 },
    Start { ours_s: 0.0, gap_s: 2.5, rivals_s: 0.9 },
    Start { ours_s: 1.7, gap_s: 0.7, rivals_s: 0.0 },
    Start { ours_s: 5.2, gap_s: 1.7, rivals_s: 0.0 },
];
const RIVALS_GAP_S: f64 = 0.1;
const POLICED_JITTER_MS: f64 = 0.2;
/// In a crowd they come so soon one after another.
const CROWD_GAP: f64 = 0.25;

/// What came of a row with one control and one start.
#[derive(Clone, Debug)]
struct Shares {
    /// Of what the link carries, each of ours.
    ours: Vec<f64>,
    rivals: f64,
    queue_bdp: f64,
    lost: f64,
}

/// A row with one control.
#[derive(Clone)]
struct Contest {
    row: &'static Row,
    control: Protocol,
}

impl Case for Contest {
    fn label(&self) -> String {
        self.row.name()
    }

    fn is_of(&self, claim: Claim) -> bool {
        let is_default =
            matches!(&self.control, Protocol::Object(flow) if flow.control == ControllerKind::Adaptive);
        self.row.claim == claim && is_default
    }
}

impl CaseOutcomes<Contest, Shares> {
    fn ours(&self) -> Summary {
        self.over(|shares| shares.ours.iter().sum())
    }

    fn rivals(&self) -> Summary {
        self.over(|shares| shares.rivals)
    }

    fn jain(&self) -> Summary {
        self.over(|shares| jain(&shares.ours))
    }

    fn lost(&self) -> Summary {
        self.over(|shares| shares.lost)
    }

    /// Whether the row's bar is held.
    fn holds(&self, all: &[CaseOutcomes<Contest, Shares>]) -> bool {
        BARS.iter().any(|bar| bar.claim == self.case.row.claim && (bar.holds)(self, all))
    }

    /// Loses at most a point more than CUBIC does in its place.
    fn loses_little(&self, all: &[CaseOutcomes<Contest, Shares>]) -> bool {
        let is_cubic = |case: &Contest| matches!(case.control, Protocol::Tcp(_));
        let cubic = all.iter().find(|one| std::ptr::eq(one.case.row, self.case.row) && is_cubic(&one.case));
        cubic.is_some_and(|cubic| self.lost().mean <= cubic.lost().mean + 0.01)
    }
}

const BARS: &[Bar<Contest, Shares>] = &[
    Bar {
        claim: ONE_BBR,
        holds: |outcomes, _| {
            outcomes.ours().mean >= 0.35 && outcomes.ours().min >= 0.25 && outcomes.rivals().mean >= 0.35
        },
        figures: of_ours,
    },
    Bar { claim: BBRS, holds: |outcomes, _| (0.1..=0.3).contains(&outcomes.ours().mean), figures: of_ours },
    Bar {
        claim: ONE_TCP,
        holds: |outcomes, _| outcomes.ours().min >= 0.35 && outcomes.rivals().min >= 0.35,
        figures: of_ours,
    },
    Bar {
        claim: CUBICS,
        holds: |outcomes, _| {
            let (ours, fair) = (outcomes.ours().mean, outcomes.case.row.fair());
            ours >= fair / 2.0 && ours <= fair * 1.5
        },
        figures: of_ours,
    },
    Bar {
        claim: CROWDS,
        holds: |outcomes, all| outcomes.loses_little(all) && outcomes.jain().min >= 0.95,
        figures: of_alike,
    },
    Bar {
        claim: ALIKE,
        holds: |outcomes, _| {
            outcomes.jain().min >= 0.95 && outcomes.over(|shares| shares.queue_bdp).max <= 0.3
        },
        figures: of_alike,
    },
    Bar { claim: RTTS, holds: |outcomes, _| outcomes.jain().min >= 0.9, figures: of_alike },
    Bar { claim: BEHIND, holds: |outcomes, _| outcomes.rivals().min >= 0.95, figures: of_ours },
    Bar {
        claim: POLICED,
        holds: |outcomes, _| outcomes.ours().min >= 0.92 && outcomes.lost().max <= 0.01,
        figures: |outcomes| {
            let (share, lost) = (outcomes.ours().min, outcomes.lost().max);
            format!("{:.1} % at worst, {:.1} % lost at most", 100.0 * share, 100.0 * lost)
        },
    },
];

fn of_ours(outcomes: &CaseOutcomes<Contest, Shares>) -> String {
    let ours = outcomes.ours();
    format!("{:.1} %, at worst {:.1} %", 100.0 * ours.mean, 100.0 * ours.min)
}

fn of_alike(outcomes: &CaseOutcomes<Contest, Shares>) -> String {
    format!("Jain {:.3}, {:.1} % lost", outcomes.jain().min, 100.0 * outcomes.lost().mean)
}

fn extent(scale: Scale) -> Extent<Contest, Start> {
    let [from, until] = [30_000, 60_000].map(Time::from_millis);
    let of = |controls, rows| Extent { cases: contests(controls, rows), starts: &STARTS, from, until };
    let default = &YARDSTICKS[..1];
    scale.pick(of(YARDSTICKS, ROWS), of(default, ROWS), of(default, &ROWS[9..11]).smoke())
}

/// The default first.
const YARDSTICKS: &[ControllerKind] = &[
    ControllerKind::Adaptive,
    ControllerKind::Cubic,
    ControllerKind::Bbr,
    ControllerKind::Pcp,
    ControllerKind::Udt,
    ControllerKind::Ledbat,
];

/// The rows with each of these controls.
fn contests(controls: &[ControllerKind], rows: &'static [Row]) -> Vec<Contest> {
    let with = |control: Protocol| move |row| Contest { row, control: control.clone() };
    let ours = controls.iter().map(|control| Protocol::Object(ObjectFlow::new(*control)));
    let mut contests: Vec<Contest> = ours.flat_map(|control| rows.iter().map(with(control))).collect();
    // What CUBIC loses in a crowd is the measure of what may be lost.
    let crowds = rows.iter().filter(|row| row.claim == CROWDS);
    contests.extend(crowds.map(with(Protocol::Tcp(TcpFlow::new(ControllerKind::Cubic)))));
    contests
}

fn share(options: &Options<'_>) -> Findings {
    let extent = extent(options.scale);
    let outcomes = extent.run(options, |contest, start| simulate(contest, *start, &extent, options.seed));
    let method = format!(
        "{}; lost: of what was sent in that time. {} starts: ours first, rivals first, all at once, with several gaps; \
         worst: of these. Drop-tail queues in bandwidth-delay products.",
        extent.method(),
        extent.starts.len()
    );
    Findings { method: vec![method], tables: vec![table(&outcomes)], statements: judge(BARS, &outcomes) }
}

fn simulate(contest: &Contest, start: Start, extent: &Extent<Contest, Start>, seed: u64) -> Shares {
    let Contest { row, control } = contest;
    let scenario = row.scenario(start, seed);
    let limit = payload_rate(&scenario);
    // Twice what fits into the run, so that nobody is done before its end.
    let bytes = limit.bytes_in(extent.until.since(Time::ZERO)) * 2;
    let flow = |protocol: Protocol, at_s: f64, access_delay: Duration| {
        let pairs = vec![Pair { access_delay, ..Pair::default() }];
        let at = Time::ZERO + Duration::from_secs_f64(at_s);
        Traffic { pairs, ..Traffic::new(FlowSpec::new(protocol, bytes), Arrivals::Together { at, count: 1 }) }
    };
    let gap_s = if row.claim == CROWDS { start.gap_s * CROWD_GAP } else { start.gap_s };
    let longer = Duration::from_secs_f64(1.5 * row.rtt_ms / 1e3);
    let mut traffic: Vec<Traffic> = (0..row.count)
        .map(|nth| {
            let delay = if row.has_far && nth % 2 == 1 { longer } else { Duration::ZERO };
            flow(yielding(control, row.yields), start.ours_s + gap_s * f64::from(nth), delay)
        })
        .collect();
    if let Some((rival, count)) = row.rivals {
        let at = |nth| start.rivals_s + RIVALS_GAP_S * f64::from(nth);
        traffic
            .extend((0..count).map(|nth| flow(Protocol::Tcp(TcpFlow::new(rival)), at(nth), Duration::ZERO)));
    }
    let all = traffic.len();
    let mut workload = Workload::over(&scenario, traffic, extent.until).expect("the path is a sound one");
    let from_2_s = Time::from_millis(2000) + Duration::from_secs_f64(start.ours_s);
    workload.measure_from = if row.policer.is_some() { from_2_s } else { extent.from };
    workload.options.trace = TraceMode::Off;
    let measured = workload.run();
    let share = |index| measured.goodputs(index).iter().sum::<f64>() / limit.0 as f64;
    let mut ours: Vec<f64> = (0..all).map(share).collect();
    let rivals = ours.split_off(row.count as usize).iter().sum();
    let queue_bdp = measured.hops[0].forward.queue.mean_bytes / scenario.bdp_bytes() as f64;
    Shares { ours, rivals, queue_bdp, lost: measured.loss_ratio() }
}

fn yielding(control: &Protocol, yields: bool) -> Protocol {
    match control {
        Protocol::Object(flow) => Protocol::Object(ObjectFlow { background: yields, ..flow.clone() }),
        other => other.clone(),
    }
}

fn name(control: &Protocol) -> String {
    match control {
        Protocol::Object(flow) => flow.control.name().to_owned(),
        Protocol::Tcp(flow) => format!("tcp:{}", flow.control.name()),
    }
}

fn table(outcomes: &[CaseOutcomes<Contest, Shares>]) -> Table {
    Table::of("sharing", "Who gets what", outcomes)
        .text("case", |one| one.case.row.name())
        .text("control", |one| name(&one.case.control))
        .column("share, mean", Unit::Share, |one| one.ours().mean)
        .column("worst", Unit::Share, |one| one.ours().min)
        .column("even share", Unit::Share, |one| one.case.row.fair() * f64::from(one.case.row.count))
        .column("rivals", Unit::Share, |one| one.case.row.rivals.map(|_| one.rivals().mean))
        .column("Jain index, worst", Unit::Number, |one| (one.case.row.count > 1).then(|| one.jain().min))
        .column("queue", Unit::Bdp, |one| one.over(|shares| shares.queue_bdp).mean)
        .column("lost", Unit::Share, |one| one.lost().mean)
        .text("bar held", |one| one.holds(outcomes))
        .table()
        .plot(Plot::bars("case", &["share, mean"]).by("control"))
}
