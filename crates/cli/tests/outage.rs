//! The path breaks: for a while, for good, for UDP alone.

mod common;

use common::lab::{Haul, Test};
use common::tree::*;
use common::wait_until;
use longhaul_lab::Scenario;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

const TESTS: &[Test] = &[
    ("a_push_survives_a_cut_of_a_few_seconds", a_push_survives_a_cut_of_a_few_seconds),
    ("a_pull_survives_a_cut_of_a_few_seconds", a_pull_survives_a_cut_of_a_few_seconds),
    ("a_push_over_a_dead_path_ends_and_goes_on_later", a_push_over_a_dead_path_ends_and_goes_on_later),
    ("a_pull_over_a_dead_path_ends_and_goes_on_later", a_pull_over_a_dead_path_ends_and_goes_on_later),
    ("blocked_udp_is_named", blocked_udp_is_named),
    ("udp_blocked_midway_ends_a_push", udp_blocked_midway_ends_a_push),
    ("udp_blocked_midway_ends_a_pull", udp_blocked_midway_ends_a_pull),
    ("a_path_with_every_fault_delivers", a_path_with_every_fault_delivers),
];

fn main() -> ExitCode {
    // They mostly wait.
    common::lab::run(TESTS, 4)
}

const LEN: usize = 15_000_000;

/// A path of 50 Mb/s and a file to take over it: about three seconds.
struct Scene {
    here: tempfile::TempDir,
    there: tempfile::TempDir,
    haul: Haul,
    pull: bool,
}

impl Scene {
    fn new(scenario: &Scenario, pull: bool) -> Scene {
        let (here, there) = (folder(), folder());
        write_noise(if pull { there.path() } else { here.path() }.join("file"), LEN, 1);
        let haul = Haul::start(scenario, there.path());
        Scene { here, there, haul, pull }
    }

    fn push() -> Scene {
        Scene::new(&Scenario::new(50.0, 20.0), false)
    }

    fn pull() -> Scene {
        Scene::new(&Scenario::new(50.0, 20.0), true)
    }

    fn args(&self, more: &[&str]) -> Vec<OsString> {
        let local = self.here.path().join("file").into_os_string();
        let far = self.haul.server.url("file").into();
        let ends = if self.pull { [far, local] } else { [local, far] };
        ends.into_iter().chain(more.iter().map(OsString::from)).collect()
    }

    fn destination(&self) -> &Path {
        if self.pull { self.here.path() } else { self.there.path() }
    }

    /// Wait until a good part of the file has come over the path.
    fn half_way(&self) {
        wait_until("half of it arrives", || {
            let counters = self.haul.lab.counters();
            let way = if self.pull { counters.right_to_left } else { counters.left_to_right };
            way.bytes_delivered > LEN as u64 / 2
        });
    }

    fn assert_arrived(&self) {
        assert_same_bytes(self.here.path().join("file"), self.there.path().join("file"));
        assert_eq!(names(self.destination()), ["file"], "and nothing is left over");
    }
}

fn a_push_survives_a_cut_of_a_few_seconds() {
    survives_a_cut(&Scene::push());
}

fn a_pull_survives_a_cut_of_a_few_seconds() {
    survives_a_cut(&Scene::pull());
}

fn survives_a_cut(scene: &Scene) {
    let mut copy = scene.haul.start_cp(scene.args(&[]));
    scene.half_way();
    scene.haul.lab.cut(true);
    sleep(Duration::from_secs(4));
    assert!(copy.is_running(), "a cut of 4 s is no reason to give up");
    scene.haul.lab.cut(false);
    let json = copy.finish_within(Duration::from_secs(25)).expect_code(0).json();
    scene.assert_arrived();
    let counters = scene.haul.lab.counters();
    assert!(counters.left_to_right.dropped_cut + counters.right_to_left.dropped_cut > 0, "nothing was cut");
    assert_eq!(json["resumed_bytes"], 0, "it is one and the same run: {json}");
}

/// What must come of a copy whose path broke for good: an error in time, and all that arrived is there for the next run.
fn ends_and_goes_on_later(scene: &Scene, break_path: impl Fn(bool)) {
    let mut copy = scene.haul.start_cp(scene.args(&["--stall-timeout=3s", "--transport=object"]));
    scene.half_way();
    assert!(copy.is_running());
    break_path(true);
    let broken = Instant::now();
    let ended = copy.finish_within(Duration::from_secs(20)).expect_code(1);
    let after = broken.elapsed();
    // Half a second: what was under way at the break still counts as news.
    assert!(
        (Duration::from_millis(2500)..Duration::from_secs(11)).contains(&after),
        "it gave up after {after:?}"
    );
    let error = ended.json()["error"].as_str().unwrap().to_string();
    assert!(error.contains("run the same command again") && !error.contains('\n'), "{error}");
    assert!(!scene.destination().join("file").exists());
    break_path(false);
    // The server has the same patience. Until then the old copy may still hold the part file.
    sleep(Duration::from_secs(4));
    let json = scene.haul.cp(scene.args(&[])).expect_code(0).json();
    scene.assert_arrived();
    assert!(json["resumed_bytes"].as_u64().unwrap() > LEN as u64 * 4 / 10, "{json}");
}

fn a_push_over_a_dead_path_ends_and_goes_on_later() {
    let scene = Scene::push();
    ends_and_goes_on_later(&scene, |on| scene.haul.lab.cut(on));
}

fn a_pull_over_a_dead_path_ends_and_goes_on_later() {
    let scene = Scene::pull();
    ends_and_goes_on_later(&scene, |on| scene.haul.lab.cut(on));
}

fn udp_blocked_midway_ends_a_push() {
    let scene = Scene::push();
    ends_and_goes_on_later(&scene, |on| scene.haul.lab.block_udp(on));
}

fn udp_blocked_midway_ends_a_pull() {
    let scene = Scene::pull();
    ends_and_goes_on_later(&scene, |on| scene.haul.lab.block_udp(on));
}

fn blocked_udp_is_named() {
    for scene in [Scene::push(), Scene::pull()] {
        scene.haul.lab.block_udp(true);
        let ended = scene
            .haul
            .start_cp(scene.args(&["--transport=object"]))
            .finish_within(Duration::from_secs(12))
            .expect_code(1);
        let error = ended.json()["error"].as_str().unwrap().to_string();
        assert!(error.contains("UDP") && error.contains("firewall") && !error.contains('\n'), "{error}");
        assert_eq!(names(scene.destination()), Vec::<String>::new());
        scene.haul.lab.block_udp(false);
        scene.haul.cp(scene.args(&[])).expect_code(0);
        scene.assert_arrived();
    }
}

fn a_path_with_every_fault_delivers() {
    let faulty = Scenario {
        burst: Some(3.0),
        jitter_ms: 3.0,
        reorder: 0.02,
        duplicate: 0.02,
        corrupt: 0.01,
        queue_bdp: Some(0.3),
        ..Scenario::new(50.0, 40.0)
    };
    // Of the data 3 % are lost, of the acknowledgements 6 %.
    for (pull, loss, loss_reverse) in [(false, 0.03, 0.06), (true, 0.06, 0.03)] {
        let scene = Scene::new(&Scenario { loss, loss_reverse, ..faulty.clone() }, pull);
        let json = scene.haul.cp(scene.args(&[])).expect_code(0).json();
        scene.assert_arrived();
        let counters = scene.haul.lab.counters();
        let way = if pull { counters.right_to_left } else { counters.left_to_right };
        let faults = [way.dropped_loss, way.corrupted, way.duplicated, way.reordered];
        assert!(faults.iter().all(|count| *count > 10), "the path was too kind: {way:?}");
        assert!(json["loss"].as_f64().unwrap() > 0.02, "{json}");
    }
}
