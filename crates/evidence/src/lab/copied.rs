//! What `longhaul cp --json` says came of a copy.

use super::bench::Bench;
use super::process::Process;
use crate::ExperimentError;
use serde::Deserialize;
use std::time::Duration;

/// Why a copy came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CopyError {
    /// The program says so.
    #[error("{reason}")]
    Failed {
        /// The last that it said.
        reason: String,
    },
    /// It says something else than it should.
    #[error("says what nobody understands: {reason}")]
    Unintelligible {
        /// What is wrong with it.
        reason: String,
    },
    /// The bytes at the other end are others, or too few.
    #[error("it says that all is there, and it is not")]
    NotWhole,
}

impl CopyError {
    pub(crate) fn failed(reason: impl Into<String>) -> CopyError {
        CopyError::Failed { reason: reason.into() }
    }
}

/// What came of a copy: some of the fields of `--json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Copied {
    ok: bool,
    pub(crate) seconds: f64,
    pub(crate) goodput_mbps: f64,
    /// (sent − required) / required.
    pub(crate) waste: f64,
    pub(crate) transport: String,
    pub(crate) streams: u32,
    pub(crate) switches: Vec<Switch>,
    pub(crate) limited_by: Option<String>,
    #[serde(default)]
    pub(crate) paths: Vec<OnPath>,
    error: Option<String>,
}

/// What one of several paths carried.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct OnPath {
    pub(crate) packets_sent: u64,
}

/// A change of what carries the data.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Switch {
    pub(crate) seconds: f64,
    pub(crate) to: String,
    pub(crate) why: String,
}

impl Copied {
    /// Of a copy that runs, once it has said so. What did not work within `limit` is a line that says why.
    pub(crate) fn of(
        process: &mut Process,
        bench: &Bench<'_>,
        limit: Duration,
    ) -> Result<Result<Copied, CopyError>, ExperimentError> {
        match process.line(bench, limit) {
            Ok(line) => Ok(Copied::read(&line)),
            Err(ExperimentError::Program { reason, .. }) => Ok(Err(CopyError::Failed { reason })),
            Err(other) => Err(other),
        }
    }

    /// From what the program said; or else what went wrong.
    pub(crate) fn read(said: &str) -> Result<Copied, CopyError> {
        let line = said.lines().last().unwrap_or_default();
        let unintelligible =
            |error: serde_json::Error| CopyError::Unintelligible { reason: error.to_string() };
        let copied: Copied = serde_json::from_str(line).map_err(unintelligible)?;
        if copied.ok {
            Ok(copied)
        } else {
            Err(CopyError::failed(copied.error.unwrap_or("it failed".into())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_last_line_tells_what_came_of_it() {
        let done = r#"{"ok":true,"seconds":2.5,"goodput_mbps":8.0,"waste":0.01,"transport":"stripe","streams":4,"switches":[{"seconds":1.0,"to":"stripe",
            "why":"UDP is blocked","from":"object"}],"error":null}"#.replace('\n', "");
        let copied = Copied::read(&done).unwrap();
        assert_eq!((copied.seconds, copied.streams, copied.switches[0].to.as_str()), (2.5, 4, "stripe"));
        let failed = r#"{"ok":false,"seconds":2.5,"goodput_mbps":8.0,"waste":0.01,"transport":"","streams":0,"switches":[],"error":"no such host"}"#;
        assert_eq!(Copied::read(failed).unwrap_err(), CopyError::failed("no such host"));
        assert!(matches!(Copied::read(""), Err(CopyError::Unintelligible { .. })));
    }
}
