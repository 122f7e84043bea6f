//! Figure 2: the time that 250 KB take over wide-area paths.

use super::path::{BusyPath, History, METHOD, SenderKind, Times};
use super::population::{Population, WidePath, describe, paths};
use super::row::{CLAIMS, Reading, RowKind, Timed, judge, share_above};
use super::{TCP_SACK, tcp_sack};
use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::lab::bench::Bench;
use crate::lab::side_by_side::{Halt, Outcome, side_by_side};
use crate::report::{Findings, Plane, Plot, Table, Unit};
use crate::sim::{Options, run_jobs};
use longhaul_proto::tcp;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowSpec, Protocol, TcpFlow};
use longhaul_sim::traffic::{Arrivals, Distribution, Traffic};
use std::iter;
use std::thread;
use std::time::Duration;

/// Response times over a population of paths.
pub(super) const FIGURE_2: Experiment = Experiment::either(
    "pcp-fig2",
    "Time that 250 KB take over wide-area paths: PCP, TCP-SACK and today's TCP",
    &CLAIMS,
    run,
)
.alone();

fn run(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let Raw { how, first, others } = match backend {
        Backend::Simulator(options) => simulate(options),
        Backend::Lab(bench) => measure(bench)?,
    };
    let mut plane = Plane::default();
    for drawn in iter::once(&first).chain(&others) {
        for reading in [Reading::Transfers, Reading::Paths] {
            plane.push(format!("{}, {}", drawn.population, reading.words()), judge(&drawn.rows, reading));
        }
    }
    let tables = [
        summary(&first.rows),
        populations(iter::once(&first).chain(&others)),
        distribution(&first.rows),
        each_path(&first.paths, &first.rows),
    ];
    Ok(plane.findings(vec![describe(), how, format!("{READINGS} {TCP_SACK}.")], tables))
}

/// How it was done, and what came of each population.
struct Raw {
    how: String,
    first: Drawn,
    others: Vec<Drawn>,
}

/// A population, those of its paths that were taken, and what came of them.
struct Drawn {
    population: Population,
    paths: Vec<WidePath>,
    rows: Vec<Timed>,
}

impl Drawn {
    /// `times`: for each path the seconds of every transfer by row.
    fn of(population: Population, paths: Vec<WidePath>, rows: &[RowKind], times: &[Vec<Vec<f64>>]) -> Drawn {
        let timed = rows.iter().enumerate().map(|(at, &row)| Timed::of(row, times, at));
        Drawn { population, rows: timed.collect(), paths }
    }
}

fn simulate(options: &Options<'_>) -> Raw {
    let count = options.scale.pick(40, 4, 1);
    let taken = options.scale.pick(usize::MAX, usize::MAX, 8);
    let populations = options.scale.pick(&Population::ALL[..], &Population::ALL[..10], &Population::ALL[..2]);
    let drawn: Vec<(Population, Vec<WidePath>)> = populations
        .iter()
        .map(|&population| (population, paths(options.seed, population).into_iter().take(taken).collect()))
        .collect();
    // What the paper compares for all of them, everybody for the first.
    let rows = |at: usize| if at == 0 { &RowKind::SIMULATED[..] } else { &RowKind::SIMULATED[..3] };
    let jobs: Vec<(&WidePath, RowKind)> = drawn
        .iter()
        .enumerate()
        .flat_map(|(at, (_, paths))| paths.iter().map(move |path| (at, path)))
        .flat_map(|(at, path)| rows(at).iter().map(move |&row| (path, row)))
        .collect();
    let mut times = run_jobs(options, &jobs, |&(path, row)| responses(row, path, count)).into_iter();
    let mut found: Vec<Drawn> = drawn
        .iter()
        .enumerate()
        .map(|(at, (population, paths))| {
            let of_path = |_: &WidePath| times.by_ref().take(rows(at).len()).collect();
            let times: Vec<Vec<Vec<f64>>> = paths.iter().map(of_path).collect();
            Drawn::of(*population, paths.clone(), rows(at), &times)
        })
        .collect();
    let how = format!(
        "On each path {count} transfer(s) of 250 KB one after another, {GAP_S} s apart in the mean, while the others' traffic \
         goes on; stopped after {} s. Time: from the beginning of the set-up (a round trip) until the receiver has everything. \
         With a timer of 0.2 s: as Linux has it, 1 s at first. CUBIC begins with ten segments. PCP remembers the transfers \
         before over the same path.",
        SIMULATED_MAX.as_secs()
    );
    let first = found.remove(0);
    Raw { how, first, others: found }
}

/// What the transfers over a path took, seconds; of those that were stopped, until then.
fn responses(row: RowKind, path: &WidePath, count: u64) -> Vec<f64> {
    let sender = match row {
        RowKind::One(sender) => sender,
        RowKind::FourPcp | RowKind::FreshPcp => SenderKind::Pcp,
        RowKind::QuickTcp => SenderKind::Tcp,
    };
    let mut spec = sender.flow(BYTES).expect("there is no kernel in the simulator");
    if row == RowKind::QuickTcp {
        let quick = TcpFlow { config: tcp::Config::default(), ..tcp_sack() };
        spec = FlowSpec::new(Protocol::Tcp(quick), BYTES);
    }
    let arrivals = if row == RowKind::FourPcp {
        // They begin together, at intervals that leave room for slow ones.
        let until = FIRST + FOUR_EVERY * (count.div_ceil(4) as u32) + FOUR_EVERY / 2;
        let gap_s = Distribution::Constant(FOUR_EVERY.as_secs_f64());
        Arrivals::Random { from: FIRST, until, gap_s, batch: 4 }
    } else {
        Arrivals::Chained { from: FIRST, gap_s: Distribution::Exponential { mean: GAP_S }, count, sources: 1 }
    };
    let remembers = matches!(row, RowKind::One(SenderKind::Pcp) | RowKind::FourPcp);
    let transfers = Traffic { remembers, ..Traffic::new(spec, arrivals) };
    path.simulate([transfers], SIMULATED_MAX)
}

fn measure(bench: &Bench<'_>) -> Result<Raw, ExperimentError> {
    let (of_paths, rounds, limit_s) = bench.pick(([380, 380], 10, 60), ([8, 2], 2, 15), ([1, 1], 1, 3));
    let rows = bench.pick(&RowKind::MEASURED[..], &RowKind::MEASURED[..], &RowKind::MEASURED[..3]);
    // What the paper compares for the second, everybody for the first.
    let others_rows = &RowKind::MEASURED[..3];
    let draw = |at: usize| evenly(paths(bench.options.seed, MEASURED[at]), of_paths[at]);
    let (paths, others_paths) = (draw(0), draw(1));
    let same: Vec<Option<usize>> =
        others_paths.iter().map(|path| paths.iter().position(|one| one == path)).collect();
    let differing = iter::zip(&others_paths, &same).filter(|(_, same)| same.is_none());
    let jobs: Vec<(&WidePath, &[RowKind])> =
        paths.iter().map(|path| (path, rows)).chain(differing.map(|(path, _)| (path, others_rows))).collect();
    bench.expect_runs(jobs.len());
    let limits = Times::new(bench, limit_s);
    let mut times =
        side_by_side(bench, AT_A_TIME, &jobs, |(path, rows), halt| over(path, rows, rounds, limits, halt))?;
    let mut differing = times.split_off(paths.len()).into_iter();
    let of_path = |same: Option<usize>| match same {
        Some(at) => Some(times[at][..others_rows.len()].to_vec()),
        None => differing.next(),
    };
    let others_times: Vec<_> = same.into_iter().filter_map(of_path).collect();
    let how = format!(
        "{} of them of the first population and {} of the second, of which those that are in both are measured once; on each \
         {rounds} transfers of 250 KB by everyone in turns, one after another, while the others' traffic goes on; given up \
         after {limit_s} s, which then is its time. {METHOD}",
        of_paths[0], of_paths[1]
    );
    Ok(Raw {
        how,
        first: Drawn::of(MEASURED[0], paths, rows, &times),
        others: vec![Drawn::of(MEASURED[1], others_paths, others_rows, &others_times)],
    })
}

/// So many of them, evenly from all, so that every host is an end of some.
fn evenly(all: Vec<WidePath>, count: usize) -> Vec<WidePath> {
    let every = all.len() / count;
    all.into_iter().step_by(every).take(count).collect()
}

/// Seconds of every transfer over a path, by row.
fn over(
    path: &WidePath,
    rows: &[RowKind],
    rounds: usize,
    limits: Times,
    halt: Halt<'_>,
) -> Result<Outcome<Vec<Vec<f64>>>, ExperimentError> {
    let busy = BusyPath::start(path, limits, halt)?;
    let mut times = vec![vec![]; rows.len()];
    let one = |sender| vec![History::new(sender)];
    let mut histories: Vec<Vec<History>> = rows
        .iter()
        .map(|row| match row {
            RowKind::One(sender) => one(*sender),
            RowKind::FourPcp => vec![History::new(SenderKind::Pcp); 4],
            RowKind::FreshPcp | RowKind::QuickTcp => unreachable!("only in the simulator"),
        })
        .collect();
    let mut is_late = false;
    for _ in 0..rounds {
        for (times, histories) in times.iter_mut().zip(&mut histories) {
            let together = thread::scope(|scope| {
                let busy = &busy;
                let begun: Vec<_> = histories
                    .iter_mut()
                    .map(|history| scope.spawn(move || busy.transfer(history, BYTES, halt)))
                    .collect();
                let ended = begun
                    .into_iter()
                    .map(|one| one.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)));
                ended.collect::<Result<Vec<_>, _>>()
            })?;
            is_late |= together.iter().any(|moved| moved.is_late);
            times.extend(together.into_iter().map(|moved| moved.seconds));
            halt.sleep(GAP)?;
        }
    }
    Ok(Outcome { of: times, is_late: is_late || busy.lab.cpu_limited() })
}

fn summary(timed: &[Timed]) -> Table {
    let title = "Time for 250 KB: mean over paths of their means; the last four columns over all transfers";
    Table::of("senders", title, timed)
        .text("sender", |one| one.row.name())
        .column("mean", Unit::Seconds, |one| one.of_paths.mean)
        .column("paper", Unit::Seconds, |one| one.row.paper_s())
        .column("median path", Unit::Seconds, |one| one.of_paths.median)
        .column("slowest path", Unit::Seconds, |one| one.of_paths.max)
        .column("slowest", Unit::Seconds, |one| one.of_transfers.max)
        .column("above 2 s", Unit::Share, |one| one.share_above(2.0))
        .column("above 5 s", Unit::Share, |one| one.share_above(5.0))
        .column("transfers", Unit::Number, |one| one.of_transfers.count)
        .table()
        .plot(Plot::bars("sender", &["mean", "paper"]))
}

/// The paper's figure: the share of paths whose mean is at most so long.
fn distribution(timed: &[Timed]) -> Table {
    let names: Vec<&str> = timed.iter().map(|one| one.row.name()).collect();
    let mut limits: Vec<f64> = timed.iter().flat_map(|one| one.path_means.iter().copied()).collect();
    limits.sort_by(f64::total_cmp);
    let share = |one: &Timed, limit: f64| {
        one.path_means.iter().filter(|&&mean| mean <= limit).count() as f64 / one.path_means.len() as f64
    };
    Table::of("distribution", "Share of paths whose mean time is at most so long", &limits)
        .column("at most", Unit::Seconds, |limit| *limit)
        .columns(&names, Unit::Share, |limit, at| share(&timed[at], *limit))
        .table()
        .detail()
        .plot(Plot::lines("at most", &names).log_x())
}

fn each_path(paths: &[WidePath], timed: &[Timed]) -> Table {
    let means: Vec<String> = timed.iter().map(|one| format!("{} mean", one.row.name())).collect();
    Table::of("paths", "Every path", &paths.iter().enumerate().collect::<Vec<_>>())
        .column("rate", Unit::Mbps, |(_, path)| path.scenario.bottleneck_mbit)
        .column("RTT", Unit::Millis, |(_, path)| path.scenario.rtt_ms)
        .column("queue", Unit::Bdp, |(_, path)| {
            path.scenario.queue_bytes() as f64 / path.scenario.bdp_bytes() as f64
        })
        .column("random loss", Unit::Share, |(_, path)| path.scenario.loss)
        .column("cross load", Unit::Share, |(_, path)| path.cross_load)
        .columns(&means, Unit::Seconds, |(index, _), at| timed[at].path_means[*index])
        .table()
        .detail()
}

/// The paper's figures in every population.
fn populations<'a>(drawn: impl Iterator<Item = &'a Drawn>) -> Table {
    type Of = fn(&Timed) -> f64;
    let of =
        |drawn: &Drawn, row: RowKind, figure: Of| drawn.rows.iter().find(|one| one.row == row).map(figure);
    let (pcp, tcp) = (RowKind::One(SenderKind::Pcp), RowKind::One(SenderKind::Tcp));
    Table::of(
        "populations",
        "The paper's figures in every population: means over paths of their means",
        &drawn.collect::<Vec<_>>(),
    )
    .text("population", |drawn| drawn.population.to_string())
    .column("PCP", Unit::Seconds, |drawn| of(drawn, pcp, |one| one.of_paths.mean))
    .column("TCP", Unit::Seconds, |drawn| of(drawn, tcp, |one| one.of_paths.mean))
    .column("4 PCP", Unit::Seconds, |drawn| of(drawn, RowKind::FourPcp, |one| one.of_paths.mean))
    .column("slowest PCP path", Unit::Seconds, |drawn| of(drawn, pcp, |one| one.of_paths.max))
    .column("PCP above 2 s", Unit::Share, |drawn| of(drawn, pcp, |one| one.share_above(2.0)))
    .column("TCP above 5 s", Unit::Share, |drawn| of(drawn, tcp, |one| one.share_above(5.0)))
    .column("TCP paths above 5 s", Unit::Share, |drawn| {
        of(drawn, tcp, |one| share_above(&one.path_means, 5.0))
    })
    .table()
}

/// The paper's 250 KB.
const BYTES: u64 = 250_000;
/// Between two transfers, for the queue to forget the one before.
const GAP: Duration = Duration::from_millis(100);
/// In the simulator, where others' traffic has settled by the first of these: between two transfers in the mean, between the
/// beginnings of four at a time, and when a path's transfers end at the latest.
const FIRST: Time = Time::from_millis(2000);
const GAP_S: f64 = 0.2;
const FOUR_EVERY: Duration = Duration::from_secs(6);
const SIMULATED_MAX: Duration = Duration::from_secs(600);
/// What is measured: the one that was drawn before anything was, and the one with hosts as fast that loses most.
const MEASURED: [Population; 2] = [Population::ALL[0], Population::ALL[3]];
/// Paths at a time, beside nothing else: PCP's trains take an emulator that has to wait for a processor for a queue. Beside
/// other experiments that left nothing of two processors idle PCP took 1.57 times as long, TCP 1.2 times.
const AT_A_TIME: usize = 4;
const READINGS: &str = "In brackets: the interval in which 95 of 100 draws of as many paths lie. Whether the paper speaks of \
                        transfers or of the paths' means, as its figure does, where it says all and a tenth, is left open: \
                        both are judged.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcp::row::testing::timed;

    #[test]
    fn the_distribution_ends_with_all_paths() {
        let table = distribution(&timed(|_| [0.4, 0.6]));
        assert_eq!(table.rows.len(), 2 * RowKind::MEASURED.len());
        assert!(table.rows.last().is_some_and(|row| row[1..].iter().all(|share| *share == 1.0.into())));
        assert_eq!(table.rows[0][1], 0.5.into());
    }
}
