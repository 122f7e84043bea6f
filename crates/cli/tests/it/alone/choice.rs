//! What carries the data where that is left to the copy and hangs on what each brings.

use crate::auto::switches;
use crate::common::lab::{Over, repeat};
use longhaul_lab::Scenario;
use longhaul_testing::machine;
use serde_json::Value;
use std::fs;

/// A push that ended well and came out as `is_right` wants it.
fn assert_chooses(over: &Over, is_right: impl Fn(&Value) -> bool) -> Option<String> {
    repeat(&over.haul.lab, || {
        let _ = fs::remove_file(over.sides.target());
        let ended = over.copy(&["--why"], |_| {});
        let json = ended.json();
        if is_right(&json) { Ok(ended.stderr.clone()) } else { Err(json.to_string()) }
    })
}

#[test]
fn policed_udp_loses_to_tcp() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let over = Over::path(&Scenario::new(80.0, 20.0), 50_000_000, false);
    // The path check's train passes.
    over.haul.lab.police_udp(Some(8.0), 100_000);
    let why = assert_chooses(&over, |json| {
        let is_stripe = json["transport"] == "stripe" && switches(json) == ["stripe", "stripe"];
        is_stripe && json["goodput_mbps"].as_f64().expect("a number") > 20.0
    });
    let Some(why) = why else { return };
    assert!(why.contains("trying TCP") && why.contains("staying with that"), "{why}");
}

#[test]
fn random_loss_is_no_reason_to_leave_udp() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    for loss in [0.001, 0.02] {
        let over = Over::path(&Scenario { loss, ..Scenario::new(40.0, 40.0) }, 30_000_000, false);
        assert_chooses(&over, |json| {
            json["transport"] == "object" && switches(json).is_empty() && json["streams"] == 0
        });
    }
}
