//! Copies that are planned once and made in parts, by processes that know nothing of each other but the plan.

use crate::common::relay::{Relay, Way};
use crate::common::tree::*;
use crate::common::{Ended, Running, Server, longhaul, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// A source, a destination that is served, and a folder that all who copy have in common.
struct Fleet {
    folder: TempDir,
    server: Server,
}

impl Fleet {
    /// Small files in folders, and two that are cut.
    fn new() -> Fleet {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let from = folder.path().join("from");
        for at in 0..30 {
            write_noise(from.join(format!("small/{at}")), 1000 * at, at as u64);
            write_noise(from.join(format!("small/deeper/{at}")), 3000, 100 + at as u64);
        }
        write_noise(from.join("large"), 12_000_001, 1);
        write_noise(from.join("small/deeper/large"), 9_000_000, 2);
        fs::create_dir(from.join("empty")).expect("it is new");
        std::os::unix::fs::symlink("large", from.join("link")).expect("it is new");
        let server = serve(folder.path());
        // Files that were written this very moment have no versions yet.
        sleep(Duration::from_millis(100));
        Fleet { folder, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, with what it needs to reach the server.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = longhaul();
        command.args(args).current_dir(self.folder.path()).env("XDG_CACHE_HOME", self.path("cache"));
        let token = fs::read_to_string(self.server.token_file()).expect("it is there");
        command.env("LONGHAUL_TOKEN", token.trim());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Running::start(&mut self.command(args)).finish()
    }

    /// Plan it, in pieces of whole mebibytes.
    fn plan(&self, more: &[&str]) -> Value {
        self.plan_to(&self.server.url("in"), more)
    }

    fn plan_to(&self, dest: &str, more: &[&str]) -> Value {
        let args = [&["plan", "--json", "--align=1MiB", "-o", "run"], more, &["from/", dest]].concat();
        self.run(&args).expect_code(0).json()
    }

    fn part_command(&self, part: &str) -> Command {
        self.command(&["cp", "--json", "--plan", "run", "--part", part])
    }

    fn part(&self, part: &str) -> Ended {
        Running::start(&mut self.part_command(part)).finish()
    }

    fn finish(&self) -> Ended {
        self.run(&["finish", "--json", "run"])
    }

    fn status(&self) -> Value {
        self.run(&["status", "--json", "run"]).expect_code(0).json()
    }

    fn assert_equal(&self) {
        assert_eq!(snapshot(&self.path("to/in")), snapshot(&self.path("from")));
    }
}

fn serve(folder: &Path) -> Server {
    let to = folder.join("to");
    fs::create_dir_all(&to).expect("it can be made");
    Server::start(&to, &[])
}

#[test]
fn parts_in_any_order_make_the_same_tree() {
    let fleet = Fleet::new();
    let plan = fleet.plan(&["--parts=6"]);
    assert_eq!((&plan["parts"], &plan["files"]), (&5.into(), &62.into()), "{plan}");
    for part in ["3", "0", "1", "4"] {
        assert!(fleet.part(part).expect_code(0).json()["ok"].as_bool().unwrap());
    }
    assert!(!fleet.path("to/in/large").exists() || !fleet.path("to/in/small/deeper/large").exists());
    let early = fleet.finish().expect_code(1);
    assert!(early.stderr.contains("parts are missing: 2; copy"), "{}", early.stderr);
    let status = fleet.status();
    assert_eq!((&status["parts_done"], &status["parts"]), (&4.into(), &5.into()), "{status}");
    // Whoever starts the parts counts them, from a folder of his own.
    let mover = fleet.path("mover");
    fs::create_dir(&mover).expect("it is new");
    let told = ["--metrics-file", "last.prom", "--trace", "last.trace"];
    let mut last = fleet.command(&[&["cp", "--json", "--plan", "../run"], &told[..]].concat());
    last.env("SLURM_ARRAY_TASK_ID", "2").current_dir(&mover);
    Running::start(&mut last).finish().expect_code(0);
    assert!(fs::read_to_string(mover.join("last.prom")).expect("it is there").contains("success{"));
    assert!(mover.join("last.trace").exists());
    assert!(!fleet.path("last.prom").exists() && !fleet.path("last.trace").exists());
    let finished = fleet.finish().expect_code(0).json();
    // A datagram may leave with its offer all the same.
    assert_eq!(finished["packets_required"], 0, "{finished}");
    fleet.assert_equal();
    assert_eq!(leftovers(&fleet.path("to")), Vec::<PathBuf>::new());
    // Nothing is left to do for who comes late, whatever leaves with his offer.
    let late = fleet.part("3").expect_code(0).json();
    let there =
        ["skipped_bytes", "resumed_bytes"].iter().filter_map(|bytes| late[bytes].as_u64()).sum::<u64>();
    assert_eq!(late["bytes"], there, "{late}");
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}

/// Files of ours that are left below a folder.
fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        match entry.file_type().expect("it has one").is_dir() {
            true => found.extend(leftovers(&entry.path())),
            false if entry.file_name().to_string_lossy().contains(".longhaul-") => found.push(entry.path()),
            false => {}
        }
    }
    found
}

#[test]
fn a_part_that_is_killed_goes_on_where_it_stopped_at_another_server() {
    let fleet = Fleet::new();
    let relay = Relay::start(fleet.server.address());
    fleet.plan_to(&relay.url("in"), &["--parts=1", "--rate=40mbit", "--transport=object"]);
    let half = 10_000_000;
    let copy = Running::start(&mut fleet.part_command("0"));
    wait_until("half of it arrives", || relay.bytes(Way::ToServer) > half);
    copy.signal(Signal::KILL);
    copy.finish().expect_code(-1);
    drop(relay);
    // Its state is still that of one who copies; the lock is not.
    let other = serve(fleet.folder.path());
    let mut fleet = fleet;
    fleet.server.kill();
    fs::write(fleet.path("hosts"), format!("{}\n", other.address())).unwrap();
    let token = fs::read_to_string(other.token_file()).unwrap();
    replan_to(&fleet, &other);
    let mut again = fleet.part_command("0");
    let ended = Running::start(again.env("LONGHAUL_TOKEN", token.trim())).finish().expect_code(0).json();
    assert!(ended["resumed_bytes"].as_u64().unwrap() > half * 7 / 10, "{ended}");
}

/// The plan names another server now, as a name does that leads elsewhere.
fn replan_to(fleet: &Fleet, other: &Server) {
    let path = fleet.path("run/plan.json");
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let command = plan["command"].as_array_mut().unwrap();
    *command.last_mut().unwrap() = other.url("in").into();
    fs::write(&path, plan.to_string()).unwrap();
}

#[test]
fn the_same_part_twice_at_a_time_is_copied_once() {
    let fleet = Fleet::new();
    let relay = Relay::start(fleet.server.address());
    fleet.plan_to(&relay.url("in"), &["--parts=2", "--rate=30mbit", "--transport=object"]);
    let first = Running::start(&mut fleet.part_command("0"));
    wait_until("some of it arrives", || relay.bytes(Way::ToServer) > 1_000_000);
    let second = fleet.part("0").expect_code(1);
    assert!(
        second.stderr.contains(&format!("part 0 is being copied by process {}", first.id())),
        "{}",
        second.stderr
    );
    assert_eq!(fleet.status()["parts_copying"], 1);
    first.finish().expect_code(0);
    fleet.part("1").expect_code(0);
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}

#[test]
fn a_part_that_is_told_to_end_says_so_and_can_be_gone_on_with() {
    let fleet = Fleet::new();
    let relay = Relay::start(fleet.server.address());
    fleet.plan_to(&relay.url("in"), &["--parts=1", "--rate=40mbit", "--transport=object"]);
    let copy = Running::start(&mut fleet.part_command("0"));
    wait_until("some of it arrives", || relay.bytes(Way::ToServer) > 4_000_000);
    copy.signal(Signal::TERM);
    copy.finish().expect_code(130);
    assert_eq!(fleet.status()["known"][0]["stage"], "stopped");
    let ended = fleet.part("0").expect_code(0).json();
    assert!(ended["resumed_bytes"].as_u64().unwrap() > 1_000_000, "{ended}");
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}

#[test]
fn a_source_that_changed_since_it_was_planned_is_not_copied() {
    let fleet = Fleet::new();
    let parts = fleet.plan(&["--parts=6"])["parts"].as_u64().unwrap();
    fs::write(fleet.path("from/small/7"), "another").unwrap();
    let mut changed = noise(12_000_001, 1);
    changed[11_000_000] ^= 1;
    let before = fs::metadata(fleet.path("from/large")).unwrap().modified().unwrap();
    fs::write(fleet.path("from/large"), &changed).unwrap();
    // By its size and time it is the same.
    let file = fs::File::options().write(true).open(fleet.path("from/large")).unwrap();
    file.set_modified(before).unwrap();
    let mut failed = vec![];
    for part in 0..parts {
        let ended = fleet.part(&part.to_string());
        if ended.code == 1 {
            assert!(
                ended.stderr.contains("changed since the copy was planned; plan it anew"),
                "{}",
                ended.stderr
            );
            failed.push(part);
        }
    }
    assert!(failed.len() >= 3, "the large one is in several parts: {failed:?}");
    fleet.finish().expect_code(1);
    assert!(!fleet.path("to/in/large").exists() && !fleet.path("to/in/small/7").exists());
    let there = fs::read(fleet.path("to/in/small/deeper/large")).unwrap();
    assert!(there == noise(9_000_000, 2), "the others are there");
}

#[test]
fn a_host_of_the_destination_that_is_away_is_left_for_another() {
    let fleet = Fleet::new();
    // Nobody listens there.
    fs::write(fleet.path("hosts"), format!("127.0.0.1:9\n{}\n", fleet.server.address())).unwrap();
    fleet.plan_to("longhaul://any/in", &["--parts=2", "--hosts=hosts"]);
    let first = fleet.part("0").expect_code(0);
    assert!(first.stderr.contains("going on with another host of the destination"), "{}", first.stderr);
    fleet.part("1").expect_code(0);
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}

#[test]
fn a_host_that_is_told_to_end_is_left_for_another() {
    let fleet = Fleet::new();
    let mut first = serve(fleet.folder.path());
    let relay = Relay::start(first.address());
    let hosts = format!("{}\n{}\n", relay.url("").trim_start_matches("longhaul://"), fleet.server.address());
    fs::write(fleet.path("hosts"), hosts.replace('/', "")).unwrap();
    fleet
        .plan_to("longhaul://any/in", &["--parts=1", "--hosts=hosts", "--rate=40mbit", "--transport=object"]);
    let copy = Running::start(&mut fleet.part_command("0"));
    wait_until("some of it arrives", || relay.bytes(Way::ToServer) > 4_000_000);
    first.stop(Signal::TERM);
    let ended = copy.finish().expect_code(0);
    assert!(ended.stderr.contains("going on with another host of the destination"), "{}", ended.stderr);
    // Another test's server may have the first one's port by now.
    drop(relay);
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}

#[test]
fn a_part_is_tried_again_as_its_plan_says() {
    let mut fleet = Fleet::new();
    fleet.plan(&["--parts=1", "--retry=1"]);
    fleet.server.kill();
    let ended = fleet.part("0").expect_code(1);
    assert_eq!(ended.stderr.matches("trying again in 1 s").count(), 1, "{}", ended.stderr);
}

#[test]
fn what_the_source_has_not_is_removed_once_all_parts_are_there() {
    let fleet = Fleet::new();
    write(fleet.path("to/in/old"), b"old");
    assert_eq!(fleet.plan(&["--parts=3", "--delete"])["parts"], 3);
    fleet.part("0").expect_code(0);
    fleet.part("1").expect_code(0);
    fleet.finish().expect_code(1);
    assert!(fleet.path("to/in/old").exists(), "not while something is missing");
    fleet.part("2").expect_code(0);
    assert!(fleet.path("to/in/old").exists(), "that is the last step's");
    let finished = fleet.finish().expect_code(0).json();
    assert_eq!(finished["removed"], 1);
    fleet.assert_equal();
}

#[test]
fn a_single_file_gets_the_name_that_the_destination_says() {
    let fleet = Fleet::new();
    let dest = fleet.server.url("renamed");
    let args = ["plan", "--json", "--align=1MiB", "--parts=4", "-o", "run", "from/large", &dest];
    assert_eq!(fleet.run(&args).expect_code(0).json()["parts"], 4);
    (0..4).for_each(|part| drop(fleet.part(&part.to_string()).expect_code(0)));
    fleet.finish().expect_code(0);
    assert_same_bytes(fleet.path("from/large"), fleet.path("to/renamed"));
}

/// Somebody frees room: of the file that holds all pieces nothing is there any more, and what is noted of it says nothing of the
/// next one of that name.
#[test]
fn pieces_that_were_taken_away_are_copied_again() {
    let fleet = Fleet::new();
    let parts = fleet.plan(&["--parts=4"])["parts"].as_u64().unwrap();
    let pieces = || {
        let of_pieces = |path: &PathBuf| path.to_string_lossy().ends_with(".longhaul-pieces");
        leftovers(&fleet.path("to")).into_iter().filter(of_pieces).collect::<Vec<_>>()
    };
    for part in 0..parts {
        fleet.part(&part.to_string()).expect_code(0);
    }
    assert_eq!(pieces().len(), 2);
    for taken_away in pieces() {
        fs::remove_file(taken_away).unwrap();
    }
    // The last piece makes it as long as the whole.
    fleet.part(&(parts - 1).to_string()).expect_code(0);
    let early = fleet.finish().expect_code(1);
    assert!(early.stderr.contains("large"), "{}", early.stderr);
    for part in (0..parts).rev() {
        fleet.part(&part.to_string()).expect_code(0);
    }
    // The last step was killed when they had their permissions and not yet their names.
    for complete in pieces() {
        fs::set_permissions(complete, Permissions::from_mode(0o644)).unwrap();
    }
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}

#[test]
fn a_file_that_has_no_version_comes_in_pieces_too() {
    let fleet = Fleet::new();
    // File systems in memory do not tell all changes, and those of programs (FUSE) may not.
    let memory = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let file = memory.path().join("large");
    write_noise(&file, 5_000_001, 3);
    let from = file.to_str().expect("it is text");
    let plan = ["plan", "--json", "--align=1MiB", "--parts=2", "-o", "run", from, &fleet.server.url("in/")];
    assert_eq!(fleet.run(&plan).expect_code(0).json()["parts"], 2);
    for part in ["0", "1", "1"] {
        fleet.part(part).expect_code(0);
    }
    fleet.finish().expect_code(0);
    assert_same_bytes(&file, fleet.path("to/in/large"));
    assert_eq!(leftovers(&fleet.path("to")), Vec::<PathBuf>::new());
}

#[test]
fn a_rate_is_that_of_all_parts_together() {
    let fleet = Fleet::new();
    fleet.plan(&["--parts=2", "--rate=20mbit", "--transport=object"]);
    let started = |part| Running::start(&mut fleet.part_command(part));
    let copies = [started("0"), started("1")];
    wait_until("both have said that they copy", || fleet.status()["parts_copying"] == 2);
    let limited =
        |state: &Value| state["limited_by"] == "rate_cap" && state["goodput_mbps"].as_f64() < Some(11.0);
    wait_until("each goes at half of the rate", || {
        fleet.status()["known"].as_array().is_some_and(|known| known.len() == 2 && known.iter().all(limited))
    });
    copies.into_iter().for_each(|copy| drop(copy.finish().expect_code(0)));
}

#[test]
fn all_parts_do_what_is_wished_of_the_plan_also_those_that_begin_later() {
    let fleet = Fleet::new();
    fleet.plan(&["--parts=2", "--rate=20mbit", "--transport=object"]);
    let wish = |args: &[&str]| fleet.run(&[&["ctl", "run"], args].concat()).expect_code(0);
    let started = |part| Running::start(&mut fleet.part_command(part));
    let all = |parts, limit: &str| {
        fleet.status()["known"].as_array().is_some_and(|known| {
            known.len() == parts && known.iter().all(|state| state["limited_by"] == *limit)
        })
    };
    let first = started("0");
    wait_until("it is at work", || fleet.status()["parts_copying"] == 1);
    assert!(wish(&["pause"]).stderr.contains("paused"));
    wait_until("it pauses", || all(1, "paused"));
    let second = started("1");
    wait_until("the second one pauses too", || all(2, "paused"));
    assert!(fleet.run(&["status", "run"]).expect_code(0).stdout.contains("paused"));
    wish(&["rate", "4mbit"]);
    wish(&["resume"]);
    let is_slow = |state: &Value| {
        state["limited_by"] == "rate_cap" && state["goodput_mbps"].as_f64().is_some_and(|mbps| mbps < 2.5)
    };
    wait_until("each goes at half of the new rate", || {
        fleet.status()["known"].as_array().is_some_and(|known| known.len() == 2 && known.iter().all(is_slow))
    });
    let status = wish(&["status"]).json();
    assert_eq!((&status["rate"], &status["paused"]), (&"4mbit".into(), &false.into()));
    // What nobody can read is told, and replaced by the next wish.
    std::fs::write(fleet.path("run/wish.json"), b"{").unwrap();
    assert_eq!(fleet.status()["paused"], false);
    wish(&["rate", "none"]);
    wait_until("both are fast", || {
        fleet.status()["known"].as_array().is_some_and(|known| {
            known.iter().all(|state| {
                state["stage"] == "done" || state["goodput_mbps"].as_f64().is_some_and(|mbps| mbps > 10.0)
            })
        })
    });
    [first, second].into_iter().for_each(|copy| drop(copy.finish().expect_code(0)));
    fleet.finish().expect_code(0);
    fleet.assert_equal();
    assert!(fleet.run(&["ctl", "to", "pause"]).expect_code(1).stderr.contains("plan"));
}

#[test]
fn a_plan_that_is_none_is_told_in_one_line() {
    let fleet = Fleet::new();
    let says = |ended: Ended, code, words: &str| {
        let ended = ended.expect_code(code);
        let lines: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(words), "{words:?} is not all of {:?}", ended.stderr);
    };
    says(fleet.part("0"), 1, "there is no plan here");
    fleet.plan(&["--parts=3"]);
    says(fleet.part("3"), 1, "there is no part 3: the plan has 3");
    says(fleet.run(&["cp", "--plan", "run"]), 2, "which part? Give --part, or set LONGHAUL_PART");
    let url = fleet.server.url("in");
    says(fleet.run(&["plan", "-o", "run", "from/", &url]), 1, "there is a plan here already");
    says(fleet.run(&["plan", "-o", "other", "nothing", &url]), 1, "nothing to copy: nothing: no such file");
    says(fleet.run(&["plan", "-o", "other", "--align=1000", "from/", &url]), 2, "multiples of 1 MiB");
    says(fleet.run(&["plan", "-o", "other", "--exclude=[", "from/", &url]), 2, "[");
    says(
        fleet.run(&["plan", "-o", "other", "--background", "--control=greedy", "from/", &url]),
        2,
        "--background",
    );
    says(fleet.run(&["plan", "-o", "other", "--transport=ssh", "from/", &url]), 2, "ssh");
    says(fleet.run(&["plan", "-o", "other", &url, "from"]), 2, "is on another host");
    says(fleet.run(&["plan", "-o", "other", "from", "to"]), 2, "is on this host");
    says(fleet.run(&["plan", "-o", "/dev/full/x", "from", &url]), 1, "/dev/full/x");
    let path = fleet.path("run/plan.json");
    let plan = fs::read_to_string(&path).unwrap();
    fs::write(&path, plan.replace("\"version\":1", "\"version\":7")).unwrap();
    says(fleet.part("0"), 1, "the plan is of version 7, and this program knows version 1");
    fs::write(&path, &plan[..plan.len() / 2]).unwrap();
    says(fleet.part("0"), 1, "plan the copy again");
    fs::write(&path, &plan).unwrap();
    let list = fs::read(fleet.path("run/list")).unwrap();
    fs::write(fleet.path("run/list"), &list[..list.len() - 9]).unwrap();
    says(fleet.part("0"), 1, "the list beside it is shorter than it says");
    fs::write(fleet.path("run/list"), vec![7; list.len()]).unwrap();
    says(fleet.part("0"), 1, "plan the copy again");
    fs::write(fleet.path("run/list"), list).unwrap();
    (0..3).for_each(|part| drop(fleet.part(&part.to_string()).expect_code(0)));
    fleet.finish().expect_code(0);
    fleet.assert_equal();
}
