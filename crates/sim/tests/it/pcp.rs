//! PCP over simulated paths: it finds the rate in a few round trips, leaves queues empty, does not mind random
//! loss, shares, and is not starved beside TCP.

use longhaul_proto::control::{ControllerKind, Remembered};
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowEnd, FlowNews, FlowSim, FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::{Measured, Workload};
use longhaul_sim::{End, FlowEvent, Limits, Options, Placement, Sim};

/// Object bytes in an IP packet of 1500.
const PAYLOAD_SHARE: f64 = 1434.0 / 1500.0;

fn millis(ms: f64) -> Time {
    Time((ms * 1e6) as u64)
}

/// Endless flows that begin at these seconds, measured between two moments.
fn run(scenario: &Scenario, flows: &[(&str, f64)], from_s: f64, until_s: f64) -> Measured {
    let until = millis(until_s * 1e3);
    let traffic = flows.iter().map(|(name, start_s)| {
        let spec = FlowSpec::new(name.parse().unwrap(), ENDLESS);
        let arrivals = Arrivals::Together { at: millis(start_s * 1e3), count: 1 };
        Traffic { stop: Some(until), ..Traffic::new(spec, arrivals) }
    });
    let workload = Workload::over(scenario, traffic.collect(), until).unwrap();
    Workload { measure_from: millis(from_s * 1e3), seed: scenario.seed, ..workload }.run()
}

/// What a flow got, as a share of what the path can carry of payload.
fn share(measured: &Measured, traffic: usize, scenario: &Scenario) -> f64 {
    measured.goodputs(traffic)[0] / (scenario.bottleneck_mbit * 1e6 * PAYLOAD_SHARE)
}

fn bdp_bytes(scenario: &Scenario) -> f64 {
    scenario.bottleneck_mbit * scenario.rtt_ms * 125.0
}

/// One transfer; returns seconds from the beginning of the set-up until all is delivered, packets that the queue
/// dropped, and what was learnt.
fn transfer(scenario: &Scenario, flow: ObjectFlow, bytes: u64) -> (f64, u64, Option<Remembered>) {
    let mut sim: FlowSim = Sim::with_path(PathConfig::new(scenario), Options::default());
    let spec = FlowSpec { seed: scenario.seed, ..FlowSpec::new(Protocol::Object(flow), bytes) };
    let id = sim.add(&spec, &Placement::at(Time::ZERO));
    let end = sim.run(Limits { time: Time::from_millis(300_000), ..Limits::default() }, |sim| {
        sim.events().contains(&FlowEvent::Right(id, FlowNews::Delivered))
    });
    assert_eq!(end, End::Stopped, "{scenario}");
    let FlowEnd::ObjectSender(sender) = sim.left(id) else { panic!("an object flow") };
    let learnt = sender.remember();
    (sim.now().as_secs_f64(), sim.outcome(end).forward.counters.dropped.queue, learnt)
}

fn pcp() -> ObjectFlow {
    ObjectFlow::new(ControllerKind::Pcp)
}

#[test]
fn alone_it_fills_the_path_and_leaves_the_queue_empty() {
    for (mbit, rtt_ms) in [
        (10.0, 10.0),
        (10.0, 30.0),
        (10.0, 100.0),
        (100.0, 5.0),
        (100.0, 30.0),
        (100.0, 100.0),
        (1000.0, 5.0),
        (1000.0, 50.0),
    ] {
        let scenario = Scenario::new(mbit, rtt_ms);
        // The first 60 round trips are for finding the rate.
        let from_s = 0.06 * rtt_ms;
        let measured = run(&scenario, &[("pcp", 0.0)], from_s, from_s + (0.06 * rtt_ms).max(1.0));
        let (got, queue) = (share(&measured, 0, &scenario), measured.hops[0].forward.queue.mean_bytes);
        let queue_bdp = queue / bdp_bytes(&scenario);
        println!(
            "{mbit} Mb/s {rtt_ms} ms: {got:.3} of the payload limit, queue {queue_bdp:.4} BDP, lost {}",
            measured.loss_ratio()
        );
        assert!(got >= 0.9, "{mbit} Mb/s, {rtt_ms} ms: {got}");
        assert_eq!(measured.loss_ratio(), 0.0, "{mbit} Mb/s, {rtt_ms} ms");
        assert!(queue < (0.1 * bdp_bytes(&scenario)).max(3000.0), "{mbit} Mb/s, {rtt_ms} ms: {queue_bdp}");
    }
}

#[test]
fn the_search_takes_a_number_of_round_trips_that_grows_with_the_logarithm() {
    for (mbit, rtt_ms) in
        [(10.0, 30.0), (10.0, 100.0), (100.0, 10.0), (100.0, 100.0), (1000.0, 10.0), (1000.0, 100.0)]
    {
        let scenario = Scenario::new(mbit, rtt_ms);
        let mut sim: FlowSim = Sim::with_path(PathConfig::new(&scenario), Options::default());
        let id = sim.add(&FlowSpec::object(ControllerKind::Pcp, ENDLESS), &Placement::at(Time::ZERO));
        let enough = Rate::from_mbps(0.9 * mbit * 1472.0 / 1500.0);
        let end = sim.run(Limits { time: millis(500.0 * rtt_ms), ..Limits::default() }, |sim| {
            sim.left(id).snapshot().and_then(|snapshot| snapshot.bandwidth) >= Some(enough)
        });
        assert_eq!(end, End::Stopped, "{mbit} Mb/s, {rtt_ms} ms");
        // The set-up is one.
        let round_trips = sim.now().as_secs_f64() * 1e3 / rtt_ms - 1.0;
        let doublings = (bdp_bytes(&scenario) / 1500.0).log2();
        println!("{mbit} Mb/s {rtt_ms} ms: {round_trips:.1} round trips, {doublings:.1} doublings");
        assert!(round_trips < 7.0 + 2.0 * doublings, "{mbit} Mb/s, {rtt_ms} ms: {round_trips}");
    }
}

#[test]
fn random_loss_hardly_slows_it_down() {
    for (mbit, rtt_ms) in [(40.0, 20.0), (100.0, 80.0)] {
        let clean = Scenario::new(mbit, rtt_ms);
        let lossy = Scenario { loss: 0.01, ..clean.clone() };
        let from_s = 0.06 * rtt_ms;
        let got = [&clean, &lossy]
            .map(|scenario| share(&run(scenario, &[("pcp", 0.0)], from_s, from_s + 5.0), 0, scenario));
        println!("{mbit} Mb/s {rtt_ms} ms: {:.3} without loss, {:.3} with 1 %", got[0], got[1]);
        assert!(got[1] > 0.93 * got[0], "{got:?}");
    }
}

#[test]
fn a_newcomer_gets_its_share_without_a_loss() {
    let scenario = Scenario::new(100.0, 20.0);
    let measured = run(&scenario, &[("pcp", 0.0), ("pcp", 5.0)], 40.0, 60.0);
    let got = [0, 1].map(|flow| share(&measured, flow, &scenario));
    println!("{got:.3?}, lost {}", measured.loss_ratio());
    assert!(got[0].min(got[1]) > 0.25 && got[0] + got[1] > 0.85, "{got:?}");
    assert_eq!(measured.loss_ratio(), 0.0);
}

#[test]
fn many_flows_share_with_hardly_a_loss() {
    let scenario = Scenario::new(40.0, 25.0);
    let flows = [0.0, 0.0, 1.0, 2.0, 3.0, 4.0].map(|start_s| ("pcp", start_s));
    let measured = run(&scenario, &flows, 10.0, 30.0);
    let got: Vec<f64> = (0..flows.len()).map(|flow| share(&measured, flow, &scenario)).collect();
    println!(
        "{got:.3?}, lost {}, queue {}",
        measured.loss_ratio(),
        measured.hops[0].forward.queue.mean_bytes
    );
    assert!(longhaul_sim::metrics::jain(&got) > 0.8, "{got:?}");
    assert!(got.iter().sum::<f64>() > 0.85 && measured.loss_ratio() < 0.001, "{got:?}");
}

#[test]
fn neither_it_nor_a_tcp_is_starved_by_the_other() {
    for (starts, least_pcp) in [([0.0, 5.0], 0.1), ([5.0, 0.0], 0.1)] {
        let scenario = Scenario { queue_bdp: Some(0.5), ..Scenario::new(100.0, 20.0) };
        let measured = run(&scenario, &[("pcp", starts[0]), ("tcp:newreno", starts[1])], 20.0, 40.0);
        let got = [0, 1].map(|flow| share(&measured, flow, &scenario));
        println!("PCP {:.3}, TCP {:.3}", got[0], got[1]);
        assert!(got[0] > least_pcp && got[1] > 0.1 && got[0] + got[1] > 0.85, "{got:?}");
    }
}

#[test]
fn what_is_remembered_saves_most_of_the_search() {
    let scenario = Scenario::new(40.0, 80.0);
    let (first_s, _, learnt) = transfer(&scenario, pcp(), 250_000);
    let mut remembered = learnt.unwrap();
    assert_eq!(remembered.share, Remembered::SHARE_MAX);
    let mut later_s = 0.0;
    for _ in 0..3 {
        let (seconds, drops, learnt) =
            transfer(&scenario, ObjectFlow { remembered: Some(remembered), ..pcp() }, 250_000);
        assert_eq!(drops, 0);
        (later_s, remembered) = (seconds, learnt.unwrap());
    }
    println!("{first_s:.3} s, later {later_s:.3} s");
    assert!(later_s < 0.55 * first_s, "{first_s} {later_s}");
}

#[test]
fn a_wrong_memory_costs_a_probe_and_no_loss() {
    let scenario = Scenario::new(10.0, 40.0);
    let wrong = Remembered::new(Rate::from_mbps(1000.0));
    let (_, drops, learnt) = transfer(&scenario, ObjectFlow { remembered: Some(wrong), ..pcp() }, 250_000);
    assert_eq!(drops, 0);
    let learnt = learnt.unwrap();
    assert_eq!(learnt.share, Remembered::SHARE_MAX / 2.0);
    assert!(learnt.rate < Rate::from_mbps(10.0), "{learnt:?}");
}

#[test]
fn a_cap_is_kept_by_trains_too() {
    let scenario = Scenario::new(100.0, 20.0);
    let (bytes, cap) = (5_000_000, Rate::from_mbps(20.0));
    let (seconds, _, _) = transfer(&scenario, ObjectFlow { rate_cap: Some(cap), ..pcp() }, bytes);
    let least_s = bytes as f64 / 1434.0 * 1472.0 * 8.0 / 20e6;
    println!("{seconds:.3} s, at the cap {least_s:.3} s");
    assert!((least_s..1.2 * least_s).contains(&seconds), "{seconds} {least_s}");
}

/// Trains one right after another, on paths much shorter than the gap between two datagrams, doubled the rate.
#[test]
fn a_cap_is_kept_on_short_paths() {
    let scenario = Scenario::new(1000.0, 0.05);
    let (bytes, cap) = (5_000_000, Rate::from_mbps(20.0));
    let (seconds, _, _) = transfer(&scenario, ObjectFlow { rate_cap: Some(cap), ..pcp() }, bytes);
    let least_s = bytes as f64 / 1434.0 * 1472.0 * 8.0 / 20e6;
    println!("{seconds:.3} s, at the cap {least_s:.3} s");
    assert!((0.99 * least_s..1.3 * least_s).contains(&seconds), "{seconds} {least_s}");
}

#[test]
fn acknowledgements_that_get_lost_fail_no_probe() {
    let transfer_s = |loss_reverse: f64| {
        let times = (1..=20).map(|seed| {
            let scenario = Scenario { loss_reverse, seed, ..Scenario::new(40.0, 40.0) };
            transfer(&scenario, pcp(), 250_000).0
        });
        times.sum::<f64>() / 20.0
    };
    let (clean_s, lossy_s) = (transfer_s(0.0), transfer_s(0.1));
    println!("{clean_s:.3} s, with 10 % of acknowledgements lost {lossy_s:.3} s");
    assert!(lossy_s < 1.15 * clean_s, "{clean_s} {lossy_s}");
}

#[test]
fn after_an_outage_it_is_back_in_a_few_round_trips() {
    let scenario = Scenario::new(100.0, 20.0);
    let mut sim: FlowSim = Sim::with_path(PathConfig::new(&scenario), Options::default());
    sim.schedule_outage(Time::from_millis(2_000), Time::from_millis(4_000));
    let id = sim.add(&FlowSpec::object(ControllerKind::Pcp, ENDLESS), &Placement::at(Time::ZERO));
    let delivered = |sim: &mut FlowSim, until_ms: u64| {
        sim.run(Limits { time: Time::from_millis(until_ms), ..Limits::default() }, |_| false);
        sim.stats(id).bytes_delivered
    };
    let (before, during) = (delivered(&mut sim, 2_000), delivered(&mut sim, 3_900));
    let (from, until) = (delivered(&mut sim, 6_500), delivered(&mut sim, 7_500));
    assert!(before > 10_000_000 && during - before < 1_000_000, "{before} {during}");
    let share = (until - from) as f64 * 8.0 / (100e6 * PAYLOAD_SHARE);
    println!("{share:.3} of the payload limit again");
    assert!(share > 0.85, "{share}");
}

#[test]
fn a_rate_that_falls_is_followed_without_filling_the_queue() {
    // A third of the path goes to a flow that does not yield.
    let scenario = Scenario::new(60.0, 30.0);
    let steady = ObjectFlow { rate: Some(Rate::from_mbps(20.0)), ..ObjectFlow::new(ControllerKind::Fixed) };
    let until = Time::from_millis(20_000);
    let flows = [(Protocol::Object(pcp()), 0), (Protocol::Object(steady), 4_000)];
    let traffic = flows.map(|(protocol, start_ms)| Traffic {
        stop: Some(until),
        ..Traffic::new(
            FlowSpec::new(protocol, ENDLESS),
            Arrivals::Together { at: Time::from_millis(start_ms), count: 1 },
        )
    });
    let workload = Workload::over(&scenario, traffic.into(), until).unwrap();
    let measured = Workload { measure_from: Time::from_millis(8_000), ..workload }.run();
    let got = share(&measured, 0, &scenario);
    let queue_bdp = measured.hops[0].forward.queue.mean_bytes / bdp_bytes(&scenario);
    println!("{got:.3} of the payload limit, queue {queue_bdp:.3} BDP, lost {}", measured.loss_ratio());
    assert!((0.58..0.68).contains(&got) && queue_bdp < 0.15, "{got} {queue_bdp}");
    assert_eq!(measured.loss_ratio(), 0.0);
}
