//! How sure a figure is: intervals by the bootstrap, and what they say of a bar.

use super::{Claim, Statement};
use fastrand::Rng;
use longhaul_sim::metrics::quantile;
use std::fmt;
use std::ops::RangeInclusive;

/// A figure, and where it lies 95 times in a hundred if the runs are drawn anew, with replacement, from those that were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Of the runs as they were.
    pub figure: f64,
    /// 2.5 % of the draws give less.
    pub from: f64,
    /// And 2.5 % more than this.
    pub to: f64,
}

/// What figures say of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The whole interval is on the claim's side of it.
    Holds,
    /// The whole interval is on the other.
    Fails,
    /// The bar is within.
    Tie,
}

impl Interval {
    /// Of `figure` over `runs`. What resembles itself, as the transfers over one path do, is one run. Equal runs give equal
    /// intervals.
    pub fn of<T>(runs: &[T], figure: impl Fn(&[&T]) -> f64) -> Interval {
        let mut rng = Rng::with_seed(SEED);
        let all: Vec<&T> = runs.iter().collect();
        let mut drawn = all.clone();
        let draw = |_| {
            drawn.iter_mut().for_each(|one| *one = rng.choice(runs).unwrap_or(*one));
            figure(&drawn)
        };
        let mut draws: Vec<f64> = (0..DRAWS).map(draw).filter(|figure| !figure.is_nan()).collect();
        draws.sort_by(f64::total_cmp);
        Interval { figure: figure(&all), from: quantile(&draws, 0.025), to: quantile(&draws, 0.975) }
    }

    /// Of a mean.
    pub fn of_mean(values: &[f64]) -> Interval {
        Interval::of(values, |drawn| drawn.iter().copied().sum::<f64>() / drawn.len() as f64)
    }

    /// That it is at least so much.
    pub fn at_least(&self, bar: f64) -> Finding {
        Finding::of(self.from >= bar, self.to < bar)
    }

    /// That it is at most so much.
    pub fn at_most(&self, bar: f64) -> Finding {
        Finding::of(self.to <= bar, self.from > bar)
    }

    /// That it is within these.
    pub fn within(&self, bars: RangeInclusive<f64>) -> Finding {
        let (least, most) = (*bars.start(), *bars.end());
        Finding::of(self.from >= least && self.to <= most, self.to < least || self.from > most)
    }
}

/// The figure's interval, for a sentence.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.figure, self.from, self.to)
    }
}

impl Finding {
    fn of(holds: bool, fails: bool) -> Finding {
        match (holds, fails) {
            (true, _) => Finding::Holds,
            (_, true) => Finding::Fails,
            _ => Finding::Tie,
        }
    }

    /// What is so or not.
    pub fn plain(holds: bool) -> Finding {
        if holds { Finding::Holds } else { Finding::Fails }
    }

    /// Of a claim that something is so everywhere.
    pub fn everywhere(findings: impl IntoIterator<Item = Finding>) -> Finding {
        findings.into_iter().fold(Finding::Holds, |all, one| match (all, one) {
            (Finding::Fails, _) | (_, Finding::Fails) => Finding::Fails,
            (Finding::Tie, _) | (_, Finding::Tie) => Finding::Tie,
            _ => Finding::Holds,
        })
    }
}

impl Claim {
    /// What so many transfers say of it. Of a tie, and of too few of them, nothing.
    pub fn judge_by(&self, finding: Finding, transfers: usize, figures: impl fmt::Display) -> Statement {
        let figures = format!("{figures}; {transfers} transfers");
        if transfers < TRANSFERS_MIN {
            return self.leave_open(format!("{figures}, of {TRANSFERS_MIN} that it takes"));
        }
        self.judge_finding(finding, figures)
    }

    /// What figures say of it; of a tie nothing.
    pub fn judge_finding(&self, finding: Finding, figures: impl fmt::Display) -> Statement {
        match finding {
            Finding::Holds => self.judge(true, figures.to_string()),
            Finding::Fails => self.judge(false, figures.to_string()),
            Finding::Tie => self.leave_open(format!("{figures}; a tie: by chance it could have been either")),
        }
    }
}

/// Draws of which an interval is made: its ends are the 25th and the last 25th but one.
const DRAWS: usize = 1000;
/// The draws' own, so that results are the same on any host.
const SEED: u64 = 0xb007;
/// With fewer transfers there are fewer than 20 in a tail of 10 %.
const TRANSFERS_MIN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;
    use fastrand::Rng;
    use proptest::prelude::*;

    #[test]
    fn the_interval_of_a_mean_is_that_of_its_standard_error() {
        let mut rng = Rng::with_seed(7);
        let values: Vec<f64> = (0..400).map(|_| rng.f64()).collect();
        let interval = Interval::of_mean(&values);
        // Uniform: a standard deviation of 0.289, over the root of 400.
        let half = 1.96 * 0.2887 / 20.0;
        assert!((interval.figure - interval.from - half).abs() < 0.2 * half, "{interval:?}");
        assert!((interval.to - interval.figure - half).abs() < 0.2 * half, "{interval:?}");
        assert_eq!(interval, Interval::of_mean(&values));
    }

    #[test]
    fn a_bar_within_is_a_tie() {
        let interval = Interval { figure: 2.0, from: 1.5, to: 2.5 };
        let found = |bar| (interval.at_least(bar), interval.at_most(bar));
        assert_eq!(found(1.4), (Finding::Holds, Finding::Fails));
        assert_eq!(found(2.1), (Finding::Tie, Finding::Tie));
        assert_eq!(found(2.6), (Finding::Fails, Finding::Holds));
        let within = [1.0..=3.0, 2.6..=3.0, 1.0..=2.0].map(|bars| interval.within(bars));
        assert_eq!(within, [Finding::Holds, Finding::Fails, Finding::Tie]);
        use Finding::{Fails, Holds, Tie};
        let everywhere = [vec![], vec![Holds, Tie], vec![Tie, Fails]].map(Finding::everywhere);
        assert_eq!(everywhere, [Holds, Tie, Fails]);
    }

    #[test]
    fn few_transfers_and_ties_leave_a_claim_open() {
        const CLAIM: Claim = Claim::paper("PCP §4.1", "it is fast");
        let verdicts =
            [(Finding::Holds, 200), (Finding::Fails, 200), (Finding::Tie, 200), (Finding::Holds, 199)]
                .map(|(finding, transfers)| CLAIM.judge_by(finding, transfers, "0.5 s").verdict);
        assert_eq!(verdicts, [Verdict::Reproduced, Verdict::NotReproduced, Verdict::Open, Verdict::Open]);
    }

    proptest! {
        /// It lies within what the runs are, and of runs that are all alike it is that alone.
        #[test]
        fn no_draw_is_outside_of_the_runs(values in proptest::collection::vec(-5.0..5.0f64, 1..30)) {
            let interval = Interval::of_mean(&values);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least - 1e-9 <= interval.from && interval.from <= interval.to && interval.to <= most + 1e-9);
            let alike = Interval::of_mean(&vec![values[0]; values.len()]);
            prop_assert!((alike.to - alike.from).abs() < 1e-9);
        }
    }
}
