//! Our congestion controls in BPF against their formulas, as the kernel tells of its windows over emulated paths;
//! and that what is loaded into the kernel does not stay there. Where the machine refuses BPF, what needs it is
//! skipped.

mod presence;
mod rules;
mod settings;
mod trace;

use crate::watched::Verdict;
use longhaul_lab::LabError;
use longhaul_lab::variants::{Variant, VariantError};
use longhaul_testing::{machine, skip};
use std::sync::OnceLock;

/// A measurement of a host's settings.
fn measure(measure: impl FnMut() -> Verdict) {
    if let Some(_alone) = machine::measure() {
        machine::repeat(measure);
    }
}

/// One that needs our programs. Nobody else may use them: what they leave in the kernel is looked at.
fn measure_programs(measure: impl FnMut() -> Verdict) {
    let Some(_alone) = machine::measure() else { return };
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused = REFUSED.get_or_init(|| match Variant::require("lh_scalable") {
        Ok(_) => None,
        Err(LabError::Variant(error)) if is_the_machines(&error) => Some(error.to_string()),
        Err(error) => panic!("{error}"),
    });
    match refused {
        Some(why) => skip(why),
        None => drop(machine::repeat(measure)),
    }
}

/// Whether it is for the machine to change, not for us.
fn is_the_machines(error: &VariantError) -> bool {
    match error {
        VariantError::Unprivileged | VariantError::NoBtf | VariantError::NoTool { .. } => true,
        VariantError::Failed { reason, .. } => {
            ["not permitted", "not supported"].iter().any(|refusal| reason.contains(refusal))
        }
        _ => false,
    }
}
