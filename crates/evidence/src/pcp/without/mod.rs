//! PCP with each of its parts switched off, one at a time: what each is worth, and where.

mod case;
mod late_host;
mod verdicts;
mod worth;

use crate::experiment::Experiment;
use crate::report::{Findings, Interval, Plot, Table, Unit, Value};
use crate::sim::{Options, run_jobs};
use case::{CASES, Case, RTT_MS, Run, SHORT};
use longhaul_proto::control::PcpPart;
use worth::{Measure, Worth};

/// See the [module](self).
pub(super) const EXPERIMENT: Experiment = Experiment::simulated(
    "pcp-without",
    "PCP with each of its parts switched off: what each is worth, and where",
    &verdicts::CLAIMS,
    run,
);

/// What goes over a path with all parts, or without one.
type Job = (&'static Case, Option<PcpPart>, u64);

/// What came of the runs over a path.
#[derive(Debug)]
struct Path {
    case: &'static str,
    with: Vec<Run>,
    /// By part.
    without: Vec<(PcpPart, Vec<Run>)>,
}

/// What a part does to a measure on a path.
#[derive(Clone, Debug)]
struct Effect {
    case: &'static str,
    part: PcpPart,
    measure: Measure,
    with: f64,
    without: f64,
    interval: Interval,
    worth: Worth,
}

fn run(options: &Options<'_>) -> Findings {
    let cases = options.scale.pick(CASES, CASES, &CASES[..2]);
    let parts = options.scale.pick(&PcpPart::ALL[..], &PcpPart::ALL[..], &PcpPart::ALL[..2]);
    let (seeds, shrink) = options.scale.pick((40, 1), (10, 1), (1, 20));
    let paths = simulate(options, cases, parts, seeds, shrink);
    let effects = effects(&paths);
    Findings {
        method: method(seeds),
        tables: vec![worths(parts, &effects), with_all(&paths), shown(&effects), every(&effects)],
        statements: verdicts::judge(&paths, &effects, parts),
    }
}

fn simulate(
    options: &Options<'_>,
    cases: &'static [Case],
    parts: &[PcpPart],
    seeds: u64,
    shrink: u64,
) -> Vec<Path> {
    let kinds: Vec<Option<PcpPart>> = [None].into_iter().chain(parts.iter().copied().map(Some)).collect();
    let of_case = |case: &'static Case| {
        let of_kind = move |without: &Option<PcpPart>| {
            let without = *without;
            (0..seeds).map(move |seed| (case, without, options.seed + seed))
        };
        kinds.iter().flat_map(of_kind)
    };
    let jobs: Vec<Job> = cases.iter().flat_map(of_case).collect();
    let runs = run_jobs(options, &jobs, |&(case, without, seed)| case.run(without, shrink, seed));
    let mut runs = runs.chunks(seeds as usize).map(<[Run]>::to_vec);
    let mut next = || runs.next().expect("every job has a run");
    let path = |case: &Case| Path {
        case: case.name,
        with: next(),
        without: parts.iter().map(|part| (*part, next())).collect(),
    };
    cases.iter().map(path).collect()
}

fn effects(paths: &[Path]) -> Vec<Effect> {
    let of_path = |path: &Path| {
        let mut effects = vec![];
        for ((part, without), measure) in
            path.without.iter().flat_map(|one| Measure::ALL.map(|measure| (one, measure)))
        {
            let Some(interval) = measure.effect(&path.with, without) else { continue };
            effects.push(Effect {
                case: path.case,
                part: *part,
                measure,
                with: mean(measure, &path.with).unwrap_or_default(),
                without: mean(measure, without).unwrap_or_default(),
                interval,
                worth: measure.worth(&interval),
            });
        }
        effects
    };
    paths.iter().flat_map(of_path).collect()
}

fn mean(measure: Measure, runs: &[Run]) -> Option<f64> {
    let figures: Vec<f64> = runs.iter().filter_map(|run| measure.of(run)).collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

/// The effects of a part that are worth this, the largest first.
fn largest(effects: &[Effect], part: PcpPart, worth: Worth) -> Vec<&Effect> {
    let mut found: Vec<&Effect> =
        effects.iter().filter(|effect| effect.part == part && effect.worth == worth).collect();
    let weight = |effect: &Effect| effect.measure.weight(&effect.interval);
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    found
}

/// In a word, what a part is worth on these paths.
fn word(effects: &[Effect], part: PcpPart) -> &'static str {
    let count = |worth| effects.iter().filter(|effect| effect.part == part && effect.worth == worth).count();
    match (count(Worth::Helps), count(Worth::Costs), count(Worth::Unclear)) {
        (1.., 0, _) => "worth it",
        (1.., ..) => "helps and costs",
        (0, 1.., _) => "costs only",
        (0, 0, 1..) => "nothing shown",
        (0, 0, 0) => "nothing",
    }
}

/// A row for each part.
fn worths(parts: &[PcpPart], effects: &[Effect]) -> Table {
    let told = |part: PcpPart, worth: Worth| -> Value {
        let largest = largest(effects, part, worth);
        let text = |effect: &&Effect| format!("{}: {}", effect.case, effect.measure.text(&effect.interval));
        largest.first().map_or(Value::Nothing, |effect| text(effect).into())
    };
    let count = |part: PcpPart, worth: Worth| largest(effects, part, worth).len();
    Table::of("parts", "What each part is worth: what happens without it where that matters most", parts)
        .text("part", |part| part.name())
        .text("worth", |part| word(effects, *part))
        .column("helps", Unit::Number, |part| count(*part, Worth::Helps))
        .text("helps most, without it", |part| told(*part, Worth::Helps))
        .column("costs", Unit::Number, |part| count(*part, Worth::Costs))
        .text("costs most, without it", |part| told(*part, Worth::Costs))
        .text("unclear most, without it", |part| told(*part, Worth::Unclear))
        .table()
        .plot(Plot::bars("part", &["helps", "costs"]))
}

/// A row for each path, all parts on.
fn with_all(paths: &[Path]) -> Table {
    let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
    let rows = Table::of("all", "With all parts, in the mean", paths).text("path", |path| path.case);
    let rows = Measure::ALL.iter().fold(rows, |rows, measure| {
        rows.column(measure.name(), measure.unit(), |path| mean(*measure, &path.with))
    });
    rows.table().plot(Plot::bars("path", &names[..1]))
}

/// The effects that are beyond the bars.
fn shown(effects: &[Effect]) -> Table {
    let shown: Vec<&Effect> =
        effects.iter().filter(|effect| matches!(effect.worth, Worth::Helps | Worth::Costs)).collect();
    Table::of("effects", "All effects beyond the bars, of switching a part off", &shown)
        .text("path", |effect| effect.case)
        .text("without", |effect| effect.part.name())
        .text("effect", |effect| effect.measure.text(&effect.interval))
        .text("the part", |effect| effect.worth.words())
        .table()
}

/// All of them, for programs.
fn every(effects: &[Effect]) -> Table {
    Table::of("cells", "Every path, part and measure", effects)
        .text("path", |effect| effect.case)
        .text("without", |effect| effect.part.name())
        .text("measure", |effect| effect.measure.name())
        .column("all on", Unit::Number, |effect| effect.with)
        .column("off", Unit::Number, |effect| effect.without)
        .column("effect", Unit::Number, |effect| effect.interval.figure)
        .column("from", Unit::Number, |effect| effect.interval.from)
        .column("to", Unit::Number, |effect| effect.interval.to)
        .text("the part", |effect| effect.worth.words())
        .table()
        .detail()
}

fn method(seeds: u64) -> Vec<String> {
    let bars = Measure::ALL.map(|measure| format!("{} {}", measure.name(), measure.bar()));
    vec![
        format!(
            "PCP over {} paths of {RTT_MS} ms, with all its parts and with each of {} switched off, {seeds} runs of each that \
             meet the same traffic and losses. The queue holds one bandwidth-delay product unless told; 20 MB go at 100 Mb/s, \
             what is beside others at 20 Mb/s. {} KB go ten times, one after another. Others' short flows are \
             those of pcp-fig2; TCP is the paper's TCP-SACK. Hosts that are late wake up anything up to so much after a timer or a \
             datagram; of one that stamps too, the receiver's times are those at which its program runs.",
            CASES.len(),
            PcpPart::ALL.len(),
            SHORT / 1000
        ),
        format!(
            "Effect: what happens without a part, a ratio of goodputs or of others' speed, else a difference; in brackets where 95 \
             of 100 draws of the runs lie. A part helps, or costs, where the whole interval is beyond a bar of ours: {}. Others' \
             speed: TCP's goodput in Mb/s, or how many of their short flows would go one after another in a second. Evenness: \
             Jain's index.",
            bars.join(", ")
        ),
        "Not switched off, for no path here meets what they are for: the answers to a receiver that refuses data, to paths \
         that lose two of five packets, to timeouts, and to programs with too little to send."
            .into(),
    ]
}
