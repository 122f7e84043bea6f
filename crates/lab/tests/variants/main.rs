//! Our congestion controls in BPF against their formulas, as the kernel tells of its windows over emulated paths; and
//! that what is loaded into the kernel does not stay there.
//!
//! Not run by the usual harness, for the reasons that calibration is not. Arguments select those whose name contains one
//! of them. Where the machine refuses BPF, what needs it is skipped.

mod presence;
mod rules;
mod settings;
mod trace;

use longhaul_lab::LabError;
use longhaul_lab::variants::{Variant, VariantError};
use std::panic;
use std::process::ExitCode;

/// What was wrong, in one line.
type Verdict = Result<(), String>;

type Measurement = (&'static str, fn() -> Verdict);

const OF_SETTINGS: &[Measurement] = &[
    ("windows_without_scaling_are_64_kb", settings::windows_without_scaling_are_64_kb),
    ("connections_can_be_without_sack", settings::connections_can_be_without_sack),
    ("buffers_can_be_raised", settings::buffers_can_be_raised),
];

const OF_PROGRAMS: &[Measurement] = &[
    ("scalable_grows_by_a_hundredth_and_gives_an_eighth", rules::scalable),
    ("hstcp_follows_the_rfcs_functions_of_the_window", rules::hstcp),
    ("htcp_grows_by_the_time_since_the_loss", rules::htcp),
    ("htcp_gives_up_what_empties_the_queue", rules::htcp_backoff),
    ("programs_can_be_a_hosts_default", presence::programs_can_be_a_hosts_default),
    ("last_user_removes_it", presence::last_user_removes_it),
    ("killed_users_leave_nothing", presence::killed_users_leave_nothing),
    ("what_was_left_behind_is_removed", presence::what_was_left_behind_is_removed),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &arguments[..]
        && flag == presence::HOLD
    {
        return presence::hold(name);
    }
    if let Err(error) = longhaul_lab::ensure_privileges() {
        println!("variants skipped: {error}");
        return ExitCode::SUCCESS;
    }
    let mut measurements = OF_SETTINGS.to_vec();
    match Variant::require("lh_scalable") {
        Ok(_) => measurements.extend(OF_PROGRAMS),
        Err(LabError::Variant(error)) if is_the_machines(&error) => println!("programs skipped: {error}"),
        Err(error) => {
            println!("programs FAILED: {error}");
            return ExitCode::FAILURE;
        }
    }
    let wanted: Vec<String> = arguments.into_iter().filter(|arg| !arg.starts_with('-')).collect();
    let mut failed = 0;
    for (name, measure) in measurements {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            let passed = repeat(name, measure);
            println!("{name} ... {}", if passed { "ok" } else { "FAILED" });
            failed += u32::from(!passed);
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// A disturbed measurement may be repeated.
fn repeat(name: &str, measure: fn() -> Verdict) -> bool {
    (1..=ATTEMPTS).any(|attempt| {
        let verdict = panic::catch_unwind(measure).unwrap_or_else(|_| Err("panicked".into()));
        verdict.inspect_err(|why| println!("{name}: attempt {attempt} of {ATTEMPTS}: {why}")).is_ok()
    })
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}

const ATTEMPTS: u32 = 3;
