//! The same in the simulator.

use super::{
    BUFFERS_BDP, COUNTS, Cell, Condition, Contender, FULL, Job, Measured, Plan, RATE_MBIT, START_GAP, Times,
    VARIANTS, WINDOWS_BDP, background, path,
};
use crate::sim::{Options, run_jobs};
use longhaul_proto::units::Time;
use longhaul_sim::path::PathConfig;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::workload::Workload;

/// Simulate.
pub(super) fn run(options: &Options<'_>) -> Measured {
    let counts: &[u64] = options.scale.pick(&COUNTS[..], &[1, 5, 10, 30], &[1, 10]);
    let buffers: &[f64] = options.scale.pick(&BUFFERS_BDP[..], &BUFFERS_BDP[..2], &BUFFERS_BDP[..1]);
    let windows: &[_] = options.scale.pick(&WINDOWS_BDP[..], &WINDOWS_BDP[..3], &WINDOWS_BDP[..1]);
    let (times, seeds) = (Times::of(options.scale), options.scale.pick(10, 2, 1));
    let tcps = VARIANTS.iter().map(|name| Contender::Tcp { name, kernel: String::new() });
    let contenders: Vec<Contender> = tcps.chain([Contender::Adaptive]).collect();
    let plan = Plan {
        conditions: Condition::all(buffers, windows),
        contenders,
        counts,
        seeds: options.seed..options.seed + seeds,
    };
    let cells = run_jobs(options, &plan.jobs(), |job| simulate(job, &times));
    let method = format!(
        "TCPs over {RATE_MBIT} Mb/s; flows begin {} ms after one another and go on. {times}; the means of {seeds} \
         seed(s). Utilisation: data delivered over capacity ({:.1} % is full: headers); \
         loss: bytes dropped over bytes sent at the link; Jain's index over what each flow got.",
        START_GAP.as_millis(),
        FULL * 100.0
    );
    Measured { grids: plan.grids(&cells), method: vec![method], late: (0, 0) }
}

fn simulate(job: &Job<'_>, times: &Times) -> Cell {
    let Job { condition, contender, count, seed } = *job;
    let from = Time::ZERO + times.settle(count);
    let scenario = path(condition.buffer_bdp, seed);
    let traffic = vec![contender.flows(count, condition), background(condition, &scenario)];
    let mut workload = Workload::new(PathConfig::new(&scenario), traffic, from + times.measure);
    (workload.measure_from, workload.seed) = (from, seed);
    workload.options.trace = TraceMode::Off;
    let measured = workload.run();
    Cell {
        utilisation: measured.utilisation(),
        loss: measured.loss_ratio(),
        jain: measured.jain(0),
        mbps: measured.goodputs(0).iter().sum::<f64>() * 1e-6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    /// Without selective acknowledgements a flow repairs one segment a round trip, while megabytes wait.
    #[test]
    fn what_waited_for_a_repair_when_measuring_began_does_not_count() {
        let condition = Condition { buffer_bdp: 2.0, window: None, sack: false };
        let contender = Contender::Tcp { name: "scalable", kernel: String::new() };
        let times = Times::of(Scale::Full);
        for (count, seed) in [1, 5].into_iter().flat_map(|count| (1..=3).map(move |seed| (count, seed))) {
            let job = Job { condition: &condition, contender: &contender, count, seed };
            let used = simulate(&job, &times).utilisation;
            assert!(used <= 1.01 * FULL, "{count} flows, seed {seed}: {used}");
        }
    }
}
