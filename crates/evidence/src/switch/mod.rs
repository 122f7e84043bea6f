//! An object that is handed to TCP while others' traffic lasts, and taken back (FOBS §7).

mod measured;
mod simulated;

use crate::ExperimentError;
use crate::experiment::{Backend, Experiment};
use crate::report::{Claim, Findings, Plot, Rows, Statement, Table, Unit};
use crate::sim::run_jobs;
use longhaul_sim::metrics::Summary;
use longhaul_sim::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::either(
    "switch",
    "an object handed to TCP while CUBIC flows share its path, and taken back",
    &[AS_FAST, HANDED, BACK],
    switch,
)
.differing(
    "over emulated paths TCP is the kernel's, and a copy's handshake and check are in its time; in the simulator TCP is a rule for \
     the object's packets",
);

const AS_FAST: Claim =
    Claim::ours("switch takes at most 10 % longer than the better of pure object and pure TCP");
const HANDED: Claim = Claim::ours("it hands the object to TCP within 3 s of the others' coming");
const BACK: Claim = Claim::ours("it takes the object back, and keeps it, within 3 s of the others' going");

/// What takes place.
#[derive(Clone, Copy, Debug)]
struct Extent {
    rates_mbit: &'static [f64],
    rivals: &'static [u64],
    /// The object lasts so long at the path's rate.
    length: Duration,
    /// The others come …
    from: Duration,
    /// … and go, in one case each.
    untils_s: &'static [f64],
    seeds: u64,
}

impl Extent {
    fn of(backend: &Backend<'_>) -> Extent {
        let full = Extent {
            rates_mbit: &[50.0, 100.0],
            rivals: &[1, 4],
            length: Duration::from_secs(40),
            from: Duration::from_secs(5),
            untils_s: &[15.0, 25.0, 45.0],
            seeds: backend.choose(SEEDS_FULL, 1),
        };
        backend.pick(
            full,
            backend.choose(
                Extent { rates_mbit: &[50.0], seeds: 1, ..full },
                Extent { rates_mbit: &[50.0], untils_s: &[15.0, 25.0], rivals: &[1], ..full },
            ),
            Extent {
                rates_mbit: &[10.0],
                rivals: &[1],
                length: Duration::from_secs(1),
                from: Duration::from_millis(200),
                untils_s: &[0.6],
                seeds: 1,
            },
        )
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &rate_mbit in self.rates_mbit {
            for &until_s in self.untils_s {
                let until = Duration::from_secs_f64(until_s);
                cases.extend(self.rivals.iter().map(|&rivals| Case { rate_mbit, rivals, until }));
            }
        }
        cases
    }
}

/// A path, how many others come, and until when they stay.
#[derive(Clone, Copy, Debug)]
struct Case {
    rate_mbit: f64,
    rivals: u64,
    until: Duration,
}

impl Case {
    /// The first columns of a table.
    fn columns<'a, R>(table: Rows<'a, R>, of: fn(&'a R) -> &'a Case) -> Rows<'a, R> {
        table
            .column("rate", Unit::Mbps, |row| of(row).rate_mbit)
            .column("CUBIC flows", Unit::Number, |row| of(row).rivals)
            .column("until", Unit::Seconds, |row| of(row).until.as_secs_f64())
    }

    fn label(&self) -> String {
        format!("{} until {} s at {} Mb/s", self.rivals, self.until.as_secs_f64(), self.rate_mbit)
    }
}

/// How the object is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Object,
    Tcp,
    Switch,
}

impl Way {
    const ALL: [Way; 3] = [Way::Object, Way::Tcp, Way::Switch];
}

/// What came of one transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Finish {
    /// Until the receiver had everything, or until it was stopped.
    seconds: f64,
    is_complete: bool,
    /// The controller's mode at the end of every [`TICK`] while it ran.
    modes: Vec<String>,
}

impl Finish {
    /// Seconds spent in the hands of TCP.
    fn stripes_s(&self) -> f64 {
        self.modes.iter().filter(|mode| **mode == MODE_TCP).count() as f64 * TICK.as_secs_f64()
    }

    /// Seconds from `from`, when the others came, until TCP had the object.
    fn handed_s(&self, from: Duration) -> Option<f64> {
        let at = self.modes.iter().skip(ticks(from)).position(|mode| *mode == MODE_TCP)?;
        Some((at + 1) as f64 * TICK.as_secs_f64())
    }

    /// Seconds from `until`, when the others went, until TCP had it no more. Never, where TCP did not get it.
    fn back_s(&self, until: Duration) -> Option<f64> {
        let last = self.modes.iter().rposition(|mode| *mode == MODE_TCP)?;
        let back = last + 1;
        (back < self.modes.len()).then(|| (back + 1).saturating_sub(ticks(until)) as f64 * TICK.as_secs_f64())
    }
}

/// One transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    case: Case,
    way: Way,
    seed: u64,
}

/// What came of a case with every seed, by way.
struct Outcomes<'a> {
    case: Case,
    by_way: [&'a [Finish]; 3],
}

impl Outcomes<'_> {
    fn of(&self, way: Way) -> &[Finish] {
        self.by_way[way as usize]
    }

    fn time_s(&self, way: Way) -> Summary {
        Summary::of(self.of(way).iter().map(|finish| finish.seconds))
    }

    /// The time of `switch` over that of the better of the others, with each seed.
    fn over_better(&self) -> Summary {
        let pure = self.of(Way::Object).iter().zip(self.of(Way::Tcp));
        let better = pure.map(|(object, tcp)| object.seconds.min(tcp.seconds));
        Summary::of(self.of(Way::Switch).iter().zip(better).map(|(switch, better)| switch.seconds / better))
    }

    fn handed_s(&self, from: Duration) -> Option<f64> {
        latest(self.of(Way::Switch), |finish| finish.handed_s(from))
    }

    fn back_s(&self) -> Option<f64> {
        latest(self.of(Way::Switch), |finish| finish.back_s(self.case.until))
    }

    fn is_complete(&self) -> bool {
        self.by_way.iter().copied().flatten().all(|finish| finish.is_complete)
    }
}

fn switch(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let extent = Extent::of(backend);
    let cases = extent.cases();
    let seed = match backend {
        Backend::Simulator(options) => options.seed,
        Backend::Lab(bench) => bench.options.seed,
    };
    let mut transfers = Vec::new();
    for &case in &cases {
        for way in Way::ALL {
            transfers.extend((0..extent.seeds).map(|n| Transfer { case, way, seed: seed + n }));
        }
    }
    let finishes = match backend {
        Backend::Simulator(options) => run_jobs(options, &transfers, |transfer| transfer.simulate(&extent)),
        Backend::Lab(bench) => measured::run(bench, &transfers, &extent)?,
    };
    let mut by_way = finishes.chunks(extent.seeds as usize);
    let outcomes: Vec<Outcomes<'_>> = cases
        .iter()
        .map(|&case| Outcomes { case, by_way: Way::ALL.map(|_| by_way.next().unwrap_or_default()) })
        .collect();
    Ok(Findings {
        method: method(backend, &extent),
        tables: vec![
            times(&outcomes),
            course(&outcomes),
            modes(&outcomes, &extent),
            turns(&transfers, &finishes),
        ],
        statements: judge(&outcomes, &extent),
    })
}

fn method(backend: &Backend<'_>, extent: &Extent) -> Vec<String> {
    let path = format!(
        "{RTT_MS} ms, a drop-tail queue of one bandwidth-delay product. An object that would take {} s at the path's rate; \
         CUBIC flows of TCP share the path from {} s on until they go, all at once. {} run(s) of each.",
        extent.length.as_secs_f64(),
        extent.from.as_secs_f64(),
        extent.seeds
    );
    let ways = match backend {
        Backend::Simulator(_) => format!(
            "Object: adaptive. TCP: {STRIPES} connections with CUBIC, each with an equal part, done with the last. Switch: while TCP \
             has the object its packets go on as datagrams under {STRIPES} windows of CUBIC. Time: until the receiver has \
             everything. Flows begin within {} ms of their time, and the mode is looked at that often.",
            TICK.as_millis()
        ),
        Backend::Lab(_) => format!(
            "Object: the program over UDP alone, adaptive. TCP: the program's {STRIPES} streams. Switch: `--control switch`, which moves \
             the object from UDP to {STRIPES} streams of the kernel's TCP and back. The streams and the others are under CUBIC. Time: from \
             program start to verified completion; others come and go by the time since the first data arrived."
        ),
    };
    vec![path, ways]
}

fn times(outcomes: &[Outcomes<'_>]) -> Table {
    let table = Table::of("times", "Time until the object is there", outcomes);
    Case::columns(table, |one| &one.case)
        .column("object", Unit::Seconds, |one| one.time_s(Way::Object).mean)
        .column("TCP", Unit::Seconds, |one| one.time_s(Way::Tcp).mean)
        .column("switch", Unit::Seconds, |one| one.time_s(Way::Switch).mean)
        .column("of the better", Unit::Times, |one| one.over_better().mean)
        .column("worst", Unit::Times, |one| one.over_better().max)
        .text("all complete", Outcomes::is_complete)
        .table()
}

/// The same under each case's name, to be drawn.
fn course(outcomes: &[Outcomes<'_>]) -> Table {
    let names = ["object", "TCP", "switch"];
    Table::of("course", "Time until the object is there", outcomes)
        .text("CUBIC flows", |one| one.case.label())
        .columns(&names, Unit::Seconds, |one, at| one.time_s(Way::ALL[at]).mean)
        .table()
        .detail()
        .plot(Plot::bars("CUBIC flows", &names))
}

fn modes(outcomes: &[Outcomes<'_>], extent: &Extent) -> Table {
    let in_stripes = |one: &Outcomes<'_>| Summary::of(one.of(Way::Switch).iter().map(Finish::stripes_s)).mean;
    let table = Table::of("modes", "What switch does; mean, and latest of the hand-overs", outcomes);
    Case::columns(table, |one| &one.case)
        .column("as an object", Unit::Seconds, |one| one.time_s(Way::Switch).mean - in_stripes(one))
        .column("in TCP's hands", Unit::Seconds, in_stripes)
        .column("handed over after", Unit::Seconds, |one| one.handed_s(extent.from))
        .column("taken back after", Unit::Seconds, Outcomes::back_s)
        .table()
}

/// Every change of mode.
fn turns(transfers: &[Transfer], finishes: &[Finish]) -> Table {
    let mut turns: Vec<(&Transfer, usize, &str)> = vec![];
    for (transfer, finish) in transfers.iter().zip(finishes).filter(|(one, _)| one.way == Way::Switch) {
        let mut last = "";
        for (tick, mode) in finish.modes.iter().enumerate().filter(|(_, mode)| !mode.is_empty()) {
            if *mode != last {
                turns.push((transfer, tick, mode));
                last = mode;
            }
        }
    }
    Case::columns(Table::of("turns", "Modes of switch over time", &turns), |turn| &turn.0.case)
        .text("seed", |(transfer, ..)| transfer.seed.to_string())
        .column("at", Unit::Seconds, |(_, tick, _)| (tick + 1) as f64 * TICK.as_secs_f64())
        .text("mode", |(.., mode)| *mode)
        .table()
        .detail()
}

/// The latest of these moments; `None` if it never came in one of the runs.
fn latest(finishes: &[Finish], moment: impl Fn(&Finish) -> Option<f64>) -> Option<f64> {
    finishes.iter().map(moment).try_fold(0.0, |latest: f64, moment| moment.map(|at| latest.max(at)))
}

fn judge(outcomes: &[Outcomes<'_>], extent: &Extent) -> Vec<Statement> {
    let worst = Summary::of(outcomes.iter().map(|one| one.over_better().max)).max;
    let as_fast = worst <= 1.0 + MARGIN && outcomes.iter().all(Outcomes::is_complete);
    let in_time = |claim: Claim, moments: Vec<Option<f64>>| {
        let never = outcomes.iter().zip(&moments).filter(|(_, moment)| moment.is_none());
        let mut figures: Vec<String> =
            never.map(|(one, _)| format!("not in every run with {}", one.case.label())).collect();
        let last = outcomes.iter().zip(&moments).filter_map(|(one, moment)| Some((one, (*moment)?)));
        let last = last.max_by(|a, b| a.1.total_cmp(&b.1));
        figures.extend(last.map(|(one, at)| format!("{at:.1} s at the latest, with {}", one.case.label())));
        let holds = moments.iter().all(|moment| moment.is_some_and(|at| at <= TURN_S_MAX));
        claim.judge(holds, figures.join("; "))
    };
    vec![
        AS_FAST.judge(as_fast, format!("{worst:.2} times the better at worst")).otherwise(
            "TCP that has the object from the beginning has what it holds in the queue when the others come; what begins in a \
             queue that they fill takes seconds to have as much",
        ),
        in_time(HANDED, outcomes.iter().map(|one| one.handed_s(extent.from)).collect()),
        in_time(BACK, outcomes.iter().map(Outcomes::back_s).collect()),
    ]
}

fn ticks(span: Duration) -> usize {
    (span.as_nanos() / TICK.as_nanos()) as usize
}

fn path(rate_mbit: f64) -> Scenario {
    Scenario { queue_bdp: Some(1.0), ..Scenario::new(rate_mbit, RTT_MS) }
}

const RTT_MS: f64 = 40.0;
/// Connections of pure TCP, as many as `switch` stands for while TCP has the object.
const STRIPES: u64 = 4;
/// What the controller calls its mode while TCP has the object.
const MODE_TCP: &str = "stripes";
const MODE_OBJECT: &str = "object";
/// How often the mode is looked at; others come and go within one.
const TICK: Duration = Duration::from_millis(100);
/// A transfer that takes so many times what it would take alone is stopped.
const STOP_FACTOR: u32 = 10;
const SEEDS_FULL: u64 = 5;
const MARGIN: f64 = 0.1;
const TURN_S_MAX: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(modes: &str) -> Finish {
        let modes =
            modes.chars().map(|mode| if mode == 't' { MODE_TCP } else { MODE_OBJECT }.to_owned()).collect();
        Finish { seconds: 1.0, is_complete: true, modes }
    }

    #[test]
    fn turns_are_timed_from_the_others_coming_and_going() {
        let (from, until) = (TICK * 2, TICK * 5);
        let timed = |modes: &str| {
            let ticks = |seconds: Option<f64>| seconds.map(|s| (s / TICK.as_secs_f64()).round() as u32);
            (ticks(finish(modes).handed_s(from)), ticks(finish(modes).back_s(until)))
        };
        assert_eq!(timed("ooottttooo"), (Some(2), Some(3)));
        assert_eq!(timed("ootttooooo"), (Some(1), Some(1)));
        assert_eq!(timed("ootooooooo"), (Some(1), Some(0)));
        assert_eq!(timed("oootttotoo"), (Some(2), Some(4)));
        assert_eq!(timed("oooooooooo"), (None, None));
        assert_eq!(timed("ooottttttt"), (Some(2), None));
        assert_eq!(timed("ooott"), (Some(2), None));
        assert!((finish("ootto").stripes_s() - 0.2).abs() < 1e-9);
    }
}
