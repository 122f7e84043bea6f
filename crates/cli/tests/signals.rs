//! SIGINT and SIGTERM.

mod common;

use common::{Server, longhaul, send, token_file, wait};
use rustix::process::Signal;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_server_ends_cleanly() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Server::start(root.path(), &[]).stop(Signal::TERM), 0);
    assert_eq!(Server::start(root.path(), &["--read-only"]).stop(Signal::INT), 0);
}

#[test]
fn two_signals_at_once_are_one_wish() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), &[]);
    server.signal(Signal::TERM);
    assert_eq!(server.stop(Signal::TERM), 0);
}

#[test]
fn a_copy_that_waits_for_a_silent_server_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let file = token_file(folder.path());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("longhaul://{}/", silent.local_addr().unwrap());
    let mut command = longhaul();
    command.arg("cp").arg("--token-file").args([&file, &file]).arg(url);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let connection = silent.accept().unwrap();
    // The first may be enough; two that a busy host has not come to see apart are one.
    for _ in 0..20 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        send(&child, Signal::INT);
        sleep(Duration::from_millis(500));
    }
    assert_eq!(wait(&mut child, Duration::from_secs(2)), 130);
    drop(connection);
}
