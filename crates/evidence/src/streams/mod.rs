//! Striped streams against the bars that are ours.

mod auto;
mod loopback;
mod loss;

use crate::experiment::Experiment;

pub(crate) const EXPERIMENTS: &[Experiment] = &[auto::EXPERIMENT, loss::EXPERIMENT, loopback::EXPERIMENT];
