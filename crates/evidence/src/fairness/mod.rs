//! fairness: how what longhaul sends shares a path, with its like, beside TCP, and behind it. In the simulator
//! flows under several controls, over emulated paths copies by the program.

mod measured;
mod meeting;
mod simulated;

use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_proto::control::ControllerKind;
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use meeting::{Meeting, Met, Ours, Way};

pub(crate) const EXPERIMENT: Experiment = Experiment::either(
    "fairness",
    "the default control with its like, beside CUBIC, Reno and BBR, and in the background",
    &[ALIKE, RTTS, CUBIC_KEEPS, OURS_KEEPS, UDP_FAIR, BEHIND, FILLS],
    run,
)
.in_parts();

const ALIKE: Claim = Claim::ours(
    "2, 4 and 8 flows (over emulated paths two to four copies) share a path with a Jain index of at least 0.95",
);
const RTTS: Claim =
    Claim::ours("with half of them at four times the others' round trip the index is at least 0.85");
const CUBIC_KEEPS: Claim = Claim::ours("one CUBIC beside one of ours keeps at least 40 % of the link");
const OURS_KEEPS: Claim = Claim::ours("ours beside it keeps at least 30 %");
const UDP_FAIR: Claim = Claim::ours("so do both if a copy stays with UDP");
const BEHIND: Claim =
    Claim::ours("CUBIC beside one of ours in the background keeps at least 90 % of what it has by itself");
const FILLS: Claim = Claim::ours("ours in the background by itself fills at least 90 % of the link");

fn run(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let (method, met) = match backend {
        Backend::Simulator(options) => simulated::meet(options),
        Backend::Lab(bench) => measured::meet(bench)?,
    };
    let mut tables = vec![alike_table(&met), beside_table(&met), background_table(&met)];
    tables.retain(|table| !table.rows.is_empty());
    tables.iter_mut().for_each(Table::drop_empty_columns);
    let mut statements = judge(&met);
    if let Backend::Lab(bench) = backend {
        let alike = met.iter().filter(|one| one.meeting.is_alike()).count();
        let coverage = bench.coverage_of(alike, measured::ALIKE_COPIES.len());
        statements[0] = coverage.of_every("numbers of copies", statements.remove(0));
    } else {
        // These have all the time they need.
        statements.iter_mut().for_each(|one| one.remark = None);
    }
    Ok(Findings { method, tables, statements })
}

fn find(met: &[Met], meeting: Meeting) -> Option<&Met> {
    met.iter().find(|one| one.meeting == meeting)
}

fn alike_table(met: &[Met]) -> Table {
    Table::of(
        "alike",
        "Among themselves",
        &met.iter().filter(|one| one.meeting.is_alike()).collect::<Vec<_>>(),
    )
    .column("flows", Unit::Number, |one| one.meeting.count)
    .text("round trips", |one| if one.meeting.has_far { "1 : 4" } else { "equal" })
    .column("Jain index, mean", Unit::Number, |one| one.jain().mean)
    .column("worst", Unit::Number, |one| one.jain().min)
    .column("least flow", Unit::Share, |one| one.each().min)
    .column("most", Unit::Share, |one| one.each().max)
    .column("together", Unit::Share, |one| one.ours().mean)
    .column("queue", Unit::Bdp, |one| one.queue_bdp())
    .table()
    .plot(Plot::lines("flows", &["Jain index, mean"]).by("round trips"))
}

fn beside_table(met: &[Met]) -> Table {
    let beside = met.iter().filter(|one| one.meeting.count == 1 && one.meeting.ours.way != Way::Background);
    let beside = beside.filter_map(|one| Some((one, one.meeting.rivals?.1)));
    Table::of("beside", "One of ours beside TCPs", &beside.collect::<Vec<_>>())
        .text("one flow", |(one, _)| one.meeting.ours.name())
        .text("beside", |(one, _)| one.meeting.rivals_name())
        .column("its share", Unit::Share, |(one, _)| one.ours().mean)
        .column("worst", Unit::Share, |(one, _)| one.ours().min)
        .column("the others' share", Unit::Share, |(one, _)| one.rivals().mean)
        .column("their worst", Unit::Share, |(one, _)| one.rivals().min)
        .column("of an even share", Unit::Times, |(one, others)| one.ours().mean * f64::from(others + 1))
        .column("queue", Unit::Bdp, |(one, _)| one.queue_bdp())
        .table()
        .plot(Plot::bars("beside", &["of an even share"]).by("one flow"))
}

fn background_table(met: &[Met]) -> Table {
    let cubic = find(met, CUBIC_ALONE).map(|one| one.rivals().mean);
    let alone =
        met.iter().filter(|one| one.meeting.ours.way == Way::Background && one.meeting.rivals.is_none());
    let both = |one: &Met| find(met, one.meeting.beside(CUBIC, 1));
    let kept = |one: &Met| Some(both(one)?.over_rivals(cubic?));
    Table::of("background", "Behind CUBIC", &alone.collect::<Vec<_>>())
        .text("flow in the background", |one| one.meeting.ours.control.name())
        .column("share by itself", Unit::Share, |one| one.ours().mean)
        .column("beside CUBIC", Unit::Share, |one| both(one).map(|both| both.ours().mean))
        .column("CUBIC's share", Unit::Share, |one| both(one).map(|both| both.rivals().mean))
        .column("CUBIC by itself", Unit::Share, |_| cubic)
        .column("of CUBIC by itself", Unit::Share, |one| kept(one).map(|kept| kept.mean))
        .column("worst", Unit::Share, |one| kept(one).map(|kept| kept.min))
        .table()
        .plot(Plot::bars(
            "flow in the background",
            &["share by itself", "beside CUBIC", "of CUBIC by itself"],
        ))
}

fn judge(met: &[Met]) -> Vec<Statement> {
    let background = judge_background(met);
    [
        vec![judge_alike(met, ALIKE, false, JAIN_ALIKE), judge_alike(met, RTTS, true, JAIN_RTTS)],
        judge_beside(met),
        background,
    ]
    .concat()
}

fn judge_alike(met: &[Met], claim: Claim, has_far: bool, least: f64) -> Statement {
    let alike = met.iter().filter(|one| one.meeting.is_alike() && one.meeting.has_far == has_far);
    let worst: Vec<(u32, f64)> = alike.map(|one| (one.meeting.count, one.jain().min)).collect();
    if worst.is_empty() {
        return claim.leave_open(NOT_MEASURED);
    }
    let figures: Vec<String> =
        worst.iter().map(|(count, index)| format!("{index:.3} with {count}")).collect();
    claim.judge(worst.iter().all(|(_, index)| *index >= least), figures.join(", ")).otherwise(SHORT)
}

fn judge_beside(met: &[Met]) -> Vec<Statement> {
    let cubic = |way| find(met, Meeting::of(Ours { way, ..Ours::DEFAULT }, 1).beside(CUBIC, 1));
    let judge = |claim: Claim, bar: f64, share: fn(&Met) -> Summary| match cubic(Way::Default).map(share) {
        Some(share) => claim.judge(share.min >= bar, percent(share)).otherwise(WHY_UNFAIR),
        None => claim.leave_open(NOT_MEASURED),
    };
    let udp = match cubic(Way::Udp).map(|one| (one.ours(), one.rivals())) {
        Some((ours, rivals)) => {
            let figures = format!("CUBIC {}; the copy {}", percent(rivals), percent(ours));
            UDP_FAIR.judge(rivals.min >= CUBIC_MIN && ours.min >= OURS_MIN, figures).otherwise(SHORT)
        }
        None => UDP_FAIR.leave_open(NOT_MEASURED),
    };
    vec![judge(CUBIC_KEEPS, CUBIC_MIN, Met::rivals), judge(OURS_KEEPS, OURS_MIN, Met::ours), udp]
}

fn judge_background(met: &[Met]) -> Vec<Statement> {
    let alone = find(met, BACKGROUND_ALONE);
    let behind = match (find(met, CUBIC_ALONE), find(met, BACKGROUND_ALONE.beside(CUBIC, 1))) {
        (Some(cubic), Some(_)) if cubic.rivals().mean <= 0.0 => {
            BEHIND.leave_open("CUBIC by itself carried nothing while it was measured")
        }
        (Some(cubic), Some(both)) => {
            let kept = both.over_rivals(cubic.rivals().mean);
            BEHIND.judge(kept.min >= BACKGROUND_MIN, percent(kept)).otherwise(SHORT)
        }
        _ => BEHIND.leave_open(NOT_MEASURED),
    };
    let fills = alone.map(Met::ours).map_or_else(
        || FILLS.leave_open(NOT_MEASURED),
        |alone| FILLS.judge(alone.min >= BACKGROUND_MIN, percent(alone)).otherwise(SHORT),
    );
    vec![behind, fills]
}

fn percent(share: Summary) -> String {
    format!("{:.1} % in the mean, {:.1} % at worst", share.mean * 100.0, share.min * 100.0)
}

fn path() -> Scenario {
    experiment::path("shared-100m")
}

/// The path, for a method.
fn about_path() -> String {
    let Scenario { bottleneck_mbit, rtt_ms, .. } = path();
    format!("{bottleneck_mbit} Mb/s, {rtt_ms} ms, a drop-tail queue of one bandwidth-delay product.")
}

/// As the kernel names them.
const CUBIC: &str = "cubic";
const RENO: &str = "reno";
const BBR: &str = "bbr";
const CUBIC_ALONE: Meeting = Meeting::of(Ours::DEFAULT, 0).beside(CUBIC, 1);
const BACKGROUND_ALONE: Meeting =
    Meeting::of(Ours { control: ControllerKind::Adaptive, way: Way::Background }, 1);
const JAIN_ALIKE: f64 = 0.95;
const JAIN_RTTS: f64 = 0.85;
const CUBIC_MIN: f64 = 0.4;
const OURS_MIN: f64 = 0.3;
const BACKGROUND_MIN: f64 = 0.9;
const NOT_MEASURED: &str = "such a meeting did not take place";
const WHY_UNFAIR: &str = "see over UDP: if that is fair, the copy has taken to parallel TCP connections, which together take more \
     than one does";
const SHORT: &str = "those that began last may not have had the time to come to their share; a quick run sees a few seconds only";

#[cfg(test)]
mod tests {
    use super::meeting::Shares;
    use super::*;
    use crate::report::Verdict;

    fn met(meeting: Meeting, ours: &[f64], rivals: f64) -> Met {
        Met { meeting, shares: vec![Shares { ours: ours.into(), rivals, queue_bdp: None }] }
    }

    fn verdicts(statements: Vec<Statement>) -> Vec<Verdict> {
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn cubic_is_judged_by_what_it_has_by_itself() {
        let both = BACKGROUND_ALONE.beside(CUBIC, 1);
        let judge = |kept: f64| {
            let alone = [met(CUBIC_ALONE, &[], 0.9), met(BACKGROUND_ALONE, &[0.89], 0.0)];
            let both = met(both, &[0.1], kept);
            verdicts(judge_background(&alone.into_iter().chain([both]).collect::<Vec<_>>()))
        };
        assert_eq!(judge(0.82), [Verdict::Met, Verdict::NotMet]);
        assert_eq!(judge(0.80), [Verdict::NotMet, Verdict::NotMet]);
        let stalled = [met(CUBIC_ALONE, &[], 0.0), met(both, &[0.1], 0.5)];
        assert_eq!(verdicts(judge_background(&stalled)), [Verdict::Open; 2]);
    }

    #[test]
    fn one_unfair_meeting_or_run_is_enough() {
        let alike = |count| Meeting::of(Ours::DEFAULT, count);
        let judge_alike = |met: &[Met]| {
            let judge = |has_far| judge_alike(met, ALIKE, has_far, JAIN_ALIKE).verdict;
            [judge(false), judge(true)]
        };
        let fair = || met(alike(2), &[0.5, 0.5], 0.0);
        let unfair = || met(alike(3), &[0.8, 0.1, 0.1], 0.0);
        assert_eq!(judge_alike(&[fair(), fair()]), [Verdict::Met, Verdict::Open]);
        assert_eq!(judge_alike(&[fair(), unfair()]), [Verdict::NotMet, Verdict::Open]);
        let far = Met { meeting: Meeting { has_far: true, ..alike(3) }, ..unfair() };
        assert_eq!(judge_alike(&[fair(), far]), [Verdict::Met, Verdict::NotMet]);
        let mut beside = [met(alike(1).beside(CUBIC, 1), &[0.5], 0.5)];
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::Met, Verdict::Met, Verdict::Open]);
        beside[0].shares.push(Shares { ours: vec![0.7], rivals: 0.3, queue_bdp: None });
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::NotMet, Verdict::Met, Verdict::Open]);
        beside[0].meeting.ours.way = Way::Udp;
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::Open, Verdict::Open, Verdict::NotMet]);
    }

    #[test]
    fn what_did_not_meet_is_left_open() {
        assert_eq!(verdicts(judge(&[])), [Verdict::Open; 7]);
    }
}
