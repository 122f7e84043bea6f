//! One transfer over a path that it has for itself, but for what the scenario brings along.

use super::contestant::Contestant;
use super::{Options, run_jobs};
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire;
use longhaul_sim::flow::FlowSpec;
use longhaul_sim::scenario::{InvalidField, Scenario};
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::Workload;
use serde::{Deserialize, Serialize};

/// A transfer to simulate, over a path that has been [checked](checked).
#[derive(Clone, Debug)]
pub(crate) struct Single {
    pub scenario: Scenario,
    pub contestant: Contestant,
    pub bytes: u64,
    /// It is stopped then.
    pub until: Time,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SingleResult {
    /// From the beginning of the set-up until the receiver had everything, or until it was stopped.
    pub seconds: f64,
    pub is_complete: bool,
    pub goodput_mbps: f64,
    /// Goodput as a share of what the path could carry of object bytes: packets of its MTU, less those lost.
    pub share: f64,
    /// (sent − required) / required; of a transfer that was stopped, what was sent beyond what arrived.
    pub waste: f64,
    /// Waste beyond what random loss makes by itself.
    pub waste_over_loss: f64,
    pub queue_bdp: f64,
    pub queue_ms: f64,
    /// Share of the bytes offered to the bottleneck that its queue dropped.
    pub dropped: f64,
    pub rtt_ms: f64,
    pub timeouts: u64,
}

impl Single {
    pub(crate) fn run(&self) -> SingleResult {
        let scenario = &self.scenario;
        let spec = FlowSpec {
            seed: scenario.seed,
            ..FlowSpec::new(self.contestant.protocol(payload_rate(scenario)), self.bytes)
        };
        let traffic = Traffic::new(spec, Arrivals::Together { at: Time::ZERO, count: 1 });
        let workload = Workload::over(scenario, vec![traffic], self.until);
        let mut workload = workload.expect("the scenario has been checked");
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let flow = measured.of(0).next().expect("the transfer began");
        let stats = flow.stats;
        let goodput_mbps = flow.goodput() / 1e6;
        let delivered_share = stats.bytes_delivered as f64 / self.bytes as f64;
        let needed = stats.packets_required as f64 * delivered_share;
        let waste = if needed > 0.0 { stats.packets_sent as f64 / needed - 1.0 } else { 0.0 };
        let link = measured.hops[0].forward;
        let rate_mbps = link.rate.as_mbps();
        SingleResult {
            seconds: flow.delivered.unwrap_or(flow.ended).since(flow.started).as_secs_f64(),
            is_complete: flow.delivered.is_some(),
            goodput_mbps,
            share: goodput_mbps / (payload_rate(scenario).as_mbps() * (1.0 - scenario.loss)),
            waste,
            waste_over_loss: waste - scenario.loss / (1.0 - scenario.loss),
            queue_bdp: link.queue.mean_bytes / (scenario.bdp_bytes() as f64).max(1.0),
            queue_ms: link.queue.mean_bytes * 8e-3 / rate_mbps,
            dropped: link.totals.loss_ratio(),
            rtt_ms: stats.rtt.as_secs_f64() * 1e3,
            timeouts: stats.timeouts,
        }
    }
}

/// Whether `scenario` can be simulated.
pub(crate) fn checked(scenario: &Scenario) -> Result<(), InvalidField> {
    scenario.validate()?;
    scenario.cross_traffic().map(drop)
}

/// Run all of them.
pub(crate) fn run_singles(options: &Options<'_>, singles: &[Single]) -> Vec<SingleResult> {
    run_jobs(options, singles, Single::run)
}

/// Object bytes that fit through the bottleneck, or past a policer before it: in packets of the MTU, as the default protocol's.
pub(crate) fn payload_rate(scenario: &Scenario) -> Rate {
    let mtu = f64::from(scenario.mtu);
    Rate::from_mbps(scenario.passing_mbit()).scale((mtu - OVERHEAD) / mtu)
}

/// Headers of IP and UDP, and what the protocol and its seal add.
const OVERHEAD: f64 = (wire::IPV4_UDP_LEN + wire::DATA_OVERHEAD) as f64;
