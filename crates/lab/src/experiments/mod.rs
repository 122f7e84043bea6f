//! The experiments of the papers, and our own, over emulated paths with real programs and the kernel's own TCP.
//!
//! An [`Experiment`] says beforehand what is claimed; [`Experiment::run`] builds paths, runs the built program at their
//! ends and hands back a [`Report`], as the simulator's experiments do. A new one is a file of its own and its entry in
//! [`GROUPS`].

mod abreast;
mod against;
mod bench;
mod copies;
mod crowd;
mod datagrams;
mod fairness;
mod figures;
mod fobs;
mod iperf;
mod pcp;
mod peers;
mod process;
mod psockets;
mod ptcp;
mod roster;
mod streams;
mod striped;
mod transports;

pub use bench::Options;
pub use longhaul_sim::experiments::{Claim, Findings, Report, Scale, Statement, Verdict};
pub use roster::{Listed, Runner, roster};

use crate::LabError;
use bench::Bench;
use std::fmt;

/// Something to measure, and what is said of it.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// What is claimed, by a paper or by us; the report judges each.
    pub claims: &'static [Claim],
    /// It looks at several paths, of which a run may take some only.
    pub has_parts: bool,
    measure: fn(&Bench<'_>) -> Result<Findings, ExperimentError>,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("id", &self.id).finish_non_exhaustive()
    }
}

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
    /// [`Options::only`] is in no path's name.
    #[error("no path's name contains {only:?}; choose from: {}", parts.join("; "))]
    NoSuchPart {
        /// What was asked for.
        only: String,
        /// Names of all paths.
        parts: Vec<String>,
    },
    /// [`Options::stop`] was set.
    #[error("interrupted")]
    Interrupted,
}

impl Experiment {
    /// Measure, and report.
    pub fn run(&self, options: &Options<'_>) -> Result<Report, ExperimentError> {
        let bench = Bench::new(*options);
        let Findings { mut method, tables, statements } = (self.measure)(&bench)?;
        bench.check_parts()?;
        method.extend(bench.warning());
        Ok(Report { id: self.id.into(), title: self.title.into(), method, tables, statements })
    }
}

/// Experiments that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Where they come from.
    pub title: &'static str,
    /// In order.
    pub experiments: &'static [Experiment],
}

/// Every experiment, by where it comes from.
pub const GROUPS: &[Group] = &[
    Group {
        title: "FOBS: Dickens and Gropp, object-based data transfers on high performance networks",
        experiments: fobs::EXPERIMENTS,
    },
    Group {
        title: "PSockets: Sivakumar, Bailey and Grossman, data striped over parallel sockets",
        experiments: psockets::EXPERIMENTS,
    },
    Group {
        title: "Parallel TCP: the paper's comparison of variants, single and parallel, by the kernel's own",
        experiments: ptcp::EXPERIMENTS,
    },
    Group {
        title: "PCP: Anderson, Collins, Krishnamurthy and Zahorjan, probing instead of filling the queue",
        experiments: pcp::EXPERIMENTS,
    },
    Group { title: "Our own: striped streams", experiments: streams::EXPERIMENTS },
    Group { title: "Our own: copies", experiments: transports::EXPERIMENTS },
    Group { title: "Our own: sharing a path", experiments: fairness::EXPERIMENTS },
    Group { title: "Our own: beside other programs", experiments: against::EXPERIMENTS },
];

/// Every experiment, in the order of a list.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    GROUPS.iter().flat_map(|group| group.experiments)
}

/// The experiment of that name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    all().find(|one| one.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_claims_are_made() {
        let mut ids: Vec<_> = all().map(|one| one.id).collect();
        assert!(ids.iter().all(|id| find(id).is_some_and(|one| one.id == *id && !one.claims.is_empty())));
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        assert!(find("psockets").is_none());
    }
}
