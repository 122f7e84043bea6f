//! The figures of a trace as curves over time.

use super::read::Trace;
use crate::report::{TimedCurves, Unit};
use longhaul_cli::trace::{Event, PathCounted, Recovery};
use std::collections::VecDeque;

/// All of them, in the order in which they are shown.
pub(super) fn curves(trace: &Trace) -> Vec<TimedCurves> {
    let mut gathering = Gathering::new(trace);
    for record in &trace.records {
        let (at, path) = (record.time / 1e3, record.path.parse().unwrap_or(0));
        match &record.event {
            Event::SessionStarted(_) => gathering.begin_anew(at),
            Event::PathCounted(counted) => gathering.counted(at, path, counted),
            Event::Recovery(recovery) => gathering.measured(at, path, recovery),
            Event::DataCounted(data) => gathering.data.push(Lines::THERE, at, data.bytes_done as f64),
            _ => {}
        }
    }
    let Gathering { rates, round_trips, queues, losses, on_the_way, data, .. } = gathering;
    let all = [
        ("Rate", Unit::Mbps, rates),
        ("Round trip", Unit::Millis, round_trips),
        ("Queue", Unit::Millis, queues),
        ("Loss", Unit::Share, losses),
        ("On its way", Unit::Bytes, on_the_way),
        ("Data", Unit::Bytes, data),
    ];
    all.into_iter().map(|(name, unit, lines)| TimedCurves { name, unit, series: lines.0 }).collect()
}

/// Series by name, in the order in which they appear.
#[derive(Default)]
pub(super) struct Lines(Vec<(String, Vec<(f64, f64)>)>);

impl Lines {
    /// Of rates.
    pub(super) const DELIVERED: &str = "delivered";
    /// Of round trips.
    pub(super) const SMOOTHED: &str = "smoothed";
    pub(super) const SHORTEST: &str = "shortest";
    /// Of queues, as round trips show them.
    pub(super) const QUEUE: &str = "smoothed round trip less the shortest";
    /// Of losses.
    pub(super) const LOST: &str = "lost";
    /// Of bytes.
    pub(super) const ON_ITS_WAY: &str = "on its way";
    pub(super) const THERE: &str = "there";

    fn push(&mut self, name: &str, at: f64, value: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push((at, value)),
            None => self.0.push((name.to_owned(), vec![(at, value)])),
        }
    }

    /// What comes does not go on from what was.
    fn cut(&mut self, at: f64) {
        self.0.iter_mut().for_each(|(_, points)| points.push((at, f64::NAN)));
    }
}

struct Gathering {
    /// Rates are over so long at least, so that they can be told from noise.
    span_min_s: f64,
    paths: Vec<Path>,
    rates: Lines,
    round_trips: Lines,
    queues: Lines,
    losses: Lines,
    on_the_way: Lines,
    data: Lines,
}

/// What is known of a path.
struct Path {
    /// Before the names of its series.
    prefix: String,
    rtt_s: f64,
    counts: VecDeque<(f64, PathCounted)>,
}

impl Gathering {
    fn new(trace: &Trace) -> Gathering {
        let number = trace.paths();
        let path = |path: usize| Path {
            prefix: if number == 1 { String::new() } else { format!("path {}: ", path + 1) },
            rtt_s: 0.0,
            counts: VecDeque::new(),
        };
        Gathering {
            span_min_s: (trace.end_s() / SPANS_MAX).max(SPAN_MIN_S),
            paths: (0..number).map(path).collect(),
            rates: Lines::default(),
            round_trips: Lines::default(),
            queues: Lines::default(),
            losses: Lines::default(),
            on_the_way: Lines::default(),
            data: Lines::default(),
        }
    }

    fn begin_anew(&mut self, at: f64) {
        self.paths.iter_mut().for_each(|path| path.counts.clear());
        let all = [
            &mut self.rates,
            &mut self.round_trips,
            &mut self.queues,
            &mut self.losses,
            &mut self.on_the_way,
            &mut self.data,
        ];
        all.into_iter().for_each(|lines| lines.cut(at));
    }

    fn counted(&mut self, at: f64, path: usize, counted: &PathCounted) {
        let path = &mut self.paths[path];
        let span = self.span_min_s.max(path.rtt_s);
        // The newest that is old enough, and what is newer.
        while path.counts.get(1).is_some_and(|(newer, _)| at - newer >= span) {
            path.counts.pop_front();
        }
        let named = |what: &str| format!("{}{what}", path.prefix);
        if let Some((since, before)) = path.counts.front().filter(|(since, _)| at > *since) {
            let mbps = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8e-6 / (at - since);
            if let (Some(now), Some(before)) = (counted.bytes_sent, before.bytes_sent) {
                self.rates.push(&named("sent"), at, mbps(now, before));
            }
            let delivered = mbps(counted.bytes_received, before.bytes_received);
            self.rates.push(&named(Lines::DELIVERED), at, delivered);
            let lost = counted.packets_lost.saturating_sub(before.packets_lost) as f64;
            let received = counted.packets_received.saturating_sub(before.packets_received) as f64;
            if lost + received > 0.0 {
                self.losses.push(&named(Lines::LOST), at, 100.0 * lost / (lost + received));
            }
        }
        if let Some(ms) = counted.queue_delay.filter(is_sane_ms) {
            self.queues.push(&named("as the controller sees it"), at, ms);
        }
        path.counts.push_back((at, counted.clone()));
    }

    fn measured(&mut self, at: f64, path: usize, recovery: &Recovery) {
        let path = &mut self.paths[path];
        let named = |what: &str| format!("{}{what}", path.prefix);
        let rtts = [
            ("latest", recovery.latest_rtt),
            (Lines::SMOOTHED, recovery.smoothed_rtt),
            (Lines::SHORTEST, recovery.min_rtt),
        ];
        for (name, ms) in rtts {
            let Some(ms) = ms.filter(is_sane_ms) else { continue };
            self.round_trips.push(&named(name), at, ms);
        }
        if let (Some(smoothed), Some(least)) =
            (recovery.smoothed_rtt.filter(is_sane_ms), recovery.min_rtt.filter(is_sane_ms))
        {
            self.queues.push(&named(Lines::QUEUE), at, (smoothed - least).max(0.0));
        }
        if let Some(rate) = recovery.pacing_rate {
            self.rates.push(&named("paced at"), at, rate as f64 / 1e6);
        }
        if let Some(bytes) = recovery.bytes_in_flight {
            self.on_the_way.push(&named(Lines::ON_ITS_WAY), at, bytes as f64);
        }
        if let Some(bytes) = recovery.congestion_window {
            self.on_the_way.push(&named("allowed"), at, bytes as f64);
        }
        path.rtt_s = recovery.smoothed_rtt.filter(is_sane_ms).map_or(path.rtt_s, |ms| ms / 1e3);
    }
}

/// Up to an hour; a file may say anything.
fn is_sane_ms(ms: &f64) -> bool {
    (0.0..=3.6e6).contains(ms)
}

const SPAN_MIN_S: f64 = 0.1;
/// Rates of so many spans can be told apart in a picture.
const SPANS_MAX: f64 = 400.0;

#[cfg(test)]
mod tests {
    use super::super::read::tests::written;
    use super::*;
    use longhaul_cli::trace::{Role, SessionStarted};

    fn counted(packets: u64, lost: u64) -> Event {
        Event::PathCounted(PathCounted {
            packets_sent: Some(packets),
            bytes_sent: Some(packets * 1250),
            packets_received: packets - lost,
            packets_lost: lost,
            bytes_received: (packets - lost) * 1250,
            ..PathCounted::default()
        })
    }

    #[test]
    fn rates_and_losses_are_those_of_the_time_between() {
        // 100 packets of 10 kbit each 50 ms are 20 Mb/s; from the middle on a tenth is lost.
        let events = (0..100u64).map(|at| (0, counted(100 * at, (at.max(50) - 50) * 10)));
        let trace = Trace::parse(&written(events)).unwrap();
        let all = curves(&trace);
        let last = |name: &str, series: &str| {
            let found = all.iter().find(|one| one.name == name).unwrap();
            let (_, points) = found.series.iter().find(|(known, _)| known == series).unwrap();
            points[points.len() - 1].1
        };
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-6, "{value}");
        near(last("Rate", "sent"), 20.0);
        near(last("Rate", "delivered"), 18.0);
        near(last("Loss", "lost"), 10.0);
    }

    #[test]
    fn a_session_that_begins_anew_counts_from_nothing() {
        let started = SessionStarted {
            role: Role::Sender,
            control: "adaptive".into(),
            select: "circular".into(),
            transport: None,
        };
        let again = (0..10).map(|at| (1, counted(100 * at, 0)));
        let events = (0..10)
            .map(|at| (1, counted(100 * at, 0)))
            .chain([(0, Event::SessionStarted(started))])
            .chain(again)
            .collect::<Vec<_>>();
        let all = curves(&Trace::parse(&written(events)).unwrap());
        let (name, points) = &all[0].series[0];
        assert_eq!(name, "path 2: sent");
        assert!(points.iter().all(|(_, mbps)| mbps.is_nan() || (mbps - 20.0).abs() < 1e-6), "{points:?}");
        assert_eq!(points.iter().filter(|(_, mbps)| mbps.is_nan()).count(), 1);
    }
}
