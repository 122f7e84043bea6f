//! Flows of the kernel's own TCP that an experiment measures, or measures beside.

use crate::ExperimentError;
use longhaul_lab::Flows;

/// Whether all of them could begin and go on.
pub(crate) fn check(flows: &Flows) -> Result<(), ExperimentError> {
    match flows.counters().flows_failed {
        0 => Ok(()),
        failed => {
            let reason = format!("{failed} failed: {}", flows.failure().unwrap_or_default());
            Err(ExperimentError::Program { program: "flows of TCP".into(), reason })
        }
    }
}
