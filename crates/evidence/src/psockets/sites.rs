//! psockets-sc99: six machines at three sites, two at each, send to one exhibition floor (section 5), in the simulator.

use super::{OTHERS_BYTES, OTHERS_SHAPE, OTHERS_SIZES};
use crate::experiment::Experiment;
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use crate::sim::{Options, classic_tcp, run_jobs};
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Pair, Traffic};
use longhaul_sim::workload::{Measured, Workload};
use longhaul_sim::{HopId, Route};
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment::simulated(
    "psockets-sc99",
    "Six machines at three sites, 45 to 155 Mb/s, send to one floor (section 5)",
    &[MOST_OF_IT, ONE_SOCKET],
    run,
);

const MOST_OF_IT: Claim = Claim::paper(
    "PSockets §5",
    "the six machines get 240 of 300 Mb/s (three quarters at least, with the best number of sockets)",
);
const ONE_SOCKET: Claim =
    Claim::ours("which plain sockets do not (less than half, with one for each machine)");

/// A run: sockets of each machine, and the share of each site's line that others ask for.
#[derive(Clone, Copy, Debug)]
struct Job {
    sockets: u64,
    others: f64,
    seed: u64,
}

impl Job {
    /// What the six machines' programs could read, Mb/s: of each machine as much from every socket as from its slowest.
    fn run(&self, seconds: u64) -> f64 {
        let hops: Vec<PathConfig> = SITES.iter().map(|site| PathConfig::new(&site.path(self.seed))).collect();
        let machines = (0..SITES.len()).flat_map(|site| [site; MACHINES]);
        let mut traffic: Vec<Traffic> = machines.map(|site| self.machine(site)).collect();
        let own = traffic.len();
        if self.others > 0.0 {
            traffic.extend(SITES.iter().enumerate().map(|(at, site)| self.others(at, site)));
        }
        let until = Time::from_millis(seconds * 1000);
        let mut workload = Workload { hops: hops.clone(), ..Workload::new(hops[0].clone(), traffic, until) };
        workload.seed = self.seed;
        workload.measure_from = SETTLED;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        (0..own).map(|machine| readable_mbps(&measured, machine)).sum()
    }

    fn machine(&self, site: usize) -> Traffic {
        let arrivals = Arrivals::Staggered { from: Time::ZERO, gap: START_GAP, count: self.sockets };
        Traffic {
            pairs: vec![over(site)],
            ..Traffic::new(FlowSpec::new(classic_tcp(false), ENDLESS), arrivals)
        }
    }

    fn others(&self, at: usize, site: &Site) -> Traffic {
        let rate = Rate::from_mbps(site.mbit);
        let others = Traffic::others(classic_tcp(false), OTHERS_SIZES, self.others, rate, Time::MAX);
        Traffic { pairs: vec![over(at)], ..others }
    }
}

fn over(site: usize) -> Pair {
    Pair { route: Route::over(HopId::new(site as u32)), ..Pair::default() }
}

fn readable_mbps(measured: &Measured, machine: usize) -> f64 {
    let goodputs = measured.goodputs(machine);
    let slowest = goodputs.iter().copied().fold(f64::INFINITY, f64::min);
    slowest * goodputs.len() as f64 * 1e-6
}

fn run(options: &Options<'_>) -> Findings {
    let counts: &[u64] = options.scale.pick(&COUNTS, &COUNTS, &COUNTS[..2]);
    let others: &[f64] = options.scale.pick(&OTHERS, &OTHERS, &OTHERS[..1]);
    let (seconds, seeds) = options.scale.pick((64, 5), (24, 2), (6, 1));
    let mut jobs = vec![];
    for &others in others {
        for &sockets in counts {
            jobs.extend((0..seeds).map(|n| Job { sockets, others, seed: options.seed + n }));
        }
    }
    let found = run_jobs(options, &jobs, |job| job.run(seconds));
    let means: Vec<f64> =
        found.chunks(seeds as usize).map(|mbps| mbps.iter().sum::<f64>() / seeds as f64).collect();
    let mut plane = Plane::default();
    let mut rows = vec![];
    for (&others, mbps) in others.iter().zip(means.chunks(counts.len())) {
        let points: Vec<(u64, f64)> = counts.iter().copied().zip(mbps.iter().copied()).collect();
        plane.push(format!("others asking for {:.0} %", others * 100.0), judge(&points));
        rows.extend(points.into_iter().map(|(sockets, mbps)| (others, sockets, mbps)));
    }
    let sites = SITES.iter().map(|site| format!("{} {} Mb/s, {} ms", site.name, site.mbit, site.rtt_ms));
    let method = vec![format!(
        "{}; two machines at each, and behind them a floor that is never the limit. Round trips are ours, from the distances; \
         queues of one bandwidth-delay product; NewReno with SACK, windows of 64 KB. What counts is what can be read in order: \
         of each machine as much from every socket as from its slowest. From {} s to {seconds} s, means of {seeds} seed(s). \
         Others: short TCP flows over each site's line (Pareto {OTHERS_SHAPE}, {:.0} kB in the mean).",
        sites.collect::<Vec<_>>().join("; "),
        SETTLED.since(Time::ZERO).as_secs(),
        OTHERS_BYTES / 1e3
    )];
    plane.findings(method, [table(&rows)])
}

fn table(rows: &[(f64, u64, f64)]) -> Table {
    Table::of("goodput", "Goodput of all six machines", rows)
        .column("others ask for", Unit::Share, |(others, ..)| *others)
        .column("sockets", Unit::Number, |(_, sockets, _)| *sockets)
        .column("goodput", Unit::Mbps, |(.., mbps)| *mbps)
        .column("of all", Unit::Share, |(.., mbps)| mbps / all_mbit())
        .table()
        .plot(Plot::lines("sockets", &["goodput"]).by("others ask for"))
}

/// Numbers of sockets and Mb/s with each; the first is one.
fn judge(points: &[(u64, f64)]) -> Vec<Statement> {
    let best = points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let one = points.first().copied().unwrap_or_default();
    let all = all_mbit();
    vec![
        MOST_OF_IT.judge(
            best.1 >= MOST * all,
            format!("{:.0} of {all:.0} Mb/s with {} sockets each", best.1, best.0),
        ),
        ONE_SOCKET.judge(one.1 < 0.5 * all, format!("{:.0} of {all:.0} Mb/s with one socket each", one.1)),
    ]
}

fn all_mbit() -> f64 {
    SITES.iter().map(|site| site.mbit).sum()
}

/// A site's line to the floor.
struct Site {
    name: &'static str,
    mbit: f64,
    rtt_ms: f64,
}

impl Site {
    fn path(&self, seed: u64) -> Scenario {
        Scenario { seed, ..Scenario::new(self.mbit, self.rtt_ms) }
    }
}

/// Their lines are the paper's: a DS3, a switch of Fast Ethernet, an OC-3.
const SITES: [Site; 3] = [
    Site { name: "Virginia", mbit: 45.0, rtt_ms: 75.0 },
    Site { name: "Ann Arbor", mbit: 100.0, rtt_ms: 60.0 },
    Site { name: "Chicago", mbit: 155.0, rtt_ms: 50.0 },
];
const MACHINES: usize = 2;
const COUNTS: [u64; 6] = [1, 4, 8, 12, 16, 24];
const OTHERS: [f64; 3] = [0.0, 0.1, 0.2];
/// 240 of 300 Mb/s are four fifths, of what lines carry, headers too.
const MOST: f64 = 0.75;
const START_GAP: Duration = Duration::from_millis(50);
const SETTLED: Time = Time::from_millis(4000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn one_socket_each_gets_little_and_many_most() {
        let mbps = |sockets| Job { sockets, others: 0.0, seed: 1 }.run(10);
        let points = [1, 12].map(|sockets| (sockets, mbps(sockets)));
        let verdicts: Vec<Verdict> = judge(&points).into_iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Verdict::Reproduced, Verdict::Met], "{points:?}");
    }
}
