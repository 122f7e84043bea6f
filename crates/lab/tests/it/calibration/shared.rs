//! Paths that several hosts share, and what is recorded of them.

use super::measure;
use super::probe::{Probe, Received, Stream, median, within};
use crate::watched::{check, start};
use longhaul_lab::{Lab, Place, SNAP_BYTES, Scenario, Side, TrafficCounters};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowSpec, Protocol, TcpFlow};
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_testing::wait_until;
use std::time::{Duration, Instant};
use std::{fs, thread};

#[test]
fn pairs_share_the_rate_and_differ_in_delay() {
    measure(|| {
        let scenario = Scenario { queue_kb: Some(60.0), ..Scenario::new(20.0, 20.0) };
        let lab = Lab::start_pairs(&scenario, &[0.0, 60.0, 0.0]).map_err(|error| error.to_string())?;
        check(lab.pairs() == 3, || format!("{} pairs", lab.pairs()))?;
        for (from, delay_ms) in [
            (Place::of(Side::Left, 0), 10.0),
            (Place::of(Side::Left, 1), 40.0),
            (Place::of(Side::Right, 1), 40.0),
        ] {
            let stream = Stream { packets: 60, packet_bytes: 200, gap: Duration::from_millis(2) };
            let received = Probe::new(&lab, from)?.run(stream)?;
            check(received.len() == 60, || format!("{from:?}: {} of 60 arrived", received.len()))?;
            let delay = median(received.iter().map(Received::delay_ms).collect());
            within("one-way ms", delay, delay_ms + 0.08, 0.02)?;
        }
        lab.reset_counters();
        let probes =
            [Probe::new(&lab, Place::of(Side::Left, 0))?, Probe::new(&lab, Place::of(Side::Left, 1))?];
        let received = thread::scope(|scope| {
            let runs =
                probes.each_ref().map(|probe| scope.spawn(|| probe.run(Stream::at_rate(16.0, 1500, 1.5))));
            runs.map(|run| run.join().unwrap_or_else(|_| Err("panicked".into())))
        });
        let [first, second] = received;
        let (first, second) = (first?, second?);
        // While both send: from the first packet's arrival of the later pair on, until the first pair ends.
        let (Some(begin), Some(end)) = (second.first(), first.last()) else {
            return Err("nothing arrived".into());
        };
        let (begin, end) = (begin.arrived.as_secs_f64() + 0.2, end.arrived.as_secs_f64() - 0.1);
        let arrived = |packets: &[Received]| {
            packets.iter().filter(|packet| (begin..end).contains(&packet.arrived.as_secs_f64())).count()
                as f64
        };
        let mbit = (arrived(&first) + arrived(&second)) * 1500.0 * 8.0 / (end - begin) / 1e6;
        within("Mb/s of both", mbit, 20.0, 0.02)?;
        let way = lab.counters().left_to_right;
        let passed = [
            lab.passed(Place::of(Side::Left, 0)),
            lab.passed(Place::of(Side::Left, 1)),
            lab.passed(Place::of(Side::Left, 2)),
        ];
        check(passed[0].packets_delivered == first.len() as u64 && passed[2].packets_in == 0, || {
            format!("{passed:?}")
        })?;
        check(passed[0].packets_in + passed[1].packets_in == way.packets_in, || {
            format!("{passed:?}, {way:?}")
        })?;
        within("bytes waiting at most", way.waiting_bytes.max_bytes as f64, 60_000.0, 0.03)
    });
}

#[test]
fn udp_traffic_keeps_its_rate_and_times() {
    measure(|| {
        let text = "control = 'fixed'\nrate_mbit = 8\nstart_s = 0.1\nstop_s = 0.7\nreverse = true";
        let lab = start(&with_traffic(text)?)?;
        for _ in 0..2 {
            lab.restart_clock().map_err(|error| error.to_string())?;
            lab.reset_counters();
            thread::sleep(Duration::from_millis(80));
            check(traffic(&lab)? == TrafficCounters::default(), || {
                format!("too early: {:?}", lab.traffic())
            })?;
            thread::sleep(Duration::from_millis(700));
            let found = traffic(&lab)?;
            within("bytes", found.bytes_to_left as f64, 0.6e6, 0.02)?;
            let expected =
                TrafficCounters { flows_begun: 1, bytes_to_left: found.bytes_to_left, ..Default::default() };
            check(found == expected, || format!("{found:?}"))?;
        }
        Ok(())
    });
}

#[test]
fn flows_bring_what_they_were_told_to() {
    measure(|| {
        let lab = start(&Scenario::new(20.0, 20.0))?;
        let spec = FlowSpec::new("tcp:newreno".parse().map_err(|_| "no such protocol")?, 300_000);
        let arrivals = Arrivals::Staggered { from: Time::ZERO, gap: Duration::from_millis(50), count: 3 };
        let flows =
            lab.flows("reno", vec![Traffic::new(spec, arrivals)], 1).map_err(|error| error.to_string())?;
        wait_until("all arrive", || flows.received().iter().sum::<u64>() >= 900_000);
        check(flows.received() == [300_000; 3], || format!("{:?}", flows.received()))?;
        let found = flows.counters();
        let counts = (found.flows_begun, found.flows_done, found.flows_failed);
        check(counts == (3, 3, 0), || format!("{found:?}"))
    });
}

#[test]
fn a_connection_keeps_to_the_window_of_its_flow() {
    measure(|| {
        const WINDOW_BYTES: u64 = 20_000;
        let lab = start(&Scenario::new(20.0, 100.0))?;
        let mut flow = TcpFlow::new(ControllerKind::NewReno);
        flow.config.receive_buffer = WINDOW_BYTES;
        let spec = FlowSpec::new(Protocol::Tcp(flow), u64::MAX);
        let arrivals = Arrivals::Staggered { from: Time::ZERO, gap: Duration::ZERO, count: 1 };
        let flows =
            lab.flows("reno", vec![Traffic::new(spec, arrivals)], 1).map_err(|error| error.to_string())?;
        thread::sleep(Duration::from_secs(3));
        // A window in a round trip: 30 of them in these 3 s, where nothing else limits 7 MB.
        within("bytes", flows.received()[0] as f64, 30.0 * WINDOW_BYTES as f64, 0.2)
    });
}

#[test]
fn traffic_that_no_kernel_has_comes_by_endpoints() {
    measure(|| {
        let lab = start(&with_traffic("control = 'adaptive'\nbytes = 1000000\nreverse = true")?)?;
        wait_until("it is done", || lab.traffic().is_some_and(|found| found.flows_done == 1));
        let found = traffic(&lab)?;
        check(found.bytes_to_left > 1_000_000 && found.flows_failed == 0, || format!("{found:?}"))?;
        let lab = start(&with_traffic("control = 'tcp:ledbat'\ncount = 2\nstop_s = 0.6")?)?;
        wait_until("both begin", || lab.traffic().is_some_and(|found| found.bytes_to_right > 100_000));
        wait_until("both end", || {
            let before = lab.counters().left_to_right.packets_in;
            thread::sleep(Duration::from_millis(200));
            lab.counters().left_to_right.packets_in == before
        });
        let found = traffic(&lab)?;
        check((found.flows_begun, found.flows_done, found.flows_failed) == (2, 0, 0), || format!("{found:?}"))
    });
}

#[test]
fn tcp_traffic_fills_the_path_and_comes_to_an_end() {
    measure(|| {
        let text = "control = 'tcp:newreno'\ncount = 3\nstagger_s = 0.1\nbytes = 1000000";
        let lab = start(&with_traffic(text)?)?;
        let patience = Instant::now();
        while traffic(&lab)?.bytes_to_right < 3_000_000 && patience.elapsed() < Duration::from_secs(4) {
            thread::sleep(Duration::from_millis(5));
        }
        // 24 Mbit at 20 Mb/s.
        within("s for 3 MB", patience.elapsed().as_secs_f64(), 1.25, 0.2)?;
        thread::sleep(Duration::from_millis(50));
        let found = traffic(&lab)?;
        let counts = (found.flows_begun, found.flows_done, found.flows_failed);
        check(counts == (3, 3, 0), || format!("{found:?}"))?;
        // An endless one is cut off with the lab, and by a new beginning.
        let lab = start(&with_traffic("control = 'tcp:newreno'\nreverse = true")?)?;
        thread::sleep(Duration::from_millis(400));
        lab.restart_clock().map_err(|error| error.to_string())?;
        thread::sleep(Duration::from_millis(300));
        lab.reset_counters();
        thread::sleep(Duration::from_millis(500));
        let found = traffic(&lab)?;
        within("Mb/s", found.bytes_to_left as f64 * 8.0 / 0.5 / 1e6, 20.0, 0.1)?;
        check((found.flows_begun, found.flows_done) == (1, 0), || format!("{found:?}"))
    });
}

#[test]
fn captures_tell_times_and_lengths() {
    measure(|| {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let lab = start(&Scenario::new(100.0, 40.0))?;
        let capture =
            |end, name| lab.capture(end, &folder.path().join(name)).map_err(|error| error.to_string());
        let captures = [capture(Side::Left, "left")?, capture(Side::Right, "right")?];
        let stream = Stream { packets: 50, packet_bytes: 700, gap: Duration::from_millis(2) };
        let received = Probe::new(&lab, Side::Left)?.run(stream)?;
        for capture in captures {
            let captured = capture.finish().map_err(|error| error.to_string())?;
            check((captured.packets, captured.missed) == (50, 0), || format!("{captured:?}"))?;
        }
        let records = |name| read_records(&fs::read(folder.path().join(name)).unwrap_or_default());
        let (left, right) = (records("left"), records("right"));
        let lengths =
            |records: &[Record]| records.iter().all(|one| (one.kept, one.bytes) == (SNAP_BYTES as u32, 700));
        check(lengths(&left) && lengths(&right), || "packets of other lengths".into())?;
        let delays = left.iter().zip(&right).map(|(left, right)| (right.at_s - left.at_s) * 1e3).collect();
        within("ms between the records", median(delays), 20.056, 0.02)?;
        let first = received.first().map(|packet| packet.arrived.as_secs_f64());
        check(first.is_some_and(|at| (at - right[0].at_s).abs() < 0.002), || {
            "other times than the socket's".into()
        })?;
        let nowhere = folder.path().join("no/such/folder");
        match lab.capture(Side::Left, &nowhere) {
            Err(error) => check(error.to_string().contains("no/such/folder"), || error.to_string()),
            Ok(_) => Err("a file in no folder".into()),
        }
    });
}

/// A packet in a pcap file.
struct Record {
    at_s: f64,
    kept: u32,
    bytes: u32,
}

fn read_records(file: &[u8]) -> Vec<Record> {
    let mut rest = file.get(24..).unwrap_or_default();
    let mut records = vec![];
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let word = |at: usize| header[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        let at_s = f64::from(word(0)) + f64::from(word(4)) / 1e9;
        records.push(Record { at_s, kept: word(8), bytes: word(12) });
        rest = after.get(word(8) as usize..).unwrap_or_default();
    }
    records
}

fn with_traffic(traffic: &str) -> Result<Scenario, String> {
    let text = format!("bottleneck_mbit = 20\nrtt_ms = 20\n[[traffic]]\n{traffic}\n");
    Scenario::parse(&text).map_err(|error| error.to_string())
}

fn traffic(lab: &Lab) -> Result<TrafficCounters, String> {
    lab.traffic().ok_or_else(|| "no traffic".into())
}
