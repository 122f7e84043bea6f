//! fairness: how a copy shares a path, with its like, beside the kernel's TCP, and behind it.

mod meeting;

use super::bench::Bench;
use super::peers::Cargo;
use super::{Claim, Experiment, ExperimentError, Findings, Statement};
use crate::Scenario;
use longhaul_sim::experiments::{Column, Plot, Table, Unit};
use longhaul_sim::metrics::{Summary, jain};
use meeting::{Meeting, Shares, Timing, Way};
use std::rc::Rc;
use std::time::Duration;

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    id: "fairness",
    title: "Copies with their like, beside kernel CUBIC, Reno and BBR, and in the background",
    claims: &[ALIKE, CUBIC_KEEPS, OURS_KEEPS, UDP_FAIR, BEHIND, FILLS],
    has_parts: true,
    measure,
}];

const ALIKE: Claim = Claim::ours("two to four copies share a path with a Jain index of at least 0.95");
const CUBIC_KEEPS: Claim = Claim::ours("one CUBIC beside one copy keeps at least 40 % of the link");
const OURS_KEEPS: Claim = Claim::ours("the copy beside it keeps at least 30 %");
const UDP_FAIR: Claim = Claim::ours("so do both if the copy stays with UDP");
const BEHIND: Claim =
    Claim::ours("CUBIC beside a copy in the background keeps at least 90 % of what it has by itself");
const FILLS: Claim = Claim::ours("a copy in the background by itself fills at least 90 % of the link");

/// A meeting, and what came of each time it took place.
struct Met {
    meeting: Meeting,
    shares: Vec<Shares>,
}

impl Met {
    /// Copies among themselves.
    fn is_alike(&self) -> bool {
        self.meeting.rivals.is_none() && self.meeting.copies > 1
    }

    fn over(&self, figure: impl Fn(&Shares) -> f64) -> Summary {
        Summary::of(self.shares.iter().map(figure))
    }

    fn ours(&self) -> Summary {
        self.over(Shares::ours)
    }

    fn rivals(&self) -> Summary {
        self.over(|shares| shares.rivals)
    }

    fn jain(&self) -> Summary {
        self.over(|shares| jain(&shares.copies))
    }
}

/// What is to meet, and for how long.
struct Extent {
    meetings: Vec<Meeting>,
    rounds: usize,
    timing: Timing,
    /// For a flow by itself.
    alone: Timing,
}

impl Extent {
    fn of(bench: &Bench<'_>) -> Extent {
        let copy = Meeting::of(1);
        let yielding = [CUBIC_ALONE, BACKGROUND_ALONE, BACKGROUND_BESIDE_CUBIC];
        let udp = copy.by(Way::Udp).beside(CUBIC, 1);
        let full = || -> Vec<Meeting> {
            let rivals = [CUBIC, RENO, BBR]
                .into_iter()
                .flat_map(|rival| [1, 4].map(|count| copy.beside(rival, count)));
            ALIKE_COPIES.map(Meeting::of).into_iter().chain(rivals).chain([udp]).chain(yielding).collect()
        };
        let few = [Meeting::of(3), copy.beside(CUBIC, 1), udp, copy.beside(BBR, 1)];
        let timing = |gap_s: f64, settle_s: f64, measure_s: f64| {
            let [gap, settle, measure] = [gap_s, settle_s, measure_s].map(Duration::from_secs_f64);
            Timing { gap, settle, measure }
        };
        let quick = few.into_iter().chain(yielding).collect();
        let smoke = vec![copy.beside(CUBIC, 1)];
        let usual: Vec<Meeting> = bench.pick(full(), quick, smoke);
        let is_wanted = |meeting: &Meeting| bench.wants(&meeting.name(), usual.contains(meeting));
        let meetings = full().into_iter().filter(is_wanted).collect();
        let (rounds, timing, alone) = bench.pick(
            (3, timing(2.0, 10.0, 20.0), timing(0.0, 5.0, 10.0)),
            (1, timing(1.0, 2.5, 4.0), timing(0.0, 2.0, 2.0)),
            (1, timing(0.1, 0.2, 0.3), timing(0.0, 0.2, 0.3)),
        );
        Extent { meetings, rounds, timing, alone }
    }

    fn timing(&self, meeting: Meeting) -> Timing {
        if [CUBIC_ALONE, BACKGROUND_ALONE].contains(&meeting) { self.alone } else { self.timing }
    }

    /// More than any copy gets through before it is stopped.
    fn source_bytes(&self) -> u64 {
        let longest = self.meetings.iter().map(|&meeting| self.timing(meeting).total(meeting));
        let longest = longest.max().unwrap_or_default() + START_TIME_MAX;
        (longest.as_secs_f64() * RATE_MBIT * 1e6 / 8.0) as u64
    }
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let extent = Extent::of(bench);
    bench.check_parts()?;
    bench.expect_runs(extent.meetings.len() * extent.rounds);
    let lab = bench.lab(&path())?;
    let source = Rc::new(Cargo::file(bench, extent.source_bytes())?);
    let mut met: Vec<Met> = extent.meetings.iter().map(|&meeting| Met { meeting, shares: vec![] }).collect();
    for round in 0..extent.rounds {
        for one in &mut met {
            let timing = extent.timing(one.meeting);
            let shares = one.meeting.run(bench, &lab, RATE_MBIT, &source, timing, round % 2 == 1)?;
            one.shares.push(shares);
        }
    }
    let Timing { gap, settle, measure } = extent.timing;
    let method = vec![
        format!(
            "{RATE_MBIT} Mb/s, {RTT_MS} ms, a drop-tail queue of one bandwidth-delay product. Copies by longhaul cp as it \
             comes, each to a server of its own; TCP of the kernel's, in clear. What arrives at each one's port, in whole IP \
             packets, as a share of what the link carries."
        ),
        format!(
            "Programs begin {} s apart, the copies first (with more than one round, last in every other); {} s after the last \
             beginning all are measured for {} s, and none is at its end before. {} round(s); worst: of these.",
            gap.as_secs_f64(),
            settle.as_secs_f64(),
            measure.as_secs_f64(),
            extent.rounds
        ),
    ];
    let tables = vec![beside_table(&met), alike_table(&met), background_table(&met)];
    Ok(Findings {
        method,
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        statements: judge(bench, &met),
    })
}

fn find(met: &[Met], meeting: Meeting) -> Option<&Met> {
    met.iter().find(|one| one.meeting == meeting)
}

fn beside_table(met: &[Met]) -> Table {
    let columns = vec![
        Column::text("meeting"),
        Column::new("the copy's share", Unit::Share),
        Column::new("worst", Unit::Share),
        Column::new("the others' share", Unit::Share),
        Column::new("their worst", Unit::Share),
        Column::new("an even share", Unit::Share),
    ];
    let mut table = Table::new("beside", "One copy beside kernel TCP", columns)
        .plot(Plot::bars("meeting", &["the copy's share", "the others' share", "an even share"]));
    for one in met.iter().filter(|one| one.meeting.copies == 1 && one.meeting.way != Way::Background) {
        let Some((_, connections)) = one.meeting.rivals else { continue };
        let (ours, rivals) = (one.ours(), one.rivals());
        table.push(vec![
            one.meeting.name().into(),
            ours.mean.into(),
            ours.min.into(),
            rivals.mean.into(),
            rivals.min.into(),
            (1.0 / f64::from(connections + 1)).into(),
        ]);
    }
    table
}

fn alike_table(met: &[Met]) -> Table {
    let columns = vec![
        Column::new("copies", Unit::Number),
        Column::new("Jain index", Unit::Number),
        Column::new("worst", Unit::Number),
        Column::new("least copy", Unit::Share),
        Column::new("most", Unit::Share),
        Column::new("together", Unit::Share),
    ];
    let mut table = Table::new("alike", "Copies among themselves", columns)
        .plot(Plot::bars("copies", &["least copy", "most"]));
    for one in met.iter().filter(|one| one.is_alike()) {
        let index = one.jain();
        let copies = Summary::of(one.shares.iter().flat_map(|shares| shares.copies.iter().copied()));
        table.push(vec![
            u32::from(one.meeting.copies).into(),
            index.mean.into(),
            index.min.into(),
            copies.min.into(),
            copies.max.into(),
            one.ours().mean.into(),
        ]);
    }
    table
}

fn background_table(met: &[Met]) -> Table {
    let columns = vec![
        Column::text("meeting"),
        Column::new("copy in the background", Unit::Share),
        Column::new("CUBIC", Unit::Share),
    ];
    let mut table = Table::new("background", "Behind CUBIC", columns)
        .plot(Plot::bars("meeting", &["copy in the background", "CUBIC"]));
    let met = [CUBIC_ALONE, BACKGROUND_ALONE, BACKGROUND_BESIDE_CUBIC].map(|meeting| find(met, meeting));
    for one in met.into_iter().flatten() {
        table.push(vec![one.meeting.name().into(), one.ours().mean.into(), one.rivals().mean.into()]);
    }
    table
}

fn judge(bench: &Bench<'_>, met: &[Met]) -> Vec<Statement> {
    let coverage = bench.coverage_of(met.iter().filter(|one| one.is_alike()).count(), ALIKE_COPIES.len());
    let alike = judge_alike(met).into_iter().map(|one| coverage.of_every("numbers of copies", one)).collect();
    [alike, judge_beside(met), judge_background(met)].concat()
}

fn judge_alike(met: &[Met]) -> Vec<Statement> {
    let alike = met.iter().filter(|one| one.is_alike());
    let worst: Vec<(u16, f64)> = alike.map(|one| (one.meeting.copies, one.jain().min)).collect();
    if worst.is_empty() {
        return vec![ALIKE.leave_open(NOT_MEASURED)];
    }
    let figures: Vec<String> =
        worst.iter().map(|(count, index)| format!("{index:.3} with {count}")).collect();
    vec![ALIKE.judge(worst.iter().all(|(_, index)| *index >= JAIN_MIN), figures.join(", ")).otherwise(SHORT)]
}

fn judge_beside(met: &[Met]) -> Vec<Statement> {
    let cubic = |way| find(met, Meeting::of(1).by(way).beside(CUBIC, 1));
    let judge = |claim: Claim, bar: f64, share: Summary| {
        claim.judge(share.min >= bar, percent(share)).otherwise(WHY_UNFAIR)
    };
    let mut statements = match cubic(Way::Default) {
        Some(one) => {
            vec![judge(CUBIC_KEEPS, CUBIC_MIN, one.rivals()), judge(OURS_KEEPS, OURS_MIN, one.ours())]
        }
        None => [CUBIC_KEEPS, OURS_KEEPS].map(|claim| claim.leave_open(NOT_MEASURED)).into(),
    };
    statements.push(cubic(Way::Udp).map_or_else(
        || UDP_FAIR.leave_open(NOT_MEASURED),
        |one| {
            let (ours, rivals) = (one.ours(), one.rivals());
            let figures = format!("CUBIC {}; the copy {}", percent(rivals), percent(ours));
            UDP_FAIR.judge(rivals.min >= CUBIC_MIN && ours.min >= OURS_MIN, figures).otherwise(SHORT)
        },
    ));
    statements
}

fn judge_background(met: &[Met]) -> Vec<Statement> {
    let [cubic, alone, both] =
        [CUBIC_ALONE, BACKGROUND_ALONE, BACKGROUND_BESIDE_CUBIC].map(|one| find(met, one));
    let behind = match (cubic, both) {
        (Some(cubic), Some(_)) if cubic.rivals().mean <= 0.0 => {
            BEHIND.leave_open("CUBIC by itself carried nothing while it was measured")
        }
        (Some(cubic), Some(both)) => {
            let by_itself = cubic.rivals().mean;
            let kept = both.over(|shares| shares.rivals / by_itself);
            BEHIND.judge(kept.min >= BACKGROUND_MIN, percent(kept)).otherwise(SHORT)
        }
        _ => BEHIND.leave_open(NOT_MEASURED),
    };
    let fills = alone.map_or_else(
        || FILLS.leave_open(NOT_MEASURED),
        |alone| FILLS.judge(alone.ours().min >= BACKGROUND_MIN, percent(alone.ours())).otherwise(SHORT),
    );
    vec![behind, fills]
}

fn percent(share: Summary) -> String {
    format!("{:.1} % in the mean, {:.1} % at worst", share.mean * 100.0, share.min * 100.0)
}

/// The simulator's experiment has the same.
fn path() -> Scenario {
    Scenario { queue_bdp: Some(1.0), ..Scenario::new(RATE_MBIT, RTT_MS) }
}

const RATE_MBIT: f64 = 100.0;
const RTT_MS: f64 = 40.0;
/// As the kernel names them.
const CUBIC: &str = "cubic";
const RENO: &str = "reno";
const BBR: &str = "bbr";
const CUBIC_ALONE: Meeting = Meeting::of(0).beside(CUBIC, 1);
const BACKGROUND_ALONE: Meeting = Meeting::of(1).by(Way::Background);
const BACKGROUND_BESIDE_CUBIC: Meeting = BACKGROUND_ALONE.beside(CUBIC, 1);
/// Until a program has begun.
const START_TIME_MAX: Duration = Duration::from_secs(5);
/// So many copies meet each other.
const ALIKE_COPIES: [u16; 3] = [2, 3, 4];
const JAIN_MIN: f64 = 0.95;
const CUBIC_MIN: f64 = 0.4;
const OURS_MIN: f64 = 0.3;
const BACKGROUND_MIN: f64 = 0.9;
const NOT_MEASURED: &str = "such a meeting was not measured";
const WHY_UNFAIR: &str = "see over UDP: if that is fair, the copy has taken to parallel TCP connections, which together take more \
     than one does";
const SHORT: &str = "those that began last may not have had the time to come to their share; a quick run sees a few seconds only";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Verdict;

    fn met(meeting: Meeting, copies: &[f64], rivals: f64) -> Met {
        Met { meeting, shares: vec![Shares { copies: copies.into(), rivals }] }
    }

    fn verdicts(statements: Vec<Statement>) -> Vec<Verdict> {
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn cubic_is_judged_by_what_it_has_by_itself() {
        let judge = |kept: f64| {
            let alone = [met(CUBIC_ALONE, &[], 0.9), met(BACKGROUND_ALONE, &[0.89], 0.0)];
            let both = met(BACKGROUND_BESIDE_CUBIC, &[0.1], kept);
            verdicts(judge_background(&alone.into_iter().chain([both]).collect::<Vec<_>>()))
        };
        assert_eq!(judge(0.82), [Verdict::Met, Verdict::NotMet]);
        assert_eq!(judge(0.80), [Verdict::NotMet, Verdict::NotMet]);
        let stalled = [met(CUBIC_ALONE, &[], 0.0), met(BACKGROUND_BESIDE_CUBIC, &[0.1], 0.5)];
        assert_eq!(verdicts(judge_background(&stalled)), [Verdict::Open; 2]);
    }

    #[test]
    fn one_unfair_meeting_or_round_is_enough() {
        let fair = || met(Meeting::of(2), &[0.5, 0.5], 0.0);
        let unfair = met(Meeting::of(3), &[0.8, 0.1, 0.1], 0.0);
        assert_eq!(verdicts(judge_alike(&[fair(), fair()])), [Verdict::Met]);
        assert_eq!(verdicts(judge_alike(&[fair(), unfair])), [Verdict::NotMet]);
        let mut beside = [met(Meeting::of(1).beside(CUBIC, 1), &[0.5], 0.5)];
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::Met, Verdict::Met, Verdict::Open]);
        beside[0].shares.push(Shares { copies: vec![0.7], rivals: 0.3 });
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::NotMet, Verdict::Met, Verdict::Open]);
        beside[0].meeting.way = Way::Udp;
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::Open, Verdict::Open, Verdict::NotMet]);
    }

    #[test]
    fn what_did_not_meet_is_left_open() {
        let none = [judge_alike(&[]), judge_beside(&[]), judge_background(&[])].concat();
        assert_eq!(verdicts(none), [Verdict::Open; 6]);
    }
}
