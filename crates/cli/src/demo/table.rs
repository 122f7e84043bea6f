//! The demo's table.

use crate::output::{harmless, share_text};

/// One line.
pub struct Row {
    /// Which path.
    pub path: String,
    /// What moved the bytes.
    pub tool: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a run.
pub enum Outcome {
    /// All arrived.
    Done {
        /// How long it took.
        seconds: f64,
        /// Data over that time, 10⁶ bit/s.
        mbps: f64,
        /// Share of packets sent in excess, where known.
        waste: Option<f64>,
        /// Whether the file at the far end is the file at the near end, where there are files.
        verified: Option<bool>,
    },
    /// It was stopped.
    TooSlow {
        /// After this time.
        seconds: f64,
        /// Its rate until then.
        mbps: f64,
    },
    /// It failed.
    Failed(String),
}

/// Formats rows against a limit.
pub struct Table {
    limit_mbps: f64,
}

impl Table {
    /// `limit_mbps` is 100 %.
    pub fn new(limit_mbps: f64) -> Table {
        Table { limit_mbps }
    }

    /// The head, below an introduction.
    pub fn head(&self, intro: &str) -> String {
        let cells = ["path", "tool", "seconds", "Mb/s", "of limit", "waste", "verified"];
        let head = line(&cells.map(String::from));
        format!("{intro}\n{head}\n{}", "─".repeat(head.chars().count()))
    }

    /// A row.
    pub fn row(&self, row: &Row) -> String {
        let of_limit = |mbps: f64| share_text(mbps / self.limit_mbps);
        let (path, tool) = (row.path.clone(), row.tool.clone());
        match &row.outcome {
            Outcome::Done { seconds, mbps, waste, verified } => {
                let verified = match verified {
                    Some(true) => "yes",
                    Some(false) => "NO",
                    None => NOTHING,
                };
                let waste = waste.map_or(NOTHING.into(), share_text);
                let (seconds, rate) = (format!("{seconds:.1}"), format!("{mbps:.1}"));
                line(&[path, tool, seconds, rate, of_limit(*mbps), waste, verified.into()])
            }
            Outcome::TooSlow { seconds, mbps } => {
                let (seconds, rate) = (format!("> {seconds:.0}"), format!("{mbps:.1}"));
                line(&[path, tool, seconds, rate, of_limit(*mbps), NOTHING.into(), NOTHING.into()])
            }
            Outcome::Failed(reason) => {
                let [path_width, tool_width, ..] = WIDTHS;
                harmless(&format!("{path:<path_width$}  {tool:<tool_width$}  failed: {reason}"))
            }
        }
    }
}

/// Names to the left, figures to the right.
fn line(cells: &[String; COLUMNS]) -> String {
    let cells = cells.iter().zip(WIDTHS).enumerate();
    let cells: Vec<_> = cells
        .map(
            |(at, (cell, width))| {
                if at < NAMES { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            },
        )
        .collect();
    cells.join("  ")
}

const COLUMNS: usize = 7;
/// The first columns hold names.
const NAMES: usize = 2;
const WIDTHS: [usize; COLUMNS] = [25, 9, 7, 6, 8, 6, 8];
const NOTHING: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_heads() {
        let table = Table::new(96.5);
        let head = table.head("Intro.");
        let row = |outcome| {
            let path = "100 Mb/s, 65 ms, no loss".into();
            table.row(&Row { path, tool: "longhaul".into(), outcome })
        };
        let shown = [
            head.lines().nth(1).unwrap().to_string(),
            row(Outcome::Done { seconds: 3.84, mbps: 83.3, waste: Some(0.012), verified: Some(true) }),
            row(Outcome::Done { seconds: 3.84, mbps: 83.3, waste: None, verified: None }),
            row(Outcome::TooSlow { seconds: 30.0, mbps: 3.1 }),
            row(Outcome::Failed("no route".into())),
        ];
        let expected = [
            "path                       tool       seconds    Mb/s  of limit   waste  verified",
            "100 Mb/s, 65 ms, no loss   longhaul       3.8    83.3      86 %   1.2 %       yes",
            "100 Mb/s, 65 ms, no loss   longhaul       3.8    83.3      86 %       –         –",
            "100 Mb/s, 65 ms, no loss   longhaul      > 30     3.1     3.2 %       –         –",
            "100 Mb/s, 65 ms, no loss   longhaul   failed: no route",
        ];
        assert_eq!(shown, expected);
    }
}
