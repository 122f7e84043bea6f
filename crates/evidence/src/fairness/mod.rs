//! fairness: how longhaul shares a path with other copies, beside TCP, and in the background of TCP. The simulator
//! runs flows under several controllers; over emulated paths the program makes copies.

mod measured;
mod mix;
mod simulated;

use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_proto::control::ControllerKind;
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use mix::{FlowMix, MixOutcomes, Ours, Way};

pub(crate) const EXPERIMENT: Experiment = Experiment::either(
    "fairness",
    "the default control with its like, beside CUBIC, Reno and BBR, and in the background",
    &[ALIKE, RTTS, CUBIC_KEEPS, OURS_KEEPS, UDP_FAIR, BEHIND, FILLS],
    run,
)
.in_parts()
.alone();

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
    let (method, outcomes) = match backend {
        Backend::Simulator(options) => simulated::meet(options),
        Backend::Lab(bench) => measured::meet(bench)?,
    };
    let mut tables = vec![alike_table(&outcomes), beside_table(&outcomes), background_table(&outcomes)];
    tables.retain(|table| !table.rows.is_empty());
    tables.iter_mut().for_each(Table::drop_empty_columns);
    let mut statements = judge(&outcomes);
    if let Backend::Lab(bench) = backend {
        let alike = outcomes.iter().filter(|one| one.mix.is_alike()).count();
        let coverage = bench.coverage_of(alike, measured::ALIKE_COPIES.len());
        statements[0] = coverage.of_every("numbers of copies", statements.remove(0));
    } else {
        // These have all the time they need.
        statements.iter_mut().for_each(|one| one.remark = None);
    }
    Ok(Findings { method, tables, statements })
}

fn find(outcomes: &[MixOutcomes], mix: FlowMix) -> Option<&MixOutcomes> {
    outcomes.iter().find(|one| one.mix == mix)
}

fn alike_table(outcomes: &[MixOutcomes]) -> Table {
    Table::of(
        "alike",
        "Among themselves",
        &outcomes.iter().filter(|one| one.mix.is_alike()).collect::<Vec<_>>(),
    )
    .column("flows", Unit::Number, |one| one.mix.count)
    .text("round trips", |one| if one.mix.has_far { "1 : 4" } else { "equal" })
    .column("Jain index, mean", Unit::Number, |one| one.jain().mean)
    .column("worst", Unit::Number, |one| one.jain().min)
    .column("least flow", Unit::Share, |one| one.each().min)
    .column("most", Unit::Share, |one| one.each().max)
    .column("together", Unit::Share, |one| one.ours().mean)
    .column("queue", Unit::Bdp, |one| one.queue_bdp())
    .table()
    .plot(Plot::lines("flows", &["Jain index, mean"]).by("round trips"))
}

fn beside_table(outcomes: &[MixOutcomes]) -> Table {
    let beside = outcomes.iter().filter(|one| one.mix.count == 1 && one.mix.ours.way != Way::Background);
    let beside = beside.filter_map(|one| Some((one, one.mix.rivals?.1)));
    Table::of("beside", "One of ours beside TCPs", &beside.collect::<Vec<_>>())
        .text("one flow", |(one, _)| one.mix.ours.name())
        .text("beside", |(one, _)| one.mix.rivals_name())
        .column("its share", Unit::Share, |(one, _)| one.ours().mean)
        .column("worst", Unit::Share, |(one, _)| one.ours().min)
        .column("the others' share", Unit::Share, |(one, _)| one.rivals().mean)
        .column("their worst", Unit::Share, |(one, _)| one.rivals().min)
        .column("of an even share", Unit::Times, |(one, others)| one.ours().mean * f64::from(others + 1))
        .column("queue", Unit::Bdp, |(one, _)| one.queue_bdp())
        .table()
        .plot(Plot::bars("beside", &["of an even share"]).by("one flow"))
}

fn background_table(outcomes: &[MixOutcomes]) -> Table {
    let cubic = find(outcomes, CUBIC_ALONE).map(|one| one.rivals().mean);
    let alone = outcomes.iter().filter(|one| one.mix.ours.way == Way::Background && one.mix.rivals.is_none());
    let both = |one: &MixOutcomes| find(outcomes, one.mix.beside(CUBIC, 1));
    let kept = |one: &MixOutcomes| Some(both(one)?.over_rivals(cubic?));
    Table::of("background", "Behind CUBIC", &alone.collect::<Vec<_>>())
        .text("flow in the background", |one| one.mix.ours.control.name())
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

fn judge(outcomes: &[MixOutcomes]) -> Vec<Statement> {
    let background = judge_background(outcomes);
    [
        vec![judge_alike(outcomes, ALIKE, false, JAIN_ALIKE), judge_alike(outcomes, RTTS, true, JAIN_RTTS)],
        judge_beside(outcomes),
        background,
    ]
    .concat()
}

fn judge_alike(outcomes: &[MixOutcomes], claim: Claim, has_far: bool, least: f64) -> Statement {
    let alike = outcomes.iter().filter(|one| one.mix.is_alike() && one.mix.has_far == has_far);
    let worst: Vec<(u32, f64)> = alike.map(|one| (one.mix.count, one.jain().min)).collect();
    if worst.is_empty() {
        return claim.leave_open(NOT_MEASURED);
    }
    let figures: Vec<String> =
        worst.iter().map(|(count, index)| format!("{index:.3} with {count}")).collect();
    claim.judge(worst.iter().all(|(_, index)| *index >= least), figures.join(", ")).otherwise(SHORT)
}

fn judge_beside(outcomes: &[MixOutcomes]) -> Vec<Statement> {
    let cubic = |way| find(outcomes, FlowMix::of(Ours { way, ..Ours::DEFAULT }, 1).beside(CUBIC, 1));
    let judge =
        |claim: Claim, bar: f64, share: fn(&MixOutcomes) -> Summary| match cubic(Way::Default).map(share) {
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
    vec![
        judge(CUBIC_KEEPS, CUBIC_MIN, MixOutcomes::rivals),
        judge(OURS_KEEPS, OURS_MIN, MixOutcomes::ours),
        udp,
    ]
}

fn judge_background(outcomes: &[MixOutcomes]) -> Vec<Statement> {
    let alone = find(outcomes, BACKGROUND_ALONE);
    let behind = match (find(outcomes, CUBIC_ALONE), find(outcomes, BACKGROUND_ALONE.beside(CUBIC, 1))) {
        (Some(cubic), Some(_)) if cubic.rivals().mean <= 0.0 => {
            BEHIND.leave_open("CUBIC by itself carried nothing while it was measured")
        }
        (Some(cubic), Some(both)) => {
            let kept = both.over_rivals(cubic.rivals().mean);
            BEHIND.judge(kept.min >= BACKGROUND_MIN, percent(kept)).otherwise(SHORT)
        }
        _ => BEHIND.leave_open(NOT_MEASURED),
    };
    let fills = alone.map(MixOutcomes::ours).map_or_else(
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

const CUBIC: ControllerKind = ControllerKind::Cubic;
const RENO: ControllerKind = ControllerKind::NewReno;
const BBR: ControllerKind = ControllerKind::Bbr;
const CUBIC_ALONE: FlowMix = FlowMix::of(Ours::DEFAULT, 0).beside(CUBIC, 1);
const BACKGROUND_ALONE: FlowMix =
    FlowMix::of(Ours { control: ControllerKind::Adaptive, way: Way::Background }, 1);
const JAIN_ALIKE: f64 = 0.95;
const JAIN_RTTS: f64 = 0.85;
const CUBIC_MIN: f64 = 0.4;
const OURS_MIN: f64 = 0.3;
const BACKGROUND_MIN: f64 = 0.9;
const NOT_MEASURED: &str = "this was not measured";
const WHY_UNFAIR: &str = "see over UDP: if that is fair, the copy has taken to parallel TCP connections, which together take more \
     than one does";
const SHORT: &str = "those that began last may not have had the time to come to their share; a quick run sees a few seconds only";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meeting::Shares;
    use crate::report::Verdict;

    fn measured(mix: FlowMix, ours: &[f64], rivals: f64) -> MixOutcomes {
        MixOutcomes { mix, shares: vec![Shares { ours: ours.into(), rivals, queue_bdp: 0.0, lost: 0.0 }] }
    }

    fn verdicts(statements: Vec<Statement>) -> Vec<Verdict> {
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn cubic_is_judged_by_what_it_has_by_itself() {
        let both = BACKGROUND_ALONE.beside(CUBIC, 1);
        let judge = |kept: f64| {
            let alone = [measured(CUBIC_ALONE, &[], 0.9), measured(BACKGROUND_ALONE, &[0.89], 0.0)];
            let both = measured(both, &[0.1], kept);
            verdicts(judge_background(&alone.into_iter().chain([both]).collect::<Vec<_>>()))
        };
        assert_eq!(judge(0.82), [Verdict::Met, Verdict::NotMet]);
        assert_eq!(judge(0.80), [Verdict::NotMet, Verdict::NotMet]);
        let stalled = [measured(CUBIC_ALONE, &[], 0.0), measured(both, &[0.1], 0.5)];
        assert_eq!(verdicts(judge_background(&stalled)), [Verdict::Open; 2]);
    }

    #[test]
    fn one_unfair_meeting_or_run_is_enough() {
        let alike = |count| FlowMix::of(Ours::DEFAULT, count);
        let judge_alike = |outcomes: &[MixOutcomes]| {
            let judge = |has_far| judge_alike(outcomes, ALIKE, has_far, JAIN_ALIKE).verdict;
            [judge(false), judge(true)]
        };
        let fair = || measured(alike(2), &[0.5, 0.5], 0.0);
        let unfair = || measured(alike(3), &[0.8, 0.1, 0.1], 0.0);
        assert_eq!(judge_alike(&[fair(), fair()]), [Verdict::Met, Verdict::Open]);
        assert_eq!(judge_alike(&[fair(), unfair()]), [Verdict::NotMet, Verdict::Open]);
        let far = MixOutcomes { mix: FlowMix { has_far: true, ..alike(3) }, ..unfair() };
        assert_eq!(judge_alike(&[fair(), far]), [Verdict::Met, Verdict::NotMet]);
        let mut beside = [measured(alike(1).beside(CUBIC, 1), &[0.5], 0.5)];
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::Met, Verdict::Met, Verdict::Open]);
        beside[0].shares.push(Shares { ours: vec![0.7], rivals: 0.3, queue_bdp: 0.0, lost: 0.0 });
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::NotMet, Verdict::Met, Verdict::Open]);
        beside[0].mix.ours.way = Way::Udp;
        assert_eq!(verdicts(judge_beside(&beside)), [Verdict::Open, Verdict::Open, Verdict::NotMet]);
    }

    #[test]
    fn what_did_not_meet_is_left_open() {
        assert_eq!(verdicts(judge(&[])), [Verdict::Open; 7]);
    }
}
