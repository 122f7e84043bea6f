//! Figure 2: the time that 250 KB take over wide-area paths.

use super::path::{BusyPath, History, METHOD, Sender, Times};
use super::{Claim, Experiment, ExperimentError, Findings};
use crate::experiments::abreast::{Halt, Outcome, abreast};
use crate::experiments::bench::Bench;
use longhaul_sim::experiments::pcp::population::{WidePath, describe, paths};
use longhaul_sim::experiments::pcp::{FIGURE_2_CLAIMS, TCP_SACK};
use longhaul_sim::experiments::{Column, Plot, Statement, Table, Unit};
use longhaul_sim::metrics::Summary;
use std::thread;
use std::time::Duration;

/// Response times over a population of paths.
pub(super) const FIGURE_2: Experiment = Experiment {
    id: "pcp-fig2",
    title: "Time that 250 KB take over wide-area paths: PCP, TCP-SACK and kernel TCP",
    claims: &CLAIMS,
    has_parts: false,
    measure,
};

const AS_FAST: Claim = Claim::ours(
    "longhaul's default control takes no longer than the kernel's TCP in the mean over the paths",
);
const CLAIMS: [Claim; 5] =
    [FIGURE_2_CLAIMS[0], FIGURE_2_CLAIMS[1], FIGURE_2_CLAIMS[2], FIGURE_2_CLAIMS[3], AS_FAST];

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    One(Sender),
    /// Four of PCP at the same time.
    FourPcp,
}

impl Row {
    const ALL: [Row; 5] = [
        Row::One(Sender::Pcp),
        Row::One(Sender::Tcp),
        Row::FourPcp,
        Row::One(Sender::Kernel),
        Row::One(Sender::Adaptive),
    ];

    fn name(self) -> &'static str {
        match self {
            Row::One(sender) => sender.name(),
            Row::FourPcp => "4 parallel PCP",
        }
    }

    /// The paper's mean, seconds.
    fn paper_s(self) -> Option<f64> {
        match self {
            Row::One(Sender::Pcp) => Some(0.52),
            Row::One(Sender::Tcp) => Some(1.33),
            _ => None,
        }
    }
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let (of_paths, rounds, limit_s) = bench.pick((76, 10, 60), (8, 2, 15), (1, 1, 3));
    let rows = bench.pick(&Row::ALL[..], &Row::ALL[..], &Row::ALL[..3]);
    let population = paths(bench.options.seed);
    // Evenly from all, so that every host is an end of some.
    let every = population.len() / of_paths;
    let chosen: Vec<&WidePath> = population.iter().step_by(every).take(of_paths).collect();
    bench.expect_runs(chosen.len());
    let limits = Times::new(bench, limit_s);
    let times = abreast(bench, AT_A_TIME, &chosen, |path, halt| over(path, rows, rounds, limits, halt))?;
    let timed: Vec<Timed> = rows.iter().enumerate().map(|(at, &row)| Timed::of(row, &times, at)).collect();
    Ok(Findings {
        method: vec![
            describe(),
            format!(
                "Of these {} paths, on each {rounds} transfers of 250 KB by everyone in turns, one after another, while \
                 the others' traffic goes on; given up after {limit_s} s, which then is its time. {METHOD}",
                chosen.len()
            ),
            format!("{TCP_SACK}."),
        ],
        tables: vec![summary(&timed), distribution(&timed), each_path(&chosen, &timed)],
        statements: judge(&timed),
    })
}

/// Seconds of every transfer over a path, by row.
fn over(
    path: &WidePath,
    rows: &[Row],
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
            Row::One(sender) => one(*sender),
            Row::FourPcp => vec![History::new(Sender::Pcp); 4],
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

/// A row's times.
struct Timed {
    row: Row,
    /// Over the paths, of their means.
    of_paths: Summary,
    of_transfers: Summary,
    transfers: Vec<f64>,
    path_means: Vec<f64>,
}

impl Timed {
    fn of(row: Row, times: &[Vec<Vec<f64>>], at: usize) -> Timed {
        let path_means: Vec<f64> =
            times.iter().map(|rows| Summary::of(rows[at].iter().copied()).mean).collect();
        let transfers: Vec<f64> = times.iter().flat_map(|rows| rows[at].iter().copied()).collect();
        Timed {
            row,
            of_paths: Summary::of(path_means.iter().copied()),
            of_transfers: Summary::of(transfers.iter().copied()),
            transfers,
            path_means,
        }
    }

    fn share_above(&self, limit_s: f64) -> f64 {
        let above = self.transfers.iter().filter(|&&time| time > limit_s).count();
        above as f64 / self.transfers.len().max(1) as f64
    }
}

fn summary(timed: &[Timed]) -> Table {
    let columns = vec![
        Column::text("sender"),
        Column::new("mean", Unit::Seconds),
        Column::new("paper", Unit::Seconds),
        Column::new("median path", Unit::Seconds),
        Column::new("slowest path", Unit::Seconds),
        Column::new("slowest", Unit::Seconds),
        Column::new("above 2 s", Unit::Share),
        Column::new("above 5 s", Unit::Share),
        Column::new("transfers", Unit::Number),
    ];
    let title = "Time for 250 KB: mean over paths of their means; the last four columns over all transfers";
    let mut table = Table::new("senders", title, columns);
    for one in timed {
        table.push(vec![
            one.row.name().into(),
            one.of_paths.mean.into(),
            one.row.paper_s().into(),
            one.of_paths.median.into(),
            one.of_paths.max.into(),
            one.of_transfers.max.into(),
            one.share_above(2.0).into(),
            one.share_above(5.0).into(),
            one.of_transfers.count.into(),
        ]);
    }
    table.plot(Plot::bars("sender", &["mean", "paper"]))
}

/// The paper's figure: the share of paths whose mean is at most so long.
fn distribution(timed: &[Timed]) -> Table {
    let names: Vec<&str> = timed.iter().map(|one| one.row.name()).collect();
    let mut columns = vec![Column::new("at most", Unit::Seconds)];
    columns.extend(names.iter().map(|name| Column::new(*name, Unit::Share)));
    let mut table =
        Table::new("distribution", "Share of paths whose mean time is at most so long", columns).detail();
    let mut limits: Vec<f64> = timed.iter().flat_map(|one| one.path_means.iter().copied()).collect();
    limits.sort_by(f64::total_cmp);
    for limit in limits {
        let share = |one: &Timed| {
            one.path_means.iter().filter(|&&mean| mean <= limit).count() as f64 / one.path_means.len() as f64
        };
        table.push([limit.into()].into_iter().chain(timed.iter().map(|one| share(one).into())).collect());
    }
    table.plot(Plot::lines("at most", &names).log_x())
}

fn each_path(paths: &[&WidePath], timed: &[Timed]) -> Table {
    let mut columns = vec![
        Column::new("rate", Unit::Mbps),
        Column::new("RTT", Unit::Millis),
        Column::new("queue", Unit::Bdp),
        Column::new("random loss", Unit::Share),
        Column::new("cross load", Unit::Share),
    ];
    columns.extend(timed.iter().map(|one| Column::new(format!("{} mean", one.row.name()), Unit::Seconds)));
    let mut table = Table::new("paths", "Every path", columns).detail();
    for (index, path) in paths.iter().enumerate() {
        let scenario = &path.scenario;
        let mut row = vec![
            scenario.bottleneck_mbit.into(),
            scenario.rtt_ms.into(),
            (scenario.queue_bytes() as f64 / scenario.bdp_bytes() as f64).into(),
            scenario.loss.into(),
            path.cross_load.into(),
        ];
        row.extend(timed.iter().map(|one| one.path_means[index].into()));
        table.push(row);
    }
    table
}

fn judge(timed: &[Timed]) -> Vec<Statement> {
    let of = |row: Row| timed.iter().find(|one| one.row == row);
    let one = |sender: Sender| of(Row::One(sender));
    let [ratio, bounded, slow, parallel] = &FIGURE_2_CLAIMS;
    let (Some(pcp), Some(tcp), Some(four)) = (one(Sender::Pcp), one(Sender::Tcp), of(Row::FourPcp)) else {
        return CLAIMS.iter().map(|claim| claim.leave_open(TOO_SHORT)).collect();
    };
    let times = tcp.of_paths.mean / pcp.of_paths.mean;
    let why = |quiet: &'static str| if times < 1.0 { BUSY_HOST } else { quiet };
    let against_tcp = four.of_paths.mean / tcp.of_paths.mean;
    vec![
        ratio
            .judge(
                times >= 2.5,
                format!("{:.2} against {:.2} s, {times:.2} times as long", pcp.of_paths.mean, tcp.of_paths.mean),
            )
            .otherwise(why(
                "the paper's TCP met more losses than ours: the more than 10 % of its transfers above 5 s make over 0.5 of \
                 its mean of 1.33 s, and it does not tell what its paths lost; on clean paths both are bound by their \
                 start-up",
            )),
        bounded
            .judge(
                pcp.of_transfers.max <= 2.0,
                format!("{:.2} s at most; {:.1} % above 2 s", pcp.of_transfers.max, pcp.share_above(2.0) * 100.0),
            )
            .otherwise(why("paths of 5 or 10 Mb/s of which others take most leave less than 1 Mb/s, over which 250 KB take 2 s")),
        slow.judge(tcp.share_above(5.0) > 0.1, format!("{:.1} % of the TCP transfers", tcp.share_above(5.0) * 100.0))
            .otherwise(
                "the paper's paths must have lost more, or more in a row, than ours: 250 KB in 5 s are 0.4 Mb/s, which \
                 TCP falls below at about 5 % loss",
            ),
        parallel
            .judge(
                (0.75..=1.25).contains(&against_tcp),
                format!("{:.2} s each, {against_tcp:.2} of TCP's time", four.of_paths.mean),
            )
            .otherwise(why("where nothing is lost the four share what one has for itself")),
        match one(Sender::Adaptive).zip(one(Sender::Kernel)) {
            None => AS_FAST.leave_open(TOO_SHORT),
            Some((ours, kernel)) => AS_FAST
                .judge(
                    ours.of_paths.mean <= kernel.of_paths.mean,
                    format!("{:.2} against {:.2} s", ours.of_paths.mean, kernel.of_paths.mean),
                )
                .otherwise(
                    "250 KB are seventeen segments ten times over: on a fast path they are a matter of the first few round \
                     trips, in which CUBIC's ten segments, doubled, are as fast as any search for the path's rate",
                ),
        },
    ]
}

/// The paper's 250 KB.
const BYTES: u64 = 250_000;
/// Between two transfers, for the queue to forget the one before.
const GAP: Duration = Duration::from_millis(100);
/// Paths at a time. PCP's trains take an emulator that has to wait for a processor for a queue.
const AT_A_TIME: usize = 2;
const BUSY_HOST: &str = "PCP takes for a queue what is a thread that got its processor late, the emulator's or its own, where \
                         other programs want the same processors; the simulator's experiment of this name is free of that";
const TOO_SHORT: &str = "this run was too short for it";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Verdict;

    /// One time for each of two paths, by row.
    fn timed(of: impl Fn(Row) -> [f64; 2]) -> Vec<Timed> {
        let times: Vec<Vec<Vec<f64>>> =
            (0..2).map(|path| Row::ALL.iter().map(|&row| vec![of(row)[path]]).collect()).collect();
        Row::ALL.iter().enumerate().map(|(at, &row)| Timed::of(row, &times, at)).collect()
    }

    #[test]
    fn the_papers_own_figures_pass() {
        let timed = timed(|row| match row {
            Row::One(Sender::Tcp) => [0.5, 5.5],
            Row::FourPcp => [1.0, 5.0],
            _ => [0.4, 0.6],
        });
        let verdicts: Vec<Verdict> = judge(&timed).into_iter().map(|one| one.verdict).collect();
        use Verdict::{Met, Reproduced};
        assert_eq!(verdicts, [Reproduced, Reproduced, Reproduced, Reproduced, Met]);
    }

    #[test]
    fn the_distribution_ends_with_all_paths() {
        let table = distribution(&timed(|_| [0.4, 0.6]));
        assert_eq!(table.rows.len(), 2 * Row::ALL.len());
        assert!(table.rows.last().is_some_and(|row| row[1..].iter().all(|share| *share == 1.0.into())));
        assert_eq!(table.rows[0][1], 0.5.into());
    }
}
