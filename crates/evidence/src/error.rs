//! What can keep an experiment from a result.

use longhaul_lab::LabError;

/// Why an experiment came to no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// No path could be made.
    #[error("{0}")]
    Lab(#[from] LabError),
    /// A program at an end of a path did not do its part.
    #[error("{program}: {reason}")]
    Program {
        /// Which one.
        program: String,
        /// The last that it said, or what came of it.
        reason: String,
    },
    /// More than can be: the measurement is faulty, and nothing is to be said of the rest either.
    #[error(
        "{mbps:.1} Mb/s were measured where {limit_mbps:.1} Mb/s can be at most: the measurement is faulty"
    )]
    Impossible {
        /// What was measured.
        mbps: f64,
        /// What the path can carry.
        limit_mbps: f64,
    },
    /// [`crate::lab::Options::only`] is in no path's name.
    #[error("no path's name contains {only:?}; choose from: {}", parts.join("; "))]
    NoSuchPart {
        /// What was asked for.
        only: String,
        /// Names of all paths.
        parts: Vec<String>,
    },
    /// [`crate::lab::Options::stop`] was set.
    #[error("interrupted")]
    Interrupted,
}
