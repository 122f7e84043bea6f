//! transport-auto: whether a copy takes the better of its two transports, whatever the path does to UDP, and takes it soon,
//! and leaves others their share.

mod beside;
mod short;

use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::copied::{Copied, CopyError};
use crate::lab::copies::Copies;
use crate::lab::paths::{self, Path, Treatment};
use crate::lab::striped::CONGESTION_CONTROL;
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::{Lab, Scenario};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::measured(
    "transport-auto",
    "What --transport auto takes, beside packets over UDP and parallel TCP streams",
    &[NEAR, SOON, COMPLETES, beside::KEEPS, short::SHORT],
    measure,
)
.in_parts();

const NEAR: Claim =
    Claim::ours("auto takes at most 1.1 times as long as the better of the two, on every path");
const SOON: Claim = Claim::ours("at most 1.05 times where UDP is blocked or policed");
const COMPLETES: Claim = Claim::ours("auto completes on every path, and names each change and its cause");

/// The three runs over one path, as long as they took.
struct Runs {
    path: String,
    udp: Treatment,
    object: Result<Copied, CopyError>,
    stripe: Result<Copied, CopyError>,
    auto: Result<Copied, CopyError>,
}

impl Runs {
    /// Seconds of the better of the two.
    fn best(&self) -> Option<f64> {
        [&self.object, &self.stripe].into_iter().flatten().map(|run| run.seconds).min_by(f64::total_cmp)
    }

    /// Auto got it there, and said of each change why; without a change it is by packets over UDP.
    fn is_told(&self) -> bool {
        self.auto.as_ref().is_ok_and(|auto| {
            let is_explained = auto.switches.iter().all(|switch| !switch.why.is_empty());
            is_explained && (auto.transport == "object" || !auto.switches.is_empty())
        })
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.auto.as_ref().ok()?.seconds / self.best()?)
    }

    /// Auto took hardly longer than the better of the two, or came through where neither of them did.
    fn is_near(&self) -> bool {
        self.auto.is_ok() && self.ratio().is_none_or(|ratio| ratio <= BAR)
    }
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let object_s = bench.pick(20.0, 20.0, 0.5);
    let is_full = bench.pick(true, false, false);
    let is_smoke = bench.pick(false, false, true);
    let is_wanted = |path: &&Path| bench.wants(path.name(), is_full || path.is_quick);
    let listed = Path::table(paths::TRANSPORTS);
    let mut paths: Vec<&Path> = listed.iter().filter(is_wanted).collect();
    paths.truncate(bench.pick(listed.len(), listed.len(), 1));
    let shared = beside::paths();
    let is_shared = |(path, is_quick): &&(Path, bool)| {
        bench.wants(&beside::name(path), is_full || *is_quick && !is_smoke)
    };
    let beside: Vec<&Path> = shared.iter().filter(is_shared).map(|(path, _)| path).collect();
    let short = short::path();
    let is_short = bench.wants(&short::name(&short), !is_smoke);
    bench.check_parts()?;
    let short_runs = if is_short { short::runs(bench) } else { 0 };
    let beside_runs: usize = beside.iter().map(|path| beside::runs(bench, path)).sum();
    bench.expect_runs(3 * paths.len() + beside_runs + short_runs);
    let coverage = bench.coverage_of(paths.len(), listed.len());
    let short = if is_short { short::measure(bench, &short)? } else { vec![] };
    let meet = |path: &Path| beside::measure(bench, path);
    let beside_coverage = bench.coverage_of(beside.len(), shared.len());
    let beside: Vec<_> =
        beside.into_iter().map(meet).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let runs = paths.into_iter().map(|path| three(bench, path, object_s)).collect::<Result<Vec<_>, _>>()?;
    let seconds = |copied: &Result<Copied, CopyError>| copied.as_ref().ok().map(|copied| copied.seconds);
    let table = Table::of("seconds", "Seconds for the same file", &runs)
        .text("path", |run| run.path.as_str())
        .column("object", Unit::Seconds, |run| seconds(&run.object))
        .column("stripe", Unit::Seconds, |run| seconds(&run.stripe))
        .column("auto", Unit::Seconds, |run| seconds(&run.auto))
        .column("auto of the better", Unit::Times, Runs::ratio)
        .text("auto went by", |run| course(&run.auto))
        .table()
        .plot(Plot::bars("path", &["object", "stripe", "auto"]));
    let mut method = vec![format!(
        "longhaul cp of a file of {object_s} s at the path's rate, from program start to verified completion, once by \
         each; queue of one bandwidth-delay product; streams under kernel TCP {CONGESTION_CONTROL}."
    )];
    if bench.pick(false, true, false) {
        method.push(format!(
            "Of object and stripe the likely slower one comes last and is stopped at {CLEARLY_SLOWER} times the other's \
             time: then nothing stands for it."
        ));
    }
    method.push(
        "Beside CUBIC: a queue of one bandwidth-delay product; the copy and one connection of kernel TCP begin a moment apart and are \
         measured together, when both have had seconds to settle: the copy by what arrives at its port, the other by what its \
         program gets, with headers."
            .into(),
    );
    let statements = judge(&runs).map(|one| coverage.of_every("paths", one)).into_iter();
    let shares = beside_coverage.of_every("paths", beside::judge(&beside));
    let statements = statements.chain([shares, short::judge(&short)]).collect();
    let mut tables = vec![table, beside::table(&beside), short::table(&short)];
    tables.retain(|table| !table.rows.is_empty());
    Ok(Findings { method, tables, statements })
}

fn judge(runs: &[Runs]) -> [Statement; 3] {
    if runs.is_empty() {
        return [NEAR, SOON, COMPLETES].map(|claim| claim.leave_open("no such path was measured"));
    }
    let paths = |is_in: &dyn Fn(&Runs) -> bool| -> Vec<&str> {
        runs.iter().filter(|run| is_in(run)).map(|run| run.path.as_str()).collect()
    };
    let with_ratio = runs.iter().filter_map(|run| Some((run.ratio()?, &run.path)));
    let worst = with_ratio.max_by(|a, b| a.0.total_cmp(&b.0));
    let mut figures: Vec<String> =
        worst.map(|(ratio, path)| format!("at most {ratio:.2} times: {path}")).into_iter().collect();
    let failed = paths(&|run| run.auto.is_err());
    if !failed.is_empty() {
        figures.push(format!("auto failed: {}", failed.join("; ")));
    }
    let unopposed = paths(&|run| run.auto.is_ok() && run.best().is_none());
    if !unopposed.is_empty() {
        figures.push(format!("auto alone came through: {}", unopposed.join("; ")));
    }
    let near = NEAR.judge(runs.iter().all(Runs::is_near), figures.join("; "));
    let treated: Vec<&Runs> = runs.iter().filter(|run| run.udp.is_for_good()).collect();
    let soon =
        match treated.iter().filter_map(|run| Some((run.ratio()?, run))).max_by(|a, b| a.0.total_cmp(&b.0)) {
            _ if treated.is_empty() => SOON.leave_open("no such path was measured"),
            None => SOON.judge(treated.iter().all(|run| run.auto.is_ok()), "auto alone came through"),
            Some((ratio, run)) => {
                let holds = ratio <= BAR_SOON && treated.iter().all(|run| run.auto.is_ok());
                SOON.judge(holds, format!("at most {ratio:.2} times: {}", run.path))
            }
        };
    let unexplained = paths(&|run| !run.is_told());
    let told = match unexplained.len() {
        0 => format!("{count} of {count}", count = runs.len()),
        _ => format!("not {}", unexplained.join("; ")),
    };
    [near, soon, COMPLETES.judge(unexplained.is_empty(), told)]
}

/// What carried an automatic copy, and why it changed.
fn course(auto: &Result<Copied, CopyError>) -> String {
    let copied = match auto {
        Ok(copied) => copied,
        Err(why) => return format!("failed: {why}"),
    };
    let streams = if copied.streams > 0 { format!(" ({} streams)", copied.streams) } else { String::new() };
    let mut text = format!("{}{streams}", copied.transport);
    for switch in &copied.switches {
        text.push_str(&format!("; {} after {:.1} s: {}", switch.to, switch.seconds, switch.why));
    }
    text
}

fn three(bench: &Bench<'_>, path: &Path, object_s: f64) -> Result<Runs, ExperimentError> {
    let lab = bench.lab(&path.scenario)?;
    let bytes = (path.scenario.bottleneck_mbit * 1e6 / 8.0 * object_s) as u64;
    let copies = Copies::start(bench, &lab, bytes)?;
    let limit = Duration::from_secs_f64(object_s * PATIENCE) + GRACE;
    let run = |transport: &str, limit: Duration| {
        let args = ["--transport", transport, "--congestion", CONGESTION_CONTROL];
        // Without TCP there is none to be had.
        let args = if transport == "object" { &args[..2] } else { &args[..] };
        treated(&lab, path.udp, || copies.run(bench, &lab, args, limit))
    };
    // First the one that is likely to be the better: what is clearly slower than it a quick run does not wait for.
    let (likely, other) =
        if path.udp == Treatment::None { ("object", "stripe") } else { ("stripe", "object") };
    let first = run(likely, limit)?;
    // Before one that may be stopped: its place at the daemon is held for a second then, in case that it comes back.
    let auto = run("auto", limit)?;
    let enough_s = first.as_ref().map_or(f64::INFINITY, |first| CLEARLY_SLOWER * first.seconds);
    let is_quick = bench.pick(false, true, false) && enough_s < limit.as_secs_f64();
    let second = run(other, if is_quick { Duration::from_secs_f64(enough_s) } else { limit })?;
    let (object, stripe) = if likely == "object" { (first, second) } else { (second, first) };
    Ok(Runs { path: path.name().into(), udp: path.udp, object, stripe, auto })
}

/// A path that treats UDP so.
fn with_udp(udp: Treatment, scenario: Scenario) -> Path {
    Path { udp, ..Path::of(scenario) }.named()
}

/// Run `copy` while UDP is treated in some way.
fn treated<T>(lab: &Lab, udp: Treatment, copy: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        match udp {
            Treatment::None => {}
            Treatment::PolicedMbit(mbit) => lab.police_udp(Some(mbit), POLICER_BURST_BYTES),
            Treatment::Blocked => lab.block_udp(true),
            Treatment::BurstsMs(_) | Treatment::BlockedAfterMs(_) => {
                scope.spawn(|| {
                    let (mut at_ms, tick) = (0, Duration::from_millis(TICK_MS));
                    while !over.load(Ordering::Relaxed) {
                        lab.block_udp(match udp {
                            Treatment::BurstsMs(ms) => at_ms % 1000 < ms,
                            Treatment::BlockedAfterMs(ms) => at_ms >= ms,
                            _ => false,
                        });
                        thread::sleep(tick);
                        at_ms += TICK_MS;
                    }
                });
            }
        }
        let result = copy();
        over.store(true, Ordering::Relaxed);
        result
    });
    lab.police_udp(None, 0);
    lab.block_udp(false);
    result
}

/// How near to the better of the two is near enough.
const BAR: f64 = 1.1;
/// Where nothing is to be said for UDP.
const BAR_SOON: f64 = 1.05;
/// Of two transports that are so far apart the slower one is known before its end.
const CLEARLY_SLOWER: f64 = 1.25;
/// A transport that needs so many times the time of the path's rate is not what anybody would take.
const PATIENCE: f64 = 4.0;
const GRACE: Duration = Duration::from_secs(10);
/// What a policer lets pass at once.
const POLICER_BURST_BYTES: u64 = 64 << 10;
const TICK_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn runs(path: &str, seconds: [Option<f64>; 3]) -> Runs {
        let copied = |seconds: f64| {
            Copied::read(&format!(
                r#"{{"ok":true,"seconds":{seconds},"goodput_mbps":8.0,"waste":0.0,"transport":"object","streams":0,"switches":[]}}"#
            ))
        };
        let [object, stripe, auto] =
            seconds.map(|seconds| seconds.map_or(Err(CopyError::failed("not done")), copied));
        Runs { path: path.into(), udp: Treatment::Blocked, object, stripe, auto }
    }

    fn near(runs: &[Runs]) -> (Verdict, String) {
        let [near, ..] = judge(runs);
        (near.verdict, near.figures)
    }

    #[test]
    fn auto_is_held_to_the_better_of_the_two() {
        let far = runs("far", [Some(20.0), Some(10.0), Some(10.5)]);
        assert_eq!(near(&[far]), (Verdict::Met, "at most 1.05 times: far".into()));
        let slow = runs("far", [Some(20.0), None, Some(30.0)]);
        assert_eq!(near(&[slow]), (Verdict::NotMet, "at most 1.50 times: far".into()));
        assert_eq!(near(&[]).0, Verdict::Open);
    }

    #[test]
    fn where_auto_fails_the_bar_is_not_met_and_the_path_is_named() {
        let well = || runs("well", [Some(20.0), Some(10.0), Some(10.0)]);
        let failed = || runs("bad", [Some(20.0), Some(10.0), None]);
        assert_eq!(near(&[failed()]), (Verdict::NotMet, "auto failed: bad".into()));
        let figures = "at most 1.00 times: well; auto failed: bad".into();
        assert_eq!(near(&[well(), failed()]), (Verdict::NotMet, figures));
        let alone = runs("hard", [None, None, Some(10.0)]);
        let figures = "at most 1.00 times: well; auto alone came through: hard".into();
        assert_eq!(near(&[well(), alone]), (Verdict::Met, figures));
        assert_eq!(judge(&[failed()])[2].verdict, Verdict::NotMet);
    }

    #[test]
    fn where_udp_is_blocked_or_policed_auto_has_less_time_to_find_out() {
        let soon =
            |udp, seconds| judge(&[Runs { udp, ..runs("here", [None, Some(10.0), seconds]) }])[1].verdict;
        assert_eq!(soon(Treatment::Blocked, Some(10.4)), Verdict::Met);
        assert_eq!(soon(Treatment::PolicedMbit(5.0), Some(10.6)), Verdict::NotMet);
        assert_eq!(soon(Treatment::Blocked, None), Verdict::NotMet);
        assert_eq!(soon(Treatment::BurstsMs(300), Some(10.6)), Verdict::Open);
    }
}
