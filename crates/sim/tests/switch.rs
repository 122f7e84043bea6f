//! Object transfer that turns to TCP windows while others' traffic lasts, and back (FOBS §7).

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSim, FlowSpec};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{Limits, Placement, Side, Sim};
use std::time::Duration;

/// When the flow was in which mode, and what it delivered within each second.
struct Log {
    phases: Vec<&'static str>,
    bytes: Vec<u64>,
}

/// One flow for `seconds`; from `cross.0` to `cross.1` seconds, CUBIC flows share the path.
fn run(scenario: &Scenario, control: ControllerKind, cross: (u64, u64), flows: usize, seconds: u64) -> Log {
    let mut sim: FlowSim = Sim::new(scenario);
    let main = sim.add(&FlowSpec::object(control, ENDLESS), &Placement::default());
    let mut others = vec![];
    let mut log = Log { phases: vec![], bytes: vec![] };
    let mut delivered = 0;
    for second in 0..seconds {
        if second == cross.0 {
            for n in 0..flows as u64 {
                let start = Time::from_millis(second * 1000 + 37 * n);
                let placement = Placement { start, ..Placement::default() };
                others.push(sim.add(&FlowSpec::object(ControllerKind::Cubic, ENDLESS), &placement));
            }
        }
        if second == cross.1 {
            others.drain(..).for_each(|id| drop(sim.remove_flow(id)));
        }
        sim.run(Limits { time: Time::from_millis((second + 1) * 1000), ..Limits::default() }, |_| false);
        let bytes = sim.stats(main).bytes_delivered;
        log.phases.push(sim.left(main).snapshot().map_or("", |snapshot| snapshot.phase));
        log.bytes.push(bytes - delivered);
        delivered = bytes;
    }
    log
}

fn main_test(flows: usize) {
    let scenario = Scenario::new(50.0, 40.0);
    for control in [ControllerKind::Switch, ControllerKind::Adaptive, ControllerKind::Cubic] {
        let log = run(&scenario, control, (5, 25), flows, 40);
        println!("{control:?} {flows}");
        println!("{:?}", log.phases);
        println!(
            "{:?}",
            log.bytes.iter().map(|b| b * 8 / 100_000).map(|m| m as f64 / 10.0).collect::<Vec<_>>()
        );
    }
    let _ = (Side::Left, Duration::ZERO);
}

#[test]
fn try_it() {
    for flows in [1, 4] {
        main_test(flows);
    }
}
