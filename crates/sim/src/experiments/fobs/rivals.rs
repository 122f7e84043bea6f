//! Tables 1 and 2: TCP and PSockets over the same networks.

use super::run::{CARD_MBIT, HAULS, OBJECT_LEN, PACKET_LEN};
use crate::experiments::{
    Claim, Column, Experiment, Findings, Options, Plot, Statement, Table, Unit, run_jobs,
};
use crate::flow::{FlowSpec, ObjectFlow, Protocol, TcpFlow};
use crate::metrics::Summary;
use crate::path::PathConfig;
use crate::route::{HopId, Route};
use crate::scenario::Scenario;
use crate::trace::TraceMode;
use crate::traffic::{Arrivals, Distribution, Pair, Traffic};
use crate::workload::Workload;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::object::AckKind;
use longhaul_proto::units::{Rate, Time};
use std::time::Duration;

/// TCP with and without large windows.
pub const TABLE_1: Experiment = Experiment {
    id: "fobs-table1",
    title: "TCP with and without large windows, short and long haul, quiet and shared networks",
    claims: &[SHORT, LONG, SMALL_WINDOW, RATIO],
    takes_contestants: false,
    simulate: table_1,
};

/// PSockets.
pub const TABLE_2: Experiment = Experiment {
    id: "fobs-table2",
    title: "FOBS against striping over 1 to 40 TCP sockets (PSockets)",
    claims: &[FASTER, MANY, LITTLE_WASTE],
    takes_contestants: false,
    simulate: table_2,
};

const SHORT: Claim = Claim::paper(
    "FOBS §5.1, Table 1",
    "short haul, large windows, quiet network: TCP gets 86 % (80 to 95 %)",
);
const LONG: Claim = Claim::paper(
    "FOBS §5.1, Table 1",
    "long haul, large windows: some contention takes TCP down to 51 % (41 to 61 % at one of the loads tried)",
);
const SMALL_WINDOW: Claim = Claim::paper(
    "FOBS §5.1, Table 1",
    "long haul, windows of 64 KB: TCP gets 11 % (window over round trip: 7 to 12 %)",
);
const RATIO: Claim = Claim::paper(
    "FOBS §5, §5.1",
    "on the long haul FOBS gets 1.8 times what TCP with large windows gets, or more",
);
const FASTER: Claim = Claim::paper(
    "FOBS §6, Table 2",
    "FOBS (76 %) gets more than PSockets with its best number of sockets (56 %)",
);
const MANY: Claim =
    Claim::paper("FOBS §6, Table 2", "PSockets needs many sockets: the best number is 20 (10 to 40)");
const LITTLE_WASTE: Claim = Claim::paper("FOBS §6, Table 2", "FOBS sends 2 % in vain (4 % at most)");

/// A transfer of the object from one host to another.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    rtt_ms: f64,
    /// Share of the network that others ask for.
    load: f64,
    way: Way,
    bytes: u64,
    seed: u64,
}

/// How it is moved.
#[derive(Clone, Copy, Debug)]
enum Way {
    Fobs,
    Tcp {
        large_windows: bool,
    },
    /// In equal parts over so many sockets with windows of 64 KB.
    Sockets(u64),
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Done {
    /// Of the sending host's card.
    share: f64,
    waste: f64,
}

impl Transfer {
    /// The sending host's card is a hop of its own, since the sockets of a host share it: a queue too long to lose
    /// anything. A greedy sender is held back by the card itself.
    fn run(&self) -> Done {
        let card = Scenario { queue_kb: Some(CARD_QUEUE_KB), ..Scenario::new(CARD_MBIT, 0.0) };
        let network = Scenario {
            queue_kb: Some(ROUTER_QUEUE_KB),
            seed: self.seed,
            ..Scenario::new(NETWORK_MBIT, self.rtt_ms)
        };
        let hops = vec![PathConfig::new(&card), PathConfig::new(&network)];
        let (card_hop, network_hop) = (HopId::FIRST, HopId(1));
        let (spec, count) = self.flows();
        let pair = Pair {
            route: Route::along([card_hop, network_hop]),
            access_rate: matches!(self.way, Way::Fobs).then(|| Rate::from_mbps(CARD_MBIT)),
            ..Pair::default()
        };
        let transfer =
            Traffic { pairs: vec![pair], ..Traffic::new(spec, Arrivals::Together { at: FIRST, count }) };
        let until = Time::ZERO + PATIENCE;
        let mut traffic = vec![transfer];
        if self.load > 0.0 {
            traffic.push(self.others(network_hop, until));
        }
        let mut workload = Workload { hops, ..Workload::new(PathConfig::new(&card), traffic, until) };
        workload.seed = self.seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let end = |at: Option<Time>, ended: Time| at.unwrap_or(ended);
        let last = measured.of(0).map(|flow| end(flow.delivered, flow.ended)).max().unwrap_or(until);
        let delivered: u64 = measured.of(0).map(|flow| flow.stats.bytes_delivered).sum();
        let goodput_mbps = delivered as f64 * 8e-6 / last.since(FIRST).as_secs_f64();
        Done { share: goodput_mbps / CARD_MBIT, waste: measured.waste(0) }
    }

    fn flows(&self) -> (FlowSpec, u64) {
        let tcp = |large_windows: bool| {
            let mut flow = TcpFlow { classic: true, ..TcpFlow::new(ControllerKind::NewReno) };
            flow.config.window_scaling = large_windows;
            Protocol::Tcp(flow)
        };
        match self.way {
            Way::Fobs => {
                let ack = AckKind::Every(64);
                let flow = ObjectFlow {
                    packet_len: Some(PACKET_LEN),
                    ack,
                    ..ObjectFlow::new(ControllerKind::Greedy)
                };
                (FlowSpec::new(Protocol::Object(flow), self.bytes), 1)
            }
            Way::Tcp { large_windows } => (FlowSpec::new(tcp(large_windows), self.bytes), 1),
            Way::Sockets(count) => (FlowSpec::new(tcp(false), self.bytes / count), count),
        }
    }

    /// Short TCP flows of others through the same routers.
    fn others(&self, hop: HopId, until: Time) -> Traffic {
        let flow = TcpFlow { classic: true, ..TcpFlow::new(ControllerKind::NewReno) };
        let rate = Rate::from_mbps(NETWORK_MBIT);
        let arrivals = Arrivals::poisson(Time::ZERO, until, self.load, rate, OTHERS_BYTES);
        Traffic {
            sizes: Some(Distribution::Pareto { shape: OTHERS_SHAPE, mean: OTHERS_BYTES }),
            pairs: vec![Pair { route: Route::over(hop), ..Pair::default() }],
            is_background: true,
            ..Traffic::new(FlowSpec::new(Protocol::Tcp(flow), 0), arrivals)
        }
    }
}

/// The means over seeds of transfers that differ by `of`.
fn measure<T: Copy + Sync>(options: &Options<'_>, points: &[T], of: impl Fn(T) -> Transfer) -> Vec<Done> {
    let seeds = options.scale.pick(10, 3, 1);
    let bytes = options.scale.pick(OBJECT_LEN, OBJECT_LEN, OBJECT_LEN / 40);
    let jobs: Vec<Transfer> = points
        .iter()
        .flat_map(|&point| {
            let transfer = of(point);
            (0..seeds).map(move |n| Transfer { bytes, seed: options.seed + n, ..transfer })
        })
        .collect();
    let done = run_jobs(options, &jobs, Transfer::run);
    let mean = |done: &[Done]| Done {
        share: Summary::of(done.iter().map(|one| one.share)).mean,
        waste: Summary::of(done.iter().map(|one| one.waste)).mean,
    };
    done.chunks(seeds as usize).map(mean).collect()
}

fn transfer(rtt_ms: f64, load: f64, way: Way) -> Transfer {
    Transfer { rtt_ms, load, way, bytes: OBJECT_LEN, seed: 1 }
}

fn table_1(options: &Options<'_>) -> Findings {
    let loads: &[f64] = options.scale.pick(&LOADS[..], &LOADS[..], &LOADS[..2]);
    let ways = [
        ("TCP, large windows", Way::Tcp { large_windows: true }),
        ("TCP, 64 KB", Way::Tcp { large_windows: false }),
        ("FOBS", Way::Fobs),
    ];
    let mut points = Vec::new();
    for (haul, rtt_ms) in HAULS {
        for (name, way) in ways {
            points.extend(loads.iter().map(|&load| (haul, rtt_ms, name, way, load)));
        }
    }
    let done = measure(options, &points, |(_, rtt_ms, _, way, load)| transfer(rtt_ms, load, way));
    let rows: Vec<&[Done]> = done.chunks(loads.len()).collect();
    let mut columns = vec![Column::text("haul"), Column::text("way")];
    columns
        .extend(loads.iter().map(|load| Column::new(format!("others {:.0} %", load * 100.0), Unit::Share)));
    let title = "Share of the card's 100 Mb/s, by what others ask of the network";
    let mut table = Table::new("shares", title, columns);
    for ((haul, name), row) in HAULS.iter().flat_map(|haul| ways.map(|way| (haul.0, way.0))).zip(&rows) {
        let shares = row.iter().map(|done| done.share.into());
        table.push([haul.into(), name.into()].into_iter().chain(shares).collect());
    }
    let [short_tcp, _, _, long_tcp, long_small, long_fobs] = rows[..] else { return Findings::default() };
    Findings {
        method: method(),
        tables: vec![table, course_1(loads, &rows, &ways.map(|way| way.0))],
        statements: judge_table_1(loads, short_tcp[0], long_tcp, long_small[0], long_fobs),
    }
}

/// The same with a row for each transfer, to be drawn.
fn course_1(loads: &[f64], rows: &[&[Done]], ways: &[&str]) -> Table {
    let columns =
        vec![Column::text("transfer"), Column::new("others", Unit::Share), Column::new("share", Unit::Share)];
    let title = "Share of the card by what others ask of the network";
    let plot = Plot::lines("others", &["share"]).by("transfer");
    let mut table = Table::new("course", title, columns).detail().plot(plot);
    let transfers = HAULS.iter().flat_map(|haul| ways.iter().map(move |way| format!("{}: {way}", haul.0)));
    for (transfer, row) in transfers.zip(rows) {
        for (&load, done) in loads.iter().zip(row.iter()) {
            table.push(vec![transfer.clone().into(), load.into(), done.share.into()]);
        }
    }
    table
}

fn judge_table_1(loads: &[f64], short: Done, long: &[Done], small: Done, fobs: &[Done]) -> Vec<Statement> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let shares: Vec<String> = loads
        .iter()
        .zip(long)
        .map(|(load, done)| format!("{} at {:.0} %", percent(done.share), load * 100.0))
        .collect();
    // the load of ours under which TCP comes nearest to the paper's half
    let nearest = (0..loads.len())
        .min_by(|&a, &b| (long[a].share - PAPER_LONG).abs().total_cmp(&(long[b].share - PAPER_LONG).abs()))
        .unwrap_or(0);
    let ratio = fobs[nearest].share / long[nearest].share;
    vec![
        SHORT.judge((0.8..=0.95).contains(&short.share), percent(short.share)),
        LONG.judge(long.iter().any(|done| (0.41..=0.61).contains(&done.share)), format!("by what others ask for: {}", shares.join(", ")))
            .remark("how much contention there was the paper does not say; ours is swept"),
        SMALL_WINDOW.judge((0.07..=0.12).contains(&small.share), percent(small.share)),
        RATIO.judge(
            ratio >= 1.8,
            format!(
                "{} against {} where TCP is nearest to the paper's 51 % (others ask for {:.0} %): {ratio:.2} times",
                percent(fobs[nearest].share),
                percent(long[nearest].share),
                loads[nearest] * 100.0
            ),
        ),
    ]
}

fn table_2(options: &Options<'_>) -> Findings {
    let loads: &[f64] = options.scale.pick(&LOADS[..], &LOADS[..], &LOADS[..1]);
    let counts: &[u64] = options.scale.pick(&SOCKETS[..], &SOCKETS[..], &[1, 20]);
    let (_, rtt_ms) = HAULS[1];
    let ways: Vec<Way> = counts.iter().map(|&count| Way::Sockets(count)).chain([Way::Fobs]).collect();
    let points: Vec<(f64, Way)> =
        loads.iter().flat_map(|&load| ways.iter().map(move |&way| (load, way))).collect();
    let done = measure(options, &points, |(load, way)| transfer(rtt_ms, load, way));
    let rows: Vec<&[Done]> = done.chunks(ways.len()).collect();
    let mut columns = vec![Column::new("others", Unit::Share)];
    let names: Vec<String> = counts.iter().map(|count| format!("{count} socket(s)")).collect();
    columns.extend(names.iter().map(|name| Column::new(name, Unit::Share)));
    columns.extend([Column::new("FOBS", Unit::Share), Column::new("FOBS waste", Unit::Share)]);
    let series: Vec<&str> = names.iter().map(String::as_str).chain(["FOBS"]).collect();
    let mut table =
        Table::new("shares", "Share of the card's 100 Mb/s, by what others ask of the network", columns)
            .plot(Plot::lines("others", &series));
    for (&load, row) in loads.iter().zip(&rows) {
        let mut cells = vec![load.into()];
        cells.extend(row.iter().map(|done| done.share.into()));
        cells.push(row[counts.len()].waste.into());
        table.push(cells);
    }
    let mut method = method();
    method.push(
        "Every socket has a window of 64 KB and carries an equal part; the last to be done counts.".into(),
    );
    Findings { method, tables: vec![table], statements: judge_table_2(loads, counts, &rows) }
}

fn judge_table_2(loads: &[f64], counts: &[u64], rows: &[&[Done]]) -> Vec<Statement> {
    let best = |row: &[Done]| -> (u64, f64) {
        let sockets = counts.iter().zip(row).map(|(&count, done)| (count, done.share));
        sockets.fold((0, 0.0), |best, one| if one.1 > best.1 { one } else { best })
    };
    // the load of ours under which PSockets comes nearest to the paper's share
    let nearest = (0..rows.len())
        .min_by(|&a, &b| {
            (best(rows[a]).1 - PAPER_SOCKETS).abs().total_cmp(&(best(rows[b]).1 - PAPER_SOCKETS).abs())
        })
        .unwrap_or(0);
    let ((count, sockets), fobs) = (best(rows[nearest]), rows[nearest][counts.len()]);
    let place = format!(
        "others asking for {:.0} %, where PSockets is nearest to the paper's 56 %",
        loads[nearest] * 100.0
    );
    vec![
        FASTER.judge(
            fobs.share > sockets,
            format!("FOBS {:.1} %, PSockets {:.1} % with {count} sockets; {place}", fobs.share * 100.0, sockets * 100.0),
        ),
        MANY.judge((10..=40).contains(&count), format!("{count} sockets; {place}")),
        LITTLE_WASTE.judge(fobs.waste <= 0.04, format!("{:.1} %; {place}", fobs.waste * 100.0)).otherwise(
            "a greedy sender does not slow down where others fill the network, and what is dropped there is sent again",
        ),
    ]
}

fn method() -> Vec<String> {
    vec![format!(
        "40 MiB from memory to memory; the sending host's card of 100 Mb/s, then an OC-3 ({NETWORK_MBIT} Mb/s) whose router \
         queues {ROUTER_QUEUE_KB} kB; short haul 26 ms, long haul 65 ms. TCP: SACK, NewReno's rule, one segment to begin \
         with. FOBS: packets of 1024 bytes, F = 64. Others: short TCP flows (Pareto {OTHERS_SHAPE}, {:.0} kB in the mean) \
         that ask for a share of the OC-3.",
        OTHERS_BYTES / 1e3
    )]
}

/// OC-3.
const NETWORK_MBIT: f64 = 155.52;
/// 100 packets of 1500 bytes, as routers of the time had by default or little more.
const ROUTER_QUEUE_KB: f64 = 150.0;
/// A socket's data waits in the host without being lost.
const CARD_QUEUE_KB: f64 = 64_000.0;
const OTHERS_BYTES: f64 = 100e3;
const OTHERS_SHAPE: f64 = 1.3;
/// What others ask for.
const LOADS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];
const SOCKETS: [u64; 9] = [1, 2, 4, 8, 12, 16, 20, 30, 40];
/// The paper's Table 1 and Table 2.
const PAPER_LONG: f64 = 0.51;
const PAPER_SOCKETS: f64 = 0.56;
/// Others' traffic has settled by then.
const FIRST: Time = Time::from_millis(3000);
const PATIENCE: Duration = Duration::from_secs(600);
