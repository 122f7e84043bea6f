//! Figure 3: one path with background loss, transfers of all sizes, and TCP beside PCP.

use super::TCP_SACK;
use super::path::{BusyPath, History, METHOD, SenderKind, Times};
use super::population::WidePath;
use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::lab::bench::Bench;
use crate::lab::datagrams::Moved;
use crate::lab::side_by_side::{Halt, Outcome, side_by_side};
use crate::report::{Claim, Finding, Findings, Interval, Plot, Statement, Table, Unit};
use crate::sim::{Options, run_jobs};
use longhaul_lab::datagrams::joined;
use longhaul_proto::units::Time;
use longhaul_sim::flow::FlowSpec;
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Distribution, Traffic};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Throughput against size, and TCP beside PCP.
pub(super) const FIGURE_3: Experiment = Experiment::either(
    "pcp-fig3",
    "Transfers of all sizes over one lossy path, and TCP beside four of PCP",
    &CLAIMS,
    run,
)
.differing(
    "a quick run measures 2 to 4 transfers of each size over the emulated path, whose times differ by a third; 200 are simulated",
);

const FAST: Claim = Claim::ours("longhaul's default control moves large files at least as fast as PCP does");
const CLAIMS: [Claim; 4] = [TCP_SLOW, PCP_FAST, UNAFFECTED, FAST];
const TCP_SLOW: Claim =
    Claim::paper("PCP §4.1, Figure 3", "TCP gets no more than 5 Mb/s, however large the transfer");
const PCP_FAST: Claim = Claim::paper("PCP §4.1, Figure 3", "PCP moves large files at more than 15 Mb/s");
const UNAFFECTED: Claim = Claim::paper(
    "PCP §4.1, Figure 3",
    "the TCP transfer is unaffected by four PCP transfers beside it (within 10 %)",
);

/// Transfers one after another over a path of their own.
#[derive(Clone, Copy, Debug)]
struct Series {
    sender: SenderKind,
    bytes: u64,
    /// PCP transfers that go on all the time beside them.
    pcp_beside: usize,
    count: u64,
    /// Which of the path's losses they meet.
    seed: u64,
}

/// What was moved, and how long each transfer took.
struct Raw {
    sizes: &'static [u64],
    senders: &'static [SenderKind],
    beside_bytes: u64,
    measured: Vec<(Series, Vec<f64>)>,
}

fn run(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let (raw, seed) = match backend {
        Backend::Simulator(options) => (simulate(options), options.seed),
        Backend::Lab(bench) => (measure(bench)?, bench.options.seed),
    };
    let Raw { sizes, senders, beside_bytes, measured } = raw;
    let beside = Beside::of(&measured, beside_bytes);
    let rows = senders.iter().map(|&sender| {
        let times = |&bytes: &u64| seconds(&measured, sender, bytes, 0);
        Row { sender, sizes, seconds: sizes.iter().map(times).collect() }
    });
    let rows: Vec<Row> = rows.collect();
    let mut about = method(&lossy_path(seed));
    about.push(backend.choose("PCP remembers the transfers before.", METHOD).into());
    Ok(Findings {
        method: about,
        tables: vec![by_size_table(sizes, &rows), fastest(&rows), beside.table()],
        statements: if backend.pick(true, true, false) {
            judge(&rows, &beside)
        } else {
            CLAIMS.iter().map(|claim| claim.leave_open("this run was too short for it")).collect()
        },
    })
}

fn simulate(options: &Options<'_>) -> Raw {
    let sizes = options.scale.pick(&SIZES[..], &SIZES[2..5], &SIZES[..1]);
    let (count, seeds) = options.scale.pick((200, 4), (200, 4), (2, 1));
    let (senders, seed) = (&SenderKind::SIMULATED, options.seed);
    let beside_bytes = sizes.last().copied().unwrap_or(BESIDE_BYTES).min(BESIDE_BYTES);
    let mut jobs = beside_jobs(seed..seed + seeds, beside_bytes, count / seeds);
    jobs.extend(alone_jobs(senders, sizes, beside_bytes, seed, |_| count));
    let times = run_jobs(options, &jobs, Series::simulate);
    Raw { sizes, senders, beside_bytes, measured: jobs.into_iter().zip(times).collect() }
}

fn measure(bench: &Bench<'_>) -> Result<Raw, ExperimentError> {
    // 200 of the largest two would take hours.
    let sizes = bench.pick(&SIZES[..5], &SIZES[1..5], &SIZES[..1]);
    let (labs, each) = bench.pick((20, 10), (4, 1), (1, 1));
    let count = |bytes: u64| bench.pick(200, if bytes > 2_000_000 { 2 } else { 4 }, 1);
    let senders =
        bench.pick(&SenderKind::MEASURED[..], &SenderKind::MEASURED[..], &SenderKind::MEASURED[..2]);
    let beside_bytes = sizes.last().copied().unwrap_or(BESIDE_BYTES).min(BESIDE_BYTES);
    let seed = bench.options.seed;
    // The long ones first, so that nobody waits for the last of them alone.
    let mut jobs = beside_jobs(seed..seed + labs, beside_bytes, each);
    jobs.extend(alone_jobs(senders, sizes, beside_bytes, seed, count));
    bench.expect_runs(jobs.len());
    Ok(Raw { sizes, senders, beside_bytes, measured: run_all(bench, jobs)? })
}

/// Everybody alone at all sizes, the largest first; but for TCP at the size at which it is timed beside others too.
fn alone_jobs(
    senders: &[SenderKind],
    sizes: &[u64],
    beside_bytes: u64,
    seed: u64,
    count: impl Fn(u64) -> u64,
) -> Vec<Series> {
    let all = sizes.iter().rev().flat_map(|&bytes| senders.iter().map(move |&sender| (sender, bytes)));
    let new = all.filter(|&(sender, bytes)| sender != SenderKind::Tcp || bytes != beside_bytes);
    new.map(|(sender, bytes)| Series { sender, bytes, pcp_beside: 0, count: count(bytes), seed }).collect()
}

/// TCP alone and beside four of PCP, over paths with these seeds.
fn beside_jobs(seeds: Range<u64>, bytes: u64, count: u64) -> Vec<Series> {
    let job = |seed, pcp_beside| Series { sender: SenderKind::Tcp, bytes, pcp_beside, count, seed };
    seeds.flat_map(|seed| [job(seed, 0), job(seed, PCP_BESIDE)]).collect()
}

/// Seconds of every transfer of these jobs, whatever their order.
fn seconds(measured: &[(Series, Vec<f64>)], sender: SenderKind, bytes: u64, pcp_beside: usize) -> Vec<f64> {
    let is_of = |job: &Series| (job.sender, job.bytes, job.pcp_beside) == (sender, bytes, pcp_beside);
    measured.iter().filter(|(job, _)| is_of(job)).flat_map(|(_, times)| times).copied().collect()
}

/// Seconds of every transfer of each job; first those that do not depend on a quiet host.
fn run_all(bench: &Bench<'_>, jobs: Vec<Series>) -> Result<Vec<(Series, Vec<f64>)>, ExperimentError> {
    let limits = Times::new(bench, bench.pick(600, 30, 5));
    let (probing, patient): (Vec<Series>, Vec<Series>) = jobs.into_iter().partition(Series::is_probing);
    let mut measured = vec![];
    for (jobs, at_a_time) in [(patient, PATIENT_AT_A_TIME), (probing, PROBING_AT_A_TIME)] {
        let times = side_by_side(bench, at_a_time, &jobs, |job, halt| job.run(limits, halt))?;
        measured.extend(jobs.into_iter().zip(times));
    }
    Ok(measured)
}

fn method(path: &WidePath) -> Vec<String> {
    vec![
        format!(
            "One path of ours, for the paper does not describe its: {} Mb/s, {} ms, a queue of one bandwidth-delay \
             product, {:.1} % of the packets lost elsewhere, which is set so that TCP gets about the paper's 5 Mb/s (a fit: that TCP \
             is so slow is no evidence), others' short flows ask for {:.0} % of the link. Each size and \
             sender has the path for itself, transfers one after another; rate: size over the mean time, set-up \
             included. TCP beside PCP: the same transfers over paths that lose the same, without and with four PCP \
             transfers of that size at any time.",
            path.scenario.bottleneck_mbit,
            path.scenario.rtt_ms,
            path.scenario.loss * 100.0,
            path.cross_load * 100.0
        ),
        format!("{TCP_SACK}."),
    ]
}

impl Series {
    /// Whether what it measures depends on when packets arrive, to the tenth of a millisecond.
    fn is_probing(&self) -> bool {
        matches!(self.sender, SenderKind::Pcp | SenderKind::Adaptive) || self.pcp_beside > 0
    }

    /// Seconds of each transfer in the simulator.
    fn simulate(&self) -> Vec<f64> {
        let gap_s = Distribution::Exponential { mean: 0.2 };
        let chain = |spec, count, sources| Traffic {
            remembers: true,
            ..Traffic::new(spec, Arrivals::Chained { from: FIRST, gap_s, count, sources })
        };
        let flow = |sender: SenderKind| -> FlowSpec {
            sender.flow(self.bytes).expect("there is no kernel in the simulator")
        };
        let transfers = chain(flow(self.sender), self.count, 1);
        let pcp = chain(flow(SenderKind::Pcp), u64::MAX, self.pcp_beside as u64);
        let beside = Traffic { is_background: true, ..pcp };
        lossy_path(self.seed).simulate([transfers, beside], SIMULATED_MAX)
    }

    /// Seconds of each transfer.
    fn run(&self, limits: Times, halt: Halt<'_>) -> Result<Outcome<Vec<f64>>, ExperimentError> {
        let busy = BusyPath::start(&lossy_path(self.seed), limits, halt)?;
        let over = AtomicBool::new(false);
        let within = halt.until(&over);
        let (moved, beside) = thread::scope(|scope| {
            let beside = (0..self.pcp_beside).map(|_| {
                let mut history = History::new(SenderKind::Pcp);
                let (busy, over) = (&busy, &over);
                scope.spawn(move || again_and_again(over, || busy.transfer(&mut history, self.bytes, within)))
            });
            let beside: Vec<_> = beside.collect();
            let moved = self.one_after_another(&busy, within);
            over.store(true, Ordering::Relaxed);
            (moved, beside.into_iter().map(joined).collect::<Result<Vec<bool>, _>>())
        });
        // What breaks off beside them interrupts them too: then its own error says why.
        let beside_late = beside?.contains(&true);
        let moved = moved?;
        let is_late = beside_late || moved.iter().any(|one| one.is_late) || busy.lab.cpu_limited();
        Ok(Outcome { of: moved.iter().map(|one| one.seconds).collect(), is_late })
    }

    fn one_after_another(&self, busy: &BusyPath, halt: Halt<'_>) -> Result<Vec<Moved>, ExperimentError> {
        let mut history = History::new(self.sender);
        let transfers = (0..self.count).map(|_| {
            let moved = busy.transfer(&mut history, self.bytes, halt)?;
            halt.sleep(GAP).map(|()| moved)
        });
        transfers.collect()
    }
}

/// Transfers until it is over; whether any of them was late. One that fails ends what they go along with.
fn again_and_again(
    over: &AtomicBool,
    mut transfer: impl FnMut() -> Result<Moved, ExperimentError>,
) -> Result<bool, ExperimentError> {
    let mut is_late = false;
    loop {
        match transfer() {
            Ok(moved) => is_late |= moved.is_late,
            Err(ExperimentError::Interrupted) => return Ok(is_late),
            Err(error) => {
                over.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
}

/// Size over mean time.
fn mbps(bytes: u64, seconds: &[f64]) -> f64 {
    bytes as f64 * 8e-6 / Summary::of(seconds.iter().copied()).mean
}

/// Everything of one sender by itself.
struct Row {
    sender: SenderKind,
    sizes: &'static [u64],
    /// Of every transfer, by size.
    seconds: Vec<Vec<f64>>,
}

impl Row {
    fn rate(&self, size: usize) -> f64 {
        mbps(self.sizes[size], &self.seconds[size])
    }

    fn rate_interval(&self, size: usize) -> Interval {
        let bits = self.sizes[size] as f64 * 8e-6;
        Interval::of(&self.seconds[size], |drawn| {
            bits * drawn.len() as f64 / drawn.iter().copied().sum::<f64>()
        })
    }

    /// At the size at which it is fastest.
    fn best(&self) -> usize {
        (0..self.sizes.len()).max_by(|a, b| self.rate(*a).total_cmp(&self.rate(*b))).unwrap_or_default()
    }

    /// Fewest transfers of a size.
    fn transfers(&self) -> usize {
        self.seconds.iter().map(Vec::len).min().unwrap_or_default()
    }
}

fn by_size_table(sizes: &[u64], rows: &[Row]) -> Table {
    let names: Vec<&str> = rows.iter().map(|row| row.sender.name()).collect();
    let sizes: Vec<(usize, u64)> = sizes.iter().copied().enumerate().collect();
    Table::of("sizes", "Rate of a transfer by its size", &sizes)
        .column("size", Unit::Bytes, |(_, size)| *size)
        .columns(&names, Unit::Mbps, |(index, _), at| rows[at].rate(*index))
        .column("transfers", Unit::Number, |(index, _)| {
            rows.iter().map(|row| row.seconds[*index].len()).min().unwrap_or_default()
        })
        .table()
        .plot(Plot::lines("size", &names).log_x())
}

impl SenderKind {
    /// What the paper says of its rate.
    fn paper(self) -> &'static str {
        match self {
            SenderKind::Pcp => "more than 15 Mb/s",
            SenderKind::Tcp => "5 Mb/s at most",
            SenderKind::Kernel | SenderKind::Cubic | SenderKind::Adaptive => "",
        }
    }
}

/// The largest rate at any size, beside what the paper says of it.
fn fastest(rows: &[Row]) -> Table {
    Table::of("fastest", "Rate at the best size", rows)
        .text("sender", |row| row.sender.name())
        .column("rate", Unit::Mbps, |row| row.rate(row.best()))
        .text("paper", |row| row.sender.paper())
        .table()
}

/// What the TCP transfers took, seconds.
struct Beside {
    bytes: u64,
    alone_s: Vec<f64>,
    with_pcp_s: Vec<f64>,
}

impl Beside {
    fn of(measured: &[(Series, Vec<f64>)], bytes: u64) -> Beside {
        let with = |pcp_beside| seconds(measured, SenderKind::Tcp, bytes, pcp_beside);
        Beside { bytes, alone_s: with(0), with_pcp_s: with(PCP_BESIDE) }
    }

    fn table(&self) -> Table {
        let time = |times: &[f64]| Summary::of(times.iter().copied());
        Table::of(
            "beside",
            "TCP beside PCP",
            &[("alone", &self.alone_s), ("beside four of PCP", &self.with_pcp_s)],
        )
        .text("TCP", |(name, _)| *name)
        .column("size", Unit::Bytes, |(_, _)| self.bytes)
        .column("rate", Unit::Mbps, |(_, times)| mbps(self.bytes, times))
        .column("mean time", Unit::Seconds, |(_, times)| time(times).mean)
        .column("deviation", Unit::Seconds, |(_, times)| time(times).sd)
        .column("transfers", Unit::Number, |(_, times)| time(times).count)
        .table()
        .plot(Plot::bars("TCP", &["rate"]))
    }

    /// TCP's rate beside PCP, as a share of that alone.
    fn kept(&self) -> Interval {
        let both: Vec<(f64, f64)> =
            self.alone_s.iter().copied().zip(self.with_pcp_s.iter().copied()).collect();
        Interval::of(&both, |drawn| {
            drawn.iter().map(|both| both.0).sum::<f64>() / drawn.iter().map(|both| both.1).sum::<f64>()
        })
    }

    fn transfers(&self) -> usize {
        self.alone_s.len().min(self.with_pcp_s.len())
    }
}

fn judge(rows: &[Row], beside: &Beside) -> Vec<Statement> {
    let of = |sender: SenderKind| rows.iter().find(|row| row.sender == sender);
    let (Some(tcp), Some(pcp)) = (of(SenderKind::Tcp), of(SenderKind::Pcp)) else {
        return CLAIMS.iter().map(|claim| claim.leave_open("this run was too short for it")).collect();
    };
    let (slow, fast, kept) = (tcp.rate_interval(tcp.best()), pcp.rate_interval(pcp.best()), beside.kept());
    let figures = format!(
        "{:.2} Mb/s alone, {:.2} beside, {kept} of it",
        mbps(beside.bytes, &beside.alone_s),
        mbps(beside.bytes, &beside.with_pcp_s),
    );
    vec![
        TCP_SLOW
            .judge_by(slow.at_most(5.0), tcp.transfers(), format!("{slow} Mb/s at most"))
            .otherwise("our path loses less than the paper's, and few transfers may meet few losses"),
        PCP_FAST.judge_by(fast.at_least(15.0), pcp.transfers(), format!("{fast} Mb/s at most")).otherwise(
            "PCP takes only what its probes show to be free for a whole train, and others' short flows come and go",
        ),
        UNAFFECTED.judge_by(kept.within(0.9..=1.1), beside.transfers(), figures).otherwise(
            "PCP's trains and what it takes of the free rate lengthen the queue, and with it TCP's round trip",
        ),
        match of(SenderKind::Adaptive) {
            Some(ours) => at_least_as_fast(ours, pcp),
            None => FAST.leave_open("this was not measured"),
        },
    ]
}

/// With large files, size by size.
fn at_least_as_fast(ours: &Row, pcp: &Row) -> Statement {
    let large: Vec<usize> = (0..ours.sizes.len()).filter(|size| ours.sizes[*size] >= LARGE_BYTES).collect();
    let found = large.iter().map(|&size| {
        let (ours, pcp) = (ours.rate_interval(size), pcp.rate_interval(size));
        // Two intervals that do not meet: surer than need be.
        if ours.from >= pcp.to || ours.figure == pcp.figure {
            Finding::Holds
        } else if ours.to < pcp.from {
            Finding::Fails
        } else {
            Finding::Tie
        }
    });
    let figures = large.iter().map(|&size| {
        format!(
            "{} MB: {:.1} against {:.1} Mb/s",
            ours.sizes[size] / 1_000_000,
            ours.rate(size),
            pcp.rate(size)
        )
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    if large.is_empty() {
        return FAST.leave_open("no size was large");
    }
    FAST.judge_by(Finding::everywhere(found), ours.transfers().min(pcp.transfers()), figures)
}

/// The path of Figure 3, ours. Its loss follows from TCP's 5 Mb/s (Mathis: 1.22 × 1448 × 8 / (0.05 s × √0.005) = 4 Mb/s).
fn lossy_path(seed: u64) -> WidePath {
    WidePath { scenario: Scenario { seed, ..experiment::path("pcp-lossy-45m") }, cross_load: 0.3 }
}

const SIZES: [u64; 7] = [16_000, 64_000, 250_000, 1_000_000, 4_000_000, 16_000_000, 32_000_000];
/// From here on a file is large: with less, it is the beginning that counts.
const LARGE_BYTES: u64 = 4_000_000;
/// What the TCP beside PCP moves.
const BESIDE_BYTES: u64 = 4_000_000;
/// PCP transfers beside a TCP (the paper's number).
const PCP_BESIDE: usize = 4;
/// Between two transfers, for the queue to forget the one before.
const GAP: Duration = Duration::from_millis(100);
/// In the simulator: when others' traffic has settled, and when all ends at the latest.
const FIRST: Time = Time::from_millis(2000);
const SIMULATED_MAX: Duration = Duration::from_secs(6 * 3600);
/// Paths at a time that wait for a TCP which losses hold back.
const PATIENT_AT_A_TIME: usize = 6;
/// Others, TCP beside PCP among them. PCP's trains take an emulator that has to wait for a processor for a queue.
const PROBING_AT_A_TIME: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    const SIZES: &[u64] = &[1_000_000, 4_000_000, 16_000_000];

    /// So many transfers at each of these rates.
    fn row(sender: SenderKind, rates: [f64; 3], count: usize) -> Row {
        let seconds = |(bytes, rate): (&u64, f64)| vec![*bytes as f64 * 8e-6 / rate; count];
        Row { sender, sizes: SIZES, seconds: SIZES.iter().zip(rates).map(seconds).collect() }
    }

    fn judged(tcp: f64, pcp: f64, ours: [f64; 3], with_pcp_s: f64, count: usize) -> Vec<Statement> {
        let rows = [
            row(SenderKind::Pcp, [1.0, pcp, pcp], count),
            row(SenderKind::Tcp, [1.0, tcp, tcp], count),
            row(SenderKind::Adaptive, ours, count),
        ];
        let times = |seconds: f64| (0..count).map(|n| seconds + 0.2 * (n % 2) as f64).collect();
        let beside = Beside { bytes: 4_000_000, alone_s: times(7.8), with_pcp_s: times(with_pcp_s) };
        judge(&rows, &beside)
    }

    fn verdicts(statements: Vec<Statement>) -> Vec<Verdict> {
        statements.into_iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn large_files_are_compared_size_by_size() {
        let fast = |ours| judged(4.0, 20.0, ours, 7.8, 200).remove(3);
        assert_eq!(fast([0.5, 20.0, 21.0]).verdict, Verdict::Met, "small ones are another matter");
        let slower = fast([30.0, 30.0, 19.0]);
        assert_eq!(slower.verdict, Verdict::NotMet);
        assert!(
            slower.figures.starts_with("4 MB: 30.0 against 20.0 Mb/s, 16 MB: 19.0 against 20.0 Mb/s"),
            "{slower:?}"
        );
    }

    #[test]
    fn the_papers_own_figures_pass_and_contrary_ones_do_not() {
        use Verdict::{Met, NotReproduced, Open, Reproduced};
        let pass = [Reproduced, Reproduced, Reproduced, Met];
        assert_eq!(verdicts(judged(4.9, 20.0, [25.0; 3], 7.9, 200)), pass);
        let contrary = [NotReproduced, NotReproduced, NotReproduced, Met];
        assert_eq!(verdicts(judged(6.0, 14.0, [25.0; 3], 16.0, 200)), contrary);
        assert_eq!(verdicts(judged(4.9, 20.0, [25.0; 3], 7.9, 199)), [Open; 4]);
    }

    #[test]
    fn pcp_beside_a_tcp_wants_a_quiet_host_and_is_found_wherever_it_stands() {
        let jobs = beside_jobs(1..3, BESIDE_BYTES, 1);
        let probing: Vec<usize> =
            jobs.iter().filter(|job| job.is_probing()).map(|job| job.pcp_beside).collect();
        assert_eq!(probing, [PCP_BESIDE; 2]);
        let other = Series { bytes: 16_000, ..jobs[0] };
        let jobs = [jobs[3], other, jobs[0], jobs[2], Series { sender: SenderKind::Pcp, ..jobs[0] }, jobs[1]];
        let measured: Vec<(Series, Vec<f64>)> =
            jobs.into_iter().zip((0..).map(|n| vec![f64::from(n)])).collect();
        let beside = Beside::of(&measured, BESIDE_BYTES);
        assert_eq!((beside.alone_s, beside.with_pcp_s), (vec![2.0, 3.0], vec![0.0, 5.0]));
    }

    #[test]
    fn a_transfer_beside_that_fails_is_no_silent_end() {
        let late = Moved { seconds: 1.0, learnt: None, is_late: true };
        let failed = ExperimentError::Program { program: "PCP".into(), reason: "no".into() };
        let over = AtomicBool::new(false);
        let mut results = vec![Err(failed), Ok(late)];
        assert!(again_and_again(&over, || results.pop().unwrap()).is_err() && over.into_inner());
        let over = AtomicBool::new(false);
        let mut results =
            vec![Err(ExperimentError::Interrupted), Ok(Moved { is_late: false, ..late }), Ok(late)];
        assert!(again_and_again(&over, || results.pop().unwrap()).unwrap() && !over.into_inner());
    }

    #[test]
    fn chance_is_told_from_harm() {
        let alone_s: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 2.0 } else { 14.0 }).collect();
        let with_pcp_s: Vec<f64> = (0..200).map(|n| if n % 3 == 0 { 2.0 } else { 11.5 }).collect();
        let kept = Beside { bytes: 1000, alone_s, with_pcp_s }.kept();
        assert!((kept.figure - 1.0).abs() < 0.1 && kept.within(0.9..=1.1) == Finding::Tie, "{kept:?}");
    }
}
