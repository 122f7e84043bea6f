//! Section 3.1.1: how many packets between two looks for an acknowledgement.

use super::run::{
    BATCH, CARD_MBIT, Fobs, LONG, OBJECT_BYTES, Runs, SHORT, Sweep, desktop_path, failures, method, percent,
};
use crate::experiments::bench::Bench;
use crate::experiments::{Claim, Experiment, ExperimentError, Findings, Statement};
use longhaul_sim::experiments::{Column, Plot, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fobs-batch",
    title: "Packets sent between two looks for an acknowledgement (§3.1.1)",
    claims: &[TWO, OFTEN],
    has_parts: false,
    measure,
};

const TWO: Claim =
    Claim::paper("FOBS §3.1.1", "two packets per batch perform best (nothing else gets 1 % more)");
const OFTEN: Claim = Claim::paper(
    "FOBS §3.1.1",
    "the sender should look often: a batch of 512 gets less (1 % at least) and sends more in vain (a tenth at least)",
);

/// A haul, and copies with each B.
struct Haul {
    name: &'static str,
    fobs: Vec<(u32, Runs)>,
    default: Runs,
}

impl Haul {
    fn at(&self, wanted: u32) -> Option<&Runs> {
        self.fobs.iter().find(|(batch, _)| *batch == wanted).map(|(_, runs)| runs)
    }
}

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let batches = bench.pick(&BATCHES[..], &QUICK_BATCHES[..], &[BATCH]);
    let (rounds, bytes) = (bench.pick(3, 1, 1), bench.pick(OBJECT_BYTES, OBJECT_BYTES, OBJECT_BYTES / 40));
    let places = bench.pick(&[SHORT, LONG][..], &[LONG], &[LONG]);
    bench.expect_runs(places.len() * Sweep::runs(rounds, batches.len()));
    let variants: Vec<Fobs> = batches.iter().map(|&batch| Fobs { batch, ..Fobs::default() }).collect();
    let mut hauls = vec![];
    for &(name, rtt_ms) in places {
        let Sweep { fobs, default, .. } =
            Sweep::run(bench, &desktop_path(name, rtt_ms), bytes, rounds, &variants)?;
        hauls.push(Haul { name, fobs: batches.iter().copied().zip(fobs).collect(), default });
    }
    let runs = hauls.iter().flat_map(|haul| haul.fobs.iter().map(|(_, runs)| runs).chain([&haul.default]));
    let lines = [
        method(bytes),
        format!("B is swept, F = 64. Medians of {rounds} round(s). Shares are of the card's rate."),
    ];
    let method = lines.into_iter().chain(failures(runs)).collect();
    Ok(Findings { method, tables: vec![table(&hauls)], statements: judge(&hauls) })
}

fn table(hauls: &[Haul]) -> Table {
    let columns = vec![
        Column::text("haul"),
        Column::new("B", Unit::Number),
        Column::new("FOBS's goodput", Unit::Mbps),
        Column::new("FOBS", Unit::Share),
        Column::new("longhaul's default", Unit::Share),
        Column::new("FOBS's waste", Unit::Share),
    ];
    let mut table = Table::new("batches", "B packets between two looks", columns)
        .plot(Plot::lines("B", &["FOBS", "longhaul's default"]).by("haul").log_x())
        .plot(
            Plot::lines("B", &["FOBS's waste"])
                .by("haul")
                .log_x()
                .title("Waste, B packets between two looks"),
        );
    for haul in hauls {
        for (batch, runs) in &haul.fobs {
            table.push(vec![
                haul.name.into(),
                (*batch).into(),
                runs.goodput_mbps().into(),
                runs.share(CARD_MBIT).into(),
                haul.default.share(CARD_MBIT).into(),
                runs.waste().into(),
            ]);
        }
    }
    table
}

fn judge(hauls: &[Haul]) -> Vec<Statement> {
    // The long haul is the last, or the only one.
    vec![judge_two(hauls), hauls.last().map_or_else(|| OFTEN.leave_open(TOO_FEW), judge_often)]
}

fn judge_two(hauls: &[Haul]) -> Statement {
    let best_other = |haul: &Haul| {
        let others = haul.fobs.iter().filter(|(batch, _)| *batch != BATCH);
        others.filter_map(|(_, runs)| runs.goodput_mbps()).max_by(f64::total_cmp)
    };
    let each: Option<Vec<(&Haul, Option<f64>, f64)>> =
        hauls.iter().map(|haul| Some((haul, haul.at(BATCH)?.goodput_mbps(), best_other(haul)?))).collect();
    let Some(each) = each.filter(|each| !each.is_empty()) else { return TWO.leave_open(TOO_FEW) };
    let figures = each.iter().map(|(haul, two, other)| {
        format!("B = 2 gets {} of {other:.2} at most by others on the {} haul", mbps(*two), haul.name)
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    let is_best = each.iter().all(|(_, two, other)| two.is_some_and(|two| NEARLY * other <= two));
    TWO.judge(is_best, figures).otherwise(
        "the card, not the host, limits the sender here: a look costs a small part of what a packet lasts",
    )
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
    OFTEN.judge(many <= NEARLY * two && many_waste >= MORE * two_waste, text).otherwise(
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
const NEARLY: f64 = 0.99;
const MORE: f64 = 1.1;
const TOO_FEW: &str = "too few batches were measured or done";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Verdict;

    fn verdicts(points: &[(u32, f64, f64)]) -> Vec<Verdict> {
        let fobs = points.iter().map(|&(batch, goodput_mbps, waste)| (batch, Runs::one(goodput_mbps, waste)));
        let haul = Haul { name: "long", fobs: fobs.collect(), default: Runs::default() };
        judge(&[haul]).into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn two_may_be_beaten_by_a_trifle_and_large_batches_must_lose_twice() {
        let reproduced = [Verdict::Reproduced; 2];
        assert_eq!(verdicts(&[(1, 90.5, 0.01), (2, 90.0, 0.01), (512, 80.0, 0.05)]), reproduced);
        let missed = [Verdict::NotReproduced; 2];
        assert_eq!(verdicts(&[(1, 95.0, 0.01), (2, 90.0, 0.01), (512, 80.0, 0.0105)]), missed);
        assert_eq!(verdicts(&[(2, 90.0, 0.01)]), [Verdict::Open; 2]);
    }

    #[test]
    fn batches_that_came_to_nothing_prove_nothing() {
        let failed = || Runs { failures: vec!["no".into()], ..Runs::default() };
        let of = |two: Runs, large: Runs| {
            let fobs = vec![(1, Runs::one(80.0, 0.01)), (BATCH, two), (LARGE_BATCH, large)];
            let verdicts = judge(&[Haul { name: "long", fobs, default: Runs::default() }]);
            verdicts.into_iter().map(|statement| statement.verdict).collect::<Vec<_>>()
        };
        assert_eq!(of(failed(), failed()), [Verdict::NotReproduced, Verdict::Open]);
        assert_eq!(of(failed(), Runs::one(70.0, 0.1)), [Verdict::NotReproduced, Verdict::Open]);
        assert_eq!(of(Runs::one(90.0, 0.01), failed()), [Verdict::Reproduced, Verdict::Open]);
        let all = vec![(1, failed()), (BATCH, Runs::one(90.0, 0.01)), (LARGE_BATCH, failed())];
        let statements = judge(&[Haul { name: "long", fobs: all, default: Runs::default() }]);
        assert_eq!(statements[0].verdict, Verdict::Open, "nothing else was done");
    }
}
