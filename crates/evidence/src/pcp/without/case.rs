//! The paths, and what goes over them.

use super::late_host::{LateHost, Lateness};
use crate::pcp::population::WidePath;
use crate::pcp::tcp_sack;
use longhaul_proto::control::{ControllerKind, PcpPart};
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowEnd, FlowNews, FlowSpec, KnownPath, ObjectFlow, Protocol};
use longhaul_sim::metrics::{Summary, jain};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::{Scenario, Step};
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Distribution, Traffic};
use longhaul_sim::workload::{FlowRecord, Measured, Workload};
use longhaul_sim::{FlowEvent, HopId, Limits, Options, Side, Sim};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A path and what goes over it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    mbit: f64,
    queue_bdp: f64,
    loss: f64,
    jitter_ms: f64,
    /// Share of the path that others' short flows ask for.
    others: f64,
    /// After [`CHANGE_S`] the path is another.
    change: Option<Change>,
    flows: Flows,
}

/// What becomes of the path.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The round trip is this, ms.
    Rtt(f64),
    /// The rate is this, 10⁶ bit/s.
    Rate(f64),
}

/// What PCP is to move.
#[derive(Clone, Copy, Debug)]
enum Flows {
    /// One transfer.
    One { bytes: u64 },
    /// One, between hosts that are late.
    Late { bytes: u64, lateness: Lateness },
    /// One after another, each told what the last one found, or not.
    Again { count: u64, remembers: bool },
    /// All at once.
    Together { count: u64 },
    /// For a time, beside so many TCPs that began before.
    Long { pcp: u64, tcp: u64, seconds: u64 },
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Bytes over the mean time of a transfer, or of a flow in the time measured.
    pub(super) goodput_mbps: f64,
    /// Mean of the bottleneck's queue.
    pub(super) queue_bdp: f64,
    /// Share of what reached it that it dropped.
    pub(super) loss: f64,
    /// The same of a TCP beside it; of others' short flows how many take turns in a second.
    pub(super) others: Option<f64>,
    /// Jain's index over several of PCP.
    pub(super) evenness: Option<f64>,
}

impl Case {
    /// Simulate it, with all parts but one.
    pub(super) fn run(&self, without: Option<PcpPart>, shrink: u64, seed: u64) -> Run {
        match self.flows {
            Flows::Late { bytes, lateness } => self.run_late(without, bytes / shrink, lateness, seed),
            _ => self.run_workload(without, shrink, seed),
        }
    }

    fn scenario(&self, seed: u64) -> Scenario {
        let step = |change| match change {
            Change::Rtt(rtt_ms) => Step { at_s: CHANGE_S, rtt_ms: Some(rtt_ms), ..Step::default() },
            Change::Rate(mbit) => Step { at_s: CHANGE_S, bottleneck_mbit: Some(mbit), ..Step::default() },
        };
        Scenario {
            queue_bdp: Some(self.queue_bdp),
            loss: self.loss,
            jitter_ms: self.jitter_ms,
            steps: self.change.map(step).into_iter().collect(),
            seed,
            ..Scenario::new(self.mbit, RTT_MS)
        }
    }

    fn run_workload(&self, without: Option<PcpPart>, shrink: u64, seed: u64) -> Run {
        let scenario = self.scenario(seed);
        let spec = |bytes: u64| FlowSpec::new(pcp(without), bytes);
        let at = if self.others > 0.0 { SETTLED } else { Time::ZERO };
        let (bytes, arrivals, remembers, from, until) = match self.flows {
            Flows::One { bytes } => {
                (bytes / shrink, Arrivals::Together { at, count: 1 }, false, at, PATIENCE)
            }
            Flows::Late { .. } => unreachable!("it has its own"),
            Flows::Again { count, remembers } => {
                let gap_s = Distribution::Exponential { mean: GAP_S };
                let count = count.div_ceil(shrink);
                (SHORT, Arrivals::Chained { from: at, gap_s, count, sources: 1 }, remembers, at, PATIENCE)
            }
            Flows::Together { count } => (SHORT, Arrivals::Together { at, count }, false, at, PATIENCE),
            Flows::Long { pcp, seconds, .. } => {
                let from = Time::ZERO + Duration::from_secs(seconds / 4) / shrink as u32;
                let gap = STAGGER / shrink as u32;
                let until = Time::ZERO + Duration::from_secs(seconds) / shrink as u32;
                let begins = Time::ZERO + gap;
                (ENDLESS, Arrivals::Staggered { from: begins, gap, count: pcp }, false, from, until)
            }
        };
        let mut traffic = vec![Traffic { remembers, ..Traffic::new(spec(bytes), arrivals) }];
        if let Flows::Long { tcp: count @ 1.., .. } = self.flows {
            let tcp = FlowSpec::new(Protocol::Tcp(tcp_sack()), ENDLESS);
            traffic.push(Traffic::new(tcp, Arrivals::Together { at: Time::ZERO, count }));
        }
        if self.others > 0.0 {
            let path = WidePath { scenario: scenario.clone(), cross_load: self.others };
            traffic.push(path.cross_traffic());
        }
        let mut workload = Workload::new(PathConfig::new(&scenario), traffic, until);
        (workload.seed, workload.measure_from) = (seed, from);
        workload.options.trace = TraceMode::Off;
        self.of_measured(&workload.run(), &scenario)
    }

    fn of_measured(&self, measured: &Measured, scenario: &Scenario) -> Run {
        let is_long = matches!(self.flows, Flows::Long { .. });
        let seconds = |flow: &FlowRecord| flow.delivered.unwrap_or(flow.ended).since(flow.started);
        let mean = |values: Vec<f64>| Summary::of(values).mean;
        let goodput_bits = if is_long {
            mean(measured.goodputs(0))
        } else {
            let flows: Vec<&FlowRecord> = measured.of(0).collect();
            let bits: f64 = flows.iter().map(|flow| flow.stats.bytes_delivered as f64 * 8.0).sum();
            bits / flows.iter().map(|flow| seconds(flow).as_secs_f64()).sum::<f64>().max(1e-9)
        };
        let others = match measured.of(1).next() {
            None => None,
            Some(_) if is_long => Some(mean(measured.goodputs(1)) / 1e6),
            Some(_) => Some(1.0 / measured.responses(1).mean.max(1e-9)),
        };
        let link = measured.hops[0].forward;
        Run {
            goodput_mbps: goodput_bits / 1e6,
            queue_bdp: link.queue.mean_bytes / scenario.bdp_bytes() as f64,
            loss: link.totals.loss_ratio(),
            others,
            evenness: self.has_several().then(|| {
                let rates: Vec<f64> = measured.of(0).map(FlowRecord::goodput).collect();
                if is_long { measured.jain(0) } else { jain(&rates) }
            }),
        }
    }

    /// Whether several of PCP are there at once.
    fn has_several(&self) -> bool {
        matches!(self.flows, Flows::Long { pcp: 2.., .. } | Flows::Together { .. })
    }

    fn run_late(&self, without: Option<PcpPart>, bytes: u64, lateness: Lateness, seed: u64) -> Run {
        let scenario = self.scenario(seed);
        let options = Options { trace: TraceMode::Off, ..Options::default() };
        let mut sim =
            Sim::<LateHost<FlowEnd>, LateHost<FlowEnd>>::with_path(PathConfig::new(&scenario), options);
        let known = KnownPath::of(&scenario);
        let (sender, receiver) = FlowSpec { seed, ..FlowSpec::new(pcp(without), bytes) }.build(known);
        let [sender, receiver] = [(sender, 2 * seed), (receiver, 2 * seed + 1)]
            .map(|(end, seed)| LateHost::new(end, lateness, seed));
        // The set-up takes a round trip.
        sim.add_flow(sender, receiver, Time::ZERO + known.rtt);
        sim.run(Limits { time: PATIENCE, ..Limits::default() }, |sim| {
            let is_over = |event: &FlowEvent<_, _>| matches!(event, FlowEvent::Right(_, FlowNews::Delivered));
            sim.events().iter().any(is_over)
        });
        let seconds = sim.now().as_secs_f64();
        Run {
            goodput_mbps: bytes as f64 * 8e-6 / seconds,
            queue_bdp: sim.occupancy(HopId::FIRST, Side::Left).mean_bytes / scenario.bdp_bytes() as f64,
            loss: sim.link_totals(HopId::FIRST, Side::Left).loss_ratio(),
            others: None,
            evenness: None,
        }
    }
}

fn pcp(pcp_without: Option<PcpPart>) -> Protocol {
    Protocol::Object(ObjectFlow { pcp_without, ..ObjectFlow::new(ControllerKind::Pcp) })
}

const fn case(name: &'static str, mbit: f64, flows: Flows) -> Case {
    Case { name, mbit, queue_bdp: 1.0, loss: 0.0, jitter_ms: 0.0, others: 0.0, change: None, flows }
}

const fn late(most_us: u64, stamps_by_program: bool) -> Flows {
    let lateness = Lateness { most: Duration::from_micros(most_us), stamps_by_program };
    Flows::Late { bytes: LONG, lateness }
}

/// In the order of tables.
pub(super) const CASES: &[Case] = &[
    case(ALONE, FAST, Flows::One { bytes: LONG }),
    case("250 KB alone", FAST, Flows::Again { count: COUNT, remembers: false }),
    case("2 MB alone, 5 Mb/s", SLOW, Flows::One { bytes: LONG / 10 }),
    Case { queue_bdp: 0.1, ..case("20 MB, a tenth of the queue", FAST, Flows::One { bytes: LONG }) },
    Case { jitter_ms: 1.0, ..case("20 MB, jitter of 1 ms", FAST, Flows::One { bytes: LONG }) },
    case(LATE[0], FAST, late(100, false)),
    case(LATE[1], FAST, late(300, false)),
    case(LATE[2], FAST, late(1000, false)),
    case(LATE[3], FAST, late(1000, true)),
    Case { others: 0.4, ..case("10 MB beside others' 40 %", MIDDLE, Flows::One { bytes: LONG / 2 }) },
    Case {
        others: 0.4,
        ..case("250 KB beside others' 40 %", MIDDLE, Flows::Again { count: COUNT, remembers: false })
    },
    case(ONE_TCP, MIDDLE, Flows::Long { pcp: 1, tcp: 1, seconds: 20 }),
    case(FOUR_TCP, MIDDLE, Flows::Long { pcp: 1, tcp: 4, seconds: 20 }),
    case(FOUR_PCP, MIDDLE, Flows::Long { pcp: 4, tcp: 0, seconds: 20 }),
    Case { queue_bdp: 0.25, ..case(SEVERAL[1], MIDDLE, Flows::Long { pcp: 4, tcp: 0, seconds: 20 }) },
    case(SEVERAL[2], MIDDLE, Flows::Together { count: 10 }),
    case(AGAIN, FAST, Flows::Again { count: COUNT, remembers: true }),
    Case { others: 0.4, ..case(AGAIN_BESIDE, MIDDLE, Flows::Again { count: COUNT, remembers: true }) },
    Case { loss: 0.01, ..case("20 MB, 1 % lost", FAST, Flows::One { bytes: LONG }) },
    Case { loss: 0.05, ..case("20 MB, 5 % lost", FAST, Flows::One { bytes: LONG }) },
    Case {
        loss: 0.05,
        ..case("250 KB again, 5 % lost", FAST, Flows::Again { count: COUNT, remembers: true })
    },
    Case {
        change: Some(Change::Rtt(60.0)),
        ..case("60 s, rerouted, 5 Mb/s", SLOW, Flows::Long { pcp: 1, tcp: 0, seconds: 60 })
    },
    Case {
        change: Some(Change::Rate(10.0)),
        ..case("20 s, the rate halved midway", MIDDLE, Flows::Long { pcp: 1, tcp: 0, seconds: 20 })
    },
];

pub(super) const ALONE: &str = "20 MB alone";
/// Hosts that are late.
pub(super) const LATE: [&str; 4] = [
    "20 MB, hosts 0.1 ms late",
    "20 MB, hosts 0.3 ms late",
    "20 MB, hosts 1 ms late",
    "20 MB, hosts 1 ms late, their stamps too",
];
pub(super) const ONE_TCP: &str = "beside one TCP";
pub(super) const FOUR_TCP: &str = "beside four TCPs";
pub(super) const FOUR_PCP: &str = "four of PCP";
/// Several of PCP.
pub(super) const SEVERAL: [&str; 3] =
    [FOUR_PCP, "four of PCP, a quarter of the queue", "ten of 250 KB at once"];
pub(super) const AGAIN: &str = "250 KB again";
pub(super) const AGAIN_BESIDE: &str = "250 KB again beside others' 40 %";

/// 10⁶ bit/s: datagrams leave in bursts.
const FAST: f64 = 100.0;
/// Half a dozen datagrams in a round trip for each of ten flows.
const MIDDLE: f64 = 20.0;
/// A probe of five datagrams takes a third of a round trip.
const SLOW: f64 = 5.0;
/// Between coasts, or so.
pub(super) const RTT_MS: f64 = 40.0;
const LONG: u64 = 20_000_000;
/// The paper's transfers.
pub(super) const SHORT: u64 = 250_000;
/// Of these in a run.
const COUNT: u64 = 10;
/// Seconds between two, in the mean.
const GAP_S: f64 = 0.2;
/// Others' traffic is as it will be.
const SETTLED: Time = Time::from_millis(2000);
/// Between the beginnings of flows that go on.
const STAGGER: Duration = Duration::from_secs(1);
/// Seconds from the beginning until a path changes.
const CHANGE_S: f64 = 10.0;
/// What takes longer is stopped.
const PATIENCE: Time = Time::from_millis(120_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Case {
        CASES.iter().find(|case| case.name == name).unwrap()
    }

    #[test]
    fn runs_repeat_and_a_part_makes_a_difference() {
        let case = named(AGAIN);
        let [all, same] = [1, 1].map(|seed| case.run(None, 3, seed));
        assert_eq!(all, same);
        let without = case.run(Some(PcpPart::History), 3, 1);
        assert!(without.goodput_mbps < all.goodput_mbps, "{without:?} {all:?}");
    }

    #[test]
    fn late_hosts_move_everything() {
        for name in LATE {
            let run = named(name).run(None, 20, 1);
            assert!(run.goodput_mbps > 1.0, "{name}: {run:?}");
        }
    }
}
