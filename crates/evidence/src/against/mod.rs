//! longhaul beside other programs: the same bytes over the same paths, in turn.

mod cpu;
mod loopback;
mod runs;
mod small_files;
mod versus;

use crate::experiment::Experiment;

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[versus::EXPERIMENT, small_files::EXPERIMENT, loopback::EXPERIMENT, cpu::EXPERIMENT];
