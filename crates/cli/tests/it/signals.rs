//! SIGINT, SIGTERM and SIGHUP.

use crate::common::tree::{disk_bytes, part_of, write_noise, write_script};
use crate::common::{PATIENCE, Running, Server, longhaul, send, token_file, wait, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_server_ends_cleanly() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Server::start(root.path(), &[]).stop(Signal::TERM), 0);
    assert_eq!(Server::start(root.path(), &["--read-only"]).stop(Signal::INT), 0);
    assert_eq!(Server::start(root.path(), &[]).stop(Signal::HUP), 0);
}

#[test]
fn two_signals_at_once_are_one_wish() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(root.path(), &[]);
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
    send(&child, Signal::INT);
    assert_eq!(wait(&mut child, PATIENCE), 130);
    drop(connection);
}

/// Ctrl-C in a terminal reaches ssh as well, which then ends before it has begun, and perhaps before the program is told.
#[test]
fn an_interrupt_while_ssh_connects_is_an_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let ssh = script(folder.path(), &format!("echo $$ >'{}'; exec sleep 60", begun.display()));
    let mut command = longhaul();
    command.args(["cp", "--ssh"]).arg(&ssh).arg(&ssh).arg("host:");
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let ssh_id = || Pid::from_raw(std::fs::read_to_string(&begun).ok()?.trim().parse().ok()?);
    wait_until("ssh begins", || ssh_id().is_some());
    kill_process(ssh_id().unwrap(), Signal::INT).unwrap();
    sleep(Duration::from_millis(300));
    send(&child, Signal::INT);
    assert_eq!(wait(&mut child, PATIENCE), 130);
}

/// Somebody may be typing a password: that takes as long as it likes, and one signal to the program alone ends it.
#[test]
fn one_signal_ends_a_copy_that_waits_for_ssh() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    for first in ["", "echo ready; "] {
        let ssh = script(folder.path(), &format!("{first}: >'{}'; exec sleep 600", begun.display()));
        let mut command = longhaul();
        command.args(["cp", "--ssh"]).arg(&ssh).arg(&ssh).arg("host:");
        let copy = Running::start(&mut command);
        wait_until("ssh begins", || begun.exists());
        copy.signal(Signal::TERM);
        assert!(copy.finish().expect_code(130).stderr.contains("interrupted"));
        std::fs::remove_file(&begun).unwrap();
    }
}

#[test]
fn a_far_host_that_freezes_before_it_answers_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = script(folder.path(), "echo ready; exec sleep 600");
    for [from, to] in [[ssh.as_str(), "host:"], ["host:x", ssh.as_str()]] {
        let mut command = longhaul();
        command.args(["cp", "--stall-timeout=1s", "--ssh", &ssh, from, to]);
        let ended = Running::start(&mut command).finish().expect_code(1);
        assert!(ended.stderr.contains("silent"), "{}", ended.stderr);
    }
}

/// A program that stands in for ssh.
fn script(folder: &Path, text: &str) -> String {
    let path = folder.join("ssh");
    write_script(&path, text);
    path.to_str().unwrap().to_string()
}

/// As when a virtual machine or a notebook is put to sleep with a copy between two of its programs.
#[test]
fn who_was_asleep_does_not_take_the_others_for_dead() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = here.path().join("file");
    write_noise(&file, 10_000_000, 1);
    let server = Server::start(there.path(), &[]);
    let flags = ["--rate=20mbit", "--stall-timeout=3s"].map(OsString::from);
    let copy =
        Running::start(&mut server.cp_command([file.into(), server.url("").into()].into_iter().chain(flags)));
    let part = || part_of(there.path().join("file"));
    wait_until("data arrives", || part().exists() && disk_bytes(part()) > 1_000_000);
    let both = |signal| {
        copy.signal(signal);
        server.signal(signal);
    };
    both(Signal::STOP);
    // Longer than they wait for each other.
    sleep(Duration::from_secs(4));
    both(Signal::CONT);
    copy.finish().expect_code(0);
}
