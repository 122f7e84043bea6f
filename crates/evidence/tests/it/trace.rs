//! `longhaul trace` and `longhaul replay`: the trace of a copy as a page, alone and beside the simulator, looked at in a real
//! browser.

use crate::browser::{browser, check};
use crate::common::tree::{write_noise, write_script};
use crate::common::{Running, measured, run, undisturbed};
use longhaul_cli::trace::{
    Change, DataCounted, Event, Header, Line, PathChecked, PathCounted, Record, Recovery, Role,
    SessionStarted,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A trace with all that there may be in one, of so many samples of each path.
fn written(samples: u64, paths: usize) -> String {
    let header = Header::new(Role::Sender, "2026-11-27T00:00:00.000Z".into());
    let started = SessionStarted {
        role: Role::Sender,
        control: "adaptive".into(),
        select: "circular".into(),
        transport: Some(Default::default()),
    };
    let checked = PathChecked {
        from: None,
        to: None,
        datagram_bytes: 1472,
        rtt: Some(65.1),
        train_rate: Some(99_000_000),
        is_bottleneck: true,
    };
    let mut lines = vec![serde_json::to_string(&header).unwrap()];
    let mut tell = |at: u64, path: usize, event: Event| {
        let record = Record::new(Duration::from_millis(50 * at), path, event);
        lines.push(serde_json::to_string(&record).unwrap());
    };
    tell(0, 0, Event::SessionStarted(started));
    tell(1, paths - 1, Event::PathChecked(checked));
    tell(1, 0, Event::Mtu(Change { old: None, new: 1472 }));
    for at in 2..samples {
        for path in 0..paths {
            sample(at, path).into_iter().for_each(|event| tell(at, path, event));
        }
        if at.is_multiple_of(40) {
            let limits = ["path", "loss", "rate_cap", "paused"]
                .map(|name| serde_json::from_value(name.into()).unwrap());
            let new = limits[at as usize / 40 % limits.len()];
            tell(at, 0, Event::Limit(Change { old: None, new }));
        }
        if at == samples / 2 {
            let message =
                "a warning with a long text that has <b>marks</b> & signs in it, as some have".into();
            tell(at, 0, Event::Warning(Line { message }));
        }
    }
    let summary = serde_json::json!({"ok": true, "bytes": 40_000_000, "seconds": 3.5, "goodput_mbps": 91.4, "limited_by": "path"});
    tell(samples, 0, Event::Ended(summary));
    lines.into_iter().map(|line| format!("\u{1E}{line}\n")).collect()
}

/// What is told of a path at a time.
fn sample(at: u64, path: usize) -> Vec<Event> {
    let packets = 400 * at * (path as u64 + 1);
    let wave = (at as f64 / 7.0).sin().abs();
    let state = ["train", "startup", "cruise", "test", "refresh", "compete", "as BBR"][at as usize / 3 % 7];
    vec![
        Event::PathCounted(PathCounted {
            packets_sent: Some(packets),
            packets_resent: Some(packets / 90),
            packets_received: packets - packets / 100,
            packets_lost: packets / 100,
            packets_dropped: 0,
            bytes_sent: Some(packets * 1472),
            bytes_received: (packets - packets / 100) * 1472,
            bandwidth: Some(95_000_000),
            queue_delay: Some(3.0 * wave),
            random_loss: Some(0.01),
            is_silent: false,
        }),
        Event::Recovery(Recovery {
            min_rtt: Some(65.0),
            smoothed_rtt: Some(65.0 + 4.0 * wave),
            latest_rtt: Some(65.0 + 9.0 * wave),
            rtt_variance: Some(1.0),
            congestion_window: Some(1_400_000),
            bytes_in_flight: Some((900_000.0 * wave) as u64),
            packets_in_flight: Some(600),
            pacing_rate: Some(94_000_000 + (5e6 * wave) as u64),
        }),
        Event::State(Change { old: None, new: state.into() }),
        Event::DataCounted(DataCounted { bytes_done: packets * 1448, bytes_total: 400_000_000 }),
    ]
}

/// The page that a command of the program makes of it.
fn made(folder: &Path, command: &str, trace: &str) -> String {
    let file = folder.join("copy.sqlog");
    fs::write(&file, trace).unwrap();
    let ended = run([command.as_ref(), file.as_os_str()]).expect_code(0);
    let page = folder.join(if command == "trace" { "copy.sqlog.html" } else { "copy.sqlog.replay.html" });
    assert_eq!(ended.stdout.trim(), page.display().to_string());
    fs::read_to_string(page).unwrap()
}

/// Curves of rate, round trip, queue, loss, what is on its way and data; bands of limits, of two controllers and of what
/// carries the data.
const PLOTS: usize = 10;
/// The same curves, and what either controller does.
const PLOTS_BESIDE: usize = 8;

#[test]
fn nothing_runs_over_at_any_width() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    for samples in [70, 3000] {
        let page = made(folder.path(), "trace", &written(samples, 2));
        for width in [390, 768, 1400] {
            check(&browser, &page, width, PLOTS);
        }
    }
}

#[test]
fn nothing_runs_over_beside_the_simulator() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = made(folder.path(), "replay", &written(70, 1));
    check(&browser, &page, 768, PLOTS_BESIDE);
}

#[test]
fn a_real_copy_is_shown_and_replayed_whichever_way_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_noise(at("file"), 3_000_000, 1);
    write_script(at("ssh"), "shift\nexec sh -c \"$1\"");
    let traced = |from: &Path, to: &Path| {
        let trace = at("copy.trace");
        let mut copy = undisturbed(Command::new(measured()));
        copy.env("HOME", folder.path()).args(["cp", "--rate=20mbit"]);
        copy.arg(format!("--ssh={}", at("ssh").display())).arg(format!("--trace={}", trace.display()));
        Running::start(copy.args([from, to])).finish().expect_code(0);
        fs::read_to_string(trace).unwrap()
    };
    let there = PathBuf::from(format!("localhost:{}", at("copy").display()));
    let trace = traced(&at("file"), &there);
    let page = made(folder.path(), "trace", &trace);
    for part in ["3.0 MB verified in", "paced at", "Controller", "Limited by", "rate_cap"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = made(folder.path(), "replay", &trace);
    assert!(page.contains("measured") && page.contains("simulated"), "{page}");
    let page = made(folder.path(), "replay", &traced(&there, &at("back")));
    assert!(page.contains("measured") && page.contains("simulated"), "{page}");
}

#[test]
fn several_paths_are_replayed_each_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let page = made(folder.path(), "replay", &written(70, 2));
    for part in ["Path 2, ", "path 1: measured", "path 2: simulated"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    fs::write(&file, written(70, 2).replace("sender", "arranger")).unwrap();
    let ended = run(["replay".as_ref(), file.as_os_str()]).expect_code(1);
    let line = "is of a copy between two other hosts, whose path it does not know";
    assert_eq!(ended.stderr, format!("error: {} {line}\n", file.display()));
}

#[test]
fn a_page_says_what_happened_and_asks_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let page = made(folder.path(), "trace", &written(200, 2));
    for part in
        ["path 2: delivered", "40.0 MB verified in 3.5 s", "&lt;b&gt;marks", "another path is used", "pauses"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
}

#[test]
fn a_long_trace_makes_a_page_that_browsers_can_show() {
    let folder = tempfile::tempdir().unwrap();
    let page = made(folder.path(), "trace", &written(20_000, 2));
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
}

#[test]
fn what_is_no_trace_is_told_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    for (bytes, line) in [
        (&b""[..], "is no trace; longhaul cp --trace writes one"),
        (b"\x89PNG\r\n\x1a\n", "is no trace; longhaul cp --trace writes one"),
        (
            b"\x1E{\"file_schema\":\"u",
            "is no trace, or one whose first line was cut off; longhaul cp --trace writes one",
        ),
    ] {
        fs::write(&file, bytes).unwrap();
        let ended = run(["trace".as_ref(), file.as_os_str()]).expect_code(1);
        assert_eq!(ended.stderr, format!("error: {}: {line}\n", file.display()));
    }
    let missing = run(["trace", "/nowhere/x"]).expect_code(1);
    assert!(missing.stderr.starts_with("error: cannot read /nowhere/x: "), "{}", missing.stderr);
    let damaged = written(20, 2).replacen("{\"time\":100.0", "{\"time\":", 1);
    fs::write(&file, damaged).unwrap();
    let ended = run(["trace".as_ref(), file.as_os_str()]).expect_code(1);
    assert!(
        ended.stderr.contains(", line ") && ended.stderr.contains("the trace is damaged"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1);
}
