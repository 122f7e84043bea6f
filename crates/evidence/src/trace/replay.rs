//! A copy like that of a trace, in the simulator: as much data, by the same controller, over a path as the trace shows it.
//!
//! What a trace shows of a path is what its copy met. The rate is what was delivered at best (the 95th percentile), the round trip
//! the shortest, the share lost at random what the controller took for that, or what was lost. A queue that nothing was lost in
//! may be longer than it was ever full: it is taken to hold a round trip at least. Traffic of others is no part of it.

use super::curves::{Lines, curves};
use super::read::Trace;
use longhaul_cli::trace::{
    Cadence, Change, DataCounted, Event, PathCounted, Record, Recovery, Role, SessionStarted,
};
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire::{DATA_OVERHEAD, IPV4_UDP_LEN, MAX_DATAGRAM_LEN, MIN_DATAGRAM_LEN};
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSim, FlowSpec, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, FlowEvent, FlowId, Limits, Options, Placement};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Why a trace cannot be replayed. Every text is a part of a line.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The other side's view tells too little.
    #[error("is not of the side that sends, which alone measures the path")]
    NotOfSender,
    /// The simulator runs one.
    #[error("is of a copy over several paths, and replay knows one")]
    SeveralPaths,
    /// What the kernel's TCP does is not in it.
    #[error("is of a copy over TCP, and replay knows UDP")]
    ByTcp,
    /// Not enough to tell the path.
    #[error("tells too little of the path: {0}")]
    TooShort(&'static str),
    /// Figures that no path has.
    #[error("tells of a path that cannot be: {0}")]
    Impossible(String),
}

/// What a trace shows of the path, and of the copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// The path.
    pub scenario: Scenario,
    /// What was moved over it, bytes.
    pub bytes: u64,
    /// The controller and what else the sender was told.
    protocol: Protocol,
    /// Bytes of UDP payload in a datagram.
    datagram_len: u32,
    /// When data began to move.
    began: Duration,
    /// How long it moved.
    pub seconds: f64,
}

/// What came of it in the simulator.
pub struct Replayed {
    /// As if the simulated copy had written a trace.
    pub trace: Trace,
    /// How long the data moved; `None`: it did not all arrive in many times the copy's own time.
    pub seconds: Option<f64>,
}

impl Likeness {
    /// Of this trace.
    pub fn of(trace: &Trace) -> Result<Likeness, ReplayError> {
        let too_short = ReplayError::TooShort;
        if trace.header.trace.vantage_point.name != Role::Sender {
            return Err(ReplayError::NotOfSender);
        }
        if trace.paths() > 1 {
            return Err(ReplayError::SeveralPaths);
        }
        let started = last(trace, |event| match event {
            Event::SessionStarted(started) => Some(started),
            _ => None,
        });
        let (began_ms, started) = started.ok_or(too_short("no data moved"))?;
        if started.transport != Some(Default::default())
            || last(trace, |event| matches!(event, Event::Transport(_)).then_some(())).is_some()
        {
            return Err(ReplayError::ByTcp);
        }
        let datagram_len = last(trace, |event| match event {
            Event::Mtu(change) => Some(change.new),
            _ => None,
        });
        let datagram_len = datagram_len.map(|(_, len)| len).filter(|len| DATAGRAM_LENS.contains(len));
        let datagram_len = datagram_len.ok_or(too_short("no size of datagrams"))?;
        let (ended_ms, counted) = last(trace, |event| match event {
            Event::PathCounted(counted) => Some(counted),
            _ => None,
        })
        .ok_or(too_short("no counters"))?;
        let bytes = bytes_moved(trace).filter(|bytes| *bytes > 0).ok_or(too_short("no data moved"))?;
        let scenario = path(trace, datagram_len, counted)?;
        let mut protocol: Protocol =
            started.control.parse().map_err(|error: longhaul_sim::flow::UnknownProtocol| {
                ReplayError::Impossible(error.to_string())
            })?;
        let Protocol::Object(flow) = &mut protocol else {
            return Err(ReplayError::ByTcp);
        };
        let cap = last(trace, |event| match event {
            Event::RateLimit(limit) => Some(limit.new),
            _ => None,
        });
        flow.rate_cap = cap.and_then(|(_, bps)| bps).map(Rate);
        flow.rate = flow.rate_cap;
        flow.packet_len = Some(datagram_len - DATA_OVERHEAD as u32);
        // The session began when that was over.
        flow.setup_round_trips = 0;
        Ok(Likeness {
            scenario,
            bytes: bytes.min(BYTES_MAX),
            protocol,
            datagram_len,
            began: Duration::from_secs_f64(began_ms / 1e3),
            seconds: (ended_ms - began_ms).max(0.0) / 1e3,
        })
    }

    /// Run it.
    pub fn run(&self, seed: u64) -> Replayed {
        let scenario = Scenario { seed, ..self.scenario.clone() };
        let mut sim = FlowSim::with_path(PathConfig::new(&scenario), Options::default());
        let spec = FlowSpec { seed, ..FlowSpec::new(self.protocol.clone(), self.bytes) };
        let id = sim.add(&spec, &Placement::at(Time::ZERO));
        let (mut cadence, mut at, mut state) = (Cadence::new(STEP), Duration::ZERO, String::new());
        let mut records = vec![self.started()];
        let longest = (Duration::from_secs_f64(self.seconds * TIMES_MAX) + SECONDS_MORE).min(DAY);
        let seconds = loop {
            let limits = Limits { time: Time::ZERO + at, ..Limits::default() };
            let end =
                sim.run(limits, |sim| sim.events().contains(&FlowEvent::Left(id, FlowNews::Acknowledged)));
            let is_over = end != End::TimeLimit || at >= longest;
            let now = if end == End::TimeLimit { at } else { sim.now().since(Time::ZERO) };
            if cadence.is_due(now) || is_over {
                records.extend(self.look(&mut sim, id, now, &mut state));
            }
            if is_over {
                break (end == End::Stopped).then_some(now.as_secs_f64());
            }
            at += STEP;
        };
        Replayed { trace: Trace { records, ..Trace::empty() }, seconds }
    }

    fn started(&self) -> Record {
        let started = SessionStarted {
            role: Role::Sender,
            control: self.protocol.to_string(),
            select: String::new(),
            transport: Some(Default::default()),
        };
        Record::new(self.began, 0, Event::SessionStarted(started))
    }

    /// What a copy would write down of itself now.
    fn look(&self, sim: &mut FlowSim, id: FlowId, now: Duration, state: &mut String) -> Vec<Record> {
        let FlowEnd::ObjectSender(sender) = sim.endpoints_mut(id).0 else { return vec![] };
        let (figures, len) = (sender.path_figures(0), u64::from(self.datagram_len));
        let data = DataCounted { bytes_done: sender.acked_bytes(), bytes_total: self.bytes };
        let bytes = [figures.stats.packets_sent * len, figures.stats.received * len];
        let mut events = vec![
            Event::Recovery(Recovery::of_sender(&figures, len)),
            Event::PathCounted(PathCounted::of_sender(&figures, bytes)),
            Event::DataCounted(data),
        ];
        if *state != figures.controller.phase {
            *state = figures.controller.phase.into();
            events.push(Event::State(Change { old: None, new: state.clone() }));
        }
        events.into_iter().map(|event| Record::new(self.began + now, 0, event)).collect()
    }
}

/// The last event of a kind, and when it was.
fn last<'a, T>(trace: &'a Trace, wanted: impl Fn(&'a Event) -> Option<T>) -> Option<(f64, T)> {
    trace.records.iter().rev().find_map(|record| wanted(&record.event).map(|event| (record.time, event)))
}

/// What the copy moved: without what was there before, where it says so.
fn bytes_moved(trace: &Trace) -> Option<u64> {
    if let Some(summary) = trace.summary().filter(|summary| summary["ok"] == true) {
        let bytes = |field: &str| summary[field].as_u64().unwrap_or(0);
        let before = ["skipped_bytes", "resumed_bytes", "delta_bytes"].map(bytes);
        let before = before.into_iter().fold(0, u64::saturating_add);
        return Some(bytes("bytes").saturating_sub(before));
    }
    let data = |event| match event {
        &Event::DataCounted(DataCounted { bytes_done, .. }) => Some(bytes_done),
        _ => None,
    };
    let first = trace.records.iter().find_map(|record| data(&record.event))?;
    last(trace, data).map(|(_, done)| done.saturating_sub(first))
}

/// The path as it shows.
fn path(trace: &Trace, datagram_len: u32, counted: &PathCounted) -> Result<Scenario, ReplayError> {
    let all = curves(trace);
    let values = |panel: &str, series: &str| {
        let found = all.iter().filter(|one| one.name == panel).flat_map(|one| &one.series);
        let points = found.filter(|(name, _)| name == series).flat_map(|(_, points)| points);
        points.map(|point| point.1).filter(|value| value.is_finite()).collect::<Vec<f64>>()
    };
    let rtt_ms = values("Round trip", Lines::SHORTEST).into_iter().fold(f64::INFINITY, f64::min);
    let best = best_mbps(trace, rtt_ms / 1e3).ok_or(ReplayError::TooShort("nothing was delivered"))?;
    let whole = f64::from(datagram_len + IPV4_UDP_LEN as u32) / f64::from(datagram_len);
    let queue_ms = values("Queue", Lines::QUEUE).into_iter().fold(0.0, f64::max);
    let (lost, received) = (counted.packets_lost as f64, counted.packets_received as f64);
    let share = lost / (lost + received).max(1.0);
    let random = counted.random_loss.filter(|loss| *loss > 0.0).unwrap_or(0.0).min(share);
    // What the controller knows nothing of is lost at random if the queue was not what lost it.
    let is_overrun = share > random + LOSS_NOTED && queue_ms > QUEUE_NOTED * rtt_ms;
    let loss = if is_overrun { random } else { share };
    let room_ms = if is_overrun { queue_ms } else { queue_ms.max(rtt_ms) };
    let scenario = Scenario {
        loss,
        queue_kb: Some((best * whole * room_ms / 8.0).max(QUEUE_MIN_KB)),
        mtu: (datagram_len + IPV4_UDP_LEN as u32).max(1500),
        ..Scenario::new(best * whole, rtt_ms)
    };
    scenario.validate().map_err(|error| ReplayError::Impossible(error.to_string()))?;
    Ok(scenario)
}

/// What was delivered at best, over so long that bursts and the grain of acknowledgements make no difference.
fn best_mbps(trace: &Trace, rtt_s: f64) -> Option<f64> {
    let counts = trace.records.iter().filter_map(|record| match &record.event {
        Event::PathCounted(counted) => Some((record.time / 1e3, counted.bytes_received as f64)),
        _ => None,
    });
    let counts: Vec<(f64, f64)> = counts.collect();
    let whole_s = counts.last()?.0 - counts.first()?.0;
    let span_s = (ROUND_TRIPS * rtt_s).max(SPAN_MIN_S).min(whole_s / 3.0);
    let mut since = 0;
    let mut rates = vec![];
    for &(at, bytes) in &counts {
        while counts.get(since + 1).is_some_and(|(newer, _)| *newer <= at - span_s) {
            since += 1;
        }
        let (from, before) = counts[since];
        if at > from && at - from >= span_s {
            rates.push((bytes - before) * 8e-6 / (at - from));
        }
    }
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() * 95 / 100).copied().filter(|mbps| *mbps > 0.0)
}

/// So much of a copy is enough to see what it is like; more takes minutes.
const BYTES_MAX: u64 = 2_000_000_000;
/// The simulated copy gives up after so many times the time of the other, and a while.
const TIMES_MAX: f64 = 4.0;
const SECONDS_MORE: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);
const STEP: Duration = Duration::from_millis(50);
/// As copies have them.
const DATAGRAM_LENS: RangeInclusive<u32> = MIN_DATAGRAM_LEN as u32..=MAX_DATAGRAM_LEN as u32;
/// Rates are over so long.
const ROUND_TRIPS: f64 = 8.0;
const SPAN_MIN_S: f64 = 0.5;
/// Losses and queues that are worth a thought.
const LOSS_NOTED: f64 = 0.002;
const QUEUE_NOTED: f64 = 0.2;
/// Some packets fit any queue.
const QUEUE_MIN_KB: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The trace of a copy in the simulator: all of it is known.
    fn known(rate_mbit: f64, rtt_ms: f64, loss: f64, bytes: u64) -> Trace {
        let protocol: Protocol = "adaptive".parse().unwrap();
        let scenario = Scenario { loss, queue_bdp: Some(1.0), ..Scenario::new(rate_mbit, rtt_ms) };
        let likeness = Likeness {
            scenario,
            bytes,
            protocol,
            datagram_len: 1472,
            began: Duration::from_millis(150),
            seconds: 10.0,
        };
        let mut replayed = likeness.run(3);
        let mtu = Event::Mtu(Change { old: None, new: 1472 });
        replayed.trace.records.insert(1, Record::new(likeness.began, 0, mtu));
        replayed.trace
    }

    #[test]
    fn a_path_is_known_again_by_the_trace_of_a_copy_over_it() {
        for (rate, rtt, loss) in [(100.0, 65.0, 0.0), (100.0, 65.0, 0.01), (20.0, 150.0, 0.0)] {
            let trace = known(rate, rtt, loss, 20_000_000);
            let likeness = Likeness::of(&trace).unwrap();
            let found = &likeness.scenario;
            assert!((found.bottleneck_mbit / rate - 1.0).abs() < 0.05, "{found:?}");
            assert!((found.rtt_ms / rtt - 1.0).abs() < 0.05, "{found:?}");
            assert!((found.loss - loss).abs() < 0.003, "{found:?}");
            assert!(likeness.bytes > 19_000_000, "{}", likeness.bytes);
            let again = likeness.run(4).seconds.unwrap();
            assert!((again / likeness.seconds - 1.0).abs() < 0.15, "{again} s and {} s", likeness.seconds);
        }
    }

    #[test]
    fn figures_without_sense_come_to_an_end() {
        let whole = known(20.0, 20.0, 0.0, 2_000_000);
        for time in [0.0, 1e12] {
            let mut trace = whole.clone();
            trace.records.iter_mut().for_each(|record| record.time = time);
            assert!(Likeness::of(&trace).is_err());
        }
        for bytes in [0, u64::MAX] {
            let mut trace = whole.clone();
            for record in &mut trace.records {
                if let Event::PathCounted(counted) = &mut record.event {
                    counted.bytes_received = counted.bytes_received.saturating_mul(bytes);
                }
            }
            assert!(Likeness::of(&trace).is_err());
        }
    }

    #[test]
    fn what_cannot_be_replayed_says_why() {
        let whole = known(20.0, 20.0, 0.0, 2_000_000);
        let with = |change: &dyn Fn(&mut Trace)| {
            let mut trace = whole.clone();
            change(&mut trace);
            Likeness::of(&trace).unwrap_err()
        };
        let receiver = with(&|trace| trace.header.trace.vantage_point.name = Role::Receiver);
        assert_eq!(receiver, ReplayError::NotOfSender);
        assert_eq!(with(&|trace| trace.records[3].path = "1".into()), ReplayError::SeveralPaths);
        assert_eq!(with(&|trace| trace.records.truncate(2)), ReplayError::TooShort("no counters"));
        let unknown = with(&|trace| {
            for record in &mut trace.records {
                if let Event::SessionStarted(started) = &mut record.event {
                    started.control = "magic".into();
                }
            }
        });
        assert!(matches!(unknown, ReplayError::Impossible(_)), "{unknown}");
    }
}
