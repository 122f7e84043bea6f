//! Figure 3: bandwidth against the size of the packets, between hosts with gigabit cards.

use super::run::{BATCH, OBJECT_LEN, Transfer};
use crate::experiments::host::{HostConfig, HostCosts};
use crate::experiments::{Claim, Column, Experiment, Findings, Options, Plot, Table, Unit, run_jobs};
use crate::scenario::Scenario;
use std::time::Duration;

/// Bandwidth against packet size.
pub const FIGURE_3: Experiment = Experiment {
    id: "fobs-fig3",
    title: "share of an OC-12 that FOBS gets between gigabit hosts, against the size of its packets",
    claims: &[TREMENDOUS, PEAK],
    takes_contestants: false,
    simulate: figure_3,
};

const TREMENDOUS: Claim =
    Claim::paper("FOBS §5, Figure 3", "the size of the packet makes a tremendous difference");
const PEAK: Claim =
    Claim::paper("FOBS §5, Figure 3", "the peak is about 52 % of the available bandwidth, 40 MB/s");

fn figure_3(options: &Options<'_>) -> Findings {
    let sizes: &[u32] = options.scale.pick(&SIZES[..], &SIZES[..], &[1024, 32_768]);
    let object_len = options.scale.pick(OBJECT_LEN, OBJECT_LEN, OBJECT_LEN / 20);
    let scenario = Scenario {
        nic_mbit: Some(1000.0),
        mtu: 65_535,
        seed: options.seed,
        ..Scenario::new(OC12_MBIT, 26.0)
    };
    let done = run_jobs(options, sizes, |&packet_len| {
        let transfer = Transfer { packet_len, object_len, ack_every: 256, ..Transfer::new(scenario.clone()) };
        Transfer { sender: SENDER, receiver: RECEIVER, ..transfer }.run()
    });
    let columns = vec![
        Column::new("packet", Unit::Bytes),
        Column::new("goodput", Unit::Mbps),
        Column::new("of OC-12", Unit::Share),
        Column::new("waste", Unit::Share),
    ];
    let mut table = Table::new("sizes", "By size of packet", columns)
        .plot(Plot::lines("packet", &["of OC-12"]).log_x().title("Share of the OC-12 by size of packet"));
    for (size, done) in sizes.iter().zip(&done) {
        let share = done.goodput_mbps / OC12_MBIT;
        table.push(vec![(*size).into(), done.goodput_mbps.into(), share.into(), done.waste.into()]);
    }
    let shares: Vec<f64> = done.iter().map(|done| done.goodput_mbps / OC12_MBIT).collect();
    let peak = shares.iter().copied().fold(0.0, f64::max);
    let least = shares.iter().copied().fold(1.0, f64::min);
    let difference = format!("{:.0} % to {:.0} %", least * 100.0, peak * 100.0);
    Findings {
        method: vec![
            "40 MiB over an OC-12 (622.08 Mb/s, 26 ms, no loss) between hosts with gigabit cards, F = 256. IP fragments \
             are not simulated: a packet travels whole."
                .into(),
            "Hosts are ours, the paper gives no costs: 60 µs for a datagram sent, 50 µs for one received, 23 ns a byte \
             (both copy and checksum each byte at some 45 MB/s, as machines of 195 to 500 MHz did)."
                .into(),
        ],
        tables: vec![table],
        statements: vec![
            TREMENDOUS.judge(peak >= 3.0 * least, difference.clone()).otherwise("the hosts' cost per datagram is too small"),
            PEAK.judge((0.47..=0.57).contains(&peak), difference)
                .remark("where the peak lies follows from the cost per byte that we chose; only the shape is a finding"),
        ],
    }
}

/// OC-12, 10⁶ bit/s.
const OC12_MBIT: f64 = 622.08;
/// The paper's horizontal axis is not given.
const SIZES: [u32; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 61_440];

const COSTS: HostCosts = HostCosts {
    send: Duration::from_micros(60),
    receive: Duration::from_micros(50),
    byte_ns: 23.0,
    look: Duration::from_micros(10),
};
const SENDER: HostConfig = HostConfig { costs: COSTS, batch: BATCH, buffer_bytes: 256 << 10 };
const RECEIVER: HostConfig = HostConfig {
    costs: HostCosts { send: Duration::from_micros(500), look: Duration::ZERO, ..COSTS },
    batch: u32::MAX,
    buffer_bytes: 256 << 10,
};
