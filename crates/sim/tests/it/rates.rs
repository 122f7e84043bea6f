//! RBUDP, SABUL, UDT and BBR over a simulated path: do they do what they are known for?

use longhaul_proto::control::{ControllerKind, Snapshot};
use longhaul_proto::object::SenderStats;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::counters::Counters;
use longhaul_sim::flow::{FlowEnd, FlowSim, FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, Limits, Options, Placement, Side};
use std::time::Duration;

/// What came of a transfer.
struct Done {
    seconds: f64,
    sender: SenderStats,
    forward: Counters,
    reverse: Counters,
    /// Whenever it changed.
    snapshots: Vec<(Time, Snapshot)>,
}

impl Done {
    /// Share of what the path holds of the object's bytes.
    fn use_of(&self, mbit: f64, bytes: u64) -> f64 {
        bytes as f64 * 8e-6 / self.seconds / (mbit * PACKET_LEN / WIRE_LEN)
    }
}

/// One object from left to right, without a set-up before it.
fn transfer(flow: ObjectFlow, scenario: &Scenario, bytes: u64) -> Done {
    let flow = ObjectFlow { setup_round_trips: 0, ..flow };
    let mut sim = FlowSim::with_path(PathConfig::new(scenario), Options::default());
    let id = sim.add(&FlowSpec::new(Protocol::Object(flow), bytes), &Placement::default());
    let mut snapshots: Vec<(Time, Snapshot)> = vec![];
    let end = sim.run(Limits::default(), |sim| {
        let snapshot = sim.left(id).snapshot().expect("a sender has one");
        if snapshots.last().is_none_or(|(_, last)| *last != snapshot) {
            snapshots.push((sim.now(), snapshot));
        }
        matches!(sim.left(id), FlowEnd::ObjectSender(sender) if sender.acked() == sender.shape().packets())
    });
    assert_eq!(end, End::Stopped, "{scenario}");
    let FlowEnd::ObjectSender(sender) = sim.left(id) else { panic!("the left end sends") };
    Done {
        seconds: sim.now().as_secs_f64(),
        sender: sender.stats(),
        forward: sim.flow_counters(id, Side::Left),
        reverse: sim.flow_counters(id, Side::Right),
        snapshots,
    }
}

fn rbudp(rate_mbit: f64) -> ObjectFlow {
    ObjectFlow { rate: Some(Rate::from_mbps(rate_mbit)), ..ObjectFlow::new(ControllerKind::Rbudp) }
}

#[test]
fn rbudp_takes_the_time_of_its_model() {
    // T = S/R + rounds · RTT, where S counts what was sent again.
    for (rate_mbit, rtt_ms, loss) in
        [(90.0, 65.0, 0.0), (90.0, 65.0, 0.01), (90.0, 200.0, 0.05), (10.0, 20.0, 0.02), (900.0, 10.0, 0.001)]
    {
        let scenario = Scenario { loss, ..Scenario::new(rate_mbit / 0.9, rtt_ms) };
        let bytes = (rate_mbit * 1e6 / 8.0 * 4.0) as u64;
        let done = transfer(rbudp(rate_mbit), &scenario, bytes);
        let (sent, rounds) = (done.sender.packets_sent as f64, f64::from(done.sender.rounds));
        let model = sent * DATAGRAM_LEN * 8e-6 / rate_mbit + rounds * rtt_ms / 1e3;
        assert!((done.seconds / model - 1.0).abs() < 0.02, "{} s, by the model {model} s", done.seconds);
        assert!(if loss == 0.0 { rounds == 1.0 } else { rounds >= 2.0 }, "{rounds} rounds");
    }
}

#[test]
fn rbudp_sends_again_what_was_lost_and_nothing_else() {
    // With losses of requests and answers too, and with an answer that does not fit one datagram.
    for seed in 0..20 {
        let scenario = Scenario { loss: 0.1, loss_reverse: 0.1, seed, ..Scenario::new(1000.0, 30.0) };
        let Done { sender, forward, reverse, seconds, .. } = transfer(rbudp(800.0), &scenario, 30_000_000);
        let lost = forward.dropped.loss;
        let data = lost.saturating_sub(sender.requests)..=lost;
        assert!(data.contains(&sender.packets_resent), "{lost} lost, {} sent again", sender.packets_resent);
        assert_eq!(sender.packets_sent, sender.packets_required + sender.packets_resent);
        // Three datagrams hold the map; beside them there are signs of life and the word of completion.
        let told_most = 3 * sender.requests + (seconds / 0.2) as u64 + 2;
        assert!(reverse.sent <= told_most, "{} acknowledgements, {told_most} expected", reverse.sent);
        // Each round leaves a tenth: 20 921 packets last four or five rounds, seldom one more.
        assert!((4..=7).contains(&sender.rounds), "{} rounds", sender.rounds);
    }
}

#[test]
fn rbudp_is_not_taken_for_dead_while_a_round_goes_on() {
    let scenario = Scenario::new(20.0, 100.0);
    let done = transfer(rbudp(15.0), &scenario, 10_000_000);
    assert_eq!((done.sender.rounds, done.sender.given_up), (1, 0));
    let status = (done.seconds / 0.2) as u64;
    assert!((status - 3..=status + 3).contains(&done.sender.acks), "{} in {status}", done.sender.acks);
    assert_eq!(done.sender.timeouts_in_a_row, 0);
}

#[test]
fn udt_knows_the_link_from_packet_pairs() {
    for mbit in [5.0, 50.0, 400.0] {
        let flow = ObjectFlow::new(ControllerKind::Udt);
        let done = transfer(flow, &Scenario::new(mbit, 20.0), (mbit * 1e6) as u64);
        let link = mbit * DATAGRAM_LEN / WIRE_LEN;
        let told: Vec<f64> =
            done.snapshots.iter().filter_map(|(_, s)| s.bandwidth).map(Rate::as_mbps).collect();
        assert!(told.len() > 100, "told {} times only", told.len());
        let wrong = told.iter().filter(|told| (*told / link - 1.0).abs() > 0.1).count();
        assert!(wrong < told.len() / 50, "{wrong} of {} are not {link} Mb/s", told.len());
    }
}

#[test]
fn udt_fills_most_of_a_clean_path() {
    let bytes = 200_000_000;
    let done = transfer(ObjectFlow::new(ControllerKind::Udt), &Scenario::new(100.0, 40.0), bytes);
    assert!(done.use_of(100.0, bytes) > 0.8, "{}", done.use_of(100.0, bytes));
}

#[test]
fn sabul_fills_most_of_a_short_path_and_little_of_one_that_loses() {
    let bytes = 100_000_000;
    let share = |loss| {
        let scenario = Scenario { loss, ..Scenario::new(100.0, 20.0) };
        transfer(ObjectFlow::new(ControllerKind::Sabul), &scenario, bytes).use_of(100.0, bytes)
    };
    assert!(share(0.0) > 0.7, "{}", share(0.0));
    assert!(share(0.01) < 0.3, "every loss counts as congestion: {}", share(0.01));
}

#[test]
fn bbr_fills_a_clean_path_and_one_that_loses() {
    for (mbit, rtt_ms, loss) in [(100.0, 40.0, 0.0), (100.0, 40.0, 0.01), (20.0, 5.0, 0.0)] {
        let bytes = (mbit * 1e6 / 8.0 * 20.0) as u64;
        let scenario = Scenario { loss, ..Scenario::new(mbit, rtt_ms) };
        let done = transfer(ObjectFlow::new(ControllerKind::Bbr), &scenario, bytes);
        let share = done.use_of(mbit, bytes);
        assert!(share > 0.9 * (1.0 - loss), "{share} of {mbit} Mb/s");
    }
}

/// How much faster than the bandwidth it knows BBR paces.
fn gain(snapshot: &Snapshot) -> f64 {
    snapshot.pacing_rate.unwrap_or_default().as_mbps()
        / (0.99 * snapshot.bandwidth.unwrap_or_default().as_mbps())
}

#[test]
fn bbr_goes_through_its_phases() {
    let rtt_ms = 50.0;
    let flow = ObjectFlow::new(ControllerKind::Bbr);
    let done = transfer(flow, &Scenario::new(50.0, rtt_ms), 150_000_000);
    let mut names = vec![];
    done.snapshots.iter().for_each(|(_, s)| {
        if names.last() != Some(&s.phase) {
            names.push(s.phase);
        }
    });
    assert_eq!(names[..5], ["startup", "drain", "probe-bw", "probe-rtt", "probe-bw"]);

    let mut cycles = 0;
    for run in done.snapshots.chunk_by(|(_, a), (_, b)| a.phase == b.phase) {
        if run[0].1.phase == "probe-bw" {
            cycles += check_cycles(run, rtt_ms);
        }
    }
    assert!(cycles > 30, "{cycles} cycles");
}

/// In a row of snapshots while BBR probes the bandwidth: each phase of higher rate is followed by one of lower rate, and
/// that by six of the rate that is known. Returns how many such cycles there were.
fn check_cycles(run: &[(Time, Snapshot)], rtt_ms: f64) -> usize {
    let stretches: Vec<&[(Time, Snapshot)]> =
        run.chunk_by(|(_, a), (_, b)| (gain(a) - gain(b)).abs() < 0.02).collect();
    // The first may have begun anywhere in the cycle, the last is cut off.
    let lasted: Vec<(f64, f64)> = stretches
        .windows(2)
        .map(|pair| (gain(&pair[0][0].1), pair[1][0].0.since(pair[0][0].0).as_secs_f64() * 1e3 / rtt_ms))
        .collect();
    let mut cycles = 0;
    for [(up, raised), (down, lowered), (level, cruised)] in lasted.array_windows() {
        if (up - 1.25).abs() < 0.02 {
            assert!((down - 0.75).abs() < 0.02 && (level - 1.0).abs() < 0.02, "{up} {down} {level}");
            assert!((1.0..2.5).contains(raised), "raised for {raised} round trips");
            assert!(*lowered < 1.5, "lowered for {lowered} round trips");
            assert!((6.0..8.5).contains(cruised), "level for {cruised} round trips");
            cycles += 1;
        }
    }
    cycles
}

#[test]
fn bbr_pauses_when_the_round_trip_it_knows_is_ten_seconds_old() {
    let flow = ObjectFlow::new(ControllerKind::Bbr);
    let done = transfer(flow, &Scenario::new(50.0, 50.0), 150_000_000);
    let mut pauses: Vec<(Time, Duration)> = vec![];
    for pair in done.snapshots.windows(2) {
        let [(from, before), (until, _)] = pair else { unreachable!() };
        if before.phase == "probe-rtt" {
            assert_eq!(before.window, Some(4 * DATAGRAM_LEN as u64));
            match pauses.last_mut() {
                Some((began, span)) if *from == *began + *span => *span = until.since(*began),
                _ => pauses.push((*from, until.since(*from))),
            }
        }
    }
    // Later on its cycle may empty the queue often enough to see the round trip without a pause.
    assert!((10.0..10.5).contains(&pauses[0].0.as_secs_f64()), "{pauses:?}");
    for (_, span) in &pauses {
        assert!((0.2..0.4).contains(&span.as_secs_f64()), "{pauses:?}");
    }
}

/// Bytes of an object packet, of its UDP payload and of its IP packet.
const PACKET_LEN: f64 = 1434.0;
const DATAGRAM_LEN: f64 = 1472.0;
const WIRE_LEN: f64 = 1500.0;
