//! What carries the data, chosen and changed midway, over an emulated path.

mod common;

use common::lab::{Haul, Test, repeat};
use common::tree::*;
use common::{Ended, wait_until};
use longhaul_lab::{Lab, Scenario, tcp};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

const TESTS: &[Test] = &[
    ("udp_blocked_from_the_start_leaves_tcp", udp_blocked_from_the_start_leaves_tcp),
    ("udp_blocked_midway_leaves_tcp_in_a_push", udp_blocked_midway_leaves_tcp_in_a_push),
    ("udp_blocked_midway_leaves_tcp_in_a_pull", udp_blocked_midway_leaves_tcp_in_a_pull),
    ("udp_that_comes_back_is_tried_again", udp_that_comes_back_is_tried_again),
    ("policed_udp_loses_to_tcp", policed_udp_loses_to_tcp),
    ("random_loss_is_no_reason_to_leave_udp", random_loss_is_no_reason_to_leave_udp),
    ("stripes_fill_a_path", stripes_fill_a_path),
];

fn main() -> ExitCode {
    // They mostly wait.
    common::lab::run(TESTS, 4)
}

/// A path and a file to take over it.
struct Scene {
    here: tempfile::TempDir,
    there: tempfile::TempDir,
    haul: Haul,
    len: usize,
    pull: bool,
}

impl Scene {
    fn new(scenario: &Scenario, len: usize, pull: bool) -> Scene {
        let (here, there) = (folder(), folder());
        write_noise(if pull { there.path() } else { here.path() }.join("file"), len, 1);
        let haul = Haul::start(scenario, there.path());
        Scene { here, there, haul, len, pull }
    }

    fn args(&self, more: &[&str]) -> Vec<OsString> {
        let local = self.here.path().join("file").into_os_string();
        let far = self.haul.server.url("file").into();
        let ends = if self.pull { [far, local] } else { [local, far] };
        ends.into_iter().chain(more.iter().map(OsString::from)).collect()
    }

    /// Copy all of it, while `meanwhile` befalls the path.
    fn copy(&self, more: &[&str], meanwhile: impl FnOnce()) -> Ended {
        let copy = self.haul.start_cp(self.args(more));
        meanwhile();
        let ended = copy.finish_within(Duration::from_secs(40)).expect_code(0);
        assert_same_bytes(self.here.path().join("file"), self.there.path().join("file"));
        ended
    }

    /// Wait until this share of the file has come over the path.
    fn await_share(&self, share: f64) {
        wait_until("a part arrives", || {
            let counters = self.haul.lab.counters();
            let way = if self.pull { counters.right_to_left } else { counters.left_to_right };
            way.bytes_delivered as f64 > self.len as f64 * share
        });
    }
}

/// What carried the data from each switch on.
fn switches(json: &Value) -> Vec<&str> {
    let list = json["switches"].as_array().expect("there is a list");
    list.iter().map(|switch| switch["to"].as_str().expect("a name")).collect()
}

fn udp_blocked_from_the_start_leaves_tcp() {
    for pull in [false, true] {
        let scene = Scene::new(&Scenario::new(50.0, 20.0), 8_000_000, pull);
        scene.haul.lab.block_udp(true);
        let ended = scene.copy(&[], || {});
        let json = ended.json();
        assert_eq!((&json["transport"], switches(&json)), (&"stripe".into(), vec!["stripe"]), "{json}");
        assert!(json["streams"].as_u64().unwrap() > 0, "{json}");
        assert!(ended.stderr.contains("UDP does not pass between the two hosts"), "{}", ended.stderr);
        assert!(ended.stderr.contains("the data goes on over TCP"), "{}", ended.stderr);
    }
}

fn udp_blocked_midway_leaves_tcp_in_a_push() {
    udp_blocked_midway_leaves_tcp(false);
}

fn udp_blocked_midway_leaves_tcp_in_a_pull() {
    udp_blocked_midway_leaves_tcp(true);
}

fn udp_blocked_midway_leaves_tcp(pull: bool) {
    let scene = Scene::new(&Scenario::new(50.0, 20.0), 20_000_000, pull);
    let ended = scene.copy(&[], || {
        scene.await_share(0.3);
        scene.haul.lab.block_udp(true);
    });
    let json = ended.json();
    assert_eq!((&json["transport"], switches(&json)), (&"stripe".into(), vec!["stripe"]), "{json}");
    assert!(ended.stderr.contains("UDP brought no news for "), "{}", ended.stderr);
    let counters = scene.haul.lab.counters();
    assert!(
        counters.left_to_right.dropped_udp + counters.right_to_left.dropped_udp > 0,
        "nothing was blocked"
    );
}

fn udp_that_comes_back_is_tried_again() {
    let scene = Scene::new(&Scenario::new(40.0, 60.0), 80_000_000, false);
    let ended = scene.copy(&["--why", "--congestion=cubic"], || {
        scene.await_share(0.1);
        scene.haul.lab.block_udp(true);
        std::thread::sleep(Duration::from_secs(5));
        scene.haul.lab.block_udp(false);
    });
    let json = ended.json();
    // Which of the two is a little faster then is another matter.
    assert_eq!(switches(&json)[..2], ["stripe", "object"], "{json}");
    assert!(ended.stderr.contains("UDP passes again"), "{}", ended.stderr);
}

fn policed_udp_loses_to_tcp() {
    let scene = Scene::new(&Scenario::new(80.0, 20.0), 50_000_000, false);
    // The path check's train passes.
    scene.haul.lab.police_udp(Some(8.0), 100_000);
    let ended = scene.copy(&["--why"], || {});
    let json = ended.json();
    assert_eq!((&json["transport"], switches(&json)), (&"stripe".into(), vec!["stripe", "stripe"]), "{json}");
    assert!(
        ended.stderr.contains("trying TCP") && ended.stderr.contains("staying with that"),
        "{}",
        ended.stderr
    );
    assert!(json["goodput_mbps"].as_f64().unwrap() > 20.0, "{json}");
}

fn random_loss_is_no_reason_to_leave_udp() {
    for loss in [0.001, 0.02] {
        let scene = Scene::new(&Scenario { loss, ..Scenario::new(40.0, 40.0) }, 30_000_000, false);
        let json = scene.copy(&[], || {}).json();
        assert_eq!((&json["transport"], switches(&json)), (&"object".into(), vec![]), "{json}");
        assert_eq!(json["streams"], 0, "{json}");
    }
}

fn stripes_fill_a_path() {
    for pull in [false, true] {
        let scene = Scene::new(&Scenario::new(80.0, 30.0), 30_000_000, pull);
        let plain = || plain_tcp_mbps(&scene.haul.lab, 4, scene.len as u64);
        repeat(&scene.haul.lab, || {
            // What the host does beside this changes: plain streams before and after.
            let before = plain();
            let target = if pull { &scene.here } else { &scene.there };
            let _ = fs::remove_file(target.path().join("file"));
            let json = scene.copy(&["--transport=stripe", "--streams=4", "--congestion=cubic"], || {}).json();
            let plain = before.min(plain());
            assert_eq!((&json["transport"], &json["streams"]), (&"stripe".into(), &4.into()), "{json}");
            let mbps = json["goodput_mbps"].as_f64().unwrap();
            println!("4 stripes {mbps:.1} Mb/s, 4 plain streams {plain:.1} Mb/s");
            assert_eq!(json["packets_sent"], json["packets_required"], "nothing is sent twice: {json}");
            assert!(json["rtt_ms_min"].as_f64().unwrap() > 29.0, "{json}");
            if mbps > 0.7 * plain { Ok(()) } else { Err(format!("plain TCP: {plain}; {json}")) }
        });
    }
}

/// What so many streams of the kernel's own TCP reach together.
fn plain_tcp_mbps(lab: &Lab, streams: u64, bytes: u64) -> f64 {
    let seconds = std::thread::scope(|scope| {
        let run =
            || scope.spawn(|| tcp::transfer(lab, bytes / streams, "cubic").expect("cubic is there").seconds);
        let runs: Vec<_> = (0..streams).map(|_| run()).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).fold(0.0, f64::max)
    });
    bytes as f64 * 8e-6 / seconds
}
