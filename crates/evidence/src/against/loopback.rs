//! loopback: what programs can do at most where no path holds them back.

use super::runs::{Runs, Standing, fastest_but, interleaved, named, standing, times, turns};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::copiers::{self, Copier, Kernel, Longhaul, OURS, Payload, Route, Rsync, Scp};
use crate::lab::figures::median;
use crate::lab::iperf::{self, Iperf};
use crate::report::{Claim, Findings, Plot, Statement, Table, Value};
use longhaul_lab::Scenario;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "loopback",
    "A file over loopback, where processors are the limit",
    &[FASTER],
    measure,
)
.alone();

const FASTER: Claim = Claim::ours("longhaul faster than scp and than rsync, over ssh and to its daemon");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let bytes = bench.pick(2 << 30, 256 << 20, 8 << 20);
    let rounds = bench.pick(7, 2, 1);
    let copiers: Vec<Box<dyn Copier>> = vec![
        Box::new(Longhaul::AUTO),
        Box::new(Longhaul::OBJECT),
        Box::new(Longhaul::STRIPE),
        Box::new(Kernel::CUBIC),
        Box::new(Rsync::Daemon),
        Box::new(Rsync::Ssh),
        Box::new(Scp),
    ];
    let (found, missing) = copiers::present(copiers);
    let payload = Payload::file(bench, bytes)?;
    let has_iperf = iperf::is_installed();
    bench.expect_runs(rounds * (found.len() + usize::from(has_iperf)));
    // Only its left host is used; it has a loopback of its own.
    let scenario = Scenario::default();
    let mut iperf_mbps = vec![];
    if has_iperf {
        let lab = bench.lab(&scenario)?;
        let one = Iperf { measure_s: 1, ..Iperf::default() };
        for _ in 0..rounds {
            iperf_mbps.push(one.run(bench, &lab, true)?);
        }
    }
    let route = Route { scenario: &scenario, is_loopback: true, congestion: copiers::CUBIC_NAME, round: 0 };
    let limit = Duration::from_secs_f64(bytes as f64 * 8e-6 / RATE_MBIT_MIN).max(LIMIT_MIN);
    let all = interleaved(bench, route, &turns(&found, &payload, limit), rounds)?;
    let mut method = vec![format!(
        "A file of {} MB from one folder to another of the same host, copied {} by each program in turn; from \
             the start of the program to its end with all bytes there, which are compared. iperf3 copies no file: what \
             TCP carries between two processes here.",
        bytes >> 20,
        times(rounds)
    )];
    method.extend(copiers::setups(copiers::CUBIC_NAME, &found, &missing));
    if !has_iperf {
        method.push(iperf::MISSING.into());
    }
    let tables = vec![table(&all, median(iperf_mbps))];
    Ok(Findings { method, tables, statements: vec![judge(&all)] })
}

fn table(all: &[Runs], iperf_mbps: Option<f64>) -> Table {
    let mut table = Runs::columns(Table::of("goodput", "A file over loopback", all), |runs| runs).table();
    if let Some(mbps) = iperf_mbps {
        let [median, min, max] = [const { Value::Nothing }; 3];
        table.rows.insert(0, vec!["iperf3".into(), median, min, max, mbps.into(), "no file".into()]);
    }
    table.plot(Plot::bars("program", &["goodput"]))
}

fn judge(all: &[Runs]) -> Statement {
    let is_one = |runs: &&Runs| runs.name == OURS || RIVALS.contains(&runs.name);
    let those: Vec<Runs> = all.iter().filter(is_one).cloned().collect();
    let gbps = |runs: &Runs, seconds: f64| format!("{:.1} Gb/s", runs.bytes as f64 * 8e-9 / seconds);
    let ours = named(&those, OURS).and_then(|runs| Some(gbps(runs, runs.median_s()?)));
    let rival =
        fastest_but(&those, OURS).map(|(runs, seconds)| format!("{} {}", runs.name, gbps(runs, seconds)));
    let figures = format!(
        "{}; {}",
        ours.unwrap_or("not done".into()),
        rival.unwrap_or("none of the others was done".into())
    );
    let is_unknown = |name: &&str| named(&those, name).is_none_or(Runs::is_unknown);
    let unknown: Vec<&str> = RIVALS.into_iter().filter(is_unknown).collect();
    match standing(&those, OURS) {
        Standing::Behind(_) => FASTER.judge(false, figures),
        _ if unknown.is_empty() => FASTER.judge(true, figures),
        _ => FASTER.leave_open(format!("{figures}; not here or failed: {}", unknown.join(", "))),
    }
}

/// What tables call those of the claim.
const RIVALS: [&str; 3] = ["scp", "rsync over ssh", "rsync daemon"];
/// Slower than that is not done.
const RATE_MBIT_MIN: f64 = 500.0;
const LIMIT_MIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::runs::{broken, of};
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn only_those_of_the_claim_decide() {
        let faster = [
            of(OURS, &[1.0], 0),
            of("TCP CUBIC", &[0.5], 0),
            of("scp", &[2.0], 0),
            of("rsync over ssh", &[2.0], 0),
            of("rsync daemon", &[], 1),
        ];
        assert_eq!(judge(&faster).verdict, Verdict::Met);
        let slower = [of(OURS, &[1.0], 0), of("scp", &[2.0], 0), of("rsync daemon", &[0.9], 0)];
        assert_eq!(judge(&slower).verdict, Verdict::NotMet);
        assert_eq!(judge(&[of(OURS, &[1.0], 0)]).verdict, Verdict::Open);
        let without_one = judge(&faster[..3]);
        assert_eq!(without_one.verdict, Verdict::Open, "the claim names three");
        assert!(without_one.figures.ends_with("; not here or failed: rsync over ssh, rsync daemon"));
        let broken = [&faster[..4], &[broken("rsync daemon")]].concat();
        assert_eq!(judge(&broken).verdict, Verdict::Open);
    }

    #[test]
    fn the_claims_programs_are_called_so() {
        let copiers: [Box<dyn Copier>; 3] = [Box::new(Scp), Box::new(Rsync::Ssh), Box::new(Rsync::Daemon)];
        assert_eq!(copiers.map(|copier| copier.name()), RIVALS);
    }
}
