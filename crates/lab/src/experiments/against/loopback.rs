//! loopback: what programs can do at most where no path holds them back.

use super::runs::{Runs, fastest_but, interleaved, named, times, turns};
use crate::Scenario;
use crate::experiments::bench::Bench;
use crate::experiments::figures::median;
use crate::experiments::iperf::{self, Iperf};
use crate::experiments::peers::{self, Cargo, Kernel, Longhaul, OURS, Peer, Route, Rsync, Scp};
use crate::experiments::{Claim, Experiment, ExperimentError, Findings, Statement};
use longhaul_sim::experiments::{Plot, Table, Value};
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "loopback",
    title: "A file over loopback, where processors are the limit",
    claims: &[FASTER],
    has_parts: false,
    measure,
};

const FASTER: Claim = Claim::ours("longhaul faster than scp and than rsync, over ssh and to its daemon");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let bytes = bench.pick(2 << 30, 256 << 20, 8 << 20);
    let rounds = bench.pick(7, 2, 1);
    let peers: Vec<Box<dyn Peer>> = vec![
        Box::new(Longhaul::AUTO),
        Box::new(Longhaul::OBJECT),
        Box::new(Longhaul::STRIPE),
        Box::new(Kernel::CUBIC),
        Box::new(Rsync::Daemon),
        Box::new(Rsync::Ssh),
        Box::new(Scp),
    ];
    let (found, missing) = peers::present(peers);
    let cargo = Cargo::file(bytes, bench.options.seed)?;
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
    let route = Route { scenario: &scenario, is_loopback: true, congestion: peers::CUBIC_NAME, round: 0 };
    let limit = Duration::from_secs_f64(bytes as f64 * 8e-6 / RATE_MBIT_MIN).max(LIMIT_MIN);
    let all = interleaved(bench, route, &turns(&found, &cargo, limit), rounds)?;
    let mut method = vec![format!(
        "A file of {} MB from one folder to another of the same host, copied {} by each program in turn; from \
             the start of the program to its end with all bytes there, which are compared. iperf3 copies no file: what \
             TCP carries between two processes here.",
        bytes >> 20,
        times(rounds)
    )];
    method.extend(peers::setups(peers::CUBIC_NAME, &found, missing));
    if !has_iperf {
        method.push(iperf::MISSING.into());
    }
    let tables = vec![table(&all, median(iperf_mbps))];
    Ok(Findings { method, tables, statements: vec![judge(&all)] })
}

fn table(all: &[Runs], iperf_mbps: Option<f64>) -> Table {
    let mut table = Table::new("goodput", "A file over loopback", Runs::columns().into());
    if let Some(mbps) = iperf_mbps {
        let nothing = Value::Nothing;
        table.push(vec![
            "iperf3".into(),
            nothing.clone(),
            nothing.clone(),
            nothing,
            mbps.into(),
            "no file".into(),
        ]);
    }
    for runs in all {
        let mut row: Vec<Value> = vec![runs.name.into()];
        row.extend(runs.values());
        table.push(row);
    }
    table.plot(Plot::bars("program", &["goodput"]))
}

fn judge(all: &[Runs]) -> Statement {
    let is_rival = |runs: &&Runs| RIVALS.contains(&runs.name);
    let rivals: Vec<Runs> = all.iter().filter(is_rival).cloned().collect();
    let Some((rival, theirs_s)) = fastest_but(&rivals, OURS) else {
        return FASTER.leave_open("none of them is here");
    };
    let ours_s = named(all, OURS).and_then(Runs::median_s);
    let gbps = |seconds: f64| rival.bytes as f64 * 8e-9 / seconds;
    let ours = ours_s.map_or("not done".into(), |seconds| format!("{:.1} Gb/s", gbps(seconds)));
    let figures = format!("{ours}; {} {:.1} Gb/s", rival.name, gbps(theirs_s));
    FASTER.judge(ours_s.is_some_and(|ours_s| ours_s < theirs_s), figures)
}

/// What tables call those of the claim.
const RIVALS: [&str; 3] = ["scp", "rsync over ssh", "rsync daemon"];
/// Slower than that is not done.
const RATE_MBIT_MIN: f64 = 500.0;
const LIMIT_MIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::runs::of;
    use super::*;
    use crate::experiments::Verdict;

    #[test]
    fn only_those_of_the_claim_decide() {
        let faster = [
            of(OURS, &[1.0], 0),
            of("TCP CUBIC", &[0.5], 0),
            of("scp", &[2.0], 0),
            of("rsync daemon", &[], 1),
        ];
        assert_eq!(judge(&faster).verdict, Verdict::Met);
        let slower = [of(OURS, &[1.0], 0), of("scp", &[2.0], 0), of("rsync daemon", &[0.9], 0)];
        assert_eq!(judge(&slower).verdict, Verdict::NotMet);
        assert_eq!(judge(&[of(OURS, &[1.0], 0)]).verdict, Verdict::Open);
    }

    #[test]
    fn the_claims_programs_are_called_so() {
        let peers: [Box<dyn Peer>; 3] = [Box::new(Scp), Box::new(Rsync::Ssh), Box::new(Rsync::Daemon)];
        assert_eq!(peers.map(|peer| peer.name()), RIVALS);
    }
}
