//! Striped streams against the bars that are ours.

mod auto;
mod loopback;
mod loss;
mod paths;

use super::Experiment;

pub(super) const EXPERIMENTS: &[Experiment] = &[auto::EXPERIMENT, loss::EXPERIMENT, loopback::EXPERIMENT];
