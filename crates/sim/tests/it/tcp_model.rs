//! User-level TCP against what theory says of it.

use crate::common::tcp::Case;
use longhaul_proto::control::ControllerKind;
use longhaul_sim::scenario::Scenario;
use std::thread;

/// Segments per round trip that a flow keeps up under a share `p` of random losses, by Mathis, Semke, Mahdavi and Ott
/// (1997): √(3/2bp). With b = 1: the window grows by a segment in a round trip, since it is bytes that are counted and
/// not acknowledgements, delayed or not.
fn mathis(p: f64) -> f64 {
    (1.5 / p).sqrt()
}

/// The same by Padhye, Firoiu, Towsley and Kurose (1998), equation (30), with timeouts: b = 1, no bound on the window.
fn padhye(p: f64, rtt_s: f64, rto_s: f64) -> f64 {
    let fast = rtt_s * (2.0 * p / 3.0).sqrt();
    let slow = rto_s * (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    rtt_s / (fast + slow)
}

/// Far more than the window ever needs, so that no queue builds and nothing but chance loses anything.
const RATE_MBIT: f64 = 10_000.0;
const RTT_MS: f64 = 40.0;
/// The round trip and Linux's least addition to it.
const RTO_S: f64 = 0.24;

/// Segments per round trip, and the share of them lost.
fn measure(loss: f64, segments: u64, sack: bool) -> (f64, f64) {
    let scenario = Scenario { loss, seed: 7, ..Scenario::new(RATE_MBIT, RTT_MS) };
    let case = Case { scenario, stream_len: 1448 * segments, ..Case::plain() };
    let done = case.with_config(|config| config.sack = sack).succeed();
    let counters = done.outcome.forward.counters;
    assert_eq!(counters.dropped.queue, 0);
    let share = counters.dropped.loss as f64 / counters.sent as f64;
    (segments as f64 / done.outcome.time.as_secs_f64() * RTT_MS / 1e3, share)
}

#[test]
fn newreno_keeps_the_rate_that_theory_gives_it() {
    let runs = [(1e-4, 1_500_000), (3e-4, 800_000), (1e-3, 300_000), (3e-3, 100_000), (1e-2, 40_000)];
    thread::scope(|scope| {
        for sack in [true, false] {
            scope.spawn(move || {
                for (loss, segments) in runs {
                    let (found, p) = measure(loss, segments, sack);
                    let (simple, full) = (mathis(p), padhye(p, RTT_MS / 1e3, RTO_S));
                    println!("sack {sack}, p {p:.2e}: {found:.2}; Mathis {simple:.2}, Padhye {full:.2}");
                    // Mathis leaves timeouts out, which begin to count where windows are of a few segments.
                    let expected = if loss <= 1e-3 { simple } else { full };
                    assert!((found / expected - 1.0).abs() < 0.15, "{found} instead of {expected} at {p}");
                }
            });
        }
    });
}

#[test]
fn a_window_of_64_kb_bounds_the_rate_by_the_round_trip() {
    for rtt_ms in [20.0, 100.0] {
        for controller in [ControllerKind::NewReno, ControllerKind::Cubic] {
            let scenario = Scenario::new(1000.0, rtt_ms);
            let case = Case { scenario, stream_len: 20_000_000, controller, ..Case::plain() };
            let case = case.with_config(|config| config.window_scaling = false);
            let done = case.succeed();
            // 45 whole segments fit, of which the odd one is acknowledged a round trip later, in a round trip and what a
            // segment takes to be sent.
            let expected = 44.0 * 1448.0 * 8e-3 / (rtt_ms + 0.012);
            let found = case.mbps(&done);
            assert!((0.97..=1.0).contains(&(found / expected)), "{found} instead of {expected}");
            assert_eq!(done.sender.retransmitted, 0);
        }
    }
}

/// Without loss, a path with a queue of its own bandwidth-delay product is kept busy by either rule.
#[test]
fn a_clean_path_is_kept_busy() {
    for controller in [ControllerKind::NewReno, ControllerKind::Cubic] {
        for sack in [true, false] {
            let scenario = Scenario::new(20.0, 40.0);
            let case = Case { scenario, stream_len: 100_000_000, controller, ..Case::plain() };
            let case = case.with_config(|config| config.sack = sack);
            let done = case.succeed();
            let share = case.mbps(&done) / (20.0 * 1448.0 / 1500.0);
            // Without selective acknowledgements, slow start's losses are repaired one in a round trip.
            assert!(share > if sack { 0.98 } else { 0.92 }, "{controller:?} {sack} {share} {done:#?}");
            assert!(
                done.outcome.forward.counters.dropped.queue > 0 && done.sender.timeouts == 0,
                "{done:#?}"
            );
        }
    }
}
