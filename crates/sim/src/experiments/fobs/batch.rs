//! §3.1.1: how many packets between two looks for an acknowledgement.

use super::run::{Done, HAULS, OBJECT_LEN, Transfer, desktop_path};
use crate::experiments::{Claim, Column, Experiment, Findings, Options, Plot, Table, Unit, run_jobs};

/// Bandwidth and waste against B.
pub const BATCH: Experiment = Experiment {
    id: "fobs-batch",
    title: "packets sent between two looks for an acknowledgement",
    claims: &[TWO, OFTEN],
    takes_contestants: false,
    simulate: batch,
};

const TWO: Claim = Claim::paper("FOBS §3.1.1", "two packets per batch perform best");
const OFTEN: Claim = Claim::paper("FOBS §3.1.1", "the sender should look often: large batches do worse");

fn batch(options: &Options<'_>) -> Findings {
    let batches: &[u32] = options.scale.pick(&BATCHES[..], &BATCHES[..], &[2, 512]);
    let object_len = options.scale.pick(OBJECT_LEN, OBJECT_LEN, OBJECT_LEN / 40);
    let points: Vec<(&str, f64, u32)> =
        HAULS.iter().flat_map(|&(haul, rtt_ms)| batches.iter().map(move |&b| (haul, rtt_ms, b))).collect();
    let done = run_jobs(options, &points, |&(_, rtt_ms, batch)| {
        let transfer = Transfer::new(desktop_path(rtt_ms, options.seed));
        let mut sender = transfer.sender;
        sender.batch = batch;
        Transfer { sender, object_len, ..transfer }.run()
    });
    let points: Vec<(&str, u32, Done)> =
        points.into_iter().zip(done).map(|((haul, _, batch), done)| (haul, batch, done)).collect();
    let columns = vec![
        Column::text("haul"),
        Column::new("B", Unit::Number),
        Column::new("goodput", Unit::Mbps),
        Column::new("waste", Unit::Share),
    ];
    let mut table = Table::new("batches", "B packets between two looks", columns)
        .plot(Plot::lines("B", &["goodput"]).by("haul").log_x());
    for (haul, batch, done) in &points {
        table.push(vec![(*haul).into(), (*batch).into(), done.goodput_mbps.into(), done.waste.into()]);
    }
    Findings {
        method: vec![
            "As fobs-fig1 with F = 64. A look costs the host 10 µs; it takes in all acknowledgements that have come."
                .into(),
        ],
        tables: vec![table],
        statements: judge(&points),
    }
}

fn judge(points: &[(&str, u32, Done)]) -> Vec<crate::experiments::Statement> {
    let best = |haul: &str| {
        let of_haul = points.iter().filter(|point| point.0 == haul);
        of_haul.map(|point| point.2.goodput_mbps).fold(0.0, f64::max)
    };
    let at = |haul: &str, batch: u32| points.iter().find(|point| (point.0, point.1) == (haul, batch));
    let (Some(two), Some(many)) = (at("long", 2), at("long", 512)) else {
        return vec![TWO.leave_open("nothing was measured"), OFTEN.leave_open("nothing was measured")];
    };
    let as_good_as_best = HAULS
        .iter()
        .all(|(haul, _)| at(haul, 2).is_some_and(|point| point.2.goodput_mbps >= 0.999 * best(haul)));
    let two_figures =
        format!("B = 2 gets {:.2} Mb/s of at most {:.2} on the long haul", two.2.goodput_mbps, best("long"));
    let many_figures = format!(
        "on the long haul B = 512 gets {:.1} Mb/s with {:.1} % waste, B = 2 {:.1} Mb/s with {:.1} %",
        many.2.goodput_mbps,
        many.2.waste * 100.0,
        two.2.goodput_mbps,
        two.2.waste * 100.0
    );
    vec![
        TWO.judge(as_good_as_best, two_figures)
            .otherwise("the card, not the host, limits the sender here, so the cost of looking is hidden"),
        OFTEN.judge(many.2.goodput_mbps < two.2.goodput_mbps && many.2.waste > two.2.waste, many_figures).otherwise(
            "the sender learns late of what has come in, but a clean path loses too little for that to matter",
        ),
    ]
}

const BATCHES: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 512];
