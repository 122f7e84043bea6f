//! Queues that choose or mark: fair queueing, CoDel, a step, DualPI2, under real protocols.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSim, FlowSpec, ObjectFlow, Protocol, TcpFlow};
use longhaul_sim::path::PathConfig;
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::{Measured, Workload};
use longhaul_sim::{End, Limits, Options, Placement, Side};

const LONG: Time = Time::from_millis(40_000);

fn path(queue_discipline: QueueDiscipline, queue_bdp: f64) -> Scenario {
    Scenario { queue_discipline, queue_bdp: Some(queue_bdp), ..Scenario::new(20.0, 40.0) }
}

/// Each of these from the beginning to the end; measured from 10 s on.
fn run(scenario: &Scenario, specs: &[FlowSpec]) -> Measured {
    let traffic = specs.iter().enumerate().map(|(n, spec)| {
        // apart, so that no two act in lockstep
        let at = Time(n as u64 * 7_300_000);
        Traffic::new(spec.clone(), Arrivals::Together { at, count: 1 })
    });
    let workload = Workload {
        measure_from: Time::from_millis(10_000),
        ..Workload::over(scenario, traffic.collect(), LONG).unwrap()
    };
    let measured = workload.run();
    assert_eq!(measured.outcome.end, End::TimeLimit);
    measured
}

/// Sends at a rate whatever happens.
fn steady(mbit: f64) -> FlowSpec {
    let flow = ObjectFlow { rate: Some(Rate::from_mbps(mbit)), ..ObjectFlow::new(ControllerKind::Fixed) };
    FlowSpec::new(Protocol::Object(flow), ENDLESS)
}

fn mbit(measured: &Measured) -> Vec<f64> {
    (0..measured.flows.len()).map(|n| measured.goodputs(n)[0] / 1e6).collect()
}

#[test]
fn fair_queueing_protects_the_polite_from_the_greedy() {
    let flows = [steady(40.0), FlowSpec::tcp(ControllerKind::NewReno, ENDLESS), steady(4.0)];
    let fair = mbit(&run(&path(QueueDiscipline::Fair, 1.0), &flows));
    // of 20 Mb/s the third takes its 4, and the others share the rest
    assert!((fair[2] - 4.0 * 1434.0 / 1472.0).abs() < 0.1, "{fair:?}");
    assert!((7.0..8.4).contains(&fair[0]) && (6.2..8.4).contains(&fair[1]), "{fair:?}");
    let unfair = mbit(&run(&path(QueueDiscipline::DropTail, 1.0), &flows));
    assert!(unfair[0] > 14.0 && unfair[1] < 1.0, "{unfair:?}");
}

#[test]
fn codel_keeps_the_wait_short_where_drop_tail_does_not() {
    let flows = vec![FlowSpec::tcp(ControllerKind::NewReno, ENDLESS); 2];
    let wait_ms = |discipline| {
        let measured = run(&path(discipline, 4.0), &flows);
        let link = measured.hops[0].forward;
        assert!(measured.utilisation() > 0.8, "{discipline}: {}", measured.utilisation());
        (link.queue.mean_bytes * 8e3 / link.rate.0 as f64, measured.outcome.forward.counters.dropped)
    };
    let (codel, drops) = wait_ms(QueueDiscipline::CoDel);
    assert!((2.0..8.0).contains(&codel), "{codel} ms");
    assert!(drops.managed > 0 && drops.queue == 0, "{drops:?}");
    let (tail, drops) = wait_ms(QueueDiscipline::DropTail);
    assert!(tail > 60.0, "{tail} ms");
    assert!(drops.managed == 0 && drops.queue > 0, "{drops:?}");
}

/// A TCP whose data can be marked.
fn markable(control: ControllerKind) -> FlowSpec {
    let plain = TcpFlow::new(control);
    let config = longhaul_proto::tcp::Config { ecn: Ecn::Ect0, ..plain.config };
    FlowSpec::new(Protocol::Tcp(TcpFlow { config, ..plain }), ENDLESS)
}

#[test]
fn who_can_be_marked_loses_nothing_and_others_do() {
    for discipline in [QueueDiscipline::CoDelEcn, QueueDiscipline::Step, QueueDiscipline::DualPi2] {
        let mark_ms = (discipline == QueueDiscipline::Step).then_some(5.0);
        let path = Scenario { mark_ms, ..path(discipline, 4.0) };
        for control in [ControllerKind::NewReno, ControllerKind::Cubic] {
            let wait_ms = |measured: &Measured| {
                let link = measured.hops[0].forward;
                link.queue.mean_bytes * 8e3 / link.rate.0 as f64
            };
            let measured = run(&path, &vec![markable(control); 2]);
            let (link, drops) = (measured.hops[0].forward, measured.outcome.forward.counters.dropped);
            let told = format!("{} behind {discipline}: {drops:?}", control.name());
            // Slow start may overrun any queue: a mark needs a round trip to be heard.
            assert!(link.totals.marked > 0 && link.totals.dropped == 0, "{told}");
            assert!(measured.utilisation() > 0.85, "{told}: {}", measured.utilisation());
            assert!(wait_ms(&measured) < 20.0, "{told}: {} ms", wait_ms(&measured));
            let measured = run(&path, &vec![FlowSpec::tcp(control, ENDLESS); 2]);
            assert_eq!(measured.hops[0].forward.totals.marked, 0, "{told}");
            assert!(measured.outcome.forward.counters.dropped.total() > 0, "{told}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_traces_whatever_the_queue() {
    let flows =
        [FlowSpec::tcp(ControllerKind::Cubic, ENDLESS), FlowSpec::object(ControllerKind::Adaptive, ENDLESS)];
    for discipline in QueueDiscipline::ALL {
        let scenario =
            |seed| Scenario { loss: 0.001, reorder: 0.01, duplicate: 0.01, seed, ..path(discipline, 0.5) };
        let hash = |seed| {
            let traffic = flows
                .iter()
                .map(|spec| Traffic::new(spec.clone(), Arrivals::Together { at: Time::ZERO, count: 2 }));
            let workload =
                Workload::over(&scenario(seed), traffic.collect(), Time::from_millis(3000)).unwrap();
            workload.run().outcome.trace_hash
        };
        assert_eq!(hash(1), hash(1), "{discipline}");
        assert_ne!(hash(1), hash(2), "{discipline}");
    }
}

#[test]
fn nothing_is_lost_uncounted_in_a_queue_that_chooses() {
    for discipline in QueueDiscipline::ALL {
        for cut_ms in [300, 1000, 2000] {
            let scenario = Scenario { loss: 0.01, duplicate: 0.02, corrupt: 0.01, ..path(discipline, 0.3) };
            let mut sim = FlowSim::with_path(PathConfig::new(&scenario), Options::default());
            let ids: Vec<_> = [steady(30.0), FlowSpec::tcp(ControllerKind::Cubic, ENDLESS), steady(1.0)]
                .iter()
                .map(|spec| sim.add(spec, &Placement::default()))
                .collect();
            let check = |sim: &FlowSim| {
                for side in Side::BOTH {
                    let counters = sim.counters(side);
                    assert_eq!(
                        counters.sent + counters.copied,
                        counters.delivered + counters.dropped.total() + sim.in_flight(side),
                        "{discipline} at {cut_ms} ms: {counters:?}"
                    );
                }
            };
            let until = |ms| Limits { time: Time::from_millis(ms), ..Limits::default() };
            sim.run(until(cut_ms), |_| false);
            check(&sim);
            // what waits of the greedy flow is met by nobody
            sim.remove_flow(ids[0]);
            check(&sim);
            let before = sim.counters(Side::Left).dropped.gone;
            sim.run(until(cut_ms + 1000), |_| false);
            check(&sim);
            let gone = sim.counters(Side::Left).dropped.gone;
            assert_eq!(gone > before, discipline.chooses(), "{discipline}");
        }
    }
}
