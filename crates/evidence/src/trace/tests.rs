//! Traces that were cut off, damaged, or never were any.

use super::*;
use longhaul_cli::trace::{Change, Line, PathCounted, Recovery};
use proptest::prelude::*;
use std::time::Duration;

/// The bytes of a trace with these events, one each 50 ms.
pub fn written(events: impl IntoIterator<Item = (usize, Event)>) -> Vec<u8> {
    let header = Header::new(Role::Sender, "2026-11-27T00:00:00.000Z".into());
    let lines = events.into_iter().enumerate().map(|(at, (path, event))| {
        serde_json::to_string(&Record::new(Duration::from_millis(50 * at as u64), path, event)).unwrap()
    });
    let lines = [serde_json::to_string(&header).unwrap()].into_iter().chain(lines);
    lines.flat_map(|line| format!("\u{1E}{line}\n").into_bytes()).collect()
}

fn sample() -> Vec<u8> {
    let counted = |packets: u64| PathCounted {
        packets_sent: Some(packets),
        bytes_sent: Some(packets * 1472),
        packets_received: packets,
        bytes_received: packets * 1472,
        ..PathCounted::default()
    };
    written([
        (0, Event::State(Change { old: None, new: "train".into() })),
        (0, Event::PathCounted(counted(3))),
        (1, Event::PathCounted(counted(9))),
        (0, Event::Recovery(Recovery { smoothed_rtt: Some(65.0), ..Recovery::default() })),
        (0, Event::Warning(Line { message: "\u{1} <&\"".into() })),
        (0, Event::PathCounted(counted(5))),
    ])
}

#[test]
fn a_trace_is_read_back() {
    let trace = Trace::parse(&sample()).unwrap();
    assert_eq!((trace.records.len(), trace.others, trace.is_cut, trace.paths()), (6, 0, false, 2));
}

#[test]
fn a_trace_whose_end_is_missing_is_read_to_there() {
    let whole = sample();
    let lines = whole.split(|byte| *byte == b'\n').collect::<Vec<_>>();
    let header = lines[0].len() + 1;
    for len in 0..whole.len() {
        match Trace::parse(&whole[..len]) {
            Ok(trace) => assert!(len > header && trace.is_cut == (whole[len - 1] != b'\n'), "{len}"),
            Err(Problem::Foreign(_)) => assert!(len <= header + lines[1].len(), "{len}"),
            Err(problem) => panic!("{len}: {problem:?}"),
        }
    }
}

#[test]
fn what_is_no_trace_says_so() {
    let foreign = [
        &b""[..],
        b"{}",
        b"\x1E",
        b"\x1E{}\n",
        b"\x89PNG\r\n",
        b"{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"traces\":[]}",
    ];
    for bytes in foreign {
        assert!(matches!(Trace::parse(bytes), Err(Problem::Foreign(_))), "{bytes:?}");
    }
    let other = String::from_utf8(sample()).unwrap().replace(OUR_EVENTS, "urn:example:events");
    let problem = Trace::parse(other.as_bytes()).unwrap_err();
    assert_eq!(problem, Problem::Foreign("is a qlog file of another program".into()));
}

#[test]
fn events_of_later_versions_are_counted_and_damaged_ones_are_not_taken() {
    let with = |line: &str| Trace::parse(&[&sample()[..], b"\x1E", line.as_bytes(), b"\n"].concat());
    for later in [
        r#"{"time":300,"name":"longhaul:later","data":{"x":[]}}"#,
        r#"{"time":300,"name":"longhaul:limit_updated","data":{"new":"the moon"}}"#,
        r#"{"time":300,"name":"longhaul:data_counted","data":{}}"#,
    ] {
        assert_eq!(with(later).unwrap().others, 1, "{later}");
    }
    for damaged in [
        "",
        "[]",
        r#"{"time":1,"name":"loglevel:info","data":{"message":"late"}}"#,
        r#"{"time":-1,"name":"longhaul:later","data":{}}"#,
        r#"{"time":1e300,"name":"loglevel:info","data":{"message":"never"}}"#,
        r#"{"time":300,"path":"8","name":"loglevel:info","data":{"message":"where"}}"#,
        r#"{"time":300,"path":"x","name":"loglevel:info","data":{"message":"where"}}"#,
    ] {
        assert!(matches!(with(damaged), Err(Problem::Damaged(8, _))), "{damaged}: {:?}", with(damaged));
    }
}

/// Figures that make no sense.
fn absurd() -> impl Strategy<Value = Event> {
    let number = || prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let float = || {
        prop_oneof![
            Just(1e308),
            Just(-1e308),
            Just(0.0),
            any::<f64>().prop_filter("finite", |f| f.is_finite())
        ]
    };
    let counted = (number(), number(), number(), number(), proptest::option::of(number())).prop_map(
        |(packets_received, packets_lost, bytes_received, dropped, bytes_sent)| {
            Event::PathCounted(PathCounted {
                packets_received,
                packets_lost,
                packets_dropped: dropped,
                bytes_received,
                bytes_sent,
                ..PathCounted::default()
            })
        },
    );
    let recovery = (proptest::option::of(float()), proptest::option::of(float()), number()).prop_map(
        |(min_rtt, smoothed_rtt, window)| {
            Event::Recovery(Recovery {
                min_rtt,
                smoothed_rtt,
                pacing_rate: Some(window),
                congestion_window: Some(window),
                ..Recovery::default()
            })
        },
    );
    let state = ".*".prop_map(|new| Event::State(Change { old: None, new }));
    prop_oneof![counted, recovery, state]
}

proptest! {
    #[test]
    fn changed_bytes_are_a_trace_or_say_why_not(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = sample();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(trace) = Trace::parse(&bytes) {
            prop_assert!(trace.page("x").ends_with("</html>"));
        }
    }

    #[test]
    fn figures_without_sense_make_a_page(events in proptest::collection::vec((0usize..8, absurd()), 1..40)) {
        let trace = Trace::parse(&written(events)).unwrap();
        let page = trace.page("x");
        prop_assert!(page.ends_with("</html>"));
        prop_assert!(!page.contains("NaN") && !page.contains("inf,"));
    }

    #[test]
    fn any_bytes_are_a_trace_or_say_why_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let framed = [&b"\x1E"[..], &bytes].concat();
        prop_assert!(Trace::parse(&framed).is_err());
        let _ = Trace::parse(&[&sample()[..], &framed].concat());
    }
}
