//! `--trace`: what a copy writes down of itself.

use crate::common::sides::Sides;
use crate::common::tree::*;
use crate::common::{Running, Server, run, wait_until};
use longhaul::Carrier;
use longhaul::trace::{Event, FILE_SCHEMA, Header, PathCounted, Record, Role};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Long enough for some dozens of samples at the rate that these copies are given.
const LEN: usize = 4_000_000;
const SLOW: &str = "--rate=20mbit";

/// A trace that was read, with all that is promised of any.
struct Read {
    header: Header,
    records: Vec<Record>,
}

impl Read {
    fn of(path: &Path) -> Read {
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.split_terminator('\n').map(|line| {
            line.strip_prefix('\u{1E}').unwrap_or_else(|| panic!("begins without a separator: {line}"))
        });
        let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(header.file_schema, FILE_SCHEMA);
        let record =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let records: Vec<Record> = lines.map(record).collect();
        assert!(records.is_sorted_by(|a, b| a.time <= b.time), "the time goes back: {text}");
        Read { header, records }
    }

    fn role(&self) -> Role {
        self.header.trace.vantage_point.name
    }

    fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.records.iter().map(|record| &record.event)
    }

    fn has(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events().any(wanted)
    }

    fn counts(&self) -> Vec<&PathCounted> {
        let counted = self.events().filter_map(|event| match event {
            Event::PathCounted(counted) => Some(counted),
            _ => None,
        });
        counted.collect()
    }

    fn bytes_done(&self) -> Vec<u64> {
        let done = self.events().filter_map(|event| match event {
            Event::DataCounted(data) => Some(data.bytes_done),
            _ => None,
        });
        done.collect()
    }

    fn summary(&self) -> &Value {
        match self.events().next_back() {
            Some(Event::Ended(summary)) => summary,
            other => panic!("the outcome is not the last: {other:?}"),
        }
    }
}

/// Where a trace goes, and the flag for it.
fn place(folder: &Path) -> (PathBuf, String) {
    let path = folder.join("copy.sqlog");
    let flag = format!("--trace={}", path.display());
    (path, flag)
}

/// A copy of `LEN` bytes that goes well: its trace and what it printed.
fn traced(pull: bool, more: &[&str]) -> (Read, Value) {
    let (sides, kept) = (Sides::with_file(pull, LEN), folder());
    let (path, flag) = place(kept.path());
    let server = sides.serve();
    let flags = [&[&flag, SLOW, "--json"], more].concat();
    let ended = server.cp(sides.file_args(&server.url(""), &flags)).expect_code(0);
    sides.assert_complete();
    let (trace, json) = (Read::of(&path), ended.json());
    assert_eq!(*trace.summary(), json);
    assert_eq!(trace.bytes_done().last(), Some(&(LEN as u64)), "all that is there is told");
    assert!(trace.bytes_done().is_sorted());
    (trace, json)
}

#[test]
fn who_sends_tells_rates_round_trips_states_and_limits() {
    let (trace, json) = traced(false, &[]);
    assert_eq!(trace.role(), Role::Sender);
    let counts = trace.counts();
    assert!(counts.len() > 10, "{} samples", counts.len());
    let last = counts[counts.len() - 1];
    assert_eq!(json["packets_sent"].as_u64(), last.packets_sent);
    // The last acknowledgement may come later than the word that all is there.
    let (sent, received) = (last.bytes_sent.unwrap() as usize, last.bytes_received as usize);
    assert!(sent >= LEN && received <= sent && received > LEN / 2, "{last:?}");
    assert!(counts.is_sorted_by(|a, b| a.packets_sent <= b.packets_sent));
    assert!(trace.has(|event| matches!(event, Event::PathChecked(checked) if checked.rtt.is_some())));
    assert!(trace.has(|event| matches!(event, Event::State(change) if !change.new.is_empty())));
    assert!(trace.has(|event| matches!(event, Event::Mtu(change) if change.new > 1000)));
    assert!(trace.has(|event| matches!(event, Event::RateLimit(limit) if limit.new.is_some())));
    assert!(trace.has(|event| matches!(event, Event::Limit(_))));
    assert!(trace.has(|event| {
        matches!(event, Event::Recovery(recovery)
            if recovery.smoothed_rtt >= recovery.min_rtt && recovery.pacing_rate.is_some())
    }));
}

#[test]
fn who_receives_tells_what_comes_in() {
    let (trace, json) = traced(true, &[]);
    assert_eq!(trace.role(), Role::Receiver);
    let counts = trace.counts();
    let last = counts[counts.len() - 1];
    assert!(counts.len() > 10 && last.packets_sent.is_none(), "{last:?}");
    assert!(last.packets_received >= json["packets_required"].as_u64().unwrap(), "{last:?}");
    assert!(last.bytes_received as usize >= LEN, "{last:?}");
    let told = |event: &Event| matches!(event, Event::Recovery(recovery) if recovery.smoothed_rtt.is_some());
    assert!(trace.has(told), "round trips are told by the sender");
}

#[test]
fn tcp_streams_are_told_too() {
    for pull in [false, true] {
        let (trace, json) = traced(pull, &["--transport=stripe", "--streams=3"]);
        assert_eq!(json["transport"], "stripe");
        assert!(trace.has(|event| matches!(event, Event::Streams(streams) if streams.streams.len() == 3)));
        let last = trace.counts().pop().unwrap();
        assert!(last.bytes_received as usize > LEN / 2, "{last:?}");
        if !pull {
            assert!(last.bytes_sent.unwrap() as usize >= LEN, "{last:?}");
            let by_tcp = |event: &Event| matches!(event, Event::SessionStarted(start) if start.transport == Some(Carrier::Stripe));
            assert!(trace.has(by_tcp));
        }
    }
}

#[test]
fn what_a_killed_copy_leaves_can_be_read() {
    let (sides, kept) = (Sides::with_file(false, 10 * LEN), folder());
    let (path, flag) = place(kept.path());
    let server = sides.serve();
    let copy = Running::start(&mut server.cp_command(sides.file_args(&server.url(""), &[&flag, SLOW])));
    let moved = |path: &Path| {
        fs::read_to_string(path).is_ok_and(|text| text.matches("longhaul:path_counted").count() > 5)
    };
    wait_until("some of it is written", || moved(&path));
    copy.signal(Signal::KILL);
    drop(copy.finish());
    // A line may be cut off, as RFC 7464 expects of it.
    let text = fs::read_to_string(&path).unwrap();
    let whole = text.rfind('\n').unwrap() + 1;
    fs::write(&path, &text[..whole]).unwrap();
    let trace = Read::of(&path);
    assert!(trace.counts().len() > 5 && !trace.has(|event| matches!(event, Event::Ended(_))));
}

#[test]
fn of_a_copy_between_two_others_it_tells_what_they_do() {
    let (from, to, kept) = (folder(), folder(), folder());
    let (path, flag) = place(kept.path());
    write_noise(from.path().join("file"), LEN, 1);
    let source = Server::start(from.path(), &["--allow-third-party"]);
    let dest = Server::start(to.path(), &[]);
    let token = dest.token_file().display().to_string();
    let args = [&flag, SLOW, "--dest-token-file", &token, &source.url("file"), &dest.url("file")];
    source.cp(args).expect_code(0);
    let trace = Read::of(&path);
    assert_eq!((trace.role(), trace.counts().len()), (Role::Arranger, 0));
    assert_eq!(trace.bytes_done().last(), Some(&(LEN as u64)));
    assert_eq!(trace.summary()["ok"], true);
}

#[test]
fn a_trace_that_cannot_be_written_is_told_before_anything_is_sent() {
    let kept = folder();
    let data = kept.path().join("data");
    fs::write(&data, "mine").unwrap();
    let args =
        |path: &Path| vec!["cp".into(), format!("--trace={}", path.display()), "a".into(), "h:b".into()];
    for (path, line) in [
        (&data, "is there and no trace; name another file"),
        (&kept.path().join("none/x"), "no such file or directory"),
        (&"/dev/full".into(), "no space left on device"),
    ] {
        let ended = run(args(path)).expect_code(2);
        let error = format!("error: --trace {}: {line}", path.display());
        assert!(ended.stderr.starts_with(&error), "{error} in {}", ended.stderr);
    }
    assert_eq!(fs::read(&data).unwrap(), b"mine");
    // Nor is a file made where it is not clear what is to be copied.
    let (path, flag) = place(kept.path());
    run(["cp", &flag, "a"]).expect_code(2);
    assert!(!path.exists());
    run(["cp", &flag, "a", "b"]).expect_code(2);
    assert_eq!(Read::of(&path).summary()["ok"], false);
}
