//! Traffic over shared hops, and the figures that come of it.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::parallel::run_all;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Distribution, Pair, Pick, Traffic};
use longhaul_sim::workload::{Measured, Workload};
use longhaul_sim::{HopId, Route};
use std::time::Duration;

fn path(mbit: f64, rtt_ms: f64) -> PathConfig {
    PathConfig::new(&Scenario::new(mbit, rtt_ms))
}

/// A flow that sends evenly, whatever happens.
fn steady(mbit: f64, bytes: u64) -> FlowSpec {
    let flow = ObjectFlow { rate: Some(Rate::from_mbps(mbit)), ..ObjectFlow::new(ControllerKind::Fixed) };
    FlowSpec::new(Protocol::Object(flow), bytes)
}

#[test]
fn a_lone_transfer_takes_the_time_it_must() {
    let traffic =
        Traffic::new(steady(10.0, 1_250_000), Arrivals::Together { at: Time::from_millis(100), count: 1 });
    let measured = Workload::new(path(100.0, 20.0), vec![traffic], Time::from_millis(60_000)).run();
    let [flow] = measured.flows.as_slice() else { panic!("one flow: {measured:?}") };
    // a set-up of 20 ms, 872 packets of 1434 bytes with 38 of headers at 10 Mb/s, 10 ms of propagation, two times 120 µs
    let expected = 0.020 + 871.0 * 1472.0 * 8.0 / 10e6 + 0.010;
    let found = flow.response_s().unwrap();
    assert!((found - expected).abs() < 0.002, "{found} {expected}");
    assert_eq!((flow.stats.packets_sent, flow.stats.packets_required), (872, 872));
    assert_eq!((flow.stats.bytes_delivered, flow.measured_bytes), (1_250_000, 1_250_000));
    assert_eq!(measured.waste(0), 0.0);
    assert_eq!(measured.loss_ratio(), 0.0);
}

#[test]
fn a_poisson_load_is_what_was_asked() {
    let (rate, load) = (Rate::from_mbps(40.0), 0.6);
    let bytes_on_wire = 175.0 * 1500.0;
    let arrivals = Arrivals::poisson(Time::ZERO, Time::from_millis(60_000), load, rate, bytes_on_wire);
    let traffic = Traffic {
        pairs: (15..35)
            .map(|ms| Pair { access_delay: Duration::from_micros(ms * 500), ..Pair::default() })
            .collect(),
        pick: Pick::AtRandom,
        ..Traffic::new(steady(20.0, 175 * 1434), arrivals)
    };
    let measured = Workload::new(path(40.0, 0.0), vec![traffic], Time::from_millis(60_000)).run();
    let count = measured.flows.len() as f64;
    let expected: f64 = 60.0 * load * 40e6 / 8.0 / bytes_on_wire;
    assert!((count - expected).abs() < 4.0 * expected.sqrt(), "{count} flows instead of {expected}");
    let used = measured.utilisation() * 1500.0 / 1434.0;
    assert!((used - load).abs() < 0.06, "{used}");
    assert!((0..20).all(|pair| measured.flows.iter().any(|flow| flow.pair == pair)));
}

#[test]
fn all_hops_of_a_parking_lot_are_passed() {
    let hop = path(10.0, 10.0);
    let along =
        |hops: &[usize]| Pair { route: Route::along(hops.iter().map(|at| ids()[*at])), ..Pair::default() };
    let traffic = |pair: Pair| Traffic {
        pairs: vec![pair],
        stop: Some(Time::from_millis(20_000)),
        ..Traffic::new(steady(3.0, ENDLESS), Arrivals::Together { at: Time::ZERO, count: 1 })
    };
    let workload = Workload {
        hops: vec![hop.clone(), hop.clone(), hop],
        ..Workload::new(
            path(10.0, 10.0),
            vec![traffic(along(&[0, 1, 2])), traffic(along(&[0])), traffic(along(&[1, 2]))],
            Time::from_millis(20_000),
        )
    };
    let measured = workload.run();
    let packets: Vec<u64> = measured.flows.iter().map(|flow| flow.wire.delivered).collect();
    assert!(packets.iter().all(|packets| *packets > 4000), "{packets:?}");
    // three hops of 10 ms each, and three times a packet's 1.2 ms
    let long = &measured.flows[0];
    assert!(long.stats.rtt_min >= Duration::from_micros(33_600), "{:?}", long.stats.rtt_min);
    assert!(long.stats.rtt_min < Duration::from_millis(45), "{:?}", long.stats.rtt_min);
    let carried: Vec<u64> = measured.hops.iter().map(|hop| hop.forward.totals.carried).collect();
    for (hop, flows) in [(0, [0, 1]), (1, [0, 2]), (2, [0, 2])] {
        let through: u64 = flows.iter().map(|flow| packets[*flow]).sum();
        assert!(carried[hop].abs_diff(through) < 60, "hop {hop}: {carried:?} {packets:?}");
        assert!(measured.hops[hop].reverse.totals.carried > 100);
    }
}

fn ids() -> Vec<HopId> {
    let mut sim = longhaul_sim::flow::FlowSim::new(&Scenario::new(1.0, 1.0));
    let second = sim.add_hop(&path(1.0, 1.0));
    let third = sim.add_hop(&path(1.0, 1.0));
    vec![HopId::FIRST, second, third]
}

#[test]
fn sources_that_are_on_and_off_are_on_for_their_share() {
    let arrivals = Arrivals::OnOff {
        from: Time::ZERO,
        until: Time::from_millis(100_000),
        on_s: Distribution::Exponential { mean: 0.5 },
        off_s: Distribution::Exponential { mean: 1.5 },
        sources: 8,
    };
    let traffic = Traffic::new(steady(1.0, ENDLESS), arrivals);
    let measured = Workload::new(path(10.0, 2.0), vec![traffic], Time::from_millis(100_000)).run();
    // 8 sources of 1 Mb/s, a quarter of the time: 2 of 10 Mb/s; some 400 times on, each about as long as it is short
    let used = measured.utilisation();
    assert!((used - 0.2).abs() < 0.035, "{used}");
    assert!(measured.flows.iter().all(|flow| flow.delivered.is_none()));
}

#[test]
fn what_comes_can_be_told_without_a_run() {
    let (on_s, off_s) = (Distribution::Exponential { mean: 0.5 }, Distribution::Exponential { mean: 0.5 });
    let until = Time::from_millis(20_000);
    let arrivals = Arrivals::OnOff { from: Time::ZERO, until, on_s, off_s, sources: 5 };
    let one = Traffic::new(steady(1.0, ENDLESS), arrivals);
    let other = Traffic { sizes: Some(Distribution::Uniform { from: 1e3, to: 1e5 }), ..one.clone() };
    let traffic = vec![one, other];
    let workload = Workload { seed: 7, ..Workload::new(path(50.0, 2.0), traffic.clone(), until) };
    let measured = workload.run();
    for (index, traffic) in traffic.iter().enumerate() {
        let coming = traffic.coming(7, index).map(|flow| (flow.at, flow.spec.bytes));
        let begun = measured.of(index).map(|flow| (flow.started, flow.bytes));
        assert_eq!(coming.collect::<Vec<_>>(), begun.collect::<Vec<_>>());
    }
    assert!(measured.flows.len() > 100);
}

#[test]
fn chained_flows_follow_each_other() {
    let gap_s = Distribution::Constant(0.5);
    let arrivals = Arrivals::Chained { from: Time::from_millis(100), gap_s, count: 5, sources: 2 };
    let tcp = FlowSpec::tcp(ControllerKind::NewReno, 100_000);
    let measured =
        Workload::new(path(10.0, 20.0), vec![Traffic::new(tcp, arrivals)], Time::from_millis(60_000)).run();
    assert_eq!(measured.flows.len(), 10);
    let mut ends: Vec<Time> = vec![Time::from_millis(100); 2];
    for (n, flow) in measured.flows.iter().enumerate() {
        let gap = if n < 2 { Duration::ZERO } else { Duration::from_millis(500) };
        let place = ends.iter().position(|end| *end + gap == flow.started);
        let Some(place) = place else { panic!("flow {n}: {ends:?} {flow:?}") };
        ends[place] = flow.acknowledged.unwrap();
    }
}

#[test]
fn steps_take_effect_at_their_time() {
    let text = "bottleneck_mbit = 20\nrtt_ms = 10\n[[steps]]\nat_s = 4\nbottleneck_mbit = 5\n\
                [[steps]]\nat_s = 8\nbottleneck_mbit = 20\n[[steps]]\nat_s = 10\noutage_s = 1\n\
                [[steps]]\nat_s = 13\nloss = 0.5\n[[steps]]\nat_s = 15\nloss = 0";
    let scenario = Scenario::parse(text).unwrap();
    let greedy = Traffic::new(steady(30.0, ENDLESS), Arrivals::Together { at: Time::ZERO, count: 1 });
    let every = Duration::from_millis(500);
    let workload = Workload::over(&scenario, vec![greedy], Time::from_millis(17_000)).unwrap();
    let measured = Workload { sample_every: Some(every), ..workload }.run();
    let flow = &measured.flows[0];
    // different bytes are new bytes: a sender that repeats too early does not count
    let mbit = |interval: usize| flow.samples[interval] as f64 * 16e-6;
    let full = 20.0 * 1434.0 / 1500.0;
    for (interval, expected) in
        [(3, full), (7, full), (9, full / 4.0), (15, full / 4.0), (18, full), (19, full)]
    {
        assert!((mbit(interval) / expected - 1.0).abs() < 0.05, "{interval}: {} {expected}", mbit(interval));
    }
    assert_eq!(mbit(21), 0.0);
    assert!(mbit(24) > 0.9 * full);
    assert!((mbit(27) / full - 0.5).abs() < 0.06 && (mbit(29) / full - 0.5).abs() < 0.06, "{}", mbit(27));
    assert!(mbit(32) > 0.9 * full);
    assert!(flow.wire.dropped.outage > 800 && flow.wire.dropped.loss > 1400, "{:?}", flow.wire);
}

#[test]
fn traffic_of_a_scenario_shares_its_path() {
    let text = "bottleneck_mbit = 20\nrtt_ms = 20\n[[traffic]]\ncontrol = 'tcp:newreno'\ncount = 3\nstagger_s = 1\n\
                [[traffic]]\ncontrol = 'fixed'\nrate_mbit = 2\non_s = 0.2\noff_s = 0.2\nreverse = true";
    let scenario = Scenario::parse(text).unwrap();
    let probe = Traffic::new(
        FlowSpec::tcp(ControllerKind::NewReno, ENDLESS),
        Arrivals::Together { at: Time::ZERO, count: 1 },
    );
    let workload = Workload::over(&scenario, vec![probe], Time::from_millis(30_000)).unwrap();
    let measured = Workload { measure_from: Time::from_millis(10_000), ..workload }.run();
    assert_eq!(measured.of(1).map(|flow| flow.started.0 / 1_000_000).collect::<Vec<_>>(), [0, 1000, 2000]);
    let share = measured.goodputs(0)[0] / measured.goodputs(1).iter().sum::<f64>();
    assert!((0.15..0.6).contains(&share), "{share}");
    let back: f64 = measured.goodputs(2).iter().sum();
    assert!((back / 1e6 - 1.0).abs() < 0.4, "{back}");
    assert!(measured.of(2).all(|flow| flow.wire.sent_bytes >= flow.stats.bytes_delivered));
}

fn many(seed: u64) -> Measured {
    let poisson = Arrivals::Random {
        from: Time::ZERO,
        until: Time::from_millis(3000),
        gap_s: Distribution::Pareto { shape: 1.2, mean: 0.05 },
        batch: 2,
    };
    let short = Traffic {
        sizes: Some(Distribution::Pareto { shape: 1.25, mean: 50_000.0 }),
        ..Traffic::new(FlowSpec::object(ControllerKind::Adaptive, 0), poisson)
    };
    let long = Traffic {
        is_background: true,
        ..Traffic::new(
            FlowSpec::object(ControllerKind::Adaptive, ENDLESS),
            Arrivals::Staggered { from: Time::ZERO, gap: Duration::from_millis(500), count: 3 },
        )
    };
    let scenario = Scenario { loss: 0.001, seed, ..Scenario::new(50.0, 20.0) };
    Workload {
        sample_every: Some(Duration::from_millis(100)),
        ..Workload::over(&scenario, vec![short, long], Time::from_millis(60_000)).unwrap()
    }
    .run()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let seeds: Vec<u64> = (1..=6).collect();
    let hashes = |threads| run_all(&seeds, threads, |seed| many(*seed).outcome.trace_hash, |_| ());
    let one = hashes(1);
    assert_eq!(one, hashes(4));
    assert!(one.iter().skip(1).all(|hash| *hash != one[0]));
}

#[test]
fn equal_seeds_give_equal_measurements() {
    let (first, second, other) = (many(1), many(1), many(2));
    assert_eq!(first.outcome, second.outcome);
    assert_eq!(first.flows, second.flows);
    assert_eq!(first.hops, second.hops);
    assert_ne!(first.outcome.trace_hash, other.outcome.trace_hash);
    // the run waited for those that are not background, and for them only
    assert!(first.of(0).all(|flow| flow.acknowledged.is_some()));
    assert!(first.of(1).all(|flow| flow.acknowledged.is_none()));
    assert!(first.outcome.time < Time::from_millis(60_000));
    assert_eq!(first.of(0).filter(|flow| flow.response_s().is_some()).count(), first.responses(0).count);
    for flow in &first.flows {
        assert_eq!(flow.samples.iter().sum::<u64>(), flow.stats.bytes_delivered);
    }
}
