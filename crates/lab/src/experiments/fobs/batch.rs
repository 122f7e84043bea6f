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
    let goodput = |runs: &Runs| runs.goodput_mbps().unwrap_or_default();
    let at = |haul: &Haul, wanted: u32| {
        let found = haul.fobs.iter().find(|(batch, _)| *batch == wanted);
        found.map(|(_, runs)| runs.clone())
    };
    // The long haul is the last, or the only one.
    let Some((long, two, many)) =
        hauls.last().and_then(|long| Some((long, at(long, BATCH)?, at(long, LARGE_BATCH)?)))
    else {
        return [TWO, OFTEN].map(|claim| claim.leave_open("too few batches were measured")).into();
    };
    let best = |haul: &Haul| haul.fobs.iter().map(|(_, runs)| goodput(runs)).fold(0.0, f64::max);
    let is_best = hauls.iter().all(|haul| {
        let two = at(haul, BATCH).as_ref().map(goodput).unwrap_or_default();
        two > 0.0 && NEARLY * best(haul) <= two
    });
    let two_figures = format!(
        "B = 2 gets {:.2} Mb/s of at most {:.2} on the {} haul",
        goodput(&two),
        best(long),
        long.name
    );
    let many_figures = format!(
        "on the {} haul B = {LARGE_BATCH} gets {:.1} Mb/s with {} waste, B = 2 {:.1} Mb/s with {}",
        long.name,
        goodput(&many),
        percent(many.waste()),
        goodput(&two),
        percent(two.waste()),
    );
    let waste = |runs: &Runs| runs.waste().unwrap_or_default();
    let is_worse = goodput(&many) <= NEARLY * goodput(&two) && waste(&many) >= MORE * waste(&two);
    vec![
        TWO.judge(is_best, two_figures)
            .otherwise("the card, not the host, limits the sender here: a look costs a small part of what a packet lasts"),
        OFTEN.judge(is_worse, many_figures).otherwise(
            "the sender learns late of what has come in, but a clean path loses too little for that to matter, and the card \
             makes it wait in any case",
        ),
    ]
}

const BATCHES: [u32; 8] = [1, 2, 4, 8, 16, 32, 128, LARGE_BATCH];
const QUICK_BATCHES: [u32; 6] = [1, 2, 4, 16, 64, LARGE_BATCH];
const LARGE_BATCH: u32 = 512;
const NEARLY: f64 = 0.99;
const MORE: f64 = 1.1;

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
}
