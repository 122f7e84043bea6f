//! The transfers in the simulator, where TCP is its rule.

use super::{Extent, Finish, STOP_FACTOR, STRIPES, TICK, Transfer, Way, path, ticks};
use crate::sim::payload_rate;
use fastrand::Rng;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowNews, FlowSim, FlowSpec};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::{FlowEvent, FlowId, Limits, Options as SimOptions, Placement};
use std::time::Duration;

impl Way {
    /// The flows that move it.
    fn flows(self, bytes: u64) -> Vec<FlowSpec> {
        match self {
            Way::Object => vec![FlowSpec::object(ControllerKind::Adaptive, bytes)],
            Way::Tcp => {
                vec![FlowSpec::tcp(ControllerKind::Cubic, bytes.div_ceil(STRIPES)); STRIPES as usize]
            }
            Way::Switch => vec![FlowSpec::object(ControllerKind::Switch, bytes)],
        }
    }
}

impl Transfer {
    pub(super) fn simulate(&self, extent: &Extent) -> Finish {
        let scenario = Scenario { seed: self.seed, ..path(self.case.rate_mbit) };
        let mut rng = Rng::with_seed(self.seed);
        let options = SimOptions { trace: TraceMode::Off, ..SimOptions::default() };
        let mut sim = FlowSim::with_path(PathConfig::new(&scenario), options);
        let bytes = payload_rate(&scenario).bytes_in(extent.length);
        let mut add = |sim: &mut FlowSim, spec: FlowSpec, from: Duration| {
            let start = Time::ZERO + from + TICK.mul_f64(rng.f64());
            sim.add(&FlowSpec { seed: rng.u64(..), ..spec }, &Placement::at(start))
        };
        let ours: Vec<FlowId> =
            self.way.flows(bytes).into_iter().map(|spec| add(&mut sim, spec, Duration::ZERO)).collect();
        let mut theirs: Vec<FlowId> = Vec::new();
        let mut left = ours.len();
        let mut modes = Vec::new();
        for tick in 0..ticks(extent.length * STOP_FACTOR) {
            if tick == ticks(extent.from) {
                let rival = FlowSpec::tcp(ControllerKind::Cubic, bytes * u64::from(STOP_FACTOR));
                theirs = (0..self.case.rivals).map(|_| add(&mut sim, rival.clone(), extent.from)).collect();
            }
            if tick == ticks(self.case.until) {
                theirs.drain(..).for_each(|id| drop(sim.remove_flow(id)));
            }
            let limits = Limits { time: Time::ZERO + TICK * (tick as u32 + 1), ..Limits::default() };
            sim.run(limits, |sim| {
                left -= sim.events().iter().filter(|event| is_delivery(event, &ours)).count();
                left == 0
            });
            if left == 0 {
                return Finish { seconds: sim.now().as_secs_f64(), is_complete: true, modes };
            }
            modes.push(sim.left(ours[0]).snapshot().map_or("", |snapshot| snapshot.phase).to_owned());
        }
        Finish { seconds: (extent.length * STOP_FACTOR).as_secs_f64(), is_complete: false, modes }
    }
}

fn is_delivery(event: &FlowEvent<FlowNews, FlowNews>, flows: &[FlowId]) -> bool {
    matches!(event, FlowEvent::Right(id, FlowNews::Delivered) if flows.contains(id))
}
