//! A result in a file.

use super::lines::{self, end_line, head_line, report_lines};
use super::{Head, Origin};
use longhaul_sim::experiments::{Report, Scale};
use serde_json::Value as Json;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A report, where it comes from and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// How it came about.
    pub head: Head,
    /// What was found.
    pub report: Report,
    /// How long it took.
    pub seconds: f64,
}

/// Why a result cannot be read. Every text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what was written.
    #[error("{}, line {line}: {reason}; the result is damaged, measure it again: longhaul lab run {id}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// The experiment's name.
        id: String,
    },
    /// Another version of this program wrote it.
    #[error(
        "{}, line {line}: {reason}; the result is of another version, measure it again: longhaul lab run {id}",
        path.display()
    )]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is not understood there.
        reason: String,
        /// The experiment's name.
        id: String,
    },
}

impl Stored {
    /// As JSON lines.
    pub fn lines(&self) -> Vec<Json> {
        let report = report_lines(&self.report);
        [head_line(&self.head)].into_iter().chain(report).chain([end_line(self.seconds)]).collect()
    }

    /// Where a folder of results has that of an experiment.
    pub fn path(folder: &Path, id: &str) -> PathBuf {
        folder.join(format!("{id}.{EXTENSION}"))
    }

    /// Keep it in a folder, in place of an earlier one; there is never half of it under its name.
    pub fn store(&self, folder: &Path) -> io::Result<PathBuf> {
        let path = Stored::path(folder, &self.report.id);
        let part = path.with_extension("part");
        let mut file = BufWriter::new(File::create(&part)?);
        self.lines().iter().try_for_each(|line| writeln!(file, "{line}"))?;
        file.into_inner()?.sync_all()?;
        fs::rename(&part, &path)?;
        Ok(path)
    }

    /// Read it back.
    pub fn read(path: &Path) -> Result<Stored, ResultError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ResultError::Unreadable { path: path.to_owned(), source })?;
        lines::read(&text).map_err(|bad| {
            let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (path, line, reason) = (path.to_owned(), bad.number, bad.reason);
            if bad.is_foreign {
                ResultError::Foreign { path, line, reason, id }
            } else {
                ResultError::Damaged { path, line, reason, id }
            }
        })
    }

    /// Whether measuring would give the same but for chance: it is all of an experiment, by this program, at this scale and
    /// with this seed.
    pub fn is_of(&self, version: &str, origin: Origin, scale: Scale, seed: u64) -> bool {
        let head = &self.head;
        (head.version.as_str(), head.origin, head.scale.as_str()) == (version, origin, scale.name())
            && head.seed == seed
            && head.only.is_none()
    }
}

/// What the files of results end in.
pub(super) const EXTENSION: &str = "jsonl";
