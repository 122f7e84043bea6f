//! Figures 1 and 2: bandwidth obtained, and packets sent in vain, against the acknowledgement frequency. Both come
//! from the same copies.

use super::plan::Plan;
use super::run::{
    CARD_MBIT, EMPTY_BYTES, Fobs, LONG, NO_DEFAULT, OBJECT_BYTES, PACKET_LEN, Runs, SHORT, Session,
    desktop_path, failures, method, percent,
};
use super::simulated::Hosts;
use crate::ExperimentError;
use crate::Scale;
use crate::experiment::{Backend, Experiment};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;
use longhaul_proto::object::AckPolicy;
use longhaul_proto::wire::IPV4_UDP_LEN;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(super) const FIGURE_1: Experiment = Experiment::either(
    "fobs-fig1",
    "Share of the card's 100 Mb/s that FOBS gets, against packets per acknowledgement (Figure 1)",
    &[NINETY, BOTH_HAULS, DEFAULT_TOO],
    figure_1,
);

pub(super) const FIGURE_2: Experiment = Experiment::either(
    "fobs-fig2",
    "Packets that FOBS sends in vain, against packets per acknowledgement (Figure 2)",
    &[WASTE, DEFAULT_LESS],
    figure_2,
)
.of_shared_runs()
.differing(super::LATER_END);

const NINETY: Claim = Claim::paper(
    "FOBS §5, Figure 1",
    "FOBS gets about 90 % of the available bandwidth on both hauls (85 % at least, at the best F)",
);
const BOTH_HAULS: Claim =
    Claim::paper("FOBS §5, Figure 1", "the long haul costs FOBS next to nothing (5 % at most)");
const DEFAULT_TOO: Claim = Claim::ours("longhaul's default gets at least as much as FOBS at its best F");
const WASTE: Claim = Claim::paper(
    "FOBS §7, Figure 2",
    "about 3 % of the packets are sent in vain (6 % at most, where F gives the most bandwidth)",
);
const DEFAULT_LESS: Claim = Claim::ours("longhaul's default sends less in vain");

/// A haul, and what came of copies over it.
#[derive(Clone, Debug)]
struct Haul {
    name: &'static str,
    rtt_ms: f64,
    /// FOBS with each F.
    fobs: Vec<(u32, Runs)>,
    /// By longhaul's default, where it can be run.
    default: Option<Runs>,
    session: Session,
}

impl Haul {
    /// FOBS where F gives the most bandwidth.
    fn best(&self) -> Option<&Runs> {
        let runs = self.fobs.iter().map(|(_, runs)| runs);
        runs.max_by(|a, b| {
            a.goodput_mbps().unwrap_or_default().total_cmp(&b.goodput_mbps().unwrap_or_default())
        })
    }

    fn best_share(&self) -> Option<f64> {
        self.best()?.share(CARD_MBIT)
    }

    /// New packets that come in at the card's rate before the program's timer acknowledges them; the simulator has none.
    fn timer_packets(&self) -> u32 {
        let delay = AckPolicy::new(1, Duration::from_secs_f64(self.rtt_ms / 1e3)).delay;
        (delay.as_secs_f64() * CARD_MBIT * 1e6 / ((PACKET_LEN as usize + IPV4_UDP_LEN) * 8) as f64) as u32
    }

    fn acknowledged_by(&self, ack_every: u32, backend: &Backend<'_>) -> &'static str {
        if backend.choose(false, ack_every > self.timer_packets()) { "timer" } else { "number" }
    }

    fn default_share(&self) -> Option<f64> {
        self.default.as_ref()?.share(CARD_MBIT)
    }

    fn default_waste(&self) -> Option<f64> {
        self.default.as_ref()?.waste()
    }
}

/// What was measured for one of the figures is there for the other.
#[derive(Clone, Debug)]
struct Measured {
    program: PathBuf,
    scale: Scale,
    seed: u64,
    hauls: Vec<Haul>,
    /// What there was to say of the host.
    warning: Option<String>,
}

impl Measured {
    /// Each haul with each F.
    fn points<'a>(&'a self) -> Vec<(&'a Haul, u32, &'a Runs)> {
        let of_haul =
            |haul: &'a Haul| haul.fobs.iter().map(move |(ack_every, runs)| (haul, *ack_every, runs));
        self.hauls.iter().flat_map(of_haul).collect()
    }
}

static MEASURED: Mutex<Option<Measured>> = Mutex::new(None);

fn measured(backend: &Backend<'_>) -> Result<Measured, ExperimentError> {
    let Backend::Lab(bench) = backend else {
        let measured =
            Measured { program: PathBuf::new(), scale: Scale::Full, seed: 0, hauls: vec![], warning: None };
        return Ok(Measured { hauls: measure(backend)?, ..measured });
    };
    let mut kept = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let (program, scale, seed) = (bench.options.program, bench.options.scale, bench.options.seed);
    if let Some(same) =
        kept.as_ref().filter(|kept| (kept.program.as_path(), kept.scale, kept.seed) == (program, scale, seed))
    {
        return Ok(same.clone());
    }
    let hauls = measure(backend)?;
    let measured = Measured { program: program.into(), scale, seed, hauls, warning: None };
    *kept = Some(Measured { warning: bench.warning(), ..measured.clone() });
    Ok(measured)
}

fn measure(backend: &Backend<'_>) -> Result<Vec<Haul>, ExperimentError> {
    let quick = backend.choose(&FREQUENCIES[..], &QUICK_FREQUENCIES[..]);
    let frequencies = backend.pick(&FREQUENCIES[..], quick, &[64]);
    let hauls = backend.pick(&[SHORT, LONG][..], &[SHORT, LONG], &[LONG]);
    let paths: Vec<Scenario> = hauls.iter().map(|(name, rtt_ms)| desktop_path(name, *rtt_ms)).collect();
    let variants: Vec<Fobs> =
        frequencies.iter().map(|&ack_every| Fobs { ack_every, ..Fobs::default() }).collect();
    let plan = Plan {
        paths: &paths,
        bytes: object_bytes(backend),
        rounds: backend.pick(ROUNDS, 1, 1),
        variants: &variants,
        hosts: Hosts::Desktop,
        period_ms: None,
    };
    let sweeps = plan.run(backend)?.into_iter().zip(hauls);
    let hauls = sweeps.map(|(sweep, &(name, rtt_ms))| {
        let fobs = frequencies.iter().copied().zip(sweep.fobs).collect();
        Haul { name, rtt_ms, fobs, default: sweep.default, session: sweep.session }
    });
    Ok(hauls.collect())
}

fn object_bytes(backend: &Backend<'_>) -> u64 {
    backend.pick(OBJECT_BYTES, OBJECT_BYTES, OBJECT_BYTES / 40)
}

fn figure_1(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let measured = measured(backend)?;
    let table = Table::of(
        "frequencies",
        "Share of the card's rate, F new packets per acknowledgement",
        &measured.points(),
    )
    .text("haul", |(haul, ..)| haul.name)
    .column("RTT", Unit::Millis, |(haul, ..)| haul.rtt_ms)
    .column("F", Unit::Number, |(_, ack_every, _)| *ack_every)
    .text("acknowledged by", |(haul, ack_every, _)| haul.acknowledged_by(*ack_every, backend))
    .column("FOBS's goodput", Unit::Mbps, |(.., runs)| runs.goodput_mbps())
    .column("FOBS", Unit::Share, |(.., runs)| runs.share(CARD_MBIT))
    .column("longhaul's default", Unit::Share, |(haul, ..)| haul.default_share())
    .column("FOBS, data alone", Unit::Share, |(haul, _, runs)| {
        runs.data_share(CARD_MBIT, object_bytes(backend), &haul.session)
    })
    .column("paper", Unit::Share, |(..)| PAPER_SHARE)
    .table()
    .plot(Plot::lines("F", &["FOBS", "FOBS, data alone", "longhaul's default", "paper"]).by("haul").log_x());
    Ok(Findings {
        method: about(backend, &measured),
        tables: vec![table],
        statements: judge_bandwidth(&measured.hauls),
    })
}

fn figure_2(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let measured = measured(backend)?;
    let table = Table::of("waste", "Waste, F new packets per acknowledgement", &measured.points())
        .text("haul", |(haul, ..)| haul.name)
        .column("RTT", Unit::Millis, |(haul, ..)| haul.rtt_ms)
        .column("F", Unit::Number, |(_, ack_every, _)| *ack_every)
        .text("acknowledged by", |(haul, ack_every, _)| haul.acknowledged_by(*ack_every, backend))
        .column("FOBS", Unit::Share, |(.., runs)| runs.waste())
        .column("longhaul's default", Unit::Share, |(haul, ..)| haul.default_waste())
        .column("paper", Unit::Share, |(..)| PAPER_WASTE)
        .table()
        .plot(Plot::lines("F", &["FOBS", "longhaul's default", "paper"]).by("haul").log_x());
    Ok(Findings {
        method: about(backend, &measured),
        tables: vec![table],
        statements: judge_waste(&measured.hauls),
    })
}

fn about(backend: &Backend<'_>, measured: &Measured) -> Vec<String> {
    let rounds = format!(
        "Data alone: without what a copy of {EMPTY_BYTES} bytes takes too, but for one round trip; the paper's figures have \
         no handshake in them. Medians of {} round(s), one kind of copy after the other in each. The paper gives no values along its axis, and a \
         single one for each figure: the line \"paper\".",
        backend.pick(ROUNDS, 1, 1)
    );
    let runs = measured.hauls.iter().flat_map(|haul| {
        haul.fobs.iter().map(|(_, runs)| runs).chain(&haul.default).chain([&haul.session.runs])
    });
    let rounds = backend.choose(None, Some(rounds));
    let takeovers =
        measured.hauls.iter().map(|haul| format!("{} on the {} haul", haul.timer_packets(), haul.name));
    let takeovers = takeovers.collect::<Vec<_>>().join(", ");
    let timer = backend.choose(
        "Acknowledged by number alone, but for the first packets: after a quarter of what has come in, until that is F."
            .to_owned(),
        format!(
            "The program's receiver also acknowledges by a timer of a quarter of a round trip, which its sender counts on: at \
             the card's rate it, not F, decides where F is above {takeovers}. Only the simulator has larger F."
        ),
    );
    method(backend, object_bytes(backend))
        .into_iter()
        .chain([timer])
        .chain(rounds)
        .chain(failures(runs))
        .chain(measured.warning.clone())
        .collect()
}

fn judge_bandwidth(hauls: &[Haul]) -> Vec<Statement> {
    let [short, long] = hauls else {
        return [NINETY, BOTH_HAULS, DEFAULT_TOO].map(|claim| claim.leave_open(ONE_HAUL)).into();
    };
    let best = [short, long].map(Haul::best_share);
    let default = [short, long].map(Haul::default_share);
    let figures = format!("short haul {}, long haul {} at the best F", percent(best[0]), percent(best[1]));
    let default_figures = format!("{} and {}; FOBS {figures}", percent(default[0]), percent(default[1]));
    let both_hauls = match best {
        [Some(short), long] => {
            BOTH_HAULS.judge(long.is_some_and(|long| long >= LONG_OF_SHORT * short), figures.clone())
        }
        [None, _] => BOTH_HAULS.leave_open("no copy by FOBS was done on the short haul"),
    };
    vec![
        NINETY.judge(best.iter().all(|share| share.is_some_and(|share| share >= GOOD_SHARE)), figures).otherwise(
            "the ceiling is 94 % (packets' headers); a copy also has a handshake before it and a check after it, some five \
             round trips, which the paper's figures leave out",
        ),
        both_hauls
            .otherwise("a copy has a handshake before it and a check after it, some five round trips of a short object"),
        against_fobs(DEFAULT_TOO, hauls, &default, &best, |own, fobs| own >= fobs, default_figures)
            .otherwise("the default finds out the path's rate, where FOBS knows nothing but the card"),
    ]
}

/// A claim of ours that compares with FOBS on each haul: one that it fails on is enough, and a haul on which FOBS came to
/// nothing leaves it open.
fn against_fobs(
    claim: Claim,
    hauls: &[Haul],
    own: &[Option<f64>],
    fobs: &[Option<f64>],
    is_good: fn(f64, f64) -> bool,
    figures: String,
) -> Statement {
    if hauls.iter().any(|haul| haul.default.is_none()) {
        return claim.leave_open(NO_DEFAULT);
    }
    let holds = |(own, fobs): (&Option<f64>, &Option<f64>)| match (*own, *fobs) {
        (None, _) => Some(false),
        (Some(_), None) => None,
        (Some(own), Some(fobs)) => Some(is_good(own, fobs)),
    };
    let each: Vec<Option<bool>> = own.iter().zip(fobs).map(holds).collect();
    if !each.contains(&Some(false)) && each.contains(&None) {
        return claim.leave_open(format!("nothing to compare with on every haul: {figures}"));
    }
    claim.judge(!each.is_empty() && each.iter().all(|holds| *holds == Some(true)), figures)
}

fn judge_waste(hauls: &[Haul]) -> Vec<Statement> {
    let at_best: Vec<(&Haul, Option<f64>)> =
        hauls.iter().map(|haul| (haul, haul.best().and_then(Runs::waste))).collect();
    let shares = |of: &dyn Fn(&Haul) -> Option<f64>| {
        let each: Vec<String> =
            hauls.iter().map(|haul| format!("{} haul {}", haul.name, percent(of(haul)))).collect();
        each.join(", ")
    };
    let fobs = shares(&|haul| haul.best().and_then(Runs::waste));
    let is_little = at_best.iter().all(|(_, waste)| waste.is_some_and(|waste| waste <= WASTE_MAX));
    let is_better = at_best.iter().all(|(_, waste)| waste.is_some_and(|waste| waste < PAPER_WASTE));
    let own: Vec<_> = hauls.iter().map(Haul::default_waste).collect();
    let theirs: Vec<_> = at_best.iter().map(|(_, waste)| *waste).collect();
    let less_figures = format!("{}; FOBS: {fobs}", shares(&Haul::default_waste));
    vec![
        WASTE.judge(is_little && !hauls.is_empty(), fobs).better_if(is_better).otherwise(
            "what is sent in vain is what waits in the sending host and is on its way when the last packet arrives",
        ),
        against_fobs(DEFAULT_LESS, hauls, &own, &theirs, |own, fobs| own < fobs, less_figures),
    ]
}

/// The paper's horizontal axis is not given.
const FREQUENCIES: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const QUICK_FREQUENCIES: [u32; 5] = [1, 8, 64, 256, 1024];
const ROUNDS: usize = 3;
/// FOBS §5 and abstract.
const PAPER_SHARE: f64 = 0.9;
const PAPER_WASTE: f64 = 0.03;
const GOOD_SHARE: f64 = 0.85;
const WASTE_MAX: f64 = 0.06;
const LONG_OF_SHORT: f64 = 0.95;
const ONE_HAUL: &str = "only one haul was measured";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn haul(name: &'static str, fobs: &[(f64, f64)], default: (f64, f64)) -> Haul {
        let fobs = fobs.iter().map(|&(mbps, waste)| (1, Runs::one(mbps, waste))).collect();
        Haul {
            name,
            rtt_ms: 1.0,
            fobs,
            default: Some(Runs::one(default.0, default.1)),
            session: Session::default(),
        }
    }

    fn verdicts(statements: Vec<Statement>) -> Vec<Verdict> {
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn the_timer_takes_over_where_f_lasts_longer() {
        let at = |rtt_ms| Haul { rtt_ms, ..haul("a", &[], (0.0, 0.0)) }.timer_packets();
        assert_eq!([SHORT.1, LONG.1, 400.0].map(at), [77, 193, 297], "at most 25 ms");
    }

    #[test]
    fn the_best_frequency_counts_for_bandwidth_and_for_waste() {
        let hauls = [
            haul("short", &[(50.0, 0.5), (91.0, 0.02)], (92.0, 0.0)),
            haul("long", &[(88.0, 0.03), (40.0, 0.0)], (89.0, 0.01)),
        ];
        let expected = [Verdict::Reproduced, Verdict::Reproduced, Verdict::Met];
        assert_eq!(verdicts(judge_bandwidth(&hauls)), expected);
        assert_eq!(verdicts(judge_waste(&hauls)), [Verdict::Reproduced, Verdict::Met]);
    }

    #[test]
    fn less_waste_than_the_papers_is_better() {
        let hauls =
            [haul("short", &[(91.0, 0.02)], (92.0, 0.0)), haul("long", &[(88.0, 0.029)], (89.0, 0.0))];
        assert_eq!(verdicts(judge_waste(&hauls)), [Verdict::Better, Verdict::Met]);
    }

    #[test]
    fn one_bad_haul_is_enough() {
        let hauls =
            [haul("short", &[(91.0, 0.02)], (92.0, 0.0)), haul("long", &[(80.0, 0.07)], (79.0, 0.08))];
        let expected = [Verdict::NotReproduced, Verdict::NotReproduced, Verdict::NotMet];
        assert_eq!(verdicts(judge_bandwidth(&hauls)), expected);
        assert_eq!(verdicts(judge_waste(&hauls)), [Verdict::NotReproduced, Verdict::NotMet]);
    }

    #[test]
    fn copies_that_failed_reproduce_nothing() {
        let mut failed = haul("long", &[], (0.0, 0.0));
        failed.fobs.push((1, Runs::default()));
        failed.default = Some(Runs::default());
        let hauls = [haul("short", &[(91.0, 0.02)], (92.0, 0.0)), failed];
        let missed = Verdict::NotReproduced;
        assert_eq!(verdicts(judge_bandwidth(&hauls)), [missed, missed, Verdict::NotMet]);
        assert_eq!(verdicts(judge_waste(&hauls)), [missed, Verdict::NotMet]);
    }

    #[test]
    fn where_fobs_came_to_nothing_nothing_is_said_of_what_is_compared_with_it() {
        let done = |name, mbps| haul(name, &[(91.0, 0.02)], (mbps, 0.0));
        let failed = |name| Haul {
            fobs: vec![(1, Runs { failures: vec!["no".into()], ..Runs::default() })],
            ..done(name, 92.0)
        };
        let (missed, open) = (Verdict::NotReproduced, Verdict::Open);
        assert_eq!(verdicts(judge_bandwidth(&[failed("short"), done("long", 92.0)])), [missed, open, open]);
        assert_eq!(
            verdicts(judge_bandwidth(&[failed("short"), done("long", 80.0)])),
            [missed, open, Verdict::NotMet]
        );
        assert_eq!(verdicts(judge_bandwidth(&[done("short", 92.0), failed("long")])), [missed, missed, open]);
        assert_eq!(verdicts(judge_waste(&[done("short", 92.0), failed("long")])), [missed, open]);
    }
}
