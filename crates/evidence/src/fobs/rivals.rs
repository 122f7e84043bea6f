//! Transfers of the object in the simulator by FOBS, by TCP and by many sockets, while others use the network.

use super::run::{CARD_MBIT, Done, OBJECT_BYTES, OC3_MBIT, PACKET_LEN};
use crate::sim::{Options, classic_tcp, run_jobs};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::object::AckKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::metrics::Summary;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Distribution, Pair, Traffic};
use longhaul_sim::workload::Workload;
use longhaul_sim::{HopId, Route};
use std::time::Duration;

/// A transfer of the object from one host to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) rtt_ms: f64,
    /// Share of the network that others ask for.
    pub(super) load: f64,
    pub(super) way: Way,
}

/// How it is moved.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Fobs,
    Tcp {
        large_windows: bool,
    },
    /// In equal parts over so many sockets with windows of 64 KB.
    Sockets(u64),
}

impl Transfer {
    /// The sending host's card is a hop of its own, since the sockets of a host share it: a queue too long to lose
    /// anything. A greedy sender is held back by the card itself.
    fn run(&self, bytes: u64, seed: u64) -> Done {
        let card = Scenario { queue_kb: Some(CARD_QUEUE_KB), ..Scenario::new(CARD_MBIT, 0.0) };
        let network =
            Scenario { queue_kb: Some(ROUTER_QUEUE_KB), seed, ..Scenario::new(OC3_MBIT, self.rtt_ms) };
        let hops = vec![PathConfig::new(&card), PathConfig::new(&network)];
        let (card_hop, network_hop) = (HopId::FIRST, HopId::new(1));
        let (spec, count) = self.flows(bytes);
        let pair = Pair {
            route: Route::along([card_hop, network_hop]),
            access_rate: matches!(self.way, Way::Fobs).then(|| Rate::from_mbps(CARD_MBIT)),
            ..Pair::default()
        };
        let transfer =
            Traffic { pairs: vec![pair], ..Traffic::new(spec, Arrivals::Together { at: FIRST, count }) };
        let until = Time::ZERO + PATIENCE;
        let mut traffic = vec![transfer];
        if self.load > 0.0 {
            traffic.push(self.others(network_hop, until));
        }
        let mut workload = Workload { hops, ..Workload::new(PathConfig::new(&card), traffic, until) };
        workload.seed = seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let end = |at: Option<Time>, ended: Time| at.unwrap_or(ended);
        let last = measured.of(0).map(|flow| end(flow.delivered, flow.ended)).max().unwrap_or(until);
        let delivered: u64 = measured.of(0).map(|flow| flow.stats.bytes_delivered).sum();
        let seconds = last.since(FIRST).as_secs_f64();
        Done { seconds, goodput_mbps: delivered as f64 * 8e-6 / seconds, waste: measured.waste(0) }
    }

    fn flows(&self, bytes: u64) -> (FlowSpec, u64) {
        match self.way {
            Way::Fobs => {
                let ack = AckKind::Every(64);
                let flow = ObjectFlow {
                    packet_len: Some(PACKET_LEN),
                    ack,
                    ..ObjectFlow::new(ControllerKind::Greedy)
                };
                (FlowSpec::new(Protocol::Object(flow), bytes), 1)
            }
            Way::Tcp { large_windows } => (FlowSpec::new(classic_tcp(large_windows), bytes), 1),
            Way::Sockets(count) => (FlowSpec::new(classic_tcp(false), bytes / count), count),
        }
    }

    /// Short TCP flows of others through the same routers.
    fn others(&self, hop: HopId, until: Time) -> Traffic {
        let rate = Rate::from_mbps(OC3_MBIT);
        let sizes = Distribution::Pareto { shape: OTHERS_SHAPE, mean: OTHERS_BYTES };
        Traffic {
            pairs: vec![Pair { route: Route::over(hop), ..Pair::default() }],
            ..Traffic::others(classic_tcp(true), sizes, self.load, rate, until)
        }
    }
}

/// The means of transfers over seeds.
pub(super) fn means(options: &Options<'_>, transfers: &[Transfer]) -> Vec<Done> {
    let seeds = options.scale.pick(10, 3, 1);
    let bytes = options.scale.pick(OBJECT_BYTES, OBJECT_BYTES, OBJECT_BYTES / 40);
    let jobs: Vec<(&Transfer, u64)> =
        transfers.iter().flat_map(|transfer| (0..seeds).map(move |n| (transfer, options.seed + n))).collect();
    let done = run_jobs(options, &jobs, |(transfer, seed)| transfer.run(bytes, *seed));
    let mean = |done: &[Done], of: fn(&Done) -> f64| Summary::of(done.iter().map(of)).mean;
    let means = done.chunks(seeds as usize).map(|done| Done {
        seconds: mean(done, |one| one.seconds),
        goodput_mbps: mean(done, |one| one.goodput_mbps),
        waste: mean(done, |one| one.waste),
    });
    means.collect()
}

/// For a report's method.
pub(super) fn method() -> String {
    format!(
        "40 MiB from memory to memory; the sending host's card of {CARD_MBIT} Mb/s, then an OC-3 ({OC3_MBIT} Mb/s) whose router \
         queues {ROUTER_QUEUE_KB} kB; short haul 26 ms, long haul 65 ms. TCP: SACK, NewReno's rule, one segment to begin \
         with. FOBS: packets of {PACKET_LEN} bytes, F = 64. Contention: short TCP flows of others (Pareto {OTHERS_SHAPE}, \
         {:.0} kB in the mean) that ask for a share of the OC-3.",
        OTHERS_BYTES / 1e3
    )
}

/// 100 packets of 1500 bytes, as routers of the time had by default or little more.
const ROUTER_QUEUE_KB: f64 = 150.0;
/// A socket's data waits in the host without being lost.
const CARD_QUEUE_KB: f64 = 64_000.0;
const OTHERS_BYTES: f64 = 100e3;
const OTHERS_SHAPE: f64 = 1.3;
/// What others ask for.
pub(super) const LOADS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];
/// Others' traffic has settled by then.
const FIRST: Time = Time::from_millis(3000);
const PATIENCE: Duration = Duration::from_secs(600);
