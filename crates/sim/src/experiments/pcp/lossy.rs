//! Figure 3: one path with background loss, transfers of all sizes, and TCP beside PCP.

use super::population::WidePath;
use super::{TCP_SACK, tcp_sack};
use crate::experiments::{
    Claim, Column, Experiment, Findings, Options, Plot, Statement, Table, Unit, run_jobs,
};
use crate::flow::{FlowSpec, Protocol};
use crate::metrics::Summary;
use crate::path::PathConfig;
use crate::scenario::Scenario;
use crate::trace::TraceMode;
use crate::traffic::{Arrivals, Distribution, Traffic};
use crate::workload::{FlowRecord, Workload};
use longhaul_proto::units::Time;

/// Throughput against size, and TCP beside PCP.
pub const FIGURE_3: Experiment = Experiment {
    id: "pcp-fig3",
    title: "transfers of all sizes over one lossy path, and TCP beside four of PCP",
    claims: &CLAIMS,
    takes_contestants: false,
    simulate: figure_3,
};

/// On Figure 3.
pub const CLAIMS: [Claim; 3] = [TCP_SLOW, PCP_FAST, UNAFFECTED];
const TCP_SLOW: Claim =
    Claim::paper("PCP §4.1, Figure 3", "TCP gets no more than 5 Mb/s, however large the transfer");
const PCP_FAST: Claim = Claim::paper("PCP §4.1, Figure 3", "PCP moves large files at more than 15 Mb/s");
const UNAFFECTED: Claim = Claim::paper(
    "PCP §4.1, Figure 3",
    "the TCP transfer is unaffected by four PCP transfers beside it (within 10 %)",
);

fn figure_3(options: &Options<'_>) -> Findings {
    let sizes: &[u64] = options.scale.pick(&SIZES[..], &SIZES[2..], &SIZES[..1]);
    let count = options.scale.pick(100, 20, 2);
    let path = path(options.seed);
    let mut jobs: Vec<Job> = SENDERS
        .iter()
        .flat_map(|&sender| sizes.iter().map(move |&bytes| Job { sender, bytes, pcp_beside: 0 }))
        .collect();
    let beside = *sizes.last().unwrap_or(&BESIDE_BYTES).min(&BESIDE_BYTES);
    jobs.extend([0, 4].map(|pcp_beside| Job { sender: "tcp:newreno", bytes: beside, pcp_beside }));
    let rates = run_jobs(options, &jobs, |job| job.run(&path, count));
    let (by_size, with_pcp) = rates.split_at(rates.len() - 2);
    let by_sender: Vec<(&str, &[f64])> = SENDERS.into_iter().zip(by_size.chunks(sizes.len())).collect();
    let (alone, beside_pcp) = (with_pcp[0], with_pcp[1]);
    Findings {
        method: vec![
            format!(
                "One path of ours, for the paper does not describe its: {} Mb/s, {} ms, a queue of one bandwidth-delay \
                 product, {:.1} % of the packets lost elsewhere, others' short TCP flows ask for {:.0} % of the link. On it \
                 {count} transfers one after another; rate: size over the mean time, set-up included.",
                path.scenario.bottleneck_mbit,
                path.scenario.rtt_ms,
                path.scenario.loss * 100.0,
                path.cross_load * 100.0
            ),
            format!("tcp:newreno is {TCP_SACK}. PCP remembers the transfers before."),
        ],
        tables: vec![by_size_table(sizes, &by_sender), beside_table(beside, alone, beside_pcp)],
        statements: judge(&by_sender, alone, beside_pcp),
    }
}

/// Transfers one after another.
#[derive(Clone, Copy, Debug)]
struct Job {
    sender: &'static str,
    bytes: u64,
    /// PCP transfers that go on all the time beside them.
    pcp_beside: u64,
}

impl Job {
    /// Size over mean time, 10⁶ bit/s.
    fn run(&self, path: &WidePath, count: u64) -> f64 {
        let until = Time::ZERO + PATIENCE;
        let mut protocol: Protocol = self.sender.parse().expect("the program offers it");
        if self.sender == "tcp:newreno" {
            protocol = Protocol::Tcp(tcp_sack());
        }
        let gap_s = Distribution::Exponential { mean: 0.2 };
        let chain = |spec, count, sources| Traffic {
            remembers: true,
            ..Traffic::new(spec, Arrivals::Chained { from: FIRST, gap_s, count, sources })
        };
        let transfers = chain(FlowSpec::new(protocol, self.bytes), count, 1);
        let pcp = FlowSpec::new("pcp".parse().expect("the program offers it"), self.bytes);
        let beside = Traffic { is_background: true, ..chain(pcp, u64::MAX, self.pcp_beside) };
        let traffic = vec![transfers, beside, path.cross_traffic()];
        let mut workload = Workload::new(PathConfig::new(&path.scenario), traffic, until);
        workload.seed = path.scenario.seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let seconds =
            |flow: &FlowRecord| flow.delivered.unwrap_or(flow.ended).since(flow.started).as_secs_f64();
        self.bytes as f64 * 8e-6 / Summary::of(measured.of(0).map(seconds)).mean
    }
}

fn by_size_table(sizes: &[u64], by_sender: &[(&str, &[f64])]) -> Table {
    let mut columns = vec![Column::new("size", Unit::Bytes)];
    columns.extend(by_sender.iter().map(|(sender, _)| Column::new(*sender, Unit::Mbps)));
    let senders: Vec<&str> = by_sender.iter().map(|(sender, _)| *sender).collect();
    let mut table = Table::new("sizes", "Rate of a transfer by its size", columns)
        .plot(Plot::lines("size", &senders).log_x());
    for (index, &size) in sizes.iter().enumerate() {
        table.push(
            [size.into()].into_iter().chain(by_sender.iter().map(|(_, rates)| rates[index].into())).collect(),
        );
    }
    table
}

fn beside_table(bytes: u64, alone: f64, beside_pcp: f64) -> Table {
    let columns =
        vec![Column::text("TCP"), Column::new("size", Unit::Bytes), Column::new("rate", Unit::Mbps)];
    let mut table = Table::new("beside", "TCP beside PCP", columns).plot(Plot::bars("TCP", &["rate"]));
    table.push(vec!["alone".into(), bytes.into(), alone.into()]);
    table.push(vec!["beside four of PCP".into(), bytes.into(), beside_pcp.into()]);
    table
}

fn judge(by_sender: &[(&str, &[f64])], alone: f64, beside_pcp: f64) -> Vec<Statement> {
    let fastest = |name: &str| {
        let rates = by_sender.iter().find(|(sender, _)| *sender == name).map_or(&[][..], |one| one.1);
        rates.iter().copied().fold(0.0, f64::max)
    };
    let (tcp, pcp) = (fastest("tcp:newreno"), fastest("pcp"));
    let change = beside_pcp / alone - 1.0;
    vec![
        TCP_SLOW.judge(tcp <= 5.0, format!("{tcp:.1} Mb/s at most")).otherwise("our path loses less than the paper's"),
        PCP_FAST.judge(pcp > 15.0, format!("{pcp:.1} Mb/s at most")).otherwise(
            "PCP takes only what its probes show to be free for a whole train, and others' short flows come and go",
        ),
        UNAFFECTED
            .judge(change.abs() <= 0.1, format!("{alone:.2} Mb/s alone, {beside_pcp:.2} beside ({:+.1} %)", change * 100.0))
            .otherwise("PCP's trains and what it takes of the free rate lengthen the queue a little, and with it TCP's round trip"),
    ]
}

/// The path of Figure 3, ours. TCP's 5 Mb/s at 50 ms follow from about 0.5 % of loss (Mathis: 1.22 × 1448 × 8 / (0.05 s × √0.005) = 4 Mb/s).
pub fn path(seed: u64) -> WidePath {
    WidePath { scenario: Scenario { loss: 0.005, seed, ..Scenario::new(45.0, 50.0) }, cross_load: 0.3 }
}

const SENDERS: [&str; 4] = ["pcp", "tcp:newreno", "tcp:cubic", "adaptive"];
const SIZES: [u64; 7] = [16_000, 64_000, 250_000, 1_000_000, 4_000_000, 16_000_000, 32_000_000];
/// What the TCP beside PCP moves.
const BESIDE_BYTES: u64 = 4_000_000;
const FIRST: Time = Time::from_millis(2000);
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3600);
