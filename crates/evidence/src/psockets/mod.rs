//! PSockets (Sivakumar, Bailey and Grossman, SC 2000), section 4: the experiments between Chicago and Ann Arbor.

mod amount;
mod beside;
mod clients;
mod drops;
mod sockets;
mod tuning;
mod windows;

use crate::experiment::Experiment;
use crate::lab::striped::{Amount, Partition, Streams, Striped};
use longhaul_lab::Scenario;

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    sockets::EXPERIMENT,
    amount::EXPERIMENT,
    tuning::EXPERIMENT,
    windows::EXPERIMENT,
    clients::EXPERIMENT,
    beside::EXPERIMENT,
    drops::EXPERIMENT,
];

/// Chicago to Ann Arbor: limited by an Ethernet of 100 Mb/s; the round trip follows from the 245 KB that the paper gives
/// as the product of bandwidth and delay (section 4 d). The paper gives no queue; ours is one such product.
fn path() -> Scenario {
    Scenario { name: "Chicago–Ann Arbor".into(), ..Scenario::new(BOTTLENECK_MBIT, RTT_MS) }
}

/// What all of them do alike, for a report's method.
fn method() -> String {
    format!(
        "{BOTTLENECK_MBIT} Mb/s, round trip {RTT_MS} ms, queue of one bandwidth-delay product, no loss of its own; \
         kernel TCP under CUBIC, named explicitly. Goodput is that of the program's bytes as they arrive at the striped receiver, which puts them in order, in clear; \
         the limit is {PAYLOAD_LIMIT_MBPS:.1} Mb/s, what TCP could carry in packets of 1500 bytes."
    )
}

/// A stream as the paper's: equal partitions, the default window of its time.
fn paper_stream(streams: u32, amount: Amount) -> Striped {
    Striped {
        streams: Streams::Fixed(streams),
        window_bytes: Some(WINDOW_BYTES),
        partition: Partition::Equal,
        write_bytes: WRITE_BYTES,
        amount,
        ..Striped::default()
    }
}

/// An amount as the paper writes it, in powers of two.
fn window_name(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}

const BOTTLENECK_MBIT: f64 = 100.0;
const RTT_MS: f64 = 20.0;
/// 1448 payload bytes in each IP packet of 1500: IPv4, TCP, time stamps.
const PAYLOAD_LIMIT_MBPS: f64 = BOTTLENECK_MBIT * 1448.0 / 1500.0;
/// Section 4 a.
const WINDOW_BYTES: u64 = 64 << 10;
/// Section 4 a: "the amount of data" of each experiment. At 76 Mb/s it lasts 7 ms, a third of a round trip, so it cannot
/// have been the whole of a transfer; we take it for what each call of send was given.
const WRITE_BYTES: u64 = 64 << 10;
