//! What a daemon takes in memory, whoever comes and whatever they say.

use crate::common::client::Client;
use crate::common::tree::*;
use crate::common::{Running, Server, peak_memory, wait_until};
use longhaul::listing;
use longhaul_net::control::Incoming;
use longhaul_proto::ranges::Ranges;
use longhaul_proto::session::manifest::{Entry, Kind, Manifest};
use longhaul_proto::session::message::{Already, FileFailure, Message, Report};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::truncated::Truncated;
use std::ffi::OsString;
use std::{fs, iter};

/// The listing of so many made-up files whose paths have 4000 bytes.
fn long_paths(count: usize) -> Vec<u8> {
    let stem = format!("{}/", "x".repeat(199)).repeat(19);
    let kind = Kind::File { size: 1, extents: None, version: None };
    let entry = |at| {
        let path = format!("{stem}{at:0200}").into();
        Entry { path, kind: kind.clone(), mode: 0o644, mtime: (1_700_000_000, 5) }
    };
    listing::encode(&Manifest::of((0..count).map(entry).collect()), &[]).unwrap()
}

/// What the daemon took at most.
fn peak(what: &str, server: &Server) -> u64 {
    let peak = peak_memory(server.id());
    println!("{what}: the daemon took {} MB at most", peak / 1_000_000);
    peak
}

/// What a daemon may take with its usual settings.
const BOUND: u64 = 256_000_000;

#[test]
fn whatever_those_say_who_have_the_token_memory_is_bounded_and_copies_go_on() {
    let (there, here) = (folder(), folder());
    write(here.path().join("file"), b"data");
    // What is said is to be long for the memory there is, and short enough to be read in no time on a busy machine.
    let server = Server::start(there.path(), &["--memory-mib=64"]);
    let copy = || {
        server.cp([here.path().join("file").into_os_string(), server.url("file").into()]).expect_code(0);
    };
    // 30 MB of names each, out of 25 kB.
    let listing = long_paths(7_500);
    let dest = |n: usize| format!("bomb-{n}");
    let bombs: Vec<_> = (0..40).filter_map(|n| Client::push(&server, &dest(n), &listing)).collect();
    assert!(bombs[0].hear_refusal().contains("memory"));
    copy();
    peak("forty lists", &server);
    drop(bombs);
    let pulls: Vec<_> = (0..4).filter_map(|_| Client::pull(&server, "file")).collect();
    let have: Ranges = (0..500_000).map(|at| at * 2..at * 2 + 1).collect();
    let start = Message::Start { have, claimed: Ranges::new(), already: Already::default() };
    pulls.iter().for_each(|one| one.control.send(start.clone()));
    // Whoever comes first may have the memory.
    let (mut waiting, mut refused) = (Vec::from_iter(&pulls), 0_usize);
    wait_until("all but two are refused for want of memory", || {
        waiting.retain(|one| {
            one.refusal().inspect(|line| refused += usize::from(line.contains("memory"))).is_none()
        });
        refused >= pulls.len() - 2
    });
    copy();
    peak("four messages full of ranges", &server);
    let pushes: Vec<_> = (0..8).filter_map(|n| Client::push(&server, &dest(n), &long_paths(1))).collect();
    let failure = FileFailure { path: vec![], reason: Reason::new(Cause::Other, "") };
    let failed = Truncated { first: vec![failure; 750_000], more: 0 };
    let report = Message::Finished(Report { failed, ..Report::default() });
    pushes.iter().for_each(|one| one.control.send(report.clone()));
    wait_until("nobody listens any more", || {
        pushes.iter().all(|one| matches!(one.control.poll(), Some(Incoming::Closed)))
    });
    copy();
    assert!(peak("eight reports of very many failures", &server) < BOUND / 4 * 3);
}

#[test]
fn many_short_words_on_what_is_not_wanted_take_bounded_memory() {
    let there = folder();
    write(there.path().join("file"), b"data");
    let server = Server::start(there.path(), &["--memory-mib=64"]);
    let pull = Client::pull(&server, "file").unwrap();
    pull.control.send(Message::Start {
        have: Ranges::new(),
        claimed: Ranges::new(),
        already: Already::default(),
    });
    let mut from = 0_u64;
    wait_until("the session is ended for want of memory", || {
        if !pull.control.is_behind() {
            // Each is short enough to ask for none.
            for _ in 0..20 {
                let ranges = (from..from + 8000).map(|at| at * 2..at * 2 + 1).collect();
                pull.control.send(Message::Unwanted { ranges });
                from += 8000;
            }
        }
        // Who does not stop to speak may not hear why.
        iter::from_fn(|| pull.control.poll())
            .any(|said| matches!(said, Incoming::Closed | Incoming::Message(Message::Abort(_))))
    });
    assert!(peak("very many ranges in short messages", &server) < BOUND);
}

#[test]
fn what_a_daemon_says_to_those_who_do_not_listen_takes_bounded_memory() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let listing = long_paths(1000);
    let dry_run = |n| Client::dry_run(&server, &format!("copy-{n}"), &listing);
    let clients: Vec<_> = (0..40).filter_map(dry_run).collect();
    let is_answered = |one: &Client| {
        iter::from_fn(|| one.control.poll())
            .any(|said| matches!(said, Incoming::Message(Message::Finished(_))))
    };
    wait_until("one of the last is told", || clients.last().is_some_and(is_answered));
    assert!(peak("forty dry runs", &server) < BOUND);
}

#[test]
fn copies_of_long_lists_at_once_take_bounded_memory_and_none_waits_for_ever() {
    let (here, there) = (folder_in_memory(), folder_in_memory());
    // Four parts, of names so long that all of eight copies' lists would be some 120 MB.
    for n in 0..6 {
        let folder = here.path().join(format!("tree/{n}"));
        fs::create_dir_all(&folder).unwrap();
        (0..10_000).for_each(|at| fs::write(folder.join(format!("sample-{at:0160}")), b"").unwrap());
    }
    let copy_all = |server: &Server, args: &dyn Fn(usize) -> [OsString; 3]| {
        let start = |n| Running::start(&mut server.cp_command(args(n)));
        let copies: Vec<_> = (0..8).map(start).collect();
        copies.into_iter().for_each(|copy| drop(copy.finish().expect_code(0)));
    };
    let tree = here.path().join("tree");
    let server = Server::start(there.path(), &[]);
    let push = |_| [inside(&tree), server.url("copy").into(), "--quiet".into()];
    server.cp(push(0)).expect_code(0);
    copy_all(&server, &push);
    assert!(peak("eight pushes", &server) < BOUND / 2);
    drop(server);
    let server = Server::start(there.path(), &["--memory-mib=64"]);
    let pull = |n| [server.url("copy/").into(), here.path().join(format!("{n}")).into(), "--dry-run".into()];
    copy_all(&server, &pull);
    copy_all(&server, &|_| [inside(&tree), server.url("copy").into(), "--quiet".into()]);
    assert!(peak("eight each way with little memory", &server) < BOUND / 2);
}

#[test]
fn what_is_read_ahead_for_copies_at_once_takes_bounded_memory() {
    let (here, there) = (folder(), folder());
    write_noise(there.path().join("large"), 60_000_000, 1);
    let server = Server::start(there.path(), &[]);
    let pull = |n: usize| {
        let dest = here.path().join(format!("{n}")).into_os_string();
        Running::start(&mut server.cp_command([server.url("large").into(), dest, "--rate=200mbit".into()]))
    };
    let copies: Vec<_> = (0..8).map(pull).collect();
    copies.into_iter().for_each(|copy| drop(copy.finish().expect_code(0)));
    (0..8).for_each(|n| assert_same_bytes(there.path().join("large"), here.path().join(format!("{n}"))));
    assert!(peak("eight pulls of large files", &server) < BOUND);
}

#[test]
fn a_copy_that_waits_for_memory_says_so_and_goes_on_when_there_is_some() {
    let (here, there) = (folder_in_memory(), folder_in_memory());
    (0..5000).for_each(|n| write(here.path().join(format!("tree/{n:080}")), b""));
    let server = Server::start(there.path(), &["--memory-mib=64"]);
    // Each of which takes nearly a quarter of that.
    let listing = long_paths(1800);
    let hold = |n: usize| {
        let held = Client::push(&server, &format!("held-{n}"), &listing).unwrap();
        wait_until("its list has its memory", || {
            matches!(held.control.poll(), Some(Incoming::Message(Message::Start { .. })))
        });
        held
    };
    let held: Vec<_> = (0..4).map(hold).collect();
    let copy = [inside(&here.path().join("tree")), server.url("copy").into()];
    let copy = Running::start(&mut server.cp_command(copy));
    copy.await_line("all the memory that there is");
    assert!(!there.path().join("copy").exists());
    drop(held);
    copy.finish().expect_code(0);
    assert_eq!(snapshot(&here.path().join("tree")), snapshot(&there.path().join("copy")));
}
