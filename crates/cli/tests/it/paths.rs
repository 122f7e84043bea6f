//! Copies over several paths at a time, and from where this host is told to send.

use crate::common::lab::{Haul, repeat};
use crate::common::sides::Sides;
use crate::common::tree::*;
use crate::common::{LONGHAUL, Server, error_of, longhaul, undisturbed};
use longhaul_lab::{Lab, Scenario, Side};
use longhaul_testing::machine;
use longhaul_testing::process::may_build_labs;
use serde_json::Value;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Two paths between two hosts, of different rates and lengths.
struct TwoPaths {
    first: Haul,
    second: Lab,
    sides: Sides,
}

/// All that both carry, Mb/s.
const SUM_MBIT: f64 = 100.0;

impl TwoPaths {
    fn start(pull: bool, len: usize) -> TwoPaths {
        let sides = Sides::with_file(pull, len);
        let lab = Lab::start(&Scenario::new(60.0, 20.0)).expect("a lab can be made here");
        let second = lab.further_path(&Scenario::new(40.0, 80.0), 1).expect("as the first");
        let command = undisturbed(lab.command(Side::Right, LONGHAUL));
        let server = Server::start_with(command, sides.there.path(), &["--listen", "0.0.0.0:0"]);
        TwoPaths { first: Haul { lab, server }, second, sides }
    }

    fn bind(&self) -> String {
        format!("--bind={},{}", self.first.lab.address(Side::Left), self.second.address(Side::Left))
    }

    /// Copy over both, while `meanwhile` befalls them. What the program says of it.
    fn copy(&self, meanwhile: impl FnOnce(&TwoPaths)) -> Value {
        self.copy_with(&[&self.bind()], meanwhile)
    }

    /// The same, over those that the flags name.
    fn copy_with(&self, flags: &[&str], meanwhile: impl FnOnce(&TwoPaths)) -> Value {
        let Haul { lab, server } = &self.first;
        let url = format!("longhaul://{}:{}/", lab.address(Side::Right), server.address().port());
        let args = self.sides.file_args(&url, &[&["--why"], flags].concat());
        let copy = self.first.start_cp(args);
        meanwhile(self);
        let ended = copy.finish().expect_code(0);
        assert_same_bytes(self.sides.source(), self.sides.target());
        ended.json()
    }

    /// Which are silent in the end.
    fn silent(summary: &Value) -> Vec<bool> {
        let paths = summary["paths"].as_array().expect("a list");
        paths.iter().map(|path| path["is_silent"].as_bool().expect("a flag")).collect()
    }

    /// Packets over each.
    fn packets(summary: &Value) -> Vec<u64> {
        let paths = summary["paths"].as_array().expect("a list");
        paths.iter().map(|path| path["packets_sent"].as_u64().expect("a number")).collect()
    }
}

#[test]
fn two_paths_carry_more_than_either() {
    if !may_build_labs() {
        return;
    }
    for pull in [false, true] {
        let paths = TwoPaths::start(pull, 40_000_000);
        repeat(&paths.first.lab, || {
            let _ = fs::remove_file(paths.sides.target());
            let summary = paths.copy(|_| {});
            let goodput = summary["goodput_mbps"].as_f64().expect("a number");
            let packets = TwoPaths::packets(&summary);
            println!("pull {pull}: {goodput:.1} Mb/s, {packets:?} packets");
            assert_eq!(packets.len(), 2);
            if goodput > 0.75 * SUM_MBIT { Ok(()) } else { Err(format!("{goodput} Mb/s")) }
        });
    }
}

#[test]
fn when_the_first_path_dies_the_other_goes_on_and_it_is_joined_again() {
    one_dies_for_a_while(|paths, on| paths.first.lab.cut(on));
}

#[test]
fn when_the_second_path_dies_the_first_goes_on_and_it_is_joined_again() {
    one_dies_for_a_while(|paths, on| paths.second.cut(on));
}

fn one_dies_for_a_while(cut: impl Fn(&TwoPaths, bool)) {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    machine::repeat(|| {
        let paths = TwoPaths::start(false, 60_000_000);
        let summary = paths.copy(|paths| {
            paths.first.await_bytes(false, 6_000_000);
            cut(paths, true);
            sleep(Duration::from_secs(3));
            cut(paths, false);
        });
        println!("{}", summary["paths"]);
        let is_back = TwoPaths::silent(&summary).iter().all(|silent| !silent);
        // Nothing else had to carry the data.
        let is_alone = summary["switches"] == Value::Array(vec![]);
        let is_lean = summary["waste"].as_f64().is_some_and(|waste| waste < 0.1);
        if is_back && is_alone && is_lean { Ok(()) } else { Err(summary.to_string()) }
    });
}

#[test]
fn the_first_path_may_die_for_good() {
    if !may_build_labs() {
        return;
    }
    let paths = TwoPaths::start(false, 20_000_000);
    let summary = paths.copy(|paths| {
        paths.first.await_bytes(false, 6_000_000);
        paths.first.lab.cut(true);
    });
    assert_eq!(TwoPaths::silent(&summary), [true, false]);
}

#[test]
fn every_path_that_is_found_is_one_of_its_own() {
    if !may_build_labs() {
        return;
    }
    let paths = TwoPaths::start(false, 20_000_000);
    let ip = |side, args: &[&str]| {
        let done = paths.first.lab.command(side, "ip").args(args).status().expect("ip comes with iproute2");
        assert!(done.success(), "ip {args:?}");
    };
    // An interface that leads nowhere, whose address the other host answers over the first path.
    ip(Side::Left, &["link", "add", "virbr0", "type", "bridge"]);
    ip(Side::Left, &["address", "add", "10.99.0.1/24", "dev", "virbr0"]);
    ip(Side::Left, &["link", "set", "virbr0", "up"]);
    let near = paths.first.lab.address(Side::Left).to_string();
    ip(Side::Right, &["route", "add", "10.99.0.0/24", "via", &near]);
    let summary = paths.copy_with(&["--paths=auto"], |_| {});
    let packets = TwoPaths::packets(&summary);
    assert!(packets.len() == 2 && packets.iter().all(|packets| *packets > 0), "{}", summary["paths"]);
    let second = paths.second.address(Side::Left).to_string();
    assert_eq!([0, 1].map(|at| summary["paths"][at]["from"].as_str()), [Some(near.as_str()), Some(&second)]);
}

#[test]
fn a_server_with_two_addresses_gives_a_client_with_one_two_paths() {
    let sides = Sides::with_file(false, 20_000_000);
    // Of both families, as a daemon listens that is told nothing.
    let more = ["--listen", "[::]:0", "--announce", "127.0.0.1,127.0.0.4,127.0.1.2"];
    let server = Server::start_with(longhaul(), sides.there.path(), &more);
    let url = format!("longhaul://127.0.0.1:{}/", server.address().port());
    let copy = |more: &[&str]| {
        let _ = fs::remove_file(sides.target());
        let args = sides.file_args(&url, &[&["--rate", "100mbit"], more].concat());
        server.cp(args).expect_code(0).json()
    };
    let one = copy(&["--bind", "127.0.0.3"]);
    assert_eq!(one["paths"], Value::Array(vec![]));
    let two = copy(&["--bind", "127.0.0.3", "--paths", "auto", "--transport", "object"]);
    let ends: Vec<_> =
        two["paths"].as_array().expect("a list").iter().map(|p| (&p["from"], &p["to"])).collect();
    assert_eq!(
        ends,
        [(&"127.0.0.3".into(), &"127.0.0.1".into()), (&"127.0.0.3".into(), &"127.0.1.2".into())]
    );
    assert!(TwoPaths::packets(&two).iter().all(|packets| *packets > 0), "{two}");
}

#[test]
fn where_no_connection_can_begin_is_told_in_a_line() {
    let sides = Sides::with_file(false, 10);
    let server = Server::start(sides.there.path(), &[]);
    for (place, says) in [
        ("192.0.2.7", "no connection can begin at 192.0.2.7"),
        ("eth99", "no connection can begin at eth99"),
        ("", "an address or the name of a network interface"),
    ] {
        let ended = server.cp(sides.file_args(&server.url(""), &["--bind", place]));
        let line = if place.is_empty() { ended.expect_code(2).stderr } else { error_of(ended) };
        assert!(line.contains(says), "{line}");
    }
}
