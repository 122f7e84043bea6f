//! User-level TCP over all kinds of paths: it ends, with equal bytes.

use crate::common::tcp::Case;
use fastrand::Rng;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::tcp::{Config, SenderEvent};
use longhaul_proto::units::Time;
use longhaul_sim::counters::Counters;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, FlowEvent, Limits, Options, Side};
use std::time::Duration;

/// A short stream over a bad path: everything about it follows from the seed.
fn random_case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let mut scenario = Scenario {
        name: format!("random {seed}"),
        loss: sometimes(rng, 0.2),
        loss_reverse: sometimes(rng, 0.3),
        burst: rng.bool().then(|| 1.0 + 4.0 * rng.f64()),
        jitter_ms: sometimes(rng, 20.0),
        reorder: sometimes(rng, 0.3),
        duplicate: sometimes(rng, 0.3),
        corrupt: sometimes(rng, 0.1),
        seed,
        ..Scenario::new(10f64.powf(3.0 * rng.f64()), [0.0, 1.0, 10.0, 65.0, 200.0][rng.usize(..5)])
    };
    match rng.u32(..4) {
        0 => scenario.queue_kb = Some(3.0 + 20.0 * rng.f64()),
        1 => scenario.queue_bdp = Some(0.1),
        _ => {}
    }
    scenario.validate().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let config = |rng: &mut Rng| Config {
        mss: [100, 536, 1400, 1448][rng.usize(..4)],
        sack: rng.u32(..3) > 0,
        window_scaling: rng.bool(),
        receive_buffer: [1, 10_000, 100_000, 64 << 20][rng.usize(..4)],
        delayed_ack: Duration::from_millis(rng.u64(1..=200)),
        ..Config::default()
    };
    let begin = rng.u64(..100);
    Case {
        stream_len: match rng.u32(..8) {
            0 => rng.u64(..3),
            1 => 1448 * rng.u64(..70),
            2 => rng.u64(..500_000),
            _ => rng.u64(..100_000),
        },
        sender: config(rng),
        receiver: config(rng),
        controller: ControllerKind::ALL[rng.usize(..ControllerKind::ALL.len())],
        hold_ms: rng.bool().then(|| rng.u64(1..100)),
        outage_ms: (rng.u32(..4) == 0).then(|| begin..begin + rng.u64(1..2000)),
        source_misses: sometimes(rng, 0.5),
        sink_full: sometimes(rng, 0.5),
        options: Options {
            deliver_replays: true,
            right_clock_ahead: Duration::from_secs(rng.u64(..10_000)),
            ..Options::default()
        },
        scenario,
    }
}

/// Nothing, or anything up to `most`.
fn sometimes(rng: &mut Rng, most: f64) -> f64 {
    if rng.bool() { 0.0 } else { most * rng.f64() }
}

/// Run the cases of many seeds; each must succeed, and everything bad must have happened to some.
fn succeed_all(seeds: std::ops::Range<u64>) {
    let (mut forward, mut reverse) = (Counters::default(), Counters::default());
    let (mut refused, mut repeats, mut beyond) = (0, 0, 0);
    let (mut timeouts, mut fast, mut spurious) = (0, 0, 0);
    for seed in seeds {
        let case = random_case(seed);
        let done = case.succeed();
        forward += done.outcome.forward.counters;
        reverse += done.outcome.reverse.counters;
        refused += done.refused;
        repeats += done.receiver.repeats;
        beyond += done.receiver.out_of_order;
        timeouts += done.sender.timeouts;
        fast += done.sender.fast_recoveries;
        spurious += done.sender.spurious;
    }
    for (direction, counters) in [("forward", forward), ("reverse", reverse)] {
        for (what, count) in [
            ("loss", counters.dropped.loss),
            ("outage", counters.dropped.outage),
            ("corruption", counters.dropped.corrupt),
            ("duplication", counters.copied),
            ("reordering", counters.reordered),
        ] {
            assert!(count > 0, "no {what} {direction}");
        }
    }
    assert!(forward.dropped.queue > 0 && refused > 0 && repeats > 0 && beyond > 0);
    for (what, count) in [("timeout", timeouts), ("fast recovery", fast), ("needless repeat", spurious)] {
        assert!(count > 0, "no {what}");
    }
}

#[test]
fn random_transfers_complete_1() {
    succeed_all(0..1000);
}

#[test]
fn random_transfers_complete_2() {
    succeed_all(10_000..11_000);
}

#[test]
fn random_transfers_complete_3() {
    succeed_all(20_000..21_000);
}

/// For a machine with a minute to spare: `cargo test -p longhaul-sim --test it tcp:: -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn random_transfers_complete_many() {
    succeed_all(100_000..120_000);
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in 0..40 {
        let hash = |seed| random_case(seed).run().outcome.trace_hash;
        let first = hash(seed);
        assert_eq!(first, hash(seed), "seed {seed}");
        assert_ne!(first, hash(seed + 1), "seed {seed}");
    }
}

#[test]
fn a_clean_path_needs_no_retransmission() {
    for controller in [ControllerKind::NewReno, ControllerKind::Cubic] {
        for sack in [true, false] {
            let case = Case { controller, ..Case::plain() }.with_config(|config| config.sack = sack);
            let done = case.succeed();
            assert_eq!((done.sender.segments_sent, done.sender.retransmitted), (300, 0));
            assert_eq!((done.receiver.segments, done.receiver.out_of_order), (300, 0));
            // One for the first segment, one for every two of the others.
            assert!((150..=160).contains(&done.receiver.acks), "{done:#?}");
        }
    }
}

#[test]
fn sizes_on_the_wire_are_those_of_tcp() {
    let done = Case { stream_len: 1448 * 10, ..Case::plain() }.succeed();
    let (sent, acks) = (done.outcome.forward.counters, done.outcome.reverse.counters);
    // SYN, its acknowledgement, ten full segments; SYN-ACK, acknowledgements.
    assert_eq!((sent.sent, sent.sent_bytes), (12, 60 + 52 + 10 * 1500));
    assert_eq!(acks.sent_bytes, 60 + 52 * (acks.sent - 1));
}

#[test]
fn a_few_lost_segments_cost_no_timeout() {
    for sack in [true, false] {
        for loss_at in [90, 200, 301] {
            let scenario = Scenario { queue_kb: Some(100.0), ..Scenario::new(10.0, 20.0) };
            let case = Case { scenario, stream_len: 1448 * 400, ..Case::plain() };
            // 60 kB on their way keep the bottleneck busy and its queue from overflowing.
            let case = case.with_config(|config| (config.sack, config.receive_buffer) = (sack, 60_000));
            let mut is_out = false;
            let done = case.run_with(|sim, id| {
                if !is_out && sim.left(id).stats().segments_sent >= loss_at {
                    is_out = true;
                    // A segment takes 1.2 ms at the bottleneck, where 28 ms wait; what waits already will pass.
                    let from = sim.now() + Duration::from_millis(40);
                    sim.schedule_outage(from, from + Duration::from_micros(3700));
                }
            });
            case.insist(&done);
            let lost = done.outcome.forward.counters.dropped.outage;
            assert!((1..=4).contains(&lost), "{done:#?}");
            assert_eq!((done.sender.timeouts, done.sender.fast_recoveries), (0, 1), "{done:#?}");
            // Each, and perhaps the last one of all in case it was lost too.
            assert!((lost..=lost + 1).contains(&done.sender.retransmitted), "{done:#?}");
        }
    }
}

/// Each step leaves the bottleneck at 0, 10 and 20 ms.
#[test]
fn a_lost_step_of_the_set_up_costs_a_second() {
    for (lost, syns, about_ms) in [(0..5, 2, 1000), (5..15, 2, 1000), (15..25, 1, 500), (0..1500, 3, 3000)] {
        let done = Case { outage_ms: Some(lost.clone()), ..Case::plain() }.succeed();
        assert_eq!(done.sender.syns, syns, "{lost:?}");
        let took = done.outcome.time.since(Time::ZERO).as_millis();
        assert!((about_ms..about_ms + 400).contains(&took), "{took} ms for {lost:?}");
    }
}

#[test]
fn nothing_to_send_is_said() {
    let done = Case { stream_len: 0, ..Case::plain() }.succeed();
    assert_eq!((done.sender.segments_sent, done.receiver.segments), (1, 1));
}

#[test]
fn a_lost_word_of_the_end_is_said_again() {
    for controller in [ControllerKind::NewReno, ControllerKind::Cubic] {
        let case = Case { controller, ..Case::plain() };
        let mut is_out = false;
        let mut acks_lost = 0;
        let done = case.run_with(|sim, id| {
            if !is_out && sim.events().iter().any(|event| matches!(event, FlowEvent::Right(_, _))) {
                let is_end = sim.right(id).delivered_bytes() == case.stream_len;
                if is_end {
                    is_out = true;
                    sim.schedule_outage(sim.now(), sim.now() + Duration::from_millis(300));
                }
            }
            acks_lost = sim.flow_counters(id, Side::Right).dropped.outage;
        });
        case.insist(&done);
        assert!(acks_lost > 0, "{case}");
    }
}

#[test]
fn after_the_end_both_sides_fall_silent() {
    for seed in 0..50 {
        let case = random_case(seed);
        let (mut sim, id) = case.build();
        let end = sim.run(Limits { time: Time::MAX, ..Limits::default() }, |sim| {
            crate::common::tcp::serve_disk(sim, id);
            sim.events().iter().any(|event| matches!(event, FlowEvent::Left(_, SenderEvent::Complete)))
        });
        assert_eq!(end, End::Stopped, "{case}");
        let limits = Limits { time: sim.now() + Duration::from_secs(30), events: 100_000 };
        assert_eq!(sim.run(limits, |_| false), End::Idle, "{case}");
    }
}

#[test]
fn a_sink_that_is_full_for_a_while_closes_the_window() {
    for receive_buffer in [20_000, 65_535, 200_000] {
        let case = Case::plain().with_config(|config| config.receive_buffer = receive_buffer);
        let until = Time::from_millis(5000);
        let mut most = 0;
        let done = case.run_with(|sim, id| {
            let is_full = (Time::from_millis(50)..until).contains(&sim.now());
            sim.endpoints_mut(id).1.sink_mut().is_stalled = is_full;
            let taken = sim.right(id).delivered_bytes();
            most = most.max(sim.left(id).stats().bytes_acked.saturating_sub(taken));
        });
        case.insist(&done);
        assert!(done.refused > 0 && done.sender.window_probes > 2, "{done:#?}");
        assert!(most > receive_buffer / 2 && most <= receive_buffer, "{most} of {receive_buffer}");
        // Nothing was sent in vain, and the stream went on when there was room again.
        assert_eq!((done.sender.retransmitted, done.receiver.outside), (0, 0));
        assert!(done.outcome.time > until && done.outcome.time < until + Duration::from_secs(2));
    }
}

#[test]
fn a_source_that_is_not_ready_for_a_while_stops_nothing() {
    let case = Case::plain();
    let until = Time::from_millis(700);
    let done = case.run_with(|sim, id| {
        let is_stalled = (Time::from_millis(50)..until).contains(&sim.now());
        sim.endpoints_mut(id).0.source_mut().is_stalled = is_stalled;
    });
    case.insist(&done);
    assert!(done.outcome.time > until && done.sender.retransmitted == 0, "{done:#?}");
}

#[test]
fn after_a_long_outage_the_transfer_goes_on() {
    for controller in ControllerKind::ALL.iter().copied() {
        for sack in [true, false] {
            let outage_ms = Some(45..60_000);
            let case = Case { controller, outage_ms, ..Case::plain() }.with_config(|c| c.sack = sack);
            let done = case.succeed();
            assert!(done.sender.timeouts > 3, "{controller:?} {done:#?}");
            // Timeouts double: the outage is over for as long as it lasted, at most; then the rate is to be found again.
            assert!(done.outcome.time < Time::from_millis(140_000), "{controller:?} {done:#?}");
        }
    }
}

#[test]
fn spoilt_and_repeated_segments_break_nothing() {
    let mut mutated = 0;
    for seed in 0..200 {
        let mut case = random_case(seed);
        case.scenario.corrupt = 0.3;
        case.options.deliver_corrupt = true;
        // Any bytes may come in, and nothing says that they are wrong: the result may be anything, but not a crash.
        let (mut sim, _) = case.build();
        sim.run(Limits { time: Time::from_millis(60_000), events: 1_000_000 }, |_| false);
        let outcome = sim.outcome(End::Idle);
        mutated += outcome.forward.counters.mutated + outcome.reverse.counters.mutated;
    }
    assert!(mutated > 1000);
}
