//! What passes becomes shorter, or longer, while an object is on its way.

use crate::common::sizes::{CLASSES, Case};
use fastrand::Rng;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::scenario::Scenario;
use std::ops::Range;
use std::thread;
use std::time::Duration;

/// A bad path on which long datagrams vanish at some moment, and pass again at another.
fn random_case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let mbit = 10f64.powf(0.5 + 1.5 * rng.f64());
    let some = |rng: &mut Rng, most: f64| if rng.bool() { most * rng.f64() } else { 0.0 };
    let scenario = Scenario {
        loss: some(rng, 0.1),
        loss_reverse: some(rng, 0.1),
        burst: rng.bool().then(|| 1.0 + 3.0 * rng.f64()),
        jitter_ms: some(rng, 5.0),
        reorder: some(rng, 0.2),
        duplicate: some(rng, 0.1),
        mtu: 9000,
        seed,
        ..Scenario::new(mbit, [0.2, 5.0, 40.0, 200.0][rng.usize(..4)])
    };
    let seconds = 0.5 + 2.0 * rng.f64();
    let object_len = (mbit * 1e6 / 8.0 * seconds) as u64;
    let at = |rng: &mut Rng| Time::from_millis((seconds * 1e3 * 1.2 * rng.f64()) as u64);
    let mut times = [at(rng), at(rng), at(rng)];
    times.sort();
    let class = rng.u8(1..3);
    let changes = vec![(times[0], rng.u8(..class)), (times[1], 2), (times[2], rng.u8(..3))];
    let range = |rng: &mut Rng| {
        let start = rng.u64(..object_len);
        start..(start + rng.u64(1..300_000)).min(object_len)
    };
    let mut spoiled: Vec<_> = (0..rng.usize(..3)).map(|_| (at(rng), range(rng))).collect();
    spoiled.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let kinds = [ControllerKind::Adaptive, ControllerKind::Cubic, ControllerKind::Rbudp, ControllerKind::Udt];
    Case {
        scenario,
        object_len,
        controller: if rng.bool() { ControllerKind::default() } else { kinds[rng.usize(..kinds.len())] },
        class,
        changes: if rng.u8(..3) == 0 { changes[..1].to_vec() } else { changes },
        is_told: rng.u8(..3) == 0,
        outage_ms: (rng.u8(..4) == 0).then(|| {
            let from = rng.u64(..1500);
            from..from + rng.u64(..800)
        }),
        have: (0..rng.usize(..4)).map(|_| range(rng)).collect(),
        spoiled,
    }
}

fn over(seeds: Range<u64>) -> usize {
    seeds.map(|seed| random_case(seed).succeed().cuts.len()).sum()
}

#[test]
fn an_object_arrives_whatever_size_passes_when() {
    let cuts = over(0..200);
    assert!(cuts > 100, "{cuts}");
}

/// For a machine with minutes to spare: `cargo test -p longhaul-sim --test it sizes:: -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn an_object_arrives_whatever_size_passes_when_over_many_seeds() {
    over(200..3000);
    leaves_vanished_sizes(40..200);
    lasts_through_outages(40..200);
}

/// A path that loses a little, on which an object takes some three seconds.
fn path(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let mbit = 10.0 + 40.0 * rng.f64();
    let scenario = Scenario {
        loss: [0.0, 0.01, 0.05][rng.usize(..3)],
        mtu: 9000,
        seed,
        ..Scenario::new(mbit, [1.0, 20.0, 80.0, 200.0][rng.usize(..4)])
    };
    Case { scenario, object_len: (mbit * 375_000.0) as u64, ..Case::plain() }
}

#[test]
fn a_size_that_vanishes_is_left_within_a_few_round_trips_and_costs_little_more_than_these() {
    leaves_vanished_sizes(0..40);
}

fn leaves_vanished_sizes(seeds: Range<u64>) {
    let middle = seeds.start.midpoint(seeds.end);
    let shares: Vec<f64> = thread::scope(|scope| {
        let halves = [seeds.start..middle, middle..seeds.end]
            .map(|seeds| scope.spawn(|| seeds.map(after_a_cut).collect::<Vec<_>>()));
        halves.into_iter().flat_map(|half| half.join().expect("each seed succeeds")).collect()
    });
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    println!("goodput after a cut is {mean:.3} of that of a copy that begins so");
    assert!(mean > 0.9, "{mean}");
}

/// Goodput after a cut as a share of that of a copy that begins with the smallest size.
fn after_a_cut(seed: u64) -> f64 {
    let at = Time::from_millis(1000 + 25 * (seed % 40));
    let is_told = seed.is_multiple_of(2);
    let changed = Case { changes: vec![(at, 0)], is_told, ..path(seed) }.succeed();
    let &[cut] = &changed.cuts[..] else { panic!("seed {seed}: {:?}", changed.cuts) };
    let (rtt, took) = (changed.case.rtt(), cut.at.since(at));
    assert_eq!(cut.class, 0, "seed {seed}");
    assert!(took <= rtt * 5 + Duration::from_millis(200), "seed {seed}: {took:?} of {rtt:?}");
    let small = Case { class: 0, changes: vec![(Time::ZERO, 0)], ..path(seed) }.succeed();
    let rate = |bytes: u64, span: Duration| bytes as f64 / span.as_secs_f64();
    let whole = changed.case.object_len;
    let before = rate(whole, small.done.outcome.time.since(Time::ZERO));
    let after = rate(whole - cut.acked, changed.done.outcome.time.since(cut.at));
    assert!(after > before * 0.5, "seed {seed}: {:.2} of it, {rtt:?}", after / before);
    after / before
}

#[test]
fn a_path_on_which_nothing_passes_for_a_while_changes_nothing() {
    lasts_through_outages(0..40);
}

fn lasts_through_outages(seeds: Range<u64>) {
    for seed in seeds {
        let (from, lasts) = (500 + 25 * (seed % 40), 75 * (1 + seed % 40));
        let ended = Case { outage_ms: Some(from..from + lasts), ..path(seed) }.succeed();
        assert_eq!(ended.cuts, [], "seed {seed}");
    }
}

#[test]
fn larger_sizes_are_tried_every_ten_minutes() {
    let scenario = Scenario { mtu: 9000, ..Scenario::new(1.0, 40.0) };
    let passes_again = Time::from_millis(700_000);
    let changes = vec![(Time::from_millis(5_000), 1), (passes_again, 2)];
    let case = Case { scenario, object_len: 170_000_000, changes, ..Case::plain() };
    let ended = case.succeed();
    let seconds: Vec<_> = ended.cuts.iter().map(|cut| (cut.at.0 / 1_000_000_000, cut.class)).collect();
    // In vain after ten minutes, and well after ten more.
    assert_eq!(seconds, [(5, 1), (1205, 2)]);
    let required = case.object_len.div_ceil(u64::from(CLASSES[1]) - 38);
    assert!(ended.done.sender.packets_sent < required + required / 100, "{:?}", ended.done.sender);
}
