//! The user changes the rate, and has a transfer pause, while it runs.

use crate::common::bulk::{BulkSim, ends};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::{FlowId, Limits, Options, Side, Sim};

/// A transfer that is longer than any of these watches.
struct Steered {
    sim: BulkSim,
    id: FlowId,
    wire_bits: f64,
    /// Where it is: the simulation stands at its last event, which may be long ago.
    reached: Time,
}

impl Steered {
    fn start(scenario: &Scenario, kind: ControllerKind) -> Steered {
        let options = Options { trace: TraceMode::Off, ..Options::default() };
        let mut sim = Sim::with_path(PathConfig::new(scenario), options);
        let (sender, receiver) = ends(scenario, 10_000_000_000, kind);
        let id = sim.add_flow(sender, receiver, Time::ZERO);
        Steered { sim, id, wire_bits: f64::from(scenario.mtu) * 8.0, reached: Time::ZERO }
    }

    /// What the user says now.
    fn say(&mut self, rate_mbit: Option<f64>, paused: bool) {
        let sender = self.sim.endpoints_mut(self.id).0;
        sender.set_rate_cap(rate_mbit.map(Rate::from_mbps));
        sender.set_paused(paused);
        self.sim.wake_at(self.id, Side::Left, self.reached);
    }

    /// Go on until then: packets sent meanwhile, and what they come to in Mb/s of the wire.
    fn until(&mut self, seconds: f64) -> (u64, f64) {
        let before = self.sim.flow_counters(self.id, Side::Left).sent;
        let time = Time::from_millis((seconds * 1e3) as u64);
        self.sim.run(Limits { time, ..Limits::default() }, |_| false);
        let sent = self.sim.flow_counters(self.id, Side::Left).sent - before;
        let span = time.since(std::mem::replace(&mut self.reached, time));
        (sent, sent as f64 * self.wire_bits * 1e-6 / span.as_secs_f64())
    }
}

#[test]
fn a_new_rate_is_kept_to_at_once_and_a_pause_sends_nothing() {
    for kind in [ControllerKind::Adaptive, ControllerKind::Cubic, ControllerKind::Bbr, ControllerKind::Udt] {
        for loss in [0.0, 0.001] {
            // Losses that are none of its making are what holds others back.
            let is_ours = kind == ControllerKind::Adaptive;
            let scenario = Scenario { loss, ..Scenario::new(100.0, 40.0) };
            let mut transfer = Steered::start(&scenario, kind);
            transfer.until(4.0);
            for (from, rate) in [(4.0, 20.0), (8.0, 5.0), (12.0, 10.0)] {
                transfer.say(Some(rate), false);
                let (_, mbit) = transfer.until(from + 4.0);
                // Headers are not counted against the user's rate.
                assert!(mbit < rate * 1.06, "{} at {rate} Mb/s: {mbit}", kind.name());
                let least = if is_ours { rate * 0.9 } else { 1.0 };
                assert!(mbit > least, "{} at {rate} Mb/s: {mbit}", kind.name());
            }
            transfer.say(Some(10.0), true);
            let (sent, _) = transfer.until(20.0);
            assert_eq!(sent, 0, "{} in a pause", kind.name());
            transfer.say(None, false);
            transfer.until(25.0);
            let (_, mbit) = transfer.until(35.0);
            assert!(mbit > if is_ours { 80.0 } else { 3.0 }, "{} after all that: {mbit} Mb/s", kind.name());
        }
    }
}

#[test]
fn who_sends_at_the_named_rate_follows_it_both_ways() {
    let mut transfer = Steered::start(&Scenario::new(100.0, 40.0), ControllerKind::Fixed);
    for (until, rate) in [(2.0, 10.0), (4.0, 40.0), (6.0, 5.0), (8.0, 60.0)] {
        transfer.say(Some(rate), false);
        let (_, mbit) = transfer.until(until);
        assert!((mbit / rate - 1.0).abs() < 0.06, "{mbit} at {rate} Mb/s");
    }
}

#[test]
fn a_pause_of_an_hour_is_no_outage() {
    let mut transfer = Steered::start(&Scenario::new(50.0, 100.0), ControllerKind::Adaptive);
    transfer.until(5.0);
    transfer.say(None, true);
    transfer.until(6.0);
    let before = transfer.sim.left(transfer.id).stats();
    assert_eq!(transfer.until(3606.0).0, 0);
    let after = transfer.sim.left(transfer.id).stats();
    assert_eq!((before.given_up, before.timeouts_in_a_row), (after.given_up, after.timeouts_in_a_row));
    transfer.say(None, false);
    let (_, mbit) = transfer.until(3608.0);
    assert!(mbit > 25.0, "{mbit} Mb/s in the first two seconds");
}
