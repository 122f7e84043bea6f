//! Copies that are torn apart and go on where they stopped.

use crate::common::mapping::Mapping;
use crate::common::relay::{Relay, Way};
use crate::common::sides::Sides;
use crate::common::tree::*;
use crate::common::{Running, Server, longhaul, run, skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Long enough to be interrupted half-way.
const LEN: usize = 40_000_000;
const HALF: u64 = LEN as u64 / 2;

/// Of half the file a tenth takes 0.8 s at this rate, several times what the journal lags behind: enough on a busy host.
const MEASURED: &str = "--rate=20mbit";

/// Where nothing is said of how much was taken over.
const BRISK: &str = "--rate=50mbit";

/// One large file to be copied.
fn large(pull: bool) -> Sides {
    let sides = Sides::with_file(pull, LEN);
    // A file that was written this very moment has no version yet.
    sleep(Duration::from_millis(100));
    sides
}

/// A copy that is under way, through a relay.
struct Begun {
    copy: Running,
    relay: Relay,
    way: Way,
}

impl Begun {
    /// Bytes that were brought to the receiver's door, datagrams' own overhead counted in.
    fn arrived(&self) -> u64 {
        self.relay.bytes(self.way)
    }
}

impl Sides {
    /// Start a copy that takes a few seconds and wait until `bytes` have arrived. Over UDP alone, as datagrams are what
    /// the relay counts.
    fn begin(&self, server: &Server, rate: &str, bytes: u64) -> Begun {
        let relay = Relay::start(server.address());
        let args = self.args(relay.url(""), &[rate, "--transport=object"]);
        let copy = Running::start(&mut server.cp_command(args));
        let way = if self.pull { Way::ToClient } else { Way::ToServer };
        let begun = Begun { copy, relay, way };
        wait_until("half of it arrives", || begun.arrived() >= bytes);
        begun
    }

    /// Tear a copy apart when `bytes` have arrived, as a receiver that is killed does.
    fn tear(&self, rate: &str, bytes: u64) -> RangeInclusive<u64> {
        let mut server = self.serve();
        let begun = self.begin(&server, rate, bytes);
        Tear::receiver(self.pull).befall(begun, &mut server).1
    }

    /// Leave half of the file.
    fn leave_half(&self) {
        self.tear(BRISK, HALF);
        assert!(!self.target().exists(), "nothing may be in place before it is complete");
    }

    /// Run the copy to its end, which must be good.
    fn complete_with(&self, server: &Server, more: &[&str]) -> Value {
        let json = server.cp(self.args(server.url(""), more)).expect_code(0).json();
        self.assert_complete();
        json
    }

    /// The same with a server of its own.
    fn complete(&self, more: &[&str]) -> Value {
        self.complete_with(&self.serve(), more)
    }
}

/// What had arrived before the end counts, but for a tenth at most; and no more than what arrived in all.
fn assert_resumed(json: &Value, arrived: &RangeInclusive<u64>) {
    let resumed = json["resumed_bytes"].as_u64().unwrap() + json["skipped_bytes"].as_u64().unwrap();
    let says = format!("{arrived:?} bytes had arrived, {resumed} were taken over: {json}");
    assert!(resumed * 10 >= arrived.start() * 9, "{says}");
    assert!(resumed <= *arrived.end(), "{says}");
}

/// What tears a copy apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tear {
    ClientKilled,
    ClientInterrupted,
    ServerKilled,
    ServerStopped,
}

impl Tear {
    /// The receiver is killed.
    fn receiver(pull: bool) -> Tear {
        if pull { Tear::ClientKilled } else { Tear::ServerKilled }
    }

    /// How the client ended, and how many bytes had arrived before and in all: what is under way while a copy dies
    /// still counts.
    fn befall(self, mut begun: Begun, server: &mut Server) -> (Value, RangeInclusive<u64>) {
        let before = begun.arrived();
        let code = match self {
            Tear::ClientKilled => {
                begun.copy.signal(Signal::KILL);
                -1
            }
            Tear::ClientInterrupted => {
                begun.copy.signal(Signal::INT);
                130
            }
            Tear::ServerKilled => {
                server.kill();
                1
            }
            Tear::ServerStopped => {
                assert_eq!(server.stop(Signal::TERM), 0);
                1
            }
        };
        let ended = begun.copy.finish().expect_code(code);
        begun.relay.stop();
        let json = if code < 0 { Value::Null } else { ended.json() };
        (json, before..=begun.relay.bytes(begun.way))
    }
}

/// A copy that is torn apart at half goes on there.
fn goes_on(pull: bool, tear: Tear) -> Value {
    let sides = large(pull);
    let mut server = sides.serve();
    let begun = sides.begin(&server, MEASURED, HALF);
    let (json, arrived) = tear.befall(begun, &mut server);
    let again = match tear {
        // The same server goes on serving; it must have let go of the half-done copy.
        Tear::ClientKilled | Tear::ClientInterrupted => sides.complete_with(&server, &[]),
        Tear::ServerKilled | Tear::ServerStopped => sides.complete(&[]),
    };
    assert_resumed(&again, &arrived);
    json
}

#[test]
fn a_push_goes_on_after_its_client_was_killed() {
    goes_on(false, Tear::ClientKilled);
}

#[test]
fn a_pull_goes_on_after_its_client_was_killed() {
    goes_on(true, Tear::ClientKilled);
}

#[test]
fn a_copy_goes_on_after_its_server_was_killed_and_the_client_says_so() {
    for pull in [false, true] {
        let json = goes_on(pull, Tear::ServerKilled);
        assert!(json["error"].as_str().unwrap().contains("run the same command again"), "{json}");
    }
}

#[test]
fn a_server_that_is_told_to_stop_keeps_what_arrived() {
    goes_on(false, Tear::ServerStopped);
}

/// The user presses Ctrl-C.
#[test]
fn an_interrupted_copy_goes_on() {
    for pull in [false, true] {
        let json = goes_on(pull, Tear::ClientInterrupted);
        assert!(json["error"].as_str().unwrap().contains("interrupted"), "{json}");
        assert!(json["bytes"].as_u64().unwrap() > LEN as u64 / 4, "{json}");
        assert!(json["goodput_mbps"].as_f64().unwrap() > 0.0, "{json}");
        let told = (&json["ok"], &json["files"], &json["transport"], &json["encrypted"]);
        assert_eq!(told, (&false.into(), &1.into(), &"object".into(), &true.into()), "{json}");
    }
}

#[test]
fn an_interrupted_copy_over_tcp_tells_what_it_took_over() {
    let sides = large(false);
    sides.leave_half();
    let server = sides.serve();
    let before = disk_bytes(sides.part());
    let args = sides.args(server.url(""), &["--rate=20mbit", "--transport=stripe"]);
    let copy = Running::start(&mut server.cp_command(args));
    wait_until("more arrives", || disk_bytes(sides.part()) > before + 1_000_000);
    copy.signal(Signal::INT);
    let json = copy.finish().expect_code(130).json();
    assert_eq!(json["transport"], "stripe", "{json}");
    let [bytes, resumed] = ["bytes", "resumed_bytes"].map(|field| json[field].as_u64().unwrap());
    assert!(resumed > LEN as u64 / 4 && bytes > resumed, "{json}");
}

#[test]
fn a_copy_that_may_try_again_outlives_its_server() {
    let sides = large(false);
    // A host of loopback that no other test listens at: the port stays free.
    let serve = |listen: &str| Server::start_with(longhaul(), sides.there.path(), &["--listen", listen]);
    let mut server = serve("127.0.0.77:0");
    let address = server.address().to_string();
    let args = sides.args(server.url(""), &[BRISK, "--retry=forever"]);
    let copy = Running::start(&mut server.cp_command(args));
    sides.await_part(HALF / 4);
    server.kill();
    copy.await_line("trying again in");
    let _again = serve(&address);
    let json = copy.finish().expect_code(0).json();
    sides.assert_complete();
    assert!(json["resumed_bytes"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn trying_again_comes_to_an_end() {
    let sides = large(false);
    let mut server = sides.serve();
    server.kill();
    let trace = sides.here.path().join("trace.qlog");
    let flags = ["--retry=1", &format!("--trace={}", trace.display())];
    let ended = server.cp(sides.args(server.url(""), &flags)).expect_code(1);
    assert_eq!(ended.stderr.matches("trying again in 1 s").count(), 1, "{}", ended.stderr);
    let told = fs::read_to_string(trace).unwrap();
    assert!(
        told.lines().any(|line| line.contains("warning") && line.contains("trying again in 1 s")),
        "{told}"
    );
}

#[test]
fn what_time_does_not_mend_is_not_tried_again() {
    let ended = run(["cp", "--retry=forever", "--ssh=/nowhere/ssh", "here:file", "there"]).expect_code(1);
    assert!(ended.stderr.contains("/nowhere/ssh") && !ended.stderr.contains("trying"), "{}", ended.stderr);
}

/// The source is another file when the copy goes on; by its size and time it need not be.
#[test]
fn a_source_that_changed_arrives_as_it_is_now() {
    for (pull, more_bytes) in [(false, 1), (false, 0), (true, 1), (true, 0)] {
        let sides = large(pull);
        set_mtime(sides.source(), 1_000_000_000, 0);
        sides.leave_half();
        write_noise(sides.source(), LEN + more_bytes, 2);
        set_mtime(sides.source(), 1_000_000_000, 0);
        let json = sides.complete(&[]);
        assert_eq!(
            json["resumed_bytes"], 0,
            "pieces of groups that were not the same are no part of it: {json}"
        );
        assert_eq!(json["hash_verified"], true);
    }
}

/// One large file on a file system that tells of changes; `None` where the temporary folder is in memory, which is said.
fn on_disk() -> Option<Sides> {
    let sides = large(false);
    let is_memory = rustix::fs::statfs(sides.source()).unwrap().f_type as i64 == 0x0102_1994;
    if is_memory {
        skip("the temporary folder is a tmpfs");
    }
    (!is_memory).then_some(sides)
}

/// Bytes that the client read from its disk and its pipes in all.
fn bytes_read(process: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).map_or(0, |bytes| bytes.trim().parse().unwrap())
}

/// Complete a copy of which half has arrived. Returns what the client read of its disk in all, and how much was resumed.
fn resume_and_count(sides: &Sides, copy: &mut Command) -> (u64, u64) {
    let mut read = 0;
    let mut copy = Running::start(copy);
    while copy.is_running() {
        read = bytes_read(copy.id()).max(read);
        sleep(Duration::from_millis(5));
    }
    let json = copy.finish().expect_code(0).json();
    sides.assert_complete();
    let resumed = json["resumed_bytes"].as_u64().unwrap();
    // The journal of a busy host lags behind.
    assert!(resumed > LEN as u64 / 4, "{json}");
    (read, resumed)
}

#[test]
fn the_same_version_goes_on_without_reading_again() {
    let Some(sides) = on_disk() else { return };
    sides.leave_half();
    let server = sides.serve();
    let mut copy = server.cp_command(sides.args(server.url(""), &[BRISK]));
    let (read, resumed) = resume_and_count(&sides, &mut copy);
    // What had arrived is not read; but for groups of which a part had arrived, and the program's own files.
    assert!(read < LEN as u64 - resumed + (5 << 20), "{read} bytes read, {resumed} resumed");
}

/// All that a version is made of can be read by everybody who may look at the file, and copied by who has a disk of his own. So
/// what another sender's groups hashed to is compared with the file.
#[test]
fn a_version_is_worth_nothing_from_another_sender() {
    let Some(sides) = on_disk() else { return };
    sides.leave_half();
    let (server, home) = (sides.serve(), folder());
    let mut copy = server.cp_command(sides.args(server.url(""), &[BRISK]));
    let (read, _) = resume_and_count(&sides, copy.env("XDG_STATE_HOME", home.path()));
    assert!(read >= LEN as u64, "{read} bytes read");
}

/// A program that has mapped the file and writes to pages that it wrote to before leaves no trace in the file's times,
/// unless it is made to.
#[test]
fn what_changes_through_a_mapping_is_no_mixture() {
    let Some(sides) = on_disk() else { return };
    let mut map = Mapping::new(&sides.source());
    map.write(100, 1);
    map.write(LEN - 100, 1);
    sleep(Duration::from_millis(100));
    sides.leave_half();
    map.write(100, 2);
    map.write(LEN - 100, 2);
    sides.complete(&[]);
}

#[test]
fn one_percent_that_changed_is_what_is_sent() {
    let sides = Sides::new(true);
    let mut bytes = noise(200 << 20, 1);
    write(sides.target(), &bytes);
    set_mtime(sides.target(), 1_000_000_000, 0);
    bytes[77 << 20] ^= 1;
    bytes[150 << 20] ^= 1;
    write(sides.source(), &bytes);
    let json = sides.complete(&[]);
    // Two groups differ; a few more may be sent before it is known that they do not.
    assert!(json["delta_bytes"].as_u64().unwrap() >= 190 << 20, "{json}");
    // Nothing of it where it is not wanted.
    write(sides.target(), noise(200 << 20, 1));
    set_mtime(sides.target(), 1_000_000_000, 0);
    assert_eq!(sides.complete(&["--delta=never"])["delta_bytes"], 0);
}

#[test]
fn a_dry_run_compares_contents_too() {
    let sides = Sides::new(false);
    for (name, seed) in [("equal", 1), ("small", 2), ("large", 3)] {
        let len = if name == "large" { 3_000_000 } else { 5000 };
        write_noise(sides.from().join(name), len, seed);
        let there = if name == "equal" { seed } else { 7 };
        write_noise(sides.to().join(name), len, there);
        for top in [sides.from(), sides.to()] {
            set_mtime(top.join(name), 1_000_000_000, 0);
        }
    }
    let server = sides.serve();
    let before = [read(sides.to().join("small")), read(sides.to().join("large"))];
    let ended = server.cp(sides.args(server.url(""), &["--dry-run", "--checksum"])).expect_code(0);
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("would copy")).collect();
    assert_eq!(told.len(), 2, "{}", ended.stderr);
    assert!(!ended.stderr.contains("would copy equal"), "{}", ended.stderr);
    assert_eq!(before, [read(sides.to().join("small")), read(sides.to().join("large"))]);
    let json = sides.complete(&["--checksum"]);
    assert_eq!((&json["compared_bytes"], &json["hash_verified"]), (&5000.into(), &true.into()), "{json}");
    let again = sides.complete(&[]);
    assert_eq!((&again["compared_bytes"], &again["hash_verified"]), (&0.into(), &false.into()), "{again}");
}

/// Each round two copies of different files go to one name.
fn two_to_one_name(len: usize, rounds: u64) {
    let sides = Sides::new(false);
    let server = sides.serve();
    let (one, other) = (sides.from().join("one"), sides.from().join("other"));
    write_noise(&one, len, 1);
    write_noise(&other, len, 2);
    for round in 0..rounds {
        let start = |source: &Path| {
            let ends = [source.as_os_str().to_owned(), server.url("file").into()];
            Running::start(&mut server.cp_command(ends))
        };
        let ended = [start(&one), start(&other)].map(Running::finish);
        for ended in ended.iter().filter(|ended| ended.code != 0) {
            assert!(ended.stderr.contains("another copy writes this file"), "{round}: {}", ended.stderr);
        }
        let done = ended.iter().filter(|ended| ended.code == 0).count();
        let there = read(sides.to().join("file"));
        assert!(done > 0 && (there == read(&one) || there == read(&other)), "{round}");
        fs::remove_file(sides.to().join("file")).unwrap();
        assert_eq!(names(sides.to()), Vec::<String>::new(), "nothing is left over");
    }
}

#[test]
fn two_copies_to_one_name_land_whole_or_not_at_all() {
    two_to_one_name(3_000_000, 12);
    two_to_one_name(30_000, 12);
}

#[test]
#[ignore = "takes some minutes"]
fn two_copies_to_one_name_land_whole_or_not_at_all_long() {
    two_to_one_name(3_000_000, 200);
    two_to_one_name(30_000, 200);
}

/// Each is too small for a journal, so the one under way starts over.
#[test]
fn files_of_a_torn_tree_that_are_done_are_skipped() {
    for pull in [false, true] {
        let sides = Sides::new(pull);
        for n in 0..200 {
            write_noise(sides.from().join(format!("{n:03}")), 200_000, n);
        }
        let mut server = sides.serve();
        let begun = sides.begin(&server, BRISK, HALF);
        wait_until("some are stored", || stored_bytes(sides.to()) >= HALF / 2);
        Tear::receiver(pull).befall(begun, &mut server);
        let stored = stored_bytes(sides.to());
        let json = sides.complete(&[]);
        assert_eq!(json["skipped_bytes"], stored, "{json}");
        assert_eq!(
            json["resumed_bytes"], 0,
            "what is done is skipped, and nothing else is taken over: {json}"
        );
    }
}

/// Of files that have their names.
fn stored_bytes(folder: &Path) -> u64 {
    let files = names(folder).into_iter().filter(|name| !name.starts_with('.'));
    files.map(|name| fs::metadata(folder.join(name)).map_or(0, |file| file.len())).sum()
}

#[test]
fn a_torn_sparse_file_goes_on_and_keeps_its_holes() {
    let sides = Sides::new(false);
    let data = noise(10 << 20, 1);
    write_sparse(sides.source(), 500 << 20, &[(7 << 20, &data), (100 << 20, &data), (400 << 20, &data)]);
    sides.tear(MEASURED, 15 << 20);
    let json = sides.complete(&[]);
    assert!(json["resumed_bytes"].as_u64().unwrap() > 12 << 20, "{json}");
    assert!(disk_bytes(sides.target()) < 40 << 20);
}
