//! What a daemon takes in memory, whoever comes and whatever they say.

use crate::common::tree::*;
use crate::common::{Running, Server, peak_memory, wait_until};
use longhaul::listing;
use longhaul_net::control::{self, Control, Incoming, Stream, psk_of_token, tcp_stream};
use longhaul_net::random::random;
use longhaul_net::wake::Waker;
use longhaul_proto::ranges::Ranges;
use longhaul_proto::session::manifest::{Entry, Kind, Manifest};
use longhaul_proto::session::message::{
    Already, Direction, FileFailure, FileOptions, Message, Offer, Report, TransferOptions,
};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::session::transport::Transport;
use longhaul_proto::session::truncated::Truncated;
use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

/// A client that has the token and says what it likes.
struct Hostile {
    control: Control,
}

impl Hostile {
    /// Offer a copy; the listing is what comes first of a push, and the names in a pull.
    fn offer(server: &Server, direction: Direction, listing: &[u8]) -> Option<Hostile> {
        let socket = TcpStream::connect(server.address()).unwrap();
        let stream: Stream = tcp_stream(socket, Duration::from_secs(20)).unwrap();
        let head = &listing[..listing.len().min(30_000)];
        let made_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let offer = Offer {
            connection_id: u64::from_be_bytes(random().unwrap()),
            aes: true,
            early_salt: random().unwrap(),
            made_s,
            direction,
            copy: random().unwrap(),
            files: FileOptions { resume: true, ..FileOptions::default() },
            transfer: TransferOptions {
                control: "adaptive".into(),
                select: None,
                rate_cap: None,
                ack_every: None,
                batch: None,
                classes: vec![1200],
                background: false,
                stall_timeout_ms: 60_000,
                transport: Transport::Auto,
                streams: None,
                congestion: None,
            },
            listing_len: listing.len() as u64,
            listing_head: head.to_vec(),
        };
        let token = fs::read_to_string(server.token_file()).unwrap();
        let key = psk_of_token(&token).into();
        let (control, _) = control::connect(stream, &key, &offer, Waker::new().unwrap(), || {}).ok()?;
        for piece in listing[head.len()..].chunks(256 << 10) {
            let (total, bytes) = (listing.len() as u64, piece.to_vec());
            control.send(Message::ListingPart { base: 0, total, bytes });
        }
        Some(Hostile { control })
    }

    fn push(server: &Server, dest: &str, listing: &[u8]) -> Option<Hostile> {
        Hostile::offer(server, Direction::Push { dest: dest.into() }, listing)
    }

    fn pull(server: &Server, source: &str) -> Option<Hostile> {
        Hostile::offer(server, Direction::Pull { sources: vec![source.into()] }, &[])
    }

    /// The line with which the server ends the session.
    fn hear_refusal(&self) -> String {
        let mut line = None;
        wait_until("the server says why not", || {
            loop {
                match self.control.poll() {
                    Some(Incoming::Message(Message::Abort(reason))) => line = Some(reason.line),
                    Some(Incoming::Message(_)) => {}
                    Some(incoming) => panic!("{incoming:?} without a word"),
                    None => return false,
                }
                if line.is_some() {
                    return true;
                }
            }
        });
        line.unwrap()
    }
}

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
    let server = Server::start(there.path(), &[]);
    let copy = || {
        server.cp([here.path().join("file").into_os_string(), server.url("file").into()]).expect_code(0);
    };
    // 60 MB of names each, out of 50 kB.
    let listing = long_paths(15_000);
    let dest = |n: usize| format!("bomb-{n}");
    let bombs: Vec<_> = (0..40).filter_map(|n| Hostile::push(&server, &dest(n), &listing)).collect();
    assert!(bombs[0].hear_refusal().contains("memory-mib"));
    copy();
    peak("forty lists", &server);
    drop(bombs);
    let pulls: Vec<_> = (0..8).filter_map(|_| Hostile::pull(&server, "file")).collect();
    let have: Ranges = (0..1_000_000).map(|at| at * 2..at * 2 + 1).collect();
    let start = Message::Start { have, claimed: Ranges::new(), already: Already::default() };
    pulls.iter().for_each(|one| one.control.send(start.clone()));
    // One of them may be the first to have the memory.
    let refusals: Vec<_> = pulls[2..].iter().map(Hostile::hear_refusal).collect();
    assert!(refusals.iter().all(|line| line.contains("memory-mib")), "{refusals:?}");
    copy();
    peak("eight messages full of ranges", &server);
    let pushes: Vec<_> = (0..8).filter_map(|n| Hostile::push(&server, &dest(n), &long_paths(1))).collect();
    let failure = FileFailure { path: vec![], reason: Reason::new(Cause::Other, "") };
    let failed = Truncated { first: vec![failure; 1_500_000], more: 0 };
    let report = Message::Finished(Report { failed, ..Report::default() });
    pushes.iter().for_each(|one| one.control.send(report.clone()));
    wait_until("nobody listens any more", || {
        pushes.iter().all(|one| matches!(one.control.poll(), Some(Incoming::Closed)))
    });
    copy();
    assert!(peak("eight reports of very many failures", &server) < BOUND);
}

#[test]
fn copies_of_long_lists_at_once_take_bounded_memory_and_none_waits_for_ever() {
    let (here, there) = (folder(), folder());
    for n in 0..16 {
        let folder = here.path().join(format!("tree/{n}"));
        fs::create_dir_all(&folder).unwrap();
        (0..10_000).for_each(|at| fs::write(folder.join(format!("sample-{at:05}.dat")), b"").unwrap());
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
    let (here, there) = (folder(), folder());
    (0..5000).for_each(|n| write(here.path().join(format!("tree/{n:080}")), b""));
    let server = Server::start(there.path(), &["--memory-mib=64"]);
    // Each of which takes nearly a quarter of that.
    let listing = long_paths(1800);
    let hold = |n: usize| {
        let held = Hostile::push(&server, &format!("held-{n}"), &listing).unwrap();
        wait_until("its list has its memory", || {
            matches!(held.control.poll(), Some(Incoming::Message(Message::Start { .. })))
        });
        held
    };
    let held: Vec<_> = (0..4).map(hold).collect();
    let copy = [inside(&here.path().join("tree")), server.url("copy").into()];
    let copy = Running::start(&mut server.cp_command(copy));
    copy.await_line("memory-mib");
    assert!(!there.path().join("copy").exists());
    drop(held);
    copy.finish().expect_code(0);
    assert_eq!(snapshot(&here.path().join("tree")), snapshot(&there.path().join("copy")));
}
