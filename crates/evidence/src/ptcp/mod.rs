//! The parallel-TCP paper's comparison: NewReno, Scalable, HS-TCP, H-TCP and CUBIC, single and parallel, over a
//! dumbbell of 10 Mb/s, and longhaul's own control on the same path. Over emulated paths the TCPs are the kernel's.

mod measured;
mod simulated;
mod verdicts;

use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec, Protocol, TcpFlow};
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Distribution, Traffic};
use std::time::Duration;

/// One for each of the paper's figures. One measurement serves all three.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment::either(
        "ptcp-utilisation",
        "How much of a 10 Mb/s link 1 to 30 parallel TCPs of five kinds use",
        &UTILISATION,
        |backend| report(backend, &Figure::UTILISATION),
    ),
    Experiment::either(
        "ptcp-loss",
        "How much 1 to 30 parallel TCPs of five kinds lose on a 10 Mb/s link",
        &LOSS,
        |backend| report(backend, &Figure::LOSS),
    ),
    Experiment::either(
        "ptcp-fairness",
        "How fairly 1 to 30 parallel TCPs of five kinds share a 10 Mb/s link",
        &FAIRNESS,
        |backend| report(backend, &Figure::FAIRNESS),
    ),
];

/// Of the throughput figure.
const UTILISATION: [Claim; 4] = [
    Claim::paper(
        "Parallel TCP, throughput figure",
        "all variants use almost the same share of the link (within 5 points)",
    ),
    Claim::paper(
        "Parallel TCP, throughput figure",
        "the link is not full with 1 and 5 flows, and almost full from 10 on (95 % of what it can carry of data)",
    ),
    Claim::paper("Parallel TCP, throughput figure", "more than 10 flows gain nothing (2 points at most)"),
    Claim::ours(
        "one flow of longhaul's default control uses the link as ten TCPs do (2 points less at most)",
    ),
];
/// Of the loss figures.
const LOSS: [Claim; 4] = [
    Claim::paper("Parallel TCP, loss figure", "with 1 and 5 flows very little is lost (1 % at most)"),
    Claim::paper("Parallel TCP, loss figure", "the more flows, the more is lost"),
    Claim::paper(
        "Parallel TCP, average loss figure",
        "CUBIC and NewReno lose least, H-TCP and HS-TCP more, Scalable most",
    ),
    Claim::ours("flows of longhaul's default control lose no more than as many of CUBIC, at every count"),
];
/// Of the fairness figures.
const FAIRNESS: [Claim; 3] = [
    Claim::paper(
        "Parallel TCP, fairness figure",
        "all are alike up to 10 flows (within 0.05), and a little less fair beyond",
    ),
    Claim::paper(
        "Parallel TCP, average fairness figure",
        "fairest first: CUBIC, Scalable, H-TCP, HS-TCP, NewReno",
    ),
    Claim::ours(
        "flows of longhaul's default control share as fairly as CUBIC's, in the mean (0.05 less at most)",
    ),
];

/// What is shown, and how it is judged.
struct Figure {
    name: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Cell) -> f64,
    judge: fn(&Grid) -> Vec<Statement>,
}

impl Figure {
    const UTILISATION: Figure = Figure {
        name: "utilisation",
        title: "Utilisation",
        unit: Unit::Share,
        of: |cell| cell.utilisation,
        judge: verdicts::utilisation,
    };
    const LOSS: Figure = Figure {
        name: "loss",
        title: "Loss",
        unit: Unit::Share,
        of: |cell| cell.loss,
        judge: verdicts::loss,
    };
    const FAIRNESS: Figure = Figure {
        name: "Jain index",
        title: "Jain's index",
        unit: Unit::Number,
        of: |cell| cell.jain,
        judge: verdicts::fairness,
    };
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Contender {
    /// TCP under a congestion control: our name for it, and the kernel's.
    Tcp { name: &'static str, kernel: String },
    /// longhaul's default control, over UDP.
    Adaptive,
}

impl Contender {
    fn name(&self) -> &str {
        match self {
            Contender::Tcp { name, .. } => name,
            Contender::Adaptive => "longhaul, adaptive",
        }
    }
}

/// What is measured of a run, or the means over seeds.
#[derive(Clone, Copy, Debug)]
struct Cell {
    utilisation: f64,
    loss: f64,
    jain: f64,
    /// Of all flows together, without the background.
    mbps: f64,
}

/// The cells at one size of the buffer.
#[derive(Clone, Debug)]
struct Grid {
    counts: Vec<u64>,
    /// A cell for each count.
    rows: Vec<(Contender, Vec<Cell>)>,
}

/// What came of it.
#[derive(Clone)]
struct Measured {
    /// By size of the buffer.
    grids: Vec<(f64, Grid)>,
    /// How it was measured.
    method: Vec<String>,
}

fn report(backend: &Backend<'_>, figure: &Figure) -> Result<Findings, ExperimentError> {
    let Measured { grids, mut method } = match backend {
        Backend::Simulator(options) => simulated::run(options),
        Backend::Lab(bench) => measured::once(bench)?,
    };
    method.push(format!(
        "The paper gives neither delay nor buffer, duration or background traffic; these are ours: {RTT_MS} ms, one \
         bandwidth-delay product, MSS {MSS}, a reverse path without loss, and short flows of NewReno (Pareto, {:.0} kB in the \
         mean) that ask for {:.0} % of the link. `{}`: longhaul's default control, each flow an object transfer over UDP, in \
         clear.",
        BACKGROUND_BYTES / 1e3,
        BACKGROUND_LOAD * 100.0,
        Contender::Adaptive.name()
    ));
    let tables = grids
        .iter()
        .flat_map(|(buffer_bdp, grid)| [wide(figure, *buffer_bdp, grid), long(figure, *buffer_bdp, grid)]);
    let statements = grids.first().map_or(vec![], |(_, grid)| (figure.judge)(grid));
    Ok(Findings { method, tables: tables.collect(), statements })
}

impl Contender {
    /// So many of its flows, one after another.
    fn flows(&self, count: u64) -> Traffic {
        let flow = match self {
            Contender::Tcp { name, .. } => {
                FlowSpec::new(tcp(name.parse().expect("a control that the program has")), ENDLESS)
            }
            Contender::Adaptive => FlowSpec::object(ControllerKind::Adaptive, ENDLESS),
        };
        Traffic::new(flow, Arrivals::Staggered { from: Time::ZERO, gap: START_GAP, count })
    }
}

/// Others' short flows.
fn background() -> Traffic {
    let rate = Rate::from_mbps(RATE_MBIT);
    let short = Arrivals::poisson(Time::ZERO, Time::MAX, BACKGROUND_LOAD, rate, BACKGROUND_BYTES);
    Traffic {
        sizes: Some(Distribution::Pareto { shape: BACKGROUND_SHAPE, mean: BACKGROUND_BYTES }),
        is_background: true,
        ..Traffic::new(FlowSpec::new(tcp(ControllerKind::NewReno), 0), short)
    }
}

/// Without selective acknowledgements, as the paper's.
fn tcp(control: ControllerKind) -> Protocol {
    let mut flow = TcpFlow { mss: Some(MSS), ..TcpFlow::new(control) };
    flow.config.sack = false;
    Protocol::Tcp(flow)
}

/// The link with a buffer of so many bandwidth-delay products.
fn path(buffer_bdp: f64, seed: u64) -> Scenario {
    Scenario { queue_bdp: Some(buffer_bdp), seed, ..experiment::path("parallel-tcp-10m") }
}

/// The figures of these contenders from all runs: by buffer, contender, count and seed.
fn grids(
    buffers: &[f64],
    contenders: &[Contender],
    counts: &[u64],
    seeds: u64,
    cells: &[Cell],
) -> Vec<(f64, Grid)> {
    let means: Vec<Cell> = cells.chunks(seeds as usize).map(mean_cell).collect();
    let rows: Vec<Vec<Cell>> = means.chunks(counts.len()).map(<[Cell]>::to_vec).collect();
    let grids = buffers.iter().zip(rows.chunks(contenders.len())).map(|(&buffer, rows)| {
        let rows = contenders.iter().cloned().zip(rows.iter().cloned()).collect();
        (buffer, Grid { counts: counts.to_vec(), rows })
    });
    grids.collect()
}

/// As the paper's tables: a row for each variant.
fn wide(figure: &Figure, buffer_bdp: f64, grid: &Grid) -> Table {
    let counts: Vec<String> = grid.counts.iter().map(|count| format!("{count} flows")).collect();
    let title = format!("{} with a buffer of {buffer_bdp} bandwidth-delay products", figure.title);
    Table::of(format!("buffer_{buffer_bdp}_bdp"), title, &grid.rows)
        .text("variant", |(contender, _)| contender.name())
        .columns(&counts, figure.unit, |(_, cells), at| (figure.of)(&cells[at]))
        .column("mean", figure.unit, |(_, cells)| mean(cells.iter().map(figure.of)))
        .table()
}

/// The same, to be drawn.
fn long(figure: &Figure, buffer_bdp: f64, grid: &Grid) -> Table {
    let title = format!("{} by flows, buffer {buffer_bdp} BDP", figure.title);
    let points = grid.rows.iter().flat_map(|(contender, cells)| {
        grid.counts.iter().zip(cells).map(move |(count, cell)| (contender, *count, cell))
    });
    Table::of(format!("flows_buffer_{buffer_bdp}_bdp"), title, &points.collect::<Vec<_>>())
        .text("variant", |(contender, ..)| contender.name())
        .column("flows", Unit::Number, |(_, count, _)| *count)
        .column(figure.name, figure.unit, |(.., cell)| (figure.of)(cell))
        .column("goodput", Unit::Mbps, |(.., cell)| cell.mbps)
        .table()
        .detail()
        .plot(Plot::lines("flows", &[figure.name]).by("variant"))
}

fn mean_cell(cells: &[Cell]) -> Cell {
    let mean = |of: fn(&Cell) -> f64| mean(cells.iter().map(of));
    Cell {
        utilisation: mean(|cell| cell.utilisation),
        loss: mean(|cell| cell.loss),
        jain: mean(|cell| cell.jain),
        mbps: mean(|cell| cell.mbps),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    Summary::of(values).mean
}

/// In the paper's order.
const VARIANTS: [&str; 5] = ["newreno", "scalable", "hstcp", "htcp", "cubic"];
/// Numbers of flows, the paper's.
const COUNTS: [u64; 7] = [1, 5, 10, 15, 20, 25, 30];
/// The paper's bottleneck.
const RATE_MBIT: f64 = 10.0;
/// Ours, as all below: the paper does not say.
const RTT_MS: f64 = 100.0;
/// Of the bottleneck's queue.
const BUFFERS_BDP: [f64; 3] = [1.0, 0.25, 2.0];
/// Bytes of data in a full segment.
const MSS: u16 = 1460;
/// IPv4, TCP, timestamps.
const HEADERS: u32 = 52;
/// What a full link carries of data.
const FULL: f64 = MSS as f64 / (MSS as f64 + HEADERS as f64);
/// Each connection is made when the one before is there, and has begun to send: two round trips.
const START_GAP: Duration = Duration::from_millis(200);
/// Share of the link that others' short flows ask for.
const BACKGROUND_LOAD: f64 = 0.05;
/// What each of them moves, in the mean.
const BACKGROUND_BYTES: f64 = 30e3;
/// Of the Pareto distribution of what they move.
const BACKGROUND_SHAPE: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_row_for_each_variant_and_a_mark_for_each_cell() {
        let cell = Cell { utilisation: 0.9, loss: 0.01, jain: 0.99, mbps: 9.0 };
        let rows = vec![(Contender::Adaptive, vec![cell; 2])];
        let grid = Grid { counts: vec![1, 10], rows };
        let table = wide(&Figure::LOSS, 0.25, &grid);
        assert_eq!((table.name.as_str(), table.columns.len(), table.rows.len()), ("buffer_0.25_bdp", 4, 1));
        assert_eq!(long(&Figure::LOSS, 0.25, &grid).rows.len(), 2);
    }
}
