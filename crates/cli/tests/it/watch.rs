//! What programs are told of a copy while it runs.

use crate::common::sides::Sides;
use crate::common::site::Site;
use crate::common::tree::*;
use crate::common::{Ended, LONGHAUL, Running, Server, run, send, undisturbed, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// Long enough for a line or two at the rate that these copies are given.
const LEN: usize = 6_000_000;
const SLOW: &str = "--rate=20mbit";

/// The lines of a run, each an object with a type.
fn lines_of(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

/// All that is promised of the lines of a copy of `LEN` bytes that went well. Those while it ran.
fn told(ended: &Ended) -> Vec<Value> {
    let mut lines = lines_of(&ended.stdout);
    let summary = lines.pop().expect("there is a last line");
    assert_eq!((&summary["type"], &summary["ok"]), (&"summary".into(), &true.into()), "{summary}");
    assert_eq!(summary["bytes"], LEN);
    assert!(!lines.is_empty(), "none while it ran: {}", ended.stdout);
    let mut before = 0;
    for line in &lines {
        assert_eq!(line["type"], "progress");
        let done = line["bytes_done"].as_u64().unwrap();
        assert!(done >= before && done <= LEN as u64, "{done} after {before}");
        before = done;
        assert!(line["elapsed_seconds"].as_f64().unwrap() > 0.0 && line["limits_ms"].is_object(), "{line}");
        assert!(line["paths"].is_array() && line["streams"].is_array(), "{line}");
    }
    lines
}

#[test]
fn a_copy_of_either_way_tells_each_second_how_far_it_is() {
    for pull in [false, true] {
        let sides = Sides::with_file(pull, LEN);
        let server = sides.serve();
        let ended = server.cp(sides.file_args(&server.url(""), &["--json=lines", SLOW])).expect_code(0);
        let lines = told(&ended);
        let moving =
            lines.iter().rfind(|line| line["phase"] == "moving").expect("data moves for two seconds");
        assert_eq!((&moving["bytes_total"], &moving["files_total"]), (&LEN.into(), &1.into()), "{moving}");
        assert_eq!((&moving["files_done"], &moving["transport"]), (&0.into(), &"object".into()), "{moving}");
        assert_eq!((&moving["paused"], &moving["rate_limit_mbps"]), (&false.into(), &20.0.into()));
        let positive = |field: &str| moving[field].as_f64().is_some_and(|value| value > 0.0);
        assert!(["rate_mbps", "seconds_left", "rtt_ms"].into_iter().all(positive), "{moving}");
        // A machine that is busy may be what holds it back for a second.
        assert!(lines.iter().any(|line| line["limited_by"] == "rate_cap"), "{}", ended.stdout);
    }
}

#[test]
fn what_an_earlier_run_left_is_no_rate() {
    for pull in [false, true] {
        let sides = Sides::with_file(pull, 5 * LEN);
        let server = sides.serve();
        let args = |more| sides.file_args(&server.url(""), &["--json=lines", more]);
        let copy = Running::start(&mut server.cp_command(args("--rate=100mbit")));
        sides.await_part(3 * LEN as u64);
        copy.signal(Signal::INT);
        copy.finish().expect_code(130);
        let ended = server.cp(args(SLOW)).expect_code(0);
        let mut lines = lines_of(&ended.stdout);
        assert!(lines.pop().unwrap()["resumed_bytes"].as_u64() > Some(2 * LEN as u64), "{}", ended.stdout);
        assert!(lines.iter().all(|line| line["rate_mbps"].as_f64() < Some(60.0)), "{}", ended.stdout);
    }
}

#[test]
fn files_in_place_are_counted_on_both_sides() {
    for pull in [false, true] {
        let sides = Sides::new(pull);
        (0..40).for_each(|n| write_noise(sides.from().join(format!("file-{n}")), LEN / 40, n));
        let server = sides.serve();
        let ended = server.cp(sides.args(server.url(""), &["--json=lines", SLOW])).expect_code(0);
        let lines = told(&ended);
        let last = lines.iter().rfind(|line| line["phase"] == "moving").expect("data moves for two seconds");
        assert!((1..=40).contains(&last["files_done"].as_u64().unwrap()), "{last}");
    }
}

#[test]
fn each_tcp_stream_is_told() {
    let sides = Sides::with_file(false, LEN);
    let server = sides.serve();
    let flags = ["--json=lines", "--transport=stripe", "--streams=3", SLOW];
    let ended = server.cp(sides.file_args(&server.url(""), &flags)).expect_code(0);
    let lines = told(&ended);
    let streams = lines.iter().rev().find_map(|line| line["streams"].as_array().filter(|all| all.len() == 3));
    let streams = streams.unwrap_or_else(|| panic!("three are never told: {}", ended.stdout));
    for stream in streams {
        let to: SocketAddr = stream["to"].as_str().unwrap().parse().unwrap();
        assert!(to == server.address() && stream["rtt_ms"].is_f64(), "{stream}");
    }
    assert!(streams.iter().any(|stream| stream["bytes"].as_u64().unwrap() > 100_000), "{streams:?}");
}

#[test]
fn what_comes_of_a_pipe_has_standard_output_for_itself() {
    let sides = Sides::with_file(true, LEN);
    let server = sides.serve();
    let url = server.url("file").into();
    let ended = server
        .cp(["--json=lines".into(), "--quiet".into(), SLOW.into(), url, OsString::from("-")])
        .expect_code(0);
    assert_eq!(ended.stdout.len(), String::from_utf8_lossy(&fs::read(sides.source()).unwrap()).len());
    let lines = lines_of(&ended.stderr);
    let (summary, progress) = lines.split_last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert!(progress.iter().any(|line| line["type"] == "progress" && line["bytes_total"].is_null()));
}

#[test]
fn a_copy_between_two_others_is_told_where_it_was_asked_for() {
    let (from, to) = (folder(), folder());
    write_noise(from.path().join("file"), LEN, 1);
    let source = Server::start(from.path(), &["--allow-third-party"]);
    let dest = Server::start(to.path(), &[]);
    let token = dest.token_file().display().to_string();
    let args = ["--json=lines", SLOW, "--dest-token-file", &token, &source.url("file"), &dest.url("file")];
    let ended = source.cp(args).expect_code(0);
    let lines = told(&ended);
    assert!(
        lines.iter().any(|line| line["phase"] == "moving" && line["files_done"] == 0),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_last_line_comes_whatever_happens() {
    for (args, code) in [
        (&["cp", "--json=lines", "--rate", "800", "a", "h:b"][..], 2),
        (&["cp", "--json=lines", "a"][..], 2),
        (&["cp", "--json=lines", "--ssh=false", "/etc/hostname", "h:b"][..], 1),
    ] {
        let json = run(args).expect_code(code).json();
        assert_eq!((&json["type"], &json["ok"]), (&"summary".into(), &false.into()), "{json}");
        assert!(json["error"].is_string());
    }
    let json = run(["cp", "--json", "a"]).expect_code(2).json();
    assert!(json["type"].is_null(), "the object alone has none: {json}");
    let error = run(["plan", "--json=lines", "-o", "run", "a", "h:b"]).expect_code(2).stderr;
    assert!(error.contains("--json without =lines"), "{error}");
}

#[test]
fn who_stops_reading_lines_keeps_nobody_from_ending_the_copy() {
    let sides = Sides::with_file(false, LEN);
    let server = sides.serve();
    let (mut full, _unread) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[b'\n'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let flags = ["--json=lines", "--progress=always", "--rate=1mbit"];
    let mut command = server.cp_command(sides.file_args(&server.url(""), &flags));
    let mut copy = command.stdout(OwnedFd::from(full)).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(copy.stderr.take().unwrap()).lines();
    // By then the first line of JSON is being written.
    assert!(said.by_ref().map_while(Result::ok).filter(|line| line.contains("b/s")).nth(2).is_some());
    send(&copy, Signal::INT);
    let said: Vec<String> = said.map_while(Result::ok).collect();
    assert_eq!(copy.wait().unwrap().code(), Some(130), "{said:?}");
}

#[test]
fn a_file_of_metrics_is_readable_whatever_the_umask() {
    let metrics = folder();
    let file = metrics.path().join("nightly.prom");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" \"$@\"", LONGHAUL, "cp", "--ssh=false"]);
    command.arg(format!("--metrics-file={}", file.display())).args(["/etc/hostname", "h:b"]);
    Running::start(&mut undisturbed(command)).finish().expect_code(1);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn a_file_of_metrics_follows_the_copy_and_keeps_its_outcome() {
    let sides = Sides::with_file(false, LEN);
    let metrics = folder();
    let file = metrics.path().join("nightly.prom");
    let server = sides.serve();
    let flag = format!("--metrics-file={}", file.display());
    let copy =
        Running::start(&mut server.cp_command(sides.file_args(&server.url(""), &[&flag, "--rate=5mbit"])));
    let value = |name: &str| {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("longhaul_transfer_{name}")));
        line.and_then(|rest| rest.strip_prefix("{transfer=\"nightly\"} ")?.parse::<f64>().ok())
    };
    wait_until("data is told", || value("done_bytes").is_some_and(|bytes| bytes > 0.0));
    assert_eq!((value("running"), value("success")), (Some(1.0), None));
    assert_eq!((value("size_bytes"), value("files")), (Some(LEN as f64), Some(1.0)));
    copy.finish().expect_code(0);
    assert_eq!((value("running"), value("success")), (Some(0.0), Some(1.0)));
    assert_eq!((value("done_bytes"), value("done_files")), (Some(LEN as f64), Some(1.0)));
    assert_eq!(names(metrics.path()), ["nightly.prom"]);
    let bad = run(["cp", "--metrics-file=/nowhere/x.prom", "/etc/hostname", "h:b"]).expect_code(2);
    assert!(bad.stderr.contains("--metrics-file /nowhere/x.prom: no such file"), "{}", bad.stderr);
}

#[test]
fn a_daemon_has_figures_of_each_transfer_while_it_goes_on() {
    let site = Site::new("metrics = \"127.0.0.1:0\"");
    site.add("alice", &["both=read-write"]);
    let daemon = site.serve();
    let here = folder();
    write_noise(here.path().join("file"), LEN, 1);
    let args = [here.path().join("file").into(), daemon.url("both/file"), SLOW.into()];
    let copy = Running::start(&mut daemon.cp_command(&site.path("alice"), &args));
    let has = |part: &str| daemon.metrics().lines().any(|line| line.contains(part));
    wait_until("the transfer has figures", || has("longhaul_transfer_done_bytes{transfer=\""));
    assert!(has("longhaul_transfer_info{transfer=\"") && has("user=\"alice\",direction=\"in\"} 1"));
    copy.finish().expect_code(0);
    wait_until("they are gone with it", || !has("transfer=\""));
}
