//! Copies that are torn apart and go on where they stopped.

mod common;

use common::relay::{Relay, Way};
use common::tree::*;
use common::{Ended, Running, Server, wait_until};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Long enough to be interrupted half-way.
const LEN: usize = 40_000_000;

/// Of half the file a tenth takes 0.8 s at this rate, several times what the journal lags behind: enough on a busy host.
const MEASURED: &str = "--rate=20mbit";

/// Where nothing is said of how much was taken over.
const BRISK: &str = "--rate=50mbit";

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Push,
    Pull,
}
use Direction::{Pull, Push};

/// Two folders, one of them served, and a copy of everything in the first into the second.
struct Scene {
    direction: Direction,
    here: tempfile::TempDir,
    there: tempfile::TempDir,
}

impl Scene {
    fn new(direction: Direction) -> Scene {
        Scene { direction, here: folder(), there: folder() }
    }

    /// With one large file to be copied.
    fn with_file(direction: Direction) -> Scene {
        let scene = Scene::new(direction);
        write_noise(scene.source(), LEN, 1);
        scene
    }

    fn from(&self) -> &Path {
        if self.direction == Push { self.here.path() } else { self.there.path() }
    }

    fn to(&self) -> &Path {
        if self.direction == Push { self.there.path() } else { self.here.path() }
    }

    fn source(&self) -> PathBuf {
        self.from().join("file")
    }

    fn target(&self) -> PathBuf {
        self.to().join("file")
    }

    fn part(&self) -> PathBuf {
        self.to().join(".file.longhaul-part")
    }

    fn journal(&self) -> PathBuf {
        self.to().join(".file.longhaul-journal")
    }

    fn serve(&self) -> Server {
        Server::start(self.there.path(), &[])
    }

    fn args(&self, url: String, more: &[&str]) -> Vec<OsString> {
        let mut local = self.here.path().as_os_str().to_owned();
        local.push("/");
        let ends = if self.direction == Push { [local, url.into()] } else { [url.into(), local] };
        ends.into_iter().chain(more.iter().map(OsString::from)).collect()
    }

    /// Start a copy that takes a few seconds, through a relay, and wait until `bytes` have arrived. Over UDP alone, as
    /// datagrams are what the relay counts.
    fn begin(&self, server: &Server, rate: &str, bytes: u64) -> (Running, Relay) {
        let relay = Relay::start(server.address());
        let mut command = server.cp_command(self.args(relay.url(""), &[rate, "--transport=object"]));
        let copy = Running::start(&mut command);
        wait_until("half of it arrives", || self.arrived(&relay) >= bytes);
        (copy, relay)
    }

    /// Bytes that were brought to the receiver's door, datagrams' own overhead counted in.
    fn arrived(&self, relay: &Relay) -> u64 {
        relay.bytes(if self.direction == Push { Way::ToServer } else { Way::ToClient })
    }

    /// The same in the end, when nothing more is passed on. What is under way while a copy dies still counts.
    fn arrived_in_all(&self, mut relay: Relay) -> u64 {
        relay.stop();
        self.arrived(&relay)
    }

    /// Leave half of the file, as a receiver that was killed does.
    fn leave_half(&self) {
        let mut server = self.serve();
        let (copy, _relay) = self.begin(&server, BRISK, LEN as u64 / 2);
        match self.direction {
            Push => server.kill(),
            Pull => copy.signal(Signal::KILL),
        }
        copy.finish();
        assert!(!self.target().exists(), "nothing may be in place before it is complete");
    }

    /// Run the copy to its end, which must be good.
    fn complete(&self, more: &[&str]) -> serde_json::Value {
        let server = self.serve();
        let json = server.cp(self.args(server.url(""), more)).expect_code(0).json();
        self.assert_complete();
        json
    }

    fn assert_complete(&self) {
        for name in names(self.from()) {
            if !name.ends_with('/') {
                assert_same_bytes(self.from().join(&name), self.to().join(&name));
            }
        }
        assert_eq!(names(self.from()), names(self.to()), "and nothing is left over");
    }
}

/// What had arrived before the end counts, but for a tenth at most; and no more than what arrived in all.
fn assert_resumed(json: &serde_json::Value, arrived: RangeInclusive<u64>) {
    let resumed = json["resumed_bytes"].as_u64().unwrap() + json["skipped_bytes"].as_u64().unwrap();
    println!("{arrived:?} bytes had arrived, {resumed} were taken over");
    assert!(
        resumed * 10 >= arrived.start() * 9,
        "{arrived:?} bytes had arrived, {resumed} were taken over: {json}"
    );
    assert!(resumed <= *arrived.end(), "{arrived:?} bytes had arrived, {resumed} were taken over: {json}");
}

/// The client is killed at half.
fn killed_client(direction: Direction) {
    let scene = Scene::with_file(direction);
    let server = scene.serve();
    let (copy, relay) = scene.begin(&server, MEASURED, LEN as u64 / 2);
    let before = scene.arrived(&relay);
    copy.signal(Signal::KILL);
    copy.finish().expect_code(-1);
    let arrived = before..=scene.arrived_in_all(relay);
    // The same server goes on serving; it must have let go of the half-done copy.
    let again = server.cp(scene.args(server.url(""), &[])).expect_code(0);
    scene.assert_complete();
    assert_resumed(&again.json(), arrived);
}

#[test]
fn a_push_goes_on_after_its_client_was_killed() {
    killed_client(Push);
}

#[test]
fn a_pull_goes_on_after_its_client_was_killed() {
    killed_client(Pull);
}

/// The server is killed at half, and the client says so.
fn killed_server(direction: Direction) {
    let scene = Scene::with_file(direction);
    let mut server = scene.serve();
    let (copy, relay) = scene.begin(&server, MEASURED, LEN as u64 / 2);
    let before = scene.arrived(&relay);
    server.kill();
    let ended = copy.finish().expect_code(1);
    let arrived = before..=scene.arrived_in_all(relay);
    let error = ended.json()["error"].as_str().unwrap().to_string();
    assert!(error.contains("run the same command again"), "{error}");
    assert_resumed(&scene.complete(&[]), arrived);
}

#[test]
fn a_push_goes_on_after_its_server_was_killed() {
    killed_server(Push);
}

#[test]
fn a_pull_goes_on_after_its_server_was_killed() {
    killed_server(Pull);
}

/// The user presses Ctrl-C at half.
fn interrupted(direction: Direction) {
    let scene = Scene::with_file(direction);
    let server = scene.serve();
    let (copy, relay) = scene.begin(&server, MEASURED, LEN as u64 / 2);
    let before = scene.arrived(&relay);
    copy.signal(Signal::INT);
    let ended: Ended = copy.finish().expect_code(130);
    let arrived = before..=scene.arrived_in_all(relay);
    let json = ended.json();
    assert!(json["error"].as_str().unwrap().contains("interrupted"), "{}", ended.stderr);
    assert!(json["bytes"].as_u64().unwrap() > LEN as u64 / 4, "{json}");
    assert!(json["goodput_mbps"].as_f64().unwrap() > 0.0, "{json}");
    let told = (&json["ok"], &json["files"], &json["transport"], &json["encrypted"]);
    assert_eq!(told, (&false.into(), &1.into(), &"object".into(), &true.into()), "{json}");
    let again = server.cp(scene.args(server.url(""), &[])).expect_code(0);
    scene.assert_complete();
    assert_resumed(&again.json(), arrived);
}

#[test]
fn an_interrupted_push_goes_on() {
    interrupted(Push);
}

#[test]
fn an_interrupted_pull_goes_on() {
    interrupted(Pull);
}

#[test]
fn an_interrupted_copy_over_tcp_tells_what_it_took_over() {
    let scene = Scene::with_file(Push);
    scene.leave_half();
    let server = scene.serve();
    let before = disk_bytes(scene.part());
    let args = scene.args(server.url(""), &["--rate=20mbit", "--transport=stripe"]);
    let copy = Running::start(&mut server.cp_command(args));
    wait_until("more arrives", || disk_bytes(scene.part()) > before + 1_000_000);
    copy.signal(Signal::INT);
    let json = copy.finish().expect_code(130).json();
    assert_eq!(json["transport"], "stripe", "{json}");
    let [bytes, resumed] = ["bytes", "resumed_bytes"].map(|field| json[field].as_u64().unwrap());
    assert!(resumed > LEN as u64 / 4 && bytes > resumed, "{json}");
}

#[test]
fn a_server_that_is_told_to_stop_keeps_what_arrived() {
    let scene = Scene::with_file(Push);
    let server = scene.serve();
    let (copy, relay) = scene.begin(&server, MEASURED, LEN as u64 / 2);
    let before = scene.arrived(&relay);
    assert_eq!(server.stop(Signal::TERM), 0);
    copy.finish().expect_code(1);
    let arrived = before..=scene.arrived_in_all(relay);
    assert_resumed(&scene.complete(&[]), arrived);
}

#[test]
fn killed_over_and_over_it_still_arrives() {
    let scene = Scene::with_file(Push);
    for n in 0..4 {
        let mut server = scene.serve();
        // Each run brings a few megabytes more; client and server die in turn.
        let (copy, _relay) = scene.begin(&server, MEASURED, 5_000_000);
        if n % 2 == 0 {
            server.kill();
        }
        copy.signal(Signal::KILL);
        copy.finish();
    }
    let resumed = scene.complete(&[])["resumed_bytes"].as_u64().unwrap();
    assert!(resumed >= 15_000_000, "{resumed}");
}

#[test]
fn no_resume_starts_over() {
    let scene = Scene::with_file(Pull);
    scene.leave_half();
    let json = scene.complete(&["--no-resume"]);
    assert_eq!((&json["resumed_bytes"], &json["skipped_bytes"]), (&0.into(), &0.into()));
}

#[test]
fn a_damaged_journal_never_makes_a_wrong_file() {
    let scene = Scene::with_file(Pull);
    scene.leave_half();
    let (part, journal) = (read(scene.part()), read(scene.journal()));
    let mut rng = fastrand::Rng::with_seed(1);
    for round in 0..12 {
        let (mut part, mut journal) = (part.clone(), journal.clone());
        match round % 4 {
            0 => journal.truncate(rng.usize(..journal.len())),
            1 => (0..1 + round).for_each(|_| {
                let at = rng.usize(..journal.len());
                journal[at] ^= 1 << rng.u8(..8);
            }),
            2 => (0..20).for_each(|_| journal.push(rng.u8(..))),
            _ => part.truncate(rng.usize(..part.len())),
        }
        write(scene.part(), part);
        write(scene.journal(), journal);
        scene.complete(&[]);
        fs::remove_file(scene.target()).unwrap();
    }
}

#[test]
fn a_missing_journal_or_part_file_starts_over() {
    let scene = Scene::with_file(Pull);
    scene.leave_half();
    let (part, journal) = (scene.part(), scene.journal());
    let kept = read(&journal);
    fs::remove_file(&journal).unwrap();
    assert_eq!(scene.complete(&[])["resumed_bytes"], 0);
    fs::remove_file(scene.target()).unwrap();
    write(&journal, kept);
    assert!(!part.exists());
    assert_eq!(scene.complete(&[])["resumed_bytes"], 0);
}

/// The source is another file when the copy goes on.
fn changed_source(direction: Direction) {
    let scene = Scene::with_file(direction);
    scene.leave_half();
    write_noise(scene.source(), LEN + 1, 2);
    assert_eq!(scene.complete(&[])["resumed_bytes"], 0);
}

#[test]
fn a_source_that_changed_arrives_as_it_is_now() {
    changed_source(Push);
    changed_source(Pull);
}

#[test]
fn with_checksum_even_a_change_in_secret_is_no_mixture() {
    let scene = Scene::with_file(Push);
    set_mtime(scene.source(), 1_000_000_000, 0);
    scene.leave_half();
    // Same size, same time: only contents tell.
    write_noise(scene.source(), LEN, 2);
    set_mtime(scene.source(), 1_000_000_000, 0);
    let server = scene.serve();
    let first = server.cp(scene.args(server.url(""), &["--checksum"]));
    assert!(first.code == 0 || !scene.target().exists(), "a mixture: {}", first.stderr);
    // Where the first run had to throw away what was there, the second begins from nothing.
    scene.complete(&["--checksum"]);
}

/// A tree of files whose copy is torn apart at half. Each is too small for a journal, so the one under way starts over.
fn torn_tree(direction: Direction) {
    let scene = Scene::new(direction);
    for n in 0..200 {
        write_noise(scene.from().join(format!("{n:03}")), 200_000, n);
    }
    let mut server = scene.serve();
    let (copy, relay) = scene.begin(&server, MEASURED, 20_000_000);
    let before = scene.arrived(&relay);
    match direction {
        Push => server.kill(),
        Pull => copy.signal(Signal::KILL),
    }
    copy.finish();
    let arrived = before..=scene.arrived_in_all(relay);
    let json = scene.complete(&[]);
    assert_resumed(&json, arrived);
    assert_eq!(json["resumed_bytes"], 0, "what is done is skipped, and nothing else is taken over: {json}");
}

#[test]
fn files_of_a_torn_tree_that_are_done_are_skipped() {
    torn_tree(Push);
    torn_tree(Pull);
}

#[test]
fn a_torn_sparse_file_goes_on_and_keeps_its_holes() {
    let scene = Scene::new(Push);
    let data = noise(10 << 20, 1);
    write_sparse(scene.source(), 500 << 20, &[(7 << 20, &data), (100 << 20, &data), (400 << 20, &data)]);
    let mut server = scene.serve();
    let (copy, _relay) = scene.begin(&server, MEASURED, 15 << 20);
    server.kill();
    copy.finish();
    let json = scene.complete(&[]);
    assert!(json["resumed_bytes"].as_u64().unwrap() > 12 << 20, "{json}");
    assert!(disk_bytes(scene.target()) < 40 << 20);
}
