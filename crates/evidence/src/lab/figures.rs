//! Figures of several runs.

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
