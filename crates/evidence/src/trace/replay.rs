//! A copy like that of a trace, in the simulator: as much data, by the same controller, over a path as the trace shows it.
//!
//! What a trace shows of a path is what its copy met. The rate is what was delivered at best (the 95th percentile), the round trip
//! the shortest, the share lost at random what the controller took for that, or what was lost. A queue that nothing was lost in
//! may be longer than it was ever full: it is taken to hold a round trip at least. Traffic of others is no part of it. Several paths
//! are simulated one by one, each with what it carried.

use super::curves::{Lines, curves};
use super::read::Trace;
use longhaul_cli::trace::{
    Cadence, Change, DataCounted, Event, PathCounted, Record, Recovery, Role, SessionStarted,
};
use longhaul_proto::session::limit::Limit;
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire::{DATA_OVERHEAD, IPV4_UDP_LEN, MAX_DATAGRAM_LEN, MIN_DATAGRAM_LEN};
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSim, FlowSpec, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, FlowEvent, FlowId, Limits, Options, Placement, Side};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Why a trace cannot be replayed. Every text is a part of a line.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It knows what the two hosts tell, which is too little.
    #[error("is of a copy between two other hosts, whose path it does not know")]
    OfOthers,
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

/// What a trace shows of the paths, and of the copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// Each path that carried something.
    pub paths: Vec<PathLikeness>,
    /// When data began to move.
    began: Duration,
    /// How long it moved.
    pub seconds: f64,
}

/// What a trace shows of a path, and of what went over it.
#[derive(Clone, Debug, PartialEq)]
pub struct PathLikeness {
    /// Its number in the trace, and the only one there is.
    pub number: usize,
    /// What it is like.
    pub scenario: Scenario,
    /// What was moved over it, bytes.
    pub bytes: u64,
    /// The controller and what else the sender was told.
    protocol: Protocol,
    /// Bytes of UDP payload in a datagram.
    datagram_len: u32,
    /// When something was told of it for the first time.
    began: Duration,
    /// What its user asked for, and when.
    wishes: Vec<Wish>,
}

/// What the user of a copy asked for at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wish {
    at: Duration,
    rate: Option<Rate>,
    paused: bool,
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
        if trace.header.trace.vantage_point.name == Role::Arranger {
            return Err(ReplayError::OfOthers);
        }
        let too_short = ReplayError::TooShort;
        let (began_ms, started) = started(trace).ok_or(too_short("no data moved"))?;
        // Who receives does not decide, and is told of the rest.
        let is_other = |carrier: Carrier| carrier != Carrier::Object;
        if started.transport.is_some_and(is_other)
            || last(trace, |event| matches!(event, Event::Transport(_)).then_some(())).is_some()
            || trace
                .summary()
                .and_then(|summary| summary["transport"].as_str())
                .is_some_and(|name| name != "object")
        {
            return Err(ReplayError::ByTcp);
        }
        let bytes = bytes_moved(trace).filter(|bytes| *bytes > 0).ok_or(too_short("no data moved"))?;
        let singles: Vec<Trace> = (0..trace.paths()).map(|number| trace.of_path(number)).collect();
        let came: Vec<u64> = singles.iter().map(packets_received).collect();
        let all = came.iter().fold(0, |sum: u64, packets| sum.saturating_add(*packets)).max(1);
        let found =
            singles.iter().enumerate().zip(came).filter(|(_, packets)| *packets > 0 || singles.len() == 1);
        let (mut paths, mut untold) = (vec![], None);
        for ((number, single), packets) in found {
            let share = (bytes.min(BYTES_MAX) as f64 * packets as f64 / all as f64) as u64;
            match PathLikeness::of(single, number, share, started) {
                Ok(path) => paths.push(path),
                // Of one that was hardly used too little is told.
                Err(error) => untold = untold.or(Some(error)),
            }
        }
        if paths.is_empty() {
            return Err(untold.unwrap_or(too_short("nothing was delivered")));
        }
        let ended_ms = singles.iter().filter_map(|single| Some(counted(single)?.0)).fold(began_ms, f64::max);
        Ok(Likeness {
            paths,
            began: Duration::from_secs_f64(began_ms / 1e3),
            seconds: (ended_ms - began_ms).max(0.0) / 1e3,
        })
    }

    /// What was moved, bytes.
    pub fn bytes(&self) -> u64 {
        self.paths.iter().map(|path| path.bytes).sum()
    }

    /// Run it.
    pub fn run(&self, seed: u64) -> Replayed {
        let longest = (Duration::from_secs_f64(self.seconds * TIMES_MAX) + SECONDS_MORE).min(DAY);
        let (mut told, mut seconds) = (vec![], Some(0.0f64));
        for path in &self.paths {
            let (records, taken) = path.run(seed, longest);
            told.extend(records);
            let until = |taken: Duration| (path.began + taken).saturating_sub(self.began).as_secs_f64();
            seconds = seconds.zip(taken).map(|(most, taken)| most.max(until(taken)));
        }
        told.sort_by(|a, b| a.time.total_cmp(&b.time));
        let mut records = vec![self.started()];
        records.extend(whole(told));
        Replayed { trace: Trace { records, ..Trace::empty() }, seconds }
    }

    fn started(&self) -> Record {
        let started = SessionStarted {
            role: Role::Sender,
            control: self.paths.first().map(|path| path.protocol.to_string()).unwrap_or_default(),
            select: String::new(),
            transport: Some(Carrier::Object),
        };
        Record::new(self.began, 0, Event::SessionStarted(started))
    }
}

impl PathLikeness {
    /// Of a trace that knows no other path, over which so many bytes were moved.
    fn of(
        trace: &Trace,
        number: usize,
        bytes: u64,
        started: &SessionStarted,
    ) -> Result<PathLikeness, ReplayError> {
        let too_short = ReplayError::TooShort;
        let datagram_len = last(trace, |event| match event {
            Event::Mtu(change) => Some(change.new),
            _ => None,
        });
        let datagram_len = datagram_len.map(|(_, len)| len).filter(|len| DATAGRAM_LENS.contains(len));
        let datagram_len = datagram_len.ok_or(too_short("no size of datagrams"))?;
        let (_, counted) = counted(trace).ok_or(too_short("no counters"))?;
        let scenario = path(trace, datagram_len, counted)?;
        let mut protocol: Protocol =
            started.control.parse().map_err(|error: longhaul_sim::flow::UnknownProtocol| {
                ReplayError::Impossible(error.to_string())
            })?;
        let Protocol::Object(flow) = &mut protocol else {
            return Err(ReplayError::ByTcp);
        };
        let wishes = wishes(trace);
        let first_ms = trace.records.iter().find(|record| matches!(record.event, Event::PathCounted(_)));
        let began = Duration::from_secs_f64(first_ms.map_or(0.0, |record| record.time / 1e3));
        flow.rate_cap = wishes.iter().take_while(|wish| wish.at <= began).last().and_then(|wish| wish.rate);
        // Some controllers cannot do without one.
        flow.rate = wishes.iter().find_map(|wish| wish.rate);
        flow.packet_len = Some(datagram_len - DATA_OVERHEAD as u32);
        // The session began when that was over.
        flow.setup_round_trips = 0;
        Ok(PathLikeness { number, scenario, bytes, protocol, datagram_len, began, wishes })
    }

    /// Run it for so long at most: what it would write down of itself, and how long the data moved.
    fn run(&self, seed: u64, longest: Duration) -> (Vec<Record>, Option<Duration>) {
        let scenario = Scenario { seed, ..self.scenario.clone() };
        let mut sim = FlowSim::with_path(PathConfig::new(&scenario), Options::default());
        let spec = FlowSpec { seed, ..FlowSpec::new(self.protocol.clone(), self.bytes) };
        let id = sim.add(&spec, &Placement::at(Time::ZERO));
        let (mut cadence, mut at, mut state) = (Cadence::new(STEP), Duration::ZERO, String::new());
        let mut records = vec![];
        let mut wishes = self.wishes.iter().peekable();
        loop {
            while let Some(wish) = wishes.next_if(|wish| wish.at <= self.began + at) {
                if let FlowEnd::ObjectSender(sender) = sim.endpoints_mut(id).0 {
                    sender.set_rate_cap(wish.rate);
                    sender.set_paused(wish.paused);
                }
                sim.wake_at(id, Side::Left, Time::ZERO + at);
            }
            let limits = Limits { time: Time::ZERO + at, ..Limits::default() };
            let end =
                sim.run(limits, |sim| sim.events().contains(&FlowEvent::Left(id, FlowNews::Acknowledged)));
            // While it pauses nothing may be left to happen.
            let goes_on = end == End::TimeLimit || (end != End::Stopped && wishes.peek().is_some());
            let is_over = !goes_on || at >= longest;
            let now = if goes_on { at } else { sim.now().since(Time::ZERO) };
            if cadence.is_due(now) || is_over {
                records.extend(self.look(&mut sim, id, now, &mut state));
            }
            if is_over {
                return (records, (end == End::Stopped).then_some(now));
            }
            at += STEP;
        }
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
        events.into_iter().map(|event| Record::new(self.began + now, self.number, event)).collect()
    }
}

/// What each path moved, as what all of them did.
fn whole(records: Vec<Record>) -> impl Iterator<Item = Record> {
    let mut moved: HashMap<String, (u64, u64)> = HashMap::new();
    records.into_iter().map(move |record| match record.event {
        Event::DataCounted(DataCounted { bytes_done, bytes_total }) => {
            moved.insert(record.path, (bytes_done, bytes_total));
            let data = DataCounted {
                bytes_done: moved.values().map(|(done, _)| done).sum(),
                bytes_total: moved.values().map(|(_, total)| total).sum(),
            };
            Record { time: record.time, path: String::new(), event: Event::DataCounted(data) }
        }
        event => Record { event, ..record },
    })
}

fn started(trace: &Trace) -> Option<(f64, &SessionStarted)> {
    last(trace, |event| match event {
        Event::SessionStarted(started) => Some(started),
        _ => None,
    })
}

fn counted(trace: &Trace) -> Option<(f64, &PathCounted)> {
    last(trace, |event| match event {
        Event::PathCounted(counted) => Some(counted),
        _ => None,
    })
}

/// From the first rate on.
fn wishes(trace: &Trace) -> Vec<Wish> {
    let mut wish = Wish { at: Duration::ZERO, rate: None, paused: false };
    let mut wishes = vec![];
    for record in &trace.records {
        match &record.event {
            Event::RateLimit(limit) => wish.rate = limit.new.map(Rate),
            Event::Limit(change) if (change.new == Limit::Paused) != wish.paused => {
                wish.paused = !wish.paused
            }
            _ => continue,
        }
        wish.at = Duration::from_secs_f64(record.time / 1e3);
        wishes.push(wish);
    }
    wishes
}

fn packets_received(trace: &Trace) -> u64 {
    counted(trace).map_or(0, |(_, counted)| counted.packets_received)
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
    use longhaul_cli::trace::RateLimit;

    /// A path that is known, over which so much is moved from then on.
    fn path_of(number: usize, scenario: Scenario, bytes: u64) -> PathLikeness {
        let began = Duration::from_millis(150);
        let protocol = "adaptive".parse().unwrap();
        PathLikeness { number, scenario, bytes, protocol, datagram_len: 1472, began, wishes: vec![] }
    }

    fn scenario(rate_mbit: f64, rtt_ms: f64, loss: f64) -> Scenario {
        Scenario { loss, queue_bdp: Some(1.0), ..Scenario::new(rate_mbit, rtt_ms) }
    }

    /// The trace of a copy in the simulator: all of it is known.
    fn traced(paths: Vec<PathLikeness>) -> Trace {
        let likeness = Likeness { paths, began: Duration::from_millis(150), seconds: 10.0 };
        let mut replayed = likeness.run(3);
        let mtu = Event::Mtu(Change { old: None, new: 1472 });
        replayed.trace.records.insert(1, Record::new(likeness.began, 0, mtu));
        replayed.trace
    }

    fn known(rate_mbit: f64, rtt_ms: f64, loss: f64, bytes: u64) -> Trace {
        traced(vec![path_of(0, scenario(rate_mbit, rtt_ms, loss), bytes)])
    }

    fn assert_like(found: &Scenario, (rate_mbit, rtt_ms, loss): (f64, f64, f64)) {
        assert!((found.bottleneck_mbit / rate_mbit - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.rtt_ms / rtt_ms - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.loss - loss).abs() < 0.003, "{found:?}");
    }

    fn assert_again(likeness: &Likeness) {
        let again = likeness.run(4).seconds.unwrap();
        assert!((again / likeness.seconds - 1.0).abs() < 0.15, "{again} s and {} s", likeness.seconds);
    }

    #[test]
    fn a_path_is_known_again_by_the_trace_of_a_copy_over_it() {
        for (rate, rtt, loss) in [(100.0, 65.0, 0.0), (100.0, 65.0, 0.01), (20.0, 150.0, 0.0)] {
            let trace = known(rate, rtt, loss, 20_000_000);
            let likeness = Likeness::of(&trace).unwrap();
            assert_like(&likeness.paths[0].scenario, (rate, rtt, loss));
            assert!(likeness.bytes() > 19_000_000, "{}", likeness.bytes());
            assert_again(&likeness);
        }
    }

    /// As whoever gets the data sees the same copy.
    fn received(mut trace: Trace) -> Trace {
        trace.header.trace.vantage_point.name = Role::Receiver;
        trace.records.retain(|record| !matches!(record.event, Event::State(_)));
        for record in &mut trace.records {
            match &mut record.event {
                Event::SessionStarted(started) => {
                    (started.role, started.transport) = (Role::Receiver, None);
                }
                Event::PathCounted(counted) => {
                    let PathCounted { packets_received, packets_lost, bytes_received, .. } = *counted;
                    *counted =
                        PathCounted { packets_received, packets_lost, bytes_received, ..Default::default() };
                }
                Event::Recovery(recovery) => {
                    let Recovery { min_rtt, smoothed_rtt, .. } = *recovery;
                    *recovery = Recovery { min_rtt, smoothed_rtt, ..Recovery::default() };
                }
                _ => {}
            }
        }
        trace
    }

    #[test]
    fn who_receives_shows_the_path_too() {
        for (rate, rtt, loss) in [(100.0, 65.0, 0.0), (100.0, 65.0, 0.01)] {
            let likeness = Likeness::of(&received(known(rate, rtt, loss, 20_000_000))).unwrap();
            assert_like(&likeness.paths[0].scenario, (rate, rtt, loss));
            assert_again(&likeness);
        }
    }

    #[test]
    fn what_the_user_asked_for_is_asked_for_again() {
        let at = Duration::from_secs;
        let wish = |second, rate: Option<u64>, paused| Wish { at: at(second), rate: rate.map(Rate), paused };
        let wishes =
            vec![wish(0, Some(10_000_000), false), wish(4, Some(10_000_000), true), wish(7, None, false)];
        let mut path = path_of(0, scenario(100.0, 65.0, 0.0), 20_000_000);
        let mut like = Likeness { paths: vec![path.clone()], began: path.began, seconds: 10.0 };
        let freely = like.run(3).seconds.unwrap();
        path.wishes = wishes.clone();
        like.paths = vec![path];
        let asked = like.run(3).seconds.unwrap();
        assert!(asked > 7.0 && freely < 3.0, "{asked} s and {freely} s");
        let event = |wish: &Wish| {
            let limit = Event::RateLimit(RateLimit { new: wish.rate.map(|rate| rate.0) });
            let pause = if wish.paused { Limit::Paused } else { Limit::Path };
            [
                Record::new(wish.at, 0, limit),
                Record::new(wish.at, 0, Event::Limit(Change { old: None, new: pause })),
            ]
        };
        let trace = Trace { records: wishes.iter().flat_map(event).collect(), ..Trace::empty() };
        assert_eq!(super::wishes(&trace).last(), wishes.last());
        let mut late = known(20.0, 20.0, 0.0, 2_000_000);
        let limit = Event::RateLimit(RateLimit { new: Some(5_000_000) });
        late.records.push(Record::new(at(100), 0, limit));
        let Protocol::Object(flow) = &Likeness::of(&late).unwrap().paths[0].protocol else { unreachable!() };
        assert_eq!(flow.rate_cap, None, "it was asked for later");
        assert!(super::wishes(&trace).contains(&wishes[1]));
    }

    #[test]
    fn each_of_several_paths_is_known_again() {
        let (fast, slow) = ((60.0, 20.0, 0.01), (40.0, 80.0, 0.0));
        let path = |number, (rate, rtt, loss), bytes| path_of(number, scenario(rate, rtt, loss), bytes);
        let trace = traced(vec![path(0, fast, 24_000_000), path(2, slow, 15_000_000)]);
        let likeness = Likeness::of(&trace).unwrap();
        let numbers: Vec<usize> = likeness.paths.iter().map(|path| path.number).collect();
        assert_eq!(numbers, [0, 2], "nothing went over that in the middle");
        assert_like(&likeness.paths[0].scenario, fast);
        assert_like(&likeness.paths[1].scenario, slow);
        assert!((38_000_000..=39_000_000).contains(&likeness.bytes()), "{}", likeness.bytes());
        let share = likeness.paths[0].bytes as f64 / likeness.bytes() as f64;
        assert!((share - 24.0 / 39.0).abs() < 0.02, "{share}");
        assert_again(&likeness);
        let records = likeness.run(4).trace.records;
        let done = records.iter().filter_map(|record| match record.event {
            Event::DataCounted(DataCounted { bytes_done, .. }) => Some(bytes_done),
            _ => None,
        });
        assert!(done.is_sorted(), "what is there becomes more");
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
        let of_others = with(&|trace| trace.header.trace.vantage_point.name = Role::Arranger);
        assert_eq!(of_others, ReplayError::OfOthers);
        assert_eq!(with(&|trace| trace.records.truncate(2)), ReplayError::TooShort("no data moved"));
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
