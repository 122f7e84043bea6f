//! Measures the emulator against what a scenario asks for, from outside, with sockets on its two hosts.
//!
//! Not run by the usual harness: a measurement needs the machine for itself, so they run one after the other, and an
//! ordinary user must enter a user namespace before the first thread starts. A measurement may be repeated, three times
//! in all; attempts that the host [disturbed](disturbance) do not count. Arguments select those whose name contains one
//! of them.

mod disturbance;
mod hosts;
mod impairments;
mod path;
mod probe;
mod shared;
mod steps;
mod supers;

use std::process::ExitCode;
use std::time::Duration;
use std::{panic, thread};

/// What was wrong, in one line.
type Verdict = Result<(), String>;

type Measurement = (&'static str, fn() -> Verdict);

const MEASUREMENTS: &[Measurement] = &[
    ("rate_is_that_of_the_bottleneck", path::rate_is_that_of_the_bottleneck),
    ("delay_is_half_the_round_trip_each_way", path::delay_is_half_the_round_trip_each_way),
    ("queue_holds_what_it_should", path::queue_holds_what_it_should),
    ("queue_does_not_count_what_propagates", path::queue_does_not_count_what_propagates),
    ("card_holds_the_sender_back_and_drops_nothing", path::card_holds_the_sender_back_and_drops_nothing),
    ("cut_and_mended", path::cut_and_mended),
    ("udp_blocked_tcp_not", path::udp_blocked_tcp_not),
    ("exactly_the_seeded_packets_are_lost", impairments::exactly_the_seeded_packets_are_lost),
    ("bursts_are_lost_on_the_way_back", impairments::bursts_are_lost_on_the_way_back),
    ("duplicates_and_reordering_have_their_shares", impairments::duplicates_and_reordering_have_their_shares),
    ("corrupt_packets_are_refused_by_the_checksum", impairments::corrupt_packets_are_refused_by_the_checksum),
    ("jitter_spreads_delays_and_keeps_order", impairments::jitter_spreads_delays_and_keeps_order),
    ("rate_changes_when_it_should", steps::rate_changes_when_it_should),
    ("outage_takes_what_is_sent_while_it_lasts", steps::outage_takes_what_is_sent_while_it_lasts),
    (
        "loss_begins_when_it_should_with_the_seeded_packets",
        steps::loss_begins_when_it_should_with_the_seeded_packets,
    ),
    ("super_packets_carry_the_same_bytes", supers::super_packets_carry_the_same_bytes),
    ("super_packets_lose_the_seeded_packets", supers::super_packets_lose_the_seeded_packets),
    ("super_packets_keep_the_rate", supers::super_packets_keep_the_rate),
    ("pairs_share_the_rate_and_differ_in_delay", shared::pairs_share_the_rate_and_differ_in_delay),
    ("udp_traffic_keeps_its_rate_and_times", shared::udp_traffic_keeps_its_rate_and_times),
    (
        "tcp_traffic_fills_the_path_and_comes_to_an_end",
        shared::tcp_traffic_fills_the_path_and_comes_to_an_end,
    ),
    ("captures_tell_times_and_lengths", shared::captures_tell_times_and_lengths),
    ("programs_of_a_crew_end_together", hosts::programs_of_a_crew_end_together),
    ("hosts_are_quiet_and_reachable", hosts::hosts_are_quiet_and_reachable),
    ("commands_run_on_their_host_and_die_with_us", hosts::commands_run_on_their_host_and_die_with_us),
    ("settings_belong_to_one_host", hosts::settings_belong_to_one_host),
    ("kernel_tcp_fills_the_path", hosts::kernel_tcp_fills_the_path),
    ("kernel_tcp_says_what_is_wrong", hosts::kernel_tcp_says_what_is_wrong),
    ("nothing_is_left_behind", hosts::nothing_is_left_behind),
];

fn main() -> ExitCode {
    if let Err(error) = longhaul_lab::ensure_privileges() {
        println!("calibration skipped: {error}");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mut failed = 0;
    for (name, measure) in MEASUREMENTS {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            let passed = repeat(name, *measure);
            println!("{name} ... {}", if passed { "ok" } else { "FAILED" });
            failed += u32::from(!passed);
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn repeat(name: &str, measure: fn() -> Verdict) -> bool {
    let mut counted = 0;
    for attempt in 1..=ATTEMPTS_AT_ALL {
        let (verdict, disturbed) = disturbance::watch(|| panic::catch_unwind(measure));
        let Err(why) = verdict.unwrap_or_else(|_| Err("panicked".into())) else { return true };
        counted += u32::from(!disturbed);
        println!("{name}: attempt {attempt}{}: {why}", if disturbed { ", disturbed" } else { "" });
        if counted == ATTEMPTS {
            break;
        }
        // What keeps the machine busy may pass.
        thread::sleep(Duration::from_secs(1));
    }
    false
}

/// Undisturbed ones.
const ATTEMPTS: u32 = 3;
const ATTEMPTS_AT_ALL: u32 = 8;
