//! The scenarios that come with the project: every file of `scenarios/`, by its name.

use super::{Scenario, ScenarioError};
use longhaul_proto::suggest::unknown;

impl Scenario {
    /// One that comes with the project. Experiments and tests name it, or vary it.
    pub fn named(name: &str) -> Result<Scenario, ScenarioError> {
        let names = Scenario::names();
        let file = FILES.iter().find(|file| file.0 == name);
        let file = file.ok_or_else(|| ScenarioError::invalid(None, unknown("scenario", name, names)))?;
        Scenario::parse(file.1)
    }

    /// The names of all that come with the project.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|file| file.0)
    }
}

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))),*]
    };
}

/// Names and texts.
const FILES: &[(&str, &str)] = files! {
    "bursts-100m"
    "chicago-ann-arbor"
    "clean-20m"
    "codel-ecn-50m"
    "crossed-100m"
    "data-centre"
    "dsl"
    "dsl-codel"
    "dsl-fq"
    "dualpi2-50m"
    "fobs-nic"
    "fobs-oc12"
    "gigabit"
    "long-haul-100m"
    "lossy-100m"
    "lossy-50m"
    "mobile"
    "parallel-tcp-10m"
    "pcp-lossy-45m"
    "rough"
    "satellite"
    "shallow-20m"
    "shared-100m"
    "short-haul-100m"
    "steps-100m"
    "ten-gigabit"
    "transatlantic-lossy"
    "two-way-50m"
};
