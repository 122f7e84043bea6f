//! streams-loss: as many streams as are found, against one, on a path that loses packets.

use crate::ExperimentError;
use crate::experiment::{self, Experiment};
use crate::lab::bench::Bench;
use crate::lab::iperf::{self, Iperf};
use crate::lab::striped::{Amount, Streams, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "streams-loss",
    "A striped stream against one socket at 100 Mb/s, 65 ms, 0.1 % loss",
    &[FASTER],
    measure,
);

const FASTER: Claim = Claim::ours("a striped stream carries at least 5 times what one socket does");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let (skip, measure) = bench.pick((10.0, 50.0), (5.0, 15.0), (0.2, 0.5));
    let has_iperf = iperf::is_installed() && bench.pick(true, true, false);
    bench.expect_runs(if has_iperf { 3 } else { 2 });
    let path = Scenario { loss: LOSS, ..experiment::path("long-haul-100m") };
    let lab = bench.lab(&path)?;
    let run = |streams| {
        let amount = Amount::Seconds { skip, measure };
        Striped { streams, amount, ..Striped::default() }.run(bench, &lab)
    };
    let one = run(Streams::Fixed(1))?;
    let auto = run(Streams::Auto)?;
    let iperf = Iperf { skip_s: skip as u32, measure_s: measure as u32, ..Iperf::default() };
    let socket = if has_iperf { Some(iperf.run(bench, &lab, false)?) } else { None };
    let (one_mbps, auto_mbps) = (one.received.goodput_mbps, auto.received.goodput_mbps);
    let runs = [
        ("longhaul, one stream", 1, Some(one_mbps)),
        ("longhaul, as many as it finds", auto.streams(), Some(auto_mbps)),
        ("iperf3, one socket", 1, socket),
    ];
    let table = Table::of("goodput", "Goodput", &runs)
        .text("what", |(what, ..)| *what)
        .column("sockets", Unit::Number, |(_, sockets, _)| *sockets)
        .column("goodput", Unit::Mbps, |(.., mbps)| *mbps)
        .column("of one", Unit::Times, |(.., mbps)| mbps.map(|mbps| mbps / one_mbps))
        .table()
        .plot(Plot::bars("what", &["goodput"]));
    // The faster of the two ways to use one socket.
    let single = socket.map_or(one_mbps, |mbps| mbps.max(one_mbps));
    let figures = format!("{auto_mbps:.1} Mb/s over {} sockets, {single:.1} over one", auto.streams());
    let statement = judge(auto_mbps, single, figures);
    let method = vec![format!(
        "{} Mb/s, round trip {} ms, queue of one bandwidth-delay product, random loss of {} %, kernel \
         TCP under CUBIC. {measure} s after the first {skip} s.",
        path.bottleneck_mbit,
        path.rtt_ms,
        LOSS * 100.0
    )];
    Ok(Findings { method, tables: vec![table], statements: vec![statement] })
}

fn judge(striped_mbps: f64, single_mbps: f64, figures: String) -> Statement {
    if single_mbps <= 0.0 && striped_mbps > 0.0 {
        return FASTER.leave_open("one socket carried nothing while it was measured");
    }
    FASTER.judge(striped_mbps > 0.0 && striped_mbps >= BAR * single_mbps, figures)
}

/// The long haul of the FOBS paper.
const LOSS: f64 = 0.001;
const BAR: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn five_times_nothing_is_no_bar() {
        let verdict = |striped, single| judge(striped, single, String::new()).verdict;
        assert_eq!([verdict(50.0, 10.0), verdict(49.0, 10.0)], [Verdict::Met, Verdict::NotMet]);
        assert_eq!([verdict(50.0, 0.0), verdict(0.0, 0.0)], [Verdict::Open, Verdict::NotMet]);
    }
}
