//! The list of all experiments.

use crate::experiment::Experiment;
use crate::report::{Listed, ResultError, Results, Stored};
use crate::{
    against, ecn, fairness, fleet, fobs, grid, multipath, pcp, psockets, ptcp, sharing, streams, switch,
    transports,
};
use std::path::Path;

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
        title: "Parallel TCP: the paper's comparison of variants, single and parallel",
        experiments: ptcp::EXPERIMENTS,
    },
    Group {
        title: "PCP: Anderson, Collins, Krishnamurthy and Zahorjan, probing instead of filling the queue",
        experiments: pcp::WIDE_AREA,
    },
    Group { title: "PCP: on a shared link", experiments: pcp::SIMULATIONS },
    Group { title: "PCP: what each of its parts is worth", experiments: pcp::PARTS },
    Group { title: "Our own: striped streams", experiments: streams::EXPERIMENTS },
    Group { title: "Our own: copies", experiments: &[transports::EXPERIMENT, multipath::EXPERIMENT] },
    Group {
        title: "Our own: sharing a path",
        experiments: &[fairness::EXPERIMENT, sharing::EXPERIMENT, ecn::EXPERIMENT],
    },
    Group { title: "Our own: beside other programs", experiments: against::EXPERIMENTS },
    Group {
        title: "Our own: in the simulator",
        experiments: &[grid::EXPERIMENT, switch::EXPERIMENT, fleet::EXPERIMENT],
    },
];

/// Every experiment and its group's title, in the order of the list.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Experiment)> {
    GROUPS.iter().flat_map(|group| group.experiments.iter().map(|one| (group.title, one)))
}

/// Those that can be simulated.
pub fn simulated() -> impl Iterator<Item = (&'static str, &'static Experiment)> {
    all().filter(|(_, one)| one.can_be_simulated())
}

impl Results {
    /// Those of a folder, of each experiment the largest of either origin; what cannot be read in it is left out and told by [`Results::bad`].
    pub fn read(folder: &Path) -> Result<Results, ResultError> {
        Results::read_among(listed(), folder)
    }

    /// Those given.
    pub fn of(found: Vec<Stored>) -> Results {
        Results::among(listed(), found)
    }
}

fn listed() -> impl Iterator<Item = Listed> {
    all().map(|(group, one)| Listed { group, id: one.id, title: one.title, differs: one.differs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scale, sim};

    #[test]
    fn names_differ_and_claims_are_made() {
        for list in [all().collect::<Vec<_>>(), simulated().collect()] {
            let mut ids: Vec<_> = list.iter().map(|(_, one)| one.id).collect();
            ids.sort_unstable();
            assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
            assert!(list.iter().all(|(_, one)| !one.claims.is_empty()));
        }
        let ids: Vec<&str> = all().map(|(_, one)| one.id).collect();
        assert!(["psockets-a", "pcp-sim4", "grid"].iter().all(|id| ids.contains(id)), "{ids:?}");
    }

    #[test]
    fn every_simulation_runs_and_answers_its_claims() {
        for (_, experiment) in simulated() {
            let options = sim::Options { scale: Scale::Smoke, threads: 2, ..sim::Options::default() };
            let report = experiment.simulate(&options);
            let answered: Vec<_> =
                report.statements.iter().map(|statement| statement.claim.as_str()).collect();
            let claimed: Vec<_> = experiment.claims.iter().map(|claim| claim.text).collect();
            assert_eq!(answered, claimed, "{}", experiment.id);
            assert!(!report.method.is_empty(), "{}", experiment.id);
            assert!(report.tables.iter().any(|table| !table.rows.is_empty()), "{}", experiment.id);
            assert!(report.tables.iter().any(|table| !table.plots.is_empty()), "{}", experiment.id);
        }
    }
}
