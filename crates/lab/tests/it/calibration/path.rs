//! Rate, delay, queue, card, outage.

use super::probe::{Probe, Received, Stream, arrival_mbit, median, within};
use super::{measure, wait};
use crate::watched::{Verdict, check, side_by_side, start};
use longhaul_lab::{Scenario, Side, tcp};
use std::time::{Duration, Instant};

#[test]
fn rate_is_that_of_the_bottleneck() {
    measure(|| {
        let ways = [(10.0, Side::Left), (10.0, Side::Right), (100.0, Side::Left), (100.0, Side::Right)];
        side_by_side(ways, |(mbit, from)| rate_is(mbit, from))?;
        // The emulator has its hands full.
        rate_is(400.0, Side::Left)?;
        rate_is(400.0, Side::Right)
    });
}

fn rate_is(mbit: f64, from: Side) -> Verdict {
    let lab = start(&Scenario::new(mbit, 40.0))?;
    let received = Probe::new(&lab, from)?.run(Stream::at_rate(mbit * 1.2, 1500, 1.0))?;
    within("Mb/s", arrival_mbit(&received, 1500, 0.25), mbit, 0.02)?;
    let counters = lab.counters();
    let way = if from == Side::Left { counters.left_to_right } else { counters.right_to_left };
    check(way.packets_delivered == received.len() as u64, || {
        format!("{} delivered, {} received", way.packets_delivered, received.len())
    })?;
    check(way.packets_in == way.packets_delivered + way.dropped_queue, || format!("{way:?}"))?;
    check(way.dropped_queue > 0, || "a queue that overflows drops".into())
}

#[test]
fn delay_is_half_the_round_trip_each_way() {
    measure(|| {
        let paths = [(100.0, 20.0), (100.0, 65.0), (1000.0, 200.0)];
        side_by_side(paths, |(mbit, rtt_ms)| {
            let lab = start(&Scenario::new(mbit, rtt_ms))?;
            for from in [Side::Left, Side::Right] {
                let stream = Stream { packets: 100, packet_bytes: 200, gap: Duration::from_millis(5) };
                let received = Probe::new(&lab, from)?.run(stream)?;
                check(received.len() == 100, || format!("{} of 100 packets arrived", received.len()))?;
                let serialisation_ms = 200.0 * 8.0 / mbit / 1e3;
                let delay = median(received.iter().map(Received::delay_ms).collect());
                within("one-way ms", delay, rtt_ms / 2.0 + serialisation_ms, 0.02)?;
            }
            Ok(())
        })
        .map(drop)
    });
}

/// A blast that overflows the queue: what is accepted is one packet being sent, those that wait, and those that left
/// while the blast lasted.
#[test]
fn queue_holds_what_it_should() {
    measure(|| {
        let lab = start(&Scenario { queue_kb: Some(100.0), ..Scenario::new(10.0, 40.0) })?;
        let blast = Stream { packets: 300, packet_bytes: 1000, gap: Duration::ZERO };
        let received = Probe::new(&lab, Side::Left)?.run(blast)?;
        let way = lab.counters().left_to_right;
        let last_number = received.iter().map(|packet| packet.number).max().unwrap_or(0);
        let of = |number| received.iter().find(|packet| packet.number == number).map(|packet| packet.sent);
        let blast_ms =
            of(last_number).unwrap_or_default().saturating_sub(of(0).unwrap_or_default()).as_secs_f64() * 1e3;
        within("packets accepted", received.len() as f64, 101.0 + blast_ms * 1.25, 0.02)?;
        within("bytes waiting at most", way.waiting_bytes.max_bytes as f64, 100_000.0, 0.02)?;
        check(way.dropped_queue == 300 - received.len() as u64, || format!("{way:?}"))?;
        // The last packet accepted waits for a full queue.
        let slowest = received.iter().map(Received::delay_ms).fold(0.0, f64::max);
        within("longest delay, ms", slowest, 20.0 + 80.8, 0.02)
    });
}

#[test]
fn queue_does_not_count_what_propagates() {
    measure(|| {
        // 250 kB are on their way at any time; no more than 20 kB may wait.
        let lab = start(&Scenario { queue_kb: Some(20.0), ..Scenario::new(10.0, 400.0) })?;
        let stream = Stream::at_rate(9.0, 1000, 1.5);
        let received = Probe::new(&lab, Side::Left)?.run(stream)?;
        check(received.len() == stream.packets as usize, || {
            format!("{} of {} arrived: {:?}", received.len(), stream.packets, lab.counters().left_to_right)
        })
    });
}

#[test]
fn card_holds_the_sender_back_and_drops_nothing() {
    measure(|| {
        for nic_mbit in [50.0, 300.0] {
            let lab = start(&Scenario { nic_mbit: Some(nic_mbit), ..Scenario::new(1000.0, 10.0) })?;
            let packets = Stream::at_rate(nic_mbit, 1500, 1.5).packets;
            let flood = Stream { packets, packet_bytes: 1500, gap: Duration::ZERO };
            let begin = Instant::now();
            let received = Probe::new(&lab, Side::Left)?.run(flood)?;
            check(begin.elapsed() > Duration::from_secs(1), || "the sender was not held back".into())?;
            within("Mb/s", arrival_mbit(&received, 1500, 0.2), nic_mbit, 0.02)?;
            check(received.len() == packets as usize, || {
                format!("{} of {packets} arrived: {:?}", received.len(), lab.counters().left_to_right)
            })?;
        }
        Ok(())
    });
}

#[test]
fn cut_and_mended() {
    wait(|| {
        let lab = start(&Scenario::new(10.0, 20.0))?;
        let stream = Stream { packets: 100, packet_bytes: 200, gap: Duration::from_millis(1) };
        for from in [Side::Left, Side::Right] {
            let probe = Probe::new(&lab, from)?;
            for (cut, expected) in [(false, 100), (true, 0), (false, 100)] {
                lab.cut(cut);
                let arrived = probe.run(stream)?.len();
                check(arrived == expected, || format!("cut {cut}: {arrived} instead of {expected} arrived"))?;
            }
        }
        let counters = lab.counters();
        let dropped = (counters.left_to_right.dropped_cut, counters.right_to_left.dropped_cut);
        check(dropped == (100, 100), || format!("{dropped:?} instead of 100 each way counted as cut"))
    });
}

#[test]
fn udp_blocked_tcp_not() {
    wait(|| {
        let lab = start(&Scenario::new(100.0, 10.0))?;
        let probe = Probe::new(&lab, Side::Left)?;
        let stream = Stream { packets: 50, packet_bytes: 200, gap: Duration::from_millis(1) };
        lab.block_udp(true);
        check(probe.run(stream)?.is_empty(), || "UDP passed the firewall".into())?;
        tcp::transfer_within(&lab, 100_000, "reno", Duration::from_secs(10)).map_err(|e| e.to_string())?;
        lab.block_udp(false);
        check(probe.run(stream)?.len() == 50, || "UDP does not pass without a firewall".into())?;
        check(lab.counters().left_to_right.dropped_udp == 50, || format!("{:?}", lab.counters()))
    });
}
