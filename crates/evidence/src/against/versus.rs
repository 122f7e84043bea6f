//! versus: longhaul and every other program that is here, over many paths.

use super::runs::{Runs, Standing, absent, fastest_but, interleaved, named, standing, times, turns, unknown};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::copiers::{self, Copier, OURS, Payload, Route};
use crate::lab::paths::{self, Path};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "versus",
    "The same file by longhaul and by every other program that is here, over many paths",
    &[AHEAD],
    measure,
)
.in_parts()
.alone();

const AHEAD: Claim = Claim::ours(
    "longhaul ahead of every other program in median time on every path with a round trip of 20 ms or more",
);

/// All copies of one size over one path.
struct Cell {
    path: String,
    rtt_ms: f64,
    /// Of the file, as so many seconds of the path's rate.
    size_s: f64,
    runs: Vec<Runs>,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let sizes_s: &[f64] = bench.pick(&[1.0, 5.0], &[2.5], &[0.1]);
    let rounds = bench.pick(3, 1, 1);
    let listed = Path::table(paths::VERSUS);
    let smoke = [Path::of(Scenario::new(100.0, 20.0))];
    let all: &[Path] = bench.pick(&listed, &listed, &smoke);
    let is_whole = bench.pick(true, false, true);
    let is_wanted = |path: &&Path| bench.wants(path.name(), is_whole || path.is_quick);
    let paths: Vec<&Path> = all.iter().filter(is_wanted).collect();
    bench.check_parts()?;
    let (found, missing) = copiers::present(copiers::all());
    let absent = absent(&missing);
    let far = |paths: &[&Path]| paths.iter().filter(|path| path.scenario.rtt_ms >= FAR_MS).count();
    let coverage = bench.coverage_of(far(&paths), far(&listed.iter().collect::<Vec<_>>()));
    bench.expect_runs(paths.len() * sizes_s.len() * rounds * found.len());
    let mut cells = vec![];
    for path in paths {
        for &size_s in sizes_s {
            cells.push(cell(bench, path, size_s, &found, rounds)?);
        }
    }
    let mut method = vec![format!(
        "A file of so many seconds at the path's rate, {}, copied {} by each program in turn over paths of their \
             own that lose the same packets; from the start of the program to its end with all bytes at the other side, \
             which are compared. Not done within {PATIENCE} times the time of the rate is a result. One bandwidth-delay \
             product of queue unless said otherwise.",
        sizes_s.iter().map(f64::to_string).collect::<Vec<_>>().join(", "),
        times(rounds)
    )];
    method.extend(copiers::setups(copiers::BBR_NAME, &found, &missing));
    let mut tables = vec![leaders(&cells)];
    tables.extend(sizes_s.iter().map(|&size_s| table(&cells, size_s)));
    Ok(Findings { method, tables, statements: vec![coverage.of_every("such paths", judge(&cells, &absent))] })
}

fn cell(
    bench: &Bench<'_>,
    path: &Path,
    size_s: f64,
    found: &[Box<dyn Copier>],
    rounds: usize,
) -> Result<Cell, ExperimentError> {
    let payload = Payload::file(bench, (path.scenario.bottleneck_mbit * 1e6 / 8.0 * size_s) as u64)?;
    let limit = Duration::from_secs_f64((PATIENCE * best_s(&path.scenario, payload.bytes)).max(LIMIT_S_MIN));
    let route =
        Route { scenario: &path.scenario, is_loopback: false, congestion: copiers::BBR_NAME, round: 0 };
    let runs = interleaved(bench, route, &turns(found, &payload, limit), rounds)?;
    Ok(Cell { path: path.name().into(), rtt_ms: path.scenario.rtt_ms, size_s, runs })
}

/// No copy can take less.
fn best_s(path: &Scenario, bytes: u64) -> f64 {
    bytes as f64 * 8e-6 / path.bottleneck_mbit + path.rtt_ms / 1e3
}

/// longhaul and the best other one, by path.
fn leaders(cells: &[Cell]) -> Table {
    Table::of("leaders", "longhaul and the fastest other program", cells)
        .text("path", |cell| cell.path.as_str())
        .column("file", Unit::Seconds, |cell| cell.size_s)
        .column("longhaul", Unit::Seconds, |cell| cell.ours_s())
        .text("best other", |cell| cell.other().map_or("none was done", |(runs, _)| runs.name))
        .column("its time", Unit::Seconds, |cell| cell.other().map(|(_, seconds)| seconds))
        .column("its time of longhaul's", Unit::Times, |cell| cell.ratio())
        .table()
        .plot(Plot::bars("path", &["longhaul", "its time"]).by("file"))
}

fn table(cells: &[Cell], size_s: f64) -> Table {
    let cells = cells.iter().filter(|cell| cell.size_s == size_s);
    let rows: Vec<(&str, &Runs)> =
        cells.flat_map(|cell| cell.runs.iter().map(|runs| (cell.path.as_str(), runs))).collect();
    let title = format!("A file of {size_s} s at the path's rate");
    let table = Table::of(format!("file_{size_s}s"), title, &rows).text("path", |(path, _)| *path);
    Runs::columns(table, |(_, runs)| runs).table().plot(Plot::bars("path", &["goodput"]).by("program"))
}

fn judge(cells: &[Cell], absent: &str) -> Statement {
    let far: Vec<&Cell> = cells.iter().filter(|cell| cell.rtt_ms >= FAR_MS).collect();
    if far.is_empty() {
        return AHEAD.leave_open("no such path was measured");
    }
    let standings: Vec<(&Cell, Standing)> =
        far.iter().map(|cell| (*cell, standing(&cell.runs, OURS))).collect();
    let behind: Vec<String> = standings.iter().filter_map(|(cell, standing)| cell.behind(standing)).collect();
    let alone: Vec<&str> = standings
        .iter()
        .filter(|(_, standing)| *standing == Standing::Alone)
        .map(|(cell, _)| cell.path.as_str())
        .collect();
    let mut figures = format!("{} of {}", far.len() - behind.len() - alone.len(), far.len());
    if !behind.is_empty() {
        figures = format!("{figures}; not {}", behind.join("; "));
    }
    figures.push_str(&unknown(far.iter().flat_map(|cell| &cell.runs)));
    figures.push_str(absent);
    if behind.is_empty() && !alone.is_empty() {
        return AHEAD.leave_open(format!("{figures}; no other program worked: {}", alone.join("; ")));
    }
    AHEAD.judge(behind.is_empty(), figures).otherwise(WITHOUT)
}

impl Cell {
    fn ours_s(&self) -> Option<f64> {
        named(&self.runs, OURS).and_then(Runs::median_s)
    }

    /// The fastest other one.
    fn other(&self) -> Option<(&Runs, f64)> {
        fastest_but(&self.runs, OURS)
    }

    /// Its time over longhaul's.
    fn ratio(&self) -> Option<f64> {
        Some(self.other()?.1 / self.ours_s()?)
    }

    /// Who was ahead of longhaul here, if anybody was.
    fn behind(&self, standing: &Standing) -> Option<String> {
        let (other, theirs_s) = match standing {
            Standing::Ahead | Standing::Alone => return None,
            Standing::Behind(None) => return Some(format!("{}: not done, by nobody", self.path)),
            Standing::Behind(Some(other)) => other,
        };
        let ours = self.ours_s().map_or("not done".into(), |seconds| format!("{seconds:.2} s"));
        Some(format!("{} ({} s): {other} {theirs_s:.2} s, longhaul {ours}", self.path, self.size_s))
    }
}

/// What to know where others were ahead.
const WITHOUT: &str = "TCP, uftp, UDT, Tsunami and GridFTP here let anybody in, and neither encrypt nor check what arrived; \
                       longhaul's time has its handshake, its measurement of the path and the verification of the file in \
                       it";
/// From here on a path is long.
const FAR_MS: f64 = 20.0;
/// Nobody waits for a program that takes so many times as long as it must.
const PATIENCE: f64 = 4.0;
/// Programs take a while to start and to log in, on a busy host even more.
const LIMIT_S_MIN: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::super::runs::{broken, of};
    use super::*;
    use crate::report::Verdict;
    use crate::report::values_without_a_bar;

    fn judge(cells: &[Cell]) -> Statement {
        super::judge(cells, "")
    }

    fn cell(rtt_ms: f64, ours: &[f64], theirs: &[f64]) -> Cell {
        let failed = |seconds: &[f64]| usize::from(seconds.is_empty());
        let runs = vec![of(OURS, ours, failed(ours)), of("scp", theirs, failed(theirs)), of("qcp", &[], 1)];
        Cell { path: format!("{rtt_ms} ms"), rtt_ms, size_s: 5.0, runs }
    }

    #[test]
    fn whoever_was_ahead_on_a_long_path_is_named() {
        let won = cell(65.0, &[2.0, 1.0, 3.0], &[2.5]);
        assert_eq!(judge(&[won]).verdict, Verdict::Met);
        let statement = judge(&[cell(20.0, &[2.0], &[1.5]), cell(65.0, &[1.0], &[])]);
        assert_eq!(statement.verdict, Verdict::NotMet);
        assert_eq!(statement.figures, "1 of 2; not 20 ms (5 s): scp 1.50 s, longhaul 2.00 s");
        let statement = judge(&[cell(20.0, &[], &[1.5])]);
        assert_eq!(statement.figures, "0 of 1; not 20 ms (5 s): scp 1.50 s, longhaul not done");
        assert_eq!(judge(&[cell(10.0, &[2.0], &[1.5])]).verdict, Verdict::Open);
    }

    #[test]
    fn programs_that_did_not_work_are_not_overtaken() {
        let with = |others: &[Runs]| {
            let runs = [&[of(OURS, &[2.0], 0)], others].concat();
            Cell { path: "65 ms".into(), rtt_ms: 65.0, size_s: 5.0, runs }
        };
        let some = judge(&[with(&[of("scp", &[2.5], 0), broken("qcp")])]);
        assert_eq!(some.verdict, Verdict::Met);
        assert_eq!(some.figures, "1 of 1; failed, so not compared with: qcp (1 x)");
        let none = judge(&[with(&[of("scp", &[2.5], 0)]), with(&[broken("scp"), broken("qcp")])]);
        assert_eq!(none.verdict, Verdict::Open);
        assert!(none.figures.starts_with("1 of 2; failed"), "{}", none.figures);
        assert_eq!(judge(&[with(&[])]).verdict, Verdict::Open, "nobody else is here");
        let behind = judge(&[with(&[of("scp", &[1.5], 0)]), with(&[broken("scp")])]);
        assert_eq!(behind.verdict, Verdict::NotMet);
    }

    #[test]
    fn every_size_of_file_has_bars_of_its_own() {
        let of_size = |size_s: f64| Cell { size_s, ..cell(65.0, &[size_s + 1.0], &[size_s + 2.0]) };
        let cells = [1.0, 5.0, 20.0].map(of_size);
        let tables = [leaders(&cells), table(&cells, 1.0), table(&cells, 20.0)];
        assert_eq!(tables.each_ref().map(values_without_a_bar), [vec![], vec![], vec![]]);
    }

    #[test]
    fn there_are_many_paths_and_three_quick_ones_that_are_long() {
        let paths = Path::table(paths::VERSUS);
        assert!(paths.len() >= 12);
        assert!(paths.iter().filter(|path| path.is_quick && path.scenario.rtt_ms >= FAR_MS).count() >= 3);
    }
}
