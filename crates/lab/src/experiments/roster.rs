//! Everything that there is to run: the lab's own experiments, and the simulator's of those that the lab has not.

use super::{Claim, Experiment, GROUPS, find};
use longhaul_sim::experiments as sim;

/// An experiment in the list of all.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The headline that it stands under.
    pub group: &'static str,
    /// Its name on the command line.
    pub id: &'static str,
    /// What it is about, in a line.
    pub title: &'static str,
    /// What is claimed.
    pub claims: &'static [Claim],
    /// Who runs it.
    pub runner: Runner,
}

impl Listed {
    /// A run may take some of its paths only.
    pub fn has_parts(&self) -> bool {
        matches!(self.runner, Runner::Lab(experiment) if experiment.has_parts)
    }
}

/// Who runs an experiment.
#[derive(Clone, Copy, Debug)]
pub enum Runner {
    /// The lab, over emulated paths.
    Lab(&'static Experiment),
    /// The simulator, on virtual time.
    Simulator(&'static sim::Experiment),
}

/// Every experiment, in the order in which all are run.
pub fn roster() -> impl Iterator<Item = Listed> {
    let measured = GROUPS.iter().flat_map(|group| {
        group.experiments.iter().map(|one| Listed {
            group: group.title,
            id: one.id,
            title: one.title,
            claims: one.claims,
            runner: Runner::Lab(one),
        })
    });
    let simulated = sim::GROUPS.iter().flat_map(|group| {
        group.experiments.iter().map(|one| Listed {
            group: group.title,
            id: one.id,
            title: one.title,
            claims: one.claims,
            runner: Runner::Simulator(one),
        })
    });
    measured.chain(simulated.filter(|one| find(one.id).is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lab_and_simulator_have_the_lab_runs() {
        let ids: Vec<&str> = roster().map(|one| one.id).collect();
        assert!(["psockets-a", "pcp-sim4", "pcp-sim11"].iter().all(|id| ids.contains(id)), "{ids:?}");
        for one in roster() {
            assert_eq!(ids.iter().filter(|id| **id == one.id).count(), 1, "{}", one.id);
            assert_eq!(matches!(one.runner, Runner::Lab(_)), find(one.id).is_some(), "{}", one.id);
        }
    }
}
