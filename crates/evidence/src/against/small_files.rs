//! small-files: a folder of many small files, where round trips count more than rates.

use super::runs::{Runs, Standing, Turn, absent, fastest_but, interleaved, named, standing, times, unknown};
use crate::ExperimentError;
use crate::experiment::{self, Experiment};
use crate::lab::bench::Bench;
use crate::lab::copiers::{self, Copier, Kernel, Longhaul, OURS, Payload, Route, Rsync, Scp};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "small-files",
    "A folder of small files over 100 Mb/s, 65 ms",
    &[AS_ONE, AHEAD],
    measure,
)
.alone();

const AS_ONE: Claim = Claim::ours("longhaul at least 85 % of its goodput with one file of the same bytes");
const AHEAD: Claim = Claim::ours("longhaul ahead of every other program in median time");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let files = bench.pick(20_000, 3000, 200);
    let rounds = bench.pick(5, 1, 1);
    let copiers: Vec<Box<dyn Copier>> = vec![
        Box::new(Longhaul::AUTO),
        Box::new(Kernel::TAR),
        Box::new(Rsync::Daemon),
        Box::new(Rsync::Ssh),
        Box::new(Scp),
    ];
    let (found, missing) = copiers::present(copiers);
    let absent = absent(&missing);
    let tree = Payload::tree(bench, files, FILE_BYTES)?;
    let file = Payload::file(bench, tree.bytes)?;
    bench.expect_runs(rounds * (found.len() + 1));
    let scenario = experiment::path("long-haul-100m");
    let Scenario { bottleneck_mbit, rtt_ms, .. } = scenario;
    let best_s = tree.bytes as f64 * 8e-6 / bottleneck_mbit + rtt_ms / 1e3;
    let limit = Duration::from_secs_f64((PATIENCE * best_s).max(LIMIT_S_MIN));
    let mut turns = vec![Turn { copier: &Longhaul::AUTO, name: ONE_FILE, payload: &file, limit }];
    turns.extend(super::runs::turns(&found, &tree, limit));
    let route = Route { scenario: &scenario, is_loopback: false, congestion: copiers::BBR_NAME, round: 0 };
    let all = interleaved(bench, route, &turns, rounds)?;
    let mut method = vec![format!(
        "{files} files of {FILE_BYTES} bytes, a hundred in each folder, copied {} by each program in turn over \
             {bottleneck_mbit} Mb/s, {rtt_ms} ms, clean, with a queue of one bandwidth-delay product; from the start of the program to its \
             end with every file at the other side, which are compared. Not done within {PATIENCE} times the time of the \
             rate is a result.",
        times(rounds)
    )];
    method.extend(copiers::setups(copiers::BBR_NAME, &found, &missing));
    Ok(Findings { method, tables: vec![table(&all, files)], statements: judge(&all, &absent) })
}

fn table(all: &[Runs], files: u32) -> Table {
    let files = |runs: &Runs| if runs.name == ONE_FILE { 1.0 } else { f64::from(files) };
    Runs::columns(Table::of("programs", "A folder of small files", all), |runs| runs)
        .column("files per second", Unit::Number, |runs| runs.median_s().map(|seconds| files(runs) / seconds))
        .table()
        .plot(Plot::bars("program", &["goodput"]))
}

fn judge(all: &[Runs], absent: &str) -> Vec<Statement> {
    let goodput = |name| named(all, name).and_then(Runs::goodput_mbps);
    let as_one = match (goodput(OURS), goodput(ONE_FILE)) {
        (_, None) => AS_ONE.leave_open("one file was not copied"),
        (ours, Some(one)) => {
            let ours = ours.unwrap_or(0.0);
            let figures = format!("{:.1} %: {ours:.1} of {one:.1} Mb/s", 100.0 * ours / one);
            AS_ONE.judge(ours >= AS_ONE_BAR * one, figures)
        }
    };
    let others: Vec<Runs> = all.iter().filter(|runs| runs.name != ONE_FILE).cloned().collect();
    let ours_s = named(all, OURS).and_then(Runs::median_s);
    let ours_text = ours_s.map_or("not done".into(), |seconds| format!("{seconds:.2} s"));
    let fastest = fastest_but(&others, OURS);
    let other_text = fastest.map_or("no other program was done".into(), |(other, theirs_s)| {
        format!("{} {theirs_s:.2} s", other.name)
    });
    let figures = format!("{ours_text}; {other_text}{}{absent}", unknown(&others));
    let ahead = match standing(&others, OURS) {
        Standing::Ahead => AHEAD.judge(true, figures),
        Standing::Behind(_) => AHEAD.judge(false, figures),
        Standing::Alone => AHEAD.leave_open(figures),
    };
    vec![as_one, ahead]
}

const FILE_BYTES: u64 = 8 << 10;
const ONE_FILE: &str = "longhaul, one file";
const AS_ONE_BAR: f64 = 0.85;
const PATIENCE: f64 = 4.0;
/// Programs take a while to start and to log in, on a busy host even more.
const LIMIT_S_MIN: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::super::runs::{broken, of};
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn small_files_are_judged_against_one_and_against_others() {
        let verdicts = |all: &[Runs]| judge(all, "").into_iter().map(|one| one.verdict).collect::<Vec<_>>();
        let all =
            [of(ONE_FILE, &[1.0], 0), of(OURS, &[1.1], 0), of("scp", &[], 1), of("tar over TCP", &[1.2], 0)];
        assert_eq!(verdicts(&all), [Verdict::Met, Verdict::Met]);
        let all = [of(ONE_FILE, &[1.0], 0), of(OURS, &[1.3], 0), of("tar over TCP", &[1.2], 0)];
        assert_eq!(verdicts(&all), [Verdict::NotMet, Verdict::NotMet]);
        let all = [of(ONE_FILE, &[], 1), of(OURS, &[], 1), of("tar over TCP", &[1.2], 0)];
        assert_eq!(verdicts(&all), [Verdict::Open, Verdict::NotMet]);
        let all = [of(ONE_FILE, &[1.0], 0), of(OURS, &[1.1], 0), broken("scp")];
        assert_eq!(verdicts(&all), [Verdict::Met, Verdict::Open], "nobody to be ahead of");
    }
}
