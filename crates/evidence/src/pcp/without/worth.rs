//! What a part is worth by what goes without it.

use super::case::Run;
use crate::report::{Finding, Interval, Unit};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Goodput,
    /// Goodput of TCPs, or the speed of others' short flows.
    Others,
    Queue,
    Loss,
    Evenness,
}

/// What a part does to a measure on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    Helps,
    Costs,
    /// Neither, by less than the bar.
    Nothing,
    /// The bar is within the interval.
    Unclear,
}

impl Measure {
    pub(super) const ALL: [Measure; 5] =
        [Measure::Goodput, Measure::Others, Measure::Queue, Measure::Loss, Measure::Evenness];

    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::Goodput => "goodput",
            Measure::Others => "others' speed",
            Measure::Queue => "queue",
            Measure::Loss => "loss",
            Measure::Evenness => "evenness",
        }
    }

    /// Its figure in a run, where there is one.
    pub(super) fn of(self, run: &Run) -> Option<f64> {
        match self {
            Measure::Goodput => Some(run.goodput_mbps),
            Measure::Others => run.others,
            Measure::Queue => Some(run.queue_bdp),
            Measure::Loss => Some(run.loss),
            Measure::Evenness => run.evenness,
        }
    }

    /// Whether what is compared is a ratio; otherwise it is a difference.
    fn is_ratio(self) -> bool {
        matches!(self, Measure::Goodput | Measure::Others)
    }

    /// What is too small to be worth a mechanism.
    pub(super) fn bar(self) -> f64 {
        match self {
            Measure::Goodput | Measure::Others => 0.05,
            Measure::Queue => 0.05,
            Measure::Loss => 0.001,
            Measure::Evenness => 0.02,
        }
    }

    /// What switching a part off does: the figure without it over that with it, or less that. Runs of one seed meet the same.
    pub(super) fn effect(self, with: &[Run], without: &[Run]) -> Option<Interval> {
        let figures =
            with.iter().zip(without).map(|(with, without)| Some((self.of(with)?, self.of(without)?)));
        let pairs: Vec<(f64, f64)> = figures.collect::<Option<_>>()?;
        Some(Interval::of(&pairs, |drawn| {
            let with = drawn.iter().map(|pair| pair.0).sum::<f64>() / drawn.len() as f64;
            let without = drawn.iter().map(|pair| pair.1).sum::<f64>() / drawn.len() as f64;
            match self.is_ratio() {
                true => without / with.max(f64::MIN_POSITIVE),
                false => without - with,
            }
        }))
    }

    /// What that says of the part.
    pub(super) fn worth(self, effect: &Interval) -> Worth {
        let middle = if self.is_ratio() { 1.0 } else { 0.0 };
        let (least, most) = (middle - self.bar(), middle + self.bar());
        let is_less_worse = !matches!(self, Measure::Queue | Measure::Loss);
        let (falls, rises) = (effect.at_most(least), effect.at_least(most));
        match (falls, rises) {
            (Finding::Holds, _) if is_less_worse => Worth::Helps,
            (_, Finding::Holds) if is_less_worse => Worth::Costs,
            (Finding::Holds, _) => Worth::Costs,
            (_, Finding::Holds) => Worth::Helps,
            (Finding::Fails, Finding::Fails) => Worth::Nothing,
            _ => Worth::Unclear,
        }
    }

    /// How many times the bar an effect is.
    pub(super) fn weight(self, effect: &Interval) -> f64 {
        let middle = if self.is_ratio() { 1.0 } else { 0.0 };
        (effect.figure - middle).abs() / self.bar()
    }

    /// An effect in words.
    pub(super) fn text(self, effect: &Interval) -> String {
        let Interval { figure, from, to } = effect;
        match self {
            Measure::Goodput | Measure::Others => format!("{} × {effect}", self.name()),
            Measure::Queue => format!("{} {figure:+.2} BDP ({from:+.2} to {to:+.2})", self.name()),
            Measure::Loss => {
                let [figure, from, to] = [figure, from, to].map(|share| share * 100.0);
                format!("{} {figure:+.2} % ({from:+.2} to {to:+.2})", self.name())
            }
            Measure::Evenness => format!("{} {figure:+.2} ({from:+.2} to {to:+.2})", self.name()),
        }
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Measure::Goodput => Unit::Mbps,
            Measure::Others | Measure::Evenness => Unit::Number,
            Measure::Queue => Unit::Bdp,
            Measure::Loss => Unit::Share,
        }
    }
}

impl Worth {
    pub(super) fn words(self) -> &'static str {
        match self {
            Worth::Helps => "helps",
            Worth::Costs => "costs",
            Worth::Nothing => "nothing",
            Worth::Unclear => "unclear",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(goodput_mbps: f64, queue_bdp: f64) -> Vec<Run> {
        (0..20).map(|_| Run { goodput_mbps, queue_bdp, ..Run::default() }).collect()
    }

    #[test]
    fn what_is_worse_without_a_part_is_what_it_helps() {
        let all = runs(10.0, 0.2);
        let worth = |measure: Measure, without: &[Run]| {
            measure.worth(&measure.effect(&all, without).expect("there are figures"))
        };
        let goodputs = [9.0, 9.8, 11.0].map(|goodput| worth(Measure::Goodput, &runs(goodput, 0.2)));
        assert_eq!(goodputs, [Worth::Helps, Worth::Nothing, Worth::Costs]);
        let queues = [0.1, 0.22, 0.4].map(|queue| worth(Measure::Queue, &runs(10.0, queue)));
        assert_eq!(queues, [Worth::Costs, Worth::Nothing, Worth::Helps]);
        assert_eq!(Measure::Others.effect(&all, &all), None, "nobody else was there");
    }

    #[test]
    fn what_chance_makes_is_unclear() {
        let all = runs(10.0, 0.2);
        let uneven: Vec<Run> = all
            .iter()
            .enumerate()
            .map(|(at, run)| Run { goodput_mbps: 5.0 + at as f64 / 2.0, ..*run })
            .collect();
        let effect = Measure::Goodput.effect(&all, &uneven).unwrap();
        assert_eq!(Measure::Goodput.worth(&effect), Worth::Unclear, "{effect}");
    }
}
