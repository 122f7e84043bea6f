//! Section 3.1.1: how many packets between two looks for an acknowledgement.

use super::host::{BATCH, Batch};
use super::plan::{Plan, Sweep};
use super::run::{CARD_MBIT, Fobs, LONG, OBJECT_BYTES, Runs, SHORT, desktop_path, failures, method, percent};
use super::simulated::Hosts;
use super::slowed;
use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment::either(
    "fobs-batch",
    "Packets sent between two looks for an acknowledgement (§3.1.1)",
    &[TWO, OFTEN, FOLLOWING, WAITING],
    measure,
)
.differing(super::LATER_END);

const TWO: Claim = Claim::paper(
    "FOBS §3.1.1",
    "two packets per batch perform best (nothing else gets 1 % more, and something 1 % less)",
);
const OFTEN: Claim =
    Claim::paper("FOBS §3.1.1", "the sender should look often: a batch of 512 gets less (1 % at least)");

const FOLLOWING: Claim = Claim::ours(
    "B may follow from acknowledgements (FOBS §3.1): as many packets as came in between the last two get as much as B = 2 with \
     the same F (1 % less at most)",
);
const WAITING: Claim = Claim::ours(
    "to wait for acknowledgements (FOBS §3.1: B = 0 until one has come) gains nothing over B = 2, whatever the batch before \
     (1 % more at most)",
);

/// A haul, and copies with each B.
struct Haul {
    name: &'static str,
    batches: Vec<u32>,
    sweep: Sweep,
    /// Where B follows from what is acknowledged; F, B.
    following: Vec<(u32, Batch, Runs)>,
}

impl Haul {
    fn each(&self) -> impl Iterator<Item = (u32, &Runs)> {
        self.batches.iter().copied().zip(&self.sweep.fobs)
    }

    fn at(&self, wanted: u32) -> Option<&Runs> {
        self.each().find(|(batch, _)| *batch == wanted).map(|(_, runs)| runs)
    }
}

fn measure(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let batches = backend.pick(&BATCHES[..], &QUICK_BATCHES[..], &[BATCH]);
    let (rounds, bytes) =
        (backend.pick(3, 1, 1), backend.pick(OBJECT_BYTES, OBJECT_BYTES, OBJECT_BYTES / 40));
    let places = backend.pick(&[SHORT, LONG][..], &[LONG], &[LONG]);
    let paths: Vec<Scenario> = places.iter().map(|(name, rtt_ms)| desktop_path(name, *rtt_ms)).collect();
    let numbers = batches.iter().map(|&packets| Fobs { batch: Batch::Packets(packets), ..Fobs::default() });
    let following = backend.choose(&FOLLOWING_BATCHES[..], &[]);
    let rules = following.iter().map(|&(ack_every, batch)| Fobs { ack_every, batch, ..Fobs::default() });
    let variants: Vec<Fobs> = numbers.chain(rules).collect();
    let hosts = slowed::Hosts::of(backend, &SLOW_MS);
    let plan = |&period_ms| Plan {
        paths: &paths,
        bytes,
        rounds,
        variants: &variants,
        hosts: Hosts::Desktop,
        period_ms,
    };
    let plans: Vec<Plan<'_>> = hosts.periods_ms.iter().map(plan).collect();
    let hauls = Plan::run_all(&plans, backend)?.into_iter().zip(places.iter().cycle());
    let hauls = hauls.map(|(mut sweep, (name, _))| {
        let runs = sweep.fobs.split_off(batches.len());
        let following =
            following.iter().zip(runs).map(|(&(ack_every, batch), runs)| (ack_every, batch, runs));
        Haul { name, batches: batches.into(), sweep, following: following.collect() }
    });
    let hauls: Vec<Haul> = hauls.collect();
    let mut about = method(backend, bytes);
    about.push(format!("B is swept, F = 64. Medians of {} round(s).", backend.choose(1, rounds)));
    about.push(backend.choose(FOLLOWING_METHOD, FOLLOWING_ONLY).into());
    about.extend(hosts.about);
    let of_rules = hauls.iter().flat_map(|haul| haul.following.iter().map(|(.., runs)| runs));
    about.extend(failures(hauls.iter().flat_map(|haul| haul.sweep.all()).chain(of_rules)));
    let mut plane = Plane::default();
    let mut tables = vec![];
    for (period_ms, hauls) in hosts.periods_ms.iter().zip(hauls.chunks(places.len())) {
        plane.push(slowed::condition(*period_ms), judge(hauls));
        tables.push(table(*period_ms, hauls));
        tables.extend(following_table(hauls));
    }
    Ok(plane.findings(about, tables))
}

fn table(period_ms: Option<u32>, hauls: &[Haul]) -> Table {
    let (name, title) = slowed::titled("batches", "B packets between two looks", period_ms);
    let waste = format!("Waste, {title}");
    let points = hauls.iter().flat_map(|haul| haul.each().map(move |(batch, runs)| (haul, batch, runs)));
    Table::of(name, title, &points.collect::<Vec<_>>())
        .text("haul", |(haul, ..)| haul.name)
        .column("B", Unit::Number, |(_, batch, _)| batch)
        .column("FOBS's goodput", Unit::Mbps, |(.., runs)| runs.goodput_mbps())
        .column("FOBS", Unit::Share, |(.., runs)| runs.share(CARD_MBIT))
        .column("longhaul's default", Unit::Share, |(haul, ..)| haul.sweep.default_share(CARD_MBIT))
        .column("FOBS's waste", Unit::Share, |(.., runs)| runs.waste())
        .table()
        .plot(Plot::lines("B", &["FOBS", "longhaul's default"]).by("haul").log_x())
        .plot(Plot::lines("B", &["FOBS's waste"]).by("haul").log_x().title(waste))
}

/// Nothing over real sockets.
fn following_table(hauls: &[Haul]) -> Option<Table> {
    let points: Vec<_> =
        hauls.iter().flat_map(|haul| haul.following.iter().map(move |row| (haul, row))).collect();
    let rows = Table::of("following", "B that follows from acknowledgements", &points)
        .text("haul", |(haul, _)| haul.name)
        .column("F", Unit::Number, |(_, (ack_every, ..))| *ack_every)
        .text("B", |(_, (_, batch, _))| batch.to_string())
        .column("FOBS's goodput", Unit::Mbps, |(_, (.., runs))| runs.goodput_mbps())
        .column("FOBS", Unit::Share, |(_, (.., runs))| runs.share(CARD_MBIT))
        .column("FOBS's waste", Unit::Share, |(_, (.., runs))| runs.waste());
    (!points.is_empty()).then(|| rows.table())
}

fn judge(hauls: &[Haul]) -> Vec<Statement> {
    // The long haul is the last, or the only one.
    vec![
        judge_two(hauls),
        hauls.last().map_or_else(|| OFTEN.leave_open(TOO_FEW), judge_often),
        judge_rules(hauls, FOLLOWING, |batch| batch == Batch::Received, |rule, two| rule >= NEARLY * two),
        judge_rules(hauls, WAITING, Batch::blocks, |rule, two| NEARLY * rule <= two),
    ]
}

/// A claim on each of these rules, on each haul, beside B = 2 with the same F. What has no end gets nothing.
fn judge_rules(
    hauls: &[Haul],
    claim: Claim,
    is_meant: fn(Batch) -> bool,
    holds: fn(f64, f64) -> bool,
) -> Statement {
    let goodput = |runs: &Runs| runs.goodput_mbps().unwrap_or_default();
    let mut found = vec![];
    for haul in hauls {
        for (ack_every, batch, runs) in haul.following.iter().filter(|(_, batch, _)| is_meant(*batch)) {
            let is_two =
                |(every, two, _): &&(u32, Batch, Runs)| *every == *ack_every && *two == Batch::Packets(BATCH);
            let Some((.., two)) = haul.following.iter().find(is_two) else {
                return claim.leave_open(TOO_FEW);
            };
            let of_two = goodput(runs) / goodput(two);
            let text = format!(
                "{:.1} % of B = 2 with F = {ack_every}, B = {batch} on the {} haul",
                of_two * 100.0,
                haul.name
            );
            found.push((of_two, text, holds(goodput(runs), goodput(two))));
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((_, worst, _)), Some((_, best, _))) = (found.first(), found.last()) else {
        return claim.leave_open(FOLLOWING_ONLY);
    };
    claim.judge(found.iter().all(|(.., holds)| *holds), format!("from {worst} to {best}"))
}

fn judge_two(hauls: &[Haul]) -> Statement {
    let others = |haul: &Haul| {
        let others = haul.each().filter(|(batch, _)| *batch != BATCH);
        let all: Vec<f64> = others.filter_map(|(_, runs)| runs.goodput_mbps()).collect();
        all.iter().copied().min_by(f64::total_cmp).zip(all.iter().copied().max_by(f64::total_cmp))
    };
    let each: Option<Vec<_>> =
        hauls.iter().map(|haul| Some((haul.name, haul.at(BATCH)?.goodput_mbps(), others(haul)?))).collect();
    let Some(each) = each.filter(|each| !each.is_empty()) else { return TWO.leave_open(TOO_FEW) };
    let figures = each.iter().map(|(haul, two, (least, most))| {
        format!("B = 2 gets {}, others {least:.2} to {most:.2} on the {haul} haul", mbps(*two))
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    let is_best = each.iter().all(|(_, two, (_, most))| two.is_some_and(|two| NEARLY * most <= two));
    let is_better = each.iter().all(|(_, two, (least, _))| two.is_some_and(|two| *least <= NEARLY * two));
    if is_best && !is_better {
        return TWO.leave_open(format!("{figures}: {TIE}"));
    }
    TWO.judge(is_best, figures).otherwise("a larger batch costs the sending host less, and it learns no less")
}

fn judge_often(long: &Haul) -> Statement {
    let figures = |batch: u32| long.at(batch).and_then(|runs| Some((runs.goodput_mbps()?, runs.waste()?)));
    let Some(((two, two_waste), (many, many_waste))) = figures(BATCH).zip(figures(LARGE_BATCH)) else {
        return OFTEN.leave_open(TOO_FEW);
    };
    let text = format!(
        "on the {} haul B = {LARGE_BATCH} gets {many:.1} Mb/s with {} waste, B = 2 {two:.1} Mb/s with {}",
        long.name,
        percent(Some(many_waste)),
        percent(Some(two_waste)),
    );
    OFTEN.judge(many <= NEARLY * two, text).otherwise(
        "the sender learns late of what has come in, but a clean path loses too little for that to matter, and the card \
         makes it wait in any case",
    )
}

fn mbps(goodput: Option<f64>) -> String {
    goodput.map_or("nothing".into(), |mbps| format!("{mbps:.2} Mb/s"))
}

const BATCHES: [u32; 8] = [1, 2, 4, 8, 16, 32, 128, LARGE_BATCH];
const QUICK_BATCHES: [u32; 6] = [1, 2, 4, 16, 64, LARGE_BATCH];
const LARGE_BATCH: u32 = 512;
/// F, and B that follows from acknowledgements.
const FOLLOWING_BATCHES: [(u32, Batch); 15] = [
    (16, Batch::Packets(BATCH)),
    (16, Batch::Received),
    (64, Batch::Packets(BATCH)),
    (64, Batch::Received),
    (256, Batch::Packets(BATCH)),
    (256, Batch::Received),
    (64, Batch::Blocking(32)),
    (64, Batch::Blocking(64)),
    (64, Batch::Blocking(128)),
    (64, Batch::Blocking(256)),
    (64, Batch::Blocking(LARGE_BATCH)),
    (64, Batch::ReceivedOrNone(64)),
    (64, Batch::ReceivedOrNone(256)),
    (64, Batch::ReceivedOrNone(512)),
    (64, Batch::ReceivedOrNone(1024)),
];
const FOLLOWING_METHOD: &str = "d: as many packets as came in between the last two acknowledgements. \"Or 0\": none where a look \
     found no acknowledgement; such looks, again and again, are a wait for one. The first packets are acknowledged \
     sooner than after F: after a quarter of what has come in.";
const FOLLOWING_ONLY: &str = "B that follows from acknowledgements, and B = 0: only in the simulator, the program's --batch is a number above 0";
const NEARLY: f64 = 0.99;
/// Both ends get a millisecond of a processor in so many.
const SLOW_MS: [u32; 2] = [4, 8];
const TIE: &str =
    "the card, not the host, limits the sender, and how often it looks makes no difference of 1 %";
const TOO_FEW: &str = "too few batches were measured or done";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn long(runs: Vec<(u32, Runs)>) -> Haul {
        let (batches, fobs) = runs.into_iter().unzip();
        Haul { name: "long", batches, sweep: Sweep::of(fobs, Runs::default()), following: vec![] }
    }

    fn by_numbers(hauls: &[Haul]) -> Vec<Statement> {
        vec![judge_two(hauls), judge_often(&hauls[0])]
    }

    #[test]
    fn what_follows_from_acknowledgements_is_judged_beside_two_with_the_same_f() {
        let verdicts = |received_mbps: f64, blocking: Runs| {
            let following = vec![
                (16, Batch::Packets(BATCH), Runs::one(80.0, 0.0)),
                (16, Batch::Received, Runs::one(received_mbps, 0.0)),
                (64, Batch::Packets(BATCH), Runs::one(90.0, 0.0)),
                (64, Batch::Blocking(64), blocking),
            ];
            let statements = judge(&[Haul { following, ..long(vec![]) }]);
            [2, 3].map(|at| statements[at].verdict)
        };
        assert_eq!(verdicts(79.5, Runs::one(40.0, 0.0)), [Verdict::Met; 2]);
        assert_eq!(verdicts(79.0, Runs::without_end("no")), [Verdict::NotMet, Verdict::Met]);
        assert_eq!(verdicts(80.0, Runs::one(92.0, 0.0)), [Verdict::Met, Verdict::NotMet]);
        let real = judge(&[long(vec![])]);
        assert_eq!([2, 3].map(|at| real[at].verdict), [Verdict::Open; 2], "only simulated");
    }

    fn verdicts(points: &[(u32, f64, f64)]) -> Vec<Verdict> {
        let fobs = points.iter().map(|&(batch, goodput_mbps, waste)| (batch, Runs::one(goodput_mbps, waste)));
        by_numbers(&[long(fobs.collect())]).into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn two_may_be_beaten_by_a_trifle_and_must_beat_something_by_more() {
        let reproduced = [Verdict::Reproduced; 2];
        let tie = [Verdict::Open, Verdict::NotReproduced];
        assert_eq!(verdicts(&[(1, 90.5, 0.01), (2, 90.0, 0.01), (512, 89.5, 0.05)]), tie);
        assert_eq!(verdicts(&[(1, 90.5, 0.01), (2, 90.0, 0.01), (512, 80.0, 0.05)]), reproduced);
        let missed = [Verdict::NotReproduced; 2];
        assert_eq!(verdicts(&[(1, 95.0, 0.01), (2, 90.0, 0.01), (512, 89.5, 0.05)]), missed);
        assert_eq!(verdicts(&[(2, 90.0, 0.01)]), [Verdict::Open; 2]);
    }

    #[test]
    fn batches_that_came_to_nothing_prove_nothing() {
        let failed = || Runs { failures: vec!["no".into()], ..Runs::default() };
        let of = |two: Runs, large: Runs| {
            let fobs = vec![(1, Runs::one(80.0, 0.01)), (BATCH, two), (LARGE_BATCH, large)];
            let verdicts = by_numbers(&[long(fobs)]);
            verdicts.into_iter().map(|statement| statement.verdict).collect::<Vec<_>>()
        };
        assert_eq!(of(failed(), failed()), [Verdict::NotReproduced, Verdict::Open]);
        assert_eq!(of(failed(), Runs::one(70.0, 0.1)), [Verdict::NotReproduced, Verdict::Open]);
        assert_eq!(of(Runs::one(90.0, 0.01), failed()), [Verdict::Reproduced, Verdict::Open]);
        let all = vec![(1, failed()), (BATCH, Runs::one(90.0, 0.01)), (LARGE_BATCH, failed())];
        let statements = judge(&[long(all)]);
        assert_eq!(statements[0].verdict, Verdict::Open, "nothing else was done");
    }
}
