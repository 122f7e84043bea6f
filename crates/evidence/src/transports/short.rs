//! A short copy where UDP is dropped from the start: what it costs to find that out.

use super::{treated, with_udp};
use crate::ExperimentError;
use crate::experiment;
use crate::lab::bench::Bench;
use crate::lab::copied::{Copied, CopyError};
use crate::lab::copies::Copies;
use crate::lab::paths::{Path, Treatment};
use crate::report::{Claim, Statement, Table, Unit};
use longhaul_lab::Scenario;
use std::time::Duration;

pub(super) const SHORT: Claim = Claim::ours(
    "40 MB over 100 Mb/s and 65 ms, where UDP is dropped from the start, go at 78 % of the limit at least",
);

/// A copy of it.
pub(super) struct Run {
    outcome: Result<Copied, CopyError>,
}

pub(super) fn path() -> Path {
    with_udp(Treatment::Blocked, Scenario { queue_bdp: Some(1.0), ..experiment::path("long-haul-100m") })
}

/// What the part is called.
pub(super) fn name(path: &Path) -> String {
    format!("{} MB, {}", BYTES / 1_000_000, path.name())
}

pub(super) fn runs(bench: &Bench<'_>) -> usize {
    bench.pick(5, 2, 1)
}

pub(super) fn measure(bench: &Bench<'_>, path: &Path) -> Result<Vec<Run>, ExperimentError> {
    let lab = bench.lab(&path.scenario)?;
    let copies = Copies::start(bench, &lab, bench.pick(BYTES, BYTES, BYTES / 100))?;
    let copy = |_| {
        let outcome = treated(&lab, path.udp, || copies.run(bench, &lab, &[], PATIENCE))?;
        Ok(Run { outcome })
    };
    (0..runs(bench)).map(copy).collect()
}

impl Run {
    /// Of what a perfect TCP connection would carry.
    fn of_limit(&self) -> Option<f64> {
        let limit_mbps = path().scenario.bottleneck_mbit * 1448.0 / 1500.0;
        self.outcome.as_ref().ok().map(|copied| copied.goodput_mbps / limit_mbps)
    }
}

pub(super) fn table(runs: &[Run]) -> Table {
    Table::of("short", "40 MB where UDP is dropped from the start", runs)
        .column("seconds", Unit::Seconds, |run| run.outcome.as_ref().ok().map(|copied| copied.seconds))
        .column("of the limit", Unit::Share, Run::of_limit)
        .text("went by", |run| super::course(&run.outcome))
        .table()
}

pub(super) fn judge(runs: &[Run]) -> Statement {
    if runs.is_empty() {
        return SHORT.leave_open("not measured");
    }
    let shares: Option<Vec<f64>> = runs.iter().map(Run::of_limit).collect();
    let Some(shares) = shares else {
        return SHORT.judge(false, "a copy failed");
    };
    let [least, most] =
        [f64::min, f64::max].map(|which| shares.iter().copied().reduce(which).unwrap_or_default());
    SHORT.judge(
        least >= SHARE_MIN,
        format!("{:.1} to {:.1} %, {} copies", least * 100.0, most * 100.0, runs.len()),
    )
}

const BYTES: u64 = 40_000_000;
const SHARE_MIN: f64 = 0.78;
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn run(goodput_mbps: f64) -> Run {
        let line = format!(
            r#"{{"ok":true,"seconds":4.0,"goodput_mbps":{goodput_mbps},"waste":0.0,"transport":"stripe","streams":2,"switches":[]}}"#
        );
        Run { outcome: Copied::read(&line) }
    }

    #[test]
    fn the_slowest_copy_decides() {
        let good = judge(&[run(76.0), run(80.0)]);
        assert_eq!((good.verdict, good.figures.as_str()), (Verdict::Met, "78.7 to 82.9 %, 2 copies"));
        assert_eq!(judge(&[run(80.0), run(75.0)]).verdict, Verdict::NotMet);
        assert_eq!(
            judge(&[run(80.0), Run { outcome: Err(CopyError::failed("no")) }]).verdict,
            Verdict::NotMet
        );
        assert_eq!(judge(&[]).verdict, Verdict::Open);
    }
}
