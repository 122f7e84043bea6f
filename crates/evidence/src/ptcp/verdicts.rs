//! What the figures say of the claims. A claim on a variant that is not there stays open.

use super::{Cell, Contender, FAIRNESS, FULL, Grid, LOSS, UTILISATION, VARIANTS, mean};
use crate::report::{Claim, Finding, Statement};
use longhaul_sim::metrics::Summary;

impl Grid {
    /// The cells of the TCPs.
    fn kernels(&self) -> impl Iterator<Item = &Vec<Cell>> {
        self.rows.iter().filter(|(who, _)| *who != Contender::Adaptive).map(|(_, cells)| cells)
    }

    /// The cells of one row.
    fn row(&self, name: &str) -> Option<&Vec<Cell>> {
        self.rows.iter().find(|(who, _)| who.name() == name).map(|(_, cells)| cells)
    }

    /// Whether all of the paper's variants are there: without them nothing can be said of all.
    fn is_whole(&self) -> bool {
        VARIANTS.iter().all(|name| self.row(name).is_some())
    }

    fn adaptive(&self) -> Option<&Vec<Cell>> {
        self.row(Contender::Adaptive.name())
    }

    fn place(&self, count: u64) -> Option<usize> {
        self.counts.iter().position(|&one| one == count)
    }

    /// A figure of each TCP at each count, the counts' means and spreads.
    fn by_count(&self, of: fn(&Cell) -> f64) -> Vec<(u64, Summary)> {
        let summary = |place: usize| Summary::of(self.kernels().map(|cells| of(&cells[place])));
        self.counts.iter().enumerate().map(|(place, &count)| (count, summary(place))).collect()
    }

    /// A figure's mean over the counts for each TCP.
    fn by_variant(&self, of: fn(&Cell) -> f64) -> Vec<(String, f64)> {
        let kernels = self.rows.iter().filter(|(who, _)| *who != Contender::Adaptive);
        kernels.map(|(who, cells)| (who.name().to_owned(), mean(cells.iter().map(of)))).collect()
    }

    /// Whether of each pair of TCPs the second has more, in the median over the numbers of flows, so that no single one
    /// decides. What is nearer than `gap` is a tie. `None` if one of them is not there.
    fn in_order<'n>(
        &self,
        pairs: impl Iterator<Item = (&'n str, &'n str)>,
        of: fn(&Cell) -> f64,
        gap: f64,
    ) -> Option<Finding> {
        let median = |(less, more): (&str, &str)| {
            let both = self.row(less)?.iter().zip(self.row(more)?);
            Some(Summary::of(both.map(|(less, more)| of(more) - of(less))).median)
        };
        let findings: Option<Vec<Finding>> =
            pairs.map(|pair| median(pair).map(|apart| found(apart, gap))).collect();
        Some(Finding::everywhere(findings?))
    }
}

/// Whether there is more of something by that much. What is nearer than `gap` is a tie.
fn found(more: f64, gap: f64) -> Finding {
    match more {
        more if more >= gap => Finding::Holds,
        more if more <= -gap => Finding::Fails,
        _ => Finding::Tie,
    }
}

pub(super) fn utilisation(grid: &Grid) -> Vec<Statement> {
    let [alike, full, no_gain, parallel, one_is_enough] = &UTILISATION;
    let of: fn(&Cell) -> f64 = |cell| cell.utilisation;
    let by_count = grid.by_count(of);
    let spread = by_count.iter().map(|(_, one)| one.max - one.min).fold(0.0, f64::max);
    let is_as_said = by_count.iter().all(|(count, used)| (used.mean >= NEARLY * FULL) == (*count >= 10));
    let ten = mean_at(&by_count, 10);
    let last = by_count.last().filter(|(count, _)| *count > 10);
    vec![
        judge_of_all(
            alike,
            grid.is_whole().then_some(Finding::plain(spread <= 0.05)),
            format!("{:.1} points apart at most", spread * 100.0),
        )
        .otherwise(FIRST_SLOW_START),
        full.judge(is_as_said, listed(&by_count, |used| format!("{:.1} %", used * 100.0))).otherwise(
            "how many flows it takes depends on delay and buffer, which the paper does not give: with a buffer of one \
             bandwidth-delay product five flows that are never halved at the same moment keep the link busy",
        ),
        match (ten, last) {
            (Some(ten), Some((count, used))) => {
                let gain = used.mean - ten;
                no_gain.judge(gain <= 0.02, format!("{:+.1} points from 10 to {count} flows", gain * 100.0))
            }
            _ => no_gain.leave_open(TOO_FEW),
        },
        judge_parallel(parallel, grid),
        match (grid.adaptive().zip(grid.place(1)), ten) {
            (Some((cells, one)), Some(ten)) => {
                let used = cells[one].utilisation;
                let figures = format!("{:.1} % by one, {:.1} % by ten TCPs in the mean", used * 100.0, ten * 100.0);
                one_is_enough.judge(used >= ten - 0.02, figures).otherwise(
                    "the default leaves room for others: it keeps the queue short where TCPs fill it",
                )
            }
            _ => one_is_enough.leave_open(TOO_FEW),
        },
    ]
}

/// Whether each variant uses more with several flows than with one.
fn judge_parallel(claim: &Claim, grid: &Grid) -> Statement {
    let gains = |cells: &Vec<Cell>| {
        let used = |place: usize| cells[place].utilisation;
        let single = used(grid.place(1)?);
        let several = grid.counts.iter().enumerate().filter(|(_, count)| **count >= 5);
        several.map(|(place, _)| used(place) - single).min_by(f64::total_cmp)
    };
    match grid.kernels().map(gains).collect::<Option<Vec<f64>>>() {
        Some(gains) if grid.is_whole() => {
            let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
            claim
                .judge(least > 0.0, format!("{:+.1} points at least", least * 100.0))
                .otherwise("where one flow fills the link there is nothing to be gained")
        }
        _ => claim.leave_open(TOO_FEW),
    }
}

pub(super) fn loss(grid: &Grid) -> Vec<Statement> {
    let [little, grows, order, loses_less] = &LOSS;
    let of: fn(&Cell) -> f64 = |cell| cell.loss;
    let percent = |lost: f64| format!("{:.2} %", lost * 100.0);
    let by_count = grid.by_count(of);
    let figures = listed(&by_count, percent);
    let is_little = by_count.iter().filter(|(count, _)| *count <= 5).all(|(_, lost)| lost.mean <= 0.01);
    let is_growing = by_count.is_sorted_by(|a, b| a.1.mean <= b.1.mean);
    let by_variant = grid.by_variant(of);
    let pairs = ["htcp", "hstcp"]
        .into_iter()
        .flat_map(|middle| [("cubic", middle), ("newreno", middle), (middle, "scalable")]);
    let ordered = grid.in_order(pairs, of, LOSS_GAP);
    let beside = grid.adaptive().zip(grid.row("cubic"));
    vec![
        little.judge(is_little, figures.clone()).otherwise(FIRST_SLOW_START),
        grows.judge(is_growing, figures).otherwise(FIRST_SLOW_START),
        judge_of_all(order, ordered, ranked(by_variant, false, percent)).otherwise(
            "on this path windows are below 38 segments from five flows on, where HS-TCP is NewReno, and its limited slow \
             start (RFC 3742) overshoots less",
        ),
        match beside {
            None => loses_less.leave_open(TOO_FEW),
            Some((ours, cubic)) => {
                let pairs = || ours.iter().zip(cubic).map(|(ours, cubic)| (ours.loss, cubic.loss));
                let figures = grid.counts.iter().zip(pairs()).map(|(count, (ours, cubic))| {
                    format!("{count}: {} against {}", percent(ours), percent(cubic))
                });
                let figures = figures.collect::<Vec<_>>().join(", ");
                loses_less.judge(pairs().all(|(ours, cubic)| ours <= cubic), figures).otherwise(
                    "the default does not give way far enough where many of its flows share a slow link: a fair share is then \
                     a few packets a round trip",
                )
            }
        },
    ]
}

pub(super) fn fairness(grid: &Grid) -> Vec<Statement> {
    let [alike, order, as_fair] = &FAIRNESS;
    let of: fn(&Cell) -> f64 = |cell| cell.jain;
    let by_count = grid.by_count(of);
    let is_few = |count: u64| count <= 10;
    let few: Vec<&Summary> = by_count.iter().filter(|one| is_few(one.0)).map(|one| &one.1).collect();
    let many: Vec<f64> = by_count.iter().filter(|one| !is_few(one.0)).map(|one| one.1.mean).collect();
    let spread = few.iter().map(|one| one.max - one.min).fold(0.0, f64::max);
    let few = mean(few.iter().map(|one| one.mean));
    let index = |index: f64| format!("{index:.3}");
    let by_variant = grid.by_variant(of);
    let from_most = ["cubic", "scalable", "htcp", "hstcp", "newreno"];
    let ordered = grid.in_order(from_most.windows(2).map(|pair| (pair[1], pair[0])), of, JAIN_GAP);
    let row_mean = |cells: &Vec<Cell>| mean(cells.iter().map(of));
    let beside = grid.adaptive().map(row_mean).zip(grid.row("cubic").map(row_mean));
    vec![
        if many.is_empty() {
            alike.leave_open(TOO_FEW)
        } else {
            let many = mean(many.into_iter());
            let figures = format!(
                "{spread:.2} apart up to 10 flows; mean {few:.3} up to 10 flows, {many:.3} beyond"
            );
            let less_fair = found(few - many, JAIN_GAP);
            let found = Finding::everywhere([Finding::plain(spread <= 0.05), less_fair]);
            judge_of_all(alike, grid.is_whole().then_some(found), figures).otherwise(
                "Scalable's multiplicative increase keeps whatever shares its flows begin with; how soon the others \
                 converge depends on the duration, which the paper does not give",
            )
        },
        judge_of_all(order, ordered, ranked(by_variant, true, index)).otherwise(
            "theory has it otherwise: multiplicative increase (Scalable) does not converge to equal shares, additive \
             (NewReno) does; how long the paper's runs were, which this depends on, is not known",
        ),
        match beside {
            None => as_fair.leave_open(TOO_FEW),
            Some((ours, cubic)) => {
                as_fair.judge(ours >= cubic - 0.05, format!("{} against {}", index(ours), index(cubic))).otherwise(
                    "for the same reason for which many of its flows lose so much on a slow link: see ptcp-loss",
                )
            }
        },
    ]
}

/// A claim on all variants, if they are there.
fn judge_of_all(claim: &Claim, found: Option<Finding>, figures: String) -> Statement {
    match found {
        Some(found) => claim.judge_finding(found, figures),
        None => claim.leave_open(format!("not all variants are there (see the method): {figures}")),
    }
}

fn mean_at(by_count: &[(u64, Summary)], wanted: u64) -> Option<f64> {
    by_count.iter().find(|(count, _)| *count == wanted).map(|(_, one)| one.mean)
}

fn listed(by_count: &[(u64, Summary)], text: impl Fn(f64) -> String) -> String {
    let texts: Vec<String> =
        by_count.iter().map(|(count, one)| format!("{count}: {}", text(one.mean))).collect();
    format!("mean over the variants by flows: {}", texts.join(", "))
}

/// Variants by their figures.
fn ranked(mut figures: Vec<(String, f64)>, most_first: bool, text: impl Fn(f64) -> String) -> String {
    figures.sort_by(|a, b| if most_first { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let texts: Vec<String> =
        figures.into_iter().map(|(name, figure)| format!("{name} {}", text(figure))).collect();
    texts.join(", ")
}

/// Why a lone flow does not do what the paper's did.
const FIRST_SLOW_START: &str = "a lone flow's first slow start overshoots by as much as the path and its queue hold, and without \
                                selective acknowledgements each lost segment takes a round trip to repair; Scalable and H-TCP then \
                                give up so little of the window that they overflow the queue again. CUBIC (HyStart) and HS-TCP \
                                (limited slow start) leave slow start before";
/// Almost full.
const NEARLY: f64 = 0.95;
const TOO_FEW: &str = "this run has too few numbers of flows or variants";

/// Losses that are nearer to each other than a tenth of a per cent are alike.
const LOSS_GAP: f64 = 0.001;
/// And so are Jain's indices within a hundredth.
const JAIN_GAP: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    /// What the paper says, in figures.
    fn as_the_paper(counts: &[u64]) -> Grid {
        let rows = VARIANTS.iter().map(|&name| {
            let (lost, fair) = match name {
                "cubic" => (0.001, 0.048),
                "newreno" => (0.002, 0.0),
                "htcp" => (0.003, 0.024),
                "hstcp" => (0.004, 0.012),
                _ => (0.006, 0.036),
            };
            let cell = |&count: &u64| Cell {
                utilisation: match count {
                    1 => 0.8,
                    2..10 => 0.85,
                    _ => 0.95,
                },
                loss: lost + count as f64 * 1e-4,
                jain: 0.95 - count as f64 * 1e-3 + fair,
                mbps: 9.0,
            };
            let kernel = Contender::Tcp { name, kernel: name.into() };
            (kernel, counts.iter().map(cell).collect())
        });
        let ours = Cell { utilisation: 0.94, loss: 0.0, jain: 0.97, mbps: 9.0 };
        let rows = rows.chain([(Contender::Adaptive, vec![ours; counts.len()])]).collect();
        Grid { counts: counts.to_vec(), rows }
    }

    fn verdicts(grid: &Grid) -> Vec<Verdict> {
        let all = [utilisation(grid), loss(grid), fairness(grid)];
        all.into_iter().flatten().map(|one| one.verdict).collect()
    }

    #[test]
    fn the_papers_own_figures_pass() {
        use Verdict::{Met, Reproduced};
        let wanted = [
            [Reproduced, Reproduced, Reproduced, Reproduced, Met].as_slice(),
            &[Reproduced, Reproduced, Reproduced, Met],
            &[Reproduced, Reproduced, Met],
        ];
        assert_eq!(verdicts(&as_the_paper(&[1, 5, 10, 30])), wanted.concat());
    }

    #[test]
    fn one_contrary_cell_is_seen() {
        let mut grid = as_the_paper(&[1, 5, 10, 30]);
        for cell in &mut grid.rows[4].1 {
            (cell.utilisation, cell.loss, cell.jain) = (0.99, 0.05, 0.2);
        }
        let reproduced = verdicts(&grid).into_iter().filter(|one| *one == Verdict::Reproduced).count();
        assert!(reproduced <= 3, "{reproduced}");
    }

    #[test]
    fn a_single_number_of_flows_decides_no_order() {
        let mut grid = as_the_paper(&[1, 5, 10, 30]);
        for (_, cells) in &mut grid.rows {
            cells.iter_mut().for_each(|cell| cell.loss = 0.03);
        }
        let losses = |grid: &Grid| loss(grid)[2].verdict;
        assert_eq!(losses(&grid), Verdict::Open, "all alike");
        let middle = ["htcp", "hstcp"];
        for (_, cells) in grid.rows.iter_mut().filter(|(who, _)| middle.contains(&who.name())) {
            cells[3].loss = 0.19;
        }
        assert_eq!(losses(&grid), Verdict::Open);
    }

    #[test]
    fn without_a_variant_what_is_said_of_all_stays_open() {
        let mut grid = as_the_paper(&[1, 5, 10, 30]);
        grid.rows.retain(|(who, _)| who.name() != "scalable");
        let open = verdicts(&grid).into_iter().filter(|one| *one == Verdict::Open).count();
        assert_eq!(open, 5, "two that all are alike, two on their order, one that each gains");
    }

    #[test]
    fn a_variant_by_itself_is_not_alike() {
        let mut grid = as_the_paper(&[1, 5, 10, 30]);
        grid.rows.truncate(1);
        assert!([utilisation(&grid), fairness(&grid)].iter().all(|found| found[0].verdict == Verdict::Open));
    }

    #[test]
    fn a_smoke_run_is_judged_without_what_it_lacks() {
        let mut grid = as_the_paper(&[2]);
        grid.rows.truncate(1);
        assert!(verdicts(&grid).contains(&Verdict::Open));
    }
}
