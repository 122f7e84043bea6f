//! The default controller behind a policer: a token bucket that drops what exceeds its rate and burst.

use crate::common::bulk::{Bulk, BulkSim};
use longhaul_proto::control::Policed;
use longhaul_proto::units::Time;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowId, Side};

/// A policer of so many Mb/s with a burst of so many ms before a link of so many Mb/s.
fn policed(mbit: f64, burst_ms: f64, link_mbit: f64, rtt_ms: f64) -> Scenario {
    Scenario {
        policer_mbit: Some(mbit),
        policer_burst_ms: Some(burst_ms),
        // Alone on an even path it would do the same with each seed.
        jitter_ms: 0.2,
        ..Scenario::new(link_mbit, rtt_ms)
    }
}

/// What came of a copy of so many seconds.
#[derive(Debug)]
struct Measured {
    /// Of what the policer lets pass, start and end included.
    share: f64,
    /// Of what was sent after the first two seconds.
    lost: f64,
    named: Option<Policed>,
}

fn meet(scenario: &Scenario, seconds: f64) -> Measured {
    let (mut early, mut late, mut named) = (None, (0, 0), None);
    let look = |sim: &mut BulkSim, id: FlowId| {
        let counters = sim.counters(Side::Left);
        late = (counters.sent, counters.dropped.policed);
        if sim.now() >= Time::from_millis(2000) {
            early.get_or_insert(late);
        }
        named = sim.left(id).snapshot().policer;
    };
    let figures = Bulk::new(scenario.clone(), seconds).run_with(look);
    let early = early.expect("it lasts longer than 2 s");
    let lost = (late.1 - early.1) as f64 / (late.0 - early.0) as f64;
    Measured { share: figures.share, lost, named }
}

#[test]
fn a_policer_is_found_named_and_kept_to() {
    for (mbit, burst_ms, link_mbit, rtt_ms) in [
        (50.0, 100.0, 200.0, 40.0),
        (20.0, 100.0, 100.0, 100.0),
        (50.0, 20.0, 200.0, 150.0),
        (50.0, 200.0, 200.0, 150.0),
        (20.0, 50.0, 100.0, 40.0),
        (20.0, 200.0, 100.0, 150.0),
        (100.0, 50.0, 1000.0, 40.0),
    ] {
        for seed in 1..=3 {
            let scenario = Scenario { seed, ..policed(mbit, burst_ms, link_mbit, rtt_ms) };
            let met = meet(&scenario, 15.0);
            let told = format!("{met:?}\n{scenario}");
            assert!(met.share >= 0.92, "slow: {told}");
            assert!(met.lost <= 0.01, "wasteful: {told}");
            let named = met.named.unwrap_or_else(|| panic!("not named: {told}"));
            // A datagram is 28 bytes longer on the path.
            let share = named.rate.as_mbps() / mbit * 1500.0 / 1472.0;
            assert!((0.9..1.05).contains(&share), "a share of {share}: {told}");
        }
    }
}

#[test]
fn neither_a_short_queue_nor_a_path_that_loses_at_random_is_called_a_policer() {
    let short = Scenario { queue_kb: Some(3.0), ..Scenario::new(50.0, 40.0) };
    let lossy = Scenario { loss: 0.05, ..Scenario::new(50.0, 40.0) };
    for scenario in [Scenario::new(50.0, 40.0), short, lossy] {
        Bulk::new(scenario.clone(), 10.0).run_with(|sim, id| {
            let policer = sim.left(id).snapshot().policer;
            assert_eq!(policer, None, "{:?}\n{scenario}", sim.now());
        });
    }
}
