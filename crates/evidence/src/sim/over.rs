//! Transfers over the path that a scenario file describes.

use super::Options;
use super::contestant::Contestant;
use super::single::{Single, checked, payload_rate, run_singles};
use crate::report::{Report, Table, Unit};
use longhaul_proto::units::Time;
use longhaul_sim::scenario::{InvalidField, Scenario};

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
    let table = Table::of(
        "transfers",
        "Each transfer by itself",
        &contestants.iter().zip(run_singles(options, &singles)).collect::<Vec<_>>(),
    )
    .text("control", |(contestant, _)| contestant.to_string())
    .text("complete", |(_, done)| done.is_complete)
    .column("time", Unit::Seconds, |(_, done)| done.seconds)
    .column("goodput", Unit::Mbps, |(_, done)| done.goodput_mbps)
    .column("of limit", Unit::Share, |(_, done)| done.share)
    .column("waste", Unit::Share, |(_, done)| done.waste)
    .column("dropped", Unit::Share, |(_, done)| done.dropped)
    .column("queue", Unit::Bdp, |(_, done)| done.queue_bdp)
    .column("RTT", Unit::Millis, |(_, done)| done.rtt_ms)
    .column("timeouts", Unit::Number, |(_, done)| done.timeouts)
    .table();
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
