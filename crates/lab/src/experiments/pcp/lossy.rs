//! Figure 3: one path with background loss, transfers of all sizes, and TCP beside PCP.

use super::path::{BusyPath, History, METHOD, Sender, Times};
use super::{Claim, Experiment, ExperimentError, Findings};
use crate::experiments::abreast::{Halt, Outcome, abreast};
use crate::experiments::bench::Bench;
use crate::experiments::datagrams::{Moved, joined};
use longhaul_sim::experiments::pcp::population::WidePath;
use longhaul_sim::experiments::pcp::{FIGURE_3_CLAIMS, TCP_SACK, lossy_path};
use longhaul_sim::experiments::{Column, Plot, Statement, Table, Unit};
use longhaul_sim::metrics::Summary;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Throughput against size, and TCP beside PCP.
pub(super) const FIGURE_3: Experiment = Experiment {
    id: "pcp-fig3",
    title: "Transfers of all sizes over one lossy path, and TCP beside four of PCP",
    claims: &CLAIMS,
    has_parts: false,
    measure,
};

const FAST: Claim = Claim::ours("longhaul's default control moves large files at least as fast as PCP does");
const CLAIMS: [Claim; 4] = [FIGURE_3_CLAIMS[0], FIGURE_3_CLAIMS[1], FIGURE_3_CLAIMS[2], FAST];

/// Transfers one after another over a path of their own.
#[derive(Clone, Copy, Debug)]
struct Job {
    sender: Sender,
    bytes: u64,
    /// PCP transfers that go on all the time beside them.
    pcp_beside: usize,
    count: u64,
    /// Which of the path's losses they meet.
    seed: u64,
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let sizes = bench.pick(&SIZES[..], &SIZES[1..5], &SIZES[..1]);
    let (labs, each) = bench.pick((20, 5), (4, 1), (1, 1));
    let count = |bytes: u64| bench.pick(20, if bytes > 2_000_000 { 2 } else { 4 }, 1);
    let senders = bench.pick(&Sender::ALL[..], &Sender::ALL[..], &Sender::ALL[..2]);
    let beside_bytes = sizes.last().copied().unwrap_or(BESIDE_BYTES).min(BESIDE_BYTES);
    let seed = bench.options.seed;
    // The long ones first, so that nobody waits for the last of them alone.
    let mut jobs = beside_jobs(seed..seed + labs, beside_bytes, each);
    for &bytes in sizes.iter().rev() {
        let job = |&sender: &Sender| Job { sender, bytes, pcp_beside: 0, count: count(bytes), seed };
        // TCP alone is timed at that size already.
        let is_new = |job: &Job| job.sender != Sender::Tcp || job.bytes != beside_bytes;
        jobs.extend(senders.iter().map(job).filter(is_new));
    }
    bench.expect_runs(jobs.len());
    let measured = run(bench, jobs)?;
    let beside = Beside::of(&measured, beside_bytes);
    let rows = senders.iter().map(|&sender| {
        let rate = |&bytes: &u64| mbps(bytes, &seconds(&measured, sender, bytes, 0));
        (sender, sizes.iter().map(rate).collect())
    });
    let rows: Vec<(Sender, Vec<f64>)> = rows.collect();
    let is_large = bench.pick(true, true, false);
    Ok(Findings {
        method: method(&lossy_path(seed)),
        tables: vec![by_size_table(sizes, &rows), fastest(&rows), beside.table()],
        statements: if is_large {
            judge(sizes, &rows, &beside)
        } else {
            CLAIMS.iter().map(|claim| claim.leave_open("this run was too short for it")).collect()
        },
    })
}

/// TCP alone and beside four of PCP, over paths with these seeds.
fn beside_jobs(seeds: Range<u64>, bytes: u64, count: u64) -> Vec<Job> {
    let job = |seed, pcp_beside| Job { sender: Sender::Tcp, bytes, pcp_beside, count, seed };
    seeds.flat_map(|seed| [job(seed, 0), job(seed, PCP_BESIDE)]).collect()
}

/// Seconds of every transfer of these jobs, whatever their order.
fn seconds(measured: &[(Job, Vec<f64>)], sender: Sender, bytes: u64, pcp_beside: usize) -> Vec<f64> {
    let is_of = |job: &Job| (job.sender, job.bytes, job.pcp_beside) == (sender, bytes, pcp_beside);
    measured.iter().filter(|(job, _)| is_of(job)).flat_map(|(_, times)| times).copied().collect()
}

/// Seconds of every transfer of each job; first those that do not depend on a quiet host.
fn run(bench: &Bench<'_>, jobs: Vec<Job>) -> Result<Vec<(Job, Vec<f64>)>, ExperimentError> {
    let limits = Times::new(bench, bench.pick(600, 30, 5));
    let (probing, patient): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::is_probing);
    let mut measured = vec![];
    for (jobs, at_a_time) in [(patient, PATIENT_AT_A_TIME), (probing, PROBING_AT_A_TIME)] {
        let times = abreast(bench, at_a_time, &jobs, |job, halt| job.run(limits, halt))?;
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
        METHOD.into(),
        format!("{TCP_SACK}."),
    ]
}

impl Job {
    /// Whether what it measures depends on when packets arrive, to the tenth of a millisecond.
    fn is_probing(&self) -> bool {
        matches!(self.sender, Sender::Pcp | Sender::Adaptive) || self.pcp_beside > 0
    }

    /// Seconds of each transfer.
    fn run(&self, limits: Times, halt: Halt<'_>) -> Result<Outcome<Vec<f64>>, ExperimentError> {
        let busy = BusyPath::start(&lossy_path(self.seed), limits, halt)?;
        let over = AtomicBool::new(false);
        let within = halt.until(&over);
        let (moved, beside) = thread::scope(|scope| {
            let beside = (0..self.pcp_beside).map(|_| {
                let mut history = History::new(Sender::Pcp);
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

fn by_size_table(sizes: &[u64], rows: &[(Sender, Vec<f64>)]) -> Table {
    let names: Vec<&str> = rows.iter().map(|(sender, _)| sender.name()).collect();
    let mut columns = vec![Column::new("size", Unit::Bytes)];
    columns.extend(names.iter().map(|name| Column::new(*name, Unit::Mbps)));
    let mut table = Table::new("sizes", "Rate of a transfer by its size", columns);
    for (index, &size) in sizes.iter().enumerate() {
        let rates = rows.iter().map(|(_, rates)| rates[index].into());
        table.push([size.into()].into_iter().chain(rates).collect());
    }
    table.plot(Plot::lines("size", &names).log_x())
}

/// The largest rate at any size, beside what the paper says of it.
fn fastest(rows: &[(Sender, Vec<f64>)]) -> Table {
    let columns = vec![Column::text("sender"), Column::new("rate", Unit::Mbps), Column::text("paper")];
    let mut table = Table::new("fastest", "Rate at the best size", columns);
    for (sender, rates) in rows {
        let paper = match sender {
            Sender::Pcp => "more than 15 Mb/s",
            Sender::Tcp => "5 Mb/s at most",
            Sender::Kernel | Sender::Adaptive => "",
        };
        table.push(vec![sender.name().into(), best(rates).into(), paper.into()]);
    }
    table
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
    fn of(measured: &[(Job, Vec<f64>)], bytes: u64) -> Beside {
        let with = |pcp_beside| seconds(measured, Sender::Tcp, bytes, pcp_beside);
        Beside { bytes, alone_s: with(0), with_pcp_s: with(PCP_BESIDE) }
    }

    fn table(&self) -> Table {
        let columns = vec![
            Column::text("TCP"),
            Column::new("size", Unit::Bytes),
            Column::new("rate", Unit::Mbps),
            Column::new("mean time", Unit::Seconds),
            Column::new("deviation", Unit::Seconds),
            Column::new("transfers", Unit::Number),
        ];
        let mut table = Table::new("beside", "TCP beside PCP", columns);
        for (name, times) in [("alone", &self.alone_s), ("beside four of PCP", &self.with_pcp_s)] {
            let time = Summary::of(times.iter().copied());
            table.push(vec![
                name.into(),
                self.bytes.into(),
                mbps(self.bytes, times).into(),
                time.mean.into(),
                time.sd.into(),
                time.count.into(),
            ]);
        }
        table.plot(Plot::bars("TCP", &["rate"]))
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

fn judge(sizes: &[u64], rows: &[(Sender, Vec<f64>)], beside: &Beside) -> Vec<Statement> {
    let [tcp_slow, pcp_fast, unaffected] = &FIGURE_3_CLAIMS;
    let of = |sender: Sender| {
        rows.iter().find(|(one, _)| *one == sender).map_or(&[][..], |(_, rates)| rates.as_slice())
    };
    let (tcp, pcp) = (best(of(Sender::Tcp)), best(of(Sender::Pcp)));
    let rates = of(Sender::Adaptive).iter().zip(of(Sender::Pcp));
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
        tcp_slow.judge(tcp <= 5.0, format!("{tcp:.1} Mb/s at most")).otherwise("our path loses less than the paper's, and few transfers may meet few losses"),
        pcp_fast.judge(pcp > 15.0, format!("{pcp:.1} Mb/s at most")).otherwise(
            "PCP takes only what its probes show to be free for a whole train, and others' short flows come and go",
        ),
        unaffected.judge(change.abs() <= 0.1, figures).otherwise(if change.abs() <= 0.1 + 2.0 * error {
            "so few transfers meet losses that differ by chance: see the standard error"
        } else {
            "PCP's trains and what it takes of the free rate lengthen the queue, and with it TCP's round trip"
        }),
        FAST.judge(is_fast, compared),
    ]
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
/// Paths at a time that wait for a TCP which losses hold back.
const PATIENT_AT_A_TIME: usize = 6;
/// Others, TCP beside PCP among them. PCP's trains take an emulator that has to wait for a processor for a queue.
const PROBING_AT_A_TIME: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Verdict;

    fn verdicts(tcp: f64, pcp: f64, with_pcp_s: [f64; 2]) -> Vec<Verdict> {
        let rows = vec![
            (Sender::Pcp, vec![1.0, pcp]),
            (Sender::Tcp, vec![1.0, tcp]),
            (Sender::Adaptive, vec![2.0, 25.0]),
        ];
        judged(&[1_000_000, 4_000_000], rows, with_pcp_s).into_iter().map(|one| one.verdict).collect()
    }

    fn judged(sizes: &[u64], rows: Vec<(Sender, Vec<f64>)>, with_pcp_s: [f64; 2]) -> Vec<Statement> {
        let beside = Beside { bytes: 4_000_000, alone_s: vec![7.8, 8.2], with_pcp_s: with_pcp_s.into() };
        judge(sizes, &rows, &beside)
    }

    #[test]
    fn large_files_are_compared_size_by_size() {
        let sizes = [1_000_000, 4_000_000, 16_000_000];
        let rows =
            |ours: [f64; 3]| vec![(Sender::Pcp, vec![9.0, 10.0, 20.0]), (Sender::Adaptive, ours.into())];
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
        let other = Job { bytes: 16_000, ..jobs[0] };
        let jobs = [jobs[3], other, jobs[0], jobs[2], Job { sender: Sender::Pcp, ..jobs[0] }, jobs[1]];
        let measured: Vec<(Job, Vec<f64>)> =
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
