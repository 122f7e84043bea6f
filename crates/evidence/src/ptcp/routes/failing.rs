//! One of several routes fails: for good without any router noticing, or until routers choose others for its connections.

use super::super::{Condition, START_GAP, path, tcp};
use super::COUNTS;
use crate::report::{Plot, Table, Unit};
use crate::sim::{Options, run_jobs};
use fastrand::Rng;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSim, FlowSpec};
use longhaul_sim::link::{LinkChange, LinkStep};
use longhaul_sim::metrics::Summary;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::{FlowId, HopId, Limits, Options as SimOptions, Placement, Route, Side};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// So many connections over so many routes, the first of which fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) control: ControllerKind,
    /// When routers notice, seconds after it; `None`: never.
    pub(super) noticed_s: Option<u64>,
    pub(super) routes: usize,
    pub(super) count: u64,
}

/// What came of it with each seed.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) runs: Vec<Outcome>,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Connections over the route that failed.
    pub(super) hit: u64,
    /// Of them, those that had got nothing for some seconds at the end.
    pub(super) stopped: u64,
    /// Goodput in the time after the failure, as a share of that in the time before.
    pub(super) kept: f64,
    /// What the connections over other routes had of the goodput before.
    pub(super) elsewhere: f64,
    /// The longest time after the failure in which nothing came in, of any connection.
    pub(super) pause_s: f64,
}

impl Row {
    /// Those of its runs in which the failed route had a connection.
    pub(super) fn hits(&self) -> impl Iterator<Item = &Outcome> {
        self.runs.iter().filter(|run| run.hit > 0)
    }

    /// The share of runs in which every connection had stopped.
    pub(super) fn all_stopped(&self) -> f64 {
        let stopped = self.runs.iter().filter(|run| run.stopped == self.case.count).count();
        stopped as f64 / self.runs.len().max(1) as f64
    }

    fn of(&self, figure: impl Fn(&Outcome) -> f64) -> Summary {
        Summary::of(self.runs.iter().map(figure))
    }
}

/// Lengths, in seconds.
#[derive(Clone, Copy)]
struct Times {
    fails: u64,
    /// Before the failure, and after it.
    compared: u64,
}

pub(super) fn run(options: &Options<'_>) -> (Vec<Row>, String) {
    let scale = options.scale;
    let times = scale.pick(
        Times { fails: 30, compared: 25 },
        Times { fails: 20, compared: 15 },
        Times { fails: 1, compared: 1 },
    );
    let seeds = scale.pick(10, 5, 1);
    let noticed: &[Option<u64>] = scale.pick(&NOTICED, &NOTICED, &NOTICED[..1]);
    let counts: &[u64] = scale.pick(&COUNTS[..], &[1, 10], &[1]);
    let most_routes = scale.pick(4, 2, 2);
    let mut cases = vec![];
    for control in [ControllerKind::NewReno, ControllerKind::Cubic] {
        for &noticed_s in noticed {
            for routes in 2..=most_routes {
                cases.extend(counts.iter().map(|&count| Case { control, noticed_s, routes, count }));
            }
        }
    }
    let jobs: Vec<(Case, u64)> =
        cases.iter().flat_map(|&case| (0..seeds).map(move |seed| (case, options.seed + seed))).collect();
    let found = run_jobs(options, &jobs, |(case, seed)| case.run(*seed, times));
    let rows = cases.iter().zip(found.chunks(seeds as usize));
    let method = format!(
        "Failure: one of several routes that are alike, after {} s, without others' flows; nothing passes it from then on. Either no \
         router notices, or after some seconds routers choose one of the other routes for each of its connections. Kept: goodput in \
         the {} s after the failure over that in as many before. {seeds} seed(s).",
        times.fails, times.compared
    );
    (rows.map(|(&case, runs)| Row { case, runs: runs.to_vec() }).collect(), method)
}

impl Case {
    fn run(self, seed: u64, times: Times) -> Outcome {
        let mut rng = Rng::with_seed(seed);
        let mut sim =
            FlowSim::with_path(route(seed), SimOptions { trace: TraceMode::Off, ..SimOptions::default() });
        for number in 1..self.routes as u64 {
            sim.add_hop(&route(seed + number));
        }
        let flows: Vec<(FlowId, usize)> = (0..self.count)
            .map(|number| {
                let hop = rng.usize(..self.routes);
                let start = Time::ZERO + START_GAP * number as u32 + START_GAP.mul_f64(rng.f64());
                let spec =
                    FlowSpec { seed: rng.u64(..), ..FlowSpec::new(tcp(self.control, &CONDITION), ENDLESS) };
                let route = Route::over(HopId::new(hop as u32));
                (sim.add(&spec, &Placement { route, ..Placement::at(start) }), hop)
            })
            .collect();
        let fails = Time::from_millis(times.fails * 1000);
        let change = LinkChange::Outage(FOR_GOOD);
        Side::BOTH
            .into_iter()
            .for_each(|side| sim.schedule(HopId::FIRST, side, LinkStep { at: fails, change }));
        let noticed = self.noticed_s.map(|seconds| fails + Duration::from_secs(seconds));
        // What each has got by the end of every tick.
        let mut got: Vec<Vec<u64>> = vec![];
        let ticks = |seconds: u64| (seconds * 1000 / TICK.as_millis() as u64) as usize;
        for tick in 1..=ticks(times.fails + times.compared) {
            let now = Time::ZERO + TICK * tick as u32;
            sim.run(Limits { time: now, ..Limits::default() }, |_| false);
            got.push(flows.iter().map(|(id, _)| sim.stats(*id).bytes_delivered).collect());
            if noticed == Some(now) {
                let of_failed = flows.iter().filter(|(_, hop)| *hop == 0);
                of_failed.for_each(|(id, _)| sim.reroute(*id, HopId::new(rng.u32(1..self.routes as u32))));
            }
        }
        let hops: Vec<usize> = flows.iter().map(|(_, hop)| *hop).collect();
        Outcome::of(&got, &hops, ticks(times.fails) - 1, ticks(times.compared))
    }
}

impl Outcome {
    /// From what each connection had got by the end of every tick, the route of each, in which tick the first failed, and how many
    /// before and after it are compared.
    fn of(got: &[Vec<u64>], hops: &[usize], failed: usize, compared: usize) -> Outcome {
        let last = got.len() - 1;
        let sum = |tick: usize, wanted: &dyn Fn(usize) -> bool| -> u64 {
            got[tick].iter().zip(hops).filter(|(_, hop)| wanted(**hop)).map(|(bytes, _)| bytes).sum()
        };
        let all = |tick| sum(tick, &|_| true);
        let elsewhere = |tick| sum(tick, &|hop| hop != 0);
        let start = failed.saturating_sub(compared);
        let before = (all(failed) - all(start)).max(1) as f64;
        let silent = last.saturating_sub(SILENT_TICKS).max(failed);
        let has_stopped = |(at, hop): (usize, &usize)| *hop == 0 && got[silent][at] == got[last][at];
        // A pause ends with the next byte; the last may not have ended.
        let longest = (failed..last).fold((0, 0), |(longest, pause): (usize, usize), tick| {
            let pause = if all(tick) == all(tick + 1) { pause + 1 } else { 0 };
            (longest.max(pause), pause)
        });
        Outcome {
            hit: hops.iter().filter(|hop| **hop == 0).count() as u64,
            stopped: hops.iter().enumerate().filter(|one| has_stopped(*one)).count() as u64,
            kept: (all(last) - all(failed)) as f64 / before,
            elsewhere: (elsewhere(failed) - elsewhere(start)) as f64 / before,
            pause_s: longest.0 as f64 * TICK.as_secs_f64(),
        }
    }
}

/// What became of them.
pub(super) fn table(rows: &[Row]) -> Table {
    Table::of("failing", "One of several routes fails", rows)
        .text("variant", |row| row.case.control.name())
        .text("noticed", |row| row.case.noticed_s.map_or("never".into(), |after| format!("after {after} s")))
        .column("routes", Unit::Number, |row| row.case.routes)
        .column("connections", Unit::Number, |row| row.case.count)
        .column("kept", Unit::Share, |row| row.of(|run| run.kept).mean)
        .column("least kept", Unit::Share, |row| row.of(|run| run.kept).min)
        .column("stopped", Unit::Share, |row| row.of(|run| run.stopped as f64).mean / row.case.count as f64)
        .column("all stopped", Unit::Share, Row::all_stopped)
        .column("expected", Unit::Share, |row| match row.case.noticed_s {
            None => (1.0 / row.case.routes as f64).powi(row.case.count as i32),
            Some(_) => 0.0,
        })
        .column("longest pause", Unit::Seconds, |row| row.of(|run| run.pause_s).max)
        .table()
        .plot(Plot::points("connections", &["least kept"]).by("noticed"))
}

fn route(seed: u64) -> PathConfig {
    let scenario: Scenario = path(CONDITION.buffer_bdp, seed);
    PathConfig::new(&scenario)
}

/// Windows that no receiver limits, one bandwidth-delay product of buffer, selective acknowledgements.
const CONDITION: Condition = Condition { buffer_bdp: 1.0, window: None, sack: true };
/// How soon routers notice: never, as soon as routers that watch their links do, and as slowly as routing protocols that wait for
/// lost greetings.
const NOTICED: [Option<u64>; 3] = [None, Some(1), Some(10)];
/// How often it is looked at what has come in.
const TICK: Duration = Duration::from_millis(100);
/// Ticks without a byte at the end that make a connection one that stopped.
const SILENT_TICKS: usize = 50;
/// Longer than any run.
const FOR_GOOD: Duration = Duration::from_secs(1 << 20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_after_a_failure_is_compared_with_what_came_before() {
        // Two connections: the first over the route that fails after the third tick.
        let got = [[0, 0], [10, 20], [20, 40], [20, 40], [20, 60]].map(Vec::from);
        let found = Outcome::of(&got, &[0, 1], 2, 2);
        assert_eq!((found.hit, found.stopped), (1, 1));
        assert!((found.kept - 20.0 / 60.0).abs() < 1e-9 && (found.elsewhere - 40.0 / 60.0).abs() < 1e-9);
        assert!((found.pause_s - 0.1).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_single_connection_stops_for_good_unless_routers_notice() {
        let case = Case { control: ControllerKind::NewReno, noticed_s: None, routes: 2, count: 1 };
        let times = Times { fails: 5, compared: 8 };
        let seed = (0..).find(|&seed| Rng::with_seed(seed).usize(..2) == 0).unwrap();
        let found = case.run(seed, times);
        assert_eq!((found.hit, found.stopped, found.elsewhere), (1, 1, 0.0));
        assert!(found.pause_s > 7.0, "{found:?}");
        let found = Case { noticed_s: Some(1), ..case }.run(seed, times);
        assert_eq!((found.hit, found.stopped), (1, 0));
        assert!((1.0..5.0).contains(&found.pause_s) && found.kept > 0.2, "{found:?}");
    }
}
