//! How flows share a bottleneck: with their like, beside TCP, and behind it.

use super::single::payload_rate;
use super::{Claim, Column, Experiment, Findings, Options, Plot, Scale, Statement, Table, Unit, run_jobs};
use crate::flow::{FlowSpec, ObjectFlow, Protocol, TcpFlow};
use crate::metrics::{Summary, jain};
use crate::scenario::Scenario;
use crate::trace::TraceMode;
use crate::traffic::{Arrivals, Pair, Traffic};
use crate::workload::Workload;
use fastrand::Rng;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use std::time::Duration;

pub(super) const FAIRNESS: Experiment = Experiment {
    id: "fairness",
    title: "adaptive with itself, beside CUBIC and BBR, and in the background",
    claims: &[ALIKE, RTTS, CUBIC_KEEPS, OURS_KEEPS, BEHIND, FILLS],
    takes_contestants: false,
    simulate: fairness,
};

const ALIKE: Claim = Claim::ours("2, 4 and 8 adaptive flows share a path with a Jain index of at least 0.95");
const RTTS: Claim =
    Claim::ours("with half of them at four times the others' round trip the index is at least 0.85");
const CUBIC_KEEPS: Claim = Claim::ours("one CUBIC beside one adaptive keeps at least 40 % of the link");
const OURS_KEEPS: Claim = Claim::ours("the adaptive flow beside it keeps at least 30 %");
const BEHIND: Claim =
    Claim::ours("CUBIC beside a background flow keeps at least 90 % of what it has by itself");
const FILLS: Claim = Claim::ours("a background flow by itself fills at least 90 % of the link");

/// How long runs are, and how many.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Flows are measured from here …
    from: Time,
    /// … to here.
    until: Time,
    /// Between the beginnings of flows of a kind that share the path among themselves.
    gap: Duration,
    /// Each meeting takes place with so many seeds, which decide when in a gap a flow begins.
    seeds: u64,
}

impl Extent {
    fn of(scale: Scale) -> Extent {
        let minute =
            Extent { from: at_s(30), until: at_s(60), gap: Duration::from_secs(2), seeds: SEEDS_FULL };
        scale.pick(
            minute,
            Extent { seeds: 1, ..minute },
            Extent {
                from: Time::from_millis(400),
                until: Time::from_millis(800),
                gap: Duration::from_millis(40),
                seeds: 1,
            },
        )
    }
}

/// Flows that share a path.
#[derive(Clone, Debug)]
struct Meeting {
    ours: Vec<Member>,
    rivals: Vec<Member>,
    rival: &'static str,
}

#[derive(Clone, Debug)]
struct Member {
    protocol: Protocol,
    /// Its first packet comes so many gaps, and a part of one by chance, after the beginning.
    gaps: u32,
    access_delay: Duration,
}

impl Member {
    fn new(protocol: Protocol) -> Member {
        Member { protocol, gaps: 0, access_delay: Duration::ZERO }
    }
}

/// What came of a meeting with one seed: shares of what the link carries.
#[derive(Clone, Debug)]
struct Shares {
    ours: Vec<f64>,
    rivals: Vec<f64>,
    queue_bdp: f64,
}

/// A figure of the meetings with all seeds.
fn over_seeds(shares: &[Shares], figure: impl Fn(&Shares) -> f64) -> Summary {
    Summary::of(shares.iter().map(figure))
}

fn ours_share(shares: &Shares) -> f64 {
    shares.ours.iter().sum()
}

fn rivals_share(shares: &Shares) -> f64 {
    shares.rivals.iter().sum()
}

impl Meeting {
    fn of(ours: Vec<Member>) -> Meeting {
        Meeting { ours, rivals: Vec::new(), rival: "" }
    }

    /// `count` adaptive flows, every other one with a longer way.
    fn alike(count: u32, longer: Duration) -> Meeting {
        let member = |n: u32| Member {
            gaps: n,
            access_delay: if n % 2 == 1 { longer } else { Duration::ZERO },
            ..Member::new(object(ControllerKind::Adaptive))
        };
        Meeting::of((0..count).map(member).collect())
    }

    /// One flow of ours and `count` of a TCP.
    fn beside(ours: Protocol, rival: Rival, count: usize) -> Meeting {
        let rivals = vec![Member::new(Protocol::Tcp(TcpFlow::new(rival.control))); count];
        Meeting { rivals, rival: rival.name, ..Meeting::of(vec![Member::new(ours)]) }
    }

    fn run(&self, extent: Extent, seed: u64) -> Shares {
        let scenario = Scenario { seed, ..path() };
        let limit = payload_rate(&scenario);
        let mut rng = Rng::with_seed(seed);
        let members = self.ours.iter().chain(&self.rivals);
        let traffic = members.map(|member| {
            let at = Time::ZERO + extent.gap * member.gaps + extent.gap.mul_f64(rng.f64());
            // twice what fits into the run, so that nobody is done before its end
            let bytes = limit.bytes_in(extent.until.since(Time::ZERO)) * 2;
            let spec = FlowSpec::new(member.protocol.clone(), bytes);
            let pairs = vec![Pair { access_delay: member.access_delay, ..Pair::default() }];
            Traffic { pairs, ..Traffic::new(spec, Arrivals::Together { at, count: 1 }) }
        });
        let mut workload =
            Workload::over(&scenario, traffic.collect(), extent.until).expect("the path is a sound one");
        workload.measure_from = extent.from;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let all = self.ours.len() + self.rivals.len();
        let mut shares: Vec<f64> =
            (0..all).map(|index| measured.goodputs(index).iter().sum::<f64>() / limit.0 as f64).collect();
        let rivals = shares.split_off(self.ours.len());
        let queue_bdp = measured.hops[0].forward.queue.mean_bytes / scenario.bdp_bytes() as f64;
        Shares { ours: shares, rivals, queue_bdp }
    }
}

/// Meetings of a table, and what came of each with every seed.
struct Part {
    meetings: Vec<Meeting>,
    shares: Vec<Vec<Shares>>,
}

fn fairness(options: &Options<'_>) -> Findings {
    let extent = Extent::of(options.scale);
    let parts = [alike_meetings(), beside_meetings(options.scale), background_meetings()];
    let jobs: Vec<(&Meeting, u64)> = parts
        .iter()
        .flatten()
        .flat_map(|meeting| (0..extent.seeds).map(move |nth| (meeting, options.seed + nth)))
        .collect();
    let shares = run_jobs(options, &jobs, |(meeting, seed)| meeting.run(extent, *seed));
    let mut by_meeting = shares.chunks(extent.seeds as usize).map(<[Shares]>::to_vec);
    let [alike, beside, background] = parts.map(|meetings| {
        let shares = by_meeting.by_ref().take(meetings.len()).collect();
        Part { meetings, shares }
    });
    Findings {
        method: vec![
            format!(
                "{RATE_MBIT} Mb/s, {RTT_MS} ms, a drop-tail queue of one bandwidth-delay product. What each flow \
                 delivers from {:.0} s to {:.0} s, as a share of what the link carries of object bytes (1434 of each \
                 1500; TCP's headers are shorter). {} run(s) of each; worst: of these.",
                extent.from.as_secs_f64(),
                extent.until.as_secs_f64(),
                extent.seeds
            ),
            format!(
                "Flows with their like begin {} s apart, with rivals all within that time; chance decides the rest. A \
                 round trip is four times the others' by a longer way to the link.",
                extent.gap.as_secs_f64()
            ),
        ],
        tables: vec![alike.alike_table(), beside.beside_table(), background.background_table()],
        statements: [alike.judge_alike(), beside.judge_beside(), background.judge_background()].concat(),
    }
}

fn alike_meetings() -> Vec<Meeting> {
    let longer = [Duration::ZERO, LONGER];
    longer.iter().flat_map(|longer| COUNTS.map(|count| Meeting::alike(count, *longer))).collect()
}

fn beside_meetings(scale: Scale) -> Vec<Meeting> {
    let counts: &[usize] = scale.pick(&[1, 4, 16], &[1, 4], &[1]);
    let mut meetings = Vec::new();
    for rival in [CUBIC, BBR] {
        for &count in counts {
            meetings.extend(OURS.map(|control| Meeting::beside(object(control), rival, count)));
        }
    }
    meetings
}

/// CUBIC by itself, beside each, and each by itself.
fn background_meetings() -> Vec<Meeting> {
    let cubic = Protocol::Tcp(TcpFlow::new(CUBIC.control));
    let yielding = YIELDING.map(|control| Protocol::Object(ObjectFlow { background: true, ..flow(control) }));
    let alone = std::iter::once(cubic).chain(yielding.clone());
    let alone = alone.map(|protocol| Meeting::of(vec![Member::new(protocol)]));
    alone.chain(yielding.map(|protocol| Meeting::beside(protocol, CUBIC, 1))).collect()
}

impl Part {
    fn rows(&self) -> impl Iterator<Item = (&Meeting, &[Shares])> {
        self.meetings.iter().zip(self.shares.iter().map(Vec::as_slice))
    }

    fn alike_table(&self) -> Table {
        let columns = vec![
            Column::new("flows", Unit::Number),
            Column::text("round trips"),
            Column::new("Jain index, mean", Unit::Number),
            Column::new("worst", Unit::Number),
            Column::new("least flow", Unit::Share),
            Column::new("most", Unit::Share),
            Column::new("together", Unit::Share),
            Column::new("queue", Unit::Bdp),
        ];
        let mut table = Table::new("alike", "Adaptive flows among themselves", columns)
            .plot(Plot::lines("flows", &["Jain index, mean"]).by("round trips"));
        for (meeting, shares) in self.rows() {
            let index = over_seeds(shares, |shares| jain(&shares.ours));
            let flows = Summary::of(shares.iter().flat_map(|shares| shares.ours.iter().copied()));
            table.push(vec![
                meeting.ours.len().into(),
                if meeting.is_of_equals() { "equal" } else { "1 : 4" }.into(),
                index.mean.into(),
                index.min.into(),
                flows.min.into(),
                flows.max.into(),
                over_seeds(shares, ours_share).mean.into(),
                over_seeds(shares, |shares| shares.queue_bdp).mean.into(),
            ]);
        }
        table
    }

    fn beside_table(&self) -> Table {
        let columns = vec![
            Column::text("one flow"),
            Column::text("beside"),
            Column::new("its share", Unit::Share),
            Column::new("worst", Unit::Share),
            Column::new("the others' share", Unit::Share),
            Column::new("their worst", Unit::Share),
            Column::new("of an even share", Unit::Times),
            Column::new("queue", Unit::Bdp),
        ];
        let mut table = Table::new("beside", "One flow beside TCPs", columns)
            .plot(Plot::bars("beside", &["of an even share"]).by("one flow"));
        for (meeting, shares) in self.rows() {
            let (ours, rivals) = (over_seeds(shares, ours_share), over_seeds(shares, rivals_share));
            table.push(vec![
                meeting.ours[0].protocol.to_string().into(),
                format!("{} {}", meeting.rivals.len(), meeting.rival).into(),
                ours.mean.into(),
                ours.min.into(),
                rivals.mean.into(),
                rivals.min.into(),
                (ours.mean * (meeting.rivals.len() + 1) as f64).into(),
                over_seeds(shares, |shares| shares.queue_bdp).mean.into(),
            ]);
        }
        table
    }

    fn background_table(&self) -> Table {
        let columns = vec![
            Column::text("flow in the background"),
            Column::new("share by itself", Unit::Share),
            Column::new("beside CUBIC", Unit::Share),
            Column::new("CUBIC's share", Unit::Share),
            Column::new("of CUBIC by itself", Unit::Share),
            Column::new("worst", Unit::Share),
        ];
        let mut table = Table::new("background", "Behind CUBIC", columns).plot(Plot::bars(
            "flow in the background",
            &["share by itself", "beside CUBIC", "of CUBIC by itself"],
        ));
        for (nth, control) in YIELDING.iter().enumerate() {
            let beside = self.beside_cubic(nth);
            let kept = self.kept(nth);
            table.push(vec![
                control.name().into(),
                over_seeds(self.alone(nth), ours_share).mean.into(),
                over_seeds(beside, ours_share).mean.into(),
                over_seeds(beside, rivals_share).mean.into(),
                kept.mean.into(),
                kept.min.into(),
            ]);
        }
        table
    }

    /// The `nth` of those that yield, by itself.
    fn alone(&self, nth: usize) -> &[Shares] {
        &self.shares[1 + nth]
    }

    fn beside_cubic(&self, nth: usize) -> &[Shares] {
        &self.shares[1 + YIELDING.len() + nth]
    }

    /// What CUBIC has beside the `nth`, of what it has by itself.
    fn kept(&self, nth: usize) -> Summary {
        let alone = over_seeds(&self.shares[0], ours_share).mean;
        over_seeds(self.beside_cubic(nth), |shares| rivals_share(shares) / alone)
    }

    fn judge_alike(&self) -> Vec<Statement> {
        let judge = |claim: Claim, bar: f64, equals: bool| {
            let rows = self.rows().filter(|(meeting, _)| meeting.is_of_equals() == equals);
            let worst: Vec<(usize, f64)> = rows
                .map(|(meeting, shares)| {
                    (meeting.ours.len(), over_seeds(shares, |shares| jain(&shares.ours)).min)
                })
                .collect();
            let figures: Vec<String> =
                worst.iter().map(|(count, index)| format!("{index:.3} with {count}")).collect();
            claim.judge(worst.iter().all(|(_, index)| *index >= bar), figures.join(", "))
        };
        vec![judge(ALIKE, JAIN_ALIKE, true), judge(RTTS, JAIN_RTTS, false)]
    }

    fn judge_beside(&self) -> Vec<Statement> {
        // the first meeting is that of one adaptive and one CUBIC
        let shares = self.shares[0].as_slice();
        let judge = |claim: Claim, bar: f64, share: fn(&Shares) -> f64| {
            let share = over_seeds(shares, share);
            claim.judge(share.min >= bar, percent(share.mean, share.min))
        };
        vec![judge(CUBIC_KEEPS, 0.4, rivals_share), judge(OURS_KEEPS, 0.3, ours_share)]
    }

    fn judge_background(&self) -> Vec<Statement> {
        let (kept, alone) = (self.kept(0), over_seeds(self.alone(0), ours_share));
        vec![
            BEHIND.judge(kept.min >= 0.9, percent(kept.mean, kept.min)),
            FILLS.judge(alone.min >= 0.9, percent(alone.mean, alone.min)),
        ]
    }
}

impl Meeting {
    fn is_of_equals(&self) -> bool {
        self.ours.iter().all(|member| member.access_delay.is_zero())
    }
}

/// A TCP that others meet.
#[derive(Clone, Copy, Debug)]
struct Rival {
    name: &'static str,
    control: ControllerKind,
}

fn percent(mean: f64, worst: f64) -> String {
    format!("{:.1} % in the mean, {:.1} % at worst", mean * 100.0, worst * 100.0)
}

fn flow(control: ControllerKind) -> ObjectFlow {
    ObjectFlow::new(control)
}

fn object(control: ControllerKind) -> Protocol {
    Protocol::Object(flow(control))
}

fn path() -> Scenario {
    Scenario { queue_bdp: Some(1.0), ..Scenario::new(RATE_MBIT, RTT_MS) }
}

fn at_s(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

const RATE_MBIT: f64 = 100.0;
const RTT_MS: f64 = 40.0;
/// Each way: 160 ms instead of 40 ms there and back.
const LONGER: Duration = Duration::from_millis(60);
const COUNTS: [u32; 3] = [2, 4, 8];
const SEEDS_FULL: u64 = 5;
const CUBIC: Rival = Rival { name: "CUBIC", control: ControllerKind::Cubic };
const BBR: Rival = Rival { name: "BBR", control: ControllerKind::Bbr };
/// Ours, and others for comparison.
const OURS: [ControllerKind; 5] = [
    ControllerKind::Adaptive,
    ControllerKind::Pcp,
    ControllerKind::Udt,
    ControllerKind::Ledbat,
    ControllerKind::Cubic,
];
/// Those that can be told to yield: ours, and LEDBAT for comparison.
const YIELDING: [ControllerKind; 2] = [ControllerKind::Adaptive, ControllerKind::Ledbat];
const JAIN_ALIKE: f64 = 0.95;
const JAIN_RTTS: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn shares(ours: &[f64], rivals: &[f64]) -> Vec<Shares> {
        vec![Shares { ours: ours.into(), rivals: rivals.into(), queue_bdp: 0.5 }]
    }

    #[test]
    fn cubic_is_judged_by_what_it_has_by_itself() {
        let judge = |kept: f64| {
            let alone = [shares(&[0.9], &[]), shares(&[0.89], &[]), shares(&[1.0], &[])];
            let beside = [shares(&[0.1], &[kept]), shares(&[0.5], &[0.5])];
            let part =
                Part { meetings: background_meetings(), shares: alone.into_iter().chain(beside).collect() };
            part.judge_background().iter().map(|statement| statement.verdict).collect::<Vec<_>>()
        };
        assert_eq!(judge(0.82), [Verdict::Met, Verdict::NotMet]);
        assert_eq!(judge(0.80), [Verdict::NotMet, Verdict::NotMet]);
    }

    #[test]
    fn one_unfair_meeting_is_enough() {
        let fair = shares(&[0.5, 0.5], &[]);
        let judge = |unfair: usize| {
            let mut part = Part { meetings: alike_meetings(), shares: vec![fair.clone(); 6] };
            part.shares[unfair] = shares(&[0.9, 0.1], &[]);
            part.judge_alike().iter().map(|statement| statement.verdict).collect::<Vec<_>>()
        };
        assert_eq!(judge(2), [Verdict::NotMet, Verdict::Met]);
        assert_eq!(judge(3), [Verdict::Met, Verdict::NotMet]);
    }
}
