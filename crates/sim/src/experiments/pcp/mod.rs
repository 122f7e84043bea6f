//! The experiments of PCP (Anderson, Collins, Krishnamurthy and Zahorjan, *PCP: Efficient Endpoint Congestion Control*,
//! NSDI 2006).

mod dumbbell;
mod fluid;
mod lossy;
mod population;
mod sims;
mod verdicts;
mod wide_area;

use super::Experiment;

/// Over wide-area paths.
pub(super) const WIDE_AREA: &[Experiment] = &[wide_area::FIGURE_2, lossy::FIGURE_3];
/// On a shared link, in the paper's order.
pub(super) const SIMULATIONS: &[Experiment] = sims::EXPERIMENTS;
