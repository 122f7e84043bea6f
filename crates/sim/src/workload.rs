//! A whole measurement: hops, traffic over them, and what came of every flow and link.

use crate::counters::Counters;
use crate::flow::{FlowNews, FlowSim, FlowStats};
use crate::ids::{FlowEvent, FlowId, Side};
use crate::link::LinkTotals;
use crate::metrics::{Summary, convergence_time, jain};
use crate::options::Options;
use crate::outcome::{End, Limits, Outcome};
use crate::path::PathConfig;
use crate::queue::Occupancy;
use crate::route::HopId;
use crate::scenario::{InvalidField, Scenario};
use crate::traffic::{Coming, Stream, Traffic};
use longhaul_proto::control::Remembered;
use longhaul_proto::units::{Rate, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

/// What to run and what to measure.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The hops; routes name them by their place here.
    pub hops: Vec<PathConfig>,
    /// The flows.
    pub traffic: Vec<Traffic>,
    /// The run ends here, or earlier when no flow that is not background is left or to come.
    pub until: Time,
    /// Links are measured from here on, and so is what flows deliver [in that time](FlowRecord::measured_bytes).
    pub measure_from: Time,
    /// Note what each flow has delivered at every multiple of this.
    pub sample_every: Option<Duration>,
    /// What is not part of the path; `measure_from` here is overruled by that above.
    pub options: Options,
    /// Everything random about the traffic follows from it.
    pub seed: u64,
}

impl Workload {
    /// Traffic over one path.
    pub fn new(path: PathConfig, traffic: Vec<Traffic>, until: Time) -> Workload {
        Workload {
            hops: vec![path],
            traffic,
            until,
            measure_from: Time::ZERO,
            sample_every: None,
            options: Options::default(),
            seed: 1,
        }
    }

    /// Traffic over the path of a scenario, with the scenario's own behind it.
    pub fn over(
        scenario: &Scenario,
        mut traffic: Vec<Traffic>,
        until: Time,
    ) -> Result<Workload, InvalidField> {
        scenario.validate()?;
        traffic.extend(scenario.cross_traffic()?);
        Ok(Workload { seed: scenario.seed, ..Workload::new(PathConfig::new(scenario), traffic, until) })
    }

    /// Run it.
    pub fn run(&self) -> Measured {
        Runner::new(self).run()
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Every flow that began, in the order of their beginnings.
    pub flows: Vec<FlowRecord>,
    /// Every hop, in the order of the workload.
    pub hops: Vec<HopRecord>,
    /// From the workload's `measure_from` to the end.
    pub span: Duration,
    /// The simulation as a whole.
    pub outcome: Outcome,
}

/// What came of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRecord {
    /// Index of its traffic in the workload.
    pub traffic: usize,
    /// Index of its pair in the traffic.
    pub pair: usize,
    /// Bytes to be moved.
    pub bytes: u64,
    /// When it began (its set-up included).
    pub started: Time,
    /// When its receiver had everything.
    pub delivered: Option<Time>,
    /// When its sender knew.
    pub acknowledged: Option<Time>,
    /// When it was removed: done, cut off or at the end of the run.
    pub ended: Time,
    /// Bytes delivered since the workload's `measure_from`; no more than arrived since then, for what fills a gap delivers what
    /// had come before.
    pub measured_bytes: u64,
    /// What it did.
    pub stats: FlowStats,
    /// What became of its datagrams of data.
    pub wire: Counters,
    /// Number of the sampling interval in which it began: 0 for the first of the run.
    pub first_sample: usize,
    /// Bytes delivered in each sampling interval from that one on.
    pub samples: Vec<u64>,
}

impl FlowRecord {
    /// From its beginning until its receiver had everything, in seconds.
    pub fn response_s(&self) -> Option<f64> {
        self.delivered.map(|at| at.since(self.started).as_secs_f64())
    }

    /// What it delivered over its whole life, in bit/s.
    pub fn goodput(&self) -> f64 {
        let end = self.delivered.unwrap_or(self.ended);
        bits_per_second(self.stats.bytes_delivered, end.since(self.started))
    }
}

/// What came of one hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopRecord {
    /// From left to right.
    pub forward: LinkRecord,
    /// From right to left.
    pub reverse: LinkRecord,
}

/// What came of one direction of a hop while it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRecord {
    /// Its rate in the beginning.
    pub rate: Rate,
    /// What it did.
    pub totals: LinkTotals,
    /// How full its queue was.
    pub queue: Occupancy,
}

impl Measured {
    /// The flows of one traffic.
    pub fn of(&self, traffic: usize) -> impl Iterator<Item = &FlowRecord> + Clone {
        self.flows.iter().filter(move |flow| flow.traffic == traffic)
    }

    /// Response times of the flows of one traffic that were done, in seconds.
    pub fn responses(&self, traffic: usize) -> Summary {
        Summary::of(self.of(traffic).filter_map(FlowRecord::response_s))
    }

    /// What each flow of one traffic delivered while it was measured, in bit/s of that time.
    pub fn goodputs(&self, traffic: usize) -> Vec<f64> {
        self.of(traffic).map(|flow| bits_per_second(flow.measured_bytes, self.span)).collect()
    }

    /// Bits that flows of all traffic delivered while it was measured, as a share of what the first hop could carry.
    /// Headers are not counted as delivered, so that 1 is not quite reached.
    pub fn utilisation(&self) -> f64 {
        let bytes: u64 = self.flows.iter().map(|flow| flow.measured_bytes).sum();
        let rate = self.hops.first().map_or(0, |hop| hop.forward.rate.0);
        if rate == 0 { 0.0 } else { bits_per_second(bytes, self.span) / rate as f64 }
    }

    /// Share of the bytes offered to the first hop, from left to right, that its queue dropped.
    pub fn loss_ratio(&self) -> f64 {
        self.hops.first().map_or(0.0, |hop| hop.forward.totals.loss_ratio())
    }

    /// Packets sent in excess of those required, as a share of them, over the flows of one traffic that were done.
    pub fn waste(&self, traffic: usize) -> f64 {
        let done = self.of(traffic).filter(|flow| flow.acknowledged.is_some());
        let (sent, required) = done
            .fold((0, 0), |sum, flow| (sum.0 + flow.stats.packets_sent, sum.1 + flow.stats.packets_required));
        if required == 0 { 0.0 } else { sent as f64 / required as f64 - 1.0 }
    }

    /// Jain's index over what the flows of one traffic delivered while it was measured.
    pub fn jain(&self, traffic: usize) -> f64 {
        jain(&self.goodputs(traffic))
    }

    /// How long after the last flow of one traffic began Jain's index over the sampling intervals stays at or above
    /// `index` until the first of them ends. `sample_every` is the workload's.
    pub fn convergence(&self, traffic: usize, sample_every: Duration, index: f64) -> Option<Duration> {
        let from = self.of(traffic).map(|flow| flow.first_sample).max()? + 1;
        // the last interval of a flow is not a whole one
        let to =
            self.of(traffic).map(|flow| (flow.first_sample + flow.samples.len()).saturating_sub(1)).min()?;
        let share = |flow: &FlowRecord, window: usize| flow.samples[window - flow.first_sample] as f64;
        let windows: Vec<Vec<f64>> =
            (from..to).map(|window| self.of(traffic).map(|flow| share(flow, window)).collect()).collect();
        convergence_time(&windows, sample_every, index)
    }
}

fn bits_per_second(bytes: u64, span: Duration) -> f64 {
    if span.is_zero() { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() }
}

/// A run under way.
struct Runner<'a> {
    workload: &'a Workload,
    sim: FlowSim,
    streams: Vec<Stream>,
    /// Of which traffic each stream is.
    traffic_of: Vec<usize>,
    /// The next flow of each stream, by time and then by stream.
    coming: BinaryHeap<Reverse<(Time, usize)>>,
    next: Vec<Option<Coming>>,
    live: BTreeMap<FlowId, Live>,
    stops: BTreeSet<(Time, FlowId)>,
    done: Vec<(FlowId, FlowRecord)>,
    /// What the last flow of a traffic between two hosts learnt.
    memory: BTreeMap<(usize, usize), Remembered>,
    /// Flows that are not background, there or to come, that the run waits for.
    awaited: usize,
    baseline: Vec<[LinkTotals; 2]>,
    is_measuring: bool,
    next_sample: usize,
}

/// A flow that is there.
struct Live {
    record: FlowRecord,
    stop: Option<Time>,
    /// Where it came from.
    stream: usize,
    from: Side,
    /// Bytes delivered at the last sample.
    sampled: u64,
    /// Bytes delivered, and arrived, when measuring began.
    baseline: [u64; 2],
    is_background: bool,
}

/// What happens next that is not the simulation's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Measure,
    Sample,
    Stop,
    Arrive,
    End,
}

impl<'a> Runner<'a> {
    fn new(workload: &'a Workload) -> Runner<'a> {
        let options = Options { measure_from: workload.measure_from, ..workload.options };
        let [first, others @ ..] = workload.hops.as_slice() else { panic!("a workload needs a hop") };
        let mut sim = FlowSim::with_path(first.clone(), options);
        others.iter().for_each(|hop| {
            sim.add_hop(hop);
        });
        let mut runner = Runner {
            workload,
            sim,
            streams: Vec::new(),
            traffic_of: Vec::new(),
            coming: BinaryHeap::new(),
            next: Vec::new(),
            live: BTreeMap::new(),
            stops: BTreeSet::new(),
            done: Vec::new(),
            memory: BTreeMap::new(),
            awaited: 0,
            baseline: vec![Default::default(); workload.hops.len()],
            is_measuring: false,
            next_sample: 1,
        };
        for (index, traffic) in workload.traffic.iter().enumerate() {
            for stream in traffic.streams(Traffic::seed(workload.seed, index)) {
                runner.traffic_of.push(index);
                runner.streams.push(stream);
                runner.next.push(None);
                runner.draw(runner.streams.len() - 1);
            }
        }
        runner
    }

    /// The next flow of a stream takes its place among those to come.
    fn draw(&mut self, stream: usize) {
        let coming = self.streams[stream].next().filter(|coming| coming.at < self.workload.until);
        if let Some(coming) = &coming {
            self.coming.push(Reverse((coming.at, stream)));
            self.awaited += usize::from(!self.traffic(stream).is_background);
        }
        self.next[stream] = coming;
    }

    fn traffic(&self, stream: usize) -> &'a Traffic {
        &self.workload.traffic[self.traffic_of[stream]]
    }

    fn run(mut self) -> Measured {
        let mut end = End::Stopped;
        while self.awaited > 0 {
            let (time, action) = self.next_action();
            let limits = Limits { time, ..Limits::default() };
            match self.sim.run(limits, |sim| !sim.events().is_empty()) {
                End::Stopped => self.take_news(),
                End::EventLimit => {
                    end = End::EventLimit;
                    break;
                }
                End::TimeLimit | End::Idle => match action {
                    Action::Measure => self.begin_measuring(),
                    Action::Sample => self.sample(),
                    Action::Stop => self.stop_next(),
                    Action::Arrive => self.arrive(time),
                    Action::End => {
                        end = End::TimeLimit;
                        break;
                    }
                },
            }
        }
        self.finish(end)
    }

    fn next_action(&self) -> (Time, Action) {
        let sample =
            self.workload.sample_every.map(|every| (sample_time(every, self.next_sample), Action::Sample));
        let measure = (!self.is_measuring).then_some((self.workload.measure_from, Action::Measure));
        let stop = self.stops.first().map(|(at, _)| (*at, Action::Stop));
        let arrive = self.coming.peek().map(|Reverse((at, _))| (*at, Action::Arrive));
        let end = Some((self.workload.until, Action::End));
        [sample, measure, stop, arrive, end].into_iter().flatten().min().unwrap_or((Time::MAX, Action::End))
    }

    fn arrive(&mut self, now: Time) {
        let Some(Reverse((_, stream))) = self.coming.pop() else { return };
        let Some(coming) = self.next[stream].take() else { return };
        let traffic = self.traffic(stream);
        let placement = traffic.pairs.get(coming.pair).cloned().unwrap_or_default().at(now);
        let mut spec = coming.spec.clone();
        if traffic.remembers {
            spec.remember(self.memory.get(&(self.traffic_of[stream], coming.pair)).copied());
        }
        let id = self.sim.add(&spec, &placement);
        let first_sample = self.next_sample - 1;
        let record = FlowRecord {
            traffic: self.traffic_of[stream],
            pair: coming.pair,
            bytes: coming.spec.bytes,
            started: now,
            delivered: None,
            acknowledged: None,
            ended: now,
            measured_bytes: 0,
            stats: FlowStats::default(),
            wire: Counters::default(),
            first_sample,
            samples: Vec::new(),
        };
        let live = Live {
            record,
            stop: coming.stop,
            stream,
            from: coming.spec.from,
            sampled: 0,
            baseline: [0; 2],
            is_background: traffic.is_background,
        };
        self.stops.extend(coming.stop.map(|at| (at, id)));
        self.live.insert(id, live);
        // the flow that came is awaited in place of the one that was to come
        if !self.streams[stream].is_chained() {
            self.draw(stream);
        }
    }

    fn take_news(&mut self) {
        let now = self.sim.now();
        let news: Vec<(FlowId, FlowNews)> = self
            .sim
            .events()
            .iter()
            .map(|event| match event {
                FlowEvent::Left(id, news) | FlowEvent::Right(id, news) => (*id, *news),
            })
            .collect();
        for (id, news) in news {
            let Some(live) = self.live.get_mut(&id) else { continue };
            match news {
                FlowNews::Connected => {}
                FlowNews::Delivered => live.record.delivered = Some(now),
                FlowNews::Acknowledged => {
                    live.record.acknowledged = Some(now);
                    self.end_flow(id, now);
                }
            }
        }
    }

    fn stop_next(&mut self) {
        if let Some((at, id)) = self.stops.pop_first() {
            self.end_flow(id, at);
        }
    }

    /// Take a flow out and keep its record.
    fn end_flow(&mut self, id: FlowId, now: Time) {
        let Some(mut live) = self.live.remove(&id) else { return };
        self.stops.remove(&(live.stop.unwrap_or_default(), id));
        let stats = self.sim.stats(id);
        if let Some(learnt) = self.sim.left(id).learnt().or(self.sim.right(id).learnt()) {
            self.memory.insert((live.record.traffic, live.record.pair), learnt);
        }
        live.record.ended = now;
        live.record.stats = stats;
        live.record.wire = self.sim.flow_counters(id, live.from);
        let [delivered, arrived] = live.baseline;
        let measured = (stats.bytes_delivered - delivered).min(stats.bytes_arrived - arrived);
        live.record.measured_bytes = if self.is_measuring { measured } else { 0 };
        if self.workload.sample_every.is_some() {
            live.record.samples.push(stats.bytes_delivered - live.sampled);
        }
        self.sim.remove_flow(id);
        self.awaited -= usize::from(!live.is_background);
        self.done.push((id, live.record));
        if self.streams[live.stream].is_chained() {
            self.streams[live.stream].on_end(now);
            self.draw(live.stream);
        }
    }

    fn begin_measuring(&mut self) {
        self.is_measuring = true;
        for (id, live) in &mut self.live {
            let stats = self.sim.stats(*id);
            live.baseline = [stats.bytes_delivered, stats.bytes_arrived];
        }
        self.baseline = self.totals();
    }

    fn totals(&mut self) -> Vec<[LinkTotals; 2]> {
        let hops: Vec<HopId> = self.sim.hops().collect();
        hops.into_iter().map(|hop| Side::BOTH.map(|side| self.sim.link_totals(hop, side))).collect()
    }

    fn sample(&mut self) {
        for (id, live) in &mut self.live {
            let delivered = self.sim.stats(*id).bytes_delivered;
            live.record.samples.push(delivered - live.sampled);
            live.sampled = delivered;
        }
        self.next_sample += 1;
    }

    fn finish(mut self, end: End) -> Measured {
        let now = if end == End::TimeLimit { self.workload.until } else { self.sim.now() };
        let outcome = self.sim.outcome(end);
        let totals = self.totals();
        let left: Vec<FlowId> = self.live.keys().copied().collect();
        left.into_iter().for_each(|id| self.end_flow(id, now));
        let mut hops = Vec::new();
        for (index, hop) in self.workload.hops.iter().enumerate() {
            let mut record = |side: Side, rate: Rate| LinkRecord {
                rate,
                totals: totals[index][side.index()].since(&self.baseline[index][side.index()]),
                queue: self.sim.occupancy(HopId(index as u32), side),
            };
            hops.push(HopRecord {
                forward: record(Side::Left, hop.forward.rate),
                reverse: record(Side::Right, hop.reverse.rate),
            });
        }
        self.done.sort_by_key(|(id, _)| id.serial());
        Measured {
            flows: self.done.into_iter().map(|(_, record)| record).collect(),
            hops,
            span: now.since(self.workload.measure_from),
            outcome,
        }
    }
}

fn sample_time(every: Duration, number: usize) -> Time {
    Time::ZERO + every * number as u32
}
