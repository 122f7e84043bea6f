//! The parallel-TCP paper's comparison: NewReno, Scalable, HS-TCP, H-TCP and CUBIC, single and parallel, over a
//! dumbbell of 10 Mb/s, and longhaul's own control on the same path. Over emulated paths the TCPs are the kernel's.

mod measured;
mod routes;
mod simulated;
mod single;
mod verdicts;

use crate::ExperimentError;
use crate::Scale;
use crate::experiment::{self, Backend, Experiment};
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec, Protocol, TcpFlow};
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Distribution, Traffic};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One for each of the paper's figures, which one measurement serves, one for what it says of single connections, and one for
/// several routes.
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
    )
    .of_shared_runs(),
    Experiment::either(
        "ptcp-fairness",
        "How fairly 1 to 30 parallel TCPs of five kinds share a 10 Mb/s link",
        &FAIRNESS,
        |backend| report(backend, &Figure::FAIRNESS),
    )
    .of_shared_runs(),
    single::EXPERIMENT,
    routes::EXPERIMENT,
];

/// Of the throughput figure.
const UTILISATION: [Claim; 5] = [
    Claim::paper(
        "Parallel TCP, throughput figure",
        "all variants use almost the same share of the link (within 5 points)",
    ),
    Claim::paper(
        "Parallel TCP, throughput figure",
        "the link is not full with 1 and 5 flows, and almost full from 10 on (95 % of what it can carry of data)",
    ),
    Claim::paper("Parallel TCP, throughput figure", "more than 10 flows gain nothing (2 points at most)"),
    Claim::paper(
        "Parallel TCP, throughput figure",
        "every variant uses more of the link in parallel than alone (with 5 flows and more)",
    ),
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
        "all are alike up to 10 flows (within 0.05), and a little less fair beyond (a hundredth at least)",
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
    const ALL: [Figure; 3] = [Figure::UTILISATION, Figure::LOSS, Figure::FAIRNESS];
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cell {
    utilisation: f64,
    loss: f64,
    jain: f64,
    /// Of all flows together, without the background.
    mbps: f64,
}

/// What the paper does not give.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Condition {
    /// Of the bottleneck's queue, in bandwidth-delay products.
    buffer_bdp: f64,
    /// The most that a TCP receiver advertises, as a share of that product. `None`: as much as it takes.
    window: Option<f64>,
    /// Whether TCPs acknowledge selectively. The paper's did not; it left that for later.
    sack: bool,
}

impl Condition {
    /// Bytes that a receiver advertises at most.
    fn window_bytes(&self) -> Option<u32> {
        let product = RATE_MBIT * 1e6 / 8.0 * RTT_MS * 1e-3;
        self.window.map(|share| (share * product) as u32)
    }

    /// All of these sizes of the buffer with each of these windows; then, with selective acknowledgements, the first size with
    /// the first two windows.
    fn all(buffers: &[f64], windows: &[Option<f64>]) -> Vec<Condition> {
        let of = |sack| {
            move |&window| buffers.iter().map(move |&buffer_bdp| Condition { buffer_bdp, window, sack })
        };
        let with_sack = windows.iter().take(2).filter_map(|window| of(true)(window).next());
        windows.iter().flat_map(of(false)).chain(with_sack).collect()
    }

    /// Who is looked at under it: what a TCP receiver advertises and acknowledges does not change our own control.
    fn minds(&self, contender: &Contender) -> bool {
        (self.window.is_none() && !self.sack) || *contender != Contender::Adaptive
    }

    /// For the names of tables.
    fn key(&self) -> String {
        let window = self.window_bytes().map_or(String::new(), |bytes| format!("_window_{bytes}"));
        let sack = if self.sack { "_sack" } else { "" };
        format!("buffer_{}_bdp{window}{sack}", self.buffer_bdp)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {} BDP, ", self.buffer_bdp)?;
        match self.window {
            Some(share) => write!(f, "windows of {share} BDP")?,
            None => f.write_str("any window")?,
        }
        f.write_str(if self.sack { ", SACK" } else { "" })
    }
}

/// The cells under one condition.
#[derive(Clone, Debug)]
struct Grid {
    counts: Vec<u64>,
    /// A cell for each count.
    rows: Vec<(Contender, Vec<Cell>)>,
}

/// What came of it.
#[derive(Clone)]
struct Measured {
    grids: Vec<(Condition, Grid)>,
    /// How it was measured.
    method: Vec<String>,
    /// In how many runs the emulator was late, and of how many.
    late: (usize, usize),
}

/// What three experiments are reports of: the runs of the scale and seed that were asked for last.
struct Shared(Mutex<Option<(Scale, u64, Measured)>>);

static MEASURED: Shared = Shared(Mutex::new(None));
static SIMULATED: Shared = Shared(Mutex::new(None));

impl Shared {
    /// Run, or give what was run at this scale and with this seed before.
    fn once(
        &self,
        scale: Scale,
        seed: u64,
        run: impl FnOnce() -> Result<Measured, ExperimentError>,
    ) -> Result<Measured, ExperimentError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, measured)) = last.as_ref().filter(|one| (one.0, one.1) == (scale, seed)) {
            return Ok(measured.clone());
        }
        let measured = run()?;
        *last = Some((scale, seed, measured.clone()));
        Ok(measured)
    }
}

fn report(backend: &Backend<'_>, figure: &Figure) -> Result<Findings, ExperimentError> {
    let Measured { grids, mut method, late } = match backend {
        Backend::Simulator(options) => {
            SIMULATED.once(options.scale, options.seed, || Ok(simulated::run(options)))?
        }
        Backend::Lab(bench) => {
            MEASURED.once(bench.options.scale, bench.options.seed, || measured::measure(bench))?
        }
    };
    if let Backend::Lab(bench) = backend {
        bench.take_over(late);
    }
    method.push(format!(
        "The paper gives neither delay nor buffer, duration or background traffic; these are ours: {RTT_MS} ms, a \
         buffer of one bandwidth-delay product and smaller and larger ones, windows that no receiver limits and such as are \
         limited to a share of that product, TCPs without selective acknowledgements and, for what the paper left for later, \
         with them, MSS {MSS}, a reverse path without loss, and short flows of NewReno (Pareto, {:.0} kB in the mean) that ask for {:.0} % of the link. `{}`: longhaul's default control, each flow an object transfer over UDP, in \
         clear.",
        BACKGROUND_BYTES / 1e3,
        BACKGROUND_LOAD * 100.0,
        Contender::Adaptive.name()
    ));
    let mut plane = Plane::default();
    for (condition, grid) in &grids {
        let others = Figure::ALL.iter().filter(|other| other.name != figure.name);
        let others = others.flat_map(|other| (other.judge)(grid)).collect();
        plane.push_beside(condition.to_string(), (figure.judge)(grid), others);
    }
    let figures = grids
        .iter()
        .flat_map(|(condition, grid)| [wide(figure, condition, grid), long(figure, condition, grid)]);
    method.push(WINDOWS.into());
    Ok(plane.findings(method, figures))
}

impl Contender {
    /// So many of its flows, one after another.
    fn flows(&self, count: u64, condition: &Condition) -> Traffic {
        let flow = match self {
            Contender::Tcp { name, .. } => {
                let control = name.parse().expect("a control that the program has");
                FlowSpec::new(tcp(control, condition), ENDLESS)
            }
            Contender::Adaptive => FlowSpec::object(ControllerKind::Adaptive, ENDLESS),
        };
        Traffic::new(flow, Arrivals::Staggered { from: Time::ZERO, gap: START_GAP, count })
    }
}

/// Others' short flows over this path.
fn background(condition: &Condition, path: &Scenario) -> Traffic {
    let rate = Rate::from_mbps(path.bottleneck_mbit);
    let sizes = Distribution::Pareto { shape: BACKGROUND_SHAPE, mean: BACKGROUND_BYTES };
    Traffic::others(tcp(ControllerKind::NewReno, condition), sizes, BACKGROUND_LOAD, rate, Time::MAX)
}

fn tcp(control: ControllerKind, condition: &Condition) -> Protocol {
    let mut flow = TcpFlow { mss: Some(MSS), ..TcpFlow::new(control) };
    flow.config.sack = condition.sack;
    flow.config.delayed_ack = DELAYED_ACK;
    if let Some(bytes) = condition.window_bytes() {
        flow.config.receive_buffer = bytes.into();
    }
    Protocol::Tcp(flow)
}

/// The link with a buffer of so many bandwidth-delay products.
fn path(buffer_bdp: f64, seed: u64) -> Scenario {
    Scenario { queue_bdp: Some(buffer_bdp), seed, ..experiment::path("parallel-tcp-10m") }
}

/// When a run is measured.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From so long after the last flow has begun.
    settle: Duration,
    /// The same where there is but one: what it lost in its first slow start it repairs one segment a round trip.
    settle_alone: Duration,
    /// For so long.
    measure: Duration,
}

impl Times {
    fn of(scale: Scale) -> Times {
        let ms = Duration::from_millis;
        let (settle, settle_alone, measure) = scale.pick(
            (ms(20_000), ms(60_000), ms(100_000)),
            (ms(10_000), ms(30_000), ms(20_000)),
            (ms(500), ms(500), ms(1000)),
        );
        Times { settle, settle_alone, measure }
    }

    /// From the beginning of the first of so many flows.
    fn settle(&self, count: u64) -> Duration {
        let settle = if count == 1 { self.settle_alone } else { self.settle };
        START_GAP * (count as u32).saturating_sub(1) + settle
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Times { settle, settle_alone, measure } = self;
        write!(
            f,
            "Measured for {measure:?} from {settle:?} after the last has begun ({settle_alone:?} where it is alone)"
        )
    }
}

/// What is run.
struct Plan<'a> {
    conditions: Vec<Condition>,
    contenders: Vec<Contender>,
    counts: &'a [u64],
    seeds: Range<u64>,
}

/// One of its runs.
struct Job<'a> {
    condition: &'a Condition,
    contender: &'a Contender,
    count: u64,
    seed: u64,
}

impl Plan<'_> {
    /// Who is looked at under which condition.
    fn rows(&self) -> impl Iterator<Item = (&Condition, &Contender)> {
        let of = |condition| self.contenders.iter().map(move |contender| (condition, contender));
        self.conditions.iter().flat_map(of).filter(|(condition, contender)| condition.minds(contender))
    }

    fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = vec![];
        for (condition, contender) in self.rows() {
            for &count in self.counts {
                jobs.extend(self.seeds.clone().map(|seed| Job { condition, contender, count, seed }));
            }
        }
        jobs
    }

    /// The figures of all its runs.
    fn grids(&self, cells: &[Cell]) -> Vec<(Condition, Grid)> {
        let means: Vec<Cell> = cells.chunks(self.seeds.clone().count()).map(mean_cell).collect();
        let rows: Vec<_> = self.rows().zip(means.chunks(self.counts.len())).collect();
        let grids = rows.chunk_by(|a, b| a.0.0 == b.0.0).map(|rows| {
            let of =
                |((_, contender), cells): &((_, &Contender), &[Cell])| ((*contender).clone(), cells.to_vec());
            (*rows[0].0.0, Grid { counts: self.counts.to_vec(), rows: rows.iter().map(of).collect() })
        });
        grids.collect()
    }
}

/// As the paper's tables: a row for each variant.
fn wide(figure: &Figure, condition: &Condition, grid: &Grid) -> Table {
    let counts: Vec<String> = grid.counts.iter().map(|count| format!("{count} flows")).collect();
    let title = format!("{}: {condition}", figure.title);
    Table::of(condition.key(), title, &grid.rows)
        .text("variant", |(contender, _)| contender.name())
        .columns(&counts, figure.unit, |(_, cells), at| (figure.of)(&cells[at]))
        .column("mean", figure.unit, |(_, cells)| mean(cells.iter().map(figure.of)))
        .table()
}

/// The same, to be drawn.
fn long(figure: &Figure, condition: &Condition, grid: &Grid) -> Table {
    let title = format!("{} by flows: {condition}", figure.title);
    let points = grid.rows.iter().flat_map(|(contender, cells)| {
        grid.counts.iter().zip(cells).map(move |(count, cell)| (contender, *count, cell))
    });
    Table::of(format!("flows_{}", condition.key()), title, &points.collect::<Vec<_>>())
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
/// What receivers advertise at most, as shares of the bandwidth-delay product.
const WINDOWS_BDP: [Option<f64>; 6] = [None, Some(0.14), Some(0.1), Some(0.2), Some(0.07), Some(0.05)];
/// Which of these the paper's were.
const WINDOWS: &str = "The paper's single flow neither fills the link nor loses anything, and ten flows just fill it. A TCP whose \
                       window nothing limits fills the link or overflows the buffer; one that is held to a tenth or a seventh of \
                       the product does as the paper's did. So its programs most likely had such windows, as programs have that \
                       leave a small buffer as it is.";
/// Bytes of data in a full segment.
const MSS: u16 = 1460;
/// IPv4, TCP, timestamps.
const HEADERS: u32 = 52;
/// The simulator's receivers acknowledge a single segment as late as Linux's do at the soonest, as those that are measured. With
/// 200 ms 30 flows of NewReno with selective acknowledgements lost 5.3 instead of 5.9 % (the kernel's 6.2 %).
const DELAYED_ACK: Duration = Duration::from_millis(40);
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
        let condition = Condition { buffer_bdp: 0.25, window: Some(0.1), sack: false };
        let table = wide(&Figure::LOSS, &condition, &grid);
        let name = "buffer_0.25_bdp_window_12500";
        assert_eq!((table.name.as_str(), table.columns.len(), table.rows.len()), (name, 4, 1));
        assert_eq!(long(&Figure::LOSS, &condition, &grid).rows.len(), 2);
    }

    #[test]
    fn runs_of_one_scale_and_seed_are_made_once() {
        let shared = Shared(Mutex::new(None));
        let runs = |seed: u64, is_run: bool| {
            let mut runs = 0;
            let run = || {
                runs += 1;
                Ok(Measured { grids: vec![], method: vec![seed.to_string()], late: (0, 0) })
            };
            let measured = shared.once(Scale::Quick, seed, run).unwrap();
            assert_eq!((measured.method, runs == 1), (vec![seed.to_string()], is_run));
        };
        for (seed, is_run) in [(1, true), (1, false), (2, true), (1, true)] {
            runs(seed, is_run);
        }
    }

    #[test]
    fn figures_find_their_condition_and_contender_and_our_own_control_minds_no_window() {
        let tcp = Contender::Tcp { name: "cubic", kernel: String::new() };
        let plan = Plan {
            conditions: Condition::all(&[1.0, 0.25], &[None, Some(0.1)]),
            contenders: vec![tcp, Contender::Adaptive],
            counts: &[1, 10],
            seeds: 0..2,
        };
        let jobs = plan.jobs();
        let cells = jobs.iter().map(|job| Cell {
            utilisation: job.condition.buffer_bdp + if job.condition.sack { 8.0 } else { 0.0 },
            loss: job.condition.window.unwrap_or(0.0),
            jain: if *job.contender == Contender::Adaptive { 1.0 } else { 0.0 },
            mbps: job.count as f64 + job.seed as f64,
        });
        let grids = plan.grids(&cells.collect::<Vec<_>>());
        assert_eq!((jobs.len(), grids.len()), (6 * 2 * 2 + 2 * 2 * 2, 6));
        for (condition, grid) in grids {
            let utilisation = condition.buffer_bdp + if condition.sack { 8.0 } else { 0.0 };
            let has_ours = condition.window.is_none() && !condition.sack;
            assert_eq!(grid.rows.len(), if has_ours { 2 } else { 1 });
            for (contender, cells) in grid.rows {
                let is_ours = contender == Contender::Adaptive;
                let found =
                    cells.iter().map(|cell| (cell.utilisation, cell.loss, cell.jain == 1.0, cell.mbps));
                let of = |mbps| (utilisation, condition.window.unwrap_or(0.0), is_ours, mbps);
                assert!(found.eq([of(1.5), of(10.5)]), "{condition}, {contender:?}");
            }
        }
    }
}
