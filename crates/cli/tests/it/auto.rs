//! What carries the data where that is left to the copy: chosen, and changed midway, over an emulated path.

use crate::common::Ended;
use crate::common::lab::Over;
use longhaul_lab::Scenario;
use longhaul_testing::machine;
use serde_json::Value;

/// What carried the data from each switch on.
pub fn switches(json: &Value) -> Vec<&str> {
    let list = json["switches"].as_array().expect("there is a list");
    list.iter().map(|switch| switch["to"].as_str().expect("a name")).collect()
}

#[test]
fn udp_blocked_from_the_start_leaves_tcp() {
    let Some(_shared) = machine::wait() else { return };
    for pull in [false, true] {
        let over = Over::path(&Scenario::new(50.0, 20.0), 8_000_000, pull);
        over.haul.lab.block_udp(true);
        let ended = over.copy(&[], |_| {});
        let json = ended.json();
        assert_eq!((&json["transport"], switches(&json)), (&"stripe".into(), vec!["stripe"]), "{json}");
        assert!(json["streams"].as_u64().unwrap() > 0, "{json}");
        assert!(ended.stderr.contains("UDP does not pass between the two hosts"), "{}", ended.stderr);
        assert!(ended.stderr.contains("the data goes on over TCP"), "{}", ended.stderr);
    }
}

#[test]
fn udp_blocked_midway_leaves_tcp() {
    let Some(_shared) = machine::wait() else { return };
    for pull in [false, true] {
        let over = Over::path(&Scenario::new(50.0, 20.0), 20_000_000, pull);
        let ended = over.copy(&[], |_| {
            over.await_share(0.3);
            over.haul.lab.block_udp(true);
        });
        let json = ended.json();
        assert_eq!((&json["transport"], switches(&json)), (&"stripe".into(), vec!["stripe"]), "{json}");
        assert!(ended.stderr.contains("UDP brought no news for "), "{}", ended.stderr);
        let counters = over.haul.lab.counters();
        assert!(
            counters.left_to_right.dropped_udp + counters.right_to_left.dropped_udp > 0,
            "nothing was blocked"
        );
    }
}

#[test]
fn udp_that_comes_back_is_tried_again() {
    let Some(_shared) = machine::wait() else { return };
    let over = Over::path(&Scenario::new(20.0, 60.0), 40_000_000, false);
    comes_back(&over, None);
}

#[test]
fn udp_that_comes_back_on_a_narrower_path_is_tried_in_smaller_datagrams() {
    let Some(_shared) = machine::wait() else { return };
    let over = Over::path(&Scenario::new(20.0, 60.0), 40_000_000, true);
    let ended = comes_back(&over, Some(1400));
    assert!(ended.stderr.contains("datagrams of 1472 bytes no longer pass"), "{}", ended.stderr);
}

/// UDP is blocked for a while, and then packets pass up to this length.
fn comes_back(over: &Over, longest: Option<u32>) -> Ended {
    let ended = over.copy(&["--why", "--congestion=cubic"], |copy| {
        over.await_share(0.1);
        over.haul.lab.block_udp(true);
        copy.await_line("the data goes on over TCP");
        over.haul.lab.limit_length(longest);
        over.haul.lab.block_udp(false);
    });
    let json = ended.json();
    // Which of the two is a little faster then is another matter.
    assert_eq!(switches(&json)[..2], ["stripe", "object"], "{json}");
    assert!(ended.stderr.contains("UDP passes again"), "{}", ended.stderr);
    ended
}

#[test]
fn tcp_whose_packets_become_too_long_midway_is_begun_anew_with_shorter_ones() {
    let Some(_shared) = machine::wait() else { return };
    let over = Over::path(&Scenario::new(50.0, 20.0), 15_000_000, true);
    let ended = over.copy(&["--transport=stripe", "--streams=2"], |_| {
        over.await_share(0.3);
        over.haul.lab.limit_length(Some(1400));
    });
    assert_eq!(ended.json()["resumed_bytes"], 0, "it is one and the same run: {}", ended.json());
    assert!(over.haul.lab.counters().right_to_left.dropped_long > 0, "nothing was too long");
}
