//! Table 2: FOBS against PSockets with the number of sockets that PSockets finds best.

use super::measured::Ground;
use super::rivals::{self, LOADS, Transfer, Way};
use super::run::{
    CARD_MBIT, Contention, Fobs, LONG, NO_DEFAULT, OBJECT_BYTES, Runs, failures, method, percent,
};
use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::lab::bench::Bench;
use crate::lab::figures::median;
use crate::lab::striped::{Amount, Partition, Streams, Striped};
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use crate::sim::Options;
use longhaul_lab::{Scenario, Side, TcpSettings};

pub(super) const EXPERIMENT: Experiment = Experiment::either(
    "fobs-table2",
    "FOBS against PSockets at its own best number of sockets (Table 2)",
    &[FASTER, MANY, LITTLE_WASTE, DEFAULT_TOO],
    run,
);

const FASTER: Claim = Claim::paper(
    "FOBS §6, Table 2",
    "FOBS (76 %) gets more than PSockets with its best number of sockets (56 %)",
);
const MANY: Claim =
    Claim::paper("FOBS §6, Table 2", "PSockets needs many sockets: the best number is 20 (10 to 40)");
const LITTLE_WASTE: Claim = Claim::paper("FOBS §6, Table 2", "FOBS sends 2 % in vain (4 % at most)");
const DEFAULT_TOO: Claim = Claim::ours("longhaul's default gets more than PSockets, too, at each contention");

/// What came of a path with so much contention.
struct Row {
    contention: f64,
    /// Number of sockets, and of the card while it was tried.
    tried: Vec<(u32, f64)>,
    best: u32,
    /// Of the card, for the whole object over that many.
    sockets: Option<f64>,
    fobs: Runs,
    /// Where it can be run.
    default: Option<Runs>,
}

/// How much is done.
#[derive(Clone, Copy)]
struct Extent {
    losses: &'static [f64],
    counts: &'static [u32],
    trial_bytes: u64,
    bytes: u64,
    rounds: usize,
    /// Copies by longhaul's default.
    default_rounds: usize,
}

fn run(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let contention = Contention::of(backend);
    let (mut method, rows) = match backend {
        Backend::Simulator(options) => (
            vec![
                rivals::method(),
                "Every socket has a window of 64 KB and carries an equal part; the last to be done counts."
                    .into(),
            ],
            simulate(options),
        ),
        Backend::Lab(bench) => measure(backend, bench)?,
    };
    method.extend(failures(rows.iter().flat_map(|row| [&row.fobs].into_iter().chain(&row.default))));
    let (plane, default) = judge(contention, &rows);
    let mut findings = plane.findings(method, [table(contention, &rows), trials(contention, &rows)]);
    findings.statements.push(default);
    Ok(findings)
}

fn simulate(options: &Options<'_>) -> Vec<Row> {
    let loads = options.scale.pick(&LOADS[..], &LOADS[..], &LOADS[..1]);
    let counts = options.scale.pick(&SIMULATED_COUNTS[..], &SIMULATED_COUNTS[..], &[1, 20]);
    let ways = || counts.iter().map(|&count| Way::Sockets(count.into())).chain([Way::Fobs]);
    let transfers: Vec<Transfer> = loads
        .iter()
        .flat_map(|&load| ways().map(move |way| Transfer { rtt_ms: LONG.1, load, way }))
        .collect();
    let done = rivals::means(options, &transfers);
    let rows = loads.iter().zip(done.chunks(counts.len() + 1)).map(|(&contention, done)| {
        let shares = done.iter().map(|one| one.goodput_mbps / CARD_MBIT);
        let tried: Vec<(u32, f64)> = counts.iter().copied().zip(shares).collect();
        let best = best(&tried);
        let sockets = tried.iter().find(|(count, _)| *count == best).map(|(_, share)| *share);
        Row { contention, tried, best, sockets, fobs: Runs::of(done[counts.len()]), default: None }
    });
    rows.collect()
}

fn measure(backend: &Backend<'_>, bench: &Bench<'_>) -> Result<(Vec<String>, Vec<Row>), ExperimentError> {
    let full = Extent {
        losses: &LOSSES,
        counts: &COUNTS,
        trial_bytes: OBJECT_BYTES / 4,
        bytes: OBJECT_BYTES,
        rounds: 3,
        default_rounds: 3,
    };
    let quick = Extent {
        losses: &QUICK_LOSSES,
        counts: &QUICK_COUNTS,
        trial_bytes: OBJECT_BYTES / 8,
        rounds: 2,
        default_rounds: 1,
        ..full
    };
    let smoke =
        Extent { counts: &[8], trial_bytes: OBJECT_BYTES / 80, bytes: OBJECT_BYTES / 40, rounds: 1, ..quick };
    let extent = bench.pick(full, quick, smoke);
    bench
        .expect_runs(extent.losses.len() * (extent.counts.len() + 2 * extent.rounds + extent.default_rounds));
    let rows = extent.losses.iter().map(|&loss| row(bench, loss, extent)).collect::<Result<Vec<_>, _>>()?;
    let mut about = method(backend, extent.bytes);
    about.push(format!(
            "Here the network is not an OC-3 but an OC-12 ({OC12_MBIT} Mb/s) that loses packets at random, as the stand-in for the contention \
             that the paper presumes; the 100 Mb/s are those of the card at CACR, placed before it. The round trip is the \
             other long haul's, {} ms. PSockets: kernel TCP, congestion control reno, windows of 64 KB (window scaling off), \
             in clear. It tries each number of sockets with {:.1} MB, takes the smallest that is within 5 % of the best, and sends the object in as many \
             equal partitions; the last to be done counts. Medians of {} transfer(s).",
            LONG.1,
            extent.trial_bytes as f64 / 1e6,
            extent.rounds
        ));
    Ok((about, rows))
}

fn row(bench: &Bench<'_>, loss: f64, extent: Extent) -> Result<Row, ExperimentError> {
    let ground = Ground::open(bench, &path(loss), extent.bytes)?;
    let of_the_time = TcpSettings { sack: Some(true), large_windows: Some(false), ..TcpSettings::default() };
    for end in [Side::Left, Side::Right] {
        ground.lab.set_tcp(end, &of_the_time)?;
    }
    // In one write: what comes first is read first, and the last socket to be done counts.
    let sockets = |count, bytes| -> Result<f64, ExperimentError> {
        let striped = Striped {
            streams: Streams::Fixed(count),
            partition: Partition::Equal,
            write_bytes: bytes,
            congestion: "reno",
            amount: Amount::Bytes(bytes),
            ..Striped::default()
        };
        let sent = striped.run(bench, &ground.lab)?.sent;
        Ok(sent.bytes as f64 * 8e-6 / sent.seconds / CARD_MBIT)
    };
    let mut tried = vec![];
    for &count in extent.counts {
        tried.push((count, sockets(count, extent.trial_bytes)?));
    }
    let best = best(&tried);
    let (mut whole, mut fobs, mut default) = (vec![], Runs::default(), Runs::default());
    for round in 0..extent.rounds {
        whole.push(sockets(best, extent.bytes)?);
        ground.fobs(Fobs::default(), &mut fobs)?;
        if round < extent.default_rounds {
            ground.default(&mut default)?;
        }
    }
    Ok(Row { contention: loss, tried, best, sockets: median(whole), fobs, default: Some(default) })
}

/// The smallest number that carried nearly as much as any: more only add to what may lag behind.
fn best(tried: &[(u32, f64)]) -> u32 {
    let most = tried.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    tried.iter().find(|(_, share)| *share >= GOOD * most).map_or(1, |(count, _)| *count)
}

fn path(loss: f64) -> Scenario {
    let oc12 = experiment::path("fobs-oc12");
    Scenario {
        name: "NCSA–CACR".into(), rtt_ms: LONG.1, nic_mbit: Some(CARD_MBIT), mtu: 1500, loss, ..oc12
    }
}

fn table(contention: Contention, rows: &[Row]) -> Table {
    let drawn = ["PSockets", "FOBS", "longhaul's default", "paper's PSockets", "paper's FOBS"];
    Table::of("shares", "Share of the card's rate for the whole object, by contention", rows)
        .column(contention.name(), Unit::Share, |row| row.contention)
        .column("best number", Unit::Number, |row| row.best)
        .column("PSockets", Unit::Share, |row| row.sockets)
        .column("FOBS", Unit::Share, |row| row.fobs.share(CARD_MBIT))
        .column("longhaul's default", Unit::Share, |row| {
            row.default.as_ref().and_then(|runs| runs.share(CARD_MBIT))
        })
        .column("paper's PSockets", Unit::Share, |_row| PAPER_SOCKETS)
        .column("paper's FOBS", Unit::Share, |_row| PAPER_FOBS)
        .column("FOBS's waste", Unit::Share, |row| row.fobs.waste())
        .table()
        .plot(Plot::bars(contention.name(), &drawn))
}

fn trials(contention: Contention, rows: &[Row]) -> Table {
    let trials = rows.iter().flat_map(|row| row.tried.iter().map(|trial| (row.contention, trial)));
    Table::of(
        "trials",
        "PSockets' search for the best number: share of the card's rate",
        &trials.collect::<Vec<_>>(),
    )
    .text("path", |(share, _)| contention.text(*share))
    .column("sockets", Unit::Number, |(_, trial)| trial.0)
    .column("share", Unit::Share, |(_, trial)| trial.1)
    .table()
    .plot(Plot::lines("sockets", &["share"]).by("path"))
}

/// What the paper says, at each contention, and our own claim for all of them.
fn judge(contention: Contention, rows: &[Row]) -> (Plane, Statement) {
    let mut plane = Plane::default();
    rows.iter().for_each(|row| plane.push(contention.text(row.contention), row.judge()));
    let defaults = || rows.iter().filter(|row| row.default.is_some());
    let default = match defaults().count() {
        0 => DEFAULT_TOO.leave_open(NO_DEFAULT),
        of => {
            let faster = defaults().filter(|row| row.is_slower_than(row.default.as_ref())).count();
            DEFAULT_TOO.judge(faster == of, format!("at {faster} of {of}"))
        }
    };
    (plane, default)
}

impl Row {
    /// Whether PSockets got less than this.
    fn is_slower_than(&self, other: Option<&Runs>) -> bool {
        self.sockets.is_some() && other.and_then(|runs| runs.share(CARD_MBIT)) > self.sockets
    }

    /// What the paper says, with this contention.
    fn judge(&self) -> Vec<Statement> {
        let (few, many) = PAPER_COUNTS;
        let faster = format!(
            "FOBS {}, PSockets {} with {} sockets",
            percent(self.fobs.share(CARD_MBIT)),
            percent(self.sockets),
            self.best
        );
        let waste = self.fobs.waste();
        vec![
            FASTER
                .judge(self.is_slower_than(Some(&self.fobs)), faster)
                .otherwise("so many sockets fill the path where nothing but chance loses their packets"),
            MANY.judge((few..=many).contains(&self.best), format!("{} sockets", self.best)).otherwise(
                "where packets are lost by chance, more sockets cost nothing: the most that fill the path are best",
            ),
            LITTLE_WASTE.judge(waste.is_some_and(|waste| waste <= WASTE_MAX), percent(waste)).otherwise(
                "what is sent in vain is what is lost, and what is on its way when the last packet arrives",
            ),
        ]
    }
}

/// OC-12, 10⁶ bit/s.
const OC12_MBIT: f64 = 622.08;
const LOSSES: [f64; 4] = [0.001, 0.003, 0.006, 0.01];
/// Twenty connections of Reno's make 56 Mb/s of it by the rule of 1.22 segments a round trip over the root of the loss.
const QUICK_LOSSES: [f64; 1] = [0.006];
const COUNTS: [u32; 11] = [1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64];
const SIMULATED_COUNTS: [u32; 9] = [1, 2, 4, 8, 12, 16, 20, 30, 40];
const QUICK_COUNTS: [u32; 6] = [4, 12, 20, 32, 48, 64];
/// The paper's Table 2.
const PAPER_SOCKETS: f64 = 0.56;
const PAPER_FOBS: f64 = 0.76;
const PAPER_COUNTS: (u32, u32) = (10, 40);
const GOOD: f64 = 0.95;
const WASTE_MAX: f64 = 0.04;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn row(best: u32, sockets: f64, fobs: Runs) -> Row {
        Row {
            contention: 0.005,
            tried: vec![],
            best,
            sockets: Some(sockets),
            default: Some(fobs.clone()),
            fobs,
        }
    }

    fn verdicts(rows: &[Row]) -> Vec<Verdict> {
        let (plane, default) = judge(Contention::Loss, rows);
        plane.statements().into_iter().chain([default]).map(|statement| statement.verdict).collect()
    }

    #[test]
    fn more_sockets_than_carry_nearly_the_most_are_not_taken() {
        assert_eq!(best(&[(4, 0.12), (20, 0.64), (32, 0.93), (48, 0.94), (64, 0.95)]), 32);
        assert_eq!(best(&[]), 1);
    }

    #[test]
    fn each_contention_decides_and_the_default_must_win_at_all() {
        let elsewhere = || row(64, 0.95, Runs::one(80.0, 0.2));
        let here = || row(20, 0.6, Runs::one(80.0, 0.03));
        let (yes, no, partly) = (Verdict::Reproduced, Verdict::NotReproduced, Verdict::ReproducedWhere);
        assert_eq!(verdicts(&[here()]), [yes, yes, yes, Verdict::Met]);
        assert_eq!(verdicts(&[elsewhere(), here()]), [partly, partly, partly, Verdict::NotMet]);
        assert_eq!(verdicts(&[elsewhere()]), [no, no, no, Verdict::NotMet]);
        assert_eq!(verdicts(&[row(20, 0.6, Runs::default())])[0], no);
        let simulated = Row { default: None, ..here() };
        assert_eq!(verdicts(&[simulated])[3], Verdict::Open);
    }
}
