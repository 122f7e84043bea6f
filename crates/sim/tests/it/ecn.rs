//! Object transfers whose datagrams queues may mark: over paths that keep marks, and paths that do not.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSim, FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::link::Marks;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, FlowEvent, Limits, Options, Placement, Side};

const KINDS: [ControllerKind; 4] =
    [ControllerKind::Adaptive, ControllerKind::NewReno, ControllerKind::Cubic, ControllerKind::Bbr];

fn path(marks: Marks) -> Scenario {
    Scenario { marks, nic_mbit: Some(20.0), queue_bdp: Some(4.0), ..Scenario::new(20.0, 40.0) }
}

/// What came of a transfer of 4 MB.
struct Done {
    seconds: f64,
    /// What datagrams said at its end.
    ecn: Ecn,
    lost: u64,
    marked: u64,
}

fn transfer(scenario: &Scenario, control: ControllerKind, ecn: Ecn) -> Done {
    let flow = ObjectFlow { ecn, ..ObjectFlow::new(control) };
    let mut sim = FlowSim::with_path(PathConfig::new(scenario), Options::default());
    let id = sim.add(&FlowSpec::new(Protocol::Object(flow), 4_000_000), &Placement::default());
    let limits = Limits { time: Time::from_millis(60_000), ..Limits::default() };
    let end = sim.run(limits, |sim| {
        sim.events().iter().any(|event| matches!(event, FlowEvent::Left(_, FlowNews::Acknowledged)))
    });
    assert_eq!(end, End::Stopped, "{} with {ecn:?} over {:?}", control.name(), scenario.marks);
    let FlowEnd::ObjectSender(sender) = sim.left(id) else { panic!("the sender is on the left") };
    Done {
        seconds: sim.now().as_secs_f64(),
        ecn: sender.ecn(),
        lost: sim.counters(Side::Left).dropped.loss,
        marked: sender.stats().marked,
    }
}

#[test]
fn a_path_that_keeps_marks_is_trusted_whatever_else_it_does() {
    let rough =
        Scenario { loss: 0.01, loss_reverse: 0.05, reorder: 0.2, duplicate: 0.1, ..path(Marks::Kept) };
    for control in KINDS {
        for ecn in [Ecn::Ect0, Ecn::Ect1] {
            assert_eq!(transfer(&rough, control, ecn).ecn, ecn, "{}", control.name());
        }
    }
}

#[test]
fn where_marks_do_not_survive_none_is_asked_for_and_nothing_else_changes() {
    for control in KINDS {
        let plain = transfer(&path(Marks::Kept), control, Ecn::NotEct);
        for marks in [Marks::Cleared, Marks::Forged, Marks::Dropped] {
            let done = transfer(&path(marks), control, Ecn::Ect0);
            let told = format!("{} over {marks:?}", control.name());
            assert_eq!(done.ecn, Ecn::NotEct, "{told}");
            // A train is gone before anything can be heard of it.
            let at_stake = if marks == Marks::Dropped { 10..=64 } else { 0..=0 };
            assert!(at_stake.contains(&done.lost), "{told}: {} lost", done.lost);
            assert_eq!(done.marked > 0, marks == Marks::Forged, "{told}: {} marked", done.marked);
            // That the whole of a first window gets lost costs a window control some seconds.
            let most = if marks == Marks::Dropped { 4.0 } else { 0.1 };
            let slower = done.seconds - plain.seconds;
            assert!(slower < most, "{told}: {slower:.2} s more than {:.2}", plain.seconds);
        }
    }
}

#[test]
fn over_a_queue_that_never_marks_a_transfer_is_the_same_to_the_nanosecond() {
    for control in KINDS {
        let [plain, markable] =
            [Ecn::NotEct, Ecn::Ect0].map(|ecn| transfer(&path(Marks::Kept), control, ecn).seconds);
        assert_eq!(plain, markable, "{}", control.name());
    }
}
