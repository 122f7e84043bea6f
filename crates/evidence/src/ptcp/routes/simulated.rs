//! The same in the simulator.

use super::super::{BACKGROUND_LOAD, Contender, START_GAP, background};
use super::{COUNTS, Cell, Job, Measured, Plan, Setting, failing};
use crate::sim::{Options, run_jobs};
use longhaul_proto::units::Time;
use longhaul_sim::path::PathConfig;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Pair, Pick};
use longhaul_sim::workload::Workload;
use longhaul_sim::{HopId, Route};

/// Simulate.
pub(super) fn run(options: &Options<'_>) -> Measured {
    let scale = options.scale;
    let counts: &[u64] = scale.pick(&COUNTS[..], &[1, 2, 5, 10], &[1, 3]);
    let routes: &[usize] = scale.pick(&[1, 2, 3, 4], &[1, 2, 4], &[1, 2]);
    let others: &[&str] = scale.pick(&["scalable", "hstcp", "htcp"], &[], &[]);
    let buffers: &[f64] = scale.pick(&[1.0, 0.25, 2.0], &[1.0], &[1.0]);
    let windows: &[_] = scale.pick(&[None, Some(0.1)], &[None, Some(0.1)], &[None]);
    let (seconds, seeds) = scale.pick((50, 10), (30, 3), (1, 1));
    let tcp = |name| Contender::Tcp { name, kernel: String::new() };
    let everywhere = [tcp("newreno"), tcp("cubic"), Contender::Adaptive];
    let plan = Plan {
        settings: Setting::all(windows, buffers),
        everywhere: everywhere.len(),
        contenders: everywhere.into_iter().chain(others.iter().map(|name| tcp(name))).collect(),
        routes,
        counts,
        seeds: options.seed..options.seed + seeds,
    };
    let cells = run_jobs(options, &plan.jobs(), |job| simulate(job, seconds));
    let method = format!(
        "TCPs that begin {} ms after one another; the last two thirds of {seconds} s; {seeds} seed(s). Loss: bytes dropped over \
         bytes sent at all routes. Others' short flows ask for {:.0} % of each route.",
        START_GAP.as_millis(),
        BACKGROUND_LOAD * 100.0
    );
    let (failures, of_failures) = failing::run(options);
    Measured { grids: plan.grids(&cells), failures, method: vec![method, of_failures] }
}

fn simulate(job: &Job<'_>, seconds: u64) -> Cell {
    let Job { setting, contender, routes, count, seed } = *job;
    let paths = setting.paths(routes, seed);
    let pairs: Vec<Pair> = (0..routes).map(|route| Pair { route: over(route), ..Pair::default() }).collect();
    let mut flows = contender.flows(count, &setting.condition);
    (flows.pairs, flows.pick) = (pairs, Pick::AtRandom);
    let others = paths.iter().enumerate().map(|(route, path)| {
        let mut others = background(&setting.condition, path);
        others.pairs = vec![Pair { route: over(route), ..Pair::default() }];
        others
    });
    let traffic = [flows].into_iter().chain(others).collect();
    let until = Time::from_millis(seconds * 1000);
    let hops = paths.iter().map(PathConfig::new).collect();
    let mut workload = Workload {
        hops,
        seed,
        measure_from: Time::from_millis(seconds * 1000 / 3),
        ..Workload::new(PathConfig::new(&paths[0]), traffic, until)
    };
    workload.options.trace = TraceMode::Off;
    let measured = workload.run();
    let mut is_used = vec![false; routes];
    measured.of(0).for_each(|flow| is_used[flow.pair] = true);
    let goodputs: Vec<f64> = measured.goodputs(0).iter().map(|one| one * 1e-6).collect();
    let totals = || measured.hops.iter().map(|hop| hop.forward.totals);
    let dropped: u64 = totals().map(|link| link.dropped_bytes).sum();
    let offered: u64 = totals().map(|link| link.offered_bytes).sum();
    Cell::of(&goodputs, &is_used, &paths, dropped as f64 / offered.max(1) as f64)
}

fn over(route: usize) -> Route {
    Route::over(HopId::new(route as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_connections_get_more_of_two_routes_than_a_single_one_which_has_one() {
        let plan = Plan {
            settings: Setting::all(&[None], &[1.0])[..1].to_vec(),
            contenders: vec![Contender::Tcp { name: "cubic", kernel: String::new() }],
            everywhere: 1,
            routes: &[2],
            counts: &[1, 10],
            seeds: 1..2,
        };
        let cells: Vec<Cell> = plan.jobs().iter().map(|job| simulate(job, 8)).collect();
        assert_eq!((cells[0].used, cells[1].used), (0.5, 1.0));
        assert!(cells[0].share < 0.5 && cells[1].share > 0.6, "{cells:?}");
    }
}
