//! An object transfer that turns to TCP windows while others' traffic lasts, and back (FOBS §7).

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSim, FlowSpec};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowId, Limits, Placement, Sim};

/// Others' traffic comes after so many seconds, …
const CROSS_FROM: u64 = 5;
/// … goes after so many, …
const CROSS_UNTIL: u64 = 25;
/// … and the run ends.
const END: u64 = 35;

/// What happened, second by second.
struct Log {
    /// The mode at the end of each.
    phases: Vec<&'static str>,
    /// Bytes delivered in all.
    delivered: u64,
}

fn add(sim: &mut FlowSim, spec: &FlowSpec, count: u64, second: u64) -> Vec<FlowId> {
    let start = |n| Placement::at(Time::from_millis(second * 1000 + 37 * n));
    (0..count).map(|n| sim.add(spec, &start(n))).collect()
}

/// `count` flows of `spec` against as many CUBIC flows of TCP as `rivals` says.
fn run(spec: &FlowSpec, count: u64, rivals: u64) -> Log {
    let mut sim: FlowSim = Sim::new(&Scenario::new(50.0, 40.0));
    let ours = add(&mut sim, spec, count, 0);
    let mut theirs = vec![];
    let mut phases = vec![];
    for second in 0..END {
        if second == CROSS_FROM {
            theirs = add(&mut sim, &FlowSpec::tcp(ControllerKind::Cubic, ENDLESS), rivals, second);
        }
        if second == CROSS_UNTIL {
            theirs.drain(..).for_each(|id| drop(sim.remove_flow(id)));
        }
        sim.run(Limits { time: Time::from_millis((second + 1) * 1000), ..Limits::default() }, |_| false);
        phases.push(sim.left(ours[0]).snapshot().map_or("", |snapshot| snapshot.phase));
    }
    Log { phases, delivered: ours.into_iter().map(|id| sim.stats(id).bytes_delivered).sum() }
}

#[test]
fn tcp_has_the_object_while_others_share_the_path_and_only_then() {
    for rivals in [1, 4] {
        let log = run(&FlowSpec::object(ControllerKind::Switch, ENDLESS), 1, rivals);
        let second = |second: u64| log.phases[second as usize];
        assert!((0..CROSS_FROM).all(|s| second(s) == "object"), "{:?}", log.phases);
        assert!((CROSS_FROM + 3..CROSS_UNTIL).all(|s| second(s) == "stripes"), "{:?}", log.phases);
        assert!((CROSS_UNTIL + 3..END).all(|s| second(s) == "object"), "{:?}", log.phases);
    }
}

#[test]
fn it_is_as_fast_as_the_better_of_the_two_ways() {
    for rivals in [1, 4] {
        let switch = run(&FlowSpec::object(ControllerKind::Switch, ENDLESS), 1, rivals).delivered;
        let object = run(&FlowSpec::object(ControllerKind::Adaptive, ENDLESS), 1, rivals).delivered;
        let tcp = run(&FlowSpec::tcp(ControllerKind::Cubic, ENDLESS), 4, rivals).delivered;
        println!("{rivals} rivals: switch {switch}, object {object}, TCP {tcp} bytes");
        assert!(switch * 10 >= object.max(tcp) * 9, "switch {switch}, object {object}, TCP {tcp}");
    }
}

#[test]
fn a_path_that_only_loses_keeps_the_object() {
    let mut sim: FlowSim = Sim::new(&Scenario { loss: 0.01, ..Scenario::new(50.0, 40.0) });
    let id = sim.add(&FlowSpec::object(ControllerKind::Switch, ENDLESS), &Placement::default());
    for second in 1..20 {
        sim.run(Limits { time: Time::from_millis(second * 1000), ..Limits::default() }, |_| false);
        assert_eq!(sim.left(id).snapshot().unwrap().phase, "object");
    }
}
