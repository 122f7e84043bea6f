use super::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const OPEN: Closed = Closed { all: false, udp: false };

/// An IPv4 packet that carries its number and is of no known protocol.
fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![number as u8; len];
    packet[0] = 0x45;
    packet[9] = 0;
    packet[16..20].copy_from_slice(&number.to_ne_bytes());
    packet
}

fn send(lane: &mut Lane, now: u64, packet: &[u8]) {
    lane.room()[..packet.len()].copy_from_slice(packet);
    lane.arrive(now, 0, packet.len(), OPEN);
}

/// Deliver everything that is due by `now`, each at its own time.
fn collect(lane: &mut Lane, now: u64, into: &mut Vec<(u64, Vec<u8>)>) {
    while let Some(due) = lane.next_due().filter(|due| *due <= now) {
        lane.deliver_next(due, false, |_, bytes| {
            into.push((due, bytes.to_vec()));
            true
        });
    }
}

/// Send packets (gap before each in µs, size) and return when what came out, and the lane.
fn drive(scenario: &Scenario, packets: &[(u64, usize)]) -> (Vec<(u64, Vec<u8>)>, Lane) {
    let mut lane = Lane::new(scenario, End::Left, &[0], 0);
    let (mut now, mut out) = (0, Vec::new());
    for (number, (gap_us, len)) in packets.iter().enumerate() {
        now += gap_us * 1000;
        collect(&mut lane, now, &mut out);
        send(&mut lane, now, &packet(number as u32, *len));
    }
    let before = lane.counters(now);
    assert_eq!(
        before.packets_in + before.duplicated,
        before.packets_delivered + before.dropped_queue + before.dropped_loss + before.in_flight
    );
    collect(&mut lane, u64::MAX, &mut out);
    (out, lane)
}

/// When each packet comes out, told the slow way: by looking back at all that were accepted before.
fn expected_times(scenario: &Scenario, packets: &[(u64, usize)]) -> Vec<(u64, u32)> {
    let (mut now, mut accepted) = (0, Vec::<(u64, u64, u64, u32)>::new()); // start, end, bytes, number
    for (number, (gap_us, len)) in packets.iter().enumerate() {
        now += gap_us * 1000;
        let waiting: u64 =
            accepted.iter().filter(|(start, ..)| *start > now).map(|(_, _, bytes, _)| bytes).sum();
        let start = accepted.last().map_or(now, |(_, end, ..)| now.max(*end));
        if start == now || waiting + *len as u64 <= scenario.queue_bytes() {
            let end = start + (*len as f64 * 8e3 / scenario.bottleneck_mbit).round() as u64;
            accepted.push((start, end, *len as u64, number as u32));
        }
    }
    let delay = (scenario.rtt_ms * 5e5) as u64;
    accepted.into_iter().map(|(_, end, _, number)| (end + delay, number)).collect()
}

fn number_of(packet: &[u8]) -> u32 {
    u32::from_ne_bytes(*packet[16..].first_chunk().unwrap())
}

fn traffic() -> impl Strategy<Value = Vec<(u64, usize)>> {
    let gap_us = prop_oneof![Just(0), 1..300u64, 1..5000u64];
    prop::collection::vec((gap_us, 40..=1500usize), 1..400)
}

#[test]
fn a_policer_drops_udp_above_its_rate_and_nothing_else() {
    let mut lane = Lane::new(&Scenario::new(1000.0, 2.0), End::Left, &[0], 0);
    lane.police_udp(0, Some(8.0), 10_000);
    let mut udp = packet(1, 1000);
    udp[9] = UDP;
    // 80 Mb/s of each for 100 ms: of UDP 100 kB at 8 Mb/s and a burst of 10 kB get through.
    for tick in 0..1000 {
        send(&mut lane, tick * 100_000, &udp);
        send(&mut lane, tick * 100_000, &packet(2, 1000));
    }
    let passed = 1000 - lane.counters(0).dropped_udp;
    assert!((109..=110).contains(&passed), "{passed}");
    lane.police_udp(0, None, 0);
    send(&mut lane, 100_000_000, &udp);
    assert_eq!(1000 - lane.counters(0).dropped_udp, passed);
}

proptest! {
    #[test]
    fn clean_paths_follow_the_model(
        packets in traffic(), mbit in 1.0..500.0f64, rtt_ms in 0.0..50.0f64, queue_kb in 0.0..60.0f64,
    ) {
        let scenario = Scenario { queue_kb: Some(queue_kb), ..Scenario::new(mbit, rtt_ms) };
        let (out, mut lane) = drive(&scenario, &packets);
        let expected = expected_times(&scenario, &packets);
        let found: Vec<(u64, u32)> = out.iter().map(|(due, bytes)| (*due, number_of(bytes))).collect();
        prop_assert_eq!(found.len(), expected.len());
        for ((due, number), (expected_due, expected_number)) in found.iter().zip(&expected) {
            prop_assert_eq!(number, expected_number);
            prop_assert!(due.abs_diff(*expected_due) <= 1, "{} instead of {}", due, expected_due);
        }
        prop_assert!(lane.counters(u64::MAX).waiting_bytes.max <= scenario.queue_bytes());
        for (_, bytes) in &out {
            prop_assert_eq!(bytes, &packet(number_of(bytes), bytes.len()));
        }
    }

    #[test]
    fn rough_paths_lose_nothing_unaccounted(packets in traffic(), share in 0.0..0.5f64, seed: u64) {
        let scenario = Scenario {
            loss: share, corrupt: share, duplicate: share, reorder: share, jitter_ms: 2.0, seed,
            ..Scenario::new(50.0, 5.0)
        };
        let (out, mut lane) = drive(&scenario, &packets);
        let counted = lane.counters(u64::MAX);
        prop_assert_eq!(counted.in_flight, 0);
        prop_assert_eq!(counted.packets_delivered, out.len() as u64);
        prop_assert!(out.is_sorted_by_key(|(due, _)| *due));
        // A duplicate and its original are changed alike, if at all.
        let changed = out.iter().filter(|(_, bytes)| *bytes != packet(number_of(bytes), bytes.len())).count();
        prop_assert!(changed as u64 <= counted.corrupted + counted.duplicated);
    }

    #[test]
    fn jitter_alone_keeps_order(packets in traffic(), jitter_ms in 0.0..20.0f64) {
        let scenario = Scenario { jitter_ms, ..Scenario::new(50.0, 5.0) };
        let (out, _) = drive(&scenario, &packets);
        prop_assert!(out.is_sorted_by_key(|(_, bytes)| number_of(bytes)));
    }
}

proptest! {
    // The same cases each time: where one packet comes in the nanosecond in which another leaves, the two may differ.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Steps mean what they mean in the simulator, packet by packet.
    #[test]
    fn steps_are_the_simulators(
        packets in traffic(), seed: u64, slow_at in 0.0..0.3f64, slow_mbit in 1.0..20.0f64,
        loss_at in 0.0..0.3f64, loss in 0.0..1.0f64, out_at in 0.0..0.3f64, outage_s in 0.01..0.1f64,
        route_at in 0.0..0.3f64, rtt_ms in 0.0..50.0f64,
    ) {
        use longhaul_proto::units::Time;
        use longhaul_sim::{link::{Link, Passage}, path::PathConfig, scenario::Step};
        let step = |at_s| Step { at_s, ..Step::default() };
        let steps = vec![
            Step { bottleneck_mbit: Some(slow_mbit), ..step(slow_at) },
            Step { loss: Some(loss), ..step(loss_at) },
            Step { outage_s: Some(outage_s), ..step(out_at) },
            Step { rtt_ms: Some(rtt_ms), ..step(route_at) },
        ];
        let scenario = Scenario { steps, seed, queue_kb: Some(20.0), ..Scenario::new(16.0, 10.0) };
        let mut lane = Lane::new(&scenario, End::Left, &[0], 0);
        let mut link = Link::new(&PathConfig::new(&scenario).forward, Time::ZERO);
        let (mut now, mut expected, mut found) = (0, vec![], vec![]);
        for (number, (gap_us, len)) in packets.iter().enumerate() {
            now += gap_us * 1000;
            send(&mut lane, now, &packet(number as u32, *len));
            expected.push(match link.offer(Time(now), *len as u32) {
                Passage::QueueFull => (1, 0, 0, 0),
                Passage::Outage => (0, 1, 0, 0),
                Passage::Lost => (0, 0, 1, 0),
                Passage::Arrives { time, .. } => (0, 0, 0, time.0),
            });
            let before = lane.counters(now);
            lane.reset_counters(now);
            let newest = lane.ways[0].flying.back().map_or(0, |packet| packet.due);
            let arrives = before.dropped_queue + before.dropped_cut + before.dropped_loss == 0;
            found.push((
                before.dropped_queue, before.dropped_cut, before.dropped_loss, newest * u64::from(arrives),
            ));
        }
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let same = (found.0, found.1, found.2) == (expected.0, expected.1, expected.2);
            // The lane rounds the time of each packet and of each step to a nanosecond, the link carries the rest over.
            let close = found.3.abs_diff(expected.3) <= number as u64 + ROUNDED_NS;
            prop_assert!(same && close, "packet {}: {:?} instead of {:?}", number, found, expected);
        }
    }
}

proptest! {
    /// The packets of a super-packet fare as if each had come alone, and are the same beyond the path.
    #[test]
    fn super_packets_lose_the_packets_that_would_be_lost(
        streams in prop::collection::vec((0..3000u64, crate::supers::tests::streams()), 1..30),
        loss in 0.0..0.3f64, queue_kb in 3.0..200.0f64, seed: u64,
    ) {
        let single = Scenario { loss, queue_kb: Some(queue_kb), seed, ..Scenario::new(200.0, 5.0) };
        let many = Scenario { super_packets: true, ..single.clone() };
        let mut lanes = [&single, &many].map(|scenario| Lane::new(scenario, End::Left, &[0], 0));
        let (mut now, mut out) = (0, [vec![], vec![]]);
        for (gap_us, stream) in streams {
            now += gap_us * 1000;
            for (lane, out) in lanes.iter_mut().zip(&mut out) {
                collect(lane, now, out);
            }
            let bytes = stream.handed_over();
            send(&mut lanes[1], now, &bytes);
            for packet in cut_up(&bytes) {
                send(&mut lanes[0], now, &packet);
            }
        }
        for (lane, out) in lanes.iter_mut().zip(&mut out) {
            collect(lane, u64::MAX, out);
        }
        let counted = lanes.each_mut().map(|lane| {
            let counted = lane.counters(u64::MAX);
            (counted.packets_in, counted.bytes_in, counted.dropped_queue, counted.dropped_loss,
                counted.packets_delivered, counted.bytes_delivered, counted.in_flight, lane.passed(0))
        });
        prop_assert_eq!(counted[0], counted[1]);
        let [single, many] = out;
        let mut single = single.into_iter();
        for (due, bytes) in many {
            let mut last_due = 0;
            for packet in cut_up(&bytes) {
                let (due, alone) = single.next().unwrap();
                last_due = due;
                prop_assert_eq!(alone, packet);
            }
            prop_assert_eq!(due, last_due);
        }
        prop_assert!(single.next().is_none());
    }
}

/// The IP packets that a super-packet is.
fn cut_up(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some(shape) = Shape::of(bytes) else { return vec![bytes[NOTE_LEN..].to_vec()] };
    let mut into = vec![0; SUPER_LEN_MAX];
    let packet = |n: u32| {
        let len = shape.cut(bytes, &(n..n + 1), &mut into);
        into[NOTE_LEN..len].to_vec()
    };
    (0..shape.packets()).map(packet).collect()
}

/// A thousandth of what a packet takes.
const ROUNDED_NS: u64 = 50;

#[test]
fn time_can_begin_anew() {
    let text = "bottleneck_mbit = 100\nrtt_ms = 0\n[[steps]]\nat_s = 1\nbottleneck_mbit = 10\n";
    let mut lane = Lane::new(&Scenario::parse(text).unwrap(), End::Left, &[0], 0);
    let time_taken = |lane: &mut Lane, now: u64| {
        send(lane, now, &packet(0, 1500));
        let due = lane.next_due().unwrap();
        lane.deliver_next(due, false, |_, _| true);
        due - now
    };
    assert_eq!(time_taken(&mut lane, 0), 120_000);
    assert_eq!(time_taken(&mut lane, 1_000_000_000), 1_200_000);
    lane.restart_clock(2_000_000_000);
    assert_eq!(time_taken(&mut lane, 2_500_000_000), 120_000);
    assert_eq!(time_taken(&mut lane, 3_000_000_000), 1_200_000);
}

#[test]
fn pairs_share_the_queue_and_differ_in_delay() {
    // 1500 bytes take 120 µs; the second pair's packets take 3 ms more.
    let scenario = Scenario { queue_kb: Some(6.0), ..Scenario::new(100.0, 2.0) };
    let mut lane = Lane::new(&scenario, End::Left, &[0, 3_000_000], 0);
    for number in 0..8 {
        lane.room()[..1500].copy_from_slice(&packet(number, 1500));
        lane.arrive(0, number as usize % 2, 1500, OPEN);
    }
    let mut out = vec![];
    while let Some(due) = lane.next_due() {
        lane.deliver_next(due, false, |pair, bytes| {
            out.push((due, pair, number_of(bytes)));
            true
        });
    }
    // One is being sent and four wait; three find no room, whoever sent them.
    let expected =
        [(1_120_000, 0, 0), (1_360_000, 0, 2), (1_600_000, 0, 4), (4_240_000, 1, 1), (4_480_000, 1, 3)];
    assert_eq!(out, expected);
    assert_eq!(lane.counters(0).dropped_queue, 3);
    let passed = [lane.passed(0), lane.passed(1)]
        .map(|one| (one.packets_in, one.packets_delivered, one.bytes_delivered));
    assert_eq!(passed, [(4, 3, 4500), (4, 2, 3000)]);
}

#[test]
fn held_packets_are_overtaken() {
    let scenario = Scenario { reorder: 0.1, seed: 3, ..Scenario::new(100.0, 10.0) };
    let (out, mut lane) = drive(&scenario, &[(120, 1500); 1000]);
    let mut newest = 0;
    let overtaken = out
        .iter()
        .filter(|(_, bytes)| {
            let late = number_of(bytes) < newest;
            newest = newest.max(number_of(bytes));
            late
        })
        .count();
    let held = lane.counters(u64::MAX).reordered;
    assert!(held > 50 && overtaken as u64 >= held - 8, "{overtaken} of {held} overtaken");
}

#[test]
fn closed_paths_drop_and_say_so() {
    let mut lane = Lane::new(&Scenario::new(100.0, 10.0), End::Left, &[0], 0);
    let mut udp = packet(0, 100);
    udp[9] = UDP;
    let mut udp_v6 = vec![0x60; 100];
    udp_v6[6] = UDP;
    for bytes in [&packet(1, 100), &udp, &udp_v6] {
        lane.room()[..100].copy_from_slice(bytes);
        lane.arrive(0, 0, 100, Closed { all: false, udp: true });
    }
    lane.room()[..100].copy_from_slice(&udp);
    lane.arrive(0, 0, 100, Closed { all: true, udp: true });
    assert!(lane.deliver_next(u64::MAX, true, |_, _| unreachable!("the path is cut")));
    let counted = lane.counters(0);
    assert_eq!((counted.dropped_udp, counted.dropped_cut, counted.packets_delivered), (2, 2, 0));
}

#[test]
fn memory_is_used_again() {
    let mut lane = Lane::new(&Scenario::new(1000.0, 1.0), End::Left, &[0], 0);
    let mut out = Vec::new();
    for number in 0..50_000 {
        let now = u64::from(number) * 20_000;
        collect(&mut lane, now, &mut out);
        send(&mut lane, now, &packet(number, 1500));
    }
    assert_eq!(lane.slots.chunks(), 1, "26 packets are on their way at any time");
}
