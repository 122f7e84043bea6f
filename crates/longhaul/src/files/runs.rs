//! Which bytes of a block are there: a handful of runs, ascending and apart.

use std::ops::Range;

/// A set of byte positions below 2³², kept as sorted runs that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    runs: Vec<Range<u32>>,
}

impl Runs {
    /// Add a range.
    pub(super) fn insert(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        // Bytes come in order most of the time.
        if let Some(last) = self.runs.last_mut()
            && last.start <= range.start
            && range.start <= last.end
        {
            last.end = last.end.max(range.end);
            return;
        }
        let first = self.runs.partition_point(|run| run.end < range.start);
        let after = self.runs.partition_point(|run| run.start <= range.end);
        if first == after {
            self.runs.insert(first, range);
        } else {
            let start = self.runs[first].start.min(range.start);
            let end = self.runs[after - 1].end.max(range.end);
            self.runs[first] = start..end;
            self.runs.drain(first + 1..after);
        }
    }

    /// Take a range out.
    pub(super) fn remove(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let first = self.runs.partition_point(|run| run.end <= range.start);
        let after = self.runs.partition_point(|run| run.start < range.end);
        if first >= after {
            return;
        }
        let head = self.runs[first].start..range.start;
        let tail = range.end..self.runs[after - 1].end;
        self.runs.splice(first..after, [head, tail].into_iter().filter(|run| !run.is_empty()));
    }

    /// Whether all of a range is in.
    pub(super) fn covers(&self, range: &Range<u32>) -> bool {
        let at = self.runs.partition_point(|run| run.end < range.end);
        range.is_empty()
            || self.runs.get(at).is_some_and(|run| run.start <= range.start && range.end <= run.end)
    }

    /// The parts of `range` that are in.
    pub(super) fn within(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let first = self.runs.partition_point(|run| run.end <= range.start);
        self.runs[first..]
            .iter()
            .map(move |run| run.start.max(range.start)..run.end.min(range.end))
            .take_while(|run| run.start < run.end)
    }

    /// The parts of `range` that are not in.
    pub(super) fn gaps(&self, range: Range<u32>) -> Vec<Range<u32>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for run in self.within(range.clone()) {
            if at < run.start {
                gaps.push(at..run.start);
            }
            at = run.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(runs: &Runs) -> Vec<bool> {
        let mut bits = vec![false; 64];
        let mut end = None;
        for run in &runs.runs {
            assert!(run.start < run.end && end.is_none_or(|end| end < run.start), "{runs:?}");
            end = Some(run.end);
            bits[run.start as usize..run.end as usize].fill(true);
        }
        bits
    }

    proptest! {
        #[test]
        fn runs_behave_like_a_bitmap(steps in prop::collection::vec((any::<bool>(), 0u32..64, 0u32..20), 0..40), from in 0u32..64, len in 0u32..64) {
            let mut runs = Runs::default();
            let mut model = vec![false; 64];
            for (add, start, len) in steps {
                let range = start..(start + len).min(64);
                if add { runs.insert(range.clone()) } else { runs.remove(range.clone()) }
                model[range.start as usize..range.end as usize].fill(add);
                prop_assert_eq!(bits(&runs), model.clone());
            }
            let range = from..(from + len).min(64);
            let slice = &model[range.start as usize..range.end as usize];
            prop_assert_eq!(runs.covers(&range), slice.iter().all(|b| *b));
            let mut inside = vec![false; slice.len()];
            for run in runs.within(range.clone()) {
                inside[(run.start - range.start) as usize..(run.end - range.start) as usize].fill(true);
            }
            prop_assert_eq!(&inside[..], slice);
            for gap in runs.gaps(range.clone()) {
                inside[(gap.start - range.start) as usize..(gap.end - range.start) as usize].fill(true);
            }
            prop_assert!(inside.iter().all(|b| *b));
        }
    }
}
