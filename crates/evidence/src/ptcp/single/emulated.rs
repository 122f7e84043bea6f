//! One MulTCP that acts as n, against n plain connections: where it is like them, where not, and whether its timer is why.

use super::{Condition, LESS as LESS_PART, Losses, Outcome, Sending};
use crate::report::{Claim, Plot, Statement, Table, Unit};
use longhaul_sim::metrics::Summary;

pub(super) const HALVES: Claim = Claim::paper(
    "Parallel TCP, single and parallel approach",
    "a loss halves all that one has on its way that acts as n (it takes four tenths at least)",
);
pub(super) const LESS: Claim = Claim::paper(
    "Parallel TCP, single and parallel approach",
    "one that acts as n gets less than n (a tenth less, at every n, whatever is lost)",
);
pub(super) const BY_TIMER: Claim = Claim::paper(
    "Parallel TCP, single and parallel approach",
    "where one that acts as n gets less than n, its timer has expired (once a run at least): then it gives up what all n had",
);
pub(super) const WITH_SACK: Claim = Claim::ours(
    "with SACK one that acts as n gets what n do (a tenth less at most, at every n, whatever is lost and whatever the queue)",
);
pub(super) const LEAVES: Claim = Claim::ours(
    "one that acts as n leaves a single TCP as much as n do (a fifth less at most, at every n, whatever the queue)",
);

/// One that acts as n, and n.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) losses: Losses,
    pub(super) n: u32,
    pub(super) it: Outcome,
    pub(super) many: Outcome,
}

impl Pair {
    /// What it has of what n have.
    fn times(&self) -> f64 {
        self.it.share / self.many.share
    }

    fn is_less(&self) -> bool {
        self.times() <= LESS_PART
    }

    fn has_expired(&self) -> bool {
        self.it.timeouts >= 1.0
    }
}

pub(super) fn pairs(rows: &[(Losses, Sending, Outcome)]) -> Vec<Pair> {
    let pair = |(losses, sending, it): &(Losses, Sending, Outcome)| {
        let Sending::Emulated(n) = *sending else { return None };
        let is_other = |row: &&(Losses, Sending, Outcome)| row.0 == *losses && row.1 == Sending::Parallel(n);
        let (.., many) = rows.iter().find(is_other)?;
        Some(Pair { losses: *losses, n, it: *it, many: *many })
    };
    rows.iter().filter_map(pair).collect()
}

/// A row for each condition and number, a column for each share that is lost.
pub(super) fn table(conditions: &[Condition], pairs: &[Pair]) -> Table {
    let mut numbers: Vec<u32> = pairs.iter().map(|pair| pair.n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let row = |condition: Condition, n: u32| -> Vec<&Pair> {
        pairs.iter().filter(|pair| pair.losses.condition == condition && pair.n == n).collect()
    };
    let rows: Vec<Vec<&Pair>> =
        conditions.iter().flat_map(|&condition| numbers.iter().map(move |&n| row(condition, n))).collect();
    let lost = rows.first().map_or(vec![], |row| {
        row.iter().map(|pair| format!("{} % lost", pair.losses.share * 100.0)).collect()
    });
    let timeouts = |row: &[&Pair], of: fn(&Pair) -> f64| Summary::of(row.iter().map(|pair| of(pair))).mean;
    let names: Vec<&str> = lost.iter().map(String::as_str).collect();
    Table::of(
        "emulated",
        "What one that acts as n has of what n have, and how often timers expire in a run",
        &rows,
    )
    .text("conditions", |row| row[0].losses.condition.to_string())
    .text("n", |row| row[0].n.to_string())
    .columns(&names, Unit::Times, |row, at| row.get(at).map(|pair| pair.times()))
    .column("its timer", Unit::Number, |row| timeouts(row, |pair| pair.it.timeouts))
    .column("theirs", Unit::Number, |row| timeouts(row, |pair| pair.many.timeouts))
    .table()
    .plot(Plot::bars("n", &names).by("conditions"))
}

pub(super) fn judge_halves(rows: &[(Sending, Outcome)]) -> Statement {
    let acting = || rows.iter().filter(|(sending, _)| matches!(sending, Sending::Emulated(2..)));
    let figures = acting().map(|(sending, found)| {
        let parallel = 50.0 / f64::from(sending.acts_as());
        format!("{}: {:.1} % (1/(2n): {parallel:.1} %)", sending.name(), found.share * 100.0)
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    if figures.is_empty() {
        return HALVES.leave_open("this run has none that acts as more than one");
    }
    HALVES.judge(acting().all(|(_, found)| found.share >= 0.4), figures).otherwise(
        "MulTCP's rule takes as much of the window for a loss as one of n connections would lose of it",
    )
}

/// Of the pairs under one condition.
pub(super) fn judge_less(pairs: &[&Pair]) -> Statement {
    let range = |n: u32| {
        let times = pairs.iter().filter(|pair| pair.n == n).map(|pair| pair.times());
        let times = Summary::of(times);
        format!("as {n} {:.2} to {:.2} times", times.min, times.max)
    };
    let mut numbers: Vec<u32> = pairs.iter().map(|pair| pair.n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let figures = numbers.into_iter().map(range).collect::<Vec<_>>().join(", ");
    LESS.judge(pairs.iter().all(|pair| pair.is_less()), figures)
}

/// Where it is like n and where not, and what timers have to do with it.
pub(super) fn why(pairs: &[Pair]) -> String {
    let of = |sack: bool| -> Vec<&Pair> {
        pairs.iter().filter(|pair| pair.losses.condition.sack == sack).collect()
    };
    let counted = |pairs: &[&Pair]| {
        let less = pairs.iter().filter(|pair| pair.is_less()).count();
        let more = pairs.iter().filter(|pair| pair.times() >= 1.0 / LESS_PART).count();
        format!("a tenth less in {less} of {} cells, a tenth more in {more}", pairs.len())
    };
    let (without, with) = (of(false), of(true));
    let less: Vec<&Pair> = without.iter().chain(&with).copied().filter(|pair| pair.is_less()).collect();
    let unexpired = less.iter().filter(|pair| !pair.has_expired()).count();
    let expired: Vec<&Pair> = pairs.iter().filter(|pair| pair.has_expired()).collect();
    let as_much = expired.iter().filter(|pair| !pair.is_less()).count();
    format!(
        "without SACK it has {}, with SACK {}. As to its timer: of the {} cells with less, it expires less than once a run in \
         {unexpired}; of the {} in which it does once or more, it has as much in {as_much}. Without SACK one connection repairs one \
         segment a round trip, whatever it acts as, and n repair n",
        counted(&without),
        counted(&with),
        less.len(),
        expired.len(),
    )
}

pub(super) fn judge(pairs: &[Pair], beside: &[(f64, Sending, Outcome)]) -> [Statement; 3] {
    let less: Vec<&Pair> = pairs.iter().filter(|pair| pair.is_less()).collect();
    let expired = less.iter().filter(|pair| pair.has_expired()).count();
    let by_timer = match less.is_empty() {
        true => BY_TIMER.leave_open("it gets less nowhere"),
        false => {
            let figures = format!("in {expired} of {} cells in which it gets a tenth less", less.len());
            BY_TIMER.judge(expired == less.len(), figures)
        }
    };
    let with_sack: Vec<&Pair> = pairs.iter().filter(|pair| pair.losses.condition.sack).collect();
    let lowest = with_sack.iter().min_by(|a, b| a.times().total_cmp(&b.times()));
    let as_much = match lowest {
        None => WITH_SACK.leave_open("not looked at"),
        Some(lowest) => {
            let missing = with_sack.iter().filter(|pair| pair.is_less()).count();
            let figures = format!(
                "{:.2} times at least (as {}: {}, {} % lost); {missing} of {} miss it",
                lowest.times(),
                lowest.n,
                lowest.losses.condition,
                lowest.losses.share * 100.0,
                with_sack.len()
            );
            WITH_SACK.judge(missing == 0, figures)
        }
    };
    [by_timer.otherwise("without SACK a connection repairs one segment a round trip, whatever it acts as; MulTCP changes its window, not that"), as_much, judge_leaves(beside)]
}

fn judge_leaves(beside: &[(f64, Sending, Outcome)]) -> Statement {
    let of = |(queue_bdp, sending, found): &(f64, Sending, Outcome)| {
        let Sending::Emulated(n) = *sending else { return None };
        let is_other = |row: &&(f64, Sending, Outcome)| row.0 == *queue_bdp && row.1 == Sending::Parallel(n);
        let (.., many) = beside.iter().find(is_other)?;
        Some((*queue_bdp, n, found.share, many.share))
    };
    let left: Vec<(f64, u32, f64, f64)> = beside.iter().filter_map(of).collect();
    let figures = left.iter().map(|(queue_bdp, n, it, many)| {
        format!("n = {n}, queue {queue_bdp} BDP: {:.1} against {:.1} %", it * 100.0, many * 100.0)
    });
    let holds = left.iter().all(|(.., it, many)| *it >= 0.8 * many);
    LEAVES.judge(holds, figures.collect::<Vec<_>>().join("; ")).otherwise(
        "a queue that overflows takes packets of several of n, each of which halves its window; one that acts as n gives up \
         1/(2n) once, however many it lost",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict::{self, Met, NotMet, NotReproduced, Open, Reproduced};

    fn pair(sack: bool, it: f64, timeouts: f64) -> Pair {
        let condition = Condition { burst: None, sack, queue_bdp: 1.0 };
        let of = |share, timeouts| Outcome { share, timeouts };
        Pair { losses: Losses { share: 1e-4, condition }, n: 10, it: of(it, timeouts), many: of(0.9, 2.0) }
    }

    fn verdicts(pairs: &[Pair], left: f64) -> Vec<Verdict> {
        let all: Vec<&Pair> = pairs.iter().collect();
        let of = |sending, share| (1.0, sending, Outcome { share, timeouts: 0.0 });
        let beside = [of(Sending::Parallel(10), 0.1), of(Sending::Emulated(10), left)];
        let found = [judge_less(&all)].into_iter().chain(judge(pairs, &beside));
        found.map(|one| one.verdict).collect()
    }

    #[test]
    fn each_claim_holds_and_fails_by_its_own_figure() {
        assert_eq!(verdicts(&[pair(true, 0.8, 1.0)], 0.1), [Reproduced, Reproduced, NotMet, Met]);
        assert_eq!(verdicts(&[pair(true, 0.85, 1.0)], 0.1), [NotReproduced, Open, Met, Met]);
        assert_eq!(verdicts(&[pair(false, 0.8, 0.2)], 0.05)[1..], [NotReproduced, Open, NotMet]);
        let rows = |taken| [(Sending::Emulated(2), Outcome { share: taken, timeouts: 0.0 })];
        assert_eq!([0.5, 0.25].map(|taken| judge_halves(&rows(taken)).verdict), [Reproduced, NotReproduced]);
    }

    #[test]
    fn the_reason_counts_cells() {
        let text = why(&[pair(false, 0.1, 0.0), pair(true, 0.9, 2.0), pair(true, 0.8, 1.0)]);
        assert!(text.starts_with("without SACK it has a tenth less in 1 of 1 cells"), "{text}");
        assert!(text.contains("with SACK a tenth less in 1 of 2 cells, a tenth more in 0"), "{text}");
        assert!(text.contains("of the 2 cells with less, it expires less than once a run in 1"), "{text}");
        assert!(text.contains("of the 2 in which it does once or more, it has as much in 1"), "{text}");
    }
}
