//! Datagrams that come from elsewhere than the control stream.

use crate::common::relay::{Relay, Way};
use crate::common::tree::*;
use crate::common::{Running, Server, wait_until};
use std::ffi::OsString;
use std::net::Ipv4Addr;

const LEN: usize = 10_000_000;

/// Copy a file by packets over UDP through a relay, after `before`, while `meanwhile`.
fn copy(pull: bool, before: impl Fn(&Relay), meanwhile: impl Fn(&Relay)) {
    let (here, there) = (folder(), folder());
    let server = Server::start(there.path(), &[]);
    let relay = Relay::start(server.address());
    before(&relay);
    let (from, to) = if pull { (&there, &here) } else { (&here, &there) };
    write_noise(from.path().join("file"), LEN, 1);
    let (near, far) = (here.path().join("file").into_os_string(), OsString::from(relay.url("file")));
    let args = if pull { [far, near] } else { [near, far] };
    let more = ["--transport=object", "--rate=40mbit"].map(OsString::from);
    let running = Running::start(&mut server.cp_command(args.into_iter().chain(more)));
    meanwhile(&relay);
    let json = running.finish().expect_code(0).json();
    assert_eq!((&json["transport"], &json["resumed_bytes"]), (&"object".into(), &0.into()), "{json}");
    assert_same_bytes(from.path().join("file"), to.path().join("file"));
}

#[test]
fn a_client_whose_datagrams_come_from_another_host_is_served_once_it_has_shown_that_it_is_there() {
    for pull in [false, true] {
        copy(pull, |relay| relay.move_to(Ipv4Addr::new(127, 0, 0, 9)), |_| {});
    }
}

#[test]
fn a_client_that_moves_to_another_host_midway_is_found_there() {
    for pull in [false, true] {
        let way = if pull { Way::ToClient } else { Way::ToServer };
        let move_midway = |relay: &Relay| {
            wait_until("a part is there", || relay.bytes(way) > LEN as u64 / 4);
            relay.move_to(Ipv4Addr::new(127, 0, 0, 9));
        };
        copy(pull, |_| {}, move_midway);
    }
}
