//! A population of wide-area paths such as those between the 20 hosts of the PCP paper's measurements.
//!
//! The paper gives no parameters of its paths. What follows is drawn once for all protocols, from what such hosts
//! had in 2005: universities on 100 Mb/s Ethernet, sites on T3 lines and 10 Mb/s Ethernet, a few on cable.

use crate::sim::classic_tcp;
use fastrand::Rng;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::impair::mix;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Distribution, Traffic};
use longhaul_sim::workload::{FlowRecord, Workload};
use std::fmt;
use std::time::Duration;

/// One directed path.
#[derive(Clone, Debug, PartialEq)]
pub struct WidePath {
    /// Rate, round trip, queue, random loss, seed.
    pub scenario: Scenario,
    /// Share of the bottleneck that others' short flows ask for.
    pub cross_load: f64,
}

/// What the paper does not give of its hosts and paths, and what may have been otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// Share of the hosts with an access line of [`SLOW_MBIT`].
    pub slow_share: f64,
    /// The most that a lossy path loses.
    pub loss_most: f64,
    /// The most of a path that others ask for.
    pub others_most: f64,
}

impl Population {
    /// The first is the one that was drawn before anything was measured.
    pub const ALL: [Population; 14] = [
        Population::of(0.0, 0.05),
        Population::of(0.0, 0.1),
        Population::of(0.0, 0.15),
        Population::of(0.0, 0.3),
        Population::of(0.2, 0.05),
        Population::of(0.2, 0.1),
        Population::of(0.2, 0.15),
        Population::of(0.2, 0.3),
        Population { others_most: 0.4, ..Population::of(0.0, 0.05) },
        Population { others_most: 0.4, ..Population::of(0.0, 0.1) },
        Population::of(0.1, 0.05),
        Population::of(0.1, 0.1),
        Population::of(0.1, 0.15),
        Population::of(0.1, 0.3),
    ];

    const fn of(slow_share: f64, loss_most: f64) -> Population {
        Population { slow_share, loss_most, others_most: 0.8 }
    }
}

/// In words.
impl fmt::Display for Population {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Population { slow_share, loss_most, others_most } = self;
        write!(f, "{:.0} % slow hosts, losses up to {:.0} %", slow_share * 100.0, loss_most * 100.0)?;
        match *others_most < Population::ALL[0].others_most {
            true => write!(f, ", others' traffic up to {:.0} %", others_most * 100.0),
            false => Ok(()),
        }
    }
}

/// The paths between all pairs of [`HOSTS`] hosts, in both directions. The same draws make the hosts and paths of every
/// population, so that they differ in nothing but what is slow or lossy.
pub fn paths(seed: u64, population: Population) -> Vec<WidePath> {
    let mut rng = Rng::with_seed(mix(seed ^ POPULATION_SEED));
    let mut slow = Rng::with_seed(mix(seed ^ SLOW_SEED));
    let hosts: Vec<Host> = (0..HOSTS)
        .map(|_| {
            let host = Host::draw(&mut rng);
            let is_slow = slow.f64() < population.slow_share;
            Host { access_mbit: if is_slow { SLOW_MBIT } else { host.access_mbit }, ..host }
        })
        .collect();
    let mut paths = Vec::with_capacity(HOSTS * (HOSTS - 1));
    for (i, from) in hosts.iter().enumerate() {
        for (j, to) in hosts.iter().enumerate() {
            if i != j {
                paths.push(from.path_to(to, population, &mut rng));
            }
        }
    }
    paths
}

/// What is drawn, for a report.
pub fn describe() -> String {
    format!(
        "{} directed paths between {HOSTS} hosts, drawn once from a population of ours (the paper gives none): hosts \
         somewhere on {CONTINENT_KM:?} km, round trips {RTT_LEAST_MS} ms + twice the distance at {KM_PER_MS} km/ms; access \
         100 (half of them), 45, 10 or 5 Mb/s, the lesser of both ends is the bottleneck; its drop-tail queue holds 10 to \
         200 ms (log-uniform); others' short TCP flows (Pareto {CROSS_SHAPE}, {:.0} kB in the mean) ask for 10 to 80 % of \
         it; a third of the paths lose packets elsewhere too, 0.1 to 5 % (log-uniform), {BURST_PACKETS} in a row in the mean \
         (as measured between the hosts of the same test-bed, IMC 2003). Other populations have the same hosts and paths, but \
         some hosts have access lines of {SLOW_MBIT} Mb/s, lossy paths lose more, or others ask for 10 to 40 %.",
        HOSTS * (HOSTS - 1),
        CROSS_BYTES / 1e3
    )
}

impl WidePath {
    /// Seconds that each of the first traffic's flows takes over it in the simulator; of those that are stopped at `max`, until
    /// then.
    pub fn simulate(&self, traffic: impl IntoIterator<Item = Traffic>, max: Duration) -> Vec<f64> {
        let traffic = traffic.into_iter().chain([self.cross_traffic()]).collect();
        let mut workload = Workload::new(PathConfig::new(&self.scenario), traffic, Time::ZERO + max);
        workload.seed = self.scenario.seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let seconds =
            |flow: &FlowRecord| flow.delivered.unwrap_or(flow.ended).since(flow.started).as_secs_f64();
        measured.of(0).map(seconds).collect()
    }

    /// What others send over the path from the beginning on.
    pub fn cross_traffic(&self) -> Traffic {
        let rate = Rate::from_mbps(self.scenario.bottleneck_mbit);
        let sizes = Distribution::Pareto { shape: CROSS_SHAPE, mean: CROSS_BYTES };
        Traffic::others(classic_tcp(true), sizes, self.cross_load, rate, Time::MAX)
    }
}

/// Where a host is, and how it is connected.
#[derive(Clone, Copy, Debug)]
struct Host {
    east_km: f64,
    north_km: f64,
    access_mbit: f64,
}

impl Host {
    fn draw(rng: &mut Rng) -> Host {
        Host {
            east_km: rng.f64() * CONTINENT_KM.0,
            north_km: rng.f64() * CONTINENT_KM.1,
            access_mbit: ACCESS_MBIT[rng.usize(..ACCESS_MBIT.len())],
        }
    }

    fn path_to(&self, to: &Host, population: Population, rng: &mut Rng) -> WidePath {
        let distance_km = (self.east_km - to.east_km).hypot(self.north_km - to.north_km);
        let rtt_ms = RTT_LEAST_MS + 2.0 * distance_km / KM_PER_MS;
        let bottleneck_mbit = self.access_mbit.min(to.access_mbit);
        let queue_ms = log_uniform(rng, 10.0, 200.0);
        let is_lossy = rng.f64() < LOSSY_SHARE;
        let loss = log_uniform(rng, LOSS_LEAST, population.loss_most);
        let cross_load = Distribution::Uniform { from: 0.1, to: population.others_most }.sample(rng);
        let scenario = Scenario {
            queue_kb: Some(bottleneck_mbit * queue_ms / 8.0),
            loss: if is_lossy { loss } else { 0.0 },
            burst: is_lossy.then_some(BURST_PACKETS),
            seed: rng.u64(..),
            ..Scenario::new(bottleneck_mbit, rtt_ms)
        };
        WidePath { scenario, cross_load }
    }
}

fn log_uniform(rng: &mut Rng, from: f64, to: f64) -> f64 {
    from * (to / from).powf(rng.f64())
}

/// The paper's.
const HOSTS: usize = 20;
/// About the continent that the paper's hosts were on.
const CONTINENT_KM: (f64, f64) = (4000.0, 2000.0);
/// Light in fibre makes 200 km a millisecond, and routes are half as long again as straight lines.
const KM_PER_MS: f64 = 133.0;
/// Access lines at both ends.
const RTT_LEAST_MS: f64 = 6.0;
const ACCESS_MBIT: [f64; 10] = [100.0, 100.0, 100.0, 100.0, 100.0, 45.0, 45.0, 10.0, 10.0, 5.0];
/// A T1 or DSL line.
const SLOW_MBIT: f64 = 1.5;
const LOSSY_SHARE: f64 = 1.0 / 3.0;
const LOSS_LEAST: f64 = 0.001;
/// Between hosts of the same test-bed, 70 % of the packets right behind a lost one are lost, too (Andersen, Snoeren and
/// Balakrishnan, *Best-Path vs. Multi-Path Overlay Routing*, IMC 2003): 1/(1 − 0.7).
const BURST_PACKETS: f64 = 3.3;
/// Objects of web pages.
const CROSS_BYTES: f64 = 20e3;
const CROSS_SHAPE: f64 = 1.2;
/// Tells this draw from others with the same seed.
const POPULATION_SEED: u64 = 0x20_0380;
const SLOW_SEED: u64 = 0x15;

#[cfg(test)]
mod tests {
    use super::paths as drawn;
    use super::*;

    #[test]
    fn the_population_is_what_it_is_said_to_be() {
        let paths = drawn(1, Population::ALL[0]);
        assert_eq!(paths.len(), 380);
        for path in &paths {
            let scenario = &path.scenario;
            scenario.validate().unwrap();
            assert!((6.0..75.0).contains(&scenario.rtt_ms), "{}", scenario.rtt_ms);
            assert!((5.0..=100.0).contains(&scenario.bottleneck_mbit));
            assert!((0.1..0.8).contains(&path.cross_load));
        }
        let lossy = paths.iter().filter(|path| path.scenario.loss > 0.0).count();
        assert!((90..165).contains(&lossy), "{lossy}");
        assert_eq!(paths[7].scenario, drawn(1, Population::ALL[0])[7].scenario);
        assert_ne!(paths[7].scenario, drawn(2, Population::ALL[0])[7].scenario);
    }

    #[test]
    fn populations_differ_in_what_is_slow_or_lossy_or_used_by_others_alone() {
        let first = drawn(1, Population::ALL[0]);
        for population in Population::ALL {
            let paths = drawn(1, population);
            let slow = paths.iter().filter(|path| path.scenario.bottleneck_mbit == SLOW_MBIT).count();
            assert_eq!(slow > 0, population.slow_share > 0.0);
            for (path, first) in paths.iter().zip(&first) {
                assert_eq!(path.scenario.rtt_ms, first.scenario.rtt_ms);
                // The same draw, of less.
                let drawn = |load: f64, most: f64| (load - 0.1) / (most - 0.1);
                let wanted = drawn(first.cross_load, Population::ALL[0].others_most);
                assert!((drawn(path.cross_load, population.others_most) - wanted).abs() < 1e-9);
                assert!((first.scenario.loss..=population.loss_most).contains(&path.scenario.loss));
                assert_eq!(path.scenario.loss > 0.0, first.scenario.loss > 0.0);
            }
        }
    }
}
