//! Loss, corruption, duplicates, reordering, jitter: as the seed says, packet by packet.

use crate::Verdict;
use crate::path::start;
use crate::probe::{Probe, Received, Stream, check, median, within};
use longhaul_lab::{End, Fate, Impairments, Scenario};
use std::time::Duration;

pub fn exactly_the_seeded_packets_are_lost() -> Verdict {
    let scenario = Scenario { loss: 0.1, seed: 11, ..wide() };
    compare_losses(&scenario, End::Left, 120_000)?;
    // The same once more; another seed then loses others.
    compare_losses(&scenario, End::Left, 20_000)?;
    compare_losses(&Scenario { seed: 12, ..scenario }, End::Left, 20_000)
}

pub fn bursts_are_lost_on_the_way_back() -> Verdict {
    let scenario = Scenario { loss_reverse: 0.1, burst: Some(4.0), seed: 5, ..wide() };
    compare_losses(&scenario, End::Right, 120_000)?;
    check(start_and_run(&scenario, End::Left, 5_000)?.len() == 5_000, || {
        "lost on the way there as well".into()
    })
}

pub fn duplicates_and_reordering_have_their_shares() -> Verdict {
    let scenario = Scenario { duplicate: 0.02, reorder: 0.03, ..wide() };
    let received = start_and_run(&scenario, End::Left, PACKETS)?;
    let fates = fates(&scenario, End::Left, PACKETS);
    let mut times_seen = vec![0; PACKETS as usize];
    let (mut newest, mut overtaken) = (0, 0);
    for packet in &received {
        times_seen[packet.number as usize] += 1;
        overtaken += u32::from(packet.number < newest && times_seen[packet.number as usize] == 1);
        newest = newest.max(packet.number);
    }
    let twice = fates.iter().zip(&times_seen).all(|(fate, seen)| *seen == 1 + u32::from(fate.duplicated));
    check(twice, || "other packets than the seed says arrived twice".into())?;
    // Where the sender paused, nothing came to overtake a packet that was held back.
    let held = fates.iter().filter(|fate| fate.held_packets.is_some()).count();
    within("packets overtaken", f64::from(overtaken), held as f64, 0.05)?;
    within("share held back", held as f64 / f64::from(PACKETS), 0.03, 0.1)
}

pub fn corrupt_packets_are_refused_by_the_checksum() -> Verdict {
    let scenario = Scenario { corrupt: 0.02, ..wide() };
    let lab = start(&scenario)?;
    let received = Probe::new(&lab, End::Left)?.run(stream(PACKETS))?;
    let way = lab.counters().left_to_right;
    check(way.packets_delivered == u64::from(PACKETS), || format!("{way:?}"))?;
    let expected = numbers(&fates(&scenario, End::Left, PACKETS), |fate| fate.corrupt.is_none());
    check(received.iter().map(|packet| packet.number).eq(expected), || {
        format!("{} corrupted, {} of {PACKETS} arrived", way.corrupted, received.len())
    })
}

pub fn jitter_spreads_delays_and_keeps_order() -> Verdict {
    let scenario = Scenario { jitter_ms: 8.0, ..Scenario::new(100.0, 20.0) };
    let lab = start(&scenario)?;
    // Spaced so far that no packet waits for the one before it.
    let apart = Stream { packets: 200, packet_bytes: 200, gap: Duration::from_millis(10) };
    let probe = Probe::new(&lab, End::Left)?;
    let received = probe.run(apart)?;
    check(received.len() == 200, || format!("{} of 200 arrived", received.len()))?;
    let delays: Vec<f64> = received.iter().map(Received::delay_ms).collect();
    let fates = fates(&scenario, End::Left, 200);
    let excess = delays.iter().zip(&fates).map(|(delay, fate)| delay - 10.016 - 8.0 * fate.jitter).collect();
    within("ms beyond delay and jitter", 1.0 + median(excess), 1.0, 0.2)?;
    let close = Stream { gap: Duration::from_micros(300), packets: 2000, ..apart };
    let in_order = probe.run(close)?.windows(2).all(|pair| pair[0].number < pair[1].number);
    check(in_order, || "jitter changed the order".into())
}

/// Send and compare what did not arrive with what the seed says, packet by packet.
fn compare_losses(scenario: &Scenario, from: End, packets: u32) -> Verdict {
    let received = start_and_run(scenario, from, packets)?;
    let expected = numbers(&fates(scenario, from, packets), |fate| !fate.lost);
    let lost_share = 1.0 - received.len() as f64 / f64::from(packets);
    check(received.iter().map(|packet| packet.number).eq(expected.iter().copied()), || {
        format!("{} instead of {} of {packets} arrived, or others", received.len(), expected.len())
    })?;
    // Bursts of four spread the share about √7 times as wide as single losses.
    let room = if packets < 100_000 || scenario.burst.is_some() { 0.1 } else { 0.02 };
    within("share lost", lost_share, 0.1, room)
}

fn start_and_run(scenario: &Scenario, from: End, packets: u32) -> Result<Vec<Received>, String> {
    let lab = start(scenario)?;
    Probe::new(&lab, from)?.run(stream(packets))
}

fn fates(scenario: &Scenario, from: End, packets: u32) -> Vec<Fate> {
    let mut impairments = Impairments::new(scenario, from);
    (0..packets).map(|_| impairments.next_fate()).collect()
}

fn numbers(fates: &[Fate], wanted: impl Fn(&Fate) -> bool) -> Vec<u32> {
    (0..).zip(fates).filter(|(_, fate)| wanted(fate)).map(|(number, _)| number).collect()
}

/// A path so wide that its queue drops nothing.
fn wide() -> Scenario {
    Scenario { queue_kb: Some(50_000.0), ..Scenario::new(100.0, 10.0) }
}

/// 40 000 packets a second, a third of what [`wide`] carries.
fn stream(packets: u32) -> Stream {
    Stream { packets, packet_bytes: 100, gap: Duration::from_micros(25) }
}

const PACKETS: u32 = 40_000;
