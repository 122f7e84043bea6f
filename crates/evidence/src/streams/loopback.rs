//! streams-loopback: what the library costs where the network costs nothing.

use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::figures::median;
use crate::lab::iperf::{self, Iperf};
use crate::lab::striped::{Amount, Streams, Striped};
use crate::report::{Claim, Findings, Plot, Table, Unit};
use longhaul_lab::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "streams-loopback",
    "One stream over loopback against iperf3",
    &[PLAIN, SEALED],
    measure,
)
.alone();

const PLAIN: Claim = Claim::ours("in clear at least 85 % of what iperf3 carries");
const SEALED: Claim = Claim::ours("encrypted at least 50 % of what iperf3 carries");

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let rounds = bench.pick(15, 7, 1);
    let (skip, measure) = bench.pick((0.5, 2.0), (0.3, 1.0), (0.1, 0.2));
    let has_iperf = iperf::is_installed();
    bench.expect_runs(rounds * if has_iperf { 3 } else { 2 });
    // Only its left host is used; it has a loopback of its own.
    let lab = bench.lab(&Scenario::default())?;
    let ours = |is_sealed| {
        let (amount, streams) = (Amount::Seconds { skip, measure }, Streams::Fixed(1));
        let write_bytes = WRITE_BYTES;
        let stream =
            Striped { streams, is_sealed, is_loopback: true, amount, write_bytes, ..Striped::default() };
        stream.run(bench, &lab).map(|streamed| streamed.received.goodput_mbps)
    };
    let (mut plain, mut sealed, mut iperf) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        if has_iperf {
            let one = Iperf { measure_s: (measure as u32).max(1), ..Iperf::default() };
            iperf.push(one.run(bench, &lab, true)?);
        }
        plain.push(ours(false)?);
        sealed.push(ours(true)?);
    }
    let (plain, sealed, iperf) = (median(plain), median(sealed), median(iperf));
    let ways = [
        ("iperf3", iperf),
        ("longhaul, one stream in clear", plain),
        ("longhaul, one stream encrypted", sealed),
    ];
    let table = Table::of("goodput", "Goodput over loopback, medians", &ways)
        .text("what", |(what, _)| *what)
        .column("goodput", Unit::Mbps, |(_, mbps)| *mbps)
        .column("of iperf3", Unit::Share, |(_, mbps)| mbps.zip(iperf).map(|(mbps, iperf)| mbps / iperf))
        .table()
        .plot(Plot::bars("what", &["goodput"]));
    let judge = |claim: &Claim, ours: Option<f64>, bar: f64| match ours.zip(iperf) {
        None => claim.leave_open(iperf::MISSING),
        Some((ours, iperf)) => {
            let figures =
                format!("{:.1} Gb/s, {:.1} % of {:.1}", ours / 1e3, 100.0 * ours / iperf, iperf / 1e3);
            claim.judge(ours >= bar * iperf, figures)
        }
    };
    let method = vec![format!(
        "Both ends on one host, one socket, CUBIC, buffers as the kernel sizes them. Data is handed over in blocks of {} KB, as \
         iperf3 does; ours are written and read without a copy (write_block, read_block). The median of {rounds} rounds, in each \
         of which all take turns.",
        WRITE_BYTES >> 10
    )];
    let statements = vec![judge(&PLAIN, plain, PLAIN_BAR), judge(&SEALED, sealed, SEALED_BAR)];
    Ok(Findings { method, tables: vec![table], statements })
}

/// As iperf3 writes.
const WRITE_BYTES: u64 = 128 << 10;
const PLAIN_BAR: f64 = 0.85;
const SEALED_BAR: f64 = 0.5;
