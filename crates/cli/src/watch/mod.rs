//! A copy as programs see it while it runs: lines of JSON, a file of metrics, and a trace.

mod board;
mod textfile;
mod ticker;
mod trace;

pub use board::{Board, Figures, time_left};
pub use ticker::Ticker;
pub use trace::TraceFile;

use self::textfile::TextFile;
use crate::args::JsonForm;
use crate::failure::Failure;
use crate::{output, signals};
use longhaul::Summary;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What programs are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// JSON.
    pub json: Option<JsonForm>,
    /// Not on standard output, which is for the data.
    pub is_aside: bool,
    /// A file of metrics.
    pub metrics_file: Option<&'a Path>,
}

/// A line of `--json=lines`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Progress(&'a Figures),
    Summary(&'a Summary),
}

/// Tells programs how far a copy is, until it ends.
pub struct Watch {
    wanted: Option<JsonForm>,
    is_aside: bool,
    lines: Option<Ticker>,
    file: Option<(Ticker, Arc<TextFile>)>,
}

impl Watch {
    /// Begin.
    pub fn start(wanted: Wanted<'_>, board: &Arc<Board>) -> Result<Watch, Failure> {
        let Wanted { json, is_aside, metrics_file } = wanted;
        let file = metrics_file.map(TextFile::create).transpose()?.map(Arc::new);
        let file = file.map(|file| {
            let (written, board) = (file.clone(), board.clone());
            let write = move || written.update(&board);
            Ok::<_, Failure>((Ticker::start("metrics-file", METRICS_EVERY, write)?, file))
        });
        let lines = (json == Some(JsonForm::Lines)).then(|| {
            let board = board.clone();
            let tell = move || output::json(&Line::Progress(&board.figures()), is_aside);
            Ticker::start("json-lines", LINE_EVERY, tell)
        });
        Ok(Watch { wanted: json, is_aside, file: file.transpose()?, lines: lines.transpose()? })
    }

    /// The copy has ended: what came of it.
    pub fn end(self, board: &Board, summary: &Summary) {
        if let Some((ticker, file)) = self.file {
            drop(ticker);
            file.end(board, summary);
        }
        let (wanted, is_aside, summary) = (self.wanted, self.is_aside, summary.clone());
        let tell = move || tell_outcome(wanted, is_aside, &summary);
        match self.lines {
            // Who reads them may have stopped reading, and never go on.
            Some(lines) => lines.end(tell, signals::is_stopped),
            None => tell(),
        }
    }
}

/// Print what came of a copy, in the form that was asked for.
pub fn tell_outcome(wanted: Option<JsonForm>, is_aside: bool, summary: &Summary) {
    match wanted {
        Some(JsonForm::Object) => output::json(summary, is_aside),
        Some(JsonForm::Lines) => output::json(&Line::Summary(summary), is_aside),
        None => {}
    }
}

const LINE_EVERY: Duration = Duration::from_secs(1);
/// Node exporters are asked every fifteen seconds or more rarely.
const METRICS_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_says_of_what_type_it_is() {
        let board = Board::default();
        let value = |line: &Line<'_>| serde_json::to_value(line).unwrap();
        assert_eq!(value(&Line::Progress(&board.figures()))["type"], "progress");
        let summary = output::failed_summary("no", "adaptive");
        let mut tagged = value(&Line::Summary(&summary));
        assert_eq!(tagged.as_object_mut().unwrap().remove("type"), Some("summary".into()));
        assert_eq!(tagged, serde_json::to_value(&summary).unwrap(), "but for that the object of --json");
    }
}
