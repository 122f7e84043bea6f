//! The same in the simulator.

use super::{
    BUFFERS_BDP, COUNTS, Cell, Contender, FULL, Measured, RATE_MBIT, START_GAP, VARIANTS, background, grids,
    path,
};
use crate::sim::{Options, run_jobs};
use longhaul_proto::units::Time;
use longhaul_sim::path::PathConfig;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::workload::Workload;

/// Simulate.
pub(super) fn run(options: &Options<'_>) -> Measured {
    let counts: &[u64] = options.scale.pick(&COUNTS[..], &[1, 5, 10, 30], &[1, 10]);
    let buffers: &[f64] = options.scale.pick(&BUFFERS_BDP[..], &BUFFERS_BDP[..1], &BUFFERS_BDP[..1]);
    let (seconds, seeds) = options.scale.pick((100, 10), (50, 2), (4, 1));
    let tcps = VARIANTS.iter().map(|name| Contender::Tcp { name, kernel: String::new() });
    let contenders: Vec<Contender> = tcps.chain([Contender::Adaptive]).collect();
    let mut jobs = vec![];
    for &buffer_bdp in buffers {
        for contender in &contenders {
            for &count in counts {
                let first = options.seed;
                jobs.extend((first..first + seeds).map(|seed| PtcpRun {
                    buffer_bdp,
                    contender,
                    count,
                    seconds,
                    seed,
                }));
            }
        }
    }
    let cells = run_jobs(options, &jobs, PtcpRun::run);
    let method = format!(
        "TCPs without selective acknowledgements over {RATE_MBIT} Mb/s; flows begin {} ms after one another and run until \
         {seconds} s; the means of {seeds} seed(s). Utilisation: data delivered over capacity ({:.1} % is full: headers); \
         loss: bytes dropped over bytes sent at the link; Jain's index over what each flow got.",
        START_GAP.as_millis(),
        FULL * 100.0
    );
    Measured { grids: grids(buffers, &contenders, counts, seeds, &cells), method: vec![method] }
}

/// A run.
struct PtcpRun<'a> {
    buffer_bdp: f64,
    contender: &'a Contender,
    count: u64,
    seconds: u64,
    seed: u64,
}

impl PtcpRun<'_> {
    fn run(&self) -> Cell {
        let until = Time::from_millis(self.seconds * 1000);
        let scenario = path(self.buffer_bdp, self.seed);
        let traffic = vec![self.contender.flows(self.count), background()];
        let mut workload = Workload::new(PathConfig::new(&scenario), traffic, until);
        workload.seed = self.seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let mbps = measured.goodputs(0).iter().sum::<f64>() * 1e-6;
        Cell {
            utilisation: measured.utilisation(),
            loss: measured.loss_ratio(),
            jain: measured.jain(0),
            mbps,
        }
    }
}
