//! Figures of several runs.

/// The median; `None` of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_do_not_mind_one_bad_run() {
        assert_eq!(median(vec![3.0, 1000.0, 1.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }
}
