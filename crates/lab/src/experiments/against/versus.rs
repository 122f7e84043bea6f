//! versus: longhaul and every other program that is here, over many paths.

use super::runs::{Runs, Standing, absent, fastest_but, interleaved, named, standing, times, turns, unknown};
use crate::Scenario;
use crate::experiments::bench::Bench;
use crate::experiments::peers::{self, Cargo, OURS, Peer, Route};
use crate::experiments::{Claim, Experiment, ExperimentError, Findings, Statement};
use longhaul_sim::experiments::{Column, Plot, Table, Unit, Value};
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "versus",
    title: "The same file by longhaul and by every other program that is here, over many paths",
    claims: &[AHEAD],
    has_parts: true,
    measure,
};

const AHEAD: Claim = Claim::ours(
    "longhaul ahead of every other program in median time on every path with a round trip of 20 ms or more",
);

/// A path, and whether a quick run takes it.
struct Path {
    mbit: f64,
    rtt_ms: f64,
    loss: f64,
    queue_bdp: f64,
    is_quick: bool,
}

const fn path(mbit: f64, rtt_ms: f64, loss: f64) -> Path {
    Path { mbit, rtt_ms, loss, queue_bdp: 1.0, is_quick: false }
}

impl Path {
    const fn quick(self) -> Path {
        Path { is_quick: true, ..self }
    }

    const fn queue(self, queue_bdp: f64) -> Path {
        Path { queue_bdp, ..self }
    }

    fn name(&self) -> String {
        let loss = if self.loss > 0.0 { format!(", loss {} %", self.loss * 100.0) } else { String::new() };
        let queue =
            if self.queue_bdp == 1.0 { String::new() } else { format!(", queue {} BDP", self.queue_bdp) };
        format!("{} Mb/s, {} ms{loss}{queue}", self.mbit, self.rtt_ms)
    }

    fn scenario(&self) -> Scenario {
        let path = Scenario::new(self.mbit, self.rtt_ms);
        Scenario { name: self.name(), loss: self.loss, queue_bdp: Some(self.queue_bdp), ..path }
    }

    /// No copy can take less.
    fn best_s(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e-6 / self.mbit + self.rtt_ms / 1e3
    }
}

/// Near and far, narrow and wide, clean and lossy, and queues that are too short or too long.
const PATHS: [Path; 14] = [
    path(100.0, 65.0, 0.0).quick(),
    path(100.0, 65.0, 0.01).quick(),
    path(500.0, 40.0, 0.0001).quick(),
    path(100.0, 1.0, 0.0),
    path(100.0, 10.0, 0.001),
    path(100.0, 26.0, 0.0),
    path(100.0, 65.0, 0.001),
    path(20.0, 150.0, 0.005),
    path(25.0, 560.0, 0.005),
    path(200.0, 100.0, 0.0),
    path(200.0, 100.0, 0.02),
    path(500.0, 20.0, 0.0),
    path(100.0, 65.0, 0.0).queue(0.2),
    path(50.0, 40.0, 0.0).queue(5.0),
];

/// To see that everything works.
const SMOKE_PATH: Path = path(100.0, 20.0, 0.0);

/// All copies of one size over one path.
struct Cell {
    path: String,
    rtt_ms: f64,
    /// Of the file, as so many seconds of the path's rate.
    size_s: f64,
    runs: Vec<Runs>,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let sizes_s: &[f64] = bench.pick(&[1.0, 5.0, 20.0], &[2.5], &[0.1]);
    let rounds = bench.pick(5, 1, 1);
    let all: &[Path] = bench.pick(&PATHS, &PATHS, &[SMOKE_PATH]);
    let is_whole = bench.pick(true, false, true);
    let is_wanted = |path: &&Path| bench.wants(&path.name(), is_whole || path.is_quick);
    let paths: Vec<&Path> = all.iter().filter(is_wanted).collect();
    bench.check_parts()?;
    let (found, missing) = peers::present(peers::all());
    let absent = absent(&missing);
    let far = |paths: &[&Path]| paths.iter().filter(|path| path.rtt_ms >= FAR_MS).count();
    let coverage = bench.coverage_of(far(&paths), far(&PATHS.each_ref()));
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
    method.extend(peers::setups(peers::BBR_NAME, &found, &missing));
    let mut tables = vec![leaders(&cells)];
    tables.extend(sizes_s.iter().map(|&size_s| table(&cells, size_s)));
    Ok(Findings { method, tables, statements: vec![coverage.of_every("such paths", judge(&cells, &absent))] })
}

fn cell(
    bench: &Bench<'_>,
    path: &Path,
    size_s: f64,
    found: &[Box<dyn Peer>],
    rounds: usize,
) -> Result<Cell, ExperimentError> {
    let cargo = Cargo::file(bench, (path.mbit * 1e6 / 8.0 * size_s) as u64)?;
    let limit = Duration::from_secs_f64((PATIENCE * path.best_s(cargo.bytes)).max(LIMIT_S_MIN));
    let scenario = path.scenario();
    let route = Route { scenario: &scenario, is_loopback: false, congestion: peers::BBR_NAME, round: 0 };
    let runs = interleaved(bench, route, &turns(found, &cargo, limit), rounds)?;
    Ok(Cell { path: path.name(), rtt_ms: path.rtt_ms, size_s, runs })
}

/// longhaul and the best other one, by path.
fn leaders(cells: &[Cell]) -> Table {
    let columns = vec![
        Column::text("path"),
        Column::new("file", Unit::Seconds),
        Column::new("longhaul", Unit::Seconds),
        Column::text("best other"),
        Column::new("its time", Unit::Seconds),
        Column::new("its time of longhaul's", Unit::Times),
    ];
    let mut table = Table::new("leaders", "longhaul and the fastest other program", columns);
    for cell in cells {
        let ours = named(&cell.runs, OURS).and_then(Runs::median_s);
        let other = fastest_but(&cell.runs, OURS);
        let ratio = other.zip(ours).map(|((_, theirs), ours)| theirs / ours);
        table.push(vec![
            cell.path.clone().into(),
            cell.size_s.into(),
            ours.into(),
            other.map_or("none was done", |(runs, _)| runs.name).into(),
            other.map(|(_, seconds)| seconds).into(),
            ratio.into(),
        ]);
    }
    table.plot(Plot::bars("path", &["longhaul", "its time"]).by("file"))
}

fn table(cells: &[Cell], size_s: f64) -> Table {
    let mut columns = vec![Column::text("path")];
    columns.extend(Runs::columns());
    let title = format!("A file of {size_s} s at the path's rate");
    let mut table = Table::new(format!("file_{size_s}s"), title, columns);
    for cell in cells.iter().filter(|cell| cell.size_s == size_s) {
        for runs in &cell.runs {
            let mut row: Vec<Value> = vec![cell.path.clone().into(), runs.name.into()];
            row.extend(runs.values());
            table.push(row);
        }
    }
    table.plot(Plot::bars("path", &["goodput"]).by("program"))
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
    /// Who was ahead of longhaul here, if anybody was.
    fn behind(&self, standing: &Standing) -> Option<String> {
        let (other, theirs_s) = match standing {
            Standing::Ahead | Standing::Alone => return None,
            Standing::Behind(None) => return Some(format!("{}: not done, by nobody", self.path)),
            Standing::Behind(Some(other)) => other,
        };
        let ours_s = named(&self.runs, OURS).and_then(Runs::median_s);
        let ours = ours_s.map_or("not done".into(), |seconds| format!("{seconds:.2} s"));
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
    use crate::experiments::Verdict;
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
        assert!(PATHS.len() >= 12);
        assert!(PATHS.iter().filter(|path| path.is_quick && path.rtt_ms >= FAR_MS).count() >= 3);
    }
}
