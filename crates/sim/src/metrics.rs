//! Figures that runs are compared by.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A sample in a few figures, in the unit of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub sd: f64,
    /// Least.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// 95 % are at most this.
    pub p95: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// Most.
    pub max: f64,
}

impl Summary {
    /// Of these values; all zero if there are none. Values that are not numbers are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Summary {
        let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (values.first().copied(), values.last().copied()) else {
            return Summary::default();
        };
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Summary {
            count,
            mean,
            sd: if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 },
            min,
            median: quantile(&values, 0.5),
            p95: quantile(&values, 0.95),
            p99: quantile(&values, 0.99),
            max,
        }
    }
}

/// The value that a share of an ascending sample does not exceed, between two values by straight line; zero of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Jain's fairness index (Σx)² / (n Σx²): 1 where all have the same, 1/n where one has all. 1 for none, and where
/// nobody has anything.
pub fn jain(shares: &[f64]) -> f64 {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        return 1.0;
    }
    shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * squares)
}

/// How long after the first of these windows the shares converge: the beginning of the first window from which on
/// Jain's index stays at or above `index`. `windows[t]` holds what each flow got in window `t`. `None` if it never
/// does, or if only in the last window.
pub fn convergence_time(windows: &[Vec<f64>], window: Duration, index: f64) -> Option<Duration> {
    let is_unfair = |shares: &Vec<f64>| jain(shares) < index;
    let first = windows.iter().rposition(is_unfair).map_or(0, |last_unfair| last_unfair + 1);
    (first + 1 < windows.len()).then(|| window * first as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        let summary = Summary::of((1..=101).rev().map(f64::from).chain([f64::NAN]));
        assert_eq!((summary.count, summary.mean, summary.min, summary.max), (101, 51.0, 1.0, 101.0));
        assert_eq!((summary.median, summary.p95, summary.p99), (51.0, 96.0, 100.0));
        // n (n + 1) / 12 with n = 101
        assert!((summary.sd - (101.0f64 * 102.0 / 12.0).sqrt()).abs() < 1e-9);
        assert_eq!(Summary::of([]), Summary::default());
        assert_eq!(Summary::of([7.0]).sd, 0.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.75), 1.75);
    }

    #[test]
    fn fairness() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[3.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!(jain(&[1.0, 2.0]), 0.9);
        assert_eq!((jain(&[]), jain(&[0.0])), (1.0, 1.0));
    }

    #[test]
    fn convergence_is_for_good() {
        let (fair, unfair) = (vec![1.0, 1.1], vec![1.0, 5.0]);
        let windows = |pattern: &str| -> Vec<Vec<f64>> {
            pattern.chars().map(|c| if c == 'f' { fair.clone() } else { unfair.clone() }).collect()
        };
        let time = |pattern| convergence_time(&windows(pattern), Duration::from_secs(1), 0.9);
        assert_eq!(time("uuffff"), Some(Duration::from_secs(2)));
        assert_eq!(time("uuffuff"), Some(Duration::from_secs(5)));
        assert_eq!(time("ffff"), Some(Duration::ZERO));
        assert_eq!(time("uuuf"), None);
        assert_eq!(time("ffu"), None);
        assert_eq!(time(""), None);
    }
}
