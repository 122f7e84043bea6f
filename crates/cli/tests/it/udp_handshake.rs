//! A push to a daemon shakes hands over UDP while TCP connects.

use crate::common::lab::Haul;
use crate::common::sides::Sides;
use longhaul_lab::Scenario;
use longhaul_testing::machine;

/// What `--why` tells of a handshake that needed no TCP.
const OVERTAKEN: &str = "answered over UDP";

fn push(scenario: &Scenario, passes_udp: bool, more: &[&str]) -> String {
    let sides = Sides::with_file(false, 300_000);
    let haul = Haul::start(scenario, sides.there.path());
    haul.lab.block_udp(!passes_udp);
    let args = [&["--why"][..], more].concat();
    let ended = haul.cp(sides.file_args(&haul.server.url(""), &args)).expect_code(0);
    sides.assert_complete();
    ended.stderr
}

#[test]
fn data_does_not_wait_for_a_connection() {
    let Some(_shared) = machine::wait() else { return };
    // So long a way that a busy machine has listed the file before TCP has connected.
    let told = push(&Scenario::new(50.0, 800.0), true, &[]);
    assert!(told.contains(OVERTAKEN), "{told}");
}

#[test]
fn where_udp_is_not_wanted_or_does_not_pass_tcp_carries_the_handshake() {
    let Some(_shared) = machine::wait() else { return };
    for (passes_udp, more) in [(true, &["--transport", "stripe"][..]), (false, &[])] {
        let told = push(&Scenario::new(50.0, 100.0), passes_udp, more);
        assert!(!told.contains(OVERTAKEN), "{told}");
    }
}

#[test]
fn what_a_handshake_loses_goes_over_tcp() {
    let Some(_shared) = machine::wait() else { return };
    for seed in 0..4 {
        push(&Scenario { loss: 0.4, seed, ..Scenario::new(50.0, 40.0) }, true, &[]);
    }
}
