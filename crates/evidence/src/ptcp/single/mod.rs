//! ptcp-single: what the paper says of single connections against parallel ones: what a loss costs, what they get of a fast
//! path, MulTCP among them, which acts as many, and what parallel ones leave to a single one.

mod emulated;

use super::{FULL, MSS, START_GAP};
use crate::experiment::{self, Experiment};
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use crate::sim::{Options, run_jobs};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSpec, Protocol, TcpFlow};
use longhaul_sim::scenario::{Scenario, Step};
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::{FlowRecord, Measured, Workload};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment::simulated(
    "ptcp-single",
    "Parallel TCPs against a single one, and against MulTCP, which acts as many",
    &[
        ONE_LOSS,
        emulated::HALVES,
        SINGLE,
        emulated::LESS,
        STEALS,
        emulated::BY_TIMER,
        emulated::WITH_SACK,
        emulated::LEAVES,
    ],
    run,
);

const ONE_LOSS: Claim = Claim::paper(
    "Parallel TCP, evolution of the aggregated window",
    "a loss in one of n connections takes 1/(2n) of what all have on their way (0.8 to 1.2 times that)",
);
const SINGLE: Claim = Claim::paper(
    "Parallel TCP, single and parallel approach",
    "a single TCP gets less of a fast path than ten parallel ones (a tenth less, whatever is lost)",
);
const STEALS: Claim = Claim::paper(
    "Parallel TCP, single and parallel approach",
    "on a shared path ten parallel TCPs take what a single one would have (which keeps a fifth at most where half is fair)",
);

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// So many plain connections.
    Parallel(u32),
    /// One that acts as so many.
    Emulated(u32),
}

impl Sending {
    fn name(self) -> String {
        match self {
            Sending::Parallel(1) => "one TCP".into(),
            Sending::Parallel(count) => format!("{count} TCPs"),
            Sending::Emulated(count) => format!("MulTCP as {count}"),
        }
    }

    /// How many connections share a loss.
    fn acts_as(self) -> u32 {
        match self {
            Sending::Parallel(count) | Sending::Emulated(count) => count,
        }
    }

    /// Its connections, one after another; together they have at most so many bytes on their way.
    fn traffic(self, sack: bool, window_bytes: Option<u64>) -> Traffic {
        let (control, count, streams) = match self {
            Sending::Parallel(count) => (ControllerKind::NewReno, count, None),
            Sending::Emulated(streams) => (ControllerKind::MulTcp, 1, Some(streams)),
        };
        let mut flow = TcpFlow { streams, mss: Some(MSS), ..TcpFlow::new(control) };
        flow.config.sack = sack;
        if let Some(bytes) = window_bytes {
            flow.config.receive_buffer = bytes / u64::from(count);
        }
        let arrivals = Arrivals::Staggered { from: Time::ZERO, gap: START_GAP, count: count.into() };
        Traffic::new(FlowSpec::new(Protocol::Tcp(flow), ENDLESS), arrivals)
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// One packet is lost of a path that is half full.
    OneLoss(Sending),
    /// The path alone.
    Alone { sending: Sending, losses: Losses, seed: u64 },
    /// Beside one plain connection, which comes first.
    Beside { sending: Sending, queue_bdp: f64, seed: u64 },
}

/// How packets are lost at random, and what the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Losses {
    share: f64,
    condition: Condition,
}

/// What the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Condition {
    /// Packets that are lost in a row, in the mean.
    burst: Option<f64>,
    /// Whether TCPs say which.
    sack: bool,
    /// Of the queue, in bandwidth-delay products.
    queue_bdp: f64,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let losses = self.burst.map_or("single losses".into(), |burst| format!("{burst} lost in a row"));
        let sack = if self.sack { "SACK" } else { "no SACK" };
        write!(f, "{losses}, {sack}, queue {} BDP", self.queue_bdp)
    }
}

/// What came of it: in a run with one loss the part of what all had on their way that it took, in the others the share of the
/// path, alone or of the single connection beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Outcome {
    share: f64,
    timeouts: f64,
}

impl Job {
    fn run(&self, seconds: u64) -> Outcome {
        let until = Time::from_millis(seconds * 1000);
        match *self {
            Job::OneLoss(sending) => one_loss(sending),
            Job::Alone { sending, losses: Losses { share, condition }, seed } => {
                let Condition { burst, sack, queue_bdp } = condition;
                let path = Scenario { loss: share, burst, seed, queue_bdp: Some(queue_bdp), ..path() };
                outcome(&path, vec![sending.traffic(sack, None)], Time::ZERO, until)
            }
            Job::Beside { sending, queue_bdp, seed } => {
                let path = Scenario { seed, queue_bdp: Some(queue_bdp), ..path() };
                let single = Sending::Parallel(1).traffic(true, None);
                // All have begun after a quarter.
                let from = Time::from_millis(seconds * 250);
                outcome(&path, vec![single, sending.traffic(true, None)], from, until)
            }
        }
    }
}

/// What readers of the first traffic receive of the path from one moment until another.
fn outcome(path: &Scenario, traffic: Vec<Traffic>, from: Time, until: Time) -> Outcome {
    let measured = simulate(path, traffic, from, until, None);
    let mbps = measured.goodputs(0).iter().sum::<f64>() * 1e-6;
    let timeouts: u64 = measured.of(0).map(|flow| flow.stats.timeouts).sum();
    let timeouts = timeouts as f64;
    Outcome { share: mbps / (path.bottleneck_mbit * FULL), timeouts }
}

fn simulate(
    path: &Scenario,
    traffic: Vec<Traffic>,
    from: Time,
    until: Time,
    sample_every: Option<Duration>,
) -> Measured {
    let mut workload = Workload::over(path, traffic, until).expect("the path is a sound one");
    workload.measure_from = from;
    workload.sample_every = sample_every;
    workload.options.trace = TraceMode::Off;
    workload.run()
}

/// The moment at which just one packet is lost is looked for: connections that their acknowledgements clock send in groups.
fn one_loss(sending: Sending) -> Outcome {
    let path = faster_path();
    let packet_s = 8e-6 * f64::from(path.mtu) / path.bottleneck_mbit;
    let until = Time::from_millis(LOSS_AT_S as u64 * 1000 + 1000);
    let at = |moment: u32| {
        let at_s = LOSS_AT_S + 1e-3 * f64::from(moment);
        let step = |at_s, loss| Step { at_s, loss: Some(loss), ..Step::default() };
        let path = Scenario { steps: vec![step(at_s, 1.0), step(at_s + packet_s, 0.0)], ..path.clone() };
        let traffic = sending.traffic(false, Some(path.bdp_bytes() / 2));
        let measured = simulate(&path, vec![traffic], Time::ZERO, until, Some(ROUND));
        let lost: u64 = measured.flows.iter().map(|flow| flow.wire.dropped.loss).sum();
        (lost == 1).then(|| Outcome {
            share: taken(&measured.flows, (at_s / ROUND.as_secs_f64()) as usize),
            timeouts: measured.flows.iter().map(|flow| flow.stats.timeouts).sum::<u64>() as f64,
        })
    };
    (0..MOMENTS).find_map(at).unwrap_or(Outcome { share: f64::NAN, timeouts: 0.0 })
}

/// How much less came in after a loss in this round trip than before, as a share.
fn taken(flows: &[FlowRecord], loss_round: usize) -> f64 {
    let mean = |rounds: RangeInclusive<usize>| {
        let of = |flow: &FlowRecord| {
            let samples = rounds.clone().filter_map(|round| round.checked_sub(flow.first_sample));
            samples.filter_map(|at| flow.samples.get(at)).sum::<u64>()
        };
        flows.iter().map(of).sum::<u64>() as f64 / rounds.clone().count() as f64
    };
    // The lost packet comes in again a round trip and a half later, and what had to wait for it.
    1.0 - mean(loss_round + 3..=loss_round + 4) / mean(loss_round - 4..=loss_round - 1)
}

fn run(options: &Options<'_>) -> Findings {
    let scale = options.scale;
    let counts: &[u32] = scale.pick(&[1, 2, 3, 5, 10, 20], &[1, 2, 3, 5, 10], &[1]);
    let shares: &[f64] = scale.pick(&LOSSES, &LOSSES, &LOSSES[2..]);
    let queues: &[f64] = scale.pick(&QUEUES_BDP, &QUEUES_BDP[..1], &QUEUES_BDP[..1]);
    let acting: &[u32] = scale.pick(&[2, 5, MANY, 20], &[MANY], &[MANY]);
    let (seconds, seeds) = scale.pick((120, 4), (60, 3), (2, 1));
    let seeds = options.seed..options.seed + seeds;
    let both = |count| [Sending::Parallel(count), Sending::Emulated(count)];
    let losing: Vec<Sending> = counts.iter().copied().flat_map(both).collect();
    let sending: Vec<Sending> =
        [Sending::Parallel(1)].into_iter().chain(acting.iter().copied().flat_map(both)).collect();
    let of_queue = |&queue_bdp: &f64| {
        [false, true]
            .into_iter()
            .flat_map(move |sack| BURSTS.map(|burst| Condition { burst, sack, queue_bdp }))
    };
    let conditions: Vec<Condition> = queues.iter().flat_map(of_queue).collect();
    let with_losses = |&condition: &_| shares.iter().map(move |&share| Losses { share, condition });
    let alone: Vec<(Losses, Sending)> = conditions
        .iter()
        .flat_map(with_losses)
        .flat_map(|losses| sending.iter().map(move |&one| (losses, one)))
        .collect();
    let beside: Vec<(f64, Sending)> =
        queues.iter().flat_map(|&queue_bdp| sending.iter().map(move |&one| (queue_bdp, one))).collect();

    let jobs = losing.iter().map(|&sending| Job::OneLoss(sending));
    let jobs =
        jobs.chain(alone.iter().flat_map(|&(losses, sending)| {
            seeds.clone().map(move |seed| Job::Alone { sending, losses, seed })
        }));
    let jobs = jobs.chain(beside.iter().flat_map(|&(queue_bdp, sending)| {
        seeds.clone().map(move |seed| Job::Beside { sending, queue_bdp, seed })
    }));
    let found = run_jobs(options, &jobs.collect::<Vec<_>>(), |job| job.run(seconds));

    let (losing_found, found) = found.split_at(losing.len());
    let means: Vec<Outcome> = found.chunks(seeds.clone().count()).map(mean).collect();
    let (alone_found, beside_found) = means.split_at(alone.len());
    let losing: Vec<(Sending, Outcome)> = losing.into_iter().zip(losing_found.iter().copied()).collect();
    let with = |((of, sending), found): (_, &Outcome)| (of, sending, *found);
    let alone: Vec<(Losses, Sending, Outcome)> = alone.into_iter().zip(alone_found).map(with).collect();
    let with = |((of, sending), found): (_, &Outcome)| (of, sending, *found);
    let beside: Vec<(f64, Sending, Outcome)> = beside.into_iter().zip(beside_found).map(with).collect();
    report(method(seconds, seeds.count()), &conditions, &losing, &alone, &beside)
}

fn report(
    method: Vec<String>,
    conditions: &[Condition],
    losing: &[(Sending, Outcome)],
    alone: &[(Losses, Sending, Outcome)],
    beside: &[(f64, Sending, Outcome)],
) -> Findings {
    let pairs = emulated::pairs(alone);
    let plane = judge_alone(conditions, alone, &pairs);
    let tables =
        [loss_table(losing), emulated::table(conditions, &pairs), alone_table(alone), beside_table(beside)];
    let mut findings = plane.findings(method, tables);
    findings.statements.splice(0..0, [judge_one_loss(losing), emulated::judge_halves(losing)]);
    findings.statements.push(judge_steals(beside));
    findings.statements.extend(emulated::judge(&pairs, beside));
    findings
}

fn method(seconds: u64, seeds: usize) -> Vec<String> {
    let Scenario { bottleneck_mbit, rtt_ms, .. } = path();
    let faster_mbit = faster_path().bottleneck_mbit;
    vec![
        format!(
            "NewReno's rule, {rtt_ms} ms. One loss: {faster_mbit} Mb/s, of whose product receivers let half be on its way, so that \
             there is no queue; one packet is lost at {LOSS_AT_S} s, and what comes in in round trips before it and after its \
             repair is compared. TCPs acknowledge as the paper's, without SACK."
        ),
        format!(
            "Alone, all of {seconds} s, and beside a single TCP, which begins first, with SACK, their last three quarters: \
             {bottleneck_mbit} Mb/s, windows that no receiver limits, queues of one bandwidth-delay product, a quarter and two, \
             means of {seeds} seed(s)."
        ),
    ]
}

fn loss_table(rows: &[(Sending, Outcome)]) -> Table {
    Table::of("one_loss", "What one loss takes of what all have on their way", rows)
        .text("who", |(sending, _)| sending.name())
        .column("taken", Unit::Share, |(_, found)| found.share)
        .column("1/(2n)", Unit::Share, |(sending, _)| 0.5 / f64::from(sending.acts_as()))
        .table()
        .plot(Plot::bars("who", &["taken", "1/(2n)"]))
}

fn alone_table(rows: &[(Losses, Sending, Outcome)]) -> Table {
    Table::of("alone", "Share of the path", rows)
        .text("conditions", |(losses, ..)| losses.condition.to_string())
        .column("lost", Unit::Share, |(losses, ..)| losses.share)
        .text("who", |(_, sending, _)| sending.name())
        .column("share", Unit::Share, |(.., found)| found.share)
        .column("timeouts a run", Unit::Number, |(.., found)| found.timeouts)
        .table()
        .detail()
        .plot(Plot::lines("lost", &["share"]).by("who").log_x())
}

fn beside_table(rows: &[(f64, Sending, Outcome)]) -> Table {
    Table::of("beside", "What a single TCP keeps beside others", rows)
        .column("queue", Unit::Bdp, |(queue_bdp, ..)| *queue_bdp)
        .text("beside", |(_, sending, _)| sending.name())
        .column("it keeps", Unit::Share, |(.., found)| found.share)
        .column("a fair share of connections", Unit::Share, |(_, sending, _)| {
            1.0 / (1.0 + f64::from(sending.acts_as()))
        })
        .table()
        .plot(Plot::bars("beside", &["it keeps", "a fair share of connections"]))
}

fn judge_one_loss(rows: &[(Sending, Outcome)]) -> Statement {
    let parallel = || rows.iter().filter(|(sending, _)| matches!(sending, Sending::Parallel(_)));
    let times = |(sending, found): &(Sending, Outcome)| found.share * 2.0 * f64::from(sending.acts_as());
    let figures =
        parallel().map(|(sending, found)| format!("{}: {:.1} %", sending.name(), found.share * 100.0));
    ONE_LOSS.judge(
        parallel().all(|row| (0.8..=1.2).contains(&times(row))),
        figures.collect::<Vec<_>>().join(", "),
    )
}

/// Alone, under each condition.
fn judge_alone(
    conditions: &[Condition],
    rows: &[(Losses, Sending, Outcome)],
    pairs: &[emulated::Pair],
) -> Plane {
    let mut plane = Plane::default();
    let why = emulated::why(pairs);
    for &condition in conditions {
        let of = |sending| {
            rows.iter().filter(move |(losses, one, _)| losses.condition == condition && *one == sending)
        };
        let cells: Vec<_> = of(Sending::Parallel(1)).zip(of(Sending::Parallel(MANY))).collect();
        let figures = cells.iter().map(|((losses, _, it), (.., many))| {
            let [it, many, lost] = [it.share, many.share, losses.share].map(|share| share * 100.0);
            format!("{it:.1} against {many:.1} % where {lost} % are lost")
        });
        let figures = figures.collect::<Vec<_>>().join(", ");
        let holds = cells.iter().all(|((.., it), (.., many))| it.share <= LESS * many.share);
        let single = SINGLE.judge(holds, figures).otherwise(
            "with SACK one TCP nearly fills the path where hardly anything is lost; without, it takes a round trip to \
             repair each segment that its first slow start lost, and ten of them repair ten",
        );
        let here: Vec<_> = pairs.iter().filter(|pair| pair.losses.condition == condition).collect();
        plane.push(condition.to_string(), vec![single, emulated::judge_less(&here).otherwise(&why)]);
    }
    plane
}

fn judge_steals(rows: &[(f64, Sending, Outcome)]) -> Statement {
    let beside_many = || rows.iter().filter(|(_, sending, _)| *sending == Sending::Parallel(MANY));
    let figures = beside_many().map(|(queue_bdp, sending, found)| {
        format!("{:.1} % beside {} (queue {queue_bdp} BDP)", found.share * 100.0, sending.name())
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    STEALS.judge(beside_many().all(|(.., found)| found.share <= 0.2), figures)
}

fn mean(outcomes: &[Outcome]) -> Outcome {
    let of = |figure: fn(&Outcome) -> f64| outcomes.iter().map(figure).sum::<f64>() / outcomes.len() as f64;
    Outcome { share: of(|one| one.share), timeouts: of(|one| one.timeouts) }
}

/// That of the paper's comparison, ten times as fast.
fn path() -> Scenario {
    Scenario { bottleneck_mbit: 100.0, ..experiment::path("parallel-tcp-10m") }
}

/// So fast that what windows grow in a few round trips is little.
fn faster_path() -> Scenario {
    Scenario { bottleneck_mbit: 500.0, ..path() }
}

/// As many as the paper finds best.
const MANY: u32 = 10;
const LOSSES: [f64; 3] = [1e-5, 1e-4, 1e-3];
const BURSTS: [Option<f64>; 2] = [None, Some(8.0)];
const QUEUES_BDP: [f64; 3] = [1.0, 0.25, 2.0];
/// Long after the last has begun.
const LOSS_AT_S: f64 = 8.0;
/// Milliseconds after that at which one packet is to be lost: within a round trip one of them is the right one.
const MOMENTS: u32 = 100;
/// The path's round trip.
const ROUND: Duration = Duration::from_millis(100);
/// Less than this part of what others have is less.
const LESS: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_takes_a_quarter_of_what_two_have_on_their_way() {
        for sending in [Sending::Parallel(2), Sending::Emulated(2)] {
            let Outcome { share, timeouts } = one_loss(sending);
            assert!(
                (0.23..0.27).contains(&share) && timeouts == 0.0,
                "{sending:?}: {share}, {timeouts} timeouts"
            );
        }
    }
}
