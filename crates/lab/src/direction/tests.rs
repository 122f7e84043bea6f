use super::*;
use crate::headers::UDP;
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Step;
use proptest::prelude::*;

const OPEN: Closed = Closed { all: false, udp: false };

/// An IPv4 packet that carries its number and is of no known protocol.
fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![number as u8; len];
    packet[0] = 0x45;
    packet[9] = 0;
    packet[12..20].fill(0);
    packet[20..24].copy_from_slice(&number.to_ne_bytes());
    packet
}

fn new_lane(scenario: &Scenario) -> Direction {
    Direction::new(scenario, Side::Left, &[Duration::ZERO], Time::ZERO)
}

fn send(direction: &mut Direction, now: u64, packet: &[u8]) {
    direction.room()[..packet.len()].copy_from_slice(packet);
    direction.arrive(Time(now), 0, packet.len(), OPEN);
}

/// Deliver everything that is due by `now`, each at its own time.
fn collect(direction: &mut Direction, now: u64, into: &mut Vec<(u64, Vec<u8>)>) {
    while let Some(due) = direction.next_due().filter(|due| due.0 <= now) {
        direction.deliver_next(due, false, |_, bytes| {
            into.push((due.0, bytes.to_vec()));
            true
        });
    }
}

/// Send packets (gap before each in µs, size) and return when what came out, and the direction.
fn drive(scenario: &Scenario, packets: &[(u64, usize)]) -> (Vec<(u64, Vec<u8>)>, Direction) {
    let mut direction = new_lane(scenario);
    let (mut now, mut out) = (0, Vec::new());
    for (number, (gap_us, len)) in packets.iter().enumerate() {
        now += gap_us * 1000;
        collect(&mut direction, now, &mut out);
        send(&mut direction, now, &packet(number as u32, *len));
    }
    let before = direction.counters(Time(now));
    assert_eq!(
        before.packets_in + before.duplicated,
        before.packets_delivered + before.dropped_queue + before.dropped_loss + before.in_flight
    );
    collect(&mut direction, u64::MAX, &mut out);
    (out, direction)
}

/// When each packet comes out, told the slow way: by looking back at all that were accepted before. Bits are counted
/// exactly, in units of a nanosecond by the rate.
fn expected_times(scenario: &Scenario, packets: &[(u64, usize)]) -> Vec<(u64, u32)> {
    let rate = (scenario.bottleneck_mbit * 1e6).round() as u128;
    let (mut now, mut accepted) = (0, Vec::<(u128, u128, u64, u32)>::new()); // start, end, bytes, number
    for (number, (gap_us, len)) in packets.iter().enumerate() {
        now += u128::from(gap_us * 1000);
        let waits = |start: u128| start / rate > now;
        let waiting: u64 =
            accepted.iter().filter(|(start, ..)| waits(*start)).map(|(_, _, bytes, _)| bytes).sum();
        let start = accepted.last().map_or(now * rate, |(_, end, ..)| *end.max(&(now * rate)));
        if !waits(start) || waiting + *len as u64 <= scenario.queue_bytes() {
            let end = start + *len as u128 * 8_000_000_000;
            accepted.push((start, end, *len as u64, number as u32));
        }
    }
    let delay = (scenario.rtt_ms * 1e6).round() as u64 / 2;
    accepted.into_iter().map(|(_, end, _, number)| ((end / rate) as u64 + delay, number)).collect()
}

fn number_of(packet: &[u8]) -> u32 {
    u32::from_ne_bytes(*packet[20..].first_chunk().unwrap())
}

fn traffic() -> impl Strategy<Value = Vec<(u64, usize)>> {
    let gap_us = prop_oneof![Just(0), 1..300u64, 1..5000u64];
    prop::collection::vec((gap_us, 40..=1500usize), 1..400)
}

fn disciplines() -> impl Strategy<Value = QueueDiscipline> {
    prop::sample::select(&QueueDiscipline::ALL[..])
}

#[test]
fn a_policer_drops_udp_above_its_rate_and_nothing_else() {
    let mut direction = new_lane(&Scenario::new(1000.0, 2.0));
    direction.police_udp(Time::ZERO, Some(Rate::from_mbps(8.0)), 10_000);
    let mut udp = packet(1, 1000);
    udp[9] = UDP;
    // 80 Mb/s of each for 100 ms: of UDP 100 kB at 8 Mb/s and a burst of 10 kB get through.
    for tick in 0..1000 {
        send(&mut direction, tick * 100_000, &udp);
        send(&mut direction, tick * 100_000, &packet(2, 1000));
    }
    let passed = 1000 - direction.counters(Time::ZERO).dropped_udp;
    assert!((109..=110).contains(&passed), "{passed}");
    direction.police_udp(Time::ZERO, None, 0);
    send(&mut direction, 100_000_000, &udp);
    assert_eq!(1000 - direction.counters(Time::ZERO).dropped_udp, passed);
}

#[test]
fn a_black_hole_swallows_what_is_longer_and_nothing_else() {
    let mut direction = new_lane(&Scenario::new(1000.0, 2.0));
    direction.limit_length(Some(1300));
    for (number, len) in [(1, 1300), (2, 1301), (3, 1500), (4, 40)] {
        send(&mut direction, 0, &packet(number, len));
    }
    direction.limit_length(None);
    send(&mut direction, 0, &packet(5, 1500));
    let counted = direction.counters(Time::MAX);
    assert_eq!((counted.packets_in, counted.dropped_long), (5, 2));
}

proptest! {
    #[test]
    fn clean_paths_follow_the_model(
        packets in traffic(), mbit in 1.0..500.0f64, rtt_ms in 0.0..50.0f64, queue_kb in 0.0..60.0f64,
    ) {
        let scenario = Scenario { queue_kb: Some(queue_kb), ..Scenario::new(mbit, rtt_ms) };
        let (out, mut direction) = drive(&scenario, &packets);
        let found: Vec<(u64, u32)> = out.iter().map(|(due, bytes)| (*due, number_of(bytes))).collect();
        prop_assert_eq!(found, expected_times(&scenario, &packets));
        prop_assert!(direction.counters(Time::MAX).waiting_bytes.max_bytes <= scenario.queue_bytes());
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
        let (out, mut direction) = drive(&scenario, &packets);
        let counted = direction.counters(Time::MAX);
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
    /// What becomes of packets follows from when they come, not from when the emulator looks.
    #[test]
    fn who_looks_later_sees_the_same(
        packets in traffic(), looks_every in 1..100usize, queue_discipline in disciplines(),
        steps_at in prop::array::uniform4(0.0..0.3f64), loss in 0.0..0.3f64, seed: u64,
    ) {
        let step = |index: usize| Step { at_s: steps_at[index], ..Step::default() };
        let steps = vec![
            Step { bottleneck_mbit: Some(8.0), ..step(0) },
            Step { loss: Some(loss), ..step(1) },
            Step { outage_s: Some(0.03), ..step(2) },
            Step { rtt_ms: Some(40.0), ..step(3) },
        ];
        let scenario =
            Scenario { steps, seed, queue_discipline, queue_kb: Some(50.0), ..Scenario::new(16.0, 10.0) };
        let mut directions = [new_lane(&scenario), new_lane(&scenario)];
        let (mut now, mut out) = (0, [vec![], vec![]]);
        for (number, (gap_us, len)) in packets.iter().enumerate() {
            now += gap_us * 1000;
            let mut packet = packet(number as u32, *len);
            packet[12] = (number % 3) as u8;
            for (index, (direction, out)) in directions.iter_mut().zip(&mut out).enumerate() {
                if index == 0 || number % looks_every == 0 {
                    collect(direction, now, out);
                }
                send(direction, now, &packet);
            }
        }
        for (direction, out) in directions.iter_mut().zip(&mut out) {
            collect(direction, u64::MAX, out);
        }
        prop_assert_eq!(&out[0], &out[1]);
        let counted = directions.each_mut().map(|direction| {
            let way = direction.counters(Time::MAX);
            let dropped = [way.dropped_queue, way.dropped_loss, way.dropped_cut];
            (way.packets_in, way.packets_delivered, dropped, way.in_flight)
        });
        prop_assert_eq!(counted[0], counted[1]);
        let (came, delivered, dropped, in_flight) = counted[0];
        prop_assert_eq!((came - delivered, in_flight), (dropped.iter().sum(), 0));
    }
}

proptest! {
    /// The packets of a super-packet fare as if each had come alone, and are the same beyond the path.
    #[test]
    fn super_packets_lose_the_packets_that_would_be_lost(
        streams in prop::collection::vec((0..3000u64, crate::gso::tests::streams()), 1..30),
        loss in 0.0..0.3f64, queue_kb in 3.0..200.0f64, queue_discipline in disciplines(), seed: u64,
        policer_mbit in prop::option::of(5.0..150.0f64),
    ) {
        let queue_kb = Some(queue_kb);
        let single =
            Scenario { loss, policer_mbit, queue_kb, queue_discipline, seed, ..Scenario::new(100.0, 5.0) };
        let many = Scenario { super_packets: true, ..single.clone() };
        let mut directions = [&single, &many].map(new_lane);
        let (mut now, mut out) = (0, [vec![], vec![]]);
        for (gap_us, stream) in streams {
            now += gap_us * 1000;
            for (direction, out) in directions.iter_mut().zip(&mut out) {
                collect(direction, now, out);
            }
            let bytes = stream.handed_over();
            send(&mut directions[1], now, &bytes);
            for packet in cut_up(&bytes) {
                send(&mut directions[0], now, &packet);
            }
        }
        for (direction, out) in directions.iter_mut().zip(&mut out) {
            collect(direction, u64::MAX, out);
        }
        let counted = directions.each_mut().map(|direction| {
            let counted = direction.counters(Time::MAX);
            (counted.packets_in, counted.bytes_in, counted.dropped_policed, counted.dropped_queue, counted.dropped_loss,
                counted.packets_delivered, counted.bytes_delivered, counted.in_flight, direction.passed(0))
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

#[test]
fn time_can_begin_anew() {
    let text = "bottleneck_mbit = 100\nrtt_ms = 0\n[[steps]]\nat_s = 1\nbottleneck_mbit = 10\n";
    let mut direction = new_lane(&Scenario::parse(text).unwrap());
    let time_taken = |direction: &mut Direction, now: u64| {
        send(direction, now, &packet(0, 1500));
        let due = direction.next_due().unwrap();
        direction.deliver_next(due, false, |_, _| true);
        due.0 - now
    };
    assert_eq!(time_taken(&mut direction, 0), 120_000);
    assert_eq!(time_taken(&mut direction, 1_000_000_000), 1_200_000);
    direction.restart_clock(Time::from_millis(2000));
    assert_eq!(time_taken(&mut direction, 2_500_000_000), 120_000);
    assert_eq!(time_taken(&mut direction, 3_000_000_000), 1_200_000);
}

#[test]
fn pairs_share_the_queue_and_differ_in_delay() {
    // 1500 bytes take 120 µs; the second pair's packets take 3 ms more.
    let scenario = Scenario { queue_kb: Some(6.0), ..Scenario::new(100.0, 2.0) };
    let mut direction = Direction::new(&scenario, Side::Left, &[0, 3].map(Duration::from_millis), Time::ZERO);
    for number in 0..8 {
        direction.room()[..1500].copy_from_slice(&packet(number, 1500));
        direction.arrive(Time::ZERO, number as usize % 2, 1500, OPEN);
    }
    let mut out = vec![];
    while let Some(due) = direction.next_due() {
        direction.deliver_next(due, false, |pair, bytes| {
            out.push((due.0, pair, number_of(bytes)));
            true
        });
    }
    // One is being sent and four wait; three find no room, whoever sent them.
    let expected =
        [(1_120_000, 0, 0), (1_360_000, 0, 2), (1_600_000, 0, 4), (4_240_000, 1, 1), (4_480_000, 1, 3)];
    assert_eq!(out, expected);
    assert_eq!(direction.counters(Time::ZERO).dropped_queue, 3);
    let passed = [direction.passed(0), direction.passed(1)]
        .map(|one| (one.packets_in, one.packets_delivered, one.bytes_delivered));
    assert_eq!(passed, [(4, 3, 4500), (4, 2, 3000)]);
}

#[test]
fn fair_queueing_serves_flows_in_turn() {
    let scenario = Scenario { queue_discipline: QueueDiscipline::Fair, ..Scenario::new(100.0, 10.0) };
    let mut direction = new_lane(&scenario);
    for number in 0..8 {
        let mut packet = packet(number, 1500);
        // Six packets of one host, then two of another.
        packet[12] = u8::from(number > 5);
        send(&mut direction, 0, &packet);
    }
    let mut out = vec![];
    collect(&mut direction, u64::MAX, &mut out);
    let order: Vec<u32> = out.iter().map(|(_, bytes)| number_of(bytes)).collect();
    assert_eq!(order, [0, 1, 6, 2, 7, 3, 4, 5]);
    assert!(out.windows(2).all(|pair| pair[1].0 - pair[0].0 == 120_000));
}

#[test]
fn held_packets_are_overtaken() {
    let scenario = Scenario { reorder: 0.1, seed: 3, ..Scenario::new(100.0, 10.0) };
    let (out, mut direction) = drive(&scenario, &[(120, 1500); 1000]);
    let mut newest = 0;
    let overtaken = out
        .iter()
        .filter(|(_, bytes)| {
            let late = number_of(bytes) < newest;
            newest = newest.max(number_of(bytes));
            late
        })
        .count();
    let held = direction.counters(Time::MAX).reordered;
    assert!(held > 50 && overtaken as u64 >= held - 8, "{overtaken} of {held} overtaken");
}

#[test]
fn closed_paths_drop_and_say_so() {
    let mut direction = new_lane(&Scenario::new(100.0, 10.0));
    let mut udp = packet(0, 100);
    udp[9] = UDP;
    let mut udp_v6 = vec![0x60; 100];
    udp_v6[6] = UDP;
    for bytes in [&packet(1, 100), &udp, &udp_v6] {
        direction.room()[..100].copy_from_slice(bytes);
        direction.arrive(Time::ZERO, 0, 100, Closed { all: false, udp: true });
    }
    direction.room()[..100].copy_from_slice(&udp);
    direction.arrive(Time::ZERO, 0, 100, Closed { all: true, udp: true });
    assert!(direction.deliver_next(Time::MAX, true, |_, _| unreachable!("the path is cut")));
    let counted = direction.counters(Time::ZERO);
    assert_eq!((counted.dropped_udp, counted.dropped_cut, counted.packets_delivered), (2, 2, 0));
}

#[test]
fn memory_is_used_again() {
    let mut direction = new_lane(&Scenario::new(1000.0, 1.0));
    let mut out = Vec::new();
    for number in 0..50_000 {
        let now = u64::from(number) * 20_000;
        collect(&mut direction, now, &mut out);
        send(&mut direction, now, &packet(number, 1500));
    }
    assert_eq!(direction.slots.chunks(), 1, "26 packets are on their way at any time");
}
