//! What the figures say of the paper's reasons for its mechanisms (its Table 2), and of ours.

use super::case::{AGAIN, AGAIN_BESIDE, ALONE, FOUR_TCP, LATE, ONE_TCP, SEVERAL};
use super::worth::{Measure, Worth};
use super::{Effect, Path, word};
use crate::report::{Claim, Finding, Interval, Statement, Verdict};
use longhaul_proto::control::PcpPart;

pub(super) const CLAIMS: [Claim; 9] =
    [SHORT_QUEUES, LOW_LOSS, FAIR, STABLE, QUICK, NOT_STARVED, CONSERVATIVE, TIMING, ALL_WORTH];

const SHORT_QUEUES: Claim = Claim::paper(
    "PCP NSDI'06, §3.2, Table 2",
    "rate compensation is for low queues: several of PCP have a longer one without it",
);
const LOW_LOSS: Claim = Claim::paper(
    "PCP NSDI'06, §3.2, Table 2",
    "rate compensation is for low loss: several of PCP lose more without it",
);
const FAIR: Claim = Claim::paper(
    "PCP NSDI'06, §3.1, Table 2",
    "accepting tests by their variance is for fairness: several of PCP share less evenly without it",
);
const STABLE: Claim = Claim::paper(
    "PCP NSDI'06, §3.3, Table 2",
    "exponential back-off avoids tests that collide: several of PCP get less, have a longer queue or lose more without it",
);
const QUICK: Claim = Claim::paper(
    "PCP NSDI'06, §3.4, Table 2",
    "history is for short response times: repeated transfers of 250 KB are slower without it",
);
const NOT_STARVED: Claim = Claim::paper(
    "PCP NSDI'06, §3.5",
    "beside TCP rate compensation alone would yield again and again: PCP gets less without tit for tat",
);
const CONSERVATIVE: Claim = Claim::paper(
    "PCP §4.1",
    "in a user-level process PCP does no better than it could in the kernel: hosts that are late make it no faster",
);
const TIMING: Claim = Claim::ours(
    "hosts that are up to 1 ms late cost PCP a tenth of its goodput at most, stamps by the kernel",
);
const ALL_WORTH: Claim =
    Claim::ours("every part helps on one of the paths at least: none could go without a loss");

/// What they say of [`CLAIMS`].
pub(super) fn judge(paths: &[Path], effects: &[Effect], parts: &[PcpPart]) -> Vec<Statement> {
    let runs = paths.iter().map(|path| path.with.len()).min().unwrap_or_default();
    if runs < RUNS_MIN || parts.len() < PcpPart::ALL.len() {
        return CLAIMS.iter().map(|claim| claim.leave_open(TOO_SHORT)).collect();
    }
    let part = |claim: &Claim, part: PcpPart, at: &[(&str, Measure)]| of_part(claim, effects, part, at);
    let several = |measure| SEVERAL.map(|case| (case, measure));
    let any = [Measure::Goodput, Measure::Queue, Measure::Loss].map(several).concat();
    vec![
        part(&SHORT_QUEUES, PcpPart::Compensation, &several(Measure::Queue)),
        part(&LOW_LOSS, PcpPart::Compensation, &several(Measure::Loss)),
        part(&FAIR, PcpPart::Chance, &several(Measure::Evenness)),
        part(&STABLE, PcpPart::BackOff, &any),
        part(&QUICK, PcpPart::History, &[(AGAIN, Measure::Goodput), (AGAIN_BESIDE, Measure::Goodput)]),
        part(&NOT_STARVED, PcpPart::TitForTat, &[(ONE_TCP, Measure::Goodput), (FOUR_TCP, Measure::Goodput)]),
        late(&CONSERVATIVE, paths, &LATE, |ratio| ratio.at_most(1.0)),
        late(&TIMING, paths, &LATE[..3], |ratio| ratio.at_least(0.9)),
        all_worth(effects, parts),
    ]
}

/// A part that is to help in these ways; in some of them is somewhere.
fn of_part(claim: &Claim, effects: &[Effect], part: PcpPart, at: &[(&str, Measure)]) -> Statement {
    let found = |&(case, measure): &(&str, Measure)| {
        effects.iter().find(|one| one.part == part && one.case == case && one.measure == measure)
    };
    let found: Vec<&Effect> = at.iter().filter_map(found).collect();
    let count = |worth| found.iter().filter(|effect| effect.worth == worth).count();
    let (helps, unclear) = (count(Worth::Helps), count(Worth::Unclear));
    let finding = match (helps, unclear) {
        (1.., _) => Finding::Holds,
        (0, 1..) => Finding::Tie,
        (0, 0) => Finding::Fails,
    };
    let figures = found.iter().map(|effect| {
        format!("{}: {}, {}", effect.case, effect.measure.text(&effect.interval), effect.worth.words())
    });
    let figures = figures.collect::<Vec<_>>().join("; ");
    let statement = claim.judge_finding(finding, format!("without it {figures}"));
    match statement.verdict {
        Verdict::Reproduced if helps < found.len() => {
            Statement { verdict: Verdict::ReproducedWhere, ..statement }
        }
        _ => statement,
    }
}

/// Goodput between late hosts over that between hosts that take no time.
fn late(claim: &Claim, paths: &[Path], cases: &[&str], find: fn(&Interval) -> Finding) -> Statement {
    let runs = |case: &str| paths.iter().find(|path| path.case == case).map(|path| &path.with[..]);
    let of = |case| Some((case, Measure::Goodput.effect(runs(ALONE)?, runs(case)?)?));
    let ratios: Vec<(&str, Interval)> = cases.iter().copied().filter_map(of).collect();
    let finding = Finding::everywhere(ratios.iter().map(|(_, ratio)| find(ratio)));
    let figures = ratios.iter().map(|(case, ratio)| format!("{case}: {ratio} times that of {ALONE}"));
    claim.judge_finding(finding, figures.collect::<Vec<_>>().join("; "))
}

fn all_worth(effects: &[Effect], parts: &[PcpPart]) -> Statement {
    let words: Vec<(&str, &str)> = parts.iter().map(|part| (part.name(), word(effects, *part))).collect();
    let named = |wanted: &[&str]| {
        let names: Vec<String> = words
            .iter()
            .filter(|(_, word)| wanted.contains(word))
            .map(|(name, word)| format!("{name} ({word})"))
            .collect();
        names.join(", ")
    };
    let idle = named(&["nothing", "nothing shown", "costs only"]);
    if idle.is_empty() {
        return ALL_WORTH.judge(true, format!("all {} do", words.len()));
    }
    ALL_WORTH.judge(false, format!("not on these paths: {idle}")).otherwise(
        "what helps nowhere here may be for paths that are not among these, or else is a mechanism too many",
    )
}

/// Fewer draw no interval.
const RUNS_MIN: usize = 10;
const TOO_SHORT: &str = "this run was too short for it: ten runs of each path and part are the least";

#[cfg(test)]
mod tests {
    use super::super::case::{FOUR_PCP, Run};
    use super::super::effects;
    use super::*;

    /// Each path with what is the same for all parts but one.
    fn paths(count: usize, odd: PcpPart, off: Run) -> Vec<Path> {
        let names = [ALONE, ONE_TCP, FOUR_TCP, AGAIN, AGAIN_BESIDE].into_iter().chain(SEVERAL).chain(LATE);
        let on = Run { goodput_mbps: 10.0, evenness: Some(0.95), ..Run::default() };
        let path = |case| {
            let of = |part: PcpPart| (part, vec![if part == odd { off } else { on }; count]);
            Path { case, with: vec![on; count], without: PcpPart::ALL.map(of).into() }
        };
        names.map(path).collect()
    }

    fn verdicts(paths: &[Path]) -> Vec<Verdict> {
        let statements = judge(paths, &effects(paths), &PcpPart::ALL);
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn a_part_is_for_what_is_worse_without_it() {
        use Verdict::{Met, NotMet, NotReproduced, Open, Reproduced};
        let off = Run { goodput_mbps: 10.0, queue_bdp: 0.4, evenness: Some(0.95), ..Run::default() };
        let found = verdicts(&paths(20, PcpPart::Compensation, off));
        assert_eq!(
            found[..6],
            [Reproduced, NotReproduced, NotReproduced, NotReproduced, NotReproduced, NotReproduced]
        );
        assert_eq!(found[6..], [Reproduced, Met, NotMet], "others are worth nothing");
        let slow = Run { queue_bdp: 0.0, goodput_mbps: 5.0, ..off };
        assert_eq!(verdicts(&paths(20, PcpPart::TitForTat, slow))[5], Reproduced);
        assert_eq!(verdicts(&paths(20, PcpPart::History, slow))[4], Reproduced);
        assert_eq!(verdicts(&paths(9, PcpPart::History, slow)), [Open; 9]);
        let mut somewhere = paths(20, PcpPart::Compensation, off);
        let elsewhere = somewhere.iter_mut().filter(|path| path.case != FOUR_PCP);
        elsewhere.for_each(|path| path.without[0].1 = path.with.clone());
        assert_eq!(verdicts(&somewhere)[0], Verdict::ReproducedWhere);
    }

    #[test]
    fn what_is_worth_nothing_is_named() {
        let off = Run { goodput_mbps: 5.0, evenness: Some(0.95), ..Run::default() };
        let paths = paths(20, PcpPart::Ageing, off);
        let last = judge(&paths, &effects(&paths), &PcpPart::ALL).pop().unwrap();
        assert!(last.figures.contains("least squares (nothing)"), "{last:?}");
        assert!(!last.figures.contains(PcpPart::Ageing.name()), "{last:?}");
    }
}
