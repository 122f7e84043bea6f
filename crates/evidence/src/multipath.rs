//! One copy over two paths at a time, beside MPTCP and a striped stream over the same.

use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::copied::{Copied, CopyError};
use crate::lab::copies::Copies;
use crate::lab::figures::{Better, median, median_of_all};
use crate::lab::striped::{Amount, Streams, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::{Lab, LabError, Scenario, Side, tcp};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment::measured(
    "multipath",
    "one copy over two paths of 60 and 40 Mb/s, 20 and 80 ms, beside MPTCP and a striped stream",
    &[SUM, AHEAD, UNBROKEN, WASTE],
    multipath,
)
.in_parts();

const SUM: Claim =
    Claim::ours("with and without loss of 1 % on one, 92 % of what the two carry together at least");
const AHEAD: Claim = Claim::ours("ahead of MPTCP over the same paths, whatever befalls them");
const UNBROKEN: Claim = Claim::ours(
    "when either dies for some seconds and returns, the copy goes on, and nothing else has to carry it",
);
const WASTE: Claim =
    Claim::ours("of clean paths no more is sent in vain than over the first alone, by 1 % of what is needed");

/// What befalls the two.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Nothing,
    /// This one loses 1 %.
    Loss(usize),
    /// This one dies for [`DEAD`], and returns.
    Death(usize),
}

impl Fate {
    const ALL: [Fate; 5] = [Fate::Nothing, Fate::Loss(0), Fate::Loss(1), Fate::Death(0), Fate::Death(1)];

    fn name(self) -> String {
        let which = |path: usize| ["60 Mb/s, 20 ms", "40 Mb/s, 80 ms"][path];
        match self {
            Fate::Nothing => "both clean".into(),
            Fate::Loss(path) => format!("1 % loss on that of {}", which(path)),
            Fate::Death(path) => format!("that of {} dies for {} s", which(path), DEAD.as_secs()),
        }
    }

    fn paths(self) -> [Scenario; 2] {
        let mut paths = [(60.0, 20.0), (40.0, 80.0)]
            .map(|(mbit, rtt_ms)| Scenario { queue_bdp: Some(1.0), ..Scenario::new(mbit, rtt_ms) });
        if let Fate::Loss(path) = self {
            paths[path].loss = 0.01;
        }
        paths
    }
}

/// Who moves the data.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Contestant {
    Both,
    First,
    Mptcp,
    Striped,
}

impl Contestant {
    const ALL: [Contestant; 4] =
        [Contestant::Both, Contestant::First, Contestant::Mptcp, Contestant::Striped];

    fn name(self) -> &'static str {
        match self {
            Contestant::Both => "longhaul, both",
            Contestant::First => "longhaul, the first alone",
            Contestant::Mptcp => "MPTCP",
            Contestant::Striped => "a striped stream over both",
        }
    }
}

/// What came of one.
struct Run {
    goodput_mbps: f64,
    waste: Option<f64>,
    /// Share of the packets that went over the second.
    aside: Option<f64>,
    changed: bool,
}

/// All runs of a contestant under one fate.
struct Row {
    fate: Fate,
    contestant: Contestant,
    runs: Vec<Run>,
    failed: Vec<String>,
}

impl Row {
    fn goodput_mbps(&self) -> Option<f64> {
        let all = self.runs.iter().map(|run| run.goodput_mbps).collect();
        median_of_all(all, self.failed.len(), Better::More)
    }

    /// Of what perfect TCP connections would carry over both.
    fn of_sum(&self) -> Option<f64> {
        Some(self.goodput_mbps()? / (SUM_MBIT * 1448.0 / 1500.0))
    }

    fn waste(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.waste).collect())
    }

    fn aside(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.aside).collect())
    }
}

fn multipath(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let (rounds, bytes) = (bench.pick(5, 1, 1), bench.pick(BYTES, BYTES / 2, BYTES / 50));
    let wanted = |fate: Fate| {
        let is_wanted = |who: &Contestant| bench.wants(&format!("{}: {}", fate.name(), who.name()), true);
        (fate, Contestant::ALL.into_iter().filter(is_wanted).collect::<Vec<_>>())
    };
    let wanted: Vec<_> = Fate::ALL.into_iter().map(wanted).filter(|(_, who)| !who.is_empty()).collect();
    bench.expect_runs(wanted.iter().map(|(_, who)| who.len() * rounds).sum());
    let mut rows = vec![];
    for (fate, who) in wanted {
        rows.extend(measure(bench, (fate, &who), rounds, bytes)?);
    }
    let table = Table::of("multipath", "Goodput over two paths", &rows)
        .text("what befalls them", |row: &Row| row.fate.name())
        .text("who", |row| row.contestant.name())
        .column("goodput", Unit::Mbps, |row| row.goodput_mbps().unwrap_or(0.0))
        .column("of the sum", Unit::Share, Row::of_sum)
        .column("sent in vain", Unit::Share, Row::waste)
        .column("over the second", Unit::Share, Row::aside)
        .text("note", |row| row.failed.first().cloned().unwrap_or_default())
        .table()
        .plot(Plot::bars("what befalls them", &["goodput"]).by("who"));
    Ok(Findings {
        method: vec![format!(
            "A file of {} MB, {rounds} times each in turn; medians. Queues of one bandwidth-delay product. longhaul is \
             told both of its host's addresses (--bind). MPTCP is the kernel's, CUBIC on each path, and the server \
             announces its second address. The lanes of a striped stream, in clear and as many as it finds best, leave by both \
             interfaces in turn, CUBIC on each. A path that dies does so {} s after the beginning. The sum is what perfect TCP \
             connections would carry over both.",
            bytes / 1_000_000,
            DIES_AFTER.as_secs_f64(),
        )],
        tables: vec![table],
        statements: judge(&rows),
    })
}

fn measure(
    bench: &Bench<'_>,
    (fate, who): (Fate, &[Contestant]),
    rounds: usize,
    bytes: u64,
) -> Result<Vec<Row>, ExperimentError> {
    let [first, second] = fate.paths();
    let lab = bench.lab(&first)?;
    let second = lab.further_path(&Scenario { seed: bench.options.seed, ..second }, 1)?;
    announce(&lab, &second)?;
    let copies = Copies::at_all_addresses(bench, &lab, bytes)?;
    let row = |who: &Contestant| Row { fate, contestant: *who, runs: vec![], failed: vec![] };
    let mut rows: Vec<_> = who.iter().map(row).collect();
    for _ in 0..rounds {
        for row in &mut rows {
            let outcome =
                befall(&lab, &second, fate, || run(bench, (&lab, &second), &copies, row.contestant, bytes))?;
            match outcome {
                Ok(run) => row.runs.push(run),
                Err(why) => row.failed.push(why),
            }
        }
    }
    Ok(rows)
}

/// Copy, while it befalls the paths.
fn befall<T>(first: &Lab, second: &Lab, fate: Fate, copy: impl FnOnce() -> T) -> T {
    let Fate::Death(path) = fate else { return copy() };
    let dying = [first, second][path];
    let (over, told) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (wait, cut) in [(DIES_AFTER, true), (DEAD, false)] {
                if told.recv_timeout(wait) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    break;
                }
                dying.cut(cut);
            }
            dying.cut(false);
        });
        let outcome = copy();
        drop(over);
        outcome
    })
}

fn run(
    bench: &Bench<'_>,
    (lab, second): (&Lab, &Lab),
    copies: &Copies,
    contestant: Contestant,
    bytes: u64,
) -> Result<Result<Run, String>, ExperimentError> {
    let places = [lab, second].map(|lab| lab.address(Side::Left).to_string());
    let args = match contestant {
        Contestant::Both => vec!["--bind".to_owned(), places.join(",")],
        Contestant::First => vec![],
        Contestant::Mptcp => return by_mptcp(bench, lab, bytes),
        Contestant::Striped => return by_stripe(bench, [lab, second], bytes),
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = copies.run(bench, lab, &args, LIMIT)?;
    Ok(outcome.map(of_copy).map_err(|error: CopyError| error.to_string()))
}

fn of_copy(copied: Copied) -> Run {
    let sent: u64 = copied.paths.iter().map(|path| path.packets_sent).sum();
    let aside = copied.paths.get(1).map(|path| path.packets_sent as f64 / sent.max(1) as f64);
    Run {
        goodput_mbps: copied.goodput_mbps,
        waste: Some(copied.waste),
        aside,
        changed: !copied.switches.is_empty(),
    }
}

fn by_mptcp(bench: &Bench<'_>, lab: &Lab, bytes: u64) -> Result<Result<Run, String>, ExperimentError> {
    let stop = bench.options.stop;
    let wanted = || !stop.load(Ordering::Relaxed);
    let outcome = bench.run(lab, || match tcp::transfer_by_mptcp(lab, bytes, "cubic", LIMIT, &wanted) {
        Ok(done) => Ok(Ok(done.mbps)),
        Err(error @ (LabError::TooSlow { .. } | LabError::System { .. })) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    })?;
    Ok(outcome.map(|goodput_mbps| Run { goodput_mbps, waste: None, aside: None, changed: false }))
}

fn by_stripe(
    bench: &Bench<'_>,
    paths: [&Lab; 2],
    bytes: u64,
) -> Result<Result<Run, String>, ExperimentError> {
    let interfaces = paths.map(|lab| lab.device(Side::Left).to_owned()).into();
    let (streams, amount) = (Streams::Auto, Amount::Bytes(bytes));
    match (Striped { interfaces, streams, amount, ..Striped::default() }).run(bench, paths[0]) {
        Ok(streamed) => {
            let goodput_mbps = streamed.sent.bytes as f64 * 8e-6 / streamed.sent.seconds;
            Ok(Ok(Run { goodput_mbps, waste: None, aside: None, changed: false }))
        }
        Err(error @ ExperimentError::Program { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Have the kernel's path managers use the second path.
fn announce(lab: &Lab, second: &Lab) -> Result<(), ExperimentError> {
    let address = second.address(Side::Right).to_string();
    let limits = ["mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2"];
    for (side, args) in [
        (Side::Left, &limits[..]),
        (Side::Right, &limits),
        (Side::Right, &["mptcp", "endpoint", "add", &address, "signal"]),
    ] {
        let mut ip = lab.command(side, "ip");
        let failed = |reason: String| ExperimentError::Program { program: "ip".into(), reason };
        let status = quiet(&mut ip).args(args).status().map_err(|error| failed(error.to_string()))?;
        if !status.success() {
            return Err(failed(format!("ip {} does not work here", args.join(" "))));
        }
    }
    Ok(())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn judge(rows: &[Row]) -> Vec<Statement> {
    let of = |fate: Fate, who: Contestant| rows.iter().find(|row| (row.fate, row.contestant) == (fate, who));
    let ours = |fate| of(fate, Contestant::Both);
    let fates: Vec<Fate> = Fate::ALL.into_iter().filter(|fate| ours(*fate).is_some()).collect();
    if fates.is_empty() {
        return EXPERIMENT.claims.iter().map(|claim| claim.leave_open("not measured")).collect();
    }
    let percent =
        |share: Option<f64>| share.map_or("failed".into(), |share| format!("{:.1} %", share * 100.0));
    let alive: Vec<&Row> =
        fates.iter().filter(|fate| !matches!(fate, Fate::Death(_))).filter_map(|fate| ours(*fate)).collect();
    let dead: Vec<&Row> =
        fates.iter().filter(|fate| matches!(fate, Fate::Death(_))).filter_map(|fate| ours(*fate)).collect();
    let list = |rows: &[&Row], figure: &dyn Fn(&Row) -> String| {
        let each = rows.iter().map(|row| format!("{}: {}", row.fate.name(), figure(row)));
        each.collect::<Vec<_>>().join("; ")
    };
    let beside = fates.iter().filter_map(|fate| Some((ours(*fate)?, of(*fate, Contestant::Mptcp)?)));
    let pairs: Vec<_> =
        beside.map(|rows| <[&Row; 2]>::from(rows).map(|row| row.goodput_mbps().unwrap_or(0.0))).collect();
    let clean = [Contestant::Both, Contestant::First].map(|who| of(Fate::Nothing, who).and_then(Row::waste));
    vec![
        match alive.is_empty() {
            true => SUM.leave_open("not measured"),
            false => SUM.judge(
                alive.iter().all(|row| row.of_sum().is_some_and(|share| share >= SUM_SHARE_MIN)),
                list(&alive, &|row| percent(row.of_sum())),
            ),
        },
        match pairs.is_empty() {
            true => AHEAD.leave_open("not measured"),
            false => AHEAD.judge(
                pairs.iter().all(|[ours, theirs]| ours > theirs),
                pairs
                    .iter()
                    .map(|[ours, theirs]| format!("{ours:.1} and {theirs:.1} Mb/s"))
                    .collect::<Vec<_>>()
                    .join("; "),
            ),
        },
        match dead.is_empty() {
            true => UNBROKEN.leave_open("not measured"),
            false => UNBROKEN.judge(
                dead.iter().all(|row| row.failed.is_empty() && !row.runs.iter().any(|run| run.changed)),
                list(&dead, &|row| percent(row.of_sum())),
            ),
        },
        match clean {
            [Some(both), Some(first)] => WASTE.judge(
                both <= first + WASTE_MORE_MAX,
                format!("{:.2} % over both, {:.2} % over the first", both * 100.0, first * 100.0),
            ),
            _ => WASTE.leave_open("not measured"),
        },
    ]
}

const SUM_MBIT: f64 = 100.0;
const SUM_SHARE_MIN: f64 = 0.92;
const WASTE_MORE_MAX: f64 = 0.01;
const BYTES: u64 = 200_000_000;
const LIMIT: Duration = Duration::from_secs(60);
const DIES_AFTER: Duration = Duration::from_secs(4);
const DEAD: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    fn row(fate: Fate, contestant: Contestant, goodput_mbps: f64, waste: f64) -> Row {
        let run = Run { goodput_mbps, waste: Some(waste), aside: Some(0.4), changed: false };
        Row { fate, contestant, runs: vec![run], failed: vec![] }
    }

    fn rows(ours_mbps: f64, theirs_mbps: f64, waste: f64) -> Vec<Row> {
        let each = Fate::ALL.into_iter().flat_map(|fate| {
            [
                row(fate, Contestant::Both, ours_mbps, waste),
                row(fate, Contestant::First, 55.0, 0.001),
                row(fate, Contestant::Mptcp, theirs_mbps, 0.0),
            ]
        });
        each.collect()
    }

    #[test]
    fn each_claim_is_met_and_missed_by_its_own_figure() {
        let verdicts = |rows: &[Row]| judge(rows).iter().map(|one| one.verdict).collect::<Vec<_>>();
        let [met, not] = [Verdict::Met, Verdict::NotMet];
        assert_eq!(verdicts(&rows(90.0, 80.0, 0.01)), [met; 4]);
        assert_eq!(verdicts(&rows(88.0, 80.0, 0.01)), [not, met, met, met]);
        assert_eq!(verdicts(&rows(90.0, 91.0, 0.01)), [met, not, met, met]);
        assert_eq!(verdicts(&rows(90.0, 80.0, 0.012)), [met, met, met, not]);
        let mut broken = rows(90.0, 80.0, 0.01);
        broken.iter_mut().for_each(|row| row.runs.iter_mut().for_each(|run| run.changed = true));
        assert_eq!(verdicts(&broken), [met, met, not, met]);
        assert_eq!(verdicts(&[]), [Verdict::Open; 4]);
        let mut failed = rows(90.0, 80.0, 0.01);
        failed[0].runs.clear();
        assert_eq!(verdicts(&failed)[1], not, "a copy that failed is not ahead");
        failed.retain(|row| row.contestant != Contestant::Mptcp);
        assert_eq!(verdicts(&failed)[1], Verdict::Open);
    }
}
