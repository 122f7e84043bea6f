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
    who: Who,
    is_first: bool,
    ours: f64,
    cubic: f64,
}

/// Who is beside that CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Copy,
    /// Another CUBIC, to compare with.
    Cubic,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Copy => "copy",
            Who::Cubic => "another CUBIC",
        }
    }

    fn guest(self, at: Time) -> Guest {
        match self {
            Who::Copy => Guest::object(ControllerKind::default(), at),
            Who::Cubic => Guest::tcp(ControllerKind::Cubic, at),
        }
    }
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

/// Who begins, and beside whom.
fn meetings<'a>(bench: &Bench<'_>, path: &'a Path) -> impl Iterator<Item = (Who, bool)> + use<'a> {
    let orders = bench.pick(&[true, false][..], &[true], &[true]);
    // Where the copy goes by the kernel's TCP, it is that which shares.
    let is_compared = bench.pick(true, false, false) && path.udp == Treatment::Blocked;
    let all = [Who::Copy, Who::Cubic].into_iter().take(1 + usize::from(is_compared));
    all.flat_map(move |who| orders.iter().map(move |is_first| (who, *is_first)))
}

pub(super) fn runs(bench: &Bench<'_>, path: &Path) -> usize {
    meetings(bench, path).count()
}

/// Whoever begins.
pub(super) fn measure(bench: &Bench<'_>, path: &Path) -> Result<Vec<Shared>, ExperimentError> {
    // Until the second begins, and from two such gaps on until both are measured, and for how long; milliseconds.
    let [gap, settle, measure] =
        bench.pick([2000, 30_000, 30_000], [1000, 5000, 5000], [100, 200, 300]).map(Duration::from_millis);
    let from = Time::ZERO + 2 * gap + settle;
    let meeting = |who: Who, is_first: bool| {
        let at = |is_first: bool| Time::ZERO + if is_first { Duration::ZERO } else { gap };
        Meeting {
            path: path.scenario.clone(),
            ours: vec![who.guest(at(is_first))],
            rivals: vec![Guest::tcp(ControllerKind::Cubic, at(!is_first))],
            from,
            until: from + measure,
            transport: "auto",
        }
    };
    let lab = bench.lab(&path.scenario)?;
    let payload = Meeting::payload(bench, &[meeting(Who::Copy, true)])?;
    let measured = meetings(bench, path).map(|(who, is_first)| {
        let (shares, _) = treated(&lab, path.udp, || meeting(who, is_first).measure(bench, &lab, &payload))?;
        Ok(Shared { path: path.name().into(), who, is_first, ours: shares.ours[0], cubic: shares.rivals })
    });
    measured.collect()
}

pub(super) fn table(shared: &[Shared]) -> Table {
    Table::of("beside", "One CUBIC, and who is beside it, of what the link carries", shared)
        .text("path", |one| one.path.as_str())
        .text("beside it", |one| {
            format!("{}, {}", one.who.name(), if one.is_first { "first" } else { "second" })
        })
        .column("has", Unit::Share, |one| one.ours)
        .column("CUBIC", Unit::Share, |one| one.cubic)
        .table()
        .plot(Plot::bars("path", &["has", "CUBIC"]).by("beside it"))
}

pub(super) fn judge(shared: &[Shared]) -> Statement {
    let least = |who: Who| {
        let of = shared.iter().filter(move |one| one.who == who);
        of.min_by(|a, b| a.cubic.total_cmp(&b.cubic))
    };
    let Some(worst) = least(Who::Copy) else {
        return KEEPS.leave_open("such a meeting did not take place");
    };
    let mut figures = format!(
        "at worst {:.1} %, the copy {:.1} %: {}",
        worst.cubic * 100.0,
        worst.ours * 100.0,
        worst.path
    );
    if let Some(other) = least(Who::Cubic) {
        figures.push_str(&format!("; beside another CUBIC {:.1} %: {}", other.cubic * 100.0, other.path));
    }
    KEEPS.judge(worst.cubic >= CUBIC_MIN, figures)
}

const CUBIC_MIN: f64 = 0.35;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn the_meeting_that_leaves_cubic_least_decides() {
        let shared =
            |who, cubic| Shared { path: "a path".into(), who, is_first: true, ours: 1.0 - cubic, cubic };
        let copy = |cubic| shared(Who::Copy, cubic);
        assert_eq!(judge(&[copy(0.5), copy(0.36), shared(Who::Cubic, 0.2)]).verdict, Verdict::Met);
        let bad = judge(&[copy(0.5), copy(0.3), shared(Who::Cubic, 0.4)]);
        assert_eq!(
            (bad.verdict, bad.figures.as_str()),
            (
                Verdict::NotMet,
                "at worst 30.0 %, the copy 70.0 %: a path; beside another CUBIC 40.0 %: a path"
            )
        );
        assert_eq!(judge(&[]).verdict, Verdict::Open);
    }
}
