//! sharing: what a control leaves to others, and what they leave to it. The judge of every change to the default one.

use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::meeting::{Guest, Meeting, Shares, loss};
use crate::report::{Claim, Findings, Plot, Table, Unit};
use crate::starts::{Bar, Case, CaseOutcomes, Extent, Ways};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ObjectFlow, Protocol, TcpFlow};
use longhaul_sim::metrics::{Summary, jain};
use longhaul_sim::scenario::Scenario;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::either(
    "sharing",
    "what a control leaves to others on a path, and they to it: rivals, its like, crowds",
    &[ONE_BBR, BBRS, ONE_TCP, CUBICS, CROWDS, ALIKE, RTTS, BEHIND, POLICED],
    share,
)
.in_parts()
.alone()
.differing(
    "what copies lose counts from their first packet on, path check included, what is simulated from 30 s on; a busy host takes \
     from copies; with --quick they are measured from 8 s to 14 s, before a BBR has been found out by its dips ten seconds apart",
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
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// The path as hosts make it that are no clockwork. Else those that are clocked by their acknowledgements stay in step with a full
    /// queue, and lose nothing to those that are not (Floyd and Jacobson, "Traffic phase effects in packet-switched gateways", 1991).
    fn disturbed(&self, path: Scenario) -> Scenario {
        let is_clocked = |(rival, _)| matches!(rival, ControllerKind::Cubic | ControllerKind::NewReno);
        match self.rivals {
            Some(rivals) if is_clocked(rivals) => Scenario { jitter_ms: HOST_JITTER_MS, ..path },
            _ => path,
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
/// Less than a packet takes on any of these links, as is advised against such effects. With 0.05 and 0.2 ms shares are as far from these
/// as between orders of beginning.
const HOST_JITTER_MS: f64 = 0.1;
/// In a crowd they come so soon one after another.
const CROWD_GAP: f64 = 0.25;

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
        let cubic = all.iter().find(|one| one.case.row == self.case.row && is_cubic(&one.case));
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

fn extent(backend: &Backend<'_>) -> Extent<Contest, Start> {
    let default = &YARDSTICKS[..1];
    // Copies are of the default control.
    let controls = backend.choose(backend.pick(YARDSTICKS, default, default), default);
    let is_first = |nth: usize| nth == 0 || ROWS[nth - 1].claim != ROWS[nth].claim;
    let is_usual = |nth: usize| {
        // The smallest: 16 CUBICs and a crowd; one CUBIC.
        let smoke = backend.choose((9..11).contains(&nth), nth == 3);
        backend.pick(true, backend.choose(true, is_first(nth)), smoke)
    };
    Extent::new(backend, contests(controls, is_usual), &STARTS, [30, 60])
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

/// The rows with each of these controls, each with whether it is usual.
fn contests(controls: &[ControllerKind], is_usual: impl Fn(usize) -> bool) -> Vec<(Contest, bool)> {
    let with = |control: Protocol| {
        let rows = ROWS.iter().enumerate();
        rows.map(|(nth, row)| (Contest { row, control: control.clone() }, is_usual(nth))).collect::<Vec<_>>()
    };
    let ours = controls.iter().flat_map(|control| with(Protocol::Object(ObjectFlow::new(*control))));
    // What CUBIC loses in a crowd is the measure of what may be lost.
    let cubic = with(Protocol::Tcp(TcpFlow::new(ControllerKind::Cubic))).into_iter();
    ours.chain(cubic.filter(|(contest, _)| contest.row.claim == CROWDS)).collect()
}

const WAYS: Ways<Contest, Start, Shares> = Ways {
    meeting: |extent, contest, start, seed| contest.meeting(*start, extent, seed),
    simulate: |contest, meeting| {
        Meeting { path: contest.row.disturbed(meeting.path.clone()), ..meeting.clone() }.simulate()
    },
    measured: |contest, shares, link| match contest.row.policer {
        Some(_) => Shares { lost: loss(&[*link]), ..shares },
        None => shares,
    },
};

fn share(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let extent = extent(backend);
    let (mut method, outcomes) = extent.run(backend, &WAYS)?;
    method.push(format!(
        "Lost: of what was sent {}. {} start(s): ours first, rivals first, all at once, with several gaps; worst: of these. \
         Drop-tail queues in bandwidth-delay products.",
        backend.choose("in that time", "from the first packet on, behind a policer in that time"),
        extent.starts.len()
    ));
    Ok(Findings {
        method,
        tables: vec![table(&outcomes)],
        statements: extent.judge(backend, BARS, &outcomes),
    })
}

impl Contest {
    fn meeting(&self, start: Start, extent: &Extent<Contest, Start>, seed: u64) -> Meeting {
        let Contest { row, control } = self;
        let guest = |protocol: Protocol, at_s: f64, access_delay| Guest {
            protocol,
            at: Time::ZERO + Duration::from_secs_f64(at_s),
            access_delay,
        };
        let gap_s = if row.claim == CROWDS { start.gap_s * CROWD_GAP } else { start.gap_s };
        let longer = Duration::from_secs_f64(1.5 * row.rtt_ms / 1e3);
        let ours = (0..row.count).map(|nth| {
            let delay = if row.has_far && nth % 2 == 1 { longer } else { Duration::ZERO };
            guest(yielding(control, row.yields), start.ours_s + gap_s * f64::from(nth), delay)
        });
        let rivals =
            row.rivals.into_iter().flat_map(|(rival, count)| (0..count).map(move |nth| (rival, nth)));
        let rivals = rivals.map(|(rival, nth)| {
            let at_s = start.rivals_s + RIVALS_GAP_S * f64::from(nth);
            guest(Protocol::Tcp(TcpFlow::new(rival)), at_s, Duration::ZERO)
        });
        let from_2_s = Time::from_millis(2000) + Duration::from_secs_f64(start.ours_s);
        Meeting {
            path: row.scenario(start, seed),
            ours: ours.collect(),
            rivals: rivals.collect(),
            from: if row.policer.is_some() { from_2_s } else { extent.from },
            until: extent.until,
            transport: "object",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bench::{Bench, with_bench};
    use crate::report::Verdict;

    fn with_lab(only: Option<&str>, run: impl FnOnce(&Backend<'_>)) {
        with_bench(only, |bench| run(&Backend::Lab(Bench::new(bench.options))));
    }

    #[test]
    fn a_quick_run_over_emulated_paths_asks_of_every_claim_and_lets_either_begin() {
        with_lab(None, |backend| {
            let extent = extent(backend);
            let usual: Vec<_> =
                extent.cases.iter().filter(|(_, is_usual)| *is_usual).map(|(one, _)| one).collect();
            assert!(BARS.iter().all(|bar| usual.iter().any(|one| one.is_of(bar.claim))));
            let crowds = usual.iter().filter(|one| one.row.claim == CROWDS).map(|one| name(&one.control));
            assert_eq!(crowds.collect::<Vec<_>>(), ["adaptive", "tcp:cubic"], "a crowd and its measure");
            let are_first: Vec<bool> =
                extent.starts.iter().map(|start| start.ours_s < start.rivals_s).collect();
            assert_eq!(are_first, [true, false]);
        });
    }

    #[test]
    fn what_was_not_measured_is_not_judged_and_some_rows_are_not_all() {
        let shares = Shares { ours: vec![0.5], rivals: 0.5, queue_bdp: 0.5, lost: 0.0 };
        let judged = |only| {
            let mut verdicts = vec![];
            with_lab(only, |backend| {
                let extent = extent(backend);
                let case = extent.cases[0].0.clone();
                let one = CaseOutcomes { case, outcomes: vec![shares.clone()] };
                verdicts = extent.judge(backend, BARS, &[one]);
            });
            (verdicts[0].verdict, verdicts[0].figures.clone(), verdicts[1].verdict)
        };
        let figures = "beside 1 bbr: 100 Mb/s, 40 ms, queue 1: 50.0 %, at worst 50.0 %";
        assert_eq!(judged(None), (Verdict::Met, format!("{figures}; 1 of 2 rows measured"), Verdict::Open));
        assert_eq!(judged(Some("bbr: 100")).0, Verdict::Open);
    }
}
