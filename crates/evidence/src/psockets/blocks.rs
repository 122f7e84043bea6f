//! psockets-blocks: equal partitions, as PSockets has them, against blocks of 8 KB in turn, as the work for satellites before
//! it (XFTP), and against longhaul's own.

use super::{Condition, WINDOWS_BYTES, believable_mbps, method, over_conditions, paper_stream};
use crate::ExperimentError;
use crate::experiment::Experiment;
use crate::lab::bench::Bench;
use crate::lab::figures::{median, possible};
use crate::lab::striped::{Amount, Partition, Striped};
use crate::report::{Claim, Findings, Plot, Statement, Table, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment::measured(
    "psockets-blocks",
    "Eight sockets: equal partitions against blocks of 8 KB and longhaul's own",
    &[EQUAL, OURS],
    measure,
);

const EQUAL: Claim = Claim::paper(
    "PSockets §2, in place of XFTP's blocks",
    "data in as many equal partitions as sockets goes faster than in blocks of 8 KB (by a twentieth at least)",
);
const OURS: Claim = Claim::ours(
    "longhaul's blocks go as fast as either, whatever holds the sockets back (a twentieth less at most)",
);

/// What came of a way to part the data: the median over the rounds.
struct Row {
    way: &'static str,
    mbps: f64,
}

/// Under one condition, in the order of [`WAYS`].
type Rows = Vec<Row>;

fn measure(bench: &Bench<'_>) -> Result<Findings, ExperimentError> {
    let rounds = bench.pick(15, 5, 1);
    let bytes = bench.pick(64 << 20, 32 << 20, 1 << 20);
    let conditions = bench.pick(&CONDITIONS[..], &CONDITIONS[..], &CONDITIONS[..1]);
    bench.expect_runs(conditions.len() * WAYS.len() * rounds);
    let method = vec![
        method(),
        format!(
            "{} MiB in one write, so that a partition is an eighth of all; goodput until the last byte was acknowledged, the \
             median of {rounds} rounds, in turns.",
            bytes >> 20
        ),
    ];
    let mut all: Vec<(String, Rows)> = vec![];
    let mut findings = over_conditions(bench, conditions, method, |condition, lab| {
        let mut mbps = vec![vec![]; WAYS.len()];
        for _ in 0..rounds {
            for ((_, partition), mbps) in WAYS.iter().zip(&mut mbps) {
                let stream = Striped {
                    window_bytes: condition.buffer(),
                    partition: *partition,
                    write_bytes: bytes,
                    ..paper_stream(SOCKETS, Amount::Bytes(bytes))
                };
                let sent = stream.run(bench, lab)?.sent;
                mbps.push(possible(sent.bytes as f64 * 8e-6 / sent.seconds, believable_mbps(bench))?);
            }
        }
        let of = |((way, _), mbps): (&(&'static str, Partition), Vec<f64>)| Row {
            way,
            mbps: median(mbps).unwrap_or_default(),
        };
        let rows: Rows = WAYS.iter().zip(mbps).map(of).collect();
        let found = (vec![judge_equal(&rows)], table(&rows));
        all.push((condition.to_string(), rows));
        Ok(found)
    })?;
    findings.statements.push(judge_ours(&all));
    Ok(findings)
}

fn table(rows: &[Row]) -> Table {
    Table::of("goodput", "Goodput of eight sockets", rows)
        .text("data in", |row| row.way)
        .column("goodput", Unit::Mbps, |row| row.mbps)
        .table()
        .plot(Plot::bars("data in", &["goodput"]))
}

fn judge_equal(rows: &[Row]) -> Statement {
    let [equal, blocks, ..] = rows else { return EQUAL.leave_open("too little was measured") };
    EQUAL
        .judge(blocks.mbps <= ALIKE * equal.mbps, format!("{:.1} against {:.1} Mb/s", equal.mbps, blocks.mbps))
        .otherwise("the last partition is done when its socket is, however slow, while blocks go to the sockets that have room")
}

fn judge_ours(all: &[(String, Rows)]) -> Statement {
    let others = |rows: &Rows| rows[..2].iter().map(|row| row.mbps).fold(0.0, f64::max);
    let figures = all.iter().map(|(condition, rows)| {
        format!("{:.1} against {:.1} Mb/s at {condition}", rows[2].mbps, others(rows))
    });
    OURS.judge(
        all.iter().all(|(_, rows)| rows[2].mbps >= ALIKE * others(rows)),
        figures.collect::<Vec<_>>().join(", "),
    )
}

/// Equal partitions first, XFTP's blocks second, ours last.
const WAYS: [(&str, Partition); 3] = [
    ("equal partitions", Partition::Equal),
    ("blocks of 8 KB", Partition::Blocks(8 << 10)),
    ("longhaul's blocks", Partition::Auto),
];
const SOCKETS: u32 = 8;
/// What holds the sockets back: their windows; losses; others.
const CONDITIONS: [Condition; 3] = [
    Condition { window_bytes: Some(WINDOWS_BYTES[1]), ..Condition::PLAIN },
    Condition { window_bytes: Some(WINDOWS_BYTES[0]), loss: 0.001, ..Condition::PLAIN },
    Condition { window_bytes: Some(WINDOWS_BYTES[1]), others: 0.3, ..Condition::PLAIN },
];
/// What is less by less is as much.
const ALIKE: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn a_way_that_waits_for_its_slowest_socket_is_seen() {
        let rows = |mbps: [f64; 3]| -> Rows {
            WAYS.iter().zip(mbps).map(|((way, _), mbps)| Row { way, mbps }).collect()
        };
        let verdicts = |mbps: [f64; 3]| {
            [judge_equal(&rows(mbps)).verdict, judge_ours(&[(String::new(), rows(mbps))]).verdict]
        };
        assert_eq!(verdicts([82.0, 77.0, 81.0]), [Verdict::Reproduced, Verdict::Met]);
        assert_eq!(verdicts([80.0, 79.0, 81.0]), [Verdict::NotReproduced, Verdict::Met]);
        assert_eq!(verdicts([60.0, 82.0, 77.0]), [Verdict::NotReproduced, Verdict::NotMet]);
    }
}
