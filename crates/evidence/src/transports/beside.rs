//! What one CUBIC keeps beside a copy that may choose its transport.

use super::{treated, with_udp};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::paths::{Path, Treatment};
use crate::meeting::{Guest, Meeting};
use crate::report::{Claim, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use std::time::Duration;

pub(super) const KEEPS: Claim =
    Claim::ours("one CUBIC beside a copy keeps at least 35 % of the link, whatever transport the copy takes");

/// Who has what of a link, 0 to 1.
pub(super) struct Shared {
    path: String,
    copy_first: bool,
    copy: f64,
    cubic: f64,
}

/// The paths that are shared, each with whether a quick run takes it.
pub(super) fn paths() -> Vec<(Path, bool)> {
    let of =
        |mbit, rtt_ms, udp| with_udp(udp, Scenario { queue_bdp: Some(1.0), ..Scenario::new(mbit, rtt_ms) });
    vec![
        (of(100.0, 40.0, Treatment::None), true),
        (of(20.0, 20.0, Treatment::None), false),
        (of(100.0, 40.0, Treatment::Blocked), true),
        (of(20.0, 20.0, Treatment::Blocked), false),
    ]
}

/// What a part is called.
pub(super) fn name(path: &Path) -> String {
    format!("CUBIC beside it, {}", path.name())
}

pub(super) fn runs(bench: &Bench<'_>) -> usize {
    bench.pick(2, 1, 1)
}

/// Whoever begins.
pub(super) fn measure(bench: &Bench<'_>, path: &Path) -> Result<Vec<Shared>, ExperimentError> {
    // Until the second begins, and from two such gaps on until both are measured, and for how long; milliseconds.
    let [gap, settle, measure] =
        bench.pick([2000, 10_000, 15_000], [1000, 5000, 5000], [100, 200, 300]).map(Duration::from_millis);
    let from = Time::ZERO + 2 * gap + settle;
    let meeting = |copy_first: bool| {
        let at = |is_first: bool| Time::ZERO + if is_first { Duration::ZERO } else { gap };
        Meeting {
            path: path.scenario.clone(),
            ours: vec![Guest::object(ControllerKind::default(), at(copy_first))],
            rivals: vec![Guest::tcp(ControllerKind::Cubic, at(!copy_first))],
            from,
            until: from + measure,
            transport: "auto",
        }
    };
    let lab = bench.lab(&path.scenario)?;
    let payload = Meeting::payload(bench, &[meeting(true)])?;
    let orders = [true, false].into_iter().take(runs(bench));
    let measured = orders.map(|copy_first| {
        let (shares, _) = treated(&lab, path.udp, || meeting(copy_first).measure(bench, &lab, &payload))?;
        Ok(Shared { path: path.name().into(), copy_first, copy: shares.ours[0], cubic: shares.rivals })
    });
    measured.collect()
}

pub(super) fn table(shared: &[Shared]) -> Table {
    Table::of("beside", "A copy beside one CUBIC, of what the link carries", shared)
        .text("path", |one| one.path.as_str())
        .text("first", |one| if one.copy_first { "copy" } else { "CUBIC" })
        .column("copy", Unit::Share, |one| one.copy)
        .column("CUBIC", Unit::Share, |one| one.cubic)
        .table()
        .plot(Plot::bars("path", &["copy", "CUBIC"]).by("first"))
}

pub(super) fn judge(shared: &[Shared]) -> Statement {
    let Some(worst) = shared.iter().min_by(|a, b| a.cubic.total_cmp(&b.cubic)) else {
        return KEEPS.leave_open("such a meeting did not take place");
    };
    let figures = format!(
        "at worst {:.1} %, the copy {:.1} %: {}",
        worst.cubic * 100.0,
        worst.copy * 100.0,
        worst.path
    );
    KEEPS.judge(worst.cubic >= CUBIC_MIN, figures)
}

const CUBIC_MIN: f64 = 0.35;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn the_meeting_that_leaves_cubic_least_decides() {
        let shared = |cubic| Shared { path: "a path".into(), copy_first: true, copy: 1.0 - cubic, cubic };
        assert_eq!(judge(&[shared(0.5), shared(0.36)]).verdict, Verdict::Met);
        let bad = judge(&[shared(0.5), shared(0.3)]);
        assert_eq!(
            (bad.verdict, bad.figures.as_str()),
            (Verdict::NotMet, "at worst 30.0 %, the copy 70.0 %: a path")
        );
        assert_eq!(judge(&[]).verdict, Verdict::Open);
    }
}
