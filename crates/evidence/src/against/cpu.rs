//! cpu: what a gigabyte costs in processor time at both ends.

use super::runs::{Runs, interleaved, named, times, turns};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::copiers::{self, Copier, Cost, Kernel, Longhaul, Payload, Route, Rsync, Scp, Udt, Uftp};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment =
    Experiment::measured("cpu", "Processor time per gigabyte, at both ends", &[CHEAP], measure).alone();

const CHEAP: Claim = Claim::ours(
    "longhaul, by packets or by streams, takes at most twice the processor time of scp, both ends together",
);

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let size_s = bench.pick(20.0, 2.5, 0.1);
    let rounds = bench.pick(5, 1, 1);
    let copiers: Vec<Box<dyn Copier>> = vec![
        Box::new(Longhaul::OBJECT),
        Box::new(Longhaul::STRIPE),
        Box::new(Kernel::CUBIC),
        Box::new(Scp),
        Box::new(Rsync::Ssh),
        Box::new(Rsync::Daemon),
        Box::new(Uftp),
        Box::new(Udt::default()),
    ];
    let (found, missing) = copiers::present(copiers);
    bench.expect_runs(rounds * found.len());
    let payload = Payload::file(bench, (MBIT * 1e6 / 8.0 * size_s) as u64)?;
    let limit = Duration::from_secs_f64(PATIENCE * size_s).max(LIMIT_MIN);
    let scenario = Scenario::new(MBIT, RTT_MS);
    let route = Route { scenario: &scenario, is_loopback: false, congestion: copiers::CUBIC_NAME, round: 0 };
    let all = interleaved(bench, route, &turns(&found, &payload, limit), rounds)?;
    let mut method = vec![format!(
        "A file of {size_s} s at {MBIT} Mb/s, {RTT_MS} ms, clean, copied {} by each program in turn: user and \
             system time of all its processes at an end, from start to end, logins included; medians, per 10⁹ bytes. What \
             the kernel does for arriving packets is done on behalf of the emulator and not in these figures.",
        times(rounds)
    )];
    method.extend(copiers::setups(copiers::CUBIC_NAME, &found, &missing));
    Ok(Findings { method, tables: vec![table(&all)], statements: vec![judge(&all)] })
}

/// The median of something, per 10⁹ bytes; a copy that came to nothing is dearer than all that did not.
fn per_gb(runs: &Runs, of: impl Fn(&Cost) -> f64) -> Option<f64> {
    Some(runs.median(of)? * 1e9 / runs.bytes as f64)
}

fn both(cost: &Cost) -> f64 {
    cost.sender_cpu_s + cost.receiver_cpu_s
}

fn table(all: &[Runs]) -> Table {
    Table::of("cpu", "Processor time per gigabyte", all)
        .text("program", |runs| runs.name)
        .column("sender per GB", Unit::Seconds, |runs| per_gb(runs, |cost| cost.sender_cpu_s))
        .column("receiver per GB", Unit::Seconds, |runs| per_gb(runs, |cost| cost.receiver_cpu_s))
        .column("both per GB", Unit::Seconds, |runs| per_gb(runs, both))
        .column("goodput", Unit::Mbps, |runs| runs.goodput_mbps())
        .text("note", |runs| runs.note())
        .table()
        .plot(Plot::bars("program", &["sender per GB", "receiver per GB"]))
}

fn judge(all: &[Runs]) -> Statement {
    let cost = |name: &str| per_gb(named(all, name)?, both);
    // That scp failed must not make it dear.
    let scp = named(all, Scp.name()).map(|scp| Runs { failed: vec![], ..scp.clone() });
    let Some(scp) = scp.and_then(|scp| per_gb(&scp, both)) else {
        return CHEAP.leave_open("scp, which it is measured by, copied nothing");
    };
    let ours: Vec<(&str, Option<f64>)> =
        [Longhaul::OBJECT, Longhaul::STRIPE].map(|ours| (ours.name(), cost(ours.name()))).into();
    let text = |(name, cost): &(&str, Option<f64>)| match cost {
        Some(cost) => format!("{name} {cost:.2} s/GB, {:.2} times", cost / scp),
        None => format!("{name} copied nothing"),
    };
    let figures: Vec<String> = ours.iter().map(text).collect();
    let is_cheap = ours.iter().all(|(_, cost)| cost.is_some_and(|cost| cost <= CHEAP_BAR * scp));
    CHEAP.judge(is_cheap, format!("{}; scp {scp:.2} s/GB", figures.join("; ")))
}

/// Slow enough for two processors to emulate it beside the programs, fast enough for login and start to matter little.
const MBIT: f64 = 300.0;
const RTT_MS: f64 = 20.0;
const CHEAP_BAR: f64 = 2.0;
const PATIENCE: f64 = 4.0;
const LIMIT_MIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::runs::of;
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn both_ways_of_copying_must_be_cheap() {
        let mut all = [
            of(Longhaul::OBJECT.name(), &[1.0], 0),
            of(Longhaul::STRIPE.name(), &[1.0], 0),
            of("scp", &[1.0], 0),
        ];
        assert_eq!(judge(&all).verdict, Verdict::Met);
        all[1].done[0].sender_cpu_s = 2.0;
        assert_eq!(judge(&all).verdict, Verdict::NotMet);
        all[1] = of(Longhaul::STRIPE.name(), &[1.0], 2);
        assert_eq!(judge(&all).verdict, Verdict::NotMet, "done once of three times");
        assert_eq!(judge(&all[..2]).verdict, Verdict::Open);
        assert_eq!(judge(&[of("scp", &[1.0], 0)]).verdict, Verdict::NotMet);
    }
}
