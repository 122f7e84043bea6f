//! Figures 4 to 11: response times on a shared link, against one thing that varies.

use super::dumbbell::{Dumbbell, Length, Sample, Sender};
use super::{TCP_SACK, verdicts};
use crate::experiments::{
    Claim, Column, Experiment, Findings, Options, Plot, Statement, Table, Unit, run_jobs,
};
use crate::queue::QueueDiscipline;

/// In the paper's order.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment("pcp-sim4", FIGURE_4.title, FIGURE_4.claims, |options| FIGURE_4.run(options)),
    experiment("pcp-sim5", FIGURE_5.title, FIGURE_5.claims, |options| FIGURE_5.run(options)),
    experiment("pcp-sim6", FIGURE_6.title, FIGURE_6.claims, |options| FIGURE_6.run(options)),
    experiment("pcp-sim7", FIGURE_7.title, FIGURE_7.claims, |options| FIGURE_7.run(options)),
    experiment("pcp-sim8", FIGURE_8.title, FIGURE_8.claims, |options| FIGURE_8.run(options)),
    experiment("pcp-sim9", FIGURE_9.title, FIGURE_9.claims, |options| FIGURE_9.run(options)),
    experiment("pcp-sim10", FIGURE_10.title, FIGURE_10.claims, |options| FIGURE_10.run(options)),
    experiment("pcp-sim11", FIGURE_11.title, FIGURE_11.claims, |options| FIGURE_11.run(options)),
];

const fn experiment(
    id: &'static str,
    title: &'static str,
    claims: &'static [Claim],
    simulate: fn(&Options<'_>) -> Findings,
) -> Experiment {
    Experiment { id, title, claims, takes_contestants: false, simulate }
}

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

/// A network at a value of what varies.
pub struct Point {
    /// The value.
    pub at: f64,
    /// Which of the networks compared; empty where there is one.
    pub network: &'static str,
    /// In the order of [`Sender::ALL`].
    pub samples: Vec<Sample>,
}

impl Point {
    /// What a sender's flows took.
    pub fn of(&self, sender: Sender) -> &Sample {
        &self.samples[sender as usize]
    }
}

impl Figure {
    fn run(&self, options: &Options<'_>) -> Findings {
        let values = options.scale.pick(self.values, self.quick, &self.quick[..1]);
        let length = Length::of(options.scale);
        let networks: Vec<(f64, &'static str, Dumbbell)> = values
            .iter()
            .flat_map(|&at| (self.networks)(at).into_iter().map(move |(name, network)| (at, name, network)))
            .collect();
        let jobs: Vec<(Dumbbell, Sender, u64)> = networks
            .iter()
            .flat_map(|&(_, _, network)| Sender::ALL.map(|sender| (network, sender)))
            .flat_map(|(network, sender)| (0..length.seeds).map(move |n| (network, sender, options.seed + n)))
            .collect();
        let samples =
            run_jobs(options, &jobs, |&(network, sender, seed)| network.run(sender, length.span, seed));
        let mut samples = samples.chunks(length.seeds as usize).map(Sample::pool);
        let points: Vec<Point> = networks
            .into_iter()
            .map(|(at, network, _)| Point {
                at,
                network,
                samples: samples.by_ref().take(Sender::ALL.len()).collect(),
            })
            .collect();
        Findings {
            method: method(&length),
            tables: vec![self.table(&points), details(self.axis, &points)],
            statements: (self.judge)(&points),
        }
    }

    /// Mean response times side by side.
    fn table(&self, points: &[Point]) -> Table {
        let mut columns = vec![Column::new(self.axis.0, self.axis.1), Column::text("router")];
        columns.extend(Sender::ALL.map(|sender| Column::new(sender.name(), Unit::Seconds)));
        columns.push(Column::new("ideal", Unit::Seconds));
        columns.extend(
            [Sender::Pcp, Sender::Tcp]
                .map(|sender| Column::new(format!("{} sd", sender.name()), Unit::Seconds)),
        );
        columns.extend(
            [Sender::Pcp, Sender::Tcp]
                .map(|sender| Column::new(format!("{} loss", sender.name()), Unit::Share)),
        );
        let mut names = Sender::ALL.map(Sender::name).to_vec();
        names.push("ideal");
        let plot = Plot::lines(self.axis.0, &names).by("router").log_y();
        let mut table = Table::new("responses", "Mean response time of a flow", columns).plot(plot);
        for point in points {
            let mut row = vec![point.at.into(), point.network.into()];
            row.extend(point.samples.iter().map(|sample| sample.response().mean.into()));
            row.push(point.of(Sender::Pcp).ideal().mean.into());
            row.extend([Sender::Pcp, Sender::Tcp].map(|sender| point.of(sender).response().sd.into()));
            row.extend([Sender::Pcp, Sender::Tcp].map(|sender| point.of(sender).loss().into()));
            table.push(row);
        }
        table
    }
}

/// Every sender at every point, for programs.
fn details(axis: (&'static str, Unit), points: &[Point]) -> Table {
    let columns = vec![
        Column::new(axis.0, axis.1),
        Column::text("router"),
        Column::text("sender"),
        Column::new("flows", Unit::Number),
        Column::new("unfinished", Unit::Number),
        Column::new("mean", Unit::Seconds),
        Column::new("sd", Unit::Seconds),
        Column::new("median", Unit::Seconds),
        Column::new("p95", Unit::Seconds),
        Column::new("p99", Unit::Seconds),
        Column::new("max", Unit::Seconds),
        Column::new("ideal mean", Unit::Seconds),
        Column::new("ideal sd", Unit::Seconds),
        Column::new("loss", Unit::Share),
    ];
    let mut table = Table::new("senders", "Every sender", columns).detail();
    for point in points {
        for sender in Sender::ALL {
            let sample = point.of(sender);
            let (response, ideal) = (sample.response(), sample.ideal());
            table.push(vec![
                point.at.into(),
                point.network.into(),
                sender.name().into(),
                response.count.into(),
                sample.unfinished.into(),
                response.mean.into(),
                response.sd.into(),
                response.median.into(),
                response.p95.into(),
                response.p99.into(),
                response.max.into(),
                ideal.mean.into(),
                ideal.sd.into(),
                sample.loss().into(),
            ]);
        }
    }
    table
}

fn method(length: &Length) -> Vec<String> {
    vec![
        format!(
            "100 pairs of hosts share a link of 40 Mb/s; round trips are spread evenly from 15 to 35 ms, its drop-tail \
             queue holds one bandwidth-delay product (100 packets). Flows of 200 packets of 1250 bytes come at random \
             (Poisson); unless the figure varies it, they ask for 60 % of the link. Those of {} s are measured, with {} \
             seed(s), after as many as give each pair three.",
            length.span.as_secs(),
            length.seeds
        ),
        format!(
            "Response: from the beginning of the set-up, a round trip for all, until the receiver has everything. PCP \
             remembers what earlier flows between the same two hosts found (§3.4); PCP without history: every flow is \
             the first. TCP is {TCP_SACK}. CUBIC begins with ten, and its timer is as TCP's is now. Ideal: a router \
             shares the link equally among the flows that are there and tells each its rate after one round trip \
             (computed as a fluid)."
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
    quick: &[0.3, 0.6, 0.9],
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
