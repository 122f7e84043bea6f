//! The test-bed comparison of TCP variants, single and parallel: NewReno, Scalable, HS-TCP, H-TCP and CUBIC over a
//! single dumbbell of 10 Mb/s.

use super::{Claim, Column, Experiment, Findings, Options, Plot, Statement, Table, Unit, run_jobs};
use crate::flow::{ENDLESS, FlowSpec, Protocol, TcpFlow};
use crate::metrics::Summary;
use crate::path::PathConfig;
use crate::scenario::Scenario;
use crate::trace::TraceMode;
use crate::traffic::{Arrivals, Distribution, Traffic};
use crate::workload::Workload;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use std::time::Duration;

/// One for each of the paper's figures.
pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "ptcp-utilisation",
        title: "how much of a 10 Mb/s link 1 to 30 parallel TCPs of five kinds use",
        claims: &UTILISATION,
        takes_contestants: false,
        simulate: |options| run(options, &Figure::UTILISATION),
    },
    Experiment {
        id: "ptcp-loss",
        title: "how much 1 to 30 parallel TCPs of five kinds lose on a 10 Mb/s link",
        claims: &LOSS,
        takes_contestants: false,
        simulate: |options| run(options, &Figure::LOSS),
    },
    Experiment {
        id: "ptcp-fairness",
        title: "how fairly 1 to 30 parallel TCPs of five kinds share a 10 Mb/s link",
        claims: &FAIRNESS,
        takes_contestants: false,
        simulate: |options| run(options, &Figure::FAIRNESS),
    },
];

/// Of the throughput figure.
pub const UTILISATION: [Claim; 3] = [
    Claim::paper(
        "Parallel TCP, throughput figure",
        "all variants use almost the same share of the link (within 5 points)",
    ),
    Claim::paper(
        "Parallel TCP, throughput figure",
        "the link is not full with 1 and 5 flows, and almost full from 10 on (95 % of what it can carry of data)",
    ),
    Claim::paper("Parallel TCP, throughput figure", "more than 10 flows gain nothing (2 points at most)"),
];
/// Of the loss figures.
pub const LOSS: [Claim; 3] = [
    Claim::paper("Parallel TCP, loss figure", "with 1 and 5 flows very little is lost (1 % at most)"),
    Claim::paper("Parallel TCP, loss figure", "the more flows, the more is lost"),
    Claim::paper(
        "Parallel TCP, average loss figure",
        "CUBIC and NewReno lose least, H-TCP and HS-TCP more, Scalable most",
    ),
];
/// Of the fairness figures.
pub const FAIRNESS: [Claim; 2] = [
    Claim::paper(
        "Parallel TCP, fairness figure",
        "all are alike up to 10 flows (within 0.05), and a little less fair beyond",
    ),
    Claim::paper(
        "Parallel TCP, average fairness figure",
        "fairest first: CUBIC, Scalable, H-TCP, HS-TCP, NewReno",
    ),
];

/// What is measured, and how it is judged.
struct Figure {
    name: &'static str,
    unit: Unit,
    of: fn(&Cell) -> f64,
    judge: fn(&Grid) -> Vec<Statement>,
}

impl Figure {
    const UTILISATION: Figure = Figure {
        name: "utilisation",
        unit: Unit::Share,
        of: |cell| cell.utilisation,
        judge: judge_utilisation,
    };
    const LOSS: Figure = Figure { name: "loss", unit: Unit::Share, of: |cell| cell.loss, judge: judge_loss };
    const FAIRNESS: Figure =
        Figure { name: "Jain index", unit: Unit::Number, of: |cell| cell.jain, judge: judge_fairness };
}

/// What is measured of a run, or the means over seeds.
#[derive(Clone, Copy, Debug)]
struct Cell {
    utilisation: f64,
    loss: f64,
    jain: f64,
}

/// The cells at one size of the buffer.
struct Grid {
    counts: Vec<u64>,
    /// By variant, then by count.
    cells: Vec<Vec<Cell>>,
}

impl Grid {
    /// A figure's mean over variants at a count of flows.
    fn at(&self, count: u64, of: fn(&Cell) -> f64) -> f64 {
        let place = self.counts.iter().position(|&one| one == count);
        place.map_or(f64::NAN, |place| Summary::of(self.cells.iter().map(|row| of(&row[place]))).mean)
    }

    /// The difference between the most and the least of the variants at each count that `which` says.
    fn spread(&self, which: impl Fn(u64) -> bool, of: fn(&Cell) -> f64) -> f64 {
        let places = (0..self.counts.len()).filter(|&place| which(self.counts[place]));
        places
            .map(|place| {
                let summary = Summary::of(self.cells.iter().map(|row| of(&row[place])));
                summary.max - summary.min
            })
            .fold(0.0, f64::max)
    }

    /// Every variant's mean over the counts.
    fn means(&self, of: fn(&Cell) -> f64) -> Vec<(ControllerKind, f64)> {
        let mean = |row: &Vec<Cell>| Summary::of(row.iter().map(of)).mean;
        VARIANTS.iter().copied().zip(self.cells.iter().map(mean)).collect()
    }
}

fn run(options: &Options<'_>, figure: &Figure) -> Findings {
    let counts: &[u64] = options.scale.pick(&COUNTS[..], &[1, 5, 10, 30], &[1, 10]);
    let buffers: &[f64] = options.scale.pick(&BUFFERS_BDP[..], &BUFFERS_BDP[..1], &BUFFERS_BDP[..1]);
    let seconds = options.scale.pick(100, 50, 4);
    let seeds = options.scale.pick(10, 2, 1);
    let mut jobs = Vec::new();
    for &buffer_bdp in buffers {
        for variant in VARIANTS {
            for &count in counts {
                jobs.extend((0..seeds).map(|n| Job {
                    buffer_bdp,
                    variant,
                    count,
                    seconds,
                    seed: options.seed + n,
                }));
            }
        }
    }
    let cells = run_jobs(options, &jobs, Job::run);
    let means: Vec<Cell> = cells.chunks(seeds as usize).map(mean_cell).collect();
    let rows: Vec<Vec<Cell>> = means.chunks(counts.len()).map(<[Cell]>::to_vec).collect();
    let grids: Vec<Grid> = rows
        .chunks(VARIANTS.len())
        .map(|cells| Grid { counts: counts.to_vec(), cells: cells.to_vec() })
        .collect();
    Findings {
        method: method(seconds, seeds),
        tables: buffers
            .iter()
            .zip(&grids)
            .flat_map(|(&buffer, grid)| [table(figure, buffer, grid), course(figure, buffer, grid)])
            .collect(),
        statements: (figure.judge)(&grids[0]),
    }
}

fn table(figure: &Figure, buffer_bdp: f64, grid: &Grid) -> Table {
    let mut columns = vec![Column::text("variant")];
    columns.extend(grid.counts.iter().map(|count| Column::new(format!("{count} flows"), figure.unit)));
    columns.push(Column::new("mean", figure.unit));
    let title =
        format!("{} with a buffer of {buffer_bdp} bandwidth-delay products", capitalised(figure.name));
    let mut table = Table::new(format!("buffer_{buffer_bdp}_bdp"), title, columns);
    for ((variant, mean), row) in grid.means(figure.of).into_iter().zip(&grid.cells) {
        let mut cells = vec![variant.name().into()];
        cells.extend(row.iter().map(|cell| (figure.of)(cell).into()));
        cells.push(mean.into());
        table.push(cells);
    }
    table
}

/// The same with a row for each cell, to be drawn.
fn course(figure: &Figure, buffer_bdp: f64, grid: &Grid) -> Table {
    let columns = vec![
        Column::text("variant"),
        Column::new("flows", Unit::Number),
        Column::new(figure.name, figure.unit),
    ];
    let name = format!("course_{buffer_bdp}_bdp");
    let title = format!("{} by number of flows, buffer of {buffer_bdp} BDP", capitalised(figure.name));
    let plot = Plot::lines("flows", &[figure.name]).by("variant");
    let mut table = Table::new(name, title, columns).detail().plot(plot);
    for (variant, row) in VARIANTS.iter().zip(&grid.cells) {
        for (&count, cell) in grid.counts.iter().zip(row) {
            table.push(vec![variant.name().into(), count.into(), (figure.of)(cell).into()]);
        }
    }
    table
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A run.
#[derive(Clone, Copy, Debug)]
struct Job {
    buffer_bdp: f64,
    variant: ControllerKind,
    count: u64,
    seconds: u64,
    seed: u64,
}

impl Job {
    fn run(&self) -> Cell {
        let until = Time::from_millis(self.seconds * 1000);
        let scenario = Scenario {
            queue_bdp: Some(self.buffer_bdp),
            mtu: u32::from(MSS) + HEADERS,
            seed: self.seed,
            ..Scenario::new(RATE_MBIT, RTT_MS)
        };
        let one_after_another = Arrivals::Staggered { from: Time::ZERO, gap: START_GAP, count: self.count };
        let flows = Traffic::new(FlowSpec::new(tcp(self.variant), ENDLESS), one_after_another);
        let rate = Rate::from_mbps(RATE_MBIT);
        let short = Arrivals::poisson(Time::ZERO, until, BACKGROUND_LOAD, rate, BACKGROUND_BYTES);
        let background = Traffic {
            sizes: Some(Distribution::Pareto { shape: BACKGROUND_SHAPE, mean: BACKGROUND_BYTES }),
            is_background: true,
            ..Traffic::new(FlowSpec::new(tcp(ControllerKind::NewReno), 0), short)
        };
        let mut workload = Workload::new(PathConfig::new(&scenario), vec![flows, background], until);
        workload.seed = self.seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        Cell { utilisation: measured.utilisation(), loss: measured.loss_ratio(), jain: measured.jain(0) }
    }
}

/// Without selective acknowledgements, as the paper's.
fn tcp(control: ControllerKind) -> Protocol {
    let mut flow = TcpFlow { mss: Some(MSS), ..TcpFlow::new(control) };
    flow.config.sack = false;
    Protocol::Tcp(flow)
}

fn mean_cell(cells: &[Cell]) -> Cell {
    let mean = |of: fn(&Cell) -> f64| Summary::of(cells.iter().map(of)).mean;
    Cell {
        utilisation: mean(|cell| cell.utilisation),
        loss: mean(|cell| cell.loss),
        jain: mean(|cell| cell.jain),
    }
}

fn method(seconds: u64, seeds: u64) -> Vec<String> {
    vec![
        format!(
            "A link of {RATE_MBIT} Mb/s, its reverse without loss; flows begin {} ms after one another and run until \
             {seconds} s; the means of {seeds} seeds. NewReno, Scalable, HS-TCP, H-TCP and CUBIC without selective \
             acknowledgements. Utilisation: data delivered over capacity ({:.1} % is full: headers); loss: bytes dropped \
             over bytes sent at the link; Jain's index over what each flow got.",
            START_GAP.as_millis(),
            FULL * 100.0
        ),
        format!(
            "The paper gives neither delay nor buffer, duration or background traffic; ours: {RTT_MS} ms, one \
             bandwidth-delay product, MSS {MSS}, and short NewReno flows (Pareto, {:.0} kB in the mean) that ask for \
             {:.0} % of the link.",
            BACKGROUND_BYTES / 1e3,
            BACKGROUND_LOAD * 100.0
        ),
    ]
}

fn judge_utilisation(grid: &Grid) -> Vec<Statement> {
    let [alike, full, no_gain] = &UTILISATION;
    let of: fn(&Cell) -> f64 = |cell| cell.utilisation;
    let spread = grid.spread(|_| true, of);
    let means: Vec<(u64, f64)> = grid.counts.iter().map(|&count| (count, grid.at(count, of))).collect();
    let enough = 0.95 * FULL;
    let is_as_said = means.iter().all(|&(count, used)| (used >= enough) == (count >= 10));
    let last = grid.counts.last().copied().unwrap_or(10);
    let gain = grid.at(last, of) - grid.at(10, of);
    let listed: Vec<String> =
        means.iter().map(|(count, used)| format!("{count}: {:.1} %", used * 100.0)).collect();
    vec![
        alike.judge(spread <= 0.05, format!("{:.1} points apart at most", spread * 100.0)).otherwise(
            "a single flow of some variants needs long to recover from the losses of its first slow start where \
             acknowledgements are not selective",
        ),
        full.judge(is_as_said, format!("mean over the variants by flows: {}", listed.join(", "))).otherwise(
            "how many flows it takes depends on delay and buffer, which the paper does not give; with more buffer fewer \
             flows fill the link",
        ),
        no_gain.judge(gain <= 0.02, format!("{:+.1} points from 10 to {last} flows", gain * 100.0)),
    ]
}

fn judge_loss(grid: &Grid) -> Vec<Statement> {
    let [little, grows, order] = &LOSS;
    let of: fn(&Cell) -> f64 = |cell| cell.loss;
    let (one, five) = (grid.at(1, of), grid.at(5, of));
    let means: Vec<f64> = grid.counts.iter().map(|&count| grid.at(count, of)).collect();
    let listed: Vec<String> = grid
        .counts
        .iter()
        .zip(&means)
        .map(|(count, lost)| format!("{count}: {:.2} %", lost * 100.0))
        .collect();
    let by_variant = grid.means(of);
    let lost =
        |kind: ControllerKind| by_variant.iter().find(|(one, _)| *one == kind).map_or(f64::NAN, |one| one.1);
    let (best, middle) = (
        lost(ControllerKind::Cubic).max(lost(ControllerKind::NewReno)),
        [lost(ControllerKind::HTcp), lost(ControllerKind::HighSpeed)],
    );
    let worst = lost(ControllerKind::Scalable);
    let is_ordered = middle.iter().all(|&lost| best <= lost && lost <= worst);
    vec![
        little.judge(one <= 0.01 && (five.is_nan() || five <= 0.01), format!("by flows: {}", listed.join(", "))).otherwise(
            "the flows' first slow starts overflow the buffer by as much as it holds, which weighs in so short a run",
        ),
        grows.judge(means.is_sorted(), format!("by flows: {}", listed.join(", "))),
        order.judge(is_ordered, ranked(by_variant, false, |lost| format!("{:.2} %", lost * 100.0))).otherwise(
            "at 10 Mb/s a few flows have windows below 38 segments, where HS-TCP is NewReno but for its limited slow start \
             (RFC 3742), which overflows the buffer less",
        ),
    ]
}

fn judge_fairness(grid: &Grid) -> Vec<Statement> {
    let [alike, order] = &FAIRNESS;
    let of: fn(&Cell) -> f64 = |cell| cell.jain;
    let spread = grid.spread(|count| count <= 10, of);
    let few =
        Summary::of(grid.counts.iter().filter(|&&count| count <= 10).map(|&count| grid.at(count, of))).mean;
    let many_counts = grid.counts.iter().filter(|&&count| count > 10);
    let many = Summary::of(many_counts.map(|&count| grid.at(count, of))).mean;
    let by_variant = grid.means(of);
    let index =
        |kind: ControllerKind| by_variant.iter().find(|(one, _)| *one == kind).map_or(f64::NAN, |one| one.1);
    let paper_order = [
        ControllerKind::Cubic,
        ControllerKind::Scalable,
        ControllerKind::HTcp,
        ControllerKind::HighSpeed,
        ControllerKind::NewReno,
    ];
    let is_ordered = paper_order.windows(2).all(|pair| index(pair[0]) >= index(pair[1]));
    vec![
        alike
            .judge(
                spread <= 0.05 && many <= few,
                format!("{spread:.2} apart up to 10 flows; mean {few:.3} up to 10 flows, {many:.3} beyond"),
            )
            .otherwise(
                "Scalable's multiplicative increase keeps whatever shares its flows begin with, so that those who come \
                 first stay ahead",
            ),
        order.judge(is_ordered, ranked(by_variant, true, |index| format!("{index:.3}"))).otherwise(
            "theory has it otherwise: multiplicative increase (Scalable) does not converge to equal shares, additive \
             (NewReno) does; how long the paper's runs were, which this depends on, is not known",
        ),
    ]
}

/// Variants by their figures.
fn ranked(mut figures: Vec<(ControllerKind, f64)>, most_first: bool, text: impl Fn(f64) -> String) -> String {
    figures.sort_by(|a, b| if most_first { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let listed: Vec<String> =
        figures.into_iter().map(|(kind, figure)| format!("{} {}", kind.name(), text(figure))).collect();
    listed.join(", ")
}

/// In the paper's order.
const VARIANTS: [ControllerKind; 5] = [
    ControllerKind::NewReno,
    ControllerKind::Scalable,
    ControllerKind::HighSpeed,
    ControllerKind::HTcp,
    ControllerKind::Cubic,
];
/// Numbers of flows, the paper's.
pub const COUNTS: [u64; 7] = [1, 5, 10, 15, 20, 25, 30];
/// The paper's bottleneck.
pub const RATE_MBIT: f64 = 10.0;
/// Ours, as all below: the paper does not say.
pub const RTT_MS: f64 = 100.0;
/// Of the bottleneck's queue.
pub const BUFFERS_BDP: [f64; 3] = [1.0, 0.25, 2.0];
/// Bytes of data in a full segment.
pub const MSS: u16 = 1460;
/// IPv4, TCP, timestamps.
pub const HEADERS: u32 = 52;
/// What a full link carries of data.
pub const FULL: f64 = MSS as f64 / (MSS as f64 + HEADERS as f64);
/// Each connection is made when the one before is there, and has begun to send: two round trips.
pub const START_GAP: Duration = Duration::from_millis(200);
/// Share of the link that others' short flows ask for.
pub const BACKGROUND_LOAD: f64 = 0.05;
/// What each of them moves, in the mean.
pub const BACKGROUND_BYTES: f64 = 30e3;
/// Of the Pareto distribution of what they move.
pub const BACKGROUND_SHAPE: f64 = 1.5;
