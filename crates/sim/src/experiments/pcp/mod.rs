//! The experiments of PCP (Anderson, Collins, Krishnamurthy and Zahorjan, *PCP: Efficient Endpoint Congestion Control*,
//! NSDI 2006).

mod dumbbell;
mod fluid;
mod sims;
mod verdicts;

use super::Experiment;

/// In the paper's order.
pub(super) const EXPERIMENTS: &[Experiment] = sims::EXPERIMENTS;
