//! The demo's table.

use crate::lab::race::Outcome;
use crate::program::output::{harmless, share_text};

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

    /// A row: which path, what moved so many bytes, and what came of it.
    pub fn row(&self, path: &str, tool: &str, bytes: u64, outcome: &Outcome) -> String {
        let cells = |took: String, bytes: u64, seconds: f64, waste: String, verified: &str| {
            let mbps = bytes as f64 * 8e-6 / seconds;
            let of_limit = share_text(mbps / self.limit_mbps);
            line(&[path.into(), tool.into(), took, format!("{mbps:.1}"), of_limit, waste, verified.into()])
        };
        match outcome {
            Outcome::Done { seconds, waste, .. } => {
                let verified = if waste.is_some() { "yes" } else { NOTHING };
                let waste = waste.map_or(NOTHING.into(), share_text);
                cells(format!("{seconds:.1}"), bytes, *seconds, waste, verified)
            }
            Outcome::TooSlow { seconds, bytes } => {
                cells(format!("> {seconds:.0}"), *bytes, *seconds, NOTHING.into(), NOTHING)
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
        let row = |outcome: Outcome| table.row("100 Mb/s, 65 ms, no loss", "longhaul", 40_000_000, &outcome);
        let done = |waste| Outcome::Done { seconds: 3.84, waste, limited_by: String::new() };
        let shown = [
            head.lines().nth(1).unwrap().to_string(),
            row(done(Some(0.012))),
            row(done(None)),
            row(Outcome::TooSlow { seconds: 30.0, bytes: 11_625_000 }),
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
