//! Figures 1 and 2: bandwidth obtained, and packets sent in vain, against the acknowledgement frequency.

use super::run::{CARD_MBIT, Done, HAULS, OBJECT_LEN, Transfer, desktop_path};
use crate::experiments::{Claim, Column, Experiment, Findings, Options, Plot, Table, Unit, run_jobs};

/// Bandwidth against F.
pub const FIGURE_1: Experiment = Experiment {
    id: "fobs-fig1",
    title: "share of the card's 100 Mb/s that FOBS gets, against packets per acknowledgement",
    claims: &[NINETY, BOTH_HAULS],
    takes_contestants: false,
    simulate: figure_1,
};

/// Waste against F.
pub const FIGURE_2: Experiment = Experiment {
    id: "fobs-fig2",
    title: "packets that FOBS sends in vain, against packets per acknowledgement",
    claims: &[WASTE],
    takes_contestants: false,
    simulate: figure_2,
};

const NINETY: Claim =
    Claim::paper("FOBS §5, Figure 1", "FOBS gets about 90 % of the available bandwidth on both hauls");
const BOTH_HAULS: Claim = Claim::paper("FOBS §5, Figure 1", "the long haul costs FOBS next to nothing");
const WASTE: Claim = Claim::paper("FOBS §7, Figure 2", "about 3 % of the packets are sent in vain");

/// A point of the figures.
struct Point {
    haul: &'static str,
    rtt_ms: f64,
    ack_every: u32,
}

fn measure(options: &Options<'_>) -> Vec<(Point, Done)> {
    let frequencies: &[u32] = options.scale.pick(&FREQUENCIES[..], &FREQUENCIES[..], &[16, 256]);
    let object_len = options.scale.pick(OBJECT_LEN, OBJECT_LEN, OBJECT_LEN / 40);
    let points: Vec<Point> = HAULS
        .iter()
        .flat_map(|&(haul, rtt_ms)| {
            frequencies.iter().map(move |&ack_every| Point { haul, rtt_ms, ack_every })
        })
        .collect();
    let done = run_jobs(options, &points, |point| {
        let transfer = Transfer::new(desktop_path(point.rtt_ms, options.seed));
        Transfer { ack_every: point.ack_every, object_len, ..transfer }.run()
    });
    points.into_iter().zip(done).collect()
}

fn figure_1(options: &Options<'_>) -> Findings {
    let points = measure(options);
    let best = |haul: &str| {
        let of_haul = points.iter().filter(|(point, _)| point.haul == haul);
        of_haul.map(|(_, done)| done.goodput_mbps / CARD_MBIT).fold(0.0, f64::max)
    };
    let (short, long) = (best("short"), best("long"));
    let near = |share: f64| (share - 0.9).abs() <= 0.05;
    let figures = format!("short haul {:.1} %, long haul {:.1} % at the best F", short * 100.0, long * 100.0);
    Findings {
        method: method(),
        tables: vec![table(&points)],
        statements: vec![
            NINETY
                .judge(near(short) && near(long), figures.clone())
                .otherwise("the ceiling is 93.9 %: 1024 of 1090 bytes in each packet are data"),
            BOTH_HAULS
                .judge(long >= 0.95 * short, figures)
                .otherwise("the last round trips weigh more on a short object"),
        ],
    }
}

fn figure_2(options: &Options<'_>) -> Findings {
    let points = measure(options);
    let fastest = |haul: &str| {
        let of_haul = points.iter().filter(|(point, _)| point.haul == haul);
        of_haul.map(|(_, done)| *done).max_by(|a, b| a.goodput_mbps.total_cmp(&b.goodput_mbps))
    };
    let statements = match (fastest("short"), fastest("long")) {
        (Some(short), Some(long)) => {
            let mean = (short.waste + long.waste) / 2.0;
            let figures = format!(
                "{:.1} % on the short haul and {:.1} % on the long one where F gives the most bandwidth, {:.1} % in the \
                 mean; a factor of two counts as about",
                short.waste * 100.0,
                long.waste * 100.0,
                mean * 100.0
            );
            vec![WASTE.judge((0.015..=0.06).contains(&mean), figures).otherwise(
                "what is sent in vain is what is on its way when the last packet arrives, a round trip's worth, and what \
                 the receiver's buffer had no room for; both depend on hosts that the paper does not describe",
            )]
        }
        _ => vec![WASTE.leave_open("nothing was measured")],
    };
    Findings { method: method(), tables: vec![table(&points)], statements }
}

fn table(points: &[(Point, Done)]) -> Table {
    let columns = vec![
        Column::text("haul"),
        Column::new("RTT", Unit::Millis),
        Column::new("F", Unit::Number),
        Column::new("goodput", Unit::Mbps),
        Column::new("of card", Unit::Share),
        Column::new("waste", Unit::Share),
        Column::new("overrun", Unit::Share),
    ];
    let mut table = Table::new("frequencies", "Greedy, circular, F new packets per acknowledgement", columns)
        .plot(
            Plot::lines("F", &["of card"])
                .by("haul")
                .log_x()
                .title("Share of the card by acknowledgement frequency"),
        )
        .plot(Plot::lines("F", &["waste"]).by("haul").log_x().title("Waste by acknowledgement frequency"));
    for (point, done) in points {
        table.push(vec![
            point.haul.into(),
            point.rtt_ms.into(),
            point.ack_every.into(),
            done.goodput_mbps.into(),
            (done.goodput_mbps / CARD_MBIT).into(),
            done.waste.into(),
            done.overrun.into(),
        ]);
    }
    table
}

fn method() -> Vec<String> {
    vec![
        "One object of 40 MiB in packets of 1024 bytes; the sending host's card of 100 Mb/s is the narrowest place, the \
         network behind it an OC-3 without loss. Waste: (sent − required) / required."
            .into(),
        "Hosts are ours, the paper gives no costs: 40 µs and 10 ns a byte for a datagram, 10 µs for a look, 500 µs to \
         make an acknowledgement, receive buffers of 8 KiB. Overrun: what these had no room for, as a share of what \
         was sent."
            .into(),
    ]
}

/// The paper's horizontal axis is not given.
const FREQUENCIES: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
