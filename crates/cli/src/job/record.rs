//! Which jobs a copy has: `job.json` in RUN.

use super::slurm::JobId;
use crate::failure::Failure;
use crate::values::describe;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The jobs that were submitted last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Of the parts: an array, or one with a step.
    pub parts: JobId,
    /// Of the last step. Nothing if it could not be submitted.
    pub finish: Option<JobId>,
}

impl Record {
    /// That of a plan, if any job was submitted from there.
    pub fn find(run: &Path) -> Result<Option<Record>, Failure> {
        let path = run.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::Failed(format!("{}: {}", path.display(), describe(&error)))),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            Failure::Failed(format!("{}: {error}; submit the scripts there by hand", path.display()))
        })
    }

    /// That of a plan from which one was submitted.
    pub fn load(run: &Path) -> Result<Record, Failure> {
        let nothing =
            || format!("{}: no job was submitted from here (longhaul job submit does)", run.display());
        Record::find(run)?.ok_or_else(|| Failure::Failed(nothing()))
    }

    /// Put it in place of the one before, which is there until then.
    pub fn save(&self, run: &Path) -> Result<(), Failure> {
        let text = serde_json::to_vec(self).map_err(|error| Failure::Failed(error.to_string()))?;
        let (path, new) = (run.join(FILE), run.join(format!("{FILE}.new")));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| Failure::Failed(format!("{}: {}", path.display(), describe(&error))))
    }

    /// All of them.
    pub fn jobs(&self) -> Vec<JobId> {
        [&self.parts].into_iter().chain(&self.finish).cloned().collect()
    }
}

const FILE: &str = "job.json";
