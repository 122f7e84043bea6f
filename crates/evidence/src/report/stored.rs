//! A result in a file.

use super::lines::{self, Stored};
use super::{Head, Origin};
use crate::Scale;
use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

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
    #[error("{}, line {line}: {reason}; the result is damaged, {again}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// How to come to it anew.
        again: String,
    },
    /// Another version of this program wrote it.
    #[error("{}, line {line}: {reason}; the result is of another version, {again}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is not understood there.
        reason: String,
        /// How to come to it anew.
        again: String,
    },
}

impl Stored {
    /// Where a folder of results has the one of this name ([`Experiment::file_stem`](crate::Experiment::file_stem)).
    pub fn path(folder: &Path, stem: &str) -> PathBuf {
        folder.join(format!("{stem}.{EXTENSION}"))
    }

    /// Where it may have a whole one of this scale: there, or beside a larger one.
    pub fn paths(folder: &Path, stem: &str, scale: Scale) -> [PathBuf; 2] {
        [Stored::path(folder, stem), Stored::path(folder, &format!("{stem}.{}", scale.name()))]
    }

    /// Keep it in a folder, in place of an earlier one unless that is larger: then beside it, under a name that tells the
    /// scale and whether it is a part. There is never half of it under its name.
    pub fn store(&self, folder: &Path, stem: &str) -> io::Result<PathBuf> {
        let mut path = Stored::path(folder, stem);
        // What cannot be read is worth nothing.
        if Stored::read(&path).is_ok_and(|earlier| !self.replaces(&earlier)) {
            let part = if self.head.only.is_some() { "-part" } else { "" };
            path = Stored::path(folder, &format!("{stem}.{}{part}", self.head.scale));
        }
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
            let again = again(path);
            let (path, line, reason) = (path.to_owned(), bad.number, bad.reason);
            if bad.is_foreign {
                ResultError::Foreign { path, line, reason, again }
            } else {
                ResultError::Damaged { path, line, reason, again }
            }
        })
    }

    /// Whether a run that would begin with `wanted` gave the same but for chance: it is all of an experiment, by the same build
    /// of this program, at that scale, with that seed and, if it was measured, on that kernel.
    pub fn is_of(&self, wanted: &Head) -> bool {
        let whole = Head { only: None, ..wanted.clone() };
        self.head.identity().is_some_and(|of| Some(of) == whole.identity())
    }

    /// It is not less than this one: of no smaller scale, and with as many figures, if not both are whole.
    fn replaces(&self, earlier: &Stored) -> bool {
        let are_whole = self.head.only.is_none() && earlier.head.only.is_none();
        self.scale_rank() >= earlier.scale_rank() && (are_whole || self.rows() >= earlier.rows())
    }

    fn scale_rank(&self) -> Option<usize> {
        let scales = [Scale::Smoke, Scale::Quick, Scale::Full];
        scales.iter().position(|scale| scale.name() == self.head.scale)
    }

    fn rows(&self) -> usize {
        self.report.tables.iter().map(|table| table.rows.len()).sum()
    }
}

/// Whether a larger result of the same experiment and origin stands beside this file, which is that one's by its name.
pub(super) fn is_outdone(path: &Path) -> bool {
    let (id, is_simulated) = named(path);
    let stem = if is_simulated { format!("{id}.{SIMULATED}") } else { id };
    let whole = Stored::path(path.parent().unwrap_or(Path::new("")), &stem);
    whole != path && Stored::read(&whole).is_ok()
}

/// One of each experiment and origin, by name: the largest. What was measured comes first.
pub(super) fn largest(mut found: Vec<Stored>) -> Vec<Stored> {
    let kind = |stored: &Stored| (stored.report.id.clone(), stored.head.origin == Origin::Simulator);
    // A folder has no order.
    found.sort_by_key(|stored| {
        (kind(stored), Reverse((stored.scale_rank(), stored.head.only.is_none(), stored.rows())))
    });
    found.dedup_by_key(|stored| kind(stored));
    found
}

/// The experiment whose result is in a file of this name, and whether it stands beside a measured one.
fn named(path: &Path) -> (String, bool) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = name.split('.');
    let id = parts.next().unwrap_or_default().to_owned();
    (id, parts.next() == Some(SIMULATED))
}

fn again(path: &Path) -> String {
    match named(path) {
        (id, false) => format!("measure it again: longhaul lab run {id}"),
        (id, true) => format!("simulate it again: longhaul sim {id} --json >{}", path.display()),
    }
}

/// What the name of a simulated result has in it that stands beside a measured one.
const SIMULATED: &str = Origin::Simulator.words();

/// What the files of results end in.
pub(super) const EXTENSION: &str = "jsonl";
