//! Figures of several runs.

use crate::ExperimentError;

/// A goodput, if the path can carry as much: what a receiver got in a time cannot be more. A little more may be, since a
/// program does not look at its clock in the moment that a packet comes in.
pub(crate) fn possible(mbps: f64, limit_mbps: f64) -> Result<f64, ExperimentError> {
    if mbps <= LIMIT_SHARE * limit_mbps {
        Ok(mbps)
    } else {
        Err(ExperimentError::Impossible { mbps, limit_mbps })
    }
}

const LIMIT_SHARE: f64 = 1.01;

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// Rates.
    More,
    /// Times, costs, waste.
    Less,
}

/// The median, of an even number the mean of the middle two; `None` of nothing.
pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    median_of_all(values, 0, Better::More)
}

/// The median of all runs, of which `failed` have no value: they were worse than all others. `None` where the middle is among
/// them, or half of it.
pub(crate) fn median_of_all(mut values: Vec<f64>, failed: usize, better: Better) -> Option<f64> {
    // Best first, so that what failed stands behind the last.
    values.sort_by(|a, b| match better {
        Better::More => b.total_cmp(a),
        Better::Less => a.total_cmp(b),
    });
    let all = values.len() + failed;
    let (low, high) = (values.get(all.saturating_sub(1) / 2)?, values.get(all / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_cannot_be_stops_the_experiment() {
        assert_eq!(possible(96.6, 96.5).ok(), Some(96.6));
        let planted = possible(100.6, 96.5).unwrap_err().to_string();
        assert_eq!(
            planted,
            "100.6 Mb/s were measured where 96.5 Mb/s can be at most: the measurement is faulty"
        );
        assert!(possible(f64::NAN, 96.5).is_err());
    }

    #[test]
    fn medians_do_not_mind_one_bad_run() {
        assert_eq!(median(vec![3.0, 1000.0, 1.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn of_two_in_the_middle_neither_is_preferred() {
        assert_eq!(median(vec![80.0, 90.0]), Some(85.0));
        assert_eq!(median(vec![1.0, 9.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn what_failed_is_worse_than_all_that_did_not() {
        let of = |failed, better| median_of_all(vec![10.0, 30.0, 20.0], failed, better);
        assert_eq!([of(0, Better::More), of(0, Better::Less)], [Some(20.0); 2]);
        assert_eq!([of(1, Better::More), of(1, Better::Less)], [Some(15.0), Some(25.0)]);
        assert_eq!([of(2, Better::More), of(2, Better::Less)], [Some(10.0), Some(30.0)]);
        assert_eq!([of(3, Better::More), of(4, Better::Less)], [None; 2]);
        assert_eq!(median_of_all(vec![10.0], 2, Better::More), None);
    }
}
