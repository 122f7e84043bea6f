//! PSockets (Sivakumar, Bailey and Grossman, SC 2000), section 4: the experiments between Chicago and Ann Arbor.

mod amount;
mod beside;
mod clients;
mod drops;
mod sockets;
mod tuning;
mod windows;

use crate::ExperimentError;
use crate::experiment::{self, Experiment};
use crate::lab::bench::Bench;
use crate::lab::figures::possible;
use crate::lab::striped::{Amount, Partition, Streams, Striped};
use crate::report::{Findings, Plane, Statement, Table};
use longhaul_lab::{Lab, Scenario};

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    sockets::EXPERIMENT,
    amount::EXPERIMENT,
    tuning::EXPERIMENT,
    windows::EXPERIMENT,
    clients::EXPERIMENT,
    beside::EXPERIMENT,
    drops::EXPERIMENT,
];

/// The product of bandwidth and delay is that of section 4 d. The paper gives no queue; ours is one such product.
fn path() -> Scenario {
    experiment::path("chicago-ann-arbor")
}

/// 1448 payload bytes in each IP packet of 1500: IPv4, TCP, time stamps.
fn payload_limit_mbps() -> f64 {
    path().bottleneck_mbit * 1448.0 / 1500.0
}

/// What all of them do alike, for a report's method.
fn method() -> String {
    let Scenario { bottleneck_mbit, rtt_ms, .. } = path();
    format!(
        "{bottleneck_mbit} Mb/s, round trip {rtt_ms} ms, queue of one bandwidth-delay product, no loss of its own; \
         kernel TCP under NewReno, the control of the paper's time. Goodput is what the receiving program could read, in order, of \
         what came in during the time that counts, in clear; \
         the limit is {:.1} Mb/s, what TCP could carry in packets of 1500 bytes.",
        payload_limit_mbps()
    )
}

/// A stream as the paper's: equal partitions, the default window of its time.
fn paper_stream(streams: u32, amount: Amount) -> Striped {
    Striped {
        streams: Streams::Fixed(streams),
        window_bytes: Some(WINDOW_BYTES),
        congestion: "reno",
        partition: Partition::Equal,
        write_bytes: WRITE_BYTES,
        amount,
        ..Striped::default()
    }
}

/// What such a stream carried, Mb/s.
fn goodput_mbps(stream: &Striped, bench: &Bench<'_>, lab: &Lab) -> Result<f64, ExperimentError> {
    possible(stream.run(bench, lab)?.received.goodput_mbps, believable_mbps(bench))
}

/// Beyond that a figure is faulty. The moments of a smoke test, which a busy machine stretches, tell nothing.
fn believable_mbps(bench: &Bench<'_>) -> f64 {
    bench.pick(payload_limit_mbps(), payload_limit_mbps(), f64::INFINITY)
}

/// Measure with each of these windows, in bytes: what came of the claims, and the figures.
fn over_windows(
    windows: &[u64],
    method: Vec<String>,
    mut measure: impl FnMut(u64) -> Result<(Vec<Statement>, Table), ExperimentError>,
) -> Result<Findings, ExperimentError> {
    let (mut plane, mut tables) = (Plane::default(), vec![]);
    for &window_bytes in windows {
        let (statements, mut table) = measure(window_bytes)?;
        let condition = format!("windows of {}", window_name(window_bytes));
        table.name = format!("{}_window_{window_bytes}", table.name);
        table.title = format!("{}, {condition}", table.title);
        plane.push(condition, statements);
        tables.push(table);
    }
    Ok(plane.findings(method, tables))
}

/// Buffers with which a socket has so many bytes on their way at most: this kernel lets a window grow a little beyond
/// what a program asks for.
fn buffer_for(window_bytes: u64) -> u64 {
    window_bytes * 64 / 76
}

/// An amount as the paper writes it, in powers of two.
fn window_name(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}

/// What the paper's "64 KB" may have been on the way: as much as that, or half of it, as where a kernel keeps half of a
/// buffer for itself.
const WINDOWS_BYTES: [u64; 3] = [64 << 10, 32 << 10, 48 << 10];
/// Section 4 a.
const WINDOW_BYTES: u64 = 64 << 10;
/// Section 4 a: "the amount of data" of each experiment. At 76 Mb/s it lasts 7 ms, a third of a round trip, so it cannot
/// have been the whole of a transfer; we take it for what each call of send was given.
const WRITE_BYTES: u64 = 64 << 10;
