//! Figure 3: one path with background loss, transfers of all sizes, and TCP beside PCP.

use super::TCP_SACK;
use super::path::{BusyPath, History, METHOD, SenderKind, Times};
use super::population::WidePath;
use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::lab::bench::Bench;
use crate::lab::datagrams::Moved;
use crate::lab::side_by_side::{Halt, Outcome, side_by_side};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
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
        let rate = |&bytes: &u64| mbps(bytes, &seconds(&measured, sender, bytes, 0));
        (sender, sizes.iter().map(rate).collect())
    });
    let rows: Vec<(SenderKind, Vec<f64>)> = rows.collect();
    let mut about = method(&lossy_path(seed));
    about.push(backend.choose("PCP remembers the transfers before.", METHOD).into());
    Ok(Findings {
        method: about,
        tables: vec![by_size_table(sizes, &rows), fastest(&rows), beside.table()],
        statements: if backend.pick(true, true, false) {
            judge(sizes, &rows, &beside)
        } else {
            CLAIMS.iter().map(|claim| claim.leave_open("this run was too short for it")).collect()
        },
    })
}

fn simulate(options: &Options<'_>) -> Raw {
    let sizes = options.scale.pick(&SIZES[..], &SIZES[2..], &SIZES[..1]);
    let count = options.scale.pick(100, 20, 2);
    let (senders, seed) = (&SenderKind::SIMULATED, options.seed);
    let beside_bytes = sizes.last().copied().unwrap_or(BESIDE_BYTES).min(BESIDE_BYTES);
    let mut jobs: Vec<Series> = senders
        .iter()
        .flat_map(|&sender| {
            sizes.iter().map(move |&bytes| Series { sender, bytes, pcp_beside: 0, count, seed })
        })
        .collect();
    jobs.push(Series { sender: SenderKind::Tcp, bytes: beside_bytes, pcp_beside: PCP_BESIDE, count, seed });
    let times = run_jobs(options, &jobs, Series::simulate);
    Raw { sizes, senders, beside_bytes, measured: jobs.into_iter().zip(times).collect() }
}

fn measure(bench: &Bench<'_>) -> Result<Raw, ExperimentError> {
    let sizes = bench.pick(&SIZES[..], &SIZES[1..5], &SIZES[..1]);
    let (labs, each) = bench.pick((20, 5), (4, 1), (1, 1));
    let count = |bytes: u64| bench.pick(20, if bytes > 2_000_000 { 2 } else { 4 }, 1);
    let senders =
        bench.pick(&SenderKind::MEASURED[..], &SenderKind::MEASURED[..], &SenderKind::MEASURED[..2]);
    let beside_bytes = sizes.last().copied().unwrap_or(BESIDE_BYTES).min(BESIDE_BYTES);
    let seed = bench.options.seed;
    // The long ones first, so that nobody waits for the last of them alone.
    let mut jobs = beside_jobs(seed..seed + labs, beside_bytes, each);
    for &bytes in sizes.iter().rev() {
        let job = |&sender: &SenderKind| Series { sender, bytes, pcp_beside: 0, count: count(bytes), seed };
        // TCP alone is timed at that size already.
        let is_new = |job: &Series| job.sender != SenderKind::Tcp || job.bytes != beside_bytes;
        jobs.extend(senders.iter().map(job).filter(is_new));
    }
    bench.expect_runs(jobs.len());
    Ok(Raw { sizes, senders, beside_bytes, measured: run_all(bench, jobs)? })
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
             product, {:.1} % of the packets lost elsewhere, others' short flows ask for {:.0} % of the link. Each size and \
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

fn by_size_table(sizes: &[u64], rows: &[(SenderKind, Vec<f64>)]) -> Table {
    let names: Vec<&str> = rows.iter().map(|(sender, _)| sender.name()).collect();
    let sizes: Vec<(usize, u64)> = sizes.iter().copied().enumerate().collect();
    Table::of("sizes", "Rate of a transfer by its size", &sizes)
        .column("size", Unit::Bytes, |(_, size)| *size)
        .columns(&names, Unit::Mbps, |(index, _), at| rows[at].1[*index])
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
fn fastest(rows: &[(SenderKind, Vec<f64>)]) -> Table {
    Table::of("fastest", "Rate at the best size", rows)
        .text("sender", |(sender, _)| sender.name())
        .column("rate", Unit::Mbps, |(_, rates)| best(rates))
        .text("paper", |(sender, _)| sender.paper())
        .table()
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
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

    /// By how much TCP's rate changes beside PCP, as a share, and the standard error of that.
    fn change(&self) -> (f64, f64) {
        let [alone, beside] =
            [&self.alone_s, &self.with_pcp_s].map(|times| Summary::of(times.iter().copied()));
        let error = |one: &Summary| one.sd / one.mean / (one.count.max(1) as f64).sqrt();
        let ratio = alone.mean / beside.mean;
        (ratio - 1.0, ratio * error(&alone).hypot(error(&beside)))
    }
}

fn judge(sizes: &[u64], rows: &[(SenderKind, Vec<f64>)], beside: &Beside) -> Vec<Statement> {
    let of = |sender: SenderKind| {
        rows.iter().find(|(one, _)| *one == sender).map_or(&[][..], |(_, rates)| rates.as_slice())
    };
    let (tcp, pcp) = (best(of(SenderKind::Tcp)), best(of(SenderKind::Pcp)));
    let rates = of(SenderKind::Adaptive).iter().zip(of(SenderKind::Pcp));
    let large: Vec<_> = sizes.iter().zip(rates).filter(|(size, _)| **size >= LARGE_BYTES).collect();
    let is_fast = !large.is_empty() && large.iter().all(|(_, (ours, pcp))| ours >= pcp);
    let compared = large
        .iter()
        .map(|(size, (ours, pcp))| format!("{} MB: {ours:.1} against {pcp:.1} Mb/s", **size / 1_000_000));
    let compared = compared.collect::<Vec<_>>().join(", ");
    let (change, error) = beside.change();
    let figures = format!(
        "{:.2} Mb/s alone, {:.2} beside ({:+.1} %, standard error {:.1} points)",
        mbps(beside.bytes, &beside.alone_s),
        mbps(beside.bytes, &beside.with_pcp_s),
        change * 100.0,
        error * 100.0
    );
    vec![
        TCP_SLOW.judge(tcp <= 5.0, format!("{tcp:.1} Mb/s at most")).otherwise("our path loses less than the paper's, and few transfers may meet few losses"),
        PCP_FAST.judge(pcp > 15.0, format!("{pcp:.1} Mb/s at most")).otherwise(
            "PCP takes only what its probes show to be free for a whole train, and others' short flows come and go",
        ),
        UNAFFECTED.judge(change.abs() <= 0.1, figures).otherwise(if change.abs() <= 0.1 + 2.0 * error {
            "so few transfers meet losses that differ by chance: see the standard error"
        } else {
            "PCP's trains and what it takes of the free rate lengthen the queue, and with it TCP's round trip"
        }),
        FAST.judge(is_fast, compared),
    ]
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
const SIMULATED_MAX: Duration = Duration::from_secs(3600);
/// Paths at a time that wait for a TCP which losses hold back.
const PATIENT_AT_A_TIME: usize = 6;
/// Others, TCP beside PCP among them. PCP's trains take an emulator that has to wait for a processor for a queue.
const PROBING_AT_A_TIME: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn verdicts(tcp: f64, pcp: f64, with_pcp_s: [f64; 2]) -> Vec<Verdict> {
        let rows = vec![
            (SenderKind::Pcp, vec![1.0, pcp]),
            (SenderKind::Tcp, vec![1.0, tcp]),
            (SenderKind::Adaptive, vec![2.0, 25.0]),
        ];
        judged(&[1_000_000, 4_000_000], rows, with_pcp_s).into_iter().map(|one| one.verdict).collect()
    }

    fn judged(sizes: &[u64], rows: Vec<(SenderKind, Vec<f64>)>, with_pcp_s: [f64; 2]) -> Vec<Statement> {
        let beside = Beside { bytes: 4_000_000, alone_s: vec![7.8, 8.2], with_pcp_s: with_pcp_s.into() };
        judge(sizes, &rows, &beside)
    }

    #[test]
    fn large_files_are_compared_size_by_size() {
        let sizes = [1_000_000, 4_000_000, 16_000_000];
        let rows = |ours: [f64; 3]| {
            vec![(SenderKind::Pcp, vec![9.0, 10.0, 20.0]), (SenderKind::Adaptive, ours.into())]
        };
        let fast = |ours| judged(&sizes, rows(ours), [8.0; 2]).remove(3);
        assert_eq!(fast([1.0, 10.0, 20.0]).verdict, Verdict::Met, "small ones are another matter");
        let slower = fast([30.0, 30.0, 19.0]);
        assert_eq!(slower.verdict, Verdict::NotMet);
        assert_eq!(slower.figures, "4 MB: 30.0 against 10.0 Mb/s, 16 MB: 19.0 against 20.0 Mb/s");
    }

    #[test]
    fn the_papers_own_figures_pass_and_contrary_ones_do_not() {
        use Verdict::{Met, NotMet, NotReproduced, Reproduced};
        assert_eq!(verdicts(5.0, 20.0, [8.2, 8.2]), [Reproduced, Reproduced, Reproduced, Met]);
        let contrary = [NotReproduced, NotReproduced, NotReproduced, Met];
        assert_eq!(verdicts(6.0, 14.0, [16.0, 16.0]), contrary);
        assert_eq!(verdicts(4.0, 30.0, [8.0, 8.0])[3], NotMet);
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
        let beside = Beside { bytes: 1000, alone_s: vec![2.0, 6.0], with_pcp_s: vec![2.0, 8.0] };
        let (change, error) = beside.change();
        assert!((change + 0.2).abs() < 1e-9 && error > 0.3, "{change} {error}");
    }
}
