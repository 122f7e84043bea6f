//! Ten thousand flows at once.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowNews, FlowSim, FlowSpec};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, FlowEvent, Limits, Placement, Side};

const FLOWS: u64 = 10_000;
const BYTES: u64 = 15_000;
/// What a flow may take at most: both ends, their bitmaps and windows of numbers, and what it has on its way.
const FLOW_MEMORY_BYTES: u64 = 40_000;

/// Memory of this process that is in use.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Over a round trip of two seconds none is done before the last has begun.
#[test]
fn ten_thousand_flows_at_once() {
    let before = resident_bytes();
    let mut sim = FlowSim::new(&Scenario::new(1000.0, 2000.0));
    let specs =
        [FlowSpec::object(ControllerKind::Adaptive, BYTES), FlowSpec::tcp(ControllerKind::Cubic, BYTES)];
    for n in 0..FLOWS {
        let spec = FlowSpec { seed: n, ..specs[n as usize % 2].clone() };
        sim.add(&spec, &Placement::at(Time(n * 100_000)));
    }
    let mut left = FLOWS;
    let mut most_bytes = 0;
    let end = sim.run(Limits { time: Time::from_millis(60_000), ..Limits::default() }, |sim| {
        let done = sim
            .events()
            .iter()
            .filter_map(|event| match event {
                FlowEvent::Left(id, FlowNews::Acknowledged) => Some(*id),
                _ => None,
            })
            .collect::<Vec<_>>();
        if left == FLOWS && !done.is_empty() {
            assert_eq!(sim.flow_count() as u64, FLOWS);
            assert!(sim.now() > Time::from_millis(2000));
            most_bytes = resident_bytes() - before;
        }
        for id in done {
            let stats = sim.stats(id);
            assert_eq!(stats.bytes_delivered, BYTES);
            sim.remove_flow(id);
            left -= 1;
        }
        left == 0
    });
    assert_eq!((end, sim.flow_count()), (End::Stopped, 0));
    assert_eq!(sim.in_flight(Side::Left), 0);
    let each = most_bytes / FLOWS;
    assert!(each <= FLOW_MEMORY_BYTES, "{each} bytes for each flow");
    assert!(each > 1000, "memory was not measured: {each} bytes for each flow");
}
