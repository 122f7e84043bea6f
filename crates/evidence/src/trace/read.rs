//! A trace in a file. Whoever wrote it may have been killed, and it may be no trace at all.

use longhaul_cli::trace::{Event, FILE_SCHEMA, Header, OUR_EVENTS, RECORD_SEPARATOR, Record, Role};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What a copy wrote down of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Whose it is.
    pub header: Header,
    /// What happened, in the order of time.
    pub records: Vec<Record>,
    /// Events that are not understood, as later versions may write them.
    pub others: u64,
    /// Its last line is cut off: who wrote it was killed, or had no room left.
    pub is_cut: bool,
}

/// Why a trace cannot be read. Every text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing that longhaul wrote.
    #[error("{}: {reason}; longhaul cp --trace writes one", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it is in place of a trace.
        reason: String,
    },
    /// It is not what was written.
    #[error("{}, line {line}: {reason}; the trace is damaged, write it anew", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong there.
        reason: String,
    },
}

/// What is wrong with some bytes.
#[derive(Debug, PartialEq)]
pub(super) enum Problem {
    Foreign(String),
    Damaged(u64, String),
}

/// What every line has.
#[derive(Deserialize)]
struct Bare {
    time: f64,
    name: String,
}

impl Trace {
    /// Read it.
    pub fn read(path: &Path) -> Result<Trace, TraceError> {
        let mut bytes = vec![];
        File::open(path)
            .and_then(|file| file.take(LEN_MAX + 1).read_to_end(&mut bytes))
            .map_err(|source| TraceError::Unreadable { path: path.into(), source })?;
        Trace::parse(&bytes).map_err(|problem| match problem {
            Problem::Foreign(reason) => TraceError::Foreign { path: path.into(), reason },
            Problem::Damaged(line, reason) => TraceError::Damaged { path: path.into(), line, reason },
        })
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Trace, Problem> {
        let foreign = |reason: &str| Err(Problem::Foreign(reason.into()));
        if bytes.len() as u64 > LEN_MAX {
            return foreign("is larger than any trace");
        }
        let Some((&RECORD_SEPARATOR, lines)) = bytes.split_first() else {
            return foreign("is no trace");
        };
        let mut lines = lines.split(|byte| *byte == RECORD_SEPARATOR);
        let Ok(header) = serde_json::from_slice::<Header>(lines.next().unwrap_or_default()) else {
            return foreign("is no trace, or one whose first line was cut off");
        };
        let knows = |schema: &str| header.trace.event_schemas.iter().any(|known| known == schema);
        if header.file_schema != FILE_SCHEMA || !knows(OUR_EVENTS) {
            return foreign("is a qlog file of another program");
        }
        let mut trace = Trace { header, records: vec![], others: 0, is_cut: false };
        let mut lines = lines.zip(2..).peekable();
        while let Some((line, number)) = lines.next() {
            // RFC 7464 §2.4: what lacks the end may be cut off without looking so.
            if lines.peek().is_none() && line.last() != Some(&b'\n') {
                trace.is_cut = true;
                break;
            }
            trace.take(line).map_err(|reason| Problem::Damaged(number, reason))?;
        }
        if trace.records.is_empty() {
            return foreign("has no events: the copy ended before it began");
        }
        Ok(trace)
    }

    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let record: Record = match serde_json::from_slice(line) {
            Ok(record) => record,
            Err(error) => {
                return match serde_json::from_slice(line) {
                    Ok(Bare { time, name }) if TIMES_MS.contains(&time) && name.contains(':') => {
                        self.others += 1;
                        Ok(())
                    }
                    _ => Err(error.to_string()),
                };
            }
        };
        if !TIMES_MS.contains(&record.time) {
            return Err(format!("no copy takes {} ms", record.time));
        }
        if self.records.last().is_some_and(|last| record.time < last.time) {
            return Err("the time goes back".into());
        }
        if !record.path.is_empty() && !record.path.parse().is_ok_and(|path: usize| path < PATHS_MAX) {
            return Err(format!("a copy has {PATHS_MAX} paths at most"));
        }
        self.records.push(record);
        Ok(())
    }

    /// Of a sender that has not told anything.
    pub(super) fn empty() -> Trace {
        Trace { header: Header::new(Role::Sender, String::new()), records: vec![], others: 0, is_cut: false }
    }

    /// How many paths it tells of.
    pub(super) fn paths(&self) -> usize {
        1 + self.records.iter().filter_map(|record| record.path.parse().ok()).max().unwrap_or(0)
    }

    /// What it tells of a path, as if that were the only one, and of the copy.
    pub(super) fn of_path(&self, number: usize) -> Trace {
        let is_its = |record: &Record| record.path.parse().unwrap_or(0) == number;
        let is_of_a_path = |event: &Event| {
            matches!(
                event,
                Event::PathCounted(_) | Event::Recovery(_) | Event::State(_) | Event::PathChecked(_)
            )
        };
        let kept = self.records.iter().filter(|record| is_its(record) || !is_of_a_path(&record.event));
        let records = kept.map(|record| Record { path: String::new(), ..record.clone() }).collect();
        Trace { records, header: self.header.clone(), ..*self }
    }

    /// When its last event was.
    pub(super) fn end_s(&self) -> f64 {
        self.records.last().map_or(0.0, |record| record.time / 1e3)
    }

    /// What came of the copy, if it came to its end.
    pub(super) fn summary(&self) -> Option<&serde_json::Value> {
        self.records.iter().rev().find_map(|record| match &record.event {
            Event::Ended(summary) => Some(summary),
            _ => None,
        })
    }
}

/// A month's trace has some ten megabytes.
const LEN_MAX: u64 = 256 << 20;
/// Up to thirty years.
const TIMES_MS: std::ops::RangeInclusive<f64> = 0.0..=1e12;
/// As a session has.
const PATHS_MAX: usize = 8;

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;
