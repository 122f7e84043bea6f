//! Loss, corruption, duplicates, reordering, jitter: as the seed says, packet by packet.

use super::measure;
use super::probe::{Probe, Received, Stream, median, within};
use crate::watched::{Verdict, check, start};
use longhaul_lab::{Scenario, Side};
use longhaul_sim::impair::{Dice, Fate};
use longhaul_sim::path::PathConfig;
use std::time::Duration;

#[test]
fn exactly_the_seeded_packets_are_lost() {
    measure(|| {
        let scenario = Scenario { loss: 0.1, ..wide() };
        // The same once more; another seed then loses others.
        for seed in [11, 11, 12] {
            compare_losses(&Scenario { seed, ..scenario.clone() }, Side::Left)?;
        }
        Ok(())
    });
}

#[test]
fn bursts_are_lost_on_the_way_back() {
    measure(|| {
        let scenario = Scenario { loss_reverse: 0.1, burst: Some(4.0), seed: 5, ..wide() };
        compare_losses(&scenario, Side::Right)?;
        check(start_and_run(&scenario, Side::Left, 5_000)?.len() == 5_000, || {
            "lost on the way there as well".into()
        })
    });
}

#[test]
fn duplicates_and_reordering_have_their_shares() {
    measure(|| {
        let scenario = Scenario { duplicate: 0.02, reorder: 0.03, ..wide() };
        let received = start_and_run(&scenario, Side::Left, PACKETS)?;
        let fates = fates(&scenario, Side::Left, PACKETS);
        let mut times_seen = vec![0; PACKETS as usize];
        let (mut newest, mut overtaken) = (0, 0);
        for packet in &received {
            times_seen[packet.number as usize] += 1;
            overtaken += u32::from(packet.number < newest && times_seen[packet.number as usize] == 1);
            newest = newest.max(packet.number);
        }
        let twice = fates
            .iter()
            .zip(&times_seen)
            .all(|(fate, seen)| *seen == 1 + u32::from(fate.copy_after.is_some()));
        check(twice, || "other packets than the seed says arrived twice".into())?;
        // Where the sender paused, nothing came to overtake a packet that was held back.
        let held = fates.iter().filter(|fate| fate.held_back.is_some()).count();
        within("packets overtaken", f64::from(overtaken), held as f64, 0.05)?;
        within("share held back", held as f64 / f64::from(PACKETS), 0.03, 0.1)
    });
}

#[test]
fn corrupt_packets_are_refused_by_the_checksum() {
    measure(|| {
        let scenario = Scenario { corrupt: 0.02, ..wide() };
        let lab = start(&scenario)?;
        let received = Probe::new(&lab, Side::Left)?.run(stream(PACKETS))?;
        let way = lab.counters().left_to_right;
        check(way.packets_delivered == u64::from(PACKETS), || format!("{way:?}"))?;
        let expected = numbers(&fates(&scenario, Side::Left, PACKETS), |fate| fate.corrupt.is_none());
        check(received.iter().map(|packet| packet.number).eq(expected), || {
            format!("{} corrupted, {} of {PACKETS} arrived", way.corrupted, received.len())
        })
    });
}

#[test]
fn jitter_spreads_delays_and_keeps_order() {
    measure(|| {
        let scenario = Scenario { jitter_ms: 8.0, ..Scenario::new(100.0, 20.0) };
        let lab = start(&scenario)?;
        // Spaced so far that no packet waits for the one before it.
        let apart = Stream { packets: 200, packet_bytes: 200, gap: Duration::from_millis(10) };
        let probe = Probe::new(&lab, Side::Left)?;
        let received = probe.run(apart)?;
        check(received.len() == 200, || format!("{} of 200 arrived", received.len()))?;
        let delays: Vec<f64> = received.iter().map(Received::delay_ms).collect();
        let fates = fates(&scenario, Side::Left, 200);
        let excess = delays
            .iter()
            .zip(&fates)
            .map(|(delay, fate)| delay - 10.016 - fate.jitter.as_secs_f64() * 1e3)
            .collect();
        within("ms beyond delay and jitter", 1.0 + median(excess), 1.0, 0.2)?;
        let close = Stream { gap: Duration::from_micros(300), packets: 2000, ..apart };
        let in_order = probe.run(close)?.windows(2).all(|pair| pair[0].number < pair[1].number);
        check(in_order, || "jitter changed the order".into())
    });
}

/// Send and compare what did not arrive with what the seed says, packet by packet.
fn compare_losses(scenario: &Scenario, from: Side) -> Verdict {
    let received = start_and_run(scenario, from, PACKETS)?;
    let expected = numbers(&fates(scenario, from, PACKETS), |fate| !fate.lost);
    let lost_share = 1.0 - received.len() as f64 / f64::from(PACKETS);
    check(received.iter().map(|packet| packet.number).eq(expected.iter().copied()), || {
        format!("{} instead of {} of {PACKETS} arrived, or others", received.len(), expected.len())
    })?;
    within("share lost", lost_share, 0.1, 0.1)
}

fn start_and_run(scenario: &Scenario, from: Side, packets: u32) -> Result<Vec<Received>, String> {
    let lab = start(scenario)?;
    Probe::new(&lab, from)?.run(stream(packets))
}

fn fates(scenario: &Scenario, from: Side, packets: u32) -> Vec<Fate> {
    let mut dice = dice(scenario, from);
    (0..packets).map(|_| dice.roll()).collect()
}

/// What the seed says of the packets that `from` sends.
pub fn dice(scenario: &Scenario, from: Side) -> Dice {
    let path = PathConfig::new(scenario);
    match from {
        Side::Left => path.forward.dice(),
        Side::Right => path.reverse.dice(),
    }
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

/// Enough for bursts of four to lose what they should within a tenth.
const PACKETS: u32 = 40_000;
