//! ptcp-routes: parallel TCPs over several routes, of which routers choose one for each connection by a hash of its addresses
//! and ports (ECMP), and what becomes of them when a route fails.

mod failing;
mod measured;
mod simulated;
mod verdicts;

use super::{Condition, Contender, FULL, MSS, path};
use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::report::{Findings, Plane, Plot, Table, Unit};
use longhaul_sim::metrics::{Summary, jain};
use longhaul_sim::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

pub(super) const EXPERIMENT: Experiment = Experiment::either(
    "ptcp-routes",
    "Parallel TCPs over up to four routes, of which each connection takes one by a hash, and a route that fails",
    &verdicts::CLAIMS,
    report,
);

/// How routes differ. Their rates add up to the same, and so do their round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differ {
    Nothing,
    Rates,
    Delays,
}

/// What the paper does not give.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    differ: Differ,
    condition: Condition,
}

impl Setting {
    /// All that routes can differ in with each of these windows; routes alike with the other buffers, and without selective
    /// acknowledgements.
    fn all(windows: &[Option<f64>], buffers: &[f64]) -> Vec<Setting> {
        let [first, others @ ..] = buffers else { return vec![] };
        let plain = Condition { buffer_bdp: *first, window: None, sack: true };
        let of = |window| {
            [Differ::Nothing, Differ::Rates, Differ::Delays]
                .map(|differ| Setting { differ, condition: Condition { window, ..plain } })
        };
        let alike = |condition| Setting { differ: Differ::Nothing, condition };
        let other_buffers = others.iter().map(|&buffer_bdp| alike(Condition { buffer_bdp, ..plain }));
        let without_sack = alike(Condition { sack: false, ..plain });
        windows.iter().flat_map(|&window| of(window)).chain(other_buffers).chain([without_sack]).collect()
    }

    /// Who is looked at under it: TCPs' windows and acknowledgements do not change our own control.
    fn minds(&self, contender: &Contender) -> bool {
        (self.condition.window.is_none() && self.condition.sack) || *contender != Contender::Adaptive
    }

    /// Each of so many routes.
    fn paths(&self, routes: usize, seed: u64) -> Vec<Scenario> {
        let of = |route: usize| {
            let times = 2.0 * (route + 1) as f64 / (routes + 1) as f64;
            let alike = path(self.condition.buffer_bdp, seed + (route as u64) * ROUTE_SEEDS);
            match self.differ {
                Differ::Nothing => alike,
                Differ::Rates => Scenario { bottleneck_mbit: alike.bottleneck_mbit * times, ..alike },
                Differ::Delays => Scenario { rtt_ms: alike.rtt_ms * times, ..alike },
            }
        };
        (0..routes).map(of).collect()
    }

    /// For the names of tables.
    fn key(&self) -> String {
        let differ = match self.differ {
            Differ::Nothing => "alike",
            Differ::Rates => "rates",
            Differ::Delays => "delays",
        };
        format!("{differ}_{}", self.condition.key())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differ = match self.differ {
            Differ::Nothing => "routes alike",
            Differ::Rates => "unlike rates",
            Differ::Delays => "unlike delays",
        };
        write!(f, "{differ}, {}", self.condition)
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cell {
    /// Routes that have a connection, as a share of all.
    used: f64,
    /// What these carry of data, as a share of what all do.
    reached: f64,
    /// What the connections got of that.
    share: f64,
    /// What they would get if each carried an equal part of the data, so that the slowest decided.
    equal_parts: f64,
    loss: f64,
    jain: f64,
}

impl Cell {
    /// From what each connection got, on which of the routes there was one, and what these dropped.
    fn of(goodputs_mbps: &[f64], is_used: &[bool], paths: &[Scenario], loss: f64) -> Cell {
        let rate = |wanted: fn(bool) -> bool| -> f64 {
            let used = paths.iter().zip(is_used).filter(|(_, is_used)| wanted(**is_used));
            used.map(|(path, _)| path.bottleneck_mbit).sum()
        };
        let (all_mbps, reached_mbps) = (rate(|_| true) * FULL, rate(|is_used| is_used) * FULL);
        let slowest = goodputs_mbps.iter().copied().fold(f64::INFINITY, f64::min);
        Cell {
            used: is_used.iter().filter(|used| **used).count() as f64 / is_used.len() as f64,
            reached: reached_mbps / all_mbps,
            share: goodputs_mbps.iter().sum::<f64>() / all_mbps,
            equal_parts: slowest * goodputs_mbps.len() as f64 / all_mbps,
            loss,
            jain: jain(goodputs_mbps),
        }
    }
}

/// What is run.
struct Plan<'a> {
    settings: Vec<Setting>,
    contenders: Vec<Contender>,
    /// How many of them, from the first on, are looked at in other settings than the first.
    everywhere: usize,
    routes: &'a [usize],
    counts: &'a [u64],
    seeds: Range<u64>,
}

/// One of its runs.
#[derive(Clone, Copy)]
struct Job<'a> {
    setting: &'a Setting,
    contender: &'a Contender,
    routes: usize,
    count: u64,
    seed: u64,
}

impl Plan<'_> {
    fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = vec![];
        for (at, setting) in self.settings.iter().enumerate() {
            let contenders = if at == 0 { &self.contenders } else { &self.contenders[..self.everywhere] };
            for contender in contenders.iter().filter(|one| setting.minds(one)) {
                for &routes in self.routes {
                    for &count in self.counts {
                        let job = move |seed| Job { setting, contender, routes, count, seed };
                        jobs.extend(self.seeds.clone().map(job));
                    }
                }
            }
        }
        jobs
    }

    /// The figures of all its runs.
    fn grids(&self, cells: &[Cell]) -> Vec<(Setting, Vec<Row>)> {
        let seeds = self.seeds.clone().count();
        let jobs = self.jobs();
        let rows = jobs.chunks(seeds).zip(cells.chunks(seeds)).map(|(jobs, cells)| {
            let Job { setting, contender, routes, count, .. } = jobs[0];
            (*setting, Row { contender: contender.clone(), routes, count, cells: cells.to_vec() })
        });
        let rows: Vec<_> = rows.collect();
        let by_setting = rows.chunk_by(|a, b| a.0 == b.0);
        by_setting.map(|rows| (rows[0].0, rows.iter().map(|row| row.1.clone()).collect())).collect()
    }
}

/// So many connections over so many routes: what came of it with each seed.
#[derive(Clone, Debug)]
struct Row {
    contender: Contender,
    routes: usize,
    count: u64,
    cells: Vec<Cell>,
}

impl Row {
    fn of(&self, figure: impl Fn(&Cell) -> f64) -> Summary {
        Summary::of(self.cells.iter().map(figure))
    }

    fn mean(&self, figure: impl Fn(&Cell) -> f64) -> f64 {
        self.of(figure).mean
    }

    /// The share of routes that a fair hash gives these connections.
    fn expected(&self) -> f64 {
        1.0 - (1.0 - 1.0 / self.routes as f64).powi(self.count as i32)
    }
}

/// What came of it.
struct Measured {
    grids: Vec<(Setting, Vec<Row>)>,
    /// What came of routes that failed, where that was looked at.
    failures: Vec<failing::Row>,
    method: Vec<String>,
}

fn report(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let Measured { grids, failures, mut method } = match backend {
        Backend::Simulator(options) => simulated::run(options),
        Backend::Lab(bench) => measured::run(bench)?,
    };
    method.push(format!(
        "Each route is the link of the other ptcp experiments: 10 Mb/s, 100 ms, MSS {MSS}. Where rates or round trips are unlike, \
         they are as 1 : 2 : …, with the same sum. A connection takes a route by chance when it begins, as a hash of \
         addresses and ports does, and keeps it."
    ));
    method.push(
        "Share: what the connections together got of what all routes carry of data. Used: routes that have a connection; \
         expected: 1 − (1 − 1/k)^n for n connections over k routes. Equal parts: what they would get if each carried an equal \
         part of the data, as PSockets' do, so that the slowest decides; connections that take what comes next, as longhaul's \
         streams do, get the share. A share above what is reached: \
         what had come before and waited for what was missing."
            .into(),
    );
    let mut plane = Plane::default();
    for (setting, rows) in &grids {
        plane.push(setting.to_string(), verdicts::of_routes(&setting.condition, rows));
    }
    let tables = grids.iter().flat_map(|(setting, rows)| [wide(setting, rows), long(setting, rows)]);
    let mut findings = plane.findings(method, tables);
    if !failures.is_empty() {
        findings.tables.push(failing::table(&failures));
    }
    findings.statements.extend(verdicts::of_failures(&failures));
    Ok(findings)
}

/// What so many connections got of so many routes, in the mean.
fn wide(setting: &Setting, rows: &[Row]) -> Table {
    let mut counts: Vec<u64> = rows.iter().map(|row| row.count).collect();
    counts.sort_unstable();
    counts.dedup();
    let names: Vec<String> = counts.iter().map(|count| format!("n = {count}")).collect();
    let lines: Vec<&[Row]> =
        rows.chunk_by(|a, b| (&a.contender, a.routes) == (&b.contender, b.routes)).collect();
    let title = format!("Share of all routes by connections: {setting}");
    Table::of(format!("share_{}", setting.key()), title, &lines)
        .text("variant", |line| line[0].contender.name())
        .column("routes", Unit::Number, |line| line[0].routes)
        .columns(&names, Unit::Share, |line, at| line.get(at).map(|row| row.mean(|cell| cell.share)))
        .table()
}

/// All figures.
fn long(setting: &Setting, rows: &[Row]) -> Table {
    let title = format!("Over several routes: {setting}");
    Table::of(setting.key(), title, rows)
        .text("variant", |row| row.contender.name())
        .text("over", |row| format!("{}, {} routes", row.contender.name(), row.routes))
        .column("routes", Unit::Number, |row| row.routes)
        .column("connections", Unit::Number, |row| row.count)
        .column("expected", Unit::Share, Row::expected)
        .column("used", Unit::Share, |row| row.mean(|cell| cell.used))
        .column("share", Unit::Share, |row| row.mean(|cell| cell.share))
        .column("least", Unit::Share, |row| row.of(|cell| cell.share).min)
        .column("most", Unit::Share, |row| row.of(|cell| cell.share).max)
        .column("deviation", Unit::Share, |row| row.of(|cell| cell.share).sd)
        .column("equal parts", Unit::Share, |row| row.mean(|cell| cell.equal_parts))
        .column("loss", Unit::Share, |row| row.mean(|cell| cell.loss))
        .column("Jain index", Unit::Number, |row| row.mean(|cell| cell.jain))
        .table()
        .detail()
        .plot(Plot::lines("connections", &["share"]).by("over"))
}

/// Numbers of connections.
const COUNTS: [u64; 6] = [1, 2, 3, 5, 10, 20];
/// So far apart are the seeds of the routes of a run.
const ROUTE_SEEDS: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_add_up_to_the_same_whatever_they_differ_in() {
        for setting in Setting::all(&[None], &[1.0, 0.25]) {
            let paths = setting.paths(4, 1);
            let sum = |of: fn(&Scenario) -> f64| paths.iter().map(of).sum::<f64>();
            assert!((sum(|path| path.bottleneck_mbit) - 40.0).abs() < 1e-9, "{setting}");
            assert!((sum(|path| path.rtt_ms) - 400.0).abs() < 1e-9, "{setting}");
            assert_ne!(paths[0].seed, paths[1].seed);
        }
        assert_eq!(Setting::all(&[None, Some(0.1)], &[1.0, 0.25, 2.0]).len(), 9);
    }

    #[test]
    fn what_the_hash_reaches_counts_by_rate_and_the_slowest_decides_over_equal_parts() {
        let setting = Setting { differ: Differ::Rates, ..Setting::all(&[None], &[1.0])[0] };
        // 6.67 and 13.33 Mb/s
        let paths = setting.paths(2, 1);
        let cell = Cell::of(&[4.0, 8.0], &[false, true], &paths, 0.01);
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        near(cell.used, 0.5);
        near(cell.reached, 2.0 / 3.0);
        near(cell.share, 12.0 / (20.0 * FULL));
        near(cell.equal_parts, 8.0 / (20.0 * FULL));
        near(cell.jain, 0.9);
    }
}
