//! Rate, delay, queue, card, outage.

use crate::Verdict;
use crate::disturbance::Watched;
use crate::probe::{Probe, Received, Stream, arrival_mbit, check, median, within};
use longhaul_lab::{End, Lab, Scenario, tcp};
use std::time::{Duration, Instant};

pub fn rate_is_that_of_the_bottleneck() -> Verdict {
    for mbit in [10.0, 100.0, 400.0] {
        for from in [End::Left, End::Right] {
            let lab = start(&Scenario::new(mbit, 40.0))?;
            let received = Probe::new(&lab, from)?.run(Stream::at_rate(mbit * 1.2, 1500, 1.0))?;
            within("Mb/s", arrival_mbit(&received, 1500, 0.25), mbit, 0.02)?;
            let counters = lab.counters();
            let way = if from == End::Left { counters.left_to_right } else { counters.right_to_left };
            check(way.packets_delivered == received.len() as u64, || {
                format!("{} delivered, {} received", way.packets_delivered, received.len())
            })?;
            check(way.packets_in == way.packets_delivered + way.dropped_queue, || format!("{way:?}"))?;
            check(way.dropped_queue > 0, || "a queue that overflows drops".into())?;
        }
    }
    Ok(())
}

pub fn delay_is_half_the_round_trip_each_way() -> Verdict {
    for (mbit, rtt_ms) in [(100.0, 20.0), (100.0, 65.0), (1000.0, 200.0)] {
        let lab = start(&Scenario::new(mbit, rtt_ms))?;
        for from in [End::Left, End::Right] {
            let stream = Stream { packets: 100, packet_bytes: 200, gap: Duration::from_millis(5) };
            let received = Probe::new(&lab, from)?.run(stream)?;
            check(received.len() == 100, || format!("{} of 100 packets arrived", received.len()))?;
            let serialisation_ms = 200.0 * 8.0 / mbit / 1e3;
            let delay = median(received.iter().map(Received::delay_ms).collect());
            within("one-way ms", delay, rtt_ms / 2.0 + serialisation_ms, 0.02)?;
        }
    }
    Ok(())
}

/// A blast that overflows the queue: what is accepted is one packet being sent, those that wait, and those that left
/// while the blast lasted.
pub fn queue_holds_what_it_should() -> Verdict {
    let lab = start(&Scenario { queue_kb: Some(100.0), ..Scenario::new(10.0, 40.0) })?;
    let blast = Stream { packets: 300, packet_bytes: 1000, gap: Duration::ZERO };
    let received = Probe::new(&lab, End::Left)?.run(blast)?;
    let way = lab.counters().left_to_right;
    let last_number = received.iter().map(|packet| packet.number).max().unwrap_or(0);
    let of = |number| received.iter().find(|packet| packet.number == number).map(|packet| packet.sent);
    let blast_ms =
        of(last_number).unwrap_or_default().saturating_sub(of(0).unwrap_or_default()).as_secs_f64() * 1e3;
    within("packets accepted", received.len() as f64, 101.0 + blast_ms * 1.25, 0.02)?;
    within("bytes waiting at most", way.waiting_bytes.max as f64, 100_000.0, 0.02)?;
    check(way.dropped_queue == 300 - received.len() as u64, || format!("{way:?}"))?;
    // The last packet accepted waits for a full queue.
    let slowest = received.iter().map(Received::delay_ms).fold(0.0, f64::max);
    within("longest delay, ms", slowest, 20.0 + 80.8, 0.02)
}

pub fn queue_does_not_count_what_propagates() -> Verdict {
    // 250 kB are on their way at any time; no more than 20 kB may wait.
    let lab = start(&Scenario { queue_kb: Some(20.0), ..Scenario::new(10.0, 400.0) })?;
    let stream = Stream::at_rate(9.0, 1000, 1.5);
    let received = Probe::new(&lab, End::Left)?.run(stream)?;
    check(received.len() == stream.packets as usize, || {
        format!("{} of {} arrived: {:?}", received.len(), stream.packets, lab.counters().left_to_right)
    })
}

pub fn card_holds_the_sender_back_and_drops_nothing() -> Verdict {
    for nic_mbit in [50.0, 300.0] {
        let lab = start(&Scenario { nic_mbit: Some(nic_mbit), ..Scenario::new(1000.0, 10.0) })?;
        let packets = Stream::at_rate(nic_mbit, 1500, 1.5).packets;
        let flood = Stream { packets, packet_bytes: 1500, gap: Duration::ZERO };
        let begin = Instant::now();
        let received = Probe::new(&lab, End::Left)?.run(flood)?;
        check(begin.elapsed() > Duration::from_secs(1), || "the sender was not held back".into())?;
        within("Mb/s", arrival_mbit(&received, 1500, 0.2), nic_mbit, 0.02)?;
        check(received.len() == packets as usize, || {
            format!("{} of {packets} arrived: {:?}", received.len(), lab.counters().left_to_right)
        })?;
    }
    Ok(())
}

pub fn cut_and_mended() -> Verdict {
    let lab = start(&Scenario::new(10.0, 20.0))?;
    let stream = Stream { packets: 100, packet_bytes: 200, gap: Duration::from_millis(1) };
    for from in [End::Left, End::Right] {
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
}

pub fn udp_blocked_tcp_not() -> Verdict {
    let lab = start(&Scenario::new(100.0, 10.0))?;
    let probe = Probe::new(&lab, End::Left)?;
    let stream = Stream { packets: 50, packet_bytes: 200, gap: Duration::from_millis(1) };
    lab.block_udp(true);
    check(probe.run(stream)?.is_empty(), || "UDP passed the firewall".into())?;
    tcp::transfer_within(&lab, 100_000, "reno", Duration::from_secs(10)).map_err(|e| e.to_string())?;
    lab.block_udp(false);
    check(probe.run(stream)?.len() == 50, || "UDP does not pass without a firewall".into())?;
    check(lab.counters().left_to_right.dropped_udp == 50, || format!("{:?}", lab.counters()))
}

pub fn start(scenario: &Scenario) -> Result<Watched, String> {
    Lab::start(scenario).map(Watched).map_err(|error| error.to_string())
}
