//! The default controller: what it makes of a path, how it shares one, what it does when the path changes. A whole grid of
//! paths is the experiment `grid`; `cargo run --release -p longhaul-sim --example share` tries more ways of sharing.

use crate::common::bulk::{Bulk, Figures, Member, Shared, Shares};
use longhaul_sim::scenario::{Scenario, Step};
use std::time::Duration;

/// Waste that the path's loss makes necessary: p/(1−p).
fn needed(path: &Scenario) -> f64 {
    path.loss / (1.0 - path.loss)
}

/// A path and an object for so many seconds; `queue` in bandwidth-delay products.
fn cell(rate: f64, rtt_ms: f64, loss: f64, queue: f64, seconds: f64) -> Bulk {
    Bulk::new(Scenario { loss, queue_bdp: Some(queue), ..Scenario::new(rate, rtt_ms) }, seconds)
}

fn insist(cell: &Bulk, share_min: f64) -> Figures {
    let figures = cell.run();
    let told = format!("{figures:?}\n{}", cell.scenario);
    assert!(figures.share >= share_min, "slow: {told}");
    assert!(figures.waste <= needed(&cell.scenario) + 0.03, "wasteful: {told}");
    assert!(figures.queue_bdp <= 0.33 || figures.queue_ms <= 1.0, "a long queue: {told}");
    figures
}

#[test]
fn cells_of_the_grid_are_filled_without_waste_or_queue() {
    for (rate, rtt_ms, loss, queue, share_min) in [
        (10.0, 1.0, 0.0, 1.0, 0.95),
        (10.0, 10.0, 0.01, 0.5, 0.95),
        (10.0, 100.0, 0.05, 1.0, 0.85),
        (10.0, 300.0, 0.001, 0.1, 0.85),
        (100.0, 1.0, 0.0, 0.1, 0.85),
        (100.0, 10.0, 0.05, 2.0, 0.95),
        (100.0, 100.0, 0.01, 0.1, 0.9),
        (100.0, 300.0, 0.05, 1.0, 0.8),
    ] {
        insist(&cell(rate, rtt_ms, loss, queue, 20.0), share_min);
    }
}

/// A test for random loss in the very first round was once sized by what startup had delivered, a quarter of the path's
/// rate, and a short object never got over it.
#[test]
fn loss_in_the_first_round_trips_does_not_hold_a_short_object_back() {
    insist(&cell(100.0, 65.0, 0.05, 1.0, 3.3), 0.86);
}

/// 10 Gb/s over 1 ms with room for 83 datagrams: a burst for each half millisecond would be 400.
#[test]
fn bursts_fit_a_shallow_queue() {
    insist(&cell(10_000.0, 1.0, 0.0, 0.1, 0.4), 0.8);
}

#[test]
fn jitter_reordering_and_distant_clocks_do_not_slow_it() {
    for (rate, rtt_ms, jitter_ms, reorder) in
        [(100.0, 10.0, 2.0, 0.0), (100.0, 50.0, 2.0, 0.0), (100.0, 50.0, 0.5, 0.05)]
    {
        let scenario = Scenario { jitter_ms, reorder, ..Scenario::new(rate, rtt_ms) };
        let mut cell = Bulk::new(scenario, 10.0);
        cell.clock_ahead = Duration::from_secs(1_000_000);
        insist(&cell, 0.85);
    }
}

#[test]
fn loss_in_bursts_and_jitter_are_not_taken_for_a_full_path() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/rough.toml");
    let rough = Scenario::load(file.as_ref()).unwrap();
    let shares: Vec<f64> =
        (1..=6).map(|seed| Bulk::new(Scenario { seed, ..rough.clone() }, 8.0).run().share).collect();
    assert!(shares.iter().sum::<f64>() / shares.len() as f64 > 0.6, "{shares:?}");
}

/// A limiter that drops what is above its rate at once: loss that goes away when less is sent.
#[test]
fn a_policer_is_told_from_random_loss() {
    let scenario = Scenario { queue_kb: Some(3.0), ..Scenario::new(50.0, 40.0) };
    insist(&Bulk::new(scenario, 20.0), 0.8);
}

fn steps(steps: Vec<Step>, seconds: f64) -> Bulk {
    Bulk::new(Scenario { steps, ..Scenario::new(50.0, 40.0) }, seconds)
}

#[test]
fn a_rate_set_free_is_found_and_one_taken_is_left() {
    // 5 s at 50 Mb/s, 5 s at 200, 5 s at 25: 1375 Mb, in terms of 50 Mb/s 27.5 s
    let at = |at_s, rate| Step { at_s, bottleneck_mbit: Some(rate), ..Step::default() };
    let mut cell = steps(vec![at(5.0, 200.0), at(10.0, 25.0)], 27.5);
    cell.scenario.queue_kb = Some(1000.0);
    let figures = cell.run();
    assert!(figures.seconds < 17.5, "{figures:?}");
    assert!(figures.waste < 0.1, "{figures:?}");
}

#[test]
fn after_an_outage_it_is_soon_back() {
    let outage = Step { at_s: 5.0, outage_s: Some(4.0), ..Step::default() };
    let figures = steps(vec![outage], 12.0).run();
    assert!(figures.seconds < 12.0 + 4.0 + 3.0, "{figures:?}");
}

fn path(rate: f64, rtt_ms: f64) -> Scenario {
    Scenario::new(rate, rtt_ms)
}

/// `count` flows of its own, each a while after the last.
fn own(count: u32, stagger_s: f64) -> Vec<Member> {
    (0..count).map(|i| Member::new("adaptive", stagger_s * f64::from(i))).collect()
}

#[test]
fn flows_share_equally_whenever_they_begin() {
    for (count, rtt_ms) in [(2, 10.0), (4, 50.0)] {
        let shares = Shared::new(path(50.0, rtt_ms), own(count, 3.0), 30.0, 45.0).run();
        assert!(shares.jain(0..count as usize) >= 0.95 && shares.sum() >= 0.95, "{shares:?}");
    }
}

/// Thirty flows once took each other's losses for the path's nature, as no test of a single one made a difference, and
/// sent ever more to make up for them: nine tenths of all packets were dropped, and the flow that came last starved.
#[test]
fn a_crowd_does_not_take_its_own_losses_for_the_path() {
    let crowd = own(30, 0.2);
    let shares = Shared::new(path(10.0, 100.0), crowd, 15.0, 45.0).run();
    let least = shares.each.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least >= 0.2 / 30.0 && shares.sum() >= 0.9, "{shares:?}");
}

/// One of twenty once took the others for a BBR, did as one does, took the dips of its own for those of another, and kept half of
/// the link for good.
#[test]
fn whoever_is_taken_for_a_bbr_it_does_not_last() {
    let shares = Shared::new(path(100.0, 40.0), own(20, 0.4), 90.0, 120.0).run();
    assert!(shares.jain(0..20) >= 0.95, "{shares:?}");
}

/// One of eight once took a queue that ran empty when all sent less for a BBR's dip, and another for the second.
#[test]
fn what_our_like_empty_together_is_no_bbrs_dip() {
    let shares = Shared::new(path(100.0, 40.0), own(8, 0.7), 30.0, 60.0).run();
    assert!(shares.jain(0..8) >= 0.95, "{shares:?}");
}

fn beside_bbr(stop_s: Option<f64>, from_s: f64, to_s: f64) -> Shares {
    let stop = stop_s.map_or(Duration::MAX, Duration::from_secs_f64);
    let bbr = Member { stop, ..Member::new("tcp:bbr", 0.0) };
    Shared::new(path(100.0, 40.0), vec![Member::new("adaptive", 3.0), bbr], from_s, to_s).run()
}

#[test]
fn beside_a_bbr_either_keeps_a_good_part() {
    let shares = beside_bbr(None, 30.0, 60.0);
    assert!(shares.each.iter().all(|share| *share >= 0.35), "{shares:?}");
}

#[test]
fn the_link_is_its_own_again_when_a_bbr_has_left() {
    let shares = beside_bbr(Some(40.0), 45.0, 55.0);
    assert!(shares.each[0] >= 0.95 && shares.queue_bdp < 0.3, "{shares:?}");
}

#[test]
fn a_longer_way_earns_no_larger_share() {
    let far = Member { extra: Duration::from_millis(30), ..Member::new("adaptive", 3.0) };
    let shares = Shared::new(path(50.0, 20.0), vec![Member::new("adaptive", 0.0), far], 30.0, 45.0).run();
    assert!(shares.jain(0..2) >= 0.85 && shares.sum() >= 0.95, "{shares:?}");
}

fn beside_cubic(first: Member, stop_s: Option<f64>, from_s: f64, to_s: f64) -> Shares {
    let stop = stop_s.map_or(Duration::MAX, Duration::from_secs_f64);
    let cubic = Member { stop, ..Member::new("tcp:cubic", 5.0) };
    Shared::new(path(50.0, 40.0), vec![first, cubic], from_s, to_s).run()
}

#[test]
fn it_does_not_starve_beside_cubic_and_leaves_it_its_share() {
    let shares = beside_cubic(Member::new("adaptive", 0.0), None, 15.0, 45.0);
    assert!(shares.each[0] >= 0.3 && shares.each[1] >= 0.4, "{shares:?}");
}

/// Of a queue that is shorter than our like would make it one can only see that it stands while the link is not ours: one
/// NewReno once had a seventh of the link.
#[test]
fn one_newreno_with_a_short_queue_keeps_its_part() {
    for at_s in [0.0, 2.3] {
        let path = Scenario { queue_bdp: Some(0.5), ..Scenario::new(20.0, 20.0) };
        let flows = vec![Member::new("adaptive", 1.0), Member::new("tcp:newreno", at_s)];
        let shares = Shared::new(path, flows, 30.0, 60.0).run();
        assert!(shares.each.iter().all(|share| *share >= 0.3), "{shares:?}");
    }
}

#[test]
fn the_queue_is_short_again_when_cubic_has_left() {
    let shares = beside_cubic(Member::new("adaptive", 0.0), Some(15.0), 30.0, 40.0);
    assert!(shares.each[0] >= 0.95 && shares.queue_bdp < 0.3, "{shares:?}");
}

#[test]
fn in_the_background_it_fills_an_empty_path_and_yields_a_busy_one() {
    let shares = beside_cubic(Member::background(0.0), None, 10.0, 30.0);
    assert!(shares.each[1] >= 0.9, "{shares:?}");
    let alone = Shared::new(path(50.0, 40.0), vec![Member::background(0.0)], 5.0, 15.0).run();
    assert!(alone.each[0] >= 0.95, "{alone:?}");
}

/// What a flow alone has of 50 Mb/s five to fifteen seconds after a way of 20 ms has become one of `rtt_ms`.
fn after_a_longer_route(rtt_ms: f64, at_s: f64, loss: f64) -> f64 {
    let reroute = Step { at_s, rtt_ms: Some(rtt_ms), ..Step::default() };
    let scenario = Scenario { loss, steps: vec![reroute], ..path(50.0, 20.0) };
    Shared::new(scenario, own(1, 0.0), at_s + 5.0, at_s + 15.0).run().each[0]
}

/// What a flow made of a longer way once hung on the moment at which it came: that little more than a window was acknowledged for
/// a round trip was taken for an outage, what came late for lost, and the delay for rivals'. Some had a thousandth for good.
#[test]
fn a_longer_route_is_filled_soon_whenever_it_comes() {
    for rtt_ms in [30.0, 40.0, 80.0, 200.0] {
        for (at_s, loss) in [(3.274, 0.0), (3.411, 0.001), (3.548, 0.0)] {
            let share = after_a_longer_route(rtt_ms, at_s, loss);
            assert!(share >= 0.92, "{rtt_ms} ms at {at_s} s, {loss} lost: {share}");
        }
    }
}

#[test]
fn a_shorter_route_is_filled_too() {
    let reroute = Step { at_s: 5.0, rtt_ms: Some(20.0), ..Step::default() };
    let scenario = Scenario { steps: vec![reroute], queue_bdp: Some(0.5), ..Scenario::new(50.0, 200.0) };
    let shares = Shared::new(scenario, own(1, 0.0), 15.0, 60.0).run();
    assert!(shares.each[0] >= 0.9, "{shares:?}");
}
