//! The PCP paper's measurements at user level (NSDI 2006, §4.1) over real sockets: PCP and TCP-SACK, the same endpoints
//! that the simulator runs, over emulated paths, beside the kernel's own TCP and longhaul's default control. Paths,
//! claims and what the paper leaves open are those of the simulator's experiments of these names.

mod lossy;
mod path;
mod wide_area;

use super::{Claim, Experiment, ExperimentError, Findings};

pub(super) const EXPERIMENTS: &[Experiment] = &[wide_area::FIGURE_2, lossy::FIGURE_3];
