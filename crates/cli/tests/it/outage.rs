//! The path breaks: for a while, for good, for UDP alone.

use crate::common::lab::Over;
use crate::common::relay::Relay;
use crate::common::shim::Shim;
use crate::common::tree::{assert_same_bytes, folder_in_memory, inside, names, write_noise};
use crate::common::{Running, Server, error_of, longhaul, wait_until};
use longhaul_lab::{Scenario, Side};
use longhaul_testing::machine;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LEN: usize = 15_000_000;

/// A path of 50 Mb/s and a file to take over it: about three seconds.
fn over(pull: bool) -> Over {
    Over::path(&Scenario::new(50.0, 20.0), LEN, pull)
}

/// It ended well and in one run, although what befell it was no trifle.
fn assert_one_run(over: &Over, copy: Running) -> Value {
    let json = copy.finish().expect_code(0).json();
    over.sides.assert_complete();
    assert_eq!(json["resumed_bytes"], 0, "it is one and the same run: {json}");
    json
}

#[test]
fn a_copy_survives_a_cut_of_a_few_seconds() {
    let Some(_shared) = machine::wait() else { return };
    for over in [false, true].map(over) {
        let mut copy = over.haul.start_cp(over.args(&[]));
        over.await_share(0.5);
        over.haul.lab.cut(true);
        sleep(Duration::from_secs(4));
        assert!(copy.is_running(), "a cut of 4 s is no reason to give up");
        over.haul.lab.cut(false);
        assert_one_run(&over, copy);
        let counters = over.haul.lab.counters();
        let cut = counters.left_to_right.dropped_cut + counters.right_to_left.dropped_cut;
        assert!(cut > 0, "nothing was cut");
    }
}

/// What `ip` says at the near end.
fn ip(over: &Over, args: &[&str]) -> String {
    let output = over.haul.lab.command(Side::Left, "ip").args(args).output().expect("ip comes with iproute2");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("ip speaks ASCII")
}

/// The near end's device, and its address as `ip` wants it.
fn near_end(over: &Over) -> (String, Vec<String>) {
    let far = over.haul.lab.address(Side::Right).to_string();
    let route = ip(over, &["-o", "route", "get", &far]);
    let device = route.split_whitespace().skip_while(|word| *word != "dev").nth(1).expect("it has a device");
    let address = ip(over, &["-o", "-4", "address", "show", "dev", device]);
    let words = address.split_whitespace().skip_while(|word| *word != "inet").skip(1);
    (device.into(), words.take_while(|word| *word != "scope").map(String::from).collect())
}

#[test]
fn a_route_that_becomes_narrow_midway_ends_no_copy() {
    let Some(_shared) = machine::wait() else { return };
    let over = over(false);
    let (device, _) = near_end(&over);
    let copy = over.haul.start_cp(over.args(&[]));
    over.await_share(0.1);
    // No datagram of those that the object was cut for passes any more: TCP carries the rest.
    ip(&over, &["link", "set", "dev", &device, "mtu", "1000"]);
    let json = assert_one_run(&over, copy);
    let switches = json["switches"].as_array().expect("there are some");
    assert!(switches.iter().any(|switch| switch["to"] == "stripe"), "{json}");
}

#[test]
fn an_address_that_is_gone_for_a_while_ends_no_copy() {
    let Some(_shared) = machine::wait() else { return };
    let over = over(false);
    let (device, address) = near_end(&over);
    let mut copy = over.haul.start_cp(over.args(&["--transport=object"]));
    over.await_share(0.3);
    let change = |what: &str| {
        let words: Vec<&str> = address.iter().map(String::as_str).collect();
        ip(&over, &[&["address", what], &words[..], &["dev", &device]].concat())
    };
    change("del");
    sleep(Duration::from_secs(1));
    assert!(copy.is_running(), "it waits");
    change("add");
    assert_one_run(&over, copy);
}

/// From one network into another, midway: every connection that there was is of no use any more.
fn moves_to_another_address(pull: bool, transport: &str) {
    let over = over(pull);
    let (device, address) = near_end(&over);
    let copy = over.haul.start_cp(over.args(&[transport]));
    over.await_share(0.3);
    let (host, bits) = address[0].split_once('/').expect("an address with its prefix");
    let other = format!("{}.77/{bits}", host.rsplit_once('.').expect("an IPv4 address").0);
    ip(&over, &["address", "del", &address[0], "dev", &device]);
    ip(&over, &["address", "add", &other, "dev", &device]);
    assert_one_run(&over, copy);
    assert!(ip(&over, &["-4", "address", "show", "dev", &device]).contains(".77/"), "it has moved");
}

#[test]
fn a_client_that_moves_into_another_network_goes_on() {
    let Some(_shared) = machine::wait() else { return };
    for (pull, transport) in [(false, "object"), (true, "object"), (false, "stripe"), (true, "stripe")] {
        moves_to_another_address(pull, &format!("--transport={transport}"));
    }
}

/// Nobody is silent: what comes is offered to the disk again and again.
#[test]
fn a_disk_that_stands_still_for_a_while_ends_no_copy() {
    let (here, there) = (folder_in_memory(), folder_in_memory());
    let Some(shim) = Shim::compile(here.path()) else { return };
    // The receiver gathers 64 MiB in memory before the disk holds it up.
    write_noise(there.path().join("file"), 90_000_000, 1);
    let server = Server::start(there.path(), &[]);
    for transport in ["object", "stripe"] {
        let ends = [server.url("file").into(), here.path().join(transport).into_os_string()];
        let flags = [format!("--transport={transport}"), "--stall-timeout=2s".into()].map(OsString::from);
        let mut copy = server.cp_command(ends.into_iter().chain(flags));
        shim.stuck_writes(&mut copy, 5);
        Running::start(&mut copy).finish().expect_code(0);
        assert_same_bytes(there.path().join("file"), here.path().join(transport));
    }
}

/// What comes by the host in the middle waits before the one whose disk it is.
#[test]
fn a_disk_that_stands_still_behind_a_host_in_the_middle_ends_no_copy() {
    let (here, there) = (folder_in_memory(), folder_in_memory());
    let Some(shim) = Shim::compile(here.path()) else { return };
    write_noise(there.path().join("file"), 90_000_000, 1);
    let source = Server::start(there.path(), &["--allow-third-party"]);
    let mut receiver = longhaul();
    shim.stuck_writes(&mut receiver, 5);
    let listen = ["--listen", "127.0.0.1:0", "--allow-third-party"];
    let to = here.path().join("to");
    fs::create_dir(&to).unwrap();
    let dest = Server::start_with(receiver, &to, &listen);
    let flags = ["--via=here", "--stall-timeout=2s"].map(String::from);
    source.cp([source.url("file"), dest.url("file")].into_iter().chain(flags)).expect_code(0);
    assert_same_bytes(there.path().join("file"), to.join("file"));
}

/// Nothing of a first part of empty files needs to be sent, so that nobody has found out.
#[test]
fn a_copy_whose_data_finds_no_way_at_all_ends() {
    let (here, there) = (folder_in_memory(), folder_in_memory());
    (0..16_400).for_each(|at| drop(File::create(here.path().join(format!("{at:05}"))).expect("it is new")));
    write_noise(here.path().join("last"), 1_000_000, 1);
    let server = Server::start(there.path(), &[]);
    let relay = Relay::start(server.address());
    relay.block_udp();
    let ends = [inside(here.path()), relay.url("").into()];
    let flags = ["--transport=object", "--stall-timeout=2s"].map(OsString::from);
    let error = error_of(server.cp(ends.into_iter().chain(flags)));
    assert!(error.contains("no data got through"), "{error}");
}

/// An error in time, and all that arrived is there for the next run.
#[test]
fn a_copy_over_a_path_that_is_dead_or_dead_for_udp_ends_and_goes_on_later() {
    let Some(_shared) = machine::wait() else { return };
    for (pull, udp_alone) in [(false, false), (true, false), (false, true), (true, true)] {
        let over = over(pull);
        let lab = &over.haul.lab;
        let break_path = |on| if udp_alone { lab.block_udp(on) } else { lab.cut(on) };
        let mut copy = over.haul.start_cp(over.args(&["--stall-timeout=3s", "--transport=object"]));
        over.await_share(0.5);
        assert!(copy.is_running());
        break_path(true);
        let broken = Instant::now();
        let error = error_of(copy.finish());
        let after = broken.elapsed();
        // Half a second: what was under way at the break still counts as news.
        assert!(after > Duration::from_millis(2500), "it gave up after {after:?}");
        assert!(error.contains("run the same command again"), "{error}");
        assert!(!over.sides.target().exists());
        break_path(false);
        // The server has the same patience.
        wait_until("the server lets go of the part file", || !over.haul.server.holds_part());
        let json = over.haul.cp(over.args(&[])).expect_code(0).json();
        over.sides.assert_complete();
        assert!(json["resumed_bytes"].as_u64().unwrap() > LEN as u64 * 4 / 10, "{json}");
    }
}

#[test]
fn blocked_udp_is_named() {
    let Some(_shared) = machine::wait() else { return };
    for over in [false, true].map(over) {
        over.haul.lab.block_udp(true);
        let error = error_of(over.haul.cp(over.args(&["--transport=object"])));
        assert!(error.contains("UDP") && error.contains("firewall"), "{error}");
        assert_eq!(names(over.sides.to()), Vec::<String>::new());
        over.haul.lab.block_udp(false);
        over.haul.cp(over.args(&[])).expect_code(0);
        over.sides.assert_complete();
    }
}

#[test]
fn a_path_with_every_fault_delivers() {
    let Some(_shared) = machine::wait() else { return };
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
        let over = Over::path(&Scenario { loss, loss_reverse, ..faulty.clone() }, LEN, pull);
        let json = over.haul.cp(over.args(&["--transport=object"])).expect_code(0).json();
        over.sides.assert_complete();
        let counters = over.haul.lab.counters();
        let way = if pull { counters.right_to_left } else { counters.left_to_right };
        let faults = [way.dropped_loss, way.corrupted, way.duplicated, way.reordered];
        assert!(faults.iter().all(|count| *count > 10), "the path was too kind: {way:?}");
        assert!(json["loss"].as_f64().unwrap() > 0.02, "{json}");
    }
}
