//! PSockets (Sivakumar, Bailey and Grossman, SC 2000): the experiments between Chicago and Ann Arbor of section 4, and those of
//! section 5.

mod amount;
mod beside;
mod blocks;
mod clients;
mod drops;
mod sites;
mod sockets;
mod tuning;
mod windows;

use crate::ExperimentError;
use crate::experiment::{self, Experiment};
use crate::lab::bench::Bench;
use crate::lab::figures::{median, possible};
use crate::lab::flows;
use crate::lab::iperf::Iperf;
use crate::lab::striped::{Amount, Partition, Streams, Striped};
use crate::report::{Findings, Plane, Statement, Table};
use longhaul_lab::{Flows, Lab, Scenario};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{Protocol, TcpFlow};
use longhaul_sim::traffic::{Distribution, Traffic};
use std::fmt;

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    sockets::EXPERIMENT,
    amount::EXPERIMENT,
    tuning::EXPERIMENT,
    windows::EXPERIMENT,
    clients::EXPERIMENT,
    beside::EXPERIMENT,
    drops::EXPERIMENT,
    blocks::EXPERIMENT,
    sites::EXPERIMENT,
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
        "{bottleneck_mbit} Mb/s, round trip {rtt_ms} ms, queue of one bandwidth-delay product and no loss of its own, unless said; \
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
        congestion: CONGESTION_CONTROL,
        partition: Partition::Equal,
        write_bytes: WRITE_BYTES,
        amount,
        ..Striped::default()
    }
}

/// iperf3 with buffers of so many bytes, under the same control.
fn paper_iperf(window_bytes: Option<u64>) -> Iperf {
    Iperf { congestion: CONGESTION_CONTROL, window_bytes, ..Iperf::default() }
}

/// What such a stream carried, Mb/s.
fn goodput_mbps(stream: &Striped, bench: &Bench<'_>, lab: &Lab) -> Result<f64, ExperimentError> {
    median_mbps(stream, 1, bench, lab)
}

/// The median of so many runs.
fn median_mbps(
    stream: &Striped,
    rounds: usize,
    bench: &Bench<'_>,
    lab: &Lab,
) -> Result<f64, ExperimentError> {
    let runs = (0..rounds).map(|_| Ok(stream.run(bench, lab)?.received.goodput_mbps));
    let runs = runs.collect::<Result<_, ExperimentError>>()?;
    possible(median(runs).unwrap_or_default(), believable_mbps(bench))
}

/// Beyond that a figure is faulty. The moments of a smoke test, which a busy machine stretches, tell nothing.
fn believable_mbps(bench: &Bench<'_>) -> f64 {
    bench.pick(payload_limit_mbps(), payload_limit_mbps(), f64::INFINITY)
}

/// What the paper does not give of its hosts and its network.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Condition {
    /// What a socket has on its way at most, in bytes; `None` where an experiment itself varies it.
    window_bytes: Option<u64>,
    /// Of the bottleneck's queue, in bandwidth-delay products.
    queue_bdp: f64,
    /// Share of packets lost at random.
    loss: f64,
    /// Share of the path that short TCP flows of others ask for.
    others: f64,
}

impl Condition {
    /// The path by itself.
    const PLAIN: Condition = Condition { window_bytes: None, queue_bdp: 1.0, loss: 0.0, others: 0.0 };

    /// The path by itself, with each of these windows.
    fn windows(windows: &[u64]) -> Vec<Condition> {
        let of = |&bytes| Condition { window_bytes: Some(bytes), ..Condition::PLAIN };
        windows.iter().map(of).collect()
    }

    /// Buffers that make the windows.
    fn buffer(&self) -> Option<u64> {
        self.window_bytes.map(buffer_for)
    }

    fn path(&self) -> Scenario {
        Scenario { queue_bdp: Some(self.queue_bdp), loss: self.loss, ..path() }
    }

    /// For the names of tables.
    fn key(&self) -> String {
        let Condition { window_bytes, queue_bdp, loss, others } = *self;
        let window = window_bytes.map_or(String::new(), |bytes| format!("_window_{bytes}"));
        let network = format!("_queue_{queue_bdp}_loss_{loss}_others_{others}");
        let is_plain = *self == Condition { window_bytes, ..Condition::PLAIN };
        format!("{window}{}", if is_plain { "" } else { &network })
    }

    /// The others, from left to right, for as long as what is returned is there.
    fn others(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Option<Flows>, ExperimentError> {
        if self.others == 0.0 {
            return Ok(None);
        }
        let rate = Rate::from_mbps(path().bottleneck_mbit);
        let newreno = Protocol::Tcp(TcpFlow::new(ControllerKind::NewReno));
        let traffic = Traffic::others(newreno, OTHERS_SIZES, self.others, rate, Time::MAX);
        Ok(Some(lab.flows(CONGESTION_CONTROL, vec![traffic], bench.options.seed)?))
    }
}

/// In words.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Condition { window_bytes, queue_bdp, loss, others } = *self;
        let window = window_bytes.map(|bytes| format!("windows of {}", window_name(bytes)));
        let queue = (queue_bdp != Condition::PLAIN.queue_bdp).then(|| format!("queue {queue_bdp} BDP"));
        let lost = (loss > 0.0).then(|| format!("{} % lost", loss * 100.0));
        let others = (others > 0.0).then(|| format!("others asking for {:.0} %", others * 100.0));
        let all: Vec<String> = [window, queue, lost, others].into_iter().flatten().collect();
        if all.is_empty() { f.write_str("the path by itself") } else { f.write_str(&all.join(", ")) }
    }
}

/// Measure under each of these conditions: what came of the claims, and the figures.
fn over_conditions(
    bench: &Bench<'_>,
    conditions: &[Condition],
    mut method: Vec<String>,
    mut measure: impl FnMut(&Condition, &Lab) -> Result<(Vec<Statement>, Table), ExperimentError>,
) -> Result<Findings, ExperimentError> {
    let (mut plane, mut tables) = (Plane::default(), vec![]);
    for condition in conditions {
        let lab = bench.lab(&condition.path())?;
        let others = condition.others(bench, &lab)?;
        let (statements, mut table) = measure(condition, &lab)?;
        others.as_ref().map_or(Ok(()), flows::check)?;
        table.name += &condition.key();
        table.title = format!("{}, {condition}", table.title);
        plane.push(condition.to_string(), statements);
        tables.push(table);
    }
    if conditions.iter().any(|condition| condition.others > 0.0) {
        method.push(format!(
            "Others: short flows of {CONGESTION_CONTROL} (Pareto {OTHERS_SHAPE}, {:.0} kB in the mean).",
            OTHERS_BYTES / 1e3
        ));
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
/// That of the paper's time, by the kernel's name.
const CONGESTION_CONTROL: &str = "reno";
const OTHERS_BYTES: f64 = 30e3;
const OTHERS_SHAPE: f64 = 1.5;
const OTHERS_SIZES: Distribution = Distribution::Pareto { shape: OTHERS_SHAPE, mean: OTHERS_BYTES };
/// Section 4 a.
const WINDOW_BYTES: u64 = 64 << 10;
/// Section 4 a: "the amount of data" of each experiment. At 76 Mb/s it lasts 7 ms, a third of a round trip, so it cannot
/// have been the whole of a transfer; we take it for what each call of send was given.
const WRITE_BYTES: u64 = 64 << 10;
