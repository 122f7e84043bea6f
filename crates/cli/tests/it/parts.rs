//! Copies of so many entries that they have several parts.

use crate::common::client::Client;
use crate::common::lab::Haul;
use crate::common::sides::Sides;
use crate::common::tree::*;
use crate::common::{Server, wait_until};
use longhaul_lab::Scenario;
use longhaul_net::control::Incoming;
use longhaul_proto::ranges::Ranges;
use longhaul_proto::session::message::{Already, Message, Report};
use longhaul_testing::machine;
use std::ffi::OsString;
use std::fs;
use std::iter;

#[test]
fn a_copy_of_several_parts_goes_there_and_back_and_is_kept_equal() {
    let [here, there, back] = [(); 3].map(|()| folder_in_memory());
    // A part holds 16 384 entries, and three are handled at a time: four of them, the first two folders in several.
    for (name, count) in [("first", 25_000), ("second", 25_000), ("third", 10)] {
        let folder = here.path().join("tree").join(name);
        fs::create_dir_all(&folder).unwrap();
        (0..count)
            .for_each(|at| fs::write(folder.join(format!("{at:05}")), &at.to_string()[..at % 2]).unwrap());
        set_mode(&folder, 0o555);
        set_mtime(&folder, 1_000_000_000, 7);
    }
    write_noise(here.path().join("tree/third/large"), 3_000_000, 1);
    let server = Server::start(there.path(), &[]);
    let tree = here.path().join("tree");
    let push = |more: &[&str]| {
        let args =
            [inside(&tree), server.url("copy").into()].into_iter().chain(more.iter().map(OsString::from));
        server.cp(args).expect_code(0).json()
    };
    let json = push(&["--quiet"]);
    assert_eq!(json["files"], 50_011, "{json}");
    assert_eq!(snapshot(&tree), snapshot(&there.path().join("copy")));
    for extra in ["first/x", "third/y"] {
        write(there.path().join("copy").join(extra), b"extra");
    }
    let json = push(&["--delete"]);
    assert_eq!((&json["removed"], &json["resumed_bytes"]), (&2.into(), &0.into()), "{json}");
    assert_eq!(snapshot(&tree), snapshot(&there.path().join("copy")));
    let from = [OsString::from(server.url("copy/")), back.path().join("copy").into_os_string()];
    let json = server.cp(from).expect_code(0).json();
    assert_eq!(json["files"], 50_011, "{json}");
    assert_eq!(snapshot(&tree), snapshot(&back.path().join("copy")));
}

#[test]
fn a_receiver_that_is_done_with_the_first_part_as_soon_as_it_has_compared_it_gets_the_next() {
    let there = folder_in_memory();
    (0..17_000).for_each(|at| write(there.path().join(format!("tree/{at}")), b"x"));
    let server = Server::start(there.path(), &[]);
    // Both messages have to come before the server looks for the first of them.
    for _ in 0..20 {
        let client = Client::pull(&server, "tree/").unwrap();
        let await_part = |what: &str, is_next: bool| {
            wait_until(what, || {
                loop {
                    match client.control.poll() {
                        Some(Incoming::Message(Message::ListingPart { base, .. }))
                            if (base > 0) == is_next =>
                        {
                            return true;
                        }
                        Some(Incoming::Message(_)) => {}
                        Some(incoming) => panic!("{incoming:?} instead of: {what}"),
                        None => return false,
                    }
                }
            })
        };
        await_part("the first part is listed", false);
        let (have, claimed) = (iter::once(0..17_000).collect(), Ranges::new());
        client.control.send(Message::Start { have, claimed, already: Already::default() });
        client.control.send(Message::Finished(Report::default()));
        await_part("the next part is listed", true);
    }
}

#[test]
fn a_copy_in_parts_goes_on_when_the_mtu_shrinks_twice() {
    let Some(_shared) = machine::wait() else { return };
    for pull in [false, true] {
        let sides = Sides::in_memory(pull);
        // More than one part, of small files of all lengths.
        for folder in 0..6 {
            let folder_path = sides.from().join(format!("d{folder}"));
            fs::create_dir(&folder_path).expect("a folder");
            for file in 0..3_000 {
                let bytes = vec![folder as u8; (file * 7 + folder) % 1700];
                fs::write(folder_path.join(format!("f{file}")), bytes).expect("room for it");
            }
        }
        let scenario = Scenario { mtu: 9000, ..Scenario::new(40.0, 20.0) };
        let haul = Haul::start(&scenario, sides.there.path());
        let copy = haul.start_cp(sides.args(haul.server.url(""), &["--transport=object", "--why"]));
        haul.await_bytes(pull, 3_000_000);
        haul.lab.limit_length(Some(1500));
        haul.await_bytes(pull, 10_000_000);
        haul.lab.limit_length(Some(1400));
        let ended = copy.finish().expect_code(0);
        assert_eq!(ended.json()["path_mtu"], 1228, "{}", ended.json());
        for line in ["datagrams of 8972 bytes no longer pass", "datagrams of 1472 bytes no longer pass"] {
            assert!(ended.stderr.contains(line), "{}", ended.stderr);
        }
        sides.assert_complete();
    }
}
