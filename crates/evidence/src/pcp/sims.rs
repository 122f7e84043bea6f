//! Figures 4 to 11: response times on a shared link, against one thing that varies.

use super::dumbbell::{Dumbbell, Length, Point, Sample, SenderKind};
use super::{TCP_SACK, verdicts};
use crate::experiment::Experiment;
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use crate::sim::{Options, run_jobs};
use longhaul_sim::queue::QueueDiscipline;

/// In the paper's order.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment::simulated("pcp-sim4", FIGURE_4.title, FIGURE_4.claims, |options| FIGURE_4.run(options)),
    Experiment::simulated("pcp-sim5", FIGURE_5.title, FIGURE_5.claims, |options| FIGURE_5.run(options)),
    Experiment::simulated("pcp-sim6", FIGURE_6.title, FIGURE_6.claims, |options| FIGURE_6.run(options)),
    Experiment::simulated("pcp-sim7", FIGURE_7.title, FIGURE_7.claims, |options| FIGURE_7.run(options)),
    Experiment::simulated("pcp-sim8", FIGURE_8.title, FIGURE_8.claims, |options| FIGURE_8.run(options)),
    Experiment::simulated("pcp-sim9", FIGURE_9.title, FIGURE_9.claims, |options| FIGURE_9.run(options)),
    Experiment::simulated("pcp-sim10", FIGURE_10.title, FIGURE_10.claims, |options| FIGURE_10.run(options)),
    Experiment::simulated("pcp-sim11", FIGURE_11.title, FIGURE_11.claims, |options| FIGURE_11.run(options)),
];

/// What varies, and how it is judged.
struct Figure {
    title: &'static str,
    claims: &'static [Claim],
    /// Name and unit of what varies.
    axis: (&'static str, Unit),
    values: &'static [f64],
    quick: &'static [f64],
    /// What to simulate at a value; several where kinds of routers are compared.
    networks: fn(f64) -> Vec<(&'static str, Dumbbell)>,
    judge: fn(&[Point]) -> Vec<Statement>,
}

impl Figure {
    fn run(&self, options: &Options<'_>) -> Findings {
        let values = options.scale.pick(self.values, self.quick, &self.quick[..1]);
        let length = Length::of(options.scale);
        let memories = options.scale.pick(&FLOWS_BEFORE[..], &FLOWS_BEFORE[..], &FLOWS_BEFORE[1..]);
        let at_each = |&flows_before: &u32| -> Vec<(f64, &'static str, Dumbbell)> {
            let networks = values.iter().flat_map(|&at| {
                (self.networks)(at).into_iter().map(move |(name, network)| (at, name, network))
            });
            networks.map(|(at, name, network)| (at, name, Dumbbell { flows_before, ..network })).collect()
        };
        let networks: Vec<_> = memories.iter().flat_map(at_each).collect();
        // Of the other memory only what the paper compares.
        let of = |at: usize, sender| {
            at < networks.len() / memories.len() || SenderKind::COMPARED.contains(&sender)
        };
        let jobs: Vec<(Dumbbell, SenderKind, u64)> = networks
            .iter()
            .enumerate()
            .flat_map(|(at, (.., network))| SenderKind::ALL.map(|sender| (at, network, sender)))
            .filter(|(at, _, sender)| of(*at, *sender))
            .flat_map(|(_, network, sender)| {
                (0..length.seeds).map(move |n| (*network, sender, options.seed + n))
            })
            .collect();
        let samples =
            run_jobs(options, &jobs, |&(network, sender, seed)| network.run(sender, length.flows, seed));
        let mut samples = samples.chunks(length.seeds as usize).map(Sample::pool);
        let points: Vec<Point> = networks
            .iter()
            .enumerate()
            .map(|(n, &(at, network, _))| Point {
                at,
                network,
                samples: SenderKind::ALL
                    .map(|sender| of(n, sender).then(|| samples.next()).flatten().unwrap_or_default())
                    .into(),
            })
            .collect();
        let mut plane = Plane::default();
        let of_memories = memories.iter().zip(points.chunks(networks.len() / memories.len()));
        for (flows, points) in of_memories {
            let late: Vec<Point> = points.iter().map(Point::told_late).collect();
            plane.push(format!("{flows} flows before, router told by the set-up"), (self.judge)(points));
            plane.push(format!("{flows} flows before, router told after it"), (self.judge)(&late));
        }
        let first = &points[..networks.len() / memories.len()];
        let distances = distances(self.axis, &networks, &points);
        plane.findings(method(&length), [self.table(first), distances, details(self.axis, first)])
    }

    /// Mean response times side by side.
    fn table(&self, points: &[Point]) -> Table {
        let mut names = SenderKind::ALL.map(SenderKind::name).to_vec();
        names.push("ideal");
        let plot = Plot::lines(self.axis.0, &names).by("router").log_y();
        Table::of("responses", "Mean response time of a flow", points)
            .column(self.axis.0, self.axis.1, |point| point.at)
            .text("router", |point| point.network)
            .columns(&SenderKind::ALL.map(SenderKind::name), Unit::Seconds, |point, at| {
                point.samples[at].response().mean
            })
            .column("ideal", Unit::Seconds, |point| point.of(SenderKind::Pcp).ideal().mean)
            .column("PCP sd", Unit::Seconds, |point| point.of(SenderKind::Pcp).response().sd)
            .column("TCP sd", Unit::Seconds, |point| point.of(SenderKind::Tcp).response().sd)
            .column("PCP loss", Unit::Share, |point| point.of(SenderKind::Pcp).loss())
            .column("TCP loss", Unit::Share, |point| point.of(SenderKind::Tcp).loss())
            .table()
            .plot(plot)
    }
}

/// How far PCP's flows are from the ideal, in round trips: those that would have had the link for themselves, and so met
/// nothing but their own probes and what they remembered, and those that met others.
fn distances(
    axis: (&'static str, Unit),
    networks: &[(f64, &'static str, Dumbbell)],
    points: &[Point],
) -> Table {
    let is_alone = |point: &Point, n: usize| {
        let pcp = point.of(SenderKind::Pcp);
        pcp.ideal_s[n] < pcp.alone_s[n] + ALONE_S
    };
    let share = |point: &Point| {
        let flows = point.of(SenderKind::Pcp).ideal_s.len();
        (0..flows).filter(|n| is_alone(point, *n)).count() as f64 / flows.max(1) as f64
    };
    let trips = |point: &Point, alone: bool| {
        let figure = verdicts::over_ideal(point, |n| is_alone(point, n) == alone).figure;
        (share(point) != f64::from(u8::from(!alone))).then_some(figure)
    };
    let all = |point: &Point| verdicts::over_ideal(point, |_| true);
    let rows: Vec<(&Point, u32)> =
        points.iter().zip(networks.iter().map(|(.., network)| network.flows_before)).collect();
    Table::of("distances", "Round trips that PCP takes beyond the ideal, in the mean", &rows)
        .column(axis.0, axis.1, |(point, _)| point.at)
        .text("router", |(point, _)| point.network)
        .column("flows before", Unit::Number, |(_, flows)| *flows)
        .column("all", Unit::Number, |(point, _)| all(point).figure)
        .column("from", Unit::Number, |(point, _)| all(point).from)
        .column("to", Unit::Number, |(point, _)| all(point).to)
        .column("alone", Unit::Number, |(point, _)| trips(point, true))
        .column("beside others", Unit::Number, |(point, _)| trips(point, false))
        .column("share alone", Unit::Share, |(point, _)| share(point))
        .table()
}

/// Every sender at every point, for programs.
fn details(axis: (&'static str, Unit), points: &[Point]) -> Table {
    let senders =
        points.iter().flat_map(|point| SenderKind::ALL.map(move |sender| (point, sender, point.of(sender))));
    Table::of("senders", "Every sender", &senders.collect::<Vec<_>>())
        .column(axis.0, axis.1, |(point, ..)| point.at)
        .text("router", |(point, ..)| point.network)
        .text("sender", |(_, sender, _)| sender.name())
        .column("flows", Unit::Number, |(.., sample)| sample.response().count)
        .column("unfinished", Unit::Number, |(.., sample)| sample.unfinished)
        .column("mean", Unit::Seconds, |(.., sample)| sample.response().mean)
        .column("sd", Unit::Seconds, |(.., sample)| sample.response().sd)
        .column("median", Unit::Seconds, |(.., sample)| sample.response().median)
        .column("p95", Unit::Seconds, |(.., sample)| sample.response().p95)
        .column("p99", Unit::Seconds, |(.., sample)| sample.response().p99)
        .column("max", Unit::Seconds, |(.., sample)| sample.response().max)
        .column("loss", Unit::Share, |(.., sample)| sample.loss())
        .table()
        .detail()
}

fn method(length: &Length) -> Vec<String> {
    vec![
        format!(
            "100 pairs of hosts share a link of 40 Mb/s; round trips are spread evenly from 15 to 35 ms, its drop-tail \
             queue holds one bandwidth-delay product (100 packets). Flows of 200 packets of 1250 bytes come at random \
             (Poisson); unless the figure varies it, they ask for 60 % of the link. {} of them are measured in the mean, with {} \
             seed(s), after as many as give each pair {}; the paper does not tell how long its hosts had known each other.",
            length.flows,
            length.seeds,
            FLOWS_BEFORE.map(|flows| flows.to_string()).join(" or ")
        ),
        format!(
            "Response: from the beginning of the set-up, a round trip for all, until the receiver has everything. PCP \
             remembers what earlier flows between the same two hosts found (§3.4); PCP without history: every flow is \
             the first. TCP is {TCP_SACK}. CUBIC begins with ten, and its timer is as TCP's is now. Ideal (§4.2): a \
             router serves the flows' packets in turn and writes its fair share and the length of its queue into a \
             flow's control packets, the first of which is the set-up, or else leaves when that is over: the paper does not \
             say. The flow sends one in a round trip, and data at that share, less what drains its queue."
        ),
    ]
}

fn alone(network: Dumbbell) -> Vec<(&'static str, Dumbbell)> {
    vec![("drop-tail", network)]
}

const FIGURE_4: Figure = Figure {
    title: "response time against load",
    claims: &verdicts::LOAD,
    axis: ("load", Unit::Share),
    values: &LOADS,
    quick: &[0.15, 0.3, 0.6, 0.9],
    networks: |load| alone(Dumbbell { load, ..Dumbbell::default() }),
    judge: verdicts::load,
};

const FIGURE_5: Figure = Figure {
    title: "response time against load, routers with and without fair queueing",
    claims: &verdicts::FAIR_QUEUEING,
    axis: ("load", Unit::Share),
    values: &LOADS,
    quick: &[0.3, 0.6, 0.9],
    networks: |load| {
        let network = Dumbbell { load, ..Dumbbell::default() };
        vec![("drop-tail", network), ("fq", Dumbbell { discipline: QueueDiscipline::Fair, ..network })]
    },
    judge: verdicts::fair_queueing,
};

const FIGURE_6: Figure = Figure {
    title: "response time against load, lengths and gaps with heavy tails (Pareto, 1.25 and 1.2)",
    claims: &verdicts::HEAVY_TAILS,
    axis: ("load", Unit::Share),
    values: &LOADS,
    quick: &[0.3, 0.6],
    networks: |load| alone(Dumbbell { load, is_heavy_tailed: true, ..Dumbbell::default() }),
    judge: verdicts::heavy_tails,
};

const FIGURE_7: Figure = Figure {
    title: "response time against the number of flows that begin at one moment",
    claims: &verdicts::TOGETHER,
    axis: ("together", Unit::Number),
    values: &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
    quick: &[1.0, 5.0, 20.0],
    networks: |count| alone(Dumbbell { together: count as u64, ..Dumbbell::default() }),
    judge: verdicts::together,
};

const FIGURE_8: Figure = Figure {
    title: "response time against the link's rate",
    claims: &verdicts::RATE,
    axis: ("rate", Unit::Mbps),
    values: &[5.0, 10.0, 20.0, 40.0, 80.0, 160.0],
    quick: &[10.0, 40.0, 160.0],
    networks: |rate_mbit| alone(Dumbbell { rate_mbit, ..Dumbbell::default() }),
    judge: verdicts::rate,
};

const FIGURE_9: Figure = Figure {
    title: "response time against the round trip",
    claims: &verdicts::ROUND_TRIP,
    axis: ("RTT", Unit::Millis),
    values: &[5.0, 10.0, 25.0, 50.0, 75.0, 100.0],
    quick: &[5.0, 25.0, 100.0],
    networks: |rtt_ms| alone(Dumbbell { rtt_ms, ..Dumbbell::default() }),
    judge: verdicts::round_trip,
};

const FIGURE_10: Figure = Figure {
    title: "response time against the length of a flow",
    claims: &verdicts::LENGTH,
    axis: ("packets", Unit::Number),
    values: &[20.0, 50.0, 100.0, 200.0, 500.0, 1000.0],
    quick: &[50.0, 200.0, 1000.0],
    networks: |flow_packets| alone(Dumbbell { flow_packets, ..Dumbbell::default() }),
    judge: verdicts::length,
};

const FIGURE_11: Figure = Figure {
    title: "response time against random loss",
    claims: &verdicts::RANDOM_LOSS,
    axis: ("random loss", Unit::Share),
    values: &[0.0, 0.001, 0.005, 0.01, 0.02, 0.05],
    quick: &[0.0, 0.01, 0.05],
    networks: |loss| alone(Dumbbell { loss, ..Dumbbell::default() }),
    judge: verdicts::random_loss,
};

/// 15 to 90 %.
const LOADS: [f64; 6] = [0.15, 0.3, 0.45, 0.6, 0.75, 0.9];
/// Flows between two hosts before those that are measured, in the mean, which PCP remembers. The tables are of the first.
const FLOWS_BEFORE: [u32; 2] = [6, 3];
/// Less than this beyond what it takes alone is rounding.
const ALONE_S: f64 = 1e-6;
