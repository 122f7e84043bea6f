//! The program says what limited a copy, and is right.

use crate::common::lab::{Haul, repeat};
use crate::common::shim::Shim;
use crate::common::tree::*;
use crate::common::{Running, send_to};
use longhaul_lab::Scenario;
use longhaul_testing::machine;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// 30 MB to copy, either way.
struct Sides {
    here: tempfile::TempDir,
    there: tempfile::TempDir,
}

impl Sides {
    fn new() -> Sides {
        let (here, there) = (folder(), folder());
        write_noise(here.path().join("file"), 30_000_000, 1);
        write_noise(there.path().join("file"), 30_000_000, 2);
        Sides { here, there }
    }

    fn haul(&self, scenario: &Scenario) -> Haul {
        Haul::start(scenario, self.there.path())
    }

    /// A push of all of it, whatever was pushed before.
    fn push(&self, haul: &Haul, more: &[&str]) -> Vec<OsString> {
        let _ = fs::remove_file(self.there.path().join("pushed"));
        let ends = [self.here.path().join("file").into_os_string(), haul.server.url("pushed").into()];
        ends.into_iter().chain(more.iter().map(OsString::from)).collect()
    }

    /// A pull of all of it, whatever was pulled before.
    fn pull(&self, haul: &Haul) -> [OsString; 2] {
        let _ = fs::remove_file(self.here.path().join("pulled"));
        [haul.server.url("file").into(), self.here.path().join("pulled").into_os_string()]
    }
}

/// A run that ended well, and what limited it.
fn assert_limited_by(limit: &str, haul: &Haul, copy: impl Fn() -> Running) {
    assert_limited(limit, |_| true, haul, copy)
}

/// The same, of which more holds.
fn assert_limited(limit: &str, holds: impl Fn(&Value) -> bool, haul: &Haul, copy: impl Fn() -> Running) {
    repeat(&haul.lab, || {
        let json = copy().finish().expect_code(0).json();
        println!("{json}");
        let is_right = json["limited_by"] == limit && holds(&json);
        if is_right { Ok(()) } else { Err(format!("{limit} was to limit it: {json}")) }
    });
}

#[test]
fn a_full_path() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let haul = sides.haul(&Scenario::new(100.0, 20.0));
    assert_limited_by("path", &haul, || haul.start_cp(sides.push(&haul, &[])));
    assert_limited_by("path", &haul, || haul.start_cp(sides.pull(&haul)));
}

#[test]
fn a_path_that_loses_packets() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let haul = sides.haul(&Scenario { loss: 0.05, ..Scenario::new(100.0, 20.0) });
    let is_that_much = |json: &Value| (0.04..0.08).contains(&json["loss"].as_f64().unwrap());
    assert_limited("loss", is_that_much, &haul, || haul.start_cp(sides.push(&haul, &[])));
}

#[test]
fn a_policer() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let policed =
        Scenario { policer_mbit: Some(50.0), policer_burst_ms: Some(100.0), ..Scenario::new(200.0, 40.0) };
    let haul = sides.haul(&policed);
    // What it takes until it is known is to weigh little.
    write_noise(sides.here.path().join("file"), 50_000_000, 1);
    // TCP may pass it better.
    let push = || haul.start_cp(sides.push(&haul, &["--transport=object"]));
    assert_limited("policer", |json| json["goodput_mbps"].as_f64().unwrap() > 40.0, &haul, push);
}

#[test]
fn a_rate_that_was_asked_for() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let haul = sides.haul(&Scenario::new(200.0, 20.0));
    let push = || haul.start_cp(sides.push(&haul, &["--rate=100mbit"]));
    assert_limited("rate_cap", |json| json["goodput_mbps"].as_f64().unwrap() < 100.0, &haul, push);
}

/// Several times the rate of the slow disks below.
fn wide_path() -> Scenario {
    Scenario::new(300.0, 20.0)
}

#[test]
fn a_slow_source() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let Some(shim) = Shim::compile(sides.here.path()) else { return };
    let haul = Haul::start_with(&wide_path(), sides.there.path(), |server| shim.slow_reads(server, 5));
    assert_limited_by("source", &haul, || haul.start_cp(sides.pull(&haul)));
    assert_limited_by("source", &haul, || {
        let mut push = haul.cp_command(sides.push(&haul, &[]));
        shim.slow_reads(&mut push, 5);
        Running::start(&mut push)
    });
}

#[test]
fn a_slow_target() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let Some(shim) = Shim::compile(sides.here.path()) else { return };
    // The receiver gathers 64 MB in memory before a slow disk holds it up: more than that has to come.
    write_noise(sides.here.path().join("file"), 110_000_000, 1);
    let haul = Haul::start_with(&wide_path(), sides.there.path(), |server| shim.slow_writes(server, 15));
    assert_limited_by("target", &haul, || haul.start_cp(sides.push(&haul, &[])));
}

#[test]
fn a_receiver_that_is_not_there_half_the_time() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let sides = Sides::new();
    let haul = sides.haul(&Scenario { queue_bdp: Some(2.0), ..wide_path() });
    assert_limited_by("receiver", &haul, || {
        let mut copy = haul.start_cp(sides.push(&haul, &[]));
        while copy.is_running() {
            send_to(haul.server.id(), Signal::STOP);
            sleep(Duration::from_millis(60));
            send_to(haul.server.id(), Signal::CONT);
            sleep(Duration::from_millis(20));
        }
        copy
    });
}
