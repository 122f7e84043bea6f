//! The machine that all rules share.

use super::testing::{Flow, LEN, Path};
use super::*;
use proptest::prelude::*;

const RTT: Duration = Duration::from_millis(100);

fn windowed(config: ControlConfig) -> Windowed<NewReno> {
    Windowed::new(config, NewReno)
}

#[test]
fn initial_window_is_that_of_rfc_6928() {
    let bytes = |len| windowed(ControlConfig::new(len, RTT)).window();
    assert_eq!([500, 1460, 4000, 7300, 9000].map(bytes), [5000, 14_600, 14_600, 14_600, 18_000].map(Some));
}

#[test]
fn a_classic_window_begins_with_one_segment_and_counts_acknowledgements() {
    let mut control = windowed(ControlConfig { classic: true, ..ControlConfig::new(LEN, RTT) });
    assert_eq!(control.window(), Some(LEN));
    let ack = |received: u64, in_flight: u64| AckSample {
        now: Time::from_millis(100 * received),
        arrival: Time::ZERO,
        one_way_ns: None,
        rtt: Some(RTT),
        rtt_min: RTT,
        received_bytes: received * LEN,
        accepted_bytes: received * LEN,
        covered_bytes: received * LEN,
        overrun_bytes: 0,
        ce_bytes: 0,
        pressure: 0.0,
        latest: received - 1,
        largest: received - 1,
        next_number: received + in_flight,
        in_flight: in_flight * LEN,
        app_limited: false,
        time_lost: Duration::ZERO,
    };
    control.on_ack(&ack(1, 0));
    // two segments, one acknowledgement
    control.on_ack(&ack(3, 0));
    assert_eq!(control.window(), Some(3 * LEN));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for (window, ssthresh) in [(100.0, 100.0), (100.0, f64::INFINITY)] {
        let mut flow = Flow::in_avoidance(Path::delay(RTT), NewReno, window);
        flow.control.ssthresh = ssthresh;
        flow.in_flight_max = 45;
        flow.run_for(RTT * 4);
        let window = flow.window();
        flow.run_for(RTT * 20);
        assert_eq!(flow.window(), window);
        flow.in_flight_max = u64::MAX;
        flow.run_for(RTT * 5);
        assert!(flow.window() > window + 3.0, "{}", flow.window());
    }
}

#[test]
fn a_sender_without_data_does_not_grow_its_window() {
    let mut flow = Flow::in_avoidance(Path::delay(RTT), NewReno, 100.0);
    flow.is_app_limited = true;
    flow.run_for(RTT * 20);
    assert_eq!(flow.window(), 100.0);
}

#[test]
fn timeouts_in_a_row_lower_ssthresh_once() {
    let mut flow = Flow::in_avoidance(Path::delay(RTT), NewReno, 64.0);
    flow.run_for(RTT * 5 / 2);
    flow.drop_next = 500;
    flow.rounds_until(|flow| flow.timeouts == 5);
    let ssthresh = flow.control.ssthresh;
    assert!(flow.window() == 1.0 && (32.0..35.0).contains(&ssthresh), "{} {ssthresh}", flow.window());
    flow.drop_next = 0;
    // 1, 2, 4 … up to ssthresh.
    let rounds = flow.rounds_until(|flow| !flow.is_slow_starting());
    assert!(flow.window() >= 32.0 && rounds < 20.0, "{} {rounds}", flow.window());
}

#[test]
fn a_timeout_while_a_loss_is_repaired_leaves_ssthresh() {
    let mut flow = Flow::in_avoidance(Path::delay(RTT), NewReno, 64.0);
    let (_, left) = flow.lose_one();
    flow.control.on_timeout(flow.now);
    assert_eq!((flow.window(), flow.control.ssthresh), (1.0, left));
}

#[test]
fn what_a_timeout_gives_up_costs_nothing_more() {
    let mut control = windowed(ControlConfig::new(LEN, RTT));
    (control.window, control.ssthresh) = (64.0, 64.0);
    control.on_sent(&Sent { now: Time::ZERO, number: 63, bytes: LEN, in_train: false, in_flight: 64 * LEN });
    let now = Time::from_millis(2000);
    control.on_timeout(now);
    control.on_loss(&LossSample { now, lost_bytes: 64 * LEN, new_episode: true, in_flight: 0 });
    assert_eq!((control.window, control.ssthresh), (1.0, 32.0));
}

#[test]
fn a_loss_costs_what_was_used_of_the_window() {
    let mut flow = Flow::in_avoidance(Path::delay(RTT), NewReno, 1000.0);
    flow.in_flight_max = 100;
    flow.run_for(RTT * 3);
    let (_, left) = flow.lose_one();
    assert!((49.0..52.0).contains(&left), "{left}");
}

#[test]
fn one_acknowledgement_at_most_doubles_the_window() {
    let mut flow = Flow::new(Path::delay(RTT), NewReno);
    flow.step();
    let window = flow.window();
    flow.received += 1_000_000_000;
    flow.step();
    assert!(flow.window() <= window * 2.0 + 1.0, "{}", flow.window());
}

#[test]
fn paces_faster_than_the_window_and_twice_as_fast_in_slow_start() {
    let mut control = windowed(ControlConfig::new(1250, RTT));
    // 1250 bytes / 100 ms = 100 kb/s.
    assert_eq!(control.pacing_rate(), Some(Rate(2_000_000)));
    control.ssthresh = control.window;
    assert_eq!(control.pacing_rate(), Some(Rate(1_200_000)));
    let unpaced = ControlConfig { paced: false, ..ControlConfig::new(1250, RTT) };
    assert_eq!(windowed(unpaced).pacing_rate(), None);
    for rtt in [Duration::ZERO, Duration::MAX] {
        let rate = windowed(ControlConfig::new(1250, rtt)).pacing_rate().unwrap();
        assert!((1000..u64::MAX / 2).contains(&rate.0), "{rtt:?}: {rate}");
    }
}

#[test]
fn snapshot_tells_the_phase() {
    let mut flow = Flow::new(Path::delay(RTT), NewReno);
    assert_eq!(flow.control.snapshot().phase, "slow start");
    flow.run_for(RTT * 3);
    flow.lose_one();
    assert_eq!(flow.control.snapshot().phase, "repair");
    flow.run_for(RTT * 3);
    assert_eq!(flow.control.snapshot().phase, "avoidance");
}

/// Something that happens to a flow.
#[derive(Clone, Copy, Debug)]
enum Op {
    Acks(u16),
    Drop(u16),
    Timeout,
    Rtt(u16),
    Service(u16),
    InFlightMax(u64),
    AppLimited(bool),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0u16..300).prop_map(Op::Acks),
        2 => (0u16..300).prop_map(Op::Drop),
        1 => Just(Op::Timeout),
        1 => (0u16..2000).prop_map(Op::Rtt),
        1 => (0u16..20_000).prop_map(Op::Service),
        1 => prop_oneof![1u64..100, Just(u64::MAX)].prop_map(Op::InFlightMax),
        1 => any::<bool>().prop_map(Op::AppLimited),
    ];
    proptest::collection::vec(op, 0..30)
}

fn survives<R: Rule>(path: Path, rule: R, ops: &[Op]) {
    let mut flow = Flow::new(path, rule);
    for op in ops {
        match *op {
            Op::Acks(count) => (0..count).for_each(|_| flow.step()),
            Op::Drop(count) => flow.drop_next = count.into(),
            Op::Timeout => flow.control.on_timeout(flow.now),
            Op::Rtt(ms) => flow.path.rtt = Duration::from_millis(ms.into()),
            Op::Service(us) => flow.path.service = Duration::from_micros(us.into()),
            Op::InFlightMax(count) => flow.in_flight_max = count,
            Op::AppLimited(is_limited) => flow.is_app_limited = is_limited,
        }
        let window = flow.window();
        assert!((1.0..=WINDOW_MAX).contains(&window), "{window} after {op:?}");
        assert!(flow.control.ssthresh >= SSTHRESH_MIN.min(window), "{:?} after {op:?}", flow.control);
    }
    // A path that is well again.
    flow.path = path;
    (flow.drop_next, flow.in_flight_max, flow.is_app_limited) = (0, u64::MAX, false);
    let left = flow.in_flight();
    let comes_back = (0..100 + 2 * left).any(|_| {
        flow.step();
        flow.window() >= 2.0
    });
    assert!(comes_back, "{:?}", flow.control);
}

proptest! {
    #[test]
    fn every_rule_survives_and_comes_back(ops in ops(), rtt_ms in 1u64..300, buffer in 5u32..500) {
        let path = Path {
            rtt: Duration::from_millis(rtt_ms),
            service: Duration::from_micros(100),
            buffer,
        };
        survives(path, NewReno, &ops);
        survives(path, Scalable, &ops);
        survives(path, HighSpeed, &ops);
        survives(path, HTcp::new(), &ops);
        survives(path, Cubic::default(), &ops);
        survives(path, Bic::default(), &ops);
        survives(path, MulTcp::new(4), &ops);
        survives(path, Ledbat::new(ledbat::TARGET), &ops);
    }
}
