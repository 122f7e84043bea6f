//! Transfers over the path that a scenario file describes.

use super::contestant::Contestant;
use super::single::{Single, checked, payload_rate, run_singles};
use super::{Column, Options, Report, Table, Unit};
use crate::scenario::{InvalidField, Scenario};
use longhaul_proto::units::Time;

/// Simulate a transfer of `bytes` over `scenario` for each contestant, one after another on an idle path, and report
/// what came of it.
pub fn over(
    scenario: &Scenario,
    contestants: &[Contestant],
    bytes: u64,
    options: &Options<'_>,
) -> Result<Report, InvalidField> {
    checked(scenario)?;
    let singles: Vec<Single> = contestants
        .iter()
        .map(|contestant| Single {
            scenario: scenario.clone(),
            contestant: contestant.clone(),
            bytes,
            until: PATIENCE,
        })
        .collect();
    let columns = vec![
        Column::text("control"),
        Column::text("complete"),
        Column::new("time", Unit::Seconds),
        Column::new("goodput", Unit::Mbps),
        Column::new("of limit", Unit::Share),
        Column::new("waste", Unit::Share),
        Column::new("dropped", Unit::Share),
        Column::new("queue", Unit::Bdp),
        Column::new("RTT", Unit::Millis),
        Column::new("timeouts", Unit::Number),
    ];
    let mut table = Table::new("transfers", "Each transfer by itself", columns);
    for (contestant, done) in contestants.iter().zip(run_singles(options, &singles)) {
        table.push(vec![
            contestant.to_string().into(),
            if done.is_complete { "yes" } else { "no" }.into(),
            done.seconds.into(),
            done.goodput_mbps.into(),
            done.share.into(),
            done.waste.into(),
            done.dropped.into(),
            done.queue_bdp.into(),
            done.rtt_ms.into(),
            done.timeouts.into(),
        ]);
    }
    Ok(Report {
        id: scenario.name.clone(),
        title: describe(scenario),
        method: vec![
            format!(
                "{bytes} bytes, from the beginning of the set-up until the receiver has everything; stopped after {} s.",
                PATIENCE.as_secs_f64()
            ),
            format!(
                "Limit: {:.1} Mb/s of object bytes, less what is lost at random. Dropped: by the bottleneck's queue. \
                 Queue: its mean, in bandwidth-delay products.",
                payload_rate(scenario).as_mbps()
            ),
        ],
        tables: vec![table],
        statements: Vec::new(),
    })
}

/// The path in a line.
fn describe(scenario: &Scenario) -> String {
    let mut text = format!("{} Mb/s, {} ms", scenario.bottleneck_mbit, scenario.rtt_ms);
    match (scenario.queue_kb, scenario.queue_bdp) {
        (Some(kb), _) => text.push_str(&format!(", queue {kb} kB")),
        (None, bdp) => text.push_str(&format!(", queue {} BDP", bdp.unwrap_or(1.0))),
    }
    if let Some(nic) = scenario.nic_mbit {
        text.push_str(&format!(", cards {nic} Mb/s"));
    }
    if scenario.loss > 0.0 {
        text.push_str(&format!(", loss {} %", scenario.loss * 100.0));
    }
    text
}

/// Nobody waits longer for a transfer than an hour.
const PATIENCE: Time = Time::from_millis(3_600_000);
