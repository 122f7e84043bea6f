//! What one CUBIC keeps beside a copy that may choose its transport.

use super::{treated, with_udp};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copiers::Payload;
use crate::lab::copies::Copies;
use crate::lab::paths::{Path, Treatment};
use crate::lab::striped::{Amount, CONGESTION_CONTROL, Streams, Striped};
use crate::report::{Claim, Plot, Statement, Table, Unit};
use longhaul_lab::{Lab, Scenario, Side};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(super) const KEEPS: Claim =
    Claim::ours("one CUBIC beside a copy keeps at least 35 % of the link, whatever transport the copy takes");

/// Who has what of a link, 0 to 1.
pub(super) struct Shared {
    path: String,
    copy_first: bool,
    copy: f64,
    cubic: f64,
}

/// When each begins, and when both are measured.
#[derive(Clone, Copy)]
struct Timing {
    gap: Duration,
    settle: Duration,
    measure: Duration,
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
    let timing = |gap, settle, measure| {
        let [gap, settle, measure] = [gap, settle, measure].map(Duration::from_secs_f64);
        Timing { gap, settle, measure }
    };
    let timing = bench.pick(timing(2.0, 10.0, 15.0), timing(1.0, 5.0, 5.0), timing(0.1, 0.2, 0.3));
    let total = timing.gap * 2 + timing.settle + timing.measure;
    let lab = bench.lab(&path.scenario)?;
    let bytes = path.scenario.bottleneck_mbit * 1e6 / 8.0 * (total + START_TIME_MAX).as_secs_f64();
    let copies = Copies::of(bench, &lab, Rc::new(Payload::file(bench, bytes as u64)?), FIRST_PORT)?;
    let orders = [true, false].into_iter().take(runs(bench));
    orders
        .map(|copy_first| treated(&lab, path.udp, || meet(bench, &lab, path, &copies, timing, copy_first)))
        .collect()
}

fn meet(
    bench: &Bench<'_>,
    lab: &Lab,
    path: &Path,
    copies: &Copies,
    timing: Timing,
    copy_first: bool,
) -> Result<Shared, ExperimentError> {
    bench.run(lab, || {
        let measure = (timing.gap * 2 + timing.settle + timing.measure + START_TIME_MAX).as_secs_f64();
        let amount = Amount::Seconds { skip: 0.0, measure };
        let tcp = Striped {
            streams: Streams::Fixed(1),
            congestion: CONGESTION_CONTROL,
            amount,
            ..Striped::default()
        };
        let (mut copy, mut cubic) = (None, None);
        for is_copys_turn in [copy_first, !copy_first] {
            if is_copys_turn {
                copy = Some(copies.begin(bench, lab, &[])?);
            } else {
                cubic = Some(tcp.begin(lab)?);
            }
            bench.wait(timing.gap)?;
        }
        bench.wait(timing.settle)?;
        let ports: Vec<u16> =
            [copies.port()].into_iter().chain(cubic.as_ref().map(|cubic| cubic.port)).collect();
        lab.watch_ports(Side::Right, &ports);
        let arrived = || ports.iter().map(|port| lab.bytes_to(Side::Right, *port)).collect::<Vec<u64>>();
        let (before, from) = (arrived(), Instant::now());
        bench.wait(timing.measure)?;
        let (after, seconds) = (arrived(), from.elapsed().as_secs_f64());
        if !copy.is_some_and(|mut copy| copy.is_running()) || !cubic.is_some_and(|cubic| cubic.is_running()) {
            let reason = "one of the two was at its end before it had been measured".into();
            return Err(ExperimentError::Program { program: "a copy beside CUBIC".into(), reason });
        }
        let share = |which: usize| {
            (after[which] - before[which]) as f64 * 8e-6 / seconds / path.scenario.bottleneck_mbit
        };
        Ok(Shared { path: path.name().into(), copy_first, copy: share(0), cubic: share(1) })
    })
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
/// The program's own is left to others.
const FIRST_PORT: u16 = 7710;
/// Until a program has begun.
const START_TIME_MAX: Duration = Duration::from_secs(10);

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
