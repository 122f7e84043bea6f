//! A push to a daemon shakes hands over UDP while TCP connects.

use crate::common::lab::Haul;
use crate::common::sides::Sides;
use crate::common::tree::{names, write_noise};
use crate::common::{Ended, LONGHAUL, Running, Server, undisturbed};
use longhaul_lab::{Scenario, Side};
use longhaul_testing::machine;
use rustix::process::Signal;
use std::fs;

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

/// What `--why` tells of data that did not wait for an answer.
const TOGETHER: &str = "packets went together with the offer";
const IN_VAIN: &str = "in vain";

/// A daemon at the end of a path so long that a copy is listed before TCP has connected, and a client that may have met it.
struct Met {
    sides: Sides,
    haul: Haul,
    cache: tempfile::TempDir,
}

impl Met {
    /// After a first copy.
    fn over(scenario: &Scenario) -> Met {
        let sides = Sides::with_file(false, 300_000);
        let haul = Haul::start(scenario, sides.there.path());
        let met = Met { sides, haul, cache: tempfile::tempdir().unwrap() };
        let first = met.push(&[]);
        assert!(!first.contains(TOGETHER), "{first}");
        met
    }

    fn command(&self, more: &[&str]) -> std::process::Command {
        let args = [&["--why"][..], more].concat();
        let mut command = self.haul.cp_command(self.sides.file_args(&self.haul.server.url(""), &args));
        command.env("XDG_CACHE_HOME", self.cache.path());
        command
    }

    fn push(&self, more: &[&str]) -> String {
        let Ended { stderr, .. } = Running::start(&mut self.command(more)).finish().expect_code(0);
        self.sides.assert_complete();
        stderr
    }

    fn change_source(&self, seed: u64) {
        write_noise(self.sides.source(), 300_000 + seed as usize, seed);
    }
}

#[test]
fn the_next_copys_first_data_goes_together_with_the_offer() {
    let Some(_shared) = machine::wait() else { return };
    let met = Met::over(&Scenario::new(50.0, 800.0));
    for seed in 2..4 {
        met.change_source(seed);
        let told = met.push(&["--delta=never"]);
        assert!(told.contains(TOGETHER) && !told.contains(IN_VAIN), "{told}");
    }
    // What is there may be claimed: then what went before counts for nothing.
    met.change_source(4);
    let told = met.push(&["--delta=always"]);
    assert!(told.contains(TOGETHER), "{told}");
}

#[test]
fn a_daemon_that_was_started_again_is_sent_everything_once_more() {
    let Some(_shared) = machine::wait() else { return };
    let mut met = Met::over(&Scenario::new(50.0, 800.0));
    let listen = met.haul.server.address().to_string();
    met.haul.server.stop(Signal::INT);
    let again = undisturbed(met.haul.lab.command(Side::Right, LONGHAUL));
    met.haul.server = Server::start_with(again, met.sides.there.path(), &["--listen", &listen]);
    met.change_source(2);
    let told = met.push(&["--delta=never"]);
    assert!(told.contains(IN_VAIN), "{told}");
}

#[test]
fn what_is_lost_of_the_first_data_is_sent_again() {
    let Some(_shared) = machine::wait() else { return };
    let met = Met::over(&Scenario { loss: 0.2, ..Scenario::new(50.0, 100.0) });
    for seed in 2..6 {
        met.change_source(seed);
        met.push(&[]);
    }
}

#[test]
fn first_data_of_a_client_that_is_gone_stays_in_memory() {
    let Some(_shared) = machine::wait() else { return };
    let met = Met::over(&Scenario::new(50.0, 800.0));
    fs::remove_file(met.sides.target()).unwrap();
    met.haul.lab.reset_counters();
    let client = Running::start(&mut met.command(&[]));
    // The train is 50 kB.
    met.haul.await_bytes(false, 150_000);
    client.signal(Signal::KILL);
    client.finish();
    assert_eq!(names(met.sides.there.path()), Vec::<String>::new());
}
